/* verify/verify_weights.c — checks the weights and the result of a run. Start reading at
 * verify_weights() and verify_result(). */
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "record/result.h"
#include "store/store.h"
#include "verify/verify_impl.h"

/* ---- which weights are listed ---- */

static bool has_weights_name(const char *name) {
    enum qr_weights_format format;
    return qr_weights_format_of(name, &format, QR_IGNORED) == QR_OK;
}

/* True if weights with this hash, or of this name, are listed. */
static bool is_listed(const struct verifying *v, const char *sha256, const char *name) {
    const struct qr_provenance *p = &v->files.facts;
    for (size_t i = 0; i < p->n_files; i++)
        if (has_weights_name(p->files[i].name) &&
            (sha256 ? strcmp(p->files[i].value, sha256) == 0 : strcmp(p->files[i].name, name) == 0))
            return true;
    return false;
}

static bool exists(const struct verifying *v, const char *name) {
    qr_auto(qr_free_p) char *url = qr_xasprintf("%s/%s", v->files.url, name);
    qr_auto(qr_buf_free) struct qr_buf bytes = {0};
    enum qr_code code = qr_url_read(url, 1, &bytes, QR_IGNORED);
    return code == QR_OK || code == QR_RESOURCE_EXHAUSTED;
}

void verify_listed(const struct verifying *v, struct qr_buf *wrong, struct qr_buf *unproven) {
    static const char *const keys[] = {"sha256", "safetensors_sha256"};
    static const char *const names[] = {"weights.h5", "weights.npz", "weights.safetensors"};
    const struct qr_json *weights = qr_json_get(v->files.result, "weights");
    for (size_t i = 0; v->files.has_result && i < sizeof keys / sizeof *keys; i++) {
        const char *hex = qr_json_text(qr_json_get(weights, keys[i]), "");
        if (!is_listed(v, hex, NULL))
            qr_buf_printf(wrong, "%sthe weights of result.json with %s %.16s are not listed",
                          wrong->n ? "; " : "", keys[i], *hex ? hex : "missing");
    }
    for (size_t i = 0; !v->files.has_result && i < sizeof names / sizeof *names; i++)
        if (!is_listed(v, NULL, names[i]) && exists(v, names[i]))
            qr_buf_printf(unproven, "%s%s exists, but the run has no result that names it",
                          unproven->n ? "; " : "", names[i]);
}

/* ---- values and names of weights ---- */

/* Keras' formats hold float32. */
static bool same_weight(double a, double b, bool exact) {
    if (qr_bits_of_double(a) == qr_bits_of_double(b)) return true;
    return !exact && ((double)(float)a == b || a == (double)(float)b);
}

/* Names the first weight that is not the wanted one. False: all are. */
static bool find_weight(const struct verifying *v, const double *is, const double *want, bool exact,
                        char *ret, size_t n) {
    const struct qr_weights_layout *l = &v->load.layout;
    size_t at = 0;
    for (size_t i = 0; i < l->n; i++) {
        size_t size = qr_model_tensor(v->load.model, i)->n;
        for (size_t k = 0; k < size; k++, at++) {
            if (same_weight(is[at], want[at], exact)) continue;
            snprintf(ret, n, "tensor %s, element %zu is %.17g, expected %.17g", l->entries[i].name,
                     k, is[at], want[at]);
            return true;
        }
    }
    return false;
}

/* Compares one list of names with that of the data. False: the same. */
static bool find_name(const char *what, const struct qr_name_list *is,
                      const struct qr_name_list *want, char *ret, size_t n) {
    qr_auto(qr_buf_free) struct qr_buf a = {0}, b = {0};
    qr_name_list_json(is, &a);
    qr_name_list_json(want, &b);
    if (strcmp(qr_buf_string(&a), qr_buf_string(&b)) == 0) return false;
    snprintf(ret, n, "the names of the %s are %.80s, expected %.80s", what, qr_buf_string(&a),
             qr_buf_string(&b));
    return true;
}

/* Reads a weights file and compares its names. Text in ret: damaged, or other names. */
static enum qr_code read_weights(const struct verifying *v, const char *name, double *ret_values,
                                 char *ret, size_t n, struct qr_err *err) {
    qr_auto(qr_free_p) char *url = qr_run_files_locate(&v->files, name);
    qr_auto(qr_weights_file_fini) struct qr_weights_file file = {0};
    const struct qr_data_names names = qr_dataset_data_names(&v->load.data);
    enum qr_code code = qr_weights_file_read(url, &file, err);
    if (verify_is_temporary(code) || verify_is_denied(code)) return code;
    if (code == QR_OK) code = qr_workload_decode(&v->load, &file, ret_values, err);
    if (code != QR_OK) snprintf(ret, n, "cannot be read: %.200s", err->msg);
    else if (file.format != QR_WEIGHTS_NPZ &&
             !find_name("inputs", &file.names.inputs, &names.inputs, ret, n))
        find_name("classes", &file.names.classes, &names.classes, ret, n);
    return QR_OK;
}

enum qr_code verify_weights(struct verifying *v, const double *params, struct qr_err *err) {
    const struct qr_provenance *p = &v->files.facts;
    size_t n = qr_model_n_params(v->load.model), n_read = 0;
    qr_auto(qr_free_p) double *values = qr_xcalloc(n + 1, sizeof *values);
    qr_auto(qr_free_p) double *first = qr_xcalloc(n + 1, sizeof *first);
    v->weights_checked = true;
    for (size_t i = 0; i < p->n_files; i++) {
        const char *name = p->files[i].name;
        char text[320] = "";
        if (!has_weights_name(name) || qr_run_files_place(&v->files, name) == QR_RUN_FILE_REFUSED)
            continue;
        enum qr_code code = read_weights(v, name, values, text, sizeof text, err);
        if (verify_is_denied(code)) continue; /* verify_files says it */
        if (code != QR_OK) return code;
        const double *want = params ? params : n_read ? first : NULL;
        bool exact = params && strstr(name, ".safetensors");
        if (!*text && want) find_weight(v, values, want, exact, text, sizeof text);
        if (*text) {
            verify_add(v, "weights", QR_CHECK_DIFFERS, "%.100s: %s%s", name, text,
                       params || !n_read ? "" : " as in the file before");
            return QR_OK;
        }
        if (!n_read++) memcpy(first, values, n * sizeof *first);
    }
    if (params && n_read)
        verify_add(v, "weights", QR_CHECK_SAME, "%zu files have the recomputed weights", n_read);
    else if (params && (v->files.has_result || v->files.has_provenance))
        verify_add(v, "weights", QR_CHECK_DIFFERS, "no file has the recomputed weights");
    return QR_OK;
}

/* ---- the result ---- */

/* What result.json says that follows from the steps. */
static enum qr_code expected_result(const struct verifying *v, const struct qr_train_result *r,
                                    struct qr_json **ret, struct qr_err *err) {
    char data_hash[65];
    const struct qr_result result = qr_train_result_record(r, &v->load, &v->canonical, data_hash);
    qr_auto(qr_buf_free) struct qr_buf text = {0};
    qr_result_json(&result, &text);
    return qr_json_parse(qr_buf_view(&text), "result.json", ret, err);
}

/* Facts of the run that its steps do not give. */
static bool is_not_computed(const char *key) {
    static const char *const keys[] = {"program", "weights", "workers", "seconds", "cost"};
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        if (strcmp(key, keys[i]) == 0) return true;
    return false;
}

static void put_member(const struct qr_json *object, const char *key, struct qr_buf *ret) {
    const struct qr_json *m = qr_json_get(object, key);
    struct qr_json_writer w = qr_json_writer(ret, 0);
    if (m) qr_json_put_value(&w, m, true);
    else qr_json_put_null(&w);
}

/* Compares the members of one object with those of the other; adds a check for the first that
 * differs. */
static bool compare_members(struct verifying *v, const struct qr_json *of,
                            const struct qr_json *computed) {
    for (const struct qr_json *m = qr_json_first(of); m; m = qr_json_next(m)) {
        const char *key = qr_json_key(m);
        qr_auto(qr_buf_free) struct qr_buf was = {0}, is = {0};
        if (is_not_computed(key)) continue;
        put_member(v->files.result, key, &was);
        put_member(computed, key, &is);
        if (strcmp(qr_buf_string(&was), qr_buf_string(&is)) == 0) continue;
        verify_add(v, "result", QR_CHECK_DIFFERS, "%.40s is %.200s in result.json, %.200s computed",
                   key, qr_buf_string(&was), qr_buf_string(&is));
        return false;
    }
    return true;
}

void verify_result(struct verifying *v, const struct qr_train_result *r) {
    qr_auto(qr_json_free_p) struct qr_json *computed = NULL;
    struct qr_err err;
    if (!v->files.has_result) return;
    if (expected_result(v, r, &computed, &err) != QR_OK)
        verify_add(v, "result", QR_CHECK_DIFFERS, "%s", err.msg);
    else if (compare_members(v, v->files.result, computed) &&
             compare_members(v, computed, computed))
        verify_add(v, "result", QR_CHECK_SAME, "result.json has the values computed");
}
