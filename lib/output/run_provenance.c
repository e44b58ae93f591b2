/* output/run_provenance.c — writes provenance.json at the end of a run. Start reading at
 * outputs_write_provenance(). */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/checksum.h"
#include "base/mem.h"
#include "output/outputs_impl.h"
#include "record/provenance.h"

static enum qr_code add_file(const struct qr_outputs *o, const char *name, struct qr_provenance *p,
                             struct qr_err *err) {
    qr_auto(qr_free_p) char *path = qr_path_join(o->dir, name);
    uint8_t digest[QR_SHA256_BYTES];
    char hex[2 * QR_SHA256_BYTES + 1];
    int fd;
    QR_TRY(qr_file_open(path, O_RDONLY, &fd, err));
    int sys = qr_sha256_file(fd, digest);
    close(fd);
    if (sys) return qr_fail_errno(err, sys, "cannot read %s", path);
    qr_hex(digest, sizeof digest, hex);
    qr_provenance_add(&p->files, &p->n_files, name, hex);
    return QR_OK;
}

/* The path of the written weights below the run's folder; NULL: they are elsewhere. Heap. */
static char *weights_inside(const struct qr_outputs *o) {
    const char *path = qr_url_local_path(o->weights_url);
    qr_auto(qr_free_p) char *dir = realpath(o->dir, NULL),
                            *file = path ? realpath(path, NULL) : NULL;
    size_t n = dir ? strlen(dir) : 0;
    bool inside = dir && file && strncmp(file, dir, n) == 0 && file[n] == '/';
    return inside ? qr_xstrdup(file + n + 1) : NULL;
}

char *outputs_weights_location(const struct qr_outputs *o) {
    char cwd[PATH_MAX];
    const char *path = qr_url_local_path(o->weights_url);
    qr_auto(qr_free_p) char *inside = weights_inside(o);
    bool beside = inside && !strchr(inside, '/');
    return path && *path != '/' && !beside && getcwd(cwd, sizeof cwd) ? qr_path_join(cwd, path)
                                                                      : qr_xstrdup(o->weights_url);
}

/* Both files of weights, which may be one: by their names in the folder, or by URL. */
static void add_weights(const struct qr_outputs *o, const struct qr_result *result,
                        struct qr_provenance *p) {
    static const char second[] = "weights.safetensors";
    qr_auto(qr_free_p) char *inside = weights_inside(o),
                            *shown = qr_url_redacted(result->weights_url);
    qr_provenance_add(&p->files, &p->n_files, inside ? inside : shown, result->weights_sha256);
    if (inside && strcmp(inside, second) == 0) return;
    qr_provenance_add(&p->files, &p->n_files, second, result->safetensors_sha256);
}

/* Writes the signed statement; without a key, removes that of an earlier end of this run. */
static enum qr_code sign(const struct qr_outputs *o, struct qr_bytes statement,
                         struct qr_err *err) {
    qr_auto(qr_free_p) char *path = qr_path_join(o->dir, "provenance.dsse.json");
    qr_auto(qr_buf_free) struct qr_buf text = {0};
    if (o->signing_key) {
        QR_TRY(qr_envelope_sign(o->signing_key, statement, &text, err));
        return qr_file_replace(path, qr_buf_view(&text), err);
    }
    if (unlink(path) == 0 || errno == ENOENT) return QR_OK;
    return qr_fail_errno(err, errno, "cannot remove %s of an earlier end of this run", path);
}

enum qr_code outputs_write_provenance(const struct qr_outputs *o, const struct qr_result *result,
                                      struct qr_bytes result_text,
                                      const struct qr_job_canonical *canonical,
                                      struct qr_err *err) {
    uint8_t digest[QR_SHA256_BYTES];
    char hex[2 * QR_SHA256_BYTES + 1];
    qr_auto(qr_provenance_fini) struct qr_provenance p = {0};
    qr_auto(qr_buf_free) struct qr_buf text = {0};
    qr_auto(qr_free_p) char *path = qr_path_join(o->dir, "provenance.json");
    snprintf(p.job_hash, sizeof p.job_hash, "%s", result->job_hash);
    snprintf(p.data_hash, sizeof p.data_hash, "%s", result->data_hash);
    snprintf(p.arithmetic, sizeof p.arithmetic, "%s", result->arithmetic);
    snprintf(p.program, sizeof p.program, "%s", result->program);
    snprintf(p.state_digest, sizeof p.state_digest, "%s", result->state_digest);
    snprintf(p.chain, sizeof p.chain, "%s", result->chain);
    add_weights(o, result, &p);
    qr_sha256(result_text.p, result_text.n, digest);
    qr_hex(digest, sizeof digest, hex);
    qr_provenance_add(&p.files, &p.n_files, "result.json", hex);
    QR_TRY(add_file(o, "job.json", &p, err));
    QR_TRY(add_file(o, "steps.jsonl", &p, err));
    for (size_t i = 0; i < canonical->n; i++)
        qr_provenance_add(&p.fields, &p.n_fields, canonical->fields[i].name,
                          canonical->fields[i].value);
    qr_provenance_json(&p, &text);
    QR_TRY(qr_file_replace(path, qr_buf_view(&text), err));
    return sign(o, qr_buf_view(&text), err);
}
