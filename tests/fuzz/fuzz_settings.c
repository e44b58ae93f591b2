/* Settings, a line each: those that begin with QRING_ as environment, one that begins with { as the
 * job file's worker object, the others as flags. They are accepted, or rejected with an error. */
#include "format/json.h"
#include "tests/fuzz/parts.h"
#include "worker/settings.h"

enum { MAX_LINES = 24 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    char *line[MAX_LINES], *argv[MAX_LINES + 2] = {(char[]){"qringd"}},
                                             *environment[MAX_LINES + 1] = {0}, *unknown[4];
    size_t n, n_unknown = 0;
    int argc = 1, n_set = 0;
    struct qr_json *worker = NULL;
    struct qr_settings s;
    struct qr_err err = {0};
    parts_of(data, size, '\n', line, MAX_LINES, &n);
    for (size_t i = 0; i < n; i++) {
        if (strncmp(line[i], "QRING_", 6) == 0) environment[n_set++] = line[i];
        else if (line[i][0] != '{') argv[argc++] = line[i];
        else if (!worker &&
                 qr_json_parse(qr_bytes_of_string(line[i]), "worker", &worker, &err) != QR_OK)
            worker = NULL;
    }
    qr_settings_init(&s);
    enum qr_code code = qr_settings_flags(&s, argc, argv, &err);
    if (code == QR_OK) {
        code = qr_settings_environment(&s, environment, unknown, 4, &n_unknown, &err);
        for (size_t i = 0; i < n_unknown; i++) {
            QR_ASSERT(unknown[i][0]);
            free(unknown[i]);
        }
    }
    if (code == QR_OK) code = qr_settings_job(&s, worker, &err);
    if (code == QR_OK) code = qr_settings_check(&s, &err);
    QR_ASSERT(code == QR_OK || (err.code == code && err.msg[0]));
    qr_settings_fini(&s);
    qr_json_free(worker);
    parts_free(line, n);
    return 0;
}
