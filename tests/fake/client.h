/* tests/fake/client.h — a client of tests/fake/gcs.py for tests that make calls fail, in virtual
 * time, and a store without faults beside it. Include tests/fake/guard.h too, once in the program.
 */
#ifndef FAKE_CLIENT_H
#define FAKE_CLIENT_H

#include <stdbool.h>

#include "base/mem.h"
#include "store/store.h"
#include "tests/fake/fake.h"

extern char fake_host[64]; /* of the fake */
enum { TEXT_MAX = 16 << 20 };

/* A store over the fake at an address: a failure that lasts becomes an error after 20 s of virtual
 * time. NULL on failure. */
struct qr_store *opened(const char *at);
/* The store without faults. One for each process, because processes cannot share a connection; it
 * stays open so that calls are quick. */
struct qr_store *plain(void);
/* The content of an object, until the next call; "" if there is none, the error if it cannot be
 * read. */
const char *text_of(const char *name);
void put_text(const char *name, const char *text);
void remove_text(const char *name);
/* text is one or the other. */
bool is(const char *text, const char *one, const char *other);

#endif
