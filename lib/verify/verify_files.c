/* verify/verify_files.c — checks job, data, chain, files and signature of a run as they are. Start
 * reading at verify_chain(). */
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "record/envelope.h"
#include "verify/verify_impl.h"
#include "version.h" /* QR_VERSION, made from lib/VERSION */

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
        verify_add(v, "arithmetic", QR_CHECK_UNPROVEN,
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
    verify_add(v, "chain", QR_CHECK_UNPROVEN,
               "the run went on after its result: that is of step %llu, steps.jsonl ends at step "
               "%llu; start the run again to finish it",
               (unsigned long long)end->step, (unsigned long long)last->step);
}

/* True if result.json has another number than the last line. */
static bool other_number(const struct verifying *v, const char *key, uint64_t want) {
    int64_t n;
    return v->files.has_result && (qr_json_i64(qr_json_get(v->files.result, key), key, 0,
                                               INT64_C(1) << 53, &n, QR_IGNORED) != QR_OK ||
                                   (uint64_t)n != want);
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
        verify_add(v, "chain", QR_CHECK_UNPROVEN, "none: the run has no line yet");
    else if (v->chain.state == QR_CHAIN_MISSING && !*p->chain)
        verify_add(v, "chain", QR_CHECK_UNPROVEN, "none: %s", v->chain.why);
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
    else if (other_number(v, "steps", last->step) || other_number(v, "epochs", last->epoch))
        verify_add(v, "chain", QR_CHECK_DIFFERS,
                   "steps.jsonl ends at step %llu of epoch %llu, result.json has other numbers",
                   (unsigned long long)last->step, (unsigned long long)last->epoch);
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

static bool differs_so_far(const struct verifying *v) {
    for (size_t i = 0; i < v->ret->n; i++)
        if (v->ret->check[i].state == QR_CHECK_DIFFERS) return true;
    return false;
}

/* What differs, and what cannot be checked. */
struct findings {
    struct qr_buf wrong, unproven;
};

/* Compares a file with its hash. Errors: those of stores that do not answer. */
static enum qr_code check_file(const struct verifying *v, const struct qr_provenance_pair *file,
                               struct findings *f, struct qr_err *err) {
    enum qr_run_file_place place = qr_run_files_place(&v->files, file->name);
    const char *sep = f->wrong.n ? "; " : "", *other = f->unproven.n ? "; " : "";
    char hex[65];
    if (place == QR_RUN_FILE_REFUSED) {
        qr_buf_printf(&f->unproven,
                      "%s%.100s is outside of the run, and not where result.json says that its "
                      "weights are: not read",
                      other, file->name);
        return QR_OK;
    }
    bool newer = v->result_bytes && strcmp(file->name, "job.json") == 0; /* it has more epochs */
    enum qr_code code = hash_file(v, file->name, hex, err);
    if (verify_is_temporary(code)) return code;
    if (verify_is_denied(code))
        qr_buf_printf(&f->unproven, "%s%.100s: %.160s", other, file->name, err->msg);
    else if (code != QR_OK) qr_buf_printf(&f->wrong, "%s%.100s: %.160s", sep, file->name, err->msg);
    else if (newer) return QR_OK;
    else if (strcmp(hex, file->value) != 0 && place == QR_RUN_FILE_INSIDE)
        qr_buf_printf(&f->wrong, "%s%.100s has SHA-256 %.16s..., in the run %.16s...", sep,
                      file->name, hex, file->value);
    else if (strcmp(hex, file->value) != 0)
        qr_buf_printf(&f->wrong, "%s%.100s has another SHA-256 than in the run", sep, file->name);
    return QR_OK;
}

enum qr_code verify_files(struct verifying *v, struct qr_err *err) {
    const struct qr_provenance *p = &v->files.facts;
    qr_auto(qr_buf_free) struct qr_buf names = {0};
    struct findings f = {0};
    struct qr_err why;
    enum qr_code code = QR_OK;
    if (*v->files.why) qr_buf_puts(&f.wrong, v->files.why);
    for (size_t i = 0; i < p->n_files && code == QR_OK; i++) {
        code = check_file(v, &p->files[i], &f, &why);
        qr_buf_printf(&names, "%s%.100s", i ? ", " : "", p->files[i].name);
    }
    verify_listed(v, &f.wrong, &f.unproven);
    if (f.wrong.n) verify_add(v, "files", QR_CHECK_DIFFERS, "%s", qr_buf_string(&f.wrong));
    bool waits = code != QR_OK && !differs_so_far(v);
    if (waits) *err = why;
    else if (code != QR_OK)
        qr_buf_printf(&f.unproven, "%s%.300s", f.unproven.n ? "; " : "", why.msg);
    if (f.unproven.n) verify_add(v, "files", QR_CHECK_UNPROVEN, "%s", qr_buf_string(&f.unproven));
    else if (!p->n_files)
        verify_add(v, "files", QR_CHECK_UNKNOWN, "not checked: the run has no result yet");
    else if (v->result_bytes && !f.wrong.n)
        verify_add(v, "files", QR_CHECK_UNPROVEN,
                   "the run went on after its result: job.json and the end of steps.jsonl are "
                   "newer; otherwise the same: %s",
                   qr_buf_string(&names));
    else if (!f.wrong.n)
        verify_add(v, "files", QR_CHECK_SAME, "%s%s", qr_buf_string(&names),
                   v->files.has_provenance ? "" : " (no provenance.json)");
    qr_buf_free(&f.wrong);
    qr_buf_free(&f.unproven);
    return waits ? code : QR_OK;
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
