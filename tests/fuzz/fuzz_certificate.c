/* Certificates as PEM. As a peer's certificate: none is signed by the job's CA, so none is
 * accepted. As a worker's own, with its key in the same text: the text for gRPC is a valid pair,
 * and encoding it again gives the same text. */
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "certificate/certificate_impl.h"

static void own_pair(const char *pem) {
    static const struct qr_certificate_files files = {"certificate", "key", "ca"};
    struct qr_buf once = {0}, again = {0};
    struct qr_err err;
    if (certificate_check_pair(&files, pem, pem, &err) == QR_OK &&
        certificate_put_pair(pem, pem, &once)) {
        const char *text = qr_buf_string(&once);
        if (certificate_check_pair(&files, text, text, &err) != QR_OK ||
            !certificate_put_pair(text, text, &again) || strcmp(text, qr_buf_string(&again)) != 0)
            abort();
    }
    qr_buf_free(&once);
    qr_buf_free(&again);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n) {
    static const char ca[] = /* its private key was deleted */
        "-----BEGIN CERTIFICATE-----\n"
        "MIIBfjCCASWgAwIBAgIQWCDZMImN+D/K2Pxoz5fvfTAKBggqhkjOPQQDAjAeMRww\n"
        "GgYDVQQDDBNxcmluZyBDQSBvZiBtbC9xY25uMB4XDTI2MTEyMTE0MzA0MFoXDTM2\n"
        "MTExODE1MzA0MFowHjEcMBoGA1UEAwwTcXJpbmcgQ0Egb2YgbWwvcWNubjBZMBMG\n"
        "ByqGSM49AgEGCCqGSM49AwEHA0IABG22qG7w7FiShqF7nNVG5fcO4QvEzBMJB0d0\n"
        "CN6VzbExtBlzWCEzqztdoDuecTcYptU+boYpmRmmY5JVHDycxoyjRTBDMBIGA1Ud\n"
        "EwEB/wQIMAYBAf8CAQAwDgYDVR0PAQH/BAQDAgEGMB0GA1UdDgQWBBRFrIew7h6t\n"
        "aFXJ3BaN0ogfI18eizAKBggqhkjOPQQDAgNHADBEAiAF9yy37UWQMfynChqwAL9b\n"
        "lCC8B1xgPW3pKubanrLNLgIgXA2uGQNvHebevJQ1VxsP+H/IK4HuqBxuQfGoDY04\n"
        "bPU=\n"
        "-----END CERTIFICATE-----\n";
    static const struct qr_certificate_identity job = {QR_IDENTITY_URI, "qring://ml/qcnn"};
    char name[QR_CERTIFICATE_TEXT];
    const char *why;
    int64_t until_s;
    if (n > 1 << 16) return 0;
    char *pem = qr_xstrndup((const char *)data, n);
    if (qr_certificate_peer(ca, pem, pem, &job, n % 2, 1800000000, name, &why, &until_s) ==
        QR_PEER_FINE)
        abort();
    if (strlen(name) >= sizeof name || !why) abort();
    own_pair(pem);
    free(pem);
    return 0;
}
