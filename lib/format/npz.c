/* format/npz.c — reads .npz archives of numeric arrays with bounded memory, and writes them. Start
 * reading at qr_npz_read(). */
#include "format/npz.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/parse.h"
#include "format/element_impl.h"
#include "format/zip/zip.h"

static const char npy_magic[] = "\x93NUMPY";
enum { MAGIC_BYTES = 6, MAX_HEADER_BYTES = 1 << 16, HEADER_ALIGN = 64, MAX_BYTES_WIDTH = 1 << 30 };

/* Parser state for the Python dict literal of an npy header. */
struct npy_header {
    const char *p;
    size_t n, at;
    char descr[32];
    bool fortran, has_descr, has_order, has_shape;
    unsigned rank;
    size_t dims[QR_MAX_RANK];
};

static void npy_skip_blanks(struct npy_header *h) {
    while (h->at < h->n && (h->p[h->at] == ' ' || h->p[h->at] == '\n' || h->p[h->at] == '\t'))
        h->at++;
}
static bool npy_match(struct npy_header *h, char c) {
    npy_skip_blanks(h);
    if (h->at >= h->n || h->p[h->at] != c) return false;
    h->at++;
    return true;
}

static bool npy_parse_string(struct npy_header *h, char *ret, size_t cap) {
    npy_skip_blanks(h);
    if (h->at >= h->n || (h->p[h->at] != '\'' && h->p[h->at] != '"')) return false;
    char quote = h->p[h->at++];
    size_t n = 0;
    while (h->at < h->n && h->p[h->at] != quote) {
        if (n + 1 >= cap || h->p[h->at] < 0x20 || h->p[h->at] == '\\') return false;
        ret[n++] = h->p[h->at++];
    }
    ret[n] = 0;
    return npy_match(h, quote);
}

static bool npy_parse_bool(struct npy_header *h, bool *ret) {
    npy_skip_blanks(h);
    for (int i = 0; i < 2; i++) {
        const char *word = i ? "True" : "False";
        size_t n = strlen(word);
        if (h->n - h->at < n || memcmp(h->p + h->at, word, n) != 0) continue;
        h->at += n;
        *ret = i;
        return true;
    }
    return false;
}

static bool npy_parse_shape(struct npy_header *h) {
    if (!npy_match(h, '(')) return false;
    while (!npy_match(h, ')')) {
        npy_skip_blanks(h);
        size_t v = 0, from = h->at;
        while (h->at < h->n && h->p[h->at] >= '0' && h->p[h->at] <= '9') {
            if (__builtin_mul_overflow(v, (size_t)10, &v) ||
                __builtin_add_overflow(v, (size_t)(h->p[h->at] - '0'), &v))
                return false;
            h->at++;
        }
        if (h->at == from || h->rank == QR_MAX_RANK) return false;
        if (h->at < h->n && h->p[h->at] == 'L') h->at++; /* Python 2's long integers */
        h->dims[h->rank++] = v;
        if (npy_match(h, ',')) continue;
        if (!npy_match(h, ')')) return false;
        break;
    }
    return true;
}

static bool npy_parse_header(struct npy_header *h) {
    if (!npy_match(h, '{')) return false;
    while (!npy_match(h, '}')) {
        char key[32];
        if (!npy_parse_string(h, key, sizeof key) || !npy_match(h, ':')) return false;
        bool *seen = strcmp(key, "descr") == 0           ? &h->has_descr
                     : strcmp(key, "fortran_order") == 0 ? &h->has_order
                     : strcmp(key, "shape") == 0         ? &h->has_shape
                                                         : NULL;
        if (!seen || *seen) return false;
        *seen = true;
        if (seen == &h->has_descr) {
            npy_skip_blanks(h);
            if (h->at < h->n && h->p[h->at] == '[')
                snprintf(h->descr, sizeof h->descr, "structured");
            if (h->descr[0]) return true; /* the caller rejects this type by name */
            if (!npy_parse_string(h, h->descr, sizeof h->descr)) return false;
        } else if (seen == &h->has_order ? !npy_parse_bool(h, &h->fortran) : !npy_parse_shape(h)) {
            return false;
        }
        if (npy_match(h, ',')) continue;
        if (!npy_match(h, '}')) return false;
        break;
    }
    npy_skip_blanks(h);
    return h->at == h->n && h->has_descr && h->has_order && h->has_shape;
}

static bool npy_element_type(const char *descr, struct qr_element *ret) {
    static const char *const known[] = {"f4", "f8", "i1", "i2", "i4", "i8",
                                        "u1", "u2", "u4", "u8", "b1"};
    uint64_t width;
    if (!descr[0] || !strchr("<>|=", descr[0])) return false;
    if (descr[1] == 'S' && qr_parse_u64(descr + 2, &width) && width && width <= MAX_BYTES_WIDTH) {
        *ret = (struct qr_element){.kind = 'S', .bytes = (unsigned)width};
        return true;
    }
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        if (strcmp(descr + 1, known[i]) != 0) continue;
        *ret = (struct qr_element){.kind = known[i][0],
                                   .bytes = (unsigned)(known[i][1] - '0'),
                                   .big_endian = descr[0] == '>'};
        return descr[0] != '|' || ret->bytes == 1;
    }
    return false;
}

/* Converts values from Fortran order (the first index varies fastest) to C order. */
static enum qr_code npy_transpose(struct qr_tensor *t, const char *what, struct qr_err *err) {
    void *p;
    QR_TRY(qr_large_new(t->n, sizeof(double), what, &p, err));
    double *to = p;
    size_t index[QR_MAX_RANK] = {0}, stride[QR_MAX_RANK];
    for (unsigned d = t->rank, s = 0; d-- > 0; s++)
        stride[d] = d + 1 == t->rank ? 1 : stride[d + 1] * t->dims[d + 1];
    for (size_t i = 0, at = 0; i < t->n; i++) {
        to[at] = t->values[i];
        for (unsigned d = 0; d < t->rank; d++) {
            at += stride[d];
            if (++index[d] < t->dims[d]) break;
            at -= stride[d] * t->dims[d];
            index[d] = 0;
        }
    }
    free(t->values);
    t->values = to;
    return QR_OK;
}

static void npz_close_stream(struct qr_zip_stream **s) { qr_zip_stream_close(*s); }

/* One member, as described by its headers. */
struct npz_array {
    const struct qr_zip_member *member;
    char name[QR_ZIP_NAME_CHARS]; /* of the member, without ".npy" */
    struct qr_element e;
    bool fortran;
    unsigned rank;
    size_t dims[QR_MAX_RANK], n; /* n: their product */
    char descr[32];
};

static enum qr_code npz_fail_type(const char *what, const char *name, const char *descr,
                                  struct qr_err *err) {
    return qr_fail(err, QR_DATA_LOSS,
                   "%s: member '%s' has dtype '%s'; supported are f4 f8 i1 i2 i4 i8 u1 u2 u4 u8 b1",
                   what, name, descr);
}

/* Reads the npy header and checks that the remaining bytes match its shape. */
static enum qr_code npz_read_header(struct qr_zip_stream *s, const char *what,
                                    struct npz_array *ret, struct qr_err *err) {
    const char *name = ret->name;
    uint8_t begin[12];
    uint64_t size = ret->member->size;
    if (size >= MAGIC_BYTES + 4) QR_TRY(qr_zip_stream_read(s, begin, MAGIC_BYTES + 4, err));
    if (size < MAGIC_BYTES + 4 || memcmp(begin, npy_magic, MAGIC_BYTES) != 0)
        return qr_fail(err, QR_DATA_LOSS, "%s: member '%s' is not an npy array (or is truncated)",
                       what, name);
    unsigned version = begin[6];
    size_t at = version == 1 ? 10 : 12;
    if (version < 1 || version > 3 || size < at)
        return qr_fail(err, QR_DATA_LOSS,
                       "%s: member '%s' has npy version %u; supported are 1 to 3", what, name,
                       version);
    if (version > 1) QR_TRY(qr_zip_stream_read(s, begin + 10, 2, err));
    size_t n = version == 1 ? qr_get_u16le(begin + 8) : qr_get_u32le(begin + 8);
    if (n > size - at || n > MAX_HEADER_BYTES)
        return qr_fail(
            err, QR_DATA_LOSS,
            "%s: member '%s': a header of %zu bytes does not fit (is the file truncated?)", what,
            name, n);
    qr_auto(qr_free_p) char *text = qr_xcalloc(n + 1, 1);
    QR_TRY(qr_zip_stream_read(s, text, n, err));
    struct npy_header h = {.p = text, .n = n};
    bool good = npy_parse_header(&h), huge = false;
    /* An unsupported type is reported before any other problem. */
    if ((good || h.descr[0]) && !npy_element_type(h.descr, &ret->e))
        return npz_fail_type(what, name, h.descr, err);
    if (!good)
        return qr_fail(err, QR_DATA_LOSS, "%s: member '%s': malformed npy header at character %zu",
                       what, name, h.at);
    uint64_t want = ret->e.bytes, have = size - at - n;
    for (unsigned d = 0; d < h.rank; d++) huge |= __builtin_mul_overflow(want, h.dims[d], &want);
    if (huge || want != have) {
        char shape[QR_SHAPE_CHARS];
        qr_shape_text(h.rank, h.dims, shape);
        return qr_fail(err, QR_DATA_LOSS,
                       "%s: member '%s' has shape %s of '%s' but %llu bytes of values", what, name,
                       shape, h.descr, (unsigned long long)have);
    }
    ret->n = (size_t)(want / ret->e.bytes);
    ret->fortran = h.fortran;
    ret->rank = h.rank;
    memcpy(ret->dims, h.dims, sizeof ret->dims);
    memcpy(ret->descr, h.descr, sizeof ret->descr);
    return QR_OK;
}

/* Decodes the values while they are unpacked: memory holds only packed bytes and numbers. */
static enum qr_code npz_read_values(struct qr_zip_stream *s, const struct npz_array *a,
                                    const char *what, struct qr_tensor *t, struct qr_err *err) {
    enum { STEP = 1 << 10 }; /* elements */
    uint8_t some[STEP * 8];
    for (size_t i = 0; i < t->n; i += STEP) {
        size_t n = t->n - i < STEP ? t->n - i : STEP;
        QR_TRY(qr_zip_stream_read(s, some, n * a->e.bytes, err));
        size_t bad = qr_element_decode(a->e, some, n, t->values + i);
        if (bad < n)
            return qr_fail(err, QR_DATA_LOSS, "%s: member '%s': element %zu (type '%s') is %s",
                           what, t->name, i + bad, a->descr,
                           a->e.kind == 'b' ? "neither False nor True"
                                            : "an integer above 2^53, which float64 cannot hold");
    }
    return qr_zip_stream_end(s, err);
}

static enum qr_code npz_read_array(const struct qr_zip *z, const struct npz_array *a,
                                   const char *what, struct qr_tensors *to, struct qr_err *err) {
    struct npz_array again = *a;
    qr_auto(npz_close_stream) struct qr_zip_stream *s = NULL;
    struct qr_tensor *t;
    QR_TRY(qr_zip_stream_open(z, a->member, &s, err));
    QR_TRY(npz_read_header(s, what, &again, err));
    QR_TRY(qr_tensors_add_large(to, a->name, a->rank, a->dims, what, &t, err));
    QR_TRY(npz_read_values(s, a, what, t, err));
    return a->fortran && a->rank > 1 && a->n > 1 ? npy_transpose(t, what, err) : QR_OK;
}

/* ---- archive ---- */

struct npz_archive {
    struct qr_zip zip;
    struct qr_zip_member *members;
    struct npz_array *arrays;
};

static void npz_archive_fini(struct npz_archive *a) {
    free(a->members);
    free(a->arrays);
}

/* Reads the headers of all members, but no values. */
static enum qr_code npz_open_archive(struct qr_bytes file, const char *what, struct npz_archive *a,
                                     struct qr_err *err) {
    if (file.n >= MAGIC_BYTES && memcmp(file.p, npy_magic, MAGIC_BYTES) == 0)
        return qr_fail(
            err, QR_DATA_LOSS,
            "%s: a single .npy array; an .npz is needed: numpy.savez(file, x=..., y=...)", what);
    QR_TRY(qr_zip_open(file, what, &a->zip, err));
    QR_TRY(qr_zip_members(&a->zip, &a->members, err));
    a->arrays = qr_xcalloc(a->zip.n_members + 1, sizeof *a->arrays);
    for (size_t i = 0; i < a->zip.n_members; i++) {
        const struct qr_zip_member *m = &a->members[i];
        size_t n = strlen(m->name);
        qr_auto(npz_close_stream) struct qr_zip_stream *s = NULL;
        if (n <= 4 || strcmp(m->name + n - 4, ".npy") != 0)
            return qr_fail(err, QR_DATA_LOSS, "%s: member '%s' is not an .npy array", what,
                           m->name);
        for (size_t k = 0; k < i; k++)
            if (strcmp(m->name, a->members[k].name) == 0)
                return qr_fail(err, QR_DATA_LOSS, "%s: two members are named '%s'", what, m->name);
        a->arrays[i].member = m;
        memcpy(a->arrays[i].name, m->name, n - 4);
        QR_TRY(qr_zip_stream_open(&a->zip, m, &s, err));
        QR_TRY(npz_read_header(s, what, &a->arrays[i], err));
    }
    return QR_OK;
}

static bool npz_is_requested(const struct npz_array *a, const char *const *names) {
    for (; names && *names; names++)
        if (strcmp(*names, a->name) == 0) return true;
    return !names;
}

enum qr_code qr_npz_shapes(struct qr_bytes file, const char *what, struct qr_tensors *ret,
                           struct qr_err *err) {
    qr_auto(npz_archive_fini) struct npz_archive a = {0};
    QR_TRY(npz_open_archive(file, what, &a, err));
    struct qr_tensors t = {.v = qr_xcalloc(a.zip.n_members + 1, sizeof *t.v)};
    for (; t.n < a.zip.n_members; t.n++) {
        const struct npz_array *x = &a.arrays[t.n];
        t.v[t.n] = (struct qr_tensor){.name = qr_xstrdup(x->name), .rank = x->rank, .n = x->n};
        memcpy(t.v[t.n].dims, x->dims, sizeof x->dims);
    }
    *ret = t;
    return QR_OK;
}

/* Rejects zip bombs: a small file must not fill a machine whose limit is its whole memory. */
static enum qr_code npz_check_inflation(uint64_t packed, uint64_t bytes, const char *what,
                                        struct qr_err *err) {
    if (bytes <= QR_NPZ_FREE_BYTES || bytes / QR_NPZ_INFLATION <= packed) return QR_OK;
    return qr_fail(err, QR_RESOURCE_EXHAUSTED,
                   "cannot read %s: its %llu bytes would become %llu bytes of float64 numbers; "
                   "above %d MiB the limit is %d times the file; if the file is right, write it "
                   "without compression (numpy.savez)",
                   what, (unsigned long long)packed, (unsigned long long)bytes,
                   QR_NPZ_FREE_BYTES >> 20, QR_NPZ_INFLATION);
}

/* Checks the memory for all requested arrays before any is allocated. */
static enum qr_code npz_check_memory(const struct npz_archive *a, const char *const *names,
                                     const char *what, size_t max_bytes, struct qr_err *err) {
    uint64_t sum = a->zip.file.n;
    for (size_t i = 0; i < a->zip.n_members; i++) {
        const struct npz_array *x = &a->arrays[i];
        uint64_t bytes = 0;
        if (!npz_is_requested(x, names)) continue;
        if (x->e.kind == 'S') return npz_fail_type(what, x->name, x->descr, err);
        /* An array in Fortran order exists twice while it is transposed */
        bool huge =
            __builtin_mul_overflow((uint64_t)x->n, (x->fortran ? 2 : 1) * sizeof(double), &bytes) ||
            __builtin_add_overflow(sum, bytes, &sum);
        if (huge || sum > max_bytes)
            return qr_fail(err, QR_RESOURCE_EXHAUSTED,
                           "%s: member '%s' would take %llu bytes as float64 numbers, %llu with "
                           "the file and the members before it; at most %zu may be used",
                           what, x->member->name, (unsigned long long)bytes,
                           (unsigned long long)sum, max_bytes);
    }
    return npz_check_inflation(a->zip.file.n, sum - a->zip.file.n, what, err);
}

enum qr_code qr_npz_read(struct qr_bytes file, const char *what, const char *const *names,
                         size_t max_bytes, struct qr_tensors *ret, struct qr_err *err) {
    qr_auto(npz_archive_fini) struct npz_archive a = {0};
    qr_auto(qr_tensors_free) struct qr_tensors t = {0};
    QR_TRY(npz_open_archive(file, what, &a, err));
    QR_TRY(npz_check_memory(&a, names, what, max_bytes, err));
    for (size_t i = 0; i < a.zip.n_members; i++)
        if (npz_is_requested(&a.arrays[i], names))
            QR_TRY(npz_read_array(&a.zip, &a.arrays[i], what, &t, err));
    *ret = QR_MOVE(t);
    return QR_OK;
}

/* Reads an array of bytes. */
static enum qr_code npz_read_texts(const struct qr_zip *z, const struct npz_array *a,
                                   const char *what, size_t max_bytes, struct qr_npz_texts *ret,
                                   struct qr_err *err) {
    struct npz_array again = *a;
    size_t n = a->n * a->e.bytes; /* as the header was checked */
    void *p;
    qr_auto(npz_close_stream) struct qr_zip_stream *s = NULL;
    if (a->e.kind != 'S')
        return qr_fail(err, QR_DATA_LOSS,
                       "%s: member '%s' has dtype '%s'; it must have bytes, dtype 'S'", what,
                       a->name, a->descr);
    if (n > max_bytes)
        return qr_fail(err, QR_RESOURCE_EXHAUSTED,
                       "%s: member '%s' takes %zu bytes; at most %zu may be used", what, a->name, n,
                       max_bytes);
    QR_TRY(npz_check_inflation(z->file.n, n, what, err));
    QR_TRY(qr_zip_stream_open(z, a->member, &s, err));
    QR_TRY(npz_read_header(s, what, &again, err));
    QR_TRY(qr_large_new(n + 1, 1, what, &p, err));
    *ret = (struct qr_npz_texts){a->n, a->e.bytes, p};
    QR_TRY(qr_zip_stream_read(s, p, n, err));
    return qr_zip_stream_end(s, err);
}

enum qr_code qr_npz_read_texts(struct qr_bytes file, const char *what, const char *name,
                               size_t max_bytes, struct qr_npz_texts *ret, struct qr_err *err) {
    qr_auto(npz_archive_fini) struct npz_archive a = {0};
    qr_auto(qr_npz_texts_fini) struct qr_npz_texts t = {0};
    const char *const names[] = {name, NULL};
    QR_TRY(npz_open_archive(file, what, &a, err));
    for (size_t i = 0; i < a.zip.n_members; i++)
        if (npz_is_requested(&a.arrays[i], names))
            QR_TRY(npz_read_texts(&a.zip, &a.arrays[i], what, max_bytes, &t, err));
    *ret = QR_MOVE(t);
    return QR_OK;
}

void qr_npz_texts_fini(struct qr_npz_texts *t) {
    free(t->bytes);
    *t = (struct qr_npz_texts){0};
}

void qr_npz_write(const struct qr_tensors *t, struct qr_buf *ret) {
    struct qr_zip_writer w = {.out = ret};
    struct qr_buf npy = {0};
    for (size_t i = 0; i < t->n; i++) {
        const struct qr_tensor *x = &t->v[i];
        char shape[QR_SHAPE_CHARS], member[QR_ZIP_NAME_CHARS];
        qr_shape_text(x->rank, x->dims, shape);
        qr_buf_clear(&npy);
        uint8_t *p = qr_buf_grow(&npy, 10);
        memcpy(p, npy_magic, MAGIC_BYTES);
        p[6] = 1;
        qr_buf_printf(&npy, "{'descr': '<f8', 'fortran_order': False, 'shape': %s, }", shape);
        while ((npy.n + 1) % HEADER_ALIGN) qr_buf_puts(&npy, " ");
        qr_buf_puts(&npy, "\n");
        npy.p[8] = (uint8_t)(npy.n - 10);
        npy.p[9] = (uint8_t)((npy.n - 10) >> 8);
        qr_buf_put_doubles(&npy, x->values, x->n);
        if (!qr_buf_ok(&npy)) ret->overflow = true;
        snprintf(member, sizeof member, "%s.npy", x->name);
        qr_zip_put(&w, member, qr_buf_view(&npy));
    }
    qr_zip_end(&w);
    qr_buf_free(&npy);
}
