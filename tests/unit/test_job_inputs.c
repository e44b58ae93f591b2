/* Checks of a job's data: labels that are words, inputs too large for a circuit, angles that look
 * like degrees, a batch size above the number of samples. */
#include <unistd.h>

#include "base/file.h"
#include "job/job.h"
#include "tests/t.h"

static char dir[] = "/tmp/qring-test-inputs-XXXXXX", path[64];

#define ANGLE(angle)                                                                               \
    "{\"layer\":\"quantum\",\"circuit\":{\"qubits\":1,\"columns\":2,\"gates\":["                   \
    "{\"gate\":\"RY\",\"qubits\":[0],\"angle\":" angle                                             \
    "},{\"gate\":\"RY\",\"qubits\":[0],\"angle\":"                                                 \
    "\"w + 0.01*x[1]\"}]}}"
#define DENSE(units, activation)                                                                   \
    "{\"layer\":\"dense\",\"units\":" #units ",\"activation\":\"" activation "\"}"
static const struct {
    const char *model, *train, *data;
    const char *error, *warning, *classes; /* NULL: none */
} rows[] = {
    {ANGLE("{\"data\":0}"), "\"loss\":\"mse\"", "a,b,y\n3.1,1,1\n0,2,-1\n", NULL, NULL, NULL},
    {ANGLE("{\"data\":0}"), "\"loss\":\"mse\"", "a,b,y\n180,1,1\n-359,2,-1\n", NULL,
     "data: column 'a' rotates a gate by up to 359 radians, 57.1 full turns; multiply degrees by "
     "pi/180",
     NULL},
    {ANGLE("\"0.0174533*x[0]\""), "\"loss\":\"mse\"", "a,b,y\n180,1,1\n-359,2,-1\n", NULL, NULL,
     NULL},
    {ANGLE("90"), "\"loss\":\"mse\"", "a,b,y\n0,1,1\n0,2,-1\n", NULL,
     "model[0]: a gate on qubit 0 rotates by 90 radians, 14.3 full turns", NULL},
    {DENSE(1, "linear"), "\"loss\":\"mse\"", "a,b,y\n180,1,1\n-359,2,-1\n", NULL, NULL, NULL},
    {DENSE(1, "linear"), "\"loss\":\"mse\",\"batch_size\":3", "a,b,y\n1,1,1\n2,2,-1\n", NULL,
     "train.batch_size is 3, but only 2 samples train: each epoch is a single step", NULL},
    {DENSE(1, "linear"), "\"loss\":\"mse\",\"batch_size\":2", "a,b,y\n1,1,1\n2,2,-1\n", NULL, NULL,
     NULL},
    {DENSE(3, "softmax"), "\"loss\":\"mse\"", "a,b,y\n1,1,1\n2,2,2\n", NULL,
     "mse compares with all 3 outputs of softmax; use categorical_crossentropy", NULL},
    /* inputs that are too large */
    {ANGLE("{\"data\":0}"), "\"loss\":\"mse\"", "a,b,y\n1,1,1\n0,-2e13,-1\n",
     "sample 1 (counted from 0), column 'b' is -2e+13; inputs must be below 2^40 (1.1e12), and "
     "angles are in radians",
     NULL, NULL},
    {DENSE(1, "linear"), "\"loss\":\"mse\"", "0,1,y\n1e300,1,1\n0,2,-1\n",
     "sample 0 (counted from 0), column '0' is 1e+300", NULL, NULL},
    /* labels that are words */
    {DENSE(3, "softmax"), "\"loss\":\"categorical_crossentropy\"",
     "a,b,y\n1,1,dog\n2,2,cat\n3,3,ape\n", NULL, NULL, "ape (0), cat (1), dog (2)"},
    {DENSE(3, "softmax"), "\"loss\":\"categorical_crossentropy\"", "a,b,y\n1,1,dog\n2,2,cat\n",
     NULL, "no training sample has class 2;", "cat (0), dog (1)"},
    {DENSE(1, "sigmoid"), "\"loss\":\"binary_crossentropy\"", "a,b,y\n1,1,no\n2,2,yes\n", NULL,
     NULL, "no (0), yes (1)"},
    {DENSE(1, "tanh"), "\"loss\":\"hinge\"", "a,b,y\n1,1,no\n2,2,yes\n", NULL, NULL,
     "no (-1), yes (1)"},
    {DENSE(1, "sigmoid"), "\"loss\":\"hinge\",\"metrics\":[\"auc\"]", "a,b,y\n1,1,no\n2,2,yes\n",
     NULL, "hinge uses the sign", "no (0), yes (1)"},
    {DENSE(1, "tanh"), "\"loss\":\"mse\",\"metrics\":[\"accuracy\"]", "a,b,y\n1,1,no\n2,2,yes\n",
     NULL, NULL, "no (-1), yes (1)"},
    {DENSE(1, "tanh"), "\"loss\":\"mse\"", "a,b,y\n1,1,no\n2,2,yes\n",
     "are words (no, yes), but the loss takes numbers", NULL, NULL},
    {DENSE(1, "tanh"), "\"loss\":\"hinge\"", "a,b,y\n1,1,yes\n2,2,yes\n", NULL,
     "all 2 training samples have the label 'yes'", "yes (-1)"},
};

int main(void) {
    if (!mkdtemp(dir)) return 1;
    snprintf(path, sizeof path, "%s/d.csv", dir);
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct qr_err err = {0};
        struct qr_job *job = NULL;
        struct qr_buf text = {0}, classes = {0};
        struct qr_dataset data = {0};
        struct qr_job_warnings d = {0};
        qr_buf_printf(
            &text, "{\"model\":[%s],\"data\":{\"source\":\"csv\",\"url\":\"%s\"},\"train\":{%s}}",
            rows[i].model, path, rows[i].train);
        CHECK(qr_file_replace(path, qr_bytes_of_string(rows[i].data), &err) == QR_OK &&
                  qr_job_parse(qr_buf_view(&text), "the test", &job, &err) == QR_OK,
              "row %zu: %s", i, err.msg);
        qr_buf_free(&text);
        if (!job) continue;
        enum qr_code code = qr_job_data(job, &data, &err);
        if (rows[i].error)
            CHECK(code == QR_DATA_LOSS && strstr(err.msg, rows[i].error), "row %zu: %s", i,
                  err.msg);
        else CHECK(code == QR_OK, "row %zu: %s", i, err.msg);
        if (code == QR_OK) {
            qr_job_warnings(job, &data, &d);
            bool found = false;
            for (size_t k = 0; rows[i].warning && k < d.n; k++)
                found |= strstr(d.sentence[k], rows[i].warning) != NULL;
            CHECK(rows[i].warning ? found : d.n == 0, "row %zu: %zu, %s", i, d.n,
                  d.n ? d.sentence[0] : "");
            qr_job_put_classes(job, &data, &classes);
            CHECK(strcmp(qr_buf_string(&classes), rows[i].classes ? rows[i].classes : "") == 0,
                  "row %zu: %s", i, qr_buf_string(&classes));
        }
        qr_buf_free(&classes);
        qr_job_warnings_fini(&d);
        qr_dataset_fini(&data);
        qr_job_free(job);
    }
    unlink(path);
    rmdir(dir);
    return t_end();
}
