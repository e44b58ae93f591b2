/* tests/conform/checkpoint_suite.h — checkpoints in any implementation of store/store.h: the newest
 * intact one is loaded, and LATEST moves only forward. */
#ifndef CHECKPOINT_SUITE_H
#define CHECKPOINT_SUITE_H

#include "record/checkpoint.h"
#include "tests/t.h"

#define JOB "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff"

/* The checkpoint of a made-up job after so many reductions, two for each step. */
struct qr_checkpoint state_at(const char *job, uint64_t reductions);
struct qr_buf encoded(const char *job, uint64_t reductions);
bool same_checkpoint(const struct qr_checkpoint *a, const struct qr_checkpoint *b);

/* Leaves s as empty as it was. */
void checkpoint_suite(struct qr_store *s);
/* Eight processes publish into s, each through a store of its own from open_store; every few
 * milliseconds one is killed and replaced. This process always reads an intact LATEST that never
 * moves back and names an intact file. Ends when `enough` reductions were published and enough
 * kills and moves of LATEST were seen, however slow this process is. */
void checkpoint_race(struct qr_store *s, struct qr_store *(*open_store)(void), const char *what,
                     uint64_t enough);

#endif
