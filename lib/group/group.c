/* group/group.c — creates, interrupts and closes a group: its batch queue, control and trainer, of
 * which elastic.md has the whole picture. Start reading at qr_group_over().
 */
#include "group/group.h"

#include <inttypes.h>
#include <string.h>

#include "base/checksum.h"
#include "base/mem.h"
#include "group/group_impl.h"

static uint64_t digest_text(const char *text) {
    uint8_t d[QR_XXH3_BYTES];
    qr_xxh3(text ? text : "", text ? strlen(text) : 0, d);
    return qr_get_u64le(d);
}

static struct qr_group *new_group(const struct qr_group_options *opt, struct qr_link *data) {
    struct qr_group *g = qr_xcalloc(1, sizeof *g);
    g->o = *opt;
    g->solo = data == NULL;
    g->data = data;
    g->places = digest_text(opt->places);
    g->allreduce = opt->allreduce;
    g->own_schedule = opt->faults && opt->faults->own_schedule;
    mailbox_init(&g->mail.box, data);
    batch_queue_init(&g->queue, opt->faults, g->solo);
    return g;
}

struct qr_group *qr_group_solo(const struct qr_group_options *opt) {
    struct qr_group *g = new_group(opt, NULL);
    g->mail.first = true;
    g->alone = qr_reduction_new();
    g->view = (struct qr_group_view){.generation = 1, .n_members = 1, .index = {opt->index}};
    return g;
}

static const char *find_contract(const struct qr_group_options *opt) {
    for (size_t i = 0; i < opt->n_fields; i++)
        if (strcmp(opt->fields[i].name, "contract") == 0) return opt->fields[i].value;
    return "";
}

enum qr_code qr_group_over(const struct qr_group_options *opt, struct qr_link *control,
                           struct qr_link *data, struct qr_group **ret, unsigned *ret_port,
                           struct qr_err *err) {
    char data_address[300];
    unsigned port = 0, data_port = 0;
    enum qr_code code = QR_OK;
    if (opt->n_peers < 1 || opt->n_peers > QR_MAX_MEMBERS || opt->index >= opt->n_peers)
        code = qr_fail(err, QR_INVALID_ARGUMENT,
                       "index %" PRIu32
                       " of %zu peers: a group has 1 to %d peers, this process included",
                       opt->index, opt->n_peers, (int)QR_MAX_MEMBERS);
    else if (!control_with_port(opt->listen_address, opt->data_port, data_address,
                                sizeof data_address))
        code = qr_fail(err, QR_INVALID_ARGUMENT, "listen address '%s' is not host:port",
                       opt->listen_address);
    if (code == QR_OK) code = control->ops->listen(control, opt->listen_address, &port, err);
    if (code == QR_OK) code = data->ops->listen(data, data_address, &data_port, err);
    if (code != QR_OK) {
        control->ops->free(control);
        data->ops->free(data);
        return code;
    }
    struct qr_group *g = new_group(opt, data);
    struct qr_member_options m = {
        .run = opt->run,
        .contract = find_contract(opt),
        .fields = opt->fields,
        .n_fields = opt->n_fields,
        .index = opt->index,
        .n_peers = opt->n_peers,
        .peers = opt->peers,
        .count_known = opt->count_known,
        .n_servers = opt->n_servers,
        .server = opt->server,
        .min_workers = opt->min_workers,
        .allreduce = opt->allreduce,
        .places = g->places,
        .form_timeout_ns = opt->form_timeout_ns,
        .data_port = data_port,
        .control_port = port,
        .faults = g->queue.faults.member,
    };
    memcpy(m.job_hash, opt->job_hash, sizeof m.job_hash);
    qr_entropy(m.incarnation, sizeof m.incarnation);
    qr_entropy(&m.seed, sizeof m.seed);
    if (opt->seed) {
        qr_set_u64le(m.incarnation, opt->seed);
        qr_set_u64le(m.incarnation + 8, ~opt->seed);
        m.seed = opt->seed;
    }
    g->control = (struct control){.o = m,
                                  .clock = opt->clock,
                                  .log = opt->log,
                                  .echo = opt->echo,
                                  .link = control,
                                  .queue = &g->queue,
                                  .trainer = &g->mail};
    control_init(&g->control);
    g->mail.common.places = g->places;
    g->mesh = group_new_mesh(g, m.incarnation);
    *ret = g;
    *ret_port = port;
    return QR_OK;
}

void qr_group_set_thread(struct qr_group *g, qr_group_start_fn *start, void (*join)(void *ctx),
                         void *ctx) {
    g->start = start;
    g->join = join;
    g->thread_ctx = ctx;
}

void qr_group_control_run(struct qr_group *g) { control_run(&g->control); }

void qr_group_set_error(struct qr_group *g, const struct qr_err *why) { g->why = *why; }

void qr_group_close(struct qr_group *g) {
    if (!g) return;
    if (!g->solo) {
        const struct qr_err *why = &g->why;
        group_post(g, .kind = QR_EVENT_LEAVE, .code = *why->msg ? why->code : QR_ABORTED,
                   .text = *why->msg ? why->msg : "it ended early");
        control_quit(&g->control);
        mailbox_close(&g->mail.box);
        /* Concurrently with the goodbye of the control thread; each takes at most a second. */
        g->data->ops->free(g->data);
        if (g->join) g->join(g->thread_ctx);
        qr_mesh_free(g->mesh);
        control_free(&g->control);
    }
    qr_reduction_free(g->alone);
    batch_queue_fini(&g->queue);
    pthread_mutex_destroy(&g->mail.box.lock);
    free(g->mine);
    free(g);
}

void qr_group_interrupt(struct qr_group *g) {
    if (!g->solo)
        control_post(&g->control, 0,
                     &(struct qr_member_event){.kind = QR_EVENT_LEAVE,
                                               .code = QR_CANCELLED,
                                               .text = "it was asked to stop"});
    mailbox_lock(&g->mail.box);
    g->mail.interrupted = true;
    mailbox_post(&g->mail.box);
}
