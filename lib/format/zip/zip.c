/* format/zip/zip.c — reads zip directories and members from memory, and writes stored members.
 * Start reading at qr_zip_members(). */
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#define ZLIB_CONST /* next_in is only read */
#include <zlib.h>

#include "base/checksum.h"
#include "base/mem.h"
#include "format/zip/zip.h"

enum {
    LOCAL_BYTES = 30,
    CENTRAL_BYTES = 46,
    END_BYTES = 22,
    END64_BYTES = 56,
    LOCATOR_BYTES = 20,
    LOCAL_SIGN = 0x04034b50,
    CENTRAL_SIGN = 0x02014b50,
    END_SIGN = 0x06054b50,
    END64_SIGN = 0x06064b50,
    LOCATOR_SIGN = 0x07064b50,
    ENCRYPTED = 1,
    SIZES_FOLLOW = 8,
    ZIP64_EXTRA = 1,
    MAX_DEFLATE_RATIO = 1032, /* deflate encodes 258 bytes in two bits at best */
    DATE_1980 = 0x21,         /* 1 January 1980, the earliest date in zip */
};

static bool zip_in_file(const struct qr_zip *z, uint64_t at, uint64_t n) {
    return at <= z->file.n && n <= z->file.n - at;
}

static bool zip_find_end_record(const struct qr_zip *z, size_t *ret) {
    if (z->file.n < END_BYTES) return false;
    size_t last = z->file.n - END_BYTES, first = last > 65535 ? last - 65535 : 0;
    for (size_t at = last + 1; at-- > first;) {
        const uint8_t *p = z->file.p + at;
        if (qr_get_u32le(p) != END_SIGN || qr_get_u16le(p + 20) != z->file.n - at - END_BYTES)
            continue;
        *ret = at;
        return true;
    }
    return false;
}

enum qr_code qr_zip_open(struct qr_bytes file, const char *what, struct qr_zip *ret,
                         struct qr_err *err) {
    struct qr_zip z = {.file = file, .what = what};
    size_t end;
    if (!zip_find_end_record(&z, &end))
        return qr_fail(err, QR_DATA_LOSS,
                       "%s: not a complete zip file (no end record; is it truncated?)", what);
    const uint8_t *p = file.p + end;
    uint64_t n = qr_get_u16le(p + 10), bytes = qr_get_u32le(p + 12), at = qr_get_u32le(p + 16);
    bool many_disks = qr_get_u16le(p + 4) != 0 && qr_get_u16le(p + 4) != 0xffff;
    if (n == 0xffff || bytes == UINT32_MAX || at == UINT32_MAX) {
        if (end < LOCATOR_BYTES || qr_get_u32le(p - LOCATOR_BYTES) != LOCATOR_SIGN)
            return qr_fail(err, QR_DATA_LOSS, "%s: the zip64 end record is missing", what);
        uint64_t end64 = qr_get_u64le(p - LOCATOR_BYTES + 8);
        if (!zip_in_file(&z, end64, END64_BYTES) || qr_get_u32le(file.p + end64) != END64_SIGN)
            return qr_fail(err, QR_DATA_LOSS, "%s: the zip64 end record is not where the file says",
                           what);
        n = qr_get_u64le(file.p + end64 + 32);
        bytes = qr_get_u64le(file.p + end64 + 40);
        at = qr_get_u64le(file.p + end64 + 48);
    }
    if (many_disks)
        return qr_fail(err, QR_DATA_LOSS, "%s: zip files in several parts are not supported", what);
    if (!zip_in_file(&z, at, bytes) || at + bytes > end)
        return qr_fail(err, QR_DATA_LOSS,
                       "%s: the zip directory lies outside the file (is it truncated?)", what);
    if (n > QR_ZIP_MAX_MEMBERS)
        return qr_fail(err, QR_DATA_LOSS, "%s: %llu members, above the limit of %d", what,
                       (unsigned long long)n, QR_ZIP_MAX_MEMBERS);
    z.directory = at;
    z.directory_end = at + bytes;
    z.n_members = n;
    *ret = z;
    return QR_OK;
}

/* Reads the zip64 extra field, which holds, in this order, those of (size, packed, offset) whose
 * 32-bit field is all ones. */
static bool zip_read_zip64(const uint8_t *extra, size_t n, uint64_t *size, uint64_t *packed,
                           uint64_t *offset) {
    uint64_t *wide[3] = {size, packed, offset};
    while (n >= 4) {
        size_t len = qr_get_u16le(extra + 2);
        if (len > n - 4) return false;
        if (qr_get_u16le(extra) == ZIP64_EXTRA) {
            const uint8_t *p = extra + 4;
            for (int i = 0; i < 3; i++) {
                if (*wide[i] != UINT32_MAX) continue;
                if (len < 8) return false;
                *wide[i] = qr_get_u64le(p);
                p += 8;
                len -= 8;
            }
            return true;
        }
        extra += 4 + len;
        n -= 4 + len;
    }
    return *size != UINT32_MAX && *packed != UINT32_MAX && *offset != UINT32_MAX;
}

/* True when a member's local header matches the directory. A local header may leave its sizes to a
 * data descriptor that follows the data. */
static bool zip_local_matches(const uint8_t *local, const uint8_t *extra, size_t extra_n,
                              const struct qr_zip_member *m) {
    uint64_t size = qr_get_u32le(local + 22), packed = qr_get_u32le(local + 18), none = 0;
    if (qr_get_u16le(local + 8) != m->method) return false;
    if (qr_get_u16le(local + 6) & SIZES_FOLLOW) return true;
    return zip_read_zip64(extra, extra_n, &size, &packed, &none) && size == m->size &&
           packed == m->packed && qr_get_u32le(local + 14) == m->crc;
}

/* Locates a member's bytes and checks them against the directory. */
static enum qr_code zip_find_data(const struct qr_zip *z, uint64_t offset, struct qr_zip_member *m,
                                  struct qr_err *err) {
    size_t name_n = strlen(m->name);
    const uint8_t *local = zip_in_file(z, offset, LOCAL_BYTES + name_n) ? z->file.p + offset : NULL;
    if (!local || qr_get_u32le(local) != LOCAL_SIGN || qr_get_u16le(local + 26) != name_n ||
        memcmp(local + LOCAL_BYTES, m->name, name_n) != 0)
        return qr_fail(err, QR_DATA_LOSS, "%s: member '%s' is not where the zip directory says",
                       z->what, m->name);
    size_t extra_n = qr_get_u16le(local + 28);
    uint64_t extra = offset + LOCAL_BYTES + name_n, data = extra + extra_n;
    if (!zip_in_file(z, data, m->packed) || data + m->packed > z->directory)
        return qr_fail(err, QR_DATA_LOSS,
                       "%s: member '%s' claims %llu bytes, more than the file holds (is it "
                       "truncated?)",
                       z->what, m->name, (unsigned long long)m->packed);
    if (m->method == 0 && m->packed != m->size)
        return qr_fail(err, QR_DATA_LOSS, "%s: member '%s' is stored with two different sizes",
                       z->what, m->name);
    if (m->method == 8 && m->size / MAX_DEFLATE_RATIO > m->packed)
        return qr_fail(err, QR_DATA_LOSS,
                       "%s: member '%s' claims to unpack to %llu bytes, but %llu packed bytes give "
                       "at most %llu",
                       z->what, m->name, (unsigned long long)m->size, (unsigned long long)m->packed,
                       (unsigned long long)m->packed * MAX_DEFLATE_RATIO);
    if (!zip_local_matches(local, z->file.p + extra, extra_n, m))
        return qr_fail(err, QR_DATA_LOSS,
                       "%s: member '%s': size, method or crc32 in its local header differ from the "
                       "zip directory",
                       z->what, m->name);
    m->begin = offset;
    m->data = qr_bytes_of(z->file.p + data, m->packed);
    return QR_OK;
}

/* Reads the directory entry at *at and advances *at. */
static enum qr_code zip_read_entry(const struct qr_zip *z, uint64_t *at, struct qr_zip_member *ret,
                                   struct qr_err *err) {
    uint64_t left = z->directory_end - *at;
    const uint8_t *p = z->file.p + *at;
    if (left < CENTRAL_BYTES || qr_get_u32le(p) != CENTRAL_SIGN)
        return qr_fail(err, QR_DATA_LOSS, "%s: the zip directory is damaged at byte %llu", z->what,
                       (unsigned long long)*at);
    size_t name_n = qr_get_u16le(p + 28), extra_n = qr_get_u16le(p + 30),
           comment_n = qr_get_u16le(p + 32);
    uint64_t offset = qr_get_u32le(p + 42);
    struct qr_zip_member m = {.method = qr_get_u16le(p + 10),
                              .crc = qr_get_u32le(p + 16),
                              .packed = qr_get_u32le(p + 20),
                              .size = qr_get_u32le(p + 24)};
    if (left - CENTRAL_BYTES < name_n + extra_n + comment_n || name_n == 0 ||
        name_n >= sizeof m.name || memchr(p + CENTRAL_BYTES, 0, name_n))
        return qr_fail(err, QR_DATA_LOSS, "%s: the zip directory has a malformed name at byte %llu",
                       z->what, (unsigned long long)*at);
    memcpy(m.name, p + CENTRAL_BYTES, name_n);
    if (qr_get_u16le(p + 8) & ENCRYPTED)
        return qr_fail(err, QR_DATA_LOSS, "%s: member '%s' is encrypted", z->what, m.name);
    if (m.method != 0 && m.method != 8)
        return qr_fail(err, QR_DATA_LOSS,
                       "%s: member '%s' is packed by zip method %u; save it with numpy.savez or "
                       "savez_compressed",
                       z->what, m.name, m.method);
    if (!zip_read_zip64(p + CENTRAL_BYTES + name_n, extra_n, &m.size, &m.packed, &offset))
        return qr_fail(err, QR_DATA_LOSS, "%s: member '%s' has a damaged zip64 size", z->what,
                       m.name);
    QR_TRY(zip_find_data(z, offset, &m, err));
    *ret = m;
    *at += CENTRAL_BYTES + name_n + extra_n + comment_n;
    return QR_OK;
}

static int zip_compare_begin(const void *a, const void *b) {
    const struct qr_zip_member *x = *(struct qr_zip_member *const *)a,
                               *y = *(struct qr_zip_member *const *)b;
    return x->begin < y->begin ? -1 : x->begin > y->begin;
}

/* Rejects members that share bytes: they would let a small file unpack to a large one. */
static enum qr_code zip_check_overlap(const struct qr_zip *z, struct qr_zip_member *m,
                                      struct qr_err *err) {
    size_t n = z->n_members;
    qr_auto(qr_free_p) struct qr_zip_member **by =
        qr_xcalloc(n + 1, sizeof(struct qr_zip_member *));
    for (size_t i = 0; i < n; i++) by[i] = &m[i];
    qsort(by, n, sizeof(struct qr_zip_member *), zip_compare_begin);
    for (size_t i = 1; i < n; i++)
        if (by[i]->begin < (uint64_t)(by[i - 1]->data.p - z->file.p) + by[i - 1]->packed)
            return qr_fail(err, QR_DATA_LOSS, "%s: members '%s' and '%s' overlap", z->what,
                           by[i - 1]->name, by[i]->name);
    return QR_OK;
}

enum qr_code qr_zip_members(const struct qr_zip *z, struct qr_zip_member **ret,
                            struct qr_err *err) {
    qr_auto(qr_free_p) struct qr_zip_member *m = qr_xcalloc(z->n_members + 1, sizeof *m);
    uint64_t at = z->directory;
    for (size_t i = 0; i < z->n_members; i++) QR_TRY(zip_read_entry(z, &at, &m[i], err));
    if (at != z->directory_end)
        return qr_fail(err, QR_DATA_LOSS, "%s: the zip directory has more entries than it says",
                       z->what);
    QR_TRY(zip_check_overlap(z, m, err));
    *ret = QR_MOVE(m);
    return QR_OK;
}

/* ---- a member's bytes ---- */

struct qr_zip_stream {
    const struct qr_zip *zip;
    const struct qr_zip_member *member;
    z_stream z;
    struct qr_bytes in; /* packed bytes not yet passed to zlib; of a stored member, not yet read */
    uint64_t left;      /* unpacked bytes still to read, by the directory */
    uint32_t crc;
    bool ended; /* zlib returned Z_STREAM_END */
};

static enum qr_code zip_fail_member(const struct qr_zip_stream *s, const char *why,
                                    struct qr_err *err) {
    return qr_fail(err, QR_DATA_LOSS, "%s: member '%s' %s", s->zip->what, s->member->name, why);
}

static enum qr_code zip_fail_memory(const struct qr_zip_stream *s, struct qr_err *err) {
    return qr_fail(err, QR_RESOURCE_EXHAUSTED, "%s: cannot unpack member '%s': out of memory",
                   s->zip->what, s->member->name);
}

enum qr_code qr_zip_stream_open(const struct qr_zip *z, const struct qr_zip_member *m,
                                struct qr_zip_stream **ret, struct qr_err *err) {
    qr_auto(qr_free_p) struct qr_zip_stream *s = qr_xcalloc(1, sizeof *s);
    *s = (struct qr_zip_stream){.zip = z, .member = m, .in = m->data, .left = m->size};
    if (m->method == 8 && inflateInit2(&s->z, -MAX_WBITS) != Z_OK) /* raw deflate */
        return zip_fail_memory(s, err);
    *ret = QR_MOVE(s);
    return QR_OK;
}

void qr_zip_stream_close(struct qr_zip_stream *s) {
    if (!s) return;
    if (s->member->method == 8) inflateEnd(&s->z);
    free(s);
}

/* Unpacks up to n bytes; *ret_n is less than n only at the end of the member. */
static enum qr_code zip_inflate(struct qr_zip_stream *s, uint8_t *to, size_t n, size_t *ret_n,
                                struct qr_err *err) {
    enum { STEP = 1 << 20 }; /* zlib counts in 32 bits */
    size_t done = 0;
    while (done < n && !s->ended) {
        if (s->z.avail_in == 0 && s->in.n) {
            s->z.avail_in = s->in.n < STEP ? (uInt)s->in.n : STEP;
            s->z.next_in = s->in.p;
            s->in = qr_bytes_of(s->in.p + s->z.avail_in, s->in.n - s->z.avail_in);
        }
        uInt space = n - done < STEP ? (uInt)(n - done) : STEP;
        s->z.next_out = to + done;
        s->z.avail_out = space;
        int rc = inflate(&s->z, Z_NO_FLUSH);
        done += space - s->z.avail_out;
        s->ended = rc == Z_STREAM_END;
        if (rc == Z_MEM_ERROR) return zip_fail_memory(s, err);
        if (rc == Z_BUF_ERROR || (rc == Z_OK && !s->z.avail_in && !s->in.n && s->z.avail_out))
            return zip_fail_member(s, "is truncated", err);
        if (rc != Z_OK && rc != Z_STREAM_END)
            return zip_fail_member(s, "is damaged (its packed bytes are malformed)", err);
    }
    *ret_n = done;
    return QR_OK;
}

enum qr_code qr_zip_stream_read(struct qr_zip_stream *s, void *to, size_t n, struct qr_err *err) {
    size_t got = n;
    if (n > s->left) return zip_fail_member(s, "is shorter than its header says", err);
    if (s->member->method == 8) {
        QR_TRY(zip_inflate(s, to, n, &got, err));
    } else if (n) {
        memcpy(to, s->in.p, n);
        s->in = qr_bytes_of(s->in.p + n, s->in.n - n);
    }
    if (got < n)
        return zip_fail_member(s, "unpacks to fewer bytes than the zip directory says", err);
    s->crc = qr_crc32(s->crc, to, n);
    s->left -= n;
    return QR_OK;
}

enum qr_code qr_zip_stream_end(struct qr_zip_stream *s, struct qr_err *err) {
    uint8_t more;
    size_t got = 0;
    QR_ASSERT(s->left == 0);
    if (s->member->method == 8) QR_TRY(zip_inflate(s, &more, 1, &got, err));
    if (got) return zip_fail_member(s, "unpacks to more bytes than the zip directory says", err);
    return s->crc == s->member->crc ? QR_OK
                                    : zip_fail_member(s, "is damaged (its crc32 differs)", err);
}

/* Appends numbers in the widths of `form`: 2 for a u16, 4 for a u32. */
static void zip_put(struct qr_buf *out, const char *form, ...) {
    va_list ap;
    va_start(ap, form);
    for (; *form; form++) {
        uint8_t b[4];
        qr_set_u32le(b, va_arg(ap, uint32_t));
        qr_buf_put(out, b, (size_t)(*form - '0'));
    }
    va_end(ap);
}

/* Writes the fields that local header and directory entry share: version needed (2.0) to length of
 * the extra field. */
static void zip_put_common(struct qr_buf *out, uint32_t crc, uint32_t bytes, uint32_t name_n) {
    zip_put(out, "2222244422", 20, 0, 0, 0, DATE_1980, crc, bytes, bytes, name_n, 0);
}

void qr_zip_put(struct qr_zip_writer *w, const char *name, struct qr_bytes content) {
    if (w->n_members == 0) w->start = w->out->n;
    size_t at = w->out->n - w->start, name_n = strlen(name);
    QR_ASSERT(name_n > 0 && name_n < QR_ZIP_NAME_CHARS && w->n_members < 65534);
    QR_ASSERT(content.n < UINT32_MAX - LOCAL_BYTES - QR_ZIP_NAME_CHARS &&
              at < UINT32_MAX - content.n);
    uint32_t crc = qr_crc32(0, content.p, content.n);
    zip_put(w->out, "4", LOCAL_SIGN);
    zip_put_common(w->out, crc, (uint32_t)content.n, (uint32_t)name_n);
    qr_buf_put(w->out, name, name_n);
    qr_buf_put(w->out, content.p, content.n);
    zip_put(&w->directory, "42", CENTRAL_SIGN, 20);
    zip_put_common(&w->directory, crc, (uint32_t)content.n, (uint32_t)name_n);
    /* Comment, disk, internal and external attributes */
    zip_put(&w->directory, "22244", 0, 0, 0, 0, (uint32_t)at);
    qr_buf_put(&w->directory, name, name_n);
    w->n_members++;
}

void qr_zip_end(struct qr_zip_writer *w) {
    if (w->n_members == 0) w->start = w->out->n;
    uint32_t at = (uint32_t)(w->out->n - w->start), n = (uint32_t)w->n_members;
    qr_buf_put(w->out, w->directory.p, w->directory.n);
    zip_put(w->out, "4422442", END_SIGN, 0, n, n, (uint32_t)w->directory.n, at, 0);
    qr_buf_free(&w->directory);
}
