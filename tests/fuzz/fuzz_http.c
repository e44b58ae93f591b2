/* Arbitrary bytes on the port for probes: an HTTP response or none, and the next client
 * is served. */
#include <arpa/inet.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/mem.h"
#include "monitor/http.h"
#include "tests/fuzz/parts.h"

static struct qr_http *http;
static struct sockaddr_in address;

static void close_http(void) { qr_http_close(http); }

/* Sends the bytes and returns the number of bytes received into `ret`. */
static size_t request(const uint8_t *data, size_t n, char *ret, size_t most) {
    const struct timeval bound = {5, 0};
    size_t got = 0;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    QR_ASSERT(fd >= 0 && connect(fd, (const struct sockaddr *)&address, sizeof address) == 0);
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &bound, sizeof bound);
    if (n) (void)!send(fd, data, n, MSG_NOSIGNAL);
    shutdown(fd, SHUT_WR);
    for (ssize_t k; got < most && (k = recv(fd, ret + got, most - got, 0)) > 0;) got += (size_t)k;
    close(fd);
    return got;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static const char probe[] = "GET /readyz HTTP/1.1\r\nHost: x\r\n\r\n";
    static char text[1 << 16];
    if (!http) {
        const struct qr_http_options opt = {.bind = "127.0.0.1",
                                            .build = {"0", "f32-v1", "avx2"},
                                            .clock = &qr_clock_monotonic,
                                            .timeout_ns = 50 * QR_MS};
        unsigned port = 0;
        QR_ASSERT(qr_http_open(&opt, &http, &port, QR_IGNORED) == QR_OK);
        qr_http_ready(http, true);
        address = (struct sockaddr_in){.sin_family = AF_INET,
                                       .sin_port = htons((uint16_t)port),
                                       .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
        atexit(close_http);
    }
    size_t n = request(data, size, text, sizeof text);
    QR_ASSERT(n == 0 || (n > 12 && memcmp(text, "HTTP/1.", 7) == 0));
    n = 0;
    for (int tries = 0; n == 0 && tries < 20; tries++) /* on a busy machine 50 ms may pass */
        n = request((const uint8_t *)probe, sizeof probe - 1, text, sizeof text);
    QR_ASSERT(n > 12 && memcmp(text, "HTTP/1.1 200", 12) == 0);
    return 0;
}
