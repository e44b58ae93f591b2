#include "base/cgroup.h"

#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/parse.h"

/* ---- lines ---- */

struct lines {
    int fd;
    size_t at, n;
    char piece[1024];
};

/* The next line, or as much of it as there is room for; false at the end. */
static bool next_line(struct lines *r, char *line, size_t room) {
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
        if (n + 1 < room) line[n++] = c;
    }
    line[n] = 0;
    return true;
}

static bool open_under(struct lines *r, const char *root, const char *folder, const char *name) {
    char path[PATH_MAX];
    *r = (struct lines){.fd = -1};
    if (snprintf(path, sizeof path, "%s%s%s", root, folder, name) < (int)sizeof path)
        r->fd = open(path, O_RDONLY | O_CLOEXEC);
    return r->fd >= 0;
}

/* The first line of a file; false without one. */
static bool line_of(const char *root, const char *folder, const char *name, char *line,
                    size_t room) {
    struct lines r;
    if (!open_under(&r, root, folder, name)) return false;
    bool ok = next_line(&r, line, room);
    close(r.fd);
    return ok;
}

/* Cuts the text at the next `mark` and returns what follows: "" at the end. */
static char *cut(char *s, char mark) {
    char *end = strchrnul(s, mark);
    char *rest = *end ? end + 1 : end;
    *end = 0;
    return rest;
}

/* The number of the line "NAME 12" or "NAME:   12 kB" (12: no unit is looked at). */
static bool field(const char *root, const char *folder, const char *file, const char *name,
                  uint64_t *ret) {
    char line[256];
    struct lines r;
    bool found = false;
    if (!open_under(&r, root, folder, file)) return false;
    while (!found && next_line(&r, line, sizeof line)) {
        size_t n = strcspn(line, ": ");
        if (n != strlen(name) || strncmp(line, name, n) != 0) continue;
        char *number = line + n + strspn(line + n, ": \t");
        cut(number, ' ');
        found = qr_parse_u64(number, ret);
        break;
    }
    close(r.fd);
    return found;
}

static bool has_name(const char *list, const char *name) {
    size_t n = strlen(name);
    for (const char *at = list;; at++) {
        if (strncmp(at, name, n) == 0 && (at[n] == 0 || at[n] == ',')) return true;
        at = strchr(at, ',');
        if (!at) return false;
    }
}

/* ---- files of a group ---- */

static void take_quota(struct qr_cgroup *c, const char *quota, const char *period, const char *by) {
    uint64_t q, p;
    if (!qr_parse_u64(quota, &q) || !qr_parse_u64(period, &p) || q == 0 || p == 0) return;
    double cpus = (double)q / (double)p;
    if (c->cpus > 0 && c->cpus <= cpus) return;
    c->cpus = cpus;
    c->cpus_by = by;
}

/* "0-3,8\n": 5. 0 when it is no such list. */
static unsigned count_list(char *list) {
    uint64_t n = 0;
    while (*list) {
        char *rest = cut(list, ','), *last = cut(list, '-');
        uint64_t a, b;
        if (!qr_parse_u64(list, &a) || !qr_parse_u64(*last ? last : list, &b)) return 0;
        if (b < a || b - a >= UINT_MAX || (n += b - a + 1) > UINT_MAX) return 0;
        list = rest;
    }
    return (unsigned)n;
}

static void take_cpuset(struct qr_cgroup *c, char *list, const char *by) {
    unsigned n = count_list(list);
    if (n == 0 || (c->cpuset && c->cpuset <= n)) return;
    c->cpuset = n;
    c->cpuset_by = by;
}

/* How the two versions name what a group uses, and the caches in it. */
struct usage_names {
    const char *used, *inactive, *active;
};
static const struct usage_names names_v1 = {"/memory.usage_in_bytes", "total_inactive_file",
                                            "total_active_file"},
                                names_v2 = {"/memory.current", "inactive_file", "active_file"};

/* What a group with this limit has left. */
static void take_left(struct qr_cgroup *c, const char *root, const char *folder, uint64_t limit,
                      const struct usage_names *name) {
    char text[64];
    uint64_t used, inactive, active = 0;
    if (!line_of(root, folder, name->used, text, sizeof text) || !qr_parse_u64(text, &used) ||
        !field(root, folder, "/memory.stat", name->inactive, &inactive))
        return;
    (void)field(root, folder, "/memory.stat", name->active, &active);
    used = used > inactive ? used - inactive : 0;
    used = used > active ? used - active : 0;
    uint64_t left = limit > used ? limit - used : 0;
    if (left < c->memory_left) c->memory_left = left;
}

static void take_memory(struct qr_cgroup *c, const char *root, const char *folder, const char *text,
                        const char *by, const struct usage_names *name) {
    uint64_t n;
    if (!qr_parse_u64(text, &n) || n == 0) return;
    if (c->memory_left) take_left(c, root, folder, n, name);
    if (n >= c->memory_bytes) return;
    c->memory_bytes = n;
    c->memory_by = by;
}

static void read_cpu_v1(const char *root, const char *folder, struct qr_cgroup *c) {
    char quota[64], period[64];
    if (!line_of(root, folder, "/cpu.cfs_quota_us", quota, sizeof quota)) return;
    if (!c->cpu_version) c->cpu_version = 1;
    if (line_of(root, folder, "/cpu.cfs_period_us", period, sizeof period))
        take_quota(c, quota, period, "cgroup v1, cpu.cfs_quota_us");
}

static void read_cpuset_v1(const char *root, const char *folder, struct qr_cgroup *c) {
    char list[4096];
    if (line_of(root, folder, "/cpuset.effective_cpus", list, sizeof list))
        take_cpuset(c, list, "cgroup v1, cpuset.effective_cpus");
}

static void read_memory_v1(const char *root, const char *folder, struct qr_cgroup *c) {
    char text[64];
    if (!line_of(root, folder, "/memory.limit_in_bytes", text, sizeof text)) return;
    if (!c->memory_version) c->memory_version = 1;
    take_memory(c, root, folder, text, "cgroup v1, memory.limit_in_bytes", &names_v1);
}

static void read_v2(const char *root, const char *folder, struct qr_cgroup *c) {
    char text[4096];
    if (line_of(root, folder, "/cpu.max", text, sizeof text)) {
        const char *period = cut(text, ' ');
        if (!c->cpu_version) c->cpu_version = 2;
        take_quota(c, text, period, "cgroup v2, cpu.max");
    }
    if (line_of(root, folder, "/cpuset.cpus.effective", text, sizeof text))
        take_cpuset(c, text, "cgroup v2, cpuset.cpus.effective");
    if (line_of(root, folder, "/memory.max", text, sizeof text)) {
        if (!c->memory_version) c->memory_version = 2;
        take_memory(c, root, folder, text, "cgroup v2, memory.max", &names_v2);
    }
    if (line_of(root, folder, "/memory.high", text, sizeof text))
        take_memory(c, root, folder, text, "cgroup v2, memory.high", &names_v2);
}

/* ---- where the group is ---- */

/* Controllers have one hierarchy each in v1; v2's has the empty name. */
static const struct hierarchy {
    const char *controller, *usual; /* usual: where it is mounted, also where nothing says so */
    void (*read)(const char *root, const char *folder, struct qr_cgroup *c);
} hierarchies[] = {
    {"", "/sys/fs/cgroup", read_v2},
    {"cpu", "/sys/fs/cgroup/cpu", read_cpu_v1},
    {"cpuset", "/sys/fs/cgroup/cpuset", read_cpuset_v1},
    {"memory", "/sys/fs/cgroup/memory", read_memory_v1},
};
enum { N_HIERARCHIES = sizeof hierarchies / sizeof *hierarchies };

/* The process's group in a hierarchy, from "ID:CONTROLLERS:PATH" lines. */
static bool own_path(const char *root, const char *controller, char path[PATH_MAX]) {
    char line[PATH_MAX + 256];
    struct lines r;
    bool found = false;
    if (!open_under(&r, root, "", "/proc/self/cgroup")) return false;
    while (!found && next_line(&r, line, sizeof line)) {
        char *controllers = cut(line, ':'), *at = cut(controllers, ':');
        found = *controller ? has_name(controllers, controller)
                            : !*controllers && strcmp(line, "0") == 0;
        found = found && strlen(at) < PATH_MAX;
        if (found) memcpy(path, at, strlen(at) + 1);
    }
    close(r.fd);
    return found;
}

/* What of the path is below what is mounted; NULL where it is not below it, or nobody can say. */
static const char *below(const char *path, const char *mounted) {
    size_t n = strcmp(mounted, "/") == 0 ? 0 : strlen(mounted);
    if (strncmp(path, mounted, n) != 0 || (path[n] && path[n] != '/')) return NULL;
    for (const char *at = path + n; (at = strstr(at, "/..")); at += 3)
        if (at[3] == '/' || !at[3]) return NULL;
    return path[n] && path[n + 1] ? path + n : "";
}

/* The group's files and those of the groups above it. */
static void read_group(const char *root, const struct hierarchy *h, const char *mounted,
                       const char *point, struct qr_cgroup *c) {
    char own[PATH_MAX], folder[PATH_MAX];
    const char *rest = own_path(root, h->controller, own) ? below(own, mounted) : NULL;
    size_t top = strlen(point);
    if (!rest || snprintf(folder, sizeof folder, "%s%s", point, rest) >= (int)sizeof folder) return;
    while (strlen(folder) > top) {
        h->read(root, folder, c);
        *strrchr(folder, '/') = 0;
    }
    h->read(root, point, c);
}

/* mountinfo writes blanks, tabs, line ends and backslashes as \040 and so on. */
static void unescape(char *s) {
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

/* "31 23 0:28 / /sys/fs/cgroup rw,relatime shared:4 - cgroup2 cgroup2 rw": the group that is
 * mounted, where, and the file system with its options. */
static void read_mount(const char *root, char *line, struct qr_cgroup *c) {
    char *dash = strstr(line, " - ");
    if (!dash) return;
    char *type = dash + 3, *source = cut(type, ' '), *options = cut(source, ' ');
    bool v1 = strcmp(type, "cgroup") == 0;
    if (!v1 && strcmp(type, "cgroup2") != 0) return;
    *dash = 0;
    char *mounted = line;
    for (int i = 0; i < 3; i++) mounted = cut(mounted, ' ');
    char *point = cut(mounted, ' ');
    cut(point, ' ');
    unescape(mounted);
    unescape(point);
    for (int i = 0; i < N_HIERARCHIES; i++) {
        const struct hierarchy *h = &hierarchies[i];
        bool of_it = v1 ? *h->controller && has_name(options, h->controller) : !*h->controller;
        if (of_it) read_group(root, h, mounted, point, c);
    }
}

static void read_all(const char *root, struct qr_cgroup *c) {
    char line[2 * PATH_MAX + 512];
    struct lines r;
    if (open_under(&r, root, "", "/proc/self/mountinfo")) {
        while (next_line(&r, line, sizeof line)) read_mount(root, line, c);
        close(r.fd);
    }
    for (int i = 0; i < N_HIERARCHIES; i++) hierarchies[i].read(root, hierarchies[i].usual, c);
}

void qr_cgroup_read(const char *root, struct qr_cgroup *ret) {
    *ret = (struct qr_cgroup){.memory_bytes = UINT64_MAX};
    read_all(root, ret);
}

/* ---- what is left ---- */

/* Of a file in kB; 0 where it is not told, or cannot be. */
static uint64_t bytes_of(const char *root, const char *file, const char *name) {
    uint64_t kib = 0;
    return field(root, "/proc", file, name, &kib) && kib < UINT64_C(1) << 50 ? kib << 10 : 0;
}

uint64_t qr_memory_available_under(const char *root, uint64_t limit) {
    struct qr_cgroup c = {.memory_bytes = UINT64_MAX, .memory_left = UINT64_MAX};
    uint64_t machine = bytes_of(root, "/meminfo", "MemAvailable");
    read_all(root, &c);
    uint64_t left = c.memory_left;
    if (machine) machine += bytes_of(root, "/meminfo", "SwapFree");
    if (machine && machine < left) left = machine;
    uint64_t own = bytes_of(root, "/self/status", "VmRSS");
    return left < limit && own < limit - left ? left + own : limit;
}

struct qr_memory_kills qr_memory_kills_under(const char *root) {
    struct qr_memory_kills k = {0};
    uint64_t v1 = 0;
    (void)field(root, "/sys/fs/cgroup", "/memory.events", "oom_kill", &k.group);
    if (field(root, "/sys/fs/cgroup/memory", "/memory.oom_control", "oom_kill", &v1) &&
        v1 > k.group)
        k.group = v1;
    (void)field(root, "/proc", "/vmstat", "oom_kill", &k.machine);
    return k;
}
