/* tests/cluster_sim/cluster_impl.h — contracts between the files of the cluster simulator. */
#ifndef TESTS_CLUSTER_SIM_CLUSTER_IMPL_H
#define TESTS_CLUSTER_SIM_CLUSTER_IMPL_H

#include "tests/cluster_sim/cluster.h"

/* ---- cluster_thread.c ---- */

/* Prepares a coroutine, which actor_resume runs. An actor keeps its stack until cluster_fini. */
void actor_start(struct actor *a, struct node *x, void (*run)(struct node *x));
void actor_resume(struct cluster *c, struct actor *a);
bool actor_can_run(const struct cluster *c, const struct actor *a);
/* Called by a coroutine: lets the others run. port, counter: see struct actor; may be NULL. */
void actor_wait(struct cluster *c, int64_t until_ns, struct port *port, const unsigned *counter);
static inline void actor_sleep(struct cluster *c, int64_t until_ns) {
    actor_wait(c, until_ns, NULL, NULL);
}
/* Replaces the links of a node. */
void ports_open(struct node *x);

/* ---- cluster_worker.c ---- */

void worker_start(struct node *x);

/* ---- cluster_store.c ---- */

/* The run's folder as this node sees it; close with qr_checkpoint_folder_close. */
struct qr_checkpoint_folder store_folder(struct node *x);
void store_fini(struct store *s);
/* Performs the requests that are due. */
void store_advance(struct cluster *c);
/* Returns when the next request is due; INT64_MAX: never. */
int64_t store_next_ns(const struct cluster *c);
/* For a killed process: cancels its requests, or lets them take effect without it. */
void store_orphan_requests(struct cluster *c, const struct node *x);
bool store_newest_is_damaged(const struct store *s);

#endif
