/* base/pool.h — a persistent thread pool for loops.
 *
 * One owner calls qr_pool_for; indices are taken dynamically, so nothing that a task computes may
 * depend on who ran it (exact/contract.md §2: all sums above a piece are integers). A task may call
 * it too: threads that find nothing left in the outer loop help in the inner ones, and where there
 * are none the task runs all of its own. With 1 thread, or n <= 1, everything runs on the caller.
 * Waiting is passive; who is woken begins on another CPU than the caller's, where the pool's maker
 * may use others, and is free to move from then on. Before its tasks of a loop every thread asserts
 * round-to-nearest and neither FTZ nor DAZ (a shared library built with fast-math sets them).
 */
#ifndef QR_BASE_POOL_H
#define QR_BASE_POOL_H

#include <stddef.h>

#include "base/err.h"

struct qr_pool;

/* n_threads >= 1, the caller's included. Where the system gives no more threads it is smaller:
 * qr_pool_size tells. */
struct qr_pool *qr_pool_new(unsigned n_threads);
void qr_pool_free(struct qr_pool *pool);
unsigned qr_pool_size(const struct qr_pool *pool);

/* Calls task(ctx, i, worker) for each i in 0..n-1, worker in 0..size-1 (no two tasks of a loop at a
 * time have the same), and returns when all are done. A task in an inner loop: worker is that of
 * the thread, whose own task of the outer loop may be waiting. */
typedef void (*qr_pool_task_fn)(void *ctx, size_t i, unsigned worker);
void qr_pool_for(struct qr_pool *pool, size_t n, qr_pool_task_fn task, void *ctx);

/* Processors this process may use: those that the kernel lets it run on, its cgroups' sets of
 * processors and their quota, rounded up (base/cgroup.h): the least of them, at least 1. */
unsigned qr_cpu_limit(void);
/* The same with all files looked for below root ("" = this machine's own); ret_by (may be NULL): by
 * what it is limited, static ("cgroup v2, cpu.max"). */
unsigned qr_cpu_limit_under(const char *root, const char **ret_by);

#endif
