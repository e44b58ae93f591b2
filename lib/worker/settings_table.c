/* worker/settings_table.c — the table of all settings, and which may differ between workers. Start
 * reading at settings_table. */
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
#define RING_NOTE                                                                                  \
    "NAME is HERE here and THERE in the ring; the ring's value applies until the run ends"
#define PLACES_NOTE                                                                                \
    "out, weights or checkpoints differ from the ring's: each leader writes "                      \
    "to its own"
/* link/link_grpc_tls.c */
#define TLS_NOTE "no connection: the TLS error, and finally which peers did not answer"

/* membership/member_hello.c; exit code 3 */
#define HASH_NOTE "worker N has other settings under the job name: KEY is THERE there and HERE here"

#define AT(member) offsetof(struct qr_settings, member)
const struct setting settings_table[] = {
    {"index", TEXT, AT(index), NULL, 0, 0, NULL, ANYWHERE, "I", "from TF_CONFIG",
     "this worker's index, with --peers or --peer-template", OWN, NULL},
    {"peers", TEXT, AT(peers), NULL, 0, 0, NULL, ANYWHERE, "LIST", "from TF_CONFIG",
     "addresses of all workers, by index: host:port,host:port", OWN, NULL},
    {"peer-template", TEXT, AT(peer_template), NULL, 0, 0, NULL, ANYWHERE, "TEXT", "from TF_CONFIG",
     "name of each worker with {i} for its index, as in name-{i}.service:2222; the index may come "
     "from JOB_COMPLETION_INDEX or the host's name",
     OWN, NULL},
    {"replicas", TEXT, AT(replicas), NULL, 0, 0, NULL, ANYWHERE, "N", "probed",
     "number of workers that the template names", OWN, NULL},
    {"parameter-servers", TEXT, AT(parameter_servers), NULL, 0, 0, NULL, ANYWHERE, "LIST",
     "from TF_CONFIG",
     "all parameter servers, by index, the same list at every process: host:port,host:port", OWN,
     NULL},
    {"role", CHOICE, AT(role), NULL, 0, 0, role_choice, ANYWHERE, "ROLE", "worker, or TF_CONFIG's",
     "role of this process: CHOICES; worker and ps have an index each of their own", OWN, NULL},
    {"max-workers", NUMBER, AT(max_workers), "64", 1, QR_MAX_MEMBERS, NULL, ANYWHERE, "N", NULL,
     "maximum number of members; without a known count, indices 0 ... N-1 are probed", OWN, NULL},
    {"min-workers", NUMBER, AT(min_workers), NULL, 1, QR_MAX_MEMBERS, NULL, ANYWHERE, "N",
     "half of them",
     "minimum number of workers to begin without the others; parameter servers do not count", RING,
     RING_NOTE},
    {"port", NUMBER, AT(port), NULL, 0, 65535, NULL, ANYWHERE, "PORT",
     "that of the own address, else 2222", "control port to bind", OWN, NULL},
    {"data-port", NUMBER, AT(data_port), "2224", 0, 65535, NULL, ANYWHERE, "PORT", NULL,
     "data port to bind; 0: any", OWN, NULL},
    {"bind", TEXT, AT(bind), NULL, 0, 0, NULL, ANYWHERE, "HOST",
     "all; loopback if every peer is there", "address to bind both ports to", OWN, NULL},
    {"http-port", NUMBER, AT(http_port), "8080", 0, 65535, NULL, ANYWHERE, "PORT",
     "8080; 0 in qring run", "port of /healthz, /readyz and /metrics; 0: none", OWN, NULL},
    {"http-bind", TEXT, AT(http_bind), NULL, 0, 0, NULL, ANYWHERE, "HOST",
     "all; loopback if every peer is there", "address to bind the HTTP port to", OWN, NULL},
    {"tls-dir", TEXT, AT(tls_dir), NULL, 0, 0, NULL, ANYWHERE, "DIR", "none",
     "folder with the job's tls.crt, tls.key and ca.crt, as Kubernetes mounts a TLS Secret; "
     "reloaded when they change",
     OWN, NULL},
    {"tls-cert", TEXT, AT(tls_cert), NULL, 0, 0, NULL, ANYWHERE, "FILE", "TLS-DIR/tls.crt",
     "certificate (PEM), followed by intermediates", OWN, NULL},
    {"tls-key", TEXT, AT(tls_key), NULL, 0, 0, NULL, ANYWHERE, "FILE", "TLS-DIR/tls.key",
     "key of the certificate (PEM, not encrypted)", OWN, NULL},
    {"tls-ca", TEXT, AT(tls_ca), NULL, 0, 0, NULL, ANYWHERE, "FILE", "TLS-DIR/ca.crt",
     "CAs (PEM) that issue the certificates of this job", EQUAL, TLS_NOTE},
    {"plaintext", SWITCH, AT(plaintext), NULL, 0, 0, NULL, ANYWHERE, NULL, "off",
     "connect to peers without TLS, also on other machines; logs a warning. In qring run: make no "
     "certificates",
     EQUAL, TLS_NOTE},
    {"start-timeout", DURATION, AT(start_timeout_ns), "10m", 0, 0, NULL, ANYWHERE, "TIME", NULL,
     "default of form-timeout if the number of workers is known", OWN, NULL},
    {"form-timeout", DURATION, AT(form_timeout_ns), NULL, 0, 0, NULL, ANYWHERE, "TIME",
     "the start-timeout; 10s if no count is known",
     "maximum wait of the first generation for all workers, before it begins with those present",
     OWN, NULL},
    {"threads", NUMBER, AT(threads), NULL, 1, 1024, NULL, ANYWHERE, "T", "the available CPUs",
     "number of computing threads", OWN, NULL},
    {"isa", CHOICE, AT(isa), "auto", 0, 0, isa_choice, ANYWHERE, "NAME", NULL,
     "instruction set of the kernels: CHOICES; all give the same bits", OWN, NULL},
    {"allreduce", CHOICE, AT(allreduce), "auto", 0, 0, allreduce_choice, ANYWHERE, "NAME", NULL,
     "all-reduce algorithm: CHOICES; all give the same bits", RING, RING_NOTE},
    {"epochs", NUMBER, AT(epochs), NULL, 1, INT64_C(1) << 53, NULL, ANYWHERE, "E", "the job's",
     "number of epochs to train", RING, RING_NOTE},
    {"set", JOB_KEYS, AT(set), NULL, 0, 0, NULL, OUTSIDE, "PATH=VALUE", "none",
     "set a key of the job, as in train.epochs=60, model[1].units=8, model[NAME].units=8; may be "
     "repeated (in the variable: one per line)",
     EQUAL, HASH_NOTE},
    {"seed", JOB_KEY, AT(set), NULL, 0, 0, NULL, OUTSIDE, "N", "the job's", "--set seed=N", EQUAL,
     HASH_NOTE},
    {"out", TEXT, AT(out), NULL, 0, 0, NULL, ANYWHERE, "DIR", "out/NAME",
     "folder for weights.h5, weights.safetensors, result.json, steps.jsonl", LEADER, PLACES_NOTE},
    {"weights", TEXT, AT(weights), NULL, 0, 0, NULL, ANYWHERE, "URL", "OUT/weights.h5",
     "file for the trained weights: .h5 (Keras), .npz or .safetensors", LEADER, PLACES_NOTE},
    {"weights-gcs-bucket", TEXT, AT(weights_gcs_bucket), NULL, 0, 0, NULL, ANYWHERE, "NAME", "none",
     "bucket of --weights gs://BUCKET/PATH, as the tutorial has it", LEADER, PLACES_NOTE},
    {"weights-gcs-path", TEXT, AT(weights_gcs_path), NULL, 0, 0, NULL, ANYWHERE, "PATH", "none",
     "name of the object in that bucket", LEADER, PLACES_NOTE},
    {"checkpoints", TEXT, AT(checkpoints), NULL, 0, 0, NULL, ANYWHERE, "URL",
     "OUT/checkpoints; beside weights in a bucket",
     "folder of checkpoints, from which a restarted run resumes; none: it starts over", LEADER,
     PLACES_NOTE},
    {"checkpoint-interval", DURATION, AT(checkpoint_interval_ns), "10s", 0, 0, NULL, ANYWHERE,
     "TIME", NULL, "minimum time between checkpoints (both limits must pass)", LEADER, NULL},
    {"checkpoint-steps", NUMBER, AT(checkpoint_steps), "100", 1, INT64_C(1) << 53, NULL, ANYWHERE,
     "N", NULL, "minimum steps between checkpoints (both limits must pass)", LEADER, NULL},
    {"checkpoint-epochs", NUMBER, AT(checkpoint_epochs), NULL, 0, INT64_C(1) << 53, NULL, ANYWHERE,
     "N", "none", "additional checkpoint at the end of every N-th epoch; 0: none", LEADER, NULL},
    {"checkpoint-keep", NUMBER, AT(checkpoint_keep), "3", 1, 1 << 20, NULL, ANYWHERE, "N", NULL,
     "number of checkpoints kept, the newest; qring verify computes a step from the one before",
     LEADER, NULL},
    {"evaluate-interval", DURATION, AT(evaluate_interval_ns), "2s", 0, 0, NULL, ANYWHERE, "TIME",
     NULL, "interval at which an evaluator checks for a new checkpoint; it evaluates the newest",
     OWN, NULL},
    {"signing-key", TEXT, AT(signing_key), NULL, 0, 0, NULL, OUTSIDE, "FILE", "none",
     "Ed25519 key (PEM, not encrypted) that signs OUT/provenance.json, as OUT/provenance.dsse.json",
     LEADER, NULL},
    {"fresh", SWITCH, AT(fresh), NULL, 0, 0, NULL, COMMAND_LINE, NULL, NULL,
     "delete existing checkpoints, of any job, and the earlier run in OUT; start over", FIRST,
     NULL},
    {"logdir", TEXT, AT(logdir), NULL, 0, 0, NULL, ANYWHERE, "URL", "none",
     "TensorBoard folder, local, gs:// or s3://BUCKET/PATH, for losses, metrics, gradients, "
     "read-outs, weights; qring run: OUT/logs",
     LEADER, NULL},
    {"profiler-port", NUMBER, AT(profiler_port), NULL, 0, 65535, NULL, ANYWHERE, "PORT", "none",
     "port for TensorBoard's \"Capture profile\", without TLS; 0: none", OWN, NULL},
    {"profiler-bind", TEXT, AT(profiler_bind), NULL, 0, 0, NULL, ANYWHERE, "HOST", "127.0.0.1",
     "address to bind the profiler's port to; 0.0.0.0: all", OWN, NULL},
    {"price-per-pod-hour", TEXT, AT(price_per_pod_hour), NULL, 0, 0, NULL, ANYWHERE, "P", "none",
     "price of a pod per hour; reports the cost so far and at the end, kept in cost.json beside "
     "the checkpoints",
     LEADER, NULL},
    {"currency", TEXT, AT(currency), NULL, 0, 0, NULL, ANYWHERE, "TEXT", "none",
     "currency of the price, as in EUR", LEADER, NULL},
    {"max-cost", TEXT, AT(max_cost), NULL, 0, 0, NULL, ANYWHERE, "COST", "none",
     "maximum cost of the run; when reached, stop after the step with a checkpoint and exit code 5",
     LEADER, NULL},
    {"progress-to", TARGET, AT(progress_to), NULL, 0, 0, NULL, ANYWHERE, "TARGET",
     "Kubeflow Trainer's TrainJob",
     "target of progress reports, every few seconds: a URL (POST of JSON), a Kubernetes object as "
     "job/NAME (annotations), or none",
     LEADER, NULL},
    {"service-account", TEXT, AT(service_account), QR_PROGRESS_ACCOUNT, 0, 0, NULL, ANYWHERE, "DIR",
     NULL, "folder with the pod's token, ca.crt and namespace, for --progress-to", OWN, NULL},
    {"log-level", CHOICE, AT(log_level), "info", 0, 0, level_choice, ANYWHERE, "LEVEL", NULL,
     "minimum level of log lines: CHOICES", OWN, NULL},
    {"log-format", CHOICE, AT(log_format), "auto", 0, 0, log_format_choice, ANYWHERE, "FORMAT",
     NULL,
     "format of log lines: text (in colours on a terminal unless NO_COLOR is set), json (Cloud "
     "Logging's keys), or auto: text on a terminal, json elsewhere",
     OWN, NULL},
    {"exit-on-drain", NUMBER, AT(exit_on_drain), "143", 0, 255, NULL, ANYWHERE, "CODE", NULL,
     "exit code after SIGTERM; use 0 for a TFJob that is scaled down", OWN, NULL},
    {"termination-log", TEXT, AT(termination_log), NULL, 0, 0, NULL, ANYWHERE, "FILE",
     "/dev/termination-log", "file for the reason of the end, if it exists", OWN, NULL},
    {"progress-fd", NUMBER, AT(progress_fd), NULL, 0, 1 << 20, NULL, HIDDEN, "FD", NULL,
     "JSON lines of progress for qring run", OWN, NULL},
    {"lock-fd", NUMBER, AT(lock_fd), NULL, 0, 1 << 20, NULL, HIDDEN, "FD", NULL,
     "lock on OUT, inherited from qring run", OWN, NULL},
    {"print-identity", SWITCH, AT(print_identity), NULL, 0, 0, NULL, COMMAND_LINE, NULL, NULL,
     "print this worker's index, role and peers as JSON, and exit", OWN, NULL},
    {"print-settings", CHOICE, AT(print_settings), NULL, 0, 0, print_choice, HIDDEN, "FORMAT", NULL,
     "this table, for cmd/README.md", OWN, NULL},
    {"help", SWITCH, AT(help), NULL, 0, 0, NULL, COMMAND_LINE, NULL, NULL, "print this text", OWN,
     NULL},
    {"version", SWITCH, AT(version), NULL, 0, 0, NULL, COMMAND_LINE, NULL, NULL,
     "print the version and the names of the arithmetic contracts", OWN, NULL},
};
enum { N = sizeof settings_table / sizeof *settings_table };
_Static_assert(QR_MAX_MEMBERS == 64, "the default of max-workers is that text");
_Static_assert((int)N <= (int)QR_SETTINGS_MAX, "origin has a place for every row");
const size_t settings_n = N;

/* Other values that may differ between two workers of one ring. Keys of the job file that are not
 * listed here are part of the job hash: the first row, "*". */
static const struct {
    const char *what;
    enum qr_setting_scope scope;
    const char *note;
} other_scopes[] = {
    {"*", EQUAL, HASH_NOTE},
    {"data", EQUAL, HASH_NOTE}, /* the content of the files, wherever they are stored */
    {"data.url", OWN, NULL},
    {"data.validation_url", OWN, NULL},
    {"data.channels", OWN, NULL},
    {"name", EQUAL, "rejected worker N of another job: name is THERE there and HERE here"},
    {"profile", OWN, NULL},
    {"train.epochs", RING, RING_NOTE},
    {"train.initial_weights", EQUAL, HASH_NOTE}, /* the file's bytes, wherever it is stored */
    {"worker", OWN, NULL}, /* each of its keys like the setting of that name */
    {"the program's protocol", EQUAL, HASH_NOTE},
    {"the program's arithmetic", EQUAL, HASH_NOTE},
    {"the program's version", OWN, NULL},
    {"the processor", OWN, NULL},
};

const struct setting *settings_find(const char *name) {
    for (size_t i = 0; i < settings_n; i++)
        if (strcmp(settings_table[i].name, name) == 0) return &settings_table[i];
    return NULL;
}

enum qr_setting_scope qr_settings_scope(const char *name, const char **ret_note) {
    const struct setting *t = settings_find(name);
    if (ret_note) *ret_note = t ? t->note : NULL;
    return t ? t->scope : QR_SETTING_NONE;
}

enum qr_setting_scope qr_settings_scope_key(const char *path, const char **ret_note) {
    size_t found = 0;
    for (size_t i = 1; i < sizeof other_scopes / sizeof *other_scopes; i++)
        if (strcmp(other_scopes[i].what, path) == 0) found = i;
    if (ret_note) *ret_note = other_scopes[found].note;
    return other_scopes[found].scope;
}
