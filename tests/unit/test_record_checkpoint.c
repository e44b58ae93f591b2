/* Checkpoints as bytes and in a store: whole ones are loaded, all others are rejected with file and
 * section, and LATEST moves only forward. */
#include <dirent.h>
#include <inttypes.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/checksum.h"
#include "base/clock.h"
#include "base/mem.h"
#include "record/checkpoint.h"
#include "tests/conform/checkpoint_suite.h"

static struct qr_err ck_err;

static bool decodes(struct qr_bytes file, enum qr_code want, const char *words) {
    struct qr_checkpoint c = {0};
    ck_err = (struct qr_err){0};
    enum qr_code code = qr_checkpoint_decode(file, "the file", &c, &ck_err);
    bool is = code == want &&
              (code == QR_OK || (strstr(ck_err.msg, "the file") && strstr(ck_err.msg, words)));
    if (!is) fprintf(stderr, "%s: %s\n", qr_code_name(code), ck_err.msg);
    qr_checkpoint_fini(&c);
    return is;
}
/* Recomputes the checksum after a change. */
static void reseal(struct qr_buf *b, const char *key) {
    uint8_t *at = memmem(b->p, b->n, key, strlen(key));
    char text[9];
    memcpy(at + strlen(key), "00000000", 8);
    snprintf(text, sizeof text, "%08" PRIx32, qr_crc32c(0, b->p, b->n));
    memcpy(at + strlen(key), text, 8);
}

/* ---- bytes ---- */

static void test_round_trip(void) {
    struct qr_checkpoint c = state_at(JOB, 7), back = {0};
    struct qr_buf once = encoded(JOB, 7), again = encoded(JOB, 7), other = encoded(JOB, 8);
    CHECK(qr_checkpoint_decode(qr_buf_view(&once), "the file", &back, &ck_err) == QR_OK &&
              same_checkpoint(&c, &back),
          "%s", ck_err.msg);
    CHECK(once.n == again.n && memcmp(once.p, again.p, once.n) == 0 &&
          memcmp(once.p, other.p, once.n) != 0);
    CHECK(qr_checkpoint_is(qr_buf_view(&once)) && !qr_checkpoint_is(qr_bytes_of_string("neither")));
    c.tensors.v[0].values[3] += 1;
    CHECK(qr_checkpoint_encode(&c, &again, NULL, &ck_err) == QR_INTERNAL &&
              strstr(ck_err.msg, "damaged in memory"),
          "%s", ck_err.msg);
    qr_checkpoint_fini(&c);
    qr_checkpoint_fini(&back);
    qr_buf_free(&once);
    qr_buf_free(&again);
    qr_buf_free(&other);
}

/* Section of a byte: the header, or the name of its tensor. */
static const char *section_of(const struct qr_buf *b, size_t at) {
    static const struct {
        const char *name;
        size_t bytes;
    } order[] = {{"dense/kernel", 96},
                 {"optimizer/m/dense/kernel", 96},
                 {"epoch/sums", 16},
                 {"validation/last", 8}};
    size_t begin = 8 + (size_t)qr_get_u64le(b->p);
    if (at < begin) return "header";
    for (size_t i = 0; i < COUNT(order); begin += order[i].bytes, i++)
        if (at < begin + order[i].bytes) return order[i].name;
    return "?";
}

static void test_bit_flips(void) {
    struct qr_buf b = encoded(JOB, 7);
    size_t accepted = 0, unnamed = 0;
    for (size_t i = 0; i < b.n; i++)
        for (int bit = 0; bit < 8; bit++) {
            struct qr_checkpoint c = {0};
            b.p[i] ^= (uint8_t)(1 << bit);
            enum qr_code code = qr_checkpoint_decode(qr_buf_view(&b), "the file", &c, &ck_err);
            b.p[i] ^= (uint8_t)(1 << bit);
            accepted += code != QR_DATA_LOSS;
            const char *section = section_of(&b, i);
            bool names =
                strstr(ck_err.msg, "the file") &&
                (strstr(ck_err.msg, section) || (*section == 'h' && strstr(ck_err.msg, "tensor")));
            if (!names && !unnamed++)
                fprintf(stderr, "byte %zu (%s): %s\n", i, section, ck_err.msg);
            qr_checkpoint_fini(&c);
        }
    CHECK(accepted == 0, "%zu of %zu flipped bits were accepted", accepted, 8 * b.n);
    CHECK(unnamed == 0, "%zu of %zu flipped bits were rejected without file and section", unnamed,
          8 * b.n);
    for (size_t n = 0; n < b.n; n++) {
        struct qr_checkpoint c = {0};
        accepted +=
            qr_checkpoint_decode(qr_bytes_of(b.p, n), "the file", &c, &ck_err) != QR_DATA_LOSS;
        qr_checkpoint_fini(&c);
    }
    qr_buf_puts(&b, "x");
    CHECK(accepted == 0 && decodes(qr_buf_view(&b), QR_DATA_LOSS, ""),
          "%zu of %zu truncated files were accepted", accepted, b.n);
    qr_buf_free(&b);
}

static void replace(struct qr_buf *b, const char *from, const char *to, const char *seal) {
    uint8_t *at = memmem(b->p, b->n, from, strlen(from));
    CHECK(at && strlen(from) == strlen(to), "%s", from);
    if (at) memcpy(at, to, strlen(to));
    reseal(b, seal);
}

/* Crafted files with valid checksums. */
static void test_crafted_files(void) {
    static const char seal[] = "\"crc32c\":\"";
    static const struct {
        const char *from, *to;
        enum qr_code want;
        const char *words;
    } rows[] = {
        {"qring-checkpoint/1", "qring-checkpoint/2", QR_UNIMPLEMENTED,
         "format 2, written by a later version"},
        {"qring-checkpoint/1", "qring-checkpoint/0", QR_DATA_LOSS, "not a checkpoint"},
        {"qring-checkpoint/1", "other-checkpoint/1", QR_DATA_LOSS, "not a checkpoint"},
        {"\"reductions\":\"7\"", "\"reductions\":\"x\"", QR_DATA_LOSS, "lack"},
        {"\"step\":\"4\"", "\"step\":\"5\"", QR_DATA_LOSS, "digest"},
        {"\"digested\":\"3\"", "\"digested\":\"2\"", QR_DATA_LOSS, "digest"},
        {"\"digested\":\"3\"", "\"digested\":\"9\"", QR_DATA_LOSS, "digest"},
        {"f32-v1", "f64-v1", QR_DATA_LOSS, "digest"},
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct qr_buf b = encoded(JOB, 7);
        replace(&b, rows[i].from, rows[i].to, seal);
        CHECK(decodes(qr_buf_view(&b), rows[i].want, rows[i].words), "%s", rows[i].to);
        qr_buf_free(&b);
    }
}

static struct qr_checkpoint_latest latest_at(uint64_t reductions) {
    struct qr_checkpoint c = state_at(JOB, reductions);
    struct qr_checkpoint_latest l = {
        .step = c.step, .epoch = c.epoch, .reductions = reductions, .crc32c = 0x12ab, .done = true};
    memcpy(l.job_hash, c.job_hash, sizeof l.job_hash);
    memcpy(l.digest, c.digest, sizeof l.digest);
    snprintf(l.object, sizeof l.object, "%.16s-%016" PRIu64 "-%s.safetensors", l.job_hash, l.step,
             l.digest);
    qr_checkpoint_fini(&c);
    return l;
}

static void test_latest(void) {
    struct qr_checkpoint_latest l = latest_at(9), back;
    struct qr_buf b = {0};
    size_t accepted = 0;
    qr_checkpoint_latest_encode(&l, &b);
    CHECK(qr_checkpoint_latest_decode(qr_buf_view(&b), "LATEST", &back, &ck_err) == QR_OK, "%s",
          ck_err.msg);
    CHECK(back.step == 5 && back.epoch == 4 && back.reductions == 9 && back.crc32c == 0x12ab &&
          back.done && strcmp(back.object, l.object) == 0 && strcmp(back.job_hash, JOB) == 0 &&
          strcmp(back.digest, l.digest) == 0);
    for (size_t i = 0; i < b.n; i++) {
        for (int bit = 0; bit < 8; bit++) {
            b.p[i] ^= (uint8_t)(1 << bit);
            accepted += qr_checkpoint_latest_decode(qr_buf_view(&b), "LATEST", &back, &ck_err) !=
                            QR_DATA_LOSS ||
                        !strstr(ck_err.msg, "LATEST");
            b.p[i] ^= (uint8_t)(1 << bit);
        }
        accepted += qr_checkpoint_latest_decode(qr_bytes_of(b.p, i), "LATEST", &back, &ck_err) !=
                    QR_DATA_LOSS;
    }
    CHECK(accepted == 0, "%zu damaged texts were accepted", accepted);
    static const char seal[] = "\"check\":\"";
    static const struct {
        const char *from, *to;
        enum qr_code want;
        const char *words;
    } rows[] = {
        {"\"format\":1", "\"format\":2", QR_UNIMPLEMENTED, "format 2, written by a later version"},
        {"\"format\":1", "\"format\":0", QR_DATA_LOSS, "damaged"},
        /* LATEST names only an object of its own state. */
        {"\"object\":\"00", "\"object\":\"..", QR_DATA_LOSS, "damaged"},
        {"\"done\"", "\"dune\"", QR_DATA_LOSS, "damaged"},
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct qr_buf f = {0};
        qr_checkpoint_latest_encode(&l, &f);
        replace(&f, rows[i].from, rows[i].to, seal);
        CHECK(qr_checkpoint_latest_decode(qr_buf_view(&f), "LATEST", &back, &ck_err) ==
                      rows[i].want &&
                  strstr(ck_err.msg, rows[i].words),
              "%s: %s", rows[i].to, ck_err.msg);
        qr_buf_free(&f);
    }
    qr_buf_free(&b);
}

static char dir[] = "/tmp/qring-checkpoint-XXXXXX";
static struct qr_store *open_dir(void) { return qr_store_file_new(dir); }

/* A killed process leaves its lock file, and perhaps a temporary file. */
static void remove_left(const char *folder) {
    DIR *d = opendir(folder);
    for (const struct dirent *e; d && (e = readdir(d));) {
        qr_auto(qr_free_p) char *path = qr_xasprintf("%s/%s", folder, e->d_name);
        if (strstr(e->d_name, ".tmp-") || strcmp(e->d_name, ".LATEST.lock") == 0) unlink(path);
    }
    if (d) closedir(d);
}

int main(void) {
    test_round_trip();
    test_bit_flips();
    test_crafted_files();
    test_latest();
    struct qr_store *s = qr_store_memory_new();
    checkpoint_suite(s);
    s->ops->close(s);
    char path[128];
    CHECK(mkdtemp(dir) != NULL);
    s = qr_store_file_new(dir);
    checkpoint_suite(s);
    checkpoint_race(s, open_dir, "a folder", 120);
    s->ops->close(s);
    snprintf(path, sizeof path, "%s/run/checkpoints", dir);
    remove_left(path);
    static const char *const left[] = {"run/checkpoints", "run", ""};
    for (size_t i = 0; i < COUNT(left); i++) {
        snprintf(path, sizeof path, "%s/%s", dir, left[i]);
        CHECK(rmdir(path) == 0, "%s is not empty", path);
    }
    return t_end();
}
