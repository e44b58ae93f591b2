/* TFRecord framing and TensorBoard's events against bytes that TensorBoard's own library (2.21)
 * wrote, torn and damaged files, and our reader. */
#include "base/mem.h"
#include "format/event.h"
#include "format/tfrecord.h"
#include "tests/t.h"

static const char *hex_of(struct qr_bytes b) {
    static char text[4096];
    QR_ASSERT(2 * b.n < sizeof text);
    qr_hex(b.p, b.n, text);
    return text;
}

static void test_framing(void) {
    struct qr_buf b = {0};
    struct qr_bytes r = {0};
    struct qr_err err = {0};
    size_t at = 0;
    qr_tfrecord_put(&b, qr_bytes_of_string("hello"));
    CHECK(strcmp(hex_of(qr_buf_view(&b)), "0500000000000000eab2043e68656c6c6fbb1f1c19") == 0, "%s",
          hex_of(qr_buf_view(&b)));
    qr_tfrecord_put(&b, qr_bytes_of("", 0));
    CHECK(strcmp(hex_of(qr_bytes_of(b.p + 21, b.n - 21)), "000000000000000029039807d8ea82a2") == 0);
    CHECK(qr_tfrecord_next(qr_buf_view(&b), "f", 5, &at, &r, &err) == QR_TFRECORD_ONE && r.n == 5 &&
          memcmp(r.p, "hello", 5) == 0 && at == 21);
    CHECK(qr_tfrecord_next(qr_buf_view(&b), "f", 5, &at, &r, &err) == QR_TFRECORD_ONE && r.n == 0 &&
          at == b.n);
    CHECK(qr_tfrecord_next(qr_buf_view(&b), "f", 5, &at, &r, &err) == QR_TFRECORD_END && at == b.n);
    /* every cut inside a record is TORN, and moves nothing; every flipped bit is seen */
    for (size_t n = 1; n < 21; n++) {
        at = 0;
        CHECK(qr_tfrecord_next(qr_bytes_of(b.p, n), "f", 5, &at, &r, &err) == QR_TFRECORD_TORN &&
                  at == 0,
              "cut to %zu", n);
    }
    for (size_t bit = 0; bit < 21 * 8; bit++) {
        b.p[bit / 8] ^= (uint8_t)(1 << bit % 8);
        at = 0;
        CHECK(qr_tfrecord_next(qr_buf_view(&b), "f", 5, &at, &r, &err) == QR_TFRECORD_DAMAGED &&
                  at == 0 && err.code == QR_DATA_LOSS,
              "bit %zu", bit);
        b.p[bit / 8] ^= (uint8_t)(1 << bit % 8);
    }
    at = 0;
    CHECK(qr_tfrecord_next(qr_buf_view(&b), "logs/x", 4, &at, &r, &err) == QR_TFRECORD_DAMAGED);
    CHECK(strstr(err.msg, "logs/x") && strstr(err.msg, "5 bytes") &&
              strstr(err.msg, "the limit of 4"),
          "%s", err.msg);
    qr_buf_free(&b);
}

static void check_event(const struct qr_event *e, const char *want) {
    struct qr_buf b = {0};
    qr_event_encode(e, &b);
    CHECK(strcmp(hex_of(qr_buf_view(&b)), want) == 0, "%s\n  not %s", hex_of(qr_buf_view(&b)),
          want);
    struct qr_event back = {0};
    struct qr_err err = {0};
    CHECK(qr_event_decode(qr_buf_view(&b), &back, &err) == QR_OK, "%s", err.msg);
    CHECK(back.wall_time == e->wall_time && back.step == e->step &&
          back.session_start == e->session_start && back.n_values == e->n_values);
    CHECK(back.graph.n == e->graph.n &&
          (!e->graph.n || memcmp(back.graph.p, e->graph.p, e->graph.n) == 0));
    CHECK(!e->file_version ||
          (strcmp(back.file_version, e->file_version) == 0 && strcmp(back.writer, e->writer) == 0));
    for (size_t i = 0; i < back.n_values; i++) {
        const struct qr_event_value *v = &back.values[i], *w = &e->values[i];
        CHECK(strcmp(v->tag, w->tag) == 0 && strcmp(v->plugin, w->plugin) == 0 &&
              v->data_class == w->data_class && v->dtype == w->dtype);
        CHECK(v->rank == w->rank && memcmp(v->dims, w->dims, v->rank * sizeof *v->dims) == 0);
        CHECK(v->tensor.n == w->tensor.n && memcmp(v->tensor.p, w->tensor.p, v->tensor.n) == 0);
    }
    qr_event_free(&back);
    /* no cut of it is taken for the whole, or runs out of bounds */
    for (size_t n = 0; n < b.n; n++)
        if (qr_event_decode(qr_bytes_of(b.p, n), &back, &err) == QR_OK) qr_event_free(&back);
    qr_buf_free(&b);
}

static void test_events(void) {
    static const uint8_t quarter[4] = {0, 0, 0x80, 0x3e};
    uint8_t rows[48];
    const double numbers[6] = {0, 1, 2, 1, 2, 0};
    for (int i = 0; i < 6; i++) qr_set_u64le(rows + 8 * i, qr_bits_of_double(numbers[i]));
    const struct qr_event_value scalar = {.tag = "epoch_loss",
                                          .plugin = "scalars",
                                          .data_class = QR_EVENT_CLASS_SCALAR,
                                          .dtype = QR_EVENT_FLOAT,
                                          .tensor = {quarter, 4}};
    const struct qr_event_value histogram = {.tag = "h",
                                             .plugin = "histograms",
                                             .data_class = QR_EVENT_CLASS_TENSOR,
                                             .dtype = QR_EVENT_DOUBLE,
                                             .rank = 2,
                                             .dims = {2, 3},
                                             .tensor = {rows, sizeof rows}};
    check_event(&(struct qr_event){.wall_time = 1.5, .step = 3, .n_values = 1, .values = &scalar},
                "09000000000000f83f10032a290a270a0a65706f63685f6c6f7373420a0801120022040000803e4a0d"
                "0a090a077363616c6172732001");
    check_event(
        &(struct qr_event){.wall_time = 1.5, .file_version = "brain.Event:2", .writer = "qring"},
        "09000000000000f83f1a0d627261696e2e4576656e743a3252070a057172696e67");
    check_event(&(struct qr_event){.wall_time = 1.5, .step = 7, .session_start = true},
                "09000000000000f83f10073a020801");
    static const uint8_t graph[2] = {0x0a, 0};
    check_event(&(struct qr_event){.wall_time = 1.5, .step = 2, .graph = {graph, 2}},
                "09000000000000f83f100222020a00");
    check_event(
        &(struct qr_event){.wall_time = 1.5, .step = 1, .n_values = 1, .values = &histogram},
        "09000000000000f83f10012a570a550a0168423e08021208120208021202080322300000000000000000000000"
        "000000f03f0000000000000040000000000000"
        "f03f000000000000004000000000000000004a100a0c0a0a686973746f6772616d732002");
}

static void test_hparams(void) {
    struct qr_buf b = {0};
    const struct qr_hparam rate = {.name = "lr", .number = 0.5},
                           optimizer = {.name = "opt", .text = "adam"};
    const struct qr_hparam_metric metric = {"validation", "epoch_loss", true};
    qr_hparams_start(&rate, 1, "g", 2.0, &b);
    CHECK(strcmp(hex_of(qr_buf_view(&b)),
                 "1a1d0a0f0a026c72120911000000000000e03f220167290000000000000040") == 0,
          "%s", hex_of(qr_buf_view(&b)));
    qr_buf_clear(&b);
    qr_hparams_end(true, 3.0, &b);
    CHECK(strcmp(hex_of(qr_buf_view(&b)), "220b0801110000000000000840") == 0, "%s",
          hex_of(qr_buf_view(&b)));
    qr_buf_clear(&b);
    qr_hparams_experiment(&optimizer, 1, &metric, 1, &b);
    CHECK(
        strcmp(
            hex_of(qr_buf_view(&b)),
            "122722070a036f707420012a1c0a180a0a76616c69646174696f6e120a65706f63685f6c6f73732802") ==
            0,
        "%s", hex_of(qr_buf_view(&b)));
    qr_buf_free(&b);
}

static void test_bad_events(void) {
    struct qr_event e = {.step = 77};
    struct qr_err err = {0};
    static const uint8_t garbage[] = {0xff, 0xff, 0xff},
                         wrong_size[] = {0x2a, 0x0b, 0x0a, 0x09, 0x0a, 0x01, 'x',
                                         0x42, 0x04, 0x08, 0x01, 0x22, 0x00};
    CHECK(qr_event_decode(qr_bytes_of(garbage, sizeof garbage), &e, &err) == QR_DATA_LOSS &&
              e.step == 77,
          "%s", err.msg);
    CHECK(qr_event_decode(qr_bytes_of(wrong_size, sizeof wrong_size), &e, &err) == QR_DATA_LOSS &&
              strstr(err.msg, "0 bytes, not 4"),
          "%s", err.msg);
    /* a million unknown fields do not become fifty million bytes */
    struct qr_buf b = {0};
    for (int i = 0; i < 100000; i++) qr_buf_put(&b, "\xf8\x01\x01", 3);
    CHECK(qr_event_decode(qr_buf_view(&b), &e, &err) == QR_DATA_LOSS, "%s", err.msg);
    qr_buf_free(&b);
}

int main(void) {
    test_framing();
    test_events();
    test_hparams();
    test_bad_events();
    return t_end();
}
