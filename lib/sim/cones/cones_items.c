/* sim/cones/cones_items.c — finds the items of a micro-batch. Equal programs with equal data give
 * one item, for any sample and any position in the circuit. Derivatives by input columns belong to
 * one sample, so parts that depend on such columns have an item per instance and sample. Start
 * reading at cones_find_items(). */
#include <string.h>

#include "base/mem.h"
#include "exact/functions.h"
#include "sim/cones/cones_impl.h"

static uint64_t items_hash(uint64_t h, uint64_t x) {
    h = (h ^ x) * UINT64_C(0x9e3779b97f4a7c15);
    return h ^ h >> 29;
}

/* Slots of the hash table for up to n items: a power of two, at most half full. */
static size_t items_table_slots(size_t n) {
    size_t size = 16;
    while (size < 2 * n) size *= 2;
    return size;
}
size_t cones_table_size(const struct qr_cones *own, size_t max_samples) {
    size_t most = 1;
    for (size_t i = 0; i < own->n_signals; i++)
        if (own->signals[i].n_instances > most) most = own->signals[i].n_instances;
    for (size_t i = 0; i < own->n_classes; i++)
        if (own->classes[i].n_instances > most) most = own->classes[i].n_instances;
    return items_table_slots(most * max_samples);
}

static size_t items_clear_table(struct cones_workspace *ws, size_t n_items) {
    size_t size = items_table_slots(n_items);
    memset(ws->table, 0xff, size * sizeof *ws->table);
    return size - 1;
}

static uint32_t items_find_signal(const struct cones_workspace *ws, struct cone_items *items,
                                  size_t mask, double x) {
    uint64_t bits = qr_bits_of_double(x);
    size_t at = items_hash(bits, bits >> 32) & mask;
    while (ws->table[at] != CONE_NONE && items->bits[ws->table[at]] != bits) at = (at + 1) & mask;
    if (ws->table[at] == CONE_NONE) {
        ws->table[at] = items->n++;
        items->bits[ws->table[at]] = bits;
    }
    return ws->table[at];
}

/* Computes the signals of n exponents together. */
static void items_compute_signals(const double *exponents, unsigned n, double *value) {
    double sine[QR_SINCOSPI_MANY] QR_RAW, cosine[QR_SINCOSPI_MANY] QR_RAW;
    qr_sincospi_many(exponents, sine, cosine);
    for (unsigned i = 0; i < n; i++, value += QR_SIGNALS) {
        value[0] = 1;
        value[1] = cosine[i];
        value[2] = sine[i];
    }
}

static void items_set_signals(const struct cone_signal *s, struct cone_items *items) {
    for (uint32_t first = 0; first < items->n; first += QR_SINCOSPI_MANY) {
        double exponents[QR_SINCOSPI_MANY] = {0};
        uint32_t left = items->n - first, n = left < QR_SINCOSPI_MANY ? left : QR_SINCOSPI_MANY;
        for (uint32_t i = 0; i < n; i++)
            exponents[i] = s->scale * qr_double_of_bits(items->bits[first + i]);
        items_compute_signals(exponents, n, items->values + (size_t)first * QR_SIGNALS);
    }
}

static void items_list_wanted_signals(struct cones_workspace *ws, const struct cone_signal *s,
                                      struct cone_items *items) {
    const double *x = ws->x;
    unsigned n_columns = ws->head.plan->n_columns;
    items->n = 0;
    for (size_t t = 0; t < s->n_instances; t++) {
        uint32_t *ret = ws->item + (s->first_slot + t) * ws->head.max_samples;
        for (size_t first = 0; first < ws->n_samples; first += QR_SINCOSPI_MANY) {
            double exponents[QR_SINCOSPI_MANY] = {0},
                   *value = items->values + (size_t)items->n * QR_SIGNALS;
            size_t left = ws->n_samples - first;
            unsigned n = left < QR_SINCOSPI_MANY ? (unsigned)left : QR_SINCOSPI_MANY;
            for (unsigned i = 0; i < n; i++) {
                exponents[i] = s->scale * x[(first + i) * n_columns + s->columns[t]];
                ret[first + i] = items->n++;
            }
            items_compute_signals(exponents, n, value);
        }
    }
}

static void items_list_signals(struct cones_workspace *ws, const struct cone_signal *s,
                               struct cone_items *items) {
    size_t mask = items_clear_table(ws, s->n_instances * ws->n_samples);
    unsigned n_columns = ws->head.plan->n_columns;
    uint32_t item = 0;
    items->n = 0;
    for (size_t t = 0; t < s->n_instances; t++) {
        const double *x = ws->x + s->columns[t];
        uint32_t *ret = ws->item + (s->first_slot + t) * ws->head.max_samples;
        for (size_t i = 0; i < ws->n_samples; i++, x += n_columns) {
            /* Often equal to the previous one. */
            if (!items->n || items->bits[item] != qr_bits_of_double(*x))
                item = items_find_signal(ws, items, mask, *x);
            ret[i] = item;
        }
    }
    items_set_signals(s, items);
}

static bool items_same_key(const uint32_t *a, const uint32_t *b, uint32_t n) {
    uint32_t other = 0;
    for (uint32_t k = 0; k < n; k++) other |= a[k] ^ b[k];
    return !other;
}

/* Returns the item with this key; the key is stored where a new item would have it. */
static uint32_t items_find_item(const struct cones_workspace *ws, struct cone_items *items,
                                const uint32_t *key, uint32_t n, size_t mask) {
    uint64_t hash = 0;
    for (uint32_t k = 0; k + 1 < n; k += 2)
        hash = items_hash(hash, (uint64_t)key[k] << 32 | key[k + 1]);
    if (n % 2) hash = items_hash(hash, key[n - 1]);
    size_t at = (hash ^ hash >> 32) & mask;
    while (ws->table[at] != CONE_NONE &&
           !items_same_key(items->keys + (size_t)ws->table[at] * n, key, n))
        at = (at + 1) & mask;
    if (ws->table[at] == CONE_NONE) ws->table[at] = items->n++;
    return ws->table[at];
}

/* Returns the items of one input of an instance, for all samples. */
static const uint32_t *items_of_input(const struct cones_workspace *ws, const struct qr_cones *own,
                                      const struct cone_input *in, uint32_t instance) {
    size_t first =
        in->is_signal ? own->signals[in->of].first_slot : own->classes[in->of].first_slot;
    return ws->item + (first + instance) * ws->head.max_samples;
}

/* The same for all inputs of instance t. */
static void items_of_inputs(const struct cones_workspace *ws, const struct qr_cones *own,
                            const struct cone_class *c, size_t t, const uint32_t **ret) {
    for (uint32_t k = 0; k < c->n_inputs; k++)
        ret[k] = items_of_input(ws, own, &own->inputs[c->first_input + k],
                                c->instances[t * c->n_inputs + k]);
}

static void items_list_wanted_class(struct cones_workspace *ws, const struct qr_cones *own,
                                    const struct cone_class *c, struct cone_items *items) {
    uint32_t *key = items->keys;
    items->n = 0;
    for (size_t t = 0; t < c->n_instances; t++) {
        const uint32_t *from[CONE_MAX_INPUTS] QR_RAW;
        uint32_t *ret = ws->item + (c->first_slot + t) * ws->head.max_samples;
        items_of_inputs(ws, own, c, t, from);
        for (size_t i = 0; i < ws->n_samples; i++) {
            for (uint32_t k = 0; k < c->n_inputs; k++) *key++ = from[k][i];
            ret[i] = items->n++;
        }
    }
}

/* Adds an item for each of these samples. */
static void items_append(struct cone_items *items, const uint32_t *const *from, uint32_t n_inputs,
                         size_t sample, size_t end, uint32_t *ret) {
    uint32_t *key = items->keys + (size_t)items->n * n_inputs;
    for (uint32_t k = 0; k < n_inputs; k++)
        for (size_t i = sample; i < end; i++) key[(i - sample) * n_inputs + k] = from[k][i];
    for (size_t i = sample; i < end; i++) ret[i] = items->n++;
}

static void items_list_class(struct cones_workspace *ws, const struct qr_cones *own,
                             const struct cone_class *c, struct cone_items *items) {
    size_t mask = items_clear_table(ws, c->n_instances * ws->n_samples);
    uint32_t n = c->n_inputs, item = 0;
    items->n = 0;
    for (size_t t = 0; t < c->n_instances; t++) {
        const uint32_t *from[CONE_MAX_INPUTS] QR_RAW;
        uint32_t *ret = ws->item + (c->first_slot + t) * ws->head.max_samples, before = items->n;
        items_of_inputs(ws, own, c, t, from);
        for (size_t i = 0; i < ws->n_samples; i++) {
            uint32_t *key = items->keys + (size_t)items->n * n;
            if (i == CONE_SEEN && items->n - before == i) {
                items_append(items, from, n, i, ws->n_samples, ret);
                item = items->n - 1;
                break;
            }
            for (uint32_t k = 0; k < n; k++) key[k] = from[k][i];
            if (!items->n || !items_same_key(items->keys + (size_t)item * n, key, n))
                item = items_find_item(ws, items, key, n, mask);
            ret[i] = item;
        }
    }
}

void cones_find_items(const struct qr_cones *own, struct cones_workspace *ws) {
    for (size_t i = 0; i < own->n_signals; i++) {
        const struct cone_signal *s = &own->signals[i];
        (s->wanted ? items_list_wanted_signals : items_list_signals)(ws, s, &ws->signals[i]);
    }
    for (size_t i = 0; i < own->n_classes; i++) {
        const struct cone_class *c = &own->classes[i];
        (c->wanted ? items_list_wanted_class : items_list_class)(ws, own, c, &ws->classes[i]);
    }
}
