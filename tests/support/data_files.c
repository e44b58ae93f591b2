/* tests/support/data_files.c — files of samples, and the data that the loader reads from them. */
#include "tests/support/data_files.h"

char dir[] = "/tmp/qring-test-data-XXXXXX", path[64], path2[64];

bool data_begin(void) {
    if (!mkdtemp(dir)) return false;
    snprintf(path, sizeof path, "%s/first.bin", dir);
    snprintf(path2, sizeof path2, "%s/second.bin", dir);
    return true;
}

void data_end(void) {
    unlink(path);
    unlink(path2);
    rmdir(dir);
}

void write_text(const char *to, const char *text) {
    struct qr_err err;
    CHECK(qr_file_replace(to, qr_bytes_of_string(text), &err) == QR_OK, "%s", err.msg);
}

void write_tensors(const char *to, struct qr_tensors *t) {
    struct qr_buf out = {0};
    struct qr_err err;
    qr_npz_write(t, &out);
    CHECK(qr_file_replace(to, qr_buf_view(&out), &err) == QR_OK, "%s", err.msg);
    qr_buf_free(&out);
    qr_tensors_free(t);
}

void write_npz(const char *to, const char *x_name, const size_t *x_dims, unsigned x_rank,
               const size_t *y_dims, unsigned y_rank, double bad_x, size_t bad_at) {
    struct qr_tensors t = {0};
    struct qr_tensor *x = qr_tensors_add(&t, x_name, x_rank, x_dims, NULL);
    for (size_t i = 0; i < x->n; i++) x->values[i] = 0.5 * (double)i;
    if (bad_x != 0) x->values[bad_at] = bad_x;
    struct qr_tensor *y = qr_tensors_add(&t, "y", y_rank, y_dims, NULL);
    for (size_t i = 0; i < y->n; i++) y->values[i] = (double)i;
    write_tensors(to, &t);
}

struct qr_data_options options(enum qr_data_source source, size_t n_columns, size_t n_outputs) {
    return (struct qr_data_options){.source = source,
                                    .url = path,
                                    .train_fraction = 1,
                                    .n_columns = n_columns,
                                    .n_outputs = n_outputs,
                                    .rounds = 20,
                                    .qubits = 8,
                                    .seed = 1};
}

struct qr_dataset load(const struct qr_data_options *opt) {
    struct qr_dataset d = {0};
    struct qr_err err = {.msg = ""};
    CHECK(qr_dataset_load(opt, &d, &err) == QR_OK, "%s", err.msg);
    if (!d.x) exit(1);
    return d;
}

void refused(const struct qr_data_options *opt, enum qr_code want, const char *says) {
    struct qr_dataset d = {0};
    struct qr_err err = {.msg = ""};
    enum qr_code code = qr_dataset_load(opt, &d, &err);
    CHECK(code == want && !d.x && !d.y, "%s: %s", qr_code_name(code), says);
    CHECK(strstr(err.msg, says), "'%s' does not contain '%s'", err.msg, says);
    if (opt->source != QR_DATA_EXCITATIONS && want == QR_DATA_LOSS && opt->train_fraction == 1)
        CHECK(strstr(err.msg, dir), "'%s' does not name the file", err.msg);
    qr_dataset_fini(&d);
}
