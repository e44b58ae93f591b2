/* circuit/ansatz/ansatz.h — ansätze and encoders by name.
 *
 * A row has a name, keys, and a function that emits the ansatz's gates one after the other, as they
 * would be written in a job file, in the order of the program that the ansatz comes from. The
 * caller (the host) reads each emitted gate as if it came from the file, so this directory does not
 * depend on the representation of circuits.
 * Qubits    positions 0, 1, ... in the list of the ansatz's qubits; keys have the circuit's
 *           numbers.
 * Weights   names in the original's order when sorted naturally (w0_2_1: layer 0, qubit 2, angle
 *           1).
 * Bounds    a gate that the host rejects ends the ansatz, so its cost is bounded by the number of
 *           gates that a circuit may have.
 * Errors    INVALID_ARGUMENT with the path of the value; unknown keys are checked by the caller.
 */
#ifndef QR_CIRCUIT_ANSATZ_ANSATZ_H
#define QR_CIRCUIT_ANSATZ_ANSATZ_H

#include "expression/expression.h"
#include "format/json.h"

enum { QR_ANSATZ_KEYS = 6, QR_ANSATZ_ANGLES = 4, QR_ANSATZ_NAME_BYTES = 64 };

/* factor * (1, the weight `name`, the input of `column`, the expression `name`, or the combined
 * number `column`), in radians. */
enum qr_ansatz_angle_kind {
    QR_ANSATZ_NUMBER,
    QR_ANSATZ_WEIGHT,
    QR_ANSATZ_INPUT,
    QR_ANSATZ_TEXT,
    QR_ANSATZ_SHARED
};
struct qr_ansatz_angle {
    enum qr_ansatz_angle_kind kind;
    double factor;
    uint32_t column; /* SHARED: index of the combined number */
    char name[QR_ANSATZ_NAME_BYTES];
};

struct qr_ansatz_gate {
    const char *name; /* of a gate with angles as its only arguments, or "PauliRot" */
    const uint16_t *positions;
    unsigned n_positions, n_angles;
    const struct qr_ansatz_angle *angles;
    const char *paulis; /* of a PauliRot, not all are I */
};

/* Products of Z with their coefficients; one of none is a constant. */
struct qr_ansatz_terms {
    size_t n;
    struct {
        double coefficient;
        size_t first;    /* its first position; the next term's first follows its last */
    } * terms;           /* owned, n + 1 of them */
    uint16_t *positions; /* owned */
};
void qr_ansatz_terms_fini(struct qr_ansatz_terms *t);

struct qr_ansatz_host {
    enum qr_code (*add)(void *host, const struct qr_ansatz_gate *g);
    /* Adds a global phase e^(i angle), which matters where the ansatz is controlled. */
    enum qr_code (*add_phase)(void *host, const struct qr_ansatz_angle *angle);
    /* Combines two numbers, each NUMBER, INPUT or a SHARED that this function returned. Any number
     * of other numbers and angles may use the result. */
    enum qr_code (*combine)(void *host, enum qr_expression_op op, struct qr_expression_node a,
                            struct qr_expression_node b, struct qr_expression_node *ret);
    /* n numbers are about to be read: bounds the time of repeats. */
    enum qr_code (*count)(void *host, const char *path, size_t n);
    /* Adds the gates of a list written for qubits 0 ... n - 1 on these positions, with this prefix
     * before each weight's name. */
    enum qr_code (*add_list)(void *host, const struct qr_json *gates, const char *path,
                             const uint16_t *positions, unsigned n, const char *prefix);
    /* An observable of Z only, or a list of them, on qubits of the ansatz. */
    enum qr_code (*read_terms)(void *host, const struct qr_json *v, const char *path,
                               struct qr_ansatz_terms *ret);
    /* The first of n columns of inputs, or each of them in a list: ret[n]. NULL: from 0 on. */
    enum qr_code (*read_columns)(void *host, const struct qr_json *v, const char *path, unsigned n,
                                 uint32_t *ret);
};

struct qr_ansatz_use {
    const struct qr_json *options;
    const char *where;      /* path of the options */
    const uint16_t *qubits; /* the circuit's numbers, by position */
    unsigned n;             /* number of qubits, at least 1 */
    const struct qr_ansatz_host *host;
    void *at; /* the host's context */
    struct qr_err *err;
};

struct qr_ansatz {
    const char *name;
    const char *keys[QR_ANSATZ_KEYS]; /* besides the common ones */
    enum qr_code (*build)(const struct qr_ansatz_use *use);
};
/* Row i of the table; NULL after the last. */
const struct qr_ansatz *qr_ansatz_at(size_t i);
const struct qr_ansatz *qr_ansatz_of(const char *name); /* NULL: unknown */
/* A suggestion for the name of another program ("RealAmplitudes"), or NULL; static. */
const char *qr_ansatz_alias(const char *name);

#endif
