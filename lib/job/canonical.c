/* job/canonical.c — writes the effective settings of a job as text and hashes it. Start reading at
 * qr_job_canonical(). */
#include "job/canonical.h"

#include <stdio.h>
#include <string.h>

#include "base/checksum.h"
#include "base/mem.h"
#include "base/parse.h"

/* Another version computes other bits. The Makefile builds a worker of one for
 * tests/it/upgrade.sh. */
#ifndef QR_CONTRACT_VERSION
#define QR_CONTRACT_VERSION "v1"
#endif

const char *qr_contract_name(enum qr_precision p) {
    return p == QR_DOUBLE ? "f64-" QR_CONTRACT_VERSION : "f32-" QR_CONTRACT_VERSION;
}

static void add_field(struct qr_job_canonical *c, const char *name, struct qr_buf *value) {
    c->fields = qr_xreallocarray(c->fields, c->n + 1, sizeof *c->fields);
    c->fields[c->n++] =
        (struct qr_job_field){.name = qr_xstrdup(name), .value = qr_xstrdup(qr_buf_string(value))};
    qr_buf_clear(value);
}

static void put_digest(struct qr_buf *b, const void *p, size_t n) {
    uint8_t digest[QR_SHA256_BYTES];
    char hex[2 * QR_SHA256_BYTES + 1];
    qr_sha256(p, n, digest);
    qr_hex(digest, sizeof digest, hex);
    qr_buf_puts(b, hex);
}

/* As one hexadecimal number, bit q for qubit q. */
static void put_qubits(struct qr_buf *b, const struct qr_qubits *s) {
    unsigned w = qr_qubits_is_empty(s) ? 0 : qr_qubits_last(s) / 64;
    qr_buf_printf(b, "%llx", (unsigned long long)s->word[w]);
    while (w-- > 0) qr_buf_printf(b, "%016llx", (unsigned long long)s->word[w]);
}

static void put_arguments(struct qr_buf *b, const struct qr_gate_arg *a, unsigned n) {
    for (unsigned k = 0; k < n; k++)
        qr_buf_printf(b, " %d:%u*%.17g", (int)a[k].kind, a[k].index, a[k].scale);
    qr_buf_puts(b, "\n");
}

/* The measured bit, and the condition. */
static void put_bits(struct qr_buf *b, const struct qr_circuit *c, const struct qr_gate *g) {
    if (g->bit) qr_buf_printf(b, " bit %u", g->bit - 1);
    if (!g->condition) return;
    qr_buf_puts(b, " if ");
    put_qubits(b, &c->conditions.list[g->condition - 1].bits);
    qr_buf_puts(b, "=");
    put_qubits(b, &c->conditions.list[g->condition - 1].values);
}

static void put_channel(struct qr_buf *b, const struct qr_channel *c, const struct qr_gate *g) {
    size_t n = c->n_kraus * (c->info->n_targets == 1 ? 4u : 16u);
    qr_buf_printf(b, "channel %s %u %u", c->info->names[0], g->targets[0],
                  g->n_targets > 1 ? g->targets[1] : 0);
    for (size_t i = 0; i < n; i++)
        qr_buf_printf(b, " %.17g,%.17g", creal(c->kraus[i]), cimag(c->kraus[i]));
    put_arguments(b, c->args, c->info->n_args);
}

/* Every gate, argument and control in program order: the same text however the circuit was
 * written. */
static void put_gates(struct qr_buf *b, const struct qr_circuit *c) {
    for (size_t i = 0; i < c->n_gates; i++) {
        const struct qr_gate *g = &c->gates[i];
        put_bits(b, c, g);
        if (g->kind == QR_GATE_CHANNEL) {
            put_channel(b, &c->channels[g->channel], g);
            continue;
        }
        qr_buf_printf(b, "%s %u %u g%.17g c", qr_gate_info(g->kind)->name, g->targets[0],
                      g->n_targets > 1 ? g->targets[1] : 0, g->global_shift);
        put_qubits(b, &g->controls);
        qr_buf_puts(b, "=");
        put_qubits(b, &g->control_values);
        put_arguments(b, g->args, g->n_args);
    }
    for (unsigned q = 0; c->readout_errors && q < c->n_qubits; q++)
        qr_buf_printf(b, "readout %u %.17g %.17g\n", q, c->readout_errors[q][0],
                      c->readout_errors[q][1]);
    for (unsigned i = 0; i < c->n_params; i++) qr_buf_printf(b, "%s\n", c->param_names[i]);
    for (size_t i = 0; i < c->n_expressions; i++) {
        qr_buf_printf(b, "expression %zu ", i);
        qr_expression_print(&c->expressions[i], 1, NULL, b);
        qr_buf_puts(b, "\n");
    }
}

/* Fields of a quantum layer after the first have its number as suffix. */
static void add_nth(struct qr_job_canonical *c, const char *name, size_t n, struct qr_buf *v) {
    char numbered[32];
    if (n) snprintf(numbered, sizeof numbered, "%s_%zu", name, n);
    add_field(c, n ? numbered : name, v);
}

static void add_circuit(struct qr_job_canonical *c, const struct qr_quantum_options *q, size_t n,
                        struct qr_buf *v) {
    struct qr_buf gates = {0};
    put_gates(&gates, q->circuit);
    qr_buf_printf(v, "%u qubits, %zu gates, %u parameters, sha256 ", q->circuit->n_qubits,
                  q->circuit->n_gates, q->circuit->n_params);
    put_digest(v, gates.p, gates.n);
    qr_buf_free(&gates);
    add_nth(c, "circuit", n, v);
    for (size_t i = 0; i < q->n_readouts; i++)
        qr_buf_printf(v, "%s%s", i ? "; " : "", q->readouts[i].text);
    add_nth(c, "readouts", n, v);
    qr_buf_printf(v, "%u", q->n_filters);
    add_nth(c, "filters", n, v);
    if (qr_circuit_is_noisy(q->circuit)) {
        qr_buf_printf(v, "%s, %u trajectories", qr_method_names[q->method], q->n_trajectories);
        add_nth(c, "noise", n, v);
    }
    if (q->gradient) {
        qr_buf_puts(v, "parameter-shift");
        add_nth(c, "gradient", n, v);
    }
    if (q->shots) {
        qr_buf_printf(v, "%u", q->shots);
        add_nth(c, "shots", n, v);
    }
    for (size_t i = 0; i < q->n_watched; i++)
        qr_buf_printf(v, "%s%s: %s", i ? "; " : "", q->watched_names[i], q->watched[i].text);
    if (q->n_watched) add_nth(c, "watch", n, v);
}

static void add_circuits(struct qr_job_canonical *c, const struct qr_job *job, struct qr_buf *v) {
    for (size_t n = 0, i; (i = qr_job_quantum(job, n)) < job->n_layers; n++)
        add_circuit(c, &job->layers[i].quantum, n, v);
}

static void add_layers(struct qr_job_canonical *c, const struct qr_job *job, struct qr_buf *v) {
    for (size_t i = 0; i < job->n_layers; i++) {
        const struct qr_layer_options *l = &job->layers[i];
        qr_buf_printf(v, "%s%s", i ? ", " : "", qr_layer_names[l->kind]);
        if (l->kind == QR_LAYER_ACTIVATION)
            qr_buf_printf(v, " %s", qr_activation_names[l->activation]);
        if (l->kind == QR_LAYER_DROPOUT) qr_buf_printf(v, " %.17g", l->dropout.rate);
        if (l->kind == QR_LAYER_SCALE)
            qr_buf_printf(v, " %.17g %.17g", l->scale.factor, l->scale.offset);
        if (l->frozen) qr_buf_puts(v, " frozen");
        if (l->name) qr_buf_printf(v, " '%s'", l->name);
    }
    add_field(c, "layers", v);
}

static void add_rate(struct qr_job_canonical *c, const struct qr_optimizer_options *o,
                     struct qr_buf *v) {
    const struct qr_rate_schedule *s = &o->schedule;
    char rate[32]; /* as the user wrote it: shown on a mismatch */
    qr_number_text(o->learning_rate, rate);
    qr_buf_puts(v, rate);
    add_field(c, "learning_rate", v);
    if (s->kind != QR_SCHEDULE_CONSTANT) {
        qr_buf_printf(v, "%d decay_steps=%llu decay_rate=%.17g staircase=%d alpha=%.17g",
                      (int)s->kind, (unsigned long long)s->decay_steps, s->decay_rate, s->staircase,
                      s->alpha);
        if (s->kind == QR_SCHEDULE_COSINE_RESTARTS)
            qr_buf_printf(v, " t_mul=%.17g m_mul=%.17g", s->t_mul, s->m_mul);
        if (s->kind == QR_SCHEDULE_POLYNOMIAL)
            qr_buf_printf(v, " end=%.17g power=%.17g cycle=%d", s->end, s->power, s->cycle);
        for (size_t i = 0; i < s->n_boundaries; i++)
            qr_buf_printf(v, " to=%llu then=%.17g", (unsigned long long)s->boundaries[i],
                          s->values[i + 1]);
        add_field(c, "schedule", v);
    }
    if (s->warmup_steps) {
        qr_buf_printf(v, "steps=%llu from=%.17g", (unsigned long long)s->warmup_steps,
                      s->warmup_from);
        add_field(c, "warmup", v);
    }
}

static void add_optimizer(struct qr_job_canonical *c, const struct qr_optimizer_options *o,
                          struct qr_buf *v) {
    char momentum[32], rho[32], beta_1[32], beta_2[32], epsilon[32];
    qr_number_text(o->momentum, momentum);
    qr_number_text(o->rho, rho);
    qr_number_text(o->beta_1, beta_1);
    qr_number_text(o->beta_2, beta_2);
    qr_number_text(o->epsilon, epsilon);
    qr_buf_printf(
        v,
        "%s momentum=%s nesterov=%d rho=%s centered=%d beta_1=%s beta_2=%s epsilon=%s amsgrad=%d",
        qr_optimizer_names[o->kind], momentum, o->nesterov, rho, o->centered, beta_1, beta_2,
        epsilon, o->amsgrad);
    if (o->kind == QR_ADAGRAD)
        qr_buf_printf(v, " initial_accumulator=%.17g", o->initial_accumulator);
    if (o->kind == QR_SPSA)
        qr_buf_printf(v, " perturbation=%.17g stability=%.17g alpha=%.17g gamma=%.17g",
                      o->perturbation, o->stability, o->alpha, o->gamma);
    if (o->kind == QR_NATURAL_GRADIENT)
        qr_buf_printf(v, " regularization=%.17g", o->regularization);
    if (o->kind == QR_LBFGS)
        qr_buf_printf(v, " memory=%u gradient_tolerance=%.17g loss_tolerance=%.17g", o->memory,
                      o->gradient_tolerance, o->loss_tolerance);
    add_field(c, "optimizer", v);
    add_rate(c, o, v);
    if (o->clipvalue > 0 || o->clipnorm > 0 || o->global_clipnorm > 0) {
        qr_buf_printf(v, "value=%.17g norm=%.17g global=%.17g", o->clipvalue, o->clipnorm,
                      o->global_clipnorm);
        add_field(c, "clipping", v);
    }
    if (o->weight_decay > 0) {
        qr_buf_printf(v, "%.17g", o->weight_decay);
        add_field(c, "weight_decay", v);
    }
    if (o->use_ema) {
        qr_buf_printf(v, "momentum=%.17g overwrite=%llu", o->ema_momentum,
                      (unsigned long long)o->ema_overwrite);
        add_field(c, "average", v);
    }
}

static void add_loss(struct qr_job_canonical *c, const struct qr_train_spec *t, struct qr_buf *v) {
    const struct qr_loss_options *o = &t->loss_options;
    qr_buf_puts(v, qr_loss_names[t->loss]);
    if (qr_loss_info(t->loss)->has_delta) qr_buf_printf(v, " delta=%.17g", o->delta);
    if (o->from_logits) qr_buf_puts(v, " from_logits");
    if (o->label_smoothing > 0) qr_buf_printf(v, " label_smoothing=%.17g", o->label_smoothing);
    for (size_t i = 0; i < t->n_output_weights; i++)
        qr_buf_printf(v, "%s%.17g", i ? ", " : " weights=", t->output_weights[i]);
    add_field(c, "loss", v);
    for (size_t i = 0; i < t->n_class_weights; i++)
        qr_buf_printf(v, "%s%.17g", i ? ", " : "", t->class_weight[i]);
    if (t->n_class_weights) add_field(c, "class_weight", v);
}

static void add_train(struct qr_job_canonical *c, const struct qr_job *job, struct qr_buf *v) {
    const struct qr_train_spec *t = &job->train;
    for (size_t i = 0; i < job->n_layers; i++) {
        const struct qr_dense_options *d = &job->layers[i].dense;
        if (job->layers[i].kind != QR_LAYER_DENSE) continue;
        qr_buf_printf(v, "%s%u %s", v->n ? ", " : "", d->units, qr_activation_names[d->activation]);
        if (d->l1 > 0) qr_buf_printf(v, " l1=%.17g", d->l1);
        if (d->l2 > 0) qr_buf_printf(v, " l2=%.17g", d->l2);
    }
    if (v->n) add_field(c, "dense", v);
    add_loss(c, t, v);
    for (size_t i = 0; i < t->n_metrics; i++) {
        qr_buf_printf(v, "%s%s", i ? ", " : "", qr_metric_names[t->metrics[i]]);
        if (t->metrics[i] == QR_TOP_K_ACCURACY) qr_buf_printf(v, " k=%u", t->top_k);
    }
    add_field(c, "metrics", v);
    for (size_t i = 0; i < t->n_logged; i++)
        qr_buf_printf(v, "%s%s: %s", i ? "; " : "", t->logged[i].name, t->logged[i].text);
    if (t->n_logged) add_field(c, "log", v);
    qr_buf_printf(v, "%llu", (unsigned long long)t->batch_size);
    add_field(c, "batch_size", v);
    qr_buf_puts(v, t->shuffle ? "true" : "false");
    add_field(c, "shuffle", v);
    qr_buf_puts(v, t->evaluate ? "true" : "false");
    add_field(c, "evaluate", v);
    add_optimizer(c, &t->optimizer, v);
    if (t->early_stopping.on) {
        const struct qr_early_stopping *e = &t->early_stopping;
        qr_buf_printf(v, "%s %s min_delta=%.17g patience=%llu restore_best=%d", e->monitor,
                      e->maximize ? "max" : "min", e->min_delta, (unsigned long long)e->patience,
                      e->restore_best);
        add_field(c, "early_stopping", v);
    }
}

static void add_data(struct qr_job_canonical *c, const struct qr_train_spec *t,
                     const struct qr_dataset *d, const uint8_t initial[32], struct qr_buf *v) {
    char hex[2 * QR_SHA256_BYTES + 1];
    qr_hex(d->digest, sizeof d->digest, hex);
    qr_buf_printf(v, "%zu samples, %zu train, sha256 %s", d->n_samples, d->n_train, hex);
    add_field(c, "data", v);
    if (!initial) return;
    qr_hex(initial, QR_SHA256_BYTES, hex);
    qr_buf_printf(v, "sha256 %s", hex);
    for (size_t i = 0; i < t->n_initial_layers; i++)
        qr_buf_printf(v, "%s%s=%s", i ? ", " : " ", t->initial_layers[i].name,
                      t->initial_layers[i].file_name);
    add_field(c, "initial_weights", v);
}

void qr_job_canonical(const struct qr_job *job, const struct qr_dataset *data,
                      const uint8_t initial[32], struct qr_job_canonical *ret) {
    struct qr_buf v = {0}, text = {0};
    *ret = (struct qr_job_canonical){0};
    qr_buf_puts(&v, qr_contract_name(job->precision));
    add_field(ret, "contract", &v);
    qr_buf_printf(&v, "%llu", (unsigned long long)job->seed);
    add_field(ret, "seed", &v);
    qr_buf_printf(&v, "%zu", job->micro_batch_size);
    add_field(ret, "micro_batch_size", &v);
    add_layers(ret, job, &v);
    add_circuits(ret, job, &v);
    add_train(ret, job, &v);
    add_data(ret, &job->train, data, initial, &v);
    for (size_t i = 0; i < ret->n; i++)
        qr_buf_printf(&text, "%s=%s\n", ret->fields[i].name, ret->fields[i].value);
    qr_sha256(text.p, text.n, ret->hash);
    qr_hex(ret->hash, sizeof ret->hash, ret->hex);
    qr_buf_free(&v);
    qr_buf_free(&text);
}

void qr_job_canonical_fini(struct qr_job_canonical *c) {
    for (size_t i = 0; i < c->n; i++) {
        free(c->fields[i].name);
        free(c->fields[i].value);
    }
    free(c->fields);
    *c = (struct qr_job_canonical){0};
}
