/* Files of another person's run. First byte: which file. steps.jsonl: an intact chain has lines in
 * order without gaps, each of which can be found. provenance.json: read, written and read again,
 * with the same bytes. provenance.dsse.json: bounded, and no signature of this key. */
#include <string.h>

#include "base/mem.h"
#include "record/envelope.h"
#include "record/provenance.h"
#include "verify/chain_check.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

static void check_steps(struct qr_bytes file) {
    uint8_t first[QR_CHAIN_BYTES];
    struct qr_chain c;
    qr_chain_begin("", "", "", first);
    qr_chain_check(file, first, &c);
    QR_ASSERT((c.state == QR_CHAIN_INTACT) == !*c.why);
    QR_ASSERT(c.state != QR_CHAIN_INTACT || (c.n > 0 && c.n_in_place == c.n));
    for (size_t i = 0; i < c.n; i++) {
        QR_ASSERT(c.line[i].text.p >= file.p &&
                  c.line[i].text.p + c.line[i].text.n < file.p + file.n);
        const struct qr_chain_line *l = qr_chain_find(&c, c.line[i].step, c.line[i].eval);
        QR_ASSERT(c.state != QR_CHAIN_INTACT || l == &c.line[i]);
        QR_ASSERT(i >= c.n_in_place || c.line[i].step <= i + 1);
    }
    qr_chain_fini(&c);
}

static void check_statement(struct qr_bytes text) {
    struct qr_provenance p = {0}, again = {0};
    struct qr_buf one = {0}, two = {0};
    struct qr_err err;
    if (qr_provenance_read(text, "a", &p, &err) != QR_OK) {
        QR_ASSERT(err.code == QR_DATA_LOSS);
        return;
    }
    qr_provenance_json(&p, &one);
    QR_ASSERT(qr_provenance_read(qr_buf_view(&one), "b", &again, &err) == QR_OK);
    qr_provenance_json(&again, &two);
    QR_ASSERT(one.n == two.n && memcmp(one.p, two.p, one.n) == 0);
    qr_provenance_fini(&p);
    qr_provenance_fini(&again);
    qr_buf_free(&one);
    qr_buf_free(&two);
}

static void check_envelope(struct qr_bytes text) {
    struct qr_envelope e = {0};
    struct qr_err err;
    if (qr_envelope_read(text, "a", &e, &err) != QR_OK) {
        QR_ASSERT(err.code == QR_DATA_LOSS);
        return;
    }
    QR_ASSERT(e.statement.n <= text.n && strlen(e.key_id) % 64 == 0);
    qr_envelope_fini(&e);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n) {
    if (!n) return 0;
    struct qr_bytes rest = qr_bytes_of(data + 1, n - 1);
    if (data[0] == 's') check_steps(rest);
    else if (data[0] == 'p') check_statement(rest);
    else check_envelope(rest);
    return 0;
}
