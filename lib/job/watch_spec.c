/* job/watch_spec.c — reads "watch" of a quantum layer: observables that are metrics with
 * user-defined names. Start reading at qr_job_read_watched(). */
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "base/text.h"
#include "job/job_impl.h"

enum { LONGEST_NAME = 24 };

bool qr_job_watches(const struct qr_job *job, const char *name) {
    for (size_t n = 0, i; (i = qr_job_quantum(job, n)) < job->n_layers; n++) {
        const struct qr_quantum_options *q = &job->layers[i].quantum;
        for (size_t k = 0; k < q->n_watched; k++)
            if (strcmp(q->watched_names[k], name) == 0) return true;
    }
    return false;
}

static bool is_value(const char *name) {
    static const char *const others[] = {"loss",    "step",          "epoch",
                                         "samples", "learning_rate", "gradient_norm"};
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        if (strcmp(name, others[i]) == 0) return true;
    for (size_t i = 0; i < QR_METRICS; i++)
        if (strcmp(name, qr_metric_names[i]) == 0) return true;
    return false;
}

enum qr_code qr_job_check_value_name(const struct qr_job *job, const char *where, const char *name,
                                     struct qr_err *err) {
    if (!qr_is_name(name, LONGEST_NAME, "_-"))
        return qr_fail(
            err, QR_INVALID_ARGUMENT,
            "%s: '%.40s' is not a valid metric name; use 1 to %d letters, digits, _ and -", where,
            name, LONGEST_NAME);
    if (is_value(name) || strncmp(name, "val_", 4) == 0)
        return qr_fail(err, QR_INVALID_ARGUMENT,
                       "%s: '%s' is the name of another value; choose another name", where, name);
    if (qr_job_watches(job, name))
        return qr_fail(err, QR_INVALID_ARGUMENT, "%s: '%s' is a duplicate; remove it", where, name);
    return QR_OK;
}

enum qr_code qr_job_read_watched(const struct qr_json *layer, const char *layer_path,
                                 struct qr_job *job, struct qr_quantum_options *q,
                                 struct qr_err *err) {
    const struct qr_json *o = qr_json_get(layer, "watch");
    char where[96], path[144];
    if (!o) return QR_OK;
    snprintf(where, sizeof where, "%s.watch", layer_path);
    if (qr_json_want(o, where, QR_JSON_OBJECT, err) != QR_OK) return err->code;
    size_t n = qr_json_size(o);
    if (job->n_watched + n > QR_MAX_METRICS)
        return qr_fail(err, QR_INVALID_ARGUMENT, "%s: %zu observables are watched; give at most %d",
                       where, job->n_watched + n, QR_MAX_METRICS);
    struct qr_observable *watched = qr_xcalloc(n + 1, sizeof *watched);
    char **names = qr_xcalloc(n + 1, sizeof *names);
    q->watched = watched;
    q->watched_names = names;
    for (const struct qr_json *v = qr_json_first(o); v; v = qr_json_next(v)) {
        const char *name = qr_json_key(v);
        if (qr_job_check_value_name(job, where, name, err) != QR_OK) return err->code;
        snprintf(path, sizeof path, "%s.%s", where, name);
        if (qr_job_read_observable(job, v, path, q->circuit->n_qubits, &watched[q->n_watched],
                                   err) != QR_OK)
            return err->code;
        names[q->n_watched++] = qr_xstrdup(name);
        job->n_watched++;
    }
    return QR_OK;
}

void qr_job_free_watched(struct qr_quantum_options *q) {
    struct qr_observable *watched = (struct qr_observable *)(uintptr_t)q->watched;
    for (size_t i = 0; i < q->n_watched; i++) {
        qr_observable_fini(&watched[i]);
        free(q->watched_names[i]);
    }
    free(watched);
    free((void *)(uintptr_t)q->watched_names);
}
