/* tests/group_form.h — forms a group for tests that only reduce: a state of 0 reductions. */
#ifndef QR_TESTS_GROUP_FORM_H
#define QR_TESTS_GROUP_FORM_H

#include "group/group.h"

static inline enum qr_code form_group(struct qr_group *g, struct qr_group_view *ret,
                                      struct qr_err *err) {
    static const uint8_t none[16];
    struct qr_group_start start;
    QR_TRY(qr_group_ready(g, 0, none, 0, err));
    QR_TRY(qr_group_join(g, &start, err));
    *ret = start.view;
    return QR_OK;
}

#endif
