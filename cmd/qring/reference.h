/* cmd/qring/reference.h — descriptions of the keys of the job file, private to cmd/qring. */
#ifndef QR_CMD_QRING_REFERENCE_H
#define QR_CMD_QRING_REFERENCE_H

#include "job/keys.h"

/* A gate of job files, as a circuit's reader takes it. */
enum { QR_GATE_NAMES = 4, QR_GATE_TAKES = 6 };
struct qr_reference_gate {
    const char *names[QR_GATE_NAMES]; /* static */
    const char *takes[QR_GATE_TAKES]; /* keys besides those of all gates */
    unsigned n_names, n_takes;
    unsigned least, most; /* number of qubits; most 0: any number */
    bool exponent;        /* "angle" may stand for "exponent" */
};
/* False: there are no more. */
bool qr_reference_gate(size_t i, struct qr_reference_gate *ret);

/* What stands in a row: texts; freed with qr_reference_row_fini. kinds: those that have the key;
 * empty: all. */
struct qr_reference_row {
    struct qr_buf path, type, value, kinds;
};
struct qr_reference_row qr_reference_row(const struct qr_job_object *o, const struct qr_job_key *k);
void qr_reference_row_fini(struct qr_reference_row *row);

/* Prints the JSON Schema of the job file. Returns the exit code. */
int qr_print_job_schema(void);

#endif
