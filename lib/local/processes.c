/* local/processes.c — runs the worker processes of a job on this machine: start, events,
 * restart, end. Start reading at qr_local_run(). */
#include "local/processes.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cgroup.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/mem.h"
#include "local/run_certificates.h"

enum { PROGRESS_FD = 3, MAX_LINE = 1 << 16 };
/* The leader waits 5 s for goodbyes; a worker that was asked to stop has 10 s of its own. */
static const int64_t after_done_ns = 10 * QR_SECOND, after_refusal_ns = 3 * QR_SECOND,
                     after_stop_ns = 12 * QR_SECOND, after_term_ns = 3 * QR_SECOND,
                     restart_first_ns = QR_SECOND / 2, restart_last_ns = 8 * QR_SECOND;

struct process {
    pid_t pid;  /* 0 after waitpid */
    int events; /* read end; -1 once closed */
    struct qr_buf line;
    int status; /* of waitpid */
    char *sentence;
    enum qr_code error_code;                    /* code of the sentence */
    enum { NOT, PROBABLY, SURELY } memory_kill; /* killed by the kernel for lack of memory */
    char *config;                               /* TF_CONFIG, or NULL */
    /* Time of the restart (0: none), and its delay. */
    int64_t restart_ns, delay_ns;
};

struct pool {
    const struct qr_local_options *opt;
    int lock;                                /* as inherited; -1: none */
    struct qr_run_certificates certificates; /* none without opt->tls */
    struct process p[QR_MAX_MEMBERS];
    unsigned alive, n;
    int signals; /* signalfd: SIGINT, SIGTERM, SIGCHLD */
    sigset_t old_mask;
    int64_t deadline_ns;           /* when the present stage ends; 0: none */
    int stage;                     /* 0: running, 1: SIGTERM sent, 2: SIGKILL sent */
    struct qr_memory_kills kills;  /* seen so far */
    int first_wrong, first_killed; /* workers; -1: none. first_killed: by a signal from elsewhere */
    bool interrupted, terminated, port_taken, done; /* done: a worker has ended successfully */
    bool trained; /* a worker has trained, so --fresh no longer applies */
};

/* ---- start ---- */

static enum qr_code find_free_ports(unsigned n, unsigned *ret, struct qr_err *err) {
    int fd[QR_MAX_MEMBERS];
    enum qr_code code = QR_OK;
    unsigned made = 0;
    for (; made < n && code == QR_OK; made++) { /* all are open at once, so that they differ */
        struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
        socklen_t size = sizeof a;
        fd[made] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        if (fd[made] < 0 || bind(fd[made], (struct sockaddr *)&a, size) != 0 ||
            getsockname(fd[made], (struct sockaddr *)&a, &size) != 0)
            code = qr_fail_errno(err, errno, "find a free port on 127.0.0.1");
        ret[made] = ntohs(a.sin_port);
    }
    for (unsigned i = 0; i < made; i++) close(fd[i]);
    return code;
}

static char *make_tf_config(const unsigned *ports, unsigned n, unsigned index) {
    struct qr_buf b = {0};
    qr_buf_puts(&b, "TF_CONFIG={\"cluster\":{\"worker\":[");
    for (unsigned i = 0; i < n; i++)
        qr_buf_printf(&b, "%s\"127.0.0.1:%u\"", i ? "," : "", ports[i]);
    qr_buf_printf(&b, "]},\"task\":{\"type\":\"worker\",\"index\":%u}}", index);
    return (char *)b.p;
}

static bool names_identity(const char *e) {
    static const char *const names[] = {"TF_CONFIG=",           "JOB_COMPLETION_INDEX=",
                                        "QRING_INDEX=",         "QRING_PEERS=",
                                        "QRING_PEER_TEMPLATE=", "QRING_PARAMETER_SERVERS=",
                                        "QRING_ROLE=",          "QRING_REPLICAS=",
                                        "QRING_PORT=",          "QRING_BIND=",
                                        "QRING_DATA_PORT=",     "QRING_PROGRESS_FD=",
                                        "QRING_LOCK_FD=",       "QRING_JOB="};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strncmp(e, names[i], strlen(names[i])) == 0) return true;
    return false;
}

/* Returns the environment of a worker; config may be NULL. The caller frees the array; its texts
 * are borrowed. */
static char **worker_environment(const struct qr_local_options *opt, char *config) {
    size_t n = 0, kept = 0;
    while (opt->environment[n]) n++;
    char **env = qr_xcalloc(n + 2, sizeof *env);
    for (size_t i = 0; i < n; i++)
        if (!names_identity(opt->environment[i])) env[kept++] = opt->environment[i];
    if (config) env[kept++] = config;
    return env;
}

/* Returns the arguments of a worker. The caller frees the array; its texts are borrowed. */
static char **worker_arguments(const struct pool *pool, char *http, char *profiler, char *lock) {
    const struct qr_local_options *opt = pool->opt;
    char **argv = qr_xcalloc(opt->n_arguments + 8 + QR_RUN_CERTIFICATE_FILES, sizeof *argv);
    size_t n = 0;
    argv[n++] = (char *)(uintptr_t)opt->program;
    argv[n++] = (char *)(uintptr_t) "--progress-fd=3";
    argv[n++] = http;
    argv[n++] = profiler;
    if (opt->n_workers > 1) argv[n++] = (char *)(uintptr_t) "--data-port=0";
    if (pool->lock >= 0) argv[n++] = lock;
    if (opt->fresh && !pool->trained) argv[n++] = (char *)(uintptr_t) "--fresh";
    for (int i = 0; i < QR_RUN_CERTIFICATE_FILES && pool->certificates.argument[i]; i++)
        argv[n++] = pool->certificates.argument[i];
    for (size_t i = 0; i < opt->n_arguments; i++) argv[n++] = (char *)(uintptr_t)opt->arguments[i];
    return argv;
}

/* In the child: only system calls. */
static _Noreturn void exec_worker(const struct pool *pool, pid_t parent, int log, int events,
                                  char **argv, char **env) {
    /* Reopened, so that each worker reads from the beginning. */
    int in = open(pool->opt->input ? "/proc/self/fd/0" : "/dev/null", O_RDONLY);
    setpgid(0, 0); /* Ctrl-C goes to the parent, which forwards SIGTERM */
    if (prctl(PR_SET_PDEATHSIG, SIGKILL) != 0 || getppid() != parent) _exit(127);
    if (dup2(in, 0) < 0 || dup2(log, 1) < 0 || dup2(log, 2) < 0) _exit(127);
    if (events == PROGRESS_FD) fcntl(events, F_SETFD, 0);
    else if (dup2(events, PROGRESS_FD) < 0) _exit(127);
    if (in > PROGRESS_FD) close(in);
    qr_run_certificates_inherit(&pool->certificates);
    if (pool->lock >= 0) fcntl(pool->lock, F_SETFD, 0);
    sigprocmask(SIG_SETMASK, &pool->old_mask, NULL);
    execve(argv[0], argv, env);
    dprintf(2, "cannot run %s: %s\n", argv[0], strerror(errno));
    _exit(127);
}

static enum qr_code start_worker(struct pool *pool, unsigned i, bool again, struct qr_err *err) {
    struct process *p = &pool->p[i];
    int pipe_fd[2];
    qr_auto(qr_free_p) char *path = qr_xasprintf("%s/worker-%u.log", pool->opt->log_dir, i);
    qr_auto(qr_close_p) int log = -1;
    if (qr_file_open(path, O_WRONLY | O_CREAT | O_APPEND | O_NOFOLLOW | (again ? 0 : O_TRUNC), &log,
                     err) != QR_OK)
        return qr_wrap(err, "the log of worker %u (--out)", i);
    if (pipe2(pipe_fd, O_CLOEXEC) != 0)
        return qr_fail_errno(err, errno, "make a pipe for worker %u", i);
    unsigned http_port = pool->opt->http_port, profiler_port = pool->opt->profiler_port;
    qr_auto(qr_free_p) char *http = qr_xasprintf("--http-port=%u", http_port ? http_port + i : 0),
                            *profiler = qr_xasprintf("--profiler-port=%u",
                                                     profiler_port ? profiler_port + i : 0);
    qr_auto(qr_free_p) char *lock = qr_xasprintf("--lock-fd=%d", pool->lock);
    qr_auto(qr_free_p) char **argv = worker_arguments(pool, http, profiler, lock),
                            **env = worker_environment(pool->opt, p->config);
    pid_t self = getpid(), pid = fork();
    if (pid == 0) exec_worker(pool, self, log, pipe_fd[1], argv, env);
    int sys = errno;
    close(pipe_fd[1]);
    if (pid < 0) {
        close(pipe_fd[0]);
        return qr_fail_errno(err, sys, "start worker %u", i);
    }
    if (p->events >= 0) close(p->events);
    qr_buf_free(&p->line);
    free(p->sentence);
    *p = (struct process){.pid = pid,
                          .events = pipe_fd[0],
                          .line = {.max = MAX_LINE},
                          .config = p->config,
                          .delay_ns = p->delay_ns};
    fcntl(pipe_fd[0], F_SETFL, O_NONBLOCK);
    pool->alive++;
    return QR_OK;
}

static enum qr_code start_workers(struct pool *pool, struct qr_err *err) {
    unsigned ports[QR_MAX_MEMBERS], n = pool->opt->n_workers;
    enum qr_code code = QR_OK;
    if (n > 1) code = find_free_ports(n, ports, err);
    for (unsigned i = 0; i < n && code == QR_OK; i++) {
        pool->p[i] =
            (struct process){.events = -1, .config = n > 1 ? make_tf_config(ports, n, i) : NULL};
        pool->n = i + 1;
        code = start_worker(pool, i, false, err);
    }
    return code;
}

static void signal_workers(struct pool *pool, int signal_number) {
    for (unsigned i = 0; i < pool->n; i++)
        if (pool->p[i].pid) kill(pool->p[i].pid, signal_number);
}

/* ---- events ---- */

/* The worker with visible progress: the lowest that is running or has ended successfully. */
static bool is_shown_worker(const struct pool *pool, unsigned i) {
    for (unsigned k = 0; k < i; k++)
        if (pool->p[k].pid || (WIFEXITED(pool->p[k].status) && WEXITSTATUS(pool->p[k].status) == 0))
            return false;
    return true;
}

static void on_event_line(struct pool *pool, unsigned i, const char *line, size_t n) {
    struct process *p = &pool->p[i];
    qr_auto(qr_json_free_p) struct qr_json *event = NULL;
    int64_t code = 0;
    if (qr_json_parse(qr_bytes_of(line, n), "event", &event, QR_IGNORED) != QR_OK) return;
    const char *kind = qr_json_text(qr_json_get(event, "event"), NULL),
               *message = qr_json_text(qr_json_get(event, "message"), NULL);
    if (!kind) return;
    pool->trained |= strcmp(kind, "progress") == 0 || strcmp(kind, "epoch") == 0;
    if (strcmp(kind, "error") == 0 && !p->sentence && message) {
        p->sentence = qr_xstrdup(message);
        if (qr_json_i64(qr_json_get(event, "code"), "code", 0, 64, &code, QR_IGNORED) == QR_OK)
            p->error_code = (enum qr_code)code;
        if (p->error_code == QR_ALREADY_EXISTS) pool->port_taken = true;
    }
    if (pool->opt->event && (is_shown_worker(pool, i) || strcmp(kind, "done") == 0))
        pool->opt->event(pool->opt->ctx, event);
}

static void read_events(struct pool *pool, unsigned i) {
    struct process *p = &pool->p[i];
    char block[4096];
    while (p->events >= 0) {
        ssize_t n = read(p->events, block, sizeof block);
        if (n < 0 && (errno == EAGAIN || errno == EINTR)) return;
        if (n <= 0) {
            close(p->events);
            p->events = -1;
            return;
        }
        for (ssize_t k = 0, begin = 0; k < n; k++) {
            if (block[k] != '\n' && k + 1 < n) continue;
            qr_buf_put(&p->line, block + begin, (size_t)(k + (block[k] != '\n') - begin));
            begin = k + 1;
            if (block[k] != '\n') continue;
            if (qr_buf_ok(&p->line)) on_event_line(pool, i, qr_buf_string(&p->line), p->line.n);
            qr_buf_free(&p->line);
            p->line.max = MAX_LINE;
        }
    }
}

/* Returns 0 for success, 1-127 for a permanent failure, 138 for a lost worker or a temporary
 * failure. */
static int process_exit_code(const struct process *p) {
    if (WIFEXITED(p->status) && WEXITSTATUS(p->status) < 128) return WEXITSTATUS(p->status);
    return 138;
}

static char *process_sentence(const struct process *p) {
    if (p->sentence) return qr_xstrdup(p->sentence);
    if (p->memory_kill == SURELY)
        return qr_xstrdup("was killed by the kernel because memory ran out: use fewer workers or "
                          "--threads, or a smaller job");
    if (p->memory_kill == PROBABLY)
        return qr_xstrdup(
            "was killed (signal 9), most likely because the kernel ran out of memory: use "
            "fewer workers or --threads, or a smaller job");
    if (WIFSIGNALED(p->status))
        return qr_xasprintf("was terminated by signal %d (%s)", WTERMSIG(p->status),
                            strsignal(WTERMSIG(p->status)));
    return qr_xasprintf("ended with exit code %d%s", WEXITSTATUS(p->status),
                        WEXITSTATUS(p->status) == 143 ? " (it was asked to stop)" : "");
}

/* After a SIGKILL from elsewhere: the kernel counts those that it sends for lack of memory. */
static void check_memory_kill(struct pool *pool, struct process *p) {
    struct qr_memory_kills now = qr_memory_kills_under("");
    if (!WIFSIGNALED(p->status) || WTERMSIG(p->status) != SIGKILL || pool->stage == 2) return;
    p->memory_kill = now.group > pool->kills.group       ? SURELY
                     : now.machine > pool->kills.machine ? PROBABLY
                                                         : NOT;
    /* One count each: several workers may have been killed at once. */
    pool->kills.group += p->memory_kill == SURELY;
    pool->kills.machine += p->memory_kill != NOT && now.machine > pool->kills.machine;
}

static void pool_set_deadline(struct pool *pool, int64_t ns) {
    if (!pool->deadline_ns) pool->deadline_ns = qr_now_ns(&qr_clock_awake) + ns;
}

/* Handles a lost worker: the others continue, and it may be restarted. */
static void on_worker_lost(struct pool *pool, unsigned i) {
    struct process *p = &pool->p[i];
    bool again = pool->opt->restart && pool->stage == 0 && !pool->done && !pool->interrupted;
    p->delay_ns = !p->delay_ns                        ? restart_first_ns
                  : 2 * p->delay_ns < restart_last_ns ? 2 * p->delay_ns
                                                      : restart_last_ns;
    if (again) p->restart_ns = qr_now_ns(&qr_clock_awake) + p->delay_ns;
    qr_auto(qr_free_p) char *sentence = process_sentence(p);
    if (pool->stage == 0 && pool->opt->lost)
        pool->opt->lost(pool->opt->ctx, i, sentence, pool->alive, again);
}

static void reap_workers(struct pool *pool) {
    for (unsigned i = 0; i < pool->n; i++) {
        struct process *p = &pool->p[i];
        if (!p->pid || waitpid(p->pid, &p->status, WNOHANG) != p->pid) continue;
        p->pid = 0;
        pool->alive--;
        read_events(pool, i);
        bool fine = WIFEXITED(p->status) && WEXITSTATUS(p->status) == 0;
        if (fine) {
            pool->done = pool->stage == 0 || pool->done;
            pool_set_deadline(pool, after_done_ns); /* the others have received Done too */
            continue;
        }
        check_memory_kill(pool, p);
        if (pool->first_wrong < 0) pool->first_wrong = (int)i;
        /* By a signal from elsewhere. */
        bool killed = WIFSIGNALED(p->status) || WEXITSTATUS(p->status) == 143;
        if (pool->first_killed < 0 && killed && pool->stage == 0) pool->first_killed = (int)i;
        if (process_exit_code(p) >= 128) on_worker_lost(pool, i);
        else
            pool_set_deadline(
                pool, pool->port_taken
                          ? 0
                          /* When the job is rejected, there is no need to wait for the others. */
                          : after_refusal_ns);
    }
}

static bool restarts_due(const struct pool *pool) {
    for (unsigned i = 0; i < pool->n; i++)
        if (pool->p[i].restart_ns) return true;
    return false;
}

static void restart_workers(struct pool *pool) {
    struct qr_err err;
    for (unsigned i = 0; i < pool->n; i++) {
        struct process *p = &pool->p[i];
        if (p->restart_ns && (pool->done || pool->stage || pool->interrupted)) p->restart_ns = 0;
        if (!p->restart_ns || qr_now_ns(&qr_clock_awake) < p->restart_ns) continue;
        p->restart_ns = 0;
        if (start_worker(pool, i, true, &err) != QR_OK && pool->opt->lost)
            pool->opt->lost(pool->opt->ctx, i, err.msg, pool->alive, false);
    }
}

static void pool_on_signal(struct pool *pool) {
    struct signalfd_siginfo info;
    while (read(pool->signals, &info, sizeof info) == (ssize_t)sizeof info) {
        if (info.ssi_signo == SIGCHLD) continue;
        signal_workers(pool, pool->interrupted ? SIGKILL : SIGTERM);
        pool->stage = pool->interrupted ? 2 : 1;
        pool->terminated = pool->interrupted ? pool->terminated : info.ssi_signo == SIGTERM;
        pool->interrupted = true;
        pool->deadline_ns = qr_now_ns(&qr_clock_awake) + after_stop_ns;
    }
}

/* Stops all workers when the caller's go_on returns false. */
static void check_go_on(struct pool *pool) {
    if (!pool->opt->go_on || pool->stage || pool->interrupted || pool->opt->go_on(pool->opt->ctx))
        return;
    signal_workers(pool, SIGTERM);
    pool->stage = 1;
    pool->interrupted = true;
    pool->deadline_ns = qr_now_ns(&qr_clock_awake) + after_stop_ns;
}

static void enforce_deadline(struct pool *pool) {
    int64_t now = qr_now_ns(&qr_clock_awake);
    if (!pool->deadline_ns || now < pool->deadline_ns) return;
    signal_workers(pool, pool->stage == 0 ? SIGTERM : SIGKILL);
    pool->stage = pool->stage == 0 ? 1 : 2;
    pool->deadline_ns = now + after_term_ns;
}

static void wait_for_workers(struct pool *pool) {
    while (pool->alive || restarts_due(pool)) {
        struct pollfd fds[QR_MAX_MEMBERS + 1] = {{.fd = pool->signals, .events = POLLIN}};
        for (unsigned i = 0; i < pool->n; i++)
            fds[i + 1] = (struct pollfd){.fd = pool->p[i].events, .events = POLLIN};
        poll(fds, pool->n + 1, 200);
        /* Time in which this process and its workers are stopped does not count. */
        qr_awake_pulse();
        for (unsigned i = 0; i < pool->n; i++)
            if (fds[i + 1].revents) read_events(pool, i);
        pool_on_signal(pool);
        check_go_on(pool);
        reap_workers(pool);
        restart_workers(pool);
        enforce_deadline(pool);
    }
}

/* ---- result ---- */

/* A permanent code has precedence; then the success of the run over lost workers; then a worker
 * that was killed over those that failed as a consequence. */
static void fill_local_result(const struct pool *pool, struct qr_local_result *ret) {
    int worker = pool->first_killed >= 0 ? pool->first_killed : pool->first_wrong;
    *ret = (struct qr_local_result){
        .worker = -1, .interrupted = pool->interrupted, .terminated = pool->terminated};
    for (int i = (int)pool->n - 1; i >= 0; i--) {
        int v = process_exit_code(&pool->p[i]);
        if (v > 0 && v < 128) worker = i;
    }
    if (worker < 0) return;
    int v = process_exit_code(&pool->p[worker]);
    if (v == 0 || (pool->done && v >= 128)) return;
    if (pool->interrupted && v >= 128) return;
    ret->worker = worker;
    ret->exit_code = v;
    ret->sentence = process_sentence(&pool->p[worker]);
    ret->code = pool->p[worker].error_code;
    ret->signal = WIFSIGNALED(pool->p[worker].status) ? WTERMSIG(pool->p[worker].status) : 0;
}

static void pool_reset(struct pool *pool) {
    for (unsigned i = 0; i < pool->n; i++) {
        if (pool->p[i].events >= 0) close(pool->p[i].events);
        qr_buf_free(&pool->p[i].line);
        free(pool->p[i].sentence);
        free(pool->p[i].config);
        pool->p[i] = (struct process){.events = -1};
    }
    pool->n = pool->alive = 0;
    pool->deadline_ns = 0;
    pool->stage = 0;
    pool->first_wrong = pool->first_killed = -1;
    pool->port_taken = pool->done = false;
}

enum qr_code qr_local_run(const struct qr_local_options *opt, struct qr_local_result *ret,
                          struct qr_err *err) {
    qr_auto(qr_free_p) struct pool *pool = qr_xcalloc(1, sizeof *pool);
    enum qr_code code = QR_OK;
    sigset_t mask;
    pool->opt = opt;
    QR_TRY(qr_open_files_raise(err));
    pool->lock = opt->lock_fd ? fcntl(*opt->lock_fd, F_DUPFD_CLOEXEC, PROGRESS_FD + 1) : -1;
    if (opt->lock_fd && pool->lock < 0)
        code = qr_fail_errno(err, errno, "pass on the lock of %s", opt->log_dir);
    pool->first_wrong = pool->first_killed = -1;
    pool->kills = qr_memory_kills_under("");
    sigemptyset(&mask);
    sigaddset(&mask, SIGINT);
    sigaddset(&mask, SIGTERM);
    sigaddset(&mask, SIGCHLD);
    sigprocmask(SIG_BLOCK, &mask, &pool->old_mask);
    pool->signals = signalfd(-1, &mask, SFD_NONBLOCK | SFD_CLOEXEC);
    if (code == QR_OK && pool->signals < 0) code = qr_fail_errno(err, errno, "signalfd");
    if (code == QR_OK && opt->tls && opt->n_workers > 1)
        code = qr_run_certificates_make(&pool->certificates, err);
    for (int attempt = 0; code == QR_OK && attempt < 2; attempt++) {
        if (attempt > 0) pool_reset(pool);
        code = start_workers(pool, err);
        if (code != QR_OK) {
            signal_workers(pool, SIGKILL);
            wait_for_workers(pool);
        } else {
            wait_for_workers(pool);
            if (attempt == 0 && pool->port_taken && !pool->interrupted) continue;
            fill_local_result(pool, ret);
            break;
        }
    }
    pool_reset(pool);
    qr_run_certificates_fini(&pool->certificates);
    if (pool->signals >= 0) close(pool->signals);
    if (pool->lock >= 0) close(pool->lock);
    sigprocmask(SIG_SETMASK, &pool->old_mask, NULL);
    return code;
}
