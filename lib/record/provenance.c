/* record/provenance.c — writes and reads provenance.json. Start reading at qr_provenance_json(). */
#include "record/provenance.h"

#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "base/text.h"
#include "format/json.h"

#define STATEMENT_TYPE "https://in-toto.io/Statement/v1"
#define PREDICATE_TYPE "https://slsa.dev/provenance/v1"
enum { MOST_FILES = 1024, MOST_FIELDS = 4096 };

void qr_provenance_add(struct qr_provenance_pair **list, size_t *n, const char *name,
                       const char *value) {
    *list = qr_xreallocarray(*list, *n + 1, sizeof **list);
    (*list)[(*n)++] = (struct qr_provenance_pair){qr_xstrdup(name), qr_xstrdup(value)};
}

static void free_pairs(struct qr_provenance_pair *list, size_t n) {
    for (size_t i = 0; i < n; i++) {
        free(list[i].name);
        free(list[i].value);
    }
    free(list);
}

void qr_provenance_fini(struct qr_provenance *p) {
    free_pairs(p->files, p->n_files);
    free_pairs(p->fields, p->n_fields);
    *p = (struct qr_provenance){0};
}

const char *qr_provenance_find(const struct qr_provenance_pair *list, size_t n, const char *name) {
    for (size_t i = 0; i < n; i++)
        if (strcmp(list[i].name, name) == 0) return list[i].value;
    return NULL;
}

/* ---- writing ---- */

static void put_digest(struct qr_json_writer *w, const char *name, const char *kind,
                       const char *hex) {
    qr_json_open(w, '{');
    qr_json_key_string(w, "name", name);
    qr_json_key_open(w, "digest", '{');
    qr_json_key_string(w, kind, hex);
    qr_json_close(w, '}');
    qr_json_close(w, '}');
}

static void put_definition(struct qr_json_writer *w, const struct qr_provenance *p) {
    qr_json_key_open(w, "buildDefinition", '{');
    qr_json_key_string(w, "buildType", QR_PROVENANCE_BUILD);
    qr_json_key_open(w, "externalParameters", '{');
    qr_json_key_open(w, "job", '{');
    for (size_t i = 0; i < p->n_fields; i++)
        qr_json_key_string(w, p->fields[i].name, p->fields[i].value);
    qr_json_close(w, '}');
    qr_json_close(w, '}');
    qr_json_key_open(w, "internalParameters", '{');
    qr_json_key_string(w, "arithmetic", p->arithmetic);
    qr_json_close(w, '}');
    qr_json_key_open(w, "resolvedDependencies", '[');
    put_digest(w, "job", "sha256", p->job_hash);
    put_digest(w, "data", "sha256", p->data_hash);
    qr_json_close(w, ']');
    qr_json_close(w, '}');
}

static void put_details(struct qr_json_writer *w, const struct qr_provenance *p) {
    qr_json_key_open(w, "runDetails", '{');
    qr_json_key_open(w, "builder", '{');
    qr_json_key_string(w, "id", "urn:qring:program");
    qr_json_key_open(w, "version", '{');
    qr_json_key_string(w, "qring", p->program);
    qr_json_close(w, '}');
    qr_json_close(w, '}');
    qr_json_key_open(w, "byproducts", '[');
    put_digest(w, "state", "xxh3_128", p->state_digest);
    if (*p->chain) put_digest(w, "chain", "sha256", p->chain);
    qr_json_close(w, ']');
    qr_json_close(w, '}');
}

void qr_provenance_json(const struct qr_provenance *p, struct qr_buf *ret) {
    struct qr_json_writer w = qr_json_writer(ret, 2);
    qr_json_open(&w, '{');
    qr_json_key_string(&w, "_type", STATEMENT_TYPE);
    qr_json_key_open(&w, "subject", '[');
    for (size_t i = 0; i < p->n_files; i++)
        put_digest(&w, p->files[i].name, "sha256", p->files[i].value);
    qr_json_close(&w, ']');
    qr_json_key_string(&w, "predicateType", PREDICATE_TYPE);
    qr_json_key_open(&w, "predicate", '{');
    put_definition(&w, p);
    put_details(&w, p);
    qr_json_close(&w, '}');
    qr_json_close(&w, '}');
    qr_buf_puts(ret, "\n");
}

/* ---- reading ---- */

static const char *text_at(const struct qr_json *v, const char *key) {
    return qr_json_text(v ? qr_json_get(v, key) : NULL, "");
}

static const struct qr_json *member(const struct qr_json *v, const char *key) {
    return v && qr_json_type(v) == QR_JSON_OBJECT ? qr_json_get(v, key) : NULL;
}

static const struct qr_json *elements(const struct qr_json *v) {
    return v && qr_json_type(v) == QR_JSON_ARRAY ? qr_json_first(v) : NULL;
}

/* The digest of the element of that name in a list. False: missing, or of another length. */
static bool read_digest(const struct qr_json *list, const char *name, const char *kind,
                        size_t digits, char *ret) {
    for (const struct qr_json *m = elements(list); m; m = qr_json_next(m)) {
        const char *hex = text_at(member(m, "digest"), kind);
        if (strcmp(text_at(m, "name"), name) != 0 || !qr_is_hex(hex, digits)) continue;
        memcpy(ret, hex, digits + 1);
        return true;
    }
    return false;
}

static bool read_files(const struct qr_json *subject, struct qr_provenance *p) {
    for (const struct qr_json *m = elements(subject); m; m = qr_json_next(m)) {
        const char *name = text_at(m, "name"), *hex = text_at(member(m, "digest"), "sha256");
        if (!*name || !qr_text_ok(name) || !qr_is_hex(hex, 64) || p->n_files == MOST_FILES ||
            qr_provenance_find(p->files, p->n_files, name))
            return false;
        qr_provenance_add(&p->files, &p->n_files, name, hex);
    }
    return p->n_files > 0;
}

static bool read_fields(const struct qr_json *job, struct qr_provenance *p) {
    if (!job || qr_json_type(job) != QR_JSON_OBJECT) return false;
    for (const struct qr_json *m = qr_json_first(job); m; m = qr_json_next(m)) {
        const char *value = qr_json_text(m, NULL);
        if (!value || p->n_fields == MOST_FIELDS) return false;
        qr_provenance_add(&p->fields, &p->n_fields, qr_json_key(m), value);
    }
    return true;
}

static bool read_short(const char *text, char *ret, size_t cap) {
    if (!*text || strlen(text) >= cap || !qr_text_ok(text)) return false;
    snprintf(ret, cap, "%s", text);
    return true;
}

static bool read_statement(const struct qr_json *root, struct qr_provenance *p) {
    const struct qr_json *predicate = member(root, "predicate"),
                         *definition = member(predicate, "buildDefinition"),
                         *details = member(predicate, "runDetails"),
                         *inputs = member(definition, "resolvedDependencies"),
                         *outputs = member(details, "byproducts");
    read_digest(outputs, "chain", "sha256", 64, p->chain);
    return strcmp(text_at(root, "_type"), STATEMENT_TYPE) == 0 &&
           strcmp(text_at(root, "predicateType"), PREDICATE_TYPE) == 0 &&
           strcmp(text_at(definition, "buildType"), QR_PROVENANCE_BUILD) == 0 &&
           read_files(member(root, "subject"), p) &&
           read_fields(member(member(definition, "externalParameters"), "job"), p) &&
           read_short(text_at(member(definition, "internalParameters"), "arithmetic"),
                      p->arithmetic, sizeof p->arithmetic) &&
           read_short(text_at(member(member(details, "builder"), "version"), "qring"), p->program,
                      sizeof p->program) &&
           read_digest(inputs, "job", "sha256", 64, p->job_hash) &&
           read_digest(inputs, "data", "sha256", 64, p->data_hash) &&
           read_digest(outputs, "state", "xxh3_128", 32, p->state_digest);
}

enum qr_code qr_provenance_read(struct qr_bytes text, const char *what, struct qr_provenance *ret,
                                struct qr_err *err) {
    qr_auto(qr_json_free_p) struct qr_json *root = NULL;
    qr_auto(qr_provenance_fini) struct qr_provenance p = {0};
    if (qr_json_parse(text, what, &root, err) != QR_OK) return err->code = QR_DATA_LOSS;
    if (qr_json_type(root) != QR_JSON_OBJECT || !read_statement(root, &p))
        return qr_fail(err, QR_DATA_LOSS, "%s is not an in-toto statement of qring", what);
    *ret = QR_MOVE(p);
    return QR_OK;
}
