/* verify/chain_check.h — reads the lines of steps.jsonl and checks their chain (record/chain.h).
 *
 * Input     Any bytes, of any author. A line must have the form that qr_step_json writes; nothing
 *           of it is trusted before the chain has been checked.
 * Finding   The first line that does not follow from the line before, and the change that explains
 *           it: a line that was changed, deleted, inserted or swapped with the next. Steps ascend
 *           by one from 1, so no step exceeds the number of lines; an evaluation follows its step,
 *           and from the first evaluation on each epoch has one.
 * Threads   Any; pure functions.
 */
#ifndef QR_VERIFY_CHAIN_CHECK_H
#define QR_VERIFY_CHAIN_CHECK_H

#include "record/chain.h"

struct qr_chain_line {
    struct qr_bytes text; /* without the newline; borrowed */
    uint64_t step, epoch;
    bool eval;
    char digest[33]; /* of the state after the line */
    uint8_t chain[QR_CHAIN_BYTES];
};
enum qr_chain_state {
    QR_CHAIN_INTACT,
    QR_CHAIN_BROKEN,
    QR_CHAIN_MISSING, /* the lines have none: of a run that began before lines had a chain */
};
struct qr_chain {
    size_t n; /* lines before the first malformed one */
    /* Of these, lines before the first that does not follow, and that one if its step is the next
     * one: it may have been changed. */
    size_t n_in_place;
    struct qr_chain_line *line;
    uint64_t first_evaluation; /* step; 0: none */
    enum qr_chain_state state;
    char why[320]; /* a sentence, unless it is intact */
};
/* Reads and checks a file.
 *
 * Args:     file   borrowed until qr_chain_fini
 *           first  chain before the first line; NULL: not known, the first line's is not checked
 */
void qr_chain_check(struct qr_bytes file, const uint8_t *first, struct qr_chain *ret);
void qr_chain_fini(struct qr_chain *c);
/* Order of the lines: an evaluation follows the step that it evaluates. */
uint64_t qr_chain_position(const struct qr_chain_line *line);
/* Returns the line of a step, or of its evaluation; NULL: there is none. */
const struct qr_chain_line *qr_chain_find(const struct qr_chain *c, uint64_t step, bool eval);

#endif
