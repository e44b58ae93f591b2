/* Upload of event files to a bucket, with a store that hangs, fails or rejects on demand. */
#include <pthread.h>
#include <stdatomic.h>
#include <unistd.h>

#include "base/file.h"
#include "base/mem.h"
#include "output/logdir.h"
#include "tests/t.h"

enum mode { WORKS, HANGS, DOWN, REFUSES, TAKEN };
struct bucket {
    struct qr_store store;
    struct qr_store *memory;
    pthread_mutex_t lock;
    pthread_cond_t change;
    enum mode mode;
    int puts, creates;
    int64_t began_ns[64];
    bool closed;
};
static struct bucket bucket;
static char folder[] = "/tmp/qring-logdir-XXXXXX", text[1 << 16];
static atomic_int lines;

static enum qr_code store_put(struct qr_store *s, const char *name, struct qr_bytes content,
                              bool if_absent, struct qr_err *err) {
    struct bucket *b = (struct bucket *)s;
    enum qr_code code;
    pthread_mutex_lock(&b->lock);
    b->began_ns[b->puts++ % 64] = qr_now_ns(&qr_clock_monotonic);
    b->creates += if_absent;
    pthread_cond_broadcast(&b->change);
    while (b->mode == HANGS) pthread_cond_wait(&b->change, &b->lock);
    switch (b->mode) {
    case DOWN: code = qr_fail(err, QR_UNAVAILABLE, "%s: no answer", name); break;
    case REFUSES: code = qr_fail(err, QR_PERMISSION_DENIED, "%s: not allowed", name); break;
    case TAKEN: code = qr_fail(err, QR_FAILED_PRECONDITION, "%s: already exists", name); break;
    default: code = b->memory->ops->put(b->memory, name, content, if_absent, err);
    }
    pthread_mutex_unlock(&b->lock);
    return code;
}

static void close_bucket(struct qr_store *s) {
    struct bucket *b = (struct bucket *)s;
    pthread_mutex_lock(&b->lock);
    b->closed = true;
    pthread_cond_broadcast(&b->change);
    pthread_mutex_unlock(&b->lock);
}

static void set_mode(enum mode mode) {
    pthread_mutex_lock(&bucket.lock);
    bucket.mode = mode;
    pthread_cond_broadcast(&bucket.change);
    pthread_mutex_unlock(&bucket.lock);
}

static int puts_so_far(void) {
    pthread_mutex_lock(&bucket.lock);
    int n = bucket.puts;
    pthread_mutex_unlock(&bucket.lock);
    return n;
}

static bool bucket_closed(void) {
    pthread_mutex_lock(&bucket.lock);
    bool closed = bucket.closed;
    pthread_mutex_unlock(&bucket.lock);
    return closed;
}

static void record_log(void *ctx, enum qr_log_level level, const char *module,
                       const char *message) {
    (void)ctx;
    (void)level;
    (void)module;
    pthread_mutex_lock(&bucket.lock);
    snprintf(text + strlen(text), sizeof text - strlen(text), "%s\n", message);
    pthread_mutex_unlock(&bucket.lock);
    atomic_fetch_add(&lines, 1);
}
static const struct qr_log log_of_test = {QR_LOG_DEBUG, record_log, NULL};

static struct qr_logdir *open_logdir(const char *url, int64_t interval_ns) {
    static const struct qr_store_ops ops = {.put = store_put, .close = close_bucket};
    struct qr_logdir *l = NULL;
    struct qr_err err = {0};
    if (bucket.memory) bucket.memory->ops->close(bucket.memory);
    bucket = (struct bucket){.store = {&ops}, .memory = qr_store_memory_new()};
    pthread_mutex_init(&bucket.lock, NULL);
    pthread_cond_init(&bucket.change, NULL);
    text[0] = 0;
    atomic_store(&lines, 0);
    const struct qr_logdir_options opt = {
        .url = url,
        .folder = folder,
        .store = &bucket.store,
        .interval_ns = interval_ns,
        .log = &log_of_test,
    };
    CHECK(qr_logdir_open(&opt, &l, &err) == QR_OK, "%s", err.msg);
    return l;
}

/* Writes `words` to the file; the first `bytes` of them are whole records. */
static void write_file(struct qr_logdir *l, const char *name, const char *words, size_t bytes) {
    struct qr_err err = {0};
    qr_auto(qr_free_p) char *path = qr_path_join(folder, name);
    CHECK(qr_file_replace(path, qr_bytes_of_string(words), &err) == QR_OK, "%s", err.msg);
    qr_logdir_wrote(l, name, bytes);
}

static bool bucket_has(const char *name, const char *words) {
    struct qr_buf got = {0};
    struct qr_err err;
    pthread_mutex_lock(&bucket.lock);
    bool same = bucket.memory->ops->get(bucket.memory, name, 1000, &got, &err) == QR_OK &&
                strcmp(qr_buf_string(&got), words) == 0;
    pthread_mutex_unlock(&bucket.lock);
    qr_buf_free(&got);
    return same;
}

/* Waits at most 5 s for a thread that needs microseconds. */
#define SOON(what)                                                                                 \
    do {                                                                                           \
        for (int wait_ms = 0; !(what) && wait_ms < 5000; wait_ms++) qr_sleep_ns(QR_MS);            \
        CHECK(what);                                                                               \
    } while (0)

static void test_upload(void) {
    const int64_t interval_ns = 60 * QR_MS;
    struct qr_logdir *l = open_logdir("gs://b/runs/7//", interval_ns);
    int64_t before_ns = qr_now_ns(&qr_clock_monotonic); /* before every put */
    write_file(l, "train/events.1", "one", 3);
    SOON(bucket_has("runs/7/train/events.1", "one")); /* without waiting for the interval */
    write_file(l, "train/events.1", "one two thr", 7);
    write_file(l, "events.0", "root", 4);
    SOON(bucket_has("runs/7/train/events.1", "one two")); /* only whole records */
    SOON(bucket_has("runs/7/events.0", "root"));
    pthread_mutex_lock(&bucket.lock);
    CHECK(bucket.puts == 3 && bucket.creates == 2, "%d puts, %d creating", bucket.puts,
          bucket.creates);
    CHECK(bucket.began_ns[1] - before_ns >= interval_ns - QR_MS, "%lld",
          (long long)(bucket.began_ns[1] - before_ns));
    pthread_mutex_unlock(&bucket.lock);
    CHECK(qr_logdir_close(l, QR_SECOND) && atomic_load(&lines) == 0 && bucket.closed);
    CHECK(bucket.puts == 3); /* nothing new to send */
}

/* Closing does not wait for the interval. A bucket needs no path. */
static void test_flush(void) {
    struct qr_logdir *l = open_logdir("gs://b", 0);
    write_file(l, "events.0", "a", 1);
    SOON(bucket_has("events.0", "a"));
    write_file(l, "events.0", "ab", 2);
    qr_sleep_ns(20 * QR_MS);
    CHECK(bucket_has("events.0", "a")); /* 10 s have not passed */
    int64_t began_ns = qr_now_ns(&qr_clock_monotonic);
    CHECK(qr_logdir_close(l, 20 * QR_SECOND) && bucket_has("events.0", "ab") &&
          atomic_load(&lines) == 0);
    CHECK(t_in_time("close before the interval of 10 s", qr_now_ns(&qr_clock_monotonic) - began_ns,
                    4 * QR_SECOND, 9 * QR_SECOND));
    l = open_logdir("gs://b", 0);
    /* Nothing was written, so no thread was started. */
    CHECK(qr_logdir_close(l, 0) && qr_logdir_close(NULL, 0));
}

/* Writing never waits for the store. After an outage the newest content is uploaded. */
static void test_outage(void) {
    struct qr_logdir *l = open_logdir("gs://b/x", 5 * QR_MS);
    set_mode(HANGS);
    write_file(l, "events.0", "0", 1);
    SOON(puts_so_far() == 1);
    int64_t began_ns = qr_now_ns(&qr_clock_monotonic);
    for (int i = 0; i < 10000; i++) qr_logdir_wrote(l, "events.0", 1);
    /* A call takes a lock and stores a number; one that waits for the store would never return. */
    CHECK(t_in_time("10000 writes while the bucket hangs",
                    qr_now_ns(&qr_clock_monotonic) - began_ns, QR_SECOND, T_MINUTE));
    set_mode(DOWN);
    SOON(puts_so_far() >= 4);
    SOON(atomic_load(&lines) == 1);
    CHECK(strstr(text, "cannot upload TensorBoard events to gs://b/x: x/events.0: no answer"), "%s",
          text);
    write_file(l, "events.0", "012", 3);
    set_mode(WORKS);
    SOON(bucket_has("x/events.0", "012"));
    SOON(atomic_load(&lines) == 2);
    CHECK(strstr(text, "to gs://b/x succeed again"), "%s", text);
    CHECK(qr_logdir_close(l, QR_SECOND) && atomic_load(&lines) == 2 && bucket.creates == 1);
}

static void test_rejected(void) {
    struct qr_logdir *l = open_logdir("gs://b/x", 5 * QR_MS);
    set_mode(REFUSES);
    write_file(l, "events.0", "012", 3);
    SOON(atomic_load(&lines) == 1);
    qr_sleep_ns(50 * QR_MS);
    CHECK(puts_so_far() == 1);                                     /* no retry every 5 ms */
    CHECK(qr_logdir_close(l, 20 * QR_SECOND) && bucket.puts == 2); /* one last try */
    CHECK(strstr(text,
                 "3 of 3 bytes of TensorBoard events are not in gs://b/x: x/events.0: not allowed"),
          "%s", text);
    CHECK(strstr(text, folder), "%s", text);
    l = open_logdir("gs://b/x", 5 * QR_MS);
    set_mode(TAKEN); /* An object of another writer is never replaced. */
    write_file(l, "events.0", "012", 3);
    SOON(atomic_load(&lines) == 1);
    CHECK(qr_logdir_close(l, 20 * QR_SECOND) && bucket.puts == 2 && bucket.creates == 2);
    l = open_logdir("gs://b/x", 5 * QR_MS); /* A truncated file. */
    write_file(l, "events.0", "012", 9);
    SOON(atomic_load(&lines) == 1);
    CHECK(qr_logdir_close(l, 20 * QR_SECOND) && strstr(text, "it was truncated") &&
              bucket.puts == 0,
          "%s", text);
}

/* Closing ends at its timeout, whatever hangs. */
static void test_hangs(void) {
    struct qr_logdir *l = open_logdir("gs://b/x", 5 * QR_MS);
    set_mode(HANGS);
    write_file(l, "events.0", "012", 3);
    SOON(puts_so_far() == 1);
    int64_t began_ns = qr_now_ns(&qr_clock_monotonic);
    CHECK(!qr_logdir_close(l, 50 * QR_MS));
    int64_t took_ns = qr_now_ns(&qr_clock_monotonic) - began_ns;
    CHECK(took_ns >= 50 * QR_MS &&
          t_in_time("close while the bucket hangs", took_ns, 2 * QR_SECOND, T_MINUTE));
    CHECK(strstr(text, "3 of 3 bytes of TensorBoard events are not in gs://b/x"), "%s", text);
    set_mode(WORKS);
    pthread_mutex_lock(&bucket.lock);
    /* The thread frees its own resources. */
    while (!bucket.closed) pthread_cond_wait(&bucket.change, &bucket.lock);
    pthread_mutex_unlock(&bucket.lock);
    l = open_logdir("gs://b/x", 5 * QR_MS); /* An outage that does not end. */
    set_mode(DOWN);
    write_file(l, "events.0", "012", 3);
    SOON(puts_so_far() == 1);
    began_ns = qr_now_ns(&qr_clock_monotonic);
    /* A thread without CPU time ends by itself, as above. */
    bool in_time = qr_logdir_close(l, 100 * QR_MS);
    CHECK(t_in_time("close while the bucket is down", qr_now_ns(&qr_clock_monotonic) - began_ns,
                    2 * QR_SECOND, T_MINUTE));
    SOON(in_time || bucket_closed());
    CHECK(strstr(text, "3 of 3 bytes") && strstr(text, "no answer"), "%s", text);
}

int main(void) {
    char command[64];
    CHECK(mkdtemp(folder) != NULL);
    test_upload();
    test_flush();
    test_outage();
    test_rejected();
    test_hangs();
    bucket.memory->ops->close(bucket.memory);
    snprintf(command, sizeof command, "rm -rf %s", folder);
    CHECK(system(command) == 0);
    return t_end();
}
