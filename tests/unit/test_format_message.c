/* format/message: every kind encoded and decoded, limits in both directions, malformed bytes. */
#include "base/ip.h"
#include "base/mem.h"
#include "base/text.h"
#include "format/message.h"
#include "tests/t.h"

static struct qr_message in, out;
static struct qr_buf buf;
static struct qr_err err;

static struct qr_gen_id id_of(uint64_t n, uint32_t index, uint8_t fill) {
    struct qr_gen_id id = {.number = n, .index = index};
    memset(id.incarnation, fill, sizeof id.incarnation);
    return id;
}
static void fill_hello(void) {
    memset(&in, 0, sizeof in);
    in.kind = QR_MESSAGE_HELLO;
    struct qr_hello *h = &in.hello;
    h->protocol_min = 1, h->protocol_max = 3;
    strcpy(h->contract, "f32-v1");
    strcpy(h->run, "qcnn \xc3\xa9");
    h->index = 63;
    memset(h->incarnation, 7, 16);
    memset(h->job_hash, 9, 32);
    for (h->n_fields = 0; h->n_fields < QR_MESSAGE_MAX_FIELDS; h->n_fields++) {
        snprintf(h->field[h->n_fields].name, sizeof h->field[0].name, "field.%u", h->n_fields);
        h->field[h->n_fields].digest = UINT64_MAX - h->n_fields;
    }
    h->committed_reductions = 12, h->phase = QR_PHASE_MEMBER, h->leader = true;
    h->generation = id_of(5, 2, 3);
    h->highest_number = 77, h->data_port = h->control_port = 65535, h->server = true;
    memset(h->address, 'a', sizeof h->address - 1);
    for (h->n_heard = 0; h->n_heard < 64; h->n_heard++) h->heard[h->n_heard].index = h->n_heard;
}
static void fill_begin(void) { /* the largest message */
    memset(&in, 0, sizeof in);
    in.kind = QR_MESSAGE_BEGIN;
    struct qr_begin *b = &in.begin;
    b->id = id_of((UINT64_C(1) << 62) - 1, 63, 255);
    b->base_reductions = UINT64_MAX;
    for (b->n_members = 0; b->n_members < 64; b->n_members++) {
        struct qr_begin_member *m = &b->member[b->n_members];
        m->name.index = b->n_members;
        memset(m->name.incarnation, 200, 16);
        m->data_port = 65535, m->holder = m->keep = true, m->server = b->n_members < 63;
        for (m->n_kept = 0; m->n_kept < QR_MESSAGE_MAX_RUNS; m->n_kept++)
            m->kept[m->n_kept] = (struct qr_run){(UINT64_C(1) << 39) + m->n_kept, 1 << 18, 1 << 20};
    }
    b->common = (struct qr_common){UINT64_C(1) << 53, 4, 64, UINT64_MAX};
    b->ring_age_ms = QR_MESSAGE_MAX_AGE_MS;
}
static void fill_addresses(void) {
    memset(&in, 0, sizeof in);
    in.kind = QR_MESSAGE_ADDRESSES;
    struct qr_addresses *a = &in.addresses;
    for (a->n = 0; a->n < 64; a->n++) {
        a->name[a->n].index = a->n;
        memset(a->name[a->n].incarnation, (int)a->n, 16);
        snprintf(a->at[a->n], sizeof a->at[a->n], "%s",
                 a->n % 2 ? "[fd00:1111:2222:3333:4444:5555:6666:7777]:65535" : "10.0.0.7:2222");
    }
}
static bool round_trip(void) {
    qr_buf_clear(&buf);
    memset(&out, 0, sizeof out);
    if (qr_message_encode(&in, &buf, &err) != QR_OK) return false;
    return qr_message_decode(qr_buf_view(&buf), &out, &err) == QR_OK;
}

static void test_kinds(void) {
    fill_hello();
    CHECK(round_trip() && memcmp(&in, &out, sizeof in.kind + sizeof in.hello) == 0, "%s", err.msg);
    fill_begin();
    CHECK(round_trip() && memcmp(&in, &out, sizeof in) == 0, "%s", err.msg);
    printf("the largest message: %zu bytes\n", buf.n);
    fill_addresses();
    CHECK(round_trip() && memcmp(&in, &out, sizeof in.kind + sizeof in.addresses) == 0, "%s",
          err.msg);
    memset(&in, 0, sizeof in);
    in.kind = QR_MESSAGE_HEARTBEAT;
    in.heartbeat = (struct qr_heartbeat){.sequence = 9,
                                         .promised = id_of(4, 1, 1),
                                         .highest_number = 8,
                                         .refusals = 1,
                                         .applied_reductions = 3,
                                         .committed_reductions = 2,
                                         .phase = QR_PHASE_DONE,
                                         .form_expired = true,
                                         .trainer_turns = 99,
                                         .expected_micro_batch_ms = 20,
                                         .n_heard = 1,
                                         .heard = {{.index = 5}},
                                         .polled_ms = 700,
                                         .no_data = 1ull << 63,
                                         .interval_ms = QR_MESSAGE_MAX_INTERVAL_MS,
                                         .common = {3, 2, 1, 9}};
    CHECK(round_trip() && memcmp(&in, &out, sizeof in) == 0);
    memset(&in, 0, sizeof in);
    in.kind = QR_MESSAGE_PROMISE;
    in.promise = (struct qr_promise){.id = id_of(4, 1, 1),
                                     .held = {.applied_reductions = 7,
                                              .committed_reductions = 6,
                                              .base_reductions = 7,
                                              .n_runs = 1,
                                              .run = {{1, 2, 3}}},
                                     .common = {600, 4, 2, 1},
                                     .ring_age_ms = 77};
    memset(in.promise.held.digest, 4, 16);
    CHECK(round_trip() && memcmp(&in, &out, sizeof in) == 0);
    in.promise.held = (struct qr_held){.stateless = true};
    CHECK(round_trip() && memcmp(&in, &out, sizeof in) == 0);
    memset(&in, 0, sizeof in);
    in.kind = QR_MESSAGE_GOODBYE;
    in.goodbye = (struct qr_goodbye){
        .why = QR_GOODBYE_REFUSED, .code = QR_UNAVAILABLE, .text = "worker 3 is lost"};
    CHECK(round_trip() && memcmp(&in, &out, sizeof in) == 0);
    for (int k = QR_MESSAGE_FIELD; k <= QR_MESSAGE_DONE; k++) { /* the kinds with small messages */
        if (k == QR_MESSAGE_BEGIN || k == QR_MESSAGE_HEARTBEAT || k == QR_MESSAGE_PROMISE) continue;
        memset(&in, 0, sizeof in);
        in.kind = (enum qr_message_kind)k;
        if (k == QR_MESSAGE_FIELD)
            in.field =
                (struct qr_field_text){.name = "train.batch_size", .value = "64", .absent = true};
        if (k == QR_MESSAGE_PROPOSE)
            in.propose = (struct qr_propose){
                .id = id_of(1, 0, 1), .n_members = 2, .member = {{.index = 0}, {.index = 9}}};
        if (k == QR_MESSAGE_BUSY)
            in.busy =
                (struct qr_busy){.id = id_of(1, 0, 1), .highest_number = 5, .why = "promised"};
        if (k == QR_MESSAGE_DONE) in.done = (struct qr_done){.code = QR_DATA_LOSS, .text = "no"};
        CHECK(round_trip() && memcmp(&in, &out, sizeof in) == 0, "%s: %s",
              qr_message_kind_name((enum qr_message_kind)k), err.msg);
    }
}
static void check_encode_rejected(const char *words) {
    qr_buf_clear(&buf);
    CHECK(qr_message_encode(&in, &buf, &err) == QR_INVALID_ARGUMENT && strstr(err.msg, words),
          "%s: %s", words, err.msg);
}
static void test_encode_limits(void) {
    fill_hello(), in.hello.n_heard = 65, check_encode_rejected("members heard");
    fill_hello(), in.hello.heard[3].index = 2, check_encode_rejected("members heard");
    fill_hello(), strcpy(in.hello.run, "a\nb"), check_encode_rejected("run");
    fill_hello(), in.hello.index = 64, check_encode_rejected("index");
    fill_begin(), in.begin.member[2].kept[1].count = 0,
                  check_encode_rejected("runs of micro-batches");
    fill_begin(), in.begin.id.number = UINT64_C(1) << 62, check_encode_rejected("generation id");
    fill_begin(), in.begin.ring_age_ms++, check_encode_rejected("the ring's age");
    fill_begin(), in.begin.common.epochs = 0, check_encode_rejected("settings in common");
    fill_begin(), in.begin.common.allreduce = 5, check_encode_rejected("settings in common");
    fill_begin(), in.begin.common.min_workers = 65, check_encode_rejected("settings in common");
    fill_begin(), in.begin.common.epochs++, check_encode_rejected("settings in common");
    in.kind = QR_MESSAGE_HEARTBEAT;
    in.heartbeat = (struct qr_heartbeat){.interval_ms = QR_MESSAGE_MAX_INTERVAL_MS + 1};
    check_encode_rejected("heartbeats' interval");
    fill_addresses(), in.addresses.n = 65, check_encode_rejected("addresses");
    in.addresses.n = 0, check_encode_rejected("addresses");
    fill_addresses(), strcpy(in.addresses.at[5], "localhost:22"),
        check_encode_rejected("addresses");
    fill_addresses(), in.addresses.name[5].index = 4, check_encode_rejected("addresses");
    in.kind = (enum qr_message_kind)0, check_encode_rejected("unknown message kind 0");
}
static void check_malformed(const char *bytes, size_t n, const char *words) {
    CHECK(qr_message_decode(qr_bytes_of(bytes, n), &out, &err) == QR_DATA_LOSS &&
              strstr(err.msg, words),
          "%s: %s", words, err.msg);
}
#define CHECK_MALFORMED(bytes, words) check_malformed(bytes, sizeof(bytes) - 1, words)
static void test_decode_limits(void) {
    CHECK_MALFORMED("", "unknown kind");
    CHECK_MALFORMED("\x42\x04\x08\x63\x12\x00", "code: unknown value 99");
    CHECK_MALFORMED("\x42\x07\x12\x05"
                    "ab\xff"
                    "cd",
                    "not UTF-8 text");
    CHECK_MALFORMED("\x22\x00", "id: missing");
    CHECK_MALFORMED("\x0a\x04\x08\x03\x10\x02", "protocol: invalid range 3 to 2");
    CHECK_MALFORMED("\x0a\x02\x28\x40", "index 64");
    CHECK_MALFORMED("\x4a\x02\x08\x09", "why: unknown value 9");
    CHECK_MALFORMED("\x1a\x02\x12\x00", "incarnation: 0 bytes");
    /* A heartbeat whose settings have epochs only. */
    CHECK_MALFORMED("\x1a\x17\x12\x10"
                    "0123456789abcdef"
                    "\xa2\x01\x02\x08\x05",
                    "settings in common: out of range");
    CHECK_MALFORMED("\x1a\x16\x12\x10"
                    "0123456789abcdef"
                    "\x90\x01\x91\x4e",
                    "heartbeats' interval: out of range");
    CHECK_MALFORMED("\xff\xff\xff", "not a protobuf message");
    CHECK_MALFORMED("\x72\x01x", "unknown kind");
    char *big = qr_xcalloc(1, 70000);
    check_malformed(big, 70000, "the limit of 65536");
    /* 32768 unknown fields, which would take 50 times their size in memory. */
    for (size_t i = 0; i + 1 < 65536; i += 2) big[i] = 0x50, big[i + 1] = 1;
    check_malformed(big, 65536, "mostly unknown");
    free(big);
    fill_begin();
    for (int k = 0; k < 64; k++) in.begin.member[k].server = true;
    CHECK(!round_trip() && strstr(err.msg, "none computes"), "%s", err.msg);
    fill_hello(); /* every prefix of a valid message is rejected */
    round_trip();
    unsigned good = 0;
    for (size_t n = 0; n < buf.n; n += 7)
        good += qr_message_decode(qr_bytes_of(buf.p, n), &out, &err) == QR_OK;
    CHECK(good == 0, "%u", good);
}
/* Addresses that are passed on are IP addresses that mean the same on other machines, with a
 * port. */
static void test_addresses(void) {
    static const char *const good[] = {"10.77.0.10:2222", "[fd00::1]:2222", "1.2.3.4:1",
                                       "[2001:db8::ffff]:65535"};
    static const char *const bad[] = {"",
                                      ":2222",
                                      "10.0.0.7",
                                      "10.0.0.7:",
                                      "10.0.0.7:0",
                                      "worker:22",
                                      "10.0.0.7:65536",
                                      "127.0.0.1:2222",
                                      "[::1]:2222",
                                      "0.0.0.0:2222",
                                      "[::]:2222",
                                      "224.0.0.1:2222",
                                      "[ff02::1]:2222",
                                      "[10.0.0.7]:2222",
                                      "fd00::1:2222",
                                      "10.0.0:222",
                                      "[fd00::1:2222",
                                      "10.0.0.7:22 22",
                                      "[fe80::1%eth0]:22",
                                      "[fe80::1]:22",
                                      "169.254.7.7:2222",
                                      "10.0.0.7:0002222",
                                      "[]:2222",
                                      "[::ffff:127.0.0.1]:2222"};
    for (size_t i = 0; i < sizeof good / sizeof *good; i++)
        CHECK(qr_ip_port_ok(good[i]), "%s", good[i]);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        CHECK(!qr_ip_port_ok(bad[i]), "%s", bad[i]);
    /* index 1, incarnation, "localhost:22" */
    CHECK_MALFORMED("\x52\x22\x0a\x12\x12\x10"
                    "0123456789abcdef"
                    "\x12\x0clocalhost:22",
                    "addresses: localhost:22 cannot be used");
    CHECK_MALFORMED("\x52\x00", "addresses: 0 for 0");
}
static void test_text(void) {
    char t[12];
    qr_text_cut(t, sizeof t, "hello");
    CHECK(strcmp(t, "hello") == 0);
    qr_text_cut(t, sizeof t, "hello wo\xc3\xa9rld");
    CHECK(strcmp(t, "hello wo...") == 0, "%s", t);
    qr_text_cut(t, sizeof t, "a\nb\xff");
    CHECK(strcmp(t, "a b?") == 0, "%s", t);
    static const struct {
        double x;
        const char *text;
    } numbers[] = {{0, "0"},
                   {0.5, "0.5"},
                   {0.98333333333333328, "0.983333"},
                   {1e-3, "0.001"},
                   {9.99e-4, "9.99e-04"},
                   {-0.00012345678, "-1.23457e-04"},
                   {1e-10, "1e-10"},
                   {-4.75158, "-4.75158"},
                   {0.00099999999, "1e-03"},
                   {1234567, "1.23457e+06"}};
    for (size_t i = 0; i < COUNT(numbers); i++)
        CHECK(strcmp(qr_text_number(numbers[i].x).s, numbers[i].text) == 0, "%s, not %s",
              qr_text_number(numbers[i].x).s, numbers[i].text);
    struct qr_gen_id a = id_of(1, 2, 3), b = id_of(1, 2, 4), c = id_of(1, 3, 0), d = id_of(2, 0, 0);
    CHECK(qr_gen_id_compare(&a, &b) < 0 && qr_gen_id_compare(&b, &c) < 0 &&
          qr_gen_id_compare(&c, &d) < 0 && qr_gen_id_compare(&d, &d) == 0);
}
int main(void) {
    test_kinds();
    test_encode_limits();
    test_decode_limits();
    test_addresses();
    test_text();
    qr_buf_free(&buf);
    return t_end();
}
