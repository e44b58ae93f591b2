/* output/progress_snapshot.c — the progress of a run and its text formats. Start reading at
 * qr_progress_snapshot_add(). */
#include "output/progress_snapshot.h"

#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/text.h"
#include "format/json.h"

static const int64_t window_ns = 60 * QR_SECOND, mark_ns = 4 * QR_SECOND;

/* ---- the snapshot ---- */

static void set_snapshot_value(struct qr_progress_snapshot *s, const char *name, bool validation,
                               double value) {
    size_t i = 0;
    while (i < s->n &&
           (s->value[i].validation != validation || strcmp(s->value[i].name, name) != 0))
        i++;
    if (i == QR_PROGRESS_VALUES) return;
    s->value[i].name = name;
    s->value[i].validation = validation;
    s->value[i].value = value;
    s->n += i == s->n;
}

void qr_progress_snapshot_add(struct qr_progress_snapshot *s, const struct qr_step_line *line,
                              const struct qr_step_detail *detail) {
    s->pod_ms = detail->pod_ms;
    s->step = line->step;
    s->epoch = line->epoch;
    s->learning_rate = detail->learning_rate;
    for (size_t i = 0; i < detail->n_running; i++)
        set_snapshot_value(s, detail->running[i].name, false, detail->running[i].value);
    if (line->eval) set_snapshot_value(s, "loss", true, line->loss);
    for (size_t i = 0; line->eval && i < line->n_metrics; i++)
        set_snapshot_value(s, line->metrics[i].name, true, line->metrics[i].value);
    for (size_t i = 0; i < line->n_logged; i++)
        set_snapshot_value(s, line->logged[i].name, false, line->logged[i].value);
}

void qr_progress_snapshot_end(struct qr_progress_snapshot *s, const struct qr_named_value *values,
                              size_t n) {
    for (size_t i = 0; i < n; i++) {
        bool validation = strncmp(values[i].name, "val_", 4) == 0;
        set_snapshot_value(s, values[i].name + (validation ? 4 : 0), validation, values[i].value);
    }
}

/* ---- speed ---- */

static void drop_first(struct qr_pace *p) {
    memmove(p->mark, p->mark + 1, (p->n - 1) * sizeof *p->mark);
    p->n--;
}

double qr_pace_left_s(struct qr_pace *p, int64_t now_ns, const struct qr_progress_snapshot *s) {
    /* The step went back: another run, or resumed from a checkpoint. */
    if (p->n && s->step < p->mark[p->n - 1].step) p->n = 0;
    while (p->n > 1 && now_ns - p->mark[1].ns >= window_ns) drop_first(p);
    double steps = p->n ? (double)(s->step - p->mark[0].step) : 0;
    double seconds = p->n ? (double)(now_ns - p->mark[0].ns) / (double)QR_SECOND : 0;
    if (p->n == 0 || now_ns - p->mark[p->n - 1].ns >= mark_ns) {
        if (p->n == QR_PACE_MARKS) drop_first(p);
        p->mark[p->n].ns = now_ns;
        p->mark[p->n++].step = s->step;
    }
    if (s->steps && s->step >= s->steps) return 0;
    if (!s->steps || !(steps > 0) || !(seconds > 0)) return -1;
    return (double)(s->steps - s->step) * seconds / steps;
}

int qr_progress_snapshot_percent(const struct qr_progress_snapshot *s, bool done) {
    if (done) return 100;
    if (!s->steps) return -1;
    double percent = 100.0 * (double)s->step / (double)s->steps;
    return percent < 99 ? (int)percent : 99;
}

/* ---- text formats ---- */

/* RFC 3339 in UTC, as in Kubernetes. */
static void put_time(struct qr_json_writer *w, int64_t wall_ns) {
    time_t seconds = (time_t)(wall_ns / QR_SECOND);
    char text[40] = "";
    struct tm tm;
    if (gmtime_r(&seconds, &tm)) strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &tm);
    qr_json_put_string(w, text);
}

static int whole_seconds(double s) { return s < 2147483647.0 ? (int)ceil(s) : 2147483647; }

static void number_text(double x, char ret[32]) { snprintf(ret, 32, "%.9g", x); }

static void put_metric(struct qr_json_writer *w, const char *before, const char *name,
                       const char *value) {
    char full[65]; /* limit of the API */
    snprintf(full, sizeof full, "%s%s", before, name);
    qr_json_open(w, '{');
    qr_json_put_key(w, "name");
    qr_json_put_string(w, full);
    qr_json_put_key(w, "value");
    qr_json_put_string(w, value);
    qr_json_close(w, '}');
}

static void put_count(struct qr_json_writer *w, const char *name, uint64_t n) {
    char text[32];
    snprintf(text, sizeof text, "%llu", (unsigned long long)n);
    put_metric(w, "", name, text);
}

void qr_progress_snapshot_trainer_status(const struct qr_progress_snapshot *s, bool done,
                                         double left_s, int64_t wall_ns, struct qr_buf *ret) {
    struct qr_json_writer w = qr_json_writer(ret, 0);
    int percent = qr_progress_snapshot_percent(s, done);
    char text[32];
    qr_json_open(&w, '{');
    qr_json_put_key(&w, "trainerStatus");
    qr_json_open(&w, '{');
    if (percent >= 0) {
        qr_json_put_key(&w, "progressPercentage");
        qr_json_put_i64(&w, percent);
    }
    if (done || left_s >= 0) {
        qr_json_put_key(&w, "estimatedRemainingSeconds");
        qr_json_put_i64(&w, done ? 0 : whole_seconds(left_s));
    }
    qr_json_put_key(&w, "metrics");
    qr_json_open(&w, '[');
    put_count(&w, "currentEpoch", s->epoch);
    if (s->epochs) put_count(&w, "totalEpochs", s->epochs);
    put_count(&w, "currentStep", s->step);
    if (s->steps) put_count(&w, "totalSteps", s->steps);
    for (size_t i = 0; i < s->n; i++) {
        number_text(s->value[i].value, text);
        put_metric(&w, s->value[i].validation ? "val_" : "", s->value[i].name, text);
    }
    number_text(s->learning_rate, text);
    put_metric(&w, "", "learning_rate", text);
    qr_json_close(&w, ']');
    qr_json_put_key(&w, "lastUpdatedTime");
    put_time(&w, wall_ns);
    qr_json_close(&w, '}');
    qr_json_close(&w, '}');
}

#define PREFIX "qring.dev/"
static const char *const own_names[] = {"progress", "step", "epoch", "remaining", "updated"};

/* Names may be user-defined: those that are not valid for annotations, or are used by qring, are
 * left out. */
static bool is_annotation(const char *name) {
    for (size_t i = 0; i < sizeof own_names / sizeof *own_names; i++)
        if (strcmp(name, own_names[i]) == 0) return false;
    return qr_is_name(name, 63, "-_.") && isalnum((unsigned char)name[0]) &&
           isalnum((unsigned char)name[strlen(name) - 1]);
}

static void put_annotation(struct qr_json_writer *w, const char *name, const char *value) {
    char key[80];
    snprintf(key, sizeof key, PREFIX "%s", name);
    qr_json_put_key(w, key);
    qr_json_put_string(w, value);
}

static void put_fraction(struct qr_json_writer *w, const char *name, uint64_t n, uint64_t of) {
    char text[48];
    if (of) snprintf(text, sizeof text, "%llu/%llu", (unsigned long long)n, (unsigned long long)of);
    else snprintf(text, sizeof text, "%llu", (unsigned long long)n);
    put_annotation(w, name, text);
}

void qr_progress_snapshot_annotations(const struct qr_progress_snapshot *s, bool done,
                                      double left_s, int64_t wall_ns, struct qr_buf *ret) {
    struct qr_json_writer w = qr_json_writer(ret, 0);
    int percent = qr_progress_snapshot_percent(s, done);
    char text[32], name[64];
    qr_json_open(&w, '{');
    qr_json_put_key(&w, "metadata");
    qr_json_open(&w, '{');
    qr_json_put_key(&w, "annotations");
    qr_json_open(&w, '{');
    snprintf(text, sizeof text, "%d%%", percent);
    if (percent >= 0) put_annotation(&w, "progress", text);
    put_fraction(&w, "step", s->step, s->steps);
    put_fraction(&w, "epoch", s->epoch, s->epochs);
    qr_json_put_key(&w, PREFIX "remaining");
    snprintf(text, sizeof text, "%ds", done ? 0 : whole_seconds(left_s));
    /* null removes an earlier value. */
    if (done || left_s >= 0) qr_json_put_string(&w, text);
    else qr_json_put_null(&w);
    for (size_t i = 0; i < s->n; i++) {
        int n = snprintf(name, sizeof name, "%s%s", s->value[i].validation ? "val_" : "",
                         s->value[i].name);
        if (n >= (int)sizeof name || !is_annotation(name)) continue;
        number_text(s->value[i].value, text);
        put_annotation(&w, name, text);
    }
    qr_json_put_key(&w, PREFIX "updated");
    put_time(&w, wall_ns);
    qr_json_close(&w, '}');
    qr_json_close(&w, '}');
    qr_json_close(&w, '}');
}
