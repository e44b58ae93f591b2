/* train/members.h — the members of a generation as text. */
#ifndef QR_TRAIN_MEMBERS_H
#define QR_TRAIN_MEMBERS_H

#include "group/group.h"

/* Writes how many members there are of each role, and their indices: "2 workers (1, 2) and 1
 * parameter server (0)". */
void qr_members_text(const struct qr_group_view *view, char *ret, size_t cap);

#endif
