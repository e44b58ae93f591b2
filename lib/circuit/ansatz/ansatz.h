/* circuit/ansatz/ansatz.h — ansätze and encoders by name.
 *
 * A row has a name, the keys that it takes, and the function that says its gates one after the
 * other: those that somebody would write in a job file, by the names that they have there, in the
 * order of the program where the ansatz comes from. Whoever asks (the host) reads each as if it
 * stood there. So nothing here knows what a circuit is.
 * Qubits    places 0, 1, ... in the list of qubits that the ansatz is on; in keys the circuit's
 *           numbers.
 * Weights   names whose natural order is the original's order (w0_2_1: layer 0, qubit 2, angle 1).
 * Bounds    a gate that the host refuses ends the ansatz, so its cost is that of the gates that a
 *           circuit may have.
 * Errors    INVALID_ARGUMENT with the path of the value; unknown keys are the caller's.
 */
#ifndef QR_CIRCUIT_ANSATZ_ANSATZ_H
#define QR_CIRCUIT_ANSATZ_ANSATZ_H

#include "expression/expression.h"
#include "format/json.h"

enum { QR_ANSATZ_KEYS = 6, QR_ANSATZ_ANGLES = 4, QR_ANSATZ_NAME_BYTES = 64 };

/* factor * (1, the weight of this name, the input of this column, the expression of this text, the
 * number that the host has combined), in radians. */
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
    uint32_t column; /* SHARED: which */
    char name[QR_ANSATZ_NAME_BYTES];
};

struct qr_ansatz_gate {
    const char *name; /* of a gate without arguments beside angles, or "PauliRot" */
    const uint16_t *places;
    unsigned n_places, n_angles;
    const struct qr_ansatz_angle *angles;
    const char *paulis; /* of a PauliRot, not all are I */
};

/* Products of Z with their coefficients. */
struct qr_ansatz_terms {
    size_t n;
    struct {
        double coefficient;
        size_t first; /* its first place; the next term's is behind its last */
    } * terms;        /* owned, n + 1 of them */
    uint16_t *places; /* owned */
};
void qr_ansatz_terms_fini(struct qr_ansatz_terms *t);

struct qr_ansatz_host {
    enum qr_code (*add)(void *host, const struct qr_ansatz_gate *g);
    /* A number of two, each a NUMBER, an INPUT or what this gave before: SHARED. Any number of
     * others and of angles may be made of it. */
    enum qr_code (*combine)(void *host, enum qr_expression_op op, struct qr_expression_node a,
                            struct qr_expression_node b, struct qr_expression_node *ret);
    /* n numbers are about to be read: bounds the time of repeats. */
    enum qr_code (*count)(void *host, const char *path, size_t n);
    /* The gates of a list as on qubits 0 ... n - 1, on these places; before each weight's name
     * stands this. */
    enum qr_code (*add_list)(void *host, const struct qr_json *gates, const char *path,
                             const uint16_t *places, unsigned n, const char *prefix);
    /* An observable of Z alone, or a list of them, on qubits of the ansatz. */
    enum qr_code (*read_terms)(void *host, const struct qr_json *v, const char *path,
                               struct qr_ansatz_terms *ret);
    /* The first of n columns of inputs, or each of them in a list: ret[n]. NULL: from 0 on. */
    enum qr_code (*read_columns)(void *host, const struct qr_json *v, const char *path, unsigned n,
                                 uint32_t *ret);
};

struct qr_ansatz_use {
    const struct qr_json *options;
    const char *where;      /* their path */
    const uint16_t *qubits; /* the circuit's numbers, by place */
    unsigned n;             /* qubits, at least 1 */
    const struct qr_ansatz_host *host;
    void *at; /* the host's */
    struct qr_err *err;
};

struct qr_ansatz {
    const char *name;
    const char *keys[QR_ANSATZ_KEYS]; /* beside those that all have */
    enum qr_code (*build)(const struct qr_ansatz_use *use);
};
/* The table's rows; NULL behind the last. */
const struct qr_ansatz *qr_ansatz_at(size_t i);
const struct qr_ansatz *qr_ansatz_of(const char *name); /* NULL: unknown */
/* What is meant by a name that another program has ("RealAmplitudes"), or NULL. Static. */
const char *qr_ansatz_alias(const char *name);

#endif
