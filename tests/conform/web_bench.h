/* tests/conform/web_bench.h — operations of a store in a bucket under faults of the network and of
 * a server: tests/fake/gcs.py, tests/fake/s3.py, or Google's storage test bench, which accept the
 * same instructions. One kind of store per program. Time is virtual: a sleep moves the clock.
 *
 * Use     start the server, set endpoint, web_bench_init; then conform, outages, damaged_uploads.
 */
#ifndef WEB_BENCH_H
#define WEB_BENCH_H

#include "base/file.h"
#include "base/mem.h"
#include "format/json.h"
#include "store/store.h"
#include "store/web/bucket.h"
#include "tests/conform/store_suite.h"
#include "tests/fake/fake.h"

extern int64_t virtual_ns, sleeps; /* sleeps: their number */
extern const struct qr_clock virtual_clock;
/* For struct qr_web_waits. */
void web_bench_sleep(int64_t ns);
bool is_stopping(void);
extern int notices; /* notices of outages; its address is notice_ctx */

extern char endpoint[128], host[64]; /* of the server: "http://HOST:PORT", "HOST:PORT" */
extern char bench_dir[sizeof "/tmp/qring-web-XXXXXX"];
/* Writes bench_dir/name; returns its path, free() it. */
char *write_file(const char *name, const char *text);

struct bucket_kind {
    const char *scheme;
    size_t large; /* size of an object that takes several requests */
    /* notice: of struct qr_web_waits, with notice_ctx &notices; web NULL: libcurl */
    struct qr_store *(*open)(const char *bucket, const char *extra_header,
                             void (*notice)(void *ctx, const char *sentence), struct qr_web *web);
};
extern uint8_t *pattern; /* `large` bytes; the test frees it */
void web_bench_init(const struct bucket_kind *kind);

/* A JSON request to the server; qr_json_free the reply. tell: POST, without a reply. */
struct qr_json *ask(const char *method, const char *path, const char *body);
void tell(const char *path, const char *body);
/* The number of new lines in the server's log that begin with this text. */
int logged(const char *begin);

/* One operation that meets faults. faults: instructions of a retry test, as JSON, or a method and
 * its faults separated by blanks. used: all of them take effect. emulator: instead, an instruction
 * of the test bench that is sent in a header. */
enum op { GET, LIST, PUT, CREATE, REMOVE, CHECK_WRITE, SWAP };
struct row {
    int group;
    const char *faults;
    enum op op;
    size_t bytes;
    enum qr_code want;
    const char *words;
    bool used;
    const char *emulator;
};
void conform(const struct row *r);
/* Checks that object `name` is the first n bytes of pattern. */
void holds_bytes(struct qr_store *s, const char *name, size_t n, const char *faults);
/* Outages just below ten minutes, and without an end. */
void outages(void);
/* Uploads whose bytes are damaged on the way. */
void damaged_uploads(void);

#endif
