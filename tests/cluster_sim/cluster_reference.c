/* tests/cluster_sim/cluster_reference.c — a job and its undisturbed run. Start reading at
 * reference_new(). */
#include "base/mem.h"
#include "tests/cluster_sim/cluster.h"
#include "tests/t.h"

static enum qr_code keep_line(void *ctx, bool leader, const struct qr_step_line *line,
                              const struct qr_step_detail *detail, struct qr_err *err) {
    struct reference *r = ctx;
    size_t place = 2 * line->step + line->eval, had = r->n_lines;
    (void)leader, (void)detail, (void)err;
    if (place >= had) {
        r->n_lines = 2 * place + 64;
        r->line = qr_xreallocarray(r->line, r->n_lines, sizeof *r->line);
        memset(r->line + had, 0, (r->n_lines - had) * sizeof *r->line);
    }
    qr_step_json(line, &r->line[place]);
    qr_step_json(line, &r->log);
    return QR_OK;
}
static void state_digest(const struct qr_state *state, char ret_hex[33]) {
    uint8_t digest[16];
    qr_state_digest(state, digest);
    qr_hex(digest, sizeof digest, ret_hex);
}
static enum qr_code keep_state(void *ctx, bool leader, struct qr_state *state, struct qr_err *err) {
    struct reference *r = ctx;
    size_t at = r->n_reductions++;
    (void)leader, (void)err;
    CHECK(state->reductions == at, "the undisturbed run commits every state once");
    r->state = qr_xreallocarray(r->state, at + 1, sizeof *r->state);
    r->digest_at = qr_xreallocarray(r->digest_at, at + 1, sizeof *r->digest_at);
    r->log_end = qr_xreallocarray(r->log_end, at + 1, sizeof *r->log_end);
    qr_state_init(&r->state[at], r->job, r->load.model);
    qr_state_copy(&r->state[at], state);
    state_digest(state, r->digest_at[at]);
    r->log_end[at] = r->log.n;
    return QR_OK;
}
struct reference *reference_new(uint64_t epochs) {
    static const char job[] =
        "{\"seed\":3,\"model\":[{\"layer\":\"quantum\",\"circuit\":{\"ansatz\":\"qcnn\",\"qubits\":"
        "4,\"stages\":1}},{\"layer\":\"dense\",\"units\":1}],"
        "\"data\":{\"source\":\"cluster-excitations\",\"rounds\":10,\"train_fraction\":0.7},"
        "\"precision\":\"double\",\"micro_batch_size\":2,"
        "\"train\":{\"epochs\":3,\"batch_size\":9,\"loss\":\"mse\",\"metrics\":[\"accuracy\"],"
        "\"early_stopping\":{\"patience\":1000000},"
        "\"optimizer\":{\"name\":\"adam\",\"learning_rate\":0.05}}}";
    struct reference *r = qr_xcalloc(1, sizeof *r);
    struct qr_err err = {0};
    struct qr_group_options g = {.run = "whole", .clock = &qr_clock_monotonic};
    struct qr_train_result result = {0};
    CHECK(qr_job_parse(qr_bytes_of_string(job), "the test", &r->job, &err) == QR_OK, "%s", err.msg);
    CHECK(qr_workload_load(r->job, qr_isa_name(qr_isa_best()), 1, &r->load, &err) == QR_OK, "%s",
          err.msg);
    qr_job_canonical(r->job, &r->load.data, NULL, &r->canonical);
    r->epochs = epochs ? epochs : r->job->train.epochs;
    struct qr_train_options t = {
        .job = r->job,
        .canonical = &r->canonical,
        .data = &r->load.data,
        .model = r->load.model,
        .group = qr_group_solo(&g),
        .pool = qr_pool_new(1),
        .clock = &qr_clock_monotonic,
        .epochs = r->epochs,
        .observer = {.ctx = r, .step = keep_line, .committed = keep_state}};
    CHECK(qr_train_run(&t, &result, &err) == QR_OK, "%s", err.msg);
    memcpy(r->digest, result.state_digest, sizeof r->digest);
    free(result.params);
    qr_group_close(t.group);
    qr_pool_free(t.pool);
    return r;
}
bool reference_has(const struct reference *ref, const struct qr_state *state, char ret_hex[33]) {
    state_digest(state, ret_hex);
    return state->reductions < ref->n_reductions &&
           strcmp(ret_hex, ref->digest_at[state->reductions]) == 0;
}
void reference_free(struct reference *r) {
    for (size_t i = 0; i < r->n_reductions; i++) qr_state_fini(&r->state[i]);
    for (size_t i = 0; i < r->n_lines; i++) qr_buf_free(&r->line[i]);
    free(r->state);
    free(r->digest_at);
    free(r->log_end);
    free(r->line);
    qr_buf_free(&r->log);
    qr_workload_fini(&r->load);
    qr_job_canonical_fini(&r->canonical);
    qr_job_free(r->job);
    free(r);
}
