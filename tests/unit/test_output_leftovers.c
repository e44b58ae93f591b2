/* Temporary files of an interrupted write: which are removed, which are kept; each system call
 * fails once. */
#include "tests/failing_calls.h"

#include "output/leftovers.h"

static const char checkpoint[] = "0123456789abcdef-0000000000000300-"
                                 "0123456789abcdef0123456789abcdef.safetensors";
static time_t future; /* later than every file of this test */
static const struct qr_log quiet = {.level = QR_LOG_ERROR};

static void test_names(void) {
    static const char *const ours[] = {"weights.h5.tmp-1-00000000",
                                       "job.json.tmp-4194304-deadbeef",
                                       "LATEST.tmp-12-0123abcd",
                                       "cost.json.tmp-12-0123abcd",
                                       "result.json.tmp-1-00000000.tmp-2-11111111",
                                       ".qring-probe-aB3dE6"};
    static const char *const others[] = {"weights.h5",
                                         "notes.tmp-1-00000000",
                                         "weights.h5.tmp-1-0000000",
                                         "weights.h5.tmp-1-0000000g",
                                         "weights.h5.tmp--00000000",
                                         "weights.h5.tmp-a1-00000000",
                                         "weights.h5.tmp-1_00000000",
                                         "weights.h5.tmp-1-00000000.bak",
                                         "my-weights.h5.tmp-1-00000000",
                                         ".tmp-1-00000000",
                                         "-00000000",
                                         "1-00000000",
                                         "",
                                         ".qring-probe-",
                                         ".qring-probe-aB3dE67",
                                         ".qring.lock",
                                         "result.json.tmp-1-0.tmp-2-1.tmp-3-2",
                                         "0123.safetensors.tmp-1-00000000"};
    for (size_t i = 0; i < COUNT(ours); i++) CHECK(qr_leftovers_has_name(ours[i]), "%s", ours[i]);
    for (size_t i = 0; i < COUNT(others); i++)
        CHECK(!qr_leftovers_has_name(others[i]), "%s", others[i]);
    qr_auto(qr_free_p) char *one = qr_xasprintf("%s.tmp-7-00000000", checkpoint),
                            *two = qr_xasprintf("%s.tmp-8-11111111", one);
    CHECK(qr_leftovers_has_name(one) && qr_leftovers_has_name(two) &&
          !qr_leftovers_has_name(checkpoint));
}

static void create_files(void) {
    qr_auto(qr_free_p) char *in = qr_xasprintf("checkpoints/%s.tmp-7-00000000", checkpoint),
                            *kept = qr_xasprintf("checkpoints/%s", checkpoint);
    put("weights.h5.tmp-1-00000000", "torn");
    put("weights.h5", "whole");
    put("notes.tmp-1-00000000", "a user's");
    put("LATEST.tmp-1-00000000/below", "a user's");
    put(in, "torn");
    put(kept, "whole");
    put("elsewhere/LATEST.tmp-1-00000000", "a user's");
}
static bool others_kept(void) {
    qr_auto(qr_free_p) char *kept = qr_xasprintf("checkpoints/%s", checkpoint);
    return has("weights.h5", "whole") && has("notes.tmp-1-00000000", "a user's") &&
           has("LATEST.tmp-1-00000000/below", "a user's") && has(kept, "whole") &&
           has("elsewhere/LATEST.tmp-1-00000000", "a user's");
}
static bool leftovers_removed(void) {
    qr_auto(qr_free_p) char *in = qr_xasprintf("checkpoints/%s.tmp-7-00000000", checkpoint);
    return has("weights.h5.tmp-1-00000000", NULL) && has(in, NULL);
}
static void make_dir(void) {
    snprintf(dir, sizeof dir, "%s/try", base_dir);
    CHECK(mkdir(dir, 0700) == 0);
}

static void test_links(void) {
    make_dir();
    create_files();
    qr_auto(qr_free_p) char *link = at("job.json.tmp-1-00000000"), *to = at("weights.h5"),
                            *folder = at("run"), *place = at("run/checkpoints"),
                            *elsewhere = at("elsewhere");
    CHECK(symlink(to, link) == 0);
    CHECK(mkdir(folder, 0700) == 0 && symlink(elsewhere, place) == 0);
    qr_leftovers_remove(folder, future, &quiet); /* Its checkpoints folder is a link. */
    qr_leftovers_remove(dir, future, &quiet);
    struct stat st;
    CHECK(others_kept() && leftovers_removed() && lstat(link, &st) == 0 && S_ISLNK(st.st_mode));
    CHECK(unlink(link) == 0);
    remove_tree(dir);
}

/* A recent file may still be in use by its writer. */
static void test_age(void) {
    struct stat st;
    make_dir();
    create_files();
    qr_auto(qr_free_p) char *path = at("weights.h5.tmp-1-00000000");
    CHECK(stat(path, &st) == 0);
    qr_leftovers_remove(dir, st.st_mtim.tv_sec, &quiet);
    CHECK(others_kept() && has("weights.h5.tmp-1-00000000", "torn"));
    qr_leftovers_remove(dir, future, &quiet);
    CHECK(others_kept() && leftovers_removed());
    remove_tree(dir);
}

/* Each system call fails once: no other file is removed, no descriptor leaks, and the next call
 * removes the rest. */
static void test_failures(void) {
    bool reached = true;
    for (long k = 1; reached; k++) {
        make_dir();
        create_files();
        int fds = entries("/proc/self/fd");
        n_calls = 0, fail_at = k, fail_errno = EIO, failed = NONE;
        qr_leftovers_remove(dir, future, &quiet);
        reached = n_calls >= k;
        fail_at = 0;
        CHECK(others_kept() && entries("/proc/self/fd") == fds, "call %ld (%d)", k, failed);
        qr_leftovers_remove(dir, future, &quiet);
        CHECK(others_kept() && leftovers_removed(), "after call %ld (%d)", k, failed);
        remove_tree(dir);
    }
}

int main(void) {
    snprintf(base_dir, sizeof base_dir, "/tmp/qring-leftovers-XXXXXX");
    CHECK(mkdtemp(base_dir) != NULL);
    if (t_failed) return t_end();
    test_names();
    future = time(NULL) + 3600;
    test_links();
    test_age();
    test_failures();
    rmdir(base_dir);
    return t_end();
}
