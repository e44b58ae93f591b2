/* Counters: kinds, sums from several threads, and a table that Prometheus can read. */
#include "base/counter.h"

#include <pthread.h>
#include <stdbool.h>
#include <string.h>

#include "tests/t.h"

enum { THREADS = 4, EACH = 20000 };

static void *count(void *unused) {
    (void)unused;
    for (int i = 0; i < EACH; i++) {
        qr_count(QR_MICRO_BATCHES, 1);
        qr_count_time(QR_REDUCE_TIME, 3);
        qr_gauge(QR_STEP, i);
        qr_gauge_real(QR_LOSS, 0.5);
    }
    return NULL;
}

/* No addition is lost; a gauge holds some value that was set. */
static void threads(void) {
    pthread_t t[THREADS];
    int64_t blocks = qr_counter_value(QR_MICRO_BATCHES), ns = qr_counter_value(QR_REDUCE_TIME);
    for (int i = 0; i < THREADS; i++)
        if (pthread_create(&t[i], NULL, count, NULL) != 0) exit(1);
    for (int i = 0; i < 1000; i++) {
        int64_t step = qr_counter_value(QR_STEP);
        if (step < 0 || step >= EACH)
            CHECK(false, "a step that no thread set: %lld", (long long)step);
    }
    for (int i = 0; i < THREADS; i++) pthread_join(t[i], NULL);
    CHECK(qr_counter_value(QR_MICRO_BATCHES) - blocks == (int64_t)THREADS * EACH);
    CHECK(qr_counter_value(QR_REDUCE_TIME) - ns == (int64_t)3 * THREADS * EACH);
    CHECK(qr_counter_value(QR_STEP) == EACH - 1);
    CHECK(qr_counter_real(QR_LOSS) == 0.5);
}

static void kinds(void) {
    qr_gauge_real(QR_VAL_LOSS, -0.125);
    CHECK(qr_counter_real(QR_VAL_LOSS) == -0.125);
    qr_gauge(QR_GENERATION, -7);
    CHECK(qr_counter_value(QR_GENERATION) == -7);
    int64_t before = qr_counter_value(QR_UPDATE_TIME);
    qr_count_time(QR_UPDATE_TIME, -5);
    CHECK(qr_counter_value(QR_UPDATE_TIME) == before, "a negative time is ignored");
}

static void peers(void) {
    CHECK(qr_peer_get(QR_MAX_MEMBERS - 1) == QR_PEER_UNKNOWN && qr_peer_get_speed(0) == 0);
    qr_peer_set(QR_MAX_MEMBERS - 1, QR_PEER_MEMBER);
    qr_peer_speed(QR_MAX_MEMBERS - 1, 0.5);
    qr_peer_set(QR_MAX_MEMBERS, QR_PEER_MEMBER); /* beyond the table: ignored */
    qr_peer_speed(UINT32_MAX, 1);
    qr_peer_rtt(0, 0.25);
    qr_peer_rtt(UINT32_MAX, 1);
    CHECK(qr_peer_get_rtt(0) == 0.25 && qr_peer_get_rtt(1) == 0);
    CHECK(qr_peer_get(QR_MAX_MEMBERS - 1) == QR_PEER_MEMBER &&
          qr_peer_get_speed(QR_MAX_MEMBERS - 1) == 0.5);
}

/* Rows of a family are adjacent; counters, and only counters, end in _total; each family has one
 * help text. */
static void table(void) {
    for (int i = 0; i < QR_N_COUNTERS; i++) {
        const struct qr_counter_row *r = &qr_counter_table[i], *before = i ? r - 1 : NULL;
        size_t n = strlen(r->family);
        bool first = !before || strcmp(before->family, r->family) != 0;
        bool total = n > 6 && strcmp(r->family + n - 6, "_total") == 0;
        CHECK(strspn(r->family, "abcdefghijklmnopqrstuvwxyz_") == n &&
                  strncmp(r->family, "qring_", 6) == 0,
              "%s", r->family);
        CHECK(total == (r->kind == QR_KIND_COUNT || r->kind == QR_KIND_SECONDS), "%s", r->family);
        CHECK(first == (r->help[0] != 0), "%s", r->family);
        CHECK(first || (before->kind == r->kind && strcmp(before->labels, r->labels) != 0), "%s",
              r->family);
        for (int k = 0; first && k < i; k++)
            CHECK(strcmp(qr_counter_table[k].family, r->family) != 0, "%s has rows in two places",
                  r->family);
    }
}

int main(void) {
    kinds();
    threads();
    peers();
    table();
    return t_end();
}
