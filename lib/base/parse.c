/* base/parse.c — strict number parsers, and the edit distance behind "did you mean". Start reading
 * at qr_parse_double(). */
#include "base/parse.h"

#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

bool qr_parse_u64(const char *s, uint64_t *ret) {
    uint64_t v = 0;
    if (!*s) return false;
    for (; *s; s++) {
        unsigned digit = (unsigned)(*s - '0');
        if (digit > 9 || __builtin_mul_overflow(v, 10u, &v) || __builtin_add_overflow(v, digit, &v))
            return false;
    }
    *ret = v;
    return true;
}

bool qr_parse_i64(const char *s, int64_t *ret) {
    bool negative = *s == '-';
    uint64_t v;
    if (!qr_parse_u64(s + negative, &v) || v > (uint64_t)INT64_MAX + negative) return false;
    *ret = negative ? (int64_t)(0 - v) : (int64_t)v;
    return true;
}

/* strtod also accepts hex, "nan", "inf" and leading blanks: reject those first. */
static bool parse_is_decimal(const char *s) {
    bool digit = false;
    for (; *s; s++) {
        if (isdigit((unsigned char)*s)) digit = true;
        else if (!strchr("+-.eE", *s)) return false;
    }
    return digit;
}

bool qr_parse_double(const char *s, double *ret) {
    if (!parse_is_decimal(s)) return false;
    char *end;
    double v = strtod(s, &end);
    if (*end || !isfinite(v)) return false;
    *ret = v;
    return true;
}

bool qr_parse_double_n(const char *s, size_t n, double *ret) {
    for (; n && (*s == ' ' || *s == '\t'); n--) s++;
    while (n && (s[n - 1] == ' ' || s[n - 1] == '\t')) n--;
    char text[64];
    if (n == 0 || n >= sizeof text) return false;
    memcpy(text, s, n);
    text[n] = 0;
    return qr_parse_double(text, ret);
}

bool qr_parse_bool(const char *s, bool *ret) {
    static const char *const words[] = {"true", "false", "1", "0", "yes", "no", "on", "off"};
    size_t i = 0;
    while (i < 8 && strcasecmp(s, words[i]) != 0) i++;
    if (i < 8) *ret = i % 2 == 0;
    return i < 8;
}

bool qr_parse_duration_ns(const char *s, int64_t *ret) {
    static const struct {
        const char *suffix;
        double ns;
    } units[] = {{"ns", 1},   {"us", 1e3},   {"ms", 1e6}, {"s", 1e9},
                 {"m", 60e9}, {"h", 3600e9}, {"", 1e9}};
    size_t digits = strspn(s, "0123456789.");
    double v;
    if (!qr_parse_double_n(s, digits, &v)) return false;
    for (size_t i = 0; i < sizeof units / sizeof *units; i++) {
        if (strcmp(s + digits, units[i].suffix) != 0) continue;
        if (v * units[i].ns > 9e18) return false;
        *ret = (int64_t)(v * units[i].ns + 0.5);
        return true;
    }
    return false;
}

static size_t parse_smaller(size_t a, size_t b) { return a < b ? a : b; }

/* Edit distance ignoring case, with a swap of adjacent characters as one edit (optimal string
 * alignment). SIZE_MAX for names longer than 63 bytes. */
static size_t parse_edit_distance(const char *a, const char *b) {
    size_t n = strlen(a), m = strlen(b), rows[3][64];
    if (n > 63 || m > 63) return SIZE_MAX;
    for (size_t i = 0; i <= n; i++) {
        size_t *row = rows[i % 3], *above = rows[(i + 2) % 3], *above2 = rows[(i + 1) % 3];
        for (size_t j = 0; j <= m; j++) {
            if (i == 0 || j == 0) {
                row[j] = i + j;
                continue;
            }
            int x = tolower((unsigned char)a[i - 1]), y = tolower((unsigned char)b[j - 1]);
            row[j] =
                parse_smaller(above[j - 1] + (x != y), parse_smaller(above[j], row[j - 1]) + 1);
            bool swapped = i > 1 && j > 1 && x == tolower((unsigned char)b[j - 2]) &&
                           y == tolower((unsigned char)a[i - 2]);
            if (swapped) row[j] = parse_smaller(row[j], above2[j - 2] + 1);
        }
    }
    return rows[n % 3][m];
}

const char *qr_nearest(const char *name, const char *const *known, size_t n_known) {
    size_t limit = strlen(name) / 3, best = SIZE_MAX;
    const char *nearest = NULL;
    if (limit < 1) limit = 1;
    for (size_t i = 0; i < n_known; i++) {
        size_t d = parse_edit_distance(name, known[i]);
        if (d <= limit && d < best) {
            best = d;
            nearest = known[i];
        }
    }
    return nearest;
}

void qr_number_text(double x, char ret[32]) {
    for (int digits = 15; digits <= 17; digits++) {
        double back;
        snprintf(ret, 32, "%.*g", digits, x);
        if (qr_parse_double(ret, &back) && back == x) return;
    }
}

const char *qr_variable(char *const *environment, const char *name) {
    size_t n = strlen(name);
    for (; *environment; environment++)
        if (strncmp(*environment, name, n) == 0 && (*environment)[n] == '=')
            return *environment + n + 1;
    return NULL;
}
