/* format/data_names.h — what the data calls a model's inputs and classes, as files of weights keep
 * them: two lists of different names.
 *
 * Text      a JSON list of strings: ["sepal_length","sepal_width"].
 * Bounds    65536 names of at most 1024 bytes each, UTF-8 without control characters, none empty.
 */
#ifndef QR_FORMAT_DATA_NAMES_H
#define QR_FORMAT_DATA_NAMES_H

#include "base/bytes.h"

/* What the lists are called in a file. */
#define QR_NAMES_INPUTS "qring.inputs"
#define QR_NAMES_CLASSES "qring.classes"

struct qr_name_list {
    size_t n; /* 0: there are no names */
    char **v;
};
void qr_name_list_fini(struct qr_name_list *l);
struct qr_name_list qr_name_list_copy(const struct qr_name_list *l);

struct qr_data_names {
    struct qr_name_list inputs;  /* in the model's order */
    struct qr_name_list classes; /* of the labels; class i is the i-th */
};
void qr_data_names_fini(struct qr_data_names *n);

void qr_name_list_json(const struct qr_name_list *l, struct qr_buf *ret);
/* DATA_LOSS naming `what`: the text is no list of names. */
QR_MUST_CHECK enum qr_code qr_name_list_parse(struct qr_bytes text, const char *what,
                                              struct qr_name_list *ret, struct qr_err *err);
/* DATA_LOSS naming `what`: a name is empty, too long, no text or there twice, or they are too
 * many. */
QR_MUST_CHECK enum qr_code qr_name_list_check(const struct qr_name_list *l, const char *what,
                                              struct qr_err *err);
/* "a, b, c and 4 more", for people: so many at most; but: those of them are left out where it is
 * not NULL and but[i] is set. */
void qr_name_list_put(const struct qr_name_list *l, const uint8_t *but, size_t most,
                      struct qr_buf *ret);
/* The position of a name, n: it is not there. Linear. */
size_t qr_name_list_find(const struct qr_name_list *l, const char *name);
/* The same of each of many names, ret[wanted->n], in n log n. */
void qr_name_list_find_all(const struct qr_name_list *l, const struct qr_name_list *wanted,
                           size_t *ret);

#endif
