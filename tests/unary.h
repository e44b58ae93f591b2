/* tests/unary.h — a gRPC client for calls with one request and one reply, each over a channel of
 * its own. Call grpc_init first. */
#ifndef UNARY_H
#define UNARY_H

#include <grpc/byte_buffer.h>
#include <grpc/byte_buffer_reader.h>
#include <grpc/grpc.h>
#include <grpc/grpc_security.h>
#include <grpc/slice.h>
#include <grpc/support/alloc.h>
#include <grpc/support/time.h>

#include "base/bytes.h"
#include "base/mem.h"

struct unary {
    grpc_channel *channel;
    grpc_completion_queue *cq;
    grpc_call *call;
    grpc_metadata_array initial, trailing;
    grpc_byte_buffer *answer;
    grpc_status_code status;
    grpc_slice details;
    char said[256]; /* message of the status */
    struct qr_buf bytes;
};

static inline gpr_timespec unary_in_ms(int ms) {
    return gpr_time_add(gpr_now(GPR_CLOCK_MONOTONIC), gpr_time_from_millis(ms, GPR_TIMESPAN));
}

/* n_messages 0: starts the call, and never sends the request. */
static inline struct unary *unary_begin(unsigned port, const char *method, struct qr_bytes message,
                                        unsigned n_messages) {
    static char own_pool[] = GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL,
                most[] = GRPC_ARG_MAX_RECEIVE_MESSAGE_LENGTH;
    grpc_arg arg[] = {{.type = GRPC_ARG_INTEGER, .key = own_pool, .value.integer = 1},
                      {.type = GRPC_ARG_INTEGER, .key = most, .value.integer = -1}};
    const grpc_channel_args args = {2, arg};
    char target[64];
    struct unary *u = qr_xcalloc(1, sizeof *u);
    grpc_channel_credentials *insecure = grpc_insecure_credentials_create();
    snprintf(target, sizeof target, "dns:///127.0.0.1:%u", port);
    u->channel = grpc_channel_create(target, insecure, &args);
    grpc_channel_credentials_release(insecure);
    u->cq = grpc_completion_queue_create_for_pluck(NULL);
    grpc_slice name = grpc_slice_from_copied_string(method);
    u->call =
        grpc_channel_create_call(u->channel, NULL, 0, u->cq, name, NULL, unary_in_ms(20000), NULL);
    grpc_slice_unref(name);
    grpc_metadata_array_init(&u->initial);
    grpc_metadata_array_init(&u->trailing);
    grpc_slice slice = grpc_slice_from_copied_buffer((const char *)message.p, message.n);
    grpc_byte_buffer *request = grpc_raw_byte_buffer_create(&slice, 1);
    grpc_slice_unref(slice);
    grpc_op ops[6] = {{.op = GRPC_OP_SEND_INITIAL_METADATA}};
    size_t n = 1;
    if (n_messages) {
        ops[n++] = (grpc_op){.op = GRPC_OP_SEND_MESSAGE, .data.send_message.send_message = request};
        ops[n++] = (grpc_op){.op = GRPC_OP_SEND_CLOSE_FROM_CLIENT};
    }
    ops[n++] = (grpc_op){.op = GRPC_OP_RECV_INITIAL_METADATA,
                         .data.recv_initial_metadata.recv_initial_metadata = &u->initial};
    ops[n++] = (grpc_op){.op = GRPC_OP_RECV_MESSAGE, .data.recv_message.recv_message = &u->answer};
    ops[n++] = (grpc_op){.op = GRPC_OP_RECV_STATUS_ON_CLIENT,
                         .data.recv_status_on_client = {.trailing_metadata = &u->trailing,
                                                        .status = &u->status,
                                                        .status_details = &u->details}};
    grpc_call_error error = grpc_call_start_batch(u->call, ops, n, u, NULL);
    QR_ASSERT(error == GRPC_CALL_OK);
    grpc_byte_buffer_destroy(request);
    return u;
}

/* Lets gRPC work on the call for this time; it does so only in the thread of the caller. */
static inline void unary_go_on(struct unary *u, int ms) {
    grpc_completion_queue_pluck(u->cq, NULL, unary_in_ms(ms), NULL);
}

/* Waits for the end of the call. */
static inline void unary_end(struct unary *u) {
    grpc_completion_queue_pluck(u->cq, u, gpr_inf_future(GPR_CLOCK_MONOTONIC), NULL);
    snprintf(u->said, sizeof u->said, "%.*s", (int)GRPC_SLICE_LENGTH(u->details),
             (const char *)GRPC_SLICE_START_PTR(u->details));
    grpc_byte_buffer_reader reader;
    if (!u->answer || !grpc_byte_buffer_reader_init(&reader, u->answer)) return;
    grpc_slice all = grpc_byte_buffer_reader_readall(&reader);
    qr_buf_put(&u->bytes, GRPC_SLICE_START_PTR(all), GRPC_SLICE_LENGTH(all));
    grpc_slice_unref(all);
    grpc_byte_buffer_reader_destroy(&reader);
}

static inline void unary_free(struct unary *u) {
    grpc_call_unref(u->call);
    grpc_channel_destroy(u->channel);
    grpc_completion_queue_shutdown(u->cq);
    grpc_completion_queue_destroy(u->cq);
    grpc_metadata_array_destroy(&u->initial);
    grpc_metadata_array_destroy(&u->trailing);
    if (u->answer) grpc_byte_buffer_destroy(u->answer);
    grpc_slice_unref(u->details);
    qr_buf_free(&u->bytes);
    free(u);
}

#endif
