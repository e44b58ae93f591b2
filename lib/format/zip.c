#include <string.h>
#define ZLIB_CONST /* next_in is only read */
#include <zlib.h>

#include "base/checksum.h"
#include "format/zip_impl.h"

enum {
    LOCAL_BYTES = 30, CENTRAL_BYTES = 46, END_BYTES = 22, END64_BYTES = 56, LOCATOR_BYTES = 20,
    LOCAL_SIGN = 0x04034b50, CENTRAL_SIGN = 0x02014b50, END_SIGN = 0x06054b50, END64_SIGN = 0x06064b50, LOCATOR_SIGN = 0x07064b50,
    ENCRYPTED = 1, ZIP64_EXTRA = 1,
    DATE_1980 = 0x21, /* 1 January 1980, the earliest that zip can say */
};

static bool inside(const struct qr_zip *z, uint64_t at, uint64_t n) { return at <= z->file.n && n <= z->file.n - at; }

static bool end_record(const struct qr_zip *z, size_t *ret) {
    if (z->file.n < END_BYTES) return false;
    size_t last = z->file.n - END_BYTES, first = last > 65535 ? last - 65535 : 0;
    for (size_t at = last + 1; at-- > first;) {
        const uint8_t *p = z->file.p + at;
        if (qr_get_u32le(p) != END_SIGN || qr_get_u16le(p + 20) != z->file.n - at - END_BYTES) continue;
        *ret = at;
        return true;
    }
    return false;
}

enum qr_code qr_zip_open(struct qr_bytes file, const char *what, struct qr_zip *ret, struct qr_err *err) {
    struct qr_zip z = {.file = file, .what = what};
    size_t end;
    if (!end_record(&z, &end)) return qr_fail(err, QR_DATA_LOSS, "%s: not a whole zip file (no end record; is it cut short?)", what);
    const uint8_t *p = file.p + end;
    uint64_t n = qr_get_u16le(p + 10), bytes = qr_get_u32le(p + 12), at = qr_get_u32le(p + 16);
    bool many_disks = qr_get_u16le(p + 4) != 0 && qr_get_u16le(p + 4) != 0xffff;
    if (n == 0xffff || bytes == UINT32_MAX || at == UINT32_MAX) {
        if (end < LOCATOR_BYTES || qr_get_u32le(p - LOCATOR_BYTES) != LOCATOR_SIGN)
            return qr_fail(err, QR_DATA_LOSS, "%s: the zip64 end record is missing", what);
        uint64_t end64 = qr_get_u64le(p - LOCATOR_BYTES + 8);
        if (!inside(&z, end64, END64_BYTES) || qr_get_u32le(file.p + end64) != END64_SIGN)
            return qr_fail(err, QR_DATA_LOSS, "%s: the zip64 end record is not where the file says", what);
        n = qr_get_u64le(file.p + end64 + 32);
        bytes = qr_get_u64le(file.p + end64 + 40);
        at = qr_get_u64le(file.p + end64 + 48);
    }
    if (many_disks) return qr_fail(err, QR_DATA_LOSS, "%s: a zip file in several parts is not read", what);
    if (!inside(&z, at, bytes) || at + bytes > end)
        return qr_fail(err, QR_DATA_LOSS, "%s: the zip directory is said to lie outside the file (is it cut short?)", what);
    if (n > QR_ZIP_MAX_MEMBERS)
        return qr_fail(err, QR_DATA_LOSS, "%s: %llu members; at most %d are read", what, (unsigned long long)n, QR_ZIP_MAX_MEMBERS);
    z.directory = at;
    z.directory_end = at + bytes;
    z.n_members = n;
    *ret = z;
    return QR_OK;
}

/* The zip64 extra field holds, in this order, those of (size, packed, offset) that are all ones in the entry. */
static bool widen(const uint8_t *extra, size_t n, uint64_t *size, uint64_t *packed, uint64_t *offset) {
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

enum qr_code qr_zip_member(const struct qr_zip *z, uint64_t *at, struct qr_zip_member *ret, struct qr_err *err) {
    uint64_t left = z->directory_end - *at;
    const uint8_t *p = z->file.p + *at;
    if (left < CENTRAL_BYTES || qr_get_u32le(p) != CENTRAL_SIGN)
        return qr_fail(err, QR_DATA_LOSS, "%s: the zip directory is damaged at byte %llu", z->what, (unsigned long long)*at);
    size_t name_n = qr_get_u16le(p + 28), extra_n = qr_get_u16le(p + 30), comment_n = qr_get_u16le(p + 32);
    uint64_t offset = qr_get_u32le(p + 42);
    struct qr_zip_member m = {.method = qr_get_u16le(p + 10), .crc = qr_get_u32le(p + 16), .packed = qr_get_u32le(p + 20), .size = qr_get_u32le(p + 24)};
    if (left - CENTRAL_BYTES < name_n + extra_n + comment_n || name_n == 0 || name_n >= sizeof m.name || memchr(p + CENTRAL_BYTES, 0, name_n))
        return qr_fail(err, QR_DATA_LOSS, "%s: the zip directory has an impossible name at byte %llu", z->what, (unsigned long long)*at);
    memcpy(m.name, p + CENTRAL_BYTES, name_n);
    if (qr_get_u16le(p + 8) & ENCRYPTED) return qr_fail(err, QR_DATA_LOSS, "%s: member '%s' is encrypted", z->what, m.name);
    if (m.method != 0 && m.method != 8)
        return qr_fail(err, QR_DATA_LOSS, "%s: member '%s' is packed by zip method %u; save it with numpy.savez or savez_compressed", z->what,
                       m.name, m.method);
    if (!widen(p + CENTRAL_BYTES + name_n, extra_n, &m.size, &m.packed, &offset))
        return qr_fail(err, QR_DATA_LOSS, "%s: member '%s' has a damaged zip64 size", z->what, m.name);
    const uint8_t *local = inside(z, offset, LOCAL_BYTES + name_n) ? z->file.p + offset : NULL;
    if (!local || qr_get_u32le(local) != LOCAL_SIGN || qr_get_u16le(local + 26) != name_n || memcmp(local + LOCAL_BYTES, m.name, name_n) != 0)
        return qr_fail(err, QR_DATA_LOSS, "%s: member '%s' is not where the zip directory says", z->what, m.name);
    uint64_t data = offset + LOCAL_BYTES + name_n + qr_get_u16le(local + 28);
    if (!inside(z, data, m.packed) || data + m.packed > z->directory)
        return qr_fail(err, QR_DATA_LOSS, "%s: member '%s' is said to have %llu bytes, more than the file holds (is it cut short?)", z->what, m.name,
                       (unsigned long long)m.packed);
    if (m.method == 0 && m.packed != m.size)
        return qr_fail(err, QR_DATA_LOSS, "%s: member '%s' is stored with two different sizes", z->what, m.name);
    m.data = qr_bytes_of(z->file.p + data, m.packed);
    *ret = m;
    *at += CENTRAL_BYTES + name_n + extra_n + comment_n;
    return QR_OK;
}

static const char no_memory[] = "cannot be unpacked: no memory";

/* Raw deflate in steps, so that memory follows what really comes out and not what the directory says. */
static const char *inflate_into(struct qr_bytes in, uint64_t size, struct qr_buf *out) {
    enum { STEP = 1 << 20 };
    z_stream s = {0};
    if (inflateInit2(&s, -MAX_WBITS) != Z_OK) return no_memory;
    const char *why = NULL;
    int rc = Z_OK;
    while (!why && rc != Z_STREAM_END) {
        if (s.avail_in == 0 && in.n) { /* zlib counts in 32 bits */
            s.avail_in = in.n < STEP ? (uInt)in.n : STEP;
            s.next_in = in.p;
            in = qr_bytes_of(in.p + s.avail_in, in.n - s.avail_in);
        }
        size_t have = out->n, room = size - have < STEP ? size - have + 1 : STEP;
        uint8_t *at = qr_buf_grow(out, room);
        if (!at) {
            why = "is too large to be unpacked";
            break;
        }
        s.next_out = at;
        s.avail_out = (uInt)room;
        rc = inflate(&s, Z_NO_FLUSH);
        out->n = have + room - s.avail_out;
        if (out->n > size) why = "unpacks to more bytes than the zip directory says";
        else if (rc == Z_BUF_ERROR || (rc == Z_OK && !s.avail_in && !in.n && s.avail_out)) why = "is cut short";
        else if (rc == Z_MEM_ERROR) why = no_memory;
        else if (rc != Z_OK && rc != Z_STREAM_END) why = "is damaged (its packed bytes make no sense)";
    }
    inflateEnd(&s);
    if (!why && out->n != size) why = "unpacks to fewer bytes than the zip directory says";
    return why;
}

enum qr_code qr_zip_content(const struct qr_zip *z, const struct qr_zip_member *m, size_t max_bytes, struct qr_buf *room, struct qr_bytes *ret,
                            struct qr_err *err) {
    if (m->size > max_bytes)
        return qr_fail(err, QR_DATA_LOSS, "%s: member '%s' would take %llu bytes; at most %zu are read", z->what, m->name, (unsigned long long)m->size,
                       max_bytes);
    struct qr_bytes content = m->data;
    if (m->method == 8) {
        qr_buf_clear(room);
        room->max = (size_t)m->size + 1;
        const char *why = inflate_into(m->data, m->size, room);
        if (why) return qr_fail(err, why == no_memory ? QR_RESOURCE_EXHAUSTED : QR_DATA_LOSS, "%s: member '%s' %s", z->what, m->name, why);
        content = qr_buf_view(room);
    }
    if (qr_crc32(0, content.p, content.n) != m->crc)
        return qr_fail(err, QR_DATA_LOSS, "%s: member '%s' is damaged (its crc32 differs)", z->what, m->name);
    *ret = content;
    return QR_OK;
}

static void put16(struct qr_buf *out, unsigned v) {
    uint8_t b[2] = {(uint8_t)v, (uint8_t)(v >> 8)};
    qr_buf_put(out, b, 2);
}
static void put32(struct qr_buf *out, uint32_t v) {
    uint8_t b[4];
    qr_set_u32le(b, v);
    qr_buf_put(out, b, 4);
}

/* What local header and directory entry share: version needed to name length. */
static void put_common(struct qr_buf *out, uint32_t crc, size_t bytes, size_t name_n) {
    put16(out, 20);
    put16(out, 0);
    put16(out, 0);
    put16(out, 0);
    put16(out, DATE_1980);
    put32(out, crc);
    put32(out, (uint32_t)bytes);
    put32(out, (uint32_t)bytes);
    put16(out, (unsigned)name_n);
    put16(out, 0);
}

void qr_zip_put(struct qr_zip_writer *w, const char *name, struct qr_bytes content) {
    if (w->n_members == 0) w->start = w->out->n;
    size_t at = w->out->n - w->start, name_n = strlen(name);
    QR_ASSERT(name_n > 0 && name_n < QR_ZIP_NAME_CHARS && w->n_members < 65534);
    QR_ASSERT(content.n < UINT32_MAX - LOCAL_BYTES - QR_ZIP_NAME_CHARS && at < UINT32_MAX - content.n);
    uint32_t crc = qr_crc32(0, content.p, content.n);
    put32(w->out, LOCAL_SIGN);
    put_common(w->out, crc, content.n, name_n);
    qr_buf_put(w->out, name, name_n);
    qr_buf_put(w->out, content.p, content.n);
    put32(&w->directory, CENTRAL_SIGN);
    put16(&w->directory, 20);
    put_common(&w->directory, crc, content.n, name_n);
    for (int i = 0; i < 3; i++) put16(&w->directory, 0); /* comment, disk, internal attributes */
    put32(&w->directory, 0);
    put32(&w->directory, (uint32_t)at);
    qr_buf_put(&w->directory, name, name_n);
    w->n_members++;
}

void qr_zip_end(struct qr_zip_writer *w) {
    if (w->n_members == 0) w->start = w->out->n;
    uint32_t at = (uint32_t)(w->out->n - w->start);
    qr_buf_put(w->out, w->directory.p, w->directory.n);
    put32(w->out, END_SIGN);
    put32(w->out, 0);
    put16(w->out, (unsigned)w->n_members);
    put16(w->out, (unsigned)w->n_members);
    put32(w->out, (uint32_t)w->directory.n);
    put32(w->out, at);
    put16(w->out, 0);
    qr_buf_free(&w->directory);
}
