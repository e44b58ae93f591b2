/* cirq/names.c — qubits and symbols by their names: numbers in order of first use, Cirq's order of
 * qubits, names of parameters. Start reading at cirq_qubit_number() and cirq_symbol(). */
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "cirq/cirq_impl.h"

/* ---- tables ---- */

static uint32_t name_slot(const struct cirq_names *names, const char *text) {
    uint32_t mask = 2 * names->cap - 1, hash = 2166136261u;
    for (const char *s = text; *s; s++) hash = (hash ^ (uint8_t)*s) * 16777619u;
    uint32_t at = (hash ^ hash >> 15) & mask;
    while (names->slots[at] && strcmp(names->text[names->slots[at] - 1], text) != 0)
        at = (at + 1) & mask;
    return at;
}

uint32_t cirq_name_number(struct cirq_names *names, const char *text) {
    if (names->n == names->cap) {
        names->cap = names->cap ? 2 * names->cap : 64;
        names->text = qr_xreallocarray(names->text, names->cap, sizeof *names->text);
        free(names->slots);
        names->slots = qr_xcalloc(2 * names->cap, sizeof *names->slots);
        for (uint32_t i = 0; i < names->n; i++)
            names->slots[name_slot(names, names->text[i])] = i + 1;
    }
    uint32_t at = name_slot(names, text);
    if (!names->slots[at]) {
        names->text[names->n++] = qr_xstrdup(text);
        names->slots[at] = names->n;
    }
    return names->slots[at] - 1;
}

void cirq_names_fini(struct cirq_names *names) {
    for (uint32_t i = 0; i < names->n; i++) free(names->text[i]);
    free(names->text);
    free(names->slots);
}

/* ---- qubits ---- */

enum { QUBIT_KEY_BYTES = 64, QUBIT_NAME_BYTES = 1024 };

enum qr_code cirq_qubit_number(struct cirq_reader *r, const char *path,
                               const struct cirq_qubit *qubit, uint16_t *ret) {
    char key[QUBIT_KEY_BYTES];
    qr_auto(qr_free_p) char *named = NULL;
    if (qubit->name && strlen(qubit->name) > QUBIT_NAME_BYTES)
        return qr_fail(r->err, QR_INVALID_ARGUMENT, "%s: a qubit's name has at most %d bytes", path,
                       QUBIT_NAME_BYTES);
    if (qubit->name) named = qr_xasprintf("n%s", qubit->name);
    else
        snprintf(key, sizeof key, qubit->kind == CIRQ_GRID ? "g%lld_%lld" : "l%lld%lld",
                 (long long)qubit->row, (long long)qubit->column);
    uint32_t before = r->qubit_names.n,
             number = cirq_name_number(&r->qubit_names, named ? named : key);
    if (number == QR_MAX_QUBITS)
        return qr_fail(r->err, QR_INVALID_ARGUMENT, "%s: here the circuit exceeds %d qubits", path,
                       QR_MAX_QUBITS);
    if (number == before) {
        r->qubits[number] = *qubit;
        if (named) r->qubits[number].name = r->qubit_names.text[number] + 1;
    }
    *ret = (uint16_t)number;
    return QR_OK;
}

/* Cirq compares runs of digits as numbers: it pads them to eight digits, then appends ":" and their
 * length. */
static void put_padded(const char *name, struct qr_buf *to) {
    while (*name) {
        size_t digits = strspn(name, "0123456789"), others = strcspn(name, "0123456789");
        if (digits)
            qr_buf_printf(to, "%.*s%.*s:%zu", digits < 8 ? (int)(8 - digits) : 0, "00000000",
                          (int)digits, name, digits);
        else qr_buf_put(to, name, others);
        name += digits ? digits : others;
    }
}

static int compare_names(const char *a, const char *b) {
    qr_auto(qr_buf_free) struct qr_buf x = {0}, y = {0};
    put_padded(a, &x);
    put_padded(b, &y);
    return strcmp(qr_buf_string(&x), qr_buf_string(&y));
}

static int compare_qubits(const void *a, const void *b) {
    const struct cirq_qubit *x = *(const struct cirq_qubit *const *)a,
                            *y = *(const struct cirq_qubit *const *)b;
    if (x->kind != y->kind) return x->kind < y->kind ? -1 : 1;
    if (x->kind == CIRQ_NAMED) return compare_names(x->name, y->name);
    if (x->row != y->row) return x->row < y->row ? -1 : 1;
    return x->column < y->column ? -1 : x->column > y->column;
}

void cirq_qubits_sort(const struct cirq_reader *r, uint16_t ret[QR_MAX_QUBITS], unsigned *ret_n) {
    const struct cirq_qubit *sorted[QR_MAX_QUBITS];
    unsigned n = 0;
    for (unsigned q = qr_qubits_first(&r->used); q < QR_MAX_QUBITS; q = qr_qubits_next(&r->used, q))
        sorted[n++] = &r->qubits[q];
    qsort(sorted, n, sizeof *sorted, compare_qubits);
    for (unsigned i = 0; i < n; i++) ret[sorted[i] - r->qubits] = (uint16_t)i;
    *ret_n = n;
}

/* ---- symbols ---- */

static bool is_letter(char ch) {
    return ch == '_' || (ch >= 'a' && ch <= 'z') || (ch >= 'A' && ch <= 'Z') || (uint8_t)ch >= 0x80;
}
static bool is_digit(char ch) { return ch >= '0' && ch <= '9'; }

/* Of "w[12]": the place of the bracket; else the length. */
static size_t bracket_of(const char *name) {
    size_t n = strlen(name), at = strcspn(name, "["), digits = n;
    if (at == n || at == 0 || name[n - 1] != ']') return n;
    digits = strspn(name + at + 1, "0123456789");
    return digits && at + digits + 2 == n ? at : n;
}

enum { ADDED_BYTES = 3 };

/* A parameter's name in expressions, at most ADDED_BYTES longer than the symbol's. */
static void parameter_text(const char *name, char *ret) {
    size_t n = 0, bracket = bracket_of(name);
    if (!is_letter(*name)) ret[n++] = '_';
    for (size_t i = 0; name[i]; i++) {
        bool kept = is_letter(name[i]) || is_digit(name[i]) || name[i] == '.' || i >= bracket;
        /* x.a and x[0] would be inputs. */
        if (i == 1 && *name == 'x' && (name[1] == '.' || name[1] == '[')) ret[n++] = '_';
        ret[n++] = kept ? name[i] : '_';
    }
    ret[n] = 0;
    if (!qr_expression_is_name(ret)) ret[n++] = '_', ret[n] = 0;
}

/* The number of a symbol, which is used. */
static uint32_t symbol_number(struct cirq_reader *r, const char *name) {
    uint32_t before = r->symbols.n, number = cirq_name_number(&r->symbols, name);
    if (number == before) {
        r->texts = qr_xreallocarray(r->texts, r->symbols.cap, sizeof *r->texts);
        r->texts[number] = NULL;
    }
    if (number < r->n_inputs) r->is_used[number] = true;
    return number;
}

enum qr_code cirq_symbol_text(struct cirq_reader *r, const char *path, const char *name,
                              const char **ret) {
    char text[QR_EXPRESSION_NAME + 1];
    if (strlen(name) > QR_EXPRESSION_NAME - ADDED_BYTES)
        return qr_fail(r->err, QR_INVALID_ARGUMENT,
                       "%s: a symbol's name has at most %d bytes; shorten it", path,
                       QR_EXPRESSION_NAME - ADDED_BYTES);
    uint32_t number = symbol_number(r, name);
    *ret = r->texts[number];
    if (*ret) return QR_OK;
    if (number < r->n_inputs) snprintf(text, sizeof text, "x[%u]", number);
    else parameter_text(name, text);
    *ret = r->texts[number] = qr_xstrdup(text);
    uint32_t before = r->symbol_texts.n;
    if (cirq_name_number(&r->symbol_texts, text) < before)
        return qr_fail(r->err, QR_INVALID_ARGUMENT,
                       "%s: the symbol '%s' and another would both be called '%s'; rename it", path,
                       name, text);
    return QR_OK;
}

enum qr_code cirq_symbol_arg(struct cirq_reader *r, const char *path, const char *name,
                             struct qr_gate_arg *ret) {
    uint32_t number = symbol_number(r, name);
    *ret = (struct qr_gate_arg){QR_ARG_DATA, 1, number};
    if (number < r->n_inputs) return QR_OK;
    ret->kind = QR_ARG_PARAMETER;
    return qr_gate_parameter_ref(&r->gates, name, false, path, &ret->index);
}

enum qr_code cirq_inputs_add(struct cirq_reader *r) {
    r->is_used = qr_xcalloc(r->n_inputs + 1, sizeof *r->is_used);
    for (uint32_t i = 0; i < r->n_inputs; i++) {
        if (symbol_number(r, r->inputs[i]) != i)
            return qr_fail(r->err, QR_INVALID_ARGUMENT, "the input '%.64s' is given twice",
                           r->inputs[i]);
        r->is_used[i] = false;
    }
    return QR_OK;
}
