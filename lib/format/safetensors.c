/* format/safetensors.c — safetensors files: checks the header's ranges before it allocates values.
 * Start reading at qr_safetensors_read(). */
#include "format/safetensors.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "format/element_impl.h"
#include "format/json.h"

enum { MAX_HEADER_BYTES = 100 << 20, EXACT_BITS = 53 };

static int safetensors_compare_keys(const void *a, const void *b) {
    return strcmp(((const struct qr_metadata *)a)->key, ((const struct qr_metadata *)b)->key);
}

static void safetensors_put_metadata(struct qr_json_writer *w, const struct qr_metadata *metadata,
                                     size_t n) {
    qr_auto(qr_free_p) struct qr_metadata *sorted = qr_xcalloc(n, sizeof *sorted);
    memcpy(sorted, metadata, n * sizeof *sorted);
    qsort(sorted, n, sizeof *sorted, safetensors_compare_keys);
    qr_json_key_open(w, "__metadata__", '{');
    for (size_t i = 0; i < n; i++) qr_json_key_string(w, sorted[i].key, sorted[i].value);
    qr_json_close(w, '}');
}

void qr_safetensors_write(const struct qr_tensors *t, const struct qr_metadata *metadata,
                          size_t n_metadata, struct qr_buf *ret) {
    size_t start = ret->n, at = 0;
    qr_buf_grow(ret, 8);
    struct qr_json_writer w = qr_json_writer(ret, 0);
    qr_json_open(&w, '{');
    if (n_metadata) safetensors_put_metadata(&w, metadata, n_metadata);
    for (size_t i = 0; i < t->n; i++) {
        const struct qr_tensor *x = &t->v[i];
        qr_json_key_open(&w, x->name, '{');
        qr_json_key_string(&w, "dtype", "F64");
        qr_json_key_open(&w, "shape", '[');
        for (unsigned d = 0; d < x->rank; d++) qr_json_put_i64(&w, (int64_t)x->dims[d]);
        qr_json_close(&w, ']');
        qr_json_key_open(&w, "data_offsets", '[');
        qr_json_put_i64(&w, (int64_t)at);
        qr_json_put_i64(&w, (int64_t)(at += 8 * x->n));
        qr_json_close(&w, ']');
        qr_json_close(&w, '}');
    }
    qr_json_close(&w, '}');
    while ((ret->n - start) % 8) qr_buf_puts(ret, " ");
    if (!qr_buf_ok(ret)) return;
    qr_set_u64le(ret->p + start, ret->n - start - 8);
    for (size_t i = 0; i < t->n; i++) qr_buf_put_doubles(ret, t->v[i].values, t->v[i].n);
}

/* A tensor's description in the header. */
struct safetensors_entry {
    const char *name; /* borrowed from the JSON */
    struct qr_element e;
    size_t rank, dims[QR_MAX_RANK];
    uint64_t begin, end; /* offsets in the data */
};
static int safetensors_compare_begin(const void *a, const void *b) {
    const struct safetensors_entry *x = *(struct safetensors_entry *const *)a,
                                   *y = *(struct safetensors_entry *const *)b;
    if (x->begin != y->begin) return x->begin < y->begin ? -1 : 1;
    return x->end < y->end ? -1 : x->end > y->end;
}

struct safetensors_reader {
    const char *what;
    struct qr_bytes data;
    struct qr_tensors t;
    size_t n;
    struct safetensors_entry *entries; /* in the header's order */
};
static void safetensors_reader_fini(struct safetensors_reader *r) {
    qr_tensors_free(&r->t);
    free(r->entries);
}

static const struct {
    const char *name;
    struct qr_element e;
} safetensors_types[] = {
    {"F64", {'f', 8, false}}, {"F32", {'f', 4, false}},  {"I64", {'i', 8, false}},
    {"I32", {'i', 4, false}}, {"I16", {'i', 2, false}},  {"I8", {'i', 1, false}},
    {"U64", {'u', 8, false}}, {"U32", {'u', 4, false}},  {"U16", {'u', 2, false}},
    {"U8", {'u', 1, false}},  {"BOOL", {'b', 1, false}},
};

static enum qr_code safetensors_read_entry(struct safetensors_reader *r, const struct qr_json *v,
                                           struct qr_err *err) {
    const char *name = qr_json_key(v), *dtype;
    char where[320];
    static const char *const known[] = {"dtype", "shape", "data_offsets"};
    snprintf(where, sizeof where, "%.150s: tensor '%.100s'", r->what, name);
    QR_TRY(qr_json_known(v, where, known, 3, err));
    snprintf(where, sizeof where, "%.150s: tensor '%.100s': dtype", r->what, name);
    QR_TRY(qr_json_string(qr_json_get(v, "dtype"), where, &dtype, err));
    const struct qr_element *e = NULL;
    for (size_t i = 0; i < sizeof safetensors_types / sizeof *safetensors_types; i++)
        if (strcmp(safetensors_types[i].name, dtype) == 0) e = &safetensors_types[i].e;
    if (!e)
        return qr_fail(err, QR_DATA_LOSS,
                       "%s is '%.30s'; supported are F64 F32 I64 I32 I16 I8 U64 U32 U16 U8 BOOL",
                       where, dtype);

    snprintf(where, sizeof where, "%.150s: tensor '%.100s': shape", r->what, name);
    const struct qr_json *shape = qr_json_get(v, "shape"),
                         *offsets = qr_json_get(v, "data_offsets");
    size_t dims[QR_MAX_RANK], rank = 0, bytes = e->bytes;
    QR_TRY(qr_json_want(shape, where, QR_JSON_ARRAY, err));
    for (const struct qr_json *d = qr_json_first(shape); d; d = qr_json_next(d)) {
        int64_t dim;
        if (rank == QR_MAX_RANK)
            return qr_fail(err, QR_DATA_LOSS, "%s has more than %d dimensions", where, QR_MAX_RANK);
        QR_TRY(qr_json_i64(d, where, 0, (int64_t)1 << EXACT_BITS, &dim, err));
        dims[rank++] = (size_t)dim;
    }
    bool huge = false;
    for (size_t d = 0; d < rank; d++) huge |= __builtin_mul_overflow(bytes, dims[d], &bytes);
    snprintf(where, sizeof where, "%.150s: tensor '%.100s': data_offsets", r->what, name);
    QR_TRY(qr_json_want(offsets, where, QR_JSON_ARRAY, err));
    if (qr_json_size(offsets) != 2)
        return qr_fail(err, QR_DATA_LOSS, "%s must be two integers", where);
    int64_t at[2];
    for (size_t i = 0; i < 2; i++)
        QR_TRY(
            qr_json_i64(qr_json_at(offsets, i), where, 0, (int64_t)1 << EXACT_BITS, &at[i], err));
    if (at[0] > at[1] || (uint64_t)at[1] > r->data.n)
        return qr_fail(
            err, QR_DATA_LOSS,
            "%s [%lld, %lld] lie outside the file's %zu bytes of values (is it truncated?)", where,
            (long long)at[0], (long long)at[1], r->data.n);
    char text[QR_SHAPE_CHARS];
    qr_shape_text((unsigned)rank, dims, text);
    if (huge || bytes != (size_t)(at[1] - at[0]))
        return qr_fail(err, QR_DATA_LOSS, "%s span %lld bytes, which do not match shape %s of %s",
                       where, (long long)(at[1] - at[0]), text, dtype);

    struct safetensors_entry *to = &r->entries[r->n++];
    *to = (struct safetensors_entry){
        .name = name, .e = *e, .rank = rank, .begin = (uint64_t)at[0], .end = (uint64_t)at[1]};
    memcpy(to->dims, dims, rank * sizeof *dims);
    return QR_OK;
}

static enum qr_code safetensors_read_values(struct safetensors_reader *r,
                                            const struct safetensors_entry *x, struct qr_err *err) {
    struct qr_tensor *t;
    QR_TRY(qr_tensors_add_large(&r->t, x->name, (unsigned)x->rank, x->dims, r->what, &t, err));
    size_t bad = qr_element_decode(x->e, r->data.p + x->begin, t->n, t->values);
    return bad == t->n
               ? QR_OK
               : qr_fail(
                     err, QR_DATA_LOSS,
                     "%.150s: tensor '%.100s': element %zu is not a number that float64 can hold",
                     r->what, x->name, bad);
}

static enum qr_code safetensors_check_metadata(const struct qr_json *v, const char *what,
                                               struct qr_err *err) {
    char where[256];
    const char *s;
    snprintf(where, sizeof where, "%.150s: __metadata__", what);
    QR_TRY(qr_json_want(v, where, QR_JSON_OBJECT, err));
    for (const struct qr_json *m = qr_json_first(v); m; m = qr_json_next(m)) {
        snprintf(where, sizeof where, "%.150s: __metadata__.%.60s", what, qr_json_key(m));
        QR_TRY(qr_json_string(m, where, &s, err));
    }
    return QR_OK;
}

/* Called before any values are allocated: a small file whose tensors all share the same bytes could
 * otherwise demand much memory. */
static enum qr_code safetensors_check_ranges(struct safetensors_reader *r, struct qr_err *err) {
    qr_auto(qr_free_p) struct safetensors_entry **by =
        qr_xcalloc(r->n + 1, sizeof(struct safetensors_entry *));
    for (size_t i = 0; i < r->n; i++) by[i] = &r->entries[i];
    qsort(by, r->n, sizeof(struct safetensors_entry *), safetensors_compare_begin);
    uint64_t at = 0;
    for (size_t i = 0; i < r->n; i++) {
        const struct safetensors_entry *x = by[i];
        if (x->begin != at)
            return qr_fail(err, QR_DATA_LOSS,
                           "%s: tensor '%.100s' begins at byte %llu of the values, but the one "
                           "before ends at %llu: %s",
                           r->what, x->name, (unsigned long long)x->begin, (unsigned long long)at,
                           x->begin < at ? "they overlap" : "there is a gap");
        at = x->end;
    }
    if (at != r->data.n)
        return qr_fail(err, QR_DATA_LOSS, "%s: %llu unexpected bytes after the last tensor",
                       r->what, (unsigned long long)(r->data.n - at));
    return QR_OK;
}

static enum qr_code safetensors_read_entries(struct safetensors_reader *r,
                                             const struct qr_json *root, struct qr_err *err) {
    char where[256];
    snprintf(where, sizeof where, "%.150s: header", r->what);
    QR_TRY(qr_json_want(root, where, QR_JSON_OBJECT, err));
    r->entries = qr_xcalloc(qr_json_size(root) + 1, sizeof *r->entries);
    for (const struct qr_json *m = qr_json_first(root); m; m = qr_json_next(m)) {
        QR_TRY(strcmp(qr_json_key(m), "__metadata__") == 0
                   ? safetensors_check_metadata(m, r->what, err)
                   : safetensors_read_entry(r, m, err));
    }
    QR_TRY(safetensors_check_ranges(r, err));
    for (size_t i = 0; i < r->n; i++) QR_TRY(safetensors_read_values(r, &r->entries[i], err));
    return QR_OK;
}

/* Turns a JSON error into DATA_LOSS: a malformed header means a damaged file. */
static enum qr_code safetensors_fail_header(enum qr_code code, struct qr_err *err) {
    if (code == QR_INVALID_ARGUMENT) err->code = QR_DATA_LOSS;
    return code == QR_OK ? QR_OK : err->code;
}

enum qr_code qr_safetensors_header(struct qr_bytes file, const char *what, struct qr_json **ret,
                                   struct qr_err *err) {
    if (file.n < 8)
        return qr_fail(err, QR_DATA_LOSS,
                       "%s: %zu bytes are not a safetensors file (is it truncated?)", what, file.n);
    uint64_t n = qr_get_u64le(file.p);
    if (n > MAX_HEADER_BYTES || n > file.n - 8)
        return qr_fail(err, QR_DATA_LOSS,
                       "%s: a header of %llu bytes does not fit into the file's %zu (truncated, or "
                       "not a safetensors file)",
                       what, (unsigned long long)n, file.n);
    char header[200];
    snprintf(header, sizeof header, "%.150s: header", what);
    return safetensors_fail_header(qr_json_parse(qr_bytes_of(file.p + 8, n), header, ret, err),
                                   err);
}

enum qr_code qr_safetensors_read(struct qr_bytes file, const char *what, struct qr_tensors *ret,
                                 struct qr_err *err) {
    qr_auto(qr_json_free_p) struct qr_json *root = NULL;
    QR_TRY(qr_safetensors_header(file, what, &root, err));
    size_t n = qr_get_u64le(file.p);
    qr_auto(safetensors_reader_fini) struct safetensors_reader r = {
        .what = what, .data = {file.p + 8 + n, file.n - 8 - n}};
    QR_TRY(safetensors_fail_header(safetensors_read_entries(&r, root, err), err));
    *ret = QR_MOVE(r.t);
    return QR_OK;
}
