/* Progress targets: what is sent, to which URL, with which token; pace and retry intervals, on
 * virtual time; every HTTP status, and no answer. */
#include "output/progress_to.h"

#include <math.h>
#include <unistd.h>

#include "base/counter.h"
#include "base/file.h"
#include "base/mem.h"
#include "store/post.h"
#include "store/web/web.h"
#include "tests/t.h"

/* ---- snapshots and texts ---- */

static const struct qr_named_value running[] = {{"loss", 0.25}, {"accuracy", 0.75}},
                                   metrics[] = {{"accuracy", 0.5}},
                                   logged[] = {{"energy", -1.5}, {"odd", NAN}};

static struct qr_progress_snapshot sample_snapshot(void) {
    struct qr_progress_snapshot s = {.steps = 200, .epochs = 10};
    const struct qr_step_detail detail = {
        .learning_rate = 0.02, .pod_ms = 1500, .running = running, .n_running = 2};
    struct qr_step_line line = {.step = 90,
                                .epoch = 5,
                                .loss = 9,
                                .metrics = metrics,
                                .n_metrics = 1,
                                .logged = logged,
                                .n_logged = 2};
    qr_progress_snapshot_add(&s, &line, &detail);
    line.eval = true;
    line.loss = 0.125;
    line.n_logged = 0;
    qr_progress_snapshot_add(&s, &line, &detail);
    return s;
}

static bool check_text(struct qr_buf *text, const char *want) {
    bool same = strcmp(qr_buf_string(text), want) == 0;
    CHECK(same, "%s\nwanted: %s", qr_buf_string(text), want);
    qr_buf_clear(text);
    return same;
}

static void test_texts(void) {
    const int64_t wall_ns = INT64_C(1760000000) * QR_SECOND;
    struct qr_progress_snapshot s = sample_snapshot(), none = {.step = 1, .epoch = 1};
    struct qr_buf text = {0};
    CHECK(s.n == 6 && s.pod_ms == 1500);
    /* At the end, the values of the written weights replace them. */
    static const struct qr_named_value written[] = {{"loss", 3}, {"val_loss", 4}};
    struct qr_progress_snapshot end = s;
    qr_progress_snapshot_end(&end, written, COUNT(written));
    CHECK(end.n == 6 && end.value[0].value == 3 && !end.value[0].validation);
    CHECK(end.value[4].validation && strcmp(end.value[4].name, "loss") == 0 &&
          end.value[4].value == 4);
    qr_progress_snapshot_trainer_status(&s, false, 109.2, wall_ns, &text);
    check_text(
        &text,
        "{\"trainerStatus\":{\"progressPercentage\":45,\"estimatedRemainingSeconds\":110,"
        "\"metrics\":[{\"name\":\"currentEpoch\",\"value\":\"5\"},{\"name\":\"totalEpochs\","
        "\"value\":\"10\"},{\"name\":\"currentStep\",\"value\":\"90\"},{\"name\":\"totalSteps\","
        "\"value\":\"200\"},{\"name\":\"loss\",\"value\":\"0.25\"},{\"name\":\"accuracy\","
        "\"value\":\"0.75\"},{\"name\":\"energy\",\"value\":\"-1.5\"},{\"name\":\"odd\","
        "\"value\":\"nan\"},{\"name\":\"val_loss\",\"value\":\"0.125\"},{\"name\":\"val_accuracy\","
        "\"value\":\"0.5\"},{\"name\":\"learning_rate\",\"value\":\"0.02\"}],"
        "\"lastUpdatedTime\":\"2025-10-09T08:53:20Z\"}}");
    struct qr_progress_snapshot early = {.epoch = 1, .steps = 200, .epochs = 10};
    qr_progress_snapshot_trainer_status(&early, false, 0, wall_ns, &text);
    CHECK(
        strstr(qr_buf_string(&text), "{\"progressPercentage\":0,\"estimatedRemainingSeconds\":0,"),
        "%s", qr_buf_string(&text));
    qr_buf_clear(&text);
    qr_progress_snapshot_trainer_status(&none, false, -1, wall_ns, &text);
    check_text(&text,
               "{\"trainerStatus\":{\"metrics\":[{\"name\":\"currentEpoch\",\"value\":\"1\"},"
               "{\"name\":\"currentStep\",\"value\":\"1\"},{\"name\":\"learning_rate\",\"value\":"
               "\"0\"}],\"lastUpdatedTime\":\"2025-10-09T08:53:20Z\"}}");
    none.value[0].name = "not an annotation's";
    none.value[1].name = "epoch";
    none.value[2].name = "energy";
    none.n = 3;
    qr_progress_snapshot_annotations(&none, false, -1, wall_ns, &text);
    check_text(&text,
               "{\"metadata\":{\"annotations\":{\"qring.dev/step\":\"1\",\"qring.dev/epoch\":\"1\","
               "\"qring.dev/remaining\":null,\"qring.dev/energy\":\"0\",\"qring.dev/updated\":"
               "\"2025-10-09T08:53:20Z\"}}}");
    s.n = 1;
    qr_progress_snapshot_annotations(&s, true, 12, wall_ns, &text);
    check_text(&text,
               "{\"metadata\":{\"annotations\":{\"qring.dev/progress\":\"100%\",\"qring.dev/step\":"
               "\"90/200\",\"qring.dev/epoch\":\"5/10\",\"qring.dev/remaining\":\"0s\","
               "\"qring.dev/loss\":\"0.25\",\"qring.dev/updated\":\"2025-10-09T08:53:20Z\"}}}");
    qr_buf_free(&text);
    CHECK(qr_progress_snapshot_percent(&s, false) == 45 &&
          qr_progress_snapshot_percent(&s, true) == 100);
    CHECK(qr_progress_snapshot_percent(&none, false) == -1);
    s.step = 200;
    CHECK(qr_progress_snapshot_percent(&s, false) == 99, "done only after success");
}

/* More values than slots, and a name longer than the API accepts. */
static void test_limits(void) {
    struct qr_progress_snapshot s = {0};
    char names[40][8], long_name[200];
    struct qr_named_value many[40];
    struct qr_buf text = {0};
    for (int i = 0; i < 40; i++) {
        snprintf(names[i], sizeof names[i], "m%d", i);
        many[i] = (struct qr_named_value){names[i], i};
    }
    const struct qr_step_detail detail = {.running = many, .n_running = 40};
    const struct qr_step_line line = {.step = 1, .epoch = 1};
    qr_progress_snapshot_add(&s, &line, &detail);
    CHECK(s.n == QR_PROGRESS_VALUES);
    qr_progress_snapshot_add(&s, &line, &detail);
    CHECK(s.n == QR_PROGRESS_VALUES && strcmp(s.value[31].name, "m31") == 0);
    memset(long_name, 'x', sizeof long_name - 1);
    long_name[sizeof long_name - 1] = 0;
    s.value[0].name = long_name;
    s.n = 1;
    qr_progress_snapshot_trainer_status(&s, false, 1e300, 0, &text);
    char *at = strstr(qr_buf_string(&text), "xxx");
    CHECK(at && strspn(at, "x") == 64);
    CHECK(strstr(qr_buf_string(&text), "\"estimatedRemainingSeconds\":2147483647,"));
    qr_buf_clear(&text);
    qr_progress_snapshot_annotations(&s, false, 5, 0, &text);
    CHECK(!strstr(qr_buf_string(&text), "xxx"), "%s", qr_buf_string(&text));
    qr_buf_free(&text);
}

/* ---- on virtual time ---- */

static void test_pace(void) {
    struct qr_pace p = {0};
    struct qr_progress_snapshot s = {.step = 10, .steps = 1000};
    CHECK(qr_pace_left_s(&p, 0, &s) < 0, "one sample is not enough");
    int64_t now = 0;
    for (int i = 0; i < 100; i++) { /* Two steps a second, sampled every second. */
        now += QR_SECOND;
        s.step += 2;
        double left = qr_pace_left_s(&p, now, &s);
        CHECK(fabs(left - (double)(1000 - s.step) / 2) < 1e-9, "%d: %g", i, left);
    }
    for (int i = 0; i < 64; i++) { /* Another worker joins: twice as fast, seen within a minute. */
        now += QR_SECOND;
        s.step += 4;
        qr_pace_left_s(&p, now, &s);
    }
    now += QR_SECOND;
    s.step += 4;
    double left = qr_pace_left_s(&p, now, &s);
    CHECK(fabs(left - (double)(1000 - s.step) / 4) < 1, "%g of %llu steps", left,
          (unsigned long long)(1000 - s.step));
    s.step = 5; /* The step went back. */
    CHECK(qr_pace_left_s(&p, now + QR_SECOND, &s) < 0);
    s.step = 6;
    CHECK(fabs(qr_pace_left_s(&p, now + 2 * QR_SECOND, &s) - 994) < 1e-9);
    CHECK(qr_pace_left_s(&p, now + 3 * QR_SECOND, &s) > 994, "no progress");
    s.step = 1000;
    CHECK(qr_pace_left_s(&p, now + 4 * QR_SECOND, &s) == 0);
    s.steps = 0;
    CHECK(qr_pace_left_s(&p, now + 5 * QR_SECOND, &s) < 0);
}

static void test_intervals(void) {
    const struct qr_progress_sink l = {.every_ns = 5 * QR_SECOND, .most_ns = 60 * QR_SECOND},
                                  plain = {.every_ns = 10 * QR_SECOND};
    static const int wait_s[] = {5, 10, 20, 40, 60, 60};
    for (unsigned i = 0; i < COUNT(wait_s); i++)
        CHECK(qr_progress_sink_next_ns(&l, 7 * QR_SECOND, i) == (7 + wait_s[i]) * QR_SECOND, "%u",
              i);
    CHECK(qr_progress_sink_next_ns(&l, 0, 4000000000u) == 60 * QR_SECOND);
    CHECK(qr_progress_sink_next_ns(&plain, 0, 9) == 10 * QR_SECOND, "cost.json: no backoff");
}

/* ---- targets ---- */

static char folder[] = "/tmp/qring-progress-XXXXXX";
static char *account, *token, *ca;

static void put_file(const char *path, const char *text) {
    struct qr_err err = {0};
    CHECK(qr_file_replace(path, qr_bytes_of_string(text), &err) == QR_OK, "%s", err.msg);
}

static void test_targets(void) {
    static const char *const good[] = {NULL,
                                       "",
                                       "none",
                                       "https://a.b:8443/c?d",
                                       "http://[::1]:1/",
                                       "job/qcnn",
                                       "pod/a.b-c",
                                       "statefulset/q",
                                       "jobset/q",
                                       "tfjob/q",
                                       "trainjob/0"},
                             *const bad[] = {
                                 "job",      "job/",      "job/Q",       "job/-q",
                                 "job/q-",   "job/a_b",   "jobs/q",      "deployment/q",
                                 "https://", "http:///x", "https://a b", "ftp://a",
                                 "None",     "job/a/b",   "https://:1",  "https://\xc3\xa4"};
    struct qr_err err = {0};
    for (size_t i = 0; i < COUNT(good); i++)
        CHECK(qr_progress_check(good[i], &err) == QR_OK, "%s: %s", good[i], err.msg);
    for (size_t i = 0; i < COUNT(bad); i++)
        CHECK(qr_progress_check(bad[i], &err) == QR_INVALID_ARGUMENT &&
                  strstr(err.msg, "--progress-to") && strstr(err.msg, "job, pod, statefulset"),
              "%s: %s", bad[i], err.msg);
}

static char *unconst(const char *s) { return (char *)(uintptr_t)s; }

static void test_find(void) {
    struct qr_progress_target t;
    struct qr_err err = {0};
    char *no_env[] = {unconst("PATH=/bin"), unconst("KUBEFLOW_TRAINER_SERVER_URL="), NULL};
    char *kubeflow[] = {unconst("KUBEFLOW_TRAINER_SERVER_URL=https://s:10443/x"),
                        unconst("KUBEFLOW_TRAINER_SERVER_CA_CERT=/ca"),
                        unconst("KUBEFLOW_TRAINER_SERVER_TOKEN=/token"), NULL};
    char *pod[] = {unconst("KUBERNETES_SERVICE_HOST=10.0.0.1"),
                   unconst("KUBERNETES_SERVICE_PORT=6443"), NULL};
    char *pod6[] = {unconst("KUBERNETES_SERVICE_HOST=fd00::1"), NULL};
    CHECK(qr_progress_find(NULL, account, no_env, &t, &err) == QR_OK && !t.what);
    CHECK(qr_progress_find(NULL, account, kubeflow, &t, &err) == QR_OK && !t.annotations &&
          strcmp(t.url, "https://s:10443/x") == 0 && strcmp(t.ca_file, "/ca") == 0 &&
          strcmp(t.token_file, "/token") == 0 && strcmp(t.what, "the TrainJob") == 0);
    qr_progress_target_fini(&t);
    CHECK(qr_progress_find("none", account, kubeflow, &t, &err) == QR_OK && !t.what);
    CHECK(qr_progress_find("http://h:1/a", account, kubeflow, &t, &err) == QR_OK && !t.token_file &&
              !t.ca_file && strcmp(t.what, "http://h:1") == 0,
          "Kubeflow's token is sent to Kubeflow only");
    qr_progress_target_fini(&t);
    CHECK(qr_progress_find("https://me:secret@h/a", account, kubeflow, &t, &err) == QR_OK &&
          strcmp(t.what, "https://h") == 0);
    qr_progress_target_fini(&t);
    kubeflow[2] = NULL;
    CHECK(qr_progress_find("", account, kubeflow, &t, &err) == QR_FAILED_PRECONDITION &&
              strstr(err.msg, "KUBEFLOW_TRAINER_SERVER_TOKEN is not") && !t.what,
          "%s", err.msg);
    kubeflow[0] = unconst("KUBEFLOW_TRAINER_SERVER_URL=http://s:10443/x");
    CHECK(qr_progress_find("", account, kubeflow, &t, &err) == QR_FAILED_PRECONDITION &&
              strstr(err.msg, "https"),
          "no token without TLS: %s", err.msg);
    CHECK(qr_progress_find("job/qcnn", account, no_env, &t, &err) == QR_FAILED_PRECONDITION &&
              strstr(err.msg, "not in a Kubernetes pod"),
          "%s", err.msg);
    CHECK(qr_progress_find("job/qcnn", "/nowhere", pod, &t, &err) == QR_FAILED_PRECONDITION &&
              strstr(err.msg, "automountServiceAccountToken"),
          "%s", err.msg);
    CHECK(qr_progress_find("job/qcnn", account, pod, &t, &err) == QR_OK && t.annotations &&
              strcmp(t.url, "https://10.0.0.1:6443/apis/batch/v1/namespaces/physics/jobs/qcnn") ==
                  0,
          "%s", t.url);
    qr_progress_target_fini(&t);
    CHECK(qr_progress_find("pod/a-0", account, pod6, &t, &err) == QR_OK &&
              strcmp(t.url, "https://[fd00::1]:443/api/v1/namespaces/physics/pods/a-0") == 0,
          "%s", t.url);
    qr_progress_target_fini(&t);
    pod[1] = unconst("KUBERNETES_SERVICE_PORT=1 2");
    CHECK(qr_progress_find("job/qcnn", account, pod, &t, &err) == QR_FAILED_PRECONDITION, "%s",
          err.msg);
    qr_auto(qr_free_p) char *ns = qr_path_join(account, "namespace");
    put_file(ns, "../other");
    CHECK(qr_progress_find("job/qcnn", account, pod6, &t, &err) == QR_FAILED_PRECONDITION &&
              strstr(err.msg, "the name of a namespace"),
          "%s", err.msg);
    put_file(ns, "physics\n");
}

/* ---- a server ---- */

static struct {
    int opened, closed, sent, status;
    enum qr_code code;
    const char *body;
    char method[8], url[200], headers[600], request_body[4096], ca[200];
    int64_t timeout_ms;
} server;

static enum qr_code answer(struct qr_web *h, const struct qr_web_request *req,
                           struct qr_web_reply *ret, struct qr_err *err) {
    (void)h;
    server.sent++;
    server.headers[0] = 0;
    for (size_t i = 0; i < req->n_headers; i++) {
        size_t n = strlen(server.headers);
        snprintf(server.headers + n, sizeof server.headers - n, "%s\n", req->headers[i]);
    }
    snprintf(server.method, sizeof server.method, "%s", req->method);
    snprintf(server.url, sizeof server.url, "%s", req->url);
    snprintf(server.ca, sizeof server.ca, "%s", req->ca_file ? req->ca_file : "");
    snprintf(server.request_body, sizeof server.request_body, "%.*s", (int)req->body.n,
             (const char *)req->body.p);
    server.timeout_ms = req->timeout_ms;
    *ret = (struct qr_web_reply){0};
    if (server.code != QR_OK) return qr_fail(err, server.code, "planted");
    ret->status = server.status;
    qr_buf_puts(&ret->body, server.body);
    return QR_OK;
}
static void close_server(struct qr_web *h) {
    server.closed++;
    free(h);
}
static struct qr_web *open_server(void) {
    struct qr_web *w = qr_xcalloc(1, sizeof *w);
    *w = (struct qr_web){answer, close_server};
    server.opened++;
    return w;
}

/* Logs and errors show a target without its secrets. */
static void test_redaction(void) {
    static const struct {
        const char *target, *shown;
    } row[] = {
        {"none", "none"},
        {"job/qcnn", "job/qcnn"},
        {"http://h:1", "http://h:1"},
        {"https://me:secret@h:1/secret?secret#secret", "https://h:1"},
        {"https://h?secret@x", "https://h"},
        {"https://secret@secret@[::1]:7/secret@x", "https://[::1]:7"},
        {"ftp://me:secret@h/secret", "ftp://h"},
        {"me:secret@h/secret", "h"},
    };
    struct qr_err err = {0};
    for (size_t i = 0; i < COUNT(row); i++) {
        qr_auto(qr_free_p) char *shown = qr_progress_shown(row[i].target);
        CHECK(strcmp(shown, row[i].shown) == 0, "%s: %s", row[i].target, shown);
        CHECK(qr_progress_check(row[i].target, &err) == QR_OK || !strstr(err.msg, "secret"), "%s",
              err.msg);
    }
}

static void test_answers(void) {
    static const struct {
        int status;
        enum qr_code code;
        const char *body, *words;
    } rows[] = {
        {200, QR_OK, "{}", ""},
        {204, QR_OK, "", ""},
        {401, QR_UNAUTHENTICATED, "{\"message\":\"Unauthorized\"}",
         "h:1 answers 401: Unauthorized"},
        {403, QR_PERMISSION_DENIED, "{\"message\":\"no\\nway\"}", "h:1 answers 403: no way"},
        {404, QR_NOT_FOUND, "<html>", "h:1 answers 404"},
        {409, QR_ABORTED, "[1]", "h:1 answers 409"},
        {422, QR_FAILED_PRECONDITION, "{\"message\":5}", "h:1 answers 422"},
        {302, QR_FAILED_PRECONDITION, "", "h:1 answers 302"},
        {429, QR_UNAVAILABLE, "{\"message\":", "h:1 answers 429"},
        {500, QR_UNAVAILABLE, "null", "h:1 answers 500"},
    };
    const struct qr_post post = {.method = "POST",
                                 .url = "https://me:secret@h:1/secret/path?secret",
                                 .type = "text/x",
                                 .token_file = token,
                                 .ca_file = ca,
                                 .timeout_ms = 77};
    struct qr_poster *p = qr_poster_new(open_server);
    struct qr_err err = {0};
    put_file(token, "first\n");
    for (size_t i = 0; i < COUNT(rows); i++) {
        server.status = rows[i].status;
        server.body = rows[i].body;
        err.msg[0] = 0;
        enum qr_code code = qr_poster_send(p, &post, qr_bytes_of_string("word"), &err);
        CHECK(code == rows[i].code && (code == QR_OK || strcmp(err.msg, rows[i].words) == 0),
              "%d: %s", rows[i].status, err.msg);
    }
    CHECK(strcmp(server.headers, "Content-Type: text/x\nAuthorization: Bearer first\n") == 0, "%s",
          server.headers);
    CHECK(strcmp(server.ca, ca) == 0 && server.timeout_ms == 77 &&
          strcmp(server.request_body, "word") == 0);
    put_file(token, "second");
    server.status = 200;
    CHECK(qr_poster_send(p, &post, qr_bytes_of_string(""), &err) == QR_OK &&
              strstr(server.headers, "Bearer second\n"),
          "the token is read again: %s", server.headers);
    CHECK(server.opened == 1, "one connection, kept");
    server.code = QR_UNAVAILABLE;
    CHECK(qr_poster_send(p, &post, qr_bytes_of_string(""), &err) == QR_UNAVAILABLE &&
          strcmp(err.msg, "planted") == 0 && server.closed == 1);
    server.code = QR_OK;
    CHECK(qr_poster_send(p, &post, qr_bytes_of_string(""), &err) == QR_OK && server.opened == 2,
          "a new connection after a failure");
    int sent = server.sent;
    static const char *const none[] = {"", "\n", "two words", "a\nX: b", "\xff"};
    for (size_t i = 0; i < COUNT(none); i++) {
        put_file(token, none[i]);
        CHECK(qr_poster_send(p, &post, qr_bytes_of_string(""), &err) == QR_UNAUTHENTICATED &&
                  strstr(err.msg, "holds no token") && !strstr(err.msg, "words"),
              "%zu: %s", i, err.msg);
    }
    unlink(token);
    CHECK(qr_poster_send(p, &post, qr_bytes_of_string(""), &err) == QR_NOT_FOUND &&
              server.sent == sent,
          "%s", err.msg);
    put_file(token, "third");
    qr_poster_free(p);
    qr_poster_free(NULL);
    CHECK(server.closed == server.opened);
    char reason[8];
    qr_post_reason(qr_bytes_of_string("{\"message\":\"abcde\\u00e4\\u00e4\"}"), reason,
                   sizeof reason);
    CHECK(strcmp(reason, "abcd...") == 0, "%s", reason);
    qr_post_reason(qr_bytes_of_string("{\"message\":\"abc\\u00e4\\u00e4\\u00e4\"}"), reason,
                   sizeof reason);
    CHECK(strcmp(reason, "abc...") == 0, "no part of a character: %s", reason);
}

static void test_sink(void) {
    char *pod[] = {unconst("KUBERNETES_SERVICE_HOST=h"), NULL};
    struct qr_progress_target t;
    struct qr_progress_snapshot s = sample_snapshot();
    struct qr_err err = {0};
    int64_t reports = qr_counter_value(QR_PROGRESS_REPORTS),
            errors = qr_counter_value(QR_PROGRESS_ERRORS);
    CHECK(qr_progress_find("job/qcnn", account, pod, &t, &err) == QR_OK, "%s", err.msg);
    struct qr_progress_sink l = qr_progress_target_sink(&t, open_server);
    CHECK(l.every_ns == 10 * QR_SECOND && !l.last_of_all && strcmp(l.what, "job/qcnn") == 0);
    server.status = 200;
    server.body = "{}";
    CHECK(l.send(l.ctx, &s, QR_REPORT_ONGOING, &err) == QR_OK && server.timeout_ms == 3000 &&
          strcmp(server.method, "PATCH") == 0 &&
          strstr(server.headers, "Content-Type: application/merge-patch+json\n") &&
          strstr(server.headers, "Bearer third\n") && strstr(server.request_body, "\"45%\""));
    CHECK(l.send(l.ctx, &s, QR_REPORT_LAST, &err) == QR_OK && server.timeout_ms == 500 &&
          strstr(server.request_body, "\"45%\""));
    CHECK(l.send(l.ctx, &s, QR_REPORT_DONE, &err) == QR_OK && server.timeout_ms == 1200 &&
          strstr(server.request_body, "\"100%\""));
    server.status = 403;
    CHECK(l.send(l.ctx, &s, QR_REPORT_ONGOING, &err) == QR_PERMISSION_DENIED &&
              strstr(err.msg, "the pod's service account may not patch it"),
          "%s", err.msg);
    CHECK(qr_counter_value(QR_PROGRESS_REPORTS) == reports + 3 &&
          qr_counter_value(QR_PROGRESS_ERRORS) == errors + 1);
    l.free(l.ctx);
    qr_progress_target_fini(&t);
    CHECK(qr_progress_find("http://h/x", account, pod, &t, &err) == QR_OK, "%s", err.msg);
    l = qr_progress_target_sink(&t, open_server);
    server.status = 200;
    CHECK(l.every_ns == 5 * QR_SECOND && l.send(l.ctx, &s, QR_REPORT_ONGOING, &err) == QR_OK &&
          strcmp(server.method, "POST") == 0 && strcmp(server.url, "http://h/x") == 0 &&
          strcmp(server.headers, "Content-Type: application/json\n") == 0 &&
          strncmp(server.request_body, "{\"trainerStatus\":", 17) == 0);
    l.free(l.ctx);
    qr_progress_target_fini(&t);
}

int main(void) {
    CHECK(mkdtemp(folder));
    account = folder;
    token = qr_path_join(folder, "token");
    ca = qr_path_join(folder, "ca.crt");
    qr_auto(qr_free_p) char *ns = qr_path_join(folder, "namespace");
    put_file(ns, "physics\n");
    test_texts();
    test_limits();
    test_pace();
    test_intervals();
    test_targets();
    test_find();
    test_redaction();
    test_answers();
    test_sink();
    unlink(ns);
    unlink(token);
    rmdir(folder);
    free(token);
    free(ca);
    return t_end();
}
