/* tests/fuzz/round_trip.h — a circuit is written as a job file's circuit, which reads back as the
 * same; its read-outs are observables. */
#ifndef ROUND_TRIP_H
#define ROUND_TRIP_H

#include "circuit/circuit_json.h"
#include "circuit/circuit_program.h"
#include "tests/same_circuit.h"

static inline void check_round_trip(const struct qr_circuit *c) {
    struct qr_buf text = {0};
    struct qr_json_writer w = qr_json_writer(&text, 0);
    struct qr_json *root = NULL;
    struct qr_circuit *again = NULL;
    struct qr_qubits readouts;
    struct qr_err err;
    qr_circuit_put_json(c, &w);
    QR_ASSERT(qr_json_parse(qr_buf_view(&text), "text", &root, &err) == QR_OK);
    QR_ASSERT(qr_circuit_from_json(root, "circuit", &again, &readouts, &err) == QR_OK);
    QR_ASSERT(same_circuit(c, again));
    qr_circuit_free(again);
    qr_json_free(root);
    qr_buf_free(&text);
}

static inline void check_readouts(const struct qr_program *p) {
    struct qr_observable o;
    struct qr_err err;
    for (size_t i = 0; i < p->n_readouts; i++)
        if (qr_observable_parse(p->readouts[i], p->circuit->n_qubits, &o, &err) == QR_OK)
            qr_observable_fini(&o);
}

#endif
