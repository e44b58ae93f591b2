/* Clocks, errors, bytes, parsing, checksums, files and the pool. */
#include <float.h>
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <sched.h>
#include <stdatomic.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/bytes.h"
#include "base/checksum.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/parse.h"
#include "base/text.h"
#include "base/pool.h"
#include "tests/t.h"

static int64_t read_fixed_clock(void *ctx) { return *(int64_t *)ctx; }

/* The awake clock skips the time that a process was stopped. With readings at most one stride apart
 * it counts all the time. */
static void test_clock(void) {
    struct qr_awake a = {0};
    int64_t ns = 100 * QR_SECOND;
    CHECK(qr_awake_update(&a, ns) == ns);
    for (int i = 0; i < 100; i++) qr_awake_update(&a, ns += QR_SECOND / 2);
    CHECK(qr_awake_update(&a, ns) == ns && a.asleep_ns == 0);
    ns += QR_AWAKE_STRIDE_NS;
    CHECK(qr_awake_update(&a, ns) == ns, "a gap of one stride counts in full");
    int64_t before = qr_awake_update(&a, ns);
    ns += 3600 * QR_SECOND;
    int64_t after = qr_awake_update(&a, ns);
    CHECK(after - before == QR_AWAKE_STRIDE_NS &&
              a.asleep_ns == 3600 * QR_SECOND - QR_AWAKE_STRIDE_NS,
          "%.1f s", (double)(after - before) / 1e9);
    CHECK(qr_awake_update(&a, ns - QR_SECOND) == after, "the awake clock does not go back");
    CHECK(qr_awake_update(&a, ns + QR_SECOND) == after + QR_SECOND);

    int64_t awake = qr_now_ns(&qr_clock_awake), real = qr_now_ns(&qr_clock_monotonic);
    CHECK(real >= awake && real - awake < 10 * QR_SECOND,
          "without a pulse it follows the monotonic clock");
    qr_awake_pulse();
    CHECK(qr_now_ns(&qr_clock_awake) >= awake);
    int64_t now = 7 * QR_SECOND,
            at = qr_monotonic_of(&(struct qr_clock){read_fixed_clock, &now}, 9 * QR_SECOND),
            later = qr_now_ns(&qr_clock_monotonic);
    CHECK(at >= real + 2 * QR_SECOND && at <= later + 2 * QR_SECOND,
          "two seconds ahead on another clock");
    CHECK(qr_monotonic_of(&(struct qr_clock){read_fixed_clock, &now}, INT64_MAX) == INT64_MAX);
}

static void test_errors(void) {
    struct qr_err err = {0};
    CHECK(qr_fail(&err, QR_DATA_LOSS, "part %d", 3) == QR_DATA_LOSS);
    CHECK(qr_wrap(&err, "step %d", 12) == QR_DATA_LOSS);
    CHECK(strcmp(err.msg, "step 12: part 3") == 0, "%s", err.msg);
    CHECK(qr_fail_errno(&err, ENOENT, "open %s", "x") == QR_NOT_FOUND && err.sys == ENOENT);
    CHECK(strcmp(err.msg, "open x: No such file or directory") == 0, "%s", err.msg);
    /* An argument may be the old message. */
    qr_fail(&err, QR_INTERNAL, "%s and %s", err.msg, "more");
    CHECK(strstr(err.msg, "directory and more") != NULL, "%s", err.msg);
    char big[2 * QR_ERR_MSG_BYTES];
    memset(big, 'a', sizeof big);
    big[sizeof big - 1] = 0;
    qr_fail(&err, QR_INTERNAL, "%s", big);
    CHECK(strlen(err.msg) == QR_ERR_MSG_BYTES - 1 &&
          strcmp(err.msg + QR_ERR_MSG_BYTES - 4, "...") == 0);
    qr_wrap(&err, "ctx");
    CHECK(strncmp(err.msg, "ctx: aaa", 8) == 0 &&
          strcmp(err.msg + QR_ERR_MSG_BYTES - 4, "...") == 0);
    /* EIO exits with 2 where a write fails, with 4 where a read fails. */
    struct qr_buf unread = {0};
    CHECK(qr_exit_code(qr_fail_errno(&err, EIO, "write x")) == 2 && err.sys == EIO);
    CHECK(qr_exit_code(qr_file_read("/proc/self/mem", 1 << 20, &unread, &err)) == 4 &&
              err.sys == EIO,
          "%s", err.msg);
    CHECK(qr_exit_code(QR_UNAVAILABLE) == 138 && qr_exit_code(QR_INVALID_ARGUMENT) == 2 &&
          qr_exit_code(QR_FAILED_PRECONDITION) == 3 && qr_exit_code(QR_DATA_LOSS) == 4 &&
          qr_exit_code(QR_CANCELLED) == 143 && qr_exit_code(QR_OK) == 0 &&
          qr_exit_code(QR_INTERNAL) == 1);
    CHECK(strcmp(qr_code_name(QR_UNAUTHENTICATED), "UNAUTHENTICATED") == 0);
    CHECK(strcmp(qr_code_name((enum qr_code)99), "?") == 0);
}

/* Control characters and malformed UTF-8 are escaped for terminals and logs. */
static void test_printable(void) {
    static const struct {
        const char *text, *shown;
    } row[] = {
        {"", ""},
        {"plain 'text' \\n \\x1b", "plain 'text' \\n \\x1b"},
        {"\x1b[31mred\x1b[0m", "\\x1b[31mred\\x1b[0m"},
        {"two\nlines\r\n\tand a tab", "two\\nlines\\r\\n\\tand a tab"},
        {"\x01\x1f\x7f", "\\x01\\x1f\\x7f"},
        {"gr\xc3\xb6\xc3\x9f"
         "e \xe2\x82\xac \xf0\x9f\x99\x82",
         "gr\xc3\xb6\xc3\x9f"
         "e \xe2\x82\xac \xf0\x9f\x99\x82"},
        {"\xc2\x9b"
         "31m\xc2\xa0",
         "\\x9b"
         "31m\xc2\xa0"},                     /* C1's control sequence introducer */
        {"\x9b\xff\xc3", "\\x9b\\xff\\xc3"}, /* not UTF-8 */
        {"\xc0\x9b \xed\xa0\x80", "\\xc0\\x9b \\xed\\xa0\\x80"},
    };
    for (size_t i = 0; i < COUNT(row); i++) {
        char shown[64], again[64];
        size_t n = strlen(row[i].shown);
        CHECK(qr_printable(shown, sizeof shown, row[i].text) == n &&
                  strcmp(shown, row[i].shown) == 0,
              "%zu: %s", i, shown);
        CHECK(qr_printable(again, sizeof again, shown) == n && strcmp(again, shown) == 0);
        struct qr_buf b = {0};
        qr_buf_put_printable(&b, row[i].text);
        CHECK(strcmp(qr_buf_string(&b), row[i].shown) == 0);
        qr_buf_free(&b);
        for (size_t cap = 0; cap <= n; cap++) {
            memset(shown, '#', sizeof shown);
            CHECK(qr_printable(shown, cap, row[i].text) == n && shown[cap] == '#');
            CHECK(cap == 0 ||
                  (strlen(shown) < cap && strncmp(shown, row[i].shown, strlen(shown)) == 0));
        }
    }
    struct qr_err err;
    qr_fail(&err, QR_INTERNAL, "'%s'", "\x1b[2J\n\xc3\xb6");
    CHECK(strcmp(err.msg, "'\\x1b[2J\\n\xc3\xb6'") == 0, "%s", err.msg);
    qr_wrap(&err, "\x07%s", "file\n");
    CHECK(strcmp(err.msg, "\\x07"
                          "file\\n: '\\x1b[2J\\n\xc3\xb6'") == 0,
          "%s", err.msg);
    char big[2 * QR_ERR_MSG_BYTES]; /* cut between characters, whatever their length */
    for (size_t before = 0; before < 4; before++) {
        memset(big, 'a', before);
        for (size_t i = before; i + 4 < sizeof big; i += 3) memcpy(big + i, "\xe2\x82\xac", 4);
        qr_fail(&err, QR_INTERNAL, "%s", big);
        size_t n = strlen(err.msg);
        CHECK(n < sizeof err.msg && n > sizeof err.msg - 8 && strcmp(err.msg + n - 3, "...") == 0);
        CHECK((n - 3 - before) % 3 == 0 && !strstr(err.msg, "\\x"), "%s", err.msg + n - 12);
    }
    memset(big, 1, sizeof big - 1); /* each byte becomes four */
    big[sizeof big - 1] = 0;
    qr_fail(&err, QR_INTERNAL, "%s", big);
    CHECK(strcmp(err.msg + strlen(err.msg) - 7, "\\x01...") == 0, "%s", err.msg);
}

static void test_bytes(void) {
    struct qr_buf b = {.max = 10};
    qr_buf_puts(&b, "hello");
    qr_buf_printf(&b, "%d", 12345);
    CHECK(qr_buf_ok(&b) && strcmp(qr_buf_string(&b), "hello12345") == 0);
    qr_buf_puts(&b, "x");
    CHECK(!qr_buf_ok(&b) && b.n == 10);
    qr_buf_clear(&b);
    CHECK(qr_buf_ok(&b) && b.n == 0 && strcmp(qr_buf_string(&b), "") == 0);
    qr_buf_free(&b);
    CHECK(b.p == NULL && strcmp(qr_buf_string(&b), "") == 0);
    char hex[9];
    qr_hex((const uint8_t *)"\x00\xff\x1a\xb2", 4, hex);
    CHECK(strcmp(hex, "00ff1ab2") == 0);
    static const char *const odd[] = {"00ff1ab", "00ff1ab21", "00FF1ab2", "00ff1ag2", ""};
    uint8_t bytes[4] = {1, 2, 3, 4};
    for (size_t i = 0; i < COUNT(odd); i++)
        CHECK(!qr_unhex(odd[i], bytes, 4) && bytes[0] == 1, "%s", odd[i]);
    CHECK(qr_unhex(hex, bytes, 4) && memcmp(bytes, "\x00\xff\x1a\xb2", 4) == 0);
    uint8_t le[8];
    qr_set_u64le(le, UINT64_C(0x0102030405060708));
    CHECK(le[0] == 8 && qr_get_u64le(le) == UINT64_C(0x0102030405060708));
}

/* strtod and printf round correctly: the fast paths for common numbers must agree with them. */
static void test_numbers(void) {
    uint64_t state = 1;
    for (int i = 0; i < 300000; i++) {
        state = state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
        char text[64], wanted[32], found[32];
        double v = 7, x = qr_double_of_bits(state >> 32 << 20 | state >> 44);
        /* From 2^-60 to 2^60; powers of two and their neighbours; short decimals. */
        x = ldexp(frexp(x, &(int){0}), (int)(state >> 40 & 127) - 64);
        if (i % 8 == 1) x = ldexp(1, i / 8 % 120 - 60);
        if (i % 8 == 2) x = nextafter(ldexp(1, i / 8 % 120 - 60), i / 16 % 2);
        if (i % 8 == 3) x = (double)(state >> 36) / 1e5;
        if (i % 8 == 4) x = (double)(state >> 11) / 10; /* 16 digits, many of them ties */
        int digits = 14;
        do snprintf(wanted, sizeof wanted, "%.*g", ++digits, x);
        while (strtod(wanted, NULL) != x);
        qr_number_text(x, found);
        CHECK(strcmp(found, wanted) == 0, "%s, not %s", found, wanted);
        snprintf(text, sizeof text, "%s%llu.%0*llu", i % 3 ? "" : "-",
                 (unsigned long long)(state >> (i % 64)), 1 + i % 7,
                 (unsigned long long)(state >> 57) % 10);
        if (i % 5 == 0) snprintf(text, sizeof text, "%.*f", i % 19, x);
        CHECK(qr_parse_double(text, &v) && v == strtod(text, NULL), "%s", text);
        v = 7;
        CHECK(qr_parse_double_n(text, strlen(text), &v) && v == strtod(text, NULL), "%s", text);
    }
}

static void test_parse(void) {
    uint64_t u = 7;
    int64_t i = 7;
    double d = 7;
    bool b;
    CHECK(qr_parse_u64("18446744073709551615", &u) && u == UINT64_MAX);
    CHECK(!qr_parse_u64("18446744073709551616", &u) && !qr_parse_u64("", &u) &&
          !qr_parse_u64("+1", &u) && !qr_parse_u64(" 1", &u) && !qr_parse_u64("1 ", &u) &&
          u == UINT64_MAX);
    CHECK(qr_parse_i64("-9223372036854775808", &i) && i == INT64_MIN);
    CHECK(!qr_parse_i64("9223372036854775808", &i) && !qr_parse_i64("-", &i));
    CHECK(qr_parse_double("-1.5e3", &d) && d == -1500);
    static const char *const bad[] = {"",   "nan", "inf", "0x10", "1e999", "1,5",
                                      " 1", "1 ",  "e5",  "--1",  "."};
    for (size_t k = 0; k < COUNT(bad); k++)
        CHECK(!qr_parse_double(bad[k], &d) && d == -1500, "%s", bad[k]);
    CHECK(qr_parse_double_n(" 2.5\t,", 5, &d) && d == 2.5);
    char long_one[400];
    int length = snprintf(long_one, sizeof long_one, "%f", -DBL_MAX);
    CHECK(qr_parse_double_n(long_one, (size_t)length, &d) && d == -DBL_MAX, "%d bytes", length);
    memset(long_one, '1', sizeof long_one);
    CHECK(!qr_parse_double_n(long_one, 320, &d));
    CHECK(qr_parse_bool("Yes", &b) && b && qr_parse_bool("0", &b) && !b &&
          !qr_parse_bool("maybe", &b));
    CHECK(qr_parse_duration_ns("1.5s", &i) && i == 1500000000 && qr_parse_duration_ns("10m", &i) &&
          i == 600 * QR_SECOND);
    CHECK(qr_parse_duration_ns("20", &i) && i == 20 * QR_SECOND &&
          !qr_parse_duration_ns("-1s", &i) && !qr_parse_duration_ns("5 s", &i));
    static const char *const known[] = {"qubits", "stages", "variant"};
    CHECK(strcmp(qr_nearest("qubit", known, 3), "qubits") == 0 &&
          strcmp(qr_nearest("Stagse", known, 3), "stages") == 0);
    static const char *const seed[] = {"name", "seed"};
    CHECK(strcmp(qr_nearest("sede", seed, 2), "seed") == 0); /* a swap is one edit */
    CHECK(qr_nearest("banana", known, 3) == NULL);
    char one[] = "A=1", longer[] = "AB=2", none[] = "C=", odd[] = "D";
    char *const environment[] = {longer, one, none, odd, NULL};
    CHECK(strcmp(qr_variable(environment, "A"), "1") == 0 &&
          strcmp(qr_variable(environment, "AB"), "2") == 0);
    CHECK(*qr_variable(environment, "C") == 0 && !qr_variable(environment, "D") &&
          !qr_variable(environment, "B"));
}

static void test_checksums(void) {
    /* RFC 3720 B.4: 32 bytes of zeros, of ones; "123456789" as in the catalogue of CRCs */
    uint8_t block[32] = {0};
    CHECK(qr_crc32c(0, block, 32) == 0x8a9136aau);
    memset(block, 0xff, 32);
    CHECK(qr_crc32c(0, block, 32) == 0x62a8ab43u);
    CHECK(qr_crc32c(0, "123456789", 9) == 0xe3069283u &&
          qr_crc32(0, "123456789", 9) == 0xcbf43926u);
    CHECK(qr_crc32c(qr_crc32c(0, "1234", 4), "56789", 5) == 0xe3069283u);
    /* Long inputs, which are split into several streams, against byte by byte, at any alignment. */
    static uint8_t text[20000];
    for (size_t i = 0; i < sizeof text; i++) text[i] = (uint8_t)(i * i >> 5 ^ i);
    for (size_t n = 0; n < sizeof text - 7; n += n < 100 || n % 1024 > 1000 ? 1 : 23) {
        uint32_t whole = qr_crc32c(5, text + n % 7, n), bytewise = 5;
        for (size_t i = 0; i < n; i++) bytewise = qr_crc32c(bytewise, text + n % 7 + i, 1);
        CHECK(whole == bytewise, "%zu bytes", n);
    }
    uint8_t digest[32];
    char hex[65];
    qr_sha256("abc", 3, digest); /* FIPS 180-4 example */
    qr_hex(digest, 32, hex);
    CHECK(strcmp(hex, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad") == 0);
    qr_xxh3("", 0, digest); /* `xxhsum -H2` of an empty file */
    qr_hex(digest, 16, hex);
    CHECK(strcmp(hex, "99aa06d3014798d86001c324468d497f") == 0, "%s", hex);
}

/* Opening a file that is not regular fails with its kind and does not block; a write follows no
 * link. */
static void odd_files(const char *dir, const char *ordinary) {
    struct qr_buf got = {0};
    struct qr_err err;
    struct qr_appender *a = NULL;
    int fd = -1;
    qr_auto(qr_free_p) char *fifo = qr_path_join(dir, "fifo"), *link_to = qr_path_join(dir, "link"),
                            *hard_link = qr_path_join(dir, "twin"),
                            *sock = qr_path_join(dir, "socket");
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    snprintf(address.sun_path, sizeof address.sun_path, "%s", sock);
    int s = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    CHECK(mkfifo(fifo, 0600) == 0 && symlink(ordinary, link_to) == 0 &&
          bind(s, (struct sockaddr *)&address, sizeof address) == 0);
    const struct {
        const char *path, *kind;
    } odd[] = {{fifo, "is a FIFO"},
               {sock, "is a socket"},
               {"/dev/zero", "is a device"},
               {dir, "is a directory"}};
    for (size_t i = 0; i < COUNT(odd); i++) {
        CHECK(qr_file_read(odd[i].path, 100, &got, &err) == QR_INVALID_ARGUMENT &&
                  strstr(err.msg, odd[i].kind),
              "%s", err.msg);
        CHECK(strstr(err.msg, odd[i].path) && strstr(err.msg, "not a regular file"), "%s", err.msg);
        CHECK(qr_appender_open(odd[i].path, true, &a, &err) == QR_INVALID_ARGUMENT &&
                  strstr(err.msg, odd[i].kind),
              "%s", err.msg);
        CHECK(qr_file_irregular(odd[i].path) &&
              strstr(odd[i].kind, qr_file_irregular(odd[i].path)));
    }
    CHECK(qr_file_read(link_to, 100, &got, &err) == QR_OK && got.n == 4, "%s", err.msg);
    CHECK(qr_file_open(link_to, O_WRONLY | O_TRUNC | O_NOFOLLOW, &fd, &err) ==
                  QR_INVALID_ARGUMENT &&
              strstr(err.msg, "is a symbolic link"),
          "%s", err.msg);
    CHECK(!qr_file_irregular(ordinary) && !qr_file_irregular("/nowhere/x") &&
          strstr(qr_file_irregular(link_to), "symbolic link"));
    CHECK(link(ordinary, hard_link) == 0 && strstr(qr_file_irregular(hard_link), "hard links"));
    CHECK(qr_file_open(hard_link, O_WRONLY | O_TRUNC | O_NOFOLLOW, &fd, &err) ==
                  QR_INVALID_ARGUMENT &&
              strstr(err.msg, "2 names"),
          "%s", err.msg);
    CHECK(qr_file_read(hard_link, 100, &got, &err) == QR_OK && got.n == 4 && fd == -1,
          "the file was not truncated and can be read");
    CHECK(qr_file_sync(fifo) != -1); /* does not block */
    const char *const made[] = {fifo, sock, link_to, hard_link};
    for (size_t i = 0; i < COUNT(made); i++) unlink(made[i]);
    close(s);
    qr_buf_free(&got);
}

/* As root, a rename would put a file in place of /dev/null. */
static void irreplaceable(const char *dir) {
    struct qr_err err;
    char *fifo = qr_path_join(dir, "fifo"), *link_to = qr_path_join(dir, "device"),
         *link_to_fifo = qr_path_join(dir, "link");
    CHECK(mkfifo(fifo, 0600) == 0 && symlink("/dev/null", link_to) == 0 &&
          symlink(fifo, link_to_fifo) == 0);
    const char *const odd[] = {fifo, link_to, link_to_fifo, dir};
    for (size_t i = 0; i < COUNT(odd); i++) {
        struct stat before, after;
        CHECK(lstat(odd[i], &before) == 0);
        CHECK(qr_file_replace(odd[i], qr_bytes_of_string("x"), &err) == QR_INVALID_ARGUMENT &&
                  strstr(err.msg, "choose another path"),
              "%s: %s", odd[i], err.msg);
        CHECK(lstat(odd[i], &after) == 0 && after.st_ino == before.st_ino, "%s", odd[i]);
    }
    unlink(link_to), unlink(link_to_fifo), unlink(fifo);
    free(fifo), free(link_to), free(link_to_fifo);
}

static void test_files(void) {
    char dir[] = "/tmp/qring-test-XXXXXX";
    CHECK(mkdtemp(dir) != NULL);
    struct qr_err err;
    char *path = qr_path_join(dir, "a/b/c.txt");
    CHECK(qr_file_replace(path, qr_bytes_of_string("one two three"), &err) == QR_OK);
    CHECK(qr_file_replace(path, qr_bytes_of_string("four"), &err) == QR_OK);
    struct qr_buf got = {0};
    CHECK(qr_file_read(path, 100, &got, &err) == QR_OK && strcmp(qr_buf_string(&got), "four") == 0);
    CHECK(qr_file_read(path, 4, &got, &err) == QR_OK && got.n == 4);
    CHECK(qr_file_read(path, 3, &got, &err) == QR_RESOURCE_EXHAUSTED && strstr(err.msg, "c.txt") &&
          got.n == 4);
    CHECK(qr_file_read(dir, 100, &got, &err) == QR_INVALID_ARGUMENT && strstr(err.msg, dir));
    CHECK(qr_file_read("/nowhere/x", 3, &got, &err) == QR_NOT_FOUND);
    odd_files(dir, path);
    irreplaceable(dir);
    qr_buf_free(&got);
    char *under_file = qr_path_join(path, "x");
    CHECK(qr_file_replace(under_file, qr_bytes_of_string(""), &err) != QR_OK &&
          strstr(err.msg, "c.txt"));
    CHECK(qr_dir_writable(under_file, &err) != QR_OK);
    CHECK(qr_dir_writable(dir, &err) == QR_OK);
    struct qr_appender *a = NULL;
    CHECK(qr_appender_open(path, true, &a, &err) == QR_OK);
    CHECK(qr_appender_write(a, qr_bytes_of_string("l1\n"), &err) == QR_OK);
    CHECK(qr_appender_write(a, qr_bytes_of_string("l2\n"), &err) == QR_OK);
    qr_appender_close(a);
    CHECK(qr_file_read(path, 100, &got, &err) == QR_OK &&
          strcmp(qr_buf_string(&got), "l1\nl2\n") == 0);
    CHECK(unlink(path) == 0); /* no other file is left in the directory */
    char *b = qr_path_join(dir, "a/b"), *up = qr_path_join(dir, "a");
    CHECK(rmdir(b) == 0 && rmdir(up) == 0 && rmdir(dir) == 0);
    qr_buf_free(&got);
    free(b), free(up), free(path), free(under_file);
}

static void test_memory(void) {
    struct qr_err err;
    void *p = NULL;
    CHECK(qr_large_new(1000, 8, "vectors", &p, &err) == QR_OK && ((uintptr_t)p & 63) == 0);
    free(p);
    p = NULL;
    CHECK(qr_large_new(SIZE_MAX, 16, "vectors", &p, &err) == QR_RESOURCE_EXHAUSTED && p == NULL);
    uint64_t limit = qr_memory_limit_bytes();
    CHECK(qr_large_new(limit + 1, 1, "state vectors", &p, &err) == QR_RESOURCE_EXHAUSTED);
    char number[32];
    snprintf(number, sizeof number, "%llu", (unsigned long long)limit);
    CHECK(strstr(err.msg, number) && strstr(err.msg, "state vectors"), "%s", err.msg);
}

struct pool_ctx {
    atomic_int hits[1000];
    atomic_int bad_worker;
    unsigned size;
};
static void hit(void *ctx, size_t i, unsigned worker) {
    struct pool_ctx *c = ctx;
    atomic_fetch_add(&c->hits[i], 1);
    if (worker >= c->size) atomic_fetch_add(&c->bad_worker, 1);
}
static void test_pool(void) {
    for (unsigned size = 1; size <= 4; size++) {
        struct qr_pool *p = qr_pool_new(size);
        CHECK(qr_pool_size(p) == size);
        static struct pool_ctx c;
        memset(&c, 0, sizeof c);
        c.size = size;
        for (int round = 0; round < 50; round++) qr_pool_for(p, (size_t)(round * 20), hit, &c);
        int wrong = atomic_load(&c.bad_worker);
        /* rounds with n > i */
        for (int i = 0; i < 1000; i++) wrong += atomic_load(&c.hits[i]) != 49 - i / 20;
        CHECK(wrong == 0, "%d", wrong);
        qr_pool_free(p);
    }
    CHECK(qr_cpu_limit() >= 1);
}

/* A pool that grows and shrinks between 1 and 8 threads. */
static void test_pool_resize(void) {
    struct qr_pool *p = qr_pool_new(1);
    for (unsigned k = 0; k < 64; k++) {
        static struct pool_ctx c;
        memset(&c, 0, sizeof c);
        c.size = k % 8 * 5 % 8 + 1;
        qr_pool_resize(p, c.size);
        CHECK(qr_pool_size(p) == c.size, "%u threads, not %u", qr_pool_size(p), c.size);
        for (int round = 0; round < 5; round++) qr_pool_for(p, 1000, hit, &c);
        int wrong = atomic_load(&c.bad_worker);
        for (int i = 0; i < 1000; i++) wrong += atomic_load(&c.hits[i]) != 5;
        CHECK(wrong == 0, "%d of %u threads", wrong, c.size);
    }
    CHECK(qr_pool_requested(p) == 1 && qr_pool_requested(NULL) == 1);
    qr_pool_request(p, 7);
    CHECK(qr_pool_requested(p) == 7);
    qr_pool_free(p);
}

/* Tasks that run loops on the same pool: each inner loop is complete when its call returns. */
struct nest {
    struct qr_pool *pool;
    size_t n;
    atomic_int done, early, bad_worker;
};
static void inner_hit(void *ctx, size_t i, unsigned worker) {
    struct nest *n = *(struct nest **)ctx;
    (void)i;
    if (worker >= qr_pool_size(n->pool)) atomic_fetch_add(&n->bad_worker, 1);
    atomic_fetch_add(&((struct nest **)ctx)[1]->done, 1);
}
static void outer_hit(void *ctx, size_t i, unsigned worker) {
    struct nest *n = ctx, mine = {.n = 0}, *both[2] = {n, &mine};
    if (worker >= qr_pool_size(n->pool)) atomic_fetch_add(&n->bad_worker, 1);
    for (size_t k = 0; k < 3; k++) {
        qr_pool_for(n->pool, n->n + i % 2, inner_hit, both);
        if (atomic_load(&mine.done) != (int)((k + 1) * (n->n + i % 2)))
            atomic_fetch_add(&n->early, 1);
    }
    atomic_fetch_add(&n->done, 1);
}
static void test_pool_nested(void) {
    for (unsigned size = 1; size <= 4; size++) {
        struct nest n = {.pool = qr_pool_new(size)};
        int all = 0;
        for (size_t round = 0; round < 40; round++) {
            n.n = round % 5;
            qr_pool_for(n.pool, round % 7, outer_hit, &n);
            all += (int)(round % 7);
            CHECK(atomic_load(&n.done) == all, "%zu: %d", round, atomic_load(&n.done));
        }
        CHECK(atomic_load(&n.early) == 0 && atomic_load(&n.bad_worker) == 0);
        qr_pool_free(n.pool);
    }
}

/* An idle thread of the pool helps with an inner loop: its two tasks wait for each other, so they
 * need two threads, whichever thread called. Pool threads may run on all processors of their
 * creator. */
struct rendezvous {
    struct qr_pool *pool;
    size_t calls;
    cpu_set_t cpus;
    atomic_int arrived, timed_out, other_affinity;
};
static void wait_for_other(void *ctx, size_t i, unsigned worker) {
    struct rendezvous *m = ctx;
    cpu_set_t cpus;
    (void)i, (void)worker;
    atomic_fetch_add(&m->arrived, 1);
    if (sched_getaffinity(0, sizeof cpus, &cpus) != 0 || !CPU_EQUAL(&cpus, &m->cpus))
        atomic_fetch_add(&m->other_affinity, 1);
    int64_t until_ns = qr_now_ns(&qr_clock_monotonic) + 60 * QR_SECOND;
    while (atomic_load(&m->arrived) < 2 && qr_now_ns(&qr_clock_monotonic) < until_ns) sched_yield();
    if (atomic_load(&m->arrived) < 2) atomic_fetch_add(&m->timed_out, 1);
}
static void call_or_not(void *ctx, size_t i, unsigned worker) {
    struct rendezvous *m = ctx;
    (void)worker;
    if (i == m->calls) qr_pool_for(m->pool, 2, wait_for_other, m);
}
static void test_pool_helps(void) {
    struct rendezvous m = {.pool = qr_pool_new(2)};
    CHECK(sched_getaffinity(0, sizeof m.cpus, &m.cpus) == 0);
    for (int round = 0; round < 30; round++) {
        m.calls = (size_t)round % 3;
        atomic_store(&m.arrived, 0);
        qr_pool_for(m.pool, m.calls + 1, call_or_not, &m);
        CHECK(atomic_load(&m.arrived) == 2 && atomic_load(&m.timed_out) == 0, "%d", round);
        CHECK(atomic_load(&m.other_affinity) == 0,
              "%d: a thread has another affinity than its creator", round);
    }
    qr_pool_free(m.pool);
}

static char logged[256];
static void log_to_buffer(void *ctx, enum qr_log_level level, const char *module,
                          const char *message) {
    (void)ctx;
    snprintf(logged, sizeof logged, "%d %s %s", (int)level, module, message);
}
static void test_log(void) {
    struct qr_log log = {.level = QR_LOG_INFO, .write = log_to_buffer};
    qr_debug(&log, "x", "hidden");
    CHECK(logged[0] == 0);
    qr_warn(&log, "group", "peer %d", 3);
    CHECK(strcmp(logged, "2 group peer 3") == 0);
    qr_error(NULL, "x", "silent");
}

int main(void) {
    test_clock();
    test_errors();
    test_printable();
    test_bytes();
    test_parse();
    test_numbers();
    test_checksums();
    test_files();
    test_memory();
    test_pool();
    test_pool_resize();
    test_pool_nested();
    test_pool_helps();
    test_log();
    return t_end();
}
