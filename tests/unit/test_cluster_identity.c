/* Worker identity: every form that the reference systems write, and common mistakes. An accepted
 * row gives the JSON of --print-identity; a rejected one the words that the message must have,
 * separated by '|'. */
#include "cluster/identity.h"
#include "tests/t.h"

struct row {
    const char *name;
    struct qr_identity_inputs in;
    const char *json;  /* accepted */
    const char *words; /* rejected */
};
#define TF(text)                                                                                   \
    { .tf_config = (text) }
#define OK(source, role, index, address, peers) OK_PS(source, role, index, address, "0", peers)
#define OK_PS(source, role, index, address, servers, peers)                                        \
    "{\"source\":\"" source "\",\"role\":\"" role "\",\"index\":" index ",\"address\":" address    \
    ",\"parameter_servers\":" servers ",\"peers\":[" peers "]}"
#define THREE                                                                                      \
    "\"qml-worker-0.default.svc:2222\",\"qml-worker-1.default.svc:2222\",\"qml-worker-2.default."  \
    "svc:2222\""
#define AB "\"worker\":[\"a:1\",\"b:2\"]"
#define TASK(type, index) "\"task\":{\"type\":\"" type "\",\"index\":" index "}"
#define CFG(cluster, type, index) TF("{\"cluster\":{" cluster "}," TASK(type, index) "}")
#define SINGLE(source) OK(source, "single", "0", "null", "")
#define PEERS_AB "\"a:1\",\"b:2\""

static const struct row rows[] = {
    /* ---- nothing set ---- */
    {"nothing is set", {0}, SINGLE("single"), NULL},
    {"empty TF_CONFIG is unset", TF(""), SINGLE("single"), NULL},
    {"a laptop called node-3 is not worker 3", {.hostname = "node-3"}, SINGLE("single"), NULL},
    {"job index without a template", {.job_completion_index = "3"}, SINGLE("single"), NULL},
    {"replicas 1 alone", {.replicas = "1"}, SINGLE("single"), NULL},
    {"replicas without names",
     {.replicas = "3"},
     NULL,
     "--replicas|nothing names the other workers|--peer-template"},
    {"replicas is not a number", {.replicas = "three"}, NULL, "--replicas|three|1 ... 64"},
    /* ---- dense ---- */
    {"the operator's three workers",
     TF("{\"cluster\":{\"worker\":[" THREE
        "]},\"task\":{\"type\":\"worker\",\"index\":0},\"environment\":\"cloud\"}"),
     OK("tf_config", "worker", "0", "\"qml-worker-0.default.svc:2222\"", THREE), NULL},
    {"the operator's last worker",
     TF("{\"cluster\":{\"worker\":[" THREE
        "]},\"task\":{\"type\":\"worker\",\"index\":2},\"environment\":\"cloud\"}"),
     OK("tf_config", "worker", "2", "\"qml-worker-2.default.svc:2222\"", THREE), NULL},
    {"one worker", CFG("\"worker\":[\"a:1\"]", "worker", "0"),
     OK("tf_config", "worker", "0", "\"a:1\"", "\"a:1\""), NULL},
    {"index as a string", CFG(AB, "worker", "\"1\""),
     OK("tf_config", "worker", "1", "\"b:2\"", PEERS_AB), NULL},
    {"index as 1.0", CFG(AB, "worker", "1.0"), OK("tf_config", "worker", "1", "\"b:2\"", PEERS_AB),
     NULL},
    {"missing ports", CFG("\"worker\":[\"a\",\"b.svc\"]", "worker", "1"),
     OK("tf_config", "worker", "1", "\"b.svc:2222\"", "\"a:2222\",\"b.svc:2222\""), NULL},
    {"IPv4", CFG("\"worker\":[\"10.0.0.1:5\",\"10.0.0.2:5\"]", "worker", "0"),
     OK("tf_config", "worker", "0", "\"10.0.0.1:5\"", "\"10.0.0.1:5\",\"10.0.0.2:5\""), NULL},
    {"IPv6", CFG("\"worker\":[\"[fd00::1]:5\",\"[fd00::2]\"]", "worker", "1"),
     OK("tf_config", "worker", "1", "\"[fd00::2]:2222\"", "\"[fd00::1]:5\",\"[fd00::2]:2222\""),
     NULL},
    {"IPv6 with a zone", CFG("\"worker\":[\"[fe80::1%br-0.1_abcdefgh]\"]", "worker", "0"),
     OK("tf_config", "worker", "0", "\"[fe80::1%br-0.1_abcdefgh]:2222\"",
        "\"[fe80::1%br-0.1_abcdefgh]:2222\""),
     NULL},
    {"custom cluster domain",
     CFG("\"worker\":[\"j-worker-0.ns.svc.cluster.local:2222\"]", "worker", "0"),
     OK("tf_config", "worker", "0", "\"j-worker-0.ns.svc.cluster.local:2222\"",
        "\"j-worker-0.ns.svc.cluster.local:2222\""),
     NULL},
    {"chief", CFG("\"chief\":[\"c:1\"]," AB, "chief", "0"),
     OK("tf_config", "chief", "0", "\"c:1\"", "\"c:1\"," PEERS_AB), NULL},
    {"worker beside a chief", CFG("\"chief\":[\"c:1\"]," AB, "worker", "0"),
     OK("tf_config", "worker", "1", "\"a:1\"", "\"c:1\"," PEERS_AB), NULL},
    {"chief is first, wherever it is listed", CFG(AB ",\"chief\":[\"c:1\"]", "worker", "1"),
     OK("tf_config", "worker", "2", "\"b:2\"", "\"c:1\"," PEERS_AB), NULL},
    {"master", CFG("\"master\":[\"m:1\"]," AB, "master", "0"),
     OK("tf_config", "master", "0", "\"m:1\"", "\"m:1\"," PEERS_AB), NULL},
    {"worker beside a master", CFG("\"master\":[\"m:1\"]," AB, "worker", "1"),
     OK("tf_config", "worker", "2", "\"b:2\"", "\"m:1\"," PEERS_AB), NULL},
    {"chief, then master", CFG("\"master\":[\"m:1\"],\"chief\":[\"c:1\"]", "master", "0"),
     OK("tf_config", "master", "1", "\"m:1\"", "\"c:1\",\"m:1\""), NULL},
    {"ps beside workers", CFG("\"ps\":[\"p:1\"]," AB, "worker", "0"),
     OK_PS("tf_config", "worker", "1", "\"a:1\"", "1", "\"p:1\"," PEERS_AB), NULL},
    {"a ps", CFG("\"ps\":[\"p:1\",\"q\"]," AB, "ps", "1"),
     OK_PS("tf_config", "ps", "1", "\"q:2222\"", "2", "\"p:1\",\"q:2222\"," PEERS_AB), NULL},
    {"ps come first, wherever they are listed",
     CFG(AB ",\"chief\":[\"c:1\"],\"master\":[\"m:1\"],\"ps\":[\"p:1\"]", "master", "0"),
     OK_PS("tf_config", "master", "2", "\"m:1\"", "1", "\"p:1\",\"c:1\",\"m:1\"," PEERS_AB), NULL},
    {"a chief beside a ps", CFG("\"ps\":[\"p:1\"],\"chief\":[\"c:1\"]", "chief", "0"),
     OK_PS("tf_config", "chief", "1", "\"c:1\"", "1", "\"p:1\",\"c:1\""), NULL},
    {"ps by key", CFG("\"ps\":{\"1\":\"q:1\",\"0\":\"p:1\"}," AB, "ps", "1"),
     OK_PS("tf_config", "ps", "1", "\"q:1\"", "2", "\"p:1\",\"q:1\"," PEERS_AB), NULL},
    {"an evaluator beside a ps", CFG("\"ps\":[\"p:1\"]," AB, "evaluator", "0"),
     OK_PS("tf_config", "evaluator", "null", "null", "1", "\"p:1\"," PEERS_AB), NULL},
    {"ps without workers", CFG("\"ps\":[\"p:1\"]", "ps", "0"), NULL,
     "cluster names ps|no worker, chief or master to compute"},
    {"ps by key, an index beyond them", CFG("\"ps\":{\"1\":\"q:1\",\"0\":\"p:1\"}," AB, "ps", "2"),
     NULL, "task.index is 2, but cluster.ps names 2 addresses"},
    {"a chief by key, an index beyond it", CFG("\"chief\":{\"0\":\"c:1\"}," AB, "chief", "1"), NULL,
     "task.index is 1, but cluster.chief names 1 address"},
    {"ps by key, with a hole", CFG("\"ps\":{\"1\":\"q:1\"}," AB, "worker", "1"), NULL,
     "cluster.ps[\"1\"]|must name all ps"},
    {"a ps without a cluster", TF("{" TASK("ps", "0") "}"), NULL, "'ps'|no cluster"},
    {"a ps in a sparse cluster",
     TF("{\"sparseCluster\":{\"worker\":{},\"ps\":[\"p:1\"]}," TASK("ps", "0") "}"), NULL,
     "sparse|no workers to a ps|enableDynamicWorker"},
    {"TF_CONFIG beside a role",
     {.tf_config = "{\"cluster\":{" AB "}," TASK("worker", "0") "}", .role = "ps"},
     NULL,
     "TF_CONFIG defines the roles|--role|QRING_PARAMETER_SERVERS"},
    /* ---- parameter servers by other forms ---- */
    {"a worker of a list beside ps",
     {.index = "1", .peers = "a:1,b:2", .parameter_servers = "p,q:7"},
     OK_PS("flags", "worker", "3", "\"b:2\"", "2", "\"p:2222\",\"q:7\"," PEERS_AB),
     NULL},
    {"a ps beside a list",
     {.index = "1", .peers = "a:1,b:2", .parameter_servers = "p,q:7", .role = "ps"},
     OK_PS("flags", "ps", "1", "\"q:7\"", "2", "\"p:2222\",\"q:7\"," PEERS_AB),
     NULL},
    {"a worker of a template beside a ps",
     {.job_completion_index = "1",
      .peer_template = "w{i}:7",
      .replicas = "2",
      .parameter_servers = "p:1"},
     OK_PS("job_index", "worker", "2", "\"w1:7\"", "1", "\"p:1\",\"w0:7\",\"w1:7\""),
     NULL},
    {"a ps of a StatefulSet of its own",
     {.hostname = "p-0",
      .peer_template = "w{i}:7",
      .replicas = "2",
      .parameter_servers = "p:1",
      .role = "ps"},
     OK_PS("statefulset", "ps", "0", "\"p:1\"", "1", "\"p:1\",\"w0:7\",\"w1:7\""),
     NULL},
    {"a ps where no count is known",
     {.hostname = "p-0", .peer_template = "w{i}:7", .parameter_servers = "p:1", .role = "ps"},
     OK_PS("statefulset", "ps", "0", "\"p:1\"", "1", "\"p:1\""),
     NULL},
    {"a stale count beside a ps",
     {.job_completion_index = "3",
      .peer_template = "w{i}:7",
      .replicas = "2",
      .parameter_servers = "p:1"},
     OK_PS("job_index", "worker", "4", "\"w3:7\"", "1", "\"p:1\",\"w3:7\""),
     NULL},
    {"role worker alone", {.role = "worker"}, SINGLE("single"), NULL},
    {"no such role", {.role = "server"}, NULL, "--role|'server'|none of worker, ps, evaluator"},
    {"an evaluator by flag",
     {.role = "evaluator"},
     OK("flags", "evaluator", "null", "null", ""),
     NULL},
    {"an evaluator among an Indexed Job's variables",
     {.role = "evaluator",
      .job_completion_index = "0",
      .peer_template = "j-{i}.s:2222",
      .replicas = "2",
      .parameter_servers = "p:1"},
     OK("flags", "evaluator", "null", "null", ""),
     NULL},
    {"an evaluator with a worker's flags",
     {.role = "evaluator", .index = "7", .peers = "a:1,b:2"},
     OK("flags", "evaluator", "null", "null", ""),
     NULL},
    {"an evaluator by flag beside TF_CONFIG",
     {.tf_config = "{\"cluster\":{" AB "}," TASK("evaluator", "0") "}", .role = "evaluator"},
     NULL,
     "TF_CONFIG defines the roles|--role"},
    {"evaluators by key", CFG("\"evaluator\":{\"1\":\"e:1\",\"0\":\"d:1\"}," AB, "evaluator", "1"),
     OK("tf_config", "evaluator", "null", "\"e:1\"", PEERS_AB), NULL},
    {"a ps that no setting names",
     {.role = "ps", .index = "0", .peers = "a:1"},
     NULL,
     "--role|--parameter-servers|names none"},
    {"a ps beyond the list",
     {.role = "ps", .index = "2", .peers = "a:1", .parameter_servers = "p,q"},
     NULL,
     "--index is 2|--parameter-servers|0 ... 1"},
    {"a worker beyond the list beside ps",
     {.index = "1", .peers = "a:1", .parameter_servers = "p,q"},
     NULL,
     "--index is 1|names 1 workers|0 ... 0"},
    {"ps without workers' names",
     {.parameter_servers = "p"},
     NULL,
     "--parameter-servers|--peer-template"},
    {"a ps that is a worker too",
     {.index = "0", .peers = "a:1,b", .parameter_servers = "b:2222"},
     NULL,
     "'b:2222'|twice"},
    {"an empty name among ps",
     {.index = "0", .peers = "a:1,b", .parameter_servers = "p,"},
     NULL,
     "--parameter-servers (QRING_PARAMETER_SERVERS), number 1|not an address"},
    {"too many beside ps",
     {.index = "0", .peers = "a,b,c", .parameter_servers = "p,q", .max_workers = 4},
     NULL,
     "--peers|names 5 workers|at most 4"},
    {"as many as fit beside ps",
     {.index = "0", .peers = "a,b", .parameter_servers = "p,q", .max_workers = 4},
     OK_PS("flags", "worker", "2", "\"a:2222\"", "2",
           "\"p:2222\",\"q:2222\",\"a:2222\",\"b:2222\""),
     NULL},
    {"only ps fit",
     {.index = "0", .peers = "a", .parameter_servers = "p,q", .max_workers = 2},
     NULL,
     "--parameter-servers|2 of at most 2|no member would compute"},
    {"replicas too many beside ps",
     {.index = "0",
      .peer_template = "w{i}",
      .replicas = "4",
      .parameter_servers = "p",
      .max_workers = 4},
     NULL,
     "--replicas|is 4|names 1|at most 4"},
    {"evaluator beside workers", CFG("\"evaluator\":[\"e:1\"]," AB, "worker", "1"),
     OK("tf_config", "worker", "1", "\"b:2\"", PEERS_AB), NULL},
    {"an evaluator", CFG("\"evaluator\":[\"e:1\"]," AB, "evaluator", "0"),
     OK("tf_config", "evaluator", "null", "\"e:1\"", PEERS_AB), NULL},
    {"an evaluator outside the cluster", CFG(AB, "evaluator", "0"),
     OK("tf_config", "evaluator", "null", "null", PEERS_AB), NULL},
    {"unknown keys",
     TF("{\"cluster\":{" AB
        ",\"gpu_pool\":[1]}," TASK("worker", "0") ",\"rpc_layer\":\"grpc\",\"x\":{}}"),
     OK("tf_config", "worker", "0", "\"a:1\"", PEERS_AB), NULL},
    {"null lists", CFG(AB ",\"ps\":null,\"chief\":null", "worker", "0"),
     OK("tf_config", "worker", "0", "\"a:1\"", PEERS_AB), NULL},
    {"empty lists", CFG(AB ",\"ps\":[],\"chief\":[]", "worker", "0"),
     OK("tf_config", "worker", "0", "\"a:1\"", PEERS_AB), NULL},
    {"no cluster", TF("{" TASK("worker", "0") "}"), SINGLE("tf_config"), NULL},
    {"empty object", TF("{}"), SINGLE("tf_config"), NULL},
    {"empty cluster", TF("{\"cluster\":{}," TASK("worker", "0") "}"), SINGLE("tf_config"), NULL},
    {"null cluster and task", TF("{\"cluster\":null,\"task\":null}"), SINGLE("tf_config"), NULL},
    {"an evaluator alone", TF("{" TASK("evaluator", "0") "}"),
     OK("tf_config", "evaluator", "null", "null", ""), NULL},
    /* ---- sparse ---- */
    {"sparse, old spelling",
     TF("{\"sparseCluster\":{\"worker\":{\"1\":\"j-worker-1.ns.svc:2222\"},\"ps\":[]}," TASK(
         "worker", "1") "}"),
     OK("tf_config", "worker", "1", "\"j-worker-1.ns.svc:2222\"", "\"j-worker-1.ns.svc:2222\""),
     NULL},
    {"sparse, new spelling",
     CFG("\"worker\":{\"0\":\"j-worker-0.ns.svc:2222\"},\"ps\":null", "worker", "0"),
     OK("tf_config", "worker", "0", "\"j-worker-0.ns.svc:2222\"", "\"j-worker-0.ns.svc:2222\""),
     NULL},
    {"sparse with a ps",
     CFG("\"worker\":{\"2\":\"j-worker-2:2222\"},\"ps\":[\"p:1\"]", "worker", "2"),
     OK_PS("tf_config", "worker", "3", "\"j-worker-2:2222\"", "1", "\"p:1\",\"j-worker-2:2222\""),
     NULL},
    {"sparse with all names", CFG("\"worker\":{\"1\":\"b:2\",\"0\":\"a:1\"}", "worker", "1"),
     OK("tf_config", "worker", "1", "\"b:2\"", PEERS_AB), NULL},
    {"sparse spelling with a list", TF("{\"sparseCluster\":{" AB "}," TASK("worker", "1") "}"),
     OK("tf_config", "worker", "1", "\"b:2\"", PEERS_AB), NULL},
    {"sparse with a template",
     {.tf_config = "{\"cluster\":{\"worker\":{\"1\":\"odd:7\"}}," TASK("worker", "1") "}",
      .peer_template = "w{i}:7",
      .replicas = "3"},
     OK("tf_config", "worker", "1", "\"odd:7\"", "\"w0:7\",\"odd:7\",\"w2:7\""),
     NULL},
    {"sparse evaluator", CFG("\"worker\":{\"1\":\"j-1:5\"}", "evaluator", "0"),
     OK("tf_config", "evaluator", "null", "null", "\"j-1:5\""), NULL},
    {"sparse without an index in its name", CFG("\"worker\":{\"1\":\"alice:2222\"}", "worker", "1"),
     NULL, "alice:2222|'-1'|QRING_PEER_TEMPLATE"},
    {"sparse chief", CFG("\"worker\":{},\"ps\":null", "chief", "0"), NULL,
     "'chief'|sparse|enableDynamicWorker|QRING_INDEX"},
    {"sparse without the worker's index", CFG("\"worker\":{\"1\":\"j-1:2222\"}", "worker", "2"),
     NULL, "task.index is 2|cluster.worker|no address"},
    {"sparse key is not an index", CFG("\"worker\":{\"one\":\"j-1:2222\"}", "worker", "1"), NULL,
     "cluster.worker|'one'|index"},
    {"sparse key too large", CFG("\"worker\":{\"64\":\"j-64:2222\"}", "worker", "64"), NULL,
     "index 64|--max-workers"},
    {"sparse key twice", CFG("\"worker\":{\"1\":\"j-1:2222\",\"01\":\"k-1:2222\"}", "worker", "1"),
     NULL, "there twice"},
    {"a second chief in a sparse cluster",
     CFG("\"chief\":{\"1\":\"d:1\"},\"worker\":{\"0\":\"a:1\"}", "worker", "0"), NULL,
     "cluster.chief[\"1\"]|a job has at most one chief, with index 0"},
    {"both spellings",
     TF("{\"cluster\":{" AB "},\"sparseCluster\":{" AB "}," TASK("worker", "0") "}"), NULL,
     "both cluster and sparseCluster"},
    /* ---- malformed: never ignored ---- */
    {"not JSON", TF("worker-0:2222"), NULL, "TF_CONFIG"},
    {"blank", TF("  "), NULL, "TF_CONFIG"},
    {"cut", TF("{\"cluster\":{\"worker\":[\"a:1\""), NULL, "TF_CONFIG"},
    {"two values", TF("{} {}"), NULL, "TF_CONFIG"},
    {"a list", TF("[]"), NULL, "TF_CONFIG|object"},
    {"a string", TF("\"{}\""), NULL, "TF_CONFIG|object"},
    {"null", TF("null"), NULL, "TF_CONFIG|object"},
    {"a malformed TF_CONFIG precedes the job's index",
     {.tf_config = "{", .job_completion_index = "0", .peer_template = "w-{i}:1"},
     NULL,
     "TF_CONFIG"},
    {"duplicate keys", TF("{\"cluster\":{" AB "},\"cluster\":{" AB "}," TASK("worker", "0") "}"),
     NULL, "TF_CONFIG|cluster"},
    {"cluster is a list", TF("{\"cluster\":[]," TASK("worker", "0") "}"), NULL, "cluster|object"},
    {"cluster is misspelt", TF("{\"Cluster\":{" AB "}," TASK("worker", "0") "}"), NULL,
     "'Cluster'|did you mean 'cluster'"},
    {"workers", CFG("\"workers\":[\"a:1\"]", "worker", "0"), NULL,
     "'workers'|did you mean 'worker'"},
    {"worker is a string", CFG("\"worker\":\"a:1\"", "worker", "0"), NULL,
     "cluster.worker|string|list of host:port"},
    {"worker is a number", CFG("\"worker\":3", "worker", "0"), NULL,
     "cluster.worker|number|list of host:port"},
    {"an address is a number", CFG("\"worker\":[\"a:1\",7]", "worker", "0"), NULL,
     "cluster.worker[1]|string"},
    {"an address is null", CFG("\"worker\":[null]", "worker", "0"), NULL,
     "cluster.worker[0]|string"},
    {"an address is empty", CFG("\"worker\":[\"a:1\",\"\"]", "worker", "0"), NULL,
     "cluster.worker[1]|it is empty"},
    {"no host", CFG("\"worker\":[\":2222\"]", "worker", "0"), NULL,
     "cluster.worker[0]|':2222'|no host"},
    {"no port after the colon", CFG("\"worker\":[\"a:\"]", "worker", "0"), NULL, "'a:'|no port"},
    {"port 0", CFG("\"worker\":[\"a:0\"]", "worker", "0"), NULL, "'a:0'|1 ... 65535"},
    {"port 65536", CFG("\"worker\":[\"a:65536\"]", "worker", "0"), NULL, "'a:65536'|1 ... 65535"},
    {"port is a name", CFG("\"worker\":[\"a:http\"]", "worker", "0"), NULL,
     "'a:http'|not a number"},
    {"a scheme", CFG("\"worker\":[\"grpc://a:1\"]", "worker", "0"), NULL,
     "grpc://a:1|without a scheme"},
    {"blanks", CFG("\"worker\":[\"a b:1\"]", "worker", "0"), NULL, "'a b:1'|character"},
    {"bare IPv6", CFG("\"worker\":[\"fd00::1:2222\"]", "worker", "0"), NULL,
     "brackets|[fd00::1]:2222"},
    {"half an IPv6", CFG("\"worker\":[\"[fd00::1:2222\"]", "worker", "0"), NULL, "not closed"},
    {"no IPv6 in brackets", CFG("\"worker\":[\"[a.svc]:2222\"]", "worker", "0"), NULL,
     "not an IPv6 address"},
    {"a duplicate", CFG("\"worker\":[\"a:1\",\"b:1\",\"a:1\"]", "worker", "0"), NULL,
     "cluster.worker[2]|'a:1'|twice"},
    {"a duplicate by the default port", CFG("\"worker\":[\"a:2222\",\"A\"]", "worker", "0"), NULL,
     "'A:2222'|twice"},
    {"a duplicate with the final dot of DNS",
     CFG("\"worker\":[\"a.b:1\",\"A.b.:1\"]", "worker", "0"), NULL, "'A.b.:1'|twice"},
    {"an empty zone", CFG("\"worker\":[\"[fe80::1%]:1\"]", "worker", "0"), NULL,
     "cluster.worker[0]|the zone after '%' is not 1 to 15 letters"},
    {"a zone with a control character",
     CFG("\"worker\":[\"[fe80::1%\\u001b[31m]\"]", "worker", "0"), NULL,
     "the zone after '%' is not 1 to 15 letters"},
    {"a zone of 16 letters", CFG("\"worker\":[\"[fe80::1%abcdefghijklmnop]\"]", "worker", "0"),
     NULL, "the zone after '%' is not 1 to 15 letters"},
    {"a duplicate in another form of IPv6",
     CFG("\"worker\":[\"[::1]:2222\",\"[0:0:0:0:0:0:0:1]\"]", "worker", "0"), NULL,
     "'[0:0:0:0:0:0:0:1]:2222'|twice"},
    {"a duplicate of the chief", CFG("\"chief\":[\"a:1\"]," AB, "worker", "0"), NULL,
     "'a:1'|twice"},
    {"a duplicate among ps", CFG("\"ps\":[\"a:1\"]," AB, "worker", "0"), NULL,
     "cluster.worker[0]|'a:1'|twice"},
    {"no task", TF("{\"cluster\":{" AB "}}"), NULL, "task is missing"},
    {"task is a string", TF("{\"cluster\":{" AB "},\"task\":\"worker\"}"), NULL, "task|object"},
    {"no type", TF("{\"cluster\":{" AB "},\"task\":{\"index\":0}}"), NULL, "task.type is missing"},
    {"no index", TF("{\"cluster\":{" AB "},\"task\":{\"type\":\"worker\"}}"), NULL,
     "task.index is missing"},
    {"index is misspelt", TF("{\"cluster\":{" AB "},\"task\":{\"type\":\"worker\",\"idx\":0}}"),
     NULL, "task.index is missing"},
    {"unknown type", CFG(AB, "wroker", "0"), NULL, "task.type|wroker|worker"},
    {"type of the wrong case", CFG(AB, "Worker", "0"), NULL, "task.type|Worker|worker"},
    {"type is a number", TF("{\"cluster\":{" AB "},\"task\":{\"type\":0,\"index\":0}}"), NULL,
     "task.type must be|not 0"},
    {"type that the cluster lacks", CFG(AB, "chief", "0"), NULL, "'chief'|cluster names no chief"},
    {"ps that the cluster lacks", CFG(AB, "ps", "0"), NULL, "'ps'|cluster names no ps"},
    {"worker in an empty list", CFG("\"worker\":[]", "worker", "0"), NULL,
     "'worker'|cluster names no worker"},
    {"index out of range", CFG(AB, "worker", "2"), NULL, "task.index is 2|2 addresses|0 ... 1"},
    {"ps index out of range", CFG("\"ps\":[\"p:1\"]," AB, "ps", "1"), NULL,
     "task.index is 1|cluster.ps|0 ... 0"},
    {"chief index 1", CFG("\"chief\":[\"c:1\"]," AB, "chief", "1"), NULL,
     "task.index is 1|cluster.chief"},
    {"negative index", CFG(AB, "worker", "-1"), NULL, "task.index"},
    {"half an index", CFG(AB, "worker", "0.5"), NULL, "task.index"},
    {"index above 2^53", CFG(AB, "worker", "9007199254740993"), NULL, "TF_CONFIG|above 2^53"},
    {"index is a word", CFG(AB, "worker", "\"one\""), NULL, "task.index is 'one'"},
    {"index is an empty string", CFG(AB, "worker", "\"\""), NULL, "task.index|not an index"},
    {"index is true", CFG(AB, "worker", "true"), NULL, "task.index"},
    {"index without a cluster", TF("{" TASK("worker", "2") "}"), NULL,
     "task.index is 2|no cluster"},
    {"two chiefs", CFG("\"chief\":[\"c:1\",\"d:1\"]", "chief", "0"), NULL,
     "cluster.chief names 2|at most one chief"},
    /* ---- qring's settings ---- */
    {"index and peers",
     {.index = "1", .peers = "a:1,b"},
     OK("flags", "worker", "1", "\"b:2222\"", "\"a:1\",\"b:2222\""),
     NULL},
    {"index and template",
     {.index = "1", .peer_template = "q-{i}.s:7", .replicas = "2"},
     OK("flags", "worker", "1", "\"q-1.s:7\"", "\"q-0.s:7\",\"q-1.s:7\""),
     NULL},
    {"template without a count",
     {.index = "1", .peer_template = "q-{i}.s"},
     OK("flags", "worker", "1", "\"q-1.s:2222\"", "\"q-1.s:2222\""),
     NULL},
    {"qring's settings precede TF_CONFIG",
     {.index = "0", .peers = "x:9", .tf_config = "{"},
     OK("flags", "worker", "0", "\"x:9\"", "\"x:9\""),
     NULL},
    {"IPv6 template",
     {.index = "2", .peer_template = "[fd00::{i}]:7", .replicas = "3"},
     OK("flags", "worker", "2", "\"[fd00::2]:7\"",
        "\"[fd00::0]:7\",\"[fd00::1]:7\",\"[fd00::2]:7\""),
     NULL},
    {"peers without index", {.peers = "a,b"}, NULL, "--peers|--index"},
    {"index without peers", {.index = "1"}, NULL, "--index|--peers or --peer-template"},
    {"index beyond peers", {.index = "2", .peers = "a,b"}, NULL, "--index is 2|2 workers|0 ... 1"},
    {"index beyond replicas",
     {.index = "3", .peer_template = "q-{i}", .replicas = "3"},
     NULL,
     "--index is 3|--replicas is 3"},
    {"index is not a number", {.index = "1st", .peers = "a,b"}, NULL, "--index|'1st'"},
    {"index beyond 64", {.index = "64", .peer_template = "q-{i}"}, NULL, "64|--max-workers"},
    {"peers and template",
     {.index = "0", .peers = "a", .peer_template = "q-{i}"},
     NULL,
     "both set"},
    {"peers and another count",
     {.index = "0", .peers = "a,b", .replicas = "3"},
     NULL,
     "--replicas is 3|2 workers"},
    {"a hole in peers", {.index = "0", .peers = "a,,b"}, NULL, "--peers|worker 1|empty"},
    {"a duplicate in peers", {.index = "0", .peers = "a,b,a"}, NULL, "worker 2|twice"},
    {"template without {i}",
     {.index = "0", .peer_template = "q-0.s:7"},
     NULL,
     "--peer-template|no {i}"},
    {"template with two {i}",
     {.index = "0", .peer_template = "q-{i}.s-{i}"},
     NULL,
     "more than once"},
    {"template with {i} in its port",
     {.index = "0", .peer_template = "q:{i}"},
     NULL,
     "{i} in its port"},
    {"template that makes no address",
     {.index = "0", .peer_template = "q {i}"},
     NULL,
     "--peer-template|character"},
    /* ---- Indexed Job, StatefulSet ---- */
    {"Indexed Job",
     {.job_completion_index = "1",
      .peer_template = "job-{i}.sub:2222",
      .replicas = "2",
      .hostname = "job-1"},
     OK("job_index", "worker", "1", "\"job-1.sub:2222\"", "\"job-0.sub:2222\",\"job-1.sub:2222\""),
     NULL},
    {"TF_CONFIG before the job's index",
     {.tf_config = "{\"cluster\":{" AB "}," TASK("worker", "0") "}",
      .job_completion_index = "1",
      .peer_template = "j-{i}"},
     OK("tf_config", "worker", "0", "\"a:1\"", PEERS_AB),
     NULL},
    {"an Indexed Job that has grown",
     {.job_completion_index = "4", .peer_template = "job-{i}.sub", .replicas = "3"},
     OK("job_index", "worker", "4", "\"job-4.sub:2222\"", "\"job-4.sub:2222\""),
     NULL},
    {"job index is not a number",
     {.job_completion_index = "", .peer_template = "job-{i}", .hostname = "laptop"},
     NULL,
     "--peer-template|--index|laptop"},
    {"job index is a word",
     {.job_completion_index = "x", .peer_template = "job-{i}"},
     NULL,
     "JOB_COMPLETION_INDEX|'x'"},
    {"StatefulSet",
     {.hostname = "q-2", .peer_template = "q-{i}.q", .replicas = "3"},
     OK("statefulset", "worker", "2", "\"q-2.q:2222\"",
        "\"q-0.q:2222\",\"q-1.q:2222\",\"q-2.q:2222\""),
     NULL},
    {"StatefulSet by its full name",
     {.hostname = "q-1.q.ns.svc", .peer_template = "q-{i}.q", .replicas = "2"},
     OK("statefulset", "worker", "1", "\"q-1.q:2222\"", "\"q-0.q:2222\",\"q-1.q:2222\""),
     NULL},
    {"a template and no ordinal",
     {.hostname = "laptop", .peer_template = "q-{i}.q"},
     NULL,
     "nothing says which index|laptop"},
};

static void check_words(const struct row *r, const char *message) {
    char words[256];
    snprintf(words, sizeof words, "%s", r->words);
    for (char *w = words, *next; w; w = next) {
        next = strchr(w, '|');
        if (next) *next++ = 0;
        CHECK(strstr(message, w), "%s: '%s' in: %s", r->name, w, message);
    }
}

static void test_rows(void) {
    for (size_t i = 0; i < COUNT(rows); i++) {
        const struct row *r = &rows[i];
        struct qr_identity_inputs in = r->in;
        struct qr_identity id = {.index = -77};
        struct qr_err err = {0};
        in.default_port = 2222;
        if (!in.max_workers) in.max_workers = 64;
        enum qr_code code = qr_identity_find(&in, &id, &err);
        if (r->json) {
            CHECK(code == QR_OK, "%s: %s", r->name, err.msg);
            if (code != QR_OK) continue;
            struct qr_buf json = {0};
            qr_identity_json(&id, &json);
            CHECK(strcmp(qr_buf_string(&json), r->json) == 0, "%s:\n  got  %s\n  want %s", r->name,
                  qr_buf_string(&json), r->json);
            CHECK(id.why && *id.why, "%s: has a reason", r->name);
            CHECK(id.index < 0 || id.n_peers == 0 || strcmp(id.peers[id.index], id.address) == 0,
                  "%s: its address is at its index", r->name);
            for (size_t k = 0; k < id.n_peers; k++) CHECK(id.peers[k], "%s: peer %zu", r->name, k);
            qr_buf_free(&json);
            qr_identity_fini(&id);
        } else {
            CHECK(code == QR_INVALID_ARGUMENT && qr_exit_code(code) == 2, "%s: accepted, or %s",
                  r->name, qr_code_name(code));
            CHECK(id.index == -77, "%s: output untouched", r->name);
            if (code != QR_OK) check_words(r, err.msg);
            else qr_identity_fini(&id);
        }
    }
}

/* A sparse TF_CONFIG names no other worker: candidates are derived from the worker's own name,
 * after a known chief. */
static void test_candidates(void) {
    struct qr_identity_inputs in = {.tf_config = "{\"cluster\":{\"chief\":[\"j-chief-0.ns.svc:5\"],"
                                                 "\"worker\":{\"2\":\"j-2-worker-2.ns-2.svc:5\"}},"
                                                 "\"task\":{\"type\":\"worker\",\"index\":2}}",
                                    .default_port = 2222,
                                    .max_workers = 8};
    struct qr_identity id;
    struct qr_err err;
    enum qr_code code = qr_identity_find(&in, &id, &err);
    CHECK(code == QR_OK, "%s", err.msg);
    if (code != QR_OK) return;
    CHECK(!id.count_known && id.n_peers == 8 && id.index == 3 && id.port == 5);
    CHECK(strcmp(id.peers[0], "j-chief-0.ns.svc:5") == 0 && id.named[0], "%s", id.peers[0]);
    CHECK(strcmp(id.peers[1], "j-2-worker-0.ns-2.svc:5") == 0 && !id.named[1], "%s", id.peers[1]);
    CHECK(strcmp(id.peers[3], "j-2-worker-2.ns-2.svc:5") == 0 && id.named[3], "%s", id.peers[3]);
    CHECK(strcmp(id.peers[7], "j-2-worker-6.ns-2.svc:5") == 0, "%s", id.peers[7]);
    qr_identity_fini(&id);
}

static void test_too_many(void) {
    struct qr_buf text = {0};
    qr_buf_puts(&text, "{\"cluster\":{\"worker\":[");
    for (int i = 0; i < 65; i++) qr_buf_printf(&text, "%s\"w%d:1\"", i ? "," : "", i);
    qr_buf_puts(&text, "]},\"task\":{\"type\":\"worker\",\"index\":0}}");
    struct qr_identity_inputs in = {
        .tf_config = qr_buf_string(&text), .default_port = 2222, .max_workers = 64};
    struct qr_identity id;
    struct qr_err err;
    CHECK(qr_identity_find(&in, &id, &err) == QR_INVALID_ARGUMENT &&
              strstr(err.msg, "65 workers") && strstr(err.msg, "64"),
          "%s", err.msg);
    qr_buf_free(&text);
}

static void test_addresses(void) {
    char *host = NULL;
    unsigned port = 0;
    CHECK(qr_address_split("[::1]:7", 5, &host, &port) && strcmp(host, "::1") == 0 && port == 7);
    free(host);
    CHECK(qr_address_split("h", 5, &host, &port) && strcmp(host, "h") == 0 && port == 5);
    free(host);
    CHECK(!qr_address_split("[::1]x", 5, &host, &port) &&
          !qr_address_split("a..b", 5, &host, &port) && !qr_address_split("", 5, &host, &port));
    char *joined = qr_address_join("::1", 7);
    CHECK(strcmp(joined, "[::1]:7") == 0);
    free(joined);
}

int main(void) {
    test_rows();
    test_candidates();
    test_too_many();
    test_addresses();
    return t_end();
}
