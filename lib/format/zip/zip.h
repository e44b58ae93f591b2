/* format/zip/zip.h — members of a zip file in memory; private to npz.
 *
 * Source    APPNOTE 6.3.10 §4.3 (stored and deflated members, zip64 as numpy.savez writes it). One
 *           disk, no encryption.
 */
#ifndef QR_FORMAT_ZIP_ZIP_H
#define QR_FORMAT_ZIP_ZIP_H

#include "base/bytes.h"

enum { QR_ZIP_MAX_MEMBERS = 4096, QR_ZIP_NAME_CHARS = 256 };

struct qr_zip {
    struct qr_bytes file;
    const char *what;
    uint64_t directory, directory_end, n_members;
};
struct qr_zip_member {
    char name[QR_ZIP_NAME_CHARS];
    unsigned method; /* 0 stored, 8 deflated */
    uint32_t crc;
    uint64_t packed, size, begin; /* begin: offset of the local header in the file */
    struct qr_bytes data;         /* packed bytes; points into the file */
};

/* Finds the central directory. DATA_LOSS, naming `what` (the file, for messages). */
QR_MUST_CHECK enum qr_code qr_zip_open(struct qr_bytes file, const char *what, struct qr_zip *ret,
                                       struct qr_err *err);
/* Lists all members in the directory's order, z->n_members of them, on the heap. Unpacks nothing.
 * DATA_LOSS: members overlap, lie outside the file, have a local header that disagrees with the
 * directory, or claim more bytes than deflate can produce. */
QR_MUST_CHECK enum qr_code qr_zip_members(const struct qr_zip *z, struct qr_zip_member **ret,
                                          struct qr_err *err);

/* Reads a member's unpacked bytes sequentially, as many as the directory says. Allocates only
 * zlib's own memory. zip and member are borrowed. Errors: DATA_LOSS; RESOURCE_EXHAUSTED. */
struct qr_zip_stream;
QR_MUST_CHECK enum qr_code qr_zip_stream_open(const struct qr_zip *z, const struct qr_zip_member *m,
                                              struct qr_zip_stream **ret, struct qr_err *err);
/* Reads exactly n more bytes. */
QR_MUST_CHECK enum qr_code qr_zip_stream_read(struct qr_zip_stream *s, void *to, size_t n,
                                              struct qr_err *err);
/* Call after the last byte: checks that no more bytes follow and that the crc32 matches. */
QR_MUST_CHECK enum qr_code qr_zip_stream_end(struct qr_zip_stream *s, struct qr_err *err);
void qr_zip_stream_close(struct qr_zip_stream *s);

/* Writer: stored members without time stamps. Names of at most 255 bytes, fewer than 65535 members,
 * less than 4 GiB in total. Start with {.out = buffer}; call qr_zip_end last. */
struct qr_zip_writer {
    struct qr_buf *out;
    struct qr_buf directory;
    size_t n_members, start;
};
void qr_zip_put(struct qr_zip_writer *w, const char *name, struct qr_bytes content);
void qr_zip_end(struct qr_zip_writer *w);

#endif
