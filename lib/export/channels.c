/* export/channels.c — numbers and operators of noise channels, for formats that have no name for a
 * channel. Start reading at export_channel_operators(). */
#include "base/parse.h"
#include "export/export_impl.h"

enum qr_code export_channel_values(const struct qr_channel *c, const char *format,
                                   double ret[QR_CHANNEL_ARGS], struct qr_err *err) {
    if (!qr_channel_is_constant(c))
        return qr_fail(err, QR_UNIMPLEMENTED,
                       "%s has no %s with strengths that depend on weights; give weights", format,
                       c->info->names[0]);
    qr_channel_values(c, NULL, ret);
    return QR_OK;
}

enum qr_code export_channel_operators(const struct qr_channel *c, const char *format,
                                      double complex ret[QR_CHANNEL_KRAUS * 16], unsigned *ret_n,
                                      struct qr_err *err) {
    double a[QR_CHANNEL_ARGS];
    QR_TRY(export_channel_values(c, format, a, err));
    *ret_n = qr_channel_operators(c, a, ret);
    return QR_OK;
}

static void put_complex(double complex v, const char *unit, struct qr_buf *to) {
    char re[32], im[32];
    qr_number_text(creal(v), re);
    qr_number_text(cimag(v), im);
    if (cimag(v) == 0) qr_buf_puts(to, re);
    else if (creal(v) == 0) qr_buf_printf(to, "%s%s", im, unit);
    else qr_buf_printf(to, "%s%s%s%s", re, cimag(v) > 0 ? "+" : "", im, unit);
}

void export_matrix(const double complex *m, unsigned dim, const char *unit, struct qr_buf *to) {
    for (unsigned i = 0; i < dim * dim; i++) {
        qr_buf_puts(to, i == 0 ? "[[" : i % dim ? ", " : "], [");
        put_complex(m[i], unit, to);
    }
    qr_buf_puts(to, "]]");
}
