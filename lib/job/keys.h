/* job/keys.h — every key of a job file: one row each. From the rows follow the reader and all that
 * describes the file: `qring help job`, job.schema.json, the tables of
 * the job page, qring-job(5), completion of --set.
 *
 * A new key is a row in keys.c and a test; one that can change a bit of the result is also a line
 * of the job hash (canonical.c). Keys below `circuit` and `sweep` are read by their own
 * components; their rows only describe them.
 * Kinds     Keys of an object may depend on one of them: on "name" of an optimizer. The names of
 *           the kinds are the values of that key.
 * Circle:   rows name the functions that read their values, and these read objects by rows.
 * Threads   Any; constant.
 */
#ifndef QR_JOB_KEYS_H
#define QR_JOB_KEYS_H

#include "format/json.h"

struct qr_job;
struct qr_job_reader;

/* Type of the value at a row's offset. COUNT: uint64_t. UNSIGNED: unsigned. NUMBER: double. FLAG:
 * bool. NOT: bool, inverted. CHOICE: index into names, unsigned. TEXT, URL (not empty): char *,
 * owned. OBJECT: the struct of that object. OTHER: whatever the row's function reads. */
enum qr_key_type {
    QR_KEY_COUNT,
    QR_KEY_UNSIGNED,
    QR_KEY_NUMBER,
    QR_KEY_FLAG,
    QR_KEY_NOT,
    QR_KEY_CHOICE,
    QR_KEY_TEXT,
    QR_KEY_URL,
    QR_KEY_OBJECT,
    QR_KEY_OTHER
};

/* Whose names a key takes (aliases.c). */
enum qr_job_names {
    QR_JOB_NO_NAMES,
    QR_JOB_LAYER,
    QR_JOB_LOSS,
    QR_JOB_METRIC,
    QR_JOB_OPTIMIZER,
    QR_JOB_SCHEDULE,
    QR_JOB_PRECISION
};

struct qr_job_key {
    const char *name, *about;
    enum qr_key_type type;
    size_t at;        /* offset in the object's struct */
    double low, high; /* of a number, inclusive */
    /* why the number `low` or `high` itself is not valid; NULL: it is */
    const char *not_low, *not_high;
    const char *const *names; /* of a CHOICE: n_names */
    size_t n_names;
    const char
        *of; /* the kinds that have the key, separated by blanks; NULL: see struct qr_job_object */
    enum qr_job_names aliases; /* names of other programs that get advice */
    const char *object;        /* name of an OBJECT */
    bool required;
    const char *missing;        /* what to give for a required key; NULL: its type */
    bool dependent;             /* read only if no key before it was wrong */
    const char *value;          /* default, where it is not the value after the object's defaults */
    const char *words, *schema; /* of OTHER: its type as text, and as JSON Schema */
    /* Reads the value at `to` of an OTHER; for other types NULL, or called instead. */
    enum qr_code (*read)(struct qr_job_reader *r, const struct qr_json *v, const char *where,
                         void *to);
};

struct qr_job_object {
    const char *name, *path; /* "optimizer", "train.optimizer"; the job itself: "" */
    const struct qr_job_key *keys;
    size_t n_keys;
    /* The key that selects the kind, and its values; NULL: no kinds. */
    const char *by;
    const char *const *kinds;
    size_t n_kinds, kind; /* kind: the default, where the key is not required */
    /* Whether a kind has a key without `of`; NULL: all do. */
    bool (*has)(size_t kind, const char *key);
    /* Sets the defaults of a kind; NULL: all 0. */
    void (*set_defaults)(size_t kind, void *to);
    /* Fails if a key of other kinds deserves a better message than "unknown key"; or NULL. */
    enum qr_code (*reject)(size_t kind, const char *key, const char *where, struct qr_err *err);
    /* Checks that involve several keys, after they were read without errors; or NULL. */
    enum qr_code (*finish)(struct qr_job_reader *r, void *to);
    const char *schema; /* more members of its JSON Schema, or NULL */
};

/* The objects of a job file, the job itself first. */
extern const struct qr_job_object qr_job_objects[];
extern const size_t qr_job_n_objects;
const struct qr_job_object *qr_job_object(const char *name); /* which must exist */
/* The first row of a key, which must exist. */
const struct qr_job_key *qr_job_key(const struct qr_job_object *o, const char *name);
/* Whether the kind has the key of a row. */
bool qr_job_object_has(const struct qr_job_object *o, size_t kind, const struct qr_job_key *key);
/* Appends the default of a key as JSON or as words; nothing: it is required or not set. */
void qr_job_key_default(const struct qr_job_object *o, size_t kind, const struct qr_job_key *key,
                        struct qr_buf *ret);
/* What a word of another program or a wrong place means here: "lr" -> "learning_rate"; NULL: not
 * known. */
const char *qr_job_key_alias(const char *word);

#endif
