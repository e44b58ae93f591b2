/* cmd/qring/help.c — reads the flags in a help text. Start reading at qr_help_flag(). */
#include <stdio.h>
#include <string.h>

#include "cmd/qring/command.h"

static const char *skip_line(const char *p) {
    p += strcspn(p, "\n");
    return *p ? p + 1 : p;
}

/* Reads one word of a flag's line, without a trailing comma. Returns its end. */
static const char *read_word(const char *p, char *ret, size_t size) {
    size_t n = strcspn(p, " \n");
    if (n && p[n - 1] == ',') n--;
    snprintf(ret, size, "%.*s", (int)n, p);
    return p + n;
}

/* Reads the first part of the description, on this line or the next, without the default. */
static void read_about(const char *p, char *ret, size_t size) {
    static const char *const ends[] = {"; ", ": ", " ["};
    p += strspn(p, " ");
    if (*p == '\n') p += 1 + strspn(p + 1, " ");
    size_t n = *p == '[' ? 0 : strcspn(p, "\n");
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) {
        const char *end = strstr(p, ends[i]);
        if (end && end < p + n) n = (size_t)(end - p);
    }
    snprintf(ret, size, "%.*s", (int)n, p);
}

bool qr_help_flag(const char **at, struct qr_help_flag *ret) {
    const char *p = *at;
    bool second = strncmp(p, ", -", 3) == 0; /* second flag of the same line */
    while (!second && *p && strncmp(p, "  -", 3) != 0) p = skip_line(p);
    if (!*p) return false;
    p = read_word(p + 2, ret->name, sizeof ret->name);
    ret->value[0] = '\0';
    if (p[0] == ' ' && p[1] != ' ' && p[1] != '\n')
        p = read_word(p + 1, ret->value, sizeof ret->value);
    bool more = strncmp(p, ", -", 3) == 0;
    read_about(more ? p + strcspn(p, "\n") : p, ret->about, sizeof ret->about);
    *at = more ? p : skip_line(p);
    return true;
}
