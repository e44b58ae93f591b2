/* The membership machine in a large ring, and on a machine with too few processors: how many
 * messages a change costs, when it dials, what its own lateness counts for. On virtual time. */
#include "base/clock.h"
#include "base/mem.h"
#include "membership/member.h"
#include "tests/t.h"

#define handle(m, ...) qr_member_handle(m, now_ns, &(struct qr_member_event){__VA_ARGS__})
enum { N = 32 };
static char names[N][8];
static const char *peers[N];
static struct qr_member *m;
static int64_t now_ns;
static unsigned n_heartbeats, n_dials, n_silent, n_closed;

static void emit(void *ctx, const struct qr_member_action *a) {
    (void)ctx;
    n_heartbeats += a->kind == QR_ACT_SEND && a->message->kind == QR_MESSAGE_HEARTBEAT;
    n_dials += a->kind == QR_ACT_DIAL;
    n_closed += a->kind == QR_ACT_CLOSE;
    n_silent += a->kind == QR_ACT_LOG && strstr(a->text, "silent for");
}

static void start(uint32_t index) {
    struct qr_member_options o = {.run = "r",
                                  .contract = "c",
                                  .index = index,
                                  .incarnation = {1},
                                  .n_peers = N,
                                  .peers = peers,
                                  .count_known = true,
                                  .form_timeout_ns = 600 * QR_SECOND,
                                  .seed = 1};
    qr_member_free(m);
    m = qr_member_new(&o, emit, NULL);
    now_ns = QR_SECOND;
    n_heartbeats = n_dials = n_silent = n_closed = 0;
    handle(m, .kind = QR_EVENT_START);
}

static void hello(uint32_t index) {
    struct qr_message *msg = qr_xcalloc(1, sizeof *msg);
    msg->kind = QR_MESSAGE_HELLO;
    msg->hello = (struct qr_hello){.protocol_min = QR_PROTOCOL_MIN,
                                   .protocol_max = QR_PROTOCOL_MAX,
                                   .contract = "c",
                                   .run = "r",
                                   .index = index,
                                   .incarnation = {1, (uint8_t)index}};
    handle(m, .kind = QR_EVENT_UP, .conn = index);
    handle(m, .kind = QR_EVENT_MESSAGE, .conn = index, .message = msg);
    free(msg);
}

static void pass(int64_t ns) {
    for (int64_t end_ns = now_ns + ns; now_ns < end_ns;) {
        int64_t due_ns = qr_member_deadline_ns(m);
        now_ns = due_ns < end_ns ? due_ns : end_ns;
        handle(m, .kind = QR_EVENT_TICK);
    }
}

/* One message for each pair of changes and peers would be 31 * 31. */
static void test_news_goes_together(void) {
    start(0);
    for (uint32_t i = 1; i < N; i++) hello(i);
    for (uint32_t i = 1; i < N; i++)
        handle(m, .kind = QR_EVENT_DATA_UP, .index = i,
               .incarnation = (uint8_t[QR_INCARNATION_BYTES]){1, (uint8_t)i});
    pass(100 * QR_MS);
    CHECK(n_heartbeats <= 3 * N && n_heartbeats >= N - 1, "%u heartbeats", n_heartbeats);
}

/* The higher index dials, and its turn comes later in a large ring, as the lower one's does: a
 * second dial would cost as much as the first. */
static void test_dials_after_the_newcomers(void) {
    start(0);
    for (uint32_t i = 1; i < 30; i++) {
        pass(100 * QR_MS);
        hello(i);
    }
    CHECK(n_dials == 0, "%u dials while newcomers come", n_dials);
    pass(1100 * QR_MS);
    CHECK(n_dials == 0, "%u dials a second after the last of 29", n_dials);
    pass(QR_SECOND);
    CHECK(n_dials == 2, "%u dials of two that have not come", n_dials);
}

static void test_own_lateness_is_no_silence(void) {
    start(0);
    for (uint32_t i = 1; i < N; i++) hello(i);
    for (int i = 0; i < 50; i++) {
        now_ns += 400 * QR_MS; /* 150 ms later than it asked for */
        handle(m, .kind = QR_EVENT_TICK);
    }
    CHECK(n_silent == 0 && n_closed == 0, "%u silent, %u closed", n_silent, n_closed);
    pass(QR_SECOND); /* in time again */
    CHECK(n_silent == 0, "%u silent", n_silent);
    /* 1.25 s and 4 s, and five and twenty times 8 ms for each peer beyond eight */
    pass(1100 * QR_MS);
    CHECK(n_silent == 0, "%u silent", n_silent);
    pass(400 * QR_MS);
    CHECK(n_silent == N - 1 && n_closed == 0, "%u silent, %u closed", n_silent, n_closed);
    pass(6 * QR_SECOND);
    CHECK(n_closed == N - 1, "%u closed", n_closed);
}
/* Before the first generation: 31 peers, 23 beyond eight. */
static void test_heartbeats_of_a_large_ring_that_forms(void) {
    start(0);
    for (uint32_t i = 1; i < N; i++) hello(i);
    pass(QR_SECOND);
    unsigned had = n_heartbeats;
    for (int i = 0; i < 10; i++) {
        for (uint32_t k = 1; k < N; k++)
            handle(m, .kind = QR_EVENT_MESSAGE, .conn = k,
                   .message = &(struct qr_message){.kind = QR_MESSAGE_BUSY});
        pass(434 * QR_MS);
    }
    CHECK(n_heartbeats - had == 10 * (N - 1), "%u heartbeats in ten turns", n_heartbeats - had);
}

/* Addresses that a peer tells are dialed at the settings' port alone, and once a second for each
 * index, whatever a peer tells. */
static void test_told_addresses_are_bounded(void) {
    struct qr_message *msg = qr_xcalloc(1, sizeof *msg);
    start(0);
    hello(1);
    msg->kind = QR_MESSAGE_ADDRESSES;
    msg->addresses.n = 1;
    msg->addresses.name[0].index = 2;
    snprintf(msg->addresses.at[0], sizeof msg->addresses.at[0], "10.0.0.9:22");
    handle(m, .kind = QR_EVENT_MESSAGE, .conn = 1, .message = msg);
    CHECK(n_dials == 0, "%u dials of another port", n_dials);
    for (int i = 0; i < 50; i++) {
        snprintf(msg->addresses.at[0], sizeof msg->addresses.at[0], "10.0.0.%d:1", i);
        handle(m, .kind = QR_EVENT_MESSAGE, .conn = 1, .message = msg);
    }
    CHECK(n_dials == 1, "%u dials in one moment", n_dials);
    free(msg);
}

int main(void) {
    for (uint32_t i = 0; i < N; i++) {
        snprintf(names[i], sizeof names[i], "w%u:1", i);
        peers[i] = names[i];
    }
    test_news_goes_together();
    test_dials_after_the_newcomers();
    test_own_lateness_is_no_silence();
    test_heartbeats_of_a_large_ring_that_forms();
    test_told_addresses_are_bounded();
    qr_member_free(m);
    return t_end();
}
