/* sim/report/report_print.c — prints a report as text and as JSON. Start reading at
 * qr_sim_report_text(). */
#include <stdio.h>
#include <string.h>

#include "sim/report/report.h"

enum { WIDTH = 118 };

static void report_put_count(struct qr_buf *to, double x, const char *unit) {
    static const char *const prefix[] = {"", "K", "M", "G", "T", "P"};
    char text[32];
    int u = 0;
    for (; x >= 1000 && u < 5; u++) x /= 1000;
    snprintf(text, sizeof text, "%.3g %s%s", x, prefix[u], unit);
    qr_buf_printf(to, "%12s", text);
}

/* Appends the words of `text`, with line breaks at WIDTH. */
static void report_put_wrapped(struct qr_buf *to, const char *text, size_t indent) {
    size_t at = indent;
    for (const char *w = text; *w;) {
        size_t n = strcspn(w, " ");
        if (at > indent && at + 1 + n > WIDTH) {
            qr_buf_printf(to, "\n%*s", (int)indent, "");
            at = indent;
        } else if (at > indent) {
            qr_buf_puts(to, " ");
            at++;
        }
        qr_buf_printf(to, "%.*s", (int)n, w);
        at += n;
        w += n;
        w += strspn(w, " ");
    }
    qr_buf_puts(to, "\n");
}

static void report_put_fused(const struct qr_sim_report *r, struct qr_buf *to) {
    qr_buf_puts(to, "\nfused gates (#shape: its qubits)\n");
    for (size_t i = 0; i < r->n_fused;) {
        const struct qr_sim_fused_gate *first = &r->fused[i];
        struct qr_buf words = {0};
        unsigned last = UINT32_MAX;
        bool halves = strcmp(r->engine, "streaming") == 0;
        for (; i < r->n_fused; i++) {
            const struct qr_sim_fused_gate *x = &r->fused[i];
            if (x->part != first->part || (halves && x->half != first->half)) break;
            if (x->shape != last) qr_buf_printf(&words, " #%u:", x->shape + 1);
            last = x->shape;
            qr_buf_printf(&words, x->single ? " %u" : " %u-%u", x->q[0], x->q[1]);
            for (unsigned q = 0; q < 64; q++)
                if (x->controls >> q & 1) qr_buf_printf(&words, "(%u)", q);
        }
        if (halves)
            qr_buf_printf(to, "  %-8s  half-layer %u ", r->parts[first->part], first->half + 1);
        else qr_buf_printf(to, "  %-8s ", r->parts[first->part]);
        report_put_wrapped(to, qr_buf_string(&words) + 1, halves ? 26 : 12);
        qr_buf_free(&words);
    }
}

static void report_put_shapes(const struct qr_sim_report *r, struct qr_buf *to) {
    qr_buf_puts(to, "\nshapes      (gates of a fused gate in order; 1 and 2 are its qubits)\n");
    for (size_t i = 0; i < r->n_shapes; i++) {
        const struct qr_sim_shape *s = &r->shapes[i];
        if (!s->n_fused) continue;
        qr_buf_printf(to, "  #%-8zu %u gate%s, %u derivatives, in %u fused gate%s\n            ",
                      i + 1, s->n_gates, s->n_gates == 1 ? "" : "s", s->n_derivatives, s->n_fused,
                      s->n_fused == 1 ? "" : "s");
        report_put_wrapped(to, s->gates, 12);
    }
}

static void report_put_stages(const struct qr_sim_report *r, struct qr_buf *to) {
    static const char *const when[] = {"", "once per step: ", "once: "};
    double n = (double)r->n_samples;
    qr_buf_printf(to, "\nstages      (per sample, in micro-batches of %zu)\n", r->n_samples);
    for (unsigned w = QR_EACH_MICRO_BATCH; w <= QR_ONCE; w++)
        for (size_t i = 0; i < r->n_stages; i++) {
            const struct qr_sim_stage *s = &r->stages[i];
            if (s->when != w) continue;
            qr_buf_printf(to, "  %-13s ", s->name);
            report_put_count(to, w ? s->flop : s->flop / n, "flop");
            report_put_count(to, w ? s->bytes : s->bytes / n, "B");
            qr_buf_printf(to, "   %s%s\n", when[w], s->what);
        }
    qr_buf_printf(to, "  %-13s ", "total");
    report_put_count(to, r->flop / n, "flop");
    report_put_count(to, r->bytes / n, "B");
    qr_buf_puts(to, "\n");
}

static void report_put_buffers(const struct qr_sim_report *r, struct qr_buf *to) {
    qr_buf_puts(to, "\nmemory      (per workspace)\n");
    for (size_t i = 0; i < r->n_buffers; i++) {
        qr_buf_printf(to, "  %-17s ", r->buffers[i].name);
        report_put_count(to, (double)r->buffers[i].bytes, "B");
        qr_buf_puts(to, "\n");
    }
    qr_buf_printf(to, "  %-17s ", "total");
    report_put_count(to, (double)r->workspace_bytes, "B");
    qr_buf_puts(to, "; per-step numbers, shared by all threads,");
    report_put_count(to, (double)r->bound_bytes, "B");
    qr_buf_puts(to, "\n");
}

void qr_sim_report_text(const struct qr_sim_report *r, bool whole, struct qr_buf *to) {
    size_t n_shapes = 0;
    for (size_t i = 0; i < r->n_shapes; i++) n_shapes += r->shapes[i].n_fused > 0;
    qr_buf_printf(to, "plan        %s engine: %zu gates in %zu fused gates of %zu shapes\n",
                  r->engine, r->n_gates, r->n_fused, n_shapes);
    qr_buf_puts(to, "  why       ");
    report_put_wrapped(to, r->why, 12);
    for (size_t i = 0; i < r->n_lines; i++) {
        qr_buf_printf(to, "  %-9s ", r->lines[i].key);
        report_put_wrapped(to, r->lines[i].text, 12);
    }
    if (!whole) return;
    report_put_fused(r, to);
    report_put_shapes(r, to);
    report_put_stages(r, to);
    report_put_buffers(r, to);
}

/* ---- JSON ---- */

static void report_put_number(struct qr_json_writer *w, const char *key, double x) {
    qr_json_key_double(w, key, x);
}
static void report_put_string(struct qr_json_writer *w, const char *key, const char *s) {
    qr_json_key_string(w, key, s);
}
static void report_open_list(struct qr_json_writer *w, const char *key) {
    qr_json_key_open(w, key, '[');
}

static void report_fused_json(const struct qr_sim_report *r, struct qr_json_writer *w) {
    report_open_list(w, "fused_gates");
    for (size_t i = 0; i < r->n_fused; i++) {
        const struct qr_sim_fused_gate *b = &r->fused[i];
        qr_json_open(w, '{');
        report_put_string(w, "part", r->parts[b->part]);
        report_put_number(w, "half_layer", b->half + 1);
        report_put_number(w, "shape", b->shape + 1);
        report_open_list(w, "qubits");
        for (int f = 0; f < (b->single ? 1 : 2); f++) qr_json_put_double(w, b->q[f]);
        qr_json_close(w, ']');
        report_open_list(w, "controls");
        for (unsigned q = 0; q < 64; q++)
            if (b->controls >> q & 1) qr_json_put_double(w, q);
        qr_json_close(w, ']');
        qr_json_close(w, '}');
    }
    qr_json_close(w, ']');
    report_open_list(w, "shapes");
    for (size_t i = 0; i < r->n_shapes; i++) {
        const struct qr_sim_shape *s = &r->shapes[i];
        qr_json_open(w, '{');
        report_put_number(w, "shape", (double)i + 1);
        report_put_string(w, "gates", s->gates);
        report_put_number(w, "derivatives", s->n_derivatives);
        report_put_number(w, "fused_gates", s->n_fused);
        report_put_number(w, "row_entries", s->row);
        qr_json_close(w, '}');
    }
    qr_json_close(w, ']');
}

static void report_costs_json(const struct qr_sim_report *r, struct qr_json_writer *w) {
    report_open_list(w, "stages");
    for (size_t i = 0; i < r->n_stages; i++) {
        const struct qr_sim_stage *s = &r->stages[i];
        qr_json_open(w, '{');
        report_put_string(w, "stage", s->name);
        report_put_string(w, "what", s->what);
        report_put_string(w, "per",
                          s->when == QR_EACH_MICRO_BATCH ? "micro-batch"
                          : s->when == QR_EACH_STEP      ? "step"
                                                         : "workspace");
        report_put_number(w, "flop", s->flop);
        report_put_number(w, "bytes", s->bytes);
        qr_json_close(w, '}');
    }
    qr_json_close(w, ']');
    report_open_list(w, "memory");
    for (size_t i = 0; i < r->n_buffers; i++) {
        qr_json_open(w, '{');
        report_put_string(w, "buffer", r->buffers[i].name);
        report_put_number(w, "bytes", (double)r->buffers[i].bytes);
        qr_json_close(w, '}');
    }
    qr_json_close(w, ']');
}

void qr_sim_report_json(const struct qr_sim_report *r, struct qr_json_writer *w) {
    qr_json_open(w, '{');
    report_put_string(w, "engine", r->engine);
    report_put_string(w, "why", r->why);
    report_put_number(w, "samples_of_a_micro_batch", (double)r->n_samples);
    report_put_string(w, "order", r->read_outs_first ? "read-outs first" : "direction known");
    report_put_number(w, "flop", r->flop);
    report_put_number(w, "bytes", r->bytes);
    report_put_number(w, "workspace_bytes", (double)r->workspace_bytes);
    report_put_number(w, "step_numbers_bytes", (double)r->bound_bytes);
    report_open_list(w, "lines");
    for (size_t i = 0; i < r->n_lines; i++) {
        qr_json_open(w, '{');
        report_put_string(w, "key", r->lines[i].key);
        report_put_string(w, "text", r->lines[i].text);
        qr_json_close(w, '}');
    }
    qr_json_close(w, ']');
    report_fused_json(r, w);
    report_costs_json(r, w);
    qr_json_close(w, '}');
}
