/* The port for probes and metrics: valid and malformed requests on loopback, the pages' contents,
 * and watches on virtual time. */
#include "monitor/http.h"

#include <arpa/inet.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/counter.h"
#include "monitor/health.h"
#include "monitor/last_error.h"
#include "monitor/status.h"
#include "tests/t.h"

enum { REPLY = 1 << 16 };
static unsigned port;
static char reply[REPLY];

static int dial_from(unsigned host) { /* 127.0.0.host */
    struct sockaddr_in from = {.sin_family = AF_INET,
                               .sin_addr.s_addr = htonl(INADDR_LOOPBACK - 1 + host)},
                       a = {.sin_family = AF_INET,
                            .sin_addr.s_addr = htonl(INADDR_LOOPBACK),
                            .sin_port = htons((uint16_t)port)};
    int s = socket(AF_INET, SOCK_STREAM, 0);
    if (s >= 0 && bind(s, (struct sockaddr *)&from, sizeof from) == 0 &&
        connect(s, (struct sockaddr *)&a, sizeof a) == 0)
        return s;
    if (s >= 0) close(s);
    return -1;
}
static int dial(void) { return dial_from(1); }
/* Reads until the peer closes. False after a minute without data, or if the buffer is full. */
static bool drain(int s) {
    size_t n = 0;
    reply[0] = 0;
    for (;;) {
        struct pollfd p = {.fd = s, .events = POLLIN};
        if (poll(&p, 1, 60000) <= 0) return false;
        ssize_t got = recv(s, reply + n, REPLY - 1 - n, 0);
        if (got <= 0) return true;
        n += (size_t)got;
        reply[n] = 0;
        if (n == REPLY - 1) return false;
    }
}
static bool ask(const char *request, size_t n) {
    int s = dial();
    if (s < 0) return false;
    bool closed = send(s, request, n, MSG_NOSIGNAL) >= 0 && drain(s);
    close(s);
    return closed;
}
static bool request(const char *method, const char *path) {
    char text[256];
    int n = snprintf(text, sizeof text, "%s %s HTTP/1.1\r\nHost: x\r\n\r\n", method, path);
    return ask(text, (size_t)n);
}
static const char *body(void) {
    const char *b = strstr(reply, "\r\n\r\n");
    return b ? b + 4 : "";
}
static bool status(int code) {
    char want[32];
    snprintf(want, sizeof want, "HTTP/1.1 %d ", code);
    return strncmp(reply, want, strlen(want)) == 0;
}

static struct qr_http *open_one(struct qr_http_options opt) {
    struct qr_http *h = NULL;
    struct qr_err err = {0};
    opt.bind = "127.0.0.1";
    opt.clock = &qr_clock_monotonic;
    opt.began_ns = qr_now_ns(&qr_clock_monotonic);
    opt.build = (struct qr_build){"0.1.0", "f32-v1", "quoted \"isa\"\n\\"};
    CHECK(qr_http_open(&opt, &h, &port, &err) == QR_OK && port > 0, "%s", err.msg);
    return h;
}

static void test_paths(void) {
    struct qr_http *h = open_one((struct qr_http_options){0});
    CHECK(request("GET", "/healthz") && status(200) && strcmp(body(), "ok\n") == 0, "%s", reply);
    CHECK(request("GET", "/readyz") && status(503), "%s", reply);
    qr_http_ready(h, true);
    CHECK(request("GET", "/readyz") && status(200) && strcmp(body(), "listening\n") == 0, "%s",
          reply);
    CHECK(request("GET", "/readyz?verbose=1") && status(200), "%s", reply);
    qr_http_ready(h, false);
    CHECK(request("GET", "/readyz") && status(503), "%s", reply);
    CHECK(request("HEAD", "/metrics") && status(200) && !*body() && strstr(reply, "version=0.0.4"),
          "%s", reply);
    CHECK(request("HEAD", "/healthz") && status(200) && !*body() &&
              strstr(reply, "Content-Length: 3"),
          "%s", reply);
    static const char *const elsewhere[] = {"/",         "/health", "/healthz/",     "/metrics2",
                                            "//metrics", "/%00",    "/../etc/passwd"};
    for (size_t i = 0; i < COUNT(elsewhere); i++)
        CHECK(request("GET", elsewhere[i]) && status(404) && strstr(body(), "/readyz"), "%s: %s",
              elsewhere[i], reply);
    static const char *const methods[] = {"POST", "PUT", "DELETE", "OPTIONS", "PATCH", "NONSENSE"};
    for (size_t i = 0; i < COUNT(methods); i++)
        CHECK(request(methods[i], "/metrics") && status(405) && strstr(reply, "Allow: GET, HEAD"),
              "%s: %s", methods[i], reply);
    static const char post[] =
        "POST /metrics HTTP/1.1\r\nHost: x\r\nContent-Length: 1000000\r\n\r\nhalf a body";
    CHECK(ask(post, sizeof post - 1) && status(405), "%s", reply);
    qr_http_close(h);
    CHECK(dial() < 0, "the port is closed");
}

/* A malformed request gets an error or nothing, its connection is closed, and the next client is
 * served. */
static void test_malformed_requests(void) {
    struct qr_http *h = open_one((struct qr_http_options){.timeout_ns = 300 * QR_MS});
    static char wide[20000] = "GET /";
    memset(wide + 5, 'a', sizeof wide - 5);
    static char headers[20000] = "GET /healthz HTTP/1.1\r\nHost: x\r\nX: ";
    memset(headers + strlen(headers), 'b', sizeof headers - strlen(headers));
    static const struct {
        const char *text;
        size_t n;
        bool may_serve; /* the page is sent before the error is seen, or without a Host */
    } row[] = {
        {"\r\n\r\n\r\n", 6, false},
        {"GET\r\n\r\n", 7, false},
        {"GET /healthz\r\n\r\n", 16, false},
        {"GET /healthz HTTP/9.9\r\n\r\n", 25, false},
        {"\0\0\0\0\r\n\r\n", 8, false},
        {"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n", 15, false},
        {"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 24, false},
        {"GET /healthz HTTP/1.1\r\n\r\n", 25, true},
        {"GET http://x/healthz HTTP/1.1\r\nHost: x\r\nContent-Length: -1\r\n\r\n", 62, false},
        {"GET /healthz HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", 66, true},
        {wide, sizeof wide, false},
        {headers, sizeof headers, false},
    };
    for (size_t i = 0; i < COUNT(row); i++) {
        CHECK(ask(row[i].text, row[i].n), "row %zu hangs: %s", i, reply);
        CHECK(row[i].may_serve || !status(200), "row %zu is served: %s", i, reply);
        CHECK(request("GET", "/healthz") && status(200), "after row %zu: %s", i, reply);
    }
    qr_http_close(h);
}

/* A client that sends one byte at a time is disconnected at the timeout while others are served. */
static void test_slow_client(void) {
    struct qr_http *h = open_one((struct qr_http_options){.timeout_ns = 300 * QR_MS});
    static const char text[] = "GET /healthz HTTP/1.1\r\nHost: x\r\nX: "
                               "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa";
    int64_t began_ns = qr_now_ns(&qr_clock_monotonic), closed_ns = 0;
    int s = dial(), idle = dial();
    for (size_t i = 0; i < sizeof text && !closed_ns; i++) {
        struct pollfd p = {.fd = s, .events = POLLIN};
        char c;
        if (send(s, text + i, 1, MSG_NOSIGNAL) < 0 ||
            (poll(&p, 1, 30) > 0 && recv(s, &c, 1, MSG_DONTWAIT) <= 0))
            closed_ns = qr_now_ns(&qr_clock_monotonic) - began_ns;
        if (i == 3) CHECK(request("GET", "/healthz") && status(200), "%s", reply);
    }
    CHECK(closed_ns >= 250 * QR_MS, "disconnected after %.3f s", (double)closed_ns / 1e9);
    CHECK(
        t_in_time("a slow client is disconnected after 0.3 s", closed_ns, 2 * QR_SECOND, T_MINUTE));
    CHECK(drain(idle), "an idle client is disconnected too");
    close(s), close(idle);
    CHECK(request("GET", "/healthz") && status(200), "%s", reply);
    qr_http_close(h);
}

/* More connections than allowed from one address: the oldest are closed, and the next one is
 * served. */
static void test_many_connections(void) {
    enum { HELD = 12 };
    struct qr_http *h = open_one((struct qr_http_options){.connections = 8, .per_address = 4});
    int s[HELD];
    for (int i = 0; i < HELD; i++) s[i] = dial();
    for (int i = 0; i < HELD; i++) {
        struct pollfd p = {.fd = s[i], .events = POLLIN};
        char c;
        bool gone =
            poll(&p, 1, i < HELD - 4 ? 60000 : 0) > 0 && recv(s[i], &c, 1, MSG_DONTWAIT) <= 0;
        CHECK(gone == (i < HELD - 4), "%d of %d", i, (int)HELD);
    }
    CHECK(request("GET", "/healthz") && status(200), "%s", reply);
    for (int i = 0; i < HELD; i++) close(s[i]);
    qr_http_close(h);
}

/* Hundreds of slow connections from many addresses, the probe's own included: each probe is
 * answered at once. */
static void test_slow_crowd(void) {
    enum { SLOW = 300, ADDRESSES = 20, PROBES = 20 };
    static const char half[] = "GET /metrics HTTP/1.1\r\nHost: x\r\nX: ",
                      whole[] = "GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n";
    struct qr_http *h = open_one((struct qr_http_options){0});
    static int s[SLOW];
    int64_t worst_ns = 0;
    for (int i = 0; i < SLOW; i++) {
        s[i] = dial_from(i % 7 ? 2 + (unsigned)i % ADDRESSES : 1);
        CHECK(s[i] >= 0, "slow connection %d", i);
        if (i % 3)
            (void)!send(s[i], i % 3 == 1 ? half : whole,
                        (i % 3 == 1 ? sizeof half : sizeof whole) - 1, MSG_NOSIGNAL);
    }
    for (int i = 0; i < PROBES; i++) {
        int64_t began_ns = qr_now_ns(&qr_clock_monotonic);
        CHECK(request("GET", i % 2 ? "/healthz" : "/metrics") && status(200), "probe %d: %s", i,
              reply);
        int64_t ns = qr_now_ns(&qr_clock_monotonic) - began_ns;
        if (ns > worst_ns) worst_ns = ns;
        int again = i * (SLOW / PROBES); /* Slow clients reconnect meanwhile. */
        close(s[again]);
        s[again] = dial_from(2 + (unsigned)i);
    }
    CHECK(t_in_time("the slowest answer in a crowd", worst_ns, QR_SECOND, T_MINUTE));
    for (int i = 0; i < SLOW; i++) close(s[i]);
    qr_http_close(h);
}

/* ---- metrics ---- */

/* The value of a sample, or NaN unless it occurs exactly once. */
static double sample(const char *text, const char *name) {
    double v = __builtin_nan("");
    int n = 0;
    size_t len = strlen(name);
    for (const char *l = text; l && *l; l = strchr(l, '\n') ? strchr(l, '\n') + 1 : NULL)
        if (strncmp(l, name, len) == 0 && l[len] == ' ') n++, v = strtod(l + len + 1, NULL);
    return n == 1 ? v : __builtin_nan("");
}

/* Each line is a comment of a new family, or a sample of the last announced family. */
static void check_grammar(char *text) {
    char family[128] = "", seen[8192] = " ";
    for (char *l = strtok(text, "\n"); l; l = strtok(NULL, "\n")) {
        char name[128] = "", kind[32] = "", spaced[130];
        if (sscanf(l, "# HELP %127s", name) == 1) {
            snprintf(spaced, sizeof spaced, " %.126s ", name);
            CHECK(!strstr(seen, spaced), "%s occurs twice", name);
            strncat(seen, spaced + 1, sizeof seen - strlen(seen) - 1);
            snprintf(family, sizeof family, "%s", name);
            CHECK(strlen(l) > strlen("# HELP ") + strlen(name) + 3, "no help: %s", l);
        } else if (sscanf(l, "# TYPE %127s %31s", name, kind) == 2) {
            CHECK(strcmp(name, family) == 0 &&
                      (strcmp(kind, "counter") == 0 || strcmp(kind, "gauge") == 0),
                  "%s", l);
        } else {
            size_t n = strcspn(l, "{ ");
            char *value = strrchr(l, ' '), *end = NULL;
            CHECK(n == strlen(family) && strncmp(l, family, n) == 0, "%s after %s", l, family);
            CHECK(value && (strtod(value + 1, &end), end != value + 1 && !*end), "%s", l);
        }
    }
}

static void test_metrics(void) {
    struct qr_http *h = open_one((struct qr_http_options){0});
    qr_gauge(QR_STEP, 17);
    qr_gauge_real(QR_LOSS, 0.1234567890123456789);
    qr_gauge_real(QR_VAL_LOSS, -__builtin_inf());
    int64_t before_ns = qr_counter_value(QR_REDUCE_TIME);
    qr_count_time(QR_REDUCE_TIME, 1500000001);
    CHECK(request("GET", "/metrics") && status(200), "%s", reply);
    CHECK(strstr(reply, "Content-Type: " QR_METRICS_TYPE "\r\n") != NULL, "%s", reply);
    CHECK(sample(body(), "qring_step") == 17);
    CHECK(sample(body(), "qring_loss") == 0.1234567890123456789, "17 digits hold a double");
    CHECK(strstr(body(), "\nqring_val_loss -Inf\n") != NULL);
    double reduce_s = sample(body(), "qring_phase_seconds_total{phase=\"reduce\"}");
    CHECK(__builtin_fabs(reduce_s - (double)(before_ns + 1500000001) / 1e9) < 1e-9);
    CHECK(sample(body(), "qring_uptime_seconds") >= 0 &&
          sample(body(), "qring_uptime_seconds") < 60);
    CHECK(sample(body(), "process_cpu_seconds_total") > 0);
    CHECK(strstr(body(), "qring_build_info{version=\"0.1.0\",contract=\"f32-v1\",isa=\"quoted "
                         "\\\"isa\\\"\\n\\\\\"} 1\n") != NULL,
          "%s", body());
    qr_gauge_real(QR_LOSS, __builtin_nan(""));
    CHECK(request("GET", "/metrics") && strstr(body(), "\nqring_loss NaN\n") != NULL);
    check_grammar(strstr(reply, "\r\n\r\n") + 4);
    qr_http_close(h);
}

static void record_message(void *ctx, enum qr_log_level level, const char *module,
                           const char *message) {
    (void)level;
    (void)module;
    snprintf(ctx, 64, "%.63s", message);
}

/* /status has the values that were set. /last-error has the log's last warning or error, which is
 * also logged. */
static void test_status(void) {
    struct qr_http *h = open_one((struct qr_http_options){0});
    char logged[64] = "";
    struct qr_status s;
    struct qr_err err = {0};
    CHECK(request("GET", "/last-error") && status(200) && !*body(), "%s", reply);
    qr_gauge_real(QR_LOSS, __builtin_inf());
    CHECK(request("GET", "/status") && status(200) && strstr(reply, "application/json") &&
              qr_status_parse(qr_bytes_of_string(body()), &s, &err) == QR_OK && !*s.last_error,
          "%s: %s", err.msg, reply);
    CHECK(__builtin_isnan(s.value[QR_LOSS]), "%g", s.value[QR_LOSS]);
    struct qr_buf text = {0};
    qr_status_line(&(struct qr_status_pair){s, s, 1}, &text);
    CHECK(strstr(qr_buf_string(&text), "loss nan,"), "%s", qr_buf_string(&text));
    qr_buf_free(&text);
    struct qr_log log = qr_last_error_keep(
        (struct qr_log){.level = QR_LOG_INFO, .write = record_message, .ctx = logged});
    qr_warn(&log, "group", "worker %d is gone", 2);
    qr_info(&log, "group", "all is well");
    CHECK(strcmp(logged, "all is well") == 0, "%s", logged);
    CHECK(request("GET", "/last-error") && strstr(body(), " W group: worker 2 is gone\n"), "%s",
          reply);
    qr_gauge(QR_STEP, 21);
    qr_count(QR_MEMBERS_LOST, 3);
    qr_peer_set(0, QR_PEER_MEMBER);
    qr_peer_set(5, QR_PEER_ABSENT);
    qr_peer_speed(0, 12.5);
    qr_peer_rtt(0, 0.5);
    qr_peer_serves(0, true);
    qr_peer_no_data(5, true);
    qr_count_time(QR_DIGEST_TIME, 5 * QR_SECOND / 2);
    qr_gauge_real(QR_LOSS, 0.25);
    CHECK(request("GET", "/status") &&
              qr_status_parse(qr_bytes_of_string(body()), &s, &err) == QR_OK,
          "%s", err.msg);
    CHECK(s.value[QR_STEP] == 21 && s.value[QR_MEMBERS_LOST] == 3 &&
          s.value[QR_DIGEST_TIME] == 2.5 && s.value[QR_LOSS] == 0.25);
    CHECK(strcmp(s.last_error, "W group: worker 2 is gone") == 0 &&
              __builtin_fabs(s.last_error_s - s.now_s) < 60,
          "%s", s.last_error);
    CHECK(s.peer[0] == QR_PEER_MEMBER && s.speed[0] == 12.5 && s.peer[5] == QR_PEER_ABSENT &&
          s.peer[1] == QR_PEER_UNKNOWN);
    CHECK(s.rtt_s[0] == 0.5 && s.serves[0] && !s.serves[5] && s.no_data[5] && !s.no_data[0]);
    CHECK(strcmp(s.version, "0.1.0") == 0 && strcmp(s.isa, "quoted \"isa\" \\") == 0 &&
              s.uptime_s >= 0 && s.now_s > 1e9,
          "%s %s", s.version, s.isa);
    CHECK(qr_status_parse(
              qr_bytes_of_string(
                  "{\"version\":\"\",\"contract\":\"\",\"isa\":\"\",\"peers\":[{\"index\":64,"
                  "\"member\":true,\"parameter_server\":true,\"no_data\":true}],"
                  "\"metrics\":{}}"),
              &s, &err) == QR_INVALID_ARGUMENT &&
              strstr(err.msg, "index"),
          "%s", err.msg);
    for (int c = 0; c < QR_N_COUNTERS; c++)
        CHECK(!__builtin_isnan(s.value[c]) || c == QR_VAL_LOSS, "%s is missing",
              qr_counter_table[c].family);
    qr_http_close(h);
}

/* ---- health ---- */

static struct qr_watch training(void) {
    return (struct qr_watch){.thread = "the training thread",
                             .turns = QR_TURNS_TRAINING,
                             .floor_ns = 10 * QR_SECOND,
                             .first_ns = 100 * QR_SECOND};
}
/* Samples once a second. Returns the second at which the watch is first stuck, or 0. */
static int stuck_after(struct qr_watch *w, int64_t *now_ns, int seconds, char *why) {
    for (int i = 1; i <= seconds; i++) {
        *now_ns += QR_SECOND;
        qr_watch_sample(w, *now_ns);
        if (!qr_watch_check(w, why, 160)) return i;
    }
    return 0;
}

static void test_watches(void) {
    struct qr_watch w = training();
    char why[160] = "";
    int64_t now_ns = 1000 * QR_SECOND;
    qr_watch_sample(&w, now_ns);
    CHECK(stuck_after(&w, &now_ns, 1000, why) == 0, "off: nothing is stuck");
    qr_watch_on(&w, true);
    qr_watch_sample(&w, now_ns += QR_SECOND);
    CHECK(stuck_after(&w, &now_ns, 200, why) == 101 && strstr(why, "the training thread") &&
              strstr(why, "101.0 s"),
          "the first turn has its own bound: %s", why);
    qr_count(QR_TURNS_TRAINING, 1);
    qr_watch_sample(&w, now_ns += QR_SECOND);
    CHECK(qr_watch_check(&w, why, sizeof why), "a turn clears it: %s", why);
    CHECK(stuck_after(&w, &now_ns, 50, why) == 11, "the floor");
    /* The thread continued after 11 s: from now on the bound is 55 s. */
    qr_count(QR_TURNS_TRAINING, 1);
    qr_watch_sample(&w, now_ns += QR_SECOND);
    CHECK(stuck_after(&w, &now_ns, 80, why) == 56, "five times the longest pause");
    qr_watch_on(&w, false);
    qr_watch_sample(&w, now_ns += QR_SECOND);
    CHECK(qr_watch_check(&w, why, sizeof why), "off again");
    /* The process was stopped for an hour. */
    w = training();
    qr_watch_on(&w, true);
    qr_watch_sample(&w, now_ns);
    qr_count(QR_TURNS_TRAINING, 1);
    qr_watch_sample(&w, now_ns += QR_SECOND);
    qr_watch_sample(&w, now_ns += 3600 * QR_SECOND);
    CHECK(qr_watch_check(&w, why, sizeof why), "%s", why);
}

static bool healthz_within(int code, int ms) {
    for (; ms > 0; ms -= 50) {
        if (request("GET", "/healthz") && status(code)) return true;
        poll(NULL, 0, 50);
    }
    return false;
}
static void test_health(void) {
    struct qr_http *h = open_one((struct qr_http_options){.control_bound_ns = 200 * QR_MS,
                                                          .training_bound_ns = 10 * QR_SECOND});
    qr_http_watch(h, QR_HTTP_CONTROL, true);
    qr_http_watch(h, QR_HTTP_TRAINING, true);
    CHECK(healthz_within(503, 3000) && strstr(body(), "the control thread has been stuck for") &&
              !strstr(body(), "training"),
          "%s", reply);
    qr_count(QR_TURNS_CONTROL, 1);
    CHECK(healthz_within(200, 500), "%s", reply);
    CHECK(request("GET", "/readyz") && status(503), "%s", reply);
    qr_http_close(h);
}

/* ---- the port ---- */

static void test_port_in_use(void) {
    struct qr_http *h = open_one((struct qr_http_options){0}), *second = NULL;
    struct qr_err err = {0};
    char number[16];
    unsigned unused = 0;
    struct qr_http_options opt = {
        .bind = "127.0.0.1", .port = port, .clock = &qr_clock_monotonic, .build = {"", "", ""}};
    snprintf(number, sizeof number, "%u", port);
    CHECK(qr_http_open(&opt, &second, &unused, &err) == QR_ALREADY_EXISTS && !second &&
          unused == 0);
    CHECK(qr_exit_code(err.code) == 2 && strstr(err.msg, number) && strstr(err.msg, "in use") &&
              strstr(err.msg, "--http-port"),
          "%s", err.msg);
    opt.bind = NULL;
    CHECK(qr_http_open(&opt, &second, &unused, &err) == QR_ALREADY_EXISTS,
          "all addresses conflict with one: %s", err.msg);
    qr_http_close(h);
    CHECK(qr_http_open(&opt, &second, &unused, &err) == QR_OK && unused == port,
          "free again, on all addresses: %s", err.msg);
    CHECK(request("GET", "/healthz") && status(200), "%s", reply);
    qr_http_close(second);
    static const char *const wrong[] = {"192.0.2.77", "no such host"};
    for (size_t i = 0; i < COUNT(wrong); i++) {
        opt.bind = wrong[i], opt.port = 0;
        CHECK(qr_http_open(&opt, &second, &unused, &err) == QR_INVALID_ARGUMENT &&
                  strstr(err.msg, wrong[i]),
              "%s: %s", wrong[i], err.msg);
    }
    qr_http_close(NULL);
    qr_http_ready(NULL, true);
    qr_http_watch(NULL, QR_HTTP_TRAINING, true);
}

int main(void) {
    signal(SIGPIPE, SIG_IGN);
    test_watches();
    test_paths();
    test_malformed_requests();
    test_slow_client();
    test_many_connections();
    test_slow_crowd();
    test_metrics();
    test_status();
    test_health();
    test_port_in_use();
    return t_end();
}
