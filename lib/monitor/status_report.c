/* monitor/status_report.c — formats a worker's status as text and JSON. Unknown values are
 * left out, or null in JSON. Start reading at qr_status_text(). */
#include "monitor/status.h"

#include <string.h>

#include "base/text.h"
#include "format/json.h"

struct peer_extremes {
    uint32_t slowest, fastest, farthest, nearest;
    unsigned n_known, n_linked;
};

static double status_now(const struct qr_status_pair *s, enum qr_counter c) {
    return s->is.value[c];
}
static double status_growth(const struct qr_status_pair *s, enum qr_counter c) {
    return s->is.value[c] - s->was.value[c];
}
static double status_steps_per_s(const struct qr_status_pair *s) {
    return status_growth(s, QR_STEP) / s->interval_s;
}

/* Age of an event at Unix time `at`, in seconds by the worker's clock; -1 when unknown. */
static double status_age_s(const struct qr_status_pair *s, double at) {
    double age_s = s->is.now_s - at;
    return !(at > 0 && s->is.now_s > 0) ? -1 : age_s > 0 ? age_s : 0;
}

static struct peer_extremes status_find_extremes(const struct qr_status *s) {
    struct peer_extremes p = {0};
    for (uint32_t i = 0; i < QR_MAX_MEMBERS; i++) {
        if (s->peer[i] == QR_PEER_MEMBER && s->rtt_s[i] > 0) {
            if (p.n_linked == 0 || s->rtt_s[i] > s->rtt_s[p.farthest]) p.farthest = i;
            if (p.n_linked == 0 || s->rtt_s[i] < s->rtt_s[p.nearest]) p.nearest = i;
            p.n_linked++;
        }
        if (s->peer[i] != QR_PEER_MEMBER || !(s->speed[i] > 0)) continue;
        if (p.n_known == 0 || s->speed[i] < s->speed[p.slowest]) p.slowest = i;
        if (p.n_known == 0 || s->speed[i] > s->speed[p.fastest]) p.fastest = i;
        p.n_known++;
    }
    return p;
}

static bool status_is_tls_refusal(enum qr_counter c) {
    return strcmp(qr_counter_table[c].family, "qring_tls_refused_total") == 0;
}
static double status_count_tls_refusals(const struct qr_status_pair *s) {
    double n = 0;
    for (int c = 0; c < QR_N_COUNTERS; c++)
        if (status_is_tls_refusal((enum qr_counter)c)) n += status_now(s, (enum qr_counter)c);
    return n;
}

/* ---- text ---- */

static void status_put_duration(double s, struct qr_buf *b) {
    if (s < 10) qr_buf_printf(b, "%.2g s", s);
    else if (s < 120) qr_buf_printf(b, "%.0f s", s);
    else if (s < 7200) qr_buf_printf(b, "%.0f min", s / 60);
    else qr_buf_printf(b, "%.1f h", s / 3600);
}

static void status_put_ago(double s, struct qr_buf *b) {
    if (s < 0) return;
    qr_buf_puts(b, ", ");
    status_put_duration(s, b);
    qr_buf_puts(b, " ago");
}

static const char *status_member_kind(const struct qr_status *s, double index) {
    bool serves = index >= 0 && index < QR_MAX_MEMBERS && s->serves[(int)index];
    return serves ? "parameter server" : "worker";
}

static bool status_is_evaluator(const struct qr_status_pair *s) {
    return status_now(s, QR_EVALUATOR) > 0;
}

static void status_put_head(const struct qr_status_pair *s, const char *address, struct qr_buf *b) {
    double members = status_now(s, QR_MEMBERS);
    if (status_is_evaluator(s)) qr_buf_printf(b, "an evaluator at %s", address);
    else if (members > 0)
        qr_buf_printf(b, "%s %.0f at %s, rank %.0f of %.0f in generation %.0f",
                      status_member_kind(&s->is, status_now(s, QR_INDEX)), status_now(s, QR_INDEX),
                      address, status_now(s, QR_RANK), members, status_now(s, QR_GENERATION));
    else qr_buf_printf(b, "a worker at %s, not in a generation yet", address);
    qr_buf_puts(b, "\nprocess     up ");
    status_put_duration(s->is.uptime_s, b);
    qr_buf_printf(b, "; qring %s, %s, %s\n", s->is.version, s->is.contract, s->is.isa);
}

/* For an evaluator, instead of steps and members. */
static void status_put_evaluated(const struct qr_status_pair *s, struct qr_buf *b) {
    if (status_now(s, QR_EVALUATED_STEP) > 0)
        qr_buf_printf(b, "step %.0f", status_now(s, QR_EVALUATED_STEP));
    else qr_buf_puts(b, "nothing yet");
    if (status_now(s, QR_EVALUATIONS) > 0)
        qr_buf_printf(b, ", val_loss %s", qr_text_number(status_now(s, QR_VAL_LOSS)).s);
    status_put_ago(status_age_s(s, status_now(s, QR_EVALUATED_TIME)), b);
    qr_buf_printf(b, "; %.0f state%s here\n", status_now(s, QR_EVALUATIONS),
                  status_now(s, QR_EVALUATIONS) == 1 ? "" : "s");
}

static void status_put_evaluator(const struct qr_status_pair *s, struct qr_buf *b) {
    qr_buf_puts(b, "evaluated   ");
    status_put_evaluated(s, b);
    if (status_now(s, QR_CHECKPOINT_STEP) > 0)
        qr_buf_printf(b, "checkpoint  step %.0f is the newest\n",
                      status_now(s, QR_CHECKPOINT_STEP));
    else qr_buf_puts(b, "checkpoint  none yet\n");
}

static void status_put_step(const struct qr_status_pair *s, struct qr_buf *b) {
    double rate = status_steps_per_s(s),
           left = status_now(s, QR_STEPS_PLANNED) - status_now(s, QR_STEP);
    qr_buf_printf(b, "%.0f of %.0f, epoch %.0f of %.0f; %.3g steps/s", status_now(s, QR_STEP),
                  status_now(s, QR_STEPS_PLANNED), status_now(s, QR_EPOCH),
                  status_now(s, QR_EPOCHS_PLANNED), rate);
    if (rate > 0 && left > 0) {
        qr_buf_puts(b, ", ");
        status_put_duration(left / rate, b);
        qr_buf_puts(b, " left");
    }
}

static void status_put_progress(const struct qr_status_pair *s, struct qr_buf *b) {
    qr_buf_puts(b, "step        ");
    status_put_step(s, b);
    qr_buf_printf(b, "\nloss        %s, val_loss %s\n", qr_text_number(status_now(s, QR_LOSS)).s,
                  qr_text_number(status_now(s, QR_VAL_LOSS)).s);
    double compute = status_growth(s, QR_COMPUTE_TIME), reduce = status_growth(s, QR_REDUCE_TIME),
           update = status_growth(s, QR_UPDATE_TIME);
    if (compute + reduce + update > 0)
        qr_buf_printf(b, "time        of %.2g s: compute %.0f %%, reduce %.0f %%, update %.0f %%\n",
                      s->interval_s, 100 * compute / s->interval_s, 100 * reduce / s->interval_s,
                      100 * update / s->interval_s);
}

static void status_put_cost(const struct qr_status_pair *s, struct qr_buf *b) {
    if (!(status_now(s, QR_POD_SECONDS) > 0)) return;
    qr_buf_printf(b, "cost        %.4g pod-hours", status_now(s, QR_POD_SECONDS) / 3600);
    if (status_now(s, QR_COST) > 0)
        qr_buf_printf(b, ", %.6g at the set price", status_now(s, QR_COST));
    qr_buf_puts(b, "\n");
}

static void status_put_members(const struct qr_status_pair *s, struct qr_buf *b) {
    static const char *const heads[] = {
        [QR_PEER_ABSENT] = "\nabsent      ", [QR_PEER_MEMBER] = "members     "};
    const struct qr_status *st = &s->is;
    struct peer_extremes p = status_find_extremes(st);
    bool any = false;
    for (int what = QR_PEER_MEMBER; what >= QR_PEER_ABSENT; what--) {
        unsigned n = 0;
        for (uint32_t i = 0; i < QR_MAX_MEMBERS; i++) {
            if ((int)st->peer[i] != what) continue;
            qr_buf_printf(b, "%s%s %u", n++ ? ", " : heads[what], status_member_kind(st, i), i);
            if (what == QR_PEER_MEMBER && st->speed[i] > 0)
                qr_buf_printf(b, " (%.3g micro-batches/s)", st->speed[i]);
        }
        any = any || n;
    }
    if (any) qr_buf_puts(b, "\n");
    for (uint32_t i = 0; i < QR_MAX_MEMBERS; i++)
        if (st->no_data[i])
            qr_buf_printf(
                b, "broken link no data passes between this worker and %s %u, but it answers\n",
                status_member_kind(st, i), i);
    if (p.n_known > 1)
        qr_buf_printf(b, "slowest     worker %u, at %.0f %% of worker %u's speed\n", p.slowest,
                      100 * st->speed[p.slowest] / st->speed[p.fastest], p.fastest);
    if (p.n_linked > 1)
        qr_buf_printf(b, "slow link   round trip of 2 KB to %s %u %.2g ms, to %s %u %.2g ms\n",
                      status_member_kind(st, p.farthest), p.farthest, 1e3 * st->rtt_s[p.farthest],
                      status_member_kind(st, p.nearest), p.nearest, 1e3 * st->rtt_s[p.nearest]);
    qr_buf_printf(b, "changes     %.0f: %.0f joined, %.0f lost or left", status_now(s, QR_REGROUPS),
                  status_now(s, QR_MEMBERS_JOINED), status_now(s, QR_MEMBERS_LOST));
    if (status_now(s, QR_PAUSE) > 0)
        qr_buf_printf(b, "; the last pause took %.2g s", status_now(s, QR_PAUSE));
    qr_buf_puts(b, "\n");
}

static void status_put_checkpoint(const struct qr_status_pair *s, struct qr_buf *b) {
    qr_buf_printf(b, "checkpoint  step %.0f", status_now(s, QR_CHECKPOINT_STEP));
    status_put_ago(status_age_s(s, status_now(s, QR_CHECKPOINT_TIME)), b);
    qr_buf_printf(b, "; %.0f published here, %.0f failed\n", status_now(s, QR_CHECKPOINTS),
                  status_now(s, QR_CHECKPOINT_ERRORS));
}

static void status_put_storage(const struct qr_status_pair *s, struct qr_buf *b) {
    double reads = status_now(s, QR_STORE_GETS), writes = status_now(s, QR_STORE_PUTS);
    qr_buf_printf(b, "storage     %.0f reads, %.0f failed; %.0f writes, %.0f failed\n", reads,
                  status_now(s, QR_STORE_GET_ERRORS), writes, status_now(s, QR_STORE_PUT_ERRORS));
    if (status_now(s, QR_TLS_ACCEPTED) + status_count_tls_refusals(s) > 0) {
        qr_buf_printf(b, "TLS         %.0f accepted, %.0f refused", status_now(s, QR_TLS_ACCEPTED),
                      status_count_tls_refusals(s));
        const char *before = ": ";
        for (int c = 0; c < QR_N_COUNTERS; c++) {
            const char *reason = strchr(qr_counter_table[c].labels, '"');
            if (!status_is_tls_refusal((enum qr_counter)c) ||
                !(status_now(s, (enum qr_counter)c) > 0) || !reason)
                continue;
            qr_buf_printf(b, "%s%.0f %.*s", before, status_now(s, (enum qr_counter)c),
                          (int)strcspn(reason + 1, "\""), reason + 1);
            before = ", ";
        }
        qr_buf_puts(b, "\n");
    }
    qr_buf_printf(b, "last error  %s", *s->is.last_error ? s->is.last_error : "none");
    status_put_ago(status_age_s(s, s->is.last_error_s), b);
    qr_buf_puts(b, "\n");
}

void qr_status_text(const struct qr_status_pair *s, const char *address, struct qr_buf *ret) {
    status_put_head(s, address, ret);
    if (status_is_evaluator(s)) {
        status_put_evaluator(s, ret);
    } else {
        status_put_progress(s, ret);
        status_put_cost(s, ret);
        status_put_members(s, ret);
        status_put_checkpoint(s, ret);
    }
    status_put_storage(s, ret);
}

void qr_status_line(const struct qr_status_pair *s, struct qr_buf *ret) {
    if (status_now(s, QR_EVALUATOR) > 0) {
        qr_buf_puts(ret, "evaluated ");
        status_put_evaluated(s, ret);
        return;
    }
    qr_buf_puts(ret, "step ");
    status_put_step(s, ret);
    qr_buf_printf(ret, "; loss %s, val_loss %s; %.0f member%s\n",
                  qr_text_number(status_now(s, QR_LOSS)).s,
                  qr_text_number(status_now(s, QR_VAL_LOSS)).s, status_now(s, QR_MEMBERS),
                  status_now(s, QR_MEMBERS) == 1 ? "" : "s");
}

/* ---- JSON ---- */

void qr_status_json(const struct qr_status_pair *s, const char *address, unsigned indent,
                    struct qr_buf *ret) {
    struct qr_json_writer w = qr_json_writer(ret, indent);
    struct peer_extremes p = status_find_extremes(&s->is);
    double unknown = __builtin_nan(""),
           checkpoint_s = status_age_s(s, status_now(s, QR_CHECKPOINT_TIME)),
           error_s = status_age_s(s, s->is.last_error_s);
    qr_json_open(&w, '{');
    qr_json_key_string(&w, "address", address);
    qr_json_key_double(&w, "steps_per_second", status_steps_per_s(s));
    qr_json_key_number(&w, "slowest", p.n_known > 1 ? p.slowest : unknown);
    qr_json_key_number(&w, "slow_link", p.n_linked > 1 ? p.farthest : unknown);
    qr_json_key_double(&w, "checkpoint_age_seconds", checkpoint_s < 0 ? unknown : checkpoint_s);
    qr_json_key_double(&w, "last_error_age_seconds", error_s < 0 ? unknown : error_s);
    qr_status_put(&s->is, &w);
    qr_json_close(&w, '}');
    qr_buf_puts(ret, "\n");
}
