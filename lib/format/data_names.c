/* format/data_names.c — lists of names: JSON, checks, look-up and text for messages. Start reading
 * at qr_name_list_parse(). */
#include "format/data_names.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/text.h"
#include "format/json.h"

enum { MAX_NAMES = 1 << 16, MAX_NAME_BYTES = 1024 };

void qr_name_list_fini(struct qr_name_list *l) {
    for (size_t i = 0; i < l->n; i++) free(l->v[i]);
    free(l->v);
    *l = (struct qr_name_list){0};
}

struct qr_name_list qr_name_list_copy(const struct qr_name_list *l) {
    struct qr_name_list copy = {0};
    for (size_t i = 0; i < l->n; i++) qr_name_list_add(&copy, l->v[i], strlen(l->v[i]));
    return copy;
}

void qr_name_list_add(struct qr_name_list *l, const char *name, size_t bytes) {
    if ((l->n & (l->n - 1)) == 0) /* grows at powers of two */
        l->v = qr_xreallocarray(l->v, l->n ? 2 * l->n : 1, sizeof *l->v);
    l->v[l->n++] = qr_xstrndup(name, bytes);
}

void qr_data_names_fini(struct qr_data_names *n) {
    qr_name_list_fini(&n->inputs);
    qr_name_list_fini(&n->classes);
}

void qr_name_list_json(const struct qr_name_list *l, struct qr_buf *ret) {
    struct qr_json_writer w = qr_json_writer(ret, 0);
    qr_json_open(&w, '[');
    for (size_t i = 0; i < l->n; i++) qr_json_put_string(&w, l->v[i]);
    qr_json_close(&w, ']');
}

static int data_names_compare(const void *a, const void *b) {
    return strcmp(*(char *const *)a, *(char *const *)b);
}

const char *qr_name_list_duplicate(const struct qr_name_list *l) {
    qr_auto(qr_free_p) char **sorted = qr_xcalloc(l->n, sizeof *sorted);
    if (l->n) memcpy(sorted, l->v, l->n * sizeof *sorted);
    qsort(sorted, l->n, sizeof *sorted, data_names_compare);
    for (size_t i = 1; i < l->n; i++)
        if (strcmp(sorted[i - 1], sorted[i]) == 0) return sorted[i];
    return NULL;
}

enum qr_code qr_name_list_check(const struct qr_name_list *l, const char *what,
                                struct qr_err *err) {
    if (l->n > MAX_NAMES)
        return qr_fail(err, QR_DATA_LOSS, "%s: %zu names, above the limit of %d", what, l->n,
                       MAX_NAMES);
    for (size_t i = 0; i < l->n; i++)
        if (!*l->v[i] || strlen(l->v[i]) > MAX_NAME_BYTES || !qr_text_ok(l->v[i]))
            return qr_fail(err, QR_DATA_LOSS,
                           "%s: name %zu is empty, longer than %d bytes, or not UTF-8 text", what,
                           i, MAX_NAME_BYTES);
    const char *duplicate = qr_name_list_duplicate(l);
    return duplicate ? qr_fail(err, QR_DATA_LOSS, "%s: duplicate name '%.60s'", what, duplicate)
                     : QR_OK;
}

static enum qr_code data_names_read_list(const struct qr_json *root, const char *what,
                                         struct qr_name_list *ret, struct qr_err *err) {
    QR_TRY(qr_json_want(root, what, QR_JSON_ARRAY, err));
    for (const struct qr_json *v = qr_json_first(root); v; v = qr_json_next(v)) {
        const char *name;
        QR_TRY(qr_json_string(v, what, &name, err));
        qr_name_list_add(ret, name, strlen(name));
    }
    return qr_name_list_check(ret, what, err);
}

enum qr_code qr_name_list_parse(struct qr_bytes text, const char *what, struct qr_name_list *ret,
                                struct qr_err *err) {
    qr_auto(qr_json_free_p) struct qr_json *root = NULL;
    qr_auto(qr_name_list_fini) struct qr_name_list list = {0};
    enum qr_code code = qr_json_parse(text, what, &root, err);
    if (code == QR_OK) code = data_names_read_list(root, what, &list, err);
    if (code == QR_OK) *ret = QR_MOVE(list);
    /* Malformed JSON means a damaged file here; lack of memory does not. */
    if (code == QR_INVALID_ARGUMENT) code = err->code = QR_DATA_LOSS;
    return code;
}

void qr_name_list_put(const struct qr_name_list *l, const uint8_t *but, size_t most,
                      struct qr_buf *ret) {
    size_t n = 0;
    for (size_t i = 0; i < l->n; i++) {
        if ((but && but[i]) || n++ >= most) continue;
        qr_buf_printf(ret, "%s%.60s", n > 1 ? ", " : "", l->v[i]);
    }
    if (n > most) qr_buf_printf(ret, " and %zu more", n - most);
}

size_t qr_name_list_find(const struct qr_name_list *l, const char *name) {
    size_t i = 0;
    while (i < l->n && strcmp(l->v[i], name) != 0) i++;
    return i;
}

static int data_names_compare_pointers(const void *a, const void *b) {
    return strcmp(**(char **const *)a, **(char **const *)b);
}

void qr_name_list_find_all(const struct qr_name_list *l, const struct qr_name_list *wanted,
                           size_t *ret) {
    qr_auto(qr_free_p) char ***sorted = qr_xcalloc(l->n + 1, sizeof *sorted);
    for (size_t i = 0; i < l->n; i++) sorted[i] = &l->v[i];
    qsort(sorted, l->n, sizeof *sorted, data_names_compare_pointers);
    for (size_t i = 0; i < wanted->n; i++) {
        char **name = &wanted->v[i],
             ***found = bsearch(&name, sorted, l->n, sizeof *sorted, data_names_compare_pointers);
        ret[i] = found ? (size_t)(*found - l->v) : l->n;
    }
}
