/* base/number_env.c — the floating-point environment and locale of a thread. Start reading at
 * qr_number_env_enter(). */
#include "base/number_env.h"

#include <pthread.h>

static locale_t c_locale;

/* newlocale cannot fail here: glibc and musl return a static object for "C". */
static void make_c_locale(void) { c_locale = newlocale(LC_ALL_MASK, "C", (locale_t)0); }

void qr_number_env_enter(struct qr_number_env *ret) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, make_c_locale);
    ret->locale = uselocale(c_locale);
    fegetenv(&ret->fenv);
    fesetenv(FE_DFL_ENV);
}

void qr_number_env_leave(const struct qr_number_env *env) {
    fesetenv(&env->fenv);
    uselocale(env->locale);
}
