/* What analyzers that see one file at a time are told of lib/base/err.h: qr_fail gives its code
 * back, and what is wrapped is an error. */
#include "base/err.h"
#undef qr_fail
#undef qr_fail_errno
#define qr_fail(err, code, ...) (qr_fail_at((err), (code), __FILE__, __LINE__, __VA_ARGS__), (code))
#define qr_fail_errno(err, sys, ...)                                                               \
    (qr_fail_errno_at((err), (sys), __FILE__, __LINE__, __VA_ARGS__), QR_UNKNOWN)
#define qr_wrap(err, ...) (qr_wrap((err), __VA_ARGS__), QR_UNKNOWN)
