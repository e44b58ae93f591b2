/* format/tfq_program.c — decodes TensorFlow Quantum's programs and Pauli sums. Start reading at
 * qr_tfq_program_decode(). */
#include "format/tfq_program.h"

#include <math.h>
#include <string.h>

#include "base/protobuf.h"
#include "base/text.h"

static const char gate_set[] = "tfq_gate_set";

/* ---- fields ---- */

static bool is_message(const struct qr_protobuf_field *f, uint64_t number) {
    return qr_protobuf_is(f, number, QR_PROTOBUF_BYTES);
}

/* The last field of this number, as of a message with one. */
static struct qr_bytes field_of(struct qr_bytes message, uint64_t number, bool *bad) {
    struct qr_protobuf_reader r = qr_protobuf_reader(message);
    struct qr_protobuf_field f;
    struct qr_bytes ret = {0};
    while (qr_protobuf_next(&r, &f))
        if (is_message(&f, number)) ret = f.bytes;
    *bad |= r.bad;
    return ret;
}

/* Bytes of a text in messages. */
static int shown(struct qr_bytes text) { return text.n < 40 ? (int)text.n : 40; }

static bool is_text(struct qr_bytes b) {
    uint32_t c;
    for (size_t at = 0, n; at < b.n; at += n) {
        n = qr_utf8_next(b.p + at, b.n - at, &c);
        if (!n || c < ' ' || c == 0x7f) return false;
    }
    return true;
}

static double rounded(double v) {
    double r = rint(v * 1e6) / 1e6;
    return isfinite(r) ? r : v;
}
static double float_of(uint64_t bits) {
    union {
        uint32_t u;
        float f;
    } v = {.u = (uint32_t)bits};
    return rounded((double)v.f);
}

/* Removes the NULs after the last field of the message. */
static struct qr_bytes without_padding(struct qr_bytes b) {
    size_t n = b.n;
    struct qr_protobuf_reader r = qr_protobuf_reader(b);
    struct qr_protobuf_field f;
    while (n && !b.p[n - 1]) n--;
    /* A message may end with NULs of its own. */
    const uint8_t *end = b.p + n;
    while (r.p < end && qr_protobuf_next(&r, &f)) {
    }
    return qr_bytes_of(b.p, (size_t)(r.p - b.p));
}

/* ---- programs ---- */

bool qr_tfq_is_program(struct qr_bytes b) {
    size_t n = sizeof gate_set - 1;
    return b.n >= 4 + n && b.p[0] == 0x0a && b.p[2] == 0x0a && b.p[3] == n &&
           memcmp(b.p + 4, gate_set, n) == 0;
}

struct program_reader {
    enum qr_code (*each)(void *context, const struct qr_tfq_operation *operation);
    void *context;
    struct qr_err *err;
};

static enum qr_code fail_malformed(const char *what, struct qr_err *err) {
    return qr_fail(err, QR_INVALID_ARGUMENT, "%s is malformed; write it with tfq.convert_to_tensor",
                   what);
}

static void decode_value(struct qr_bytes value, struct qr_tfq_arg *to, bool *ret_known, bool *bad) {
    struct qr_protobuf_reader r = qr_protobuf_reader(value);
    struct qr_protobuf_field f;
    while (qr_protobuf_next(&r, &f)) {
        to->kind = QR_TFQ_NUMBER;
        *ret_known = true;
        if (qr_protobuf_is(&f, 1, QR_PROTOBUF_FIXED32)) to->number = float_of(f.value);
        else if (qr_protobuf_is(&f, 4, QR_PROTOBUF_FIXED64))
            to->number = qr_double_of_bits(f.value);
        else if (is_message(&f, 3)) to->kind = QR_TFQ_STRING, to->text = f.bytes;
        else *ret_known = false;
    }
    *bad |= r.bad;
}

/* An entry of the map of arguments. */
static enum qr_code decode_arg(struct qr_bytes entry, struct qr_tfq_arg *to, struct qr_err *err) {
    bool bad = false, known = false;
    *to = (struct qr_tfq_arg){.name = field_of(entry, 1, &bad)};
    struct qr_protobuf_reader r = qr_protobuf_reader(field_of(entry, 2, &bad));
    struct qr_protobuf_field f;
    while (qr_protobuf_next(&r, &f)) {
        known = is_message(&f, 2);
        if (known) to->kind = QR_TFQ_SYMBOL, to->text = f.bytes;
        if (is_message(&f, 1)) decode_value(f.bytes, to, &known, &bad);
    }
    int n = shown(to->name);
    const char *name = to->name.n ? (const char *)to->name.p : "";
    if (bad || r.bad) return fail_malformed("an argument", err);
    if (!known)
        return qr_fail(
            err, QR_UNIMPLEMENTED,
            "args['%.*s'] is not a number, symbol or text; TensorFlow Quantum's gates have "
            "no other",
            n, name);
    if (!isfinite(to->number))
        return qr_fail(err, QR_INVALID_ARGUMENT, "args['%.*s'] is not a finite number", n, name);
    if (!is_text(to->text))
        return qr_fail(err, QR_INVALID_ARGUMENT, "args['%.*s'] is not UTF-8 text", n, name);
    return QR_OK;
}

static enum qr_code decode_operation(const struct program_reader *p, struct qr_bytes message,
                                     struct qr_tfq_operation *to) {
    struct qr_protobuf_reader r = qr_protobuf_reader(message);
    struct qr_protobuf_field f;
    bool bad = false;
    to->n_qubits = to->n_args = 0;
    to->gate = (struct qr_bytes){0};
    while (qr_protobuf_next(&r, &f)) {
        if (is_message(&f, 1)) to->gate = field_of(f.bytes, 1, &bad);
        if ((is_message(&f, 2) && to->n_args == QR_TFQ_ARGS) ||
            (is_message(&f, 3) && to->n_qubits == QR_TFQ_QUBITS))
            return qr_fail(p->err, QR_INVALID_ARGUMENT,
                           "more than %d arguments or %d qubits; TensorFlow Quantum's gates have "
                           "fewer",
                           QR_TFQ_ARGS, QR_TFQ_QUBITS);
        if (is_message(&f, 2)) QR_TRY(decode_arg(f.bytes, &to->args[to->n_args++], p->err));
        if (is_message(&f, 3)) to->qubits[to->n_qubits++] = field_of(f.bytes, 2, &bad);
    }
    return r.bad || bad ? fail_malformed("the operation", p->err) : QR_OK;
}

static enum qr_code decode_moment(const struct program_reader *p, struct qr_bytes message,
                                  struct qr_tfq_operation *to) {
    struct qr_protobuf_reader r = qr_protobuf_reader(message);
    struct qr_protobuf_field f;
    for (to->place = 0; qr_protobuf_next(&r, &f);) {
        if (!is_message(&f, 1)) continue;
        if (decode_operation(p, f.bytes, to))
            return qr_wrap(p->err, "moments[%zu].operations[%zu]", to->moment, to->place);
        QR_TRY(p->each(p->context, to));
        to->place++;
    }
    return r.bad ? fail_malformed("the program", p->err) : QR_OK;
}

static enum qr_code decode_circuit(const struct program_reader *p, struct qr_bytes message) {
    struct qr_protobuf_reader r = qr_protobuf_reader(message);
    struct qr_protobuf_field f;
    struct qr_tfq_operation operation = {.moment = 0};
    while (qr_protobuf_next(&r, &f)) {
        if (!is_message(&f, 2)) continue;
        QR_TRY(decode_moment(p, f.bytes, &operation));
        operation.moment++;
    }
    return r.bad ? fail_malformed("the program", p->err) : QR_OK;
}

enum qr_code qr_tfq_program_decode(struct qr_bytes bytes,
                                   enum qr_code (*each)(void *context,
                                                        const struct qr_tfq_operation *operation),
                                   void *context, struct qr_err *err) {
    const struct program_reader p = {each, context, err};
    struct qr_bytes message = without_padding(bytes);
    bool bad = false;
    struct qr_bytes language = field_of(message, 1, &bad), set = field_of(language, 1, &bad);
    if (bad) return fail_malformed("the program", err);
    if (!qr_tfq_is(set, gate_set))
        return qr_fail(err, QR_INVALID_ARGUMENT,
                       "the program's gate set is '%.*s', not '%s'; write it with "
                       "tfq.convert_to_tensor",
                       shown(set), set.n ? (const char *)set.p : "", gate_set);
    if (field_of(message, 3, &bad).p)
        return qr_fail(err, QR_UNIMPLEMENTED,
                       "the program is a schedule; only circuits can be simulated");
    return decode_circuit(&p, field_of(message, 2, &bad));
}

/* ---- Pauli sums ---- */

static enum qr_code decode_pauli(struct qr_bytes message, struct qr_tfq_term *to,
                                 struct qr_err *err) {
    bool bad = false;
    if (to->n == QR_TFQ_PAULIS)
        return qr_fail(err, QR_INVALID_ARGUMENT, "more than %d Paulis", QR_TFQ_PAULIS);
    struct qr_bytes pauli = field_of(message, 2, &bad);
    if (bad) return fail_malformed("the Pauli sum", err);
    if (pauli.n != 1 || !memchr("XYZ", *pauli.p, 3))
        return qr_fail(err, QR_INVALID_ARGUMENT, "paulis[%u] is not X, Y or Z", to->n);
    to->paulis[to->n++] = (struct qr_tfq_pauli){field_of(message, 1, &bad), (char)*pauli.p};
    return QR_OK;
}

static enum qr_code decode_term(struct qr_bytes message, struct qr_tfq_term *to,
                                struct qr_err *err) {
    struct qr_protobuf_reader r = qr_protobuf_reader(message);
    struct qr_protobuf_field f;
    to->re = to->im = 0;
    to->n = 0;
    while (qr_protobuf_next(&r, &f)) {
        if (qr_protobuf_is(&f, 1, QR_PROTOBUF_FIXED32)) to->re = float_of(f.value);
        if (qr_protobuf_is(&f, 2, QR_PROTOBUF_FIXED32)) to->im = float_of(f.value);
        if (is_message(&f, 3) && decode_pauli(f.bytes, to, err))
            return qr_wrap(err, "terms[%zu]", to->number);
    }
    return r.bad ? fail_malformed("the Pauli sum", err) : QR_OK;
}

enum qr_code qr_tfq_sum_decode(struct qr_bytes bytes,
                               enum qr_code (*each)(void *context, const struct qr_tfq_term *term),
                               void *context, struct qr_err *err) {
    struct qr_protobuf_reader r = qr_protobuf_reader(without_padding(bytes));
    struct qr_protobuf_field f;
    struct qr_tfq_term term = {.number = 0};
    if (qr_tfq_is_program(bytes))
        return qr_fail(err, QR_INVALID_ARGUMENT, "a program stands where a Pauli sum is expected");
    while (qr_protobuf_next(&r, &f)) {
        if (!is_message(&f, 1)) continue;
        QR_TRY(decode_term(f.bytes, &term, err));
        QR_TRY(each(context, &term));
        term.number++;
    }
    return r.bad ? fail_malformed("the Pauli sum", err) : QR_OK;
}
