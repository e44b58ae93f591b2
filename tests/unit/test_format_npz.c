/* npz: NumPy's files (seeds of tests/interop/corpus.py), malformed files, and a written file read
 * by NumPy. */
#include <unistd.h>

#include "base/file.h"
#include "base/mem.h"
#include "format/npz.h"
#include "tests/t.h"
#include "tests/tensor_files.h"

enum { MAX_BYTES = 1 << 20 };

static enum qr_code read_file(struct qr_bytes file, const char *name, struct qr_tensors *t,
                              struct qr_err *err) {
    return qr_npz_read(file, name, NULL, MAX_BYTES, t, err);
}
static enum qr_code read_case(const char *name, struct qr_tensors *t, struct qr_err *err) {
    return read_tensors("npz", name, read_file, t, err);
}

static void good(void) {
    static const char *const plain[] = {"good-savez.npz", "good-compressed.npz"};
    struct qr_tensors t;
    struct qr_err err;
    for (size_t i = 0; i < COUNT(plain); i++) {
        CHECK(read_case(plain[i], &t, &err) == QR_OK && t.n == 2, "%s", err.msg);
        const struct qr_tensor *x = qr_tensors_find(&t, "x"), *y = qr_tensors_find(&t, "y");
        CHECK(x && y && x->rank == 2 && x->dims[0] == (i ? 100 : 2) && x->dims[1] == 3 &&
              y->rank == 1 && y->n == (i ? 100 : 2));
        for (size_t k = 0; x && k < x->n; k++) CHECK(x->values[k] == (double)(k % 6) / 4, "%zu", k);
        CHECK(y && y->values[0] == 1.0 && y->values[1] == -1.0);
        qr_tensors_free(&t);
    }
    CHECK(read_case("good-types.npz", &t, &err) == QR_OK && t.n == 11, "%s", err.msg);
    for (size_t i = 0; i < t.n; i++)
        for (size_t k = 0; k < 4; k++)
            CHECK(t.v[i].n == 4 && t.v[i].values[k] == (double)(k == 1 || k == 2), "%s",
                  t.v[i].name);
    qr_tensors_free(&t);
    CHECK(read_case("good-fortran.npz", &t, &err) == QR_OK && t.n == 3, "%s", err.msg);
    const struct qr_tensor *x = qr_tensors_find(&t, "x"), *s = qr_tensors_find(&t, "s"),
                           *e = qr_tensors_find(&t, "e");
    for (size_t k = 0; x && k < 24; k++)
        CHECK(x->values[k] == (double)k, "%zu: %g", k, x->values[k]);
    CHECK(s && s->rank == 0 && s->n == 1 && s->values[0] == 0.5 && e && e->rank == 2 && e->n == 0 &&
          e->dims[1] == 3);
    qr_tensors_free(&t);
    CHECK(read_case("good-zip64.npz", &t, &err) == QR_OK && t.n == 1 && t.v[0].values[0] == 1.5,
          "%s", err.msg);
    qr_tensors_free(&t);
    static const char *const deflated[] = {"good-deflated.npz", "good-sizes-behind.npz"};
    for (size_t i = 0; i < COUNT(deflated); i++) {
        CHECK(read_case(deflated[i], &t, &err) == QR_OK && t.n == 1 && t.v[0].n == 4 &&
                  t.v[0].values[3] == 4,
              "%s", err.msg);
        qr_tensors_free(&t);
    }
    CHECK(read_case("good-v2.npz", &t, &err) == QR_OK && t.n == 1, "%s", err.msg);
    qr_tensors_free(&t);
}

static void bad(void) {
    static const struct bad_tensors rows[] = {
        {"bad-object.npz", "member 'x' has dtype '|O'"},
        {"bad-text.npz", "has dtype '<U1'"},
        {"bad-half.npz", "has dtype '<f2'"},
        {"bad-complex.npz", "has dtype '<c8'"},
        {"bad-structured.npz", "has dtype 'structured'"},
        {"bad-above-2-53.npz", "element 1 (type '<u8') is an integer above 2^53"},
        {"bad-rank-9.npz", "malformed npy header"},
        {"bad-single.npz", "a single .npy array"},
        {"bad-not-npy.npz", "'readme.txt' is not an .npy array"},
        {"bad-no-magic.npz", "is not an npy array"},
        {"bad-lying-shape.npz", "has shape (1000000000000,) of '<f8' but 8 bytes"},
        {"bad-overflow-shape.npz", "has shape (4294967296, 4294967296)"},
        {"bad-shape-digits.npz", "malformed npy header"},
        {"bad-header.npz", "malformed npy header"},
        {"bad-header-code.npz", "malformed npy header"},
        {"bad-header-length.npz", "does not fit"},
        {"bad-no-type.npz", "member 'x' has dtype ''"},
        {"bad-version.npz", "npy version 9"},
        {"bad-bool.npz", "element 1 (type '|b1') is neither False nor True"},
        {"bad-bzip2.npz", "zip method 12"},
        {"bad-twice.npz", "two members are named 'x.npy'"},
        {"bad-crc.npz", "crc32 differs"},
        {"bad-size-less.npz", "in its local header differ"},
        {"bad-size-more.npz", "2147483647 bytes, but 110 packed bytes give at most 113520"},
        {"bad-both-less.npz", "unpacks to more bytes"},
        {"bad-both-more.npz", "unpacks to fewer bytes"},
        {"bad-own-size.npz", "size, method or crc32 in its local header differ"},
        {"bad-own-method.npz", "size, method or crc32 in its local header differ"},
        {"bad-ratio.npz", "'x.npy' claims to unpack to 21474837"},
        {"bad-overlap.npz", "'x.npy' and 'y.npy' overlap"},
        {"bad-offset.npz", "not where the zip directory says"},
        {"bad-empty.npz", "not a complete zip file"},
        {"bad-zip64-locator.npz", "zip64 end record is missing"},
        {"bad-cut-30-good-savez.npz", "truncated"},
        {"bad-cut-60-good-savez.npz", "truncated"},
        {"bad-cut-90-good-compressed.npz", "truncated"},
    };
    refused("npz", read_file, rows, COUNT(rows));
}

/* Valid files above the limit, by one array or by all together: the error has both sizes, before
 * memory is allocated. */
static void too_large(void) {
    static const struct {
        const char *name, *words;
    } rows[] = {
        {"bad-bomb.npz", "member 'x.npy' would take 24000000 bytes as float64 numbers, 24003"},
        {"bad-many.npz", "member 'a.npy' would take 4000000 bytes"}};
    struct qr_tensors t;
    struct qr_err err;
    for (size_t i = 0; i < COUNT(rows); i++) {
        CHECK(read_case(rows[i].name, &t, &err) == QR_RESOURCE_EXHAUSTED &&
                  strstr(err.msg, rows[i].words) && strstr(err.msg, "at most 1048576 may be used"),
              "%s", err.msg);
    }
    struct qr_buf b = {0};
    CHECK(qr_file_read("tests/fuzz/corpus/npz/bad-many.npz", 1 << 24, &b, &err) == QR_OK, "%s",
          err.msg);
    CHECK(qr_npz_read(qr_buf_view(&b), "many", NULL, 20 << 20, &t, &err) == QR_RESOURCE_EXHAUSTED &&
              strstr(err.msg, "member 'f.npy'") && t.n == 0,
          "%s", err.msg);
    static const char *const two[] = {"c", "h", "not there", NULL};
    CHECK(qr_npz_read(qr_buf_view(&b), "many", two, 20 << 20, &t, &err) == QR_OK && t.n == 2 &&
              t.v[0].n == 500000 && strcmp(t.v[1].name, "h") == 0,
          "%s", err.msg);
    qr_tensors_free(&t);
    CHECK(qr_npz_shapes(qr_buf_view(&b), "many", &t, &err) == QR_OK && t.n == 8 &&
              t.v[7].rank == 1 && t.v[7].dims[0] == 500000 && !t.v[7].values,
          "%s", err.msg);
    qr_tensors_free(&t);
    qr_buf_free(&b);
}

/* Zeros compressed by deflate are rejected even if there is enough memory. */
static void inflation(void) {
    struct qr_tensors t = {0};
    struct qr_buf b = {0};
    struct qr_err err;
    CHECK(qr_file_read("tests/fuzz/corpus/npz/bad-inflation.npz", 1 << 24, &b, &err) == QR_OK &&
              b.n < 50000,
          "%s", err.msg);
    CHECK(qr_npz_read(qr_buf_view(&b), "zeros", NULL, (size_t)1 << 40, &t, &err) ==
                  QR_RESOURCE_EXHAUSTED &&
              strstr(err.msg, "would become 320000000 bytes of float64 numbers") &&
              strstr(err.msg, "above 256 MiB the limit is 256 times") &&
              strstr(err.msg, "without compression (numpy.savez)") && t.n == 0,
          "%s", err.msg);
    qr_tensors_free(&t);
    qr_buf_free(&b);
}

static void write_and_read(void) {
    struct qr_tensors t = {0}, back = {0};
    struct qr_buf a = {0}, b = {0};
    struct qr_err err;
    static const double values[6] = {1, -2.5, 1e-300, 4, 1.0 / 3, 6};
    qr_tensors_add(&t, "dense/kernel", 2, (const size_t[]){2, 3}, values);
    qr_tensors_add(&t, "pqc/parameters", 1, (const size_t[]){2}, values + 4);
    qr_tensors_add(&t, "scalar", 0, NULL, values);
    qr_npz_write(&t, &a);
    qr_npz_write(&t, &b);
    CHECK(a.n == b.n && memcmp(a.p, b.p, a.n) == 0);
    CHECK(qr_npz_read(qr_buf_view(&a), "ours", NULL, MAX_BYTES, &back, &err) == QR_OK &&
              back.n == 3,
          "%s", err.msg);
    for (size_t i = 0; i < back.n; i++)
        CHECK(strcmp(back.v[i].name, t.v[i].name) == 0 && back.v[i].n == t.v[i].n &&
                  memcmp(back.v[i].values, t.v[i].values, 8 * t.v[i].n) == 0,
              "%s", t.v[i].name);
    if (system("/usr/bin/python3 -c 'import numpy' 2>/dev/null") == 0) {
        char dir[] = "/tmp/qring-npz-XXXXXX", path[64], command[512];
        CHECK(mkdtemp(dir) != NULL);
        snprintf(path, sizeof path, "%s/w.npz", dir);
        CHECK(qr_file_replace(path, qr_buf_view(&a), &err) == QR_OK, "%s", err.msg);
        snprintf(
            command, sizeof command,
            "/usr/bin/python3 -c \"import numpy as np; f = np.load('%s'); k = f['dense/kernel']; "
            "assert f.files == ['dense/kernel', 'pqc/parameters', 'scalar'] and k.dtype == '<f8' "
            "and k.tolist() == [[1, -2.5, 1e-300], [4, 1/3, 6]] "
            "and f['pqc/parameters'].tolist() == [1/3, 6] and f['scalar'].shape == ()\"",
            path);
        CHECK(system(command) == 0, "NumPy cannot read the file");
        unlink(path);
        rmdir(dir);
    } else {
        SKIP("NumPy reads our npz (python3-numpy is not installed)");
    }
    qr_tensors_free(&t);
    qr_tensors_free(&back);
    qr_buf_free(&a);
    qr_buf_free(&b);
}

static void texts(void) {
    struct qr_buf b = {0};
    struct qr_npz_texts t = {0};
    struct qr_tensors numbers = {0};
    struct qr_err err;
    static const char *const y[] = {"y", NULL}, *const x[] = {"x", NULL};
    CHECK(qr_file_read("tests/fuzz/corpus/npz/good-bytes.npz", MAX_BYTES, &b, &err) == QR_OK);
    struct qr_bytes file = qr_buf_view(&b);
    CHECK(qr_npz_read_texts(file, "f", "x", MAX_BYTES, &t, &err) == QR_OK && t.n == 2 &&
              t.width == 3 && memcmp(t.bytes, "ab\0c\0d", 6) == 0,
          "%s", err.msg);
    qr_npz_texts_fini(&t);
    CHECK(qr_npz_read_texts(file, "f", "z", MAX_BYTES, &t, &err) == QR_OK && !t.bytes);
    CHECK(qr_npz_read_texts(file, "f", "x", 5, &t, &err) == QR_RESOURCE_EXHAUSTED &&
              strstr(err.msg, "takes 6 bytes; at most 5 may be used"),
          "%s", err.msg);
    CHECK(qr_npz_read_texts(file, "f", "y", MAX_BYTES, &t, &err) == QR_DATA_LOSS &&
              strstr(err.msg, "'y' has dtype '<f8'; it must have bytes, dtype 'S'"),
          "%s", err.msg);
    CHECK(qr_npz_read(file, "f", y, MAX_BYTES, &numbers, &err) == QR_OK && numbers.n == 1, "%s",
          err.msg);
    qr_tensors_free(&numbers);
    CHECK(qr_npz_read(file, "f", x, MAX_BYTES, &numbers, &err) == QR_DATA_LOSS &&
              strstr(err.msg, "'x' has dtype '|S3'; supported are f4"),
          "%s", err.msg);
    qr_buf_free(&b);
}

int main(void) {
    good();
    texts();
    bad();
    too_large();
    inflation();
    write_and_read();
    return t_end();
}
