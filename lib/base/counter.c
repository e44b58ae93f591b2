/* base/counter.c — the values behind base/counter.h, as relaxed atomics. Start reading at
 * qr_count(). */
#include "base/counter.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "base/bytes.h"
#include "base/err.h"

#define ROW(id, kind, family, labels, help) [id] = {QR_KIND_##kind, family, labels, help},
const struct qr_counter_row qr_counter_table[QR_N_COUNTERS] = {QR_COUNTERS(ROW)};
#undef ROW

/* A REAL holds the bits of a double; all zeros are 0.0. */
static _Atomic uint64_t counter_values[QR_N_COUNTERS];

static void counter_add(enum qr_counter c, uint64_t n) {
    atomic_fetch_add_explicit(&counter_values[c], n, memory_order_relaxed);
}
static void counter_set(enum qr_counter c, uint64_t bits) {
    atomic_store_explicit(&counter_values[c], bits, memory_order_relaxed);
}
static uint64_t counter_load(enum qr_counter c) {
    return atomic_load_explicit(&counter_values[c], memory_order_relaxed);
}

void qr_count(enum qr_counter c, uint64_t n) {
    QR_ASSERT(qr_counter_table[c].kind == QR_KIND_COUNT);
    counter_add(c, n);
}

void qr_count_time(enum qr_counter c, int64_t ns) {
    QR_ASSERT(qr_counter_table[c].kind == QR_KIND_SECONDS);
    if (ns > 0) counter_add(c, (uint64_t)ns);
}

void qr_gauge(enum qr_counter c, int64_t value) {
    QR_ASSERT(qr_counter_table[c].kind == QR_KIND_GAUGE);
    counter_set(c, (uint64_t)value);
}

void qr_gauge_real(enum qr_counter c, double value) {
    QR_ASSERT(qr_counter_table[c].kind == QR_KIND_REAL);
    counter_set(c, qr_bits_of_double(value));
}

int64_t qr_counter_value(enum qr_counter c) {
    QR_ASSERT(qr_counter_table[c].kind != QR_KIND_REAL);
    return (int64_t)counter_load(c);
}

double qr_counter_real(enum qr_counter c) {
    QR_ASSERT(qr_counter_table[c].kind == QR_KIND_REAL);
    return qr_double_of_bits(counter_load(c));
}

static struct {
    char name[QR_VALUE_NAME_BYTES]; /* guarded by named_values_lock */
    atomic_bool known;
    _Atomic uint64_t bits;
} named_values[QR_VALUES];
static pthread_mutex_t named_values_lock = PTHREAD_MUTEX_INITIALIZER;

void qr_value_name(size_t i, const char *name) {
    if (i >= QR_VALUES) return;
    pthread_mutex_lock(&named_values_lock);
    if (strcmp(named_values[i].name, name) != 0) {
        snprintf(named_values[i].name, sizeof named_values[i].name, "%s", name);
        atomic_store(&named_values[i].known, false);
    }
    pthread_mutex_unlock(&named_values_lock);
}

void qr_value_set(size_t i, double value) {
    if (i >= QR_VALUES) return;
    atomic_store_explicit(&named_values[i].bits, qr_bits_of_double(value), memory_order_relaxed);
    atomic_store_explicit(&named_values[i].known, true, memory_order_release);
}

bool qr_value_get(size_t i, char ret_name[QR_VALUE_NAME_BYTES], double *ret) {
    if (i >= QR_VALUES || !atomic_load_explicit(&named_values[i].known, memory_order_acquire))
        return false;
    pthread_mutex_lock(&named_values_lock);
    memcpy(ret_name, named_values[i].name, QR_VALUE_NAME_BYTES);
    pthread_mutex_unlock(&named_values_lock);
    *ret = qr_double_of_bits(atomic_load_explicit(&named_values[i].bits, memory_order_relaxed));
    return true;
}

/* A value of each peer, and the functions that set and read it. */
#define PEER_VALUE(type, set, get)                                                                 \
    static _Atomic(type) set##_values[QR_MAX_MEMBERS];                                             \
    void set(uint32_t index, type v) {                                                             \
        if (index < QR_MAX_MEMBERS)                                                                \
            atomic_store_explicit(&set##_values[index], v, memory_order_relaxed);                  \
    }                                                                                              \
    type get(uint32_t index) {                                                                     \
        return atomic_load_explicit(&set##_values[index], memory_order_relaxed);                   \
    }
PEER_VALUE(enum qr_peer, qr_peer_set, qr_peer_get)
PEER_VALUE(double, qr_peer_speed, qr_peer_get_speed)
PEER_VALUE(double, qr_peer_rtt, qr_peer_get_rtt)
PEER_VALUE(bool, qr_peer_no_data, qr_peer_get_no_data)
PEER_VALUE(bool, qr_peer_serves, qr_peer_get_serves)
