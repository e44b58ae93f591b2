/* A peer's certificate: PEM from whoever calls. None of these is of the job's CA, so none is
 * ever taken. */
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "cluster/certificate.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n) {
    static const char ca[] = /* its key is nowhere */
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
    char who[QR_CERTIFICATE_TEXT];
    const char *why;
    if (n > 1 << 16) return 0;
    char *pem = qr_xstrndup((const char *)data, n);
    if (qr_certificate_peer(ca, pem, pem, &job, n % 2, 1800000000, who, &why) == QR_PEER_FINE)
        abort();
    if (strlen(who) >= sizeof who || !why) abort();
    (void)qr_certificate_readable(pem);
    free(pem);
    return 0;
}
