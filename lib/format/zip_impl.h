/* format/zip_impl.h — members of a zip file in memory; private to npz.
 *
 * Source    APPNOTE 6.3.10 §4.3 (stored and deflated members, zip64 as numpy.savez writes it). One disk, no encryption.
 */
#ifndef QR_FORMAT_ZIP_IMPL_H
#define QR_FORMAT_ZIP_IMPL_H

#include "base/bytes.h"

enum { QR_ZIP_MAX_MEMBERS = 4096, QR_ZIP_NAME_CHARS = 256 };

struct qr_zip { struct qr_bytes file; const char *what; uint64_t directory, directory_end, n_members; };
struct qr_zip_member {
    char name[QR_ZIP_NAME_CHARS];
    unsigned method; /* 0 stored, 8 deflated */
    uint32_t crc;
    uint64_t packed, size;
    struct qr_bytes data; /* packed bytes, inside the file */
};

/* Finds the central directory. DATA_LOSS naming what. */
QR_MUST_CHECK enum qr_code qr_zip_open(struct qr_bytes file, const char *what, struct qr_zip *ret, struct qr_err *err);
/* The member whose directory entry stands at *at (begin with zip.directory); moves *at behind it. */
QR_MUST_CHECK enum qr_code qr_zip_member(const struct qr_zip *z, uint64_t *at, struct qr_zip_member *ret, struct qr_err *err);
/* Its bytes: borrowed from the file when stored, else inflated into *room. At most max_bytes; crc32 and size checked. */
QR_MUST_CHECK enum qr_code qr_zip_content(const struct qr_zip *z, const struct qr_zip_member *m, size_t max_bytes, struct qr_buf *room,
                                          struct qr_bytes *ret, struct qr_err *err);

/* Writer: stored members, no times. Names at most 255 bytes, fewer than 65535 members, below 4 GiB in all. */
struct qr_zip_writer { struct qr_buf *out; struct qr_buf directory; size_t n_members, start; };
void qr_zip_put(struct qr_zip_writer *w, const char *name, struct qr_bytes content);
void qr_zip_end(struct qr_zip_writer *w);

#endif
