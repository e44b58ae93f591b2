/* link/link_grpc_conn.c — one connection of a gRPC link: its operations, what it reads and sends
 * next, its end. Start reading at link_grpc_conn_new() and link_grpc_send_more(). */
#include <grpc/byte_buffer.h>
#include <grpc/grpc.h>
#include <grpc/slice.h>
#include <grpc/support/time.h>

#include "base/mem.h"
#include "link/link_grpc_state_impl.h"

enum { QUOTA_BYTES = 16 << 20, QUOTA_CONN_BYTES = 16 << 20 };

gpr_timespec link_grpc_at(int64_t ns) {
    if (ns == INT64_MAX) return gpr_inf_future(GPR_CLOCK_MONOTONIC);
    return (gpr_timespec){.tv_sec = ns / QR_SECOND,
                          .tv_nsec = (int32_t)(ns % QR_SECOND),
                          .clock_type = GPR_CLOCK_MONOTONIC};
}

void link_grpc_drop_buffer(grpc_byte_buffer **b) {
    if (*b) grpc_byte_buffer_destroy(*b);
    *b = NULL;
}

bool link_grpc_batch(struct conn *c, enum op_kind kind, const grpc_op *ops, size_t n) {
    if (grpc_call_start_batch(c->call, ops, n, &c->op[kind], NULL) != GRPC_CALL_OK) return false;
    c->n_ops++;
    return true;
}

/* gRPC allocates the announced length of a message at once, and checks the limit when the message
 * is complete. The guard cuts a connection that exploits this; if the guard is late, the quota ends
 * connections, possibly other ones too. */
void link_grpc_fit_quota(struct grpc_link *g) {
    grpc_resource_quota_resize(g->quota, QUOTA_BYTES + (size_t)g->n_conns * QUOTA_CONN_BYTES);
}

struct conn *link_grpc_conn_new(struct grpc_link *g, bool outgoing) {
    struct conn *c = qr_xcalloc(1, sizeof *c);
    for (int k = 0; k < OP_KINDS; k++) c->op[k] = (struct op){(enum op_kind)k, c};
    c->outgoing = outgoing;
    c->id = ++g->next_id;
    c->close_by_ns = INT64_MAX;
    grpc_metadata_array_init(&c->initial);
    grpc_metadata_array_init(&c->trailing);
    c->details = grpc_empty_slice();
    c->next = g->conns;
    g->conns = c;
    g->n_conns++;
    link_grpc_fit_quota(g);
    return c;
}

struct conn *link_grpc_find(struct grpc_link *g, uint32_t id) {
    for (struct conn *c = g->conns; c; c = c->next)
        if (c->id == id) return c;
    return NULL;
}

void link_grpc_remove(struct grpc_link *g, struct conn *c) {
    struct conn **at = &g->conns;
    while (*at != c) at = &(*at)->next;
    *at = c->next;
    g->n_conns--;
    link_grpc_fit_quota(g);
    link_grpc_queue_drop(&c->queue);
    link_grpc_drop_buffer(&c->held);
    link_grpc_drop_buffer(&c->incoming);
    grpc_metadata_array_destroy(&c->initial);
    grpc_metadata_array_destroy(&c->trailing);
    grpc_slice_unref(c->details);
    grpc_call_unref(c->call);
    link_grpc_guard_end(c->caller);
    if (c->channel) grpc_channel_destroy(c->channel);
    free(c);
}

void link_grpc_read_more(struct conn *c) {
    if (!c->up || c->reading || c->paused || c->held || c->over) return;
    grpc_op op = {.op = GRPC_OP_RECV_MESSAGE, .data.recv_message.recv_message = &c->incoming};
    c->reading = link_grpc_batch(c, OP_RECV, &op, 1);
}

/* Ends the stream from this side, after all queued messages. */
static void finish_conn(struct conn *c) {
    if (c->finish_started || c->over) return;
    grpc_op op = {.op = c->outgoing ? GRPC_OP_SEND_CLOSE_FROM_CLIENT
                                    : GRPC_OP_SEND_STATUS_FROM_SERVER};
    if (!c->outgoing) {
        op.data.send_status_from_server.status = GRPC_STATUS_OK;
        op.data.send_status_from_server.status_details = &c->details; /* empty */
    }
    c->finish_started = link_grpc_batch(c, OP_FINISH, &op, 1);
    if (!c->finish_started) grpc_call_cancel(c->call, NULL);
}

void link_grpc_send_more(struct conn *c) {
    if (!c->up || c->sending || c->over) return;
    if (!c->queue.n) {
        if (c->closing) finish_conn(c);
        return;
    }
    grpc_byte_buffer *b = link_grpc_queue_take(&c->queue);
    grpc_op op = {.op = GRPC_OP_SEND_MESSAGE, .data.send_message.send_message = b};
    c->sending = link_grpc_batch(c, OP_SEND, &op, 1);
    grpc_byte_buffer_destroy(b);
}

void link_grpc_close_silently(struct grpc_link *g, struct conn *c) {
    if (c->silent) return;
    c->silent = c->closing = true;
    c->close_by_ns = qr_now_ns(g->clock) + LINK_GRPC_CLOSE_NS;
    c->paused = false;
    link_grpc_drop_buffer(&c->held);
    if (!c->up) grpc_call_cancel(c->call, NULL);
    link_grpc_read_more(c); /* the end of the peer's stream follows its messages */
    link_grpc_send_more(c);
}
