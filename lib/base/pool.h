/* base/pool.h — a persistent thread pool for parallel loops.
 *
 * Use       qr_pool_new, qr_pool_for as often as needed, qr_pool_free. Another thread may request
 *           another number of threads; the owner looks for requests and resizes the pool between
 *           loops.
 * Loops     Threads take indices dynamically, so a result must not depend on the thread that
 *           computed it (exact/contract.md §2: all sums above a piece are integers). A task may
 *           itself call qr_pool_for: threads without work in the outer loop help in the inner ones;
 *           if there are none, the task runs its whole inner loop. With 1 thread, or n <= 1, the
 *           caller runs everything.
 * Waiting   Idle threads look for work for 50 us if there is a CPU for each, then block. A woken
 *           thread starts on another CPU than the caller's, if the creator of the pool may use
 *           others, and may migrate afterwards.
 * Floats    Before the tasks of a loop, each thread asserts round-to-nearest and neither FTZ nor
 *           DAZ (a shared library built with fast-math sets them).
 * Signals   are blocked in the pool's threads, but for those of faults (SIGSEGV and the like).
 * Threads   one owner; tasks may call qr_pool_for. Any thread may read sizes and request one.
 */
#ifndef QR_BASE_POOL_H
#define QR_BASE_POOL_H

#include <stddef.h>

#include "base/err.h"

struct qr_pool;

/* Creates a pool of n_threads >= 1 threads, the caller's included. When the system refuses more
 * threads the pool is smaller: see qr_pool_size. */
struct qr_pool *qr_pool_new(unsigned n_threads);
/* Starts or ends threads, so that the pool has n_threads >= 1; fewer when the system refuses them.
 * For the owner, between its loops. */
void qr_pool_resize(struct qr_pool *pool, unsigned n_threads);
void qr_pool_free(struct qr_pool *pool);
unsigned qr_pool_size(const struct qr_pool *pool); /* threads, caller included; 1 for NULL */
/* Requests that the owner resizes the pool to n_threads >= 1. Any thread. */
void qr_pool_request(struct qr_pool *pool, unsigned n_threads);
/* The last request, or the number passed to qr_pool_new; 1 for NULL. Any thread. */
unsigned qr_pool_requested(const struct qr_pool *pool);

/* Calls task(ctx, i, worker) for each i in 0..n-1 and returns when all calls have returned.
 *
 * Args:     pool     NULL: the caller runs all tasks
 *           worker   0..size-1: no two concurrent tasks of a loop have the same. In an inner loop
 *                    it is the number of the thread, whose task of the outer loop may be waiting.
 */
typedef void (*qr_pool_task_fn)(void *ctx, size_t i, unsigned worker);
void qr_pool_for(struct qr_pool *pool, size_t n, qr_pool_task_fn task, void *ctx);

/* Returns the number of processors this process may use, at least 1: the least of its CPU affinity,
 * its cgroups' CPU sets, and their quota rounded up (base/cgroup.h). */
unsigned qr_cpu_limit(void);
/* The same, with all files read below root ("" for this machine). *ret_by (may be NULL): what sets
 * the limit, static ("cgroup v2, cpu.max"). */
unsigned qr_cpu_limit_under(const char *root, const char **ret_by);
struct qr_cgroup;
unsigned qr_cpu_limit_of(const struct qr_cgroup *c, const char **ret_by); /* as read before */

#endif
