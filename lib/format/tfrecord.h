/* format/tfrecord.h — TFRecord: u64le length | u32le masked crc32c of the length | data | u32le
 * masked crc32c of the data.
 *
 * Source    TensorFlow's record_writer: mask(crc) = rotate right by 15, plus 0xa282ead8.
 * Files     only grow: a reader that meets half a record at the end waits for the rest (TORN), one
 *           that meets a wrong checksum gives the file up for good (DAMAGED). So nobody may rewrite
 *           a byte that stands there.
 * Threads   pure; no state.
 */
#ifndef QR_FORMAT_TFRECORD_H
#define QR_FORMAT_TFRECORD_H

#include "base/bytes.h"

/* Appends one record. */
void qr_tfrecord_put(struct qr_buf *ret, struct qr_bytes data);

enum qr_tfrecord_status { QR_TFRECORD_ONE, QR_TFRECORD_END, QR_TFRECORD_TORN, QR_TFRECORD_DAMAGED };
/* The record at *at, which then moves behind it: ONE, *ret borrows from the file. Else *at and *ret
 * stay: END of whole records, TORN, or DAMAGED (a wrong checksum, or more than max_bytes of data):
 * err says where (DATA_LOSS, naming `what`). */
QR_MUST_CHECK enum qr_tfrecord_status qr_tfrecord_next(struct qr_bytes file, const char *what,
                                                       size_t max_bytes, size_t *at,
                                                       struct qr_bytes *ret, struct qr_err *err);

#endif
