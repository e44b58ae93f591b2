/* base/cgroup.c — reads cgroup v1 and v2 files without allocating memory. Start reading at
 * qr_cgroup_read(). */
#include "base/cgroup.h"

#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/parse.h"

/* ---- line reader ---- */

struct cgroup_reader {
    int fd;
    size_t at, n;
    char piece[1024];
};

/* Reads the next line, truncated to `cap` bytes; false at the end of the file. */
static bool cgroup_read_line(struct cgroup_reader *r, char *line, size_t cap) {
    size_t n = 0;
    for (bool any = false;; any = true) {
        if (r->at == r->n) {
            ssize_t got = read(r->fd, r->piece, sizeof r->piece);
            r->at = 0;
            r->n = got > 0 ? (size_t)got : 0;
            if (!r->n) {
                line[n] = 0;
                return any;
            }
        }
        char c = r->piece[r->at++];
        if (c == '\n') break;
        if (n + 1 < cap) line[n++] = c;
    }
    line[n] = 0;
    return true;
}

static bool cgroup_open_file(struct cgroup_reader *r, const char *root, const char *folder,
                             const char *name) {
    char path[PATH_MAX];
    *r = (struct cgroup_reader){.fd = -1};
    if (snprintf(path, sizeof path, "%s%s%s", root, folder, name) < (int)sizeof path)
        r->fd = open(path, O_RDONLY | O_CLOEXEC);
    return r->fd >= 0;
}

/* Reads the first line of a file; false when there is none. */
static bool cgroup_read_first_line(const char *root, const char *folder, const char *name,
                                   char *line, size_t cap) {
    struct cgroup_reader r;
    if (!cgroup_open_file(&r, root, folder, name)) return false;
    bool ok = cgroup_read_line(&r, line, cap);
    close(r.fd);
    return ok;
}

/* Ends the text at the next `mark` and returns the rest after it; "" when there is no mark. */
static char *cgroup_cut_at(char *s, char mark) {
    char *end = strchrnul(s, mark);
    char *rest = *end ? end + 1 : end;
    *end = 0;
    return rest;
}

/* Reads the number 12 of the line "NAME 12" or "NAME:   12 kB"; the unit is ignored. */
static bool cgroup_read_number(const char *root, const char *folder, const char *file,
                               const char *name, uint64_t *ret) {
    char line[256];
    struct cgroup_reader r;
    bool found = false;
    if (!cgroup_open_file(&r, root, folder, file)) return false;
    while (!found && cgroup_read_line(&r, line, sizeof line)) {
        size_t n = strcspn(line, ": ");
        if (n != strlen(name) || strncmp(line, name, n) != 0) continue;
        char *number = line + n + strspn(line + n, ": \t");
        cgroup_cut_at(number, ' ');
        found = qr_parse_u64(number, ret);
        break;
    }
    close(r.fd);
    return found;
}

static bool cgroup_list_has_name(const char *list, const char *name) {
    size_t n = strlen(name);
    for (const char *at = list;; at++) {
        if (strncmp(at, name, n) == 0 && (at[n] == 0 || at[n] == ',')) return true;
        at = strchr(at, ',');
        if (!at) return false;
    }
}

/* ---- files of a group ---- */

static void cgroup_apply_quota(struct qr_cgroup *c, const char *quota, const char *period,
                               const char *by) {
    uint64_t q, p;
    if (!qr_parse_u64(quota, &q) || !qr_parse_u64(period, &p) || q == 0 || p == 0) return;
    double cpus = (double)q / (double)p;
    if (c->cpus > 0 && c->cpus <= cpus) return;
    c->cpus = cpus;
    c->cpus_by = by;
}

/* Counts the processors of a list: "0-3,8" has 5. 0 when the list is malformed. */
static unsigned cgroup_count_cpus(char *list) {
    uint64_t n = 0;
    while (*list) {
        char *rest = cgroup_cut_at(list, ','), *last = cgroup_cut_at(list, '-');
        uint64_t a, b;
        if (!qr_parse_u64(list, &a) || !qr_parse_u64(*last ? last : list, &b)) return 0;
        if (b < a || b - a >= UINT_MAX || (n += b - a + 1) > UINT_MAX) return 0;
        list = rest;
    }
    return (unsigned)n;
}

static void cgroup_apply_cpuset(struct qr_cgroup *c, char *list, const char *by) {
    unsigned n = cgroup_count_cpus(list);
    if (n == 0 || (c->cpuset && c->cpuset <= n)) return;
    c->cpuset = n;
    c->cpuset_by = by;
}

/* Names of the memory usage files and page cache statistics in cgroup v1 and v2. */
struct usage_names {
    const char *used, *inactive, *active;
};
static const struct usage_names names_v1 = {"/memory.usage_in_bytes", "total_inactive_file",
                                            "total_active_file"},
                                names_v2 = {"/memory.current", "inactive_file", "active_file"};

/* Lowers c->memory_left to the free memory of a group with this limit. */
static void cgroup_apply_memory_left(struct qr_cgroup *c, const char *root, const char *folder,
                                     uint64_t limit, const struct usage_names *name) {
    char text[64];
    uint64_t used, inactive, active = 0;
    if (!cgroup_read_first_line(root, folder, name->used, text, sizeof text) ||
        !qr_parse_u64(text, &used) ||
        !cgroup_read_number(root, folder, "/memory.stat", name->inactive, &inactive))
        return;
    (void)cgroup_read_number(root, folder, "/memory.stat", name->active, &active);
    used = used > inactive ? used - inactive : 0;
    used = used > active ? used - active : 0;
    uint64_t left = limit > used ? limit - used : 0;
    if (left < c->memory_left) c->memory_left = left;
}

static void cgroup_apply_memory_limit(struct qr_cgroup *c, const char *root, const char *folder,
                                      const char *text, const char *by,
                                      const struct usage_names *name) {
    uint64_t n;
    if (!qr_parse_u64(text, &n) || n == 0) return;
    if (c->memory_left) cgroup_apply_memory_left(c, root, folder, n, name);
    if (n >= c->memory_bytes) return;
    c->memory_bytes = n;
    c->memory_by = by;
}

/* unit_ns: of the time in the file. */
static void cgroup_read_throttling(const char *root, const char *folder, const char *time,
                                   uint64_t unit_ns, struct qr_cgroup *c) {
    struct qr_throttling t = {0};
    if (!c->reads_throttling ||
        !cgroup_read_number(root, folder, "/cpu.stat", time, &t.throttled_ns) ||
        t.throttled_ns > UINT64_MAX / unit_ns)
        return;
    t.throttled_ns *= unit_ns;
    if (t.throttled_ns > c->throttling.throttled_ns &&
        cgroup_read_number(root, folder, "/cpu.stat", "nr_periods", &t.periods) &&
        cgroup_read_number(root, folder, "/cpu.stat", "nr_throttled", &t.throttled_periods))
        c->throttling = t;
}

static void cgroup_read_cpu_v1(const char *root, const char *folder, struct qr_cgroup *c) {
    char quota[64], period[64];
    if (!cgroup_read_first_line(root, folder, "/cpu.cfs_quota_us", quota, sizeof quota)) return;
    if (!c->cpu_version) c->cpu_version = 1;
    cgroup_read_throttling(root, folder, "throttled_time", 1, c);
    if (cgroup_read_first_line(root, folder, "/cpu.cfs_period_us", period, sizeof period))
        cgroup_apply_quota(c, quota, period, "cgroup v1, cpu.cfs_quota_us");
}

static void cgroup_read_cpuset_v1(const char *root, const char *folder, struct qr_cgroup *c) {
    char list[4096];
    if (cgroup_read_first_line(root, folder, "/cpuset.effective_cpus", list, sizeof list))
        cgroup_apply_cpuset(c, list, "cgroup v1, cpuset.effective_cpus");
}

static void cgroup_read_memory_v1(const char *root, const char *folder, struct qr_cgroup *c) {
    char text[64];
    if (!cgroup_read_first_line(root, folder, "/memory.limit_in_bytes", text, sizeof text)) return;
    if (!c->memory_version) c->memory_version = 1;
    cgroup_apply_memory_limit(c, root, folder, text, "cgroup v1, memory.limit_in_bytes", &names_v1);
}

static void cgroup_read_v2(const char *root, const char *folder, struct qr_cgroup *c) {
    char text[4096];
    if (cgroup_read_first_line(root, folder, "/cpu.max", text, sizeof text)) {
        const char *period = cgroup_cut_at(text, ' ');
        if (!c->cpu_version) c->cpu_version = 2;
        cgroup_apply_quota(c, text, period, "cgroup v2, cpu.max");
        cgroup_read_throttling(root, folder, "throttled_usec", 1000, c);
    }
    if (cgroup_read_first_line(root, folder, "/cpuset.cpus.effective", text, sizeof text))
        cgroup_apply_cpuset(c, text, "cgroup v2, cpuset.cpus.effective");
    if (cgroup_read_first_line(root, folder, "/memory.max", text, sizeof text)) {
        if (!c->memory_version) c->memory_version = 2;
        cgroup_apply_memory_limit(c, root, folder, text, "cgroup v2, memory.max", &names_v2);
    }
    if (cgroup_read_first_line(root, folder, "/memory.high", text, sizeof text))
        cgroup_apply_memory_limit(c, root, folder, text, "cgroup v2, memory.high", &names_v2);
}

/* ---- location of the group ---- */

/* In v1 each controller has its own hierarchy; the v2 hierarchy has the empty name. */
static const struct hierarchy {
    const char *controller, *usual; /* usual: default mount point, read even if not listed */
    void (*read)(const char *root, const char *folder, struct qr_cgroup *c);
} hierarchies[] = {
    {"", "/sys/fs/cgroup", cgroup_read_v2},
    {"cpu", "/sys/fs/cgroup/cpu", cgroup_read_cpu_v1},
    {"cpuset", "/sys/fs/cgroup/cpuset", cgroup_read_cpuset_v1},
    {"memory", "/sys/fs/cgroup/memory", cgroup_read_memory_v1},
};
enum { N_HIERARCHIES = sizeof hierarchies / sizeof *hierarchies };

/* Reads the process's group in a hierarchy from lines "ID:CONTROLLERS:PATH". */
static bool cgroup_read_own_path(const char *root, const char *controller, char path[PATH_MAX]) {
    char line[PATH_MAX + 256];
    struct cgroup_reader r;
    bool found = false;
    if (!cgroup_open_file(&r, root, "", "/proc/self/cgroup")) return false;
    while (!found && cgroup_read_line(&r, line, sizeof line)) {
        char *controllers = cgroup_cut_at(line, ':'), *at = cgroup_cut_at(controllers, ':');
        found = *controller ? cgroup_list_has_name(controllers, controller)
                            : !*controllers && strcmp(line, "0") == 0;
        found = found && strlen(at) < PATH_MAX;
        if (found) memcpy(path, at, strlen(at) + 1);
    }
    close(r.fd);
    return found;
}

/* The part of path below the mounted group; NULL when path is not below it or contains "..". */
static const char *cgroup_path_below(const char *path, const char *mounted) {
    size_t n = strcmp(mounted, "/") == 0 ? 0 : strlen(mounted);
    if (strncmp(path, mounted, n) != 0 || (path[n] && path[n] != '/')) return NULL;
    for (const char *at = path + n; (at = strstr(at, "/..")); at += 3)
        if (at[3] == '/' || !at[3]) return NULL;
    return path[n] && path[n + 1] ? path + n : "";
}

/* Reads the files of the group and of its parent groups. */
static void cgroup_read_group(const char *root, const struct hierarchy *h, const char *mounted,
                              const char *point, struct qr_cgroup *c) {
    char own[PATH_MAX], folder[PATH_MAX];
    const char *rest =
        cgroup_read_own_path(root, h->controller, own) ? cgroup_path_below(own, mounted) : NULL;
    size_t top = strlen(point);
    if (!rest || snprintf(folder, sizeof folder, "%s%s", point, rest) >= (int)sizeof folder) return;
    while (strlen(folder) > top) {
        h->read(root, folder, c);
        *strrchr(folder, '/') = 0;
    }
    h->read(root, point, c);
}

/* mountinfo escapes blanks, tabs, newlines and backslashes in octal (\040). */
static void cgroup_unescape(char *s) {
    char *to = s;
    for (; *s; s++) {
        unsigned v = 0;
        int n = 0;
        while (*s == '\\' && n < 3 && s[n + 1] >= '0' && s[n + 1] <= '7')
            v = v * 8 + (unsigned)(s[++n] - '0');
        *to++ = n == 3 && v ? (char)v : *s;
        if (n == 3 && v) s += 3;
    }
    *to = 0;
}

/* Parses "31 23 0:28 / /sys/fs/cgroup rw,relatime shared:4 - cgroup2 cgroup2 rw": fields 4 and 5
 * are the mounted group and the mount point; after " - " come file system, source and options. */
static void cgroup_read_mount(const char *root, char *line, struct qr_cgroup *c) {
    char *dash = strstr(line, " - ");
    if (!dash) return;
    char *type = dash + 3, *source = cgroup_cut_at(type, ' '),
         *options = cgroup_cut_at(source, ' ');
    bool v1 = strcmp(type, "cgroup") == 0;
    if (!v1 && strcmp(type, "cgroup2") != 0) return;
    *dash = 0;
    char *mounted = line;
    for (int i = 0; i < 3; i++) mounted = cgroup_cut_at(mounted, ' ');
    char *point = cgroup_cut_at(mounted, ' ');
    cgroup_cut_at(point, ' ');
    cgroup_unescape(mounted);
    cgroup_unescape(point);
    for (int i = 0; i < N_HIERARCHIES; i++) {
        const struct hierarchy *h = &hierarchies[i];
        bool of_it =
            v1 ? *h->controller && cgroup_list_has_name(options, h->controller) : !*h->controller;
        if (of_it) cgroup_read_group(root, h, mounted, point, c);
    }
}

static void cgroup_read_all(const char *root, struct qr_cgroup *c) {
    char line[2 * PATH_MAX + 512];
    struct cgroup_reader r;
    if (cgroup_open_file(&r, root, "", "/proc/self/mountinfo")) {
        while (cgroup_read_line(&r, line, sizeof line)) cgroup_read_mount(root, line, c);
        close(r.fd);
    }
    for (int i = 0; i < N_HIERARCHIES; i++) hierarchies[i].read(root, hierarchies[i].usual, c);
}

void qr_cgroup_read(const char *root, struct qr_cgroup *ret) {
    *ret = (struct qr_cgroup){.memory_bytes = UINT64_MAX};
    cgroup_read_all(root, ret);
}

void qr_cgroup_read_throttling(const char *root, struct qr_cgroup *ret) {
    *ret = (struct qr_cgroup){.memory_bytes = UINT64_MAX, .reads_throttling = true};
    cgroup_read_all(root, ret);
}

/* ---- available memory ---- */

/* Reads a field in kB and returns bytes; 0 when it is missing or out of range. */
static uint64_t cgroup_read_kb(const char *root, const char *file, const char *name) {
    uint64_t kib = 0;
    return cgroup_read_number(root, "/proc", file, name, &kib) && kib < UINT64_C(1) << 50
               ? kib << 10
               : 0;
}

uint64_t qr_memory_available_under(const char *root, uint64_t limit) {
    struct qr_cgroup c = {.memory_bytes = UINT64_MAX, .memory_left = UINT64_MAX};
    uint64_t machine = cgroup_read_kb(root, "/meminfo", "MemAvailable");
    cgroup_read_all(root, &c);
    uint64_t left = c.memory_left;
    if (machine) machine += cgroup_read_kb(root, "/meminfo", "SwapFree");
    if (machine && machine < left) left = machine;
    uint64_t own = cgroup_read_kb(root, "/self/status", "VmRSS");
    return left < limit && own < limit - left ? left + own : limit;
}

struct qr_memory_kills qr_memory_kills_under(const char *root) {
    struct qr_memory_kills k = {0};
    uint64_t v1 = 0;
    (void)cgroup_read_number(root, "/sys/fs/cgroup", "/memory.events", "oom_kill", &k.group);
    if (cgroup_read_number(root, "/sys/fs/cgroup/memory", "/memory.oom_control", "oom_kill", &v1) &&
        v1 > k.group)
        k.group = v1;
    (void)cgroup_read_number(root, "/proc", "/vmstat", "oom_kill", &k.machine);
    return k;
}
