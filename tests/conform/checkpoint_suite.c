/* tests/conform/checkpoint_suite.c — checkpoints in any implementation of store/store.h. Start
 * reading at checkpoint_suite. */
#include "tests/conform/checkpoint_suite.h"

#include <inttypes.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/mem.h"

#define OTHER "ff112233445566778899aabbccddeeff00112233445566778899aabbccddeeff"

static struct qr_err ck_err;                /* of the last call */
static struct qr_buf ck_notes;              /* of the last save or load */
static struct qr_checkpoint_location place; /* over the store under test */

struct qr_checkpoint state_at(const char *job, uint64_t reductions) {
    struct qr_checkpoint c = {.step = (reductions + 1) / 2,
                              .epoch = reductions / 2,
                              .reductions = reductions,
                              .n_digested = 3,
                              .contract = "f32-v1"};
    double kernel[12], sums[2] = {(double)reductions, 64};
    memcpy(c.job_hash, job, sizeof c.job_hash);
    for (int i = 0; i < 12; i++) kernel[i] = (double)reductions + i / 7.0;
    qr_tensors_add(&c.tensors, "dense/kernel", 2, (size_t[]){3, 4}, kernel);
    qr_tensors_add(&c.tensors, "optimizer/m/dense/kernel", 2, (size_t[]){3, 4}, NULL);
    qr_tensors_add(&c.tensors, "epoch/sums", 1, (size_t[]){2}, sums);
    qr_tensors_add(&c.tensors, "validation/last", 1, (size_t[]){1}, kernel);
    qr_checkpoint_digest(&c, c.digest);
    return c;
}

struct qr_buf encoded(const char *job, uint64_t reductions) {
    struct qr_checkpoint c = state_at(job, reductions);
    struct qr_buf b = {0};
    CHECK(qr_checkpoint_encode(&c, &b, NULL, &ck_err) == QR_OK, "%s", ck_err.msg);
    qr_checkpoint_fini(&c);
    return b;
}

bool same_checkpoint(const struct qr_checkpoint *a, const struct qr_checkpoint *b) {
    bool is = strcmp(a->job_hash, b->job_hash) == 0 && strcmp(a->contract, b->contract) == 0 &&
              strcmp(a->digest, b->digest) == 0 && a->step == b->step && a->epoch == b->epoch &&
              a->reductions == b->reductions && a->n_digested == b->n_digested &&
              a->tensors.n == b->tensors.n;
    for (size_t i = 0; is && i < a->tensors.n; i++)
        is = strcmp(a->tensors.v[i].name, b->tensors.v[i].name) == 0 &&
             a->tensors.v[i].n == b->tensors.v[i].n &&
             memcmp(a->tensors.v[i].values, b->tensors.v[i].values,
                    a->tensors.v[i].n * sizeof(double)) == 0;
    return is;
}
static enum qr_code save(const char *job, uint64_t reductions, bool done, bool *ret_published) {
    struct qr_checkpoint c = state_at(job, reductions);
    struct qr_checkpoint_latest l = {0};
    qr_buf_clear(&ck_notes);
    ck_err = (struct qr_err){0};
    enum qr_code code = qr_checkpoint_save(&place, &c, done, &l, &ck_notes, &ck_err);
    if (ret_published) *ret_published = l.reductions == reductions;
    qr_checkpoint_fini(&c);
    return code;
}
/* Loads as a starting worker does. Returns the reductions; -1: no checkpoint; -2: an error. */
static int64_t load(bool *ret_done) {
    struct qr_checkpoint c = {0}, want;
    bool done;
    int64_t reductions = -1;
    qr_buf_clear(&ck_notes);
    ck_err = (struct qr_err){0};
    if (qr_checkpoint_load(&place, JOB, &c, ret_done ? ret_done : &done, &ck_notes, &ck_err) !=
        QR_OK)
        return -2;
    if (*c.job_hash) {
        reductions = (int64_t)c.reductions;
        want = state_at(JOB, c.reductions);
        CHECK(same_checkpoint(&c, &want),
              "the state after %" PRId64 " reductions differs from the saved one", reductions);
        qr_checkpoint_fini(&want);
    }
    qr_checkpoint_fini(&c);
    return reductions;
}
static char *object_of(const char *job, uint64_t reductions) {
    struct qr_checkpoint c = state_at(job, reductions);
    char *name =
        qr_xasprintf("run/checkpoints/%.16s-%016" PRIu64 "-%s.safetensors", job, c.step, c.digest);
    qr_checkpoint_fini(&c);
    return name;
}
static bool object_exists(const char *job, uint64_t reductions) {
    struct qr_buf b = {0};
    qr_auto(qr_free_p) char *name = object_of(job, reductions);
    bool is = place.store->ops->get(place.store, name, 1 << 20, &b, &ck_err) == QR_OK;
    qr_buf_free(&b);
    return is;
}
/* how: bits to flip in the middle byte; 0: cut in the middle; -1: delete. */
static void damage(const char *name, int how) {
    struct qr_buf b = {0};
    CHECK(place.store->ops->get(place.store, name, 1 << 20, &b, &ck_err) == QR_OK, "%s",
          ck_err.msg);
    if (how == 0) b.n /= 2;
    if (how > 0) b.p[b.n / 2] ^= (uint8_t)how;
    if (how < 0)
        CHECK(place.store->ops->remove(place.store, name, &ck_err) == QR_OK, "%s", ck_err.msg);
    else
        CHECK(place.store->ops->put(place.store, name, qr_buf_view(&b), false, &ck_err) == QR_OK,
              "%s", ck_err.msg);
    qr_buf_free(&b);
}
static void damage_object(uint64_t reductions, int how) {
    qr_auto(qr_free_p) char *name = object_of(JOB, reductions);
    damage(name, how);
}
#define LATEST "run/checkpoints/LATEST"
static bool noted(const char *words) { return strstr(qr_buf_string(&ck_notes), words) != NULL; }
static void start_over(void) {
    qr_checkpoint_fini(&(struct qr_checkpoint){0});
    CHECK(qr_checkpoint_delete_all(&place, &ck_err) == QR_OK, "%s", ck_err.msg);
}

static void forward_only(void) {
    struct qr_checkpoint_latest l;
    bool published, done;
    CHECK(load(NULL) == -1 && ck_notes.n == 0, "%s", ck_err.msg);
    CHECK(qr_checkpoint_peek(&place, &l, &ck_err) == QR_OK && !*l.job_hash, "%s", ck_err.msg);
    CHECK(save(JOB, 10, false, &published) == QR_OK && published && ck_notes.n == 0, "%s",
          ck_err.msg);
    CHECK(load(&done) == 10 && !done && ck_notes.n == 0, "%s", ck_err.msg);
    CHECK(save(JOB, 10, false, &published) == QR_OK && published, "equal content: %s", ck_err.msg);
    CHECK(save(JOB, 12, false, &published) == QR_OK && published && load(NULL) == 12);
    CHECK(save(JOB, 11, false, &published) == QR_OK && !published && load(NULL) == 12 &&
              !object_exists(JOB, 11),
          "an older state was published: %s", ck_err.msg);
    CHECK(save(JOB, 12, true, &published) == QR_OK && published && load(&done) == 12 && done, "%s",
          ck_err.msg);
    CHECK(save(JOB, 12, false, &published) == QR_OK && published && load(&done) == 12 && done,
          "done stays: %s", ck_err.msg);
    CHECK(qr_checkpoint_peek(&place, &l, &ck_err) == QR_OK && l.reductions == 12 && l.step == 6 &&
              l.done,
          "%s", ck_err.msg);
    CHECK(save(JOB, 14, false, &published) == QR_OK && published && load(&done) == 14 && !done,
          "more epochs: %s", ck_err.msg);
    CHECK(save(OTHER, 20, false, NULL) == QR_INVALID_ARGUMENT && strstr(ck_err.msg, JOB) &&
              strstr(ck_err.msg, OTHER) && strstr(ck_err.msg, "the place"),
          "%s", ck_err.msg);
    CHECK(!object_exists(OTHER, 20), "a checkpoint was written into another job's folder");
    struct qr_checkpoint c = {0};
    CHECK(qr_checkpoint_load(&place, OTHER, &c, &done, &ck_notes, &ck_err) == QR_INVALID_ARGUMENT &&
              strstr(ck_err.msg, JOB) && strstr(ck_err.msg, OTHER),
          "%s", ck_err.msg);
    struct qr_checkpoint wrong = state_at(JOB, 14);
    wrong.tensors.v[0].values[0] = -1;
    qr_checkpoint_digest(&wrong, wrong.digest);
    CHECK(qr_checkpoint_save(&place, &wrong, false, &l, &ck_notes, &ck_err) == QR_INTERNAL &&
              strstr(ck_err.msg, "two results"),
          "%s", ck_err.msg);
    qr_checkpoint_fini(&wrong);
    start_over();
    CHECK(load(NULL) == -1 && save(OTHER, 1, false, NULL) == QR_OK, "%s", ck_err.msg);
    start_over();
}

/* Files whose names begin as those of checkpoints are not deleted. */
static void keeps_other_files(void) {
    static const char text[] = "a person's", *const endings[] = {
                                                 "notes.txt", "0000000000000001-best.safetensors"};
    char name[COUNT(endings)][96];
    for (size_t i = 0; i < COUNT(endings); i++) {
        snprintf(name[i], sizeof name[i], "run/checkpoints/%.16s-%s", JOB, endings[i]);
        CHECK(place.store->ops->put(place.store, name[i], qr_bytes_of_string(text), false,
                                    &ck_err) == QR_OK);
    }
    for (uint64_t reductions = 2; reductions <= 10; reductions += 2)
        CHECK(save(JOB, reductions, false, NULL) == QR_OK, "%s", ck_err.msg);
    CHECK(!object_exists(JOB, 4) && object_exists(JOB, 6), "three are kept");
    start_over();
    for (size_t i = 0; i < COUNT(endings); i++)
        CHECK(place.store->ops->remove(place.store, name[i], &ck_err) == QR_OK, "%s", ck_err.msg);
}

static void keeps_more(void) {
    place.keep = 5;
    for (uint64_t reductions = 2; reductions <= 20; reductions += 2)
        CHECK(save(JOB, reductions, false, NULL) == QR_OK, "%s", ck_err.msg);
    for (uint64_t reductions = 2; reductions <= 20; reductions += 2)
        CHECK(object_exists(JOB, reductions) == (reductions >= 12), "%" PRIu64 " reductions",
              reductions);
    /* Each is read by its name; a checkpoint of another job is not. */
    qr_auto(qr_buf_free) struct qr_buf names = {0};
    CHECK(qr_checkpoint_list(&place, JOB, &names, &ck_err) == QR_OK, "%s", ck_err.msg);
    size_t n = 0;
    for (char *name = strtok((char *)names.p, "\n"); name; name = strtok(NULL, "\n"), n++) {
        struct qr_checkpoint c = {0};
        uint64_t step;
        char digest[33];
        CHECK(qr_checkpoint_parse_name(name, &step, digest) &&
                  qr_checkpoint_read(&place, name, JOB, &c, &ck_err) == QR_OK && c.step == step &&
                  strcmp(c.digest, digest) == 0,
              "%s: %s", name, ck_err.msg);
        qr_checkpoint_fini(&c);
        CHECK(qr_checkpoint_read(&place, name, OTHER, &c, &ck_err) == QR_DATA_LOSS);
    }
    CHECK(n == 5, "%zu names", n);
    place.keep = 0;
    start_over();
}

static void keeps_three(void) {
    for (uint64_t reductions = 2; reductions <= 20; reductions += 2)
        CHECK(save(JOB, reductions, false, NULL) == QR_OK, "%s", ck_err.msg);
    for (uint64_t reductions = 2; reductions <= 20; reductions += 2)
        CHECK(object_exists(JOB, reductions) == (reductions >= 16), "%" PRIu64 " reductions",
              reductions);
    static const char text[] = "a person's note";
    CHECK(place.store->ops->put(place.store, "run/checkpoints/README", qr_bytes_of_string(text),
                                false, &ck_err) == QR_OK);
    struct qr_buf names = {0};
    start_over();
    CHECK(place.store->ops->list(place.store, "run/", &names, &ck_err) == QR_OK &&
              strcmp(qr_buf_string(&names), "run/checkpoints/README") == 0,
          "%s", qr_buf_string(&names));
    CHECK(place.store->ops->remove(place.store, "run/checkpoints/README", &ck_err) == QR_OK);
    /* Newer files than the one that LATEST names stay, because another worker may be about to name
     * one of them. They count as old when LATEST has passed them. */
    CHECK(save(JOB, 2, false, NULL) == QR_OK);
    for (uint64_t reductions = 30; reductions <= 38; reductions += 2) {
        struct qr_buf b = encoded(JOB, reductions);
        qr_auto(qr_free_p) char *name = object_of(JOB, reductions);
        CHECK(place.store->ops->put(place.store, name, qr_buf_view(&b), true, &ck_err) == QR_OK);
        qr_buf_free(&b);
    }
    CHECK(save(JOB, 4, false, NULL) == QR_OK && object_exists(JOB, 4) && object_exists(JOB, 2) &&
          object_exists(JOB, 30) && object_exists(JOB, 38));
    CHECK(load(NULL) == 4 && ck_notes.n == 0);
    CHECK(save(JOB, 40, false, NULL) == QR_OK && !object_exists(JOB, 4) &&
          !object_exists(JOB, 34) && object_exists(JOB, 36) && object_exists(JOB, 38) &&
          object_exists(JOB, 40));
    qr_buf_free(&names);
    start_over();
}

static void falls_back(void) {
    static const int ways[] = {1, 0x80, 0, -1};
    bool done;
    for (size_t w = 0; w < COUNT(ways); w++) {
        /* Reductions 5 and 6 are of one step. */
        for (uint64_t reductions = 2; reductions <= 7; reductions++)
            CHECK(save(JOB, reductions, reductions == 7, NULL) == QR_OK, "%s", ck_err.msg);
        damage_object(7, ways[w]);
        CHECK(load(&done) == 6 && !done &&
                  noted("the newest intact checkpoint is that of step 3") &&
                  noted("0000000000000004"),
              "%s %s", ck_err.msg, qr_buf_string(&ck_notes));
        damage_object(6, ways[w]);
        CHECK(load(NULL) == 5, "%s", ck_err.msg);
        /* Older than LATEST: not written. */
        CHECK(save(JOB, 6, false, NULL) == QR_OK, "%s", ck_err.msg);
        CHECK(save(JOB, 7, false, NULL) == QR_OK && noted("writing it again") == (ways[w] >= 0),
              "%s %s", ck_err.msg, qr_buf_string(&ck_notes));
        CHECK(load(&done) == 7 && done && ck_notes.n == 0, "written again: %s",
              qr_buf_string(&ck_notes));
        damage_object(7, ways[w]);
        damage_object(5, ways[w]);
        CHECK(load(NULL) == -2 && ck_err.code == QR_DATA_LOSS && strstr(ck_err.msg, "--fresh"),
              "%s", ck_err.msg);
        start_over();
        for (uint64_t reductions = 2; reductions <= 5; reductions++)
            CHECK(save(JOB, reductions, false, NULL) == QR_OK, "%s", ck_err.msg);
        damage(LATEST, ways[w]);
        CHECK(load(NULL) == 5 && noted(ways[w] < 0 ? "there is no LATEST" : "LATEST is damaged"),
              "%s %s", ck_err.msg, qr_buf_string(&ck_notes));
        CHECK(save(JOB, 6, false, NULL) == QR_OK && load(NULL) == 6 && ck_notes.n == 0, "%s",
              ck_err.msg);
        start_over();
    }
    /* The first one was cut off before there was a LATEST: ignored. */
    struct qr_buf b = encoded(JOB, 2);
    qr_auto(qr_free_p) char *name = object_of(JOB, 2);
    CHECK(place.store->ops->put(place.store, name, qr_bytes_of(b.p, b.n - 9), false, &ck_err) ==
          QR_OK);
    CHECK(load(NULL) == -1 && noted(strrchr(name, '/')), "%s", qr_buf_string(&ck_notes));
    CHECK(save(JOB, 2, false, NULL) == QR_OK && noted("writing it again") && load(NULL) == 2, "%s",
          ck_err.msg);
    qr_buf_free(&b);
    start_over();
}

/* Intact objects under the name of another object. */
static void wrong_name(void) {
    CHECK(save(JOB, 2, false, NULL) == QR_OK && save(JOB, 4, false, NULL) == QR_OK);
    struct qr_buf b = encoded(JOB, 2), c = encoded(OTHER, 4);
    qr_auto(qr_free_p) char *name = object_of(JOB, 4);
    CHECK(place.store->ops->put(place.store, name, qr_buf_view(&b), false, &ck_err) == QR_OK &&
              load(NULL) == 2 && noted("crc32c"),
          "%s", qr_buf_string(&ck_notes));
    CHECK(place.store->ops->put(place.store, name, qr_buf_view(&c), false, &ck_err) == QR_OK &&
              load(NULL) == 2,
          "%s", qr_buf_string(&ck_notes));
    qr_buf_free(&b);
    qr_buf_free(&c);
    start_over();
}

void checkpoint_suite(struct qr_store *s) {
    place =
        (struct qr_checkpoint_location){.store = s, .dir = "run/checkpoints", .url = "the place"};
    forward_only();
    keeps_other_files();
    keeps_three();
    keeps_more();
    falls_back();
    wrong_name();
    qr_buf_free(&ck_notes);
}

/* ---- many processes ---- */

/* Peeks; again while LATEST is replaced faster than it can be read, which its writers may do. */
static enum qr_code peek_between_writes(struct qr_checkpoint_latest *ret) {
    enum qr_code code = QR_ABORTED;
    for (int i = 0; i < 100 && code == QR_ABORTED; i++)
        code = qr_checkpoint_peek(&place, ret, &ck_err);
    return code;
}

/* A process that publishes one of the next three states after LATEST, sometimes pauses, and exits
 * when `end` is set. */
static void publish_reductions(struct qr_store *(*open_store)(void), unsigned seed,
                               const atomic_bool *end) {
    struct qr_checkpoint_latest l = {0};
    place = (struct qr_checkpoint_location){
        .store = open_store(), .dir = "run/checkpoints", .url = "the place"};
    while (!atomic_load(end)) {
        if (peek_between_writes(&l) != QR_OK) fprintf(stderr, "%s\n", ck_err.msg), _exit(1);
        seed = seed * 1103515245 + 12345;
        enum qr_code code = save(JOB, l.reductions + 1 + (seed >> 16) % 3, false, NULL);
        if (code != QR_OK && code != QR_UNAVAILABLE && code != QR_ABORTED)
            fprintf(stderr, "%s\n", ck_err.msg), _exit(1);
        qr_sleep_ns((seed >> 20) % 4 * QR_MS);
    }
    _exit(0);
}

void checkpoint_race(struct qr_store *s, struct qr_store *(*open_store)(void), const char *what,
                     uint64_t enough) {
    enum { N = 8, KILL_EVERY = 2, ENOUGH = 5, LOOKS_MAX = 10000 };
    atomic_bool *end =
        mmap(NULL, sizeof *end, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    pid_t pids[N];
    struct qr_checkpoint_latest l = {0};
    uint64_t seen = 0;
    unsigned dice = 1;
    int kills = 0, moves = 0, running = N;
    qr_buf_clear(&ck_notes);
    place =
        (struct qr_checkpoint_location){.store = s, .dir = "run/checkpoints", .url = "the place"};
    for (int i = 0; i < N; i++)
        if ((pids[i] = fork()) == 0) publish_reductions(open_store, (unsigned)i, end);
    for (int looks = 1; running > 0; looks++) {
        CHECK(peek_between_writes(&l) == QR_OK, "%s: %s", what, ck_err.msg);
        CHECK(l.reductions >= seen, "%s: LATEST went from %" PRIu64 " to %" PRIu64, what, seen,
              l.reductions);
        moves += l.reductions > seen;
        if (l.reductions > seen) seen = l.reductions;
        int64_t loaded = seen ? load(NULL) : 0;
        CHECK(loaded >= (int64_t)seen && ck_notes.n == 0,
              "%s: %" PRId64 " loads, LATEST has %" PRIu64 ": %s%s", what, loaded, seen, ck_err.msg,
              qr_buf_string(&ck_notes));
        if ((seen >= enough && kills >= ENOUGH && moves >= ENOUGH) || looks == LOOKS_MAX)
            atomic_store(end, true);
        dice = dice * 1103515245 + 12345;
        int victim = (int)(dice >> 16) % N, status;
        if (looks % KILL_EVERY == 0 && !atomic_load(end) && pids[victim] > 0) {
            kill(pids[victim], SIGKILL);
            waitpid(pids[victim], &status, 0);
            kills++;
            if ((pids[victim] = fork()) == 0) publish_reductions(open_store, dice, end);
        }
        for (int i = 0; i < N; i++) {
            if (pids[i] <= 0 || waitpid(pids[i], &status, WNOHANG) != pids[i]) continue;
            CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0, "%s: a process exited with %x",
                  what, status);
            pids[i] = 0;
            running--;
        }
    }
    CHECK(qr_checkpoint_peek(&place, &l, &ck_err) == QR_OK && load(NULL) >= (int64_t)l.reductions &&
              ck_notes.n == 0,
          "%s: %s", what, ck_err.msg);
    CHECK(l.reductions >= enough && moves >= ENOUGH && kills >= ENOUGH,
          "%s: %" PRIu64 " reductions, %d moves, %d kills", what, l.reductions, moves, kills);
    printf("%s: %d processes, %d of them killed, %" PRIu64
           " reductions: LATEST was seen to move %d times, always forward\n",
           what, N + kills, kills, l.reductions, moves);
    munmap(end, sizeof *end);
    start_over();
    qr_buf_free(&ck_notes);
}
