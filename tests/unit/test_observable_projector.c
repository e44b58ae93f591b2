/* Projectors: their expectation values are probabilities of bit strings of random states;
 * "projector" and "probs" in jobs, and forms that are rejected. */
#include "job/job.h"
#include "observable/projector.h"
#include "tests/ref/dense.h"
#include "tests/t.h"

#include <math.h>

/* Sums of at most 16 terms below 1. */
static void test_probabilities(void) {
    static const uint16_t qubits[] = {2, 0, 3};
    for (uint64_t seed = 1; seed <= 10; seed++) {
        struct qr_circuit *c = ref_random_circuit(seed, 4, 12);
        double theta[64], x[4], sum = 0;
        double complex state[16];
        ref_random_numbers(seed, 64, -1, 1, theta);
        ref_random_numbers(seed, 4, -1, 1, x);
        ref_state(c, theta, x, state);
        for (uint64_t bits = 0; bits < 8; bits++) {
            struct qr_observable o = qr_projector(qubits, 3, bits);
            double z, p = 0;
            for (unsigned i = 0; i < 16; i++) {
                bool same = true; /* qubit q is bit 3 - q of i */
                for (unsigned k = 0; k < 3; k++)
                    same &= (i >> (3 - qubits[k]) & 1) == (bits >> (2 - k) & 1);
                if (same) p += pow(cabs(state[i]), 2);
            }
            ref_expectation(c, theta, x, &o, 1, &z);
            CHECK(fabs(z - p) < 1e-14, "%s: %g, not %g", o.text, z, p);
            sum += z;
            qr_observable_fini(&o);
        }
        CHECK(fabs(sum - 1) < 1e-14, "%g", sum);
        qr_circuit_free(c);
    }
    struct qr_observable o = qr_projector(qubits, 3, 4);
    CHECK(strcmp(o.text, "projector 100 on 2 0 3") == 0, "%s", o.text);
    qr_observable_fini(&o);
}

static void test_jobs(void) {
    static const struct {
        const char *readouts, *error; /* NULL: accepted */
        size_t n;
    } rows[] = {
        {"[{\"probs\": [0, 2]}, \"Z1\", {\"projector\": \"011\"}]", NULL, 6},
        {"[{\"projector\": \"01\", \"qubits\": [2, 0]}]", NULL, 1},
        {"[{\"projector\": \"01\"}]", "model[0].readouts[0].projector must have 3 digits", 0},
        {"[{\"projector\": \"021\"}]", "must have 3 digits", 0},
        {"[{\"projector\": \"01\", \"qubits\": [1, 1]}]", "qubit 1 is given twice", 0},
        {"[{\"projector\": \"01\", \"qubits\": [1, 3]}]", "model[0].readouts[0].qubits[1]", 0},
        {"[{\"probs\": []}]", "0 qubits; give 1 to 12", 0},
        {"[\"Z0\", {\"probs\": [0], \"qubits\": [1]}]", "unknown key 'qubits'", 0},
        {"[{\"probs\": \"0\"}]", "model[0].readouts[0].probs", 0},
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct qr_err err;
        struct qr_job *job = NULL;
        char text[1024];
        int n = snprintf(
            text, sizeof text,
            "{\"model\": [{\"layer\": \"quantum\", \"circuit\": {\"qubits\": 3, \"gates\": "
            "[{\"gate\": \"RX\", \"qubits\": [0], \"angle\": \"w\"}]}, \"readouts\": %s}, "
            "{\"layer\": \"dense\", \"units\": 1}], \"data\": {\"source\": \"none\"}, "
            "\"train\": {\"loss\": \"expectation\"}}",
            rows[i].readouts);
        enum qr_code code =
            qr_job_parse((struct qr_bytes){(const uint8_t *)text, (size_t)n}, "job", &job, &err);
        CHECK((code == QR_OK) == !rows[i].error, "%s: %s", rows[i].readouts, err.msg);
        if (code == QR_OK) {
            CHECK(job->layers[0].quantum.n_readouts == rows[i].n, "%s", rows[i].readouts);
            qr_job_free(job);
        } else {
            CHECK(strstr(err.msg, rows[i].error), "%s: %s", rows[i].readouts, err.msg);
        }
    }
}

int main(void) {
    test_probabilities();
    test_jobs();
    return t_end();
}
