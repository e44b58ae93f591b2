/* store/https_url.c — https:// and http:// URLs, and their environment variables. Start reading at
 * qr_store_https_open(). */
#include "store/bucket_url_impl.h"
#include "store/https.h"
#include "store/kind_impl.h"

static struct qr_https_options process_options; /* set once, before any thread starts */

void qr_https_configure(const struct qr_https_options *o) { process_options = *o; }

void qr_store_https_configure(char *const *environment, bool (*stopping)(void),
                              const struct qr_log *log) {
    const struct qr_https_options o = {
        .tokens = qr_bucket_given(environment, "QRING_HTTPS_TOKENS"),
        .ca_file = qr_bucket_given(environment, "SSL_CERT_FILE"),
        .waits = qr_bucket_waits(stopping, log),
    };
    qr_https_configure(&o);
}

enum qr_code qr_store_https_open(const char *url, const struct qr_store_waits *waits,
                                 struct qr_store **ret, char **ret_name, struct qr_err *err) {
    struct qr_https_options o = process_options;
    QR_TRY(qr_bucket_waits_of(url, "HTTPS", waits, &o.waits, err));
    return qr_store_https_new(url, &o, NULL, ret, ret_name, err);
}
