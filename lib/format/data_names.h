/* format/data_names.h — names of a model's inputs and classes, taken from the data and stored in
 * weight files: two lists of distinct names.
 *
 * Text      a JSON list of strings: ["sepal_length","sepal_width"].
 * Bounds    65536 names of at most 1024 bytes each, UTF-8 without control characters, none empty.
 * Threads   a list belongs to one thread at a time.
 */
#ifndef QR_FORMAT_DATA_NAMES_H
#define QR_FORMAT_DATA_NAMES_H

#include "base/bytes.h"

/* Names of the lists in a file. */
#define QR_NAMES_INPUTS "qring.inputs"
#define QR_NAMES_CLASSES "qring.classes"

struct qr_name_list {
    size_t n; /* 0: no names */
    char **v;
};
void qr_name_list_fini(struct qr_name_list *l);
struct qr_name_list qr_name_list_copy(const struct qr_name_list *l);
void qr_name_list_add(struct qr_name_list *l, const char *name, size_t bytes); /* appends a copy */
/* Returns a name that is twice in the list, or NULL. */
const char *qr_name_list_duplicate(const struct qr_name_list *l);

struct qr_data_names {
    struct qr_name_list inputs;  /* in the model's order */
    struct qr_name_list classes; /* of the labels, by class number */
};
void qr_data_names_fini(struct qr_data_names *n);

/* Appends the list as JSON. */
void qr_name_list_json(const struct qr_name_list *l, struct qr_buf *ret);
/* Parses a JSON list. DATA_LOSS, naming `what`, when the text is not a valid list of names. */
QR_MUST_CHECK enum qr_code qr_name_list_parse(struct qr_bytes text, const char *what,
                                              struct qr_name_list *ret, struct qr_err *err);
/* DATA_LOSS, naming `what`: too many names, or a name is empty, too long, malformed or a
 * duplicate. */
QR_MUST_CHECK enum qr_code qr_name_list_check(const struct qr_name_list *l, const char *what,
                                              struct qr_err *err);
/* Appends "a, b, c and 4 more" for a message, with at most `most` names. Names with but[i] set are
 * left out; but may be NULL. */
void qr_name_list_put(const struct qr_name_list *l, const uint8_t *but, size_t most,
                      struct qr_buf *ret);
/* Returns the position of a name; l->n when it is missing. Linear time. */
size_t qr_name_list_find(const struct qr_name_list *l, const char *name);
/* The same for many names at once, into ret[wanted->n], in n log n time. */
void qr_name_list_find_all(const struct qr_name_list *l, const struct qr_name_list *wanted,
                           size_t *ret);

#endif
