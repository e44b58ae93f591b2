/* The profiler's messages: encoded by hand and decoded by protobuf-c; encoded by protobuf-c and
 * decoded by hand; and malformed bytes. */
#include "base/mem.h"
#include "monitor/profile/profile.h"
#include "profiler.pb-c.h"
#include "tests/t.h"

static uint8_t packed[512];
static struct qr_bytes pack(const ProtobufCMessage *m) {
    return qr_bytes_of(packed, protobuf_c_message_pack(m, packed));
}

static void test_profile_request(void) {
    Qring__Profiler__ProfileRequest r;
    Qring__Profiler__ProfileOptions o;
    char session[] = "2026_11_23", root[] = "/logs/plugins/profile", host[] = "worker-0:2223";
    struct qr_profile_request got;
    struct qr_err err;
    qring__profiler__profile_request__init(&r);
    qring__profiler__profile_options__init(&o);
    r.duration_ms = 1500;
    r.opts = &o;
    r.session_id = session;
    r.repository_root = root;
    r.host_name = host;
    o.start_timestamp_ns = UINT64_C(1795468200123456789);
    o.duration_ms = 7;
    struct qr_bytes bytes = pack(&r.base);
    CHECK(qr_profile_request_decode(bytes, &got, &err) == QR_OK);
    CHECK(got.duration_ms == 1500 && got.start_timestamp_ns == UINT64_C(1795468200123456789) &&
          got.session_id.n == strlen(session) &&
          memcmp(got.session_id.p, session, got.session_id.n) == 0 && !got.emit_xspace);
    for (size_t n = 0; n < bytes.n; n++) /* Truncated anywhere: no read past the end. */
        if (qr_profile_request_decode(qr_bytes_of(bytes.p, n), &got, &err) != QR_OK)
            CHECK(err.code == QR_INVALID_ARGUMENT && err.msg[0]);
    r.duration_ms = 0;
    r.emit_xspace = true;
    CHECK(qr_profile_request_decode(pack(&r.base), &got, &err) == QR_OK && got.emit_xspace &&
          got.duration_ms == 7);
}

static void test_other_requests(void) {
    Qring__Profiler__TerminateRequest t;
    Qring__Profiler__MonitorRequest m;
    char session[] = "abc";
    struct qr_bytes id;
    uint64_t ms;
    qring__profiler__terminate_request__init(&t);
    qring__profiler__monitor_request__init(&m);
    t.session_id = session;
    m.duration_ms = 250;
    CHECK(qr_terminate_request_decode(pack(&t.base), &id, QR_IGNORED) == QR_OK && id.n == 3 &&
          memcmp(id.p, "abc", 3) == 0);
    CHECK(qr_monitor_request_decode(pack(&m.base), &ms, QR_IGNORED) == QR_OK && ms == 250);
}

static void test_malformed(void) {
    static const struct {
        const char *bytes;
        size_t n;
    } bad[] = {
        {"\x08", 1}, /* a missing number */
        {"\x32\x05"
         "ab",
         4},                                                      /* longer than the rest */
        {"\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", 12}, /* more than 64 bits */
        {"\x0b", 1},                                              /* a group */
        {"\x0f", 1},                                              /* wire type 7 */
        {"\x00\x00", 2},                                          /* field 0 */
        {"\x22\x02\x40\x80", 4},                                  /* malformed options */
        {"\x09\x01\x02", 3},                                      /* 2 bytes of 8 */
        {"\x32\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", 11},     /* 2^64 - 1 bytes */
    };
    static uint8_t large[QR_PROFILE_REQUEST_MAX + 1];
    struct qr_profile_request r;
    struct qr_err err;
    for (size_t i = 0; i < COUNT(bad); i++)
        CHECK(qr_profile_request_decode(qr_bytes_of(bad[i].bytes, bad[i].n), &r, &err) ==
                      QR_INVALID_ARGUMENT &&
                  err.msg[0],
              "row %zu", i);
    CHECK(qr_profile_request_decode(qr_bytes_of(large, sizeof large), &r, &err) ==
                  QR_INVALID_ARGUMENT &&
              strstr(err.msg, "65536"),
          "%s", err.msg);
    uint8_t session[3 + QR_PROFILE_TEXT_MAX + 1] = {0x32, 0x81, 0x08};
    CHECK(qr_profile_request_decode(qr_bytes_of(session, sizeof session), &r, &err) ==
                  QR_INVALID_ARGUMENT &&
              strstr(err.msg, "session_id"),
          "%s", err.msg);
    CHECK(qr_profile_request_decode((struct qr_bytes){0}, &r, &err) == QR_OK && r.duration_ms == 0);
}

static const char *name_in(const Qring__Profiler__XPlane *p, bool stat, int64_t id) {
    if (stat) {
        for (size_t i = 0; i < p->n_stat_metadata; i++)
            if (p->stat_metadata[i]->key == id) return p->stat_metadata[i]->value->name;
    } else {
        for (size_t i = 0; i < p->n_event_metadata; i++)
            if (p->event_metadata[i]->key == id) return p->event_metadata[i]->value->name;
    }
    return "none";
}

static int64_t stat_of(const Qring__Profiler__XPlane *p, const Qring__Profiler__XEvent *e,
                       const char *name) {
    for (size_t i = 0; i < e->n_stats; i++)
        if (strcmp(name_in(p, true, e->stats[i]->metadata_id), name) == 0)
            return e->stats[i]->int64_value;
    return -1;
}

enum { BASE = 5000000 }; /* ns */
#define SPAN(b, e, ...)                                                                            \
    { .begin_ns = BASE + (b), .end_ns = BASE + (e), __VA_ARGS__ }

/* Two steps of the training thread; micro-batches of a pool thread, one outside and one in each
 * step. */
static struct qr_span training[] = {
    SPAN(150, 180, .kind = QR_SPAN_FORWARD, .name = "dense_1:Dense", .number = 16),
    SPAN(140, 300, .kind = QR_SPAN_MICRO_BATCH, .number = 0),
    SPAN(310, 390, .kind = QR_SPAN_WAIT, .number = 1),
    SPAN(300, 400, .kind = QR_SPAN_REDUCE, .number = 88),
    SPAN(140, 500, .kind = QR_SPAN_STEP, .number = 7),
    SPAN(510, 600, .kind = QR_SPAN_WAIT, .number = 2),
    SPAN(500, 700, .kind = QR_SPAN_EVALUATION, .number = 7),
};
static struct qr_span pool[] = {
    SPAN(10, 20, .kind = QR_SPAN_MICRO_BATCH, .number = 9),
    SPAN(150, 290, .kind = QR_SPAN_MICRO_BATCH, .number = 1),
    SPAN(505, 690, .kind = QR_SPAN_MICRO_BATCH, .number = 2),
};

static void check_training(const Qring__Profiler__XPlane *p, const Qring__Profiler__XLine *l) {
    static const struct {
        const char *name, *stat;
        int64_t value, begin, took;
    } want[] = {{"train", "step_num", 7, 140, 360},
                {"micro-batch", "micro_batch", 0, 140, 160},
                {"forward/dense_1:Dense", "samples", 16, 150, 30},
                {"reduce:AllReduce", "integers", 88, 300, 100},
                {"wait for worker 1", "integers", -1, 310, 80},
                {"test", "step_num", 7, 500, 200},
                {"wait for worker 2", "_c", -1, 510, 90}};
    CHECK(l->id == 100 && strcmp(l->name, "training") == 0, "%s", l->name);
    CHECK(l->timestamp_ns == INT64_C(1795468200000000000) && l->n_events == COUNT(want));
    for (size_t i = 0; i < l->n_events && i < COUNT(want); i++) {
        const Qring__Profiler__XEvent *e = l->events[i];
        CHECK(strcmp(name_in(p, false, e->metadata_id), want[i].name) == 0, "%s, not %s",
              name_in(p, false, e->metadata_id), want[i].name);
        CHECK(stat_of(p, e, want[i].stat) == want[i].value, "%s: %s", want[i].name, want[i].stat);
        CHECK(e->offset_ps == want[i].begin * 1000 && e->duration_ps == want[i].took * 1000);
        bool root = i == 0 || i == 5;
        CHECK(stat_of(p, e, "_r") == (root ? 1 : -1) && stat_of(p, e, "_p") == (i == 0   ? 1
                                                                                : i == 5 ? 2
                                                                                         : -1));
    }
}

static void check_pool(const Qring__Profiler__XPlane *p, const Qring__Profiler__XLine *l) {
    static const int64_t step[] = {-1, 1, 2};
    CHECK(l->id == 101 && strcmp(l->name, "qring-pool-1") == 0 && l->n_events == 3);
    for (size_t i = 0; i < l->n_events && i < 3; i++)
        CHECK(stat_of(p, l->events[i], "_c") == step[i], "step of micro-batch %zu", i);
}

static void test_xspace(void) {
    struct qr_span_thread threads[] = {{100, "qringd", training, COUNT(training)},
                                       {101, "qring-pool-1", pool, COUNT(pool)}};
    struct qr_spans s = {BASE, BASE + 1000, INT64_C(1795468200000000000), 2, threads, 3};
    struct qr_buf b = {0}, answer = {0};
    qr_xspace_encode(&s, "worker_0", 100, &b);
    Qring__Profiler__XSpace *x = qring__profiler__xspace__unpack(NULL, b.n, b.p);
    CHECK(x && x->n_planes == 2 && x->n_hostnames == 1 && x->n_warnings == 1);
    if (x && x->n_planes == 2) {
        const Qring__Profiler__XPlane *p = x->planes[0], *env = x->planes[1];
        CHECK(strcmp(p->name, "/host:CPU") == 0 && p->n_lines == 2);
        if (p->n_lines == 2) check_training(p, p->lines[0]), check_pool(p, p->lines[1]);
        CHECK(strcmp(x->hostnames[0], "worker_0") == 0 && strstr(x->warnings[0], "3 spans"));
        CHECK(strcmp(env->name, "Task Environment") == 0 && env->n_stats == 2 &&
              env->stats[1]->uint64_value - env->stats[0]->uint64_value == 1000);
        /* Each name has one id, because the plugin finds statistics by it. */
        for (size_t i = 0; i < p->n_stat_metadata; i++)
            for (size_t k = 0; k < i; k++)
                CHECK(strcmp(p->stat_metadata[i]->value->name, p->stat_metadata[k]->value->name) !=
                          0,
                      "%s twice", p->stat_metadata[i]->value->name);
    }
    if (x) qring__profiler__xspace__free_unpacked(x, NULL);
    for (int emit = 0; emit < 2; emit++) {
        qr_buf_clear(&answer);
        qr_profile_response_encode(qr_buf_view(&b), emit, &answer);
        Qring__Profiler__ProfileResponse *r =
            qring__profiler__profile_response__unpack(NULL, answer.n, answer.p);
        CHECK(r && !r->empty_trace && (r->xspace != NULL) == emit &&
              r->n_tool_data == 1u - (unsigned)emit);
        if (r && r->n_tool_data)
            CHECK(strcmp(r->tool_data[0]->name, "xplane.pb") == 0 &&
                  r->tool_data[0]->data.len == b.n &&
                  memcmp(r->tool_data[0]->data.data, b.p, b.n) == 0);
        if (r) qring__profiler__profile_response__free_unpacked(r, NULL);
    }
    qr_buf_clear(&answer);
    qr_profile_response_encode((struct qr_bytes){0}, false, &answer);
    CHECK(answer.n == 2 && memcmp(answer.p, "\x38\x01", 2) == 0, "empty_trace is set");
    qr_buf_clear(&answer);
    qr_monitor_response_encode("step 3", &answer);
    CHECK(answer.n == 8 && memcmp(answer.p, "\x0a\x06step 3", 8) == 0);
    qr_buf_free(&b);
    qr_buf_free(&answer);
}

int main(void) {
    test_profile_request();
    test_other_requests();
    test_malformed();
    test_xspace();
    return t_end();
}
