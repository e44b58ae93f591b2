/* group/group_grpc.c — the group between processes: gRPC links and the control thread. Start
 * reading at qr_group_open().
 */
#include <pthread.h>

#include "base/mem.h"
#include "group/group.h"
#include "group/group_over_impl.h"
#include "link/link_grpc.h"

struct control_thread {
    pthread_t id;
    bool runs;
};

static void *control_main(void *g) {
    pthread_setname_np(pthread_self(), "qring-control");
    qr_group_control_run(g);
    return NULL;
}

static enum qr_code start_control_thread(void *ctx, struct qr_group *g, struct qr_err *err) {
    struct control_thread *t = ctx;
    int sys = pthread_create(&t->id, NULL, control_main, g);
    t->runs = sys == 0;
    return sys ? qr_fail_errno(err, sys, "start the control thread") : QR_OK;
}

static void join_control_thread(void *ctx) {
    struct control_thread *t = ctx;
    if (t->runs) pthread_join(t->id, NULL);
    free(t);
}

enum qr_code qr_group_open(const struct qr_group_options *opt, struct qr_group **ret,
                           unsigned *ret_port, struct qr_err *err) {
    struct qr_group *g;
    struct qr_link *control = qr_link_grpc_new_with_acceptor(opt->clock, opt->tls, opt->log),
                   *data = qr_link_grpc_new(opt->clock, opt->tls);
    enum qr_code code = qr_group_over(opt, control, data, &g, ret_port, err);
    if (code != QR_OK) return code;
    qr_group_set_thread(g, start_control_thread, join_control_thread,
                        qr_xcalloc(1, sizeof(struct control_thread)));
    *ret = g;
    return QR_OK;
}
