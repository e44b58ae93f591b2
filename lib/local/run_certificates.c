/* local/run_certificates.c — certificates in memory for one run on this machine. Start reading at
 * qr_run_certificates_make(). */
#include "local/run_certificates.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/mem.h"
#include "certificate/certificate.h"

enum { FIRST_FD = 4, DAYS = 365 }; /* a worker has others as 0 to 3 */

static enum qr_code store_in_memory(const char *name, const struct qr_buf *content, int *ret,
                                    struct qr_err *err) {
    qr_auto(qr_close_p) int fd = memfd_create(name, MFD_CLOEXEC);
    if (fd < 0 || fchmod(fd, 0600) != 0 || write(fd, content->p, content->n) != (ssize_t)content->n)
        return qr_fail_errno(err, errno,
                             "keep %s in memory (--plaintext runs without certificates)", name);
    *ret = fcntl(fd, F_DUPFD_CLOEXEC, FIRST_FD);
    return *ret >= 0
               ? QR_OK
               : qr_fail_errno(err, errno,
                               "keep %s in memory (--plaintext runs without certificates)", name);
}

enum qr_code qr_run_certificates_make(struct qr_run_certificates *ret, struct qr_err *err) {
    static const char *const flags[QR_RUN_CERTIFICATE_FILES] = {"cert", "key", "ca"};
    static const char *const names[QR_RUN_CERTIFICATE_FILES] = {"tls.crt", "tls.key", "ca.crt"};
    int64_t now_s = qr_now_ns(&qr_clock_wall) / QR_SECOND;
    const struct qr_certificate_request order = {.name_space = "local",
                                                 .job = "run",
                                                 .not_before_s = now_s - 3600,
                                                 .not_after_s = now_s + DAYS * 86400};
    struct qr_certificate_set set;
    struct qr_run_certificates t = {.fd = {-1, -1, -1}};
    enum qr_code code = qr_certificate_make(&order, &set, err);
    if (code != QR_OK) return code;
    const struct qr_buf *content[QR_RUN_CERTIFICATE_FILES] = {&set.certificate, &set.key, &set.ca};
    for (int i = 0; i < QR_RUN_CERTIFICATE_FILES && code == QR_OK; i++) {
        code = store_in_memory(names[i], content[i], &t.fd[i], err);
        t.argument[i] = qr_xasprintf("--tls-%s=/proc/self/fd/%d", flags[i], t.fd[i]);
    }
    qr_certificate_wipe(&set);
    if (code == QR_OK) *ret = t;
    else qr_run_certificates_fini(&t);
    return code;
}

void qr_run_certificates_inherit(const struct qr_run_certificates *t) {
    for (int i = 0; i < QR_RUN_CERTIFICATE_FILES; i++)
        if (t->argument[i]) fcntl(t->fd[i], F_SETFD, 0);
}

void qr_run_certificates_fini(struct qr_run_certificates *t) {
    for (int i = 0; i < QR_RUN_CERTIFICATE_FILES; i++) {
        if (t->argument[i] && t->fd[i] >= 0) close(t->fd[i]);
        free(t->argument[i]);
    }
    *t = (struct qr_run_certificates){0};
}
