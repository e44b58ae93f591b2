/* job/record.c — writes a job as a job file, and compares two of them. Start reading at
 * qr_job_record() and qr_job_differences(). */
#include "job/record.h"

#include <stdio.h>
#include <string.h>

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

/* ---- files that a job names ---- */

struct file_visitor {
    const struct qr_job *job;
    /* path: of the key; location: see qr_named_file_find */
    void (*found)(void *ctx, const char *path, const char *location);
    void *ctx;
};

static void visit_file(const struct file_visitor *f, const char *path, const struct qr_json *v) {
    const char *url = v ? qr_json_text(v, NULL) : NULL;
    if (!url) return;
    qr_auto(qr_free_p) char *location = qr_named_file_find(url, f->job->data.folder);
    f->found(f->ctx, path, location);
}

/* A name, or a list of names. */
static void visit_files(const struct file_visitor *f, const char *path, const struct qr_json *v) {
    size_t i = 0;
    if (!v || qr_json_type(v) != QR_JSON_ARRAY) {
        visit_file(f, path, v);
        return;
    }
    for (const struct qr_json *m = qr_json_first(v); m; m = qr_json_next(m), i++) {
        qr_auto(qr_free_p) char *at = qr_xasprintf("%s[%zu]", path, i);
        visit_file(f, at, m);
    }
}

static void visit_channels(const struct file_visitor *f, const struct qr_json *channels) {
    for (const struct qr_json *m = qr_json_first(channels); m; m = qr_json_next(m)) {
        bool object = qr_json_type(m) == QR_JSON_OBJECT;
        qr_auto(qr_free_p) char *at =
            qr_xasprintf("data.channels.%s%s", qr_json_key(m), object ? ".url" : "");
        visit_files(f, at, object ? qr_json_get(m, "url") : m);
    }
}

/* Hamiltonians and circuits. */
static void visit_model(const struct file_visitor *f, const char *path, const struct qr_json *v) {
    size_t i = 0;
    for (const struct qr_json *m = qr_json_first(v); m; m = qr_json_next(m), i++) {
        bool member = qr_json_type(v) == QR_JSON_OBJECT;
        /* Such keys cannot be part of a path, and hold no file names. */
        if (member && strpbrk(qr_json_key(m), ".[]=")) continue;
        qr_auto(qr_free_p) char *at =
            member ? qr_xasprintf("%s.%s", path, qr_json_key(m)) : qr_xasprintf("%s[%zu]", path, i);
        const char *key = member ? qr_json_key(m) : "";
        if (strcmp(key, "hamiltonian") == 0 || strcmp(key, "url") == 0) visit_file(f, at, m);
        visit_model(f, at, m);
    }
}

static void visit_job(const struct file_visitor *f) {
    const struct qr_json *tree = f->job->tree, *data = qr_json_get(tree, "data"),
                         *initial = qr_json_get(qr_json_get(tree, "train"), "initial_weights"),
                         *url = initial ? qr_json_get(initial, "url") : NULL;
    visit_file(f, "data.url", qr_json_get(data, "url"));
    visit_file(f, "data.validation_url", qr_json_get(data, "validation_url"));
    if (data && qr_json_get(data, "channels")) visit_channels(f, qr_json_get(data, "channels"));
    visit_file(f, url ? "train.initial_weights.url" : "train.initial_weights", url ? url : initial);
    if (qr_json_get(tree, "model")) visit_model(f, "model", qr_json_get(tree, "model"));
}

struct named_file {
    const char *url;
    bool named;
};
static void compare_file(void *ctx, const char *path, const char *location) {
    struct named_file *n = ctx;
    (void)path;
    n->named = n->named || qr_url_same(n->url, location);
}

bool qr_job_names_file(const struct qr_job *job, const char *url) {
    struct named_file n = {.url = url};
    const struct file_visitor f = {.job = job, .found = compare_file, .ctx = &n};
    visit_job(&f);
    return n.named;
}

/* ---- the record ---- */

/* Makes a file name of the tree absolute. */
static void set_file(void *tree, const char *path, const char *location) {
    struct qr_buf text = {0};
    struct qr_json_writer w = qr_json_writer(&text, 0);
    qr_json_put_string(&w, location);
    set_path(tree, path, qr_buf_string(&text));
    qr_buf_free(&text);
}

static void write_record(const struct qr_job *job, uint64_t epochs, bool sweep,
                         struct qr_buf *ret) {
    struct qr_buf text = {0};
    struct qr_json *tree = NULL;
    char number[24];
    struct qr_json_writer w = qr_json_writer(&text, 0);
    qr_json_put_value(&w, job->tree, false);
    if (qr_json_parse(qr_buf_view(&text), "the job", &tree, QR_IGNORED) == QR_OK) {
        snprintf(number, sizeof number, "%llu", (unsigned long long)epochs);
        if (epochs != job->train.epochs) set_path(tree, "train.epochs", number);
        const struct file_visitor f = {.job = job, .found = set_file, .ctx = tree};
        visit_job(&f);
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
