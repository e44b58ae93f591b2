/* group/group_grpc.c — the group between processes: gRPC links, and the control thread. */
#include <pthread.h>

#include "base/mem.h"
#include "group/group_impl.h"
#include "group/link_grpc.h"

static void *control_thread(void *g) {
    qr_group_control_run(g);
    return NULL;
}

static void join(void *ctx) {
    pthread_t *thread = ctx;
    pthread_join(*thread, NULL);
    free(thread);
}

enum qr_code qr_group_open(const struct qr_group_options *opt, struct qr_group **ret, unsigned *ret_port, struct qr_err *err) {
    struct qr_group *g;
    struct qr_link *control = qr_link_grpc_new(opt->clock, opt->tls), *data = qr_link_grpc_new(opt->clock, opt->tls);
    enum qr_code code = qr_group_over(opt, control, data, &g, ret_port, err);
    if (code != QR_OK) return code;
    pthread_t *thread = qr_xcalloc(1, sizeof *thread);
    int sys = pthread_create(thread, NULL, control_thread, g);
    if (sys) {
        free(thread);
        qr_group_close(g);
        return qr_fail_errno(err, sys, "start the control thread");
    }
    qr_group_set_join(g, join, thread);
    *ret = g;
    return QR_OK;
}
