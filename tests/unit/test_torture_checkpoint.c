/* A power cut after every system call of a publisher: unsynced data is lost, torn at every 512
 * bytes or zeroed; unsynced names exist or not, in every combination. The same with a disk that has
 * ignored syncs since the last checkpoint. Afterwards the newest checkpoint that was reported as
 * published, or the next one, loads whole. Then the newest checkpoint and LATEST are truncated, and
 * their bits flipped: they are rejected by file and section, and the newest whole
 * checkpoint loads. */
#undef _FORTIFY_SOURCE /* its inline forms would bypass the functions below */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/bytes.h"
#include "base/file.h"
#include "base/mem.h"
#include "record/checkpoint.h"
#include "tests/real.h"
#include "tests/t.h"

/* ---- disk operations, in order ---- */

enum kind { CREATE, DATA, SYNC, RENAME, LINK, UNLINK, SYNC_NAMES, REPORTED };
struct op {
    enum kind kind;
    int inode;
    char from[160], to[160];
    size_t bytes;
    uint64_t reductions;
};
struct inode {
    char path[160];
    uint8_t *p;
    size_t n;
};
enum { MAX_OPS = 2000, MAX_INODES = 400, MAX_FD = 256, BLOCK = 512 };
static struct op ops[MAX_OPS];
static struct inode inodes[MAX_INODES];
static int n_ops, n_inodes, inode_of_fd[MAX_FD];
static bool recording, is_dir[MAX_FD];
static bool lying; /* the disk ignored all syncs since the last report */
static char dir[] = "/tmp/qring-powercut-XXXXXX";

static bool is_recorded(const char *path) {
    return recording && strncmp(path, dir, strlen(dir)) == 0;
}
static struct op *record_op(enum kind kind) {
    if (n_ops == MAX_OPS) abort();
    ops[n_ops] = (struct op){.kind = kind};
    return &ops[n_ops++];
}

int open(const char *path, int flags, ...) {
    REAL(open);
    MODE_OF(mode, flags);
    int fd = real(path, flags, mode);
    if (fd < 0 || fd >= MAX_FD) return fd;
    inode_of_fd[fd] = -1;
    is_dir[fd] = (flags & O_DIRECTORY) && is_recorded(path);
    /* The lock file has no content. */
    if (!is_recorded(path) || (flags & O_ACCMODE) != O_WRONLY) return fd;
    inodes[n_inodes] = (struct inode){0};
    snprintf(inodes[n_inodes].path, sizeof inodes->path, "%s", path);
    struct op *o = record_op(CREATE);
    snprintf(o->to, sizeof o->to, "%s", path);
    o->inode = inode_of_fd[fd] = n_inodes++;
    return fd;
}
ssize_t write(int fd, const void *p, size_t n) {
    REAL(write);
    if (recording && fd >= 0 && fd < MAX_FD && inode_of_fd[fd] >= 0) {
        struct inode *f = &inodes[inode_of_fd[fd]];
        f->p = qr_xrealloc(f->p, f->n + n + 1);
        memcpy(f->p + f->n, p, n);
        f->n += n;
        struct op *o = record_op(DATA);
        o->inode = inode_of_fd[fd];
        o->bytes = f->n;
    }
    return real(fd, p, n);
}
int fsync(int fd) { /* the test simulates the disk */
    if (recording && fd < MAX_FD && is_dir[fd]) record_op(SYNC_NAMES);
    else if (recording && fd < MAX_FD && inode_of_fd[fd] >= 0)
        record_op(SYNC)->inode = inode_of_fd[fd];
    return 0;
}
static void record_names(enum kind kind, const char *from, const char *to) {
    if (!is_recorded(from)) return;
    struct op *o = record_op(kind);
    snprintf(o->from, sizeof o->from, "%s", from);
    snprintf(o->to, sizeof o->to, "%s", to);
}
int rename(const char *from, const char *to) {
    REAL(rename);
    record_names(RENAME, from, to);
    return real(from, to);
}
int link(const char *from, const char *to) {
    REAL(link);
    int rc = real(from, to);
    if (rc == 0) record_names(LINK, from, to);
    return rc;
}
int unlink(const char *path) {
    REAL(unlink);
    record_names(UNLINK, path, "");
    return real(path);
}

/* ---- publishing ---- */

static struct qr_err err;
static const struct {
    const char *name;
    size_t n;
} layout[] = {{"dense/bias", 300}, {"optimizer/m/dense/bias", 40}, {"epoch/sums", 2}};
static struct qr_checkpoint state_at(uint64_t reductions) {
    struct qr_checkpoint c = {
        .step = reductions, .reductions = reductions, .n_digested = 2, .contract = "f64-v1"};
    double values[300];
    memset(c.job_hash, 'b', 64);
    for (int i = 0; i < 300; i++) values[i] = (double)reductions + i;
    for (size_t i = 0; i < COUNT(layout); i++)
        qr_tensors_add(&c.tensors, layout[i].name, 1, &layout[i].n, values);
    qr_checkpoint_digest(&c, c.digest);
    return c;
}
static void publish(struct qr_store *s, const char *where, uint64_t reductions) {
    const struct qr_checkpoint_location p = {.store = s, .dir = where, .url = where};
    struct qr_checkpoint c = state_at(reductions);
    struct qr_buf notes = {0};
    struct qr_checkpoint_latest l = {0};
    CHECK(qr_checkpoint_save(&p, &c, reductions == 6, &l, &notes, &err) == QR_OK &&
              l.reductions == reductions,
          "%s", err.msg);
    qr_buf_free(&notes);
    qr_checkpoint_fini(&c);
    if (recording) record_op(REPORTED)->reductions = reductions;
}

/* ---- a disk after the cut ---- */

struct name {
    char path[160];
    int inode;
};
struct disk {
    struct name v[MAX_INODES];
    int n;
};

static int find_name(const struct disk *d, const char *path) {
    for (int i = 0; i < d->n; i++)
        if (strcmp(d->v[i].path, path) == 0) return i;
    return -1;
}
static void remove_name(struct disk *d, const char *path) {
    int i = find_name(d, path);
    if (i >= 0) d->v[i] = d->v[--d->n];
}
static void set_name(struct disk *d, const char *path, int inode) {
    remove_name(d, path);
    snprintf(d->v[d->n].path, sizeof d->v->path, "%s", path);
    d->v[d->n++].inode = inode;
}
/* An operation on a name that is not on the disk has no effect. */
static void apply_op(struct disk *d, const struct op *o) {
    int i = find_name(d, o->from);
    if (o->kind == CREATE) set_name(d, o->to, o->inode);
    if ((o->kind == RENAME || o->kind == LINK) && i >= 0) set_name(d, o->to, d->v[i].inode);
    if (o->kind == UNLINK || (o->kind == RENAME && i >= 0)) remove_name(d, o->from);
}
static bool is_name(enum kind k) { return k == CREATE || k == RENAME || k == LINK || k == UNLINK; }

static size_t synced_bytes(int inode, int cut, size_t *ret_written) {
    size_t synced = 0;
    int honest = lying ? 0 : cut;
    *ret_written = 0;
    for (int i = 0; i < cut && lying; i++)
        if (ops[i].kind == REPORTED) honest = i;
    for (int i = 0; i < cut; i++) {
        if (ops[i].inode != inode) continue;
        if (ops[i].kind == DATA) *ret_written = ops[i].bytes;
        if (ops[i].kind == SYNC && i < honest) synced = *ret_written;
    }
    return synced;
}

/* tear: number of blocks on the disk beyond the synced ones; -1: the full length, with zeros.
 * Returns a store of what the directory would show. */
static struct qr_store *disk_store(const struct disk *d, int cut, int tear, bool *ret_more) {
    struct qr_store *s = qr_store_memory_new();
    for (int i = 0; i < d->n; i++) {
        const struct inode *f = &inodes[d->v[i].inode];
        size_t written, synced = synced_bytes(d->v[i].inode, cut, &written),
                        n = synced + (size_t)(tear < 0 ? 0 : tear) * BLOCK;
        if (strstr(d->v[i].path, ".tmp-")) continue;
        if (written > n) *ret_more = true;
        if (n > written || tear < 0) n = written;
        struct qr_buf content = {0};
        qr_buf_put(&content, f->p, n);
        if (tear < 0 && n > synced) memset(content.p + synced, 0, n - synced);
        qr_auto(qr_free_p) char *name = qr_xasprintf("c%s", strrchr(d->v[i].path, '/'));
        CHECK(s->ops->put(s, name, qr_buf_view(&content), false, &err) == QR_OK);
        qr_buf_free(&content);
    }
    return s;
}

static long tried;
static void check_load(struct qr_store *s, int cut, uint64_t reported, uint64_t known) {
    const struct qr_checkpoint_location p = {.store = s, .dir = "c", .url = "c"};
    struct qr_checkpoint c = {0}, want;
    struct qr_buf notes = {0};
    bool done;
    char hash[65] = "";
    memset(hash, 'b', 64);
    enum qr_code code = qr_checkpoint_load(&p, hash, &c, &done, &notes, &err);
    tried++;
    bool fine = code == QR_OK && c.reductions >= reported && c.reductions <= known;
    /* All of the first checkpoint is lost: the error says so. */
    if (lying && reported == 0 && code == QR_DATA_LOSS && strstr(err.msg, "--fresh")) {
        qr_buf_free(&notes);
        return;
    }
    CHECK(fine,
          "cut %d: %s; the state after %" PRIu64 " reductions loads, %" PRIu64 " was reported. %s",
          cut, code == QR_OK ? "" : err.msg, c.reductions, reported, qr_buf_string(&notes));
    if (code == QR_OK && *c.job_hash) {
        want = state_at(c.reductions);
        CHECK(strcmp(want.digest, c.digest) == 0 &&
                  memcmp(want.tensors.v[0].values, c.tensors.v[0].values,
                         8 * want.tensors.v[0].n) == 0,
              "cut %d", cut);
        qr_checkpoint_fini(&want);
    }
    qr_checkpoint_fini(&c);
    qr_buf_free(&notes);
    if (fine) publish(s, "c", known + 1); /* the next run continues from here */
}

static void check_tears(const struct disk *d, int cut, uint64_t reported, uint64_t known) {
    bool more = true;
    for (int tear = -1; more; tear++) {
        more = tear < 0;
        struct qr_store *s = disk_store(d, cut, tear, &more);
        check_load(s, cut, reported, known);
        s->ops->close(s);
    }
}

static void check_cut(int cut, uint64_t reported, uint64_t known) {
    struct disk durable = {0};
    int pending[MAX_OPS], n = 0, last = 0;
    for (int i = 0; i < cut; i++)
        if (ops[i].kind == SYNC_NAMES) last = i;
    for (int i = 0; i < cut; i++) {
        if (!is_name(ops[i].kind)) continue;
        if (i < last) apply_op(&durable, &ops[i]);
        else pending[n++] = i;
    }
    CHECK(n < 8, "%d unsynced names at once", n);
    if (n >= 8) return;
    for (unsigned subset = 0; subset < 1u << n; subset++) {
        struct disk d = durable;
        for (int i = 0; i < n; i++)
            if (subset >> i & 1) apply_op(&d, &ops[pending[i]]);
        check_tears(&d, cut, reported, known);
    }
    lying = true;
    for (int i = 0; i < n; i++) apply_op(&durable, &ops[pending[i]]);
    check_tears(&durable, cut, reported, known);
    lying = false;
}

/* ---- damage ---- */

static struct qr_store *publish_three(void) {
    struct qr_store *s = qr_store_memory_new();
    for (uint64_t reductions = 1; reductions <= 3; reductions++) publish(s, "c", reductions);
    return s;
}
static struct qr_buf content_of(struct qr_store *s, const char *name) {
    struct qr_buf b = {0};
    CHECK(s->ops->get(s, name, 1 << 20, &b, &err) == QR_OK, "%s", err.msg);
    return b;
}
/* Name of the object of the state after `reductions`, on the heap. */
static char *object_of(uint64_t reductions) {
    struct qr_checkpoint c = state_at(reductions);
    char *name =
        qr_xasprintf("c/%.16s-%016" PRIu64 "-%s.safetensors", c.job_hash, c.step, c.digest);
    qr_checkpoint_fini(&c);
    return name;
}
/* Replaces `name` by `content`. The state after `reductions` must load whole, and the notes must
 * contain `file` and `section`. */
static bool loads(struct qr_store *s, const char *name, struct qr_bytes content,
                  uint64_t reductions, const char *file, const char *section) {
    const struct qr_checkpoint_location p = {.store = s, .dir = "c", .url = "c"};
    struct qr_checkpoint c = {0}, want = state_at(reductions);
    struct qr_buf notes = {0};
    bool done;
    CHECK(s->ops->put(s, name, content, false, &err) == QR_OK, "%s", err.msg);
    enum qr_code code = qr_checkpoint_load(&p, want.job_hash, &c, &done, &notes, &err);
    bool fine =
        code == QR_OK && c.reductions == reductions && strcmp(c.digest, want.digest) == 0 &&
        memcmp(c.tensors.v[0].values, want.tensors.v[0].values, 8 * want.tensors.v[0].n) == 0;
    bool named =
        fine && strstr(qr_buf_string(&notes), file) && strstr(qr_buf_string(&notes), section);
    if (!named)
        fprintf(stderr, "%s: %s, %" PRIu64 " reductions, '%s'\n", section, qr_code_name(code),
                c.reductions, qr_buf_string(&notes));
    qr_checkpoint_fini(&c);
    qr_checkpoint_fini(&want);
    qr_buf_free(&notes);
    return named;
}

/* Section of a byte, which the error must name. A flip in the header has many effects, from a wrong
 * length to another name of a tensor. */
static const char *section_of(struct qr_bytes file, size_t at) {
    size_t begin = 8 + (size_t)qr_get_u64le(file.p);
    if (at < begin) return "header";
    for (size_t i = 0; i < COUNT(layout); begin += 8 * layout[i].n, i++)
        if (at < begin + 8 * layout[i].n) return layout[i].name;
    return "?";
}

static void truncate_files(long *ret_cuts) {
    struct qr_store *s = publish_three();
    qr_auto(qr_free_p) char *object = object_of(3);
    const char *const names[] = {object, "c/LATEST"};
    for (size_t i = 0; i < COUNT(names); i++) {
        struct qr_buf whole = content_of(s, names[i]);
        /* LATEST is shorter than 512 bytes: truncate it at each byte. */
        for (size_t n = 0; n < whole.n; n += i ? 1 : BLOCK, ++*ret_cuts)
            CHECK(loads(s, names[i], qr_bytes_of(whole.p, n), i ? 3 : 2, names[i],
                        i ? "damaged" : ""),
                  "%s truncated at %zu", names[i], n);
        CHECK(s->ops->put(s, names[i], qr_buf_view(&whole), false, &err) == QR_OK);
        qr_buf_free(&whole);
    }
    s->ops->close(s);
}

static void flip_files(long *ret_bytes, long *ret_flips) {
    struct qr_store *s = publish_three();
    qr_auto(qr_free_p) char *object = object_of(3);
    const char *const names[] = {object, "c/LATEST"};
    for (size_t i = 0; i < COUNT(names); i++) {
        struct qr_buf b = content_of(s, names[i]);
        size_t header = i ? b.n : 8 + (size_t)qr_get_u64le(b.p);
        for (size_t at = 0; at < b.n; at++, ++*ret_bytes) {
            const char *section = i ? "damaged" : section_of(qr_buf_view(&b), at);
            /* Of the values, every bit of some bytes and one bit of each. */
            int few = at < header || at % 64 == 0 ? 8 : 1;
            for (int bit = few == 8 ? 0 : (int)(at % 8), end = bit + few; bit < end;
                 bit++, ++*ret_flips) {
                b.p[at] ^= (uint8_t)(1 << bit);
                CHECK(loads(s, names[i], qr_buf_view(&b), i ? 3 : 2, names[i], section),
                      "%s: bit %d of byte %zu", names[i], bit, at);
                b.p[at] ^= (uint8_t)(1 << bit);
            }
        }
        CHECK(s->ops->put(s, names[i], qr_buf_view(&b), false, &err) == QR_OK);
        qr_buf_free(&b);
    }
    s->ops->close(s);
}

int main(void) {
    char path[200];
    CHECK(mkdtemp(dir) != NULL);
    struct qr_store *s = qr_store_file_new("");
    recording = true;
    for (uint64_t reductions = 1; reductions <= 5; reductions++) publish(s, dir, reductions);
    recording = false;
    uint64_t reported = 0;
    for (int cut = 0; cut <= n_ops; cut++) {
        if (cut && ops[cut - 1].kind == REPORTED) reported = ops[cut - 1].reductions;
        check_cut(cut, reported, reported < 5 ? reported + 1 : 5);
    }
    CHECK(n_ops > 60 && tried > 700, "%d operations, %ld disks", n_ops, tried);
    long cuts = 0, bytes = 0, flips = 0;
    truncate_files(&cuts);
    flip_files(&bytes, &flips);
    CHECK(cuts > 300 && bytes > 3000 && flips > 10000, "%ld cuts, %ld bytes, %ld flips", cuts,
          bytes, flips);
    printf("ROW 23: power cuts after each of %d calls, names lost and reordered, files torn at "
           "every 512 bytes: the newest whole one loads "
           "on %ld of %ld disks (bound all)\n",
           n_ops, t_failed ? -1 : tried, tried);
    printf("ROW 23: checkpoint and LATEST cut short at %ld places: named, and the newest whole one "
           "loads at %ld (bound all)\n",
           cuts, t_failed ? -1 : cuts);
    printf("ROW 24: %ld bits of all %ld bytes of checkpoint and LATEST turned: refused by file and "
           "section, the one before loads: %ld "
           "(bound all)\n",
           flips, bytes, t_failed ? -1 : flips);
    struct qr_buf names = {0};
    snprintf(path, sizeof path, "%s/", dir);
    CHECK(s->ops->list(s, path, &names, &err) == QR_OK);
    for (char *at = (char *)names.p, *end; at && *at; at = end ? end + 1 : NULL) {
        end = strchr(at, '\n');
        if (end) *end = 0;
        unlink(at);
    }
    snprintf(path, sizeof path, "%s/.LATEST.lock", dir);
    unlink(path);
    CHECK(rmdir(dir) == 0);
    qr_buf_free(&names);
    s->ops->close(s);
    for (int i = 0; i < n_inodes; i++) free(inodes[i].p);
    return t_end();
}
