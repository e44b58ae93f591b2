/* data/excitations.c — the data of TFQ's tutorial (generate_data in qcnn_common.py): one RX of a
 * random angle on each qubit in turn of a cluster state; the label is +1 for angles of at most
 * pi/2. */
#include <math.h>

#include "data/dataset_impl.h"
#include "exact/random.h"

enum qr_code qr_excitations(const struct qr_data_options *opt, struct qr_dataset *ret,
                            struct qr_err *err) {
    size_t n_qubits = opt->qubits;
    if (opt->rounds < 1 || n_qubits < 1)
        return qr_fail(err, QR_INVALID_ARGUMENT,
                       "cluster-excitations: %u rounds on %zu qubits; both must be at least 1",
                       opt->rounds, n_qubits);
    if (opt->n_columns && opt->n_columns != n_qubits)
        return qr_fail(
            err, QR_INVALID_ARGUMENT,
            "cluster-excitations: one column per qubit makes %zu, but the model takes %zu; correct "
            "one of them",
            n_qubits, opt->n_columns);
    size_t n_outputs = opt->no_labels ? 0 : opt->n_outputs ? opt->n_outputs : 1;
    if (n_outputs > 1 && !opt->one_label_for_all)
        return qr_fail(err, QR_INVALID_ARGUMENT,
                       "cluster-excitations: labels are +1 or -1, but the model has %zu outputs "
                       "and its loss takes class numbers",
                       n_outputs);
    QR_TRY(qr_dataset_alloc(ret, opt->rounds * n_qubits, n_qubits, n_outputs, false, err));
    ret->label_for_all = n_outputs > 1;
    for (unsigned round = 0; round < opt->rounds; round++)
        for (size_t q = 0; q < n_qubits; q++) {
            size_t sample = round * n_qubits + q;
            double angle =
                -M_PI + 2 * M_PI * qr_random_uniform(opt->seed, QR_RANDOM_DATA, round, q);
            ret->x[sample * n_qubits + q] = angle;
            for (size_t k = 0; k < n_outputs; k++)
                ret->y[sample * n_outputs + k] = fabs(angle) <= M_PI_2 ? 1 : -1;
        }
    return QR_OK;
}
