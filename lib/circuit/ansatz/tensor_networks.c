/* circuit/ansatz/tensor_networks.c — tensor networks of two-qubit blocks: PennyLane's MPS, TTN and
 * MERA. Start reading at qr_ansatz_tensor_network(). */
#include <stdio.h>
#include <stdlib.h>

#include "base/mem.h"
#include "circuit/ansatz/ansatz_impl.h"

struct network {
    struct qr_ansatz_builder b;
    const struct qr_json *block; /* NULL: CNOT, and RY of each qubit */
    struct qr_ansatz_path path;
    unsigned n_blocks;
};

static void network_add_block(struct network *t, unsigned p, unsigned q) {
    struct qr_ansatz_builder *b = &t->b;
    uint16_t positions[2] = {(uint16_t)p, (uint16_t)q};
    char prefix[16];
    snprintf(prefix, sizeof prefix, "b%u_", t->n_blocks);
    if (t->block && !b->code)
        b->code = b->use->host->add_list(b->use->at, t->block, t->path.s, positions, 2, prefix);
    if (!t->block) qr_ansatz_emit_two(b, "CNOT", p, q);
    for (unsigned k = 0; k < 2 && !t->block; k++) {
        struct qr_ansatz_angle a = qr_ansatz_weight(1, "%sw%u", prefix, k);
        qr_ansatz_emit_one(b, "RY", positions[k], &a);
    }
    t->n_blocks++;
}

/* A chain of neighbors. */
static void add_mps(struct network *t) {
    for (unsigned q = 0; q + 1 < t->b.n; q++) network_add_block(t, q, q + 1);
}

/* Each layer joins the upper qubits of two blocks of the layer before it. */
static void add_ttn(struct network *t) {
    for (unsigned step = 2; step <= t->b.n; step *= 2)
        for (unsigned first = 0; first < t->b.n; first += step)
            network_add_block(t, first + step / 2 - 1, first + step - 1);
}

/* Built from the top: each layer of blocks on new qubits below the one before is followed by one
 * that joins neighboring blocks around the ring; emitted from the bottom. */
static void add_mera(struct network *t) {
    unsigned n = t->b.n, count = 1, used = 2;
    struct qr_ansatz_pair *all = qr_xcalloc(2 * (size_t)n, sizeof *all);
    all[0] = (struct qr_ansatz_pair){0, 1};
    for (unsigned width = 1; used < n; width *= 2) {
        const struct qr_ansatz_pair *above = all + count - width, *below = all + count;
        for (unsigned k = 0; k < width; k++, used += 2) {
            all[count++] = (struct qr_ansatz_pair){above[k].p, (uint16_t)used};
            all[count++] = (struct qr_ansatz_pair){(uint16_t)(used + 1), above[k].q};
        }
        for (unsigned k = 0; k < 2 * width; k++)
            all[count++] = (struct qr_ansatz_pair){below[k].q, below[(k + 1) % (2 * width)].p};
    }
    while (count-- > 0) network_add_block(t, all[count].p, all[count].q);
    free(all);
}

enum qr_code qr_ansatz_tensor_network(const struct qr_ansatz_use *use) {
    static const char *const kinds[] = {"mps", "ttn", "mera"};
    static void (*const build[])(struct network * t) = {add_mps, add_ttn, add_mera};
    struct network t = {.b = {use, use->n, QR_OK, 0}, .block = qr_json_get(use->options, "block")};
    unsigned n = use->n;
    t.path = qr_ansatz_path(&t.b, "block");
    if (!qr_json_get(use->options, "kind"))
        qr_ansatz_fail(&t.b, "kind", "is missing; it is 'mps', 'ttn' or 'mera'");
    unsigned kind = qr_ansatz_choice(&t.b, "kind", kinds, 3, 0);
    if (t.block && !t.b.code) t.b.code = qr_json_want(t.block, t.path.s, QR_JSON_ARRAY, use->err);
    if (t.block && !t.b.code && !qr_json_size(t.block))
        qr_ansatz_fail(&t.b, "block", "has no gates; leave it out for the default");
    if (kind == 0 ? n < 2 : n < 2 || (n & (n - 1)))
        qr_ansatz_fail(&t.b, NULL, "'%s' takes %s qubits, not %u", kinds[kind],
                       kind == 0 ? "2 or more" : "2, 4, 8, ...", n);
    if (!t.b.code) build[kind](&t);
    return t.b.code;
}
