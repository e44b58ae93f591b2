/* format/message.h — the control messages between workers, as plain structs and as
 * bytes (proto/group.proto).
 *
 * What      one struct qr_message holds any message, strings and lists inside it: nothing to free.
 *           It is large (about 40 KB): keep one and use it again.
 * Encode    appends to a buffer; INVALID_ARGUMENT when a field breaks a limit below (a bug of ours,
 *           or a job with huge settings).
 * Decode    of bytes from a stranger: at most QR_MESSAGE_MAX_BYTES, every length, count, string
 *           (UTF-8, no control characters) and number checked, memory bounded against unknown-field
 *           amplification. DATA_LOSS says what is wrong; *ret is then unspecified.
 * Unknown   fields and enum values of later versions are skipped, unknown kinds are refused: a
 *           protocol number guards them.
 * Threads   pure; no state.
 * Source    membership/protocol.md §2 to §5; message_decode.c has protobuf-c's pitfalls.
 */
#ifndef QR_FORMAT_MESSAGE_H
#define QR_FORMAT_MESSAGE_H

#include <stdbool.h>

#include "base/bounds.h"
#include "base/bytes.h"
#include "base/ip.h"
#include "base/text.h"

enum {
    /* 2: halving; micro-batches shared out to the nearest. 3: settings in common. 4: parameter
     * servers. 5: either side dials, and members pass on addresses */
    QR_PROTOCOL_MIN = 5,
    QR_PROTOCOL_MAX = 5,
    QR_MESSAGE_MAX_BYTES = 65536,
    QR_INCARNATION_BYTES = 16,
    QR_MESSAGE_MAX_FIELDS = 128,   /* of a job, in a hello */
    QR_MESSAGE_NAME_BYTES = 48,    /* of a field's name, with its NUL */
    QR_MESSAGE_TEXT_BYTES = 512,   /* of any text, with its NUL: qr_text_cut */
    QR_MESSAGE_MAX_RUNS = 16,      /* of held micro-batches, for each member */
    QR_MESSAGE_MAX_IN_FLIGHT = 16, /* micro-batches that a worker names at once */
    QR_MESSAGE_MAX_DEATHS = 32,    /* of one reduction */
    QR_MESSAGE_ALLREDUCES = 5,     /* enum qr_allreduce */
};

#define QR_MESSAGE_MAX_AGE_MS (UINT64_C(1) << 43) /* in nanoseconds it is still an int64_t */

/* A generation's id: compared by number, then index, then incarnation (as bytes). All
 * zero: none. */
struct qr_gen_id {
    uint64_t number; /* below 2^62 on the wire */
    uint32_t index;  /* the proposer */
    uint8_t incarnation[QR_INCARNATION_BYTES];
};
int qr_gen_id_compare(const struct qr_gen_id *a, const struct qr_gen_id *b); /* <0, 0, >0 */
uint64_t qr_gen_id_hash(const struct qr_gen_id *id); /* chunks and parts of states carry it */
static inline bool qr_gen_id_none(const struct qr_gen_id *id) { return id->number == 0; }

/* count micro-batches: first, first + stride, ... Round-robin shares are one run. */
struct qr_run {
    uint64_t first, count, stride; /* count >= 1, stride >= 1, every micro-batch below 2^40 */
};
struct qr_member_name {
    uint32_t index;
    uint8_t incarnation[QR_INCARNATION_BYTES];
};

enum qr_message_kind {
    QR_MESSAGE_HELLO = 1,
    QR_MESSAGE_FIELD,
    QR_MESSAGE_HEARTBEAT,
    QR_MESSAGE_PROPOSE,
    QR_MESSAGE_PROMISE,
    QR_MESSAGE_BUSY,
    QR_MESSAGE_BEGIN,
    QR_MESSAGE_DONE,
    QR_MESSAGE_GOODBYE,
    QR_MESSAGE_ADDRESSES,
};
const char *qr_message_kind_name(enum qr_message_kind k); /* "hello" ...; "?" */

/* The micro-batches that a worker computes now, of the reduction that follows this state. n 0: it
 * names none, and reductions and digest are not sent. */
struct qr_in_flight {
    uint64_t reductions;
    uint8_t digest[16];
    uint32_t n;
    uint64_t micro_batch[QR_MESSAGE_MAX_IN_FLIGHT];
};
/* A process that died in a reduction. named: it had said that it computes these micro-batches; else
 * they are those that it owned. */
struct qr_death {
    struct qr_member_name name;
    uint64_t generation; /* the number of the one that it was in */
    bool named;
    uint32_t n_runs;
    struct qr_run run[QR_MESSAGE_MAX_RUNS];
};
/* Of the reduction that follows this state; in order of generation, index, incarnation. n 0:
 * reductions and digest are not sent. */
struct qr_deaths {
    uint64_t reductions;
    uint8_t digest[16];
    uint32_t n;
    struct qr_death death[QR_MESSAGE_MAX_DEATHS];
};

/* on the wire; 2 is nobody's */
enum qr_phase { QR_PHASE_STARTING = 0, QR_PHASE_MEMBER = 1, QR_PHASE_DONE = 3 };

struct qr_hello {
    uint32_t protocol_min, protocol_max;
    char contract[24]; /* "f32-v1" */
    char run[256];     /* the job's name */
    uint32_t index;
    uint8_t incarnation[QR_INCARNATION_BYTES];
    uint8_t job_hash[32];
    uint32_t n_fields;
    struct {
        char name[QR_MESSAGE_NAME_BYTES];
        uint64_t digest;
    } field[QR_MESSAGE_MAX_FIELDS];
    uint64_t committed_reductions;
    enum qr_phase phase;
    bool leader;                 /* rank 0 of its generation */
    struct qr_gen_id generation; /* active */
    uint64_t highest_number;
    uint32_t data_port, control_port; /* that it listens on */
    char address[264];                /* host:port, as its own settings call it: for texts */
    bool server;                      /* a parameter server: it computes no micro-batches */
    uint32_t n_heard;
    struct qr_member_name heard[QR_MAX_MEMBERS];
};
/* A setting of a job: its digest goes in the hello, and where that differs its text. */
struct qr_field {
    const char *name, *value;
};
/* One side's text of a setting that differs. */
struct qr_field_text {
    char name[QR_MESSAGE_NAME_BYTES];
    char value[QR_MESSAGE_TEXT_BYTES];
    bool absent; /* the sender's job has no such field */
};
/* The settings that all members of a ring have in common: the first leader's, and from then on what
 * generation hands on to generation. epochs 0: there are none, for its sender was in no generation
 * yet; nothing of it is sent. */
struct qr_common {
    uint64_t epochs;      /* at most 2^53 */
    uint32_t allreduce;   /* enum qr_allreduce */
    uint32_t min_workers; /* 1..QR_MAX_MEMBERS */
    /* digest of the texts that say where results and checkpoints go */
    uint64_t places;
};
struct qr_heartbeat {
    uint64_t sequence; /* grows; an older one is ignored */
    uint8_t incarnation[QR_INCARNATION_BYTES];
    struct qr_gen_id active, promised;
    uint64_t highest_number;
    uint32_t refusals; /* of coverage words, at the present reduction */
    uint64_t applied_reductions, committed_reductions;
    enum qr_phase phase;
    bool form_expired;      /* its time to form is over */
    uint64_t trainer_turns; /* the training thread's life sign */
    /* 0: the training thread computes nothing, do not judge it */
    uint64_t expected_micro_batch_ms;
    uint32_t n_heard;
    struct qr_member_name heard[QR_MAX_MEMBERS];
    struct qr_in_flight in_flight;
    /* so long its training thread has polled the data streams without a pause; 0: it does not */
    uint64_t polled_ms;
    /* bit i: no data passes between it and index i, though they hear each other */
    uint64_t no_data;
    /* the sequence of the receiver's heartbeat whose micro-batches in flight this one answers;
     * 0: none */
    uint64_t in_flight_heard;
    struct qr_common common;
};
struct qr_propose {
    struct qr_gen_id id;
    uint32_t n_members; /* ascending by index */
    struct qr_member_name member[QR_MAX_MEMBERS];
};
/* The state of a member's training, as a promise reports it. */
struct qr_held {
    /* it has no state: it reads the last checkpoint. Nothing else is set */
    bool stateless;
    uint64_t applied_reductions;
    uint8_t digest[16]; /* the state it has */
    uint64_t committed_reductions;
    /* the state that the held micro-batches were computed from */
    uint64_t base_reductions;
    uint8_t base_digest[16];
    uint32_t refusals;
    uint32_t n_runs; /* 0: holds nothing */
    struct qr_run run[QR_MESSAGE_MAX_RUNS];
};
struct qr_promise {
    struct qr_gen_id id;
    struct qr_held held;
    struct qr_deaths deaths;
    struct qr_common common;
    /* since that ring's first generation began; at most QR_MESSAGE_MAX_AGE_MS */
    uint64_t ring_age_ms;
};
struct qr_busy {
    struct qr_gen_id id;
    uint64_t highest_number;
    char why[QR_MESSAGE_TEXT_BYTES];
};
/* What a generation starts from. Micro-batches in no `kept` run belong round robin: the j-th of
 * them, ascending, to the member j mod n of the n that are no servers; one is no server. */
struct qr_begin {
    struct qr_gen_id id;
    uint64_t base_reductions;
    uint8_t base_digest[16];
    /* no majority at base_reductions, the highest: base_digest is not set, everybody
     * loads LATEST */
    bool from_checkpoint;
    uint32_t n_members; /* in order of rank */
    struct qr_begin_member {
        struct qr_member_name name;
        uint32_t data_port;
        bool holder; /* has the base */
        /* its held micro-batches count, they are `kept`; else it drops what it holds once it has
         * the base */
        bool keep;
        bool server; /* it gets no other micro-batches than those that it keeps */
        uint32_t n_kept;
        struct qr_run kept[QR_MESSAGE_MAX_RUNS];
    } member[QR_MAX_MEMBERS];
    struct qr_deaths deaths; /* since the base, of processes that are not members now */
    struct qr_common common; /* always there */
    uint64_t ring_age_ms;
};
/* The micro-batch, of the reduction that follows the state after so many, whose fault it is that
 * all end; is false: none. */
struct qr_blame {
    bool is;
    uint64_t reductions, micro_batch;
};
struct qr_done {
    enum qr_code code; /* QR_OK: everything is written */
    char text[QR_MESSAGE_TEXT_BYTES];
    struct qr_blame blame;
};
enum qr_goodbye_reason {
    QR_GOODBYE_LEAVING,     /* drain, or a permanent error of its own: text */
    QR_GOODBYE_DONE,        /* after Done, whose code and text it repeats */
    QR_GOODBYE_REFUSED = 3, /* it stops because of another job hash (rule 8) */
    QR_GOODBYE_CLAIMED,     /* to the receiver: another process has your index now */
};
struct qr_goodbye {
    enum qr_goodbye_reason why;
    enum qr_code code;
    char text[QR_MESSAGE_TEXT_BYTES];
    struct qr_blame blame; /* of DONE */
};

/* Where peers that the receiver does not hear were reached. Something to dial: who answers there
 * proves who it is as anybody does. */
struct qr_addresses {
    uint32_t n; /* ascending by index */
    struct qr_member_name name[QR_MAX_MEMBERS];
    char at[QR_MAX_MEMBERS][QR_IP_PORT_BYTES]; /* qr_ip_port_ok */
};

struct qr_message {
    enum qr_message_kind kind;
    union {
        struct qr_hello hello;
        struct qr_field_text field;
        struct qr_heartbeat heartbeat;
        struct qr_propose propose;
        struct qr_promise promise;
        struct qr_busy busy;
        struct qr_begin begin;
        struct qr_done done;
        struct qr_goodbye goodbye;
        struct qr_addresses addresses;
    };
};

/* Texts in a message are qr_text_ok. */
QR_MUST_CHECK enum qr_code qr_message_encode(const struct qr_message *m, struct qr_buf *ret,
                                             struct qr_err *err);
QR_MUST_CHECK enum qr_code qr_message_decode(struct qr_bytes bytes, struct qr_message *ret,
                                             struct qr_err *err);

#endif
