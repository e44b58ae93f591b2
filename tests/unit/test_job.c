/* Job files: what is accepted, what is refused and in which words; the canonical form and
 * its hash. */
#include "base/mem.h"
#include "job/canonical.h"
#include "job/job.h"
#include "tests/t.h"

#define Q                                                                                          \
    "{\"layer\":\"quantum\",\"circuit\":{\"ansatz\":\"qcnn\",\"qubits\":8,\"stages\":1},"          \
    "\"readouts\":[\"Z4\",\"Z5\"]}"
#define D "{\"layer\":\"dense\",\"units\":1}"
#define MODEL "\"model\":[" Q "," D "]"
#define DATA "\"data\":{\"source\":\"cluster-excitations\",\"rounds\":2}"
#define JOB(...) "{" MODEL "," DATA __VA_ARGS__ "}"

#define SCHEDULE(name, keys)                                                                       \
    ",\"train\":{\"optimizer\":{\"name\":\"sgd\",\"learning_rate\":{\"schedule\":\"" name          \
    "\"" keys "}}}"

/* Two qubits without data gates. */
#define TWO                                                                                        \
    "\"circuit\":{\"qubits\":2,\"gates\":[{\"gate\":\"RX\",\"qubits\":[0],\"angle\":{"             \
    "\"parameter\":\"a\"}}]}"
#define H(terms) "{\"layer\":\"quantum\"," TWO ",\"readouts\":[{\"hamiltonian\":" terms "}]}"
#define NONE "\"data\":{\"source\":\"none\"}"
#define STILL(optimizer)                                                                           \
    "{\"model\":[{\"layer\":\"quantum\"," TWO "}]," NONE ",\"train\":{\"loss\":\"expectation\","   \
    "\"optimizer\":{\"name\":\"" optimizer "}}}"

struct row {
    const char *name, *text;
    enum qr_code code;
    const char *words[3];
};

static const struct row rows[] = {
    {"smallest", JOB(), QR_OK, {0}},
    {"all top-level keys",
     JOB(",\"name\":\"a-1\",\"seed\":7,\"precision\":\"double\",\"micro_batch_size\":4,\"train\":{}"
         ",\"worker\":{\"threads\":2}"),
     QR_OK,
     {0}},
    {"shuffled split",
     "{\"model\":[" D "],\"data\":{\"source\":\"csv\",\"url\":\"a.csv\",\"train_fraction\":0.5,"
     "\"shuffle_split\":7}}",
     QR_OK,
     {0}},
    {"a split of nothing",
     "{\"model\":[" D "],\"data\":{\"source\":\"csv\",\"url\":\"a.csv\",\"shuffle_split\":7}}",
     QR_INVALID_ARGUMENT,
     {"data.shuffle_split", "nothing to split", "train_fraction"}},
    {"weights of samples",
     "{\"model\":[" D "],\"data\":{\"source\":\"csv\",\"url\":\"a.csv\",\"sample_weight\":\"w\"}}",
     QR_OK,
     {0}},
    {"the labels as weights",
     "{\"model\":[" D "],\"data\":{\"source\":\"csv\",\"url\":\"a.csv\",\"sample_weight\":\"y\"}}",
     QR_INVALID_ARGUMENT,
     {"data.sample_weight: 'y' is no column of weights"}},
    {"the inputs as weights",
     "{\"model\":[" D "],\"data\":{\"source\":\"npz\",\"url\":\"a.npz\",\"sample_weight\":\"x\"}}",
     QR_INVALID_ARGUMENT,
     {"data.sample_weight: 'x' is no array of weights"}},
    {"a negative penalty",
     "{\"model\":[{\"layer\":\"dense\",\"units\":1,\"l2\":-1}]," DATA "}",
     QR_INVALID_ARGUMENT,
     {"model[0].l2 is -1; it must be between 0 and"}},
    {"an objective without data",
     "{\"model\":[" H("[[\"Z0 X1\",0.5],[\"\",-1]]") "]," NONE ",\"train\":{\"loss\":{\"name\":"
                                                     "\"expectation\",\"weights\":[-1]}}}",
     QR_OK,
     {0}},
    {"an objective with data",
     JOB(",\"train\":{\"loss\":\"expectation\",\"batch_size\":4}"),
     QR_OK,
     {0}},
    {"no data, and a dense model",
     "{\"model\":[" D "]," NONE ",\"train\":{\"loss\":\"expectation\"}}",
     QR_INVALID_ARGUMENT,
     {"data.source: none", "give a circuit, or data"}},
    {"no data, and the default loss",
     "{\"model\":[" H("[[\"Z0\",1]]") "]," NONE "}",
     QR_INVALID_ARGUMENT,
     {"train.loss: mse compares outputs with labels", "\"expectation\""}},
    {"a Hamiltonian's file of a job that is none",
     "{\"model\":[" H("\"h2.txt\"") "]," NONE ",\"train\":{\"loss\":\"expectation\"}}",
     QR_INVALID_ARGUMENT,
     {"model[0].readouts[0].hamiltonian: a file is read for a job that is one itself"}},
    {"a Hamiltonian by another name",
     "{\"model\":[{\"layer\":\"quantum\"," TWO ",\"readouts\":[{\"hamiltonien\":[]}]}]," NONE "}",
     QR_INVALID_ARGUMENT,
     {"model[0].readouts[0]: unknown key 'hamiltonien'", "did you mean", "'hamiltonian'"}},
    {"no Hamiltonian",
     "{\"model\":[{\"layer\":\"quantum\"," TWO ",\"readouts\":[{}]}]," NONE "}",
     QR_INVALID_ARGUMENT,
     {"model[0].readouts[0].hamiltonian is missing: give terms"}},
    {"counts",
     "{\"model\":[{\"layer\":\"dense\",\"units\":3,\"activation\":\"softmax\"}],\"data\":{"
     "\"source\":"
     "\"csv\",\"url\":\"a.csv\"},\"train\":{\"loss\":\"categorical_crossentropy\",\"metrics\":["
     "\"auc\",\"confusion_matrix\"]}}",
     QR_OK,
     {0}},
    {"a confusion of 101",
     "{\"model\":[{\"layer\":\"dense\",\"units\":101,\"activation\":\"softmax\"}],\"data\":{"
     "\"source\":\"csv\",\"url\":\"a.csv\"},\"train\":{\"loss\":\"categorical_crossentropy\","
     "\"metrics\":[\"confusion_matrix\"]}}",
     QR_INVALID_ARGUMENT,
     {"train.metrics[0]: a confusion_matrix of 101 classes; at most 100"}},
    {"two files and a split",
     "{\"model\":[" D "],\"data\":{\"source\":\"csv\",\"url\":\"a.csv\",\"validation_url\":"
     "\"b.csv\",\"shuffle_split\":7}}",
     QR_INVALID_ARGUMENT,
     {"shuffle_split and validation_url exclude each other"}},
    {"a split without a seed",
     "{\"model\":[" D "],\"data\":{\"source\":\"csv\",\"url\":\"a.csv\",\"train_fraction\":0.5,"
     "\"shuffle_split\":true}}",
     QR_INVALID_ARGUMENT,
     {"data.shuffle_split", "integer"}},
    {"schedule",
     JOB(",\"train\":{\"optimizer\":{\"name\":\"sgd\",\"momentum\":0.9,\"learning_rate\":{"
         "\"schedule\":\"cosine\",\"initial_learning_rate\":0.1,\"decay_steps\":10}}}"),
     QR_OK,
     {0}},
    {"early stopping",
     JOB(",\"train\":{\"metrics\":[\"accuracy\"],\"early_stopping\":{\"monitor\":\"val_accuracy\","
         "\"patience\":3}}"),
     QR_OK,
     {0}},
    {"filters",
     "{\"model\":[{\"layer\":\"quantum\",\"filters\":3,\"circuit\":{\"ansatz\":\"qcnn\",\"qubits\":"
     "8}}]," DATA "}",
     QR_OK,
     {0}},
    {"filters in the ansatz",
     "{\"model\":[{\"layer\":\"quantum\",\"circuit\":{\"ansatz\":\"qcnn\",\"qubits\":8,\"filters\":"
     "3}}]," DATA "}",
     QR_OK,
     {0}},
    {"1024 qubits",
     "{\"model\":[{\"layer\":\"quantum\",\"circuit\":{\"ansatz\":\"qcnn\",\"qubits\":1024,"
     "\"stages\":"
     "1},\"readouts\":[\"Z1023\",\"Z512 Z64\"]}," D "]," DATA "}",
     QR_OK,
     {0}},
    {"1025 qubits",
     "{\"model\":[{\"layer\":\"quantum\",\"circuit\":{\"ansatz\":\"qcnn\",\"qubits\":1025}}]," DATA
     "}",
     QR_INVALID_ARGUMENT,
     {"model[0].circuit.qubits", "1025", "between 1 and 1024"}},
    {"a read-out of qubit 1024",
     "{\"model\":[{\"layer\":\"quantum\",\"circuit\":{\"ansatz\":\"qcnn\",\"qubits\":1024},"
     "\"readouts\":[\"Z1024\"]}]," DATA "}",
     QR_INVALID_ARGUMENT,
     {"model[0].readouts[0]", "qubit 1024", "0 to 1023"}},
    {"filters in both",
     "{\"model\":[{\"layer\":\"quantum\",\"filters\":3,\"circuit\":{\"ansatz\":\"qcnn\",\"qubits\":"
     "8,\"filters\":3}}]," DATA "}",
     QR_INVALID_ARGUMENT,
     {"once"}},
    {"classical",
     "{\"model\":[{\"layer\":\"dense\",\"units\":3,\"activation\":\"softmax\"}],\"data\":{"
     "\"source\":\"npz\",\"url\":\"x.npz\"}}",
     QR_OK,
     {0}},
    {"not json", "{", QR_INVALID_ARGUMENT, {"the test", "line 1"}},
    {"an array", "[]", QR_INVALID_ARGUMENT, {"the job", "object"}},
    {"misspelt key", JOB(",\"sede\":1"), QR_INVALID_ARGUMENT, {"sede", "did you mean", "seed"}},
    {"misspelt deep key",
     JOB(",\"train\":{\"batchsize\":1}"),
     QR_INVALID_ARGUMENT,
     {"train", "batchsize", "batch_size"}},
    {"wrong type", JOB(",\"seed\":\"1\""), QR_INVALID_ARGUMENT, {"seed", "string"}},
    {"fraction", JOB(",\"seed\":1.5"), QR_INVALID_ARGUMENT, {"seed", "1.5"}},
    {"above 2^53", JOB(",\"seed\":9007199254740993"), QR_INVALID_ARGUMENT, {"9007199254740993"}},
    {"negative", JOB(",\"seed\":-1"), QR_INVALID_ARGUMENT, {"seed"}},
    {"bad name", JOB(",\"name\":\"a b\""), QR_INVALID_ARGUMENT, {"name", "a b"}},
    {"path in name", JOB(",\"name\":\"../x\""), QR_INVALID_ARGUMENT, {"name", "../x"}},
    {"precision",
     JOB(",\"precision\":\"singel\""),
     QR_INVALID_ARGUMENT,
     {"precision", "singel", "single"}},
    {"no model", "{" DATA "}", QR_INVALID_ARGUMENT, {"model is missing"}},
    {"empty model", "{\"model\":[]," DATA "}", QR_INVALID_ARGUMENT, {"model", "0 layers"}},
    {"layer kind",
     "{\"model\":[{\"layer\":\"conv\"}]," DATA "}",
     QR_INVALID_ARGUMENT,
     {"model[0].layer", "conv"}},
    {"quantum second",
     "{\"model\":[" D "," Q "]," DATA "}",
     QR_INVALID_ARGUMENT,
     {"model[1].circuit", "takes 8 inputs", "gives 1"}},
    {"no circuit",
     "{\"model\":[{\"layer\":\"quantum\"}]," DATA "}",
     QR_INVALID_ARGUMENT,
     {"model[0].circuit"}},
    {"three qubits",
     "{\"model\":[{\"layer\":\"quantum\",\"circuit\":{\"ansatz\":\"qcnn\",\"qubits\":3}}]," DATA
     "}",
     QR_INVALID_ARGUMENT,
     {"qubits"}},
    {"bad read-out",
     "{\"model\":[{\"layer\":\"quantum\",\"circuit\":{\"ansatz\":\"qcnn\",\"qubits\":8},"
     "\"readouts\":[\"Z9\"]}]," DATA "}",
     QR_INVALID_ARGUMENT,
     {"model[0].readouts[0]"}},
    {"no read-outs",
     "{\"model\":[{\"layer\":\"quantum\",\"circuit\":{\"ansatz\":\"qcnn\",\"qubits\":8},"
     "\"readouts\":[]}]," DATA "}",
     QR_INVALID_ARGUMENT,
     {"readouts", "0 read-outs"}},
    {"units",
     "{\"model\":[" Q ",{\"layer\":\"dense\"}]," DATA "}",
     QR_INVALID_ARGUMENT,
     {"model[1].units", "missing"}},
    {"activation",
     "{\"model\":[" Q ",{\"layer\":\"dense\",\"units\":1,\"activation\":\"rely\"}]," DATA "}",
     QR_INVALID_ARGUMENT,
     {"model[1].activation", "relu"}},
    {"no data", "{" MODEL "}", QR_INVALID_ARGUMENT, {"data is missing"}},
    {"no url", "{" MODEL ",\"data\":{\"source\":\"csv\"}}", QR_INVALID_ARGUMENT, {"data.url"}},
    {"rounds for npz",
     "{" MODEL ",\"data\":{\"source\":\"npz\",\"url\":\"a\",\"rounds\":3}}",
     QR_INVALID_ARGUMENT,
     {"data", "rounds"}},
    {"two ways to validate",
     "{" MODEL ",\"data\":{\"source\":\"npz\",\"url\":\"a\",\"validation_url\":\"b\",\"train_"
     "fraction\":0.5}}",
     QR_INVALID_ARGUMENT,
     {"exclude"}},
    {"fraction 0",
     "{" MODEL ",\"data\":{\"source\":\"cluster-excitations\",\"train_fraction\":0}}",
     QR_INVALID_ARGUMENT,
     {"train_fraction"}},
    {"fraction above 1",
     "{" MODEL ",\"data\":{\"source\":\"cluster-excitations\",\"train_fraction\":70}}",
     QR_INVALID_ARGUMENT,
     {"train_fraction"}},
    {"excitations without qubits",
     "{\"model\":[" D "]," DATA "}",
     QR_INVALID_ARGUMENT,
     {"cluster-excitations", "quantum"}},
    {"loss", JOB(",\"train\":{\"loss\":\"msee\"}"), QR_INVALID_ARGUMENT, {"train.loss", "mse"}},
    {"metric twice",
     JOB(",\"train\":{\"metrics\":[\"mse\",\"mse\"]}"),
     QR_INVALID_ARGUMENT,
     {"train.metrics[1]", "twice"}},
    {"epochs 0", JOB(",\"train\":{\"epochs\":0}"), QR_INVALID_ARGUMENT, {"train.epochs"}},
    {"optimizer name",
     JOB(",\"train\":{\"optimizer\":{\"name\":\"adma\"}}"),
     QR_INVALID_ARGUMENT,
     {"train.optimizer.name", "adam"}},
    {"another optimizer's key",
     JOB(",\"train\":{\"optimizer\":{\"name\":\"sgd\",\"beta_1\":0.9}}"),
     QR_INVALID_ARGUMENT,
     {"train.optimizer", "beta_1"}},
    {"two clips",
     JOB(",\"train\":{\"optimizer\":{\"name\":\"sgd\",\"clipnorm\":1,\"clipvalue\":1}}"),
     QR_INVALID_ARGUMENT,
     {"one of"}},
    {"decay steps",
     JOB(",\"train\":{\"optimizer\":{\"name\":\"sgd\",\"learning_rate\":{\"schedule\":"
         "\"exponential\"}}}"),
     QR_INVALID_ARGUMENT,
     {"decay_steps"}},
    {"alpha for exponential",
     JOB(SCHEDULE("exponential", ",\"decay_steps\":3,\"decay_rate\":0.5,\"alpha\":0")),
     QR_INVALID_ARGUMENT,
     {"learning_rate.alpha", "the exponential schedule", "(cosine and cosine_restarts do)"}},
    {"staircase for step",
     JOB(SCHEDULE("step", ",\"decay_steps\":3,\"decay_rate\":0.5,\"staircase\":true")),
     QR_INVALID_ARGUMENT,
     {"learning_rate.staircase", "the step schedule"}},
    {"decay_rate for cosine",
     JOB(SCHEDULE("cosine", ",\"decay_steps\":3,\"decay_rate\":0.5")),
     QR_INVALID_ARGUMENT,
     {"learning_rate.decay_rate", "the cosine schedule"}},
    {"decay_steps for constant",
     JOB(SCHEDULE("constant", ",\"decay_steps\":3")),
     QR_INVALID_ARGUMENT,
     {"learning_rate.decay_steps", "the constant schedule"}},
    {"all that exponential uses",
     JOB(SCHEDULE("exponential", ",\"decay_steps\":3,\"decay_rate\":0.5,\"staircase\":true")),
     QR_OK,
     {0}},
    {"decay_steps for cosine_restarts",
     JOB(SCHEDULE("cosine_restarts", ",\"decay_steps\":3")),
     QR_INVALID_ARGUMENT,
     {"learning_rate.decay_steps", "(step, exponential, cosine and polynomial do)"}},
    {"periods that shrink",
     JOB(SCHEDULE("cosine_restarts", ",\"first_decay_steps\":3,\"t_mul\":0.5")),
     QR_INVALID_ARGUMENT,
     {"learning_rate.t_mul", "0.5"}},
    {"initial_learning_rate for piecewise",
     JOB(SCHEDULE("piecewise", ",\"boundaries\":[3],\"values\":[1,2],\"initial_learning_rate\":1")),
     QR_INVALID_ARGUMENT,
     {"learning_rate.initial_learning_rate", "the piecewise schedule"}},
    {"piecewise without values",
     JOB(SCHEDULE("piecewise", ",\"boundaries\":[3]")),
     QR_INVALID_ARGUMENT,
     {"learning_rate.values is missing", "piecewise"}},
    {"as many values as boundaries",
     JOB(SCHEDULE("piecewise", ",\"boundaries\":[3,5],\"values\":[1,2]")),
     QR_INVALID_ARGUMENT,
     {"learning_rate.values", "2 of them for 2 boundaries", "give 3"}},
    {"boundaries that descend",
     JOB(SCHEDULE("piecewise", ",\"boundaries\":[3,3],\"values\":[1,2,3]")),
     QR_INVALID_ARGUMENT,
     {"learning_rate.boundaries[1]", "3 is not above", "ascend"}},
    {"no boundaries",
     JOB(SCHEDULE("piecewise", ",\"boundaries\":[],\"values\":[1]")),
     QR_INVALID_ARGUMENT,
     {"learning_rate.boundaries", "0 of them", "1 to 31"}},
    {"32 boundaries",
     JOB(SCHEDULE("piecewise",
                  ",\"values\":[1],\"boundaries\":[0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,"
                  "19,20,21,22,23,24,25,26,27,28,29,30,31]")),
     QR_INVALID_ARGUMENT,
     {"learning_rate.boundaries", "32 of them", "1 to 31"}},
    {"31 boundaries",
     JOB(SCHEDULE(
         "piecewise",
         ",\"boundaries\":[0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23,"
         "24,25,26,27,28,29,30],\"values\":[0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,"
         "19,20,21,22,23,24,25,26,27,28,29,30,31]")),
     QR_OK,
     {0}},
    {"a value below 0",
     JOB(SCHEDULE("piecewise", ",\"boundaries\":[3],\"values\":[1,-2]")),
     QR_INVALID_ARGUMENT,
     {"learning_rate.values[1]", "-2"}},
    {"a boundary with a fraction",
     JOB(SCHEDULE("piecewise", ",\"boundaries\":[3.5],\"values\":[1,2]")),
     QR_INVALID_ARGUMENT,
     {"learning_rate.boundaries[0]", "3.5"}},
    {"a warm-up from somewhere, of no steps",
     JOB(SCHEDULE("constant", ",\"warmup_learning_rate\":0.5")),
     QR_INVALID_ARGUMENT,
     {"learning_rate.warmup_learning_rate", "no warm-up", "warmup_steps"}},
    {"all that polynomial uses",
     JOB(SCHEDULE("polynomial",
                  ",\"decay_steps\":3,\"end_learning_rate\":0,\"power\":2,\"cycle\":true,"
                  "\"warmup_steps\":4,\"warmup_learning_rate\":0.001")),
     QR_OK,
     {0}},
    {"all that cosine_restarts uses",
     JOB(SCHEDULE("cosine_restarts",
                  ",\"first_decay_steps\":3,\"t_mul\":1,\"m_mul\":0.5,\"alpha\":0.1")),
     QR_OK,
     {0}},
    {"a momentum of no average",
     JOB(",\"train\":{\"optimizer\":{\"name\":\"adam\",\"ema_momentum\":0.9}}"),
     QR_INVALID_ARGUMENT,
     {"train.optimizer.ema_momentum", "no average", "\"use_ema\": true"}},
    {"an overwriting of no average",
     JOB(",\"train\":{\"optimizer\":{\"name\":\"adam\",\"use_ema\":false,"
         "\"ema_overwrite_frequency\":9}}"),
     QR_INVALID_ARGUMENT,
     {"train.optimizer.ema_overwrite_frequency", "no average"}},
    {"an average",
     JOB(",\"train\":{\"optimizer\":{\"name\":\"lion\",\"weight_decay\":0.1,\"use_ema\":true,"
         "\"ema_momentum\":1,\"ema_overwrite_frequency\":1}}"),
     QR_OK,
     {0}},
    {"epsilon for lion",
     JOB(",\"train\":{\"optimizer\":{\"name\":\"lion\",\"epsilon\":1}}"),
     QR_INVALID_ARGUMENT,
     {"train.optimizer", "epsilon"}},
    {"a perturbation of nothing",
     JOB(",\"train\":{\"optimizer\":{\"name\":\"spsa\",\"perturbation\":0}}"),
     QR_INVALID_ARGUMENT,
     {"train.optimizer.perturbation", "0"}},
    {"a natural gradient with data",
     JOB(",\"train\":{\"optimizer\":{\"name\":\"quantum-natural-gradient\"}}"),
     QR_INVALID_ARGUMENT,
     {"train.optimizer", "one quantum layer without data"}},
    {"a rate for lbfgs",
     STILL("lbfgs\",\"learning_rate\":0.1"),
     QR_INVALID_ARGUMENT,
     {"train.optimizer.learning_rate", "lbfgs finds the length of its steps itself"}},
    {"an average for lbfgs",
     STILL("lbfgs\",\"use_ema\":true"),
     QR_INVALID_ARGUMENT,
     {"train.optimizer.use_ema", "take it away"}},
    {"memory of lbfgs",
     STILL("lbfgs\",\"memory\":21"),
     QR_INVALID_ARGUMENT,
     {"train.optimizer.memory", "21", "20"}},
    {"lbfgs with data",
     JOB(",\"train\":{\"optimizer\":{\"name\":\"lbfgs\"}}"),
     QR_INVALID_ARGUMENT,
     {"train.optimizer", "lbfgs needs one loss", "\"source\": \"none\""}},
    {"all that cosine uses",
     JOB(SCHEDULE("cosine", ",\"decay_steps\":3,\"alpha\":0.1")),
     QR_OK,
     {0}},
    {"monitor",
     JOB(",\"train\":{\"early_stopping\":{\"monitor\":\"val_accuracy\"}}"),
     QR_INVALID_ARGUMENT,
     {"monitor", "val_accuracy"}},
    {"worker not an object", JOB(",\"worker\":[]"), QR_INVALID_ARGUMENT, {"worker"}},
    {"the old name of micro_batch_size",
     JOB(",\"block_size\":4"),
     QR_INVALID_ARGUMENT,
     {"block_size is now micro_batch_size"}},
    {"micro-batches",
     JOB(",\"micro_batch_size\":1,\"train\":{\"batch_size\":1000000000}"),
     QR_INVALID_ARGUMENT,
     {"micro_batch_size"}},
};

static void test_rows(void) {
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct qr_err err = {0};
        struct qr_job *job = NULL;
        enum qr_code code = qr_job_parse(qr_bytes_of_string(rows[i].text), "the test", &job, &err);
        CHECK(code == rows[i].code, "%s: %s %s", rows[i].name, qr_code_name(code), err.msg);
        if (code != QR_OK)
            for (size_t k = 0; k < 3 && rows[i].words[k]; k++)
                CHECK(strstr(err.msg, rows[i].words[k]) != NULL, "%s: '%s' lacks '%s'",
                      rows[i].name, err.msg, rows[i].words[k]);
        CHECK((job != NULL) == (code == QR_OK), "%s", rows[i].name);
        qr_job_free(job);
    }
}

/* Until the next call. */
static const char *hash_of_job(const struct qr_job *job, size_t *ret_fields) {
    static char hex[65];
    struct qr_err err = {0};
    struct qr_dataset data = {0};
    struct qr_job_canonical c;
    CHECK(qr_job_data(job, &data, &err) == QR_OK, "%s", err.msg);
    qr_job_canonical(job, &data, NULL, &c);
    memcpy(hex, c.hex, sizeof hex);
    if (ret_fields) *ret_fields = c.n;
    qr_job_canonical_fini(&c);
    qr_dataset_fini(&data);
    return hex;
}

static void hash_of(const char *text, char ret[65], size_t *ret_fields) {
    struct qr_err err = {0};
    struct qr_job *job = NULL;
    CHECK(qr_job_parse(qr_bytes_of_string(text), "the test", &job, &err) == QR_OK, "%s", err.msg);
    memcpy(ret, hash_of_job(job, ret_fields), 65);
    qr_job_free(job);
}

/* A mismatch shows a field's text to people: as they would write it, not 0.029999999999999999. */
static void test_texts(void) {
    struct qr_err err = {0};
    struct qr_job *job = NULL;
    struct qr_dataset data = {0};
    struct qr_job_canonical c;
    const char *rate = NULL;
    CHECK(
        qr_job_parse(qr_bytes_of_string(JOB(
                         ",\"train\":{\"optimizer\":{\"name\":\"adam\",\"learning_rate\":0.03}}")),
                     "the test", &job, &err) == QR_OK,
        "%s", err.msg);
    CHECK(qr_job_data(job, &data, &err) == QR_OK, "%s", err.msg);
    qr_job_canonical(job, &data, NULL, &c);
    for (size_t i = 0; i < c.n; i++)
        if (strcmp(c.fields[i].name, "learning_rate") == 0) rate = c.fields[i].value;
    CHECK(rate && strcmp(rate, "0.03") == 0, "%s", rate ? rate : "missing");
    qr_job_canonical_fini(&c);
    qr_dataset_fini(&data);
    qr_job_free(job);
}

static void test_hash(void) {
    /* {what it is, does it change the hash} */
    static const struct {
        const char *text;
        int same;
    } variants[] = {
        {JOB(",\"name\":\"other\""), 1},
        {JOB(",\"worker\":{\"threads\":3}"), 1},
        {JOB(",\"train\":{\"epochs\":9}"), 1},
        {JOB(",\"train\":{\"batch_size\":32}"), 1}, /* the default, said aloud */
        {JOB(",\"train\":{\"loss\":{\"name\":\"mse\"}}"), 1},
        {"{\"model\":[" Q ",{\"layer\":\"dense\",\"units\":1,\"l1\":0,\"l2\":0}]," DATA "}", 1},
        {"{\"model\":[" Q ",{\"layer\":\"dense\",\"units\":1,\"l1\":0.5}]," DATA "}", 0},
        {"{\"model\":[" Q ",{\"layer\":\"dense\",\"units\":1,\"l2\":0.5}]," DATA "}", 0},
        {JOB(",\"seed\":1"), 0},
        {JOB(",\"precision\":\"double\""), 0},
        {JOB(",\"micro_batch_size\":8"), 0},
        {JOB(",\"train\":{\"batch_size\":33}"), 0},
        {JOB(",\"train\":{\"loss\":\"mae\"}"), 0},
        {JOB(",\"train\":{\"shuffle\":false}"), 0},
        {JOB(",\"train\":{\"optimizer\":{\"name\":\"adam\",\"epsilon\":1e-8}}"), 0},
        {JOB(",\"train\":{\"optimizer\":{\"name\":\"adam\",\"learning_rate\":0.5}}"), 0},
        {JOB(",\"train\":{\"optimizer\":{\"name\":\"adam\",\"weight_decay\":0,\"use_ema\":false}}"),
         1},
        {JOB(",\"train\":{\"optimizer\":{\"name\":\"adam\",\"weight_decay\":0.01}}"), 0},
        {JOB(",\"train\":{\"optimizer\":{\"name\":\"adam\",\"use_ema\":true}}"), 0},
        {JOB(",\"train\":{\"optimizer\":{\"name\":\"adamw\"}}"), 0},
        {JOB(",\"train\":{\"optimizer\":{\"name\":\"adam\",\"learning_rate\":{\"schedule\":"
             "\"constant\",\"warmup_steps\":0}}}"),
         1},
        {JOB(",\"train\":{\"optimizer\":{\"name\":\"adam\",\"learning_rate\":{\"schedule\":"
             "\"constant\",\"warmup_steps\":2}}}"),
         0},
        {"{" MODEL ",\"data\":{\"source\":\"cluster-excitations\",\"rounds\":3}}", 0},
    };
    /* pairs that differ in one thing of the loss, or of an optimizer */
#define LOSS(loss, more) JOB(",\"train\":{\"loss\":" loss more "}")
    static const char *const pairs[][2] = {
        {LOSS("\"huber\"", ""), LOSS("{\"name\":\"huber\",\"delta\":0.5}", "")},
        {LOSS("{\"name\":\"binary_crossentropy\",\"from_logits\":true}", ""),
         LOSS("{\"name\":\"binary_crossentropy\",\"from_logits\":true,\"label_smoothing\":0.1}",
              "")},
        {LOSS("\"hinge\"", ""), LOSS("\"hinge\"", ",\"class_weight\":[1,2]")},
        {LOSS("\"hinge\"", ",\"class_weight\":[2,1]"),
         LOSS("\"hinge\"", ",\"class_weight\":[1,2]")},
        {STILL("spsa\""), STILL("spsa\",\"perturbation\":0.1")},
        {STILL("spsa\""), STILL("spsa\",\"stability\":9")},
        {STILL("spsa\""), STILL("spsa\",\"alpha\":1")},
        {STILL("spsa\""), STILL("spsa\",\"gamma\":1")},
        {STILL("spsa\""), STILL("sgd\",\"learning_rate\":0.05")},
        {STILL("quantum-natural-gradient\""),
         STILL("quantum-natural-gradient\",\"regularization\":0.1")},
        {STILL("lbfgs\""), STILL("lbfgs\",\"memory\":9")},
        {STILL("lbfgs\""), STILL("lbfgs\",\"gradient_tolerance\":1e-6")},
        {STILL("lbfgs\""), STILL("lbfgs\",\"loss_tolerance\":1e-6")},
    };
    char base[65], hex[65];
    size_t n;
    for (size_t i = 0; i < COUNT(pairs); i++) {
        hash_of(pairs[i][0], base, &n);
        hash_of(pairs[i][1], hex, &n);
        CHECK(strcmp(base, hex) != 0, "pair %zu", i);
    }
    hash_of(LOSS("\"huber\"", ""), base, &n);
    hash_of(LOSS("{\"name\":\"huber\",\"delta\":1}", ""), hex, &n);
    CHECK(strcmp(base, hex) == 0, "a default, said aloud");
    hash_of(JOB(), base, &n);
    CHECK(strlen(base) == 64 && n > 8);
    for (size_t i = 0; i < COUNT(variants); i++) {
        hash_of(variants[i].text, hex, &n);
        CHECK((strcmp(base, hex) == 0) == variants[i].same, "%s", variants[i].text);
    }
}

/* Each key of an optimizer and of a schedule, by itself, makes another job. */
static void test_hash_of_keys(void) {
#define ADAGRAD(keys) ",\"train\":{\"optimizer\":{\"name\":\"adagrad\"" keys "}}"
    static const char *const with[][2] = {
        {ADAGRAD(""), ADAGRAD(",\"initial_accumulator_value\":0.2")},
        {ADAGRAD(",\"use_ema\":true"), ADAGRAD(",\"use_ema\":true,\"ema_momentum\":0.9")},
        {ADAGRAD(",\"use_ema\":true"), ADAGRAD(",\"use_ema\":true,\"ema_overwrite_frequency\":9")},
        {SCHEDULE("cosine_restarts", ",\"first_decay_steps\":3"),
         SCHEDULE("cosine_restarts", ",\"first_decay_steps\":4")},
        {SCHEDULE("cosine_restarts", ",\"first_decay_steps\":3"),
         SCHEDULE("cosine_restarts", ",\"first_decay_steps\":3,\"t_mul\":1")},
        {SCHEDULE("cosine_restarts", ",\"first_decay_steps\":3"),
         SCHEDULE("cosine_restarts", ",\"first_decay_steps\":3,\"m_mul\":0.5")},
        {SCHEDULE("cosine_restarts", ",\"first_decay_steps\":3"),
         SCHEDULE("cosine_restarts", ",\"first_decay_steps\":3,\"alpha\":0.5")},
        {SCHEDULE("polynomial", ",\"decay_steps\":3"), SCHEDULE("cosine", ",\"decay_steps\":3")},
        {SCHEDULE("polynomial", ",\"decay_steps\":3"),
         SCHEDULE("polynomial", ",\"decay_steps\":3,\"end_learning_rate\":0.5")},
        {SCHEDULE("polynomial", ",\"decay_steps\":3"),
         SCHEDULE("polynomial", ",\"decay_steps\":3,\"power\":2")},
        {SCHEDULE("polynomial", ",\"decay_steps\":3"),
         SCHEDULE("polynomial", ",\"decay_steps\":3,\"cycle\":true")},
        {SCHEDULE("polynomial", ",\"decay_steps\":3,\"warmup_steps\":3"),
         SCHEDULE("polynomial",
                  ",\"decay_steps\":3,\"warmup_steps\":3,\"warmup_learning_rate\":0.5")},
        {SCHEDULE("piecewise", ",\"boundaries\":[3],\"values\":[1,2]"),
         SCHEDULE("piecewise", ",\"boundaries\":[4],\"values\":[1,2]")},
        {SCHEDULE("piecewise", ",\"boundaries\":[3],\"values\":[1,2]"),
         SCHEDULE("piecewise", ",\"boundaries\":[3],\"values\":[1,3]")},
        {SCHEDULE("piecewise", ",\"boundaries\":[3],\"values\":[1,2]"),
         SCHEDULE("piecewise", ",\"boundaries\":[3],\"values\":[3,2]")},
    };
    for (size_t i = 0; i < COUNT(with); i++) {
        char hex[2][65];
        for (int k = 0; k < 2; k++) {
            qr_auto(qr_free_p) char *text = qr_xasprintf("{" MODEL "," DATA "%s}", with[i][k]);
            hash_of(text, hex[k], NULL);
        }
        CHECK(strcmp(hex[0], hex[1]) != 0, "%s", with[i][1]);
    }
}

/* Controls in the hash are one number, however many words it takes: as it was when 64 qubits were
 * all, and for those beyond. */
static void test_wide_hash(void) {
#define CONTROLLED(qubits, controls)                                                               \
    "{\"model\":[{\"layer\":\"quantum\",\"circuit\":{\"qubits\":" qubits                           \
    ",\"columns\":1,\"gates\":["                                                                   \
    "{\"gate\":\"RX\",\"qubits\":[1],\"angle\":{\"data\":0},\"controls\":[" controls "]}]},"       \
    "\"readouts\":[\"Z1\"]}]," DATA "}"
    static const struct {
        const char *text, *hex;
    } table[] = {
        {CONTROLLED("64", "0,62,63"),
         "55cecba8c378c04a3c6d25bad854f9b745087d7e062e4e42089a8538b5d9123f"},
        {CONTROLLED("1024", "0,700,1023"),
         "b1bad6c1b0f18b70922f6144ff5be86862d9396660d7c69668015d2f262ecc83"},
        {CONTROLLED("1024", "64,700"),
         "ecb86d98f21ef2cf25c7638b26a17bbe4fb8c32fc5f1d18f7e8ded4a4713b982"},
        {"{\"micro_batch_size\":1,"
         "\"model\":[{\"layer\":\"quantum\",\"circuit\":{\"ansatz\":\"qcnn\",\"qubits\":1024,"
         "\"stages\":"
         "1}}," D "]," DATA "}",
         "ebee70571aa3e35e2983dd48adb8d77f222bf395ae1ce0fbab2c10fd4543b721"},
    };
    for (size_t i = 0; i < COUNT(table); i++) {
        char hex[65];
        hash_of(table[i].text, hex, NULL);
        CHECK(strcmp(hex, table[i].hex) == 0, "row %zu: %s", i, hex);
    }
}

static void test_builtin(void) {
    struct qr_err err = {0};
    struct qr_job *job = NULL;
    CHECK(qr_job_load(NULL, NULL, &job, &err) == QR_OK, "%s", err.msg);
    CHECK(job && strcmp(job->name, "qcnn") == 0 && job->train.epochs == 50 &&
          job->micro_batch_size == 16 && job->layers[0].quantum.circuit->n_params == 20);
    CHECK(strcmp(hash_of_job(job, NULL),
                 "65702c750804d30501ca82213c45d559cfcdd30ef55831b964d7d9146b44c1ee") == 0,
          "what checkpoints were written with");
    qr_job_free(job);
    job = NULL;
    CHECK(qr_job_load("nowhere/job.json", NULL, &job, &err) == QR_NOT_FOUND &&
              strstr(err.msg, "nowhere/job.json"),
          "%s", err.msg);
}

int main(void) {
    test_rows();
    test_texts();
    test_hash();
    test_hash_of_keys();
    test_wide_hash();
    test_builtin();
    return t_end();
}
