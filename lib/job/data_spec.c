#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "job/job_impl.h"

enum { MAX_ROUNDS = 1 << 20 };

static enum qr_code opt_url(const struct qr_json *data, const char *key, const char **ret,
                            struct qr_err *err) {
    char path[48];
    snprintf(path, sizeof path, "data.%s", key);
    const struct qr_json *v = qr_json_get(data, key);
    const char *url = NULL;
    if (!v) return QR_OK;
    if (qr_json_string(v, path, &url, err) != QR_OK) return err->code;
    if (!*url) return qr_fail(err, QR_INVALID_ARGUMENT, "%s is empty; give a path or URL", path);
    *ret = qr_xstrdup(url);
    return QR_OK;
}

static enum qr_code read_excitations(const struct qr_json *data, struct qr_job *job,
                                     struct qr_err *err) {
    static const char *const keys[] = {"source", "rounds", "train_fraction"};
    uint64_t rounds = 20;
    if (qr_json_known(data, "data", keys, 3, err) != QR_OK ||
        qr_job_opt_u64(data, "data", "rounds", 1, MAX_ROUNDS, &rounds, err) != QR_OK)
        return err->code;
    if (!job->has_quantum || job->circuit->n_columns == 0)
        return qr_fail(err, QR_INVALID_ARGUMENT,
                       "data.source: cluster-excitations makes one angle per qubit, but the model "
                       "has no quantum layer with data gates");
    job->data.rounds = (unsigned)rounds;
    job->data.qubits = job->circuit->n_columns;
    return QR_OK;
}

/* One sample without inputs: a circuit's read-outs follow from its weights alone. */
static enum qr_code read_none(const struct qr_json *data, struct qr_job *job, struct qr_err *err) {
    static const char *const keys[] = {"source"};
    if (qr_json_known(data, "data", keys, 1, err) != QR_OK) return err->code;
    if (!job->has_quantum)
        return qr_fail(err, QR_INVALID_ARGUMENT,
                       "data.source: none, but without a quantum layer a model is a function of its "
                       "data; give a circuit, or data");
    if (job->circuit->n_columns > 0)
        return qr_fail(err, QR_INVALID_ARGUMENT,
                       "data.source: none, but the circuit takes %u input%s; take the data gates "
                       "away, or give data",
                       job->circuit->n_columns, job->circuit->n_columns == 1 ? "" : "s");
    return QR_OK;
}

static enum qr_code read_split(const struct qr_json *data, struct qr_job *job, struct qr_err *err) {
    job->data.shuffle_split = qr_json_get(data, "shuffle_split") != NULL;
    if (!job->data.shuffle_split) return QR_OK;
    if (qr_job_opt_u64(data, "data", "shuffle_split", 0, UINT64_C(1) << 53, &job->data.split_seed,
                       err) != QR_OK)
        return err->code;
    if (job->data.validation_url)
        return qr_fail(err, QR_INVALID_ARGUMENT,
                       "data: shuffle_split and validation_url exclude each other; with "
                       "validation_url nothing is split");
    return QR_OK;
}

static enum qr_code read_sample_weight(const struct qr_json *data, struct qr_job *job,
                                       struct qr_err *err) {
    const struct qr_json *v = qr_json_get(data, "sample_weight");
    const char *name;
    if (!v) return QR_OK;
    if (qr_json_string(v, "data.sample_weight", &name, err) != QR_OK) return err->code;
    bool npz = job->data.source == QR_DATA_NPZ;
    if (!*name || strcmp(name, "y") == 0 || (npz && strcmp(name, "x") == 0))
        return qr_fail(err, QR_INVALID_ARGUMENT,
                       "data.sample_weight: '%s' is no %s of weights; give the name of one", name,
                       npz ? "array" : "column");
    job->data.sample_weight = qr_xstrdup(name);
    return QR_OK;
}

static enum qr_code read_file(const struct qr_json *data, struct qr_job *job, struct qr_err *err) {
    static const char *const keys[] = {"source",         "url",           "validation_url",
                                       "train_fraction", "shuffle_split", "sample_weight"};
    if (qr_json_known(data, "data", keys, 6, err) != QR_OK ||
        opt_url(data, "url", &job->data.url, err) != QR_OK ||
        opt_url(data, "validation_url", &job->data.validation_url, err) != QR_OK)
        return err->code;
    if (!job->data.url)
        return qr_fail(err, QR_INVALID_ARGUMENT,
                       "data.url is missing: give the path or URL of the data");
    if (job->data.validation_url && qr_json_get(data, "train_fraction"))
        return qr_fail(err, QR_INVALID_ARGUMENT,
                       "data: train_fraction and validation_url exclude each other; with "
                       "validation_url all samples of url train");
    return read_sample_weight(data, job, err) != QR_OK ? err->code : read_split(data, job, err);
}

enum qr_code qr_job_read_data(const struct qr_json *data, struct qr_job *job, struct qr_err *err) {
    /* as enum qr_data_source */
    static const char *const sources[] = {"cluster-excitations", "npz", "csv", "none"};
    static enum qr_code (*const readers[])(const struct qr_json *, struct qr_job *,
                                           struct qr_err *) = {read_excitations, read_file,
                                                               read_file, read_none};
    if (!data) return qr_fail(err, QR_INVALID_ARGUMENT, "data is missing: give {\"source\": ...}");
    size_t source;
    job->data.train_fraction = 1;
    if (qr_json_want(data, "data", QR_JSON_OBJECT, err) != QR_OK ||
        qr_json_choice(qr_json_get(data, "source"), "data.source", sources, 4, &source, err) !=
            QR_OK)
        return err->code;
    job->data.source = (enum qr_data_source)source;
    if (readers[source](data, job, err) != QR_OK ||
        qr_job_opt_double(data, "data", "train_fraction", 0, 1, &job->data.train_fraction, err) !=
            QR_OK)
        return err->code;
    if (job->data.train_fraction <= 0)
        return qr_fail(err, QR_INVALID_ARGUMENT,
                       "data.train_fraction must be above 0: nothing would train");
    if (job->data.shuffle_split && job->data.train_fraction >= 1)
        return qr_fail(err, QR_INVALID_ARGUMENT,
                       "data.shuffle_split: all samples train, so there is nothing to split; give "
                       "data.train_fraction below 1");
    return QR_OK;
}
