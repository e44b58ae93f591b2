/* membership/member_split.c — rule 5: two states after as many reductions differ, so a machine
 * computes wrongly. Who holds what, in words. */
#include <stdio.h>
#include <string.h>

#include "base/bytes.h"
#include "membership/member_impl.h"

static bool same_state(const struct qr_held *a, const struct qr_held *b) {
    return !a->stateless && !b->stateless && a->applied_reductions == b->applied_reductions &&
           memcmp(a->digest, b->digest, sizeof a->digest) == 0;
}

void member_states_text(struct qr_member *m, const struct qr_held *held, const struct qr_begin *b,
                        char *ret, size_t cap) {
    size_t n = 0;
    ret[0] = '\0';
    for (uint32_t r = 0; r < b->n_members && n + 1 < cap; r++) {
        char digest[33];
        bool told = held[r].stateless || held[r].applied_reductions != b->base_reductions,
             first = true;
        for (uint32_t o = 0; o < r && !told; o++) told = same_state(&held[o], &held[r]);
        if (told) continue;
        qr_hex(held[r].digest, sizeof held[r].digest, digest);
        n += (size_t)snprintf(ret + n, cap - n, "%s%s at", n ? "; " : "states: ", digest);
        for (uint32_t o = r; o < b->n_members && n + 1 < cap; o++) {
            if (!same_state(&held[o], &held[r])) continue;
            n += (size_t)snprintf(ret + n, cap - n, "%s %.100s", first ? "" : ",",
                                  qr_member_peer_text(m, b->member[o].name.index));
            first = false;
        }
    }
}

static void digests(const struct qr_held *h, const struct qr_begin *b, char wrong[33],
                    char right[33]) {
    qr_hex(h->digest, sizeof h->digest, wrong);
    qr_hex(b->base_digest, sizeof b->base_digest, right);
}

static bool is_wrong(const struct qr_held *h, const struct qr_begin *b) {
    return !h->stateless && h->applied_reductions == b->base_reductions &&
           memcmp(h->digest, b->base_digest, sizeof h->digest) != 0;
}

void member_say_wrong(struct qr_member *m, const struct qr_held *held, const struct qr_begin *b) {
    char wrong[33], right[33];
    for (uint32_t r = 0; r < b->n_members; r++) {
        if (!is_wrong(&held[r], b) || b->member[r].name.index == m->opt.index) continue;
        digests(&held[r], b, wrong, right);
        member_log(
            m, QR_LOG_ERROR,
            "reduction %llu: %s computed wrongly: its state is %s, and that of the majority is "
            "%s. It takes over theirs; look at "
            "its machine",
            (unsigned long long)b->base_reductions, qr_member_peer_text(m, b->member[r].name.index),
            wrong, right);
    }
}

void member_say_own_wrong(struct qr_member *m, const struct qr_begin *b) {
    char wrong[33], right[33];
    if (!is_wrong(&m->held, b)) return;
    digests(&m->held, b, wrong, right);
    member_log(
        m, QR_LOG_ERROR,
        "reduction %llu: this worker computed wrongly: its state is %s, and that of the majority "
        "is %s. It takes over theirs; look at "
        "this machine",
        (unsigned long long)b->base_reductions, wrong, right);
}
