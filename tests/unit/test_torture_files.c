/* Each system call under the writers of base, store and worker fails in turn, once or from then on
 * (that call, or all calls): the error names the path, the old content stays whole, no other file
 * is left where the disk allows it, and no descriptor leaks. A retry on a healthy disk succeeds. */
#include "tests/failing_calls.h"

#include "data/dataset.h"
#include "evaluator/curve.h"
#include "record/checkpoint.h"
#include "store/store.h"
#include "worker/results.h"

/* ---- operations ---- */

struct try {
    const char *what;
    void (*before)(void);
    enum qr_code (*run)(void);
    bool (*is_old)(void), (*is_new)(void);
    int least; /* minimum number of its calls whose failure is an error */
};

static void nothing(void) {}
static bool always(void) { return true; }

static struct qr_buf got;
static enum qr_code run_read(void) {
    qr_auto(qr_free_p) char *path = at("f");
    return qr_file_read(path, 100, &got, &err);
}
static bool got_nothing(void) { return got.n == 0; }
static bool got_old(void) { return strcmp(qr_buf_string(&got), "the old text") == 0; }

static void old_file(void) { put("f", "the old text"); }
static enum qr_code run_replace(void) {
    qr_auto(qr_free_p) char *path = at("f");
    return qr_file_replace(path, qr_bytes_of_string("the new text"), &err);
}
static bool f_old(void) { return has("f", "the old text"); }
static bool f_new(void) { return has("f", "the new text"); }
static bool f_none(void) { return has("f", NULL); }

static enum qr_code run_replace_deep(void) {
    qr_auto(qr_free_p) char *path = at("a/b/f");
    return qr_file_replace(path, qr_bytes_of_string("the new text"), &err);
}
static bool deep_none(void) { return has("a/b/f", NULL); }
static bool deep_new(void) { return has("a/b/f", "the new text"); }

static enum qr_code run_writable(void) {
    qr_auto(qr_free_p) char *path = at("a/b");
    return qr_dir_writable(path, &err);
}

static bool made_ab(void) {
    qr_auto(qr_free_p) char *path = at("a/b");
    return entries(path) == 2;
}

static void old_lines(void) { put("f", "line 1\n"); }
static enum qr_code run_append(void) {
    qr_auto(qr_free_p) char *path = at("f");
    struct qr_appender *a;
    enum qr_code code = qr_appender_open(path, false, &a, &err);
    if (code != QR_OK) return code;
    code = qr_appender_write(a, qr_bytes_of_string("line 2\n"), &err);
    qr_appender_close(a);
    return code;
}
static bool one_line(void) { return has("f", "line 1\n"); }
static bool two_lines(void) { return has("f", "line 1\nline 2\n"); }

/* An evaluator's curve with a torn last line. */
#define CURVE_LINE(step)                                                                           \
    "{\"step\":" step ",\"epoch\":1,\"kind\":\"EVAL\",\"samples\":4,\"loss\":0.25,"                \
    "\"metrics\":{},\"job_hash\":\"cccccccccccccccc\"}\n"
static void no_pause(void *ctx, int64_t ns) { (void)ctx, (void)ns; }
static void old_curve(void) { put("evaluation.jsonl", CURVE_LINE("5") "{\"step"); }
static enum qr_code run_curve(void) {
    static const char hash[] = "cccccccccccccccccccccccc";
    const struct qr_step_line line = {
        .step = 10, .epoch = 1, .eval = true, .samples = 4, .loss = 0.25};
    struct qr_curve c = {0};
    enum qr_code code = qr_curve_open(dir, hash, false, no_pause, NULL, &c, &err);
    if (code == QR_OK && c.step < 10) code = qr_curve_add(&c, &line, &err);
    qr_curve_close(&c);
    return code;
}
static bool curve_old(void) {
    return has("evaluation.jsonl", CURVE_LINE("5") "{\"step") ||
           has("evaluation.jsonl", CURVE_LINE("5"));
}
static bool curve_new(void) { return has("evaluation.jsonl", CURVE_LINE("5") CURVE_LINE("10")); }

static enum qr_code with_store(enum qr_code (*fn)(struct qr_store *s)) {
    struct qr_store *s = qr_store_file_new(dir);
    enum qr_code code = fn(s);
    s->ops->close(s);
    return code;
}
static enum qr_code store_get(struct qr_store *s) { return s->ops->get(s, "f", 100, &got, &err); }
static enum qr_code store_put(struct qr_store *s) {
    return s->ops->put(s, "f", qr_bytes_of_string("the new text"), false, &err);
}
static enum qr_code store_create(struct qr_store *s) {
    return s->ops->put(s, "f", qr_bytes_of_string("the new text"), true, &err);
}
static enum qr_code store_remove(struct qr_store *s) { return s->ops->remove(s, "f", &err); }
static enum qr_code store_list(struct qr_store *s) { return s->ops->list(s, "", &got, &err); }
static enum qr_code store_check(struct qr_store *s) {
    return s->ops->check_writable(s, "a/b/f", &err);
}
static enum qr_code run_get(void) { return with_store(store_get); }
static enum qr_code run_put(void) { return with_store(store_put); }
static enum qr_code run_create(void) { return with_store(store_create); }
static enum qr_code run_remove(void) { return with_store(store_remove); }
static enum qr_code run_list(void) { return with_store(store_list); }
static enum qr_code run_check(void) { return with_store(store_check); }
static void three_files(void) { put("a", "1"), put("b/c", "2"), put("d", "3"); }
static bool got_three(void) { return strcmp(qr_buf_string(&got), "a\nb/c\nd") == 0; }

/* All samples of a folder, or none. */
static void two_parts(void) { put("in/a.csv", "x,y\n1,1\n"), put("in/b/c.csv", "x,y\n2,-1\n"); }
static enum qr_code run_channel(void) {
    qr_auto(qr_free_p) char *folder = at("in"), *url = qr_xasprintf("%s/", folder);
    const char *const urls[] = {url};
    const struct qr_data_channel test = {
        .name = "test", .n_urls = 1, .urls = urls, .source = QR_DATA_CSV};
    const struct qr_data_options opt = {
        .source = QR_DATA_CSV, .channels = &test, .n_channels = 1, .train_fraction = 1};
    struct qr_dataset d = {0};
    enum qr_code code = qr_dataset_load_channel(&opt, "test", &d, &err);
    for (size_t i = 0; i < d.n_samples; i++) qr_buf_printf(&got, "%g ", d.x[i]);
    qr_dataset_fini(&d);
    return code;
}
static bool got_both(void) { return strcmp(qr_buf_string(&got), "1 2 ") == 0; }

static enum qr_code store_swap(struct qr_store *s) {
    struct qr_store_version v;
    enum qr_code code = s->ops->get_version(s, "f", 100, &got, &v, &err);
    return code == QR_OK ? s->ops->swap(s, "f", qr_bytes_of_string("the new text"), &v, &err)
                         : code;
}
static enum qr_code run_swap(void) { return with_store(store_swap); }

/* ---- checkpoints: a fourth one is published after three ---- */

static struct qr_checkpoint state_at(uint64_t reductions) {
    struct qr_checkpoint c = {
        .step = reductions, .reductions = reductions, .n_digested = 1, .contract = "f32-v1"};
    memset(c.job_hash, 'a', 64);
    double value = (double)reductions;
    qr_tensors_add(&c.tensors, "dense/bias", 1, (size_t[]){1}, &value);
    qr_checkpoint_digest(&c, c.digest);
    return c;
}
static enum qr_code publish(uint64_t reductions) {
    qr_auto(qr_free_p) char *place_dir = at("checkpoints");
    struct qr_store *s = qr_store_file_new("");
    const struct qr_checkpoint_location p = {.store = s, .dir = place_dir, .url = place_dir};
    struct qr_checkpoint c = state_at(reductions);
    struct qr_buf notes = {0};
    struct qr_checkpoint_latest l;
    enum qr_code code = qr_checkpoint_save(&p, &c, false, &l, &notes, &err);
    qr_buf_free(&notes);
    qr_checkpoint_fini(&c);
    s->ops->close(s);
    return code;
}
static void three_published(void) {
    for (uint64_t reductions = 1; reductions <= 3; reductions++)
        CHECK(publish(reductions) == QR_OK, "%s", err.msg);
}
static enum qr_code run_publish(void) { return publish(4); }
static bool loads(uint64_t reductions) {
    qr_auto(qr_free_p) char *place_dir = at("checkpoints");
    struct qr_store *s = qr_store_file_new("");
    const struct qr_checkpoint_location p = {.store = s, .dir = place_dir, .url = place_dir};
    struct qr_checkpoint c = {0}, want = state_at(reductions);
    struct qr_buf notes = {0};
    bool done, is = qr_checkpoint_load(&p, want.job_hash, &c, &done, &notes, &err) == QR_OK &&
                    c.reductions == reductions && strcmp(c.digest, want.digest) == 0;
    is &= notes.n == 0;
    qr_buf_free(&notes);
    qr_checkpoint_fini(&c);
    qr_checkpoint_fini(&want);
    s->ops->close(s);
    return is;
}
static bool loads_3(void) { return loads(3); }
static bool loads_4(void) { return loads(4); }

/* ---- the results of a run ---- */

static struct qr_workload load;
static struct qr_job *job;
static struct qr_job_canonical canonical;
static struct qr_settings settings;
static struct qr_outputs outputs;
static bool warned;
static void record_warning(void *ctx, enum qr_log_level level, const char *module,
                           const char *message) {
    (void)ctx, (void)module, (void)message;
    warned |= level <= QR_LOG_WARNING;
}
static const struct qr_log quiet = {.level = QR_LOG_WARNING, .write = record_warning};

static void open_outputs(void) {
    free(settings.out);
    settings.out = at("out");
    const struct qr_outputs_options where = qr_results_options(&settings, &quiet);
    qr_outputs_init(&outputs, &where, "torture");
}
static enum qr_code run_outputs(void) {
    open_outputs();
    struct qr_train_result r = {.steps = 7, .epochs = 1, .loss = 0.5, .params = load.initial};
    struct qr_train_observer o = qr_outputs_observer(&outputs);
    struct qr_step_line line = {.step = 1, .epoch = 1, .samples = 4, .loss = 0.5};
    const struct qr_step_detail detail = {0};
    enum qr_code code = qr_outputs_check(&outputs, &err);
    if (code == QR_OK) code = o.step(o.ctx, true, &line, &detail, &err);
    if (code == QR_OK) code = qr_outputs_write(&outputs, &load, &canonical, &r, 1, 1.0, &err);
    qr_outputs_fini(&outputs);
    return code;
}
static char *first_weights; /* of the run without failures */
static size_t first_bytes;
static bool same_file(const char *name, const char *bytes, size_t n) {
    char *path = at(name);
    struct qr_buf b = {0};
    bool same =
        qr_file_read(path, 1 << 20, &b, &err) == QR_OK && b.n == n && memcmp(b.p, bytes, n) == 0;
    qr_buf_free(&b);
    free(path);
    return same;
}
static void old_results(void) {
    put("out/weights.h5", "old weights"), put("out/result.json", "old result"),
        put("out/steps.jsonl", "{\"step\":1,half"), put("out/job.json", "old job"),
        put("out/provenance.json", "old statement"), put("out/provenance.dsse.json", "old too");
}
/* The outputs of the old run, or parts of the old or the new one: no result without its weights,
 * and no old result beside the new job. */
static bool outputs_whole(void) {
    bool old = has("out/weights.h5", "old weights"), none = has("out/weights.h5", NULL),
         new = !first_weights || same_file("out/weights.h5", first_weights, first_bytes);
    if (has("out/result.json", "old result")) return old && has("out/job.json", "old job");
    return has("out/result.json", NULL) && (old ? has("out/job.json", "old job") : none || new);
}
static bool outputs_new(void) {
    struct qr_buf b = {0};
    char *path = at("out/weights.h5");
    bool fine = qr_file_read(path, 1 << 20, &b, &err) == QR_OK;
    if (fine && !first_weights) {
        first_weights = qr_xmalloc(b.n);
        memcpy(first_weights, b.p, first_bytes = b.n);
    }
    qr_buf_free(&b);
    free(path);
    return fine && same_file("out/weights.h5", first_weights, first_bytes) &&
           !has("out/result.json", "old result") && !has("out/result.json", NULL) &&
           !has("out/provenance.json", "old statement") && !has("out/provenance.json", NULL) &&
           has("out/provenance.dsse.json", NULL) && !has("out/job.json", "old job") &&
           !has("out/steps.jsonl", NULL);
}

/* ---- trials ---- */

/* Failures that need no error: closing a file that was only read, or a query that a later call
 * repeats. */
static bool may_pass(const struct try *t) {
    /* Retried. */
    if (fail_errno == EINTR &&
        (failed == READ || failed == PREAD || failed == WRITE || failed == PWRITE))
        return true;
    if (t->run == run_outputs && warned) return true; /* a log line that was written later */
    if (failed == CLOSE)
        return !failed_for_writing ||
               ((t->run == run_publish || t->run == run_swap) && failed_lock) ||
               t->run == run_append || t->run == run_curve ||
               t->run == run_outputs;                       /* its lines are a log, too */
    if (failed == LINK && fail_errno == EPERM) return true; /* a file system without hard links */
    if (failed == OPENDIR && fail_errno == ENOENT) return true;
    /* The oldest is removed later. */
    if (failed == UNLINK) return t->run == run_create || t->run == run_publish;
    if (t->run == run_publish && (failed == OPENDIR || failed == READDIR)) return true;
    /* A file system without locks, or a lock that is retried. */
    if (failed == FLOCK) return true;
    return (failed == FSTATAT && t->run == run_publish) || failed == MKDIR || failed == ACCESS ||
           failed == LSEEK ||
           (failed == STAT && t->run != run_read && t->run != run_get && t->run != run_publish &&
            t->run != run_swap);
}
/* After a permanent failure: checks the error and the content, then retries on a healthy disk. */
static void check_permanent(const struct try *t, long k, enum qr_code code,
                            const struct qr_err *why, int *errors) {
    bool old = t->is_old(), new = t->is_new();
    /* A partial line of a log stays if it cannot be truncated; the next writer removes it. */
    if ((t->run == run_append || t->run == run_curve) && fail_mode == ALL_CALLS) return;
    *errors += code != QR_OK;
    CHECK(code == QR_OK || (why->code == code && strstr(why->msg, dir)),
          "%s, from call %ld (%d) on: no path in '%s'", t->what, k, failed, why->msg);
    CHECK(code == QR_OK ? new : old || new,
          "%s, from call %ld (%d) on: neither the old nor the new content", t->what, k, failed);
    if (code == QR_OK || !old || (t->run == run_append && new)) return;
    qr_buf_clear(&got);
    bool again = t->run() == QR_OK;
    /* A probe file that could not be removed may be left. */
    CHECK(again && (t->is_old == always || t->is_new()), "%s, after call %ld (%d) failed: %s",
          t->what, k, failed, again ? "" : err.msg);
}

static bool one_try(const struct try *t, long k, int sys, int *errors) {
    snprintf(dir, sizeof dir, "%s/%s", base_dir, "try");
    CHECK(mkdir(dir, 0700) == 0);
    qr_buf_clear(&got);
    t->before();
    err = (struct qr_err){0};
    int fds = entries("/proc/self/fd");
    n_calls = 0, fail_at = k, fail_errno = sys, failed = NONE, short_next = 0, warned = false;
    enum qr_code code = t->run();
    bool reached = n_calls >= k;
    struct qr_err why = err;
    fail_at = 0, short_next = 0;
    const char *name = t->what;
    CHECK(entries("/proc/self/fd") == fds, "%s, call %ld (%d): descriptors", name, k, failed);
    if (fail_mode != ONCE) {
        check_permanent(t, k, code, &why, errors);
        return remove_tree(dir), reached;
    }
    if (code != QR_OK) {
        ++*errors;
        CHECK(failed != NONE, "%s: %s", name, why.msg);
        CHECK(strstr(why.msg, dir), "%s, call %ld (%d): no path in '%s'", name, k, failed, why.msg);
        CHECK(why.code == code, "%s, call %ld: %d and %d", name, k, code, why.code);
        bool only_sync =
            (failed == FSYNC || (failed == OPEN && !failed_for_writing)) && t->is_new();
        CHECK(t->is_old() || only_sync, "%s, call %ld (%d): neither the old nor the new content",
              name, k, failed);
    } else {
        CHECK(t->is_new(), "%s, call %ld (%d): no error and not the new content", name, k, failed);
        CHECK(failed == NONE || may_pass(t),
              "%s, call %ld (%d) failed without an error or a warning", name, k, failed);
    }
    int left = remove_tree(dir);
    CHECK(left == 0 || failed == UNLINK, "%s, call %ld (%d): temporary files are left", name, k,
          failed);
    return reached;
}

static const struct try tries[] = {
    {"read", old_file, run_read, got_nothing, got_old, 3},
    {"replace", old_file, run_replace, f_old, f_new, 5},
    {"replace in new directories", nothing, run_replace_deep, deep_none, deep_new, 8},
    {"writable", nothing, run_writable, always, made_ab, 4},
    {"append", old_lines, run_append, one_line, two_lines, 2},
    {"curve", old_curve, run_curve, curve_old, curve_new, 5},
    {"get", old_file, run_get, got_nothing, got_old, 3},
    {"put", old_file, run_put, f_old, f_new, 5},
    {"create", nothing, run_create, f_none, f_new, 5},
    {"remove", old_file, run_remove, f_old, f_none, 1},
    {"list", three_files, run_list, got_nothing, got_three, 2},
    {"a folder's samples", two_parts, run_channel, got_nothing, got_both, 8},
    {"check", nothing, run_check, always, made_ab, 4},
    {"swap", old_file, run_swap, f_old, f_new, 8},
    {"checkpoint", three_published, run_publish, loads_3, loads_4, 14},
    {"outputs", old_results, run_outputs, outputs_whole, outputs_new, 15},
};

int main(void) {
    static const int errnos[] = {EIO, ENOSPC, EACCES, EPERM, EINTR};
    static const char text[] =
        "{\"model\":[{\"layer\":\"quantum\",\"circuit\":{\"ansatz\":\"qcnn\",\"qubits\":4,"
        "\"stages\":1}},{\"layer\":\"dense\",\"units\":1}],"
        "\"data\":{\"source\":\"cluster-excitations\",\"rounds\":2},\"train\":{\"loss\":\"mse\"}}";
    int n_for_good = 0, n_errors = 0;
    /* A file system in memory is fast. */
    snprintf(base_dir, sizeof base_dir, "%s/qring-torture-XXXXXX",
             access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp");
    CHECK(mkdtemp(base_dir) != NULL);
    CHECK(qr_job_parse(qr_bytes_of_string(text), "the test", &job, &err) == QR_OK, "%s", err.msg);
    if (job) CHECK(qr_workload_load(job, "portable", 1, &load, &err) == QR_OK, "%s", err.msg);
    if (t_failed) return t_end();
    qr_job_canonical(job, &load.data, NULL, &canonical);
    qr_settings_init(&settings);
    for (size_t i = 0; i < COUNT(tries); i++) {
        int none = 0;
        one_try(&tries[i], -1, 0, &none); /* no call fails */
        for (size_t e = 0; e < COUNT(errnos); e++) {
            int errors = 0;
            for (long k = 1; one_try(&tries[i], k, errnos[e], &errors); k++) continue;
            CHECK(errnos[e] == EINTR || errors >= tries[i].least, "%s: %d errors only",
                  tries[i].what, errors);
            for (fail_mode = THIS_CALL; errnos[e] == ENOSPC && fail_mode <= ALL_CALLS; fail_mode++)
                for (long k = 1; one_try(&tries[i], k, errnos[e], &n_errors); k++) n_for_good++;
            fail_mode = ONCE;
        }
    }
    CHECK(n_errors > n_for_good / 3, "%d errors of %d", n_errors, n_for_good);
    printf("ROW 22: system calls of files, results and checkpoints that fail for good: %d disks, "
           "the old or the new content is whole on "
           "%d (bound all)\n",
           n_for_good, t_failed ? -1 : n_for_good);
    remove_tree(base_dir);
    qr_settings_fini(&settings);
    qr_job_canonical_fini(&canonical);
    qr_workload_fini(&load);
    qr_job_free(job);
    qr_buf_free(&got);
    free(first_weights);
    return t_end();
}
