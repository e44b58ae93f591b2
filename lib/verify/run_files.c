/* verify/run_files.c — reads the files of a run. Start reading at qr_run_files_read(). */
#include "verify/run_files.h"

#include <stdio.h>
#include <string.h>

#include "base/file.h"
#include "base/mem.h"
#include "base/text.h"
#include "format/json.h"
#include "store/store.h"

static const size_t max_file_bytes = (size_t)1 << 32, max_text_bytes = (size_t)16 << 20;

static enum qr_code read_named(const struct qr_run_files *r, const char *name, size_t max,
                               struct qr_buf *ret, struct qr_err *err) {
    qr_auto(qr_free_p) char *url = qr_xasprintf("%s/%s", r->url, name);
    return qr_url_read(url, max, ret, err);
}

static void copy_hex(const struct qr_json *v, const char *key, size_t digits, char *ret) {
    const char *hex = qr_json_text(qr_json_get(v, key), "");
    if (qr_is_hex(hex, digits)) memcpy(ret, hex, digits + 1);
}

/* A fact that both files have must be the same. */
static void compare_facts(struct qr_run_files *r, const char *what, const char *result,
                          const char *statement) {
    if (*r->why || !*result || strcmp(result, statement) == 0) return;
    snprintf(r->why, sizeof r->why, "%s is %s in result.json, %s in provenance.json", what, result,
             *statement ? statement : "missing");
}

static void check_statement(struct qr_run_files *r, const struct qr_provenance *result) {
    const struct qr_provenance *p = &r->facts;
    compare_facts(r, "job_hash", result->job_hash, p->job_hash);
    compare_facts(r, "data_hash", result->data_hash, p->data_hash);
    compare_facts(r, "arithmetic", result->arithmetic, p->arithmetic);
    compare_facts(r, "state_digest", result->state_digest, p->state_digest);
    compare_facts(r, "chain", result->chain, p->chain);
}

static enum qr_code read_result(struct qr_run_files *r, struct qr_provenance *ret,
                                struct qr_err *err) {
    qr_auto(qr_buf_free) struct qr_buf text = {0};
    struct qr_json *root;
    enum qr_code code = read_named(r, "result.json", max_text_bytes, &text, err);
    if (code == QR_NOT_FOUND) return QR_OK;
    if (code != QR_OK) return code;
    if (qr_json_parse(qr_buf_view(&text), "result.json", &root, err) != QR_OK)
        return err->code = QR_DATA_LOSS;
    r->result = root;
    if (qr_json_type(root) != QR_JSON_OBJECT)
        return qr_fail(err, QR_DATA_LOSS, "%s/result.json is not a JSON object", r->url);
    r->has_result = true;
    copy_hex(root, "job_hash", 64, ret->job_hash);
    copy_hex(root, "data_hash", 64, ret->data_hash);
    copy_hex(root, "state_digest", 32, ret->state_digest);
    copy_hex(root, "chain", 64, ret->chain);
    snprintf(ret->arithmetic, sizeof ret->arithmetic, "%s",
             qr_json_text(qr_json_get(root, "arithmetic"), ""));
    snprintf(ret->program, sizeof ret->program, "%s",
             qr_json_text(qr_json_get(root, "program"), ""));
    const struct qr_json *weights = qr_json_get(root, "weights");
    const char *url = qr_json_text(qr_json_get(weights, "url"), ""),
               *sha256 = qr_json_text(qr_json_get(weights, "sha256"), ""),
               *second = qr_json_text(qr_json_get(weights, "safetensors_sha256"), "");
    /* A relative path is that of a file directly in the run's folder: outputs_weights_location. */
    const char *path = qr_url_local_path(url), *slash = path ? strrchr(path, '/') : NULL;
    if (slash && *path != '/') url = slash + 1;
    if (*url && qr_is_hex(sha256, 64)) qr_provenance_add(&ret->files, &ret->n_files, url, sha256);
    if (qr_is_hex(second, 64) && strcmp(url, "weights.safetensors") != 0)
        qr_provenance_add(&ret->files, &ret->n_files, "weights.safetensors", second);
    return QR_OK;
}

enum qr_code qr_run_files_read(const char *run, struct qr_run_files *ret, struct qr_err *err) {
    qr_auto(qr_run_files_fini) struct qr_run_files r = {.url = qr_xstrdup(run)};
    qr_auto(qr_provenance_fini) struct qr_provenance result = {0};
    if (!*run) return qr_fail(err, QR_INVALID_ARGUMENT, "the run is empty; give its folder or URL");
    for (size_t n = strlen(r.url); n > 1 && r.url[n - 1] == '/'; n--) r.url[n - 1] = 0;
    if (read_named(&r, "steps.jsonl", max_file_bytes, &r.steps, err) != QR_OK)
        return qr_wrap(err, "cannot verify %.200s: not the folder of a run", run);
    QR_TRY(read_result(&r, &result, err));
    enum qr_code code = read_named(&r, "provenance.json", max_text_bytes, &r.statement, err);
    if (code == QR_OK) {
        QR_TRY(qr_provenance_read(qr_buf_view(&r.statement), "provenance.json", &r.facts, err));
        r.has_provenance = true;
        check_statement(&r, &result);
    } else if (code == QR_NOT_FOUND) {
        r.facts = QR_MOVE(result);
    } else {
        return code;
    }
    code = read_named(&r, "provenance.dsse.json", max_text_bytes, &r.envelope, err);
    if (code != QR_OK && code != QR_NOT_FOUND) return code;
    *ret = QR_MOVE(r);
    return QR_OK;
}

void qr_run_files_fini(struct qr_run_files *r) {
    free(r->url);
    qr_buf_free(&r->steps);
    qr_buf_free(&r->statement);
    qr_buf_free(&r->envelope);
    qr_provenance_fini(&r->facts);
    qr_json_free_p(&r->result);
    *r = (struct qr_run_files){0};
}

static bool is_local_file(const char *url) {
    const char *path = qr_url_local_path(url);
    return path && qr_file_exists(path);
}

char *qr_run_files_locate(const struct qr_run_files *r, const char *name) {
    const char *path = qr_url_local_path(name);
    if (!path) return qr_xstrdup(name);
    if (*path != '/') return qr_xasprintf("%s/%s", r->url, path);
    const char *base = strrchr(path, '/') + 1;
    qr_auto(qr_free_p) char *moved = qr_xasprintf("%s/%s", r->url, base);
    bool there = qr_url_remote(r->url) || (!is_local_file(path) && is_local_file(moved));
    bool taken = qr_provenance_find(r->facts.files, r->facts.n_files, base) != NULL;
    return there && !taken ? QR_MOVE(moved) : qr_xstrdup(name);
}

/* True if a URL begins with this one and a slash, and does not leave that folder. */
static bool is_below(const char *url, const char *folder) {
    size_t n = strlen(folder);
    return strncmp(url, folder, n) == 0 && url[n] == '/' && !strstr(url + n, "/..");
}

enum qr_run_file_place qr_run_files_place(const struct qr_run_files *r, const char *name) {
    qr_auto(qr_free_p) char *url = qr_run_files_locate(r, name);
    const char *weights = qr_json_text(qr_json_get(qr_json_get(r->result, "weights"), "url"), "");
    qr_auto(qr_free_p) char *shown = qr_url_redacted(weights);
    if (is_below(url, r->url)) return QR_RUN_FILE_INSIDE;
    if (strcmp(name, weights) != 0 && strcmp(name, shown) != 0) return QR_RUN_FILE_REFUSED;
    if (!qr_url_remote(r->url)) return QR_RUN_FILE_ELSEWHERE;
    const char *host = strstr(r->url, "://") + strlen("://");
    qr_auto(qr_free_p) char *store =
        qr_xstrndup(r->url, (size_t)(host - r->url) + strcspn(host, "/"));
    return is_below(url, store) ? QR_RUN_FILE_ELSEWHERE : QR_RUN_FILE_REFUSED;
}

enum qr_code qr_run_files_sha256(const struct qr_run_files *r, const char *name, char ret[65],
                                 struct qr_err *err) {
    qr_auto(qr_free_p) char *url = qr_run_files_locate(r, name);
    qr_auto(qr_buf_free) struct qr_buf bytes = {0};
    uint8_t digest[QR_SHA256_BYTES];
    QR_TRY(qr_url_read(url, max_file_bytes, &bytes, err));
    qr_sha256(bytes.p, bytes.n, digest);
    qr_hex(digest, sizeof digest, ret);
    return QR_OK;
}
