/* job/overrides.h — keys of a job that are set outside its file: --set train.epochs=60.
 *
 * Use       qr_overrides_add for each setting, then qr_job_load, which calls qr_overrides_apply;
 *           qr_overrides_fini at the end.
 * Format    PATH=VALUE. PATH as in qr_json_set; VALUE is JSON if it parses, otherwise a string.
 * Order     The last of two values for one key wins. Values of a lower place come first, whenever
 *           they were added.
 * Checks    The job is read after the keys are set: errors in a key or value are those of the job
 *           file, prefixed by the setting as the user gave it.
 * Ownership A list owns its texts.
 * Threads   One at a time for each list.
 */
#ifndef QR_JOB_OVERRIDES_H
#define QR_JOB_OVERRIDES_H

#include "format/json.h"

struct qr_override {
    char *text;  /* "seed=7" */
    char *given; /* "--seed 7", for messages */
    char *path;  /* path with names resolved to numbers; NULL: not applied yet */
    unsigned place;
};
struct qr_overrides {
    size_t n;
    struct qr_override *v;
};
enum { QR_MAX_OVERRIDES = 256 };
enum { QR_OVERRIDES_ENVIRONMENT, QR_OVERRIDES_ENVIRONMENT_KEY, QR_OVERRIDES_FLAG };

/* Adds one setting. Empty values set nothing.
 *
 * Args:     given  name of the setting, for messages: "--set", "QRING_SET"
 *           key    path of the key; NULL: value is PATH=VALUE, or several, one per line
 *           value  value of key
 * Errors:   INVALID_ARGUMENT: not PATH=VALUE, or more than QR_MAX_OVERRIDES
 */
QR_MUST_CHECK enum qr_code qr_overrides_add(struct qr_overrides *o, unsigned place,
                                            const char *given, const char *key, const char *value,
                                            struct qr_err *err);
void qr_overrides_fini(struct qr_overrides *o);
/* Sets the keys in the tree of a job, before it is read. */
QR_MUST_CHECK enum qr_code qr_overrides_apply(struct qr_overrides *o, struct qr_json *job,
                                              struct qr_err *err);
/* Prefixes an error about the job with the setting that caused it, found by the key at the
 * beginning of the message. False: no setting caused it. */
bool qr_overrides_attribute(const struct qr_overrides *o, struct qr_err *err);
/* Appends the settings as text: "seed=7, train.epochs=60"; URLs without their query strings. */
void qr_overrides_put(const struct qr_overrides *o, struct qr_buf *ret);
/* Writes the settings as an array of strings with the key "set". */
void qr_overrides_json(const struct qr_overrides *o, struct qr_json_writer *w);

#endif
