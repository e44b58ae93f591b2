/* The drawing: exact text of a small circuit, and width and completeness of larger ones. */
#include "circuit/qcnn.h"
#include "tests/ref/dense.h"
#include "tests/t.h"

static size_t widest(const char *s) {
    size_t most = 0, n = 0;
    for (; *s; s++) {
        if (*s == '\n') n = 0;
        else n += ((unsigned char)*s & 0xc0) != 0x80;
        if (n > most) most = n;
    }
    return most;
}

static size_t count(const char *text, const char *what) {
    size_t n = 0;
    for (const char *p = text; (p = strstr(p, what)); p += strlen(what)) n++;
    return n;
}

static void small(void) {
    struct qr_circuit *c = qr_circuit_new(3, 1);
    struct qr_gate_arg one = {QR_ARG_CONSTANT, 1, 0};
    const struct qr_gate gates[] = {
        {.kind = QR_GATE_H, .n_targets = 1, .n_args = 1, .targets = {0}, .args = {one}},
        {.kind = QR_GATE_X,
         .n_targets = 1,
         .n_args = 1,
         .targets = {1},
         .args = {{QR_ARG_DATA, 0x1.45f306dc9c883p-2, 0}},
         .global_shift = -0.5},
        {.kind = QR_GATE_CZ, .n_targets = 2, .n_args = 1, .targets = {0, 2}, .args = {one}},
        {.kind = QR_GATE_ZZ,
         .n_targets = 2,
         .n_args = 1,
         .targets = {1, 2},
         .args = {{QR_ARG_PARAMETER, -1, qr_circuit_param(c, "w")}}},
        {.kind = QR_GATE_Y,
         .n_targets = 1,
         .n_args = 1,
         .targets = {2},
         .args = {one},
         .controls = {{3}},
         .control_values = {{1}}},
    };
    for (size_t i = 0; i < COUNT(gates); i++)
        CHECK(qr_circuit_add(c, &gates[i], QR_IGNORED) == QR_OK);
    struct qr_observable o;
    CHECK(qr_observable_parse("Z2", 3, &o, QR_IGNORED) == QR_OK);
    char *text = qr_circuit_draw(c, &o, 1, QR_DRAWING_TEXT, 80);
    const char *want = "0: ─H───────●─────────●─\n"
                       "            │         │\n"
                       "1: ─RX(x0)──┼──ZZ^-w──○─\n"
                       "            │  │      │\n"
                       "2: ─────────●──ZZ─────Y─\n"
                       "\nreads: Z2\n";
    CHECK(strcmp(text, want) == 0, "\n%s", text);
    free(text);
    qr_observable_fini(&o);
    qr_circuit_free(c);
}

/* SVG and LaTeX of gates with every kind of symbol; names are escaped. */
static void other_forms(void) {
    struct qr_circuit *c = qr_circuit_new(3, 1);
    struct qr_observable o[2];
    const struct qr_gate_arg one = {QR_ARG_CONSTANT, 1, 0};
    const struct qr_gate gates[] = {
        {.kind = QR_GATE_X, .args = {one}, .controls = {{6}}, .control_values = {{2}}},
        {.kind = QR_GATE_SWAP, .args = {one}, .targets = {0, 2}},
        {.kind = QR_GATE_ZZ,
         .args = {{QR_ARG_PARAMETER, 1, qr_circuit_param(c, "gamma0_1")}},
         .targets = {1, 0}},
        {.kind = QR_GATE_X,
         .args = {{QR_ARG_PARAMETER, 0x1.45f306dc9c883p-2, qr_circuit_param(c, "<&\"θ#_\n\\")}},
         .targets = {1},
         .global_shift = -0.5},
        {.kind = QR_GATE_Z, .args = {{QR_ARG_DATA, 1, 0}}, .targets = {2}},
        {.kind = QR_GATE_CZ, .args = {one}, .targets = {0, 2}}};
    for (size_t i = 0; i < COUNT(gates); i++) {
        struct qr_gate g = gates[i];
        g.n_targets = qr_gate_info(g.kind)->n_targets;
        g.n_args = qr_gate_info(g.kind)->n_args;
        CHECK(qr_circuit_add(c, &g, QR_IGNORED) == QR_OK);
    }
    CHECK(!qr_observable_parse("Y2", 3, &o[0], QR_IGNORED) &&
          !qr_observable_parse("0.5*X0 Z1", 3, &o[1], QR_IGNORED));
    char *latex = qr_circuit_draw(c, o, 2, QR_DRAWING_LATEX, 80),
         *svg = qr_circuit_draw(c, o, 2, QR_DRAWING_SVG, 80);
    static const char rows[] =
        "\\lstick{$q_{0}$} & \\targ{}\\vqw{2} & \\targX{}\\vqw{2} & "
        "\\gate[2]{\\mathrm{ZZ}^{\\gamma_{0,1}}} & \\qw & \\control{}\\vqw{2} & \\qw \\\\\n"
        "\\lstick{$q_{1}$} & \\control{} & \\qw &  & "
        "\\gate{R_{X}(<\\&\"\\theta \\#\\_\\backslash )} & \\qw & \\qw \\\\\n"
        "\\lstick{$q_{2}$} & \\ocontrol{} & \\targX{} & \\gate{Z^{x_{0}}} & \\qw & \\control{} & "
        "\\qw\\rstick{$\\langle Y\\rangle$}\n\\end{quantikz}";
    CHECK(strstr(latex, rows), "%s\nis not in\n%s", rows, latex);
    CHECK(strstr(latex, "$\\langle 0.5\\,X_{0}Z_{1}\\rangle$\n\n\\end{document}\n"), "%s", latex);
    static const struct {
        const char *part;
        size_t n;
    } parts[] = {{"<svg ", 1},
                 {"</svg>\n", 1},
                 {"<rect x", 3},
                 {"<title>", 3},
                 {"#fdebd0", 1},
                 {"#dceaf9", 2},
                 {"r=\"4\"", 4},
                 {"r=\"4\" fill=\"#fff\"", 1},
                 {"r=\"9\"", 1},
                 {"10m0 -10", 2},
                 {">RX(&lt;&amp;\"θ#_\\n\\)<", 1},
                 {">⟨Y⟩<", 1},
                 {">⟨0.5*X0 Z1⟩<", 1},
                 {"<script", 0}};
    for (size_t i = 0; i < COUNT(parts); i++)
        CHECK(count(svg, parts[i].part) == parts[i].n, "%s: %zu in\n%s", parts[i].part,
              count(svg, parts[i].part), svg);
    for (size_t i = 0; i < 2; i++) qr_observable_fini(&o[i]);
    free(latex);
    free(svg);
    qr_circuit_free(c);
}

/* Adds the gates, whose numbers of qubits and arguments follow from their kinds; compares the
 * drawing and frees the circuit. */
static void check_gates(struct qr_circuit *c, const struct qr_gate *gates, size_t n,
                        const char *want) {
    for (size_t i = 0; i < n; i++) {
        struct qr_gate g = gates[i];
        g.n_targets = qr_gate_info(g.kind)->n_targets;
        g.n_args = qr_gate_info(g.kind)->n_args;
        CHECK(qr_circuit_add(c, &g, QR_IGNORED) == QR_OK);
    }
    char *text = qr_circuit_draw(c, NULL, 0, QR_DRAWING_TEXT, 100);
    CHECK(strcmp(text, want) == 0, "\n%s", text);
    free(text);
    qr_circuit_free(c);
}

/* Gates with a common name are drawn with that name instead of the native one. */
static void named(void) {
    struct qr_circuit *c = qr_circuit_new(2, 1);
    const double per_pi = 0x1.45f306dc9c883p-2;
    struct qr_gate_arg w = {QR_ARG_PARAMETER, per_pi, qr_circuit_param(c, "w")};
    const struct qr_gate gates[] = {
        {.kind = QR_GATE_Z, .args = {{QR_ARG_CONSTANT, 0.5, 0}}},
        {.kind = QR_GATE_Z, .args = {{QR_ARG_CONSTANT, -0.25, 0}}, .targets = {1}},
        {.kind = QR_GATE_X, .args = {{QR_ARG_CONSTANT, 0.5, 0}}},
        {.kind = QR_GATE_Z, .args = {w}, .targets = {1}},
        {.kind = QR_GATE_CZ, .args = {{QR_ARG_DATA, 2 * per_pi, 0}}, .targets = {0, 1}},
        {.kind = QR_GATE_CZ, .args = {{QR_ARG_CONSTANT, 0.5, 0}}, .targets = {0, 1}},
        {.kind = QR_GATE_CNOT, .args = {{QR_ARG_CONSTANT, 0.5, 0}}, .targets = {0, 1}},
        {.kind = QR_GATE_ISWAP, .args = {w}, .targets = {0, 1}},
        {.kind = QR_GATE_PHASED_ISWAP,
         .args = {{QR_ARG_CONSTANT, 0.25, 0}, {QR_ARG_PARAMETER, 2 * per_pi, 0}},
         .targets = {0, 1}},
        {.kind = QR_GATE_Z, .args = {{QR_ARG_PARAMETER, 0.5, 0}}},
        {.kind = QR_GATE_X, .args = {w}, .targets = {1}},
    };
    const char *want = "0: ─S───√X────●────────●──●───XY(w)──Givens(w)──Z^0.5*w─────\n"
                       "              │        │  │   │      │\n"
                       "1: ─T†──P(w)──P(2*x0)──S──√X──XY─────Givens─────X^0.31831*w─\n";
    check_gates(c, gates, COUNT(gates), want);
}

/* Every argument of a gate is in its label. */
static void labels(void) {
    struct qr_circuit *c = qr_circuit_new(2, 0);
    const struct qr_gate_arg w = {QR_ARG_PARAMETER, 1, qr_circuit_param(c, "w")},
                             turn = {QR_ARG_PARAMETER, 0x1.45f306dc9c883p-2, 0};
    const struct qr_gate gates[] = {
        {.kind = QR_GATE_Z, .args = {{QR_ARG_CONSTANT, -0.5, 0}}},
        {.kind = QR_GATE_PHASED_X, .args = {{QR_ARG_CONSTANT, 0.25, 0}, w}, .targets = {1}},
        {.kind = QR_GATE_Y, .args = {{QR_ARG_CONSTANT, 0.5, 0}}, .global_shift = 0.25},
        {.kind = QR_GATE_FSIM, .args = {{QR_ARG_CONSTANT, 0.5, 0}, w}, .targets = {1, 0}},
        {.kind = QR_GATE_X, .args = {{QR_ARG_CONSTANT, -0.5, 0}}},
        {.kind = QR_GATE_Z, .args = {{QR_ARG_CONSTANT, 0.25, 0}}, .targets = {1}},
        {.kind = QR_GATE_Z, .args = {turn}, .global_shift = 0.25}, /* not P(w) */
    };
    const char *want =
        "0: ─S†───────────────Y^0.5(g=0.25)──FSIM─────────√X†──Z^0.31831*w(g=0.25)─\n"
        "                                    │\n"
        "1: ─PhasedX(0.25)^w─────────────────FSIM(0.5,w)──T────────────────────────\n";
    check_gates(c, gates, COUNT(gates), want);
}

static void wide(void) {
    struct qr_circuit *c = NULL;
    const struct qr_qcnn_options opt = {12, 0, QR_QCNN_NOTEBOOK};
    CHECK(qr_qcnn_new(&opt, &c, NULL, QR_IGNORED) == QR_OK);
    struct qr_observable o[12];
    for (unsigned q = 0; q < 12; q++) {
        char z[8];
        snprintf(z, sizeof z, "Z%u", q);
        CHECK(qr_observable_parse(z, 12, &o[q], QR_IGNORED) == QR_OK);
    }
    for (unsigned columns = 0; columns <= 200; columns += 25) {
        char *text = qr_circuit_draw(c, o, 12, QR_DRAWING_TEXT, columns);
        size_t most = columns < 20 ? 20 : columns;
        CHECK(widest(text) <= most, "%u: %zu", columns, widest(text));
        for (unsigned q = 0; q < 12; q++) {
            char x[16];
            snprintf(x, sizeof x, "RX(x%u)", q);
            CHECK(count(text, x) == 1, "%s at %u columns", x, columns);
        }
        CHECK(count(text, "─H─") == 12 && strstr(text, "Z11\n"));
        free(text);
        text = qr_circuit_draw(c, o, 12, QR_DRAWING_SVG, columns);
        double width = strtod(strstr(text, "width=\"") + strlen("width=\""), NULL);
        CHECK(width <= (columns < 50 ? 400 : 8 * columns), "%u: %g", columns, width);
        CHECK(count(text, "<title>RX(x") == 12 && count(text, ">⟨Z⟩<") == 12);
        free(text);
        text = qr_circuit_draw(c, o, 12, QR_DRAWING_LATEX, columns);
        CHECK(count(text, "\\gate{R_{X}(x_{") == 12 && count(text, "\\gate{H}") == 12 &&
                  count(text, "\\rstick{$\\langle Z\\rangle$}") == 12,
              "%u columns:\n%s", columns, text);
        free(text);
    }
    for (unsigned q = 0; q < 12; q++) qr_observable_fini(&o[q]);
    qr_circuit_free(c);
    for (uint64_t seed = 0; seed < 40; seed++) {
        c = ref_random_circuit(seed, 1 + (unsigned)seed % 6, 30);
        char *text = qr_circuit_draw(c, NULL, 0, QR_DRAWING_TEXT, 60);
        CHECK(widest(text) <= 60);
        free(text);
        qr_circuit_free(c);
    }
}

/* A drawing of a thousand rows has bounded size; controls and read-outs beyond 64 are in their
 * rows. */
static void many_rows(void) {
    struct qr_circuit *c = NULL;
    struct qr_observable o;
    const struct qr_qcnn_options opt = {1000, 1, QR_QCNN_NOTEBOOK};
    CHECK(qr_qcnn_new(&opt, &c, NULL, QR_IGNORED) == QR_OK);
    CHECK(qr_observable_parse("Z999", 1000, &o, QR_IGNORED) == QR_OK);
    char *text = qr_circuit_draw(c, &o, 1, QR_DRAWING_TEXT, 80);
    CHECK(widest(text) <= 80 && strlen(text) < 2000000, "%zu columns, %zu bytes", widest(text),
          strlen(text));
    CHECK(strncmp(text, "  0: ─H", strlen("  0: ─H")) == 0 && strstr(text, "\n999: ─H"), "%.20s",
          text);
    CHECK(strstr(text, " more of 23000 gates\n\nreads: Z999\n"), "%s", text + strlen(text) - 60);
    free(text);
    qr_observable_fini(&o);
    qr_circuit_free(c);
    c = qr_circuit_new(701, 0);
    struct qr_gate g = {.kind = QR_GATE_H,
                        .n_targets = 1,
                        .n_args = 1,
                        .targets = {698},
                        .args = {{QR_ARG_CONSTANT, 1, 0}}};
    qr_qubits_add(&g.controls, 700);
    CHECK(qr_circuit_add(c, &g, QR_IGNORED) == QR_OK);
    text = qr_circuit_draw(c, NULL, 0, QR_DRAWING_TEXT, 80);
    CHECK(strstr(text, "\n698: ─H─\n      │\n699: ─┼─\n      │\n700: ─○─\n"), "%s",
          text + strlen(text) - 60);
    free(text);
    qr_circuit_free(c);
}

int main(void) {
    small();
    other_forms();
    named();
    labels();
    wide();
    many_rows();
    return t_end();
}
