/* api/arguments.h — arguments and results of the C interface: arrays with strides, structs that may
 * grow, errors, and handles that one thread may use at a time. For both shared objects: the engine
 * (api) and training (api_train).
 *
 * Threads   any; pure functions but for qr_api_begin and qr_api_end.
 */
#ifndef QR_API_ARGUMENTS_H
#define QR_API_ARGUMENTS_H

#include <stdatomic.h>

#include "api/qring.h"
#include "base/err.h"
#include "base/number_env.h"

/* Copies a result into the caller's error, which may be NULL; returns the code. */
enum qring_code qr_api_report(struct qring_error *ret, enum qr_code code, const struct qr_err *err);

/* Begins a call on a handle, in the library's number environment: other libraries set subnormal
 * numbers to zero, which would change bits. A call without a handle that reads, computes or prints
 * numbers uses qr_number_env_enter alone.
 *
 * Args:     busy  of the handle
 *           what  the handle in messages: "function"
 *           env   the environment of the caller, for qr_api_end
 * Errors:   FAILED_PRECONDITION: another thread is using the handle
 */
QR_MUST_CHECK enum qr_code qr_api_begin(atomic_flag *busy, const char *what,
                                        struct qr_number_env *env, struct qr_err *err);
void qr_api_end(atomic_flag *busy, const struct qr_number_env *env);

/* Copies struct qring_NAME of the caller, which begins with its size; members beyond that size keep
 * their value in ret. from NULL: all keep it. */
QR_MUST_CHECK enum qr_code qr_api_struct(const void *from, const char *name, void *ret,
                                         size_t known, struct qr_err *err);
/* Number of threads for an option: 0 is the number of processors; at most that, or 4, because a
 * workspace of one large state supports at least four threads and as many as processors. */
unsigned qr_api_threads(unsigned threads);

void qr_array_set(const struct qring_array *a, size_t i, size_t j, size_t k, double v);
/* INVALID_ARGUMENT: the array is needed and NULL, or of an unknown type. */
QR_MUST_CHECK enum qr_code qr_array_check(const struct qring_array *a, const char *name,
                                          bool needed, struct qr_err *err);
/* Copies an array of n x m numbers into ret[n * m]. */
void qr_array_copy(const struct qring_array *a, size_t n, size_t m, double *ret);
/* Returns the array as n x m doubles, *ret_stride apart: its own memory where that has the form,
 * else a copy in *ret_own. OUT_OF_RANGE: a number is not finite, or 2^40 or more. */
QR_MUST_CHECK enum qr_code qr_array_doubles(const struct qring_array *a, const char *name, size_t n,
                                            size_t m, double **ret_own, const double **ret,
                                            size_t *ret_stride, struct qr_err *err);

#endif
