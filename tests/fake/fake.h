/* tests/fake/fake.h — starts tests/fake/gcs.py, s3.py or https.py beside a test program. */
#ifndef FAKE_H
#define FAKE_H

#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/t.h"

/* ret_host: "127.0.0.1:PORT". Returns -1 if there is no Python. The server exits with this process,
 * or by SIGTERM. */
static inline pid_t start_fake_with(const char *program, const char *a, const char *b,
                                    const char *c, char *ret_host, size_t bytes) {
    int fd[2];
    char line[16] = "";
    if (access("/usr/bin/python3", X_OK) != 0 || pipe(fd) != 0) return -1;
    pid_t pid = fork();
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        dup2(fd[1], 1);
        execl("/usr/bin/python3", "python3", "-B", program, a, b, c, (char *)NULL);
        _exit(127);
    }
    close(fd[1]);
    FILE *f = fdopen(fd[0], "r");
    CHECK(f && fgets(line, sizeof line, f) != NULL, "the fake did not start");
    if (f) fclose(f);
    line[strcspn(line, "\n")] = 0;
    snprintf(ret_host, bytes, "127.0.0.1:%s", line);
    return pid;
}
static inline pid_t start_fake_of(const char *program, char *ret_host, size_t bytes) {
    return start_fake_with(program, NULL, NULL, NULL, ret_host, bytes);
}
static inline pid_t start_fake(char *ret_host, size_t bytes) {
    return start_fake_of("tests/fake/gcs.py", ret_host, bytes);
}

#endif
