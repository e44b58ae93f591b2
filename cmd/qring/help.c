#include <stdio.h>
#include <string.h>

#include "cmd/qring/command.h"

static const char *next_line(const char *p) {
    p += strcspn(p, "\n");
    return *p ? p + 1 : p;
}

/* One word of a flag's line, without a comma behind it. Returns where it ends. */
static const char *word(const char *p, char *ret, size_t size) {
    size_t n = strcspn(p, " \n");
    if (n && p[n - 1] == ',') n--;
    snprintf(ret, size, "%.*s", (int)n, p);
    return p + n;
}

/* What a line, or the one below it, says about a flag: its first part, without the default. */
static void about(const char *p, char *ret, size_t size) {
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
    bool second = strncmp(p, ", -", 3) == 0; /* of two flags in one line */
    while (!second && *p && strncmp(p, "  -", 3) != 0) p = next_line(p);
    if (!*p) return false;
    p = word(p + 2, ret->name, sizeof ret->name);
    ret->value[0] = '\0';
    if (p[0] == ' ' && p[1] != ' ' && p[1] != '\n') p = word(p + 1, ret->value, sizeof ret->value);
    bool more = strncmp(p, ", -", 3) == 0;
    about(more ? p + strcspn(p, "\n") : p, ret->about, sizeof ret->about);
    *at = more ? p : next_line(p);
    return true;
}
