/* format/json.h — reads JSON strictly and writes JSON with 17 digits. The only user of cJSON.
 *
 * Use       qr_json_parse; the getters, which return INVALID_ARGUMENT for a wrong value;
 *           qr_json_free. To write: qr_json_writer, then qr_json_open, qr_json_put_*,
 *           qr_json_close.
 * Reading   The whole text is one value (trailing blanks allowed): valid UTF-8 without NUL, nesting
 *           <= 64, no duplicate keys, finite numbers. Errors have line and column. An integer
 *           literal above 2^53 is rejected; a byte-order mark is skipped. Getters take `where`, the
 *           path of the value for messages ("model[0].circuit.qubits"), and report the value found
 *           and the one expected.
 * Bounds    text at most 64 MiB, at most 4 Mi values, a number at most 63 characters.
 * Errors    INVALID_ARGUMENT; RESOURCE_EXHAUSTED above 64 MiB of text, or when memory is exhausted.
 * Threads   any; a tree that no thread changes may be shared.
 */
#ifndef QR_FORMAT_JSON_H
#define QR_FORMAT_JSON_H

#include <stdbool.h>

#include "base/bytes.h"

struct qr_json; /* a value in a tree; borrowed from the root of the tree */
enum qr_json_type {
    QR_JSON_NULL,
    QR_JSON_BOOL,
    QR_JSON_NUMBER,
    QR_JSON_STRING,
    QR_JSON_ARRAY,
    QR_JSON_OBJECT
};

/* Parses a text. what: its name for messages ("job qcnn.json"). Free the root with qr_json_free. */
QR_MUST_CHECK enum qr_code qr_json_parse(struct qr_bytes text, const char *what,
                                         struct qr_json **ret, struct qr_err *err);
void qr_json_free(struct qr_json *root);
void qr_json_free_p(struct qr_json **root);

enum qr_json_type qr_json_type(const struct qr_json *v);
const char *qr_json_type_name(const struct qr_json *v); /* "a string" … for messages */
/* Returns the member `key`. NULL when the key is absent or its value is null (null means "not
 * given"), or object is NULL. */
const struct qr_json *qr_json_get(const struct qr_json *object, const char *key);
size_t qr_json_size(const struct qr_json *v); /* of arrays and objects; otherwise 0 */
const struct qr_json *qr_json_at(const struct qr_json *v, size_t i); /* O(i); NULL past the end */
const struct qr_json *qr_json_first(const struct qr_json *v); /* iterate arrays and objects */
const struct qr_json *qr_json_next(const struct qr_json *v);
const char *qr_json_key(const struct qr_json *member); /* of an object's member */

/* Getters with checks. INVALID_ARGUMENT when v is NULL ("… is missing"), has the wrong type or is
 * outside of [min, max]; for integers also when the number has a fraction or is above 2^53. */
QR_MUST_CHECK enum qr_code qr_json_double(const struct qr_json *v, const char *where, double min,
                                          double max, double *ret, struct qr_err *err);
QR_MUST_CHECK enum qr_code qr_json_i64(const struct qr_json *v, const char *where, int64_t min,
                                       int64_t max, int64_t *ret, struct qr_err *err);
QR_MUST_CHECK enum qr_code qr_json_bool(const struct qr_json *v, const char *where, bool *ret,
                                        struct qr_err *err);
QR_MUST_CHECK enum qr_code qr_json_string(const struct qr_json *v, const char *where,
                                          const char **ret,
                                          struct qr_err *err); /* borrowed from the tree */
/* Returns a string value, borrowed; `otherwise` when v is NULL or of another type. */
const char *qr_json_text(const struct qr_json *v, const char *otherwise);
/* Checks the type only. */
QR_MUST_CHECK enum qr_code qr_json_want(const struct qr_json *v, const char *where,
                                        enum qr_json_type type, struct qr_err *err);
/* Finds the index of a string value in names[n]. The message of INVALID_ARGUMENT lists the names
 * and suggests the nearest. */
QR_MUST_CHECK enum qr_code qr_json_choice(const struct qr_json *v, const char *where,
                                          const char *const *names, size_t n, size_t *ret,
                                          struct qr_err *err);
/* Checks that every key of the object is in known[n]: "model[0]: unknown key 'qubit'; did you mean
 * 'qubits'?" */
QR_MUST_CHECK enum qr_code qr_json_known(const struct qr_json *object, const char *where,
                                         const char *const *known, size_t n, struct qr_err *err);

/* Sets the value at a path in a tree.
 *
 * Args:     path       keys separated by dots; "[0]" or "[NAME]" after an array selects the element
 *                      with that number or that "name": "train.optimizer.learning_rate",
 *                      "model[1].units", "model[head].units". At most QR_JSON_MAX_STEPS steps.
 *                      Missing keys, and objects on the way, are created; elements must exist.
 *           value      JSON, or else a plain string; no integer above 2^53. null deletes an
 *                      existing key; a missing key is created with null, so that qr_json_known
 *                      reports it.
 *           ret_path   empty before; the resolved path, with numbers for names, as far as it exists
 * Errors:   INVALID_ARGUMENT: the message does not repeat path=value. The tree must then only be
 *           freed.
 */
enum { QR_JSON_MAX_STEPS = 32 };
QR_MUST_CHECK enum qr_code qr_json_set(struct qr_json *root, const char *path, const char *value,
                                       struct qr_buf *ret_path, struct qr_err *err);

/* Writes JSON by appending to a buffer. The writer adds commas, quotes and line breaks; indent 0
 * writes one line. */
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
/* Invalid UTF-8 becomes U+FFFD; NULL becomes null. */
void qr_json_put_string(struct qr_json_writer *w, const char *s);
/* %.17g, no exponent below 1e17; null when not finite */
void qr_json_put_double(struct qr_json_writer *w, double x);
void qr_json_put_number(struct qr_json_writer *w,
                        double x); /* shortest form that reads back as x */
void qr_json_put_i64(struct qr_json_writer *w, int64_t x);
void qr_json_put_bool(struct qr_json_writer *w, bool x);
void qr_json_put_null(struct qr_json_writer *w);
/* Write a key, then its value or the bracket that opens it. */
void qr_json_key_string(struct qr_json_writer *w, const char *key, const char *s);
void qr_json_key_double(struct qr_json_writer *w, const char *key, double x);
void qr_json_key_number(struct qr_json_writer *w, const char *key, double x);
void qr_json_key_i64(struct qr_json_writer *w, const char *key, int64_t x);
void qr_json_key_bool(struct qr_json_writer *w, const char *key, bool x);
void qr_json_key_open(struct qr_json_writer *w, const char *key, char bracket);
/* Copies a parsed value for canonical forms: numbers with 17 digits, keys sorted if `sorted`. */
void qr_json_put_value(struct qr_json_writer *w, const struct qr_json *v, bool sorted);
/* The same with the shortest numbers that read back unchanged, for people. */
void qr_json_put_shortest(struct qr_json_writer *w, const struct qr_json *v);

#endif
