/* verify/verify_files.c — checks job, data, chain, files and weights of a run as they are. Start
 * reading at verify_chain(). */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "base/text.h"
#include "record/envelope.h"
#include "verify/verify_impl.h"
#include "version.h" /* QR_VERSION, made from lib/VERSION */

void verify_add(struct verifying *v, const char *name, enum qr_check_state state, const char *fmt,
                ...) {
    va_list ap;
    struct qr_check *c = &v->ret->check[v->ret->n];
    char raw[sizeof c->text];
    QR_ASSERT(v->ret->n < QR_CHECKS_MAX);
    va_start(ap, fmt);
    vsnprintf(raw, sizeof raw, fmt, ap);
    va_end(ap);
    qr_printable(c->text, sizeof c->text, raw);
    c->name = name;
    c->state = state;
    v->ret->n++;
}

/* ---- job and data ---- */

static const char *field_of(const struct qr_job_canonical *c, const char *name) {
    for (size_t i = 0; i < c->n; i++)
        if (strcmp(c->fields[i].name, name) == 0) return c->fields[i].value;
    return NULL;
}

/* Appends the fields in which the job differs from the statement's; data and arithmetic only where
 * asked for. */
static void put_fields(const struct verifying *v, bool all, struct qr_buf *ret) {
    const struct qr_provenance *p = &v->files.facts;
    for (size_t turn = 0; turn < 2; turn++)
        for (size_t i = 0; i < (turn ? v->canonical.n : p->n_fields); i++) {
            const char *name = turn ? v->canonical.fields[i].name : p->fields[i].name;
            const char *was = qr_provenance_find(p->fields, p->n_fields, name),
                       *is = field_of(&v->canonical, name);
            bool done = turn && was;
            bool left = !all && (strcmp(name, "data") == 0 || strcmp(name, "contract") == 0);
            if (done || left || (was && is && strcmp(was, is) == 0)) continue;
            qr_buf_printf(ret, "%s%.40s is %.80s in the run, %.80s in job.json", ret->n ? "; " : "",
                          name, was ? was : "not set", is ? is : "not set");
        }
}

static enum qr_code load_job(struct verifying *v, struct qr_err *err) {
    const struct qr_verify_options *o = v->opt;
    qr_auto(qr_free_p) char *url = qr_xasprintf("%s/job.json", v->files.url);
    QR_TRY(qr_job_load(url, o->set, &v->job, err));
    QR_TRY(qr_workload_load(v->job, o->isa ? o->isa : "auto", o->threads, &v->load, err));
    v->loaded = true;
    qr_job_canonical(v->job, &v->load.data,
                     v->load.initial_from_file ? v->load.initial_digest : NULL, &v->canonical);
    return QR_OK;
}

/* Compares job, data and arithmetic with those of the run. */
enum qr_code verify_job(struct verifying *v, bool needed, struct qr_err *err) {
    const struct qr_provenance *p = &v->files.facts;
    char data_hash[65];
    struct qr_err why;
    qr_auto(qr_buf_free) struct qr_buf fields = {0};
    enum qr_code code = load_job(v, &why);
    if (code != QR_OK && needed) {
        *err = why;
        return code;
    }
    if (code != QR_OK) {
        verify_add(v, "job", QR_CHECK_UNKNOWN, "not checked: %s", why.msg);
        return QR_OK;
    }
    const char *arithmetic = qr_contract_name(v->job->precision);
    qr_hex(v->load.data.digest, sizeof v->load.data.digest, data_hash);
    bool other_data = *p->data_hash && strcmp(p->data_hash, data_hash) != 0;
    bool other_arithmetic = *p->arithmetic && strcmp(p->arithmetic, arithmetic) != 0;
    bool ours = strcmp(p->arithmetic, qr_contract_name(QR_SINGLE)) == 0 ||
                strcmp(p->arithmetic, qr_contract_name(QR_DOUBLE)) == 0;
    if (other_arithmetic && ours)
        verify_add(v, "arithmetic", QR_CHECK_DIFFERS, "%s in the run, %s by job.json",
                   p->arithmetic, arithmetic);
    else if (other_arithmetic)
        verify_add(v, "arithmetic", QR_CHECK_UNKNOWN,
                   "%s in the run, but this program (%s) computes %s: its steps cannot be computed "
                   "again; use the program of the run (%s)",
                   p->arithmetic, QR_VERSION, arithmetic, *p->program ? p->program : "not known");
    put_fields(v, !other_data && !other_arithmetic, &fields);
    v->same_job = strcmp(v->canonical.hex, p->job_hash) == 0 && !other_data && !other_arithmetic;
    if (!*p->job_hash) v->same_job = true; /* not finished: the chain says it */
    if (p->n_fields && fields.n)
        verify_add(v, "job", QR_CHECK_DIFFERS, "%s", qr_buf_string(&fields));
    else if (v->same_job) verify_add(v, "job", QR_CHECK_SAME, "%.16s", v->canonical.hex);
    else if (!other_data && !other_arithmetic)
        verify_add(v, "job", QR_CHECK_DIFFERS, "its hash is %s, in the run %s", v->canonical.hex,
                   p->job_hash);
    if (other_data)
        verify_add(v, "data", QR_CHECK_DIFFERS, "the samples have SHA-256 %s, those of the run %s",
                   data_hash, p->data_hash);
    else verify_add(v, "data", QR_CHECK_SAME, "%.16s", data_hash);
    return QR_OK;
}

/* ---- chain ---- */

/* The line before the last one that the run's result ends with; NULL: none. */
static const struct qr_chain_line *find_result(const struct verifying *v) {
    const struct qr_provenance *p = &v->files.facts;
    char hex[65];
    for (size_t i = 0; *p->chain && i + 1 < v->chain.n; i++) {
        const struct qr_chain_line *l = &v->chain.line[i];
        qr_hex(l->chain, sizeof l->chain, hex);
        if (strcmp(hex, p->chain) == 0) return strcmp(l->digest, p->state_digest) == 0 ? l : NULL;
    }
    return NULL;
}

/* The run resumed with more epochs: its result is not that of its last line. */
static void leave_result(struct verifying *v, const struct qr_chain_line *end) {
    const struct qr_chain_line *last = &v->chain.line[v->chain.n - 1];
    v->result_bytes = (size_t)(end->text.p + end->text.n + 1 - v->files.steps.p);
    v->files.has_result = false;
    verify_add(v, "chain", QR_CHECK_UNKNOWN,
               "the run went on after its result: that is of step %llu, steps.jsonl ends at step "
               "%llu; start the run again to finish it",
               (unsigned long long)end->step, (unsigned long long)last->step);
}

void verify_chain(struct verifying *v) {
    const struct qr_provenance *p = &v->files.facts;
    uint8_t first[QR_CHAIN_BYTES];
    char hex[65], data_hash[65];
    bool known = *p->job_hash && *p->data_hash && *p->arithmetic;
    if (known) qr_chain_begin(p->job_hash, p->data_hash, p->arithmetic, first);
    else if (v->loaded) {
        qr_hex(v->load.data.digest, sizeof v->load.data.digest, data_hash);
        qr_chain_begin(v->canonical.hex, data_hash, qr_contract_name(v->job->precision), first);
    }
    qr_chain_check(qr_buf_view(&v->files.steps), known || v->loaded ? first : NULL, &v->chain);
    const struct qr_chain_line *last = v->chain.n ? &v->chain.line[v->chain.n - 1] : NULL;
    const struct qr_chain_line *result = find_result(v);
    if (last) qr_hex(last->chain, sizeof last->chain, hex);
    if (!v->files.steps.n && !v->files.has_result && !v->files.has_provenance)
        verify_add(v, "chain", QR_CHECK_UNKNOWN, "none: the run has no line yet");
    else if (v->chain.state == QR_CHAIN_MISSING && !*p->chain)
        verify_add(v, "chain", QR_CHECK_UNKNOWN, "none: %s", v->chain.why);
    else if (v->chain.state != QR_CHAIN_INTACT)
        verify_add(v, "chain", QR_CHECK_DIFFERS, "steps.jsonl: %s", v->chain.why);
    else if (result) leave_result(v, result);
    else if (*p->chain && strcmp(hex, p->chain) != 0)
        verify_add(v, "chain", QR_CHECK_DIFFERS,
                   "steps.jsonl ends at step %llu with %.16s..., the run with %.16s...: lines at "
                   "the end are missing, or the run's result was changed",
                   (unsigned long long)last->step, hex, p->chain);
    else if (*p->state_digest && strcmp(last->digest, p->state_digest) != 0)
        verify_add(v, "chain", QR_CHECK_DIFFERS,
                   "the last line has state digest %s, the run's result %s", last->digest,
                   p->state_digest);
    else
        verify_add(v, "chain", QR_CHECK_SAME, "%zu lines, steps %llu to %llu, ends with %.16s%s",
                   v->chain.n, (unsigned long long)v->chain.line[0].step,
                   (unsigned long long)last->step, hex,
                   *p->chain ? "" : "; the run has no result yet");
}

/* ---- files ---- */

/* Computes the SHA-256 of a file; of steps.jsonl up to the run's result. */
static enum qr_code hash_file(const struct verifying *v, const char *name, char ret[65],
                              struct qr_err *err) {
    uint8_t digest[QR_SHA256_BYTES];
    if (!v->result_bytes || strcmp(name, "steps.jsonl") != 0)
        return qr_run_files_sha256(&v->files, name, ret, err);
    qr_sha256(v->files.steps.p, v->result_bytes, digest);
    qr_hex(digest, sizeof digest, ret);
    return QR_OK;
}

void verify_files(struct verifying *v) {
    const struct qr_provenance *p = &v->files.facts;
    qr_auto(qr_buf_free) struct qr_buf wrong = {0}, names = {0};
    if (*v->files.why) qr_buf_puts(&wrong, v->files.why);
    for (size_t i = 0; i < p->n_files; i++) {
        struct qr_err err;
        char hex[65];
        const char *name = p->files[i].name, *sep = wrong.n ? "; " : "";
        enum qr_code code = hash_file(v, name, hex, &err);
        bool newer = v->result_bytes && strcmp(name, "job.json") == 0; /* it has more epochs */
        if (code != QR_OK) qr_buf_printf(&wrong, "%s%.100s: %.160s", sep, name, err.msg);
        else if (!newer && strcmp(hex, p->files[i].value) != 0)
            qr_buf_printf(&wrong, "%s%.100s has SHA-256 %.16s..., in the run %.16s...", sep, name,
                          hex, p->files[i].value);
        qr_buf_printf(&names, "%s%.100s", i ? ", " : "", name);
    }
    if (wrong.n) verify_add(v, "files", QR_CHECK_DIFFERS, "%s", qr_buf_string(&wrong));
    else if (!p->n_files)
        verify_add(v, "files", QR_CHECK_UNKNOWN, "not checked: the run has no result yet");
    else if (v->result_bytes)
        verify_add(v, "files", QR_CHECK_UNKNOWN,
                   "the run went on after its result: job.json and the end of steps.jsonl are "
                   "newer; otherwise the same: %s",
                   qr_buf_string(&names));
    else
        verify_add(v, "files", QR_CHECK_SAME, "%s%s", qr_buf_string(&names),
                   v->files.has_provenance ? "" : " (no provenance.json)");
}

enum qr_code verify_signature(struct verifying *v, struct qr_err *err) {
    qr_auto(qr_envelope_fini) struct qr_envelope e = {0};
    const struct qr_buf *statement = &v->files.statement;
    const char *key = v->opt->key;
    struct qr_err why;
    char id[65];
    bool good;
    if (!v->files.envelope.n) {
        if (key) verify_add(v, "signature", QR_CHECK_DIFFERS, "none: the run is not signed");
        return QR_OK;
    }
    if (qr_envelope_read(qr_buf_view(&v->files.envelope), "provenance.dsse.json", &e, &why) !=
        QR_OK) {
        verify_add(v, "signature", QR_CHECK_DIFFERS, "%s", why.msg);
        return QR_OK;
    }
    if (e.statement.n != statement->n || memcmp(e.statement.p, statement->p, statement->n) != 0) {
        verify_add(v, "signature", QR_CHECK_DIFFERS,
                   "provenance.json is not the statement that was signed");
        return QR_OK;
    }
    if (!key) {
        verify_add(v, "signature", QR_CHECK_UNKNOWN,
                   "by key %.16s...: not checked; give its public key with --key", e.key_id);
        return QR_OK;
    }
    QR_TRY(qr_envelope_check(&e, key, &good, id, err));
    if (good) verify_add(v, "signature", QR_CHECK_SAME, "by key %.16s...", id);
    else
        verify_add(v, "signature", QR_CHECK_DIFFERS,
                   "key %.16s... of %s has not signed provenance.json (its envelope names key "
                   "%.16s...)",
                   id, key, *e.key_id ? e.key_id : "none");
    return QR_OK;
}

/* Reads the values of a weights file. False: not in the folder, or damaged. */
static bool read_weights(struct verifying *v, const char *name, double *ret) {
    enum qr_weights_format format;
    if (qr_weights_format_of(name, &format, QR_IGNORED) != QR_OK) return false;
    qr_auto(qr_free_p) char *url = qr_run_files_locate(&v->files, name);
    return qr_workload_weights(&v->load, url, ret, QR_IGNORED) == QR_OK;
}

/* Keras' formats hold float32. */
static bool same_weight(double a, double b, bool exact) {
    if (qr_bits_of_double(a) == qr_bits_of_double(b)) return true;
    return !exact && ((double)(float)a == b || a == (double)(float)b);
}

/* Names the first weight that is not the wanted one. False: all are. */
static bool find_weight(const struct verifying *v, const double *is, const double *want, bool exact,
                        char *ret, size_t n) {
    const struct qr_weights_layout *l = &v->load.layout;
    size_t at = 0;
    for (size_t i = 0; i < l->n; i++) {
        size_t size = qr_model_tensor(v->load.model, i)->n;
        for (size_t k = 0; k < size; k++, at++) {
            if (same_weight(is[at], want[at], exact)) continue;
            snprintf(ret, n, "tensor %s, element %zu is %.17g, expected %.17g", l->entries[i].name,
                     k, is[at], want[at]);
            return true;
        }
    }
    return false;
}

void verify_weights(struct verifying *v, const double *params) {
    const struct qr_provenance *p = &v->files.facts;
    size_t n = qr_model_n_params(v->load.model), n_read = 0;
    qr_auto(qr_free_p) double *values = qr_xcalloc(n + 1, sizeof *values);
    qr_auto(qr_free_p) double *first = qr_xcalloc(n + 1, sizeof *first);
    char text[256];
    for (size_t i = 0; i < p->n_files; i++) {
        const char *name = p->files[i].name;
        if (!read_weights(v, name, values)) continue;
        bool exact = params && strstr(name, ".safetensors");
        if (params && find_weight(v, values, params, exact, text, sizeof text)) {
            verify_add(v, "weights", QR_CHECK_DIFFERS, "%.100s: %s", name, text);
            return;
        }
        if (!params && n_read && find_weight(v, values, first, false, text, sizeof text)) {
            verify_add(v, "weights", QR_CHECK_DIFFERS,
                       "the files of weights differ: in %.100s %s as in the file before", name,
                       text);
            return;
        }
        if (!n_read++) memcpy(first, values, n * sizeof *first);
    }
    if (params && n_read)
        verify_add(v, "weights", QR_CHECK_SAME, "%zu files have the recomputed weights", n_read);
}
