/* group/group_echo.c — measures the round-trip time to each peer for the metrics (qr_peer_rtt).
 * Start reading at group_echo_ask().
 *
 * A message of ECHO_BYTES goes from control thread to control thread, one peer after the other, and
 * is returned at once: control threads never compute. The message is as long as a small step's
 * gradients, so that low bandwidth shows as well as distance. TCP's own figure is unsuitable, since
 * an idle peer delays its acknowledgements. Lost echoes are ignored.
 */
#include <string.h>

#include "base/counter.h"
#include "group/group_impl.h"

enum { ECHO_BYTES = 2048, AT_ANSWER = 4, AT_SENT = 8 };
#define ASK_EVERY_NS (250 * INT64_C(1000000))
#define BELIEVED_NS (60 * QR_SECOND)
static const char magic[] = "qrE1";

static void send_echo(struct qr_group *g, uint32_t conn, bool answer, uint64_t sent_ns) {
    uint8_t bytes[ECHO_BYTES] = {0};
    memcpy(bytes, magic, 4);
    bytes[AT_ANSWER] = answer;
    qr_set_u64le(bytes + AT_SENT, sent_ns);
    qr_buf_clear(&g->out);
    qr_buf_put(&g->out, bytes, sizeof bytes);
    (void)group_post(g, conn);
}

/* Under the lock: asks the next connected peer when the interval has passed. */
void group_echo_ask(struct qr_group *g) {
    int64_t now = group_now_ns(g);
    uint32_t conn = 0, n = (uint32_t)g->o.n_peers;
    if (!g->o.echo || now - g->echo_asked_ns < ASK_EVERY_NS) return;
    g->echo_asked_ns = now;
    for (uint32_t tries = 0; tries < n && !conn; tries++) {
        g->echo_next = (g->echo_next + 1) % n;
        conn = qr_member_conn(g->member, g->echo_next);
    }
    if (conn) send_echo(g, conn, false, (uint64_t)now);
}

bool group_echo_message(struct qr_group *g, uint32_t conn, struct qr_bytes message) {
    if (message.n != ECHO_BYTES || memcmp(message.p, magic, 4) != 0) return false;
    uint64_t sent_ns = qr_get_u64le(message.p + AT_SENT);
    int64_t took_ns = (int64_t)((uint64_t)group_now_ns(g) - sent_ns);
    for (uint32_t i = 0; i < QR_MAX_MEMBERS; i++) {
        if (qr_member_conn(g->member, i) != conn) continue; /* Not a peer's connection: no match. */
        double before_s = qr_peer_get_rtt(i), s = (double)took_ns / 1e9;
        if (!message.p[AT_ANSWER]) send_echo(g, conn, true, sent_ns);
        else if (took_ns > 0 && took_ns < BELIEVED_NS)
            qr_peer_rtt(i, before_s > 0 ? before_s + (s - before_s) / 4 : s);
    }
    return true;
}
