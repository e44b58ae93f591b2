/* base/bounds.h — limits shared by many components. */
#ifndef QR_BASE_BOUNDS_H
#define QR_BASE_BOUNDS_H

/* Members of a ring. Indices and ranks are below this number; a set of them is a uint64_t. */
enum { QR_MAX_MEMBERS = 64 };

#endif
