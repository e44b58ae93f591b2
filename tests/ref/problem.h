/* tests/ref/problem.h — circuits with read-outs, samples and directions, and the answers of sim's
 * engines to them, beside those of the dense reference. */
#ifndef TESTS_REF_PROBLEM_H
#define TESTS_REF_PROBLEM_H

#include "base/mem.h"
#include "base/pool.h"
#include "circuit/qcnn.h"
#include "sim/sim.h"
#include "tests/ref/dense.h"
#include "tests/t.h"

enum { MAX_OBS = 8, MAX_SAMPLES = 20, MAX_PARAMS = 256, MAX_COLUMNS = 32 };

struct problem {
    struct qr_circuit *c;
    struct qr_observable obs[MAX_OBS];
    size_t n_obs, n_samples;
    double *theta, *x, *direction, *scale; /* direction: sample-major */
};
struct answer {
    double z[MAX_SAMPLES * MAX_OBS];
    qr_fixed grad[MAX_PARAMS];
    double dx[MAX_SAMPLES * MAX_COLUMNS]; /* 0 where no input is wanted */
    bool ok;
    char engine[64];
};

/* Allocates the arrays of p, zeroed, for its c, n_obs and n_samples. */
void problem_alloc(struct problem *p, size_t n_columns);
/* Draws read-outs and numbers for p's c and n_samples. */
void problem_draw(struct problem *p, uint64_t seed);
void problem_fini(struct problem *p);
/* Sample s of p; borrows its arrays. */
struct problem sample_of(const struct problem *p, size_t s);
/* A QCNN of `stages` stages (0: down to one qubit) with random parameters, an angle on every qubit,
 * and these read-outs. */
struct problem qcnn_problem(unsigned n, unsigned stages, size_t n_samples, const char *const *obs,
                            size_t n_obs, uint64_t seed);
/* The same with read-outs on the qubits left after the stages: Z on the last, Z on each, or strings
 * with X and Y too. */
enum kind { LAST, EACH, MIXED };
struct problem case_of(unsigned n, unsigned stages, enum kind kind, size_t samples);

/* Runs c and obs, which are those of p or the same on other qubits. known: the directions of all
 * samples, passed to the forward sweep; or NULL. */
struct answer answer_of(const struct problem *p, const struct qr_circuit *c,
                        const struct qr_observable *obs, const struct qr_sim_options *opt,
                        unsigned threads, const double *known);
/* Equal to the last bit. */
bool answer_equal(const struct answer *a, const struct answer *b);

/* ---- against the dense reference ---- */

/* By precision, single and double; as shares of the largest number of the same kind. */
struct deviation {
    double tolerance[2];
    double worst[2]; /* of all checks so far */
};
/* Checks that `got` is within the tolerance of `want`. top: the largest number of the same kind. */
void off_by(struct deviation *d, const char *what, double got, double want, double top,
            enum qr_precision precision, uint64_t seed);
/* Checks read-outs, the gradient and, where wanted is not NULL, the derivatives by those inputs. */
void check_against_dense(struct deviation *d, const struct problem *p, const struct answer *a,
                         const uint8_t *wanted, enum qr_precision precision, uint64_t seed);

#endif
