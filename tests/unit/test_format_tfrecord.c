/* TFRecord framing and TensorBoard's events against bytes that TensorBoard's own library (2.21)
 * wrote. */
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
    qr_tfrecord_put(&b, qr_bytes_of_string("hello"));
    CHECK(strcmp(hex_of(qr_buf_view(&b)), "0500000000000000eab2043e68656c6c6fbb1f1c19") == 0, "%s",
          hex_of(qr_buf_view(&b)));
    qr_tfrecord_put(&b, qr_bytes_of("", 0));
    CHECK(strcmp(hex_of(qr_bytes_of(b.p + 21, b.n - 21)), "000000000000000029039807d8ea82a2") == 0);
    qr_buf_free(&b);
}

static void check_event(const struct qr_event *e, const char *want) {
    struct qr_buf b = {0};
    qr_event_encode(e, &b);
    CHECK(strcmp(hex_of(qr_buf_view(&b)), want) == 0, "%s\n  not %s", hex_of(qr_buf_view(&b)),
          want);
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

int main(void) {
    test_framing();
    test_events();
    test_hparams();
    return t_end();
}
