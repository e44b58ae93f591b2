/* store/object_names.c — the list of names that a store's list() returns. Start reading at
 * qr_names_write_sorted(). */
#include "store/object_names_impl.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"

bool qr_names_add(struct qr_names *names, const char *name) {
    if (names->n == QR_NAMES_MAX) return false;
    if ((names->n & (names->n - 1)) == 0)
        names->v = qr_xreallocarray(names->v, names->n ? 2 * names->n : 1, sizeof *names->v);
    names->v[names->n++] = qr_xstrdup(name);
    return true;
}

static int compare_names(const void *a, const void *b) {
    return strcmp(*(char *const *)a, *(char *const *)b);
}

void qr_names_cut(struct qr_names *names, size_t n) {
    while (names->n > n) free(names->v[--names->n]);
    if (n) return;
    free(names->v);
    *names = (struct qr_names){0};
}

void qr_names_write_sorted(struct qr_names *names, struct qr_buf *ret) {
    qr_buf_clear(ret);
    if (names->n) qsort(names->v, names->n, sizeof *names->v, compare_names);
    for (size_t i = 0; i < names->n; i++) qr_buf_printf(ret, "%s%s", i ? "\n" : "", names->v[i]);
}
