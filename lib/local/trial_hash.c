/* The job hash of each trial. Start at qr_local_trial_hashes: what the hash has of each data set
 * and of each file of weights that trials name is kept, so that none is read twice. */
#include "local/trial_hash.h"

#include <string.h>

#include "base/cgroup.h"
#include "base/mem.h"
#include "job/canonical.h"

/* What the hash has of a data set, or of a file of weights. */
struct input {
    char *key;              /* how a job asks for it */
    bool none;              /* no job can be made of it */
    struct qr_dataset data; /* counts and digest alone */
    uint8_t initial[32];
};
struct inputs {
    struct input *v;
    size_t n;
};

static struct input *add(struct inputs *a, char *key) {
    a->v = qr_xreallocarray(a->v, a->n + 1, sizeof *a->v);
    a->v[a->n] = (struct input){.key = key};
    return &a->v[a->n++];
}

/* NULL: not yet. */
static const struct input *find(const struct inputs *a, const char *key) {
    size_t i = 0;
    while (i < a->n && strcmp(a->v[i].key, key) != 0) i++;
    return i < a->n ? &a->v[i] : NULL;
}

static void free_all(struct inputs *a) {
    for (size_t i = 0; i < a->n; i++) free(a->v[i].key);
    free(a->v);
}

/* ---- how a job asks ---- */

/* The object "data", and what the rest of the job wants of the data. Heap. */
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

/* ---- what is read ---- */

/* What is the job's own fault: the trial has no hash, and its worker says why. */
static bool is_own(enum qr_code code) {
    return code == QR_INVALID_ARGUMENT || code == QR_OUT_OF_RANGE;
}

static enum qr_code learn_data(struct inputs *a, const struct qr_job *job, const struct input **ret,
                               struct qr_err *err) {
    char *key = data_key(job);
    if ((*ret = find(a, key))) {
        free(key);
        return QR_OK;
    }
    struct input *k = add(a, key);
    struct qr_dataset d;
    enum qr_code code = qr_job_data(job, &d, err);
    k->none = is_own(code);
    if (code == QR_OK) {
        k->data = (struct qr_dataset){.n_samples = d.n_samples, .n_train = d.n_train};
        memcpy(k->data.digest, d.digest, sizeof d.digest);
        qr_dataset_fini(&d);
        qr_memory_trim();
    }
    *ret = k;
    return k->none ? QR_OK : code;
}

static enum qr_code learn_initial(struct inputs *a, const struct qr_job *job,
                                  const struct input **ret, struct qr_err *err) {
    if ((*ret = find(a, job->train.initial_weights))) return QR_OK;
    struct input *k = add(a, qr_xstrdup(job->train.initial_weights));
    enum qr_code code = qr_workload_initial_digest(job, k->initial, err);
    k->none = is_own(code);
    *ret = k;
    return k->none ? QR_OK : code;
}

/* ---- */

/* Trial 0 has been loaded: what is known of it is not read again. */
static void learn_first(const struct qr_workload *first, struct inputs *data,
                        struct inputs *initial) {
    struct input *k = add(data, data_key(first->job));
    k->data =
        (struct qr_dataset){.n_samples = first->data.n_samples, .n_train = first->data.n_train};
    memcpy(k->data.digest, first->data.digest, sizeof k->data.digest);
    if (!first->initial_from_file) return;
    k = add(initial, qr_xstrdup(first->job->train.initial_weights));
    memcpy(k->initial, first->initial_digest, sizeof k->initial);
}

static enum qr_code hash_of(const struct qr_job *trial, struct inputs *data, struct inputs *initial,
                            char ret[65], struct qr_err *err) {
    const struct input *d = NULL, *w = NULL;
    struct qr_job_canonical c;
    *ret = 0;
    if (learn_data(data, trial, &d, err) != QR_OK) return err->code;
    if (d->none) return QR_OK;
    if (trial->train.initial_weights && learn_initial(initial, trial, &w, err) != QR_OK)
        return err->code;
    if (w && w->none) return QR_OK;
    qr_job_canonical(trial, &d->data, w ? w->initial : NULL, &c);
    memcpy(ret, c.hex, sizeof c.hex);
    qr_job_canonical_fini(&c);
    return QR_OK;
}

enum qr_code qr_local_trial_hashes(const struct qr_job *job, struct qr_workload *first,
                                   char (*ret_hash)[65], struct qr_err *err) {
    struct inputs data = {0}, initial = {0};
    enum qr_code code = QR_OK;
    learn_first(first, &data, &initial);
    qr_workload_fini(first);
    for (size_t t = 0; t < job->sweep->n_trials && code == QR_OK; t++) {
        struct qr_job *trial = NULL;
        code = qr_job_trial(job, t, &trial, err);
        if (code == QR_OK) {
            code = hash_of(trial, &data, &initial, ret_hash[t], err);
            if (code != QR_OK) qr_wrap(err, "trial %zu", t);
        }
        qr_job_free(trial);
    }
    free_all(&data);
    free_all(&initial);
    return code;
}
