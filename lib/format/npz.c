#include "format/npz.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "format/element_impl.h"
#include "format/zip_impl.h"

static const char magic[] = "\x93NUMPY";
enum { MAGIC_BYTES = 6, MAX_HEADER_BYTES = 1 << 16, HEADER_ALIGN = 64 };

/* The Python dict literal of an npy header, under way. */
struct header {
    const char *p;
    size_t n, at;
    char descr[32];
    bool fortran, has_descr, has_order, has_shape;
    unsigned rank;
    size_t dims[QR_MAX_RANK];
};

static void skip(struct header *h) {
    while (h->at < h->n && (h->p[h->at] == ' ' || h->p[h->at] == '\n' || h->p[h->at] == '\t')) h->at++;
}
static bool take(struct header *h, char c) {
    skip(h);
    if (h->at >= h->n || h->p[h->at] != c) return false;
    h->at++;
    return true;
}

static bool read_string(struct header *h, char *ret, size_t cap) {
    skip(h);
    if (h->at >= h->n || (h->p[h->at] != '\'' && h->p[h->at] != '"')) return false;
    char quote = h->p[h->at++];
    size_t n = 0;
    while (h->at < h->n && h->p[h->at] != quote) {
        if (n + 1 >= cap || h->p[h->at] < 0x20 || h->p[h->at] == '\\') return false;
        ret[n++] = h->p[h->at++];
    }
    ret[n] = 0;
    return take(h, quote);
}

static bool read_bool(struct header *h, bool *ret) {
    skip(h);
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

static bool read_shape(struct header *h) {
    if (!take(h, '(')) return false;
    while (!take(h, ')')) {
        skip(h);
        size_t v = 0, from = h->at;
        while (h->at < h->n && h->p[h->at] >= '0' && h->p[h->at] <= '9') {
            if (__builtin_mul_overflow(v, (size_t)10, &v) || __builtin_add_overflow(v, (size_t)(h->p[h->at] - '0'), &v)) return false;
            h->at++;
        }
        if (h->at == from || h->rank == QR_MAX_RANK) return false;
        if (h->at < h->n && h->p[h->at] == 'L') h->at++; /* Python 2 wrote long integers so */
        h->dims[h->rank++] = v;
        if (take(h, ',')) continue;
        if (!take(h, ')')) return false;
        break;
    }
    return true;
}

static bool read_header(struct header *h) {
    if (!take(h, '{')) return false;
    while (!take(h, '}')) {
        char key[32];
        if (!read_string(h, key, sizeof key) || !take(h, ':')) return false;
        bool *seen = strcmp(key, "descr") == 0           ? &h->has_descr
                     : strcmp(key, "fortran_order") == 0 ? &h->has_order
                     : strcmp(key, "shape") == 0         ? &h->has_shape
                                                         : NULL;
        if (!seen || *seen) return false;
        *seen = true;
        if (seen == &h->has_descr) {
            skip(h);
            if (h->at < h->n && h->p[h->at] == '[') snprintf(h->descr, sizeof h->descr, "structured");
            if (h->descr[0]) return true; /* refused by name before the rest matters */
            if (!read_string(h, h->descr, sizeof h->descr)) return false;
        } else if (seen == &h->has_order ? !read_bool(h, &h->fortran) : !read_shape(h)) {
            return false;
        }
        if (take(h, ',')) continue;
        if (!take(h, '}')) return false;
        break;
    }
    skip(h);
    return h->at == h->n && h->has_descr && h->has_order && h->has_shape;
}

static bool element_of(const char *descr, struct qr_element *ret) {
    static const char *const known[] = {"f4", "f8", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "b1"};
    if (!descr[0] || !strchr("<>|=", descr[0])) return false;
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        if (strcmp(descr + 1, known[i]) != 0) continue;
        *ret = (struct qr_element){.kind = known[i][0], .bytes = (unsigned)(known[i][1] - '0'), .big_endian = descr[0] == '>'};
        return descr[0] != '|' || ret->bytes == 1;
    }
    return false;
}

/* Fortran order: the first index runs fastest. */
static enum qr_code transpose(struct qr_tensor *t, const char *what, struct qr_err *err) {
    void *p;
    enum qr_code code = qr_large_new(t->n, sizeof(double), what, &p, err);
    if (code != QR_OK) return code;
    double *to = p;
    size_t index[QR_MAX_RANK] = {0}, stride[QR_MAX_RANK];
    for (unsigned d = t->rank, s = 0; d-- > 0; s++) stride[d] = d + 1 == t->rank ? 1 : stride[d + 1] * t->dims[d + 1];
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

static enum qr_code read_npy(struct qr_bytes file, const char *what, const char *name, struct qr_tensors *ret, struct qr_err *err) {
    if (file.n < MAGIC_BYTES + 4 || memcmp(file.p, magic, MAGIC_BYTES) != 0)
        return qr_fail(err, QR_DATA_LOSS, "%s: member '%s' is not an npy array (or is cut short)", what, name);
    unsigned version = file.p[6];
    size_t at = version == 1 ? 10 : 12;
    if (version < 1 || version > 3 || file.n < at)
        return qr_fail(err, QR_DATA_LOSS, "%s: member '%s' has npy version %u; 1 to 3 are read", what, name, version);
    size_t n = version == 1 ? qr_get_u16le(file.p + 8) : qr_get_u32le(file.p + 8);
    if (n > file.n - at || n > MAX_HEADER_BYTES)
        return qr_fail(err, QR_DATA_LOSS, "%s: member '%s': a header of %zu bytes does not fit (is it cut short?)", what, name, n);
    struct header h = {.p = (const char *)file.p + at, .n = n};
    bool good = read_header(&h);
    struct qr_element e;
    /* a type that is refused is named first, whatever else is wrong */
    if ((good || h.descr[0]) && !element_of(h.descr, &e))
        return qr_fail(err, QR_DATA_LOSS, "%s: member '%s' has dtype '%s'; numbers of f4 f8 i1 i2 i4 i8 u1 u2 u4 u8 b1 are read", what, name, h.descr);
    if (!good) return qr_fail(err, QR_DATA_LOSS, "%s: member '%s': the npy header makes no sense at its character %zu", what, name, h.at);
    char shape[QR_SHAPE_CHARS];
    qr_shape_text(h.rank, h.dims, shape);
    size_t want = e.bytes, have = file.n - at - n;
    bool huge = false;
    for (unsigned d = 0; d < h.rank; d++) huge |= __builtin_mul_overflow(want, h.dims[d], &want);
    if (huge || want != have)
        return qr_fail(err, QR_DATA_LOSS, "%s: member '%s' has shape %s of '%s' but %zu bytes of values", what, name, shape, h.descr, have);
    struct qr_tensor *t;
    enum qr_code code = qr_tensors_add_large(ret, name, h.rank, h.dims, what, &t, err);
    if (code != QR_OK) return code;
    size_t bad = qr_element_decode(e, file.p + at + n, t->n, t->values);
    if (bad < t->n)
        return qr_fail(err, QR_DATA_LOSS, "%s: member '%s': element %zu (type '%s') is %s", what, name, bad, h.descr,
                       e.kind == 'b' ? "neither False nor True" : "an integer above 2^53, which float64 cannot hold");
    return h.fortran && h.rank > 1 && t->n > 1 ? transpose(t, what, err) : QR_OK;
}

enum qr_code qr_npz_read(struct qr_bytes file, const char *what, size_t max_bytes, struct qr_tensors *ret, struct qr_err *err) {
    if (file.n >= MAGIC_BYTES && memcmp(file.p, magic, MAGIC_BYTES) == 0)
        return qr_fail(err, QR_DATA_LOSS, "%s: a single .npy array; an .npz is needed: numpy.savez(file, x=..., y=...)", what);
    struct qr_zip z;
    enum qr_code code = qr_zip_open(file, what, &z, err);
    if (code != QR_OK) return code;
    struct qr_tensors t = {0};
    struct qr_buf room = {0};
    uint64_t at = z.directory;
    for (uint64_t i = 0; code == QR_OK && i < z.n_members; i++) {
        struct qr_zip_member m;
        struct qr_bytes content;
        if ((code = qr_zip_member(&z, &at, &m, err)) != QR_OK) break;
        size_t n = strlen(m.name);
        if (n <= 4 || strcmp(m.name + n - 4, ".npy") != 0) {
            code = qr_fail(err, QR_DATA_LOSS, "%s: member '%s' is not an .npy array", what, m.name);
            break;
        }
        if ((code = qr_zip_content(&z, &m, max_bytes, &room, &content, err)) != QR_OK) break;
        max_bytes -= content.n; /* the members share the bound */
        m.name[n - 4] = 0;
        if (qr_tensors_find(&t, m.name)) code = qr_fail(err, QR_DATA_LOSS, "%s: two members are named '%s.npy'", what, m.name);
        else code = read_npy(content, what, m.name, &t, err);
    }
    qr_buf_free(&room);
    if (code == QR_OK && at != z.directory_end) code = qr_fail(err, QR_DATA_LOSS, "%s: the zip directory has more entries than it says", what);
    if (code != QR_OK) {
        qr_tensors_free(&t);
        return code;
    }
    *ret = t;
    return QR_OK;
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
        memcpy(p, magic, MAGIC_BYTES);
        p[6] = 1;
        qr_buf_printf(&npy, "{'descr': '<f8', 'fortran_order': False, 'shape': %s, }", shape);
        while ((npy.n + 1) % HEADER_ALIGN) qr_buf_puts(&npy, " ");
        qr_buf_puts(&npy, "\n");
        npy.p[8] = (uint8_t)(npy.n - 10);
        npy.p[9] = (uint8_t)((npy.n - 10) >> 8);
        for (size_t k = 0; k < x->n; k++) {
            uint8_t b[8];
            qr_set_u64le(b, qr_bits_of_double(x->values[k]));
            qr_buf_put(&npy, b, 8);
        }
        if (!qr_buf_ok(&npy)) ret->overflow = true;
        snprintf(member, sizeof member, "%s.npy", x->name);
        qr_zip_put(&w, member, qr_buf_view(&npy));
    }
    qr_zip_end(&w);
    qr_buf_free(&npy);
}
