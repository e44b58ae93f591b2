/* qasm/noise_pragmas.c — Amazon Braket's pragmas for noise, and channels on qubits. Start reading
 * at qasm_noise(). */
#include "base/mem.h"
#include "qasm/qasm_impl.h"

enum qr_code qasm_channel_add(struct qasm_reader *r, uint32_t token, struct qr_channel *channel,
                              const uint16_t *qubits) {
    for (unsigned k = 0; k < channel->info->n_targets; k++) qasm_touch(r, qubits[k]);
    QR_TRY(qr_channel_append(&r->gates, channel, qubits, "noise"));
    return qasm_bounded(r, token);
}

/* ---- operators ---- */

/* [[a, b], [c, d]] of dim rows; dim 0: 2 or 4, as the first row has. */
static enum qr_code read_operator(struct qasm_reader *r, unsigned *dim, double complex *ret) {
    double v[2];
    QR_TRY(qasm_expect(r, '[', "'[' and a matrix"));
    for (unsigned row = 0; row < (*dim ? *dim : 2); row++) {
        unsigned n = 0;
        if (row) QR_TRY(qasm_expect(r, ',', "',' and a row"));
        QR_TRY(qasm_expect(r, '[', "'[' and a row"));
        do {
            if (n == (*dim ? *dim : 4))
                return qasm_fail(r, r->at, "a row has more than %u numbers; give 2x2 or 4x4", n);
            QR_TRY(qasm_complex(r, v));
            ret[row * (*dim ? *dim : 4) + n++] = __builtin_complex(v[0], v[1]);
        } while (qasm_skip(r, ','));
        if (!*dim && (n == 2 || n == 4)) *dim = n;
        if (n != *dim)
            return qasm_fail(r, r->at, "a row has %u numbers; give matrices of 2x2 or 4x4", n);
        QR_TRY(qasm_expect(r, ']', "']' after the row"));
    }
    return qasm_expect(r, ']', "']' after the rows");
}

static enum qr_code read_operators(struct qasm_reader *r, struct qr_channel *c) {
    unsigned dim = 0;
    c->kraus = qr_xcalloc(QR_CHANNEL_KRAUS * 16, sizeof *c->kraus);
    do {
        if (c->n_kraus == QR_CHANNEL_KRAUS)
            return qasm_fail(r, r->at, "more than %d operators; give fewer", QR_CHANNEL_KRAUS);
        size_t size = (size_t)dim * dim;
        QR_TRY(read_operator(r, &dim, c->kraus + c->n_kraus * size));
        c->n_kraus++;
    } while (qasm_skip(r, ','));
    c->info = qr_channel_info_of(c->info->names[0], dim / 2);
    c->kraus = qr_xreallocarray(c->kraus, c->n_kraus * dim * dim, sizeof *c->kraus);
    return QR_OK;
}

/* ---- strengths ---- */

static enum qr_code read_strengths(struct qasm_reader *r, struct qr_channel *c) {
    const struct qr_channel_info *info = c->info;
    for (unsigned i = 0; i < info->n_args; i++) {
        unsigned k = qr_channel_arg_at(info, i);
        struct qasm_value v;
        uint32_t token = r->at;
        if (i && !qasm_skip(r, ','))
            return qasm_fail(r, token, "%s takes %u numbers, but %u %s given; give all",
                             info->braket, info->n_args, i, i == 1 ? "is" : "are");
        token = r->at;
        QR_TRY(qasm_expression(r, &v));
        QR_TRY(qasm_angle(r, token, v, &c->args[k]));
        if (qr_channel_reads_inputs(&r->gates, &c->args[k]))
            return qasm_fail(r, token,
                             "%s depends on data; give a number, or an expression of weights",
                             info->arg_names[k]);
    }
    return QR_OK;
}

/* ---- the pragma ---- */

static const struct qr_channel_info *find_noise(const struct qasm_reader *r, uint32_t token) {
    const struct qr_channel_info *info = NULL;
    for (size_t i = 0; (info = qr_channel_info_at(i)); i++)
        if (info->braket && qasm_word_is(r, token, info->braket)) break;
    return info;
}

static enum qr_code fail_unknown(struct qasm_reader *r, uint32_t token) {
    qr_auto(qr_buf_free) struct qr_buf all = {0};
    const struct qr_channel_info *info;
    for (size_t i = 0; (info = qr_channel_info_at(i)) && !info->kraus; i++)
        if (info->braket) qr_buf_printf(&all, "%s, ", info->braket);
    return qasm_fail(r, token, "expected a channel: %skraus", qr_buf_string(&all));
}

/* Channels on one qubit act on each. */
static enum qr_code read_qubits(struct qasm_reader *r, uint32_t token, struct qr_channel *c) {
    uint16_t qubits[QR_MAX_QUBITS];
    unsigned n = 0, per = c->info->n_targets;
    struct qr_qubits seen = {0};
    do {
        struct qasm_selection s;
        uint32_t at = r->at;
        QR_TRY(qasm_select_qubits(r, &s));
        for (uint32_t i = 0; i < s.n; i++, n++) {
            uint16_t q = (uint16_t)r->pool[s.first + i];
            if (qr_qubits_has(&seen, q))
                return qasm_fail(r, at, "a qubit is given twice; give different qubits");
            qr_qubits_add(&seen, q);
            qubits[n] = q;
        }
    } while (qasm_skip(r, ','));
    if (per == 2 ? n != 2 : !n)
        return qasm_fail(r, token, "%s acts on %u qubit%s, but %u are given; correct the qubits",
                         c->info->braket, per, per == 1 ? "" : "s", n);
    for (unsigned i = 0; i < n; i += per) {
        struct qr_channel copy = qr_channel_copy(c);
        enum qr_code code = qasm_channel_add(r, token, &copy, qubits + i);
        qr_channel_fini(&copy);
        if (code) return code;
    }
    return QR_OK;
}

static enum qr_code read_noise(struct qasm_reader *r, uint32_t token, struct qr_channel *c) {
    struct qr_err why;
    QR_TRY(qasm_expect(r, '(', "'(' and the strength"));
    QR_TRY(c->info->kraus ? read_operators(r, c) : read_strengths(r, c));
    QR_TRY(qasm_expect(r, ')', "')' and the qubits"));
    if (qr_channel_check(c, &why)) return qasm_fail(r, token, "%s", why.msg);
    return read_qubits(r, token, c);
}

enum qr_code qasm_noise(struct qasm_reader *r) {
    uint32_t token = r->at;
    struct qr_channel c = {.info = find_noise(r, token)};
    if (!c.info) return fail_unknown(r, token);
    if (r->in_gate) return qasm_fail(r, token, "a gate has no noise; write the pragma outside");
    qasm_next(r);
    enum qr_code code = read_noise(r, token, &c);
    qr_channel_fini(&c);
    return code;
}
