/* tests/support/boxes.h — membership machines connected without delay, on virtual time.
 *
 * Use     reset; box for each machine; wire_up for each connection; pass, deliver or handle; then
 *         look at the boxes. One network per program.
 */
#ifndef TESTS_SUPPORT_BOXES_H
#define TESTS_SUPPORT_BOXES_H

#include "base/clock.h"
#include "base/mem.h"
#include "membership/member.h"
#include "membership/member_impl.h"
#include "tests/t.h"

enum { MAX = 4, QUEUE = 512 };
#define MILLI INT64_C(1000000)
/* Settings of a job, and of another one. */
extern const struct qr_field fields_64[2], fields_32[2];

struct box { /* a machine, and the actions that it has emitted */
    struct qr_member *m;
    uint32_t index;
    bool begun, done, stop;
    int64_t at_ns; /* of done or stop, like code and text */
    enum qr_code code;
    char text[QR_ERR_MSG_BYTES], log[4096], warnings[1024];
    /* A data stream connects as soon as both ends want it, unless held back. */
    struct {
        bool wanted, held_back;
        uint8_t inc[16];
    } data[MAX];
    unsigned renewed, dialed[MAX];
    struct qr_generation gen;
};
extern struct box boxes[MAX];
extern unsigned few;     /* min_workers of the next box; 0: half */
extern unsigned servers; /* the first boxes are parameter servers */

/* Wire k has connection number 2k at the dialing end, 2k + 1 at the other end. Only a test breaks
 * wires. */
struct wire {
    struct box *end[2];
    bool open;
};
extern struct wire wires[64];
extern uint32_t n_wires;
struct letter {
    uint32_t conn;
    struct qr_message msg;
};
extern struct letter *queue; /* messages to deliver; the test allocates QUEUE and frees them */
extern size_t n_queue;
extern int64_t now_ns;

/* Frees all machines, and sets the time to 1 s. */
void reset(void);
/* Starts a machine in a slot. inc: fills its incarnation. Frees the machine that was there. */
struct box *box(uint32_t slot, uint32_t index, size_t n_peers, uint8_t inc,
                const struct qr_field *fields);
/* host: the address of `from` as seen by the link of `to`; wire_up: unknown. */
void wire_from(const char *host, struct box *from, struct box *to);
void wire_up(struct box *from, struct box *to);
#define handle(m, ...) qr_member_handle(m, now_ns, &(struct qr_member_event){__VA_ARGS__})
/* Delivers messages and data streams until none is left; data_streams: only data streams. */
void deliver(void);
void data_streams(void);
/* Moves the time on, with ticks when they are due. */
void pass(int64_t ns);
/* Sets the state that a worker holds. */
void tell_state(uint32_t slot, uint64_t step, uint8_t digest, bool stateless);

#endif
