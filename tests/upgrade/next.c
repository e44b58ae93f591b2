/* tests/upgrade/next.c — linked into workers of later versions (tests/it/upgrade.sh): each control
 * message has a field that this version does not know, as a later version may add one. */
#include "format/message.h"

enum qr_code __real_qr_message_encode(const struct qr_message *m, struct qr_buf *ret,
                                      struct qr_err *err);
enum qr_code __wrap_qr_message_encode(const struct qr_message *m, struct qr_buf *ret,
                                      struct qr_err *err);

enum qr_code __wrap_qr_message_encode(const struct qr_message *m, struct qr_buf *ret,
                                      struct qr_err *err) {
    static const char field[] = "\xc0\x3e\x01"; /* number 1000, varint 1 */
    QR_TRY(__real_qr_message_encode(m, ret, err));
    qr_buf_put(ret, field, sizeof field - 1);
    return QR_OK;
}
