/* base/bounds.h — what many rooms must agree on. */
#ifndef QR_BASE_BOUNDS_H
#define QR_BASE_BOUNDS_H

/* of a ring; indices and ranks are below. A set of them is a uint64_t */
enum { QR_MAX_MEMBERS = 64 };

#endif
