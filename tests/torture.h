/* tests/torture.h — makes every allocation of an operation fail in turn, alone or with all later
 * ones: those of qring, the C library, cJSON, zlib, libhdf5 and libcurl.
 *
 * A trial runs in a child process. When the k-th allocation fails, one of these must happen: the
 * operation succeeds with the right result (without the memory, or after a retry); it returns an
 * error whose message names memory; or the process aborts with the message of base/mem.h. In the
 * first two cases nothing may be leaked, and in all cases `whole` must hold. After an abort the
 * parent continues with the next allocation in a new child.
 *
 * A header, because its functions replace those of the C library in each program that includes it,
 * also for shared libraries. */
#ifndef TORTURE_H
#define TORTURE_H

#include "tests/t.h"

#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/mem.h"

/* ---- the allocator: over the C library's, or over that of the address sanitizer ---- */

void *__libc_malloc(size_t n);
void *__libc_calloc(size_t count, size_t n);
void *__libc_realloc(void *p, size_t n);
void __libc_free(void *p);
void *__libc_memalign(size_t align, size_t n);
#define WEAK __attribute__((weak))
void *__interceptor_malloc(size_t n) WEAK;
void *__interceptor_calloc(size_t count, size_t n) WEAK;
void *__interceptor_realloc(void *p, size_t n) WEAK;
void __interceptor_free(void *p) WEAK;
int __interceptor_posix_memalign(void **ret, size_t align, size_t n) WEAK;
#define REAL(name) (__interceptor_##name ? __interceptor_##name : __libc_##name)
/* These functions run before a sanitizer is initialized. */
#define BARE __attribute__((no_sanitize_address, no_sanitize_undefined))
#define SEEN __attribute__((visibility("default"))) BARE

static atomic_long n_allocations, n_live, fail_from; /* fail_from 0: nothing fails */
static bool fail_for_good;

/* Allocations of this program's own code, as opposed to those that libraries cache: the addresses
 * that were returned to a caller inside the program. */
enum { OURS = 1 << 16 };
static _Atomic(void *) ours[OURS];
static atomic_long n_ours;
extern char __executable_start[], etext[];

BARE static size_t slot_of(const void *p) {
    return (size_t)((uintptr_t)p >> 4) * 2654435761U % OURS;
}
BARE static void *handed(void *p, const void *caller) {
    if (!p) return NULL;
    n_live++;
    if ((const char *)caller < __executable_start || (const char *)caller >= etext) return p;
    for (size_t i = slot_of(p), tries = 0; tries < OURS; tries++, i = (i + 1) % OURS) {
        void *none = NULL;
        if (!atomic_compare_exchange_strong(&ours[i], &none, p)) continue;
        n_ours++;
        break;
    }
    return p;
}
BARE static void taken_back(void *p) {
    if (!p) return;
    n_live--;
    for (size_t i = slot_of(p), tries = 0; tries < 64; tries++, i = (i + 1) % OURS) {
        void *it = p;
        if (!atomic_compare_exchange_strong(&ours[i], &it, NULL)) continue;
        n_ours--;
        break;
    }
}
BARE static bool fails(void) {
    long from = fail_from;
    if (from == 0) return false;
    long n = ++n_allocations;
    if (n != from && !(fail_for_good && n > from)) return false;
    errno = ENOMEM;
    return true;
}
#define CALLER __builtin_return_address(0)

SEEN void *malloc(size_t n) { return fails() ? NULL : handed(REAL(malloc)(n), CALLER); }
SEEN void *calloc(size_t count, size_t n) {
    return fails() ? NULL : handed(REAL(calloc)(count, n), CALLER);
}
SEEN void *realloc(void *p, size_t n) {
    if (fails()) return NULL;
    taken_back(p);
    return handed(REAL(realloc)(p, n), CALLER);
}
SEEN void free(void *p) {
    taken_back(p);
    REAL(free)(p);
}
SEEN int posix_memalign(void **ret, size_t align, size_t n) {
    void *p = NULL;
    if (fails()) return ENOMEM;
    if (__interceptor_posix_memalign) {
        if (__interceptor_posix_memalign(&p, align, n) != 0) return ENOMEM;
    } else {
        p = __libc_memalign(align, n);
    }
    if (!handed(p, CALLER)) return ENOMEM;
    *ret = p;
    return 0;
}

/* ---- a trial ---- */

struct operation {
    const char *name;
    void (*before)(void); /* may be NULL; no allocation fails in it */
    /* QR_INTERNAL with "wrong:" when the operation succeeded with a wrong result */
    enum qr_code (*run)(struct qr_err *err);
    /* May be NULL. The state outside the process is the new one, or the old one unless done; also
     * after an abort. */
    bool (*whole)(bool done);
    /* A library caches memory: only allocations of our own code count as leaks. */
    bool caches;
    /* Each try in a process that has not run the operation before. */
    bool cold;
    /* A library may crash or stay broken: each try in a process of its own. */
    bool brittle;
    /* 0: every allocation; else every stride-th, from a start that depends on the mode. */
    long stride;
};

/* Shared with the child. */
static struct {
    long k, errors, did_without, aborts, crashes, total;
    bool done, bad;
    char why[512];
} * shown;

static void bad(const struct operation *o, const char *what, const char *detail) {
    const char *after = fail_for_good ? " and all after" : "";
    if (!shown->bad)
        snprintf(shown->why, sizeof shown->why, "%s, allocation %ld%s: %s: %.300s", o->name,
                 shown->k, after, what, detail);
    shown->bad = true;
}

static void judge(const struct operation *o, enum qr_code code, const struct qr_err *err,
                  long live) {
    bool memory = strcasestr(err->msg, "memory") || strstr(err->msg, "the system cannot allocate");
    if (code == QR_OK) shown->did_without++;
    else shown->errors++;
    if (code != QR_OK && strncmp(err->msg, "wrong:", 6) == 0)
        bad(o, "success with a wrong result", err->msg);
    else if (code != QR_OK && code != QR_RESOURCE_EXHAUSTED && code != QR_UNAVAILABLE)
        bad(o, "an error of another kind", err->msg);
    else if (code != QR_OK && (err->code != code || !memory))
        bad(o, "an error that does not name memory", err->msg);
    if (live) bad(o, "memory is leaked", err->msg);
    if (o->whole && !o->whole(code == QR_OK)) bad(o, "a partial result is left", err->msg);
}

static void child(const struct operation *o, bool for_good, long stride) {
    struct rlimit none = {0, 0};
    setrlimit(RLIMIT_CORE, &none);
    for (;; shown->k += stride) {
        struct qr_err err = {0};
        if (o->before) o->before();
        long live = o->caches ? n_ours : n_live;
        n_allocations = 0;
        fail_for_good = for_good;
        fail_from = shown->k;
        enum qr_code code = o->run(&err);
        fail_from = 0;
        if (n_allocations < shown->k) {
            shown->total = n_allocations;
            shown->done = true;
            if (code != QR_OK) bad(o, "an error although no allocation failed", err.msg);
            _exit(0);
        }
        judge(o, code, &err, (o->caches ? n_ours : n_live) - live);
        if (shown->bad) _exit(0);
        if (o->cold || o->brittle) {
            shown->k += stride;
            _exit(0);
        }
    }
}

/* Judges how the child ended. True: it exited by itself and has moved k on. */
static bool judge_death(const struct operation *o, int status, FILE *said) {
    char text[512] = "";
    rewind(said);
    size_t n = fread(text, 1, sizeof text - 1, said);
    text[n] = 0;
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return true;
    if (o->brittle && !strstr(text, "qring: ") && (!o->whole || o->whole(false))) {
        shown->crashes++;
        return false;
    }
    if (!WIFSIGNALED(status) || WTERMSIG(status) != SIGABRT ||
        !strstr(text, "qring: out of memory (")) {
        char how[64];
        bool killed = WIFSIGNALED(status);
        snprintf(how, sizeof how, "ended by %s %d", killed ? "signal" : "exit",
                 killed ? WTERMSIG(status) : WEXITSTATUS(status));
        bad(o, how, text);
    } else if (o->whole && !o->whole(false)) {
        bad(o, "a partial result is left by an abort", "");
    }
    shown->aborts++;
    return false;
}

static void trial(const struct operation *o, bool for_good) {
    long stride = o->stride ? o->stride : 1;
    if (!shown)
        shown =
            mmap(NULL, sizeof *shown, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    memset(shown, 0, sizeof *shown);
    shown->k = for_good && stride > 1 ? 1 + stride / 2 : 1;
    if (!o->cold) {
        struct qr_err err = {0};
        if (o->before) o->before();
        CHECK(o->run(&err) == QR_OK, "%s: %s", o->name, err.msg);
    }
    FILE *said = tmpfile();
    while (said && !shown->done && !shown->bad) {
        int status = 0;
        if (ftruncate(fileno(said), 0) != 0) break;
        rewind(said);
        fflush(NULL);
        pid_t pid = fork();
        if (pid == 0) {
            dup2(fileno(said), 2);
            child(o, for_good, stride);
        }
        waitpid(pid, &status, 0);
        fail_for_good = for_good;
        if (!judge_death(o, status, said)) shown->k += stride;
    }
    if (said) fclose(said);
    CHECK(shown->done && !shown->bad, "%s", shown->why);
    printf("%-28s %-5s %6ld allocations: %ld errors, %ld successes, %ld aborts", o->name,
           for_good ? "all" : "one", shown->total, shown->errors, shown->did_without,
           shown->aborts);
    if (shown->crashes) printf(", %ld crashes of a library", shown->crashes);
    puts(stride > 1 ? " (sampled)" : "");
    CHECK(shown->errors + shown->aborts + shown->did_without > 0 || shown->total == 0,
          "%s: nothing failed", o->name);
}

static inline void tortured(const struct operation *operations, size_t n) {
    for (size_t i = 0; i < n; i++) {
        trial(&operations[i], false);
        trial(&operations[i], true);
    }
}

#endif
