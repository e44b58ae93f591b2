/* cirq/cirq.c — one circuit of Cirq or TensorFlow Quantum. Start reading at qr_cirq_read(). */
#include "cirq/cirq.h"

#include <string.h>

#include "cirq/cirq_impl.h"
#include "format/tfq_program.h"

/* JSON's first character, after a byte-order mark and blanks; 0: none. */
static char first_character(struct qr_bytes b) {
    size_t at = b.n >= 3 && memcmp(b.p, "\xef\xbb\xbf", 3) == 0 ? 3 : 0;
    while (at < b.n && strchr(" \t\r\n", b.p[at]) && b.p[at]) at++;
    return at < b.n ? (char)b.p[at] : 0;
}

bool qr_cirq_recognizes(struct qr_bytes bytes) {
    char first = first_character(bytes);
    return qr_tfq_is_program(bytes) || first == '{' || first == '[';
}

static enum qr_code read_any(struct cirq_reader *r, struct qr_bytes bytes, struct qr_program *ret) {
    if (bytes.n > QR_PROGRAM_BYTES)
        return qr_fail(r->err, QR_INVALID_ARGUMENT, "%zu bytes; at most %d are read", bytes.n,
                       QR_PROGRAM_BYTES);
    QR_TRY(qr_tfq_is_program(bytes) ? cirq_tfq_program(r, bytes) : cirq_json(r, bytes));
    return cirq_build(r, (unsigned)r->n_inputs, ret);
}

enum qr_code qr_cirq_read(struct qr_bytes bytes, const struct qr_program_options *options,
                          struct qr_program *ret, struct qr_err *err) {
    struct qr_program p = {0};
    struct cirq_reader *r = NULL;
    enum qr_code code = cirq_reader_new(options, &r, err);
    if (!code) code = read_any(r, bytes, &p);
    cirq_reader_free(r);
    if (code) qr_program_fini(&p);
    else *ret = p;
    return code;
}
