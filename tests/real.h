/* tests/real.h — for functions that replace one of the C library: the replaced function. Undefine
 * _FORTIFY_SOURCE first, because its inline functions would bypass the replacement. */
#ifndef TESTS_REAL_H
#define TESTS_REAL_H

#include <dlfcn.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>

static inline void *real_of(const char *name) {
    void *p = dlsym(RTLD_NEXT, name);
    if (!p) abort();
    return p;
}
/* In the replacement of `name`: declares `real`, the replaced function. Any thread. */
#define REAL(name)                                                                                 \
    static __typeof__(name) *_Atomic known;                                                        \
    __typeof__(name) *real = known;                                                                \
    if (!real) known = real = (__typeof__(real))(uintptr_t)real_of(#name)
/* In open(2): the mode, an argument only when the file may be created. */
#define MODE_OF(mode, flags)                                                                       \
    va_list mode##_list;                                                                           \
    va_start(mode##_list, flags);                                                                  \
    mode_t mode = (flags)&O_CREAT ? va_arg(mode##_list, mode_t) : 0;                               \
    va_end(mode##_list)

#endif
