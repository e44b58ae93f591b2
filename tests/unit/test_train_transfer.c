/* Transfer of a state: it is accepted only if it is whole and the requested one; and the messages
 * that carry it. */
#include "format/chunk.h"
#include "base/mem.h"
#include "tests/t.h"
#include "train/state_transfer.h"

static const char text[] =
    "{\"model\":[{\"layer\":\"quantum\",\"circuit\":{\"ansatz\":\"qcnn\",\"qubits\":4,\"stages\":1}"
    "},{\"layer\":\"dense\",\"units\":1}],"
    "\"data\":{\"source\":\"cluster-excitations\",\"rounds\":4},\"train\":{\"epochs\":2,\"batch_"
    "size\":4,\"loss\":\"mse\",\"optimizer\":{\"name\":\"adam\"}}}";
static struct qr_job *job;
static struct qr_model *model;

static void fill_state(struct qr_state *s, double x) {
    qr_state_init(s, job, model);
    for (size_t i = 0; i < s->n_all; i++) s->all[i] = x + (double)i;
    s->keeps_best = true;
    s->stop[QR_STOP_WAIT] = x;
    s->step = 5;
    s->epoch = 1;
    s->reductions = 6;
}
static struct qr_lines some_lines(void) {
    struct qr_lines l = {0};
    for (uint64_t i = 0; i < 6; i++)
        qr_lines_add(&l, &(struct qr_step_values){.step = i,
                                                  .epoch = 1,
                                                  .samples = 4,
                                                  .eval = i == 4,
                                                  .value = {0.5, (double)i},
                                                  .readouts = {i}});
    l.waits = true;
    CHECK(l.n == QR_LINES_KEPT && l.line[0].step == 2 && l.line[3].step == 5 && l.line[2].eval);
    return l;
}

static void test_transfer(void) {
    struct qr_state s, got;
    struct qr_lines lines = some_lines(), got_lines = {0};
    struct qr_buf bytes = {0};
    struct qr_err err;
    uint8_t digest[16];
    fill_state(&s, 0.25);
    fill_state(&got, -3);
    size_t n = s.n_params;
    double *gradient = qr_xcalloc(n, sizeof *gradient),
           *got_gradient = qr_xcalloc(n, sizeof *gradient);
    for (size_t i = 0; i < n; i++) gradient[i] = 1.0 / (double)(i + 1);
    qr_state_digest(&s, digest);
    qr_transfer_encode(&s, gradient, &lines, &bytes);
    /* A flipped bit, a missing byte, another digest or another number of reductions: rejected
     * without any change. */
    for (size_t at = 0; at < bytes.n; at += at < 64 ? 1 : 37) {
        bytes.p[at] ^= 4;
        CHECK(qr_transfer_decode(qr_buf_view(&bytes), 6, digest, &got, got_gradient, &got_lines,
                                 &err) == QR_UNAVAILABLE,
              "byte %zu", at);
        bytes.p[at] ^= 4;
    }
    CHECK(qr_transfer_decode(qr_bytes_of(bytes.p, bytes.n - 1), 6, digest, &got, got_gradient,
                             &got_lines, &err) == QR_UNAVAILABLE);
    CHECK(qr_transfer_decode(qr_buf_view(&bytes), 7, digest, &got, got_gradient, &got_lines,
                             &err) == QR_UNAVAILABLE);
    digest[3] ^= 1;
    CHECK(qr_transfer_decode(qr_buf_view(&bytes), 6, digest, &got, got_gradient, &got_lines,
                             &err) == QR_UNAVAILABLE &&
          strstr(err.msg, "not the one"));
    digest[3] ^= 1;
    CHECK(got.weights[0] == -3 && got_gradient[0] == 0 && got_lines.n == 0);
    CHECK(qr_transfer_decode(qr_buf_view(&bytes), 6, digest, &got, got_gradient, &got_lines,
                             &err) == QR_OK,
          "%s", err.msg);
    CHECK(memcmp(got.all, s.all, s.n_all * sizeof *s.all) == 0 &&
          memcmp(got.stop, s.stop, sizeof s.stop) == 0 && got.step == 5 && got.epoch == 1 &&
          got.reductions == 6);
    CHECK(memcmp(gradient, got_gradient, n * sizeof *gradient) == 0 && got_lines.waits &&
          got_lines.n == lines.n);
    for (size_t i = 0; i < lines.n; i++)
        CHECK(got_lines.line[i].step == lines.line[i].step &&
              got_lines.line[i].eval == lines.line[i].eval &&
              got_lines.line[i].value[1] == lines.line[i].value[1] &&
              got_lines.line[i].readouts[0] == lines.line[i].readouts[0]);
    free(gradient);
    free(got_gradient);
    qr_buf_free(&bytes);
    qr_state_fini(&s);
    qr_state_fini(&got);
}

static void test_parts(void) {
    static const uint8_t payload[5] = {1, 2, 3, 4, 5};
    struct qr_state_part part = {.generation = 77, .total = 12, .offset = 7, .count = 5}, got = {0};
    uint8_t message[QR_STATE_PART_HEADER_BYTES + 5];
    struct qr_bytes bytes, whole = qr_bytes_of(message, sizeof message);
    qr_state_part_encode(&part, qr_bytes_of(payload, 5), message);
    memcpy(message + QR_STATE_PART_HEADER_BYTES, payload, 5);
    CHECK(qr_state_part_is(whole) && qr_state_part_decode(whole, &got, &bytes) &&
          got.generation == 77 && got.offset == 7 && bytes.n == 5 && bytes.p[4] == 5);
    for (size_t bit = 0; bit < 8 * sizeof message; bit++) {
        message[bit / 8] ^= (uint8_t)(1 << bit % 8);
        CHECK(!qr_state_part_decode(whole, &got, &bytes), "bit %zu", bit);
        message[bit / 8] ^= (uint8_t)(1 << bit % 8);
    }
    for (size_t n = 0; n < sizeof message; n++)
        CHECK(!qr_state_part_decode(qr_bytes_of(message, n), &got, &bytes), "%zu bytes", n);
    part.total = 11; /* it ends after the total */
    qr_state_part_encode(&part, qr_bytes_of(payload, 5), message);
    CHECK(!qr_state_part_decode(whole, &got, &bytes));
    part = (struct qr_state_part){.total = UINT64_MAX, .offset = UINT64_MAX - 1, .count = 5};
    qr_state_part_encode(&part, qr_bytes_of(payload, 5), message);
    CHECK(!qr_state_part_decode(whole, &got, &bytes));
}

int main(void) {
    struct qr_dataset data;
    struct qr_err err;
    CHECK(qr_job_parse(qr_bytes_of_string(text), "the test", &job, &err) == QR_OK, "%s", err.msg);
    CHECK(qr_job_data(job, &data, &err) == QR_OK, "%s", err.msg);
    CHECK(qr_job_model(job, qr_isa_best(), data.n_columns, &model, &err) == QR_OK, "%s", err.msg);
    test_transfer();
    test_parts();
    qr_model_free(model);
    qr_dataset_fini(&data);
    qr_job_free(job);
    return t_end();
}
