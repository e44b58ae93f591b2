/* train/members.c — the members of a generation as text. Start reading at qr_members_text(). */
#include "train/members.h"

#include <stdio.h>

static size_t format_members(const struct qr_group_view *view, bool servers, char *ret,
                             size_t cap) {
    char list[QR_MAX_MEMBERS * 4 + 1] = "";
    size_t n = 0;
    unsigned many = 0;
    for (uint32_t r = 0; r < view->n_members; r++)
        if ((view->servers >> r & 1) == servers)
            n += (size_t)snprintf(list + n, sizeof list - n, "%s%u", many++ ? ", " : "",
                                  view->index[r]);
    int k = snprintf(ret, cap, "%s%u %s%s (%s)", servers ? " and " : "", many,
                     servers ? "parameter server" : "worker", many == 1 ? "" : "s", list);
    return k > 0 && (size_t)k < cap ? (size_t)k : 0;
}

void qr_members_text(const struct qr_group_view *view, char *ret, size_t cap) {
    size_t n = format_members(view, false, ret, cap);
    if (n && view->servers) format_members(view, true, ret + n, cap - n);
}
