/* Credentials files and token replies. The first byte selects a metadata server, or a credentials
 * file, which is the part up to the first NUL. Each following part is a reply: three digits of its
 * status, then its body. The result is a header that can be sent as it is, or an error; no secret
 * goes to a foreign address. */
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

#include "tests/fuzz/gcs_replies.h"

enum { AUTH_PARTS = 6 };
static bool is_one_of(const char *host, const char *const *names, size_t n) {
    for (size_t i = 0; i < n; i++)
        if (strncasecmp(host, names[i], strlen(names[i])) == 0 && host[strlen(names[i])] == ':')
            return true;
    return false;
}
static enum qr_code answer(struct qr_web *h, const struct qr_web_request *req,
                           struct qr_web_reply *ret, struct qr_err *err) {
    if (req->has_body) { /* a request with a body holds secrets */
        static const char *const local[] = {"127.0.0.1", "localhost", "[::1]"};
        static const char suffix[] = ".googleapis.com:443";
        struct qr_web_url url;
        QR_ASSERT(qr_web_url_parse(NULL, req->url, &url, err) == QR_OK);
        size_t n = strlen(url.host), m = strlen(suffix);
        bool google = n > m && strcasecmp(url.host + n - m, suffix) == 0;
        QR_ASSERT(url.https ? google || strcasecmp(url.host, "accounts.google.com:443") == 0
                            : is_one_of(url.host, local, 3));
        qr_web_url_fini(&url);
    }
    enum qr_code code = gcs_reply(h, req, ret, err);
    ret->from_metadata = true;
    return code;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    char *part[AUTH_PARTS], path[64];
    struct qr_gcs_options opt = {.waits.clock = &virtual_clock, .waits.wall = &virtual_clock};
    struct qr_err err = {0};
    const char *header = NULL;
    int fd = -1;
    if (size == 0) return 0;
    virtual_ns = 1000 * QR_SECOND;
    bool with_file = data[0] & 1;
    struct answers a = {.web.send = answer, .part = part};
    parts_of(data + 1, size - 1, 0, part, AUTH_PARTS, &a.n);
    if (with_file) {
        fd = memfd_create("credentials", MFD_CLOEXEC);
        snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
        QR_ASSERT(fd >= 0 && write(fd, part[0], strlen(part[0])) == (ssize_t)strlen(part[0]));
        opt.credentials = path;
        a.next = 1;
    }
    struct qr_gcs_auth *auth = qr_gcs_auth_new(&opt, &a.web);
    enum qr_code code = qr_gcs_auth_header(auth, &header, &err);
    if (code != QR_OK) QR_ASSERT(err.code == code && err.msg[0]);
    else
        QR_ASSERT(header && strncmp(header, "Authorization: Bearer ", 22) == 0 &&
                  !strpbrk(header, "\r\n"));
    qr_gcs_auth_drop(auth);
    qr_gcs_auth_free(auth);
    if (fd >= 0) close(fd);
    parts_free(part, a.n);
    return 0;
}
