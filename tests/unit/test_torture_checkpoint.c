/* A power cut after every system call of a publisher: what was not synced is lost, torn at every
 * 512 bytes or zeroed; names that were not synced are there or not, in every combination. The same
 * on a disk that lies of its syncs since the last checkpoint. What loads afterwards is the newest
 * checkpoint that was reported published, or the next one: whole. Then every file cut at every 512
 * bytes, and every bit of the newest checkpoint and of LATEST turned: refused by file and section,
 * and the newest whole one is loaded. */
#undef _FORTIFY_SOURCE /* its inline forms would be in the way */
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

/* ---- what the disk was told, in order ---- */

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
static bool lying; /* the disk: syncs since the last report did nothing */
static char dir[] = "/tmp/qring-powercut-XXXXXX";

static bool ours(const char *path) { return recording && strncmp(path, dir, strlen(dir)) == 0; }
static struct op *note(enum kind kind) {
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
    is_dir[fd] = (flags & O_DIRECTORY) && ours(path);
    if (!ours(path) || (flags & O_ACCMODE) != O_WRONLY) return fd; /* the lock is no content */
    inodes[n_inodes] = (struct inode){0};
    snprintf(inodes[n_inodes].path, sizeof inodes->path, "%s", path);
    struct op *o = note(CREATE);
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
        struct op *o = note(DATA);
        o->inode = inode_of_fd[fd];
        o->bytes = f->n;
    }
    return real(fd, p, n);
}
int fsync(int fd) { /* the disk is ours */
    if (recording && fd < MAX_FD && is_dir[fd]) note(SYNC_NAMES);
    else if (recording && fd < MAX_FD && inode_of_fd[fd] >= 0) note(SYNC)->inode = inode_of_fd[fd];
    return 0;
}
static void two_names(enum kind kind, const char *from, const char *to) {
    if (!ours(from)) return;
    struct op *o = note(kind);
    snprintf(o->from, sizeof o->from, "%s", from);
    snprintf(o->to, sizeof o->to, "%s", to);
}
int rename(const char *from, const char *to) {
    REAL(rename);
    two_names(RENAME, from, to);
    return real(from, to);
}
int link(const char *from, const char *to) {
    REAL(link);
    int rc = real(from, to);
    if (rc == 0) two_names(LINK, from, to);
    return rc;
}
int unlink(const char *path) {
    REAL(unlink);
    two_names(UNLINK, path, "");
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
    if (recording) note(REPORTED)->reductions = reductions;
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

static int find(const struct disk *d, const char *path) {
    for (int i = 0; i < d->n; i++)
        if (strcmp(d->v[i].path, path) == 0) return i;
    return -1;
}
static void drop(struct disk *d, const char *path) {
    int i = find(d, path);
    if (i >= 0) d->v[i] = d->v[--d->n];
}
static void set(struct disk *d, const char *path, int inode) {
    drop(d, path);
    snprintf(d->v[d->n].path, sizeof d->v->path, "%s", path);
    d->v[d->n++].inode = inode;
}
/* Names that never came to be on the disk cannot be renamed there: then the operation has
 * no effect. */
static void apply(struct disk *d, const struct op *o) {
    int i = find(d, o->from);
    if (o->kind == CREATE) set(d, o->to, o->inode);
    if ((o->kind == RENAME || o->kind == LINK) && i >= 0) set(d, o->to, d->v[i].inode);
    if (o->kind == UNLINK || (o->kind == RENAME && i >= 0)) drop(d, o->from);
}
static bool is_name(enum kind k) { return k == CREATE || k == RENAME || k == LINK || k == UNLINK; }

static size_t synced_bytes(int inode, int cut, size_t *ret_told) {
    size_t synced = 0;
    int honest = lying ? 0 : cut;
    *ret_told = 0;
    for (int i = 0; i < cut && lying; i++)
        if (ops[i].kind == REPORTED) honest = i;
    for (int i = 0; i < cut; i++) {
        if (ops[i].inode != inode) continue;
        if (ops[i].kind == DATA) *ret_told = ops[i].bytes;
        if (ops[i].kind == SYNC && i < honest) synced = *ret_told;
    }
    return synced;
}

/* tear: so many blocks beyond what was synced are there; -1: all of the length, zeroed. The store
 * gets what a directory would show. */
static struct qr_store *after(const struct disk *d, int cut, int tear, bool *ret_more) {
    struct qr_store *s = qr_store_memory_new();
    for (int i = 0; i < d->n; i++) {
        const struct inode *f = &inodes[d->v[i].inode];
        size_t told, synced = synced_bytes(d->v[i].inode, cut, &told),
                     n = synced + (size_t)(tear < 0 ? 0 : tear) * BLOCK;
        if (strstr(d->v[i].path, ".tmp-")) continue;
        if (told > n) *ret_more = true;
        if (n > told || tear < 0) n = told;
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
static void look(struct qr_store *s, int cut, uint64_t reported, uint64_t known) {
    const struct qr_checkpoint_location p = {.store = s, .dir = "c", .url = "c"};
    struct qr_checkpoint c = {0}, want;
    struct qr_buf notes = {0};
    bool done;
    char hash[65] = "";
    memset(hash, 'b', 64);
    enum qr_code code = qr_checkpoint_load(&p, hash, &c, &done, &notes, &err);
    tried++;
    bool fine = code == QR_OK && c.reductions >= reported && c.reductions <= known;
    /* of the first one all is lost: that is said */
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
    if (fine) publish(s, "c", known + 1); /* and the next start goes on from there */
}

static void each_tear(const struct disk *d, int cut, uint64_t reported, uint64_t known) {
    bool more = true;
    for (int tear = -1; more; tear++) {
        more = tear < 0;
        struct qr_store *s = after(d, cut, tear, &more);
        look(s, cut, reported, known);
        s->ops->close(s);
    }
}

static void cut_at(int cut, uint64_t reported, uint64_t known) {
    struct disk durable = {0};
    int pending[MAX_OPS], n = 0, last = 0;
    for (int i = 0; i < cut; i++)
        if (ops[i].kind == SYNC_NAMES) last = i;
    for (int i = 0; i < cut; i++) {
        if (!is_name(ops[i].kind)) continue;
        if (i < last) apply(&durable, &ops[i]);
        else pending[n++] = i;
    }
    CHECK(n < 8, "%d names are unsynced at once", n);
    if (n >= 8) return;
    for (unsigned subset = 0; subset < 1u << n; subset++) {
        struct disk d = durable;
        for (int i = 0; i < n; i++)
            if (subset >> i & 1) apply(&d, &ops[pending[i]]);
        each_tear(&d, cut, reported, known);
    }
    lying = true;
    for (int i = 0; i < n; i++) apply(&durable, &ops[pending[i]]);
    each_tear(&durable, cut, reported, known);
    lying = false;
}

/* ---- damage ---- */

static struct qr_store *three_published(void) {
    struct qr_store *s = qr_store_memory_new();
    for (uint64_t reductions = 1; reductions <= 3; reductions++) publish(s, "c", reductions);
    return s;
}
static struct qr_buf content_of(struct qr_store *s, const char *name) {
    struct qr_buf b = {0};
    CHECK(s->ops->get(s, name, 1 << 20, &b, &err) == QR_OK, "%s", err.msg);
    return b;
}
/* The object of the state after so many reductions; heap. */
static char *object_of(uint64_t reductions) {
    struct qr_checkpoint c = state_at(reductions);
    char *name =
        qr_xasprintf("c/%.16s-%016" PRIu64 "-%s.safetensors", c.job_hash, c.step, c.digest);
    qr_checkpoint_fini(&c);
    return name;
}
/* With so many bytes of `name`, some of them damaged: this state is loaded, whole, and the notes
 * have these words. */
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

/* Where a byte of the file is, as the refusal must say. In the header anything can come of it, from
 * a length that does not fit to a tensor of another name. */
static const char *section_of(struct qr_bytes file, size_t at) {
    size_t begin = 8 + (size_t)qr_get_u64le(file.p);
    if (at < begin) return "header";
    for (size_t i = 0; i < COUNT(layout); begin += 8 * layout[i].n, i++)
        if (at < begin + 8 * layout[i].n) return layout[i].name;
    return "?";
}

static void cut_files(long *ret_cuts) {
    struct qr_store *s = three_published();
    qr_auto(qr_free_p) char *object = object_of(3);
    const char *const names[] = {object, "c/LATEST"};
    for (size_t i = 0; i < COUNT(names); i++) {
        struct qr_buf whole = content_of(s, names[i]);
        /* LATEST has no 512 bytes: at each of them */
        for (size_t n = 0; n < whole.n; n += i ? 1 : BLOCK, ++*ret_cuts)
            CHECK(loads(s, names[i], qr_bytes_of(whole.p, n), i ? 3 : 2, names[i],
                        i ? "damaged" : ""),
                  "%s cut at %zu", names[i], n);
        CHECK(s->ops->put(s, names[i], qr_buf_view(&whole), false, &err) == QR_OK);
        qr_buf_free(&whole);
    }
    s->ops->close(s);
}

static void flip_files(long *ret_bytes, long *ret_flips) {
    struct qr_store *s = three_published();
    qr_auto(qr_free_p) char *object = object_of(3);
    const char *const names[] = {object, "c/LATEST"};
    for (size_t i = 0; i < COUNT(names); i++) {
        struct qr_buf b = content_of(s, names[i]);
        size_t header = i ? b.n : 8 + (size_t)qr_get_u64le(b.p);
        for (size_t at = 0; at < b.n; at++, ++*ret_bytes) {
            const char *section = i ? "damaged" : section_of(qr_buf_view(&b), at);
            /* of the values every bit of some bytes, and one of each */
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
        cut_at(cut, reported, reported < 5 ? reported + 1 : 5);
    }
    CHECK(n_ops > 60 && tried > 700, "%d operations, %ld disks", n_ops, tried);
    long cuts = 0, bytes = 0, flips = 0;
    cut_files(&cuts);
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
