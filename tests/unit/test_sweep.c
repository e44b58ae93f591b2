/* Sweep: list of trials, drawn values, halving, the table and the board's claims; and the speed-up
 * of eight workers, on virtual time. */
#include <errno.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/mem.h"
#include "sweep/board_impl.h"
#include "sweep/row.h"
#include "tests/t.h"

static struct qr_sweep_spec *sweep_of(const char *text) {
    qr_auto(qr_json_free_p) struct qr_json *o = NULL;
    struct qr_sweep_spec *s = NULL;
    struct qr_err err = {0};
    CHECK(qr_json_parse(qr_bytes_of_string(text), "sweep", &o, &err) == QR_OK, "%s", err.msg);
    CHECK(qr_sweep_read(o, &s, &err) == QR_OK, "%s", err.msg);
    return s;
}

static bool value_is(const struct qr_sweep_spec *s, size_t trial, size_t key, const char *wanted) {
    struct qr_buf b = {0};
    qr_sweep_value(s, 1, trial, key, &b);
    bool same = strcmp(qr_buf_string(&b), wanted) == 0;
    if (!same) fprintf(stderr, "trial %zu, key %zu: %s\n", trial, key, qr_buf_string(&b));
    qr_buf_free(&b);
    return same;
}

/* ---- the list ---- */

static void test_grid(void) {
    struct qr_sweep_spec *s =
        sweep_of("{\"keys\": {\"a\": [1, 0.1, \"x y\"], \"b\": [true, {\"c\": [2]}]}}");
    CHECK(s->n_trials == 6 && !s->random && s->n_rungs == 1);
    const char *const a[] = {"1", "1", "0.1", "0.1", "\"x y\"", "\"x y\""};
    for (size_t t = 0; t < 6; t++) {
        CHECK(value_is(s, t, 0, a[t]));
        CHECK(value_is(s, t, 1, t % 2 ? "{\"c\":[2]}" : "true"));
    }
    qr_sweep_free(s);
}

/* Drawn values never change, because existing results depend on them. The expected values are those
 * of an independent Philox in Python. */
static void test_drawn(void) {
    static const char text[] = "{\"trials\": %d, \"keys\": {\"u\": {\"uniform\": [-1, 3]}, \"l\": "
                               "{\"log_uniform\": [0.001, 0.1]}, \"i\": {\"integer\": [-2, 2]}, "
                               "\"c\": [\"p\", \"q\", \"r\"]}}";
    char few[300], many[300];
    snprintf(few, sizeof few, text, 3);
    snprintf(many, sizeof many, text, 4000);
    struct qr_sweep_spec *s = sweep_of(few), *m = sweep_of(many);
    CHECK(value_is(s, 0, 0, "1.713023772108349"));
    CHECK(value_is(s, 1, 1, "0.014127460003175898"));
    CHECK(value_is(s, 2, 2, "2"));
    CHECK(value_is(s, 2, 3, "\"q\""));
    size_t integers[5] = {0}, choices[3] = {0};
    double sum = 0, logs = 0;
    struct qr_buf b = {0};
    for (size_t t = 0; t < m->n_trials; t++) {
        for (size_t k = 0; k < 4 && t < 3; k++) {
            qr_sweep_value(s, 1, t, k, &b);
            CHECK(value_is(m, t, k, qr_buf_string(&b)));
            qr_buf_clear(&b);
        }
        qr_sweep_value(m, 1, t, 0, &b);
        double u = strtod(qr_buf_string(&b), NULL);
        qr_buf_clear(&b);
        qr_sweep_value(m, 1, t, 1, &b);
        double l = strtod(qr_buf_string(&b), NULL);
        qr_buf_clear(&b);
        qr_sweep_value(m, 1, t, 2, &b);
        long i = strtol(qr_buf_string(&b), NULL, 10);
        qr_buf_clear(&b);
        qr_sweep_value(m, 1, t, 3, &b);
        const char *c = qr_buf_string(&b);
        if (u < -1 || u > 3 || l < 0.001 || l > 0.1 || i < -2 || i > 2) CHECK(false, "%zu", t);
        else integers[i + 2]++;
        choices[c[1] - 'p']++;
        qr_buf_clear(&b);
        sum += u;
        logs += l > 0.01;
    }
    CHECK(sum / 4000 > 0.9 && sum / 4000 < 1.1, "%g", sum / 4000);
    CHECK(logs > 1850 && logs < 2150, "%g", logs);
    for (int i = 0; i < 5; i++) CHECK(integers[i] > 690 && integers[i] < 910, "%zu", integers[i]);
    for (int i = 0; i < 3; i++) CHECK(choices[i] > 1200 && choices[i] < 1470, "%zu", choices[i]);
    qr_buf_free(&b);
    qr_sweep_free(s);
    qr_sweep_free(m);
}

/* ---- rows ---- */

static void set_row(struct qr_sweep_rows *rows, size_t rung, size_t trial, double value) {
    struct qr_sweep_row *r = qr_sweep_row_at(rows, rung, trial);
    *r = (struct qr_sweep_row){.there = true, .trial = trial, .rung = rung, .epochs = rung + 1};
    memset(r->job_hash, 'a', 64);
    memset(r->state_digest, 'b', 32);
    memset(r->weights_sha256, 'c', 64);
    memset(r->safetensors_sha256, 'd', 64);
    r->n_metrics = 1;
    snprintf(r->metrics[0].name, sizeof r->metrics[0].name, "m");
    r->metrics[0].value = value;
}
static void set_failed(struct qr_sweep_rows *rows, size_t trial, const char *why) {
    *qr_sweep_row_at(rows, 0, trial) = (struct qr_sweep_row){
        .there = true, .trial = trial, .failed = true, .error = qr_xstrdup(why)};
}

static void test_rejected(void) {
    static const struct {
        const char *text, *words;
    } rows[] = {
        {"{\"keys\": {\"k\": [1, 2]}, \"halving\": {\"epochs\": [5]}}",
         "sweep.halving.epochs has 1 values; give 2 to 16"},
        {"{\"keys\": {\"k\": [1, 2]}, \"halving\": {\"epochs\": "
         "[1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17]}}",
         "sweep.halving.epochs has 17 values; give 2 to 16"},
        {"{\"keys\": {\"k\": [1, 2]}, \"halving\": {\"epochs\": [2, 2]}}",
         "sweep.halving.epochs[1] is 2"},
        {"{\"keys\": {}}", "sweep.keys"},
        {"{\"keys\": {\"k\": []}}", "sweep.keys"},
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        qr_auto(qr_json_free_p) struct qr_json *o = NULL;
        struct qr_sweep_spec *s = NULL;
        struct qr_err err = {0};
        CHECK(qr_json_parse(qr_bytes_of_string(rows[i].text), "sweep", &o, &err) == QR_OK);
        CHECK(qr_sweep_read(o, &s, &err) == QR_INVALID_ARGUMENT && strstr(err.msg, rows[i].words) &&
                  !s,
              "row %zu: %s", i, err.msg);
    }
}

static void test_halving(void) {
    struct qr_sweep_spec *s = sweep_of("{\"keys\": {\"k\": [0, 1, 2, 3, 4, 5, 6]}, \"halving\": "
                                       "{\"epochs\": [1, 2, 5], \"factor\": 2}}");
    struct qr_sweep_rows rows;
    size_t trial[7];
    qr_sweep_rows_init(&rows, s, 1);
    rows.metric = "m";
    const double value[] = {5, 3, 3, 3, 9, 3, 0};
    for (size_t t = 0; t < 6; t++) set_row(&rows, 0, t, value[t]);
    set_failed(&rows, 6, "its \"loss\", and more");
    CHECK(qr_sweep_rung_trials(&rows, 0, trial) == 7 && !qr_sweep_complete(&rows));
    /* Four of seven: those of equal value. */
    CHECK(qr_sweep_rung_trials(&rows, 1, trial) == 4);
    CHECK(trial[0] == 1 && trial[1] == 2 && trial[2] == 3 && trial[3] == 5);
    rows.maximize = true;
    CHECK(qr_sweep_rung_trials(&rows, 1, trial) == 4);
    CHECK(trial[0] == 0 && trial[1] == 1 && trial[2] == 2 && trial[3] == 4);
    rows.maximize = false;
    for (size_t i = 0; i < 4; i++) {
        const size_t of[] = {1, 2, 3, 5};
        set_row(&rows, 1, of[i], of[i] == 5 ? 0 : 1);
    }
    CHECK(qr_sweep_rung_trials(&rows, 2, trial) == 2 && trial[0] == 1 && trial[1] == 5);
    set_row(&rows, 2, 1, 2);
    CHECK(!qr_sweep_complete(&rows));
    set_row(&rows, 2, 5, 1);
    CHECK(qr_sweep_complete(&rows));
    CHECK(qr_sweep_best(&rows, trial) == 2 && trial[0] == 5 && trial[1] == 1);
    struct qr_buf csv = {0};
    qr_sweep_csv(&rows, &csv);
    const char *text = qr_buf_string(&csv);
    CHECK(strstr(text, "trial,status,epochs,steps,k,m,state_digest,job_hash,error\n") == text);
    CHECK(strstr(text, "\n0,stopped,1,0,0,5,bbbb") && strstr(text, "\n2,stopped,2,0,2,1,bbbb") &&
          strstr(text, "\n5,done,3,0,5,1,bbbb"));
    CHECK(strstr(text, "\n6,failed,0,0,6,,,,\"its \"\"loss\"\", and more\"\n"), "%s", text);
    qr_buf_free(&csv);
    qr_sweep_rows_fini(&rows);
    qr_sweep_free(s);
}

/* All trials but two fail: only those two continue. */
static void test_failed(void) {
    struct qr_sweep_spec *s = sweep_of("{\"keys\": {\"k\": [0, 1, 2, 3, 4, 5, 6]}, \"halving\": "
                                       "{\"epochs\": [1, 2]}}");
    struct qr_sweep_rows rows;
    size_t trial[7];
    qr_sweep_rows_init(&rows, s, 1);
    rows.metric = "m";
    for (size_t t = 0; t < 7; t++)
        if (t == 3 || t == 4) set_row(&rows, 0, t, 1);
        else set_failed(&rows, t, "x");
    CHECK(qr_sweep_rung_trials(&rows, 1, trial) == 2 && trial[0] == 3 && trial[1] == 4);
    for (size_t t = 3; t < 5; t++) {
        qr_sweep_row_fini(qr_sweep_row_at(&rows, 0, t));
        set_failed(&rows, t, "x");
    }
    CHECK(qr_sweep_rung_trials(&rows, 1, trial) == 0 && qr_sweep_complete(&rows));
    CHECK(qr_sweep_best(&rows, trial) == 0);
    qr_sweep_rows_fini(&rows);
    qr_sweep_free(s);
}

static void test_row_text(void) {
    struct qr_sweep_row r = {0}, back = {0};
    struct qr_buf text = {0}, again = {0};
    struct qr_err err = {0};
    static const char result[] =
        "{\"job\": \"j\", \"job_hash\": "
        "\"0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef\", \"steps\": 7, "
        "\"epochs\": 2, \"loss\": 0.1, \"val_loss\": null, \"metrics\": {\"accuracy\": 1}, "
        "\"state_digest\": \"0123456789abcdef0123456789abcdef\", \"weights\": {\"url\": \"w.h5\", "
        "\"sha256\": \"1123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef\", "
        "\"safetensors_sha256\": "
        "\"2123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef\"}, "
        "\"seconds\": 3.5}";
    CHECK(qr_sweep_row_of_result(qr_bytes_of_string(result), "r", 3, 1, &r, &err) == QR_OK, "%s",
          err.msg);
    CHECK(r.n_metrics == 2 && r.steps == 7 && r.epochs == 2 && r.trial == 3 && r.rung == 1);
    qr_sweep_row_json(&r, &text);
    CHECK(!strstr(qr_buf_string(&text), "3.5"), "a row has no time");
    CHECK(qr_sweep_row_read(qr_buf_view(&text), "row", &back, &err) == QR_OK, "%s", err.msg);
    qr_sweep_row_json(&back, &again);
    CHECK(text.n == again.n && memcmp(text.p, again.p, text.n) == 0);
    for (size_t n = 0; n + 1 < text.n; n++) /* no prefix is a valid row */
        CHECK(qr_sweep_row_read(qr_bytes_of(text.p, n), "row", &back, &err) != QR_OK, "%zu", n);
    CHECK(qr_sweep_row_of_result(qr_bytes_of_string("{}"), "r", 0, 0, &r, &err) == QR_DATA_LOSS);
    qr_sweep_row_fini(&r);
    qr_buf_free(&text);
    qr_buf_free(&again);
}

/* ---- claims ---- */

static int64_t virtual_ns;
static int64_t virtual_now(void *ctx) {
    (void)ctx;
    return virtual_ns;
}
static const struct qr_clock clock_of_test = {virtual_now, NULL};
static char folder[64];

static void clean_folder(void) {
    qr_auto(qr_free_p) char *rm = qr_xasprintf("rm -rf %s/*", folder);
    if (system(rm) != 0) CHECK(false);
}

static struct qr_sweep_board *board_of(char letter, size_t n_trials, int64_t lease_ns) {
    struct qr_sweep_board_options opt = {.url = folder,
                                         .n_trials = n_trials,
                                         .n_rungs = 1,
                                         .lease_ns = lease_ns,
                                         .clock = &clock_of_test};
    struct qr_sweep_board *b = NULL;
    struct qr_err err = {0};
    memset(opt.holder, letter, 32);
    CHECK(qr_sweep_board_open(&opt, &b, &err) == QR_OK, "%s", err.msg);
    return b;
}

static bool claim(struct qr_sweep_board *b, size_t trial) {
    bool mine = false;
    struct qr_err err = {0};
    CHECK(qr_sweep_board_claim(b, 0, trial, &mine, &err) == QR_OK, "%s", err.msg);
    return mine;
}
static bool renew(struct qr_sweep_board *b, size_t trial) {
    bool mine = false;
    struct qr_err err = {0};
    CHECK(qr_sweep_board_renew(b, 0, trial, &mine, &err) == QR_OK, "%s", err.msg);
    return mine;
}

static void test_claims(void) {
    struct qr_sweep_board *a = board_of('a', 2, 10 * QR_SECOND), *b = board_of('b', 2, QR_SECOND),
                          *again = board_of('a', 2, QR_SECOND);
    virtual_ns = 100 * QR_SECOND;
    CHECK(claim(a, 0) && !claim(b, 0) && claim(b, 1));
    CHECK(claim(again, 0), "a restarted holder keeps its claim");
    for (int i = 0; i < 20; i++) { /* The holder renews its claim: no other worker takes it. */
        virtual_ns += 3 * QR_SECOND;
        CHECK(renew(a, 0) && !claim(b, 0));
    }
    CHECK(qr_sweep_board_renewal_seen_ns(b) == virtual_ns);
    virtual_ns += 9 * QR_SECOND;
    CHECK(!claim(b, 0), "the holder's lease counts, not the reader's");
    virtual_ns += QR_SECOND;
    CHECK(claim(b, 0) && !renew(a, 0), "not renewed for ten seconds");
    qr_sweep_board_release(a, 0, 0); /* The claim is no longer a's. */
    CHECK(!claim(a, 0) && renew(b, 0));
    qr_sweep_board_release(b, 0, 0);
    CHECK(claim(a, 0), "a released claim is free at once");
    qr_sweep_board_delete_claims(a);
    CHECK(claim(b, 0));
    qr_sweep_board_close(a);
    qr_sweep_board_close(b);
    qr_sweep_board_close(again);
    clean_folder();
}

/* A holder is frozen with the trial's folder locked. Three others take over its claim, find the
 * folder in use and release the claim, again and again: that does not count as progress. */
static void test_no_progress(void) {
    enum { OTHERS = 3 };
    struct qr_sweep_board *frozen = board_of('f', 1, 15 * QR_SECOND), *b[OTHERS];
    for (size_t i = 0; i < OTHERS; i++) b[i] = board_of((char)('a' + i), 1, 15 * QR_SECOND);
    CHECK(claim(frozen, 0));
    for (int i = 0; i < 4; i++) { /* The holder trains for a while. */
        virtual_ns += 3 * QR_SECOND;
        CHECK(renew(frozen, 0));
        for (size_t k = 0; k < OTHERS; k++) CHECK(!claim(b[k], 0));
    }
    int64_t last_ns = virtual_ns, until_ns[OTHERS] = {0}, release_ns[OTHERS] = {0};
    unsigned n_taken = 0;
    uint32_t draw = 1;
    for (; virtual_ns < last_ns + 700 * QR_SECOND; virtual_ns += QR_SECOND / 10)
        for (size_t k = 0; k < OTHERS; k++) {
            draw = draw * 1664525 + 1013904223;
            if (draw >> 31) continue; /* skip this turn */
            if (release_ns[k] && virtual_ns >= release_ns[k]) {
                qr_sweep_board_release(b[k], 0, 0);
                release_ns[k] = 0;
                until_ns[k] = virtual_ns + 5 * QR_SECOND;
            } else if (!release_ns[k] && virtual_ns >= until_ns[k] && claim(b[k], 0)) {
                release_ns[k] = virtual_ns + QR_SECOND / 2; /* the wait for the lock */
                n_taken++;
            }
        }
    CHECK(n_taken > 100, "%u", n_taken);
    for (size_t k = 0; k < OTHERS; k++) {
        CHECK(qr_sweep_board_renewal_seen_ns(b[k]) == last_ns, "%.1f s later",
              (double)(qr_sweep_board_renewal_seen_ns(b[k]) - last_ns) / 1e9);
        qr_sweep_board_close(b[k]);
    }
    qr_sweep_board_close(frozen);
    clean_folder();
}

/* Something else at a claim's name ends no sweep; at worst a trial is trained twice. */
static void test_odd_claims(void) {
    struct qr_sweep_board *a = board_of('a', 4, QR_SECOND), *b = board_of('b', 4, QR_SECOND);
    qr_auto(qr_free_p) char *claims = qr_xasprintf("%s/sweep/claims", folder);
    char name[160];
    CHECK(claim(a, 3)); /* creates the folder */
    snprintf(name, sizeof name, "%s/0-0000", claims);
    CHECK(mkfifo(name, 0600) == 0);
    snprintf(name, sizeof name, "%s/0-0001", claims);
    FILE *f = fopen(name, "w");
    for (int i = 0; i < 1000; i++) fputs("longer than any claim\n", f);
    fclose(f);
    snprintf(name, sizeof name, "%s/0-0002", claims);
    CHECK(mkdir(name, 0700) == 0);
    for (size_t t = 0; t < 3; t++) CHECK(claim(a, t), "%zu", t);
    CHECK(!claim(b, 0) && !claim(b, 1), "replaced by a valid claim");
    CHECK(claim(b, 2), "no claim is possible: trained without one");
    virtual_ns += QR_SECOND;
    CHECK(renew(a, 0) && renew(a, 1));
    qr_sweep_board_release(a, 0, 0);
    qr_sweep_board_release(a, 0, 2);
    CHECK(claim(b, 0));
    CHECK(rmdir(name) == 0, "a folder is not removed");
    CHECK(claim(a, 2) && !claim(b, 2), "claims work again without it");
    qr_sweep_board_close(a);
    qr_sweep_board_close(b);
    clean_folder();
}

static unsigned n_removed;
static enum qr_code rejecting_get(struct qr_store *s, const char *name, size_t max,
                                  struct qr_buf *ret, struct qr_store_version *version,
                                  struct qr_err *err) {
    (void)s, (void)max, (void)ret, (void)version;
    return qr_fail(err, QR_INVALID_ARGUMENT, "gs://bucket/%s: download rejected (409)", name);
}
static enum qr_code rejecting_swap(struct qr_store *s, const char *name, struct qr_bytes content,
                                   const struct qr_store_version *seen, struct qr_err *err) {
    (void)s, (void)content, (void)seen;
    return qr_fail(err, QR_INVALID_ARGUMENT, "gs://bucket/%s: upload rejected (409)", name);
}
static enum qr_code count_remove(struct qr_store *s, const char *name, struct qr_err *err) {
    (void)s, (void)name, (void)err;
    n_removed++;
    return QR_OK;
}
static void no_close(struct qr_store *s) { (void)s; }

/* A bucket that rejects a read says nothing about the claim: it may be another worker's. */
static void test_rejected_claim(void) {
    static const struct qr_store_ops ops = {.get_version = rejecting_get,
                                            .swap = rejecting_swap,
                                            .remove = count_remove,
                                            .close = no_close};
    struct qr_store store = {&ops};
    const struct qr_sweep_board_options opt = {.url = "gs://bucket/run",
                                               .n_trials = 1,
                                               .n_rungs = 1,
                                               .lease_ns = QR_SECOND,
                                               .clock = &clock_of_test};
    struct qr_sweep_board *b = qr_sweep_board_over(&opt, &store, qr_xstrdup("run/sweep/"));
    struct qr_err err = {0};
    bool mine = true;
    CHECK(qr_sweep_board_claim(b, 0, 0, &mine, &err) == QR_INVALID_ARGUMENT && !mine && !n_removed,
          "%s", err.msg);
    qr_sweep_board_close(b);
}

static void write_file(const char *name) {
    qr_auto(qr_free_p) char *path = qr_xasprintf("%s/%s", folder, name);
    struct qr_err err = {0};
    CHECK(qr_file_replace(path, qr_bytes_of_string("mine"), &err) == QR_OK, "%s", err.msg);
}
static bool has_file(const char *name) {
    qr_auto(qr_free_p) char *path = qr_xasprintf("%s/%s", folder, name);
    return qr_file_exists(path);
}

/* --fresh removes the files of any sweep and nothing else. */
static void test_delete(void) {
    static const char *const own[] = {"sweep/job.json", "sweep/rows/0-0001.json",
                                      "sweep/rows/15-4095.json", "sweep/claims/0-0000",
                                      "sweep/claims/3-0012"},
                             *const users[] = {
                                 "sweep/notes.txt",          "sweep/job.json.bak",
                                 "sweep/rows/mine.json",     "sweep/rows/0-1.json",
                                 "sweep/rows/0-12345.json",  "sweep/rows/16-0000.json",
                                 "sweep/rows/00-0001.json",  "sweep/rows/0-0001.json.txt",
                                 "sweep/rows/a/0-0001.json", "sweep/claims/0-0000x",
                                 "sweep/claims/keep/0-0000", "sweep/sweep/job.json"};
    struct qr_sweep_board *a = board_of('a', 2, QR_SECOND);
    struct qr_err err = {0};
    for (size_t i = 0; i < COUNT(own); i++) write_file(own[i]);
    for (size_t i = 0; i < COUNT(users); i++) write_file(users[i]);
    qr_sweep_board_delete_claims(a);
    CHECK(!has_file("sweep/claims/0-0000") && has_file("sweep/claims/0-0000x"));
    CHECK(qr_sweep_board_delete(a, &err) == QR_OK, "%s", err.msg);
    for (size_t i = 0; i < COUNT(own); i++) CHECK(!has_file(own[i]), "%s", own[i]);
    for (size_t i = 0; i < COUNT(users); i++) CHECK(has_file(users[i]), "%s", users[i]);
    clean_folder();
    /* Nothing is removed below a symbolic link. */
    static const char *const links[] = {"sweep", "sweep/rows", "sweep/claims"};
    for (size_t i = 0; i < COUNT(links); i++) {
        qr_auto(qr_free_p) char *at = qr_xasprintf("%s/%s", folder, links[i]),
                                *to = qr_xasprintf("%s/elsewhere", folder);
        write_file("elsewhere/job.json");
        write_file("elsewhere/0-0000.json");
        write_file("elsewhere/0-0000");
        if (i) write_file("sweep/job.json");
        CHECK(symlink(to, at) == 0);
        CHECK(qr_sweep_board_delete(a, &err) == QR_INVALID_ARGUMENT &&
                  strstr(err.msg, "is a symbolic link"),
              "%s", err.msg);
        qr_sweep_board_delete_claims(a);
        CHECK(has_file("elsewhere/job.json") && has_file("elsewhere/0-0000.json") &&
                  has_file("elsewhere/0-0000"),
              "%s", links[i]);
        clean_folder();
    }
    qr_sweep_board_close(a);
}

static void test_rows_on_board(void) {
    struct qr_sweep_spec *s = sweep_of("{\"keys\": {\"k\": [0, 1]}}");
    struct qr_sweep_board *a = board_of('a', 2, QR_SECOND), *b = board_of('b', 2, QR_SECOND);
    struct qr_sweep_rows rows, seen;
    struct qr_err err = {0};
    struct qr_buf text = {0};
    qr_sweep_rows_init(&rows, s, 1);
    qr_sweep_rows_init(&seen, s, 1);
    rows.metric = seen.metric = "m";
    set_row(&rows, 0, 1, 0.25);
    CHECK(qr_sweep_board_publish(a, qr_bytes_of_string("one"), &text, &err) == QR_OK);
    qr_buf_clear(&text);
    CHECK(qr_sweep_board_publish(b, qr_bytes_of_string("two"), &text, &err) == QR_OK &&
              strcmp(qr_buf_string(&text), "one") == 0,
          "the first stays");
    CHECK(qr_sweep_board_add_row(a, qr_sweep_row_at(&rows, 0, 1), &err) == QR_OK, "%s", err.msg);
    CHECK(qr_sweep_board_add_row(b, qr_sweep_row_at(&rows, 0, 1), &err) == QR_OK, "an equal row");
    qr_sweep_row_at(&rows, 0, 1)->metrics[0].value = 0.5;
    CHECK(qr_sweep_board_add_row(b, qr_sweep_row_at(&rows, 0, 1), &err) == QR_INTERNAL &&
              strstr(err.msg, "trial 1 has another result here"),
          "%s", err.msg);
    CHECK(qr_sweep_board_rows(b, &seen, &err) == QR_OK && qr_sweep_row_at(&seen, 0, 1)->there &&
          !qr_sweep_row_at(&seen, 0, 0)->there);
    CHECK(qr_sweep_row_at(&seen, 0, 1)->metrics[0].value == 0.25, "the first row stays");
    CHECK(qr_sweep_board_delete(a, &err) == QR_OK, "%s", err.msg);
    qr_sweep_rows_fini(&seen);
    qr_sweep_rows_init(&seen, s, 1);
    CHECK(qr_sweep_board_rows(b, &seen, &err) == QR_OK && !qr_sweep_row_at(&seen, 0, 1)->there);
    qr_sweep_rows_fini(&rows);
    qr_sweep_rows_fini(&seen);
    qr_sweep_board_close(a);
    qr_sweep_board_close(b);
    qr_sweep_free(s);
    qr_buf_free(&text);
    clean_folder();
}

/* Failed rows and others are checked against the hash of their trial. */
static void test_foreign_rows(void) {
    struct qr_sweep_spec *s = sweep_of("{\"keys\": {\"k\": [0, 1, 2]}}");
    struct qr_sweep_board *b = board_of('a', 3, QR_SECOND);
    struct qr_sweep_rows put, seen;
    struct qr_err err = {0};
    char hash[3][65] = {"", "", ""};
    memset(hash[0], 'a', 64);
    memset(hash[1], 'a', 64);
    qr_sweep_rows_init(&put, s, 1);
    set_row(&put, 0, 0, 0.25);
    set_failed(&put, 1, "its loss");
    memset(qr_sweep_row_at(&put, 0, 1)->job_hash, 'a', 64);
    set_failed(&put, 2, "no job can be made of its keys");
    for (size_t t = 0; t < 3; t++)
        CHECK(qr_sweep_board_add_row(b, qr_sweep_row_at(&put, 0, t), &err) == QR_OK, "%s", err.msg);
    for (size_t t = 0; t <= 3; t++) { /* One row is of another job; in the last turn none is. */
        char was = t < 3 ? hash[t][0] : 0;
        if (t < 3) memset(hash[t], 'e', 64);
        qr_sweep_rows_init(&seen, s, 1);
        seen.hash = (const char(*)[65])hash;
        enum qr_code code = qr_sweep_board_rows(b, &seen, &err);
        qr_auto(qr_free_p) char *words = qr_xasprintf("its row of trial %zu is of other data", t);
        CHECK(code == (t < 3 ? QR_INVALID_ARGUMENT : QR_OK), "%zu: %s", t, err.msg);
        CHECK(t == 3 || strstr(err.msg, words), "%s", err.msg);
        CHECK(t == 3 || !qr_sweep_row_at(&seen, 0, t)->there);
        CHECK(t < 3 || qr_sweep_complete(&seen));
        if (t < 3) memset(hash[t], was, was ? 64 : sizeof hash[t]);
        qr_sweep_rows_fini(&seen);
    }
    qr_sweep_rows_fini(&put);
    qr_sweep_board_close(b);
    qr_sweep_free(s);
    clean_folder();
}

/* ---- speed-up of eight workers ---- */

enum { TRIALS = 64, MOST = 8 };

/* A trial takes 40 to 80 s; an idle worker retries after 1 s. `kills` times a worker is killed in a
 * trial and returns after 5 s as another one. Returns the seconds. */
static double makespan(unsigned n_workers, unsigned kills) {
    struct qr_sweep_board *b[MOST];
    struct qr_sweep_spec *s =
        sweep_of("{\"trials\": 64, \"keys\": {\"k\": {\"integer\": [40, 80]}}}");
    struct qr_sweep_rows rows;
    struct qr_err err = {0};
    int64_t until[MOST] = {0}, began = virtual_ns;
    size_t trial_of[MOST];
    bool busy[MOST] = {0};
    unsigned killed = 0, done = 0;
    qr_sweep_rows_init(&rows, s, 1);
    rows.metric = "m";
    for (unsigned w = 0; w < n_workers; w++)
        b[w] = board_of((char)('a' + w), TRIALS, 15 * QR_SECOND);
    for (; done < TRIALS; virtual_ns += QR_SECOND) {
        for (unsigned w = 0; w < n_workers; w++) {
            if (busy[w] && !renew(b[w], trial_of[w])) busy[w] = false;
            if (busy[w] && virtual_ns >= until[w]) {
                set_row(&rows, 0, trial_of[w], (double)trial_of[w]);
                CHECK(qr_sweep_board_add_row(b[w], qr_sweep_row_at(&rows, 0, trial_of[w]), &err) ==
                      QR_OK);
                busy[w] = false;
                done++;
            }
            if (busy[w] && killed < kills && done > 4 * killed && w == killed % n_workers) {
                killed++;
                qr_sweep_board_close(b[w]);
                b[w] = board_of((char)('A' + killed), TRIALS, 15 * QR_SECOND);
                busy[w] = false;
                until[w] = virtual_ns + 5 * QR_SECOND;
            }
            for (size_t t = 0; t < TRIALS && !busy[w] && virtual_ns >= until[w]; t++) {
                size_t trial = (t + w) % TRIALS;
                if (qr_sweep_row_at(&rows, 0, trial)->there || !claim(b[w], trial)) continue;
                struct qr_buf seconds = {0};
                qr_sweep_value(s, 1, trial, 0, &seconds);
                busy[w] = true;
                trial_of[w] = trial;
                until[w] = virtual_ns + strtol(qr_buf_string(&seconds), NULL, 10) * QR_SECOND;
                qr_buf_free(&seconds);
            }
        }
    }
    CHECK(killed == kills && qr_sweep_complete(&rows));
    for (unsigned w = 0; w < n_workers; w++) qr_sweep_board_close(b[w]);
    qr_sweep_rows_fini(&rows);
    qr_sweep_free(s);
    clean_folder();
    return (double)(virtual_ns - began) / 1e9;
}

static void test_scales(void) {
    double one = makespan(1, 0), eight = makespan(MOST, 0), disturbed = makespan(MOST, 6);
    printf("64 trials: one worker %.0f s, %.1f an hour; eight %.0f s, %.1f an hour (%.2f times); "
           "eight with six kills %.0f s (%.2f times)\n",
           one, TRIALS * 3600 / one, eight, TRIALS * 3600 / eight, one / eight, disturbed,
           one / disturbed);
    CHECK(one / eight > 7.2, "%g", one / eight);
    CHECK(one / disturbed > 5.5, "%g", one / disturbed);
}

int main(void) {
    snprintf(folder, sizeof folder, "/tmp/qring-sweep-%ld", (long)getpid());
    CHECK(mkdir(folder, 0700) == 0 || errno == EEXIST);
    test_grid();
    test_drawn();
    test_rejected();
    test_halving();
    test_failed();
    test_row_text();
    test_claims();
    test_no_progress();
    test_odd_claims();
    test_rejected_claim();
    test_delete();
    test_rows_on_board();
    test_foreign_rows();
    test_scales();
    clean_folder();
    rmdir(folder);
    return t_end();
}
