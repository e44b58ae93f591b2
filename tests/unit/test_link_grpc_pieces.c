/* The gRPC link with messages in pieces, and with busy polling. */
#include "base/clock.h"
#include "base/mem.h"
#include "link/link_grpc.h"
#include "tests/t.h"

enum { LARGEST = QR_LINK_MAX_MESSAGE };
static struct qr_link *end[2]; /* end 0 has dialed end 1 */
static uint32_t conn[2];
static uint8_t *body, *copy;

static int64_t now_ns(void) { return qr_now_ns(&qr_clock_monotonic); }

static bool poll_end(int i, struct qr_link_event *e) {
    end[i]->ops->poll(end[i], now_ns() + QR_MS, e);
    return e->kind != QR_LINK_NOTHING;
}

static void open_both(void) {
    struct qr_err err = {0};
    struct qr_link_event e;
    unsigned port = 0;
    char address[32];
    for (int i = 0; i < 2; i++) end[i] = qr_link_grpc_new(&qr_clock_monotonic, NULL);
    CHECK(end[1]->ops->listen(end[1], "127.0.0.1:0", &port, &err) == QR_OK, "%s", err.msg);
    snprintf(address, sizeof address, "127.0.0.1:%u", port);
    end[0]->ops->dial(end[0], 1, address);
    for (int k = 0; k < 3000 && !(conn[0] && conn[1]); k++)
        for (int i = 0; i < 2; i++)
            if (poll_end(i, &e) && e.kind == QR_LINK_UP) conn[i] = e.conn;
    CHECK(conn[0] && conn[1]);
}

/* Sends a message from one end to the other. Returns the number of pieces it arrived in; 0: it
 * differs from the one sent. */
static size_t pass(int from, size_t n) {
    uint8_t head[40];
    memset(head, (int)n, sizeof head);
    CHECK(end[from]->ops->send(end[from], conn[from], qr_bytes_of(head, sizeof head),
                               qr_bytes_of(body, n)));
    size_t pieces = 0;
    struct qr_link_event e;
    for (int k = 0; k < 3000 && pieces == 0; k++) {
        poll_end(from, &e);
        if (!poll_end(!from, &e) || e.kind != QR_LINK_MESSAGE) continue;
        struct qr_pieces m = e.pieces.n_pieces ? e.pieces : qr_pieces_of(&e.message);
        bool intact = m.n == sizeof head + n && e.message.n == m.n &&
                      (e.message.p == NULL) == (e.pieces.n_pieces > 0);
        intact = intact && qr_pieces_copy(m, LARGEST, copy) == m.n &&
                 memcmp(copy, head, sizeof head) == 0 && memcmp(copy + sizeof head, body, n) == 0;
        pieces = m.n_pieces;
        if (!intact) return 0;
    }
    while (end[from]->ops->unreleased(end[from])) poll_end(from, &e);
    return pieces;
}

static void test_sizes(bool in_pieces) {
    static const size_t sizes[] = {0,     1,         100,         16 << 10, (16 << 10) + 1,
                                   65535, 256 << 10, LARGEST - 40};
    size_t most = 0;
    for (int from = 0; from < 2; from++)
        for (size_t k = 0; k < sizeof sizes / sizeof *sizes; k++) {
            size_t pieces = pass(from, sizes[k]);
            CHECK(pieces > 0 && (in_pieces || pieces == 1), "%zu bytes arrived in %zu pieces",
                  sizes[k], pieces);
            if (pieces > most) most = pieces;
        }
    CHECK((most > 1) == in_pieces, "a long message arrives in several pieces only with in_pieces");
}

/* The first bytes of a message whose pieces end within them. */
static void test_head(void) {
    const struct qr_bytes p[] = {{body, 3}, {NULL, 0}, {body + 3, 1}, {body + 4, 9}};
    uint8_t got[32];
    for (size_t n = 0; n <= 20; n++) {
        memset(got, 0, sizeof got);
        size_t want = n < 13 ? n : 13;
        CHECK(qr_pieces_copy((struct qr_pieces){p, 4, 13}, n, got) == want &&
                  memcmp(got, body, want) == 0 && got[want] == 0,
              "%zu", n);
    }
}

/* Busy polling keeps timeouts and wake-ups. */
static void test_busy_polling(void) {
    struct qr_link_event e;
    for (int i = 0; i < 2; i++) end[i]->look_ns = 20 * QR_MS;
    for (int k = 0; k < 20; k++) CHECK(pass(k % 2, 300) == 1);
    int64_t start_ns = now_ns();
    end[0]->ops->poll(end[0], start_ns + 60 * QR_MS, &e);
    CHECK(e.kind == QR_LINK_NOTHING && now_ns() >= start_ns + 60 * QR_MS,
          "it returned after %lld ms", (long long)((now_ns() - start_ns) / QR_MS));
    end[0]->ops->wake(end[0]);
    end[0]->ops->poll(end[0], now_ns() + 10 * QR_SECOND, &e);
    CHECK(e.kind == QR_LINK_WOKEN);
    for (int i = 0; i < 2; i++) end[i]->look_ns = 0;
}

/* A connection that is paused after a message delivers no other one until it is resumed. */
static void test_pause(void) {
    uint8_t head[8] = {0};
    struct qr_link_event e;
    unsigned got = 0;
    for (int k = 0; k < 3; k++)
        CHECK(end[0]->ops->send(end[0], conn[0], qr_bytes_of(head, sizeof head),
                                qr_bytes_of(body, 100)));
    for (int k = 0; k < 200; k++) {
        poll_end(0, &e);
        if (!poll_end(1, &e) || e.kind != QR_LINK_MESSAGE) continue;
        got++;
        end[1]->ops->pause(end[1], conn[1], true);
    }
    CHECK(got == 1, "%u arrived", got);
    end[1]->ops->pause(end[1], conn[1], false);
    for (int k = 0; k < 3000 && got < 3; k++)
        if (poll_end(1, &e) && e.kind == QR_LINK_MESSAGE) got++;
    CHECK(got == 3, "%u arrived", got);
}

int main(void) {
    setenv("GRPC_POLL_STRATEGY", "poll", 1);
    body = qr_xmalloc(LARGEST);
    copy = qr_xmalloc(LARGEST);
    for (size_t i = 0; i < LARGEST; i++) body[i] = (uint8_t)(i * i >> 3 ^ i);
    open_both();
    test_head();
    test_sizes(false);
    for (int i = 0; i < 2; i++) end[i]->in_pieces = true;
    test_sizes(true);
    test_busy_polling();
    test_pause();
    for (int i = 0; i < 2; i++) end[i]->ops->free(end[i]);
    free(body);
    free(copy);
    return t_end();
}
