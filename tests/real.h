/* tests/real.h — for functions that stand in a test program before the C library's: the real
 * one behind. The program defines _FORTIFY_SOURCE away first, whose inline forms would be in
 * the way. */
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
/* In a function of this name: `real` is the one behind it. Any thread. */
#define REAL(name)                                                                                 \
    static __typeof__(name) *_Atomic known;                                                        \
    __typeof__(name) *real = known;                                                                \
    if (!real) known = real = (__typeof__(real))(uintptr_t)real_of(#name)
/* In open(2): the mode, which is there only when a file may be made. */
#define MODE_OF(mode, flags)                                                                       \
    va_list mode##_list;                                                                           \
    va_start(mode##_list, flags);                                                                  \
    mode_t mode = (flags)&O_CREAT ? va_arg(mode##_list, mode_t) : 0;                               \
    va_end(mode##_list)

#endif
