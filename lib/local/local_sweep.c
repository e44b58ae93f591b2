/* local/local_sweep.c — runs the slots of a sweep as processes, and restarts lost ones. Start
 * reading at qr_local_sweep(). */
#include "local/local_sweep.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/mem.h"
#include "local/local_sweep_impl.h"

/* A worker has 12 s after a stop request, and its slot a little more. */
static const int64_t after_stop_ns = 15 * QR_SECOND, restart_first_ns = QR_SECOND / 2,
                     restart_last_ns = 8 * QR_SECOND;

struct slot_process {
    pid_t pid; /* 0: not running */
    bool ended;
    int exit_code;
    int64_t restart_ns, delay_ns; /* time of the restart, 0: none; its delay */
    char holder[33];
};
struct slots {
    const struct qr_local_sweep_options *opt;
    struct slot_process *v;
    unsigned alive;
    sigset_t mask, old_mask;
    int stopping; /* number of signals received, or 1 for an error of a slot */
    bool interrupted, terminated;
    int64_t deadline_ns;
    int exit_code;
};

static enum qr_code start_slot(struct slots *s, unsigned i, struct qr_err *err) {
    pid_t self = getpid();
    fflush(NULL);
    pid_t pid = fork();
    if (pid < 0) return qr_fail_errno(err, errno, "start a process for trials");
    if (pid == 0) {
        setpgid(0, 0); /* Ctrl-C goes to the parent, which forwards SIGTERM. */
        if (prctl(PR_SET_PDEATHSIG, SIGKILL) != 0 || getppid() != self) _exit(127);
        int code = qr_local_slot(s->opt, i, s->v[i].holder);
        fflush(NULL);
        _exit(code);
    }
    s->v[i].pid = pid;
    s->v[i].restart_ns = 0;
    s->alive++;
    return QR_OK;
}

static void signal_slots(struct slots *s, int number) {
    for (unsigned i = 0; i < s->opt->n_slots; i++)
        if (s->v[i].pid) kill(s->v[i].pid, number);
}

static void stop_slots(struct slots *s) {
    signal_slots(s, s->stopping++ ? SIGKILL : SIGTERM);
    s->deadline_ns = qr_now_ns(&qr_clock_awake) + after_stop_ns;
}

static void on_slot_end(struct slots *s, struct slot_process *o, int status) {
    int64_t now = qr_now_ns(&qr_clock_awake);
    o->pid = 0;
    s->alive--;
    o->ended = WIFEXITED(status);
    o->exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : 138;
    if (o->ended && o->exit_code && !s->stopping) {
        s->exit_code = o->exit_code;
        stop_slots(s);
    }
    if (o->ended || s->stopping) return;
    o->delay_ns = !o->delay_ns                        ? restart_first_ns
                  : 2 * o->delay_ns < restart_last_ns ? 2 * o->delay_ns
                                                      : restart_last_ns;
    o->restart_ns = now + o->delay_ns;
    qr_warn(s->opt->log, "qring", "a process for trials was terminated by signal %d; restarting it",
            WIFSIGNALED(status) ? WTERMSIG(status) : 0);
}

static void reap_slots(struct slots *s) {
    for (unsigned i = 0; i < s->opt->n_slots; i++) {
        int status;
        if (s->v[i].pid && waitpid(s->v[i].pid, &status, WNOHANG) == s->v[i].pid)
            on_slot_end(s, &s->v[i], status);
    }
}

/* Restarts slots that are due. True: some are still to be restarted. */
static bool restart_slots(struct slots *s) {
    bool due = false;
    struct qr_err err;
    for (unsigned i = 0; i < s->opt->n_slots; i++) {
        struct slot_process *o = &s->v[i];
        if (!o->restart_ns || s->stopping) continue;
        due = true;
        if (qr_now_ns(&qr_clock_awake) < o->restart_ns) continue;
        if (start_slot(s, i, &err) == QR_OK) continue;
        qr_warn(s->opt->log, "qring", "%s", err.msg);
        o->restart_ns = qr_now_ns(&qr_clock_awake) + restart_last_ns;
    }
    return due;
}

static void wait_for_slots(struct slots *s) {
    while (s->alive || restart_slots(s)) {
        const struct timespec turn = {.tv_nsec = 200 * QR_MS};
        int number = sigtimedwait(&s->mask, NULL, &turn);
        qr_awake_pulse();
        if (number == SIGINT || number == SIGTERM) {
            if (!s->interrupted) s->terminated = number == SIGTERM;
            s->interrupted = true;
            stop_slots(s);
        }
        reap_slots(s);
        if (s->deadline_ns && qr_now_ns(&qr_clock_awake) > s->deadline_ns) {
            signal_slots(s, SIGKILL);
            s->deadline_ns = 0;
        }
    }
}

enum qr_code qr_local_sweep(const struct qr_local_sweep_options *opt,
                            struct qr_local_sweep_result *ret, struct qr_err *err) {
    struct slots s = {.opt = opt, .v = qr_xcalloc(opt->n_slots, sizeof *s.v)};
    enum qr_code code = QR_OK;
    sigemptyset(&s.mask);
    sigaddset(&s.mask, SIGINT);
    sigaddset(&s.mask, SIGTERM);
    sigaddset(&s.mask, SIGCHLD);
    sigprocmask(SIG_BLOCK, &s.mask, &s.old_mask);
    for (unsigned i = 0; i < opt->n_slots && code == QR_OK; i++) {
        uint8_t id[16];
        qr_entropy(id, sizeof id);
        qr_hex(id, sizeof id, s.v[i].holder);
        code = start_slot(&s, i, err);
    }
    if (code != QR_OK) stop_slots(&s);
    wait_for_slots(&s);
    *ret = (struct qr_local_sweep_result){
        .exit_code = s.exit_code, .interrupted = s.interrupted, .terminated = s.terminated};
    sigprocmask(SIG_SETMASK, &s.old_mask, NULL);
    free(s.v);
    return code;
}
