/* The same cases for every implementation of the link (link/link.h), because a difference between
 * implementations would show only in production. One thread polls all links of a case in turn, 1 ms
 * each, so that every implementation can be driven, including the simulated one. */
#include "base/mem.h"
#include "link/link_grpc.h"
#include "tests/conform/link_forms.h"
#include "tests/support/link_memory.h"
#include "tests/support/link_simulated.h"
#include "tests/t.h"
#include "tests/tls.h"

#ifdef __SANITIZE_ADDRESS__
/* c-ares of Debian 12 leaks the name that it looks up in /etc/hosts. */
__attribute__((visibility("default"))) const char *__lsan_default_suppressions(void);
const char *__lsan_default_suppressions(void) { return "leak:libcares.so"; }
#endif

enum { LINKS = 3, CONNS = 16 };
struct seen {
    struct qr_link *l;
    uint32_t conn; /* the latest UP */
    unsigned ups, downs, messages, woken, after_down;
    uint32_t last_tag;
    bool last_outgoing;
    uint32_t down[CONNS];     /* connection numbers that went down */
    uint64_t bytes, in_order; /* in_order: messages whose first word was the expected number */
    uint64_t bad;             /* messages whose content is not the pattern */
    char reason[160];
};
struct bench {
    const struct link_form *form;
    void *ctx;
    struct seen s[LINKS];
};

/* Message i of n bytes: its number, then a pattern that depends on both. */
static void fill_pattern(uint8_t *p, size_t n, uint32_t number) {
    for (size_t i = 0; i < n; i++) p[i] = (uint8_t)(i * 7 + number * 13 + (i >> 8));
    if (n >= 4) qr_set_u32le(p, number);
}
static bool matches(struct qr_bytes m, uint32_t number) {
    if (m.n < 4 || qr_get_u32le(m.p) != number) return false;
    for (size_t i = 4; i < m.n; i++)
        if (m.p[i] != (uint8_t)(i * 7 + number * 13 + (i >> 8))) return false;
    return true;
}

static void record_event(struct seen *s, const struct qr_link_event *e) {
    if (e->kind == QR_LINK_NOTHING) return;
    if (e->kind == QR_LINK_WOKEN) {
        s->woken++;
        return;
    }
    for (unsigned i = 0; i < s->downs && i < CONNS; i++)
        if (s->down[i] == e->conn) s->after_down++;
    if (e->kind == QR_LINK_UP)
        s->ups++, s->conn = e->conn, s->last_tag = e->tag, s->last_outgoing = e->outgoing;
    if (e->kind == QR_LINK_DOWN) {
        if (s->downs < CONNS) s->down[s->downs] = e->conn;
        s->downs++;
        memcpy(s->reason, e->reason, sizeof s->reason);
    }
    if (e->kind == QR_LINK_MESSAGE) {
        if (matches(e->message, s->messages)) s->in_order++;
        else s->bad++;
        s->messages++, s->bytes += e->message.n;
    }
}
static int64_t now(struct bench *b) { return b->form->now_ns(b->ctx); }
/* Polls every link until *counter reaches want; false after limit_ms. */
static bool poll_until(struct bench *b, const unsigned *counter, unsigned want, int limit_ms) {
    int64_t end = now(b) + (int64_t)limit_ms * QR_MS;
    while (*counter < want) {
        if (now(b) > end) return false;
        for (int i = 0; i < LINKS; i++) {
            struct qr_link_event e;
            if (!b->s[i].l) continue;
            b->s[i].l->ops->poll(b->s[i].l, now(b) + QR_MS, &e);
            record_event(&b->s[i], &e);
        }
    }
    return true;
}
static void run_for(struct bench *b, int ms) {
    unsigned never = 0;
    (void)poll_until(b, &never, 1, ms);
}
static void open_bench(struct bench *b, const struct link_form *form, int n) {
    *b = (struct bench){.form = form};
    b->ctx = form->start();
    for (int i = 0; i < n; i++) b->s[i].l = form->make(b->ctx);
}
static void drop_link(struct bench *b, int i) {
    if (b->s[i].l) b->s[i].l->ops->free(b->s[i].l);
    b->s[i].l = NULL;
}
static void close_bench(struct bench *b) {
    for (int i = 0; i < LINKS; i++) {
        CHECK(b->s[i].after_down == 0, "%s link %d: %u events after DOWN", b->form->name, i,
              b->s[i].after_down);
        drop_link(b, i);
    }
    b->form->stop(b->ctx);
}
static unsigned listen_on(struct bench *b, int i, unsigned port, char *ret_address) {
    struct qr_err err = {0};
    char at[64];
    unsigned bound = 0;
    snprintf(at, sizeof at, "%s:%u", b->form->host, port);
    enum qr_code code = b->s[i].l->ops->listen(b->s[i].l, at, &bound, &err);
    CHECK(code == QR_OK && bound > 0, "%s: %s", b->form->name, err.msg);
    snprintf(ret_address, 64, "%s:%u", b->form->host, bound);
    return bound;
}
/* Links 0 (listens) and 1 (dials with tag 77), connected. */
static void connect_pair(struct bench *b) {
    char at[64];
    listen_on(b, 0, 0, at);
    b->s[1].l->ops->dial(b->s[1].l, 77, at);
    CHECK(poll_until(b, &b->s[1].ups, 1, 5000), "%s", b->form->name);
    CHECK(poll_until(b, &b->s[0].ups, 1, 5000), "%s", b->form->name);
}
static bool send_number(struct bench *b, int i, uint32_t number, const uint8_t *bytes,
                        size_t n_head, size_t n) {
    (void)number;
    return b->s[i].l->ops->send(b->s[i].l, b->s[i].conn, qr_bytes_of(bytes, n_head),
                                qr_bytes_of(bytes + n_head, n - n_head));
}

static void case_up(const struct link_form *form) {
    struct bench b;
    open_bench(&b, form, 2);
    connect_pair(&b);
    CHECK(b.s[1].last_outgoing && b.s[1].last_tag == 77, "%s", form->name);
    CHECK(!b.s[0].last_outgoing, "%s", form->name);
    CHECK(b.s[0].ups == 1 && b.s[1].ups == 1 && b.s[0].downs == 0 && b.s[1].downs == 0, "%s",
          form->name);
    close_bench(&b);
}

static void case_order_both_ways(const struct link_form *form) {
    enum { MANY = 300, BYTES = 5000 };
    struct bench b;
    open_bench(&b, form, 2);
    connect_pair(&b);
    static uint8_t bytes[2][MANY][BYTES];
    unsigned sent[2] = {0, 0}, rounds = 0;
    while ((b.s[0].messages < MANY || b.s[1].messages < MANY) && rounds++ < 20000) {
        for (int i = 0; i < 2; i++)
            while (sent[i] < MANY) {
                size_t n = 4 + sent[i] % (BYTES - 4), head = sent[i] % 3 == 0   ? n
                                                             : sent[i] % 3 == 1 ? 4
                                                                                : n / 2;
                fill_pattern(bytes[i][sent[i]], n, sent[i]);
                if (!send_number(&b, i, sent[i], bytes[i][sent[i]], head, n)) break;
                sent[i]++;
            }
        run_for(&b, 1);
    }
    for (int i = 0; i < 2; i++) {
        CHECK(b.s[i].messages == MANY && b.s[i].in_order == MANY && b.s[i].bad == 0,
              "%s: %u messages, %llu in order, %llu bad", form->name, b.s[i].messages,
              (unsigned long long)b.s[i].in_order, (unsigned long long)b.s[i].bad);
        for (int k = 0; k < 2000 && b.s[i].l->ops->unreleased(b.s[i].l); k++) run_for(&b, 1);
        CHECK(b.s[i].l->ops->unreleased(b.s[i].l) == 0, "%s", form->name);
    }
    close_bench(&b);
}

static void case_large(const struct link_form *form) {
    struct bench b;
    open_bench(&b, form, 2);
    connect_pair(&b);
    uint8_t *big = qr_xmalloc(QR_LINK_MAX_MESSAGE);
    fill_pattern(big, QR_LINK_MAX_MESSAGE, 0);
    CHECK(send_number(&b, 1, 0, big, 64, QR_LINK_MAX_MESSAGE), "%s", form->name);
    CHECK(poll_until(&b, &b.s[0].messages, 1, 5000), "%s", form->name);
    CHECK(b.s[0].bad == 0 && b.s[0].bytes == QR_LINK_MAX_MESSAGE, "%s", form->name);
    for (int k = 0; k < 2000 && b.s[1].l->ops->unreleased(b.s[1].l); k++) run_for(&b, 1);
    CHECK(b.s[1].l->ops->unreleased(b.s[1].l) == 0, "%s", form->name);
    uint8_t one = 1;
    CHECK(!b.s[1].l->ops->send(b.s[1].l, b.s[1].conn, qr_bytes_of(&one, 1),
                               qr_bytes_of(big, QR_LINK_MAX_MESSAGE)),
          "%s: one byte too many", form->name);
    CHECK(!b.s[1].l->ops->send(b.s[1].l, b.s[1].conn + 999, qr_bytes_of(&one, 1),
                               (struct qr_bytes){0}),
          "%s: no such connection", form->name);
    close_bench(&b);
    free(big);
}

static void case_peer_closes(const struct link_form *form) {
    struct bench b;
    open_bench(&b, form, 2);
    connect_pair(&b);
    uint8_t bytes[5][64];
    uint32_t old = b.s[1].conn;
    for (uint32_t i = 0; i < 5; i++) {
        fill_pattern(bytes[i], 64, i);
        CHECK(send_number(&b, 0, i, bytes[i], 64, 64), "%s", form->name);
    }
    b.s[0].l->ops->close_conn(b.s[0].l, b.s[0].conn); /* messages that were sent still arrive */
    CHECK(poll_until(&b, &b.s[1].downs, 1, 3000), "%s", form->name);
    CHECK(b.s[1].messages == 5 && b.s[1].in_order == 5, "%s: %u arrived", form->name,
          b.s[1].messages);
    CHECK(b.s[1].reason[0] != 0, "%s: DOWN without a reason", form->name);
    CHECK(b.s[0].downs == 0, "%s: no DOWN at the end that closed", form->name);
    CHECK(!b.s[1].l->ops->send(b.s[1].l, old, qr_bytes_of(bytes[0], 64), (struct qr_bytes){0}),
          "%s: sent on a closed connection", form->name);
    /* Dialing continues: it connects again, with a new number. */
    CHECK(poll_until(&b, &b.s[1].ups, 2, 5000), "%s", form->name);
    CHECK(b.s[1].conn != old && b.s[1].last_tag == 77, "%s", form->name);
    CHECK(poll_until(&b, &b.s[0].ups, 2, 5000), "%s", form->name);
    /* The dialing side hangs up: DOWN at the other end, and no more dialing. */
    b.s[1].l->ops->hang_up(b.s[1].l, 77);
    CHECK(poll_until(&b, &b.s[0].downs, 1, 3000), "%s", form->name);
    run_for(&b, 200);
    CHECK(b.s[1].ups == 2 && b.s[0].ups == 2 && b.s[1].downs == 1, "%s", form->name);
    close_bench(&b);
}

static void case_dialed_too_early(const struct link_form *form) {
    struct bench b;
    char at[64];
    open_bench(&b, form, 3);
    unsigned port = listen_on(&b, 2, 0, at); /* a port that becomes free */
    drop_link(&b, 2);
    b.s[1].l->ops->dial(b.s[1].l, 5, at);
    run_for(&b, 1000);
    CHECK(b.s[1].ups == 0 && b.s[1].downs == 0, "%s", form->name);
    listen_on(&b, 0, port, at);
    CHECK(poll_until(&b, &b.s[1].ups, 1, 4000), "%s: not within 4 s", form->name);
    CHECK(poll_until(&b, &b.s[0].ups, 1, 1000), "%s", form->name);
    close_bench(&b);
}

static void case_port_in_use(const struct link_form *form) {
    struct bench b;
    struct qr_err err = {0};
    char at[64];
    unsigned port = 0;
    open_bench(&b, form, 2);
    listen_on(&b, 0, 0, at);
    enum qr_code code = b.s[1].l->ops->listen(b.s[1].l, at, &port, &err);
    CHECK(code == QR_ALREADY_EXISTS && strstr(err.msg, at) && port == 0, "%s: %s: %s", form->name,
          qr_code_name(code), err.msg);
    code = b.s[1].l->ops->listen(b.s[1].l, "no-port", &port, &err);
    CHECK(code == QR_INVALID_ARGUMENT && strstr(err.msg, "no-port"), "%s: %s: %s", form->name,
          qr_code_name(code), err.msg);
    close_bench(&b);
}

static void case_peer_gone_and_back(const struct link_form *form) {
    struct bench b;
    char at[64];
    open_bench(&b, form, 2);
    unsigned port = listen_on(&b, 0, 0, at);
    b.s[1].l->ops->dial(b.s[1].l, 9, at);
    CHECK(poll_until(&b, &b.s[1].ups, 1, 5000) && poll_until(&b, &b.s[0].ups, 1, 1000), "%s",
          form->name);
    uint32_t old = b.s[1].conn;
    drop_link(&b, 0);
    int64_t gone_ns = now(&b);
    CHECK(poll_until(&b, &b.s[1].downs, 1, 2000), "%s", form->name);
    CHECK(now(&b) - gone_ns < QR_SECOND, "%s: DOWN took %lld ms", form->name,
          (long long)((now(&b) - gone_ns) / QR_MS));
    run_for(&b, 150);
    b.s[0] = (struct seen){.l = form->make(b.ctx)};
    listen_on(&b, 0, port, at);
    CHECK(poll_until(&b, &b.s[1].ups, 2, 4000), "%s: not redialed", form->name);
    CHECK(b.s[1].conn != old && b.s[1].last_tag == 9, "%s", form->name);
    close_bench(&b);
}

static void case_back_pressure(const struct link_form *form) {
    enum { BYTES = 200000, TRIES = 4096 };
    struct bench b;
    open_bench(&b, form, 2);
    connect_pair(&b);
    static uint8_t bytes[BYTES];
    b.s[0].l->ops->pause(b.s[0].l, b.s[0].conn, true);
    unsigned sent = 0;
    /* Send the same bytes repeatedly: only their number is checked here. */
    for (unsigned i = 0; i < TRIES; i++) {
        if (!send_number(&b, 1, 0, bytes, 64, BYTES)) break;
        sent++;
        if (i % 64 == 63) run_for(&b, 5);
    }
    CHECK(sent < TRIES && sent >= 32, "%s: %u messages of 200 KB were taken for a paused reader",
          form->name, sent);
    CHECK(b.s[0].messages == 0, "%s: %u delivered while paused", form->name, b.s[0].messages);
    b.s[0].l->ops->pause(b.s[0].l, b.s[0].conn, false);
    CHECK(poll_until(&b, &b.s[0].messages, sent, 10000), "%s: %u of %u after resuming", form->name,
          b.s[0].messages, sent);
    CHECK(b.s[0].bytes == (uint64_t)sent * BYTES, "%s", form->name);
    for (int k = 0; k < 2000 && b.s[1].l->ops->unreleased(b.s[1].l); k++) run_for(&b, 1);
    CHECK(b.s[1].l->ops->unreleased(b.s[1].l) == 0, "%s", form->name);
    CHECK(send_number(&b, 1, 0, bytes, 64, BYTES), "%s: the queue has room again", form->name);
    close_bench(&b);
}

/* Bodies sent to a peer that disappears are released. */
static void case_released_when_gone(const struct link_form *form) {
    enum { BYTES = 300000 };
    struct bench b;
    open_bench(&b, form, 2);
    connect_pair(&b);
    static uint8_t bytes[BYTES];
    b.s[0].l->ops->pause(b.s[0].l, b.s[0].conn, true);
    for (int i = 0; i < 20; i++) CHECK(send_number(&b, 1, 0, bytes, 16, BYTES), "%s", form->name);
    run_for(&b, 50);
    if (!form->copies) CHECK(b.s[1].l->ops->unreleased(b.s[1].l) > 0, "%s", form->name);
    drop_link(&b, 0);
    CHECK(poll_until(&b, &b.s[1].downs, 1, 3000), "%s", form->name);
    for (int k = 0; k < 2000 && b.s[1].l->ops->unreleased(b.s[1].l); k++) run_for(&b, 1);
    CHECK(b.s[1].l->ops->unreleased(b.s[1].l) == 0, "%s: %zu still borrowed", form->name,
          b.s[1].l->ops->unreleased(b.s[1].l));
    close_bench(&b);
}

static void case_wake(const struct link_form *form) {
    struct bench b;
    open_bench(&b, form, 1);
    struct qr_link_event e;
    b.s[0].l->ops->wake(b.s[0].l);
    b.s[0].l->ops->wake(b.s[0].l); /* two before a poll may be one event */
    int64_t start = now(&b);
    b.s[0].l->ops->poll(b.s[0].l, start + 2 * QR_SECOND, &e);
    CHECK(e.kind == QR_LINK_WOKEN && now(&b) - start < QR_SECOND, "%s: kind %d", form->name,
          e.kind);
    int64_t again = now(&b);
    b.s[0].l->ops->poll(b.s[0].l, again + 20 * QR_MS, &e);
    if (e.kind == QR_LINK_WOKEN) b.s[0].l->ops->poll(b.s[0].l, again + 20 * QR_MS, &e);
    CHECK(e.kind == QR_LINK_NOTHING && now(&b) >= again + 20 * QR_MS,
          "%s: NOTHING comes at the deadline, not before", form->name);
    close_bench(&b);
}

/* Host names, both address families and wildcards: for gRPC only. */
static void test_names(const struct link_form *form) {
    static const struct {
        const char *listen, *dial;
    } pairs[] = {
        {"0.0.0.0:0", "localhost:%u"}, {"0.0.0.0:0", "127.0.0.1:%u"}, {"[::]:0", "127.0.0.1:%u"},
        {"[::1]:0", "[::1]:%u"},       {"0.0.0.0:0", "[::1]:%u"},
    };
    for (size_t i = 0; i < COUNT(pairs); i++) {
        struct bench b;
        struct qr_err err = {0};
        unsigned port = 0;
        char at[64];
        open_bench(&b, form, 2);
        enum qr_code code = b.s[0].l->ops->listen(b.s[0].l, pairs[i].listen, &port, &err);
        if (code == QR_OK) {
            const char *colon = strrchr(pairs[i].dial, ':');
            snprintf(at, sizeof at, "%.*s:%u", (int)(colon - pairs[i].dial), pairs[i].dial, port);
            b.s[1].l->ops->dial(b.s[1].l, 1, at);
            bool up = poll_until(&b, &b.s[1].ups, 1, pairs[i].dial[0] == '[' ? 1000 : 5000);
            if (!up && pairs[i].dial[0] == '[')
                SKIP("%s to %s: no IPv6 here?", at, pairs[i].listen);
            else CHECK(up, "%s to %s", at, pairs[i].listen);
        } else {
            SKIP("%s", err.msg);
        }
        close_bench(&b);
    }
}

/* An unknown name is not an error: it may be registered later. */
static void test_unknown_name(const struct link_form *form) {
    struct bench b;
    open_bench(&b, form, 1);
    b.s[0].l->ops->dial(b.s[0].l, 3, "no-such-name.invalid:2222");
    run_for(&b, 2500);
    CHECK(b.s[0].ups == 0 && b.s[0].downs == 0);
    b.s[0].l->ops->hang_up(b.s[0].l, 3);
    run_for(&b, 50);
    close_bench(&b);
}

static void *memory_start(void) { return qr_link_hub_new(); }
static struct qr_link *memory_make(void *ctx) { return qr_link_memory_new(ctx); }
static int64_t real_now(void *ctx) {
    (void)ctx;
    return qr_now_ns(&qr_clock_monotonic);
}
static void memory_stop(void *ctx) { qr_link_hub_free(ctx); }
static void *simulated_start(void) {
    struct qr_sim_net_options o = {.seed = 5};
    return qr_sim_net_new(&o);
}
static struct qr_link *simulated_make(void *ctx) { return qr_link_simulated_new(ctx); }
static int64_t simulated_now(void *ctx) { return qr_sim_net_now_ns(ctx); }
static void simulated_stop(void *ctx) { qr_sim_net_free(ctx); }
static void *grpc_start(void) { return NULL; }
static struct qr_link *grpc_make(void *ctx) {
    (void)ctx;
    return qr_link_grpc_new(&qr_clock_monotonic, NULL);
}
static void grpc_stop(void *ctx) { (void)ctx; }
struct tls_bench {
    struct tls_dir dir;
    struct qr_link_tls *tls;
};
static void *tls_start(void) {
    struct tls_bench *b = qr_xcalloc(1, sizeof *b);
    const struct qr_certificate_request order = tls_order("conform");
    struct qr_certificate_set set = tls_make(&order);
    b->dir = tls_dir_new();
    tls_dir_put(&b->dir, &set);
    b->tls = tls_open(&b->dir);
    qr_certificate_wipe(&set);
    return b;
}
static struct qr_link *tls_make_link(void *ctx) {
    return qr_link_grpc_new(&qr_clock_monotonic, ((struct tls_bench *)ctx)->tls);
}
static void tls_stop(void *ctx) {
    struct tls_bench *b = ctx;
    qr_link_tls_free(b->tls);
    tls_dir_free(&b->dir);
    free(b);
}

int main(void) {
    static const struct link_form forms[] = {
        {"memory", "host", memory_start, memory_make, real_now, memory_stop, false},
        {"simulated", "host", simulated_start, simulated_make, simulated_now, simulated_stop, true},
        {"gRPC", "127.0.0.1", grpc_start, grpc_make, real_now, grpc_stop, false},
        {"gRPC, TLS", "127.0.0.1", tls_start, tls_make_link, real_now, tls_stop, false},
    };
    static void (*const cases[])(const struct link_form *) = {
        case_up,
        case_order_both_ways,
        case_large,
        case_peer_closes,
        case_dialed_too_early,
        case_port_in_use,
        case_peer_gone_and_back,
        case_back_pressure,
        case_released_when_gone,
        case_wake,
    };
    setenv("GRPC_POLL_STRATEGY", "poll", 1);
    size_t n_forms = COUNT(forms);
    for (size_t f = 0; f < n_forms; f++)
        for (size_t c = 0; c < COUNT(cases); c++) cases[c](&forms[f]);
    if (n_forms == COUNT(forms))
        test_names(&forms[n_forms - 1]), test_unknown_name(&forms[n_forms - 1]);
    return t_end();
}
