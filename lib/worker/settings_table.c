#include <string.h>

#include "cluster/identity.h"
#include "group/group.h"
#include "output/progress_to.h"
#include "sim/sim.h"
#include "worker/settings_impl.h"

static const char *isa_choice(size_t i) {
    return i == 0 ? "auto" : i <= QR_ISAS ? qr_isa_name((enum qr_isa)(i - 1)) : NULL;
}
static const char *allreduce_choice(size_t i) {
    return i < QR_ALLREDUCE_KINDS ? qr_allreduce_names[i] : NULL;
}
static const char *level_choice(size_t i) { return qr_log_level_names[i]; }
static const char *log_format_choice(size_t i) {
    static const char *const names[] = {"auto", "text", "json", NULL};
    return names[i];
}
static const char *role_choice(size_t i) {
    static const enum qr_role roles[] = {QR_ROLE_WORKER, QR_ROLE_PS, QR_ROLE_EVALUATOR};
    return i < sizeof roles / sizeof *roles ? qr_role_name(roles[i]) : NULL;
}
static const char *print_choice(size_t i) { return i == 0 ? "markdown" : NULL; }

#define OWN QR_SETTING_OWN
#define RING QR_SETTING_RING
#define LEADER QR_SETTING_LEADER
#define FIRST QR_SETTING_FIRST
#define EQUAL QR_SETTING_EQUAL
/* membership/member_common.c */
#define RING_SAYS "NAME is HERE here and THERE in the ring, whose value counts until it ends"
#define PLACES_SAY                                                                                 \
    "out, weights or checkpoints name other places here than in the ring: who leads writes to "    \
    "its own"
/* link/link_grpc_tls.c */
#define TLS_SAYS "no connection: what TLS says of it, and at last who did not answer"

/* membership/member_hello.c; exit code 3 */
#define HASH_SAYS "worker N has other settings under the job name: KEY is THERE there and HERE here"

#define AT(member) offsetof(struct qr_settings, member)
const struct setting settings_table[] = {
    {"index", TEXT, AT(index), NULL, 0, 0, NULL, ANYWHERE, "I", "from TF_CONFIG",
     "this worker's index, with --peers or --peer-template", OWN, NULL},
    {"peers", TEXT, AT(peers), NULL, 0, 0, NULL, ANYWHERE, "LIST", "from TF_CONFIG",
     "all workers, by index: host:port,host:port", OWN, NULL},
    {"peer-template", TEXT, AT(peer_template), NULL, 0, 0, NULL, ANYWHERE, "TEXT", "from TF_CONFIG",
     "the workers' names with {i} for the index: name-{i}.service:2222; the index may come from "
     "JOB_COMPLETION_INDEX or the host's name",
     OWN, NULL},
    {"replicas", TEXT, AT(replicas), NULL, 0, 0, NULL, ANYWHERE, "N", "probed",
     "how many workers the template names", OWN, NULL},
    {"parameter-servers", TEXT, AT(parameter_servers), NULL, 0, 0, NULL, ANYWHERE, "LIST",
     "from TF_CONFIG",
     "the parameter servers, by index, before all workers: host:port,host:port; the same for all",
     OWN, NULL},
    {"role", CHOICE, AT(role), NULL, 0, 0, role_choice, ANYWHERE, "ROLE", "worker, or TF_CONFIG's",
     "what this process is: CHOICES; the index of the first two is that among their kind", OWN,
     NULL},
    {"max-workers", NUMBER, AT(max_workers), "64", 1, QR_MAX_MEMBERS, NULL, ANYWHERE, "N", NULL,
     "the most members there can be: 0 ... N-1 are probed where no count is known", OWN, NULL},
    {"min-workers", NUMBER, AT(min_workers), NULL, 1, QR_MAX_MEMBERS, NULL, ANYWHERE, "N",
     "half of them",
     "the fewest workers that begin without the others; parameter servers do not count", RING,
     RING_SAYS},
    {"port", NUMBER, AT(port), NULL, 0, 65535, NULL, ANYWHERE, "PORT",
     "one's own address's, else 2222", "the control port to bind", OWN, NULL},
    {"data-port", NUMBER, AT(data_port), "2224", 0, 65535, NULL, ANYWHERE, "PORT", NULL,
     "the data port to bind; 0: any", OWN, NULL},
    {"bind", TEXT, AT(bind), NULL, 0, 0, NULL, ANYWHERE, "HOST", "all; loopback when every peer is",
     "the address to bind both ports to", OWN, NULL},
    {"http-port", NUMBER, AT(http_port), "8080", 0, 65535, NULL, ANYWHERE, "PORT",
     "8080; 0 in qring run", "the port of /healthz, /readyz and /metrics; 0: none", OWN, NULL},
    {"http-bind", TEXT, AT(http_bind), NULL, 0, 0, NULL, ANYWHERE, "HOST",
     "all; loopback when every peer is", "the address to bind that port to", OWN, NULL},
    {"tls-dir", TEXT, AT(tls_dir), NULL, 0, 0, NULL, ANYWHERE, "DIR", "none",
     "the folder with the job's tls.crt, tls.key and ca.crt, as Kubernetes mounts a TLS Secret; "
     "read again when they change",
     OWN, NULL},
    {"tls-cert", TEXT, AT(tls_cert), NULL, 0, 0, NULL, ANYWHERE, "FILE", "TLS-DIR/tls.crt",
     "the certificate (PEM), intermediates behind it", OWN, NULL},
    {"tls-key", TEXT, AT(tls_key), NULL, 0, 0, NULL, ANYWHERE, "FILE", "TLS-DIR/tls.key",
     "its key (PEM, not encrypted)", OWN, NULL},
    {"tls-ca", TEXT, AT(tls_ca), NULL, 0, 0, NULL, ANYWHERE, "FILE", "TLS-DIR/ca.crt",
     "the CAs (PEM) whose certificates of this job are taken", EQUAL, TLS_SAYS},
    {"plaintext", SWITCH, AT(plaintext), NULL, 0, 0, NULL, ANYWHERE, NULL, "off",
     "talk to peers without TLS also beyond this machine, and say so in the log; qring run: make "
     "no certificates",
     EQUAL, TLS_SAYS},
    {"start-timeout", DURATION, AT(start_timeout_ns), "10m", 0, 0, NULL, ANYWHERE, "TIME", NULL,
     "the default of form-timeout where the number of workers is known", OWN, NULL},
    {"form-timeout", DURATION, AT(form_timeout_ns), NULL, 0, 0, NULL, ANYWHERE, "TIME",
     "the start-timeout; 10s where no count is known",
     "how long the first generation waits for all before it begins with those who came", OWN, NULL},
    {"threads", NUMBER, AT(threads), NULL, 1, 1024, NULL, ANYWHERE, "T", "the cgroup's",
     "threads that compute", OWN, NULL},
    {"isa", CHOICE, AT(isa), "auto", 0, 0, isa_choice, ANYWHERE, "NAME", NULL,
     "the kernels: CHOICES; all give the same bits", OWN, NULL},
    {"allreduce", CHOICE, AT(allreduce), "auto", 0, 0, allreduce_choice, ANYWHERE, "NAME", NULL,
     "how sums travel: CHOICES; all give the same bits", RING, RING_SAYS},
    {"epochs", NUMBER, AT(epochs), NULL, 1, INT64_C(1) << 53, NULL, ANYWHERE, "E", "the job's",
     "train this many epochs", RING, RING_SAYS},
    {"set", JOB_KEYS, AT(set), NULL, 0, 0, NULL, OUTSIDE, "PATH=VALUE", "none",
     "a key of the job: train.epochs=60, model[1].units=8, model[NAME].units=8; as often as "
     "wanted, "
     "in the variable a line each",
     EQUAL, HASH_SAYS},
    {"seed", JOB_KEY, AT(set), NULL, 0, 0, NULL, OUTSIDE, "N", "the job's", "--set seed=N", EQUAL,
     HASH_SAYS},
    {"out", TEXT, AT(out), NULL, 0, 0, NULL, ANYWHERE, "DIR", "out/NAME",
     "the folder for weights.h5, weights.safetensors, result.json, steps.jsonl", LEADER,
     PLACES_SAY},
    {"weights", TEXT, AT(weights), NULL, 0, 0, NULL, ANYWHERE, "URL", "OUT/weights.h5",
     "where the trained weights go: .h5 (Keras), .npz or .safetensors", LEADER, PLACES_SAY},
    {"weights-gcs-bucket", TEXT, AT(weights_gcs_bucket), NULL, 0, 0, NULL, ANYWHERE, "NAME", "none",
     "the tutorial's flag: --weights gs://BUCKET/PATH in two parts", LEADER, PLACES_SAY},
    {"weights-gcs-path", TEXT, AT(weights_gcs_path), NULL, 0, 0, NULL, ANYWHERE, "PATH", "none",
     "the object's name in that bucket", LEADER, PLACES_SAY},
    {"checkpoints", TEXT, AT(checkpoints), NULL, 0, 0, NULL, ANYWHERE, "URL",
     "OUT/checkpoints; beside weights in a bucket",
     "the folder that training goes on from when it starts again; none: it starts from the "
     "beginning",
     LEADER, PLACES_SAY},
    {"checkpoint-interval", DURATION, AT(checkpoint_interval_ns), "10s", 0, 0, NULL, ANYWHERE,
     "TIME", NULL, "a checkpoint so long after the one before", LEADER, NULL},
    {"checkpoint-steps", NUMBER, AT(checkpoint_steps), "100", 1, INT64_C(1) << 53, NULL, ANYWHERE,
     "N", NULL, "and so many steps after it: whichever comes later", LEADER, NULL},
    {"checkpoint-epochs", NUMBER, AT(checkpoint_epochs), NULL, 0, INT64_C(1) << 53, NULL, ANYWHERE,
     "N", "none", "and one of the very state at the end of each N-th epoch; 0: none", LEADER, NULL},
    {"evaluate-interval", DURATION, AT(evaluate_interval_ns), "2s", 0, 0, NULL, ANYWHERE, "TIME",
     NULL, "an evaluator looks so often for a checkpoint, and evaluates the newest", OWN, NULL},
    {"fresh", SWITCH, AT(fresh), NULL, 0, 0, NULL, COMMAND_LINE, NULL, NULL,
     "delete existing checkpoints, of any job, and the earlier run in OUT, and start over", FIRST,
     NULL},
    {"logdir", TEXT, AT(logdir), NULL, 0, 0, NULL, ANYWHERE, "URL", "none",
     "the folder for TensorBoard, here, gs:// or s3://BUCKET/PATH: losses, metrics, gradients, "
     "read-outs, "
     "weights; qring run: OUT/logs",
     LEADER, NULL},
    {"profiler-port", NUMBER, AT(profiler_port), NULL, 0, 65535, NULL, ANYWHERE, "PORT", "none",
     "the port for TensorBoard's \"Capture profile\", without TLS; 0: none", OWN, NULL},
    {"profiler-bind", TEXT, AT(profiler_bind), NULL, 0, 0, NULL, ANYWHERE, "HOST", "127.0.0.1",
     "the address to bind that port to; 0.0.0.0: all", OWN, NULL},
    {"price-per-pod-hour", TEXT, AT(price_per_pod_hour), NULL, 0, 0, NULL, ANYWHERE, "P", "none",
     "what a pod costs an hour: cost so far and at the end, kept in cost.json beside the "
     "checkpoints",
     LEADER, NULL},
    {"currency", TEXT, AT(currency), NULL, 0, 0, NULL, ANYWHERE, "TEXT", "none",
     "what the price is in, as in EUR: said with it", LEADER, NULL},
    {"max-cost", TEXT, AT(max_cost), NULL, 0, 0, NULL, ANYWHERE, "COST", "none",
     "end after the step in which the run has cost so much, with a checkpoint and exit code 5",
     LEADER, NULL},
    {"progress-to", TARGET, AT(progress_to), NULL, 0, 0, NULL, ANYWHERE, "TARGET",
     "Kubeflow Trainer's TrainJob",
     "who is told how far the run is, every few seconds: a URL (POST of JSON), an object of "
     "Kubernetes as job/NAME (annotations), or none",
     LEADER, NULL},
    {"service-account", TEXT, AT(service_account), QR_PROGRESS_ACCOUNT, 0, 0, NULL, ANYWHERE, "DIR",
     NULL, "the folder with the pod's token, ca.crt and namespace, for --progress-to", OWN, NULL},
    {"log-level", CHOICE, AT(log_level), "info", 0, 0, level_choice, ANYWHERE, "LEVEL", NULL,
     "CHOICES", OWN, NULL},
    {"log-format", CHOICE, AT(log_format), "auto", 0, 0, log_format_choice, ANYWHERE, "FORMAT",
     NULL,
     "text (in colours on a terminal, unless NO_COLOR is set), json (Cloud Logging's keys), or "
     "auto: "
     "text on a terminal, json elsewhere",
     OWN, NULL},
    {"exit-on-drain", NUMBER, AT(exit_on_drain), "143", 0, 255, NULL, ANYWHERE, "CODE", NULL,
     "the exit code after SIGTERM; 0 where a TFJob is scaled down", OWN, NULL},
    {"termination-log", TEXT, AT(termination_log), NULL, 0, 0, NULL, ANYWHERE, "FILE",
     "/dev/termination-log", "the file that gets the reason for the end, where it exists", OWN,
     NULL},
    {"progress-fd", NUMBER, AT(progress_fd), NULL, 0, 1 << 20, NULL, HIDDEN, "FD", NULL,
     "JSON lines of progress for qring run", OWN, NULL},
    {"lock-fd", NUMBER, AT(lock_fd), NULL, 0, 1 << 20, NULL, HIDDEN, "FD", NULL,
     "the lock on OUT, inherited from qring run", OWN, NULL},
    {"print-identity", SWITCH, AT(print_identity), NULL, 0, 0, NULL, COMMAND_LINE, NULL, NULL,
     "say who this worker believes it is, as JSON, and exit", OWN, NULL},
    {"print-settings", CHOICE, AT(print_settings), NULL, 0, 0, print_choice, HIDDEN, "FORMAT", NULL,
     "this table, for cmd/README.md", OWN, NULL},
    {"help", SWITCH, AT(help), NULL, 0, 0, NULL, COMMAND_LINE, NULL, NULL, "this text", OWN, NULL},
    {"version", SWITCH, AT(version), NULL, 0, 0, NULL, COMMAND_LINE, NULL, NULL,
     "the version and the contract's names", OWN, NULL},
};
enum { N = sizeof settings_table / sizeof *settings_table };
_Static_assert(QR_MAX_MEMBERS == 64, "the default of max-workers is that text");
_Static_assert((int)N <= (int)QR_SETTINGS_MAX, "origin has a place for every row");
const size_t settings_n = N;

/* What else may differ between two workers of one ring. Keys of the job file that are not here are
 * in the job hash: the first of that kind, "*". */
static const struct {
    const char *what;
    enum qr_setting_scope between;
    const char *told;
} beside[] = {
    {"*", EQUAL, HASH_SAYS},
    {"data", EQUAL, HASH_SAYS}, /* what is in the files, wherever they lie */
    {"data.url", OWN, NULL},
    {"data.validation_url", OWN, NULL},
    {"data.channels", OWN, NULL},
    {"name", EQUAL, "turned away worker N of another job: name is THERE there and HERE here"},
    {"profile", OWN, NULL},
    {"train.epochs", RING, RING_SAYS},
    {"train.initial_weights", EQUAL, HASH_SAYS}, /* the file's bytes, wherever it lies */
    {"worker", OWN, NULL},                       /* each of its keys as its setting */
    {"the program's protocol", EQUAL, HASH_SAYS},
    {"the program's arithmetic", EQUAL, HASH_SAYS},
    {"the program's version", OWN, NULL},
    {"the processor", OWN, NULL},
};

const struct setting *settings_find(const char *name) {
    for (size_t i = 0; i < settings_n; i++)
        if (strcmp(settings_table[i].name, name) == 0) return &settings_table[i];
    return NULL;
}

enum qr_setting_scope qr_settings_scope(const char *name, const char **ret_told) {
    const struct setting *t = settings_find(name);
    if (ret_told) *ret_told = t ? t->told : NULL;
    return t ? t->between : QR_SETTING_NONE;
}

enum qr_setting_scope qr_settings_scope_key(const char *path, const char **ret_told) {
    size_t found = 0;
    for (size_t i = 1; i < sizeof beside / sizeof *beside; i++)
        if (strcmp(beside[i].what, path) == 0) found = i;
    if (ret_told) *ret_told = beside[found].told;
    return beside[found].between;
}
