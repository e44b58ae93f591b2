/* base/counter.h — counters, gauges and times of this process, for /metrics and the probes.
 *
 * What      One fixed table for the whole process; a row is an enum value. Nothing is registered at
 *           run time and nothing allocates. No computation reads a value, so counters change no bit
 *           of a result.
 * Kinds     COUNT: only grows. GAUGE: an integer now. REAL: a double now. SECONDS: nanoseconds
 *           inside, only grows, shown as seconds.
 * Cost      one relaxed atomic operation.
 * Threads   any. Rows are independent: two rows read together may be from different moments.
 */
#ifndef QR_BASE_COUNTER_H
#define QR_BASE_COUNTER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/bounds.h"

enum qr_counter_kind { QR_KIND_COUNT, QR_KIND_GAUGE, QR_KIND_REAL, QR_KIND_SECONDS };

/* id, kind, family, labels, help. Rows of one family are adjacent and have one kind; the help of
 * the first row is shown. */
#define QR_COUNTERS(X)                                                                             \
    X(QR_STEP, GAUGE, "qring_step", "", "The last committed training step.")                       \
    X(QR_STEPS_PLANNED, GAUGE, "qring_steps_planned", "", "Training steps of the whole job.")      \
    X(QR_EPOCH, GAUGE, "qring_epoch", "", "The epoch of the last committed step, from 1.")         \
    X(QR_EPOCHS_PLANNED, GAUGE, "qring_epochs_planned", "", "Epochs of the whole job.")            \
    X(QR_LOSS, REAL, "qring_loss", "", "The batch loss of the last committed step.")               \
    X(QR_VAL_LOSS, REAL, "qring_val_loss", "", "The loss of the last validation pass.")            \
    X(QR_POD_SECONDS, REAL, "qring_pod_seconds", "",                                               \
      "Pod time of the run up to the last committed step: members times seconds.")                 \
    X(QR_COST, REAL, "qring_cost", "",                                                             \
      "Cost of that pod time at --price-per-pod-hour; 0 when no price is set.")                    \
    X(QR_STEPS, COUNT, "qring_steps_total", "", "Training steps that this process applied.")       \
    X(QR_COMPUTE_TIME, SECONDS, "qring_phase_seconds_total", "phase=\"compute\"",                  \
      "Time of the training thread, by phase of a step.")                                          \
    X(QR_REDUCE_TIME, SECONDS, "qring_phase_seconds_total", "phase=\"reduce\"", "")                \
    X(QR_UPDATE_TIME, SECONDS, "qring_phase_seconds_total", "phase=\"update\"", "")                \
    X(QR_MEMBERSHIP_TIME, SECONDS, "qring_overhead_seconds_total", "part=\"membership\"",          \
      "Overhead of fault tolerance: heartbeats and messages of the control thread, coverage "      \
      "words, state digests.")                                                                     \
    X(QR_COVERAGE_TIME, SECONDS, "qring_overhead_seconds_total", "part=\"coverage\"", "")          \
    X(QR_DIGEST_TIME, SECONDS, "qring_overhead_seconds_total", "part=\"digest\"", "")              \
    X(QR_MICRO_BATCHES, COUNT, "qring_micro_batches_total", "",                                    \
      "Micro-batches that this worker computed.")                                                  \
    X(QR_SAMPLES, COUNT, "qring_samples_total", "", "Samples that this worker computed.")          \
    X(QR_THREADS, GAUGE, "qring_threads", "", "Threads that compute.")                             \
    X(QR_CPU_LIMIT, REAL, "qring_cpu_limit", "",                                                   \
      "CPUs that this pod may use: quota, CPU set or affinity.")                                   \
    X(QR_THROTTLED_TIME, SECONDS, "qring_throttled_seconds_total", "",                             \
      "Time in which the CPU limit stopped threads of this pod, summed over CPUs.")                \
    X(QR_PEERS_CONNECTED, GAUGE, "qring_peers_connected", "",                                      \
      "Peers with an open control connection.")                                                    \
    X(QR_MEMBERS, GAUGE, "qring_members", "",                                                      \
      "Members of this worker's generation, itself included; 0 before the first.")                 \
    X(QR_GENERATION, GAUGE, "qring_generation", "",                                                \
      "The number of this worker's generation; 0 before the first.")                               \
    X(QR_INDEX, GAUGE, "qring_index", "", "This worker's index.")                                  \
    X(QR_RANK, GAUGE, "qring_rank", "", "This worker's rank in its generation; rank 0 leads.")     \
    X(QR_REGROUPS, COUNT, "qring_regroups_total", "",                                              \
      "Generations that this worker joined after its first.")                                      \
    X(QR_MEMBERS_JOINED, COUNT, "qring_members_joined_total", "",                                  \
      "Members that joined in a new generation.")                                                  \
    X(QR_MEMBERS_LOST, COUNT, "qring_members_lost_total", "",                                      \
      "Members that were lost or left in a new generation.")                                       \
    X(QR_WRONG_STATES, COUNT, "qring_wrong_states_total", "",                                      \
      "States of this worker that differ from the majority's: check its hardware.")                \
    X(QR_PAUSE, REAL, "qring_last_pause_seconds", "",                                              \
      "Duration of the last regroup: last step of a generation to first step of the next.")        \
    X(QR_DATA_STREAMS_SILENT, COUNT, "qring_data_streams_silent_total", "",                        \
      "Data connections that passed no bytes while both ends waited.")                             \
    X(QR_SENT_BYTES, COUNT, "qring_link_sent_bytes_total", "", "Bytes of messages sent to peers.") \
    X(QR_RECEIVED_BYTES, COUNT, "qring_link_received_bytes_total", "",                             \
      "Bytes of messages received from peers.")                                                    \
    X(QR_LINK_CUT, COUNT, "qring_link_cut_total", "",                                              \
      "Connections closed because of too many streams, malformed bytes, or too many "              \
      "unidentified peers.")                                                                       \
    X(QR_TLS_ACCEPTED, COUNT, "qring_tls_accepted_total", "",                                      \
      "Connections whose peer presented a certificate of this job.")                               \
    X(QR_TLS_REFUSED_NO_CERTIFICATE, COUNT, "qring_tls_refused_total",                             \
      "reason=\"no_certificate\"", "Connections refused before a message was read, by reason.")    \
    X(QR_TLS_REFUSED_WRONG_CA, COUNT, "qring_tls_refused_total", "reason=\"wrong_ca\"", "")        \
    X(QR_TLS_REFUSED_EXPIRED, COUNT, "qring_tls_refused_total", "reason=\"expired\"", "")          \
    X(QR_TLS_REFUSED_NOT_YET_VALID, COUNT, "qring_tls_refused_total", "reason=\"not_yet_valid\"",  \
      "")                                                                                          \
    X(QR_TLS_REFUSED_FOREIGN_JOB, COUNT, "qring_tls_refused_total", "reason=\"foreign_job\"", "")  \
    X(QR_TLS_REFUSED_UNFIT, COUNT, "qring_tls_refused_total", "reason=\"unfit\"", "")              \
    X(QR_TLS_REFUSED_PLAINTEXT, COUNT, "qring_tls_refused_total", "reason=\"plaintext\"", "")      \
    X(QR_TLS_REFUSED_HANDSHAKE, COUNT, "qring_tls_refused_total", "reason=\"handshake\"", "")      \
    X(QR_TURNS_CONTROL, COUNT, "qring_turns_total", "thread=\"control\"",                          \
      "Iterations of the event loops, which /healthz watches.")                                    \
    X(QR_TURNS_TRAINING, COUNT, "qring_turns_total", "thread=\"training\"", "")                    \
    X(QR_CHECKPOINT_STEP, GAUGE, "qring_checkpoint_step", "",                                      \
      "Step of the last checkpoint published, resumed from, or found by an evaluator.")            \
    X(QR_CHECKPOINT_TIME, GAUGE, "qring_checkpoint_timestamp_seconds", "",                         \
      "Time of the last checkpoint that this worker published, since 1970; 0: none.")              \
    X(QR_CHECKPOINTS, COUNT, "qring_checkpoints_total", "",                                        \
      "Checkpoints that this worker published.")                                                   \
    X(QR_CHECKPOINT_ERRORS, COUNT, "qring_checkpoint_errors_total", "",                            \
      "Failed attempts to publish a checkpoint.")                                                  \
    X(QR_PROGRESS_REPORTS, COUNT, "qring_progress_reports_total", "",                              \
      "Progress reports that the target accepted (--progress-to).")                                \
    X(QR_PROGRESS_ERRORS, COUNT, "qring_progress_report_errors_total", "",                         \
      "Progress reports that the target did not accept.")                                          \
    X(QR_EVALUATOR, GAUGE, "qring_evaluator", "",                                                  \
      "1 when this process is an evaluator, not a member of a ring.")                              \
    X(QR_EVALUATED_STEP, GAUGE, "qring_evaluated_step", "",                                        \
      "Step of the last state that this evaluator evaluated.")                                     \
    X(QR_EVALUATED_TIME, GAUGE, "qring_evaluated_timestamp_seconds", "",                           \
      "Time of this evaluator's last evaluation, since 1970; 0: none.")                            \
    X(QR_EVALUATIONS, COUNT, "qring_evaluations_total", "",                                        \
      "States that this evaluator evaluated.")                                                     \
    X(QR_STORE_GETS, COUNT, "qring_store_operations_total", "op=\"get\"",                          \
      "Completed requests for objects and files.")                                                 \
    X(QR_STORE_PUTS, COUNT, "qring_store_operations_total", "op=\"put\"", "")                      \
    X(QR_STORE_OTHERS, COUNT, "qring_store_operations_total", "op=\"other\"", "")                  \
    X(QR_STORE_GET_ERRORS, COUNT, "qring_store_errors_total", "op=\"get\"",                        \
      "Failed requests for objects and files.")                                                    \
    X(QR_STORE_PUT_ERRORS, COUNT, "qring_store_errors_total", "op=\"put\"", "")                    \
    X(QR_STORE_OTHER_ERRORS, COUNT, "qring_store_errors_total", "op=\"other\"", "")                \
    X(QR_STORE_GET_BYTES, COUNT, "qring_store_bytes_total", "op=\"get\"",                          \
      "Bytes of objects and files read and written.")                                              \
    X(QR_STORE_PUT_BYTES, COUNT, "qring_store_bytes_total", "op=\"put\"", "")

#define QR_COUNTER_ID(id, kind, family, labels, help) id,
enum qr_counter { QR_COUNTERS(QR_COUNTER_ID) QR_N_COUNTERS };
#undef QR_COUNTER_ID

struct qr_counter_row {
    enum qr_counter_kind kind;
    const char *family, *labels, *help;
};
extern const struct qr_counter_row qr_counter_table[QR_N_COUNTERS];

void qr_count(enum qr_counter c, uint64_t n); /* COUNT: adds n */
/* SECONDS: adds ns; a negative time counts as 0. */
void qr_count_time(enum qr_counter c, int64_t ns);
void qr_gauge(enum qr_counter c, int64_t value);     /* GAUGE */
void qr_gauge_real(enum qr_counter c, double value); /* REAL */

int64_t qr_counter_value(enum qr_counter c); /* all but REAL; SECONDS in nanoseconds */
double qr_counter_real(enum qr_counter c);   /* REAL */

/* Values of the last step and evaluation under the job's names: metrics and logged expressions.
 * qr_value_name copies the name; setting another name for an index clears its value. Indices beyond
 * the table are ignored. */
enum { QR_VALUES = 24, QR_VALUE_NAME_BYTES = 32 };
void qr_value_name(size_t i, const char *name);
void qr_value_set(size_t i, double value);
/* False when there is no value yet. */
bool qr_value_get(size_t i, char ret_name[QR_VALUE_NAME_BYTES], double *ret);

/* The peers of this process by index, as its group sees them. Indices beyond the table are
 * ignored. */
enum qr_peer { QR_PEER_UNKNOWN, QR_PEER_ABSENT, QR_PEER_MEMBER }; /* of this worker's generation */
void qr_peer_set(uint32_t index, enum qr_peer peer);
/* The peer answers, but no data passes between it and this worker. */
void qr_peer_no_data(uint32_t index, bool no_data);
void qr_peer_speed(uint32_t index, double micro_batches_per_s); /* smoothed; 0: unknown */
void qr_peer_rtt(uint32_t index, double s);                     /* round trip; 0: unknown */
void qr_peer_serves(uint32_t index, bool serves);               /* the peer is a parameter server */
enum qr_peer qr_peer_get(uint32_t index);
bool qr_peer_get_no_data(uint32_t index);
double qr_peer_get_speed(uint32_t index);
double qr_peer_get_rtt(uint32_t index);
bool qr_peer_get_serves(uint32_t index);

#endif
