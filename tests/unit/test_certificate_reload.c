/* Reload of changed certificate files: incomplete writes change nothing, a valid pair is loaded,
 * and each problem is reported once. On files, without gRPC. */
#undef _FORTIFY_SOURCE /* Its inline functions would bypass the replacements below. */
#include <errno.h>
#include <sys/stat.h>

#include "certificate/certificate.h"
#include "tests/real.h"
#include "tests/tls.h"

/* Number of the call that fails, of those below. 0: none; -1: none, but calls are counted. */
static long n_calls, fail_at;
static int fail_errno;
static bool fails(void) {
    if (!fail_at || ++n_calls != fail_at) return false;
    errno = fail_errno;
    return true;
}
int open(const char *path, int flags, ...) {
    REAL(open);
    MODE_OF(mode, flags);
    return fails() ? -1 : real(path, flags, mode);
}
int fstat(int fd, struct stat *st) {
    REAL(fstat);
    return fails() ? -1 : real(fd, st);
}
ssize_t read(int fd, void *p, size_t n) {
    REAL(read);
    return fails() ? -1 : real(fd, p, n);
}

static struct tls_dir d;
static struct qr_err problem;
static struct qr_certificate_set first, next, foreign, other_ca;
static struct qr_certificate_reload *r;
static int64_t now_s;
/* The expected pair and CA in use. */
static char *want_pair, *want_ca;

static unsigned poll_reload(void) {
    problem = (struct qr_err){0};
    return qr_certificate_reload_poll(r, now_s, &problem);
}
static bool in_use(const char *pair, const char *ca) {
    return strcmp((const char *)qr_certificate_reload_pair(r).p, pair) == 0 &&
           strcmp(qr_certificate_reload_ca(r), ca) == 0;
}
static char *pair_of(const struct qr_certificate_set *s) {
    return qr_xasprintf("%s%s", qr_buf_string(&s->key), qr_buf_string(&s->certificate));
}
static void write_files(const struct qr_certificate_set *s) { tls_dir_put(&d, s); }
static void open_reload(void) {
    const struct qr_certificate_files f = {d.certificate, d.key, d.ca};
    write_files(&first);
    now_s = tls_now_s();
    CHECK(qr_certificate_reload_new(&f, now_s, &r, &problem) == QR_OK, "%s", problem.msg);
    CHECK(in_use(want_pair, want_ca));
}

/* The files are unusable: the second poll reports the problem, once, and nothing changes; then they
 * are valid again. */
static void check_unusable(const char *what, const char *words) {
    CHECK(poll_reload() == 0, "%s: reported at the first poll", what);
    CHECK(poll_reload() == QR_CERTIFICATE_PROBLEM && strstr(problem.msg, words),
          "%s: not reported '%s': %s", what, words, problem.msg);
    CHECK(!strstr(problem.msg, "PRIVATE"), "%s: %s", what, problem.msg);
    for (int i = 0; i < 3; i++) CHECK(poll_reload() == 0, "%s: reported again", what);
    CHECK(in_use(want_pair, want_ca), "%s: another pair or CA is in use", what);
}
static void check_recovery(const char *what) {
    write_files(&first);
    CHECK(poll_reload() == QR_CERTIFICATE_RECOVERED, "%s: recovery is not reported", what);
    CHECK(poll_reload() == 0 && in_use(want_pair, want_ca), "%s: another pair or CA is in use",
          what);
}

static void write_prefix(const char *path, const struct qr_buf *text, size_t n) {
    int fd = open(path, O_WRONLY | O_TRUNC | O_CREAT, 0600);
    CHECK(fd >= 0 && write(fd, text->p, n) == (ssize_t)n);
    close(fd);
}

/* Every prefix of a renewed certificate or key, with the other files new: the old pair stays in use
 * until the file is whole. */
static void test_cut(void) {
    qr_auto(qr_free_p) char *new_pair = pair_of(&next);
    const struct {
        const char *path;
        const struct qr_buf *becomes;
    } row[] = {{d.certificate, &next.certificate}, {d.key, &next.key}};
    for (int i = 0; i < 2; i++) {
        const struct qr_buf *text = row[i].becomes;
        bool taken = false;
        write_files(&next);
        for (size_t n = 0; n <= text->n && !taken; n++) {
            write_prefix(row[i].path, text, n);
            taken = poll_reload() & QR_CERTIFICATE_NEW_PAIR;
            CHECK(in_use(taken ? new_pair : want_pair, want_ca), "cut at %zu", n);
            /* The last byte is a newline. */
            CHECK(taken == (n + 1 >= text->n), "%s cut at %zu of %zu", row[i].path, n, text->n);
        }
        write_files(&first);
        CHECK(poll_reload() & QR_CERTIFICATE_NEW_PAIR);
    }
}

/* Every prefix of a bundle of two CAs loads the whole bundle, the first CA (a valid bundle by
 * itself), or nothing. */
static void test_cut_ca(void) {
    struct qr_buf both = {0};
    qr_buf_puts(&both, qr_buf_string(&first.ca));
    qr_buf_puts(&both, qr_buf_string(&other_ca.ca));
    for (size_t n = 0; n <= both.n; n++) {
        write_prefix(d.ca, &both, n);
        (void)poll_reload();
        qr_auto(qr_free_p) char *cut = qr_xstrndup(qr_buf_string(&both), n);
        bool taken = strcmp(qr_certificate_reload_ca(r), cut) == 0, whole = n + 1 >= both.n,
             one = n + 1 >= first.ca.n && n < first.ca.n + strlen("-----BEGIN CERTIFICATE-----");
        CHECK(taken == (whole || one), "cut at %zu of %zu", n, both.n);
        if (!taken) continue;
        write_files(&first);
        (void)poll_reload();
        CHECK(in_use(want_pair, want_ca), "cut at %zu", n);
    }
    write_files(&first);
    (void)poll_reload();
    qr_buf_free(&both);
}

/* ---- unusable files ---- */

static void truncated(const char *path) { write_prefix(path, &first.ca, 0); }
static void renamed_empty(const char *path) { tls_put(path, ""); }
static void missing(const char *path) { unlink(path); }
static void fifo(const char *path) { CHECK(unlink(path) == 0 && mkfifo(path, 0600) == 0); }
static void folder(const char *path) { CHECK(unlink(path) == 0 && mkdir(path, 0700) == 0); }
static void loop(const char *path) { CHECK(unlink(path) == 0 && symlink(path, path) == 0); }
static void no_pem(const char *path) { tls_put(path, "no PEM\n"); }
static void too_long(const char *path) { CHECK(truncate(path, QR_CERTIFICATE_FILE_MAX + 1) == 0); }
/* As a full disk leaves it: truncated, and half written. */
static void disk_full(const char *path) { write_prefix(path, &first.key, first.key.n / 2); }

static void test_unusable_files(void) {
    static const struct {
        const char *what;
        void (*make)(const char *path);
        const char *words; /* NULL: by the kind of the file */
    } row[] = {
        {"truncated", truncated, NULL},       {"replaced by an empty file", renamed_empty, NULL},
        {"missing", missing, "No such file"}, {"FIFO", fifo, "is a FIFO"},
        {"folder", folder, "is a directory"}, {"link to itself", loop, "symbolic links"},
        {"another text", no_pem, NULL},       {"too long", too_long, "bytes"},
        {"full disk", disk_full, NULL},
    };
    const char *paths[] = {d.certificate, d.key, d.ca},
               *words[] = {"no PEM certificate", "no PEM private key",
                           "no PEM certificates of a CA"};
    for (size_t i = 0; i < COUNT(row); i++)
        for (int f = 0; f < 3; f++) {
            row[i].make(paths[f]);
            check_unusable(row[i].what, row[i].words ? row[i].words : words[f]);
            if (rmdir(paths[f]) != 0) unlink(paths[f]);
            check_recovery(row[i].what);
        }
}

/* ---- unusable pairs ---- */

static void put_pair(const struct qr_buf *certificate, const struct qr_buf *key) {
    tls_put(d.certificate, qr_buf_string(certificate));
    tls_put(d.key, qr_buf_string(key));
}

static void test_pairs(void) {
    struct qr_certificate_request o = tls_order("job");
    o.ca = qr_buf_string(&first.ca);
    o.ca_key = qr_buf_string(&first.ca_key);
    struct qr_certificate_request past = o, future = o;
    past.not_before_s -= 36000;
    past.not_after_s = now_s - 10;
    future.not_before_s = now_s + 100;
    struct qr_certificate_set expired = tls_make(&past), early = tls_make(&future);
    put_pair(&next.certificate, &first.key);
    check_unusable("the new certificate, the old key", "is not the key of the certificate");
    check_recovery("mismatch");
    put_pair(&first.certificate, &next.key);
    check_unusable("the old certificate, the new key", "is not the key of the certificate");
    check_recovery("mismatch");
    put_pair(&foreign.certificate, &foreign.key);
    check_unusable("another job's", "restart the workers");
    check_recovery("another job's");
    put_pair(&other_ca.certificate, &other_ca.key);
    check_unusable("another CA's", "was not issued by a CA");
    check_recovery("another CA's");
    put_pair(&expired.certificate, &expired.key);
    check_unusable("expired", "has expired");
    check_recovery("expired");
    put_pair(&early.certificate, &early.key);
    check_unusable("not yet valid", "not valid yet");
    now_s += 101;
    CHECK(poll_reload() == (QR_CERTIFICATE_NEW_PAIR | QR_CERTIFICATE_RECOVERED),
          "valid, but not loaded");
    qr_auto(qr_free_p) char *pair = pair_of(&early);
    CHECK(in_use(pair, want_ca));
    now_s += 36000; /* The pair in use has expired, and there is no valid one. */
    CHECK(poll_reload() == 0 && in_use(pair, want_ca));
    now_s -= 36101;
    write_files(&first);
    CHECK(poll_reload() == QR_CERTIFICATE_NEW_PAIR && in_use(want_pair, want_ca));
    qr_certificate_wipe(&expired);
    qr_certificate_wipe(&early);
}

/* ---- renewal ---- */

/* A Secret's volume changes by a new directory and an atomic rename of the link to it. */
static void test_links(void) {
    char old_dir[128], new_dir[128], link_path[128], new_link[128], path[256], target[256];
    static const char *const names[] = {"tls.crt", "tls.key", "ca.crt"};
    const struct qr_certificate_set *sets[] = {&first, &next};
    const char *dirs[] = {old_dir, new_dir};
    snprintf(old_dir, sizeof old_dir, "%s/..1", d.path);
    snprintf(new_dir, sizeof new_dir, "%s/..2", d.path);
    snprintf(link_path, sizeof link_path, "%s/..data", d.path);
    snprintf(new_link, sizeof new_link, "%s/..new", d.path);
    for (int k = 0; k < 2; k++) {
        const struct qr_buf *texts[] = {&sets[k]->certificate, &sets[k]->key, &sets[k]->ca};
        CHECK(mkdir(dirs[k], 0700) == 0);
        for (int i = 0; i < 3; i++) {
            snprintf(path, sizeof path, "%s/%s", dirs[k], names[i]);
            tls_put(path, qr_buf_string(texts[i]));
        }
    }
    CHECK(symlink("..1", link_path) == 0 && symlink("..2", new_link) == 0);
    for (int i = 0; i < 3; i++) {
        snprintf(path, sizeof path, "%s/%s", d.path, names[i]);
        snprintf(target, sizeof target, "..data/%s", names[i]);
        CHECK(unlink(path) == 0 && symlink(target, path) == 0);
    }
    CHECK(poll_reload() == 0 && in_use(want_pair, want_ca));
    CHECK(rename(new_link, link_path) == 0);
    qr_auto(qr_free_p) char *pair = pair_of(&next);
    CHECK(poll_reload() == QR_CERTIFICATE_NEW_PAIR && in_use(pair, want_ca));
    for (int i = 0; i < 3; i++) {
        snprintf(path, sizeof path, "%s/%s", d.path, names[i]);
        unlink(path);
        for (int k = 0; k < 2; k++) {
            snprintf(path, sizeof path, "%s/%s", dirs[k], names[i]);
            unlink(path);
        }
    }
    CHECK(unlink(link_path) == 0 && rmdir(old_dir) == 0 && rmdir(new_dir) == 0);
    write_files(&first);
    CHECK(poll_reload() == QR_CERTIFICATE_NEW_PAIR && in_use(want_pair, want_ca));
}

/* Change of CA: both trusted, the new pair, the new CA alone. A new CA is loaded even beside an
 * unusable pair. */
static void test_other_ca(void) {
    qr_auto(qr_free_p) char *both = qr_xasprintf("%s%s", want_ca, qr_buf_string(&other_ca.ca)),
                            *pair = pair_of(&other_ca);
    tls_put(d.ca, both);
    CHECK(poll_reload() == QR_CERTIFICATE_NEW_CA && in_use(want_pair, both));
    put_pair(&other_ca.certificate, &other_ca.key);
    CHECK(poll_reload() == QR_CERTIFICATE_NEW_PAIR && in_use(pair, both));
    tls_put(d.ca, qr_buf_string(&other_ca.ca));
    CHECK(poll_reload() == QR_CERTIFICATE_NEW_CA && in_use(pair, qr_buf_string(&other_ca.ca)));
    tls_put(d.key, "");
    tls_put(d.ca, both);
    CHECK(poll_reload() == QR_CERTIFICATE_NEW_CA && in_use(pair, both));
    write_files(&first);
    CHECK(poll_reload() == (QR_CERTIFICATE_NEW_CA | QR_CERTIFICATE_NEW_PAIR));
    CHECK(in_use(want_pair, want_ca));
}

/* Comments and other objects in the files are not passed to gRPC, nor its syntax for engines. */
static void test_text(void) {
    qr_auto(qr_free_p) char *certificate = qr_xasprintf("engine:x:y\n# a comment\n%s",
                                                        qr_buf_string(&next.certificate)),
                            *key = qr_xasprintf("engine:x:y\n%s%s", qr_buf_string(&next.key),
                                                qr_buf_string(&first.certificate)),
                            *pair = pair_of(&next);
    tls_put(d.certificate, certificate);
    tls_put(d.key, key);
    CHECK(poll_reload() == QR_CERTIFICATE_NEW_PAIR && in_use(pair, want_ca));
    write_files(&first);
    CHECK(poll_reload() == QR_CERTIFICATE_NEW_PAIR && in_use(want_pair, want_ca));
}

/* Each system call of a poll fails once: the poll loads the new pair or changes nothing, and in the
 * latter case the next poll loads it. */
static void test_failing_calls(void) {
    qr_auto(qr_free_p) char *pair = pair_of(&next);
    long calls;
    write_files(&next);
    n_calls = 0, fail_at = -1;
    CHECK(poll_reload() == QR_CERTIFICATE_NEW_PAIR);
    calls = n_calls;
    fail_at = 0;
    for (long k = 1; k <= calls; k++) {
        write_files(&first);
        CHECK(poll_reload() == QR_CERTIFICATE_NEW_PAIR && in_use(want_pair, want_ca));
        write_files(&next);
        n_calls = 0, fail_at = k, fail_errno = EIO;
        unsigned what = poll_reload();
        fail_at = 0;
        CHECK(in_use(what & QR_CERTIFICATE_NEW_PAIR ? pair : want_pair, want_ca), "call %ld", k);
        if (!(what & QR_CERTIFICATE_NEW_PAIR))
            CHECK(poll_reload() == QR_CERTIFICATE_NEW_PAIR && in_use(pair, want_ca), "call %ld", k);
    }
    CHECK(calls >= 9, "%ld calls", calls);
    write_files(&first);
    (void)poll_reload();
}

int main(void) {
    struct qr_certificate_request o = tls_order("job");
    o.ca_not_after_s = o.not_after_s + 86400;
    first = tls_make(&o);
    other_ca = tls_make(&o);
    o.ca = qr_buf_string(&first.ca);
    o.ca_key = qr_buf_string(&first.ca_key);
    next = tls_make(&o);
    o.job = "another";
    foreign = tls_make(&o);
    want_pair = pair_of(&first);
    want_ca = qr_xstrdup(qr_buf_string(&first.ca));
    d = tls_dir_new();
    open_reload();
    test_cut();
    test_cut_ca();
    test_unusable_files();
    test_pairs();
    test_links();
    test_other_ca();
    test_text();
    test_failing_calls();
    qr_certificate_reload_free(r);
    tls_dir_free(&d);
    struct qr_certificate_set *all[] = {&first, &next, &foreign, &other_ca};
    for (size_t i = 0; i < COUNT(all); i++) qr_certificate_wipe(all[i]);
    free(want_pair);
    free(want_ca);
    return t_end();
}
