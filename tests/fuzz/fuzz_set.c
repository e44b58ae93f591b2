/* Overrides of job keys, a line each: applied to a tree with objects, arrays and names of all
 * kinds, and to the built-in job. They are accepted, or rejected with an error; the tree has a text
 * that reads back as itself, and the job a record that parses to that job. */
#include <string.h>

#include "base/mem.h"
#include "job/record.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

enum { MAX_BYTES = 2048 };
static const char some[] = "{\"a\":{\"b\":1,\"c\":[{\"name\":\"x\",\"n\":1},{\"n\":[2,[]]},null,"
                           "\"s\"]},\"t\":\"s\",\"e\":{},"
                           "\"f\":[]}";

static void text_of(const struct qr_json *v, struct qr_buf *ret) {
    struct qr_json_writer w = qr_json_writer(ret, 0);
    qr_json_put_value(&w, v, true);
}

/* A tree that is nested deeper than JSON allows has no text that reads back. */
static void apply_to_tree(struct qr_overrides *set) {
    struct qr_json *v = NULL, *again = NULL, *first = NULL;
    struct qr_buf text = {0}, same = {0}, differs = {0};
    struct qr_err err = {0};
    QR_ASSERT(qr_json_parse(qr_bytes_of_string(some), "tree", &v, QR_IGNORED) == QR_OK &&
              qr_json_parse(qr_bytes_of_string(some), "tree", &first, QR_IGNORED) == QR_OK);
    if (qr_overrides_apply(set, v, &err) == QR_OK) {
        text_of(v, &text);
        if (qr_json_parse(qr_buf_view(&text), "tree", &again, &err) == QR_OK) {
            text_of(again, &same);
            QR_ASSERT(same.n == text.n && memcmp(same.p, text.p, text.n) == 0);
            qr_job_differences(again, v, "there", &differs);
            QR_ASSERT(!differs.n);
        } else {
            QR_ASSERT(strstr(err.msg, "64 deep"));
        }
        qr_job_differences(first, v, "there", &differs);
    } else {
        QR_ASSERT(err.code == QR_INVALID_ARGUMENT && err.msg[0]);
    }
    qr_buf_free(&differs);
    qr_buf_free(&text);
    qr_buf_free(&same);
    qr_json_free(v);
    qr_json_free(again);
    qr_json_free(first);
}

/* The record of an accepted job is an accepted job. */
static void apply_to_job(struct qr_overrides *set) {
    struct qr_job *job = NULL, *again = NULL;
    struct qr_buf text = {0};
    struct qr_err err = {0};
    if (qr_job_load(NULL, set, &job, &err) != QR_OK) {
        QR_ASSERT(err.msg[0]);
        return;
    }
    qr_job_record(job, job->train.epochs, &text);
    QR_ASSERT(qr_job_parse(qr_buf_view(&text), "the record", &again, &err) == QR_OK);
    QR_ASSERT(again->seed == job->seed && again->n_layers == job->n_layers);
    qr_buf_free(&text);
    qr_job_free(job);
    qr_job_free(again);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n) {
    char *text = qr_xstrndup((const char *)data, n < MAX_BYTES ? n : MAX_BYTES);
    struct qr_overrides set = {0};
    struct qr_err err = {0};
    if (qr_overrides_add(&set, QR_OVERRIDES_FLAG, "--set", NULL, text, &err) == QR_OK) {
        apply_to_tree(&set);
        apply_to_job(&set);
    } else {
        QR_ASSERT(err.code == QR_INVALID_ARGUMENT && err.msg[0]);
    }
    qr_overrides_fini(&set);
    free(text);
    return 0;
}
