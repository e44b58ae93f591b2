/* Start of a worker: time from exec to the log line that probes are answered, which follows
 * "listening", with and without certificates; time to create certificates; resident memory while
 * the worker waits for a missing peer. Usage: bench_start [qringd] */
#include <arpa/inet.h>
#include <poll.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "tests/bench/figures.h"
#include "tests/tls.h"

enum { RUNS = 20, LIMIT_MS = 5000 };

static unsigned free_port(void) {
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t n = sizeof a;
    int s = socket(AF_INET, SOCK_STREAM, 0);
    if (s < 0 || bind(s, (struct sockaddr *)&a, n) != 0 ||
        getsockname(s, (struct sockaddr *)&a, &n) != 0)
        exit(1);
    close(s);
    return ntohs(a.sin_port);
}

/* Starts a worker of two; returns when it has logged that it listens and answers probes. */
static pid_t start(const char *qringd, const char *tls_dir, int *ret_log, int64_t *ret_ns) {
    char config[256], http[32], tls[128];
    int fd[2];
    snprintf(config, sizeof config,
             "{\"cluster\":{\"worker\":[\"127.0.0.1:%u\",\"127.0.0.1:%u\"]},\"task\":{\"type\":"
             "\"worker\",\"index\":0}}",
             free_port(), free_port());
    snprintf(tls, sizeof tls, "--tls-dir=%s", tls_dir);
    snprintf(http, sizeof http, "--http-port=%u", free_port());
    if (pipe(fd) != 0) exit(1);
    int64_t began = bench_now_ns();
    pid_t pid = fork();
    if (pid < 0) exit(1);
    if (pid == 0) {
        setenv("TF_CONFIG", config, 1);
        dup2(fd[1], 2);
        close(fd[0]);
        close(fd[1]);
        execl(qringd, qringd, "deploy/jobs/qcnn.json", "--data-port=0", "--checkpoints=none",
              "--out=build/bench/start", http, tls, (char *)NULL);
        _exit(127);
    }
    close(fd[1]);
    char text[65536];
    size_t n = 0;
    *ret_ns = -1;
    while (n < sizeof text - 1) {
        struct pollfd p = {.fd = fd[0], .events = POLLIN};
        if (poll(&p, 1, LIMIT_MS) <= 0) break;
        ssize_t got = read(fd[0], text + n, sizeof text - 1 - n);
        if (got <= 0) break;
        n += (size_t)got;
        text[n] = 0;
        if (strstr(text, "probes and metrics on")) {
            *ret_ns = bench_now_ns() - began;
            break;
        }
    }
    if (*ret_ns < 0) fprintf(stderr, "qringd did not log that it listens:\n%.*s\n", (int)n, text);
    *ret_log = fd[0];
    return pid;
}

static long resident_kb(pid_t pid) {
    char path[64], line[256];
    long kb = -1;
    snprintf(path, sizeof path, "/proc/%d/status", (int)pid);
    FILE *f = fopen(path, "r");
    while (f && fgets(line, sizeof line, f))
        if (strncmp(line, "VmRSS:", 6) == 0) kb = strtol(line + 6, NULL, 10);
    if (f) fclose(f);
    return kb;
}

static void stop(pid_t pid, int log) {
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
    close(log);
}

static int measure(const char *qringd, const char *tls_dir, const char *name) {
    double ns[RUNS];
    int log;
    for (int i = 0; i < RUNS; i++) {
        int64_t one;
        pid_t pid = start(qringd, tls_dir, &log, &one);
        stop(pid, log);
        if (one < 0) return 1;
        ns[i] = (double)one;
    }
    bench_open("start", name);
    bench_put_ns(bench_spread(ns, RUNS), RUNS);
    bench_close();
    return 0;
}

int main(int argc, char **argv) {
    const char *qringd = argc > 1 ? argv[1] : "build/bin/qringd";
    double made_ns[RUNS];
    int64_t one;
    int log;
    const struct qr_certificate_request order = tls_order("start");
    struct tls_dir dir = tls_dir_new();
    for (int i = 0; i < RUNS; i++) {
        one = bench_now_ns();
        struct qr_certificate_set set = tls_make(&order);
        made_ns[i] = (double)(bench_now_ns() - one);
        if (i == 0) tls_dir_put(&dir, &set);
        qr_certificate_wipe(&set);
    }
    bench_open("start", "certificates");
    bench_put_ns(bench_spread(made_ns, RUNS), RUNS);
    bench_close();
    int bad = measure(qringd, "", "exec-to-listening") ||
              measure(qringd, dir.path, "exec-to-listening-tls");
    pid_t pid = start(qringd, dir.path, &log, &one);
    struct timespec two_seconds = {2, 0};
    nanosleep(&two_seconds, NULL); /* resident memory is that of an idle worker */
    long kb = resident_kb(pid);
    stop(pid, log);
    tls_dir_free(&dir);
    bench_open("start", "idle-tls");
    bench_put_count("resident_bytes", (double)kb * 1024);
    bench_close();
    return kb < 0 || bad;
}
