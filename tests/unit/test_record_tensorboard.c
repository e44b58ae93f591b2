/* Event files of a synthetic run, read after every step to check that they are whole. Tags, steps
 * and values are those of the lines in steps.jsonl. */
#include <dirent.h>
#include <math.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/mem.h"
#include "format/tfrecord.h"
#include "record/tensorboard.h"
#include "tensorboard.pb-c.h"
#include "tests/t.h"

static int64_t now_ns;
static int64_t now(void *ctx) {
    (void)ctx;
    return now_ns;
}
static const struct qr_clock clock_of_test = {now, NULL};
static int64_t wall(void *ctx) {
    (void)ctx;
    return INT64_C(1700000000) * QR_SECOND + now_ns;
}
static const struct qr_clock wall_of_test = {wall, NULL};

/* ---- reading back ---- */
struct seen {
    char run[16], tag[96], plugin[16];
    int64_t step;
    double value;
};
static struct seen seen[512];
static size_t n_seen;
static long n_files, n_starts, n_graphs; /* since the start of read_all */
/* Of the last start, at which readers discard later data. */
static int64_t start_step;
static double last_histogram[QR_HISTOGRAM_BUCKETS][3];

static void record_value(const char *run, int64_t step, const Qring__Tensorboard__Value *v) {
    struct seen *s = &seen[n_seen];
    const ProtobufCBinaryData *bytes = &v->tensor->tensor_content;
    const char *plugin = v->metadata->plugin_data->plugin_name;
    size_t size = v->tensor->dtype == QR_EVENT_FLOAT ? 4 : 8;
    for (size_t i = 0; i < v->tensor->tensor_shape->n_dim; i++)
        size *= (size_t)v->tensor->tensor_shape->dim[i]->size;
    CHECK(bytes->len == size, "%s: %zu bytes in a tensor of %zu", v->tag, bytes->len, size);
    QR_ASSERT(++n_seen < COUNT(seen));
    *s = (struct seen){.step = step};
    snprintf(s->run, sizeof s->run, "%s", run);
    snprintf(s->tag, sizeof s->tag, "%s", v->tag);
    snprintf(s->plugin, sizeof s->plugin, "%s", plugin);
    if (v->tensor->dtype == QR_EVENT_FLOAT && bytes->len == 4) {
        union {
            uint32_t u;
            float f;
        } bits = {qr_get_u32le(bytes->data)};
        s->value = (double)bits.f;
    }
    if (strcmp(plugin, "histograms") == 0 && bytes->len == sizeof last_histogram)
        for (size_t i = 0; i < QR_HISTOGRAM_BUCKETS * 3; i++)
            last_histogram[i / 3][i % 3] = qr_double_of_bits(qr_get_u64le(bytes->data + 8 * i));
}

/* Reads the record at *at by its length, and checks its frame: it must be what qr_tfrecord_put
 * writes. */
static bool next_record(struct qr_bytes file, size_t *at, struct qr_bytes *ret) {
    struct qr_buf frame = {0};
    if (file.n - *at < 16) return false;
    uint64_t n = qr_get_u64le(file.p + *at);
    if (n > file.n - *at - 16) return false;
    *ret = qr_bytes_of(file.p + *at + 12, n);
    qr_tfrecord_put(&frame, *ret);
    CHECK(memcmp(frame.p, file.p + *at, frame.n) == 0, "a record at byte %zu is damaged", *at);
    *at += frame.n;
    qr_buf_free(&frame);
    return true;
}

static void read_file(const char *run, const char *path) {
    struct qr_buf file = {0};
    struct qr_bytes record = {0};
    struct qr_err err = {0};
    size_t at = 0, n = 0;
    CHECK(qr_file_read(path, 1 << 20, &file, &err) == QR_OK, "%s", err.msg);
    while (next_record(qr_buf_view(&file), &at, &record)) {
        Qring__Tensorboard__Event *e = qring__tensorboard__event__unpack(NULL, record.n, record.p);
        QR_ASSERT(e != NULL);
        bool start = e->what_case == QRING__TENSORBOARD__EVENT__WHAT_SESSION_LOG &&
                     e->session_log->status == 1,
             graph = e->what_case == QRING__TENSORBOARD__EVENT__WHAT_GRAPH_DEF;
        if (n++ == 0)
            CHECK(e->what_case == QRING__TENSORBOARD__EVENT__WHAT_FILE_VERSION &&
                  strcmp(e->file_version, "brain.Event:2") == 0 &&
                  strcmp(e->source_metadata->writer, "qring") == 0);
        CHECK(e->wall_time >= 1.7e9 && e->wall_time < 1.7e9 + 1000);
        n_starts += start;
        if (start) start_step = e->step;
        /* The third record, after the start at which readers discard data. */
        if (graph)
            CHECK(n == 3 && strcmp(run, "train") == 0 && e->graph_def.len == 5 &&
                  memcmp(e->graph_def.data, "graph", 5) == 0);
        n_graphs += graph;
        if (e->what_case == QRING__TENSORBOARD__EVENT__WHAT_SUMMARY)
            for (size_t i = 0; i < e->summary->n_value; i++)
                record_value(run, e->step, e->summary->value[i]);
        qring__tensorboard__event__free_unpacked(e, NULL);
    }
    CHECK(at == file.n, "%s ends with a partial record", path);
    n_files++;
    qr_buf_free(&file);
}

static void read_all(const char *dir) {
    static const char *const runs[] = {"", "train", "validation", "evaluator"};
    n_seen = 0, n_files = 0, n_starts = 0, n_graphs = 0;
    for (int i = 0; i < 4; i++) {
        char path[900], folder[400];
        snprintf(folder, sizeof folder, "%s/%s", dir, runs[i]);
        DIR *d = opendir(folder);
        if (!d) continue;
        for (struct dirent *e; (e = readdir(d));) {
            if (!strstr(e->d_name, "tfevents")) continue;
            snprintf(path, sizeof path, "%s/%s", folder, e->d_name);
            read_file(runs[i], path);
        }
        closedir(d);
    }
}

static const struct seen *find(const char *run, const char *tag, int64_t step) {
    for (size_t i = 0; i < n_seen; i++)
        if (strcmp(seen[i].run, run) == 0 && strcmp(seen[i].tag, tag) == 0 && seen[i].step == step)
            return &seen[i];
    return NULL;
}
static void check_value(const char *run, const char *tag, int64_t step, double want) {
    const struct seen *s = find(run, tag, step);
    CHECK(s != NULL, "%s: no %s at step %lld", run, tag, (long long)step);
    if (s)
        CHECK(s->value == (double)(float)want && strcmp(s->plugin, "scalars") == 0,
              "%s %s %lld: %.9g, not %.9g", run, tag, (long long)step, s->value, want);
}

/* ---- a run of 3 epochs of 2 steps ---- */
static const char *const symbols[] = {"a", "b", "c"};
static const struct qr_weights_entry entries[] = {{"pqc/parameters", 1, {3, 0}, symbols},
                                                  {"pqc_1/parameters", 1, {3, 0}, symbols},
                                                  {"dense/kernel", 2, {2, 1}, NULL},
                                                  {"dense/bias", 1, {1, 0}, NULL}};
static const struct qr_weights_layout layout = {COUNT(entries), entries};
static const double weights[9] = {0, 1, 2, 5, 5, 5, -1, 1, 0},
                    gradient[9] = {3, 0, 0, 1, 1, 1, 0, 0, 2};

/* What the writer reported of its files. */
static struct {
    char name[128];
    size_t bytes;
} written[16];
static size_t n_written;
static void on_write(void *ctx, const char *name, size_t bytes) {
    size_t i = 0;
    CHECK(ctx == &n_written);
    while (i < n_written && strcmp(written[i].name, name) != 0) i++;
    QR_ASSERT(i < COUNT(written));
    if (i == n_written) snprintf(written[n_written++].name, sizeof written[0].name, "%s", name);
    CHECK(bytes > written[i].bytes, "%s has shrunk", name);
    written[i].bytes = bytes;
}

static struct qr_tensorboard *start_limited(const char *dir, size_t max_file_bytes) {
    static const struct qr_hparam hparams[] = {{.name = "optimizer", .text = "adam"},
                                               {.name = "learning_rate", .number = 0.02}};
    n_written = 0;
    memset(written, 0, sizeof written);
    return qr_tensorboard_new(&(struct qr_tensorboard_options){.max_file_bytes = max_file_bytes,
                                                               .wrote = on_write,
                                                               .wrote_ctx = &n_written,
                                                               .logdir = dir,
                                                               .host = "a/host",
                                                               .pid = 17,
                                                               .layout = &layout,
                                                               .hparams = hparams,
                                                               .n_hparams = 2,
                                                               .graph = qr_bytes_of_string("graph"),
                                                               .group = "g",
                                                               .has_validation = true,
                                                               .monotonic = &clock_of_test,
                                                               .wall = &wall_of_test});
}

static struct qr_tensorboard *start_writer(const char *dir) { return start_limited(dir, 0); }

static double loss_at(uint64_t step) { return 1.0 / (double)step; }

static void write_step(struct qr_tensorboard *t, uint64_t step, bool eval) {
    struct qr_err err = {0};
    uint64_t epoch = (step + 1) / 2;
    const struct qr_named_value metrics[] = {{"accuracy", eval ? 0.75 : 0.5}};
    const struct qr_named_value running[] = {{"loss", 10.0 * (double)epoch}, {"accuracy", 0.625}};
    const struct qr_step_line line = {.step = step,
                                      .epoch = epoch,
                                      .eval = eval,
                                      .samples = 4,
                                      .loss = loss_at(step) + eval,
                                      .metrics = metrics,
                                      .n_metrics = 1};
    const uint64_t readouts[QR_READOUT_BUCKETS] = {[0] = step, [3] = eval ? 7 : 5, [29] = 1};
    const struct qr_step_detail detail = {.weights = weights,
                                          .readouts = readouts,
                                          .readout_bound = 1.5,
                                          .gradient = eval ? NULL : gradient,
                                          .learning_rate = 0.02,
                                          .ends_epoch = eval,
                                          .running = running,
                                          .n_running = 2};
    CHECK(qr_tensorboard_step(t, &line, &detail, &err) == QR_OK, "%s", err.msg);
}

static void check_run(uint64_t steps) {
    for (uint64_t s = 1; s <= steps; s++) {
        check_value("train", "batch_loss", (int64_t)s, loss_at(s));
        check_value("train", "batch_accuracy", (int64_t)s, 0.5);
        /* sqrt(9 + 3 + 4) */
        check_value("train", "batch_gradient_norm", (int64_t)s, 4);
        check_value("train", "batch_gradient_norm/parameters_0", (int64_t)s, 3);
        /* of 3, 0, 0: mean 1, squares 4 1 1 */
        check_value("train", "batch_gradient_variance/parameters_0", (int64_t)s, 2);
        check_value("train", "batch_gradient_variance/pqc_1/parameters_0", (int64_t)s, 0);
        CHECK(find("train", "Readouts", (int64_t)s) &&
              strcmp(find("train", "Readouts", (int64_t)s)->plugin, "histograms") == 0);
        if (s % 2) continue;
        CHECK(find("validation", "Readouts", (int64_t)s) != NULL);
        int64_t epoch = (int64_t)s / 2 - 1;
        check_value("train", "epoch_loss", epoch, 10.0 * (double)(epoch + 1));
        check_value("train", "epoch_accuracy", epoch, 0.625);
        check_value("train", "epoch_learning_rate", epoch, 0.02);
        check_value("validation", "epoch_loss", epoch, loss_at(s) + 1);
        check_value("", "loss", epoch, 10.0 * (double)(epoch + 1));
        check_value("", "val_loss", epoch, loss_at(s) + 1);
        check_value("", "val_accuracy", epoch, 0.75);
        check_value("validation", "evaluation_loss_vs_iterations", (int64_t)s, loss_at(s) + 1);
        check_value("validation", "evaluation_accuracy_vs_iterations", (int64_t)s, 0.75);
        CHECK(find("train", "parameters_0/histogram", epoch) &&
              find("train", "pqc_1/parameters_0/histogram", epoch) &&
              find("train", "dense/kernel_0/histogram", epoch) &&
              find("train", "dense/bias_0/histogram", epoch));
    }
}

static void check_written(const char *dir, size_t i) {
    char path[900];
    struct stat st;
    snprintf(path, sizeof path, "%.300s/%.127s", dir, written[i].name);
    CHECK(stat(path, &st) == 0 && (size_t)st.st_size == written[i].bytes, "%s: %zu", path,
          written[i].bytes);
}

static void test_run(const char *dir) {
    struct qr_tensorboard *t = start_writer(dir);
    struct qr_err err = {0};
    read_all(dir);
    CHECK(n_files == 0); /* no file before the first committed step */
    for (uint64_t s = 1; s <= 6; s++) {
        now_ns += 10 * QR_MS;
        write_step(t, s, false);
        if (s == 1) {
            read_all(dir); /* the first step is written at once */
            check_run(1);
        }
        if (s % 2) continue;
        write_step(t, s, true);
        read_all(dir); /* the files that a killed process would leave */
        check_run(s);
    }
    CHECK(find("", "_hparams_/experiment", 0) && find("", "_hparams_/session_start_info", 0) &&
          !find("", "_hparams_/session_end_info", 0));
    now_ns += 10 * QR_MS;
    write_step(t, 7, false);
    read_all(dir);
    CHECK(!find("train", "batch_loss", 7)); /* buffered for at most a second */
    now_ns += QR_SECOND;
    write_step(t, 8, false);
    read_all(dir);
    CHECK(find("train", "batch_loss", 7) && find("train", "batch_loss", 8));
    const struct qr_named_value best[] = {{"loss", 0.5}, {"val_loss", 0.25}};
    CHECK(qr_tensorboard_success(t, 5, best, COUNT(best), &err) == QR_OK, "%s", err.msg);
    qr_tensorboard_close(t);
    read_all(dir);
    check_value("", "loss", 5, 0.5); /* Of the written weights, after the last epoch. */
    check_value("", "val_loss", 5, 0.25);
    CHECK(n_files == 3 && n_starts == 3 && find("", "_hparams_/session_end_info", 0));
    CHECK(n_graphs == 1, "%ld graphs", n_graphs);
    CHECK(n_written == 3);
    for (size_t i = 0; i < n_written; i++) check_written(dir, i);
}

/* Files are rotated at a size: each is whole, names are in order, and a later file makes readers
 * discard nothing. */
static void test_rotation(const char *dir) {
    struct qr_tensorboard *t = start_limited(dir, 3000);
    char last[128] = "";
    size_t in_train = 0;
    for (uint64_t s = 1; s <= 6; s++) {
        write_step(t, s, false);
        if (s % 2 == 0) write_step(t, s, true); /* rotated here, all in one second */
    }
    qr_tensorboard_close(t);
    read_all(dir);
    check_run(6);
    CHECK(n_files == (long)n_written && n_starts == 3 && n_files == 5, "%ld files, %ld starts",
          n_files, n_starts);
    for (size_t i = 0; i < n_written; i++) {
        check_written(dir, i);
        if (strncmp(written[i].name, "train/", 6) != 0) continue;
        CHECK(strcmp(written[i].name, last) > 0 && written[i].bytes < 3000 + 8000,
              "%s after %s, %zu bytes", written[i].name, last, written[i].bytes);
        memcpy(last, written[i].name, sizeof last);
        in_train++;
    }
    CHECK(in_train == 3 && n_graphs == 1, "%zu, %ld graphs", in_train, n_graphs);
}

/* Read-outs: edges and counts of the last one, and which steps have one. */
static void test_readouts(const char *dir) {
    struct qr_tensorboard *t = start_writer(dir);
    size_t n = 0;
    for (uint64_t s = 1; s <= 1 << 20; s++) n += qr_tensorboard_shows_readouts(s);
    CHECK(n == 127 + 13 * 64 + 1, "%zu", n);
    CHECK(qr_tensorboard_shows_readouts(127) && !qr_tensorboard_shows_readouts(129) &&
          qr_tensorboard_shows_readouts(256));
    const uint64_t counts[QR_READOUT_BUCKETS] = {[0] = 2, [3] = 7, [29] = 1};
    const struct qr_step_line line = {.step = 1, .epoch = 1, .loss = 1};
    const struct qr_step_detail detail = {
        .weights = weights, .gradient = gradient, .readouts = counts, .readout_bound = 1.5};
    CHECK(qr_tensorboard_step(t, &line, &detail, QR_IGNORED) == QR_OK);
    qr_tensorboard_close(t);
    memset(last_histogram, 0, sizeof last_histogram);
    for (size_t i = 0; i < n_written; i++) {
        char path[900];
        snprintf(path, sizeof path, "%.300s/%.127s", dir, written[i].name);
        read_file("train", path);
    }
    for (int k = 0; k < QR_READOUT_BUCKETS; k++)
        CHECK(fabs(last_histogram[k][0] - (k * 0.1 - 1.5)) < 1e-15 &&
                  fabs(last_histogram[k][1] - (k * 0.1 - 1.4)) < 1e-15 &&
                  last_histogram[k][2] == (double)counts[k],
              "bucket %d: %g to %g: %g", k, last_histogram[k][0], last_histogram[k][1],
              last_histogram[k][2]);
}

static struct qr_tensorboard *start_evaluator(const char *dir) {
    return qr_tensorboard_new(&(struct qr_tensorboard_options){.logdir = dir,
                                                               .host = "h",
                                                               .pid = 18,
                                                               .layout = &layout,
                                                               .evaluator = true,
                                                               .monotonic = &clock_of_test,
                                                               .wall = &wall_of_test});
}

/* An evaluator has a folder of its own, no session, and steps that end no epoch; each line is
 * written at once. */
static void test_evaluator(const char *dir) {
    const uint64_t counts[QR_READOUT_BUCKETS] = {[2] = 7};
    const struct qr_step_line within = {.step = 5, .epoch = 3, .eval = true, .loss = 0.5};
    const struct qr_step_detail detail = {
        .weights = weights, .readouts = counts, .readout_bound = 1.5};
    struct qr_tensorboard *t = start_evaluator(dir);
    write_step(t, 4, true);
    read_all(dir);
    CHECK(n_files == 1 && n_starts == 1 && start_step == 4, "%ld files", n_files);
    CHECK(qr_tensorboard_step(t, &within, &detail, QR_IGNORED) == QR_OK);
    read_all(dir);
    check_value("evaluator", "evaluation_loss_vs_iterations", 4, 1.25);
    check_value("evaluator", "evaluation_accuracy_vs_iterations", 4, 0.75);
    check_value("evaluator", "epoch_loss", 1, 1.25);
    check_value("evaluator", "evaluation_loss_vs_iterations", 5, 0.5);
    CHECK(!find("evaluator", "epoch_loss", 2), "its epoch has not ended");
    CHECK(find("evaluator", "Readouts", 5) && last_histogram[2][2] == 7 && n_seen == 7, "%zu",
          n_seen);
    CHECK(qr_tensorboard_success(t, 2, NULL, 0, QR_IGNORED) == QR_OK);
    qr_tensorboard_close(t);
    read_all(dir);
    CHECK(n_files == 1, "no session: %ld files", n_files);
    now_ns += 2 * QR_SECOND;
    t = start_evaluator(dir);
    qr_tensorboard_restart(t);
    write_step(t, 2, true);
    qr_tensorboard_close(t);
    read_all(dir);
    CHECK(n_files == 2 && n_starts == 2);
    char path[900];
    snprintf(path, sizeof path, "%s/evaluator/events.out.tfevents.%lld.h.18.3.v2", dir,
             (long long)(wall(NULL) / QR_SECOND));
    start_step = -1;
    read_file("evaluator", path);
    CHECK(start_step == 0, "readers discard everything, not from step %lld", (long long)start_step);
}

/* A second process of the same name in the same second writes its own files. */
static void test_again(const char *dir) {
    struct qr_tensorboard *t = start_writer(dir);
    write_step(t, 9, false);
    qr_tensorboard_close(t);
    read_all(dir);
    CHECK(n_files == 5 && n_starts == 5 && n_graphs == 2, "%ld files, %ld graphs", n_files,
          n_graphs);
    check_run(6);
    check_value("train", "batch_loss", 9, loss_at(9));
}

static void test_no_folder(const char *dir) {
    char path[400];
    struct qr_err err = {0};
    snprintf(path, sizeof path, "%s/file", dir);
    CHECK(qr_file_replace(path, qr_bytes_of_string("x"), &err) == QR_OK, "%s", err.msg);
    struct qr_tensorboard *t = start_writer(path); /* a file in the folder's place */
    const struct qr_step_line line = {.step = 1, .epoch = 1, .loss = 1};
    const struct qr_step_detail detail = {.weights = weights, .gradient = gradient};
    CHECK(qr_tensorboard_step(t, &line, &detail, &err) != QR_OK && strstr(err.msg, path), "%s",
          err.msg);
    qr_tensorboard_close(t);
    qr_tensorboard_close(NULL);
}

static void test_histogram(void) {
    double h[QR_HISTOGRAM_BUCKETS][3], sum = 0;
    const double v[] = {0, 30, 29.5, 1, 1, 0.5}, same[] = {2, 2, 2}, bad[] = {1, NAN},
                 huge[] = {1, INFINITY};
    CHECK(qr_histogram(v, COUNT(v), h));
    for (int k = 0; k < QR_HISTOGRAM_BUCKETS; k++) {
        CHECK(h[k][0] == k && h[k][1] == k + 1);
        sum += h[k][2];
    }
    /* The last bucket includes its right edge. */
    CHECK(sum == 6 && h[0][2] == 2 && h[1][2] == 2 && h[29][2] == 2);
    CHECK(qr_histogram(same, 3, h) && h[0][0] == 2 && h[29][1] == 2 && h[29][2] == 3 &&
          h[0][2] == 0);
    CHECK(qr_histogram(NULL, 0, h) && h[29][1] == 0 && h[29][2] == 0);
    h[3][2] = 99;
    CHECK(!qr_histogram(bad, 2, h) && !qr_histogram(huge, 2, h) && h[3][2] == 99);
}

int main(void) {
    char dir[] = "/tmp/qring-tensorboard-XXXXXX", command[96], below[96];
    CHECK(mkdtemp(dir) != NULL);
    test_run(dir);
    test_again(dir);
    test_no_folder(dir);
    snprintf(below, sizeof below, "%s/rotation", dir);
    test_rotation(below);
    snprintf(below, sizeof below, "%s/readouts", dir);
    test_readouts(below);
    snprintf(below, sizeof below, "%s/evaluator", dir);
    test_evaluator(below);
    test_histogram();
    snprintf(command, sizeof command, "rm -rf %s", dir);
    CHECK(system(command) == 0);
    return t_end();
}
