/* base/number_env.h — the state of a thread that changes numbers: rounding mode, subnormal numbers,
 * traps and exception flags, and the locale by whose decimal point numbers are read and printed.
 *
 * What      A library runs in threads of its caller, where any of these may differ from the
 *           default. Enter before the first number is read or computed; leave before control
 *           returns to the caller, also for a callback.
 * Errors    none.
 * Threads   any; a call changes its own thread.
 */
#ifndef QR_BASE_NUMBER_ENV_H
#define QR_BASE_NUMBER_ENV_H

#include <fenv.h>
#include <locale.h>

struct qr_number_env {
    fenv_t fenv;
    locale_t locale;
};

/* Saves the thread's state in ret, and sets the default floating-point environment and the "C"
 * locale. */
void qr_number_env_enter(struct qr_number_env *ret);
/* Restores the state saved by qr_number_env_enter, exception flags included. */
void qr_number_env_leave(const struct qr_number_env *env);

#endif
