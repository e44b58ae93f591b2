#include "monitor/profile/profile.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/protobuf.h"

/* ---- decode ---- */

struct wire {
    const uint8_t *p, *end;
    bool bad;
};

static uint64_t take_varint(struct wire *r) {
    uint64_t v = 0;
    for (unsigned shift = 0; shift < 64 && r->p < r->end; shift += 7) {
        uint8_t byte = *r->p++;
        v |= (uint64_t)(byte & 0x7f) << shift;
        if (byte < 0x80) return v;
    }
    r->bad = true;
    return 0;
}

static struct qr_bytes take(struct wire *r, uint64_t n) {
    const uint8_t *p = r->p;
    if (n > (uint64_t)(r->end - r->p)) {
        r->bad = true;
        n = 0;
    }
    r->p += n;
    return qr_bytes_of(p, (size_t)n);
}

struct field {
    uint64_t number;
    unsigned type;
    uint64_t value;        /* of a QR_PROTOBUF_VARINT */
    struct qr_bytes bytes; /* of QR_PROTOBUF_BYTES */
};

/* The next one; false: none is left, or they are no message. */
static bool next(struct wire *r, struct field *ret) {
    if (r->p == r->end || r->bad) return false;
    uint64_t tag = take_varint(r);
    *ret = (struct field){.number = tag >> 3, .type = tag & 7};
    switch (ret->type) {
    case QR_PROTOBUF_VARINT: ret->value = take_varint(r); break;
    case QR_PROTOBUF_FIXED64: (void)take(r, 8); break;
    case QR_PROTOBUF_BYTES: ret->bytes = take(r, take_varint(r)); break;
    case QR_PROTOBUF_FIXED32: (void)take(r, 4); break;
    default: r->bad = true; /* groups are no longer sent */
    }
    r->bad |= ret->number == 0;
    return !r->bad;
}

static bool is(const struct field *f, uint64_t number, unsigned type) {
    return f->number == number && f->type == type;
}

static enum qr_code check(const struct wire *r, const char *what, struct qr_err *err) {
    if (!r->bad) return QR_OK;
    return qr_fail(err, QR_INVALID_ARGUMENT, "%s is not a protobuf message", what);
}

static enum qr_code check_size(struct qr_bytes bytes, const char *what, struct qr_err *err) {
    if (bytes.n <= QR_PROFILE_REQUEST_MAX) return QR_OK;
    return qr_fail(err, QR_INVALID_ARGUMENT, "%s of %zu bytes; at most %d are read", what, bytes.n,
                   QR_PROFILE_REQUEST_MAX);
}

static enum qr_code check_session(struct qr_bytes id, struct qr_err *err) {
    if (id.n <= QR_PROFILE_TEXT_MAX) return QR_OK;
    return qr_fail(err, QR_INVALID_ARGUMENT, "session_id of %zu bytes; at most %d are read", id.n,
                   QR_PROFILE_TEXT_MAX);
}

/* ProfileOptions; their duration counts where the request itself has none. */
static void take_options(struct qr_bytes bytes, struct wire *outer,
                         struct qr_profile_request *ret) {
    struct wire r = {bytes.p, bytes.p + bytes.n, false};
    struct field f;
    while (next(&r, &f)) {
        if (is(&f, 8, QR_PROTOBUF_VARINT)) ret->start_timestamp_ns = f.value;
        if (is(&f, 9, QR_PROTOBUF_VARINT) && !ret->duration_ms) ret->duration_ms = f.value;
    }
    outer->bad |= r.bad;
}

enum qr_code qr_profile_request_decode(struct qr_bytes bytes, struct qr_profile_request *ret,
                                       struct qr_err *err) {
    struct wire r = {bytes.p, bytes.p + bytes.n, false};
    struct field f;
    struct qr_bytes options = {0};
    struct qr_profile_request got = {0};
    if (check_size(bytes, "ProfileRequest", err) != QR_OK) return QR_INVALID_ARGUMENT;
    while (next(&r, &f)) {
        if (is(&f, 1, QR_PROTOBUF_VARINT)) got.duration_ms = f.value;
        if (is(&f, 4, QR_PROTOBUF_BYTES)) options = f.bytes;
        if (is(&f, 6, QR_PROTOBUF_BYTES)) got.session_id = f.bytes;
        if (is(&f, 9, QR_PROTOBUF_VARINT)) got.emit_xspace = f.value != 0;
    }
    if (options.n) take_options(options, &r, &got);
    if (check(&r, "ProfileRequest", err) != QR_OK) return QR_INVALID_ARGUMENT;
    if (check_session(got.session_id, err) != QR_OK) return QR_INVALID_ARGUMENT;
    *ret = got;
    return QR_OK;
}

enum qr_code qr_terminate_request_decode(struct qr_bytes bytes, struct qr_bytes *ret_session_id,
                                         struct qr_err *err) {
    struct wire r = {bytes.p, bytes.p + bytes.n, false};
    struct field f;
    struct qr_bytes id = {0};
    if (check_size(bytes, "TerminateRequest", err) != QR_OK) return QR_INVALID_ARGUMENT;
    while (next(&r, &f))
        if (is(&f, 1, QR_PROTOBUF_BYTES)) id = f.bytes;
    if (check(&r, "TerminateRequest", err) != QR_OK) return QR_INVALID_ARGUMENT;
    if (check_session(id, err) != QR_OK) return QR_INVALID_ARGUMENT;
    *ret_session_id = id;
    return QR_OK;
}

enum qr_code qr_monitor_request_decode(struct qr_bytes bytes, uint64_t *ret_duration_ms,
                                       struct qr_err *err) {
    struct wire r = {bytes.p, bytes.p + bytes.n, false};
    struct field f;
    uint64_t duration_ms = 0;
    if (check_size(bytes, "MonitorRequest", err) != QR_OK) return QR_INVALID_ARGUMENT;
    while (next(&r, &f))
        if (is(&f, 1, QR_PROTOBUF_VARINT)) duration_ms = f.value;
    if (check(&r, "MonitorRequest", err) != QR_OK) return QR_INVALID_ARGUMENT;
    *ret_duration_ms = duration_ms;
    return QR_OK;
}

/* ---- encode ---- */

void qr_profile_response_encode(struct qr_bytes xspace, bool emit_xspace, struct qr_buf *ret) {
    static const char name[] = "xplane.pb";
    if (xspace.n == 0) {
        qr_protobuf_uint(ret, 7, 1);
    } else if (emit_xspace) {
        qr_protobuf_bytes(ret, 8, xspace.p, xspace.n);
    } else {
        struct qr_buf file = {0};
        qr_protobuf_text(&file, 1, name);
        qr_protobuf_bytes(&file, 2, xspace.p, xspace.n);
        qr_protobuf_part(ret, 6, &file);
        qr_buf_free(&file);
    }
}

void qr_monitor_response_encode(const char *text, struct qr_buf *ret) {
    qr_protobuf_text(ret, 1, text);
}

/* ---- XSpace ---- */

/* Of what the plugin gives a meaning: an event with GROUP is a root, and what a CONSUMER of the
 * same id did belongs to its PRODUCER's root. From 1; those of the kinds follow. */
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

/* What events are called: one number for each kind, name and, where the text has it, number. */
struct name {
    enum qr_span_kind kind;
    const char *name;
    uint64_t number;
};
struct xspace {
    const struct qr_spans *s;
    struct name *names;
    size_t n_names, cap;
    struct qr_buf lines, line, event, stat; /* one in another; kept for the next */
    const struct qr_span **steps;           /* in order of time; they do not overlap */
    size_t n_steps;
};

static bool is_step(const struct qr_span *e) {
    return e->kind == QR_SPAN_STEP || e->kind == QR_SPAN_EVALUATION;
}

/* From 1. */
static uint64_t name_of(struct xspace *x, const struct qr_span *e) {
    bool numbered = strstr(qr_span_rows[e->kind].text, "%d") != NULL;
    struct name n = {e->kind, e->name, numbered ? e->number : 0};
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

static void put_name(const struct name *n, struct qr_buf *ret) {
    const char *text = qr_span_rows[n->kind].text, *at = strchr(text, '%');
    qr_buf_put(ret, text, at ? (size_t)(at - text) : strlen(text));
    if (!at) return;
    if (at[1] == 'n') qr_buf_puts(ret, n->name ? n->name : "?");
    else qr_buf_printf(ret, "%llu", (unsigned long long)n->number);
    qr_buf_puts(ret, at + 2);
}

/* Of a kind's number: one for each word. */
static uint64_t statistic_of(enum qr_span_kind kind) {
    unsigned k = 0;
    while (!qr_span_rows[k].statistic ||
           strcmp(qr_span_rows[k].statistic, qr_span_rows[kind].statistic) != 0)
        k++;
    return STAT_KINDS + k;
}

static void put_stat(struct xspace *x, struct qr_buf *to, unsigned field, uint64_t id, uint64_t v) {
    qr_protobuf_uint(&x->stat, 1, id);
    qr_protobuf_uint(&x->stat, 4, v);
    qr_protobuf_part(to, field, &x->stat);
}

/* The step in which it began, of the training thread; from 1; 0: in none. */
static size_t step_of(const struct xspace *x, const struct qr_span *e) {
    size_t low = 0, high = x->n_steps;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (x->steps[middle]->begin_ns <= e->begin_ns) low = middle + 1;
        else high = middle;
    }
    return low && x->steps[low - 1]->end_ns > e->begin_ns ? low : 0;
}

static void put_event(struct xspace *x, const struct qr_span *e, bool outermost) {
    const struct qr_span_row *row = &qr_span_rows[e->kind];
    struct qr_buf *b = &x->event;
    qr_protobuf_uint(b, 1, name_of(x, e));
    qr_protobuf_uint(b, 2, (uint64_t)(e->begin_ns - x->s->begin_ns) * 1000);
    qr_protobuf_uint(b, 3, (uint64_t)(e->end_ns - e->begin_ns) * 1000);
    if (row->statistic && !strstr(row->text, "%d"))
        put_stat(x, b, 4, statistic_of(e->kind), e->number);
    size_t step = step_of(x, e);
    if (is_step(e)) {
        put_stat(x, b, 4, STAT_ROOT, 1);
        put_stat(x, b, 4, STAT_PRODUCER_TYPE, 0);
        put_stat(x, b, 4, STAT_PRODUCER, step);
    } else if (outermost && step) {
        put_stat(x, b, 4, STAT_CONSUMER_TYPE, 0);
        put_stat(x, b, 4, STAT_CONSUMER, step);
    }
    qr_protobuf_part(&x->line, 4, b);
}

/* What began at the same time: the longer one holds the other. */
static int by_begin(const void *a, const void *b) {
    const struct qr_span *p = a, *q = b;
    if (p->begin_ns != q->begin_ns) return p->begin_ns < q->begin_ns ? -1 : 1;
    return p->end_ns > q->end_ns ? -1 : p->end_ns < q->end_ns;
}

static void put_thread(struct xspace *x, const struct qr_span_thread *t, int32_t process) {
    int64_t until_ns = 0;
    qr_protobuf_uint(&x->line, 1, (uint64_t)t->id);
    qr_protobuf_text(&x->line, 2, t->id == process ? "training" : t->name);
    qr_protobuf_uint(&x->line, 3, (uint64_t)x->s->begin_wall_ns);
    for (size_t i = 0; i < t->n; i++) {
        bool outermost = t->spans[i].begin_ns >= until_ns;
        if (outermost) until_ns = t->spans[i].end_ns;
        put_event(x, &t->spans[i], outermost);
    }
    qr_protobuf_part(&x->lines, 3, &x->line);
}

/* An entry of a map of numbers to messages that begin with number and name. */
static void put_metadata(struct qr_buf *plane, unsigned field, uint64_t id, const char *name,
                         struct qr_buf *entry, struct qr_buf *value) {
    qr_protobuf_uint(value, 1, id);
    qr_protobuf_text(value, 2, name);
    qr_protobuf_uint(entry, 1, id);
    qr_protobuf_part(entry, 2, value);
    qr_protobuf_part(plane, field, entry);
}

static void put_all_metadata(struct xspace *x, struct qr_buf *plane) {
    struct qr_buf text = {0};
    for (size_t i = 0; i < x->n_names; i++) {
        put_name(&x->names[i], &text);
        put_metadata(plane, 4, i + 1, qr_buf_string(&text), &x->event, &x->stat);
        qr_buf_clear(&text);
    }
    for (unsigned i = 1; i < STAT_KINDS; i++)
        put_metadata(plane, 5, i, stat_names[i], &x->event, &x->stat);
    for (unsigned k = 0; k < QR_SPAN_KINDS; k++)
        if (qr_span_rows[k].statistic && statistic_of((enum qr_span_kind)k) == STAT_KINDS + k)
            put_metadata(plane, 5, STAT_KINDS + k, qr_span_rows[k].statistic, &x->event, &x->stat);
    qr_buf_free(&text);
}

/* The steps of the one thread that has any. */
static void find_steps(struct xspace *x, const struct qr_spans *s) {
    size_t n = 0;
    for (size_t t = 0; t < s->n_threads && !n; t++)
        for (size_t i = 0; i < s->threads[t].n; i++) n += is_step(&s->threads[t].spans[i]);
    x->steps = qr_xcalloc(n + 1, sizeof *x->steps);
    for (size_t t = 0; t < s->n_threads && !x->n_steps; t++)
        for (size_t i = 0; i < s->threads[t].n; i++)
            if (is_step(&s->threads[t].spans[i])) x->steps[x->n_steps++] = &s->threads[t].spans[i];
}

/* From when to when, as the plugin asks for it. */
static void put_environment(struct xspace *x, struct qr_buf *ret) {
    struct qr_buf *plane = &x->lines;
    uint64_t begin_ns = (uint64_t)x->s->begin_wall_ns,
             end_ns = begin_ns + (uint64_t)(x->s->end_ns - x->s->begin_ns);
    qr_protobuf_uint(plane, 1, 2);
    qr_protobuf_text(plane, 2, "Task Environment");
    put_metadata(plane, 5, STAT_BEGIN, stat_names[STAT_BEGIN], &x->event, &x->stat);
    put_metadata(plane, 5, STAT_END, stat_names[STAT_END], &x->event, &x->stat);
    qr_protobuf_uint(&x->event, 1, STAT_BEGIN);
    qr_protobuf_uint(&x->event, 3, begin_ns);
    qr_protobuf_part(plane, 6, &x->event);
    qr_protobuf_uint(&x->event, 1, STAT_END);
    qr_protobuf_uint(&x->event, 3, end_ns);
    qr_protobuf_part(plane, 6, &x->event);
    qr_protobuf_part(ret, 1, plane);
}

void qr_xspace_encode(struct qr_spans *s, const char *host, int32_t process, struct qr_buf *ret) {
    struct xspace x = {.s = s};
    struct qr_buf plane = {0}, lost = {0};
    for (size_t t = 0; t < s->n_threads; t++)
        qsort(s->threads[t].spans, s->threads[t].n, sizeof *s->threads[t].spans, by_begin);
    find_steps(&x, s);
    qr_protobuf_uint(&plane, 1, 1);
    qr_protobuf_text(&plane, 2, "/host:CPU");
    for (size_t t = 0; t < s->n_threads; t++) put_thread(&x, &s->threads[t], process);
    qr_buf_put(&plane, x.lines.p, x.lines.n);
    qr_buf_clear(&x.lines);
    put_all_metadata(&x, &plane);
    qr_protobuf_part(ret, 1, &plane);
    put_environment(&x, ret);
    if (s->n_lost) {
        qr_buf_printf(&lost, "%llu spans beyond %d were not recorded: capture a shorter time",
                      (unsigned long long)s->n_lost, QR_SPANS_MAX);
        qr_protobuf_part(ret, 3, &lost);
    }
    qr_protobuf_text(ret, 4, host);
    struct qr_buf *const all[] = {&plane, &lost, &x.lines, &x.line, &x.event, &x.stat};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) qr_buf_free(all[i]);
    free(x.names);
    free(x.steps);
}
