/* monitor/last_error.c — a log filter that keeps one line. Start reading at
 * qr_last_error_keep(). */
#include "monitor/last_error.h"

#include <pthread.h>
#include <stdio.h>

#include "base/clock.h"
#include "base/text.h"

enum { KEPT_BYTES = 2048 };

static pthread_mutex_t last_error_lock = PTHREAD_MUTEX_INITIALIZER;
static struct qr_log inner_log;
static char last_error_line[KEPT_BYTES];
static double last_error_s;

static void last_error_write(void *ctx, enum qr_log_level level, const char *module,
                             const char *message) {
    char shown[KEPT_BYTES - 32];
    (void)ctx;
    (void)qr_printable(shown, sizeof shown, message);
    if (level >= QR_LOG_WARNING) {
        pthread_mutex_lock(&last_error_lock);
        snprintf(last_error_line, sizeof last_error_line, "%c %s: %s",
                 level == QR_LOG_ERROR ? 'E' : 'W', module, shown);
        last_error_s = (double)(qr_now_ns(&qr_clock_wall) / QR_SECOND);
        pthread_mutex_unlock(&last_error_lock);
    }
    inner_log.write(inner_log.ctx, level, module, message);
}

struct qr_log qr_last_error_keep(struct qr_log to) {
    inner_log = to;
    return (struct qr_log){.level = to.level, .write = last_error_write};
}

double qr_last_error_get(char *ret, size_t cap) {
    pthread_mutex_lock(&last_error_lock);
    qr_text_cut(ret, cap, last_error_line);
    double at_s = last_error_s;
    pthread_mutex_unlock(&last_error_lock);
    return at_s;
}
