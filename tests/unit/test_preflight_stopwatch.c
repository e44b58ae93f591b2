/* preflight/stopwatch counts only CPU time, of all threads, divided by the threads that run at
 * once. Its upper bounds hold on a busy machine too, because none is on wall-clock time. */
#include <sched.h>
#include <signal.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/pool.h"
#include "preflight/stopwatch.h"
#include "tests/t.h"

enum { WORK_MS = 40 };

static int64_t used_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (int64_t)t.tv_sec * QR_SECOND + t.tv_nsec;
}
/* Uses WORK_MS of CPU time, however long that takes. */
static void compute(void *ctx, size_t i, unsigned worker) {
    (void)ctx, (void)i, (void)worker;
    for (int64_t until = used_ns() + WORK_MS * (int64_t)QR_MS; used_ns() < until;) {
    }
}
static double ms(int64_t ns) { return (double)ns / QR_MS; }

static void test_waiting(void) {
    struct qr_stopwatch began = qr_stopwatch_begin();
    qr_sleep_ns(60 * (int64_t)QR_MS);
    double took = ms(qr_stopwatch_ns(&began, 1));
    CHECK(took < 30, "60 ms of sleep took %g ms", took);
}
static void test_alone(void) {
    struct qr_stopwatch began = qr_stopwatch_begin();
    compute(NULL, 0, 0);
    double one = ms(qr_stopwatch_ns(&began, 1)), two = ms(qr_stopwatch_ns(&began, 2));
    CHECK(one >= WORK_MS && one < 2 * WORK_MS, "%g ms", one);
    /* Idle threads do not divide the time. */
    CHECK(two >= WORK_MS && two < 2 * WORK_MS, "%g ms", two);
}
static void test_shared(void) {
    enum { THREADS = 4, TASKS = 8 };
    unsigned cpus = qr_cpu_limit(), at_once = cpus < THREADS ? cpus : THREADS;
    struct qr_pool *pool = qr_pool_new(THREADS);
    struct qr_stopwatch began = qr_stopwatch_begin();
    qr_pool_for(pool, TASKS, compute, NULL);
    double took = ms(qr_stopwatch_ns(&began, THREADS)), all = TASKS * WORK_MS;
    CHECK(took >= all / at_once && took < 2 * all, "%g ms on %u processors", took, cpus);
    qr_pool_free(pool);
}
/* Three processes compete for the only CPU of this process: its work takes four times as long, but
 * not by the stopwatch. */
static void test_busy(void) {
    enum { OTHERS = 3 };
    cpu_set_t all, one;
    pid_t other[OTHERS];
    CHECK(sched_getaffinity(0, sizeof all, &all) == 0);
    int cpu = 0;
    while (!CPU_ISSET(cpu, &all)) cpu++;
    CPU_ZERO(&one);
    CPU_SET(cpu, &one);
    CHECK(sched_setaffinity(0, sizeof one, &one) == 0);
    for (int i = 0; i < OTHERS; i++) {
        other[i] = fork();
        if (other[i] == 0) alarm(60);
        if (other[i] == 0)
            for (;;) {
            }
    }
    int64_t from_ns = qr_now_ns(&qr_clock_monotonic);
    struct qr_stopwatch began = qr_stopwatch_begin();
    for (int k = 0; k < 4; k++) compute(NULL, 0, 0);
    double took = ms(qr_stopwatch_ns(&began, 1)),
           passed = ms(qr_now_ns(&qr_clock_monotonic) - from_ns);
    for (int i = 0; i < OTHERS; i++) {
        kill(other[i], SIGKILL);
        waitpid(other[i], NULL, 0);
    }
    CHECK(sched_setaffinity(0, sizeof all, &all) == 0);
    CHECK(took >= 4 * WORK_MS && took < 6 * WORK_MS, "%g ms", took);
    CHECK(passed > 1.5 * took, "no competition: %g ms passed, %g ms of work", passed, took);
}

int main(void) {
    test_waiting();
    test_alone();
    test_shared();
    test_busy();
    return t_end();
}
