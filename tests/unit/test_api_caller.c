/* The C interface in threads whose rounding mode, subnormal numbers, traps, exception flags or
 * locale are not the default: all results, texts, errors and files have the bits of the default,
 * and each call and callback leaves or finds the caller's state. */
#include <fenv.h>
#include <locale.h>
#include <math.h>
#include <sys/stat.h>
#include <unistd.h>

#include "api/qring.h"
#include "base/file.h"
#include "base/mem.h"
#include "tests/t.h"

static char dir[] = "/tmp/qring-api-caller-XXXXXX";

/* ---- the caller's state ---- */

struct caller {
    const char *what;
    int rounding;
    bool flushes;     /* subnormal numbers to 0 */
    int traps, flags; /* FE_INVALID ... */
    bool comma, comma_of_thread;
};

struct state {
    int rounding, traps, flags;
    unsigned control;
    locale_t locale;
    char point;
};

static const struct caller usual = {"the default", .rounding = FE_TONEAREST};
static locale_t comma_locale;

static unsigned control_word(const fenv_t *env) {
#ifdef __x86_64__
    return env->__mxcsr;
#else
    return env->__fpcr;
#endif
}

static void set_flushing(void) {
    fenv_t env;
    fegetenv(&env);
#ifdef __x86_64__
    env.__mxcsr |= 0x8040; /* FTZ, DAZ */
#else
    env.__fpcr |= 1u << 24; /* FZ */
#endif
    fesetenv(&env);
}

static void caller_set(const struct caller *c) {
    fesetround(c->rounding);
    if (c->flushes) set_flushing();
    feclearexcept(FE_ALL_EXCEPT);
    feraiseexcept(c->flags);
    if (c->traps) feenableexcept(c->traps);
    CHECK(setlocale(LC_NUMERIC, c->comma ? "comma" : "C") != NULL);
    uselocale(c->comma_of_thread ? comma_locale : LC_GLOBAL_LOCALE);
}

static struct state caller_state(void) {
    fenv_t env;
    int flags = fetestexcept(FE_ALL_EXCEPT);
    fegetenv(&env);
    return (struct state){.rounding = fegetround(),
                          .traps = fegetexcept(),
                          .flags = flags,
                          .control = control_word(&env),
                          .locale = uselocale((locale_t)0),
                          .point = *localeconv()->decimal_point};
}

static void check_state(const struct state *was, const char *what) {
    struct state is = caller_state();
    CHECK(is.rounding == was->rounding && is.traps == was->traps && is.flags == was->flags &&
              is.control == was->control && is.locale == was->locale && is.point == was->point,
          "%s: rounding %d not %d, traps %x not %x, flags %x not %x, control %x not %x, point %c "
          "not %c",
          what, is.rounding, was->rounding, is.traps, was->traps, is.flags, was->flags, is.control,
          was->control, is.point, was->point);
}

/* Writes LC_NUMERIC of the locale "comma" as glibc's localedef does, which needs a package of
 * character maps: a header, the offsets of six values, the values. */
static void comma_locale_new(void) {
    static const struct {
        uint32_t magic, n, at[6];
        char point[2], thousands[2], grouping[4];
        uint32_t wide_point, wide_thousands;
        char codeset[6];
    } file = {0x20031114, 6, {32, 34, 36, 40, 44, 48}, ",", ".", {3, 3}, ',', '.', "UTF-8"};
    struct qr_err err;
    char *folder = qr_xasprintf("%s/comma", dir), *path = qr_xasprintf("%s/LC_NUMERIC", folder);
    CHECK(mkdir(folder, 0700) == 0 &&
              qr_file_replace(path, qr_bytes_of(&file, sizeof file), &err) == QR_OK,
          "%s", path);
    setenv("LOCPATH", dir, 1);
    comma_locale = newlocale(LC_NUMERIC_MASK, "comma", (locale_t)0);
    CHECK(comma_locale != NULL, "the C library rejects %s", path);
    free(path);
    free(folder);
}

/* ---- results, one on each line. No number is computed here: a trap would end the test. ---- */

struct record {
    struct qr_buf text;
    const struct state *state; /* the caller's */
};

static void record_bytes(struct record *r, const char *what, const void *bytes, size_t n) {
    qr_buf_printf(&r->text, "%s:", what);
    for (size_t i = 0; i < n; i++)
        qr_buf_printf(&r->text, " %02x", ((const unsigned char *)bytes)[i]);
    qr_buf_puts(&r->text, "\n");
    check_state(r->state, what);
}

/* text NULL: the call failed with err */
static void record_text(struct record *r, const char *what, enum qring_code code, const char *text,
                        const struct qring_error *err) {
    qr_buf_printf(&r->text, "%s: %d %s\n", what, (int)code, code ? err->message : text);
    check_state(r->state, what);
}

static struct qring_array vector(void *data) {
    return (struct qring_array){data, QRING_FLOAT64, {sizeof(double), sizeof(double)}};
}

#define GATES(angle)                                                                               \
    "{\"qubits\":3,\"gates\":[{\"gate\":\"RX\",\"qubits\":[0],\"angle\":" angle                    \
    "},{\"gate\":\"RY\",\"qubits\":[1],\"angle\":1.1},{\"gate\":\"RZ\",\"qubits\":[0],\"angle\":"  \
    "0.7},{\"gate\":\"RX\",\"qubits\":[0],\"angle\":0.9},{\"gate\":\"CNOT\",\"qubits\":[0,1]},"    \
    "{\"gate\":\"RX\",\"qubits\":[2],\"angle\":\"w0\"},{\"gate\":\"CNOT\",\"qubits\":[1,2]},"      \
    "{\"gate\":\"RY\",\"qubits\":[0],\"angle\":\"w1\"}]}"
static const char circuit[] = GATES("1.5e-3"), large_angle[] = GATES("1e300"),
                  no_angle[] = GATES("1e999");
static const char *const observables[] = {"Z0", "1.5e-3*X1 Z2 + 0.7*Z1"};
static double weights[] = {0.123456, 1.234567}, cotangents[] = {0.3, 0.1},
              too_large[] = {2.5e12, 0};

static void record_sum(struct record *r, struct qring_function *f) {
    struct qring_array w = vector(weights), ct = vector(cotangents);
    struct qring_sum *sum = qring_sum_new(2), *other = qring_sum_new(2);
    double values[2] = {0};
    float narrow[2] = {0};
    struct qring_array to = vector(values),
                       to_narrow = {narrow, QRING_FLOAT32, {sizeof(float), sizeof(float)}};
    qring_vjp(f, &w, NULL, 1, &ct, NULL, NULL, NULL, sum, NULL);
    qring_sum_add(other, sum, NULL);
    qring_sum_values(other, &to, NULL);
    qring_sum_values(sum, &to_narrow, NULL);
    record_bytes(r, "sum", values, sizeof values);
    record_bytes(r, "sum in float32", narrow, sizeof narrow);
    qring_sum_free(sum);
    qring_sum_free(other);
}

static void record_function(struct record *r, enum qring_dtype dtype) {
    const struct qring_options opt = {.struct_size = sizeof opt, .dtype = dtype, .threads = 2};
    struct qring_function *f = NULL;
    struct qring_error err;
    double z[2] = {0}, dw[2] = {0}, j[4] = {0};
    struct qring_array w = vector(weights), ct = vector(cotangents), to = vector(z),
                       to_dw = vector(dw), large = vector(too_large),
                       to_j = {j, QRING_FLOAT64, {4 * sizeof *j, 2 * sizeof *j, sizeof *j}};
    enum qring_code code =
        qring_circuit_function(circuit, strlen(circuit), observables, 2, &opt, &f, &err);
    record_text(r, "compile", code, "", &err);
    if (code) return;
    qring_vjp(f, &w, NULL, 1, &ct, &to, &to_dw, NULL, NULL, &err);
    record_bytes(r, "values", z, sizeof z);
    record_bytes(r, "derivatives", dw, sizeof dw);
    qring_jacobian(f, &w, NULL, 1, NULL, &to_j, NULL, &err);
    record_bytes(r, "jacobian", j, sizeof j);
    code = qring_forward(f, &large, NULL, 1, &to, &err);
    record_text(r, "a large parameter", code, "", &err);
    record_sum(r, f);
    char *drawing = qring_draw(f, 100);
    record_text(r, "drawing", QRING_OK, drawing, NULL);
    qring_text_free(drawing);
    qring_function_free(f);
}

static void record_texts(struct record *r) {
    static const char *const formats[] = {"qasm2", "qasm3", "cirq", "python",
                                          "tfq",   "text",  "svg",  "latex"},
                             *const programs[] = {
                                 "qubit[2] q; rx(pi/3+0.1) q[0]; ry(1.25e-3) q[1];",
                                 "qubit q; U(0.00001, 0, 0) q;", "qubit q; rx(1e300*1e300) q;",
                                 "qubit q; rx(1/0) q;"};
    struct qring_write_options o = {.struct_size = sizeof o,
                                    .observables = observables,
                                    .parameters = weights,
                                    .n_parameters = 2};
    struct qring_error err;
    for (size_t i = 0; i < 2 * COUNT(formats); i++) {
        char *text = NULL, *back = NULL;
        const char *c = i % 2 ? large_angle : circuit, *format = formats[i / 2];
        size_t n;
        o.n_observables = strcmp(format, "tfq") == 0 ? 0 : 2; /* a program has no read-outs */
        enum qring_code code = qring_circuit_write(c, strlen(c), format, &o, &text, &n, &err);
        if (code) record_text(r, format, code, NULL, &err);
        else record_bytes(r, format, text, n);
        if (!code && strcmp(format, "cirq") == 0) {
            code = qring_circuit_from_cirq(text, n, NULL, 0, &back, NULL, &err);
            record_text(r, "read from Cirq", code, back, &err);
        }
        qring_text_free(text);
        qring_text_free(back);
    }
    for (size_t i = 0; i < COUNT(programs); i++) {
        char *text = NULL;
        enum qring_code code =
            qring_circuit_from_qasm(programs[i], strlen(programs[i]), NULL, 0, &text, NULL, &err);
        record_text(r, programs[i], code, text, &err);
        qring_text_free(text);
    }
    struct qring_function *f;
    enum qring_code code =
        qring_circuit_function(no_angle, strlen(no_angle), observables, 2, NULL, &f, &err);
    record_text(r, "no number", code, "", &err);
}

/* ---- jobs ---- */

enum { SAMPLES = 12, INPUTS = 3 };
static double samples[SAMPLES][INPUTS], labels[SAMPLES];
static const struct qring_array x = {samples, QRING_FLOAT64, {sizeof *samples, sizeof **samples}},
                                y = {labels, QRING_FLOAT64, {sizeof *labels, sizeof *labels}};
static const struct qring_data arrays = {sizeof arrays, SAMPLES, INPUTS, 1, &x, &y, NULL};

#define JOB(rate)                                                                                  \
    "{\"name\":\"small\",\"data\":{\"source\":\"npz\",\"train_fraction\":0.67},\"model\":[{"       \
    "\"layer\":\"quantum\",\"circuit\":{\"qubits\":3,\"gates\":[{\"ansatz\":\"angle\"},"           \
    "{\"ansatz\":\"basic-entangler\"},{\"gate\":\"RX\",\"qubits\":[0],\"angle\":1.5e-3}]},"        \
    "\"readouts\":[\"Z0\",\"0.3*Z1 + 0.1*X2\"]},{\"layer\":\"dense\",\"units\":1}],\"train\":{"    \
    "\"epochs\":2,\"batch_size\":4,\"loss\":\"mse\",\"optimizer\":{\"name\":\"adam\","             \
    "\"learning_rate\":" rate "}}}"

static int progress_in(void *state, const struct qring_progress *p) {
    (void)p;
    check_state(state, "in a callback");
    return 0;
}

static void record_file(struct record *r, const struct qring_weights *w, const char *name) {
    struct qring_error err;
    struct qr_err unused;
    struct qr_buf file = {0};
    char *path = qr_xasprintf("%s/%s", dir, name);
    enum qring_code code = qring_weights_write(w, path, &err);
    record_text(r, name, code, "", &err);
    CHECK(qr_file_read(path, SIZE_MAX, &file, &unused) == QR_OK, "%s", path);
    record_bytes(r, name, file.p, file.n);
    qr_buf_free(&file);
    free(path);
}

static void record_weights(struct record *r, struct qring_job *job, struct qring_weights *w) {
    static const char *const names[] = {"w.h5", "w.npz", "w.safetensors"};
    struct qring_error err;
    struct qring_weights *read = NULL, *initial = NULL;
    double p[SAMPLES] = {0};
    const struct qring_array to = vector(p);
    for (size_t i = 0; i < COUNT(names); i++) record_file(r, w, names[i]);
    char *path = qr_xasprintf("%s/w.npz", dir);
    enum qring_code code = qring_weights_read(job, path, &read, &err);
    record_text(r, "read weights", code, "", &err);
    if (!code) record_bytes(r, "weights", qring_weights_values(read, 0), sizeof(double));
    code = qring_weights_new(job, INPUTS, &initial, &err);
    record_text(r, "new weights", code, "", &err);
    if (!code) record_bytes(r, "weights", qring_weights_values(initial, 0), sizeof(double));
    code = qring_predict(job, w, &x, SAMPLES, INPUTS, 2, &to, 1, &err);
    record_text(r, "predict", code, "", &err);
    record_bytes(r, "predictions", p, sizeof p);
    *qring_weights_values(w, 0) = too_large[0];
    code = qring_predict(job, w, &x, SAMPLES, INPUTS, 2, &to, 1, &err);
    record_text(r, "a large weight", code, "", &err);
    qring_weights_free(read);
    qring_weights_free(initial);
    free(path);
}

static void record_job(struct record *r, const char *text, struct state *state) {
    const struct qring_train_options opt = {.struct_size = sizeof opt,
                                            .threads = 2,
                                            .data = &arrays,
                                            .progress = progress_in,
                                            .context = state};
    struct qring_job *job = NULL;
    struct qring_result *result = NULL;
    struct qring_error err;
    enum qring_code code = qring_job_new(text, strlen(text), NULL, &job, &err);
    record_text(r, "job", code, "", &err);
    if (code) return;
    code = qring_train(job, &opt, &result, &err);
    record_text(r, "train", code, code ? "" : qring_result_digest(result), &err);
    if (!code) record_weights(r, job, qring_result_weights(result));
    qring_result_free(result);
    qring_job_free(job);
}

static struct qr_buf record_all(const struct caller *c) {
    caller_set(c);
    struct state state = caller_state();
    struct record r = {.state = &state};
    record_function(&r, QRING_FLOAT32);
    record_function(&r, QRING_FLOAT64);
    record_texts(&r);
    record_job(&r, JOB("3.5e-2"), &state);
    record_job(&r, JOB("-2.5e-3"), &state);
    fesetenv(FE_DFL_ENV);
    caller_set(&usual);
    return r.text;
}

static void compare(const char *what, const struct qr_buf *want, const struct qr_buf *got) {
    const char *a = qr_buf_string(want), *b = qr_buf_string(got);
    size_t at = 0, line = 0;
    for (; a[at] && a[at] == b[at]; at++)
        if (a[at] == '\n') line = at + 1;
    CHECK(a[at] == b[at], "%s: %.200s", what, b + line);
}

/* ---- a callback that changes its own state ---- */

static int change_rounding(void *n, const struct qring_progress *p) {
    (void)p;
    fesetround(++*(int *)n % 2 ? FE_UPWARD : FE_DOWNWARD);
    return 0;
}

static void changing_callback(void) {
    int n = 0;
    struct qring_train_options opt = {.struct_size = sizeof opt, .threads = 2, .data = &arrays};
    struct qring_job *job = NULL;
    struct qring_result *want = NULL, *got = NULL;
    struct qring_error err = {QRING_OK, ""};
    CHECK(qring_job_new(JOB("0.05"), strlen(JOB("0.05")), NULL, &job, &err) == QRING_OK &&
              qring_train(job, &opt, &want, &err) == QRING_OK,
          "%s", err.message);
    opt.progress = change_rounding;
    opt.context = &n;
    CHECK(qring_train(job, &opt, &got, &err) == QRING_OK, "%s", err.message);
    CHECK(fegetround() == (n % 2 ? FE_UPWARD : FE_DOWNWARD), "the callback's change stays");
    fesetround(FE_TONEAREST);
    CHECK(n > 2 && strcmp(qring_result_digest(want), qring_result_digest(got)) == 0);
    qring_result_free(want);
    qring_result_free(got);
    qring_job_free(job);
}

int main(void) {
    static const struct caller callers[] = {
        {"rounding up", .rounding = FE_UPWARD},
        {"rounding down", .rounding = FE_DOWNWARD},
        {"rounding to zero", .rounding = FE_TOWARDZERO},
        {"no subnormal numbers", FE_TONEAREST, .flushes = true},
        {"flags", FE_TONEAREST, .flags = FE_DIVBYZERO | FE_INEXACT},
        {"decimal comma", FE_TONEAREST, .comma = true},
        {"decimal comma of the thread", FE_TONEAREST, .comma_of_thread = true},
        {"traps", FE_TONEAREST, .traps = FE_ALL_EXCEPT},
    };
    CHECK(mkdtemp(dir) != NULL);
    comma_locale_new();
    for (size_t i = 0; i < SAMPLES; i++) {
        for (size_t j = 0; j < INPUTS; j++) samples[i][j] = sin((double)(i * INPUTS + j));
        labels[i] = samples[i][0] > 0 ? 1 : -1;
    }
    struct qr_buf want = record_all(&usual);
    for (size_t i = 0; i < COUNT(callers); i++) {
        struct qr_buf got = record_all(&callers[i]);
        compare(callers[i].what, &want, &got);
        qr_buf_free(&got);
    }
    changing_callback();
    qr_buf_free(&want);
    freelocale(comma_locale);
    char *remove = qr_xasprintf("rm -r %s", dir);
    CHECK(system(remove) == 0);
    free(remove);
    return t_end();
}
