/* Noise channels and measurements in gate lists: every kind is read and written again; transfer
 * matrices, Pauli errors and Kraus operators against operators of the textbook; derivatives by
 * finite differences; errors; drawings. */
#include "base/mem.h"
#include "circuit/channel.h"
#include "circuit/circuit_json.h"
#include "circuit/cone.h"
#include "tests/ref/noisy.h"
#include "tests/same_circuit.h"
#include "tests/t.h"

#include <math.h>

static struct qr_circuit *circuit_of(const char *text, struct qr_err *err) {
    struct qr_json *json;
    struct qr_circuit *c = NULL;
    struct qr_qubits readouts = {{0}};
    CHECK(qr_json_parse((struct qr_bytes){(const uint8_t *)text, strlen(text)}, "text", &json,
                        err) == QR_OK,
          "%s", err->msg);
    if (qr_circuit_from_json(json, "circuit", &c, &readouts, err) != QR_OK) c = NULL;
    qr_json_free(json);
    return c;
}

static void round_trip(void) {
    static const char text[] =
        "{\"qubits\": 3, \"gates\": ["
        "{\"gate\": \"H\", \"qubits\": [0]},"
        "{\"channel\": \"BitFlip\", \"qubits\": [0, 1, 2], \"p\": 0.1},"
        "{\"channel\": \"Depolarize\", \"qubits\": [0], \"p\": \"p0\"},"
        "{\"channel\": \"depolarizing\", \"qubits\": [1, 2], \"p\": \"0.1*sin(w)\"},"
        "{\"channel\": \"PauliChannel\", \"qubits\": [0], \"p_x\": 0.1, \"p_z\": 0.2},"
        "{\"channel\": \"GeneralizedAmplitudeDamping\", \"qubits\": [2], \"p\": 0.75, \"gamma\": "
        "0.3},"
        "{\"channel\": \"ThermalRelaxation\", \"qubits\": [1], \"t1\": 50, \"t2\": 70, \"time\": "
        "1},"
        "{\"power\": 2, \"gates\": [{\"channel\": \"Reset\", \"qubits\": [1]}]},"
        "{\"repeat\": 2, \"index\": \"i\", \"gates\": [{\"channel\": \"PhaseDamping\", \"qubits\": "
        "[\"i\"], \"gamma\": \"g{i}\"}]},"
        "{\"channel\": \"Kraus\", \"qubits\": [0], \"operators\": [[[0.6, 0], [0, 0.6]], [[0, [0, "
        "-0.8]], [[0, 0.8], 0]]]}]}";
    struct qr_err err;
    struct qr_circuit *c = circuit_of(text, &err);
    CHECK(c, "%s", err.msg);
    if (!c) return;
    CHECK(c->n_gates == 14 && c->n_channels == 10, "%zu gates, %zu channels", c->n_gates,
          c->n_channels);
    CHECK(c->n_params == 4 && strcmp(c->param_names[0], "g0") == 0 && qr_circuit_is_noisy(c));
    struct qr_buf out = {0};
    struct qr_json_writer w = qr_json_writer(&out, 0);
    qr_circuit_put_json(c, &w);
    struct qr_circuit *back = circuit_of(qr_buf_string(&out), &err), *copy = qr_circuit_copy(c);
    CHECK(back && back->n_gates == c->n_gates && back->n_channels == c->n_channels, "%s", err.msg);
    for (size_t i = 0; back && i < c->n_gates; i++)
        CHECK(back->gates[i].channel == c->gates[i].channel &&
              copy->gates[i].kind == c->gates[i].kind);
    for (size_t i = 0; back && i < c->n_channels; i++)
        CHECK(qr_circuit_channel(back, &c->channels[i]) == i &&
                  qr_circuit_channel(copy, &c->channels[i]) == i,
              "channel %zu", i);
    char *drawing = qr_circuit_draw(c, NULL, 0, QR_DRAWING_TEXT, 200);
    CHECK(strstr(drawing, "BF(0.1)") && strstr(drawing, "D(p0)") &&
              strstr(drawing, "TR(50,70,1,0)") && strstr(drawing, "K"),
          "%s", drawing);
    free(drawing);
    qr_buf_free(&out);
    qr_circuit_free(back);
    qr_circuit_free(copy);
    qr_circuit_free(c);
}

static void rejected(void) {
    static const struct {
        const char *item, *says;
    } rows[] = {
        {"{\"channel\": \"Depolarise\", \"qubits\": [0], \"p\": 0.1}",
         "unknown channel 'Depolarise'; one of"},
        {"{\"channel\": \"Depolarize\", \"qubits\": [0], \"p\": 1.5}",
         "p = 1.5; give a number from 0 to 1"},
        {"{\"channel\": \"Depolarize\", \"qubits\": [0], \"p\": -0.1}", "p = -0.1"},
        {"{\"channel\": \"Depolarize\", \"qubits\": [0]}", "p is missing"},
        {"{\"channel\": \"PauliChannel\", \"qubits\": [0]}", "p_x is missing"},
        {"{\"channel\": \"Depolarize\", \"qubits\": [0], \"gamma\": 0.1}", "unknown key 'gamma'"},
        {"{\"channel\": \"Depolarize\", \"qubits\": [], \"p\": 0.1}", "qubits is empty"},
        {"{\"channel\": \"Depolarize\", \"qubits\": [0], \"p\": \"x[0]\"}", "depends on inputs"},
        {"{\"channel\": \"Depolarize\", \"qubits\": [0], \"p\": \"w*x[0]\"}", "depends on inputs"},
        {"{\"channel\": \"Dephase\", \"qubits\": [0], \"p\": 0.1}", "acts on two qubits"},
        {"{\"channel\": \"PauliChannel\", \"qubits\": [0], \"p_x\": 0.5, \"p_y\": 0.4, \"p_z\": "
         "0.2}",
         "sum above 1"},
        {"{\"channel\": \"ThermalRelaxation\", \"qubits\": [0], \"t1\": 1, \"t2\": 3, \"time\": 1}",
         "t2 <= 2 t1"},
        {"{\"channel\": \"Kraus\", \"qubits\": [0], \"operators\": [[[1, 0], [0, 0.5]]]}",
         "is not the identity (off by 0.75)"},
        {"{\"channel\": \"Kraus\", \"qubits\": [0, 1], \"operators\": [[[1, 0], [0, 1]]]}",
         "it must be 4x4"},
        {"{\"channel\": \"Kraus\", \"qubits\": [0], \"operators\": []}", "has 0 matrices"},
        {"{\"adjoint\": true, \"gates\": [{\"channel\": \"Reset\", \"qubits\": [0]}]}",
         "cannot be inverted"},
        {"{\"power\": -2, \"gates\": [{\"channel\": \"Reset\", \"qubits\": [0]}]}",
         "cannot be inverted"},
        {"{\"control\": [1], \"gates\": [{\"channel\": \"Reset\", \"qubits\": [0]}]}",
         "cannot be controlled"},
        {"{\"gate\": \"X\", \"channel\": \"Reset\", \"qubits\": [0]}",
         "has both \"gate\" and \"channel\""},
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct qr_err err = {0};
        char *text = qr_xasprintf("{\"qubits\": 2, \"gates\": [%s]}", rows[i].item);
        struct qr_circuit *c = circuit_of(text, &err);
        CHECK(!c && strstr(err.msg, rows[i].says), "%s: %s", rows[i].item, err.msg);
        CHECK(strncmp(err.msg, "circuit.gates[0]", 16) == 0, "%s", err.msg);
        qr_circuit_free(c);
        free(text);
    }
}

/* R_PQ = 2^-n sum over k of Tr(P K Q K^adjoint), from the textbook's operators. */
static void transfer_by_kraus(const struct qr_channel *c, const double *a, double *ret) {
    static const double complex one[4][4] = {
        {1, 0, 0, 1}, {0, 1, 1, 0}, {0, CMPLX(0, -1), CMPLX(0, 1), 0}, {1, 0, 0, -1}};
    double complex kraus[32 * 16];
    unsigned n = noisy_kraus(c, a, kraus), dim = 1u << c->info->n_targets, paulis = dim * dim;
    for (unsigned p = 0; p < paulis; p++)
        for (unsigned q = 0; q < paulis; q++) {
            double complex sum = 0, mp[16], mq[16];
            for (unsigned r = 0; r < dim; r++)
                for (unsigned s = 0; s < dim; s++) {
                    bool two = dim == 4;
                    mp[r * dim + s] = two ? one[p / 4][(r >> 1) * 2 + (s >> 1)] *
                                                one[p % 4][(r & 1) * 2 + (s & 1)]
                                          : one[p][r * 2 + s];
                    mq[r * dim + s] = two ? one[q / 4][(r >> 1) * 2 + (s >> 1)] *
                                                one[q % 4][(r & 1) * 2 + (s & 1)]
                                          : one[q][r * 2 + s];
                }
            for (unsigned k = 0; k < n; k++)
                for (unsigned i = 0; i < dim * dim * dim * dim; i++) {
                    unsigned r = i % dim, s = i / dim % dim, t = i / dim / dim % dim,
                             u = i / dim / dim / dim;
                    sum += mp[u * dim + r] * kraus[k * 16 + r * dim + s] * mq[s * dim + t] *
                           conj(kraus[k * 16 + u * dim + t]);
                }
            ret[p * paulis + q] = creal(sum) / dim;
        }
}

/* Sums of at most 16 * 256 products below 1. */
static void numbers(void) {
    for (size_t i = 0; qr_channel_info_at(i); i++) {
        struct qr_channel c = {.info = qr_channel_info_at(i)};
        const struct qr_channel_info *info = c.info;
        double a[QR_CHANNEL_ARGS], r[256], ref[256], da[QR_CHANNEL_ARGS * 256], up[256], down[256];
        size_t n = info->n_targets == 1 ? 4 : 16;
        if (info->kraus) continue; /* test_sim_noise */
        for (unsigned k = 0; k < info->n_args; k++)
            a[k] = strcmp(info->names[0], "ThermalRelaxation") == 0 && k < 3
                       ? 1.1 + 0.3 * k
                       : 0.3 / (1 + k + (k > 4) * 9);
        qr_channel_transfer(&c, a, r, da);
        transfer_by_kraus(&c, a, ref);
        for (size_t k = 0; k < n * n; k++)
            CHECK(fabs(r[k] - ref[k]) < 1e-14, "%s[%zu]: %.17g, not %.17g", info->names[0], k, r[k],
                  ref[k]);
        for (unsigned k = 0; k < info->n_args; k++) {
            double v = a[k], h = 1e-6;
            a[k] = v + h;
            qr_channel_transfer(&c, a, up, NULL);
            a[k] = v - h;
            qr_channel_transfer(&c, a, down, NULL);
            a[k] = v;
            for (size_t m = 0; m < n * n; m++)
                CHECK(fabs(da[k * n * n + m] - (up[m] - down[m]) / (2 * h)) < 1e-8, "%s by %s",
                      info->names[0], info->arg_names[k]);
        }
        double p[16], dp[QR_CHANNEL_ARGS * 16], sum = 0;
        bool errors = qr_channel_errors(&c, a, p, dp);
        CHECK(errors == !info->damping);
        for (size_t k = 0; errors && k < n; k++) sum += p[k];
        CHECK(!errors || fabs(sum - 1) < 1e-14, "%s: %g", info->names[0], sum);
        if (errors) continue;
        /* Operators give the transfer matrix, and are complete. */
        double complex kraus[QR_CHANNEL_KRAUS * 16];
        struct qr_channel any = {.info = qr_channel_info_of("Kraus", 1),
                                 .kraus = qr_xcalloc(16, 16)};
        struct qr_err err;
        any.n_kraus = qr_channel_kraus(&c, a, kraus, NULL);
        for (unsigned k = 0; k < any.n_kraus; k++)
            memcpy(any.kraus + 4 * k, kraus + 16 * k, 4 * sizeof *kraus);
        CHECK(qr_channel_check(&any, &err) == QR_OK, "%s: %s", info->names[0], err.msg);
        qr_channel_transfer(&any, NULL, ref, NULL);
        for (size_t k = 0; k < 16; k++) CHECK(fabs(r[k] - ref[k]) < 1e-14, "%s", info->names[0]);
        qr_channel_fini(&any);
    }
    /* A strength out of range gives NaN. */
    struct qr_channel c = {.info = qr_channel_info_of("AmplitudeDamping", 1)};
    double a = 1.25, r[16];
    qr_channel_transfer(&c, &a, r, NULL);
    CHECK(isnan(r[0]));
}

/* A channel on a qubit that the term does not reach is outside its cone. */
static void cones(void) {
    struct qr_err err;
    struct qr_circuit *c =
        circuit_of("{\"qubits\": 2, \"gates\": [{\"gate\": \"RX\", \"qubits\": [0], "
                   "\"angle\": \"a\"}, {\"channel\": \"Depolarize\", \"qubits\": [1], "
                   "\"p\": \"p\"}, {\"channel\": \"PhaseFlip\", \"qubits\": [0], \"p\": "
                   "\"q\"}]}",
                   &err);
    struct qr_observable z;
    uint8_t zero[3];
    CHECK(c && qr_observable_parse("Z0", 2, &z, &err) == QR_OK, "%s", err.msg);
    qr_circuit_zero_gradient(c, &z, 1, zero);
    CHECK(!zero[0] && zero[1] && !zero[2], "%d %d %d", zero[0], zero[1], zero[2]);
    qr_observable_fini(&z);
    qr_circuit_free(c);
}

/* "noise": the most specific name of a gate applies, channels of one qubit act on each qubit, and
 * parameter names are merged. */
static void noise(void) {
    static const char text[] =
        "{\"qubits\": 3, \"gates\": [{\"gate\": \"RX\", \"qubits\": [0], \"angle\": \"w2\"},"
        "{\"gate\": \"X\", \"qubits\": [1]}, {\"gate\": \"CX\", \"qubits\": [0, 2]},"
        "{\"gate\": \"CZ\", \"qubits\": [1, 2], \"exponent\": \"cos(w2)\"},"
        "{\"gate\": \"CCX\", \"qubits\": [0, 1, 2]}, {\"gate\": \"H\", \"qubits\": [0]}],"
        "\"noise\": {\"after\": {\"rx\": {\"channel\": \"BitFlip\", \"p\": \"w1\"}, "
        "\"CNOT\": [{\"channel\": \"Depolarize\", \"qubits\": 2, \"p\": 0.1}, {\"channel\": "
        "\"PhaseFlip\", \"p\": \"sin(w10)\"}], \"*1\": {\"channel\": \"AmplitudeDamping\", "
        "\"gamma\": 0.1}, \"*\": {\"channel\": \"Dephase\", \"p\": 0.2}, \"CCX\": []}, "
        "\"readout\": [{\"qubits\": [1], \"p_01\": 0.1}, {\"qubits\": [0, 2], \"p\": 0.2}]}}";
    static const char *const order[] = {"X",
                                        "BitFlip",
                                        "X",
                                        "AmplitudeDamping",
                                        "CNOT",
                                        "Depolarize",
                                        "PhaseFlip",
                                        "PhaseFlip",
                                        "CZ",
                                        "Dephase",
                                        "X",
                                        "H",
                                        "AmplitudeDamping"};
    struct qr_err err;
    struct qr_circuit *c = circuit_of(text, &err);
    CHECK(c, "%s", err.msg);
    if (!c) return;
    CHECK(c->n_gates == COUNT(order), "%zu", c->n_gates);
    for (size_t i = 0; i < c->n_gates && i < COUNT(order); i++) {
        const struct qr_gate *g = &c->gates[i];
        const char *name = g->kind == QR_GATE_CHANNEL ? c->channels[g->channel].info->names[0]
                                                      : qr_gate_info(g->kind)->name;
        CHECK(strcmp(name, order[i]) == 0, "gate %zu: %s, not %s", i, name, order[i]);
    }
    CHECK(c->gates[5].n_targets == 2 && c->gates[6].targets[0] == 0 && c->gates[7].targets[0] == 2);
    CHECK(c->n_params == 3 && strcmp(c->param_names[0], "w1") == 0 &&
          strcmp(c->param_names[1], "w2") == 0 && strcmp(c->param_names[2], "w10") == 0);
    CHECK(c->gates[0].args[0].index == 1 && c->channels[0].args[0].index == 0);
    CHECK(c->readout_errors && c->readout_errors[1][0] == 0.1 && c->readout_errors[1][1] == 0 &&
          c->readout_errors[2][1] == 0.2);
    struct qr_buf out = {0};
    struct qr_json_writer w = qr_json_writer(&out, 0);
    qr_circuit_put_json(c, &w);
    struct qr_circuit *back = circuit_of(qr_buf_string(&out), &err);
    CHECK(back && back->n_gates == c->n_gates && back->n_expressions == c->n_expressions &&
              memcmp(back->readout_errors, c->readout_errors, 3 * sizeof *c->readout_errors) == 0,
          "%s", err.msg);
    qr_circuit_free(back);
    qr_buf_free(&out);
    qr_circuit_free(c);
    static const struct {
        const char *noise, *says;
    } rows[] = {
        {"{\"after\": {\"U3\": {\"channel\": \"Reset\"}}}", "'U3' is not a native gate"},
        {"{\"after\": {\"*\": {\"channel\": \"Dephase\", \"p\": 0.1}}}", "but H is on 1"},
        {"{\"after\": {\"*\": {\"channel\": \"Depolarize\", \"qubits\": 3, \"p\": 0.1}}}",
         "circuit.noise.after.*.qubits"},
        {"{\"after\": {\"H\": {\"channel\": \"Depolarize\", \"p\": \"x[0]\"}}}", "x[0]"},
        {"{\"after\": [1]}", "circuit.noise.after must be an object"},
        {"{\"before\": {}}", "unknown key 'before'"},
        {"{\"readout\": {\"p\": 0.1, \"p_01\": 0.1}}", "give p, or p_01 and p_10"},
        {"{\"readout\": {\"p\": 1.1}}", "circuit.noise.readout.p"},
        {"{\"readout\": [{\"qubits\": [3], \"p\": 0.1}]}", "circuit.noise.readout[0].qubits[0]"},
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        char *bad = qr_xasprintf("{\"qubits\": 2, \"gates\": [{\"gate\": \"H\", \"qubits\": [0]}], "
                                 "\"noise\": %s}",
                                 rows[i].noise);
        c = circuit_of(bad, &err);
        CHECK(!c && strstr(err.msg, rows[i].says), "%s: %s", rows[i].noise, err.msg);
        qr_circuit_free(c);
        free(bad);
    }
}

/* ---- measurements ---- */

static void measurements(void) {
    static const char text[] =
        "{\"qubits\": 3, \"gates\": [{\"gate\": \"H\", \"qubits\": [0]},"
        "{\"measure\": [0, 1], \"bits\": [4, 2], \"p_01\": 0.1, \"p_10\": \"p\"},"
        "{\"if\": [4], \"gates\": [{\"gate\": \"CNOT\", \"qubits\": [1, 2]},"
        "  {\"if\": [2], \"if_values\": [0], \"gates\": [{\"gate\": \"RX\", \"qubits\": [2], "
        "\"angle\": \"w\"}]}, {\"channel\": \"Reset\", \"qubits\": [0]}]},"
        "{\"measure\": [2]}, {\"measure\": [0], \"bits\": []},"
        "{\"repeat\": 2, \"index\": \"i\", \"gates\": [{\"measure\": [\"i\"], \"bits\": [\"i\"]},"
        "  {\"if\": [\"i\"], \"gates\": [{\"gate\": \"X\", \"qubits\": [\"i\"]}]}]}]%s}";
    static const char noise[] = ", \"noise\": {\"after\": {\"CNOT\": {\"channel\": \"BitFlip\", "
                                "\"p\": 0.1}}, \"readout\": {\"p_01\": 0.25, \"p_10\": 0.5}}";
    struct qr_err err;
    for (int noisy = 0; noisy < 2; noisy++) {
        qr_auto(qr_free_p) char *whole = qr_xasprintf(text, noisy ? noise : "");
        struct qr_circuit *c = circuit_of(whole, &err);
        CHECK(c, "%s", err.msg);
        if (!c) return;
        CHECK(c->n_bits == 5 && qr_circuit_measures(c) && c->n_gates == (noisy ? 14 : 12),
              "%u, %zu", c->n_bits, c->n_gates);
        const struct qr_gate *g = c->gates;
        CHECK(g[1].bit == 5 && g[2].bit == 3 && g[2].targets[0] == 1);
        CHECK(c->channels[g[1].channel].args[0].scale == 0.1 && c->n_params == 2);
        const struct qr_condition *on = &c->conditions.list[g[3].condition - 1];
        CHECK(g[3].condition && on->bits.word[0] == 16 && on->values.word[0] == 16);
        for (int k = 4; k < 6 && noisy; k++) /* noise of a conditional gate */
            CHECK(g[k].kind == QR_GATE_CHANNEL && g[k].condition == g[3].condition);
        g += noisy ? 2 : 0;
        on = &c->conditions.list[g[4].condition - 1];
        CHECK(on->bits.word[0] == 20 && on->values.word[0] == 16 && g[4].kind == QR_GATE_X);
        on = &c->conditions.list[g[5].condition - 1];
        CHECK(g[5].kind == QR_GATE_CHANNEL && on->bits.word[0] == 16 && on->values.word[0] == 16);
        CHECK(g[6].bit == 3 && g[7].bit == 0 && g[8].bit == 1 && g[11].condition);
        CHECK(c->channels[g[6].channel].args[1].scale == (noisy ? 0.5 : 0)); /* of the read-out */
        struct qr_buf out = {0};
        struct qr_json_writer w = qr_json_writer(&out, 1);
        qr_circuit_put_json(c, &w);
        struct qr_circuit *back = circuit_of(qr_buf_string(&out), &err), *copy = qr_circuit_copy(c);
        CHECK(back && same_circuit(back, c) && same_circuit(copy, c), "%s", qr_buf_string(&out));
        char *drawing = qr_circuit_draw(c, NULL, 0, QR_DRAWING_TEXT, 200);
        CHECK(strstr(drawing, "M→c4(0.1,p)") && strstr(drawing, "RX?!c2c4(w)"), "%s", drawing);
        free(drawing);
        qr_buf_free(&out);
        qr_circuit_free(back);
        qr_circuit_free(copy);
        qr_circuit_free(c);
    }
}

/* A measurement takes an error that it does not give from its qubit's read-out, also when it is
 * written and read again. */
static void errors_of_measurements(void) {
    static const struct {
        const char *given;
        double p_01, p_10;
    } rows[] = {{"", 0.25, 0.5},
                {", \"p_01\": 0.125", 0.125, 0.5},
                {", \"p_10\": 0.125", 0.25, 0.125},
                {", \"p_01\": 0.125, \"p_10\": 0", 0.125, 0},
                {", \"p_01\": 0", 0, 0.5},
                {", \"p_01\": 0, \"p_10\": 0", 0, 0}};
    static const char form[] = "{\"qubits\": 2, \"gates\": [{\"measure\": [1]%s}], \"noise\": "
                               "{\"readout\": {\"p_01\": 0.25, \"p_10\": %g}}}";
    struct qr_err err;
    for (size_t i = 0; i < COUNT(rows); i++) {
        qr_auto(qr_free_p) char *text = qr_xasprintf(form, rows[i].given, 0.5);
        struct qr_circuit *c = circuit_of(text, &err);
        CHECK(c, "%s", err.msg);
        if (!c) return;
        const struct qr_gate_arg *a = c->channels[c->gates[0].channel].args;
        CHECK(a[0].scale == rows[i].p_01 && a[1].scale == rows[i].p_10, "%s: %g, %g", rows[i].given,
              a[0].scale, a[1].scale);
        qr_auto(qr_buf_free) struct qr_buf out = {0};
        struct qr_json_writer w = qr_json_writer(&out, 0);
        qr_circuit_put_json(c, &w);
        struct qr_circuit *back = circuit_of(qr_buf_string(&out), &err);
        CHECK(back && same_circuit(back, c), "%s", qr_buf_string(&out));
        qr_circuit_free(back);
        qr_circuit_free(c);
    }
    qr_auto(qr_free_p) char *text = qr_xasprintf(form, ", \"p_01\": 0.75", 0.5);
    CHECK(!circuit_of(text, &err) && strstr(err.msg, "of qubit 1, with the noise's readout: "),
          "%s", err.msg);
}

/* A conditional gate is in a later moment than the measurement of its bit, and the bit's next
 * measurement in a later moment than the gate. */
static void moments_of_bits(void) {
    struct qr_err err;
    struct qr_circuit *c = circuit_of("{\"qubits\": 3, \"gates\": [{\"measure\": [0]}, {\"if\": "
                                      "[0], \"gates\": [{\"gate\": \"X\","
                                      "\"qubits\": [1]}]}, {\"measure\": [2], \"bits\": [0]}, "
                                      "{\"gate\": \"X\", \"qubits\": [0]}]}",
                                      &err);
    CHECK(c, "%s", err.msg);
    if (!c) return;
    size_t *first, *order, n = qr_circuit_moments(c, false, &first, &order);
    CHECK(n == 3 && first[1] == 1 && first[2] == 3 && order[0] == 0 && order[3] == 2,
          "%zu moments: %zu %zu", n, first[1], first[2]);
    free(first);
    free(order);
    qr_circuit_free(c);
}

static void rejected_measurements(void) {
    static const struct {
        const char *items, *says;
    } rows[] = {
        {"{\"if\": [0], \"gates\": [{\"gate\": \"X\", \"qubits\": [1]}]}",
         "gate 0 (X): depends on bit 0, which was not measured before"},
        {"{\"measure\": [0, 1], \"bits\": [0]}", "measures 2 qubits into 1 bits"},
        {"{\"measure\": [0, 1], \"bits\": [0, 0]}", "bit 0 is given twice"},
        {"{\"measure\": [0], \"bits\": [1024]}", "circuit.gates[0].bits[0]"},
        {"{\"measure\": []}", "measures 0 qubits"},
        {"{\"measure\": [0], \"p_01\": 0.6, \"p_10\": 0.5}", "probabilities with a sum above 1"},
        {"{\"measure\": [0], \"qubits\": [0]}", "unknown key 'qubits'"},
        {"{\"channel\": \"Measure\", \"qubits\": [0]}", "a measurement is {\"measure\": [qubits]"},
        {"{\"measure\": [0]}, {\"if\": [], \"gates\": [{\"gate\": \"X\", \"qubits\": [1]}]}",
         "circuit.gates[1].if is empty"},
        {"{\"measure\": [0]}, {\"if\": [0], \"if_values\": [0, 1], \"gates\": [{\"gate\": "
         "\"X\", \"qubits\": [1]}]}",
         "has 1 bits, but 2 if_values"},
        {"{\"measure\": [0]}, {\"if\": [0], \"gates\": [{\"measure\": [1]}]}",
         "a measurement cannot depend on bits"},
        {"{\"measure\": [0]}, {\"if\": [0], \"gates\": [{\"if\": [0], \"gates\": [{\"gate\": "
         "\"X\", \"qubits\": [1]}]}]}",
         "bit 0 is a bit of an enclosing item already"},
        {"{\"adjoint\": true, \"gates\": [{\"measure\": [0]}]}", "cannot be inverted"},
        {"{\"control\": [1], \"gates\": [{\"measure\": [0]}]}", "cannot be controlled"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        qr_auto(qr_free_p) char *text =
            qr_xasprintf("{\"qubits\": 2, \"gates\": [%s]}", rows[i].items);
        struct qr_err err = {0};
        struct qr_circuit *c = circuit_of(text, &err);
        CHECK(!c && err.code == QR_INVALID_ARGUMENT && strstr(err.msg, rows[i].says), "%s: %s",
              text, err.msg);
        qr_circuit_free(c);
    }
}

int main(void) {
    noise();
    round_trip();
    rejected();
    numbers();
    cones();
    measurements();
    errors_of_measurements();
    moments_of_bits();
    rejected_measurements();
    return t_end();
}
