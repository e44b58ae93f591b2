/* tests/tensor_files.h — reads files of tensors in tests/fuzz/corpus, valid and malformed. */
#ifndef TESTS_TENSOR_FILES_H
#define TESTS_TENSOR_FILES_H

#include "base/file.h"
#include "base/mem.h"
#include "format/tensor.h"
#include "tests/t.h"

typedef enum qr_code read_tensors_fn(struct qr_bytes file, const char *name, struct qr_tensors *t,
                                     struct qr_err *err);
/* Reads tests/fuzz/corpus/FOLDER/NAME. Checks that t is empty after an error. */
static inline enum qr_code read_tensors(const char *folder, const char *name, read_tensors_fn *read,
                                        struct qr_tensors *t, struct qr_err *err) {
    char path[128];
    struct qr_buf b = {0};
    *t = (struct qr_tensors){0};
    *err = (struct qr_err){0};
    snprintf(path, sizeof path, "tests/fuzz/corpus/%s/%s", folder, name);
    CHECK(qr_file_read(path, 1 << 24, &b, err) == QR_OK, "%s", err->msg);
    enum qr_code code = read(qr_buf_view(&b), name, t, err);
    CHECK(code == QR_OK || (t->v == NULL && t->n == 0));
    qr_buf_free(&b);
    return code;
}

struct bad_tensors {
    const char *name, *words;
};
/* Checks that each file is DATA_LOSS, with an error that has its name and these words. */
static inline void refused(const char *folder, read_tensors_fn *read,
                           const struct bad_tensors *rows, size_t n) {
    for (size_t i = 0; i < n; i++) {
        struct qr_tensors t;
        struct qr_err err;
        CHECK(read_tensors(folder, rows[i].name, read, &t, &err) == QR_DATA_LOSS, "%s",
              rows[i].name);
        CHECK(strncmp(err.msg, rows[i].name, strlen(rows[i].name)) == 0 &&
                  strstr(err.msg, rows[i].words),
              "%s", err.msg);
        qr_tensors_free(&t);
    }
}

#endif
