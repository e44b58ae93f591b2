/* A power cut after every system call of a publisher: what was not synced is lost, torn at every 512 bytes or zeroed; names that were not
 * synced are there or not, in every combination. The same on a disk that lies of its syncs since the last checkpoint. What loads
 * afterwards is the newest checkpoint that was reported published, or the next one: whole. */
#undef _FORTIFY_SOURCE /* its inline forms would be in the way */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdarg.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/bytes.h"
#include "base/file.h"
#include "base/mem.h"
#include "record/checkpoint.h"
#include "tests/t.h"

/* ---- what the disk was told, in order ---- */

enum kind { CREATE, DATA, SYNC, RENAME, LINK, UNLINK, SYNC_NAMES, REPORTED };
struct op { enum kind kind; int inode; char from[160], to[160]; size_t bytes; uint64_t pass; };
struct inode { char path[160]; uint8_t *p; size_t n; };
enum { MAX_OPS = 2000, MAX_INODES = 400, MAX_FD = 256, BLOCK = 512 };
static struct op ops[MAX_OPS];
static struct inode inodes[MAX_INODES];
static int n_ops, n_inodes, inode_of_fd[MAX_FD];
static bool recording, is_dir[MAX_FD];
static bool lying; /* the disk: syncs since the last report did nothing */
static char dir[] = "/tmp/qring-powercut-XXXXXX";

static void *next(const char *name) {
    void *p = dlsym(RTLD_NEXT, name);
    if (!p) abort();
    return p;
}
#define REAL(name)                                                                                                                          \
    static __typeof__(name) *real;                                                                                                          \
    if (!real) real = (__typeof__(real))(uintptr_t)next(#name)

static bool ours(const char *path) { return recording && strncmp(path, dir, strlen(dir)) == 0; }
static struct op *note(enum kind kind) {
    if (n_ops == MAX_OPS) abort();
    ops[n_ops] = (struct op){.kind = kind};
    return &ops[n_ops++];
}

int open(const char *path, int flags, ...) {
    REAL(open);
    va_list ap;
    va_start(ap, flags);
    mode_t mode = flags & O_CREAT ? va_arg(ap, mode_t) : 0;
    va_end(ap);
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
static struct qr_checkpoint state_at(uint64_t pass) {
    enum { N = 300 };
    struct qr_checkpoint c = {.step = pass, .pass = pass, .n_digested = 1, .contract = "f64-v1"};
    double values[N];
    memset(c.job_hash, 'b', 64);
    for (int i = 0; i < N; i++) values[i] = (double)pass + i;
    qr_tensors_add(&c.tensors, "dense/bias", 1, (size_t[]){N}, values);
    qr_checkpoint_digest(&c, c.digest);
    return c;
}
static void publish(struct qr_store *s, const char *where, uint64_t pass) {
    const struct qr_checkpoint_place p = {s, where, where};
    struct qr_checkpoint c = state_at(pass);
    struct qr_buf notes = {0};
    struct qr_checkpoint_latest l = {0};
    CHECK(qr_checkpoint_save(&p, &c, pass == 6, &l, &notes, &err) == QR_OK && l.pass == pass, "%s", err.msg);
    qr_buf_free(&notes);
    qr_checkpoint_fini(&c);
    if (recording) note(REPORTED)->pass = pass;
}

/* ---- a disk after the cut ---- */

struct name { char path[160]; int inode; };
struct disk { struct name v[MAX_INODES]; int n; };

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
/* Names that never came to be on the disk cannot be renamed there: then the operation has no effect. */
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

/* tear: so many blocks beyond what was synced are there; -1: all of the length, zeroed. The store gets what a directory would show. */
static struct qr_store *after(const struct disk *d, int cut, int tear, bool *ret_more) {
    struct qr_store *s = qr_store_memory_new();
    for (int i = 0; i < d->n; i++) {
        const struct inode *f = &inodes[d->v[i].inode];
        size_t told, synced = synced_bytes(d->v[i].inode, cut, &told), n = synced + (size_t)(tear < 0 ? 0 : tear) * BLOCK;
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
    const struct qr_checkpoint_place p = {s, "c", "c"};
    struct qr_checkpoint c = {0}, want;
    struct qr_buf notes = {0};
    bool done;
    char hash[65] = "";
    memset(hash, 'b', 64);
    enum qr_code code = qr_checkpoint_load(&p, hash, &c, &done, &notes, &err);
    tried++;
    bool fine = code == QR_OK && c.pass >= reported && c.pass <= known;
    if (lying && reported == 0 && code == QR_DATA_LOSS && strstr(err.msg, "--fresh")) { /* of the first one all is lost: that is said */
        qr_buf_free(&notes);
        return;
    }
    CHECK(fine, "cut %d: %s; pass %" PRIu64 " loads, %" PRIu64 " was reported. %s", cut, code == QR_OK ? "" : err.msg, c.pass, reported,
          qr_buf_string(&notes));
    if (code == QR_OK && *c.job_hash) {
        want = state_at(c.pass);
        CHECK(strcmp(want.digest, c.digest) == 0 && memcmp(want.tensors.v[0].values, c.tensors.v[0].values, 8 * want.tensors.v[0].n) == 0,
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

int main(void) {
    char path[200];
    CHECK(mkdtemp(dir) != NULL);
    struct qr_store *s = qr_store_file_new("");
    recording = true;
    for (uint64_t pass = 1; pass <= 5; pass++) publish(s, dir, pass);
    recording = false;
    uint64_t reported = 0;
    for (int cut = 0; cut <= n_ops; cut++) {
        if (cut && ops[cut - 1].kind == REPORTED) reported = ops[cut - 1].pass;
        cut_at(cut, reported, reported < 5 ? reported + 1 : 5);
    }
    CHECK(n_ops > 60 && tried > 700, "%d operations, %ld disks", n_ops, tried);
    printf("%d operations, %ld disks after a cut\n", n_ops, tried);
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
