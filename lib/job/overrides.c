/* job/overrides.c — sets keys of a job from flags and the environment. Start reading at
 * qr_overrides_add(). */
#include "job/overrides.h"

#include <string.h>

#include "base/mem.h"
#include "base/text.h"
#include "store/store.h"

static enum qr_code reject_override(const char *given, const char *text, struct qr_err *err) {
    return qr_fail(err, QR_INVALID_ARGUMENT,
                   "%s: '%.120s' is not PATH=VALUE, such as train.epochs=60 or model[0].units=8",
                   given, text);
}

static void insert(struct qr_overrides *o, unsigned place, const char *given, const char *shown,
                   const char *text) {
    size_t at = o->n;
    o->v = qr_xreallocarray(o->v, o->n + 1, sizeof *o->v);
    for (; at > 0 && o->v[at - 1].place > place; at--) o->v[at] = o->v[at - 1];
    o->v[at] = (struct qr_override){
        .text = qr_xstrdup(text), .given = qr_xasprintf("%s %s", given, shown), .place = place};
    o->n++;
}

static enum qr_code add_one(struct qr_overrides *o, unsigned place, const char *given,
                            const char *shown, const char *text, struct qr_err *err) {
    const char *equals = strchr(text, '=');
    if (!equals || equals == text || !qr_is_utf8(text)) return reject_override(given, text, err);
    if (o->n == QR_MAX_OVERRIDES)
        return qr_fail(err, QR_INVALID_ARGUMENT, "%s: more than %d keys are set; write a job file",
                       given, QR_MAX_OVERRIDES);
    insert(o, place, given, shown, text);
    return QR_OK;
}

enum qr_code qr_overrides_add(struct qr_overrides *o, unsigned place, const char *given,
                              const char *key, const char *value, struct qr_err *err) {
    static const char blanks[] = " \t\r\n";
    enum qr_code code = QR_OK;
    if (key && *value) {
        qr_auto(qr_free_p) char *text = qr_xasprintf("%s=%s", key, value);
        return add_one(o, place, given, value, text, err);
    }
    for (const char *line = value; *line && code == QR_OK;) {
        size_t n = strcspn(line, "\n"), first = strspn(line, blanks), last = n;
        while (last > first && strchr(blanks, line[last - 1])) last--;
        if (first < last) {
            qr_auto(qr_free_p) char *text = qr_xstrndup(line + first, last - first);
            code = add_one(o, place, given, text, text, err);
        }
        line += n + (line[n] == '\n');
    }
    return code;
}

void qr_overrides_fini(struct qr_overrides *o) {
    for (size_t i = 0; i < o->n; i++) {
        free(o->v[i].text);
        free(o->v[i].given);
        free(o->v[i].path);
    }
    free(o->v);
    *o = (struct qr_overrides){0};
}

enum qr_code qr_overrides_apply(struct qr_overrides *o, struct qr_json *job, struct qr_err *err) {
    for (size_t i = 0; i < o->n; i++) {
        struct qr_override *v = &o->v[i];
        struct qr_buf where = {0};
        size_t n = strcspn(v->text, "=");
        qr_auto(qr_free_p) char *path = qr_xstrndup(v->text, n);
        enum qr_code code = qr_json_set(job, path, v->text + n + 1, &where, err);
        if (code != QR_OK) qr_wrap(err, "%.200s", v->given);
        free(v->path);
        v->path = qr_xstrdup(qr_buf_string(&where));
        qr_buf_free(&where);
        if (code != QR_OK) return code;
    }
    return QR_OK;
}

/* Rest of the path after the key in a message: "epoch" of "train.epoch" for "train". */
static const char *key_in(const char *path, const char *key, size_t n) {
    static const char whole[] = "the job";
    if (n == sizeof whole - 1 && strncmp(key, whole, n) == 0) return path;
    return strncmp(path, key, n) == 0 && path[n] == '.' ? path + n + 1 : NULL;
}

/* "train: unknown key 'epoch'; ..." was caused by a setting of train.epoch or of a key in it. */
static bool caused_unknown_key(const struct qr_override *v, const char *msg) {
    static const char words[] = ": unknown key '";
    const char *at = strstr(msg, words);
    const char *mine = at ? key_in(v->path, msg, (size_t)(at - msg)) : NULL;
    size_t n = mine ? strcspn(mine, ".[") : 0;
    at += at ? sizeof words - 1 : 0;
    return n && strncmp(at, mine, n) == 0 && at[n] == '\'';
}

/* "train.epochs must be ..." was caused by a setting of train.epochs or train. */
static bool caused_error(const struct qr_override *v, const char *msg) {
    size_t n = strlen(v->path);
    return n && strncmp(msg, v->path, n) == 0 && msg[n] && strchr(".[: ", msg[n]);
}

bool qr_overrides_attribute(const struct qr_overrides *o, struct qr_err *err) {
    for (size_t i = o->n; i-- > 0;) {
        const struct qr_override *v = &o->v[i];
        if (!v->path || !(caused_error(v, err->msg) || caused_unknown_key(v, err->msg))) continue;
        qr_wrap(err, "%.200s", v->given);
        return true;
    }
    return false;
}

/* URLs without their query strings, as in messages. */
static void put_shown(const char *text, struct qr_buf *ret) {
    for (const char *url; (url = strstr(text, "http")); text = url) {
        qr_auto(qr_free_p) char *whole = qr_xstrndup(url, strcspn(url, "\" \t\r\n")),
                                *shown = qr_url_redacted(whole);
        qr_auto(qr_free_p) char *before = qr_xstrndup(text, (size_t)(url - text));
        qr_buf_put_printable(ret, before);
        qr_buf_put_printable(ret, shown);
        url += strlen(whole);
    }
    qr_buf_put_printable(ret, text);
}

void qr_overrides_put(const struct qr_overrides *o, struct qr_buf *ret) {
    for (size_t i = 0; i < o->n; i++) {
        if (i) qr_buf_puts(ret, ", ");
        put_shown(o->v[i].text, ret);
    }
}

void qr_overrides_json(const struct qr_overrides *o, struct qr_json_writer *w) {
    qr_json_put_key(w, "set");
    qr_json_open(w, '[');
    for (size_t i = 0; i < o->n; i++) qr_json_put_string(w, o->v[i].text);
    qr_json_close(w, ']');
}
