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

/* Powers of ten that 64 bits hold. */
static const uint64_t tens[] = {UINT64_C(1),
                                UINT64_C(10),
                                UINT64_C(100),
                                UINT64_C(1000),
                                UINT64_C(10000),
                                UINT64_C(100000),
                                UINT64_C(1000000),
                                UINT64_C(10000000),
                                UINT64_C(100000000),
                                UINT64_C(1000000000),
                                UINT64_C(10000000000),
                                UINT64_C(100000000000),
                                UINT64_C(1000000000000),
                                UINT64_C(10000000000000),
                                UINT64_C(100000000000000),
                                UINT64_C(1000000000000000),
                                UINT64_C(10000000000000000),
                                UINT64_C(100000000000000000),
                                UINT64_C(1000000000000000000),
                                UINT64_C(10000000000000000000)};
enum { MAX_TENS = sizeof tens / sizeof *tens - 1 };

/* m / 10^k, rounded to nearest, ties to even. */
static double parse_quotient(uint64_t m, unsigned k) {
    if (m <= UINT64_C(1) << 53) return (double)m / (double)tens[k];
    int shift = 64 + __builtin_clzll(m);
    unsigned __int128 n = (unsigned __int128)m << shift, q = n / tens[k];
    int drop = 74 - (q >> 64 ? __builtin_clzll((uint64_t)(q >> 64)) : 64);
    uint64_t kept = (uint64_t)(q >> drop), odd = kept & 1;
    bool rest = n != q * tens[k] || (unsigned __int128)kept << drop != q;
    kept = (kept >> 1) + (odd && (rest || kept & 2));
    return ldexp((double)kept, drop + 1 - shift);
}

/* A number of at most 19 digits without exponent; false: the text is another, or no number. */
static bool parse_short_decimal(const char *s, size_t n, double *ret) {
    bool negative = n && *s == '-', point = false;
    uint64_t m = 0;
    unsigned decimals = 0, digits = 0;
    for (size_t i = negative; i < n; i++) {
        unsigned digit = (unsigned)(s[i] - '0');
        if (digit <= 9) m = 10 * m + digit, digits++, decimals += point;
        else if (s[i] == '.' && !point) point = true;
        else return false;
    }
    if (!digits || digits > MAX_TENS) return false;
    double v = parse_quotient(m, decimals);
    *ret = negative ? -v : v;
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
    if (parse_short_decimal(s, strlen(s), ret)) return true;
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
    if (parse_short_decimal(s, n, ret)) return true;
    char text[320]; /* printf("%f") writes 317 bytes at most */
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

/* Writes an integer of `digits` digits, or one more, with the point after digit `exponent`, as %g
 * does. */
static void put_decimal(bool negative, uint64_t q, int digits, int exponent, char *to) {
    char reversed[24], *text = reversed + sizeof reversed;
    int n = 0;
    for (; q; q /= 10, n++) *--text = (char)('0' + q % 10);
    exponent += n - digits;
    int point = exponent < -4 ? 0 : exponent;
    while (n > 1 && n > point + 1 && text[n - 1] == '0') n--;
    if (negative) *to++ = '-';
    if (point < 0) *to++ = '0', *to++ = '.';
    for (int i = point; i < -1; i++) *to++ = '0';
    for (int i = 0; i < n; i++) {
        *to++ = text[i];
        if (i == point && i + 1 < n) *to++ = '.';
    }
    if (exponent < -4) {
        *to++ = 'e', *to++ = '-';
        *to++ = (char)('0' - exponent / 10), *to++ = (char)('0' - exponent % 10);
    }
    *to = 0;
}

/* |x| from 10^-16 to 10^14 is m / 2^bits. With s decimals it is m 5^s / 2^(bits - s): for up to 17
 * digits the product is below 2^128, and the remainder and the comparison with half the distance
 * to the next number are exact. */
static void put_usual(double x, char ret[32]) {
    static const double tenths[] = {1e-15, 1e-14, 1e-13, 1e-12, 1e-11, 1e-10, 1e-9, 1e-8,
                                    1e-7,  1e-6,  1e-5,  1e-4,  1e-3,  1e-2,  1e-1};
    int power, exponent = -16;
    uint64_t m = (uint64_t)ldexp(frexp(fabs(x), &power), 53);
    while (fabs(x) >= (exponent < -1 ? tenths[exponent + 16] : (double)tens[exponent + 1]))
        exponent++;
    unsigned __int128 fives = 1;
    int s = 14 - exponent;
    for (; s >= 13; s -= 13) fives *= 1220703125; /* 5^13 */
    for (; s > 0; s--) fives *= 5;
    for (int digits = 15, shift = 53 - power - (14 - exponent);; digits++, shift--, fives *= 5) {
        unsigned __int128 exact = m * fives, q = exact >> shift, rest = exact - (q << shift),
                          half = (unsigned __int128)1 << (shift - 1);
        bool up = rest > half || (rest == half && q & 1);
        unsigned __int128 error = up ? 2 * half - rest : rest;
        /* Below a power of two the next number is half as far. */
        error *= !up && m == UINT64_C(1) << 52 ? 4 : 2;
        if (error < fives || (error == fives && !(m & 1)) || digits == 17) {
            put_decimal(x < 0, (uint64_t)q + up, digits, exponent, ret);
            return;
        }
    }
}

void qr_number_text(double x, char ret[32]) {
    if (fabs(x) >= 1e-16 && fabs(x) < 1e14) {
        put_usual(x, ret);
        return;
    }
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
