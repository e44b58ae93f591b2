/* tests/cluster_sim/world_trainer.h — the toy trainer of a process: sums of integers over
 * micro-batches, sent to all members, with coverage words that prove that each counts once.
 *
 * Messages  the first byte is an enum tag; the trainer's follow. They use the control connections.
 * Steps     after MAX_STEPS the run repeats, so that a job may have any number of steps. */
#ifndef TESTS_CLUSTER_SIM_WORLD_TRAINER_H
#define TESTS_CLUSTER_SIM_WORLD_TRAINER_H

#include "tests/cluster_sim/world.h"

enum tag { TAG_CONTROL, TAG_PART, TAG_FETCH, TAG_STATE };

/* The value after a step of the undisturbed run that begins with `value`. */
uint64_t trainer_next_value(uint64_t value, uint64_t step);
/* Gives the machine what the trainer holds; after each change, and before the machine starts. */
void trainer_set_held(struct node *x);
/* Joins a generation, and checks its Begin against all others. */
void trainer_begin(struct world *w, struct node *x, const struct qr_generation *g);
/* Handles a message of another trainer. */
void trainer_receive(struct world *w, struct node *x, const uint8_t *message);
/* Computes, sends and applies what is due. */
void trainer_run(struct world *w, struct node *x);

#endif
