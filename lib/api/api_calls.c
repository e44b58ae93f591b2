/* api/api_calls.c — calls of the C interface: batches are split into micro-batches, as in a step of
 * a job, whose derivatives are added as integers. Start reading at call_all(). */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "api/api_impl.h"
#include "base/mem.h"

struct qring_sum {
    size_t n;
    uint64_t n_terms; /* exact/integer.h allows 2^22 */
    qr_fixed *value;
};
enum { MAX_TERMS = 1 << 22 };

/* ---- one call ---- */

enum call_kind { CALL_FORWARD, CALL_VJP, CALL_JACOBIAN, CALL_STATES, CALL_SAMPLE };

struct call {
    enum call_kind kind;
    struct qring_function *f;
    size_t n_samples;
    /* Results; NULL: not wanted. */
    const struct qring_array *ret_outputs, *ret_parameters, *ret_inputs, *ret_states;
    uint64_t *ret_strings, *ret_bits;
    size_t per, n_units;  /* samples of a micro-batch, number of micro-batches */
    struct qr_pool *pool; /* for the loop over micro-batches, or inside each */
    const double *weights, *x, *cotangents;
    size_t x_stride, cotangent_stride;
    size_t unit_numbers;                          /* doubles of a unit's buffer */
    double *numbers;                              /* one buffer for each workspace */
    qr_fixed *grad;                               /* n_params for each workspace */
    uint32_t *samples;                            /* numbers of a unit's, for each workspace */
    double *own_weights, *own_x, *own_cotangents; /* copies of the arguments, or NULL */
    atomic_int failed;
};

/* The buffer of a unit, in this order. */
struct unit {
    double *z, *direction, *scale, *dx, *state;
};

static struct unit call_unit(const struct call *c, unsigned worker) {
    size_t r = c->f->n_observables, columns = c->f->circuit->n_columns;
    double *p = c->numbers + worker * c->unit_numbers;
    struct unit u = {.z = p};
    u.direction = u.z + c->per * r;
    u.scale = u.direction + c->per * r;
    u.dx = u.scale + c->per;
    u.state = u.dx + c->per * columns;
    return u;
}

static void store_outputs(struct call *c, const struct unit *u, size_t first, size_t n) {
    size_t r = c->f->n_observables;
    for (size_t s = 0; s < n; s++)
        for (size_t k = 0; k < r; k++) {
            double z = u->z[s * r + k];
            if (!isfinite(z)) atomic_store(&c->failed, 1);
            if (c->ret_outputs) qr_array_set(c->ret_outputs, first + s, k, 0, z);
        }
}

/* The direction of a sweep if it is the same for all samples. */
static const double *common_direction(const struct unit *u, size_t n, size_t r) {
    for (size_t s = 1; s < n; s++)
        if (memcmp(u->direction, u->direction + s * r, r * sizeof(double)) != 0) return NULL;
    return u->direction;
}

/* One forward and one backward sweep in u->direction; grad is added to. */
static bool call_sweep(struct call *c, struct qr_sim_workspace *ws, struct qr_pool *pool,
                       const struct unit *u, size_t first, size_t n, qr_fixed *grad) {
    struct qring_function *f = c->f;
    const double *x = c->x ? c->x + first * c->x_stride : NULL;
    qr_sim_forward_for_gradient(f->bound, ws, pool, x, c->x_stride, n,
                                common_direction(u, n, f->n_observables), u->z);
    return qr_sim_backward(f->bound, ws, pool, u->direction, u->scale, grad, u->dx);
}

static void store_inputs(const struct call *c, const struct unit *u, size_t first, size_t n,
                         size_t readout) {
    size_t columns = c->f->circuit->n_columns;
    for (size_t s = 0; c->ret_inputs && s < n; s++)
        for (size_t k = 0; k < columns; k++) {
            double v = u->dx[s * columns + k];
            if (c->kind == CALL_VJP) qr_array_set(c->ret_inputs, first + s, k, 0, v);
            else qr_array_set(c->ret_inputs, first + s, readout, k, v);
        }
}

static bool call_vjp(struct call *c, struct qr_sim_workspace *ws, struct qr_pool *pool,
                     const struct unit *u, size_t first, size_t n, qr_fixed *grad) {
    size_t r = c->f->n_observables;
    for (size_t s = 0; s < n; s++) {
        const double *cotangent = c->cotangents + (first + s) * c->cotangent_stride;
        /* A step of a job scales the derivatives of one read-out, and directs those of more. */
        u->scale[s] = r == 1 ? *cotangent : 1;
        if (r == 1) u->direction[s] = 1;
        else memcpy(u->direction + s * r, cotangent, r * sizeof(double));
    }
    if (!call_sweep(c, ws, pool, u, first, n, grad)) return false;
    store_inputs(c, u, first, n, 0);
    return true;
}

static bool call_jacobian(struct call *c, struct qr_sim_workspace *ws, struct qr_pool *pool,
                          const struct unit *u, size_t first, size_t n, qr_fixed *grad) {
    size_t r = c->f->n_observables, n_params = c->f->circuit->n_params;
    for (size_t s = 0; s < n; s++) u->scale[s] = 1;
    for (size_t k = 0; k < r; k++) {
        memset(u->direction, 0, n * r * sizeof(double));
        for (size_t s = 0; s < n; s++) u->direction[s * r + k] = 1;
        memset(grad, 0, n_params * sizeof *grad);
        if (!call_sweep(c, ws, pool, u, first, n, grad)) return false;
        store_inputs(c, u, first, n, k);
        for (size_t i = 0; c->ret_parameters && i < n_params; i++)
            qr_array_set(c->ret_parameters, first, k, i, qr_fixed_to_double(grad[i]));
    }
    return true;
}

static void call_states(struct call *c, struct qr_sim_workspace *ws, struct qr_pool *pool,
                        const struct unit *u, size_t first, size_t n) {
    size_t amplitudes = (size_t)1 << c->f->circuit->n_qubits;
    const double *x = c->x ? c->x + first * c->x_stride : NULL;
    qr_sim_states(c->f->bound, ws, pool, x, c->x_stride, n, u->state);
    for (size_t s = 0; s < n; s++)
        for (size_t i = 0; i < amplitudes; i++)
            for (size_t k = 0; k < 2; k++)
                qr_array_set(c->ret_states, first + s, i, k,
                             u->state[(s * amplitudes + i) * 2 + k]);
}

/* Random numbers depend on the number of the sample in the call, not on its micro-batch. */
static void call_set_draw(const struct call *c, struct qr_sim_workspace *ws, size_t first, size_t n,
                          unsigned worker) {
    uint32_t *sample = c->samples + worker * c->per;
    for (size_t s = 0; s < n; s++) sample[s] = (uint32_t)(first + s);
    qr_sim_set_draw(ws, &(struct qr_sim_draw){.key = c->f->draw_key, .sample = sample});
}

static void call_task(void *ctx, size_t unit, unsigned worker) {
    struct call *c = ctx;
    struct qring_function *f = c->f;
    size_t first = unit * c->per, left = c->n_samples - first, n = left < c->per ? left : c->per;
    struct qr_pool *inner = qr_sim_threads_share(f->plan) ? c->pool : NULL;
    struct qr_sim_workspace *ws = f->workspaces[worker];
    qr_fixed *grad = c->grad + worker * f->circuit->n_params;
    struct unit u = call_unit(c, worker);
    const double *x = c->x ? c->x + first * c->x_stride : NULL;
    bool fine = true;
    call_set_draw(c, ws, first, n, worker);
    if (c->kind == CALL_FORWARD) qr_sim_forward(f->bound, ws, inner, x, c->x_stride, n, u.z);
    else if (c->kind == CALL_SAMPLE)
        fine =
            qr_sim_sample(f->bound, ws, inner, x, c->x_stride, n, c->ret_strings + first * f->shots,
                          c->ret_bits ? c->ret_bits + first * f->shots : NULL);
    else if (c->kind == CALL_VJP) fine = call_vjp(c, ws, inner, &u, first, n, grad);
    else if (c->kind == CALL_JACOBIAN) fine = call_jacobian(c, ws, inner, &u, first, n, grad);
    else call_states(c, ws, inner, &u, first, n);
    if (c->kind != CALL_STATES) store_outputs(c, &u, first, n);
    if (!fine) atomic_store(&c->failed, 1);
}

static void call_bind(struct call *c) {
    struct qring_function *f = c->f;
    size_t bytes = f->circuit->n_params * sizeof(double);
    if (f->is_bound && (!bytes || memcmp(f->bound_weights, c->weights, bytes) == 0)) return;
    if (bytes) memcpy(f->bound_weights, c->weights, bytes);
    qr_sim_bind(f->bound, f->bound_weights, c->pool);
    f->is_bound = true;
}

static enum qr_code call_buffers(struct call *c, unsigned n, struct qr_err *err) {
    const struct qring_function *f = c->f;
    size_t r = f->n_observables, columns = f->circuit->n_columns, n_params = f->circuit->n_params;
    size_t state = c->kind == CALL_STATES ? (size_t)2 << f->circuit->n_qubits : 0;
    c->unit_numbers = c->per * (2 * r + 1 + columns + state);
    void *p;
    QR_TRY(qr_large_new(n * c->unit_numbers, sizeof *c->numbers, "results of samples", &p, err));
    c->numbers = p;
    QR_TRY(qr_large_new(n * n_params, sizeof *c->grad, "sums of derivatives", &p, err));
    c->grad = p;
    QR_TRY(qr_large_new(n * c->per, sizeof *c->samples, "numbers of samples", &p, err));
    c->samples = p;
    return QR_OK;
}

static enum qr_code call_prepare(struct call *c, const struct qring_array *parameters,
                                 const struct qring_array *inputs,
                                 const struct qring_array *cotangents, struct qr_err *err) {
    const struct qring_function *f = c->f;
    size_t unused, r = f->n_observables;
    if (c->n_samples > MAX_TERMS)
        return qr_fail(err, QR_INVALID_ARGUMENT,
                       "cannot call with %zu samples: at most %d in one call; split the batch",
                       c->n_samples, (int)MAX_TERMS);
    struct qring_array column = parameters ? *parameters : (struct qring_array){0};
    column.strides[1] = column.strides[0]; /* [P] as one row */
    QR_TRY(qr_array_doubles(&column, "parameters", 1, f->circuit->n_params, &c->own_weights,
                            &c->weights, &unused, err));
    QR_TRY(qr_array_doubles(inputs, "inputs", c->n_samples, f->circuit->n_columns, &c->own_x, &c->x,
                            &c->x_stride, err));
    if (c->kind == CALL_VJP)
        QR_TRY(qr_array_doubles(cotangents, "cotangents", c->n_samples, r, &c->own_cotangents,
                                &c->cotangents, &c->cotangent_stride, err));
    bool any = c->n_samples;
    QR_TRY(qr_array_check(c->ret_outputs, "outputs",
                          any && (c->ret_outputs || c->kind == CALL_FORWARD), err));
    QR_TRY(qr_array_check(c->ret_parameters, "derivatives by parameters",
                          c->ret_parameters && f->circuit->n_params, err));
    if (any && c->kind == CALL_SAMPLE && !c->ret_strings)
        return qr_fail(err, QR_INVALID_ARGUMENT, "cannot draw bit strings: ret is NULL");
    QR_TRY(qr_array_check(c->ret_states, "states", any && c->kind == CALL_STATES, err));
    return qr_array_check(c->ret_inputs, "derivatives by inputs",
                          any && c->ret_inputs && f->circuit->n_columns, err);
}

/* The strength of a channel that is out of range, else no reason is known. */
static enum qr_code fail_call(const struct qring_function *f, struct qr_err *err) {
    struct qr_err why;
    for (size_t i = 0; i < f->circuit->n_channels; i++)
        if (qr_channel_check_at(&f->circuit->channels[i], f->bound_weights, &why))
            return qr_fail(err, QR_OUT_OF_RANGE, "cannot compute: %s", why.msg);
    return qr_fail(err, QR_OUT_OF_RANGE,
                   "cannot compute: a value or a derivative is not finite or reaches 2^40; look "
                   "at the parameters, inputs and coefficients");
}

/* Computes all micro-batches; afterwards c->grad has the sums by parameters. */
static enum qr_code call_run(struct call *c, struct qr_err *err) {
    struct qring_function *f = c->f;
    size_t n_params = f->circuit->n_params;
    c->n_units = (c->n_samples + c->per - 1) / c->per;
    bool pooled = c->n_units > (qr_sim_threads_share(f->plan) ? 0 : 1);
    c->pool = pooled ? qr_api_pool(f) : NULL;
    unsigned n = f->in_parallel && c->n_units > 1 ? qr_pool_size(c->pool) : 1;
    QR_TRY(call_buffers(c, n, err));
    QR_TRY(qr_api_reserve(f, n, c->per, err));
    call_bind(c);
    if (f->in_parallel) qr_pool_for(c->pool, c->n_units, call_task, c);
    else
        for (size_t i = 0; i < c->n_units; i++) call_task(c, i, 0);
    if (atomic_load(&c->failed)) return fail_call(f, err);
    for (unsigned i = 1; i < n; i++) qr_fixed_add(c->grad, c->grad + i * n_params, n_params);
    return QR_OK;
}

static void call_fini(struct call *c) {
    free(c->numbers);
    free(c->grad);
    free(c->samples);
    free(c->own_x);
    free(c->own_cotangents);
    free(c->own_weights);
}

static enum qr_code call_sum_check(const struct call *c, const struct qring_sum *sum,
                                   struct qr_err *err) {
    if (sum->n != c->f->circuit->n_params)
        return qr_fail(err, QR_INVALID_ARGUMENT,
                       "cannot add to a sum of %zu numbers: the function has %u parameters", sum->n,
                       c->f->circuit->n_params);
    if (sum->n_terms + c->n_samples > MAX_TERMS)
        return qr_fail(err, QR_OUT_OF_RANGE,
                       "cannot add %zu terms to a sum of %llu: at most %d are exact; begin a new "
                       "sum",
                       c->n_samples, (unsigned long long)sum->n_terms, (int)MAX_TERMS);
    return QR_OK;
}

static enum qr_code call_check(const struct call *c, const struct qring_sum *sum,
                               struct qr_err *err) {
    const struct qring_function *f = c->f;
    bool wants_states = c->kind == CALL_STATES, wants_strings = c->kind == CALL_SAMPLE;
    if (f->states != wants_states)
        return qr_fail(err, QR_UNIMPLEMENTED,
                       "cannot compute %s: the function was compiled %s `states`; compile it %s",
                       wants_states    ? "states"
                       : wants_strings ? "bit strings"
                                       : "expectation values or derivatives",
                       f->states ? "for" : "without", f->states ? "without" : "with `states`");
    if (!f->states && wants_strings == (f->n_observables > 0))
        return qr_fail(err, QR_UNIMPLEMENTED,
                       "cannot compute %s: the function was compiled %s observables; compile it %s",
                       wants_strings ? "bit strings" : "expectation values or derivatives",
                       wants_strings ? "with" : "without",
                       wants_strings ? "with `shots` alone" : "with some");
    if (c->ret_inputs && f->circuit->n_columns && !f->input_gradients)
        return qr_fail(err, QR_UNIMPLEMENTED,
                       "cannot compute derivatives by inputs: compile the function with "
                       "input_gradients");
    return sum ? call_sum_check(c, sum, err) : QR_OK;
}

/* The results of a vjp that are sums over all samples. */
static void call_store_sums(const struct call *c, struct qring_sum *sum) {
    size_t n = c->f->circuit->n_params;
    if (sum) {
        qr_fixed_add(sum->value, c->grad, n);
        sum->n_terms += c->n_samples;
    }
    for (size_t i = 0; c->ret_parameters && i < n; i++)
        qr_array_set(c->ret_parameters, i, 0, 0, qr_fixed_to_double(c->grad[i]));
}

static enum qring_code call_all(struct call *c, const struct qring_array *parameters,
                                const struct qring_array *inputs,
                                const struct qring_array *cotangents, struct qring_sum *sum,
                                struct qring_error *ret_err) {
    struct qr_err err = {0};
    struct qr_number_env env;
    enum qr_code code = qr_api_begin(&c->f->busy, "function", &env, &err);
    if (code != QR_OK) return qr_api_report(ret_err, code, &err);
    /* A sum, and the derivatives of one sample by parameters, want micro-batches of one sample. */
    bool single = sum || (c->kind == CALL_JACOBIAN && c->ret_parameters);
    c->per = single ? 1 : qr_sim_micro_batch_size(c->f->plan, c->n_samples ? c->n_samples : 1);
    code = call_check(c, sum, &err);
    if (code == QR_OK) code = call_prepare(c, parameters, inputs, cotangents, &err);
    if (code == QR_OK) code = call_run(c, &err);
    if (code == QR_OK && c->kind == CALL_VJP) call_store_sums(c, sum);
    call_fini(c);
    qr_api_end(&c->f->busy, &env);
    return qr_api_report(ret_err, code, &err);
}

/* ---- the interface ---- */

enum qring_code qring_forward(struct qring_function *f, const struct qring_array *parameters,
                              const struct qring_array *inputs, size_t n_samples,
                              const struct qring_array *ret, struct qring_error *err) {
    struct call c = {.kind = CALL_FORWARD, .f = f, .n_samples = n_samples, .ret_outputs = ret};
    return call_all(&c, parameters, inputs, NULL, NULL, err);
}

enum qring_code qring_vjp(struct qring_function *f, const struct qring_array *parameters,
                          const struct qring_array *inputs, size_t n_samples,
                          const struct qring_array *cotangents,
                          const struct qring_array *ret_outputs,
                          const struct qring_array *ret_parameters,
                          const struct qring_array *ret_inputs, struct qring_sum *sum,
                          struct qring_error *err) {
    struct call c = {.kind = CALL_VJP,
                     .f = f,
                     .n_samples = n_samples,
                     .ret_outputs = ret_outputs,
                     .ret_parameters = ret_parameters,
                     .ret_inputs = ret_inputs};
    return call_all(&c, parameters, inputs, cotangents, sum, err);
}

enum qring_code qring_jacobian(struct qring_function *f, const struct qring_array *parameters,
                               const struct qring_array *inputs, size_t n_samples,
                               const struct qring_array *ret_outputs,
                               const struct qring_array *ret_parameters,
                               const struct qring_array *ret_inputs, struct qring_error *err) {
    struct call c = {.kind = CALL_JACOBIAN,
                     .f = f,
                     .n_samples = n_samples,
                     .ret_outputs = ret_outputs,
                     .ret_parameters = ret_parameters,
                     .ret_inputs = ret_inputs};
    return call_all(&c, parameters, inputs, NULL, NULL, err);
}

enum qring_code qring_states(struct qring_function *f, const struct qring_array *parameters,
                             const struct qring_array *inputs, size_t n_samples,
                             const struct qring_array *ret, struct qring_error *err) {
    struct call c = {.kind = CALL_STATES, .f = f, .n_samples = n_samples, .ret_states = ret};
    return call_all(&c, parameters, inputs, NULL, NULL, err);
}

enum qring_code qring_sample(struct qring_function *f, const struct qring_array *parameters,
                             const struct qring_array *inputs, size_t n_samples, uint64_t *ret,
                             struct qring_error *err) {
    return qring_sample_bits(f, parameters, inputs, n_samples, ret, NULL, err);
}

enum qring_code qring_sample_bits(struct qring_function *f, const struct qring_array *parameters,
                                  const struct qring_array *inputs, size_t n_samples, uint64_t *ret,
                                  uint64_t *ret_bits, struct qring_error *err) {
    struct call c = {.kind = CALL_SAMPLE,
                     .f = f,
                     .n_samples = n_samples,
                     .ret_strings = ret,
                     .ret_bits = ret_bits};
    return call_all(&c, parameters, inputs, NULL, NULL, err);
}

/* ---- exact sums ---- */

struct qring_sum *qring_sum_new(size_t n) {
    struct qr_err err;
    struct qr_number_env env;
    void *p;
    qr_number_env_enter(&env);
    enum qr_code code = qr_large_new(n, sizeof(qr_fixed), "a sum", &p, &err);
    qr_number_env_leave(&env);
    if (code != QR_OK) return NULL;
    struct qring_sum *s = qr_xcalloc(1, sizeof *s);
    s->n = n;
    s->value = p;
    return s;
}

void qring_sum_free(struct qring_sum *s) {
    if (!s) return;
    free(s->value);
    free(s);
}

enum qring_code qring_sum_add(struct qring_sum *s, const struct qring_sum *other,
                              struct qring_error *ret_err) {
    struct qr_err err = {0};
    enum qr_code code = QR_OK;
    if (s->n != other->n)
        code = qr_fail(&err, QR_INVALID_ARGUMENT, "cannot add a sum of %zu numbers to one of %zu",
                       other->n, s->n);
    else if (s->n_terms + other->n_terms > MAX_TERMS)
        code = qr_fail(&err, QR_OUT_OF_RANGE,
                       "cannot add sums of more than %d terms in all: they would not be exact",
                       (int)MAX_TERMS);
    if (code == QR_OK) {
        for (size_t i = 0; i < s->n; i++) s->value[i] += other->value[i];
        s->n_terms += other->n_terms;
    }
    return qr_api_report(ret_err, code, &err);
}

enum qring_code qring_sum_values(const struct qring_sum *s, const struct qring_array *ret,
                                 struct qring_error *ret_err) {
    struct qr_err err = {0};
    struct qr_number_env env;
    qr_number_env_enter(&env);
    enum qr_code code = qr_array_check(ret, "ret", s->n, &err);
    for (size_t i = 0; code == QR_OK && i < s->n; i++)
        qr_array_set(ret, i, 0, 0, qr_fixed_to_double(s->value[i]));
    qr_number_env_leave(&env);
    return qr_api_report(ret_err, code, &err);
}
