/* https:// as a read-only store, against tests/fake/https.py: unsupported operations, addresses,
 * tokens, redirects, replies that are truncated, endless, compressed or of another file. Time is
 * virtual: a sleep moves the clock. TLS itself: tests/it/https.sh. */
#include "store/https.h"

#include <unistd.h>

#include "base/file.h"
#include "base/mem.h"
#include "store/web/bucket.h"
#include "tests/conform/store_suite.h"
#include "tests/fake/fake.h"
#include "tests/fake/guard.h"

static int64_t virtual_ns = 1000 * QR_SECOND, sleeps;
static int64_t virtual_now(void *ctx) { return (void)ctx, virtual_ns; }
static void pass_time(int64_t ns) { virtual_ns += ns, sleeps++; }
static const struct qr_clock virtual_clock = {virtual_now, NULL};
static char host[64], dir[] = "/tmp/qring-https-XXXXXX";
static uint8_t *content;
enum { BYTES = 700001 };

static struct qr_https_options options(void) {
    return (struct qr_https_options){
        .waits = {.clock = &virtual_clock, .wall = &virtual_clock, .sleep = pass_time}};
}
static char *write_file(const char *name, struct qr_bytes text) {
    char *path = qr_path_join(dir, name);
    struct qr_err err;
    CHECK(qr_file_replace(path, text, &err) == QR_OK, "%s", err.msg);
    return path;
}
/* `path` follows the fake's host, or is a whole URL. */
static enum qr_code read_by(const struct qr_https_options *o, struct qr_web *web, const char *path,
                            size_t max, struct qr_buf *ret, struct qr_err *err) {
    qr_auto(qr_free_p) char *url =
        strstr(path, "://") ? qr_xstrdup(path) : qr_xasprintf("http://%s/%s", host, path);
    qr_auto(qr_free_p) char *name = NULL;
    struct qr_store *s = NULL;
    enum qr_code code = qr_store_https_new(url, o, web, &s, &name, err);
    if (code != QR_OK) return code;
    code = s->ops->get(s, name, max, ret, err);
    s->ops->close(s);
    return code;
}

/* ---- faults of the server ---- */

static const struct {
    const char *path;
    enum qr_code want;
    const char *words;
} rows[] = {
    {"data.bin", QR_OK, ""},
    {"chunked/data.bin", QR_OK, ""},
    {"500,503,429,reset/data.bin", QR_OK, ""},
    {"garbage,garbage,none/data.bin", QR_OK, ""},
    {"line,none/data.bin", QR_OK, ""},
    {"headers,trailers,none/data.bin", QR_OK, ""},
    {"cut-0/data.bin", QR_OK, ""},
    {"cut-1,cut-1,cut-1/data.bin", QR_OK, ""},
    {"cut-300000,reset,503,cut-300000/data.bin", QR_OK, ""},
    {"cut-300000,whole/data.bin", QR_OK, ""},
    {"cut-300000,other,none/data.bin", QR_OK, ""},
    {"cut-300000,unsaid,none/data.bin", QR_OK, ""},
    {"cut-300000,stray,none/data.bin", QR_OK, ""},
    {"cut-350000,half,none/data.bin", QR_OK, ""},
    {"cut-300000,416/data.bin", QR_OK, ""},
    {"cut-300000,weak/data.bin", QR_OK, ""},
    {"weak/data.bin", QR_OK, ""},
    {"cut-chunk/data.bin", QR_OK, ""},
    {"cut-chunk+5,cut-chunk+400000/data.bin", QR_OK, ""},
    {"to:here%2Fdata.bin/x", QR_OK, ""},
    {"to:%2Fdata.bin/x", QR_OK, ""},
    {"to:..%2Fdata.bin/x", QR_OK, ""},
    {"to:%2Fcut-9%2Fdata.bin,to:%2Fdata.bin/x", QR_OK, ""},
    {"nothing.bin", QR_NOT_FOUND, "nothing.bin: download: not found (404)"},
    {"410/data.bin", QR_NOT_FOUND, "410"},
    {"401/data.bin", QR_UNAUTHENTICATED, "QRING_HTTPS_TOKENS"},
    {"403/data.bin?sig=hush", QR_PERMISSION_DENIED, "data.bin?...: download rejected (403)"},
    {"400/data.bin", QR_INVALID_ARGUMENT, "rejected (400)"},
    {"202/data.bin", QR_INVALID_ARGUMENT, "rejected (202)"},
    {"packed/data.bin", QR_INVALID_ARGUMENT, "Content-Encoding"},
    {"bare/data.bin", QR_INVALID_ARGUMENT, "neither Content-Length nor chunked"},
    {"vast/data.bin", QR_INVALID_ARGUMENT, "sent 0 of its 9223372036854775808 bytes"},
    {"huge/data.bin", QR_RESOURCE_EXHAUSTED, "has 1125899906842624 bytes; at most 700001"},
    {"endless/data.bin", QR_RESOURCE_EXHAUSTED, "more than 700001 bytes"},
    {"to:here/x", QR_NOT_FOUND, "not found (404)"},
    {"to:http%3A%2F%2Fexample.com%2Fx/x", QR_INVALID_ARGUMENT,
     "redirects to http://example.com/x, which is not encrypted"},
    {"to:http%3A%2F%2Fu:p@localhost%2Fx/x", QR_INVALID_ARGUMENT, "user or password in a URL"},
    {"to:ftp%3A%2F%2Flocalhost%2Fx/x", QR_INVALID_ARGUMENT, "URL is malformed"},
    {"to:/x", QR_INVALID_ARGUMENT, "without a Location"},
    {"to:loop/y", QR_INVALID_ARGUMENT, "more than 10 redirects"},
    {"reset,503,reset/gone.bin", QR_NOT_FOUND, "gone.bin"},
};

static void test_faults(void) {
    struct qr_https_options o = options();
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct qr_buf b = {0};
        struct qr_err err = {0};
        enum qr_code code = read_by(&o, NULL, rows[i].path, BYTES, &b, &err);
        CHECK(code == rows[i].want && (code == QR_OK || strstr(err.msg, rows[i].words)),
              "%s: %s %s", rows[i].path, qr_code_name(code), code == QR_OK ? "" : err.msg);
        CHECK(code == QR_OK || !strstr(err.msg, "hush"), "a secret in: %s", err.msg);
        if (code == QR_OK)
            CHECK(b.n == BYTES && memcmp(b.p, content, BYTES) == 0, "%s: %zu bytes", rows[i].path,
                  b.n);
        qr_buf_free(&b);
    }
    struct qr_buf b = {0};
    struct qr_err err = {0};
    CHECK(read_by(&o, NULL, "data.bin", BYTES - 1, &b, &err) == QR_RESOURCE_EXHAUSTED &&
              strstr(err.msg, "has 700001 bytes; at most 700000"),
          "%s", err.msg);
    CHECK(read_by(&o, NULL, "chunked/data.bin?1", BYTES - 1, &b, &err) == QR_RESOURCE_EXHAUSTED,
          "%s", err.msg);
    guard_s = 1;
    int64_t began = virtual_ns;
    o.waits.deadline_ns = 5 * QR_SECOND;
    CHECK(read_by(&o, NULL, "silent,slow/data.bin", BYTES, &b, &err) == QR_OK && b.n == BYTES,
          "a silent or slow reply is aborted and retried: %s", err.msg);
    CHECK(read_by(&o, NULL, "http://127.0.0.1:1/x.bin", BYTES, &b, &err) == QR_UNAVAILABLE &&
              strstr(err.msg, "http://127.0.0.1:1/x.bin: download: no success in 5 s") &&
              qr_exit_code(err.code) == 138 && virtual_ns - began < 20 * QR_SECOND,
          "%s", err.msg);
    static const char *const malformed[][2] = {
        {"garbage/data.bin?", "the reply is not HTTP"},
        {"line/data.bin", "the headers of the reply are too long, or memory is exhausted"},
        {"headers/data.bin", "the headers of the reply are longer than 262144 bytes"},
        {"interim/data.bin", "the headers of the reply are longer than 262144 bytes"},
        {"trailers/data.bin", "the headers of the reply are longer than 262144 bytes"}};
    for (size_t i = 0; i < COUNT(malformed); i++)
        CHECK(read_by(&o, NULL, malformed[i][0], BYTES, &b, &err) == QR_UNAVAILABLE &&
                  strstr(err.msg, malformed[i][1]),
              "%s: %s", malformed[i][0], err.msg);
    qr_buf_free(&b);
}

/* A body in chunks has no length, whatever Content-Length says (RFC 9112, 6.3). */
static void test_two_lengths(void) {
    qr_auto(qr_free_p) char *blanks = qr_xasprintf("Transfer-Encoding: chunked,%9000s", "");
    const char *const codings[] = {"Transfer-Encoding: chunked", "transfer-encoding:gzip, chunked",
                                   "Transfer-Encoding:", blanks};
    for (size_t i = 0; i < 2 * COUNT(codings); i++) {
        const char *length = "Content-Length: 5\r\n", *coding = codings[i / 2];
        const char *first = i % 2 ? coding : length, *second = i % 2 ? length : coding;
        struct qr_web_reply r = {0};
        qr_web_reply_header(&r, first, strlen(first));
        qr_web_reply_header(&r, second, strlen(second));
        CHECK(!r.has_length && !r.length, "%.40s after %.40s", second, first);
    }
    struct qr_web_reply r = {0};
    qr_web_reply_header(&r, "Transfer-Encoding: Identity", 27);
    qr_web_reply_header(&r, "Content-Length: 5", 17);
    CHECK(r.has_length && r.length == 5 && !r.chunked, "identity changes nothing");

    struct qr_web *web = qr_web_curl();
    struct qr_err err = {0};
    qr_auto(qr_free_p) char *url = qr_xasprintf("http://%s/endless+5/data.bin", host);
    const struct qr_web_request req = {
        .method = "GET", .url = url, .max_reply_bytes = 2 * BYTES, .max_unsized_bytes = BYTES / 2};
    CHECK(web->send(web, &req, &r, &err) == QR_DATA_LOSS && r.too_long && r.body.n <= BYTES / 2,
          "%zu bytes kept: %s", r.body.n, err.msg);
    qr_web_reply_fini(&r);
    web->close(web);

    static const struct qr_web_api api = {.scheme = "https"};
    const struct qr_https_options o = options();
    const struct qr_web_bucket p = {.api = &api, .bucket = "server", .waits = &o.waits};
    struct qr_buf b = {0};
    qr_buf_puts(&b, "123456");
    CHECK(qr_web_download(&p, &(struct qr_web_call){.name = "x"}, &req,
                          &(struct qr_web_object){.size = 5}, &b, &err) == QR_DATA_LOSS &&
              strstr(err.msg, "https://server/x: received more than its 5 bytes"),
          "%s", err.msg);
    qr_buf_free(&b);
}

/* A proxy gets the requests to other machines, and none to this one. */
static void test_proxy(void) {
    const char *const proxies[] = {"127.0.0.1:1", host}, *port = strchr(host, ':');
    static const struct {
        const char *url; /* port and path follow */
        bool local;
    } urls[] = {{"http://127.0.0.1", true},       {"http://localhost", true},
                {"HTTP://u:p@LocalHost", true},   {"http://127.1", true},
                {"http://server.example", false}, {"http://127.0.0.1@server.example", false}};
    struct qr_web *web = qr_web_curl();
    for (size_t i = 0; i < 2 * COUNT(urls); i++) {
        qr_auto(qr_free_p) char *url = qr_xasprintf("%s%s/echo", urls[i / 2].url, port);
        const struct qr_web_request req = {.method = "GET", .url = url, .max_reply_bytes = BYTES};
        struct qr_web_reply r = {0};
        struct qr_err err = {0};
        CHECK(setenv("all_proxy", proxies[i % 2], 1) == 0);
        CHECK(web->send(web, &req, &r, &err) ==
                      (i % 2 || urls[i / 2].local ? QR_OK : QR_UNAVAILABLE) &&
                  (r.status == 200) == urls[i / 2].local,
              "%s by %s: %d %s", url, proxies[i % 2], r.status, err.msg);
        qr_web_reply_fini(&r);
    }
    web->close(web);
    unsetenv("all_proxy");
}

/* The file is replaced while it is read: the content is all of one version, never parts of both. */
static void test_replaced_file(void) {
    struct qr_https_options o = options();
    struct qr_buf b = {0};
    struct qr_err err = {0};
    qr_auto(qr_free_p) char *path = write_file("moving.bin", qr_bytes_of(content, BYTES));
    CHECK(read_by(&o, NULL, "cut-300000,changed/moving.bin", BYTES, &b, &err) == QR_OK &&
              b.n == BYTES && memcmp(b.p, "changed", 7) == 0 &&
              memcmp(b.p + 7, content + 7, BYTES - 7) == 0,
          "%s", err.msg);
    unlink(path);
    qr_buf_free(&b);
}

/* Each request in turn fails with a network error. */
struct failing {
    struct qr_web web;
    struct qr_web *under;
    long left;
};
static enum qr_code send_failing(struct qr_web *h, const struct qr_web_request *req,
                                 struct qr_web_reply *ret, struct qr_err *err) {
    struct failing *f = (struct failing *)h;
    if (f->left-- != 0) return f->under->send(f->under, req, ret, err);
    *ret = (struct qr_web_reply){0};
    return qr_fail(err, QR_UNAVAILABLE, "server.example: Couldn't connect to server");
}
static void close_failing(struct qr_web *h) {
    struct failing *f = (struct failing *)h;
    f->under->close(f->under);
    free(f);
}
static void test_each_request_fails(void) {
    struct qr_https_options o = options();
    struct qr_buf b = {0};
    struct qr_err err = {0};
    for (long i = 0; i < 5; i++) {
        struct failing *f = qr_xcalloc(1, sizeof *f);
        *f = (struct failing){{send_failing, close_failing}, qr_web_curl(), i};
        qr_auto(qr_free_p) char *path =
            qr_xasprintf("to:%%2Fcut-300000%%2Ccut-9%%2Fdata.bin%%3F%ld/x?%ld", i, i);
        CHECK(read_by(&o, &f->web, path, BYTES, &b, &err) == QR_OK && b.n == BYTES &&
                  memcmp(b.p, content, BYTES) == 0,
              "request %ld: %s", i, err.msg);
    }
    qr_buf_free(&b);
}

/* 600 bytes a second: each attempt is aborted, and its bytes extend the deadline only by the time
 * that they take at the minimum throughput. So such a server cannot hold a worker forever. */
static enum qr_code send_in_30_s(struct qr_web *h, const struct qr_web_request *req,
                                 struct qr_web_reply *ret, struct qr_err *err) {
    struct failing *f = (struct failing *)h;
    virtual_ns += 30 * QR_SECOND; /* the guard's timeout, on virtual time */
    return f->under->send(f->under, req, ret, err);
}
static void test_slow_server(void) {
    enum { DRIPPED = 40000 };
    struct qr_https_options o = options();
    struct qr_buf b = {0};
    struct qr_err err = {0};
    qr_auto(qr_free_p) char *path = write_file("drip.bin", qr_bytes_of(content, DRIPPED));
    guard_s = 1;
    o.waits.deadline_ns = 60 * QR_SECOND;
    struct failing *f = qr_xcalloc(1, sizeof *f);
    *f = (struct failing){{send_in_30_s, close_failing}, qr_web_curl(), 0};
    enum qr_code code = read_by(&o, &f->web, "drip/drip.bin", BYTES, &b, &err);
    CHECK(code == QR_UNAVAILABLE && strstr(err.msg, "drip.bin: download: no success") &&
              qr_exit_code(code) == 138,
          "%zu bytes received: %s", b.n, err.msg);
    unlink(path);
    qr_buf_free(&b);
}

static void test_deadline(void) {
    struct qr_https_options o = options();
    struct qr_web_retry r;
    o.waits.deadline_ns = 120 * QR_SECOND;
    qr_web_retry_begin(&r, &o.waits);
    int64_t began = virtual_ns;
    int attempts = 0;
    do {
        virtual_ns += 30 * QR_SECOND; /* an aborted attempt */
        qr_web_retry_progress(&r, (size_t)30 * 600);
        attempts++;
    } while (attempts < 100 && qr_web_retry_wait(&r, 0));
    CHECK(virtual_ns - began < 200 * QR_SECOND, "%d attempts, %lld s", attempts,
          (long long)((virtual_ns - began) / QR_SECOND));
    qr_web_retry_begin(&r, &o.waits);
    for (attempts = 0; attempts < 100; attempts++) {
        virtual_ns += 30 * QR_SECOND;
        qr_web_retry_progress(&r, (size_t)32 * QR_WEB_MIN_BYTES_PER_S);
        CHECK(r.began_ns == virtual_ns && qr_web_retry_wait(&r, 0), "fast enough: %d", attempts);
    }
}

/* ---- addresses ---- */

static void test_addresses(void) {
    static const struct {
        const char *url, *base, *name; /* base NULL: rejected, `name` is in the error */
    } urls[] = {
        {"https://example.com/a/b.csv", "https://example.com", "a/b.csv"},
        {"https://Example.com:443/a", "https://Example.com", "a"},
        {"https://example.com:8443/a#part", "https://example.com:8443", "a"},
        {"https://example.com/a b?c=d e", "https://example.com", "a%20b?c=d+e"},
        {"https://example.com/a/../b/./c", "https://example.com", "b/c"},
        {"https://example.com/a%2Fb?x=%20&y=/", "https://example.com", "a%2Fb?x=%20&y=/"},
        {"http://localhost:1/a", "http://localhost:1", "a"},
        {"http://127.1.2.3/a", "http://127.1.2.3", "a"},
        {"http://[::1]:9/a", "http://[::1]:9", "a"},
        {"http://127.0.0.1.example.com/a", NULL, "not encrypted"},
        {"http://localhost.example.com/a", NULL, "not encrypted"},
        {"http://10.0.0.1/a?secret", NULL, "http://10.0.0.1/a?...: http:// is not encrypted"},
        {"https://example.com", NULL, "names no file"},
        {"https://example.com/", NULL, "names no file"},
        {"https://example.com?a", "https://example.com", "?a"},
        {"https:///a", NULL, "names no file"},
        {"https://user@example.com/a", NULL, "https://example.com/a: a user or password in a URL"},
        {"https://user:hush@example.com/a?b", NULL,
         "https://example.com/a?...: a user or password in a URL"},
        {"https://exa\nmple.com/a", NULL, "URL is malformed"},
        {"https://example.com:99999/a", NULL, "URL is malformed"},
    };
    struct qr_https_options o = options();
    for (size_t i = 0; i < COUNT(urls); i++) {
        struct qr_store *s = NULL;
        struct qr_err err = {0};
        char *name = NULL;
        enum qr_code code = qr_store_https_new(urls[i].url, &o, NULL, &s, &name, &err);
        if (!urls[i].base) {
            CHECK(code == QR_INVALID_ARGUMENT && strstr(err.msg, urls[i].name) &&
                      !strstr(err.msg, "hush") && !strstr(err.msg, "secret"),
                  "%s: %s", urls[i].url, err.msg);
            continue;
        }
        CHECK(code == QR_OK && strcmp(name, urls[i].name) == 0, "%s: %s %s", urls[i].url,
              name ? name : "", code == QR_OK ? "" : err.msg);
        if (code != QR_OK) continue;
        qr_auto(qr_free_p) char *want = qr_xasprintf("%s/x: http", urls[i].base);
        CHECK(s->ops->remove(s, "x", &err) == QR_UNIMPLEMENTED && strstr(err.msg, want), "%s",
              err.msg);
        s->ops->close(s);
        free(name);
    }
}

/* ---- tokens ---- */

static void test_tokens(void) {
    static const struct {
        const char *text, *host, *want; /* want NULL: no token; "!": an error */
    } files[] = {
        {"example.com abc", "example.com:443", "Authorization: Bearer abc"},
        {"example.com abc", "example.com:8443", NULL},
        {"example.com:8443 abc\n", "example.com:8443", "Authorization: Bearer abc"},
        {"# words\n\n \tEXAMPLE.com \t a.b-c_/+= \r\n", "example.com:443",
         "Authorization: Bearer a.b-c_/+="},
        {"a.example.com x\nexample.com y\nexample.com z", "example.com:443",
         "Authorization: Bearer y"},
        {"example.com abc", "notexample.com:443", NULL},
        {"[::1]:9 abc", "[::1]:9", "Authorization: Bearer abc"},
        {"", "example.com:443", NULL},
        {"just-a-token", "example.com:443", "!"},
        {"example.com two words", "example.com:443", "!"},
        {"example.com b\xc3\xa4h", "example.com:443", "!"},
        {"a b\nc\x01 d e", "a:443", "!"},
    };
    struct qr_err err = {0};
    for (size_t i = 0; i < COUNT(files); i++) {
        char *got = NULL;
        enum qr_code code =
            qr_https_token(qr_bytes_of_string(files[i].text), files[i].host, &got, &err);
        bool bad = files[i].want && *files[i].want == '!';
        CHECK(bad ? code == QR_INVALID_ARGUMENT && !got && strstr(err.msg, "HOST TOKEN") &&
                        !strstr(err.msg, "two")
                  : code == QR_OK && (got && files[i].want ? strcmp(got, files[i].want) == 0
                                                           : got == files[i].want),
              "%zu: %s", i, got ? got : "");
        free(got);
    }
    struct qr_https_options o = options();
    struct qr_buf b = {0};
    qr_auto(qr_free_p) char *line = qr_xasprintf("%s secret-of-the-fake\n", host),
                            *path = write_file("tokens", qr_bytes_of_string(line)),
                            *other = qr_xasprintf("http://localhost%s", strchr(host, ':')),
                            *away = qr_xasprintf(
                                "to:http%%3A%%2F%%2Flocalhost%s%%2Ftoken%%2Fdata.bin/x?a",
                                strchr(host, ':')),
                            *echo = qr_xasprintf("%s/echo", other);
    o.tokens = path;
    CHECK(read_by(&o, NULL, "token/data.bin", BYTES, &b, &err) == QR_OK && b.n == BYTES, "%s",
          err.msg);
    CHECK(read_by(&o, NULL, away, BYTES, &b, &err) == QR_UNAUTHENTICATED &&
              !strstr(err.msg, "secret"),
          "a redirect to another host gets no token: %s", err.msg);
    CHECK(read_by(&o, NULL, echo, BYTES, &b, &err) == QR_OK && !strstr(qr_buf_string(&b), "secret"),
          "%s", qr_buf_string(&b));
    CHECK(read_by(&o, NULL, "echo", BYTES, &b, &err) == QR_OK &&
              strstr(qr_buf_string(&b), "\"accept-encoding\": \"identity\"") &&
              strstr(qr_buf_string(&b), "Bearer secret-of-the-fake"),
          "%s", qr_buf_string(&b));
    unlink(path);
    CHECK(read_by(&o, NULL, "echo", BYTES, &b, &err) == QR_INVALID_ARGUMENT &&
              strstr(err.msg, "QRING_HTTPS_TOKENS"),
          "%s", err.msg);
    qr_buf_free(&b);
}

/* Hosts that may receive a secret: only the host of the request decides, however the URL is
 * written. */
static void test_trusted_hosts(void) {
    static const struct qr_web_trusted hosts[] = {{.host = "127.0.0.1"},
                                                  {.host = "[::1]"},
                                                  {true, "*.example.com:443"},
                                                  {true, "one.net:443"}};
    static const struct {
        const char *url;
        bool want;
    } urls[] = {
        {"https://a.example.com/x", true},
        {"https://a.example.com:443", true},
        {"https://A.EXAMPLE.Com/@x", true},
        {"https://a.b.example.com/", true},
        {"https://ONE.net/x", true},
        {"http://127.0.0.1:9/x", true},
        {"http://[::1]/x", true},
        {"http://[::1]:9/x", true},
        {"https://example.com/", false},
        {"https://.example.com/", false},
        {"https://a.example.com:444/", false},
        {"http://a.example.com/", false},
        {"https://two.one.net/", false},
        {"https://one.net.evil.org/", false},
        {"https://u@one.net/", false},
        {"https://one.net@evil.org/", false},
        {"https://evil.org\\.example.com/", false},
        {"https://evil.org\\@one.net/", false},
        {"https://evil.org#@one.net/", false},
        {"https://evil.org/.example.com", false},
        {"https://evil.org%2f.example.com/", false},
        {"https://evil.org\xef\xbc\x8f.example.com/", false},
        {"https://one\xe3\x80\x82net/", false},
        {"https://one.net./", false},
        {"https://127.0.0.1/", false},
        {"http://127.0.0.1.evil.org/", false},
        {"http://127.0.0.1@evil.org/", false},
        {"one.net/x", false},
        {"file://one.net/x", false},
        {"", false},
    };
    for (size_t i = 0; i < COUNT(urls); i++)
        CHECK(qr_web_url_trusted(urls[i].url, hosts, COUNT(hosts)) == urls[i].want, "%s",
              urls[i].url);
}

int main(void) {
    test_trusted_hosts();
    CHECK(mkdtemp(dir) != NULL);
    pid_t pid = start_fake_with("tests/fake/https.py", "0", "-", dir, host, sizeof host);
    if (pid < 0) {
        SKIP("there is no /usr/bin/python3 for the fake web server");
        return t_end();
    }
    content = qr_xmalloc(BYTES);
    for (size_t i = 0; i < BYTES; i++) content[i] = (uint8_t)(i * 2654435761U >> 13);
    qr_auto(qr_free_p) char *path = write_file("data.bin", qr_bytes_of(content, BYTES)),
                            *text = write_file("run-a", qr_bytes_of_string("three"));
    struct qr_https_options o = options();
    struct qr_store *s = NULL;
    struct qr_err err = {0};
    qr_auto(qr_free_p) char *url = qr_xasprintf("http://%s/run-a", host), *name = NULL;
    CHECK(qr_store_https_new(url, &o, NULL, &s, &name, &err) == QR_OK, "%s", err.msg);
    int64_t before = sleeps;
    read_only_suite(s, "run-a", "three", "run-none");
    CHECK(sleeps == before, "final errors are not waited for");
    s->ops->close(s);
    test_addresses();
    test_faults();
    test_two_lengths();
    test_proxy();
    test_slow_server();
    test_deadline();
    test_replaced_file();
    test_each_request_fails();
    test_tokens();
    unlink(path), unlink(text);
    CHECK(rmdir(dir) == 0, "%s is not empty", dir);
    kill(pid, SIGTERM);
    waitpid(pid, NULL, 0);
    free(content);
    return t_end();
}
