/* cirq/data_circuits.c — the data circuits of a model of TensorFlow Quantum as one circuit with
 * columns of data. Start reading at qr_tfq_read().
 *
 * The merged circuit has every data circuit's gates in its order, up to gates that commute because
 * they share no qubit. The gates that a sample has not are identities there: their arguments are 0.
 */
#include <math.h>
#include <string.h>

#include "base/mem.h"
#include "cirq/cirq_impl.h"

/* A gate of the merged circuit. */
struct merged_gate {
    struct qr_gate gate;
    struct qr_qubits qubits;
    size_t n_samples; /* that have it */
    double first[2];  /* arguments in the first of them */
    bool varies[2];
    uint32_t column[2];
};

/* A gate of a sample. */
struct sample_gate {
    uint32_t merged; /* its number in `gates` */
    double args[2];
};

struct merger {
    struct merged_gate gates[QR_TFQ_DATA_GATES];
    uint32_t order[QR_TFQ_DATA_GATES]; /* numbers in `gates`, in order of time */
    uint32_t n;
    struct sample_gate *uses;
    size_t n_uses, cap_uses, *ends; /* ends: n_uses after each sample */
    uint32_t after[QR_MAX_QUBITS];  /* the place that follows the sample's last gate on the qubit */
};

static bool same_gate(const struct qr_gate *a, const struct qr_gate *b) {
    return a->kind == b->kind && memcmp(a->targets, b->targets, sizeof a->targets) == 0 &&
           a->global_shift == b->global_shift && qr_qubits_equal(&a->controls, &b->controls) &&
           qr_qubits_equal(&a->control_values, &b->control_values);
}

static struct qr_qubits qubits_of(const struct qr_gate *g) {
    struct qr_qubits ret = g->controls;
    for (unsigned k = 0; k < g->n_targets; k++) qr_qubits_add(&ret, g->targets[k]);
    return ret;
}

static bool intersect(const struct qr_qubits *a, const struct qr_qubits *b) {
    uint64_t both = 0;
    for (unsigned w = 0; w < QR_QUBITS_WORDS; w++) both |= a->word[w] & b->word[w];
    return both != 0;
}

static void insert_gate(struct merger *m, uint32_t at, const struct qr_gate *g) {
    memmove(&m->order[at + 1], &m->order[at], (m->n - at) * sizeof *m->order);
    m->gates[m->n] = (struct merged_gate){.gate = *g, .qubits = qubits_of(g)};
    m->order[at] = m->n++;
    for (unsigned q = 0; q < QR_MAX_QUBITS; q++) m->after[q] += m->after[q] > at;
}

static enum qr_code merge_gate(struct merger *m, const struct qr_gate *g, struct qr_err *err) {
    for (unsigned k = 0; k < g->n_args; k++)
        if (g->args[k].kind != QR_ARG_CONSTANT)
            return qr_fail(err, QR_INVALID_ARGUMENT,
                           "its gates must have numbers, not symbols; resolve the symbols first");
    const struct qr_qubits qubits = qubits_of(g);
    uint32_t from = 0, at;
    for (unsigned q = qr_qubits_first(&qubits); q < QR_MAX_QUBITS; q = qr_qubits_next(&qubits, q))
        if (m->after[q] > from) from = m->after[q];
    for (at = from; at < m->n && !same_gate(&m->gates[m->order[at]].gate, g);) at++;
    if (at == m->n) {
        if (m->n == QR_TFQ_DATA_GATES)
            return qr_fail(err, QR_INVALID_ARGUMENT,
                           "up to here the data circuits have so different gates that one circuit "
                           "for all has more than %d; give circuits of one structure",
                           QR_TFQ_DATA_GATES);
        /* Before the next gate on one of its qubits, so that a later gate of the sample is found */
        for (at = from; at < m->n && !intersect(&m->gates[m->order[at]].qubits, &qubits);) at++;
        insert_gate(m, at, g);
    }
    struct merged_gate *to = &m->gates[m->order[at]];
    for (unsigned k = 0; k < g->n_args; k++) {
        if (!to->n_samples) to->first[k] = g->args[k].scale;
        to->varies[k] |= to->first[k] != g->args[k].scale;
    }
    to->n_samples++;
    if (m->n_uses == m->cap_uses) {
        m->cap_uses = m->cap_uses ? 2 * m->cap_uses : 1024;
        m->uses = qr_xreallocarray(m->uses, m->cap_uses, sizeof *m->uses);
    }
    m->uses[m->n_uses++] = (struct sample_gate){m->order[at], {g->args[0].scale, g->args[1].scale}};
    for (unsigned q = qr_qubits_first(&qubits); q < QR_MAX_QUBITS; q = qr_qubits_next(&qubits, q))
        m->after[q] = at + 1;
    return QR_OK;
}

static enum qr_code merge_sample(struct cirq_reader *r, struct merger *m, struct qr_bytes bytes) {
    struct qr_gate_list *l = &r->gates.list;
    size_t from = l->n;
    QR_TRY(cirq_tfq_program(r, bytes));
    QR_TRY(qr_channel_reject(&r->gates, from, "its gates", "data"));
    memset(m->after, 0, sizeof m->after);
    for (size_t i = from; i < l->n; i++)
        if (l->gates[i].n_args) QR_TRY(merge_gate(m, &l->gates[i], r->err));
    l->n = from;
    return QR_OK;
}

/* Columns of rotations are angles in radians, those of other gates are exponents. */
static double column_unit(const struct qr_gate *g) {
    return qr_gate_info(g->kind)->rotation && g->global_shift == -0.5 ? M_PI : 1;
}

/* Appends the merged gates; returns the number of columns. */
static uint32_t put_gates(struct cirq_reader *r, struct merger *m, size_t n_samples) {
    uint32_t n_columns = 0;
    for (uint32_t i = 0; i < m->n; i++) {
        struct merged_gate *from = &m->gates[m->order[i]];
        struct qr_gate g = from->gate;
        for (unsigned k = 0; k < g.n_args; k++) {
            from->varies[k] |= from->n_samples < n_samples && from->first[k] != 0;
            if (!from->varies[k]) continue;
            from->column[k] = n_columns++;
            g.args[k] = (struct qr_gate_arg){QR_ARG_DATA, 1 / column_unit(&g), from->column[k]};
        }
        qr_gate_list_add(&r->gates.list, &g);
    }
    return n_columns;
}

static enum qr_code fill_samples(const struct merger *m, size_t n_samples, uint32_t n_columns,
                                 struct qr_tfq_samples *ret, struct qr_err *err) {
    void *x = NULL;
    QR_TRY(qr_large_new(n_samples * (n_columns ? n_columns : 1), sizeof(double),
                        "the columns of the data circuits", &x, err));
    *ret = (struct qr_tfq_samples){n_samples, n_columns, x};
    for (size_t s = 0; s < n_samples; s++)
        for (size_t i = s ? m->ends[s - 1] : 0; i < m->ends[s]; i++) {
            const struct merged_gate *g = &m->gates[m->uses[i].merged];
            for (unsigned k = 0; k < g->gate.n_args; k++)
                if (g->varies[k])
                    ret->x[s * n_columns + g->column[k]] =
                        m->uses[i].args[k] * column_unit(&g->gate);
        }
    return QR_OK;
}

static struct qr_bytes element(const struct qr_tfq_tensor *t, size_t i) {
    return qr_bytes_of(t->bytes + i * t->width, t->width);
}

static enum qr_code read_data(struct cirq_reader *r, const struct qr_tfq_tensor *data,
                              struct merger *m, struct qr_tfq_samples *ret) {
    m->ends = qr_xcalloc(data->n + 1, sizeof *m->ends);
    for (size_t i = 0; i < data->n; i++) {
        if (merge_sample(r, m, element(data, i))) return qr_wrap(r->err, "data circuit %zu", i);
        m->ends[i] = m->n_uses;
    }
    uint32_t n_columns = put_gates(r, m, data->n);
    return fill_samples(m, data->n, n_columns, ret, r->err);
}

static enum qr_code read_program(struct cirq_reader *r, const struct qr_tfq_tensor *t,
                                 const char *what) {
    if (!t->bytes) return QR_OK;
    if (t->n != 1)
        return qr_fail(r->err, QR_INVALID_ARGUMENT, "%s has %zu programs; give one", what, t->n);
    return cirq_tfq_program(r, element(t, 0)) ? qr_wrap(r->err, "%s", what) : QR_OK;
}

static enum qr_code read_model(struct cirq_reader *r, const struct qr_tfq_model *model,
                               struct merger *m, struct qr_program *ret,
                               struct qr_tfq_samples *ret_samples) {
    QR_TRY(read_program(r, &model->prepend, "prepend"));
    if (model->data.bytes) QR_TRY(read_data(r, &model->data, m, ret_samples));
    QR_TRY(read_program(r, &model->circuit, "circuit"));
    for (size_t i = 0; i < model->readouts.n; i++)
        if (cirq_tfq_sum(r, element(&model->readouts, i)))
            return qr_wrap(r->err, "readouts[%zu]", i);
    return cirq_build(r, (unsigned)ret_samples->n_columns, ret);
}

enum qr_code qr_tfq_read(const struct qr_tfq_model *model, struct qr_program *ret,
                         struct qr_tfq_samples *ret_samples, struct qr_err *err) {
    struct qr_program p = {0};
    struct qr_tfq_samples samples = {0};
    struct cirq_reader *r = NULL;
    struct merger *m = qr_xcalloc(1, sizeof *m);
    enum qr_code code = cirq_reader_new(&(struct qr_program_options){0}, &r, err);
    if (!code) code = read_model(r, model, m, &p, &samples);
    cirq_reader_free(r);
    free(m->uses);
    free(m->ends);
    free(m);
    if (code) {
        qr_program_fini(&p);
        free(samples.x);
        return code;
    }
    *ret = p;
    *ret_samples = samples;
    return QR_OK;
}
