/* job/record.c — writes a job as a job file, and compares two of them. Start reading at
 * qr_job_record() and qr_job_differences(). */
#include "job/record.h"

#include <stdio.h>
#include <string.h>

#include "base/file.h"
#include "base/mem.h"
#include "base/text.h"
#include "data/named_files.h"
#include "store/store.h"

/* ---- the job as it was trained ---- */

static void put_job(struct qr_json_writer *w, const struct qr_json *tree, bool sweep) {
    qr_json_open(w, '{');
    for (const struct qr_json *m = qr_json_first(tree); m; m = qr_json_next(m)) {
        if (!sweep && strcmp(qr_json_key(m), "sweep") == 0) continue;
        qr_json_put_key(w, qr_json_key(m));
        qr_json_put_shortest(w, m);
    }
    qr_json_close(w, '}');
}

/* text: JSON. path: a key of the tree itself, so it always exists. */
static void set_path(struct qr_json *tree, const char *path, const char *text) {
    struct qr_buf where = {0};
    enum qr_code code = qr_json_set(tree, path, text, &where, QR_IGNORED);
    QR_ASSERT(code == QR_OK || code == QR_RESOURCE_EXHAUSTED);
    qr_buf_free(&where);
}

/* Makes the file name at a path absolute, if a name is there. */
static void set_file(struct qr_json *tree, const struct qr_job *job, const char *path,
                     const struct qr_json *v) {
    const char *url = qr_json_text(v, NULL);
    struct qr_buf text = {0};
    if (!url) return;
    qr_auto(qr_free_p) char *found = qr_named_file_find(url, job->data.folder);
    struct qr_json_writer w = qr_json_writer(&text, 0);
    qr_json_put_string(&w, found);
    set_path(tree, path, qr_buf_string(&text));
    qr_buf_free(&text);
}

/* A name, or a list of names. */
static void set_files(struct qr_json *tree, const struct qr_job *job, const char *path,
                      const struct qr_json *v) {
    size_t i = 0;
    if (!v || qr_json_type(v) != QR_JSON_ARRAY) {
        set_file(tree, job, path, v);
        return;
    }
    for (const struct qr_json *m = qr_json_first(v); m; m = qr_json_next(m), i++) {
        qr_auto(qr_free_p) char *at = qr_xasprintf("%s[%zu]", path, i);
        set_file(tree, job, at, m);
    }
}

static void set_channels(struct qr_json *tree, const struct qr_job *job,
                         const struct qr_json *channels) {
    for (const struct qr_json *m = qr_json_first(channels); m; m = qr_json_next(m)) {
        bool object = qr_json_type(m) == QR_JSON_OBJECT;
        qr_auto(qr_free_p) char *at =
            qr_xasprintf("data.channels.%s%s", qr_json_key(m), object ? ".url" : "");
        set_files(tree, job, at, object ? qr_json_get(m, "url") : m);
    }
}

/* Makes the file names of Hamiltonians and circuits absolute. v: in the job's own tree, which stays
 * unchanged. */
static void set_model_files(struct qr_json *tree, const struct qr_job *job, const char *path,
                            const struct qr_json *v) {
    size_t i = 0;
    for (const struct qr_json *m = qr_json_first(v); m; m = qr_json_next(m), i++) {
        bool member = qr_json_type(v) == QR_JSON_OBJECT;
        /* Such keys cannot be part of a path, and hold no file names. */
        if (member && strpbrk(qr_json_key(m), ".[]=")) continue;
        qr_auto(qr_free_p) char *at =
            member ? qr_xasprintf("%s.%s", path, qr_json_key(m)) : qr_xasprintf("%s[%zu]", path, i);
        const char *key = member ? qr_json_key(m) : "";
        if (strcmp(key, "hamiltonian") == 0 || strcmp(key, "url") == 0) set_file(tree, job, at, m);
        set_model_files(tree, job, at, m);
    }
}

static void write_record(const struct qr_job *job, uint64_t epochs, bool sweep,
                         struct qr_buf *ret) {
    struct qr_buf text = {0};
    struct qr_json *tree = NULL;
    char number[24];
    const struct qr_json *data = qr_json_get(job->tree, "data"),
                         *train = qr_json_get(job->tree, "train"),
                         *initial = qr_json_get(train, "initial_weights"),
                         *url = initial ? qr_json_get(initial, "url") : NULL;
    struct qr_json_writer w = qr_json_writer(&text, 0);
    qr_json_put_value(&w, job->tree, false);
    if (qr_json_parse(qr_buf_view(&text), "the job", &tree, QR_IGNORED) == QR_OK) {
        snprintf(number, sizeof number, "%llu", (unsigned long long)epochs);
        if (epochs != job->train.epochs) set_path(tree, "train.epochs", number);
        set_file(tree, job, "data.url", qr_json_get(data, "url"));
        set_file(tree, job, "data.validation_url", qr_json_get(data, "validation_url"));
        if (data && qr_json_get(data, "channels"))
            set_channels(tree, job, qr_json_get(data, "channels"));
        set_file(tree, job, url ? "train.initial_weights.url" : "train.initial_weights",
                 url ? url : initial);
        if (qr_json_get(job->tree, "model"))
            set_model_files(tree, job, "model", qr_json_get(job->tree, "model"));
        w = qr_json_writer(ret, 2);
        put_job(&w, tree, sweep);
        qr_buf_puts(ret, "\n");
    }
    qr_json_free(tree);
    qr_buf_free(&text);
}

void qr_job_record(const struct qr_job *job, uint64_t epochs, struct qr_buf *ret) {
    write_record(job, epochs, false, ret);
}
void qr_job_record_sweep(const struct qr_job *job, struct qr_buf *ret) {
    write_record(job, job->train.epochs, true, ret);
}

/* ---- files ---- */

/* Whether a text of the value names the file. Unless named, only values of "url" and "hamiltonian"
 * are names of files. */
static bool names_file(const struct qr_job *job, const struct qr_json *v, bool named,
                       const char *path) {
    const char *text = v ? qr_json_text(v, NULL) : NULL;
    if (text && named) {
        qr_auto(qr_free_p) char *found = qr_named_file_find(text, job->data.folder);
        const char *local = found ? qr_url_local_path(found) : NULL;
        return local && qr_file_same(local, path);
    }
    if (!v || (qr_json_type(v) != QR_JSON_ARRAY && qr_json_type(v) != QR_JSON_OBJECT)) return false;
    for (const struct qr_json *m = qr_json_first(v); m; m = qr_json_next(m)) {
        const char *key = qr_json_type(v) == QR_JSON_OBJECT ? qr_json_key(m) : "";
        if (names_file(job, m, named || !strcmp(key, "url") || !strcmp(key, "hamiltonian"), path))
            return true;
    }
    return false;
}

bool qr_job_names_file(const struct qr_job *job, const char *path) {
    const struct qr_json *data = qr_json_get(job->tree, "data"),
                         *train = qr_json_get(job->tree, "train");
    return names_file(job, data ? qr_json_get(data, "url") : NULL, true, path) ||
           names_file(job, data ? qr_json_get(data, "validation_url") : NULL, true, path) ||
           names_file(job, data ? qr_json_get(data, "channels") : NULL, true, path) ||
           names_file(job, train ? qr_json_get(train, "initial_weights") : NULL, true, path) ||
           names_file(job, qr_json_get(job->tree, "model"), false, path);
}

/* ---- differences ---- */

struct differences {
    const char *where;
    struct qr_buf *out;
    size_t n;
};

static void json_text(const struct qr_json *v, struct qr_buf *ret) {
    enum { SHOWN = 60 };
    struct qr_json_writer w = qr_json_writer(ret, 0);
    const char *text = qr_json_text(v, NULL);
    if (text) {
        qr_auto(qr_free_p) char *shown = qr_url_redacted(text);
        qr_json_put_string(&w, shown);
    } else if (v) qr_json_put_shortest(&w, v);
    else qr_buf_puts(ret, "not set");
    if (ret->n <= SHOWN) return;
    ret->n = qr_utf8_cut((const char *)ret->p, SHOWN);
    qr_buf_puts(ret, "...");
}

static void add_difference(struct differences *d, const char *path, const struct qr_json *there,
                           const struct qr_json *here) {
    struct qr_buf a = {0}, b = {0};
    if (d->n++ >= QR_JOB_DIFFERENCES) return;
    json_text(there, &a);
    json_text(here, &b);
    qr_buf_printf(d->out, "%s%.100s: %s in %s, %s here", d->n > 1 ? "; " : "", path,
                  qr_buf_string(&a), d->where, qr_buf_string(&b));
    qr_buf_free(&a);
    qr_buf_free(&b);
}

static bool same_text(const struct qr_json *a, const struct qr_json *b) {
    struct qr_buf x = {0}, y = {0};
    struct qr_json_writer wx = qr_json_writer(&x, 0), wy = qr_json_writer(&y, 0);
    qr_json_put_value(&wx, a, true);
    qr_json_put_value(&wy, b, true);
    bool same = x.n == y.n && memcmp(x.p, y.p, x.n) == 0;
    qr_buf_free(&x);
    qr_buf_free(&y);
    return same;
}

static void compare_values(struct differences *d, const char *path, const struct qr_json *there,
                           const struct qr_json *here);

/* path "": the whole job: "worker" and "$schema" do not affect the result. */
static void compare_objects(struct differences *d, const char *path, const struct qr_json *there,
                            const struct qr_json *here) {
    for (int turn = 0; turn < 2; turn++) {
        const struct qr_json *first = turn ? here : there, *second = turn ? there : here;
        for (const struct qr_json *m = qr_json_first(first); m; m = qr_json_next(m)) {
            const char *key = qr_json_key(m);
            const struct qr_json *other = qr_json_get(second, key);
            if (!*path && (strcmp(key, "worker") == 0 || *key == '$')) continue;
            if (turn && other) continue; /* done in the first turn */
            qr_auto(qr_free_p) char *at = qr_xasprintf("%s%s%s", path, *path ? "." : "", key);
            compare_values(d, at, turn ? other : m, turn ? m : other);
        }
    }
}

static const struct qr_json *non_null(const struct qr_json *v) {
    return v && qr_json_type(v) != QR_JSON_NULL ? v : NULL;
}

static void compare_values(struct differences *d, const char *path, const struct qr_json *there,
                           const struct qr_json *here) {
    there = non_null(there);
    here = non_null(here);
    if (!there && !here) return;
    bool both = there && here && qr_json_type(there) == qr_json_type(here);
    if (both && qr_json_type(there) == QR_JSON_OBJECT) {
        compare_objects(d, path, there, here);
    } else if (both && qr_json_type(there) == QR_JSON_ARRAY &&
               qr_json_size(there) == qr_json_size(here)) {
        size_t i = 0;
        const struct qr_json *b = qr_json_first(here);
        for (const struct qr_json *a = qr_json_first(there); a && b;
             a = qr_json_next(a), b = qr_json_next(b)) {
            qr_auto(qr_free_p) char *at = qr_xasprintf("%s[%zu]", path, i++);
            compare_values(d, at, a, b);
        }
    } else if (!both || !same_text(there, here)) {
        add_difference(d, path, there, here);
    }
}

void qr_job_differences(const struct qr_json *there, const struct qr_json *here, const char *where,
                        struct qr_buf *ret) {
    struct differences d = {.where = where, .out = ret};
    compare_values(&d, "", there, here);
    if (d.n > QR_JOB_DIFFERENCES) qr_buf_printf(ret, "; and %zu more", d.n - QR_JOB_DIFFERENCES);
}
