/* job/overrides.h — keys of a job that are said outside its file: --set train.epochs=60.
 *
 * Text      PATH=VALUE. The path is qr_json_set's, the value JSON where it is JSON, else a string.
 * Order     of two that set one key the later one wins; those of a lower place stand first,
 *           whenever they were added.
 * Checks    the job is read after them: what is wrong with a key or a value is said as of the job
 *           file, with the words of the person who gave it in front.
 * Ownership a list owns its texts.
 */
#ifndef QR_JOB_OVERRIDES_H
#define QR_JOB_OVERRIDES_H

#include "format/json.h"

struct qr_override {
    char *text;  /* "seed=7" */
    char *given; /* "--seed 7", for messages */
    char *path;  /* where it went, with numbers for names; NULL: not yet */
    unsigned place;
};
struct qr_overrides {
    size_t n;
    struct qr_override *v;
};
enum { QR_MAX_OVERRIDES = 256 };
enum { QR_OVERRIDES_ENVIRONMENT, QR_OVERRIDES_ENVIRONMENT_KEY, QR_OVERRIDES_FLAG };

/* given: the setting as it was written ("--set", "QRING_SET"). key NULL: value is PATH=VALUE, or
 * several, a line each; else it is the value of that key. What is empty sets nothing.
 * INVALID_ARGUMENT: no PATH=VALUE, or too many of them. */
QR_MUST_CHECK enum qr_code qr_overrides_add(struct qr_overrides *o, unsigned place,
                                            const char *given, const char *key, const char *value,
                                            struct qr_err *err);
void qr_overrides_fini(struct qr_overrides *o);
/* Onto a job's tree, before it is read. */
QR_MUST_CHECK enum qr_code qr_overrides_apply(struct qr_overrides *o, struct qr_json *job,
                                              struct qr_err *err);
/* What was said of the job, once they are applied: the one whose key the message begins with goes
 * in front of it. Whether there is one. */
bool qr_overrides_attribute(const struct qr_overrides *o, struct qr_err *err);
/* For people: "seed=7, train.epochs=60", URLs in it without their queries. */
void qr_overrides_put(const struct qr_overrides *o, struct qr_buf *ret);
/* The same as an array of strings, behind its key. */
void qr_overrides_json(const struct qr_overrides *o, struct qr_json_writer *w);

#endif
