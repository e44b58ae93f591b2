/* base/bounds.h — limits shared by many components. */
#ifndef QR_BASE_BOUNDS_H
#define QR_BASE_BOUNDS_H

/* Members of a ring. Indices and ranks are below this number; a set of them is a uint64_t. */
enum { QR_MAX_MEMBERS = 64 };
/* Each peer beyond QR_FEW_PEERS makes heartbeats and beats rarer by this (membership rule 1). */
enum { QR_FEW_PEERS = 8, QR_PEER_GAP_MS = 16 };

#endif
