/* safetensors: types, order, and the errors for malformed files (seeds of
 * tests/interop/corpus.py). */
#include "base/file.h"
#include "base/mem.h"
#include "format/safetensors.h"
#include "tests/t.h"
#include "tests/tensor_files.h"

static enum qr_code read_file(struct qr_bytes file, const char *name, struct qr_tensors *t,
                              struct qr_err *err) {
    return qr_safetensors_read(file, name, t, err);
}
static enum qr_code read_case(const char *name, struct qr_tensors *t, struct qr_err *err) {
    return read_tensors("safetensors", name, read_file, t, err);
}

static void good(void) {
    struct qr_tensors t;
    struct qr_err err;
    CHECK(read_case("good-types.safetensors", &t, &err) == QR_OK && t.n == 11, "%s", err.msg);
    for (size_t i = 0; i < t.n; i++)
        for (size_t k = 0; k < 4; k++)
            CHECK(t.v[i].n == 4 && t.v[i].values[k] == (double)(k == 1 || k == 2), "%s",
                  t.v[i].name);
    qr_tensors_free(&t);
    CHECK(read_case("good-order.safetensors", &t, &err) == QR_OK && t.n == 3 &&
              strcmp(t.v[0].name, "b") == 0 && t.v[1].rank == 0 && t.v[2].n == 0,
          "%s", err.msg);
    qr_tensors_free(&t);
    CHECK(read_case("good-padded.safetensors", &t, &err) == QR_OK && t.n == 1, "%s", err.msg);
    qr_tensors_free(&t);
    CHECK(read_case("good-empty.safetensors", &t, &err) == QR_OK && t.n == 0, "%s", err.msg);
    qr_tensors_free(&t);
}

static void bad(void) {
    static const struct bad_tensors rows[] = {
        {"bad-hole.safetensors", "tensor 'b' begins at byte 8 of the values, but the one before "
                                 "ends at 4: there is a gap"},
        {"bad-overlap.safetensors", "they overlap"},
        {"bad-all-one.safetensors", "they overlap"},
        {"bad-outside.safetensors", "lie outside the file's 8 bytes"},
        {"bad-behind.safetensors", "4 unexpected bytes after the last tensor"},
        {"bad-shape.safetensors", "span 8 bytes, which do not match shape (3,) of F32"},
        {"bad-overflow.safetensors", "do not match shape"},
        {"bad-negative.safetensors", "tensor 'a': shape is -1"},
        {"bad-backwards.safetensors", "[4, 0]"},
        {"bad-half.safetensors", "dtype is 'F16'"},
        {"bad-key.safetensors", "unknown key 'stride'"},
        {"bad-no-shape.safetensors", "shape is missing"},
        {"bad-three-offsets.safetensors", "two integers"},
        {"bad-metadata.safetensors", "__metadata__.n must be a string"},
        {"bad-twice.safetensors", "duplicate key"},
        {"bad-array.safetensors", "must be an object"},
        {"bad-rank-9.safetensors", "more than 8 dimensions"},
        {"bad-big-integer.safetensors", "element 0"},
        {"bad-length.safetensors", "does not fit"},
        {"bad-length-by-one.safetensors", "does not fit"},
        {"bad-cut-30-good-types.safetensors", "truncated"},
        {"bad-cut-90-good-types.safetensors", "lie outside"},
    };
    refused("safetensors", read_file, rows, COUNT(rows));
}

static void write_and_read(void) {
    struct qr_tensors t = {0}, back = {0};
    struct qr_buf a = {0}, b = {0};
    struct qr_err err;
    static const double values[6] = {1, -2.5, 1e-300, 4, 1.0 / 3, 6};
    static const struct qr_metadata metadata[] = {{"step", "3"}, {"hash", "a\"b"}},
                                    sorted[] = {{"hash", "a\"b"}, {"step", "3"}};
    qr_tensors_add(&t, "dense/kernel", 2, (const size_t[]){2, 3}, values);
    qr_tensors_add(&t, "pqc/parameters", 1, (const size_t[]){2}, values + 4);
    qr_buf_puts(&a, "xyz"); /* the writer appends */
    qr_safetensors_write(&t, metadata, 2, &a);
    qr_safetensors_write(&t, sorted, 2, &b);
    CHECK(a.n == b.n + 3 && memcmp(a.p + 3, b.p, b.n) == 0, "metadata is not sorted");
    uint64_t n = qr_get_u64le(b.p);
    CHECK(n % 8 == 0 && b.n == 8 + n + 8 * 8, "the values do not begin at a multiple of 8");
    static const char header[] =
        "{\"__metadata__\":{\"hash\":\"a\\\"b\",\"step\":\"3\"},\"dense/"
        "kernel\":{\"dtype\":\"F64\",\"shape\":[2,3],\"data_offsets\":[0,48]},";
    CHECK(memcmp(b.p + 8, header, sizeof header - 1) == 0, "%.*s", (int)n, (const char *)b.p + 8);
    CHECK(qr_safetensors_read(qr_buf_view(&b), "ours", &back, &err) == QR_OK && back.n == 2, "%s",
          err.msg);
    for (size_t i = 0; i < back.n; i++)
        CHECK(strcmp(back.v[i].name, t.v[i].name) == 0 && back.v[i].n == t.v[i].n &&
                  memcmp(back.v[i].values, t.v[i].values, 8 * t.v[i].n) == 0,
              "%s", t.v[i].name);
    qr_tensors_free(&t);
    qr_tensors_free(&back);
    qr_buf_free(&a);
    qr_buf_free(&b);
}

int main(void) {
    good();
    bad();
    write_and_read();
    return t_end();
}
