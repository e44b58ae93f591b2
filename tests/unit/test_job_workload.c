/* Checks of a job's labels before training. */
#include <unistd.h>

#include "base/file.h"
#include "base/mem.h"
#include "job/workload.h"
#include "tests/t.h"

/* Loads one dense unit with a CSV of these labels. more: further keys of data, or NULL. */
static enum qr_code load_more(const char *dir, const char *labels, const char *loss,
                              const char *more, struct qr_err *err) {
    qr_auto(qr_free_p) char *url = qr_path_join(dir, "data.csv");
    qr_auto(qr_free_p) char *job = qr_xasprintf(
        "{\"model\": [{\"layer\": \"dense\", \"units\": 1%s}], \"data\": {\"source\": "
        "\"csv\", \"url\": \"%s\"%s}, "
        "\"train\": {\"loss\": \"%s\", \"metrics\": [\"accuracy\"]}}",
        strstr(loss, "cross") ? ", \"activation\": \"sigmoid\"" : "", url, more ? more : "", loss);
    struct qr_buf csv = {0};
    struct qr_job *j = NULL;
    struct qr_workload w;
    qr_buf_puts(&csv, "x0,y\n");
    for (const char *l = labels; *l; l += strcspn(l, " ") + (l[strcspn(l, " ")] == ' '))
        qr_buf_printf(&csv, "0.5,%.*s\n", (int)strcspn(l, " "), l);
    CHECK(qr_file_replace(url, qr_buf_view(&csv), err) == QR_OK, "%s", err->msg);
    qr_buf_free(&csv);
    CHECK(qr_job_parse(qr_bytes_of_string(job), "job", &j, err) == QR_OK, "%s", err->msg);
    enum qr_code code = qr_workload_load(j, "portable", 1, &w, err);
    if (code == QR_OK) qr_workload_fini(&w);
    qr_job_free(j);
    unlink(url);
    return code;
}

static enum qr_code load(const char *dir, const char *labels, const char *loss,
                         struct qr_err *err) {
    return load_more(dir, labels, loss, NULL, err);
}

int main(void) {
    char dir[] = "/tmp/qring-test-XXXXXX";
    struct qr_err err = {0};
    CHECK(mkdtemp(dir) != NULL);
    CHECK(load(dir, "1 -1 1", "hinge", &err) == QR_OK, "%s", err.msg);
    CHECK(load(dir, "1 -1 5", "hinge", &err) == QR_DATA_LOSS &&
              strstr(err.msg, "sample 2: label 5"),
          "%s", err.msg);
    CHECK(load(dir, "1 0 1", "binary_crossentropy", &err) == QR_OK, "%s", err.msg);
    CHECK(load(dir, "1 -1 1", "binary_crossentropy", &err) == QR_DATA_LOSS &&
              strstr(err.msg, "sample 1: label -1"),
          "%s", err.msg);
    CHECK(load(dir, "1 0 1", "mse", &err) == QR_DATA_LOSS && strstr(err.msg, "binary_accuracy"),
          "%s", err.msg);
    for (int seed = 1; seed < 4;
         seed++) { /* the error names the row of the file, also after a shuffle */
        char more[80];
        snprintf(more, sizeof more, ", \"train_fraction\": 0.5, \"shuffle_split\": %d", seed);
        CHECK(load_more(dir, "1 -1 1 1 -1 1 7 -1 1", "hinge", more, &err) == QR_DATA_LOSS &&
                  strstr(err.msg, "sample 6: label 7"),
              "%s", err.msg);
    }
    rmdir(dir);
    return t_end();
}
