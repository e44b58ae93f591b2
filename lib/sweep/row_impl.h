/* sweep/row_impl.h — JSON helpers shared by row.c and table.c. */
#ifndef QR_SWEEP_ROW_IMPL_H
#define QR_SWEEP_ROW_IMPL_H

#include "sweep/row.h"

/* Each writes one key and its value. */
void sweep_put_text(struct qr_json_writer *w, const char *key, const char *s);
void sweep_put_count(struct qr_json_writer *w, const char *key, uint64_t v);
void sweep_put_metrics(struct qr_json_writer *w, const struct qr_sweep_row *r);

#endif
