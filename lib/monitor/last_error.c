#include "monitor/last_error.h"

#include <pthread.h>
#include <stdio.h>

#include "base/clock.h"
#include "base/printable.h"

enum { KEPT_BYTES = 2048 };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct qr_log inner;
static char kept[KEPT_BYTES];

static void write_both(void *ctx, enum qr_log_level level, const char *module,
                       const char *message) {
    char shown[KEPT_BYTES - 32];
    (void)ctx;
    (void)qr_printable(shown, sizeof shown, message);
    if (level >= QR_LOG_WARNING) {
        pthread_mutex_lock(&lock);
        snprintf(kept, sizeof kept, "%lld %c %s: %s",
                 (long long)(qr_now_ns(&qr_clock_wall) / QR_SECOND),
                 level == QR_LOG_ERROR ? 'E' : 'W', module, shown);
        pthread_mutex_unlock(&lock);
    }
    inner.write(inner.ctx, level, module, message);
}

struct qr_log qr_last_error_keep(struct qr_log to) {
    inner = to;
    return (struct qr_log){.level = to.level, .write = write_both};
}

void qr_last_error_text(struct qr_buf *ret) {
    pthread_mutex_lock(&lock);
    if (*kept) qr_buf_printf(ret, "%s\n", kept);
    pthread_mutex_unlock(&lock);
}
