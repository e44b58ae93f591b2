/* base/bounds.h — bounds that several rooms share. */
#ifndef QR_BASE_BOUNDS_H
#define QR_BASE_BOUNDS_H

/* The most members that a ring can have, and indices that a worker can have. */
#define QR_MAX_MEMBERS 64

#endif
