/* membership/member_split.c — rule 5: two states after as many reductions differ, so one machine
 * computes wrongly. Formats which worker has which state. Start reading at
 * member_log_wrong_states().
 */
#include <stdio.h>
#include <string.h>

#include "base/bytes.h"
#include "membership/member_impl.h"

static bool states_equal(const struct qr_held *a, const struct qr_held *b) {
    return !a->stateless && !b->stateless && a->applied_reductions == b->applied_reductions &&
           memcmp(a->digest, b->digest, sizeof a->digest) == 0;
}

void member_states_text(struct qr_member *m, const struct qr_held *held, const struct qr_begin *b,
                        char *ret, size_t cap) {
    size_t n = 0;
    ret[0] = '\0';
    for (uint32_t r = 0; r < b->n_members && n + 1 < cap; r++) {
        char digest[33];
        bool listed = held[r].stateless || held[r].applied_reductions != b->base_reductions,
             first = true;
        for (uint32_t o = 0; o < r && !listed; o++) listed = states_equal(&held[o], &held[r]);
        if (listed) continue;
        qr_hex(held[r].digest, sizeof held[r].digest, digest);
        n += (size_t)snprintf(ret + n, cap - n, "%s%s at", n ? "; " : "states: ", digest);
        for (uint32_t o = r; o < b->n_members && n + 1 < cap; o++) {
            if (!states_equal(&held[o], &held[r])) continue;
            n += (size_t)snprintf(ret + n, cap - n, "%s %.100s", first ? "" : ",",
                                  qr_member_peer_text(m, b->member[o].name.index));
            first = false;
        }
    }
}

static void format_digests(const struct qr_held *h, const struct qr_begin *b, char wrong[33],
                           char right[33]) {
    qr_hex(h->digest, sizeof h->digest, wrong);
    qr_hex(b->base_digest, sizeof b->base_digest, right);
}

static bool is_minority_state(const struct qr_held *h, const struct qr_begin *b) {
    return !h->stateless && h->applied_reductions == b->base_reductions &&
           memcmp(h->digest, b->base_digest, sizeof h->digest) != 0;
}

void member_log_wrong_states(struct qr_member *m, const struct qr_held *held,
                             const struct qr_begin *b) {
    char wrong[33], right[33];
    for (uint32_t r = 0; r < b->n_members; r++) {
        if (!is_minority_state(&held[r], b) || b->member[r].name.index == m->opt.index) continue;
        format_digests(&held[r], b, wrong, right);
        member_log(m, QR_LOG_ERROR,
                   "reduction %llu: %s computed a wrong state: its digest is %s, the majority's is "
                   "%s. It fetches the majority's state; check its machine",
                   (unsigned long long)b->base_reductions,
                   qr_member_peer_text(m, b->member[r].name.index), wrong, right);
    }
}

void member_log_own_wrong_state(struct qr_member *m, const struct qr_begin *b) {
    char wrong[33], right[33];
    if (!is_minority_state(&m->held, b)) return;
    format_digests(&m->held, b, wrong, right);
    member_log(m, QR_LOG_ERROR,
               "reduction %llu: this worker computed a wrong state: its digest is %s, the "
               "majority's is %s. It fetches the majority's state; check this machine",
               (unsigned long long)b->base_reductions, wrong, right);
}
