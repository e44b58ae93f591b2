/* The gRPC link for an owner who takes messages in pieces, and who would rather look than sleep. */
#include "base/clock.h"
#include "base/mem.h"
#include "link/link_grpc.h"
#include "tests/t.h"

enum { LARGEST = QR_LINK_MAX_MESSAGE };
static struct qr_link *end[2]; /* 0 has dialed 1 */
static uint32_t conn[2];
static uint8_t *body, *copy;

static int64_t now_ns(void) { return qr_now_ns(&qr_clock_monotonic); }

static bool turn(int i, struct qr_link_event *e) {
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
            if (turn(i, &e) && e.kind == QR_LINK_UP) conn[i] = e.conn;
    CHECK(conn[0] && conn[1]);
}

/* One message from one end to the other; how many pieces it came in, 0: not as it was sent. */
static size_t pass(int from, size_t n) {
    uint8_t head[40];
    memset(head, (int)n, sizeof head);
    CHECK(end[from]->ops->send(end[from], conn[from], qr_bytes_of(head, sizeof head),
                               qr_bytes_of(body, n)));
    size_t pieces = 0;
    struct qr_link_event e;
    for (int k = 0; k < 3000 && pieces == 0; k++) {
        turn(from, &e);
        if (!turn(!from, &e) || e.kind != QR_LINK_MESSAGE) continue;
        struct qr_pieces m = e.pieces.n_pieces ? e.pieces : qr_pieces_of(&e.message);
        bool well = m.n == sizeof head + n && e.message.n == m.n &&
                    (e.message.p == NULL) == (e.pieces.n_pieces > 0);
        well = well && qr_pieces_copy(m, LARGEST, copy) == m.n &&
               memcmp(copy, head, sizeof head) == 0 && memcmp(copy + sizeof head, body, n) == 0;
        pieces = m.n_pieces;
        if (!well) return 0;
    }
    while (end[from]->ops->unreleased(end[from])) turn(from, &e);
    return pieces;
}

static void test_sizes(bool in_pieces) {
    static const size_t sizes[] = {0,     1,         100,         16 << 10, (16 << 10) + 1,
                                   65535, 256 << 10, LARGEST - 40};
    size_t most = 0;
    for (int from = 0; from < 2; from++)
        for (size_t k = 0; k < sizeof sizes / sizeof *sizes; k++) {
            size_t pieces = pass(from, sizes[k]);
            CHECK(pieces > 0 && (in_pieces || pieces == 1), "%zu bytes came in %zu pieces",
                  sizes[k], pieces);
            if (pieces > most) most = pieces;
        }
    CHECK((most > 1) == in_pieces,
          "a long message comes in several pieces, for those who take them so");
}

/* The first bytes of a message that is cut in the middle of them. */
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

/* Who looks comes back in time all the same, and is woken all the same. */
static void test_look(void) {
    struct qr_link_event e;
    for (int i = 0; i < 2; i++) end[i]->look_ns = 20 * QR_MS;
    for (int k = 0; k < 20; k++) CHECK(pass(k % 2, 300) == 1);
    int64_t start_ns = now_ns();
    end[0]->ops->poll(end[0], start_ns + 60 * QR_MS, &e);
    CHECK(e.kind == QR_LINK_NOTHING && now_ns() >= start_ns + 60 * QR_MS,
          "it came back after %lld ms", (long long)((now_ns() - start_ns) / QR_MS));
    end[0]->ops->wake(end[0]);
    end[0]->ops->poll(end[0], now_ns() + 10 * QR_SECOND, &e);
    CHECK(e.kind == QR_LINK_WOKEN);
    for (int i = 0; i < 2; i++) end[i]->look_ns = 0;
}

/* Paused while it works a message in: the next one waits. */
static void test_pause(void) {
    uint8_t head[8] = {0};
    struct qr_link_event e;
    unsigned got = 0;
    for (int k = 0; k < 3; k++)
        CHECK(end[0]->ops->send(end[0], conn[0], qr_bytes_of(head, sizeof head),
                                qr_bytes_of(body, 100)));
    for (int k = 0; k < 200; k++) {
        turn(0, &e);
        if (!turn(1, &e) || e.kind != QR_LINK_MESSAGE) continue;
        got++;
        end[1]->ops->pause(end[1], conn[1], true);
    }
    CHECK(got == 1, "%u came", got);
    end[1]->ops->pause(end[1], conn[1], false);
    for (int k = 0; k < 3000 && got < 3; k++)
        if (turn(1, &e) && e.kind == QR_LINK_MESSAGE) got++;
    CHECK(got == 3, "%u came", got);
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
    test_look();
    test_pause();
    for (int i = 0; i < 2; i++) end[i]->ops->free(end[i]);
    free(body);
    free(copy);
    return t_end();
}
