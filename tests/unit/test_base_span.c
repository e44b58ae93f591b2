/* Spans: none without a capture, a list per thread, one capture at a time, spans that cross the
 * begin or end of a capture left out, bounded memory. */
#include <pthread.h>
#include <unistd.h>

#include "base/span.h"
#include "tests/t.h"

static void no_spans_without_capture(void) {
    struct qr_spans s;
    CHECK(qr_span_begin() == 0, "a span begins without a capture");
    qr_span_end(qr_span_begin(), QR_SPAN_STEP, NULL, 1);
    CHECK(qr_spans_start());
    qr_spans_stop(&s);
    CHECK(s.n_threads == 0 && s.n_lost == 0 && s.end_ns >= s.begin_ns && s.begin_wall_ns > 0);
    qr_spans_fini(&s);
}

static void one_capture_at_a_time(void) {
    struct qr_spans s;
    CHECK(qr_spans_start());
    CHECK(!qr_spans_start(), "two captures at once");
    qr_spans_stop(&s);
    qr_spans_fini(&s);
    CHECK(qr_spans_start(), "no second capture");
    qr_spans_stop(&s);
    qr_spans_fini(&s);
}

static void crossing_spans_left_out(void) {
    struct qr_spans s;
    CHECK(qr_spans_start());
    int64_t early_ns = qr_span_begin();
    qr_spans_stop(&s);
    qr_spans_fini(&s);
    qr_span_end(early_ns, QR_SPAN_STEP, NULL, 1); /* after its capture */
    CHECK(qr_spans_start());
    qr_span_end(early_ns, QR_SPAN_STEP, NULL, 2); /* begun in an earlier capture */
    int64_t began_ns = qr_span_begin();
    qr_span_end(began_ns, QR_SPAN_FORWARD, "dense_1:Dense", 16);
    qr_spans_stop(&s);
    CHECK(s.n_threads == 1 && s.threads[0].n == 1 && s.threads[0].id == gettid());
    if (s.n_threads == 1 && s.threads[0].n == 1) {
        const struct qr_span *e = s.threads[0].spans;
        CHECK(e->begin_ns == began_ns && e->end_ns >= began_ns && e->kind == QR_SPAN_FORWARD);
        CHECK(strcmp(e->name, "dense_1:Dense") == 0 && e->number == 16);
    }
    qr_spans_fini(&s);
}

enum { THREADS = 4, EACH = 1000 };

static void *work(void *arg) {
    pthread_setname_np(pthread_self(), arg);
    for (uint64_t i = 0; i < EACH; i++) qr_span_end(qr_span_begin(), QR_SPAN_MICRO_BATCH, NULL, i);
    return NULL;
}

static void lists_per_thread(void) {
    static char names[THREADS][8] = {"a", "b", "c", "d"};
    pthread_t t[THREADS];
    struct qr_spans s;
    bool in_order = true;
    unsigned named = 0;
    CHECK(qr_spans_start());
    for (int i = 0; i < THREADS; i++) pthread_create(&t[i], NULL, work, names[i]);
    for (int i = 0; i < THREADS; i++) pthread_join(t[i], NULL);
    qr_spans_stop(&s);
    CHECK(s.n_threads == THREADS, "%zu threads", s.n_threads);
    for (size_t k = 0; k < s.n_threads; k++) {
        CHECK(s.threads[k].n == EACH, "%zu spans", s.threads[k].n);
        for (size_t i = 0; i < s.threads[k].n; i++)
            in_order &=
                s.threads[k].spans[i].number == i &&
                (i == 0 || s.threads[k].spans[i].begin_ns >= s.threads[k].spans[i - 1].end_ns);
        named |= 1u << (s.threads[k].name[0] - 'a');
    }
    CHECK(in_order && named == 15, "names %x", named);
    qr_spans_fini(&s);
}

static void stop_while_recording(void) {
    pthread_t t[THREADS];
    struct qr_spans s;
    static char name[] = "e";
    for (int k = 0; k < 50; k++) {
        for (int i = 0; i < THREADS; i++) pthread_create(&t[i], NULL, work, name);
        if (qr_spans_start()) {
            qr_spans_stop(&s);
            qr_spans_fini(&s);
        }
        for (int i = 0; i < THREADS; i++) pthread_join(t[i], NULL);
    }
    CHECK(!qr_spans_on);
}

static void bounded_memory(void) {
    struct qr_spans s;
    size_t n = 0;
    CHECK(qr_spans_start());
    for (size_t i = 0; i < (size_t)QR_SPANS_MAX + 100; i++)
        qr_span_end(qr_span_begin(), QR_SPAN_WAIT, NULL, i);
    qr_spans_stop(&s);
    for (size_t k = 0; k < s.n_threads; k++) n += s.threads[k].n;
    CHECK(n == QR_SPANS_MAX && s.n_lost == 100, "%zu spans, %llu lost", n,
          (unsigned long long)s.n_lost);
    qr_spans_fini(&s);
}

int main(void) {
    no_spans_without_capture();
    one_capture_at_a_time();
    crossing_spans_left_out();
    lists_per_thread();
    stop_while_recording();
    bounded_memory();
    return t_end();
}
