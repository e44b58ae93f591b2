/* monitor/profile/profile.c — decodes the profile plugin's requests and encodes captures as an
 * XSpace. Start reading at qr_xspace_encode(). */
#include "monitor/profile/profile.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/protobuf.h"

/* ---- decode ---- */

static enum qr_code wire_check(const struct qr_protobuf_reader *r, const char *what,
                               struct qr_err *err) {
    if (!r->bad) return QR_OK;
    return qr_fail(err, QR_INVALID_ARGUMENT, "%s is not a protobuf message", what);
}

static enum qr_code profile_check_size(struct qr_bytes bytes, const char *what,
                                       struct qr_err *err) {
    if (bytes.n <= QR_PROFILE_REQUEST_MAX) return QR_OK;
    return qr_fail(err, QR_INVALID_ARGUMENT, "%s of %zu bytes, above the limit of %d", what,
                   bytes.n, QR_PROFILE_REQUEST_MAX);
}

static enum qr_code profile_check_session(struct qr_bytes id, struct qr_err *err) {
    if (id.n <= QR_PROFILE_TEXT_MAX) return QR_OK;
    return qr_fail(err, QR_INVALID_ARGUMENT, "session_id of %zu bytes, above the limit of %d", id.n,
                   QR_PROFILE_TEXT_MAX);
}

/* Decodes ProfileOptions. Their duration is used if the request itself has none. */
static void profile_decode_options(struct qr_bytes bytes, struct qr_protobuf_reader *outer,
                                   struct qr_profile_request *ret) {
    struct qr_protobuf_reader r = qr_protobuf_reader(bytes);
    struct qr_protobuf_field f;
    while (qr_protobuf_next(&r, &f)) {
        if (qr_protobuf_is(&f, 8, QR_PROTOBUF_VARINT)) ret->start_timestamp_ns = f.value;
        if (qr_protobuf_is(&f, 9, QR_PROTOBUF_VARINT) && !ret->duration_ms)
            ret->duration_ms = f.value;
    }
    outer->bad |= r.bad;
}

enum qr_code qr_profile_request_decode(struct qr_bytes bytes, struct qr_profile_request *ret,
                                       struct qr_err *err) {
    struct qr_protobuf_reader r = qr_protobuf_reader(bytes);
    struct qr_protobuf_field f;
    struct qr_bytes options = {0};
    struct qr_profile_request got = {0};
    if (profile_check_size(bytes, "ProfileRequest", err) != QR_OK) return QR_INVALID_ARGUMENT;
    while (qr_protobuf_next(&r, &f)) {
        if (qr_protobuf_is(&f, 1, QR_PROTOBUF_VARINT)) got.duration_ms = f.value;
        if (qr_protobuf_is(&f, 4, QR_PROTOBUF_BYTES)) options = f.bytes;
        if (qr_protobuf_is(&f, 6, QR_PROTOBUF_BYTES)) got.session_id = f.bytes;
        if (qr_protobuf_is(&f, 9, QR_PROTOBUF_VARINT)) got.emit_xspace = f.value != 0;
    }
    if (options.n) profile_decode_options(options, &r, &got);
    if (wire_check(&r, "ProfileRequest", err) != QR_OK) return QR_INVALID_ARGUMENT;
    if (profile_check_session(got.session_id, err) != QR_OK) return QR_INVALID_ARGUMENT;
    *ret = got;
    return QR_OK;
}

enum qr_code qr_terminate_request_decode(struct qr_bytes bytes, struct qr_bytes *ret_session_id,
                                         struct qr_err *err) {
    struct qr_protobuf_reader r = qr_protobuf_reader(bytes);
    struct qr_protobuf_field f;
    struct qr_bytes id = {0};
    if (profile_check_size(bytes, "TerminateRequest", err) != QR_OK) return QR_INVALID_ARGUMENT;
    while (qr_protobuf_next(&r, &f))
        if (qr_protobuf_is(&f, 1, QR_PROTOBUF_BYTES)) id = f.bytes;
    if (wire_check(&r, "TerminateRequest", err) != QR_OK) return QR_INVALID_ARGUMENT;
    if (profile_check_session(id, err) != QR_OK) return QR_INVALID_ARGUMENT;
    *ret_session_id = id;
    return QR_OK;
}

enum qr_code qr_monitor_request_decode(struct qr_bytes bytes, uint64_t *ret_duration_ms,
                                       struct qr_err *err) {
    struct qr_protobuf_reader r = qr_protobuf_reader(bytes);
    struct qr_protobuf_field f;
    uint64_t duration_ms = 0;
    if (profile_check_size(bytes, "MonitorRequest", err) != QR_OK) return QR_INVALID_ARGUMENT;
    while (qr_protobuf_next(&r, &f))
        if (qr_protobuf_is(&f, 1, QR_PROTOBUF_VARINT)) duration_ms = f.value;
    if (wire_check(&r, "MonitorRequest", err) != QR_OK) return QR_INVALID_ARGUMENT;
    *ret_duration_ms = duration_ms;
    return QR_OK;
}

/* ---- encode ---- */

void qr_profile_response_encode(struct qr_bytes xspace_builder, bool emit_xspace,
                                struct qr_buf *ret) {
    static const char name[] = "xplane.pb";
    if (xspace_builder.n == 0) {
        qr_protobuf_uint(ret, 7, 1);
    } else if (emit_xspace) {
        qr_protobuf_bytes(ret, 8, xspace_builder.p, xspace_builder.n);
    } else {
        struct qr_buf file = {0};
        qr_protobuf_text(&file, 1, name);
        qr_protobuf_bytes(&file, 2, xspace_builder.p, xspace_builder.n);
        qr_protobuf_part(ret, 6, &file);
        qr_buf_free(&file);
    }
}

void qr_monitor_response_encode(const char *text, struct qr_buf *ret) {
    qr_protobuf_text(ret, 1, text);
}

/* ---- XSpace ---- */

/* Ids of statistics that the plugin interprets, from 1; those of the span kinds follow. An event
 * with STAT_ROOT is a root; the events of a consumer belong to the root of the producer with the
 * same id. */
enum {
    STAT_ROOT = 1,
    STAT_PRODUCER_TYPE,
    STAT_PRODUCER,
    STAT_CONSUMER_TYPE,
    STAT_CONSUMER,
    STAT_BEGIN,
    STAT_END,
    STAT_KINDS
};
static const char *const stat_names[STAT_KINDS] = {[STAT_ROOT] = "_r",
                                                   [STAT_PRODUCER_TYPE] = "_pt",
                                                   [STAT_PRODUCER] = "_p",
                                                   [STAT_CONSUMER_TYPE] = "_ct",
                                                   [STAT_CONSUMER] = "_c",
                                                   [STAT_BEGIN] = "profile_start_time",
                                                   [STAT_END] = "profile_stop_time"};

/* The name of an event: each combination of kind, name and (if the text has %d) number has an
 * id. */
struct event_name {
    enum qr_span_kind kind;
    const char *name;
    uint64_t number;
};
struct xspace_builder {
    const struct qr_spans *s;
    struct event_name *names;
    size_t n_names, cap;
    struct qr_buf lines, line, event, stat; /* nested; reused */
    const struct qr_span **steps;           /* in order of time; they do not overlap */
    size_t n_steps;
};

static bool xspace_is_step(const struct qr_span *e) {
    return e->kind == QR_SPAN_STEP || e->kind == QR_SPAN_EVALUATION;
}

/* Returns the id of a span's name, from 1. */
static uint64_t xspace_name_id(struct xspace_builder *x, const struct qr_span *e) {
    bool numbered = strstr(qr_span_rows[e->kind].text, "%d") != NULL;
    struct event_name n = {e->kind, e->name, numbered ? e->number : 0};
    size_t i = 0;
    for (; i < x->n_names; i++)
        if (x->names[i].kind == n.kind && x->names[i].name == n.name &&
            x->names[i].number == n.number)
            return i + 1;
    if (x->n_names == x->cap) {
        x->cap = x->cap ? 2 * x->cap : 64;
        x->names = qr_xreallocarray(x->names, x->cap, sizeof *x->names);
    }
    x->names[x->n_names++] = n;
    return i + 1;
}

static void xspace_put_name(const struct event_name *n, struct qr_buf *ret) {
    const char *text = qr_span_rows[n->kind].text, *at = strchr(text, '%');
    qr_buf_put(ret, text, at ? (size_t)(at - text) : strlen(text));
    if (!at) return;
    if (at[1] == 'n') qr_buf_puts(ret, n->name ? n->name : "?");
    else qr_buf_printf(ret, "%llu", (unsigned long long)n->number);
    qr_buf_puts(ret, at + 2);
}

/* Returns the id of the statistic for a kind's number; kinds with the same text share an id. */
static uint64_t xspace_stat_id(enum qr_span_kind kind) {
    unsigned k = 0;
    while (!qr_span_rows[k].statistic ||
           strcmp(qr_span_rows[k].statistic, qr_span_rows[kind].statistic) != 0)
        k++;
    return STAT_KINDS + k;
}

static void xspace_put_stat(struct xspace_builder *x, struct qr_buf *to, unsigned field,
                            uint64_t id, uint64_t v) {
    qr_protobuf_uint(&x->stat, 1, id);
    qr_protobuf_uint(&x->stat, 4, v);
    qr_protobuf_part(to, field, &x->stat);
}

/* Returns the step (from 1) of the training thread during which a span began; 0: none. */
static size_t xspace_step_of(const struct xspace_builder *x, const struct qr_span *e) {
    size_t low = 0, high = x->n_steps;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (x->steps[middle]->begin_ns <= e->begin_ns) low = middle + 1;
        else high = middle;
    }
    return low && x->steps[low - 1]->end_ns > e->begin_ns ? low : 0;
}

static void xspace_put_event(struct xspace_builder *x, const struct qr_span *e, bool outermost) {
    const struct qr_span_row *row = &qr_span_rows[e->kind];
    struct qr_buf *b = &x->event;
    qr_protobuf_uint(b, 1, xspace_name_id(x, e));
    qr_protobuf_uint(b, 2, (uint64_t)(e->begin_ns - x->s->begin_ns) * 1000);
    qr_protobuf_uint(b, 3, (uint64_t)(e->end_ns - e->begin_ns) * 1000);
    if (row->statistic && !strstr(row->text, "%d"))
        xspace_put_stat(x, b, 4, xspace_stat_id(e->kind), e->number);
    size_t step = xspace_step_of(x, e);
    if (xspace_is_step(e)) {
        xspace_put_stat(x, b, 4, STAT_ROOT, 1);
        xspace_put_stat(x, b, 4, STAT_PRODUCER_TYPE, 0);
        xspace_put_stat(x, b, 4, STAT_PRODUCER, step);
    } else if (outermost && step) {
        xspace_put_stat(x, b, 4, STAT_CONSUMER_TYPE, 0);
        xspace_put_stat(x, b, 4, STAT_CONSUMER, step);
    }
    qr_protobuf_part(&x->line, 4, b);
}

/* Orders by begin. Of two spans with the same begin the longer one comes first: it encloses the
 * other. */
static int xspace_compare_begin(const void *a, const void *b) {
    const struct qr_span *p = a, *q = b;
    if (p->begin_ns != q->begin_ns) return p->begin_ns < q->begin_ns ? -1 : 1;
    return p->end_ns > q->end_ns ? -1 : p->end_ns < q->end_ns;
}

static void xspace_put_thread(struct xspace_builder *x, const struct qr_span_thread *t,
                              int32_t process) {
    int64_t until_ns = 0;
    qr_protobuf_uint(&x->line, 1, (uint64_t)t->id);
    qr_protobuf_text(&x->line, 2, t->id == process ? "training" : t->name);
    qr_protobuf_uint(&x->line, 3, (uint64_t)x->s->begin_wall_ns);
    for (size_t i = 0; i < t->n; i++) {
        bool outermost = t->spans[i].begin_ns >= until_ns;
        if (outermost) until_ns = t->spans[i].end_ns;
        xspace_put_event(x, &t->spans[i], outermost);
    }
    qr_protobuf_part(&x->lines, 3, &x->line);
}

/* Writes an entry of a map from ids to messages whose first fields are id and name. */
static void xspace_put_metadata(struct qr_buf *plane, unsigned field, uint64_t id, const char *name,
                                struct qr_buf *entry, struct qr_buf *value) {
    qr_protobuf_uint(value, 1, id);
    qr_protobuf_text(value, 2, name);
    qr_protobuf_uint(entry, 1, id);
    qr_protobuf_part(entry, 2, value);
    qr_protobuf_part(plane, field, entry);
}

static void xspace_put_all_metadata(struct xspace_builder *x, struct qr_buf *plane) {
    struct qr_buf text = {0};
    for (size_t i = 0; i < x->n_names; i++) {
        xspace_put_name(&x->names[i], &text);
        xspace_put_metadata(plane, 4, i + 1, qr_buf_string(&text), &x->event, &x->stat);
        qr_buf_clear(&text);
    }
    for (unsigned i = 1; i < STAT_KINDS; i++)
        xspace_put_metadata(plane, 5, i, stat_names[i], &x->event, &x->stat);
    for (unsigned k = 0; k < QR_SPAN_KINDS; k++)
        if (qr_span_rows[k].statistic && xspace_stat_id((enum qr_span_kind)k) == STAT_KINDS + k)
            xspace_put_metadata(plane, 5, STAT_KINDS + k, qr_span_rows[k].statistic, &x->event,
                                &x->stat);
    qr_buf_free(&text);
}

/* Collects the steps of the one thread that has any. */
static void xspace_find_steps(struct xspace_builder *x, const struct qr_spans *s) {
    size_t n = 0;
    for (size_t t = 0; t < s->n_threads && !n; t++)
        for (size_t i = 0; i < s->threads[t].n; i++) n += xspace_is_step(&s->threads[t].spans[i]);
    x->steps = qr_xcalloc(n + 1, sizeof *x->steps);
    for (size_t t = 0; t < s->n_threads && !x->n_steps; t++)
        for (size_t i = 0; i < s->threads[t].n; i++)
            if (xspace_is_step(&s->threads[t].spans[i]))
                x->steps[x->n_steps++] = &s->threads[t].spans[i];
}

/* Writes begin and end of the capture, as the plugin expects them. */
static void xspace_put_environment(struct xspace_builder *x, struct qr_buf *ret) {
    struct qr_buf *plane = &x->lines;
    uint64_t begin_ns = (uint64_t)x->s->begin_wall_ns,
             end_ns = begin_ns + (uint64_t)(x->s->end_ns - x->s->begin_ns);
    qr_protobuf_uint(plane, 1, 2);
    qr_protobuf_text(plane, 2, "Task Environment");
    xspace_put_metadata(plane, 5, STAT_BEGIN, stat_names[STAT_BEGIN], &x->event, &x->stat);
    xspace_put_metadata(plane, 5, STAT_END, stat_names[STAT_END], &x->event, &x->stat);
    qr_protobuf_uint(&x->event, 1, STAT_BEGIN);
    qr_protobuf_uint(&x->event, 3, begin_ns);
    qr_protobuf_part(plane, 6, &x->event);
    qr_protobuf_uint(&x->event, 1, STAT_END);
    qr_protobuf_uint(&x->event, 3, end_ns);
    qr_protobuf_part(plane, 6, &x->event);
    qr_protobuf_part(ret, 1, plane);
}

void qr_xspace_encode(struct qr_spans *s, const char *host, int32_t process, struct qr_buf *ret) {
    struct xspace_builder x = {.s = s};
    struct qr_buf plane = {0}, lost = {0};
    for (size_t t = 0; t < s->n_threads; t++)
        qsort(s->threads[t].spans, s->threads[t].n, sizeof *s->threads[t].spans,
              xspace_compare_begin);
    xspace_find_steps(&x, s);
    qr_protobuf_uint(&plane, 1, 1);
    qr_protobuf_text(&plane, 2, "/host:CPU");
    for (size_t t = 0; t < s->n_threads; t++) xspace_put_thread(&x, &s->threads[t], process);
    qr_buf_put(&plane, x.lines.p, x.lines.n);
    qr_buf_clear(&x.lines);
    xspace_put_all_metadata(&x, &plane);
    qr_protobuf_part(ret, 1, &plane);
    xspace_put_environment(&x, ret);
    if (s->n_lost) {
        qr_buf_printf(&lost,
                      "%llu spans beyond the limit of %d were dropped: capture a shorter time",
                      (unsigned long long)s->n_lost, QR_SPANS_MAX);
        qr_protobuf_part(ret, 3, &lost);
    }
    qr_protobuf_text(ret, 4, host);
    struct qr_buf *const all[] = {&plane, &lost, &x.lines, &x.line, &x.event, &x.stat};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) qr_buf_free(all[i]);
    free(x.names);
    free(x.steps);
}
