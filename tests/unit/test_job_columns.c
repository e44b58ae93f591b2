/* Jobs with expressions: their hash, the columns that circuits refer to by name or number,
 * errors. */
#include <unistd.h>

#include "base/file.h"
#include "base/mem.h"
#include "job/canonical.h"
#include "job/job.h"
#include "tests/t.h"

static char dir[] = "/tmp/qring-test-columns-XXXXXX";
static char path[64];

static char *job_text(const char *angles, const char *circuit, const char *data) {
    return qr_xasprintf("{\"model\": [{\"layer\": \"quantum\", \"circuit\": {\"qubits\": 1%s, "
                        "\"gates\": [%s]}}], \"data\": {\"source\": \"csv\", \"url\": \"%s\"%s}, "
                        "\"train\": {\"loss\": \"mse\"}}",
                        circuit, angles, path, data);
}
#define RX(angle) "{\"gate\": \"RX\", \"qubits\": [0], \"angle\": " angle "}"

static struct qr_job *parse(const char *angles, const char *circuit, const char *data,
                            struct qr_err *err) {
    struct qr_job *job = NULL;
    qr_auto(qr_free_p) char *text = job_text(angles, circuit, data);
    *err = (struct qr_err){0};
    return qr_job_parse(qr_bytes_of_string(text), "the test", &job, err) == QR_OK ? job : NULL;
}

/* ---- hashes ---- */

static void hash_of(const char *angles, char ret[65]) {
    struct qr_err err;
    struct qr_job *job = parse(angles, "", "", &err);
    struct qr_dataset none = {.n_samples = 1, .n_train = 1};
    struct qr_job_canonical c;
    CHECK(job, "%s", err.msg);
    if (!job) exit(1);
    qr_job_canonical(job, &none, NULL, &c);
    memcpy(ret, c.hex, 65);
    qr_job_canonical_fini(&c);
    qr_job_free(job);
}

static void test_hashes(void) {
    static const char *const equal[][2] = {
        {RX("{\"parameter\": \"w\", \"scale\": 0.5}"), RX("\"w/2\"")},
        {RX("{\"data\": 0}") "," RX("0.25"), RX("\"x[0]\"") "," RX("\"1/4\"")},
        {RX("\"a*x[0] + sin(b)\""), RX("\" a * x[0]+sin( (b) )\"")},
        {RX("\"2*(a + b)\""), RX("\"(a + b)*4/2\"")},
    };
    static const char *const different[][2] = {
        {RX("\"a*x[0] + b\""), RX("\"a*x[0] + c\"")},
        {RX("\"a*x[0] + b\""), RX("\"b*x[0] + a\"")},
        {RX("\"a*x[0] + b\""), RX("\"a*x[0] - b\"")},
        {RX("\"sin(a)\""), RX("\"cos(a)\"")},
        {RX("\"a + 1\""), RX("\"a + 1.0000000000000002\"")},
    };
    char hex[2][65];
    for (size_t i = 0; i < COUNT(equal); i++) {
        for (int k = 0; k < 2; k++) hash_of(equal[i][k], hex[k]);
        CHECK(strcmp(hex[0], hex[1]) == 0, "%s", equal[i][1]);
    }
    for (size_t i = 0; i < COUNT(different); i++) {
        for (int k = 0; k < 2; k++) hash_of(different[i][k], hex[k]);
        CHECK(strcmp(hex[0], hex[1]) != 0, "%s", different[i][1]);
    }
}

/* ---- columns ---- */

static const char header[] = "a,petal length,b,y\n1,2,3,1\n4,5,6,-1\n";

static const struct {
    const char *angles, *circuit, *data;
    const char *inputs; /* text of qr_job_put_inputs; NULL: rejected with `words` */
    double x[3];        /* of the second sample */
    const char *words;
} rows[] = {
    {RX("\"x.a\"") "," RX("\"x['petal length'] + x.b\""),
     "",
     "",
     "a, petal length, b",
     {4, 5, 6},
     NULL},
    {RX("\"x.b + x['petal length']*x.a\""), "", "", "b, petal length, a", {6, 5, 4}, NULL},
    {RX("\"x[0] + x[1]*x[2]\""), "", "", "a, petal length, b", {4, 5, 6}, NULL},
    {RX("\"x.b\""), "", ", \"columns\": [\"b\"]", "b", {6}, NULL},
    {RX("\"x.b + x[0]\""), "", ", \"columns\": [\"a\", \"b\"]", "a, b", {4, 6}, NULL},
    {RX("\"x[0]\""), "", ", \"columns\": [2]", "b", {6}, NULL},
    {RX("\"x[1]\""),
     ", \"columns\": 2",
     ", \"columns\": [2, \"a\"]",
     "a (1 of 2 columns)",
     {6, 4},
     NULL},
    {RX("\"x.b\""), "", "",
     .words = "the circuit does not use columns a, petal length; "
              "if that is intended, list the columns"},
    {RX("{\"data\": 2}"), "", "",
     .words = "the circuit does not use columns a, petal length; if that is intended, list "
              "the columns that it uses in data \"columns\": [\"b\"], which are then x[0]"},
    {RX("\"x.b + x[0]\""), "", "",
     .words = "calls some columns by name (x.b) and others by number "
              "(x[0]); list all of them by name in data.columns"},
    {RX("\"x.petal\""), "", "",
     .words = "there is no input column 'petal'; there are: a, petal length, b"},
    {RX("\"x.c\""), "", ", \"columns\": [\"a\", \"b\"]",
     .words = "data.columns: the circuit refers to x.c, but no column has this name; "
              "correct the name"},
    {RX("\"x[3]\""), "", ", \"columns\": [\"a\", \"b\"]",
     .words = "data.columns: the circuit uses input x[3], but there are 2 inputs, x[0] to "
              "x[1]; correct the expression"},
    {RX("\"x[0]\""), ", \"columns\": 1", ", \"columns\": [\"a\", \"b\"]",
     .words = "data.columns picks 2 columns, but the circuit takes 1"},
    {RX("\"x[0]\""), "", ", \"columns\": [\"c\"]", .words = "there is no input column 'c'"},
    {RX("\"x[0]\""), "", ", \"columns\": [\"a\", \"b\", \"a\"]",
     .words = "data.columns[2] is the same column as data.columns[0]"},
    {RX("\"x[0]\""), "", ", \"columns\": []", .words = "data.columns has 0 entries"},
    {RX("\"x[0]\""), "", ", \"columns\": [true]",
     .words = "data.columns[0] must be a column's name"},
    {RX("\"x[0]\""), "", ", \"columns\": [-1]", .words = "data.columns[0]"},
    {RX("\"x[0]\""), "", ", \"columns\": \"a\"", .words = "data.columns must be"},
};

static void test_columns(void) {
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct qr_err err;
        struct qr_dataset d = {0};
        struct qr_job *job = parse(rows[i].angles, rows[i].circuit, rows[i].data, &err);
        bool ok = job && qr_job_data(job, &d, &err) == QR_OK;
        CHECK(ok == !rows[i].words, "row %zu: %s", i, err.msg);
        if (rows[i].words)
            CHECK(strstr(err.msg, rows[i].words), "row %zu: '%s' lacks '%s'", i, err.msg,
                  rows[i].words);
        if (ok) {
            struct qr_buf text = {0};
            qr_job_put_inputs(job, &d, &text);
            CHECK(strcmp(qr_buf_string(&text), rows[i].inputs) == 0, "row %zu: %s", i,
                  qr_buf_string(&text));
            CHECK(memcmp(d.x + d.n_columns, rows[i].x, d.n_columns * sizeof *d.x) == 0, "row %zu",
                  i);
            qr_buf_free(&text);
        }
        qr_dataset_fini(&d);
        qr_job_free(job);
    }
}

/* References by name where columns have no names. */
static void test_nameless(void) {
    static const struct {
        const char *job, *words;
    } rejected_rows[] = {
        {"{\"model\": [{\"layer\": \"dense\", \"units\": 1}, {\"layer\": \"quantum\", \"circuit\": "
         "{\"qubits\": 1, \"gates\": [" RX(
             "\"x.a\"") "]}}], \"data\": {\"source\": \"csv\", "
                        "\"url\": \"d.csv\"}, \"train\": {\"loss\": \"mse\"}}",
         "model[1].circuit refers to x.a, but its inputs are the outputs of the previous layer"},
        {"{\"model\": [{\"layer\": \"quantum\", \"circuit\": {\"qubits\": 1, \"gates\": "
         "[" RX("\"x.a\"") "]}}], \"data\": {\"source\": \"cluster-excitations\"}, "
                           "\"train\": {\"loss\": \"mse\"}}",
         "cluster-excitations have no names, but the circuit refers to x.a"},
    };
    for (size_t i = 0; i < COUNT(rejected_rows); i++) {
        struct qr_err err = {0};
        struct qr_job *job = NULL;
        CHECK(qr_job_parse(qr_bytes_of_string(rejected_rows[i].job), "the test", &job, &err) ==
                      QR_INVALID_ARGUMENT &&
                  strstr(err.msg, rejected_rows[i].words),
              "%s", err.msg);
    }
}

int main(void) {
    struct qr_err err;
    if (!mkdtemp(dir)) return 1;
    snprintf(path, sizeof path, "%s/d.csv", dir);
    CHECK(qr_file_replace(path, qr_bytes_of_string(header), &err) == QR_OK, "%s", err.msg);
    test_hashes();
    test_columns();
    test_nameless();
    unlink(path);
    rmdir(dir);
    return t_end();
}
