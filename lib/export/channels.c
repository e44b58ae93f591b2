/* export/channels.c — numbers and operators of noise channels, for formats that have no name for a
 * channel. Start reading at export_channel_operators(). */
#include <math.h>
#include <stdio.h>
#include <string.h>

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

/* root times the Pauli with these digits. */
static void set_pauli(unsigned pauli, unsigned n_targets, double root, double complex *ret) {
    unsigned dim = 1u << n_targets;
    for (unsigned row = 0; row < dim; row++) {
        unsigned column = row;
        double re = root, im = 0;
        for (unsigned k = 0; k < n_targets; k++) {
            unsigned digit = pauli >> 2 * k & 3, bit = row >> k & 1;
            double sign = bit ? 1 : -1, old = re;
            if (digit == 1 || digit == 2) column ^= 1u << k;
            if (digit == 2) re = -sign * im, im = sign * old; /* Y: -i above, i below */
            if (digit == 3 && bit) re = -re, im = -im;
        }
        ret[row * dim + column] = __builtin_complex(re, im);
    }
}

enum qr_code export_channel_operators(const struct qr_channel *c, const char *format,
                                      double complex ret[QR_CHANNEL_KRAUS * 16], unsigned *ret_n,
                                      struct qr_err *err) {
    double a[QR_CHANNEL_ARGS], p[16];
    unsigned n = 0, n_targets = c->info->n_targets, size = 1u << 2 * n_targets;
    *ret_n = 0;
    QR_TRY(export_channel_values(c, format, a, err));
    if (!qr_channel_errors(c, a, p, NULL)) {
        n = qr_channel_kraus(c, a, ret, NULL);
    } else {
        memset(ret, 0, QR_CHANNEL_KRAUS * 16 * sizeof *ret);
        for (; n < size; n++) set_pauli(n, n_targets, sqrt(p[n]), ret + (size_t)n * 16);
    }
    for (unsigned k = 0; k < n; k++) { /* those that are not 0 */
        bool zero = true;
        for (unsigned i = 0; i < size; i++) zero &= ret[k * 16 + i] == 0;
        if (!zero) memmove(ret + (size_t)(*ret_n)++ * 16, ret + (size_t)k * 16, 16 * sizeof *ret);
    }
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
