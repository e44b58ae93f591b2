/* The canonical form of a job and its hash: settings that change the hash, and settings that do
 * not. */
#include "base/mem.h"
#include "job/canonical.h"
#include "job/job.h"
#include "tests/jobs.h"
#include "tests/t.h"

/* The result is valid until the next call. */
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

/* Mismatch errors show the text of a field, so it is short: 0.03, not 0.029999999999999999. */
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

/* A circuit with two measured bits and a gate. */
#define MEASURED(bits, gate)                                                                       \
    "{\"model\":[{\"layer\":\"quantum\",\"circuit\":{\"qubits\":2,\"gates\":[{\"gate\":\"H\","     \
    "\"qubits\":"                                                                                  \
    "[0]},{\"measure\":[0,1]" bits "}," gate "]},\"readouts\":[\"Z1\"]}]," NONE                    \
    ",\"train\":{\"loss\":\"expectation\"}}"
#define RX1 "{\"gate\":\"RX\",\"qubits\":[1],\"angle\":\"w\"}"
#define IF(bit, more) MEASURED("", "{\"if\":[" bit "]" more ",\"gates\":[" RX1 "]}")
#define LOSS(loss, more) JOB(",\"train\":{\"loss\":" loss more "}")
static void test_pairs(void) {
    /* Pairs that differ in one setting: of the loss, of an optimizer, of measurements, of watched
     * and logged values. */
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
        {MEASURED("", RX1), MEASURED(",\"bits\":[]", RX1)},
        {MEASURED("", RX1), MEASURED(",\"bits\":[1,0]", RX1)},
        {MEASURED("", RX1), MEASURED(",\"p_01\":0.1", RX1)},
        {MEASURED("", RX1), IF("0", "")},
        {IF("0", ""), IF("1", "")},
        {IF("0", ""), IF("0", ",\"if_values\":[0]")},
        {JOB(), WATCHING("\"energy\":\"Z0\"")},
        {WATCHING("\"energy\":\"Z0\""), WATCHING("\"energy\":\"Z1\"")},
        {WATCHING("\"energy\":\"Z0\""), WATCHING("\"charge\":\"Z0\"")},
        {JOB(), JOB(",\"train\":{\"log\":{\"a\":\"loss\"}}")},
        {JOB(",\"train\":{\"log\":{\"a\":\"loss\"}}"),
         JOB(",\"train\":{\"log\":{\"b\":\"loss\"}}")},
        {JOB(",\"train\":{\"log\":{\"a\":\"loss\"}}"),
         JOB(",\"train\":{\"log\":{\"a\":\"step\"}}")},
    };
    char base[65], hex[65];
    size_t n;
    for (size_t i = 0; i < COUNT(pairs); i++) {
        hash_of(pairs[i][0], base, &n);
        hash_of(pairs[i][1], hex, &n);
        CHECK(strcmp(base, hex) != 0, "pair %zu", i);
    }
}

static void test_hash(void) {
    /* same: 1 if the hash is that of JOB(). */
    static const struct {
        const char *text;
        int same;
    } variants[] = {
        {JOB(",\"name\":\"other\""), 1},
        {JOB(",\"worker\":{\"threads\":3}"), 1},
        {JOB(",\"train\":{\"epochs\":9}"), 1},
        {JOB(",\"train\":{\"batch_size\":32}"), 1}, /* the default, written out */
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
        {JOB(",\"train\":{\"evaluate\":true}"), 1},
        {JOB(",\"train\":{\"evaluate\":false}"), 0},
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
    char base[65], hex[65];
    size_t n;
    hash_of(LOSS("\"huber\"", ""), base, &n);
    hash_of(LOSS("{\"name\":\"huber\",\"delta\":1}", ""), hex, &n);
    CHECK(strcmp(base, hex) == 0, "a default, written out");
    hash_of(JOB(), base, &n);
    CHECK(strlen(base) == 64 && n > 8);
    for (size_t i = 0; i < COUNT(variants); i++) {
        hash_of(variants[i].text, hex, &n);
        CHECK((strcmp(base, hex) == 0) == variants[i].same, "%s", variants[i].text);
    }
}

/* Each key of an optimizer and of a schedule changes the hash by itself. */
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

/* Controls are hashed as one number, however many words it takes. */
static void test_wide_hash(void) {
#define CONTROLLED(qubits, controls)                                                               \
    "{\"micro_batch_size\":1,\"model\":[{\"layer\":\"quantum\",\"circuit\":{\"qubits\":" qubits    \
    ",\"columns\":1,\"gates\":["                                                                   \
    "{\"gate\":\"RX\",\"qubits\":[1],\"angle\":{\"data\":0},\"controls\":[" controls "]}]},"       \
    "\"readouts\":[\"Z1\"]}]," DATA "}"
    static const struct {
        const char *text, *hex;
    } table[] = {
        {CONTROLLED("64", "0,62,63"),
         "3b87ee13b6f60a59834eb5604e535172bc2418c6d817219fdae4d5ca3eb14afe"},
        {CONTROLLED("1024", "0,700,1023"),
         "44ca9552d596e765399aea43b1618f61d2bc8e26e0c2081945b30ad325c92b2a"},
        {CONTROLLED("1024", "64,700"),
         "25b47920f0a087746f1263eff2e429232d92c18ff8cdad0ca2bdd990d3d5505b"},
        {"{\"micro_batch_size\":1,"
         "\"model\":[{\"layer\":\"quantum\",\"circuit\":{\"ansatz\":\"qcnn\",\"qubits\":1024,"
         "\"stages\":"
         "1}}," D "]," DATA "}",
         "51bdb754ffdfba9ddf5a2cb913f146937574b36dc42ca4ecd631bd567f3ae5a8"},
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
                 "7fde6c0e6698fd9e14a0ee313bbaa5d0a40ce95ccf382c70a500ba57c154f626") == 0,
          "with another hash checkpoints would not resume");
    qr_job_free(job);
    job = NULL;
    CHECK(qr_job_load("nowhere/job.json", NULL, &job, &err) == QR_NOT_FOUND &&
              strstr(err.msg, "nowhere/job.json"),
          "%s", err.msg);
}

int main(void) {
    test_texts();
    test_pairs();
    test_hash();
    test_hash_of_keys();
    test_wide_hash();
    test_builtin();
    return t_end();
}
