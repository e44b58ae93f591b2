/* sim/report/report_build.c — adds stages, lines, parts and fused gates to a report. The engines
 * call these functions; see qr_cones_report() for an example. */
#include "sim/report/report_build.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"

struct qr_sim_stage *qr_report_stage(struct qr_report_build *b, const char *name,
                                     const char *what) {
    struct qr_sim_report *r = b->r;
    for (size_t i = 0; i < r->n_stages; i++)
        if (strcmp(r->stages[i].name, name) == 0) return &r->stages[i];
    r->stages = qr_xreallocarray(r->stages, r->n_stages + 1, sizeof *r->stages);
    struct qr_sim_stage *s = &r->stages[r->n_stages++];
    *s = (struct qr_sim_stage){.what = what};
    snprintf(s->name, sizeof s->name, "%s", name);
    return s;
}

void qr_report_line(struct qr_report_build *b, const char *key, const char *format, ...) {
    struct qr_sim_report *r = b->r;
    char text[256];
    va_list ap;
    va_start(ap, format);
    vsnprintf(text, sizeof text, format, ap);
    va_end(ap);
    r->lines = qr_xreallocarray(r->lines, r->n_lines + 1, sizeof *r->lines);
    struct qr_sim_line *l = &r->lines[r->n_lines++];
    snprintf(l->key, sizeof l->key, "%s", key);
    l->text = qr_xstrdup(text);
}

void qr_report_part(struct qr_report_build *b, const char *format, ...) {
    struct qr_sim_report *r = b->r;
    va_list ap;
    r->parts = qr_xreallocarray(r->parts, r->n_parts + 1, sizeof *r->parts);
    va_start(ap, format);
    vsnprintf(r->parts[r->n_parts++], sizeof r->parts[0], format, ap);
    va_end(ap);
}

void qr_report_gate(struct qr_report_build *b, uint32_t fused, unsigned part, unsigned half,
                    unsigned base) {
    struct qr_sim_report *r = b->r;
    const struct qr_fused_gate *from = &b->p->fused[fused];
    r->fused[r->n_fused++] = (struct qr_sim_fused_gate){
        .part = part,
        .half = half,
        .shape = from->shape,
        .controls = from->controls << base,
        .single = from->single,
        .q = {(uint8_t)(from->q[0] + base), (uint8_t)(from->q[1] + base)}};
    r->shapes[from->shape].n_fused++;
}

struct qr_report_sparsity qr_report_sparsity(const double *numbers) {
    unsigned most = 1, moved = 0;
    bool moves = true;
    for (unsigned r = 0; r < 4; r++) {
        unsigned n = 0;
        for (unsigned c = 0; c < 4; c++) {
            double re = numbers[r * 4 + c], im = numbers[16 + r * 4 + c];
            if (re == 0 && im == 0) continue;
            n++;
            moves = moves && im == 0 && (re == 1 || re == -1);
            moved += c != r || re != 1;
        }
        if (n > most) most = n;
    }
    if (moves && most == 1) return (struct qr_report_sparsity){0, (uint8_t)moved};
    return (struct qr_report_sparsity){most > 2 ? 4 : (uint8_t)most, 0};
}
