/* format/hdf5_file.c — a bounded reader of HDF5 structures: object headers, groups, attributes and
 * datasets. Start reading at qr_h5_dataset(). */
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "format/element_impl.h"
#include "format/hdf5_impl.h"

enum {
    BUDGET = 1 << 24,
    MAX_DEPTH = 16,
    MAX_BLOCKS = 64,
    MAX_STRINGS = 65536,
    MAX_STRING_BYTES = 1 << 16,
    STRING_STEPS = 16,
    CLASS_FLOAT = 1,
    CLASS_STRING = 3,
    CLASS_VLEN = 9,
};
static const uint64_t hdf5_undefined = UINT64_MAX;
static const size_t hdf5_max_file = (size_t)1 << 30;

static const char hdf5_latest[] =
    "written with libver='latest' structures; write it with h5py's defaults, as Keras does";

static enum qr_code hdf5_fail_damaged(struct qr_h5 *f, const char *why) {
    return qr_fail(f->err, QR_DATA_LOSS, "%s: %s: %s", f->what, f->object, why);
}

/* Returns the n bytes at an address, or NULL if they lie outside the file. Uses one step of the
 * budget. */
static const uint8_t *hdf5_bytes_at(struct qr_h5 *f, uint64_t at, uint64_t n) {
    if (f->budget == 0) return NULL;
    f->budget--;
    return at <= f->file.n && n <= f->file.n - at ? f->file.p + at : NULL;
}

enum qr_code qr_h5_open(struct qr_h5 *f) {
    static const uint8_t sign[8] = {0x89, 'H', 'D', 'F', '\r', '\n', 0x1a, '\n'};
    snprintf(f->object, sizeof f->object, "superblock");
    f->budget = BUDGET;
    f->value_bytes = f->file.n;
    if (f->file.n < 8 || memcmp(f->file.p, sign, 8) != 0)
        return hdf5_fail_damaged(f, "not an HDF5 file");
    if (f->file.n > hdf5_max_file)
        return hdf5_fail_damaged(f, "above 1 GiB, which is too large for a weight file");
    if (f->file.n < 100) return hdf5_fail_damaged(f, "the file is truncated");
    const uint8_t *p = f->file.p;
    if (p[8] > 1) return hdf5_fail_damaged(f, hdf5_latest);
    if (p[13] != 8 || p[14] != 8) return hdf5_fail_damaged(f, "addresses are not of 8 bytes");
    const uint8_t *q = p + (p[8] == 1 ? 28 : 24);
    if (qr_get_u64le(q) != 0 || qr_get_u64le(q + 24) != hdf5_undefined)
        return hdf5_fail_damaged(f, "user blocks and driver blocks are not supported");
    if (qr_get_u64le(q + 16) > f->file.n)
        return qr_fail(f->err, QR_DATA_LOSS, "%s: the file is truncated: %zu bytes of %llu",
                       f->what, f->file.n, (unsigned long long)qr_get_u64le(q + 16));
    f->root = qr_get_u64le(q + 40);
    snprintf(f->object, sizeof f->object, "/");
    return QR_OK;
}

/* Iterates over the messages of an object header and its continuation blocks. */
struct hdf5_walk {
    const uint8_t *p; /* the rest of the current block */
    size_t n;
    struct {
        uint64_t at, n;
    } blocks[MAX_BLOCKS];
    size_t n_blocks, next_block;
    unsigned left; /* messages left */
    unsigned type;
    struct qr_bytes message;
    bool shared;
};

static enum qr_code hdf5_walk_begin(struct qr_h5 *f, uint64_t at, struct hdf5_walk *w) {
    *w = (struct hdf5_walk){0};
    const uint8_t *p = hdf5_bytes_at(f, at, 16);
    if (!p) return hdf5_fail_damaged(f, "its header lies outside the file");
    if (memcmp(p, "OHDR", 4) == 0) return hdf5_fail_damaged(f, hdf5_latest);
    if (p[0] != 1) return hdf5_fail_damaged(f, "its header is damaged");
    w->left = qr_get_u16le(p + 2);
    w->n = qr_get_u32le(p + 8);
    w->p = hdf5_bytes_at(f, at + 16, w->n);
    return w->p ? QR_OK : hdf5_fail_damaged(f, "its header extends beyond the file");
}

/* Reads the next message; *ret_more is false at the end. */
static enum qr_code hdf5_walk_next(struct qr_h5 *f, struct hdf5_walk *w, bool *ret_more) {
    *ret_more = false;
    while (w->left) {
        if (w->n < 8) {
            if (w->next_block == w->n_blocks) return QR_OK;
            w->n = w->blocks[w->next_block].n;
            w->p = hdf5_bytes_at(f, w->blocks[w->next_block++].at, w->n);
            if (!w->p) return hdf5_fail_damaged(f, "its header continues outside the file");
            continue;
        }
        if (f->budget == 0) return hdf5_fail_damaged(f, "too many structures");
        f->budget--;
        size_t n = qr_get_u16le(w->p + 2);
        if (n > w->n - 8) return hdf5_fail_damaged(f, "a message of its header is truncated");
        w->type = qr_get_u16le(w->p);
        w->shared = w->p[4] & 2;
        w->message = qr_bytes_of(w->p + 8, n);
        w->p += 8 + n;
        w->n -= 8 + n;
        w->left--;
        if (w->type == QR_H5_CONTINUATION) {
            if (n < 16 || w->n_blocks == MAX_BLOCKS)
                return hdf5_fail_damaged(f, "its header is in too many parts");
            w->blocks[w->n_blocks].at = qr_get_u64le(w->message.p);
            w->blocks[w->n_blocks++].n = qr_get_u64le(w->message.p + 8);
            continue;
        }
        *ret_more = true;
        return QR_OK;
    }
    return QR_OK;
}

/* A search for a name in a group; heap: the names of its members. */
struct hdf5_lookup {
    const char *name;
    size_t n;
    struct qr_bytes heap;
    bool found;
    uint64_t object;
};

static bool hdf5_name_equals(const struct hdf5_lookup *l, uint64_t at) {
    return at < l->heap.n && l->n < l->heap.n - at && memcmp(l->heap.p + at, l->name, l->n) == 0 &&
           l->heap.p[at + l->n] == 0;
}

static enum qr_code hdf5_find_in_leaf(struct qr_h5 *f, uint64_t at, struct hdf5_lookup *l) {
    const uint8_t *p = hdf5_bytes_at(f, at, 8);
    size_t n = p ? qr_get_u16le(p + 6) : 0;
    if (!p || memcmp(p, "SNOD", 4) != 0 || !(p = hdf5_bytes_at(f, at + 8, n * 40)))
        return hdf5_fail_damaged(f, "its table of members is damaged");
    if (f->budget < n) return hdf5_fail_damaged(f, "too many structures");
    f->budget -= n;
    for (size_t i = 0; i < n && !l->found; i++, p += 40) {
        if (!hdf5_name_equals(l, qr_get_u64le(p))) continue;
        if (qr_get_u32le(p + 16) == 2)
            return qr_fail(f->err, QR_DATA_LOSS,
                           "%s: %s: '%.*s' is a soft link; links are not followed", f->what,
                           f->object, (int)l->n, l->name);
        l->object = qr_get_u64le(p + 8);
        l->found = true;
    }
    return QR_OK;
}

static enum qr_code hdf5_find_in_tree(struct qr_h5 *f, uint64_t at, unsigned level,
                                      struct hdf5_lookup *l) {
    const uint8_t *p = hdf5_bytes_at(f, at, 24);
    if (!p || memcmp(p, "TREE", 4) != 0 || p[4] != 0 || p[5] > MAX_DEPTH || p[5] >= level)
        return hdf5_fail_damaged(f, "its tree of members is damaged");
    unsigned node_level = p[5];
    size_t n = qr_get_u16le(p + 6);
    const uint8_t *q = hdf5_bytes_at(f, at + 24, n * 16 + 8);
    if (!q) return hdf5_fail_damaged(f, "its tree of members extends beyond the file");
    for (size_t i = 0; i < n && !l->found; i++) {
        uint64_t child = qr_get_u64le(q + 16 * i + 8);
        QR_TRY(node_level ? hdf5_find_in_tree(f, child, node_level, l)
                          : hdf5_find_in_leaf(f, child, l));
    }
    return QR_OK;
}

enum qr_code qr_h5_find(struct qr_h5 *f, uint64_t group, const char *name, size_t name_n,
                        bool *ret_found, uint64_t *ret) {
    struct hdf5_walk w;
    bool more, links = false;
    QR_TRY(hdf5_walk_begin(f, group, &w));
    for (;;) {
        QR_TRY(hdf5_walk_next(f, &w, &more));
        if (!more) break;
        links |= w.type == QR_H5_LINK || w.type == QR_H5_LINK_INFO;
        if (w.type != QR_H5_SYMBOL_TABLE) continue;
        if (w.message.n < 16) return hdf5_fail_damaged(f, "its table of members is damaged");
        uint64_t tree = qr_get_u64le(w.message.p), heap = qr_get_u64le(w.message.p + 8);
        const uint8_t *p = hdf5_bytes_at(f, heap, 32);
        if (!p || memcmp(p, "HEAP", 4) != 0)
            return hdf5_fail_damaged(f, "its heap of names is damaged");
        struct hdf5_lookup l = {.name = name, .n = name_n, .heap.n = qr_get_u64le(p + 8)};
        l.heap.p = hdf5_bytes_at(f, qr_get_u64le(p + 24), l.heap.n);
        if (!l.heap.p) return hdf5_fail_damaged(f, "its heap of names extends beyond the file");
        QR_TRY(hdf5_find_in_tree(f, tree, MAX_DEPTH + 1, &l));
        *ret_found = l.found;
        if (l.found) *ret = l.object;
        return QR_OK;
    }
    return hdf5_fail_damaged(
        f, links ? "its members are links of libver='latest'; write the file with "
                   "h5py's defaults, as Keras does"
                 : "is not a group");
}

/* The shape in a dataspace message. */
struct space {
    unsigned rank;
    size_t dims[QR_MAX_RANK];
    size_t n;
};
static const char *hdf5_read_space(struct qr_bytes m, struct space *ret) {
    if (m.n < 4 || m.p[0] < 1 || m.p[0] > 2) return "its shape is damaged";
    struct space s = {.rank = m.p[1], .n = 1};
    size_t at = m.p[0] == 1 ? 8 : 4;
    if (s.rank > QR_MAX_RANK) return "it has more than 8 dimensions";
    if (m.n < at + 8 * s.rank) return "its shape is damaged";
    if (m.p[0] == 2 && m.p[3] == 2) s.n = 0; /* a null dataspace */
    for (unsigned d = 0; d < s.rank; d++) {
        uint64_t v = qr_get_u64le(m.p + at + 8 * d);
        if (v > hdf5_max_file || __builtin_mul_overflow(s.n, (size_t)v, &s.n))
            return "its dimensions are too large";
        s.dims[d] = (size_t)v;
    }
    if (s.n > hdf5_max_file) return "its dimensions are too large";
    *ret = s;
    return NULL;
}

static bool hdf5_read_float_type(struct qr_bytes m, struct qr_element *ret) {
    static const uint8_t f32[12] = {0, 0, 32, 0, 23, 8, 0, 23, 127, 0, 0, 0},
                         f64[12] = {0, 0, 64, 0, 52, 11, 0, 52, 0xff, 3, 0, 0};
    if (m.n < 20 || (m.p[0] & 15) != CLASS_FLOAT || (m.p[1] & 0x40)) return false;
    uint32_t bytes = qr_get_u32le(m.p + 4);
    if (!(bytes == 4 && memcmp(m.p + 8, f32, 12) == 0) &&
        !(bytes == 8 && memcmp(m.p + 8, f64, 12) == 0))
        return false;
    *ret = (struct qr_element){'f', bytes, m.p[1] & 1};
    return true;
}

/* A collection of the global heap, and the place of an object in it. */
struct heap_place {
    uint64_t collection, at;
};

/* Finds an object at or behind `from`; empty when it is missing or damaged. */
static struct qr_bytes hdf5_find_object(struct qr_h5 *f, struct qr_bytes heap, uint64_t from,
                                        uint32_t index, uint64_t *ret_at) {
    const struct qr_bytes none = {0};
    for (uint64_t at = from; heap.n - at >= 16 && f->budget; f->budget--) {
        uint64_t n = qr_get_u64le(heap.p + at + 8);
        if (qr_get_u16le(heap.p + at) == 0 || n > heap.n - at - 16) return none;
        if (qr_get_u16le(heap.p + at) == index) {
            *ret_at = at;
            return qr_bytes_of(heap.p + at + 16, n);
        }
        n = (n + 7) & ~(uint64_t)7;
        if (n > heap.n - at - 16) return none;
        at += 16 + n;
    }
    return none;
}

/* Returns an object of the global heap; empty when it is missing or damaged. last: the place of the
 * object before, which most objects follow. */
static struct qr_bytes hdf5_heap_object(struct qr_h5 *f, uint64_t collection, uint32_t index,
                                        struct heap_place *last) {
    const struct qr_bytes none = {0};
    const uint8_t *p = hdf5_bytes_at(f, collection, 16);
    if (!p || memcmp(p, "GCOL", 4) != 0) return none;
    uint64_t size = qr_get_u64le(p + 8);
    if (size < 16 || !(p = hdf5_bytes_at(f, collection, size))) return none;
    if (last->collection != collection) *last = (struct heap_place){collection, 16};
    struct qr_bytes heap = qr_bytes_of(p, size),
                    ret = hdf5_find_object(f, heap, last->at, index, &last->at);
    return ret.p ? ret : hdf5_find_object(f, heap, 16, index, &last->at);
}

/* Reads strings of fixed length (padded by NUL or blanks) or of variable length (references into
 * the global heap). */
static enum qr_code hdf5_read_strings(struct qr_h5 *f, struct qr_bytes type,
                                      const struct space *space, struct qr_bytes data,
                                      struct qr_name_list *ret) {
    if (space->n == 0) return QR_OK;
    if (type.n < 8) return hdf5_fail_damaged(f, "the type of an attribute is damaged");
    unsigned class = type.p[0] & 15;
    uint32_t bytes = qr_get_u32le(type.p + 4);
    bool vlen = class == CLASS_VLEN && (type.p[1] & 15) == 1 && bytes == 16;
    if (!vlen && class != CLASS_STRING)
        return hdf5_fail_damaged(f, "an attribute holds no strings");
    if (bytes == 0 || bytes > MAX_STRING_BYTES || space->n > MAX_STRINGS ||
        data.n / bytes < space->n)
        return hdf5_fail_damaged(f, "an attribute is truncated");
    struct heap_place last = {0};
    for (size_t i = 0; i < space->n; i++) {
        const uint8_t *p = data.p + i * bytes;
        struct qr_bytes s = {p, bytes};
        if (vlen) {
            s = hdf5_heap_object(f, qr_get_u64le(p + 4), qr_get_u32le(p + 12), &last);
            uint32_t n = qr_get_u32le(p);
            if (n > s.n || n > MAX_STRING_BYTES)
                return hdf5_fail_damaged(f, "a string of an attribute lies outside its heap");
            s.n = n;
        } else if ((type.p[1] & 15) == 2) {
            while (s.n && s.p[s.n - 1] == ' ') s.n--;
        }
        /* Many references may point to one heap object, so strings count against the file's size
         * and each against the budget. */
        if (s.n > f->value_bytes || f->budget < STRING_STEPS)
            return hdf5_fail_damaged(f, "its attributes are larger than the file");
        f->value_bytes -= s.n;
        f->budget -= STRING_STEPS;
        qr_name_list_add(ret, s.n ? (const char *)s.p : "", s.n);
    }
    return QR_OK;
}

/* Splits an attribute message into name, datatype, dataspace and values. */
static bool hdf5_split_attribute(struct qr_bytes m, struct qr_bytes part[4]) {
    if (m.n < 8 || m.p[0] < 1 || m.p[0] > 3) return false;
    size_t at = m.p[0] == 3 ? 9 : 8, align = m.p[0] == 1 ? 8 : 1;
    if (m.p[0] > 1 && m.p[1] != 0) return false; /* shared parts are not supported */
    for (size_t i = 0; i < 3; i++) {
        size_t n = qr_get_u16le(m.p + 2 + 2 * i), padded = (n + align - 1) / align * align;
        if (at > m.n || padded > m.n - at) return false;
        part[i] = qr_bytes_of(m.p + at, n);
        at += padded;
    }
    part[3] = qr_bytes_of(m.p + at, m.n - at);
    return true;
}

enum qr_code qr_h5_attribute(struct qr_h5 *f, uint64_t object, const char *name, bool *ret_found,
                             struct qr_name_list *ret) {
    struct hdf5_walk w;
    bool more;
    *ret_found = false;
    QR_TRY(hdf5_walk_begin(f, object, &w));
    for (;;) {
        QR_TRY(hdf5_walk_next(f, &w, &more));
        if (!more) break;
        struct qr_bytes part[4];
        struct space space;
        if (w.type != QR_H5_ATTRIBUTE) continue;
        if (w.shared || !hdf5_split_attribute(w.message, part))
            return hdf5_fail_damaged(f, "an attribute is damaged");
        size_t n = strlen(name);
        if (part[0].n < n || memcmp(part[0].p, name, n) != 0 ||
            (part[0].n > n && part[0].p[n] != 0))
            continue;
        const char *why = hdf5_read_space(part[2], &space);
        if (why) return hdf5_fail_damaged(f, why);
        *ret_found = true;
        return hdf5_read_strings(f, part[1], &space, part[3], ret);
    }
    return QR_OK;
}

/* Locates the n bytes of values that a layout message describes. */
static const char *hdf5_find_values(struct qr_h5 *f, struct qr_bytes m, size_t n,
                                    const uint8_t **ret) {
    if (m.n < 2 || m.p[0] != 3)
        return "its layout version is not supported; write the file with h5py's defaults";
    if (m.p[1] == 2)
        return "chunked storage is not supported; Keras writes its weights contiguously";
    if (m.p[1] == 0) {
        if (m.n < 4 || n > m.n - 4) return "its values are truncated";
        *ret = m.p + 4;
        return NULL;
    }
    if (m.p[1] != 1 || m.n < 18) return "its layout is damaged";
    if (n == 0) return *ret = m.p, NULL;
    if (qr_get_u64le(m.p + 2) == hdf5_undefined) return "its values were never written";
    *ret = hdf5_bytes_at(f, qr_get_u64le(m.p + 2), n);
    return *ret ? NULL : "its values lie outside the file";
}

enum qr_code qr_h5_dataset(struct qr_h5 *f, uint64_t object, const char *name,
                           struct qr_tensors *to) {
    struct hdf5_walk w;
    bool more;
    struct qr_bytes layout = {0}, type = {0}, shape = {0};
    QR_TRY(hdf5_walk_begin(f, object, &w));
    for (;;) {
        QR_TRY(hdf5_walk_next(f, &w, &more));
        if (!more) break;
        if (w.type == QR_H5_FILTERS)
            return hdf5_fail_damaged(f, "it is compressed or filtered; save it without filters");
        if (w.type == QR_H5_EXTERNAL) return hdf5_fail_damaged(f, "its values lie in another file");
        struct qr_bytes *part = w.type == QR_H5_LAYOUT      ? &layout
                                : w.type == QR_H5_DATATYPE  ? &type
                                : w.type == QR_H5_DATASPACE ? &shape
                                                            : NULL;
        if (!part) continue;
        if (w.shared) return hdf5_fail_damaged(f, "its type is shared with another object");
        *part = w.message;
    }
    if (!layout.p || !type.p || !shape.p) return hdf5_fail_damaged(f, "is not a dataset");
    struct space s;
    struct qr_element e;
    const uint8_t *values = NULL;
    const char *why = hdf5_read_space(shape, &s);
    if (!why && !hdf5_read_float_type(type, &e)) why = "its type is not float32 or float64";
    if (!why && s.n * e.bytes > f->value_bytes) why = "its dimensions are larger than the file";
    if (!why) why = hdf5_find_values(f, layout, s.n * e.bytes, &values);
    if (why) return hdf5_fail_damaged(f, why);
    f->value_bytes -= s.n * e.bytes;
    struct qr_tensor *t;
    QR_TRY(qr_tensors_add_large(to, name, s.rank, s.dims, f->what, &t, f->err));
    qr_element_decode(e, values, t->n, t->values);
    return QR_OK;
}
