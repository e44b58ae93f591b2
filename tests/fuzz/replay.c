/* Runs a fuzz target on every file of its corpus: fuzz_NAME.replay reads tests/fuzz/corpus/NAME.
 * Works with any compiler and in any build. */
#include <dirent.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/stat.h>

#include "tests/t.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int by_name(const void *a, const void *b) {
    return strcmp(*(char *const *)a, *(char *const *)b);
}

/* Copies the input to a heap block of exactly its size, so that a sanitizer detects a read past the
 * end. */
static bool one(const char *path) {
    FILE *f = fopen(path, "rb");
    struct stat st;
    if (!f || fstat(fileno(f), &st) != 0) {
        if (f) fclose(f);
        return false;
    }
    size_t n = (size_t)st.st_size;
    uint8_t *data = malloc(n ? n : 1);
    bool whole = data && fread(data, 1, n, f) == n;
    fclose(f);
    if (whole) LLVMFuzzerTestOneInput(data, n);
    free(data);
    return whole;
}

int main(int argc, char **argv) {
    (void)argc;
    const char *base = strrchr(argv[0], '/');
    char name[128], dir[256], path[768];
    snprintf(name, sizeof name, "%s", base ? base + 1 : argv[0]);
    char *dot = strstr(name, ".replay");
    if (dot) *dot = 0;
    snprintf(dir, sizeof dir, "tests/fuzz/corpus/%s",
             strncmp(name, "fuzz_", 5) == 0 ? name + 5 : name);

    char *files[4096];
    size_t n = 0;
    DIR *d = opendir(dir);
    CHECK(d != NULL, "%s", dir);
    if (!d) return t_end();
    for (struct dirent *e; (e = readdir(d)) && n < COUNT(files);)
        if (e->d_name[0] != '.') files[n++] = strdup(e->d_name);
    closedir(d);
    qsort(files, n, sizeof files[0], by_name);
    CHECK(n > 0, "%s is empty", dir);
    for (size_t i = 0; i < n; i++) {
        snprintf(path, sizeof path, "%s/%s", dir, files[i]);
        fprintf(stderr, "%s\n", path); /* the last name in the log is the input that crashed */
        CHECK(one(path), "%s cannot be read", path);
        free(files[i]);
    }
    return t_end();
}
