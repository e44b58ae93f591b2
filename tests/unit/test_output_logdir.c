/* Event files on their way to a bucket, with a store that waits, fails and refuses when it is
 * told to. */
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

static enum qr_code put(struct qr_store *s, const char *name, struct qr_bytes content,
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
    case TAKEN: code = qr_fail(err, QR_FAILED_PRECONDITION, "%s: is there already", name); break;
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

static void say(void *ctx, enum qr_log_level level, const char *module, const char *message) {
    (void)ctx;
    (void)level;
    (void)module;
    pthread_mutex_lock(&bucket.lock);
    snprintf(text + strlen(text), sizeof text - strlen(text), "%s\n", message);
    pthread_mutex_unlock(&bucket.lock);
    atomic_fetch_add(&lines, 1);
}
static const struct qr_log log_of_test = {QR_LOG_DEBUG, say, NULL};

static struct qr_logdir *start(const char *url, int64_t interval_ns) {
    static const struct qr_store_ops ops = {.put = put, .close = close_bucket};
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

/* The file has these words now; bytes of them are whole records. */
static void write_file(struct qr_logdir *l, const char *name, const char *words, size_t bytes) {
    struct qr_err err = {0};
    qr_auto(qr_free_p) char *path = qr_path_join(folder, name);
    CHECK(qr_file_replace(path, qr_bytes_of_string(words), &err) == QR_OK, "%s", err.msg);
    qr_logdir_wrote(l, name, bytes);
}

static bool has(const char *name, const char *words) {
    struct qr_buf got = {0};
    struct qr_err err;
    pthread_mutex_lock(&bucket.lock);
    bool same = bucket.memory->ops->get(bucket.memory, name, 1000, &got, &err) == QR_OK &&
                strcmp(qr_buf_string(&got), words) == 0;
    pthread_mutex_unlock(&bucket.lock);
    qr_buf_free(&got);
    return same;
}

/* Five seconds at most, for a thread that needs microseconds. */
#define SOON(what)                                                                                 \
    do {                                                                                           \
        for (int wait_ms = 0; !(what) && wait_ms < 5000; wait_ms++) qr_sleep_ns(QR_MS);            \
        CHECK(what);                                                                               \
    } while (0)

static void test_lands(void) {
    const int64_t interval_ns = 60 * QR_MS;
    struct qr_logdir *l = start("gs://b/runs/7//", interval_ns);
    int64_t before_ns = qr_now_ns(&qr_clock_monotonic); /* any put of it */
    write_file(l, "train/events.1", "one", 3);
    SOON(has("runs/7/train/events.1", "one")); /* at once */
    write_file(l, "train/events.1", "one two thr", 7);
    write_file(l, "events.0", "root", 4);
    SOON(has("runs/7/train/events.1", "one two")); /* whole records alone */
    SOON(has("runs/7/events.0", "root"));
    pthread_mutex_lock(&bucket.lock);
    CHECK(bucket.puts == 3 && bucket.creates == 2, "%d puts, %d creating", bucket.puts,
          bucket.creates);
    CHECK(bucket.began_ns[1] - before_ns >= interval_ns - QR_MS, "%lld",
          (long long)(bucket.began_ns[1] - before_ns));
    pthread_mutex_unlock(&bucket.lock);
    CHECK(qr_logdir_close(l, QR_SECOND) && atomic_load(&lines) == 0 && bucket.closed);
    CHECK(bucket.puts == 3); /* nothing new: nothing sent */
}

/* The end waits for no interval, and a bucket without a path is one. */
static void test_flush(void) {
    struct qr_logdir *l = start("gs://b", 0);
    write_file(l, "events.0", "a", 1);
    SOON(has("events.0", "a"));
    write_file(l, "events.0", "ab", 2);
    qr_sleep_ns(20 * QR_MS);
    CHECK(has("events.0", "a")); /* ten seconds have not passed */
    int64_t began_ns = qr_now_ns(&qr_clock_monotonic);
    CHECK(qr_logdir_close(l, 20 * QR_SECOND) && has("events.0", "ab") && atomic_load(&lines) == 0);
    CHECK(t_in_time("the end before the interval of 10 s",
                    qr_now_ns(&qr_clock_monotonic) - began_ns, 4 * QR_SECOND, 9 * QR_SECOND));
    l = start("gs://b", 0);
    /* nothing was ever written: no thread */
    CHECK(qr_logdir_close(l, 0) && qr_logdir_close(NULL, 0));
}

/* Who writes never waits, whatever the store does; the newest content is what comes after
 * an outage. */
static void test_outage(void) {
    struct qr_logdir *l = start("gs://b/x", 5 * QR_MS);
    set_mode(HANGS);
    write_file(l, "events.0", "0", 1);
    SOON(puts_so_far() == 1);
    int64_t began_ns = qr_now_ns(&qr_clock_monotonic);
    for (int i = 0; i < 10000; i++) qr_logdir_wrote(l, "events.0", 1);
    /* a lock and a number; a hanging store would take for ever */
    CHECK(t_in_time("10000 writes beside a bucket that hangs",
                    qr_now_ns(&qr_clock_monotonic) - began_ns, QR_SECOND, T_MINUTE));
    set_mode(DOWN);
    SOON(puts_so_far() >= 4);
    SOON(atomic_load(&lines) == 1);
    CHECK(strstr(text, "cannot upload TensorBoard events to gs://b/x: x/events.0: no answer"), "%s",
          text);
    write_file(l, "events.0", "012", 3);
    set_mode(WORKS);
    SOON(has("x/events.0", "012"));
    SOON(atomic_load(&lines) == 2);
    CHECK(strstr(text, "to gs://b/x succeed again"), "%s", text);
    CHECK(qr_logdir_close(l, QR_SECOND) && atomic_load(&lines) == 2 && bucket.creates == 1);
}

static void test_refused(void) {
    struct qr_logdir *l = start("gs://b/x", 5 * QR_MS);
    set_mode(REFUSES);
    write_file(l, "events.0", "012", 3);
    SOON(atomic_load(&lines) == 1);
    qr_sleep_ns(50 * QR_MS);
    CHECK(puts_so_far() == 1);                                     /* not every 5 ms */
    CHECK(qr_logdir_close(l, 20 * QR_SECOND) && bucket.puts == 2); /* once more, and no longer */
    CHECK(strstr(text,
                 "3 of 3 bytes of TensorBoard events are not in gs://b/x: x/events.0: not allowed"),
          "%s", text);
    CHECK(strstr(text, folder), "%s", text);
    l = start("gs://b/x", 5 * QR_MS);
    set_mode(TAKEN); /* another writer's object of that name: never replaced */
    write_file(l, "events.0", "012", 3);
    SOON(atomic_load(&lines) == 1);
    CHECK(qr_logdir_close(l, 20 * QR_SECOND) && bucket.puts == 2 && bucket.creates == 2);
    l = start("gs://b/x", 5 * QR_MS); /* a file that somebody has cut */
    write_file(l, "events.0", "012", 9);
    SOON(atomic_load(&lines) == 1);
    CHECK(qr_logdir_close(l, 20 * QR_SECOND) && strstr(text, "it was truncated") &&
              bucket.puts == 0,
          "%s", text);
}

/* The end is bounded whatever hangs. */
static void test_hangs(void) {
    struct qr_logdir *l = start("gs://b/x", 5 * QR_MS);
    set_mode(HANGS);
    write_file(l, "events.0", "012", 3);
    SOON(puts_so_far() == 1);
    int64_t began_ns = qr_now_ns(&qr_clock_monotonic);
    CHECK(!qr_logdir_close(l, 50 * QR_MS));
    int64_t took_ns = qr_now_ns(&qr_clock_monotonic) - began_ns;
    CHECK(took_ns >= 50 * QR_MS &&
          t_in_time("the end beside a bucket that hangs", took_ns, 2 * QR_SECOND, T_MINUTE));
    CHECK(strstr(text, "3 of 3 bytes of TensorBoard events are not in gs://b/x"), "%s", text);
    set_mode(WORKS);
    pthread_mutex_lock(&bucket.lock);
    /* the thread takes its things with it */
    while (!bucket.closed) pthread_cond_wait(&bucket.change, &bucket.lock);
    pthread_mutex_unlock(&bucket.lock);
    l = start("gs://b/x", 5 * QR_MS); /* an outage that does not end */
    set_mode(DOWN);
    write_file(l, "events.0", "012", 3);
    SOON(puts_so_far() == 1);
    began_ns = qr_now_ns(&qr_clock_monotonic);
    /* a thread that gets no processor in time ends by itself, as above */
    bool in_time = qr_logdir_close(l, 100 * QR_MS);
    CHECK(t_in_time("the end beside a bucket that is down",
                    qr_now_ns(&qr_clock_monotonic) - began_ns, 2 * QR_SECOND, T_MINUTE));
    SOON(in_time || bucket_closed());
    CHECK(strstr(text, "3 of 3 bytes") && strstr(text, "no answer"), "%s", text);
}

int main(void) {
    char command[64];
    CHECK(mkdtemp(folder) != NULL);
    test_lands();
    test_flush();
    test_outage();
    test_refused();
    test_hangs();
    bucket.memory->ops->close(bucket.memory);
    snprintf(command, sizeof command, "rm -rf %s", folder);
    CHECK(system(command) == 0);
    return t_end();
}
