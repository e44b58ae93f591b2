/* export/qasm_names.c — names, comments and read-outs in OpenQASM. Start reading at
 * export_qasm_names(). */
#include "export/qasm_names.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/parse.h"
#include "qasm/qasm.h"

enum { MAX_NAME = QR_EXPRESSION_NAME - 12, MAX_ELEMENTS = 1 << 16, MAX_ALL_ELEMENTS = 1 << 18 };

/* ---- names that OpenQASM has too ---- */

static bool is_letter(char ch) {
    return ch == '_' || (ch >= 'a' && ch <= 'z') || (ch >= 'A' && ch <= 'Z') ||
           (unsigned char)ch >= 0x80;
}
static bool is_digit(char ch) { return ch >= '0' && ch <= '9'; }

static bool is_identifier(const char *s) {
    bool ok = is_letter(*s) && strlen(s) <= MAX_NAME && !qr_qasm_reserved(s) &&
              strcmp(s, "rxx") != 0 && strcmp(s, "ryy") != 0 && strcmp(s, "rzz") != 0;
    for (; *s; s++) ok = ok && (is_letter(*s) || is_digit(*s));
    return ok;
}

/* A parameter as a symbol, or an element of an array. */
struct kept_name {
    char *name;                    /* owned; NULL: OpenQASM has no such name */
    uint32_t param, element, size; /* size 0: no array */
};

static struct kept_name name_of(const char *param, uint32_t i) {
    struct kept_name ret = {.param = i};
    size_t n = strlen(param), base = strcspn(param, "[");
    uint64_t element = 0;
    ret.name = qr_xstrndup(param, base);
    if (base < n) {
        qr_auto(qr_free_p) char *digits = qr_xstrndup(param + base + 1, n - base - 1);
        size_t last = strlen(digits);
        if (last) digits[last - 1] = 0;
        bool ok = param[n - 1] == ']' && qr_parse_u64(digits, &element) && element < MAX_ELEMENTS &&
                  (*digits != '0' || !digits[1]);
        ret.element = (uint32_t)element;
        ret.size = ok ? ret.element + 1 : 0;
        if (!ok) *ret.name = 0;
    }
    if (!is_identifier(ret.name)) *ret.name = 0;
    return ret;
}

/* The names, in natural order of the parameters but for arrays, whose elements are together. */
static int compare_names(const void *a, const void *b) {
    const struct kept_name *one = a, *two = b;
    int order = strcmp(one->name, two->name);
    return order ? order : one->param < two->param ? -1 : one->param > two->param;
}

static int compare_to_kept(const void *key, const void *entry) {
    return strcmp(key, ((const struct kept_name *)entry)->name);
}

struct name_list {
    struct kept_name *v; /* sorted by name */
    size_t n, n_elements;
};

static bool is_taken(const struct name_list *l, const char *name) {
    return l->n && bsearch(name, l->v, l->n, sizeof *l->v, compare_to_kept);
}

/* Elements of the group v[from, to) as an array, or a symbol; false: both, or too many. */
static bool settle_group(struct name_list *l, size_t from, size_t to) {
    uint32_t size = l->v[from].size;
    for (size_t i = from; i < to; i++) {
        if (!l->v[i].size != !size) return false;
        if (l->v[i].size > size) size = l->v[i].size;
    }
    if ((l->n_elements += size) > MAX_ALL_ELEMENTS) return false;
    l->v[from].size = size;
    return true;
}

/* ---- all names ---- */

static void declare(struct qr_buf *to, const char *name, uint32_t size, const char *param) {
    qr_buf_puts(to, "input ");
    qr_buf_printf(to, size ? "array[float[64], %u] " : "float[64] ", size);
    qr_buf_printf(to, "%s;", name);
    if (param) {
        qr_buf_puts(to, " // ");
        qr_buf_put_printable(to, param);
    }
    qr_buf_puts(to, "\n");
}

/* A name for a parameter that keeps none: its letters and its number. */
static char *mapped_name(const struct name_list *l, const char *param, uint32_t i) {
    char text[MAX_NAME + 16];
    size_t n = 0;
    for (; *param && n < MAX_NAME - 10; param++)
        text[n++] = is_letter(*param) || is_digit(*param) ? *param : '_';
    if (is_digit(text[0])) text[0] = '_';
    n += (size_t)snprintf(text + n, sizeof text - n, "_%u", i);
    while (n + 1 < sizeof text && is_taken(l, text)) text[n++] = '_', text[n] = 0;
    return qr_xstrdup(text);
}

static char *free_name(const struct name_list *l, const char *name) {
    char text[MAX_NAME + 16];
    size_t n = (size_t)snprintf(text, sizeof text, "%s", name);
    while (n + 1 < sizeof text && is_taken(l, text)) text[n++] = '_', text[n] = 0;
    return qr_xstrdup(text);
}

/* A letter, and underscores so that no parameter has the name and then a number. */
static char *free_prefix(char *const *params, const char *letter) {
    char prefix[MAX_NAME + 2];
    size_t n = (size_t)snprintf(prefix, sizeof prefix, "%s", letter);
    for (size_t i = 0; params[i]; i++) {
        if (strncmp(params[i], prefix, n) != 0) continue;
        const char *rest = params[i] + n;
        size_t digits = strspn(rest, "0123456789");
        if (!digits || (rest[digits] && rest[digits] != '[')) continue;
        prefix[n++] = '_';
        prefix[n] = 0;
        i = (size_t)-1; /* from the start */
    }
    return qr_xstrdup(prefix);
}

static void name_columns(unsigned n, struct export_qasm_names *ret) {
    qr_auto(qr_free_p) char *prefix = free_prefix(ret->params, "x");
    for (unsigned i = 0; i < n; i++) {
        ret->columns[i] = qr_xasprintf("%s%u", prefix, i);
        declare(&ret->declarations, ret->columns[i], 0, NULL);
    }
}

struct export_qasm_names export_qasm_names(const struct qr_circuit *c) {
    struct export_qasm_names ret = {.params = qr_xcalloc(c->n_params + 1, sizeof *ret.params),
                                    .columns = qr_xcalloc(c->n_columns + 1, sizeof *ret.columns)};
    struct name_list l = {.v = qr_xcalloc(c->n_params + 1, sizeof *l.v)};
    uint32_t *size = qr_xcalloc(c->n_params + 1, sizeof *size);
    for (uint32_t i = 0; i < c->n_params; i++) {
        struct kept_name name = name_of(c->param_names[i], i);
        if (*name.name) l.v[l.n++] = name;
        else free(name.name);
    }
    if (l.n) qsort(l.v, l.n, sizeof *l.v, compare_names);
    for (size_t from = 0, to; from < l.n; from = to) {
        for (to = from + 1; to < l.n && !strcmp(l.v[to].name, l.v[from].name);) to++;
        bool kept = settle_group(&l, from, to);
        for (size_t i = from; i < to && kept; i++) {
            const struct kept_name *v = &l.v[i];
            ret.params[v->param] =
                v->size ? qr_xasprintf("%s[%u]", v->name, v->element) : qr_xstrdup(v->name);
            /* The first declares the array. */
            size[v->param] = i == from || !v->size ? v->size : UINT32_MAX;
        }
    }
    for (uint32_t i = 0; i < c->n_params; i++) {
        const char *param = c->param_names[i];
        bool mapped = !ret.params[i];
        if (mapped) ret.params[i] = mapped_name(&l, param, i);
        qr_auto(qr_free_p) char *name = qr_xstrndup(ret.params[i], strcspn(ret.params[i], "["));
        if (size[i] != UINT32_MAX) declare(&ret.declarations, name, size[i], mapped ? param : NULL);
    }
    name_columns(c->n_columns, &ret);
    ret.qubits = free_name(&l, "q");
    ret.bits = free_name(&l, "c");
    ret.shared = free_prefix(ret.params, "s");
    for (size_t i = 0; i < l.n; i++) free(l.v[i].name);
    free(l.v);
    free(size);
    return ret;
}

void export_qasm_names_fini(struct export_qasm_names *n) {
    /* The lists end with NULL. */
    for (size_t i = 0; n->params[i]; i++) free(n->params[i]);
    for (size_t i = 0; n->columns[i]; i++) free(n->columns[i]);
    free(n->params);
    free(n->columns);
    free(n->qubits);
    free(n->bits);
    free(n->shared);
    qr_buf_free(&n->declarations);
}

/* ---- comments and read-outs ---- */

size_t export_qasm_bits(const struct qr_export *what) {
    static const struct qr_qubits none = {{0}};
    struct qr_qubits seen = none;
    for (size_t i = 0; i < what->n_readouts; i++) {
        const struct qr_pauli_term *t = what->readouts[i].terms;
        unsigned q = qr_qubits_first(&t->z);
        if (what->readouts[i].n_terms != 1 || t->coefficient != 1 || qr_qubits_count(&t->z) != 1 ||
            !qr_qubits_is_empty(&t->x) || qr_qubits_has(&seen, q))
            return 0;
        qr_qubits_add(&seen, q);
    }
    return what->n_readouts;
}

void export_qasm_comment(const struct qr_export *what, struct qr_buf *to) {
    if (what->title) {
        qr_buf_puts(to, "// ");
        qr_buf_put_printable(to, what->title);
        qr_buf_puts(to, "\n");
    }
    for (size_t i = 0; i < what->n_readouts && !export_qasm_bits(what); i++) {
        qr_buf_printf(to, "// read-out %zu: ", i);
        qr_buf_put_printable(to, what->readouts[i].text);
        qr_buf_puts(to, "\n");
    }
}
