/* qasm/operands.c — symbols and their scopes, expressions, types, indexed names. Start reading at
 * qasm_expression(). */
#include <limits.h>
#include <math.h>
#include <string.h>

#include "base/mem.h"
#include "base/parse.h"
#include "qasm/qasm_impl.h"

enum { MAX_ITEMS = 1 << 20, MAX_ARGUMENTS = 2 };

/* ---- symbols ---- */

/* A gate or subroutine sees its own symbols, and constants, gates and subroutines of the program.
 */
static bool is_visible(const struct qasm_reader *r, uint32_t i) {
    const struct qasm_symbol *s = &r->symbols[i];
    return i >= r->frame || (i < r->n_known && (s->kind >= QASM_GATE || s->items.constant));
}

static struct qasm_symbol *find_symbol(const struct qasm_reader *r, uint32_t name,
                                       enum qasm_symbol_kind least) {
    uint32_t i = r->names[name].top;
    while (i && !(is_visible(r, i - 1) && r->symbols[i - 1].kind >= least))
        i = r->symbols[i - 1].shadowed;
    return i ? &r->symbols[i - 1] : NULL;
}

struct qasm_symbol *qasm_find(const struct qasm_reader *r, uint32_t name) {
    return find_symbol(r, name, QASM_VARIABLE);
}

struct qasm_symbol *qasm_find_called(const struct qasm_reader *r, uint32_t name) {
    return find_symbol(r, name, r->version == 2 ? QASM_GATE : QASM_VARIABLE);
}

enum qr_code qasm_declare(struct qasm_reader *r, uint32_t token, const struct qasm_symbol *symbol) {
    struct qasm_name *name = &r->names[symbol->name];
    if (name->top > r->start)
        return qasm_fail(r, token, "'%.*s' is declared already; choose another name",
                         QASM_TEXT(r, symbol->name));
    if (r->n_symbols == r->cap_symbols) {
        r->cap_symbols = r->cap_symbols ? 2 * r->cap_symbols : 64;
        r->symbols = qr_xreallocarray(r->symbols, r->cap_symbols, sizeof *r->symbols);
    }
    r->symbols[r->n_symbols] = *symbol;
    r->symbols[r->n_symbols].shadowed = name->top;
    r->symbols[r->n_symbols].number = r->n_symbols;
    name->top = ++r->n_symbols;
    return QR_OK;
}

struct qasm_scope qasm_scope_open(struct qasm_reader *r) {
    struct qasm_scope scope = {r->n_symbols, r->n_pool, r->n_cells, r->start, r->frame, r->n_known};
    r->start = r->n_symbols;
    return scope;
}

struct qasm_scope qasm_frame_open(struct qasm_reader *r, uint32_t n_known) {
    struct qasm_scope scope = qasm_scope_open(r);
    r->frame = r->n_symbols;
    r->n_known = n_known;
    return scope;
}

void qasm_scope_close(struct qasm_reader *r, const struct qasm_scope *scope) {
    while (r->n_symbols > scope->n_symbols) {
        const struct qasm_symbol *s = &r->symbols[--r->n_symbols];
        r->names[s->name].top = s->shadowed;
    }
    r->n_pool = scope->n_pool;
    r->n_cells = scope->n_cells;
    r->start = scope->start;
    r->frame = scope->frame;
    r->n_known = scope->n_known;
}

uint32_t qasm_pool_add(struct qasm_reader *r, uint32_t n) {
    while (r->n_pool + n > r->cap_pool) {
        r->cap_pool = r->cap_pool ? 2 * r->cap_pool : 1024;
        r->pool = qr_xreallocarray(r->pool, r->cap_pool, sizeof *r->pool);
    }
    r->n_pool += n;
    return r->n_pool - n;
}

uint32_t qasm_cells_add(struct qasm_reader *r, uint32_t n) {
    while (r->n_cells + n > r->cap_cells) {
        r->cap_cells = r->cap_cells ? 2 * r->cap_cells : 256;
        r->cells = qr_xreallocarray(r->cells, r->cap_cells, sizeof *r->cells);
        r->cell_bits = qr_xreallocarray(r->cell_bits, r->cap_cells, sizeof *r->cell_bits);
    }
    for (uint32_t i = 0; i < n; i++) r->cells[r->n_cells + i] = qasm_whole(0);
    if (n) memset(r->cell_bits + r->n_cells, 0, n * sizeof *r->cell_bits);
    r->n_cells += n;
    return r->n_cells - n;
}

/* ---- ranges and indices ---- */

static enum qr_code pool_push(struct qasm_reader *r, uint32_t token, int64_t v) {
    if (v < INT32_MIN || v > INT32_MAX || r->n_pool >= MAX_ITEMS)
        return qasm_fail(r, token,
                         "this list has more than %d elements, or too large ones; use a "
                         "shorter one",
                         MAX_ITEMS);
    uint32_t at = qasm_pool_add(r, 1);
    r->pool[at] = (uint32_t)(int32_t)v;
    r->steps++;
    return QR_OK;
}

static enum qr_code read_integer(struct qasm_reader *r, const char *what, int64_t low, int64_t high,
                                 int64_t *ret) {
    struct qasm_value v;
    uint32_t token = r->at;
    QR_TRY(qasm_expression(r, &v));
    return qasm_integer(r, token, v, what, low, high, ret);
}

static enum qr_code read_set(struct qasm_reader *r) {
    uint32_t token = r->at;
    int64_t v;
    qasm_next(r);
    while (!qasm_is(r, '}')) {
        QR_TRY(read_integer(r, "an element of the set", INT32_MIN, INT32_MAX, &v));
        QR_TRY(pool_push(r, token, v));
        if (!qasm_skip(r, ',')) break;
    }
    return qasm_expect(r, '}', "',' or '}'");
}

/* Elements start, start + step ... to stop, which is included. */
static enum qr_code push_range(struct qasm_reader *r, uint32_t token, int64_t start, int64_t step,
                               int64_t stop) {
    if (!step) return qasm_fail(r, token, "the step of the range is 0; give another");
    for (int64_t i = start; step > 0 ? i <= stop : i >= stop; i += step)
        QR_TRY(pool_push(r, token, i));
    return QR_OK;
}

static int64_t from_end(int64_t v, uint32_t n) { return v < 0 && n ? v + n : v; }

enum qr_code qasm_range(struct qasm_reader *r, uint32_t n, uint32_t *ret_first, uint32_t *ret_n,
                        bool *ret_one) {
    uint32_t token = r->at;
    int64_t part[3] = {0, 1, 0};
    bool given[3] = {false, false, false};
    unsigned parts = 0;
    *ret_first = r->n_pool;
    *ret_one = false;
    if (qasm_is(r, '{')) {
        QR_TRY(read_set(r));
    } else {
        for (;; parts++) {
            if (!qasm_is(r, ':') && !qasm_is(r, ']') && !qasm_is(r, ',')) {
                QR_TRY(read_integer(r, "an index", INT32_MIN, INT32_MAX, &part[parts]));
                given[parts] = true;
            }
            if (parts == 2 || !qasm_is(r, ':')) break;
            qasm_next(r);
        }
        if (!parts && !given[0]) return qasm_fail(r, r->at, "an index is missing; give one");
        if (parts == 1) part[2] = part[1], given[2] = given[1], part[1] = 1;
        if (parts == 2 && !given[1]) return qasm_fail(r, token, "the step is missing; give one");
        if (!n && parts && !(given[0] && given[2]))
            return qasm_fail(r, token, "this range has no start or no end; give both");
        if (!given[0]) part[0] = part[1] < 0 ? (int64_t)n - 1 : 0;
        if (parts && !given[2]) part[2] = part[1] < 0 ? 0 : (int64_t)n - 1;
        *ret_one = !parts;
        if (parts)
            QR_TRY(push_range(r, token, from_end(part[0], n), part[1], from_end(part[2], n)));
        else QR_TRY(pool_push(r, token, part[0]));
    }
    *ret_n = r->n_pool - *ret_first;
    for (uint32_t i = 0; i < *ret_n && n; i++) {
        int64_t v = from_end((int32_t)r->pool[*ret_first + i], n);
        if (v < 0 || v >= n)
            return qasm_fail(r, token, "the index %lld is out of range; there %s 0 to %u",
                             (long long)(int32_t)r->pool[*ret_first + i], n == 1 ? "is" : "are",
                             n - 1);
        r->pool[*ret_first + i] = (uint32_t)v;
    }
    return QR_OK;
}

static void drop_dimension(struct qasm_selection *s, unsigned d) {
    memmove(&s->dims[d], &s->dims[d + 1], (s->n_dims - d - 1u) * sizeof *s->dims);
    s->n_dims--;
}

/* Replaces dimension d of the selection by the chosen indices. */
static enum qr_code choose_items(struct qasm_reader *r, uint32_t token, unsigned d, uint32_t first,
                                 uint32_t n, bool one, struct qasm_selection *s) {
    uint32_t outer = 1, inner = 1, length = s->dims[d];
    for (unsigned k = 0; k < d; k++) outer *= s->dims[k];
    for (unsigned k = d + 1; k < s->n_dims; k++) inner *= s->dims[k];
    if (one && outer == 1) { /* consecutive entries */
        s->first += r->pool[first] * inner;
        s->n = inner;
        drop_dimension(s, d);
        return QR_OK;
    }
    if ((uint64_t)outer * n * inner > MAX_ITEMS)
        return qasm_fail(r, token, "more than %d elements are selected; select fewer", MAX_ITEMS);
    uint32_t at = qasm_pool_add(r, outer * n * inner), *pool = r->pool, to = at;
    for (uint32_t a = 0; a < outer; a++)
        for (uint32_t i = 0; i < n; i++)
            for (uint32_t b = 0; b < inner; b++)
                pool[to++] = pool[s->first + (a * length + pool[first + i]) * inner + b];
    r->steps += outer * n * inner;
    s->first = at;
    s->n = outer * n * inner;
    s->dims[d] = n;
    if (one) drop_dimension(s, d);
    return qasm_bounded(r, token);
}

/* [index, ...] */
static enum qr_code select_indices(struct qasm_reader *r, struct qasm_selection *s) {
    unsigned d = 0;
    qasm_next(r);
    do {
        uint32_t token = r->at, first, n;
        bool one;
        if (d == s->n_dims)
            return qasm_fail(r, token, "there are no more dimensions to index; remove the index");
        if (!s->dims[d]) return qasm_fail(r, token, "there is nothing to index; remove the index");
        QR_TRY(qasm_range(r, s->dims[d], &first, &n, &one));
        QR_TRY(choose_items(r, token, d, first, n, one, s));
        d += !one;
    } while (qasm_skip(r, ',') && !qasm_is(r, ']'));
    return qasm_expect(r, ']', "']' after the index");
}

/* q[3] of a register of one dimension, which most indices are; false: it is none. */
static bool select_one(struct qasm_reader *r, struct qasm_selection *s) {
    const struct qasm_token *t = qasm_here(r);
    if (s->n_dims != 1 || t[0].kind != '[' || t[1].kind != QASM_INTEGER || t[2].kind != ']' ||
        t[1].value >= s->dims[0])
        return false;
    *s = (struct qasm_selection){.qubits = s->qubits,
                                 .constant = s->constant,
                                 .width = s->width,
                                 .type = s->type,
                                 .first = s->first + t[1].value,
                                 .n = 1};
    r->at += 3;
    r->steps += 3;
    return true;
}

/* $0: the circuit has as many qubits as the largest number demands. */
static enum qr_code select_hardware(struct qasm_reader *r, struct qasm_selection *ret) {
    uint32_t qubit = qasm_here(r)->value;
    if (qubit == QASM_UNNUMBERED)
        return qasm_fail(r, r->at, "'$' is not followed by the number of a qubit; write $0");
    if (r->in_gate) return qasm_fail(r, r->at, "a gate has no qubits by number; use its arguments");
    if (r->virtual)
        return qasm_refuse(r, r->at, "qubits by number and declared ones are mixed; use one kind");
    if (qubit >= QR_MAX_QUBITS)
        return qasm_refuse(r, r->at, "a circuit has at most %d qubits; use smaller numbers",
                           QR_MAX_QUBITS);
    r->physical = true;
    if (qubit >= r->n_qubits) r->n_qubits = qubit + 1;
    *ret = (struct qasm_selection){.qubits = true, .first = qasm_pool_add(r, 1), .n = 1};
    r->pool[ret->first] = qubit;
    qasm_next(r);
    return QR_OK;
}

enum qr_code qasm_select(struct qasm_reader *r, struct qasm_selection *ret) {
    if (qasm_is(r, QASM_HARDWARE)) return select_hardware(r, ret);
    uint32_t token = r->at, name;
    QR_TRY(qasm_expect_name(r, "a name", &name));
    const struct qasm_symbol *s = qasm_find(r, name);
    if (!s)
        return qasm_fail(r, token, "'%.*s' is not declared%s", QASM_TEXT(r, name),
                         r->frame ? " here: a definition sees its arguments and constants; pass it"
                                  : "; declare it before");
    if (s->kind >= QASM_GATE)
        return qasm_fail(r, token, "'%.*s' is a %s, not a variable; use another name",
                         QASM_TEXT(r, name), s->kind == QASM_GATE ? "gate" : "subroutine");
    *ret = s->items;
    if (select_one(r, ret)) return QR_OK;
    while (qasm_is(r, '[') && ret->n_dims) QR_TRY(select_indices(r, ret));
    return QR_OK;
}

enum qr_code qasm_select_qubits(struct qasm_reader *r, struct qasm_selection *ret) {
    uint32_t token = r->at;
    QR_TRY(qasm_select(r, ret));
    if (!ret->qubits)
        return qasm_fail(r, token, "this is a classical variable; a qubit must be here");
    if (qasm_is(r, '[')) return qasm_fail(r, r->at, "a single qubit has no index; remove it");
    return QR_OK;
}

/* ---- types ---- */

bool qasm_is_type(const struct qasm_reader *r) {
    uint32_t key = qasm_here(r)->value;
    return qasm_is(r, QASM_NAME) && key >= QASM_KEY_bit && key <= QASM_KEY_stretch;
}

enum qr_code qasm_type(struct qasm_reader *r, enum qasm_type *ret_type, unsigned *ret_width) {
    static const enum qasm_type types[] = {
        [QASM_KEY_bit] = QASM_BIT,     [QASM_KEY_int] = QASM_INT,
        [QASM_KEY_uint] = QASM_UINT,   [QASM_KEY_float] = QASM_FLOATING,
        [QASM_KEY_angle] = QASM_ANGLE, [QASM_KEY_bool] = QASM_BOOL};
    uint32_t key = qasm_here(r)->value;
    int64_t width = 0;
    if (!qasm_is_type(r)) return qasm_fail(r, r->at, "expected a type, such as int or float");
    if (key > QASM_KEY_bool)
        return qasm_refuse(r, r->at, "qring cannot simulate %.*s: it has no %s; remove it",
                           QASM_TEXT(r, key),
                           key == QASM_KEY_complex ? "complex variables" : "timing");
    *ret_type = types[key];
    qasm_next(r);
    if (key != QASM_KEY_bool && qasm_skip(r, '[')) {
        QR_TRY(read_integer(r, "the width of a type", 1, MAX_ITEMS, &width));
        QR_TRY(qasm_expect(r, ']', "']' after the width"));
    }
    *ret_width = (unsigned)width;
    return QR_OK;
}

/* ---- expressions ---- */

static enum qr_code read_unary(struct qasm_reader *r, struct qasm_value *ret);

static unsigned digit_of(char ch) {
    if (ch >= '0' && ch <= '9') return (unsigned)(ch - '0');
    ch |= 0x20;
    return ch >= 'a' && ch <= 'f' ? (unsigned)(ch - 'a' + 10) : UINT_MAX;
}

static enum qr_code read_integer_literal(struct qasm_reader *r, struct qasm_value *ret) {
    const struct qasm_token *t = qasm_here(r);
    if (t->value != QASM_UNNUMBERED) {
        *ret = qasm_whole(t->value);
        qasm_next(r);
        return QR_OK;
    }
    const char *p = (const char *)r->text.p + t->at, *end = p + t->bytes;
    uint64_t base = 10, v = 0;
    r->steps += t->bytes / 8;
    if (t->bytes > 2 && *p == '0' && strchr("xXbBoO", p[1])) {
        base = (p[1] | 0x20) == 'x' ? 16 : (p[1] | 0x20) == 'b' ? 2 : 8;
        p += 2;
    }
    for (; p < end; p++) {
        unsigned digit = digit_of(*p);
        if (*p == '_') continue;
        if (digit >= base) return qasm_fail(r, r->at, "this is not an integer; correct its digits");
        if (v > (INT64_MAX - digit) / base) {
            if (base != 10) return qasm_fail(r, r->at, "the integer exceeds 64 bits; use float");
            double real;
            if (!qr_parse_double_n((const char *)r->text.p + t->at, t->bytes, &real))
                return qasm_fail(r, r->at, "the integer exceeds 64 bits; use float");
            *ret = qasm_real(real);
            qasm_next(r);
            return QR_OK;
        }
        v = v * base + digit;
    }
    *ret = qasm_whole((int64_t)v);
    qasm_next(r);
    return QR_OK;
}

static enum qr_code read_float_literal(struct qasm_reader *r, struct qasm_value *ret) {
    const struct qasm_token *t = qasm_here(r);
    char text[64];
    size_t n = 0;
    double v;
    for (uint32_t i = 0; i < t->bytes && n < sizeof text; i++)
        if (r->text.p[t->at + i] != '_') text[n++] = (char)r->text.p[t->at + i];
    if (n == sizeof text || !qr_parse_double_n(text, n, &v))
        return qasm_fail(r, r->at,
                         "this is not a finite number of fewer than %zu digits; correct it",
                         sizeof text);
    *ret = qasm_real(v);
    qasm_next(r);
    return QR_OK;
}

/* "0101": the last digit is bit 0. */
static enum qr_code read_bits(struct qasm_reader *r, struct qasm_value *ret) {
    const struct qasm_token *t = qasm_here(r);
    int64_t v = 0;
    unsigned n = 0;
    for (uint32_t i = 1; i + 1 < t->bytes; i++) {
        uint8_t ch = r->text.p[t->at + i];
        if (ch == '_') continue;
        if ((ch != '0' && ch != '1') || ++n > 62)
            return qasm_fail(r, r->at, "a text of bits has 1 to 62 digits 0 and 1; correct it");
        v = 2 * v + (ch - '0');
    }
    *ret = qasm_typed(v, QASM_BIT, n);
    qasm_next(r);
    return QR_OK;
}

/* ( value, ... ) */
static enum qr_code read_arguments(struct qasm_reader *r, struct qasm_value ret[MAX_ARGUMENTS],
                                   unsigned *ret_n) {
    uint32_t token = r->at - 1;
    *ret_n = 0;
    QR_TRY(qasm_expect(r, '(', "'('"));
    while (!qasm_is(r, ')')) {
        if (*ret_n == MAX_ARGUMENTS)
            return qasm_fail(r, token,
                             "there is no function '%.*s' of more than %d arguments here; correct "
                             "the name",
                             QASM_TEXT(r, r->tokens[token].value), MAX_ARGUMENTS);
        QR_TRY(qasm_expression(r, &ret[(*ret_n)++]));
        if (!qasm_skip(r, ',')) break;
    }
    return qasm_expect(r, ')', "')'");
}

/* sizeof(array, dimension) */
static enum qr_code read_sizeof(struct qasm_reader *r, struct qasm_value *ret) {
    struct qasm_selection s;
    int64_t d = 0;
    qasm_next(r);
    QR_TRY(qasm_expect(r, '(', "'(' after sizeof"));
    uint32_t token = r->at;
    QR_TRY(qasm_select(r, &s));
    if (!s.n_dims) return qasm_fail(r, token, "this is not an array; sizeof takes one");
    if (qasm_skip(r, ',')) QR_TRY(read_integer(r, "the dimension", 0, s.n_dims - 1, &d));
    *ret = qasm_whole(s.dims[d]);
    return qasm_expect(r, ')', "')'");
}

static enum qr_code read_cast(struct qasm_reader *r, struct qasm_value *ret) {
    enum qasm_type type = QASM_BIT;
    unsigned width = 0;
    uint32_t token = r->at;
    QR_TRY(qasm_type(r, &type, &width));
    QR_TRY(qasm_expect(r, '(', "'(' after the type of a conversion"));
    QR_TRY(qasm_expression(r, ret));
    QR_TRY(qasm_expect(r, ')', "')'"));
    return qasm_convert(r, token, type, width, *ret, ret);
}

/* The value of a cell; that of a measured bit, if it is assumed. */
static struct qasm_value known_value(const struct qasm_reader *r, uint32_t cell) {
    struct qasm_value v = r->cells[cell];
    unsigned index = 0;
    if (v.kind == QASM_UNKNOWN && v.table) {
        const struct qasm_table *t = &r->tables[v.table - 1];
        for (unsigned i = 0; i < t->n; i++) {
            v.result = t->results[i];
            if (r->results[v.result - 1].assumed < 0) return v;
            index |= (unsigned)r->results[v.result - 1].assumed << i;
        }
        return t->values[index];
    }
    if (v.kind != QASM_UNKNOWN || v.derived || !v.result) return v;
    int8_t assumed = r->results[v.result - 1].assumed;
    return assumed < 0 ? v : qasm_whole(assumed);
}

/* The value of a variable, of one of its bits, or of a whole bit register. */
static enum qr_code read_variable(struct qasm_reader *r, struct qasm_value *ret) {
    struct qasm_selection s;
    uint32_t token = r->at;
    QR_TRY(qasm_select(r, &s));
    if (s.qubits) return qasm_fail(r, token, "this is a qubit; a number must be here");
    if (s.n_dims == 1 && s.type == QASM_BIT) {
        *ret = qasm_typed(0, QASM_BIT, s.n > 63 ? 64 : s.n);
        for (uint32_t i = 0; i < s.n; i++) {
            struct qasm_value bit = known_value(r, r->pool[s.first + i]);
            if (bit.kind == QASM_UNKNOWN) *ret = s.n > 1 ? qasm_derived(bit) : bit;
            else if (bit.whole && i > 62)
                return qasm_fail(
                    r, token, "a register of more than 63 bits is not an integer; index its bits");
            else if (ret->kind == QASM_WHOLE) ret->whole |= bit.whole << (i > 62 ? 62 : i);
        }
        return QR_OK;
    }
    if (s.n_dims) return qasm_fail(r, token, "this is an array; index one of its elements");
    *ret = known_value(r, r->pool[s.first]);
    if (s.type == QASM_BIT && ret->kind == QASM_WHOLE) ret->type = QASM_BIT;
    if (!qasm_skip(r, '[')) return QR_OK;
    int64_t bit, all;
    QR_TRY(read_integer(r, "the number of a bit", 0, 62, &bit));
    QR_TRY(qasm_expect(r, ']', "']'"));
    if (ret->kind == QASM_UNKNOWN) {
        *ret = qasm_derived(*ret);
        return QR_OK;
    }
    QR_TRY(qasm_integer(r, token, *ret, "the variable", INT64_MIN, INT64_MAX, &all));
    *ret = qasm_typed(all >> bit & 1, QASM_BIT, 0);
    return QR_OK;
}

bool qasm_register(const struct qasm_reader *r, struct qasm_selection *ret) {
    const struct qasm_token *t = qasm_here(r);
    if (!qasm_is_identifier(r, r->at) || t[1].kind != ';') return false;
    const struct qasm_symbol *s = qasm_find(r, t->value);
    if (!s || s->kind != QASM_VARIABLE || s->items.type != QASM_BIT || s->items.n_dims != 1)
        return false;
    *ret = s->items;
    return true;
}

void qasm_copy_bits(struct qasm_reader *r, const struct qasm_selection *from) {
    if (from->n > r->cap_returned) {
        r->cap_returned = from->n;
        r->returned_bits =
            qr_xreallocarray(r->returned_bits, r->cap_returned, sizeof *r->returned_bits);
    }
    for (uint32_t i = 0; i < from->n; i++)
        r->returned_bits[i] = known_value(r, r->pool[from->first + i]);
    r->n_returned = from->n;
    r->steps += from->n;
}

/* The bits of a decimal integer; false: it is none below 2^QR_MAX_QUBITS. */
static bool decimal_bits(const char *p, uint32_t n, struct qr_qubits *ret) {
    for (uint32_t i = 0; i < n; i++) {
        if (digit_of(p[i]) > 9) return false;
        unsigned __int128 carry = digit_of(p[i]);
        for (unsigned w = 0; w < QR_QUBITS_WORDS; w++, carry >>= 64) {
            carry += (unsigned __int128)ret->word[w] * 10;
            ret->word[w] = (uint64_t)carry;
        }
        if (carry) return false;
    }
    return true;
}

bool qasm_compare_register(struct qasm_reader *r, struct qasm_value *ret) {
    const struct qasm_token *t = qasm_here(r);
    struct qr_qubits wanted = {0};
    if (!qasm_is_identifier(r, r->at) || t[1].kind != QASM_EQUAL || t[2].kind != QASM_INTEGER ||
        t[3].kind != ')')
        return false;
    const struct qasm_symbol *s = qasm_find(r, t->value);
    if (!s || s->kind != QASM_VARIABLE || s->items.type != QASM_BIT || s->items.n_dims != 1 ||
        s->items.n > QR_MAX_QUBITS ||
        !decimal_bits((const char *)r->text.p + t[2].at, t[2].bytes, &wanted))
        return false;
    *ret = qasm_whole(qr_qubits_is_empty(&wanted) || qr_qubits_last(&wanted) < s->items.n);
    struct qasm_value open = *ret;
    for (uint32_t i = 0; i < s->items.n; i++) {
        struct qasm_value bit = known_value(r, r->pool[s->items.first + i]);
        if (bit.kind == QASM_UNKNOWN) open = qasm_derived(bit);
        else if (bit.whole != qr_qubits_has(&wanted, i)) ret->whole = 0;
    }
    if (ret->whole) *ret = open;
    r->compared = ret->kind == QASM_UNKNOWN;
    r->at += 3;
    r->steps += t[2].bytes + s->items.n;
    return true;
}

static bool constant_of(const struct qasm_reader *r, uint32_t name, double *ret) {
    static const struct {
        const char *text;
        double value;
    } constants[] = {{"pi", M_PI},    {"π", M_PI},    {"tau", 2 * M_PI},
                     {"τ", 2 * M_PI}, {"euler", M_E}, {"ℇ", M_E}};
    for (size_t i = 0; i < (r->version == 2 ? 1 : 6); i++)
        if (strlen(constants[i].text) == r->names[name].bytes &&
            memcmp(constants[i].text, r->names[name].text, r->names[name].bytes) == 0) {
            *ret = constants[i].value;
            return true;
        }
    return false;
}

static enum qr_code read_function(struct qasm_reader *r, struct qasm_value *ret) {
    struct qasm_value argument[MAX_ARGUMENTS];
    uint32_t token = r->at;
    bool known;
    unsigned n;
    qasm_next(r);
    QR_TRY(read_arguments(r, argument, &n));
    QR_TRY(qasm_function(r, token, argument, n, ret, &known));
    return known ? QR_OK
                 : qasm_fail(r, token, "there is no function '%.*s' here; correct the name",
                             QASM_TEXT(r, r->tokens[token].value));
}

static enum qr_code read_word(struct qasm_reader *r, struct qasm_value *ret) {
    uint32_t name = qasm_here(r)->value;
    double constant;
    switch (name) {
    case QASM_KEY_true:
    case QASM_KEY_false:
        *ret = qasm_whole(name == QASM_KEY_true);
        qasm_next(r);
        return QR_OK;
    case QASM_KEY_sizeof: return read_sizeof(r, ret);
    case QASM_KEY_durationof: return qasm_refuse(r, r->at, "qring has no timing; remove it");
    case QASM_KEY_measure:
        return qasm_fail(r, r->at,
                         "a measurement is not part of an expression; measure into a bit");
    case QASM_KEY_pow: return read_function(r, ret);
    }
    if (qasm_is_type(r)) return read_cast(r, ret);
    const struct qasm_symbol *s = name < QASM_N_KEYWORDS ? NULL : qasm_find(r, name);
    if (s && s->kind == QASM_SUBROUTINE) return qasm_subroutine_call(r, s, ret);
    if (!s && r->tokens[r->at + 1].kind == '(' && name >= QASM_N_KEYWORDS)
        return read_function(r, ret);
    if (!s && constant_of(r, name, &constant)) {
        *ret = qasm_real(constant);
        qasm_next(r);
        return QR_OK;
    }
    return read_variable(r, ret);
}

static enum qr_code read_operand(struct qasm_reader *r, struct qasm_value *ret) {
    uint32_t token = r->at;
    switch (qasm_here(r)->kind) {
    case QASM_INTEGER: return read_integer_literal(r, ret);
    case QASM_FLOAT: return read_float_literal(r, ret);
    case QASM_STRING: return read_bits(r, ret);
    case QASM_TIMING: return qasm_refuse(r, token, "qring has no timing; remove the durations");
    case QASM_IMAGINARY:
        return qasm_refuse(r, token, "complex numbers are read in pragmas only; use a real one");
    case QASM_NAME: return read_word(r, ret);
    case '(':
        qasm_next(r);
        QR_TRY(qasm_expression(r, ret));
        return qasm_expect(r, ')', "')'");
    default: return qasm_expect(r, QASM_INTEGER, "a value");
    }
}

bool qasm_begins_value(const struct qasm_reader *r) {
    unsigned kind = qasm_here(r)->kind;
    return (kind >= QASM_INTEGER && kind <= QASM_STRING) || kind == '(' || kind == '-' ||
           kind == '!' || kind == '~';
}

/* Powers bind more tightly than a sign on their left, and join from right to left. */
static enum qr_code read_power(struct qasm_reader *r, struct qasm_value *ret) {
    QR_TRY(read_operand(r, ret));
    uint32_t token = r->at;
    if (!qasm_is(r, QASM_POWER) && !(r->version == 2 && qasm_is(r, '^'))) return QR_OK;
    struct qasm_value base = *ret;
    qasm_next(r);
    QR_TRY(read_unary(r, ret));
    return qasm_binary(r, token, QASM_POWER, base, *ret, ret);
}

static enum qr_code read_unary(struct qasm_reader *r, struct qasm_value *ret) {
    uint32_t token = r->at;
    unsigned op = qasm_here(r)->kind;
    QR_TRY(qasm_enter(r, token));
    if (op == '-' || op == '!' || op == '~' || (op == '+' && r->version == 2)) {
        qasm_next(r);
        QR_TRY(read_unary(r, ret));
        if (op != '+') QR_TRY(qasm_unary(r, token, op, *ret, ret));
    } else {
        QR_TRY(read_power(r, ret));
    }
    r->depth--;
    return QR_OK;
}

/* How tightly an operator binds; 0: it is none. */
static unsigned binding_of(unsigned op) {
    switch (op) {
    case '*':
    case '/':
    case '%': return 10;
    case '+':
    case '-': return 9;
    case QASM_LEFT:
    case QASM_RIGHT: return 8;
    case '<':
    case '>':
    case QASM_AT_MOST:
    case QASM_AT_LEAST: return 7;
    case QASM_EQUAL:
    case QASM_UNEQUAL: return 6;
    case '&': return 5;
    case '^': return 4;
    case '|': return 3;
    case QASM_AND: return 2;
    case QASM_OR: return 1;
    default: return 0;
    }
}

/* Operators that bind at least this tightly, from left to right. */
static enum qr_code read_joined(struct qasm_reader *r, unsigned least, struct qasm_value *ret) {
    QR_TRY(read_unary(r, ret));
    for (;;) {
        uint32_t token = r->at;
        unsigned op = qasm_here(r)->kind, binding = binding_of(op);
        if (!binding || binding < least) return qasm_bounded(r, token);
        struct qasm_value right;
        qasm_next(r);
        QR_TRY(read_joined(r, binding + 1, &right));
        QR_TRY(qasm_binary(r, token, op, *ret, right, ret));
    }
}

enum qr_code qasm_expression(struct qasm_reader *r, struct qasm_value *ret) {
    unsigned kind = qasm_here(r)->kind, next = r->tokens[r->at + (kind != QASM_END)].kind;
    if (next == ']' || next == ')' || next == ',') { /* most indices and angles */
        if (kind == QASM_INTEGER) return read_integer_literal(r, ret);
        if (kind == QASM_FLOAT) return read_float_literal(r, ret);
    }
    return read_joined(r, 1, ret);
}
