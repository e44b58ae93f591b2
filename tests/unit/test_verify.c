/* Chain of a file of lines: every changed byte and every deleted, inserted or swapped line is
 * found, also where the chain was computed anew. Statements are read back; a signature fails for
 * every changed bit. */
#include "tests/t.h"

#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/mem.h"
#include "record/envelope.h"
#include "record/provenance.h"
#include "record/result.h"
#include "verify/chain_check.h"
#include "verify/replay.h"

enum { EPOCHS = 4, BATCHES = 3, LINES = EPOCHS * (BATCHES + 1) };
static uint8_t first[QR_CHAIN_BYTES];
static struct qr_buf line[LINES];

/* Appends a line that follows from this chain, which then is that of the line. */
static void put_line(uint8_t *chain, uint64_t step, uint64_t epoch, bool eval, size_t i,
                     struct qr_buf *ret) {
    struct qr_step_line l = {
        .step = step, .epoch = epoch, .eval = eval, .samples = 4, .loss = 1.0 / (double)(i + 3)};
    qr_auto(qr_buf_free) struct qr_buf text = {0};
    snprintf(l.state_digest, sizeof l.state_digest, "%032zx", i + 1);
    qr_step_json(&l, &text);
    qr_chain_next(chain, qr_bytes_of(text.p, text.n - 2), chain);
    qr_hex(chain, QR_CHAIN_BYTES, l.chain);
    qr_step_json(&l, ret);
}

static void make_lines(void) {
    uint8_t chain[QR_CHAIN_BYTES];
    qr_chain_begin("job", "data", "f32-v1", first);
    memcpy(chain, first, sizeof chain);
    for (size_t i = 0; i < LINES; i++) {
        size_t epoch = i / (BATCHES + 1), batch = i % (BATCHES + 1);
        put_line(chain, epoch * BATCHES + (batch < BATCHES ? batch + 1 : BATCHES), epoch + 1,
                 batch == BATCHES, i, &line[i]);
    }
}

/* The file of these lines. */
static struct qr_buf file_of(const size_t *at, size_t n) {
    struct qr_buf b = {0};
    for (size_t i = 0; i < n; i++) qr_buf_put(&b, line[at[i]].p, line[at[i]].n);
    return b;
}

static void check_why(const struct qr_buf *file, const char *why) {
    struct qr_chain c;
    qr_chain_check(qr_buf_view(file), first, &c);
    CHECK((c.state == QR_CHAIN_INTACT) == !*why && strstr(c.why, why), "%s, not %s", c.why, why);
    qr_chain_fini(&c);
}

static void check_order(const size_t *at, size_t n, const char *why) {
    qr_auto(qr_buf_free) struct qr_buf file = file_of(at, n);
    check_why(&file, why);
}

static size_t order[LINES + 1];
static void reset_order(void) {
    for (size_t i = 0; i < LINES; i++) order[i] = i;
}

static void test_lines(void) {
    reset_order();
    check_order(order, LINES, "");
    check_order(order, 0, "there is no line");
    struct qr_chain c;
    qr_auto(qr_buf_free) struct qr_buf file = file_of(order, LINES);
    qr_chain_check(qr_buf_view(&file), NULL, &c);
    CHECK(c.state == QR_CHAIN_INTACT && c.n == LINES);
    const struct qr_chain_line *l = qr_chain_find(&c, 2 * BATCHES, true);
    CHECK(l && l->eval && l->step == 2 * BATCHES && !qr_chain_find(&c, 1, true) &&
          !qr_chain_find(&c, EPOCHS * BATCHES + 1, false));
    qr_chain_fini(&c);
    for (size_t i = 0; i + 1 < LINES; i++) { /* without the last line, the file is a shorter run */
        reset_order();
        memmove(order + i, order + i + 1, (LINES - i - 1) * sizeof *order);
        check_order(order, LINES - 1, i == 3 ? "line 4" : i % 4 == 3 ? "is missing" : "line");
        reset_order();
        order[i] = i + 1;
        order[i + 1] = i;
        check_order(order, LINES, "were swapped");
        for (size_t k = 0; k < LINES; k++) {
            reset_order();
            memmove(order + i + 1, order + i, (LINES - i) * sizeof *order);
            order[i] = k;
            if (k != i) check_order(order, LINES + 1, k + 1 == i ? "line" : "was inserted");
        }
    }
}

/* Lines whose chain is intact, in an order that no run has. A step is 10 * step + evaluation. */
static void test_forged_order(void) {
    static const struct {
        const char *why;
        size_t n_in_place, n;
        uint64_t at[8];
    } cases[] = {
        {"", 3, 3, {10, 20, 30}},
        {"", 6, 6, {10, 20, 21, 30, 40, 41}},
        {"", 5, 5, {10, 20, 21, 30, 40}}, /* stopped before the evaluation */
        {"lines are missing before line 1: step 2", 0, 1, {20}},
        {"lines are missing before line 1: the evaluation of step 1", 0, 1, {11}},
        {"lines are missing before line 2: step 999999999999999", 1, 2, {10, 9999999999999990}},
        {"lines are missing before line 3: step 4", 2, 3, {10, 20, 40}},
        {"lines are missing before line 3: the evaluation of step 3", 2, 3, {10, 20, 31}},
        {"line 3 (step 2) is out of order: it follows step 2", 2, 3, {10, 20, 20}},
        {"line 3 (step 1) is out of order", 2, 3, {10, 20, 10}},
        {"line 4 (the evaluation of step 2) is out of order", 3, 4, {10, 20, 21, 21}},
        {"the evaluation of step 4 is missing before line 6", 6, 6, {10, 20, 21, 30, 40, 50}},
        {"line 5 (the evaluation of step 3) is out of order", 5, 5, {10, 20, 21, 30, 31}},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        qr_auto(qr_buf_free) struct qr_buf file = {0};
        uint8_t chain[QR_CHAIN_BYTES];
        struct qr_chain c;
        memcpy(chain, first, sizeof chain);
        for (size_t k = 0; k < cases[i].n; k++)
            put_line(chain, cases[i].at[k] / 10, 1, cases[i].at[k] % 10, k, &file);
        check_why(&file, cases[i].why);
        qr_chain_check(qr_buf_view(&file), first, &c);
        CHECK(c.n_in_place == cases[i].n_in_place, "%zu: %zu in place", i, c.n_in_place);
        qr_chain_fini(&c);
    }
}

/* Any changed byte. */
static void test_bytes(void) {
    reset_order();
    qr_auto(qr_buf_free) struct qr_buf file = file_of(order, LINES);
    size_t found = 0;
    for (size_t i = 0; i < file.n; i++) {
        struct qr_chain c;
        file.p[i] ^= 1;
        qr_chain_check(qr_buf_view(&file), first, &c);
        found += c.state == QR_CHAIN_BROKEN;
        qr_chain_fini(&c);
        file.p[i] ^= 1;
    }
    CHECK(found == file.n, "%zu of %zu changed bytes found", found, file.n);
    for (size_t n = 1; n < line[0].n; n++) {
        struct qr_buf cut = {.p = file.p, .n = file.n - n};
        check_why(&cut, n < line[LINES - 1].n ? "is cut off" : "");
    }
    /* An intact chain of another job. */
    first[0] ^= 1;
    check_why(&file, "line 1 does not follow from job hash");
    first[0] ^= 1;
}

static void test_before_chains(void) {
    qr_auto(qr_buf_free) struct qr_buf old = {0};
    struct qr_chain c;
    for (uint64_t i = 1; i < 4; i++)
        qr_step_json(&(struct qr_step_line){.step = i, .epoch = 1}, &old);
    qr_chain_check(qr_buf_view(&old), first, &c);
    CHECK(c.state == QR_CHAIN_MISSING && strstr(c.why, "no chain"), "%s", c.why);
    qr_chain_fini(&c);
    /* Malformed lines after them do not change that, but a chain does. */
    qr_buf_puts(&old, "hello\n");
    check_why(&old, "no chain");
    qr_buf_put(&old, line[4].p, line[4].n);
    check_why(&old, "line 1 was changed");
}

static struct qr_provenance statement(void) {
    struct qr_provenance p = {.arithmetic = "f64-v1", .program = "0.1.0"};
    memset(p.job_hash, 'a', 64);
    memset(p.data_hash, 'b', 64);
    memset(p.chain, 'c', 64);
    memset(p.state_digest, 'd', 32);
    qr_provenance_add(&p.files, &p.n_files, "weights.h5", p.job_hash);
    qr_provenance_add(&p.files, &p.n_files, "gs://b/w.h5", p.data_hash);
    qr_provenance_add(&p.fields, &p.n_fields, "seed", "7");
    return p;
}

static void test_statement(void) {
    qr_auto(qr_provenance_fini) struct qr_provenance p = statement(), back = {0};
    qr_auto(qr_buf_free) struct qr_buf text = {0};
    struct qr_err err = {0};
    qr_provenance_json(&p, &text);
    CHECK(qr_provenance_read(qr_buf_view(&text), "p.json", &back, &err) == QR_OK, "%s", err.msg);
    CHECK(strcmp(back.job_hash, p.job_hash) == 0 && strcmp(back.chain, p.chain) == 0 &&
          strcmp(back.data_hash, p.data_hash) == 0 && strcmp(back.arithmetic, "f64-v1") == 0 &&
          strcmp(back.state_digest, p.state_digest) == 0 && strcmp(back.program, "0.1.0") == 0);
    CHECK(back.n_files == 2 && strcmp(back.files[1].name, "gs://b/w.h5") == 0 &&
          strcmp(qr_provenance_find(back.fields, back.n_fields, "seed"), "7") == 0 &&
          !qr_provenance_find(back.fields, back.n_fields, "speed"));
    /* Each value malformed, or missing. */
    static const char *const odd[] = {"in-toto.io/Statement/v1",
                                      "slsa.dev",
                                      "urn:qring:training",
                                      "aaaaaaaa",
                                      "bbbbbbbb",
                                      "dddddddd",
                                      "\"f64-v1\"",
                                      "\"0.1.0\"",
                                      "\"subject\"",
                                      "\"predicate\"",
                                      "\"job\""};
    for (size_t i = 0; i < COUNT(odd); i++) {
        struct qr_provenance none = {0};
        qr_auto(qr_buf_free) struct qr_buf changed = {0};
        qr_buf_put(&changed, text.p, text.n);
        uint8_t *at = memmem(changed.p, changed.n, odd[i], strlen(odd[i]));
        CHECK(at != NULL, "%s", odd[i]);
        if (at) at[1] = at[1] == 'X' ? 'Y' : 'X';
        if (odd[i][0] == '"' && (i == 6 || i == 7)) continue; /* any short text is valid */
        CHECK(qr_provenance_read(qr_buf_view(&changed), "p.json", &none, &err) == QR_DATA_LOSS &&
                  strstr(err.msg, "p.json"),
              "%s", odd[i]);
    }
}

/* RFC 8410's example key, and its public part. */
static const char private_key[] =
    "-----BEGIN PRIVATE KEY-----\n"
    "MC4CAQAwBQYDK2VwBCIEINTuctv5E1hK1bbY8fdp+K06/nwoy/HU++CXqI9EdVhC\n"
    "-----END PRIVATE KEY-----\n";
static const char public_key[] = "-----BEGIN PUBLIC KEY-----\n"
                                 "MCowBQYDK2VwAyEAGb9ECWmEzf6FQbrBZ9w7lshQhqowtrbLDFw4rXAxZuE=\n"
                                 "-----END PUBLIC KEY-----\n";

static bool signed_by(const struct qr_envelope *e, const char *path) {
    struct qr_err err;
    char id[65];
    bool good = false;
    CHECK(qr_envelope_check(e, path, &good, id, &err) == QR_OK, "%s", err.msg);
    return good;
}

static void test_signature(const char *dir) {
    qr_auto(qr_free_p) char *private = qr_path_join(dir, "key"), *public = qr_path_join(dir, "pub");
    qr_auto(qr_buf_free) struct qr_buf text = {0};
    struct qr_signing_key *key = NULL, *none = NULL;
    struct qr_envelope e = {0}, odd = {0};
    struct qr_err err;
    char id[65];
    bool good;
    CHECK(qr_file_replace(private, qr_bytes_of_string(private_key), &err) == QR_OK);
    CHECK(qr_file_replace(public, qr_bytes_of_string(public_key), &err) == QR_OK);
    CHECK(qr_signing_key_read(private, &key, &err) == QR_OK, "%s", err.msg);
    if (!key) return;
    CHECK(qr_envelope_sign(key, qr_bytes_of_string("{\"a\":1}"), &text, &err) == QR_OK);
    CHECK(qr_envelope_read(qr_buf_view(&text), "e", &e, &err) == QR_OK, "%s", err.msg);
    CHECK(strcmp(qr_buf_string(&e.statement), "{\"a\":1}") == 0 && signed_by(&e, public));
    for (size_t i = 0; i < 8 * sizeof e.signature; i++) {
        e.signature[i / 8] ^= (uint8_t)(1 << i % 8);
        CHECK(!signed_by(&e, public), "bit %zu", i);
        e.signature[i / 8] ^= (uint8_t)(1 << i % 8);
    }
    e.statement.p[0] ^= 1;
    CHECK(!signed_by(&e, public));
    /* A public key instead of a private one, and the other way round; a missing file. */
    CHECK(qr_signing_key_read(public, &none, &err) == QR_INVALID_ARGUMENT &&
          strstr(err.msg, "no Ed25519 private key") && strstr(err.msg, public));
    CHECK(qr_envelope_check(&e, private, &good, id, &err) == QR_INVALID_ARGUMENT);
    CHECK(qr_signing_key_read("/none/key", &none, &err) == QR_NOT_FOUND && !none);
    static const char *const bad[] = {
        "",
        "[]",
        "{}",
        "{\"payloadType\":\"application/vnd.in-toto+json\",\"payload\":\"e30=\"}",
        "{\"payloadType\":\"application/vnd.in-toto+json\",\"payload\":\"e30=\",\"signatures\":[{"
        "\"sig\":\"e30=\"}]}",
        "{\"payloadType\":\"application/vnd.in-toto+json\",\"payload\":\"e3\",\"signatures\":[]}"};
    for (size_t i = 0; i < COUNT(bad); i++)
        CHECK(qr_envelope_read(qr_bytes_of_string(bad[i]), "e", &odd, &err) == QR_DATA_LOSS, "%zu",
              i);
    qr_envelope_fini(&e);
    qr_signing_key_free(key);
    unlink(private);
    unlink(public);
}

static void test_compare(void) {
    struct qr_tensors a = {0}, b = {0};
    struct qr_replay r = {0};
    const size_t n = 3;
    const double x[] = {1, 2, 3}, y[] = {1, 2, 3.0000000000000004};
    for (int i = 0; i < 2; i++) {
        qr_tensors_add(&a, i ? "second" : "first", 1, &n, x);
        qr_tensors_add(&b, i ? "second" : "first", 1, &n, i ? y : x);
    }
    CHECK(!qr_replay_compare(&a, &a, &r) && !*r.tensor);
    CHECK(qr_replay_compare(&a, &b, &r) && strcmp(r.tensor, "second") == 0 && r.element == 2 &&
          r.recorded_number == x[2] && r.computed_number == y[2]);
    qr_tensors_free(&a);
    qr_tensors_free(&b);
}

int main(void) {
    char dir[] = "/tmp/qring-verify-XXXXXX";
    CHECK(mkdtemp(dir) != NULL);
    make_lines();
    test_lines();
    test_forged_order();
    test_bytes();
    test_before_chains();
    test_statement();
    test_signature(dir);
    test_compare();
    for (size_t i = 0; i < LINES; i++) qr_buf_free(&line[i]);
    rmdir(dir);
    return t_end();
}
