/* data/classes.c — labels that are words: their class numbers, and one order of classes for all
 * files of a data set. Start reading at qr_classes_join(). */
#include <string.h>

#include "base/mem.h"
#include "data/dataset_impl.h"

enum { SHOWN_CLASSES = 12 };

double qr_label_of_class(const struct qr_data_options *opt, size_t class) {
    return opt->signs ? 2.0 * (double)class - 1.0 : (double)class;
}

enum qr_code qr_classes_check(const struct qr_data_options *opt, const struct qr_name_list *classes,
                              const char *url, const char *column, struct qr_err *err) {
    if (classes->n <= opt->max_classes) return QR_OK;
    qr_auto(qr_buf_free) struct qr_buf list = {0};
    qr_name_list_put(classes, NULL, SHOWN_CLASSES, &list);
    /* The loss, not the model, sets the limit. */
    bool two = opt->signs || opt->max_classes != opt->n_outputs;
    if (opt->max_classes && two)
        return qr_fail(err, QR_DATA_LOSS,
                       "%s: the labels in column '%.60s' are %zu classes (%s), but the loss takes "
                       "two classes; use categorical_crossentropy with %zu outputs",
                       url, column, classes->n, qr_buf_string(&list), classes->n);
    if (opt->max_classes)
        return qr_fail(err, QR_DATA_LOSS,
                       "%s: the labels in column '%.60s' are %zu classes (%s), but loss and model "
                       "take %zu; correct the labels, the last layer or the loss",
                       url, column, classes->n, qr_buf_string(&list), opt->max_classes);
    return qr_fail(err, QR_DATA_LOSS,
                   "%s: the labels in column '%.60s' are words (%s), but the loss takes numbers; "
                   "use a cross-entropy or hinge, or the metric accuracy, or write numbers",
                   url, column, qr_buf_string(&list));
}

/* Adds the sorted classes of `more` to the sorted list. */
static void add_classes(struct qr_name_list *all, const struct qr_name_list *more) {
    struct qr_name_list both = {.v = qr_xcalloc(all->n + more->n + 1, sizeof *both.v)};
    size_t i = 0, j = 0;
    while (i < all->n || j < more->n) {
        int order = i == all->n ? 1 : j == more->n ? -1 : strcmp(all->v[i], more->v[j]);
        both.v[both.n++] = order <= 0 ? QR_MOVE(all->v[i]) : qr_xstrdup(more->v[j]);
        i += order <= 0;
        j += order >= 0;
    }
    free(all->v);
    *all = both;
}

/* Replaces a file's own class numbers by those of the whole data set. */
static void renumber_labels(const struct qr_data_options *opt, const struct qr_name_list *all,
                            struct qr_dataset *d) {
    bool one_hot = d->n_outputs > 1 && !opt->one_label_for_all;
    qr_auto(qr_free_p) size_t *to = qr_xcalloc(d->classes.n, sizeof *to);
    qr_name_list_find_all(all, &d->classes, to);
    for (size_t i = 0; i < d->n_samples; i++) {
        double *y = d->y + i * qr_dataset_y_width(d);
        size_t class = 0;
        if (one_hot) {
            while (y[class] != 1) class ++;
            y[class] = 0;
            y[to[class]] = 1;
            continue;
        }
        while (qr_label_of_class(opt, class) != y[0]) class ++;
        for (size_t k = 0; k < d->n_outputs; k++) y[k] = qr_label_of_class(opt, to[class]);
    }
    qr_name_list_fini(&d->classes);
    d->classes = qr_name_list_copy(all);
}

enum qr_code qr_classes_join(const struct qr_data_options *opt, struct qr_dataset *const *d,
                             const char *const *url, size_t n, struct qr_err *err) {
    qr_auto(qr_name_list_fini) struct qr_name_list all = {0};
    size_t words = n, numbers = n;
    if (opt->classes || opt->no_labels) return QR_OK;
    for (size_t i = 0; i < n; i++) *(d[i]->classes.n ? &words : &numbers) = i;
    if (words == n) return QR_OK;
    if (numbers < n)
        return qr_fail(err, QR_DATA_LOSS,
                       "%s: its labels are numbers, but those of %s are words; use the same kind "
                       "in all files",
                       url[numbers], url[words]);
    for (size_t i = 0; i < n; i++) add_classes(&all, &d[i]->classes);
    qr_auto(qr_free_p) char *which = qr_xasprintf("%s and %zu more", url[0], n - 1);
    QR_TRY(qr_classes_check(opt, &all, which, opt->n_labels ? opt->labels[0] : "y", err));
    for (size_t i = 0; i < n; i++)
        if (d[i]->classes.n < all.n) renumber_labels(opt, &all, d[i]);
    return QR_OK;
}
