/* group/group_grpc.c — the group between processes: gRPC links and the control thread. It is a file
 * of its own so that libqring_train, whose groups have one member, needs no gRPC. Start reading at
 * qr_group_open().
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

static enum qr_code start_thread(void *ctx, struct qr_group *g, struct qr_err *err) {
    struct control_thread *t = ctx;
    int sys = pthread_create(&t->id, NULL, control_main, g);
    t->runs = sys == 0;
    return sys ? qr_fail_errno(err, sys, "start the control thread") : QR_OK;
}

static void join_thread(void *ctx) {
    struct control_thread *t = ctx;
    if (t->runs) pthread_join(t->id, NULL);
    free(t);
}

enum qr_code qr_group_open(const struct qr_group_options *opt, struct qr_group **ret,
                           unsigned *ret_port, struct qr_err *err) {
    struct qr_link *control = qr_link_grpc_new_with_acceptor(opt->clock, opt->tls, opt->log),
                   *data = qr_link_grpc_new(opt->clock, opt->tls);
    QR_TRY(qr_group_over(opt, control, data, ret, ret_port, err));
    qr_group_set_thread(*ret, start_thread, join_thread,
                        qr_xcalloc(1, sizeof(struct control_thread)));
    return QR_OK;
}
