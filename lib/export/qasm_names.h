/* export/qasm_names.h — names, comments and read-outs in OpenQASM. */
#ifndef QR_EXPORT_QASM_NAMES_H
#define QR_EXPORT_QASM_NAMES_H

#include "export/export.h"

struct export_qasm_names {
    char **params, **columns; /* n_params, n_columns; owned, as are the next two */
    char *qubits, *bits;
    char *shared;               /* before the numbers of shared expressions; owned */
    struct qr_buf declarations; /* input float[64] w; */
};
/* Names for the symbols and registers of a circuit. A parameter keeps its name, and w[3] is an
 * element of an array, where OpenQASM and its reader here have such a name; otherwise letters that
 * a name cannot have become "_", and "_" is appended until the name is free. */
struct export_qasm_names export_qasm_names(const struct qr_circuit *c);
void export_qasm_names_fini(struct export_qasm_names *n);

/* Appends the title and the read-outs that are not measured as comments. */
void export_qasm_comment(const struct qr_export *what, struct qr_buf *to);
/* The number of measurements: the read-outs, if they are Z of different qubits; else 0. */
size_t export_qasm_bits(const struct qr_export *what);

#endif
