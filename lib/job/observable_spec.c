/* job/observable_spec.c — reads an observable: text, terms of a Hamiltonian, or a file of them.
 * Start reading at qr_job_read_observable(). */
#include <stdio.h>

#include "base/mem.h"
#include "observable/hamiltonian.h"
#include "observable/projector.h"
#include "data/named_files.h"
#include "job/job_impl.h"

enum { MAX_HAMILTONIAN_BYTES = 16 << 20 };

static enum qr_code read_hamiltonian_file(const struct qr_job *job, const char *where,
                                          const char *url, unsigned n_qubits,
                                          struct qr_observable *ret, struct qr_err *err) {
    qr_auto(qr_buf_free) struct qr_buf file = {0};
    enum qr_code code =
        qr_job_read_file(job, where, url, MAX_HAMILTONIAN_BYTES, "terms", &file, err);
    if (code == QR_OK &&
        (code = qr_hamiltonian_read(qr_buf_view(&file), url, n_qubits, ret, err)) != QR_OK) {
        if (qr_named_file_unquoted(url, job->data.folder)) qr_named_file_unquote(url, err);
        qr_wrap(err, "%s", where);
    }
    return code;
}

static enum qr_code read_hamiltonian(const struct qr_job *job, const struct qr_json *o,
                                     const char *where, unsigned n_qubits,
                                     struct qr_observable *ret, struct qr_err *err) {
    static const char *const keys[] = {"hamiltonian"};
    char path[160];
    const struct qr_json *v = qr_json_get(o, "hamiltonian");
    const char *url;
    if (qr_json_known(o, where, keys, 1, err) != QR_OK) return err->code;
    snprintf(path, sizeof path, "%s.hamiltonian", where);
    if (!v)
        return qr_fail(err, QR_INVALID_ARGUMENT,
                       "%s is missing: give terms, as in [[\"Z0 Z1\", 0.5]], or a file", path);
    if (qr_json_type(v) != QR_JSON_STRING)
        return qr_hamiltonian_from_json(v, path, n_qubits, ret, err);
    if (qr_json_string(v, path, &url, err) != QR_OK) return err->code;
    return read_hamiltonian_file(job, path, url, n_qubits, ret, err);
}

enum qr_code qr_job_read_observable(const struct qr_job *job, const struct qr_json *v,
                                    const char *where, unsigned n_qubits, struct qr_observable *ret,
                                    struct qr_err *err) {
    const char *text;
    if (qr_json_get(v, "projector")) return qr_projector_from_json(v, where, n_qubits, ret, err);
    if (qr_json_type(v) == QR_JSON_OBJECT)
        return read_hamiltonian(job, v, where, n_qubits, ret, err);
    if (qr_json_string(v, where, &text, err) != QR_OK) return err->code;
    if (qr_observable_parse(text, n_qubits, ret, err) != QR_OK) return qr_wrap(err, "%s", where);
    return QR_OK;
}
