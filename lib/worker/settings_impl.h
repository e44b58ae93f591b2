/* worker/settings_impl.h — a row of the table of settings, shared by settings*.c. */
#ifndef QR_WORKER_SETTINGS_IMPL_H
#define QR_WORKER_SETTINGS_IMPL_H

#include "worker/settings.h"

/* TARGET: a text that logs show through qr_progress_shown. JOB_KEYS: keys of the job with values.
 * JOB_KEY: the value of the job's key of that name. */
enum setting_type { TEXT, TARGET, NUMBER, DURATION, SWITCH, CHOICE, JOB_KEYS, JOB_KEY };
/* Where a setting may be set. HIDDEN: unlisted; COMMAND_LINE: flag only; OUTSIDE: not in the
 * job. */
enum setting_allowed { ANYWHERE, HIDDEN, COMMAND_LINE, OUTSIDE };

struct setting {
    const char *name;
    enum setting_type type;
    size_t at;            /* offset in struct qr_settings */
    const char *standard; /* the default as text; NULL: unset */
    int64_t min, max;     /* of numbers */
    /* Returns the i-th allowed value, NULL after the last; the component that defines them names
     * them. */
    const char *(*choice)(size_t i);
    enum setting_allowed allowed;
    const char *value_name; /* in --help */
    const char *shown;      /* default as shown to users; NULL: standard */
    const char *help;       /* CHOICES is replaced by the allowed values */
    /* Which value applies when workers of one ring have different ones. */
    enum qr_setting_scope scope;
    /* Log line of a newcomer with another value; NULL: none, since it has no effect. */
    const char *note;
};

extern const struct setting settings_table[];
extern const size_t settings_n; /* rows; QR_SETTINGS_MAX at most */

/* Returns the row of that name, without dashes; NULL: none. */
const struct setting *settings_find(const char *name);

#endif
