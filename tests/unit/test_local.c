/* The processes and the progress of `qring run`, with a shell script in the worker's place. */
#include <sys/stat.h>
#include <unistd.h>

#include "base/bytes.h"
#include "local/processes.h"
#include "local/progress_bar.h"
#include "tests/t.h"

static char folder[] = "/tmp/qring-test-local-XXXXXX";

static struct qr_json *parse(const char *text) {
    struct qr_json *v = NULL;
    struct qr_err err;
    CHECK(qr_json_parse(qr_bytes_of_string(text), "test", &v, &err) == QR_OK, "%s", err.msg);
    return v;
}

static void test_line(void) {
    struct qr_json *v = parse("{\"loss\": 0.72134, \"accuracy\": 0.53125}");
    struct qr_buf b = {0};
    qr_progress_line(&b, 2, 2, 0.0021, 0, v);
    CHECK(strcmp(qr_buf_string(&b), "2/2 [==============================] - 0s 1ms/step - loss: "
                                    "0.72134 - accuracy: 0.53125") == 0,
          "%s", qr_buf_string(&b));
    qr_buf_clear(&b);
    qr_progress_line(&b, 1, 2, -1, 3.2, v);
    CHECK(
        strcmp(
            qr_buf_string(&b),
            "1/2 [==============>...............] - ETA: 3s - loss: 0.72134 - accuracy: 0.53125") ==
            0,
        "%s", qr_buf_string(&b));
    qr_buf_clear(&b);
    qr_progress_line(&b, 3, 3, 12, 0, NULL);
    CHECK(strcmp(qr_buf_string(&b), "3/3 [==============================] - 12s 4s/step") == 0,
          "%s", qr_buf_string(&b));
    qr_buf_free(&b);
    qr_json_free(v);
}

static int64_t read_fixed_clock(void *ctx) { return *(int64_t *)ctx; }

/* On a terminal "Epoch" and a bar that its end overwrites; elsewhere one line an epoch. Events of
 * other kinds print nothing. */
static void test_events(void) {
    int64_t now = QR_SECOND;
    struct qr_clock clock = {read_fixed_clock, &now};
    for (int terminal = 0; terminal < 2; terminal++) {
        char *text = NULL;
        size_t n = 0;
        FILE *out = open_memstream(&text, &n);
        struct qr_progress p = {.out = out, .terminal = terminal, .clock = &clock};
        static const char *const events[] = {
            "{\"event\":\"listening\",\"port\":1}",
            "{\"event\":\"progress\",\"epoch\":1,\"epochs\":2,\"batch\":1,\"batches\":2,\"values\":"
            "{\"loss\":1}}",
            "{\"event\":\"epoch\",\"epoch\":1,\"epochs\":2,\"batches\":2,\"seconds\":0.002,"
            "\"values\":{\"loss\":1,\"val_loss\":null}}",
            "[]", "{\"event\":7}"};
        for (size_t i = 0; i < COUNT(events); i++) {
            struct qr_json *v = parse(events[i]);
            qr_progress_event(&p, v);
            qr_json_free(v);
        }
        qr_progress_end(&p);
        fclose(out);
        const char *want =
            terminal ? "Epoch 1/2\n\r1/2 [==============>...............] - ETA: 0s - loss: 1\r"
                       "2/2 [==============================] - 0s 1ms/step - loss: 1\n"
                     : "Epoch 1/2 - 2/2 [==============================] - 0s 1ms/step - loss: 1\n";
        CHECK(strcmp(text, want) == 0, "got:\n%s", text);
        free(text);
    }
}

/* Epochs of one step: one overwritten line on a terminal, and a line each elsewhere. */
static void test_one_step(void) {
    for (int terminal = 0; terminal < 2; terminal++) {
        int64_t now = QR_SECOND;
        struct qr_clock clock = {read_fixed_clock, &now};
        char *text = NULL;
        size_t n = 0;
        FILE *out = open_memstream(&text, &n);
        struct qr_progress p = {.out = out, .terminal = terminal, .clock = &clock};
        static const char *const events[] = {
            "{\"event\":\"progress\",\"epoch\":1,\"epochs\":2,\"batch\":1,\"batches\":1,\"values\":"
            "{\"loss\":-1.25}}",
            "{\"event\":\"epoch\",\"epoch\":1,\"epochs\":2,\"batches\":1,\"seconds\":0.002,"
            "\"values\":{\"loss\":-1.25}}",
            "{\"event\":\"progress\",\"epoch\":2,\"epochs\":2,\"batch\":1,\"batches\":1,\"values\":"
            "{\"loss\":-1.5}}",
            "{\"event\":\"epoch\",\"epoch\":2,\"epochs\":2,\"batches\":1,\"seconds\":0.002,"
            "\"values\":{\"loss\":-1.5}}"};
        for (size_t i = 0; i < COUNT(events); i++) {
            struct qr_json *v = parse(events[i]);
            qr_progress_event(&p, v);
            qr_json_free(v);
        }
        qr_progress_end(&p);
        fclose(out);
        size_t lines = 0;
        for (const char *c = text; (c = strchr(c, '\n')) != NULL; c++) lines++;
        CHECK(lines == (terminal ? 1 : 2), "%zu lines:\n%s", lines, text);
        const char *last = strrchr(text, terminal ? '\r' : 'E');
        CHECK(last && strstr(last, "poch 2/2 - 1/1 [====") && strstr(last, "ms/step - loss: -1.5"),
              "got:\n%s", text);
        CHECK(strstr(text, "Epoch 1/2 - 1/1 [="), "got:\n%s", text);
        free(text);
    }
}

/* Runs n copies of a script, which has its index in $i and its folder in $d; $d/lost exists once a
 * loss was reported. */
static struct qr_local_result run(const char *body, unsigned n, int *ret_events);

static void count(void *ctx, const struct qr_json *event) {
    (void)event;
    ++*(int *)ctx;
}

static bool restarts;
static char losses[400], lost[128];
static void record_loss(void *ctx, unsigned worker, const char *sentence, unsigned n_left,
                        bool comes_back) {
    (void)ctx;
    size_t n = strlen(losses);
    snprintf(losses + n, sizeof losses - n, "%u %.8s %u %d|", worker, sentence, n_left, comes_back);
    FILE *f = fopen(lost, "w");
    CHECK(f && fclose(f) == 0);
}

static struct qr_local_result run(const char *body, unsigned n, int *ret_events) {
    char path[128];
    snprintf(path, sizeof path, "%s/worker", folder);
    FILE *f = fopen(path, "w");
    fprintf(
        f,
        "#!/bin/sh\ni=$(echo \"$TF_CONFIG\" | sed 's/.*\"index\":\\([0-9]*\\).*/\\1/')\nd=%s\n%s\n",
        folder, body);
    fclose(f);
    chmod(path, 0700);
    snprintf(lost, sizeof lost, "%s/lost", folder);
    unlink(lost);
    struct qr_local_result result = {.exit_code = -1};
    struct qr_err err = {0};
    struct qr_local_options opt = {.program = path,
                                   .n_workers = n,
                                   .environment = environ,
                                   .log_dir = folder,
                                   .event = count,
                                   .ctx = ret_events,
                                   .restart = restarts,
                                   .lost = record_loss};
    losses[0] = '\0';
    *ret_events = 0;
    CHECK(qr_local_run(&opt, &result, &err) == QR_OK, "%s", err.msg);
    return result;
}

static void test_processes(void) {
    int events;
    struct qr_local_result r =
        run("echo '{\"event\":\"x\"}' >&3; echo '{\"event\":\"y\"}' >&3; echo hello", 3, &events);
    CHECK(r.exit_code == 0 && r.worker == -1 && !r.sentence && !r.interrupted && events == 2,
          "%d, %d events", r.exit_code, events);

    r = run("[ $i = 1 ] || { sleep 0.2; exit 138; }; echo "
            "'{\"event\":\"error\",\"code\":15,\"message\":\"bad row 7\"}' >&3; exit 4",
            3, &events);
    CHECK(r.exit_code == 4 && r.worker == 1 && r.sentence && strcmp(r.sentence, "bad row 7") == 0,
          "%d by %d: %s", r.exit_code, r.worker, r.sentence);
    free(r.sentence);

    /* The survivors' exit code 138 may be seen first; the killed worker is reported
     * nevertheless. */
    r = run("[ $i = 2 ] && kill -9 $$; exit 138", 4, &events);
    CHECK(r.exit_code == 138 && r.worker == 2 && r.sentence && strstr(r.sentence, "signal 9"),
          "%d by %d: %s", r.exit_code, r.worker, r.sentence);
    free(r.sentence);

    r = run(
        "echo '{\"event\":\"error\",\"code\":14,\"message\":\"worker 1 is lost\"}' >&3; exit 138",
        2, &events);
    CHECK(r.exit_code == 138 && r.sentence && strstr(r.sentence, "worker 1 is lost"), "%d: %s",
          r.exit_code, r.sentence);
    free(r.sentence);

    /* One worker is killed and the others succeed: the run succeeds, and events are those of the
     * lowest running worker. */
    r = run("[ $i = 0 ] && { echo '{\"event\":\"x\"}' >&3; kill -9 $$; }; while ! [ -e "
            "$d/lost ]; do sleep 0.01; done; "
            "echo '{\"event\":\"y\"}' >&3; sleep 0.1; echo '{\"event\":\"done\"}' >&3",
            3, &events);
    CHECK(r.exit_code == 0 && !r.sentence && events == 4, "%d: %s, %d events", r.exit_code,
          r.sentence ? r.sentence : "", events);
    CHECK(strcmp(losses, "0 was term 2 0|") == 0, "%s", losses);
    free(r.sentence);

    /* With restart a killed worker is started again, here twice, until the run has ended. */
    restarts = true;
    r = run("[ $i = 1 ] || { while ! [ -e $d/third ]; do sleep 0.01; done; exit 0; }; [ -e "
            "$d/second ] && { : >$d/third; exit 0; }; "
            "[ -e $d/first ] && { : >$d/second; kill -9 $$; }; : >$d/first; kill -9 $$",
            2, &events);
    CHECK(r.exit_code == 0 && !r.sentence, "%d: %s", r.exit_code, r.sentence ? r.sentence : "");
    CHECK(strcmp(losses, "1 was term 1 1|1 was term 1 1|") == 0, "%s", losses);
    free(r.sentence);
    restarts = false;

    /* If another program took a port in between, the workers are started once more. */
    r = run("[ -e $d/again$i ] && exit 0; : >$d/again$i; [ $i = 0 ] && { while ! [ -e $d/again1 ]; "
            "do sleep 0.01; done; echo '{\"event\":\"error\",\"code\":6,\"message\":\"in use\"}' "
            ">&3; exit 2; }; exec sleep 60",
            2, &events);
    CHECK(r.exit_code == 0 && !r.sentence, "%d: %s", r.exit_code, r.sentence ? r.sentence : "");
    free(r.sentence);

    /* A signal from the user: all workers are asked to stop, the exit code is 0, and the result has
     * the signal. */
    char body[128];
    snprintf(body, sizeof body, "[ $i = 0 ] && kill -TERM %d; exec sleep 60", (int)getpid());
    r = run(body, 2, &events);
    CHECK(r.exit_code == 0 && r.interrupted && r.terminated && r.worker == -1, "%d by %d",
          r.exit_code, r.worker);
    free(r.sentence);
    snprintf(body, sizeof body, "[ $i = 0 ] && kill -INT %d; exec sleep 60", (int)getpid());
    r = run(body, 2, &events);
    CHECK(r.exit_code == 0 && r.interrupted && !r.terminated && r.worker == -1, "%d by %d",
          r.exit_code, r.worker);
    free(r.sentence);

    r = run("[ -z \"$TF_CONFIG$QRING_INDEX\" ]", 1, &events);
    CHECK(r.exit_code == 0, "a single worker gets no identity variables: %d", r.exit_code);
    free(r.sentence);
}

int main(void) {
    char command[64];
    CHECK(mkdtemp(folder) != NULL);
    setenv("TF_CONFIG", "{}", 1);
    setenv("QRING_INDEX", "5", 1);
    test_line();
    test_events();
    test_one_step();
    test_processes();
    snprintf(command, sizeof command, "rm -rf %s", folder);
    return system(command) == 0 ? t_end() : 1;
}
