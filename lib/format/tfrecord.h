/* format/tfrecord.h — TFRecord: u64le length | u32le masked crc32c of the length | data | u32le
 * masked crc32c of the data.
 *
 * Source    TensorFlow's record_writer: mask(crc) = rotate right by 15, plus 0xa282ead8.
 * Files     are append-only. TensorBoard waits for the rest of an incomplete record at the end
 *           (TORN), but gives up a file for good after a wrong checksum (DAMAGED), so a writer must
 *           never rewrite a byte.
 * Threads   any; pure functions.
 */
#ifndef QR_FORMAT_TFRECORD_H
#define QR_FORMAT_TFRECORD_H

#include "base/bytes.h"

/* Appends one record. */
void qr_tfrecord_put(struct qr_buf *ret, struct qr_bytes data);

enum qr_tfrecord_status { QR_TFRECORD_ONE, QR_TFRECORD_END, QR_TFRECORD_TORN, QR_TFRECORD_DAMAGED };
/* Reads the record at *at.
 *
 * Returns:  ONE: *ret borrows the data from the file, *at is advanced. Otherwise both stay as they
 *           are: END (no more bytes), TORN (an incomplete record), DAMAGED (a wrong checksum, or
 *           more than max_bytes of data; *err has DATA_LOSS with `what` and the position).
 */
QR_MUST_CHECK enum qr_tfrecord_status qr_tfrecord_next(struct qr_bytes file, const char *what,
                                                       size_t max_bytes, size_t *at,
                                                       struct qr_bytes *ret, struct qr_err *err);

#endif
