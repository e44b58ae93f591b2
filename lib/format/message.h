/* format/message.h — the control messages between workers, as plain structs and as
 * bytes (proto/group.proto).
 *
 * What      one struct qr_message holds any message with its strings and lists: nothing to free.
 *           The struct is large (about 40 KB): keep one and reuse it.
 * Encode    appends to a buffer; INVALID_ARGUMENT when a field exceeds a limit below (a bug of
 *           qring, or a job with huge settings).
 * Decode    of untrusted bytes: at most QR_MESSAGE_MAX_BYTES; every length, count, string (UTF-8,
 *           no control characters) and number is checked; memory is bounded against unknown-field
 *           amplification. DATA_LOSS says what is wrong; *ret is then unspecified.
 * Unknown   fields of later versions are skipped; unknown kinds and enum values are rejected. The
 *           protocol number guards against them.
 * Threads   any; pure functions.
 * Source    membership/protocol.md §2 to §5; message_decode.c lists protobuf-c's pitfalls.
 */
#ifndef QR_FORMAT_MESSAGE_H
#define QR_FORMAT_MESSAGE_H

#include <stdbool.h>

#include "base/bounds.h"
#include "base/bytes.h"
#include "base/ip.h"
#include "base/text.h"

/* The protocol versions of this program (membership/protocol.md §3). The Makefile builds workers of
 * later versions for tests/it/upgrade.sh. */
#ifndef QR_PROTOCOL_MAX
#define QR_PROTOCOL_MIN 6
#define QR_PROTOCOL_MAX 6
#endif

enum {
    QR_MESSAGE_MAX_BYTES = 65536,
    QR_INCARNATION_BYTES = 16,
    QR_MESSAGE_MAX_FIELDS = 128, /* fields of a job in a hello */
    QR_MESSAGE_NAME_BYTES = 48,  /* of a field's name, with its NUL */
    QR_MESSAGE_TEXT_BYTES = 512, /* of any text, with its NUL: qr_text_cut */
    QR_MESSAGE_MAX_RUNS = 16,    /* runs of held micro-batches, for each member */
    QR_MESSAGE_ALLREDUCES = 5,   /* number of values of enum qr_allreduce */
};

#define QR_MESSAGE_MAX_AGE_MS (UINT64_C(1) << 43) /* fits int64_t in nanoseconds */
#define QR_MESSAGE_MAX_INTERVAL_MS 10000

/* A generation's id: compared by number, then index, then incarnation (as bytes). All zero means
 * none. */
struct qr_gen_id {
    uint64_t number; /* below 2^62 on the wire */
    uint32_t index;  /* of the proposer */
    uint8_t incarnation[QR_INCARNATION_BYTES];
};
int qr_gen_id_compare(const struct qr_gen_id *a, const struct qr_gen_id *b); /* <0, 0, >0 */
uint64_t qr_gen_id_hash(const struct qr_gen_id *id); /* in chunks and state parts */
static inline bool qr_gen_id_none(const struct qr_gen_id *id) { return id->number == 0; }

/* `count` micro-batches: first, first + stride, ... A round-robin share is one run. */
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

/* Values on the wire; 2 is unused. */
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
    bool leader;                      /* the sender is rank 0 of its generation */
    struct qr_gen_id generation;      /* the active one */
    uint64_t highest_number;          /* highest generation number seen */
    uint32_t data_port, control_port; /* listening ports of the sender */
    char address[264]; /* host:port in the sender's own settings, for messages only */
    bool server;       /* a parameter server: computes no micro-batches */
    uint32_t n_heard;  /* members from which the sender receives messages */
    struct qr_member_name heard[QR_MAX_MEMBERS];
};
/* A setting of a job: the hello has its digest; if digests differ, its text is sent too. */
struct qr_field {
    const char *name, *value;
};
/* The sender's text of a setting that differs. */
struct qr_field_text {
    char name[QR_MESSAGE_NAME_BYTES];
    char value[QR_MESSAGE_TEXT_BYTES];
    bool absent; /* the sender's job has no such field */
};
/* The settings that all members of a ring share: set by the first leader, then passed on from
 * generation to generation. epochs 0 means none (the sender was in no generation yet); the struct
 * is then not sent. */
struct qr_common {
    uint64_t epochs;      /* at most 2^53 */
    uint32_t allreduce;   /* enum qr_allreduce */
    uint32_t min_workers; /* 1..QR_MAX_MEMBERS */
    uint64_t places;      /* digest of the URLs of results and checkpoints */
};
struct qr_heartbeat {
    uint64_t sequence; /* increases; a heartbeat with a lower number is ignored */
    uint8_t incarnation[QR_INCARNATION_BYTES];
    struct qr_gen_id active, promised;
    uint64_t highest_number;
    uint32_t refusals; /* coverage words rejected in the current reduction */
    uint64_t applied_reductions, committed_reductions;
    enum qr_phase phase;
    bool form_expired;      /* the form timeout has expired */
    uint64_t trainer_turns; /* loop iterations of the training thread: a sign of progress */
    /* 0: the training thread is not computing, so do not judge its progress */
    uint64_t expected_micro_batch_ms;
    uint32_t n_heard; /* members from which the sender receives messages */
    struct qr_member_name heard[QR_MAX_MEMBERS];
    /* How long the training thread has polled the data streams without a pause; 0: not polling */
    uint64_t polled_ms;
    /* Bit i: no data passes between the sender and index i, though control messages do */
    uint64_t no_data;
    /* The receiver gets the next one within this time, at most QR_MESSAGE_MAX_INTERVAL_MS; 0: not
     * stated */
    uint32_t interval_ms;
    struct qr_common common;
};
struct qr_propose {
    struct qr_gen_id id;
    uint32_t n_members; /* ascending by index */
    struct qr_member_name member[QR_MAX_MEMBERS];
};
/* The training state of a member, as reported in a promise. */
struct qr_held {
    /* The member has no state and will load the last checkpoint; no other field is set */
    bool stateless;
    uint64_t applied_reductions;
    uint8_t digest[16]; /* of the member's state */
    uint64_t committed_reductions;
    /* The state from which the held micro-batches were computed */
    uint64_t base_reductions;
    uint8_t base_digest[16];
    uint32_t refusals;
    uint32_t n_runs; /* 0: no held micro-batches */
    struct qr_run run[QR_MESSAGE_MAX_RUNS];
};
struct qr_promise {
    struct qr_gen_id id;
    struct qr_held held;
    struct qr_common common;
    uint64_t ring_age_ms; /* since the ring's first generation; at most QR_MESSAGE_MAX_AGE_MS */
};
struct qr_busy {
    struct qr_gen_id id;
    uint64_t highest_number;
    char why[QR_MESSAGE_TEXT_BYTES];
};
/* The starting point of a generation. Micro-batches in no `kept` run are assigned round-robin: the
 * j-th of them, ascending, to member j mod n of the n members that are not parameter servers. At
 * least one member is not a parameter server. */
struct qr_begin {
    struct qr_gen_id id;
    uint64_t base_reductions;
    uint8_t base_digest[16];
    /* No majority agrees on a state at base_reductions, the highest: base_digest is not set and
     * all members load the checkpoint named by LATEST */
    bool from_checkpoint;
    uint32_t n_members; /* in order of rank */
    struct qr_begin_member {
        struct qr_member_name name;
        uint32_t data_port;
        bool holder; /* has the base state */
        /* The member's held micro-batches count and are listed in `kept`; otherwise the member
         * drops them once it has the base state */
        bool keep;
        bool server; /* gets no micro-batches other than those in `kept` */
        uint32_t n_kept;
        struct qr_run kept[QR_MESSAGE_MAX_RUNS];
    } member[QR_MAX_MEMBERS];
    struct qr_common common; /* always set */
    uint64_t ring_age_ms;
};
struct qr_done {
    enum qr_code code; /* QR_OK: everything is written */
    char text[QR_MESSAGE_TEXT_BYTES];
};
enum qr_goodbye_reason {
    QR_GOODBYE_LEAVING,     /* the sender drains or has a permanent error, given in text */
    QR_GOODBYE_DONE,        /* follows Done and repeats its code and text */
    QR_GOODBYE_REFUSED = 3, /* the sender stops because its job hash differs (rule 8) */
    QR_GOODBYE_CLAIMED,     /* another process has claimed the receiver's index */
};
struct qr_goodbye {
    enum qr_goodbye_reason why;
    enum qr_code code;
    char text[QR_MESSAGE_TEXT_BYTES];
};

/* Addresses of peers from which the receiver gets no messages. An address is only a hint for
 * dialing: the peer that answers proves its identity as usual. */
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

/* Appends the encoded message to ret. All texts must be qr_text_ok.
 *
 * Errors:   INVALID_ARGUMENT: a field exceeds its limit, or the message QR_MESSAGE_MAX_BYTES
 */
QR_MUST_CHECK enum qr_code qr_message_encode(const struct qr_message *m, struct qr_buf *ret,
                                             struct qr_err *err);
/* Decodes untrusted bytes.
 *
 * Errors:   DATA_LOSS, naming the kind of message and the field
 */
QR_MUST_CHECK enum qr_code qr_message_decode(struct qr_bytes bytes, struct qr_message *ret,
                                             struct qr_err *err);

#endif
