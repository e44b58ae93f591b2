/* train/members.h — the members of a generation, for people. */
#ifndef QR_TRAIN_MEMBERS_H
#define QR_TRAIN_MEMBERS_H

#include "group/group.h"

/* "2 workers (1, 2) and 1 parameter server (0)": how many of each, and their indices. */
void qr_members_text(const struct qr_group_view *view, char *ret, size_t cap);

#endif
