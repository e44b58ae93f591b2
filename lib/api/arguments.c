/* api/arguments.c — arrays, structs, handles and errors of the C interface. Start reading at
 * qr_array_doubles(). */
#include "api/arguments.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "base/pool.h"

enum qring_code qr_api_report(struct qring_error *ret, enum qr_code code,
                              const struct qr_err *err) {
    if (ret) {
        ret->code = (enum qring_code)code;
        snprintf(ret->message, sizeof ret->message, "%s", code == QR_OK ? "" : err->msg);
    }
    return (enum qring_code)code;
}

enum qr_code qr_api_begin(atomic_flag *busy, const char *what, struct qr_number_env *env,
                          struct qr_err *err) {
    if (atomic_flag_test_and_set(busy))
        return qr_fail(err, QR_FAILED_PRECONDITION,
                       "cannot call: another thread is using this %s; use one %s for each thread, "
                       "or a lock",
                       what, what);
    qr_number_env_enter(env);
    return QR_OK;
}

void qr_api_end(atomic_flag *busy, const struct qr_number_env *env) {
    qr_number_env_leave(env);
    atomic_flag_clear(busy);
}

enum qr_code qr_api_struct(const void *from, const char *name, void *ret, size_t known,
                           struct qr_err *err) {
    size_t size;
    if (!from) return QR_OK;
    memcpy(&size, from, sizeof size);
    if (size < sizeof size || size > known)
        return qr_fail(err, QR_INVALID_ARGUMENT,
                       "cannot read the options: struct_size is %zu, this library knows %zu bytes; "
                       "set it to sizeof (struct qring_%s)",
                       size, known, name);
    memcpy(ret, from, size);
    return QR_OK;
}

unsigned qr_api_threads(unsigned threads) {
    unsigned cpus = qr_cpu_limit(), most = cpus < 4 ? 4 : cpus;
    if (!threads) return cpus;
    return threads < most ? threads : most;
}

/* ---- arrays ---- */

static void *array_at(const struct qring_array *a, size_t i, size_t j, size_t k) {
    return (char *)a->data + (ptrdiff_t)i * a->strides[0] + (ptrdiff_t)j * a->strides[1] +
           (ptrdiff_t)k * a->strides[2];
}

static double array_get(const struct qring_array *a, size_t i, size_t j) {
    const void *p = array_at(a, i, j, 0);
    float f;
    double d;
    if (a->dtype == QRING_FLOAT32) {
        memcpy(&f, p, sizeof f);
        return (double)f;
    }
    memcpy(&d, p, sizeof d);
    return d;
}

void qr_array_set(const struct qring_array *a, size_t i, size_t j, size_t k, double v) {
    void *p = array_at(a, i, j, k);
    float f = (float)v;
    if (a->dtype == QRING_FLOAT32) memcpy(p, &f, sizeof f);
    else memcpy(p, &v, sizeof v);
}

enum qr_code qr_array_check(const struct qring_array *a, const char *name, bool needed,
                            struct qr_err *err) {
    if (!needed) return QR_OK;
    if (!a || !a->data) return qr_fail(err, QR_INVALID_ARGUMENT, "cannot call: %s is NULL", name);
    if (a->dtype != QRING_FLOAT32 && a->dtype != QRING_FLOAT64)
        return qr_fail(err, QR_INVALID_ARGUMENT,
                       "cannot read %s: dtype %d is neither QRING_FLOAT32 nor QRING_FLOAT64", name,
                       (int)a->dtype);
    return QR_OK;
}

void qr_array_copy(const struct qring_array *a, size_t n, size_t m, double *ret) {
    for (size_t i = 0; i < n; i++)
        for (size_t j = 0; j < m; j++) ret[i * m + j] = array_get(a, i, j);
}

enum qr_code qr_array_doubles(const struct qring_array *a, const char *name, size_t n, size_t m,
                              double **ret_own, const double **ret, size_t *ret_stride,
                              struct qr_err *err) {
    *ret = NULL;
    *ret_stride = m;
    if (!n || !m) return QR_OK;
    QR_TRY(qr_array_check(a, name, true, err));
    bool rows = a->dtype == QRING_FLOAT64 && (uintptr_t)a->data % sizeof(double) == 0 &&
                (m == 1 || a->strides[1] == sizeof(double)) &&
                (n == 1 || (a->strides[0] >= 0 && a->strides[0] % (ptrdiff_t)sizeof(double) == 0));
    if (rows) {
        *ret = a->data;
        if (n > 1) *ret_stride = (size_t)a->strides[0] / sizeof(double);
    } else {
        void *p;
        QR_TRY(qr_large_new(n * m, sizeof(double), name, &p, err));
        *ret = *ret_own = p;
        qr_array_copy(a, n, m, *ret_own);
    }
    for (size_t i = 0; i < n; i++)
        for (size_t j = 0; j < m; j++) {
            double v = (*ret)[i * *ret_stride + j];
            if (!(fabs(v) < 0x1p40))
                return qr_fail(err, QR_OUT_OF_RANGE,
                               "cannot use %s: element [%zu][%zu] is %g; numbers must be finite "
                               "and below 2^40",
                               name, i, j, v);
        }
    return QR_OK;
}
