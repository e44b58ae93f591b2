/* local/trial_hash.c — the job hash of each trial of a sweep. Hashes of data sets and weight files
 * are kept, so that none is read twice. Start reading at qr_local_trial_hashes().
 */
#include "local/trial_hash.h"

#include <string.h>

#include "base/cgroup.h"
#include "base/mem.h"
#include "job/canonical.h"

/* Input of the hash: a data set, or a file of weights. */
struct input {
    char *key;              /* identifies the request */
    bool invalid;           /* no job can use it */
    struct qr_dataset data; /* only counts and digest */
    uint8_t initial[32];
};
struct inputs {
    struct input *v;
    size_t n;
};

static struct input *hash_add_input(struct inputs *a, char *key) {
    a->v = qr_xreallocarray(a->v, a->n + 1, sizeof *a->v);
    a->v[a->n] = (struct input){.key = key};
    return &a->v[a->n++];
}

/* NULL: not read yet. */
static const struct input *find_input(const struct inputs *a, const char *key) {
    size_t i = 0;
    while (i < a->n && strcmp(a->v[i].key, key) != 0) i++;
    return i < a->n ? &a->v[i] : NULL;
}

static void free_inputs(struct inputs *a) {
    for (size_t i = 0; i < a->n; i++) free(a->v[i].key);
    free(a->v);
}

/* ---- keys ---- */

/* Returns the object "data" and other requirements of the job on its data, as text; heap. */
static char *data_key(const struct qr_job *job) {
    struct qr_buf b = {0};
    const struct qr_json *o = job->tree ? qr_json_get(job->tree, "data") : NULL;
    const struct qr_data_options opt = qr_job_data_options(job);
    struct qr_json_writer w = qr_json_writer(&b, 0);
    if (o) qr_json_put_shortest(&w, o);
    else qr_json_put_null(&w);
    qr_buf_printf(&b, " %llu %u %u %zu %d %zu %d %d %zu",
                  opt.source == QR_DATA_EXCITATIONS ? (unsigned long long)opt.seed : 0, opt.rounds,
                  opt.qubits, opt.n_columns, opt.more_columns, opt.n_outputs, opt.one_label_for_all,
                  opt.no_labels, job->micro_batch_size);
    return (char *)QR_MOVE(b.p);
}

/* ---- reading ---- */

/* An error of the job itself: the trial has no hash, and its worker reports the error. */
static bool is_job_fault(enum qr_code code) {
    return code == QR_INVALID_ARGUMENT || code == QR_OUT_OF_RANGE;
}

static enum qr_code hash_data(struct inputs *a, const struct qr_job *job, const struct input **ret,
                              struct qr_err *err) {
    char *key = data_key(job);
    if ((*ret = find_input(a, key))) {
        free(key);
        return QR_OK;
    }
    struct input *k = hash_add_input(a, key);
    struct qr_dataset d;
    enum qr_code code = qr_job_data(job, &d, err);
    k->invalid = is_job_fault(code);
    if (code == QR_OK) {
        k->data = (struct qr_dataset){.n_samples = d.n_samples, .n_train = d.n_train};
        memcpy(k->data.digest, d.digest, sizeof d.digest);
        qr_dataset_fini(&d);
        qr_memory_trim();
    }
    *ret = k;
    return k->invalid ? QR_OK : code;
}

static enum qr_code hash_initial(struct inputs *a, const struct qr_job *job,
                                 const struct input **ret, struct qr_err *err) {
    if ((*ret = find_input(a, job->train.initial_weights))) return QR_OK;
    struct input *k = hash_add_input(a, qr_xstrdup(job->train.initial_weights));
    enum qr_code code = qr_workload_initial_digest(job, k->initial, err);
    k->invalid = is_job_fault(code);
    *ret = k;
    return k->invalid ? QR_OK : code;
}

/* ---- trials ---- */

/* Adds the inputs of trial 0, which is loaded already. */
static void add_first_trial(const struct qr_workload *first, struct inputs *data,
                            struct inputs *initial) {
    struct input *k = hash_add_input(data, data_key(first->job));
    k->data =
        (struct qr_dataset){.n_samples = first->data.n_samples, .n_train = first->data.n_train};
    memcpy(k->data.digest, first->data.digest, sizeof k->data.digest);
    if (!first->initial_from_file) return;
    k = hash_add_input(initial, qr_xstrdup(first->job->train.initial_weights));
    memcpy(k->initial, first->initial_digest, sizeof k->initial);
}

static enum qr_code hash_trial(const struct qr_job *trial, struct inputs *data,
                               struct inputs *initial, char ret[65], struct qr_err *err) {
    const struct input *d = NULL, *w = NULL;
    struct qr_job_canonical c;
    *ret = 0;
    QR_TRY(hash_data(data, trial, &d, err));
    if (d->invalid) return QR_OK;
    if (trial->train.initial_weights) QR_TRY(hash_initial(initial, trial, &w, err));
    if (w && w->invalid) return QR_OK;
    qr_job_canonical(trial, &d->data, w ? w->initial : NULL, &c);
    memcpy(ret, c.hex, sizeof c.hex);
    qr_job_canonical_fini(&c);
    return QR_OK;
}

static void free_job(struct qr_job **job) { qr_job_free(*job); }

enum qr_code qr_local_trial_hashes(const struct qr_job *job, struct qr_workload *first,
                                   char (*ret_hash)[65], struct qr_err *err) {
    qr_auto(free_inputs) struct inputs data = {0}, initial = {0};
    add_first_trial(first, &data, &initial);
    qr_workload_fini(first);
    for (size_t t = 0; t < job->sweep->n_trials; t++) {
        qr_auto(free_job) struct qr_job *trial = NULL;
        QR_TRY(qr_job_trial(job, t, &trial, err));
        if (hash_trial(trial, &data, &initial, ret_hash[t], err) != QR_OK)
            return qr_wrap(err, "trial %zu", t);
    }
    return QR_OK;
}
