/* sim/streaming/encoding.c — matrices of the gates with data, of one sample or of a lane's each.
 * Start reading at qr_stream_encodings(). */
#include <string.h>

#include "sim/streaming/streaming_impl.h"

/* Cache of the last one-qubit gate: most angles of the tutorial's samples are 0. */
struct memo {
    bool set;
    struct qr_gate gate;
    double a[2];
    double complex u[4];
};

static bool encoding_same_gate(const struct qr_gate *a, const struct qr_gate *b) {
    return a->kind == b->kind &&
           memcmp(&a->global_shift, &b->global_shift, sizeof a->global_shift) == 0;
}

static void encoding_matrix(const struct qr_stream *s, unsigned q, const double *x,
                            struct memo memo[2], double complex ret[4]) {
    ret[0] = ret[3] = 1;
    ret[1] = ret[2] = 0;
    for (uint32_t i = 0; i < s->n_after[q]; i++) {
        const struct qr_gate *g = &s->gates[s->after[q] + i];
        double a[2] = {0, 0};
        for (unsigned k = 0; k < g->n_args; k++) a[k] = qr_gate_arg_value(&g->args[k], NULL, x);
        struct memo *m = &memo[a[0] != 0];
        if (!m->set || !encoding_same_gate(g, &m->gate) || memcmp(a, m->a, sizeof a) != 0) {
            m->set = true;
            m->gate = *g;
            memcpy(m->a, a, sizeof a);
            qr_gate_matrix(g, a, m->u, NULL);
        }
        double complex t[4];
        for (int r = 0; r < 2; r++)
            for (int c = 0; c < 2; c++)
                t[r * 2 + c] = m->u[r * 2] * ret[c] + m->u[r * 2 + 1] * ret[2 + c];
        memcpy(ret, t, sizeof t);
    }
}

/* One sample: ret[(q * 4 + e) * 2]; lanes: ret[(q * 4 + e) * 32 + lane]; imaginary parts follow at
 * distance 1 or 16. */
void qr_stream_encodings(const struct qr_stream *s, const double *x, size_t stride, size_t n_lanes,
                         double *ret) {
    struct memo memo[2] = {{.set = false}, {.set = false}};
    for (unsigned q = 0; q < s->n; q++)
        for (unsigned l = 0; l < (s->sliced ? 1 : QR_LANES); l++) {
            double complex u[4] = {1, 0, 0, 1};
            if (l < n_lanes) encoding_matrix(s, q, x + l * stride, memo, u);
            for (unsigned e = 0; e < 4; e++) {
                double *to = s->sliced ? ret + (q * 4 + e) * 2 : ret + (q * 4 + e) * 32 + l;
                to[0] = creal(u[e]);
                to[s->sliced ? 1 : QR_LANES] = cimag(u[e]);
            }
        }
}
