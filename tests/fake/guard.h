/* tests/fake/guard.h — shortens the client's timeouts against servers that stall. A header, because
 * it replaces a function of libcurl in each program that includes it. */
#ifndef FAKE_GUARD_H
#define FAKE_GUARD_H

#include <curl/curl.h>
#include <dlfcn.h>
#include <stdarg.h>

/* Seconds; half a minute elsewhere. The timeout passes when a server stops sending, or when libcurl
 * has no memory to register the socket that it waits for. */
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
