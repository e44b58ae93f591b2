/* verify/verify_report.c — the answer of a verification as code, text and JSON. Start reading at
 * qr_verification_code(). */
#include <string.h>

#include "base/mem.h"
#include "format/json.h"
#include "verify/verify.h"

enum qr_code qr_verification_code(const struct qr_verification *v, struct qr_err *err) {
    static const enum qr_code codes[] = {QR_OK, QR_DIFFERS, QR_UNPROVEN};
    enum qr_check_state worst = QR_CHECK_SAME;
    const struct qr_check *of = NULL;
    for (size_t i = 0; i < v->n; i++) {
        const struct qr_check *c = &v->check[i];
        bool unproven = c->state == QR_CHECK_UNKNOWN &&
                        (strcmp(c->name, "chain") == 0 || strcmp(c->name, "arithmetic") == 0);
        if (c->state == QR_CHECK_DIFFERS && worst != QR_CHECK_DIFFERS) worst = c->state, of = c;
        if (unproven && worst == QR_CHECK_SAME) worst = c->state, of = c;
    }
    if (of) qr_fail(err, codes[worst], "%s %s: %s", v->run, of->name, of->text);
    return codes[worst];
}

static const char *const state_names[] = {
    [QR_CHECK_SAME] = "same", [QR_CHECK_DIFFERS] = "DIFFERS", [QR_CHECK_UNKNOWN] = "not checked"};

void qr_verification_text(const struct qr_verification *v, struct qr_buf *ret) {
    struct qr_err err;
    for (size_t i = 0; i < v->n; i++)
        qr_buf_printf(ret, "%-12s %-12s %s\n", v->check[i].name, state_names[v->check[i].state],
                      v->check[i].text);
    enum qr_code code = qr_verification_code(v, &err);
    qr_buf_printf(ret, "%s\n",
                  code == QR_OK        ? "same"
                  : code == QR_DIFFERS ? "differs"
                                       : "not proved");
}

static void put_difference(struct qr_json_writer *w, const struct qr_replay *d) {
    qr_json_key_open(w, "difference", '{');
    qr_json_key_i64(w, "step", (int64_t)d->step);
    qr_json_key_string(w, "kind", d->eval ? "EVAL" : "TRAIN");
    qr_json_key_string(w, "recorded_digest", d->recorded);
    qr_json_key_string(w, "computed_digest", d->computed);
    if (*d->key) {
        qr_json_key_string(w, "key", d->key);
        qr_json_key_string(w, "recorded", d->recorded_value);
        qr_json_key_string(w, "computed", d->computed_value);
    }
    if (*d->tensor) {
        qr_json_key_string(w, "tensor", d->tensor);
        qr_json_key_i64(w, "element", (int64_t)d->element);
        qr_json_key_double(w, "recorded_number", d->recorded_number);
        qr_json_key_double(w, "computed_number", d->computed_number);
    }
    qr_json_close(w, '}');
}

void qr_verification_json(const struct qr_verification *v, struct qr_buf *ret) {
    static const char *const names[] = {"same", "differs", "unknown"};
    struct qr_err err;
    struct qr_json_writer w = qr_json_writer(ret, 2);
    enum qr_code code = qr_verification_code(v, &err);
    qr_json_open(&w, '{');
    qr_json_key_string(&w, "run", v->run);
    qr_json_key_string(&w, "verdict",
                       code == QR_OK        ? "same"
                       : code == QR_DIFFERS ? "differs"
                                            : "unproven");
    qr_json_key_open(&w, "checks", '[');
    for (size_t i = 0; i < v->n; i++) {
        qr_json_open(&w, '{');
        qr_json_key_string(&w, "check", v->check[i].name);
        qr_json_key_string(&w, "result", names[v->check[i].state]);
        qr_json_key_string(&w, "text", v->check[i].text);
        qr_json_close(&w, '}');
    }
    qr_json_close(&w, ']');
    qr_json_key_i64(&w, "steps", (int64_t)v->n_steps);
    qr_json_key_double(&w, "seconds", v->seconds);
    qr_json_key_i64(&w, "seed", (int64_t)v->seed);
    if (v->difference.differs) put_difference(&w, &v->difference);
    qr_json_close(&w, '}');
    qr_buf_puts(ret, "\n");
}
