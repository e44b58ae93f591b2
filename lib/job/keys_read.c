/* job/keys_read.c — reads an object of a job file by its rows in keys.c. Start reading at
 * qr_job_read_object(). */
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "base/parse.h"
#include "job/job_impl.h"

const struct qr_job_object *qr_job_object_of(const struct qr_job_reader *r, const char *name) {
    const struct qr_job_object *o = r->objects;
    while (strcmp(o->name, name) != 0) QR_ASSERT(++o < r->objects + r->n_objects);
    return o;
}

/* True if a text of words separated by blanks has the word. */
static bool has_word(const char *words, const char *word) {
    size_t n = strlen(word);
    for (const char *p = words; (p = strstr(p, word)) != NULL; p += n)
        if ((p == words || p[-1] == ' ') && (!p[n] || p[n] == ' ')) return true;
    return false;
}

bool qr_job_object_has(const struct qr_job_object *o, size_t kind, const struct qr_job_key *key) {
    if (key->of) return has_word(key->of, o->kinds[kind]);
    return !o->has || strcmp(key->name, o->by) == 0 || o->has(kind, key->name);
}

/* ---- values ---- */

static enum qr_code read_number(const struct qr_job_key *k, const struct qr_json *v,
                                const char *where, void *to, struct qr_err *err) {
    double x;
    int64_t i;
    if (k->type == QR_KEY_NUMBER) {
        QR_TRY(qr_json_double(v, where, k->low, k->high, &x, err));
        *(double *)to = x;
    } else {
        QR_TRY(qr_json_i64(v, where, (int64_t)k->low, (int64_t)k->high, &i, err));
        if (k->type == QR_KEY_COUNT) *(uint64_t *)to = (uint64_t)i;
        else *(unsigned *)to = (unsigned)i;
        x = (double)i;
    }
    bool low = k->not_low && x == k->low, high = k->not_high && x == k->high;
    if (!low && !high) return QR_OK;
    return qr_fail(err, QR_INVALID_ARGUMENT, "%s must be %s %g: %s", where, low ? "above" : "below",
                   x, low ? k->not_low : k->not_high);
}

static enum qr_code read_text(const struct qr_job_key *k, const struct qr_json *v,
                              const char *where, void *to, struct qr_err *err) {
    const char *text;
    QR_TRY(qr_json_string(v, where, &text, err));
    if (k->type == QR_KEY_URL && !*text)
        return qr_fail(err, QR_INVALID_ARGUMENT, "%s is empty; give a path or URL", where);
    free(*(char **)to);
    *(char **)to = qr_xstrdup(text);
    return QR_OK;
}

enum qr_code qr_job_read_value(struct qr_job_reader *r, const struct qr_job_key *k,
                               const struct qr_json *v, const char *where, void *to) {
    size_t choice;
    bool flag;
    switch (k->type) {
    case QR_KEY_COUNT:
    case QR_KEY_UNSIGNED:
    case QR_KEY_NUMBER: return read_number(k, v, where, to, r->err);
    case QR_KEY_FLAG:
    case QR_KEY_NOT:
        QR_TRY(qr_json_bool(v, where, &flag, r->err));
        *(bool *)to = flag == (k->type == QR_KEY_FLAG);
        return QR_OK;
    case QR_KEY_CHOICE:
        QR_TRY(qr_job_choice(v, where, k->aliases, k->names, k->n_names, &choice, r->err));
        *(unsigned *)to = (unsigned)choice;
        return QR_OK;
    case QR_KEY_TEXT:
    case QR_KEY_URL: return read_text(k, v, where, to, r->err);
    case QR_KEY_OBJECT: return qr_job_read_object(r, qr_job_object_of(r, k->object), v, where, to);
    default: QR_ASSERT(!"a row without a function"); return QR_INTERNAL;
    }
}

static void job_key_put(const struct qr_job_key *k, const void *at, struct qr_buf *ret) {
    struct qr_json_writer w = qr_json_writer(ret, 0);
    const char *text;
    switch (k->type) {
    case QR_KEY_COUNT: qr_json_put_i64(&w, (int64_t) * (const uint64_t *)at); break;
    case QR_KEY_UNSIGNED: qr_json_put_i64(&w, *(const unsigned *)at); break;
    case QR_KEY_NUMBER: qr_json_put_number(&w, *(const double *)at); break;
    case QR_KEY_FLAG:
    case QR_KEY_NOT: qr_json_put_bool(&w, *(const bool *)at == (k->type == QR_KEY_FLAG)); break;
    case QR_KEY_CHOICE: qr_json_put_string(&w, k->names[*(const unsigned *)at]); break;
    case QR_KEY_TEXT:
    case QR_KEY_URL:
        text = *(const char *const *)at;
        if (text) qr_json_put_string(&w, text);
        break;
    default: break;
    }
}

void qr_job_key_default(const struct qr_job_object *o, size_t kind, const struct qr_job_key *k,
                        struct qr_buf *ret) {
    if (k->value) qr_buf_puts(ret, k->value);
    if (k->value || k->required || k->type >= QR_KEY_TEXT) return;
    qr_auto(qr_free_p) struct qr_job *any = qr_xcalloc(1, sizeof *any); /* the largest struct */
    if (o->set_defaults) o->set_defaults(kind, any);
    job_key_put(k, (const char *)any + k->at, ret);
}

/* ---- objects ---- */

enum qr_code qr_job_note(struct qr_job_reader *r, unsigned before, enum qr_code code) {
    if (code == QR_OK) return QR_OK;
    if (r->n_errors == before) {
        r->n_errors++;
        if (r->report) r->report(r->context, r->err);
    }
    return r->report ? QR_OK : code;
}

const struct qr_job_key *qr_job_key(const struct qr_job_object *o, const char *name) {
    size_t i = 0;
    while (strcmp(o->keys[i].name, name) != 0) QR_ASSERT(++i < o->n_keys);
    return &o->keys[i];
}

static enum qr_code read_kind(struct qr_job_reader *r, const struct qr_job_object *o,
                              const struct qr_json *v, const char *where, size_t *ret) {
    const struct qr_job_key *k = qr_job_key(o, o->by);
    const struct qr_json *kind = qr_json_get(v, o->by);
    *ret = o->kind;
    if (!kind && !k->required) return QR_OK;
    if (!kind) QR_TRY(qr_job_check_keys(v, o, where, NULL, 0, r->err));
    struct qr_path path = qr_path_of("%s.%s", where, o->by);
    return qr_job_choice(kind, path.s, k->aliases, o->kinds, o->n_kinds, ret, r->err);
}

static enum qr_code check_known(struct qr_job_reader *r, const struct qr_job_object *o, size_t kind,
                                const struct qr_json *v, const char *where) {
    const char *known[QR_JOB_MAX_KEYS];
    size_t n = 0;
    QR_ASSERT(o->n_keys <= QR_JOB_MAX_KEYS);
    for (size_t i = 0; i < o->n_keys; i++) {
        const struct qr_job_key *k = &o->keys[i];
        if (qr_job_object_has(o, kind, k)) known[n++] = k->name;
        else if (o->reject && qr_json_get(v, k->name))
            QR_TRY(o->reject(kind, k->name, where, r->err));
    }
    return qr_job_check_keys(v, o, where, known, n, r->err);
}

/* Reads a key, or fails if it is missing. */
static enum qr_code read_key(struct qr_job_reader *r, const struct qr_job_object *o,
                             const struct qr_job_key *k, void *to) {
    const struct qr_json *v = qr_json_get(r->object, k->name);
    const char *where = r->where;
    struct qr_path path = qr_path_of("%s%s%s", where, *where ? "." : "", k->name);
    if (!v && k->missing)
        return qr_fail(r->err, QR_INVALID_ARGUMENT, "%s is missing: %s", path.s, k->missing);
    if (!v && !k->required)
        return k->type == QR_KEY_OBJECT ? qr_job_read_value(r, k, NULL, path.s, to) : QR_OK;
    if (v) return k->read ? k->read(r, v, path.s, to) : qr_job_read_value(r, k, v, path.s, to);
    if (k->type == QR_KEY_OTHER)
        qr_fail(r->err, QR_INVALID_ARGUMENT, "%s is missing; it must be a %s", path.s, k->words);
    else if (qr_job_read_value(r, k, v, path.s, to) == QR_OK) return QR_OK;
    if (!o->by) return r->err->code;
    const struct qr_err missing = *r->err;
    return qr_fail(r->err, missing.code, "%s (%s needs it)", missing.msg, o->kinds[r->kind]);
}

enum qr_code qr_job_read_object(struct qr_job_reader *r, const struct qr_job_object *o,
                                const struct qr_json *v, const char *where, void *to) {
    const char *shown = *where ? where : "the job";
    size_t kind = o->kind;
    unsigned before = r->n_errors;
    if (v) QR_TRY(qr_json_want(v, shown, QR_JSON_OBJECT, r->err));
    if (v && o->by) QR_TRY(read_kind(r, o, v, where, &kind));
    if (o->set_defaults) o->set_defaults(kind, to);
    if (!v) return QR_OK;
    QR_TRY(qr_job_note(r, before, check_known(r, o, kind, v, shown)));
    const struct qr_job_reader outer = *r;
    r->object = v, r->where = where, r->kind = kind;
    for (size_t i = 0; i < o->n_keys; i++) {
        const struct qr_job_key *k = &o->keys[i];
        unsigned so_far = r->n_errors;
        if ((k->dependent && so_far) || !qr_job_object_has(o, kind, k)) continue;
        QR_TRY(qr_job_note(r, so_far, read_key(r, o, k, (char *)to + k->at)));
    }
    if (r->n_errors == 0 && o->finish) QR_TRY(qr_job_note(r, 0, o->finish(r, to)));
    r->object = outer.object, r->where = outer.where, r->kind = outer.kind;
    return r->n_errors == before ? QR_OK : QR_INVALID_ARGUMENT;
}

enum qr_code qr_job_read_numbers(struct qr_job_reader *r, const struct qr_json *v,
                                 const char *where, const struct qr_job_numbers *n, double **ret,
                                 size_t *ret_n) {
    QR_TRY(qr_json_want(v, where, QR_JSON_ARRAY, r->err));
    size_t size = qr_json_size(v);
    if (size < n->least || size > n->most)
        return qr_fail(r->err, QR_INVALID_ARGUMENT, "%s has %zu numbers; %s", where, size, n->give);
    double *all = *ret = qr_xcalloc(size + 1, sizeof *all);
    for (const struct qr_json *m = qr_json_first(v); m; m = qr_json_next(m), (*ret_n)++)
        QR_TRY(qr_json_double(m, qr_path_of("%s[%zu]", where, *ret_n).s, n->low, n->high,
                              &all[*ret_n], r->err));
    return QR_OK;
}
