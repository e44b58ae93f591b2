/* format/json.h — JSON, read strictly and written with 17 digits (cJSON inside; only here).
 *
 * Reading   whole text one value (trailing blanks allowed), valid UTF-8 without NUL, nesting <= 64,
 *           no duplicate keys, numbers finite; errors say line and column. Getters take `where`,
 *           the path of the value for messages ("model[0].circuit.qubits"), and say what was found
 *           and what was wanted.
 *           An integer literal above 2^53 is refused where it stands; a byte-order mark is skipped.
 *           Text that is no JSON is INVALID_ARGUMENT.
 * Bounds    text at most 64 MiB, at most 4 Mi values, a number at most 63 characters.
 */
#ifndef QR_FORMAT_JSON_H
#define QR_FORMAT_JSON_H

#include <stdbool.h>

#include "base/bytes.h"

struct qr_json; /* a value inside a tree; borrowed from its root */
enum qr_json_type {
    QR_JSON_NULL,
    QR_JSON_BOOL,
    QR_JSON_NUMBER,
    QR_JSON_STRING,
    QR_JSON_ARRAY,
    QR_JSON_OBJECT
};

/* what names the text in messages ("job qcnn.json"). The root is freed with qr_json_free. */
QR_MUST_CHECK enum qr_code qr_json_parse(struct qr_bytes text, const char *what,
                                         struct qr_json **ret, struct qr_err *err);
void qr_json_free(struct qr_json *root);
void qr_json_free_p(struct qr_json **root);
bool qr_is_utf8(const char *text); /* what a string of a JSON text must be */

enum qr_json_type qr_json_type(const struct qr_json *v);
const char *qr_json_type_name(const struct qr_json *v); /* "a string" … for messages */
/* NULL when it is absent or null, or object is NULL: null says that a key is not given. */
const struct qr_json *qr_json_get(const struct qr_json *object, const char *key);
size_t qr_json_size(const struct qr_json *v); /* of arrays and objects; 0 else */
const struct qr_json *qr_json_at(const struct qr_json *v, size_t i); /* O(i) */
const struct qr_json *qr_json_first(const struct qr_json *v); /* iterate arrays and objects */
const struct qr_json *qr_json_next(const struct qr_json *v);
const char *qr_json_key(const struct qr_json *member); /* of an object's member */

/* INVALID_ARGUMENT when the type is wrong or the number out of [min, max]. Integers: a number with
 * a fraction or above 2^53 is refused. v NULL means absent: INVALID_ARGUMENT "… is missing". */
QR_MUST_CHECK enum qr_code qr_json_double(const struct qr_json *v, const char *where, double min,
                                          double max, double *ret, struct qr_err *err);
QR_MUST_CHECK enum qr_code qr_json_i64(const struct qr_json *v, const char *where, int64_t min,
                                       int64_t max, int64_t *ret, struct qr_err *err);
QR_MUST_CHECK enum qr_code qr_json_bool(const struct qr_json *v, const char *where, bool *ret,
                                        struct qr_err *err);
QR_MUST_CHECK enum qr_code qr_json_string(const struct qr_json *v, const char *where,
                                          const char **ret,
                                          struct qr_err *err); /* borrowed from the tree */
QR_MUST_CHECK enum qr_code qr_json_want(const struct qr_json *v, const char *where,
                                        enum qr_json_type type, struct qr_err *err);
/* Index into names[n] of a string value; INVALID_ARGUMENT lists them and the nearest. */
QR_MUST_CHECK enum qr_code qr_json_choice(const struct qr_json *v, const char *where,
                                          const char *const *names, size_t n, size_t *ret,
                                          struct qr_err *err);
/* Every key of the object must be in known[n]: "model[0]: unknown key 'qubit'; did you
 * mean 'qubits'?" */
QR_MUST_CHECK enum qr_code qr_json_known(const struct qr_json *object, const char *where,
                                         const char *const *known, size_t n, struct qr_err *err);

/* Puts a value into a tree, where a path leads: keys with points between, "[0]" or "[NAME]" behind
 * an array for the element of that number or with that "name": "train.optimizer.learning_rate",
 * "model[1].units", "model[head].units". A key that is not there is made, and objects on the way to
 * it; an element must be there. value: JSON where it is JSON, else it is the string itself;
 * null takes a key away. One that is not there is made with null, so that qr_json_known sees it.
 * ret_path (empty before): the path with numbers for names, as far as it leads. INVALID_ARGUMENT
 * says what is wrong without the path=value, which the caller knows; the tree is good for nothing
 * then but to be freed. */
enum { QR_JSON_MAX_STEPS = 32 };
QR_MUST_CHECK enum qr_code qr_json_set(struct qr_json *root, const char *path, const char *value,
                                       struct qr_buf *ret_path, struct qr_err *err);

/* Writing: appends to a buffer. Commas and quotes are the writer's; indent 0 = one line. */
struct qr_json_writer {
    struct qr_buf *out;
    unsigned depth;
    bool first, after_key;
    unsigned indent;
};
struct qr_json_writer qr_json_writer(struct qr_buf *out, unsigned indent);
void qr_json_open(struct qr_json_writer *w, char bracket);  /* '{' or '[' */
void qr_json_close(struct qr_json_writer *w, char bracket); /* '}' or ']' */
void qr_json_put_key(struct qr_json_writer *w, const char *key);
void qr_json_put_string(struct qr_json_writer *w, const char *s); /* invalid UTF-8 becomes U+FFFD */
/* %.17g, no exponent below 1e17; null when not finite */
void qr_json_put_double(struct qr_json_writer *w, double x);
void qr_json_put_number(struct qr_json_writer *w, double x); /* the shortest that reads back as x */
void qr_json_put_i64(struct qr_json_writer *w, int64_t x);
void qr_json_put_bool(struct qr_json_writer *w, bool x);
void qr_json_put_null(struct qr_json_writer *w);
/* Copies a parsed value (numbers as 17 digits, keys sorted when `sorted`): canonical forms. */
void qr_json_put_value(struct qr_json_writer *w, const struct qr_json *v, bool sorted);
/* The same with the shortest numbers that read back as they are: for people. */
void qr_json_put_shortest(struct qr_json_writer *w, const struct qr_json *v);

#endif
