/* tests/support/ports.h — ports for tests that are told a port before anything listens there. */
#ifndef TESTS_SUPPORT_PORTS_H
#define TESTS_SUPPORT_PORTS_H

/* Returns a free port on loopback, or 0. Shares the counter of tests/free_ports.py: test programs
 * that run in parallel get each port once, and none is from the kernel's range of ephemeral ports,
 * where a connection could take it before the test listens. */
unsigned test_port(void);

#endif
