#include "tests/support/ports.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <unistd.h>

enum { FIRST = 10000, LAST = 32000 }; /* as in tests/free_ports.py */

static bool is_free(unsigned port) {
    struct sockaddr_in a = {.sin_family = AF_INET,
                            .sin_addr.s_addr = htonl(INADDR_LOOPBACK),
                            .sin_port = htons((uint16_t)port)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), yes = 1;
    bool ret = setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes) == 0 &&
               bind(fd, (struct sockaddr *)&a, sizeof a) == 0;
    close(fd);
    return ret;
}

unsigned test_port(void) {
    char path[4096], text[16] = "";
    const char *folder = getenv("TMPDIR");
    snprintf(path, sizeof path, "%s/qring-test-ports-%u", folder && *folder ? folder : "/tmp",
             (unsigned)getuid());
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (fd < 0 || flock(fd, LOCK_EX) != 0 || read(fd, text, sizeof text - 1) < 0) return 0;
    unsigned last = (unsigned)strtoul(text, NULL, 10), tries = 0;
    do last = FIRST <= last && last < LAST ? last + 1 : FIRST;
    while (!is_free(last) && ++tries <= LAST - FIRST);
    int n = snprintf(text, sizeof text, "%u", last);
    bool kept = ftruncate(fd, 0) == 0 && pwrite(fd, text, (size_t)n, 0) == n;
    close(fd);
    return kept && tries <= LAST - FIRST ? last : 0;
}
