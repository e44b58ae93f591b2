/* train/confusion.c — the confusion matrix, from sums to the result. Start reading at
 * qr_confusion_of(). */
#include "train/confusion.h"

#include "base/mem.h"

void qr_confusion_keep(const struct qr_model *m, const qr_fixed *sums, double *validation) {
    size_t at = 0, n = qr_model_confusion(m, &at);
    for (size_t i = 0; i < n * n; i++)
        validation[qr_model_n_values(m) + i] = qr_fixed_to_double(sums[at + i]);
}

static uint64_t *confusion_counts(const double *v, size_t n) {
    uint64_t *counts = qr_xcalloc(n, sizeof *counts);
    for (size_t i = 0; i < n; i++) counts[i] = (uint64_t)v[i];
    return counts;
}

struct qr_confusion qr_confusion_of(const struct qr_model *m, const struct qr_state *s,
                                    bool has_val) {
    size_t at = 0, n = qr_model_confusion(m, &at);
    if (!n) return (struct qr_confusion){0};
    struct qr_confusion c = {.n = n, .training = confusion_counts(s->sums + at, n * n)};
    if (has_val) c.validation = confusion_counts(s->validation + qr_model_n_values(m), n * n);
    return c;
}

void qr_confusion_fini(struct qr_confusion *c) {
    free(c->training);
    free(c->validation);
    *c = (struct qr_confusion){0};
}
