/* The report of qring status: which peers are slow, and ages by the worker's clock. */
#include <math.h>
#include <string.h>

#include "monitor/status.h"
#include "tests/t.h"

static struct qr_status_pair pair;
static struct qr_buf text;

static bool has(const char *words) { return strstr(qr_buf_string(&text), words); }

static void write_text(void) {
    qr_buf_clear(&text);
    qr_status_text(&pair, "pod:8080", &text);
}
static void write_json(void) {
    qr_buf_clear(&text);
    qr_status_json(&pair, "pod:8080", 0, &text);
}

static void member(uint32_t index, double speed, double rtt_s) {
    pair.is.peer[index] = QR_PEER_MEMBER;
    pair.is.speed[index] = speed;
    pair.is.rtt_s[index] = rtt_s;
}

/* Worker 0 asks, so it has no link to itself. The extremes lie neither at the first nor at the last
 * of the members, and an absent worker's old values do not count. */
static void test_extremes(void) {
    memset(&pair, 0, sizeof pair);
    pair.interval_s = 2;
    member(0, 50, 0);
    member(2, 40, 0.002);
    member(3, 10, 0.009);
    member(5, 80, 0.001);
    member(6, 60, 0.004);
    pair.is.peer[7] = QR_PEER_ABSENT;
    pair.is.speed[7] = 1, pair.is.rtt_s[7] = 1;
    write_text();
    CHECK(has("\nslowest     worker 3, at 12 % of worker 5's speed\n"), "%s", qr_buf_string(&text));
    CHECK(has("\nslow link   round trip of 2 KB to worker 3 9 ms, to worker 5 1 ms\n"), "%s",
          qr_buf_string(&text));
    write_json();
    CHECK(has("\"slowest\":3,\"slow_link\":3,"), "%s", qr_buf_string(&text));
}

/* One speed and one link have nothing to be compared with. */
static void test_alone(void) {
    memset(&pair, 0, sizeof pair);
    pair.interval_s = 1;
    member(0, 50, 0);
    pair.is.peer[1] = QR_PEER_MEMBER;
    pair.is.rtt_s[1] = 0.002;
    write_text();
    CHECK(has("\nmembers     worker 0") && !has("slowest") && !has("slow link"), "%s",
          qr_buf_string(&text));
    write_json();
    CHECK(has("\"slowest\":null,\"slow_link\":null,"), "%s", qr_buf_string(&text));
}

static void test_ages(void) {
    memset(&pair, 0, sizeof pair);
    pair.interval_s = 2;
    pair.was.value[QR_STEP] = 100, pair.is.value[QR_STEP] = 110;
    pair.is.now_s = 1000;
    pair.is.value[QR_CHECKPOINT_TIME] = 970;
    pair.is.last_error_s = 993;
    write_json();
    CHECK(has("\"steps_per_second\":5,\"") && has("\"checkpoint_age_seconds\":30,") &&
              has("\"last_error_age_seconds\":7,"),
          "%s", qr_buf_string(&text));
    pair.is.last_error_s = 1001; /* a clock that was set back */
    pair.is.value[QR_CHECKPOINT_TIME] = 0;
    write_json();
    CHECK(has("\"checkpoint_age_seconds\":null,") && has("\"last_error_age_seconds\":0,"), "%s",
          qr_buf_string(&text));
}

int main(void) {
    test_extremes();
    test_alone();
    test_ages();
    qr_buf_free(&text);
    return t_end();
}
