/* worker/settings_impl.h — a row of the table of settings, shared by settings*.c. */
#ifndef QR_WORKER_SETTINGS_IMPL_H
#define QR_WORKER_SETTINGS_IMPL_H

#include "worker/settings.h"

/* TARGET: a text of which logs have what qr_progress_shown leaves; JOB_KEYS: keys of the job and
 * their values; JOB_KEY: the value of the job's key of that name */
enum setting_type { TEXT, TARGET, NUMBER, DURATION, SWITCH, CHOICE, JOB_KEYS, JOB_KEY };
/* HIDDEN: works, unlisted; COMMAND_LINE: a flag only; OUTSIDE: not in the job */
enum setting_place { ANYWHERE, HIDDEN, COMMAND_LINE, OUTSIDE };

struct setting {
    const char *name;
    enum setting_type type;
    size_t at;            /* offset in struct qr_settings */
    const char *standard; /* the default as text; NULL: unset */
    int64_t min, max;     /* of numbers */
    /* the i-th value that it may have, NULL behind the last; the rooms that have such things
     * name them */
    const char *(*choice)(size_t i);
    enum setting_place place;
    const char *value_name; /* in --help */
    const char *shown;      /* the default as people read it; NULL: standard */
    const char *help;       /* CHOICES: those */
    /* may it differ between the workers of one ring, and whose counts */
    enum qr_setting_scope between;
    /* what a newcomer with another value reads in its log; NULL: nothing, for nothing comes
     * of it */
    const char *told;
};

extern const struct setting settings_table[];
extern const size_t settings_n; /* rows; QR_SETTINGS_MAX at most */

/* The row of that name, without dashes; NULL: there is none. */
const struct setting *settings_find(const char *name);

#endif
