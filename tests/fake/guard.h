/* tests/fake/guard.h — the client's guard against servers that stall, shortened for a whole
 * test program. */
#ifndef FAKE_GUARD_H
#define FAKE_GUARD_H

#include <curl/curl.h>
#include <dlfcn.h>
#include <stdarg.h>

/* Where a server falls silent, or libcurl has no memory to note that it waits for a socket, it
 * waits until our guard against stalls: so many seconds here, half a minute elsewhere. */
static long guard_s = 1;
#undef curl_easy_setopt
CURLcode curl_easy_setopt(CURL *c, CURLoption option, ...) {
    static CURLcode (*real)(CURL * c, CURLoption option, ...);
    if (!real)
        real =
            (CURLcode(*)(CURL *, CURLoption, ...))(uintptr_t)dlsym(RTLD_NEXT, "curl_easy_setopt");
    va_list ap;
    va_start(ap, option);
    CURLcode rc;
    if (option == CURLOPT_LOW_SPEED_TIME) rc = real(c, option, guard_s);
    else if (option == CURLOPT_TIMEOUT_MS)
        rc = real(c, option, va_arg(ap, long) ? 1000 * guard_s : 0L);
    else if (option / 10000 * 10000 == CURLOPTTYPE_OFF_T)
        rc = real(c, option, va_arg(ap, curl_off_t));
    else if (option / 10000 * 10000 == CURLOPTTYPE_LONG) rc = real(c, option, va_arg(ap, long));
    else rc = real(c, option, va_arg(ap, void *));
    va_end(ap);
    return rc;
}

#endif
