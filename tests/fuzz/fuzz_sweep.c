/* External texts of a sweep: its object in a job, rows and claims from a store, and result.json.
 * They are accepted, or rejected with an error. An accepted sweep gives every trial a value that is
 * JSON; an accepted row has a text that reads back as itself, and a table. */
#include <string.h>

#include "base/mem.h"
#include "sweep/board.h"
#include "sweep/row.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

enum { SHOWN = 64 };

static void values(const struct qr_sweep_spec *s) {
    struct qr_buf text = {0};
    for (size_t t = 0; t < s->n_trials; t += 1 + s->n_trials / SHOWN)
        for (size_t k = 0; k < s->n_keys; k++) {
            struct qr_json *v = NULL;
            qr_sweep_value(s, 7, t, k, &text);
            QR_ASSERT(qr_json_parse(qr_buf_view(&text), "value", &v, QR_IGNORED) == QR_OK);
            qr_json_free(v);
            qr_buf_clear(&text);
        }
    qr_sweep_describe(s, &text);
    QR_ASSERT(text.n && s->n_trials >= 1 && s->n_trials <= QR_SWEEP_MAX_TRIALS);
    qr_buf_free(&text);
}

static void check_sweep(struct qr_bytes text) {
    struct qr_json *o = NULL;
    struct qr_sweep_spec *s = NULL;
    struct qr_err err = {0};
    if (qr_json_parse(text, "sweep", &o, &err) != QR_OK) return;
    if (qr_sweep_read(o, &s, &err) == QR_OK) values(s);
    else QR_ASSERT(err.code == QR_INVALID_ARGUMENT && err.msg[0]);
    qr_sweep_free(s);
    qr_json_free(o);
}

/* The only row of a sweep of one trial. */
static void table(struct qr_sweep_row *r) {
    static char path[] = "k", one[] = "1", *values_of[] = {one};
    struct qr_sweep_key key = {.path = path, .n_values = 1, .values = values_of};
    const struct qr_sweep_spec s = {.n_keys = 1, .keys = &key, .n_trials = 1, .n_rungs = 1};
    struct qr_sweep_rows rows;
    struct qr_buf csv = {0}, json = {0};
    struct qr_json *v = NULL;
    qr_sweep_rows_init(&rows, &s, 1);
    rows.metric = "loss";
    *qr_sweep_row_at(&rows, 0, 0) = *r;
    *r = (struct qr_sweep_row){0};
    qr_sweep_csv(&rows, &csv);
    qr_sweep_json(&rows, &json);
    QR_ASSERT(csv.n && qr_json_parse(qr_buf_view(&json), "table", &v, QR_IGNORED) == QR_OK);
    qr_json_free(v);
    qr_buf_free(&csv);
    qr_buf_free(&json);
    qr_sweep_rows_fini(&rows);
}

static void check_row(struct qr_bytes text) {
    struct qr_sweep_row r = {0}, again = {0};
    struct qr_buf once = {0}, twice = {0};
    struct qr_err err = {0};
    if (qr_sweep_row_read(text, "row", &r, &err) == QR_OK) {
        qr_sweep_row_json(&r, &once);
        QR_ASSERT(qr_sweep_row_read(qr_buf_view(&once), "row", &again, &err) == QR_OK);
        qr_sweep_row_json(&again, &twice);
        QR_ASSERT(once.n == twice.n && memcmp(once.p, twice.p, once.n) == 0);
        table(&r);
    } else {
        QR_ASSERT(err.msg[0]);
    }
    qr_sweep_row_fini(&r);
    qr_sweep_row_fini(&again);
    qr_buf_free(&once);
    qr_buf_free(&twice);
    if (qr_sweep_row_of_result(text, "result.json", 0, 0, &r, &err) == QR_OK) table(&r);
    else QR_ASSERT(err.code == QR_DATA_LOSS);
    qr_sweep_row_fini(&r);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n) {
    struct qr_bytes text = qr_bytes_of(data, n);
    struct qr_sweep_claim claim = {0};
    struct qr_err err = {0};
    check_sweep(text);
    check_row(text);
    if (qr_sweep_claim_read(text, "claim", &claim, &err) == QR_OK)
        QR_ASSERT(claim.lease_ns >= 0 && strlen(claim.holder) <= 32);
    return 0;
}
