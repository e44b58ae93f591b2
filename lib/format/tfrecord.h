/* format/tfrecord.h — TFRecord: u64le length | u32le masked crc32c of the length | data | u32le
 * masked crc32c of the data.
 *
 * Source    TensorFlow's record_writer: mask(crc) = rotate right by 15, plus 0xa282ead8.
 * Files     are append-only. TensorBoard waits for the rest of an incomplete record at the end, but
 *           gives up a file for good after a wrong checksum, so a writer must never rewrite a byte.
 * Threads   any; pure functions.
 */
#ifndef QR_FORMAT_TFRECORD_H
#define QR_FORMAT_TFRECORD_H

#include "base/bytes.h"

/* Appends one record. */
void qr_tfrecord_put(struct qr_buf *ret, struct qr_bytes data);

#endif
