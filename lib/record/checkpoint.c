/* record/checkpoint.c — encodes, decodes and verifies checkpoint files and LATEST;
 * checkpoint_store.c stores them. Start reading at qr_checkpoint_encode(). */
#include "record/checkpoint.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/checksum.h"
#include "base/mem.h"
#include "base/parse.h"
#include "base/text.h"
#include "format/json.h"
#include "format/safetensors.h"
#include "record/checkpoint_impl.h"

#define FORMAT_NAME "qring-checkpoint/"
#define WHOLE_KEY "\"crc32c\":\""
#define CHECK_KEY "\"check\":\""
enum { CRC_CHARS = 8, HASH_CHARS = 64, DIGEST_CHARS = 32, MAX_STATE_VALUES = 1 << 27 };

const char *const qr_checkpoint_non_weights[] = {"optimizer/", "epoch/", "early_stopping/",
                                                 "validation/", NULL};

void qr_checkpoint_fini(struct qr_checkpoint *c) {
    qr_tensors_free(&c->tensors);
    *c = (struct qr_checkpoint){0};
}

/* ---- checksums ---- */

static void crc_to_hex(uint32_t crc, char ret[CRC_CHARS + 1]) {
    snprintf(ret, CRC_CHARS + 1, "%08" PRIx32, crc);
}

/* crc32c of all bytes, with the eight digits at `at` replaced by zeros. */
static uint32_t crc_with_zeros_at(struct qr_bytes b, size_t at) {
    uint32_t crc = qr_crc32c(0, b.p, at);
    crc = qr_crc32c(crc, "00000000", CRC_CHARS);
    return qr_crc32c(crc, b.p + at + CRC_CHARS, b.n - at - CRC_CHARS);
}

/* True when the checksum in the text at `at` matches the rest. */
static bool crc_matches_at(struct qr_bytes b, size_t at) {
    char want[CRC_CHARS + 1];
    crc_to_hex(crc_with_zeros_at(b, at), want);
    return memcmp(b.p + at, want, CRC_CHARS) == 0;
}

static void crc_insert(struct qr_buf *b, size_t begin, size_t at) {
    char text[CRC_CHARS + 1];
    crc_to_hex(crc_with_zeros_at(qr_bytes_of(b->p + begin, b->n - begin), at - begin), text);
    memcpy(b->p + at, text, CRC_CHARS);
}

static uint32_t checkpoint_tensor_crc(const struct qr_tensor *t) {
    uint32_t crc = 0;
    uint8_t b[1024];
    for (size_t i = 0, n; i < t->n; i += n) {
        n = t->n - i < sizeof b / 8 ? t->n - i : sizeof b / 8;
        for (size_t k = 0; k < n; k++) qr_set_u64le(b + 8 * k, qr_bits_of_double(t->values[i + k]));
        crc = qr_crc32c(crc, b, 8 * n);
    }
    return crc;
}

void qr_checkpoint_digest(const struct qr_checkpoint *c, char ret[33]) {
    qr_auto(qr_buf_free) struct qr_buf b = {.max = (size_t)MAX_STATE_VALUES * 8};
    uint8_t counters[16], digest[QR_XXH3_BYTES];
    qr_buf_puts(&b, c->contract);
    qr_set_u64le(counters, c->step);
    qr_set_u64le(counters + 8, c->epoch);
    qr_buf_put(&b, counters, sizeof counters);
    for (size_t i = 0; i < c->n_digested && i < c->tensors.n; i++)
        qr_buf_put_doubles(&b, c->tensors.v[i].values, c->tensors.v[i].n);
    qr_xxh3(b.p, b.n, digest);
    qr_hex(digest, sizeof digest, ret);
    /* A state larger than any that can be saved: no file has this digest. */
    if (!qr_buf_ok(&b)) memset(ret, '0', DIGEST_CHARS);
}

/* ---- the file ---- */

enum qr_code qr_checkpoint_encode(const struct qr_checkpoint *c, struct qr_buf *ret,
                                  uint32_t *ret_crc32c, struct qr_err *err) {
    const uint64_t numbers[] = {QR_CHECKPOINT_FORMAT, c->step, c->epoch, c->reductions,
                                c->n_digested};
    char text[5][48], digest[33];
    qr_checkpoint_digest(c, digest);
    if (strcmp(digest, c->digest) != 0)
        return qr_fail(err, QR_INTERNAL,
                       "the state of step %" PRIu64
                       " has digest %s, expected %s: it was damaged in memory",
                       c->step, digest, c->digest);
    for (int i = 0; i < 5; i++)
        snprintf(text[i], sizeof text[i], "%s%" PRIu64, i ? "" : FORMAT_NAME, numbers[i]);
    const struct qr_metadata own[] = {{"format", text[0]},       {"contract", c->contract},
                                      {"job_hash", c->job_hash}, {"step", text[1]},
                                      {"epoch", text[2]},        {"reductions", text[3]},
                                      {"digest", c->digest},     {"digested", text[4]},
                                      {"crc32c", "00000000"},    {"chain", c->chain}};
    size_t n = sizeof own / sizeof *own - !*c->chain, begin = ret->n;
    qr_auto(qr_free_p) struct qr_metadata *m = qr_xcalloc(n + c->tensors.n, sizeof *m);
    struct tensor_crc {
        char *key, hex[CRC_CHARS + 1];
    } *crc = qr_xcalloc(c->tensors.n, sizeof *crc);
    memcpy(m, own, n * sizeof *own);
    for (size_t i = 0; i < c->tensors.n; i++) {
        crc_to_hex(checkpoint_tensor_crc(&c->tensors.v[i]), crc[i].hex);
        crc[i].key = qr_xasprintf("crc32c/%s", c->tensors.v[i].name);
        m[n + i] = (struct qr_metadata){crc[i].key, crc[i].hex};
    }
    qr_safetensors_write(&c->tensors, m, n + c->tensors.n, ret);
    for (size_t i = 0; i < c->tensors.n; i++) free(crc[i].key);
    free(crc);
    if (!qr_buf_ok(ret))
        return qr_fail(err, QR_RESOURCE_EXHAUSTED,
                       "the state of step %" PRIu64 " is larger than a file of 1 GiB", c->step);
    const uint8_t *key = memmem(ret->p + begin, ret->n - begin, WHOLE_KEY, strlen(WHOLE_KEY));
    QR_ASSERT(key != NULL);
    crc_insert(ret, begin, (size_t)(key - ret->p) + strlen(WHOLE_KEY));
    if (ret_crc32c) *ret_crc32c = qr_crc32c(0, ret->p + begin, ret->n - begin);
    return QR_OK;
}

/* "" when metadata is NULL, or lacks the key. */
static const char *checkpoint_metadata_text(const struct qr_json *metadata, const char *key) {
    return qr_json_text(qr_json_get(metadata, key), "");
}

bool qr_checkpoint_is(struct qr_bytes file) {
    qr_auto(qr_json_free_p) struct qr_json *root = NULL;
    if (qr_safetensors_header(file, "", &root, QR_IGNORED) != QR_OK) return false;
    const struct qr_json *metadata = qr_json_get(root, "__metadata__");
    return strncmp(checkpoint_metadata_text(metadata, "format"), FORMAT_NAME,
                   strlen(FORMAT_NAME)) == 0;
}

/* *err holds the reader's error, "what: reason"; replaces it with one about the damaged header. */
static enum qr_code checkpoint_fail_header(const char *what, struct qr_err *err) {
    struct qr_err why = *err;
    size_t n = strlen(what);
    const char *reason =
        strncmp(why.msg, what, n) == 0 && why.msg[n] == ':' ? why.msg + n + 2 : why.msg;
    return qr_fail(err, why.code, "%s is damaged: its header is malformed (%s)", what, reason);
}

/* True when the whole file's checksum, at whole_at, would match with these digits at `at`. */
static bool checkpoint_crc_matches_with(struct qr_bytes file, size_t whole_at, size_t at,
                                        const char digits[CRC_CHARS + 1]) {
    const bool first = at < whole_at;
    const size_t low = first ? at : whole_at, high = first ? whole_at : at;
    char want[CRC_CHARS + 1];
    if (high - low < CRC_CHARS) return false; /* overlapping digits: not written by qring */
    uint32_t crc = qr_crc32c(0, file.p, low);
    crc = qr_crc32c(crc, first ? digits : "00000000", CRC_CHARS);
    crc = qr_crc32c(crc, file.p + low + CRC_CHARS, high - low - CRC_CHARS);
    crc = qr_crc32c(crc, first ? "00000000" : digits, CRC_CHARS);
    crc_to_hex(qr_crc32c(crc, file.p + high + CRC_CHARS, file.n - high - CRC_CHARS), want);
    return memcmp(file.p + whole_at, want, CRC_CHARS) == 0;
}

/* Position of the digits that follow this key in the header; 0 when the key is missing. */
static size_t checkpoint_find_crc(struct qr_bytes file, const char *key) {
    size_t header = 8 + (size_t)qr_get_u64le(file.p);
    const uint8_t *found = memmem(file.p + 8, header - 8, key, strlen(key));
    size_t at = found ? (size_t)(found - file.p) + strlen(key) : 0;
    return at + CRC_CHARS <= header ? at : 0;
}

/* True when the tensor's bytes do not match its checksum in the header, and the header itself is
 * intact. */
static bool checkpoint_tensor_damaged(struct qr_bytes file, const struct qr_tensor *t) {
    char crc[CRC_CHARS + 1];
    qr_auto(qr_free_p) char *key = qr_xasprintf("\"crc32c/%s\":\"", t->name);
    size_t at = checkpoint_find_crc(file, key), whole_at = checkpoint_find_crc(file, WHOLE_KEY);
    crc_to_hex(checkpoint_tensor_crc(t), crc);
    return at && memcmp(file.p + at, crc, CRC_CHARS) != 0 &&
           !(whole_at && checkpoint_crc_matches_with(file, whole_at, at, crc));
}

/* Reports which section of a damaged file is damaged. */
static enum qr_code checkpoint_find_damage(struct qr_bytes file, const char *what,
                                           struct qr_err *err) {
    qr_auto(qr_tensors_free) struct qr_tensors t = {0};
    if (qr_safetensors_read(file, what, &t, err) != QR_OK) return checkpoint_fail_header(what, err);
    for (size_t i = 0; i < t.n; i++)
        if (checkpoint_tensor_damaged(file, &t.v[i]))
            return qr_fail(err, QR_DATA_LOSS,
                           "%s is damaged: tensor '%.100s' does not match its crc32c", what,
                           t.v[i].name);
    return qr_fail(err, QR_DATA_LOSS, "%s is damaged: its header does not match its crc32c", what);
}

/* Checks the whole file's checksum and its format version. */
static enum qr_code checkpoint_check_bytes(struct qr_bytes file, const struct qr_json *metadata,
                                           const char *what, struct qr_err *err) {
    size_t at = checkpoint_find_crc(file, WHOLE_KEY);
    if (!at || !crc_matches_at(file, at)) return checkpoint_find_damage(file, what, err);
    const char *format = checkpoint_metadata_text(metadata, "format");
    uint64_t version = 0;
    if (strncmp(format, FORMAT_NAME, strlen(FORMAT_NAME)) != 0 ||
        !qr_parse_u64(format + strlen(FORMAT_NAME), &version) || version == 0)
        return qr_fail(err, QR_DATA_LOSS, "%s is not a checkpoint", what);
    if (version > QR_CHECKPOINT_FORMAT)
        return qr_fail(err, QR_UNIMPLEMENTED,
                       "%s is a checkpoint of format %" PRIu64
                       ", written by a later version of qring; this one supports format %d: use "
                       "the later version",
                       what, version, (int)QR_CHECKPOINT_FORMAT);
    return QR_OK;
}

static enum qr_code checkpoint_read_fields(const struct qr_json *metadata, const char *what,
                                           struct qr_checkpoint *c, struct qr_err *err) {
    const char *contract = checkpoint_metadata_text(metadata, "contract"),
               *hash = checkpoint_metadata_text(metadata, "job_hash"),
               *digest = checkpoint_metadata_text(metadata, "digest"),
               *chain = checkpoint_metadata_text(metadata, "chain");
    uint64_t digested = 0;
    if (strlen(contract) >= sizeof c->contract || !qr_is_hex(hash, HASH_CHARS) ||
        !qr_is_hex(digest, DIGEST_CHARS) || (*chain && !qr_is_hex(chain, HASH_CHARS)) ||
        !qr_parse_u64(checkpoint_metadata_text(metadata, "step"), &c->step) ||
        !qr_parse_u64(checkpoint_metadata_text(metadata, "epoch"), &c->epoch) ||
        !qr_parse_u64(checkpoint_metadata_text(metadata, "reductions"), &c->reductions) ||
        !qr_parse_u64(checkpoint_metadata_text(metadata, "digested"), &digested) || c->step >> 53 ||
        c->epoch >> 53 || c->reductions >> 53)
        return qr_fail(
            err, QR_DATA_LOSS,
            "%s: its metadata lack contract, job_hash, step, epoch, reductions, digest or digested",
            what);
    snprintf(c->contract, sizeof c->contract, "%s", contract);
    memcpy(c->job_hash, hash, HASH_CHARS + 1);
    memcpy(c->digest, digest, DIGEST_CHARS + 1);
    if (*chain) memcpy(c->chain, chain, HASH_CHARS + 1);
    c->n_digested = digested <= c->tensors.n ? (size_t)digested : 0;
    return QR_OK;
}

enum qr_code qr_checkpoint_decode(struct qr_bytes file, const char *what, struct qr_checkpoint *ret,
                                  struct qr_err *err) {
    qr_auto(qr_json_free_p) struct qr_json *root = NULL;
    qr_auto(qr_checkpoint_fini) struct qr_checkpoint c = {0};
    char digest[33];
    if (qr_safetensors_header(file, what, &root, err) != QR_OK)
        return checkpoint_fail_header(what, err);
    const struct qr_json *metadata = qr_json_get(root, "__metadata__");
    QR_TRY(checkpoint_check_bytes(file, metadata, what, err));
    QR_TRY(qr_safetensors_read(file, what, &c.tensors, err));
    QR_TRY(checkpoint_read_fields(metadata, what, &c, err));
    qr_checkpoint_digest(&c, digest);
    if (strcmp(digest, c.digest) != 0)
        return qr_fail(err, QR_DATA_LOSS, "%s: its state has digest %s, but its metadata say %s",
                       what, digest, c.digest);
    *ret = QR_MOVE(c);
    return QR_OK;
}

/* ---- LATEST ---- */

void checkpoint_name(const char *job_hash, uint64_t step, const char *digest, char *ret,
                     size_t cap) {
    snprintf(ret, cap, "%.*s-%016" PRIu64 "-%s.safetensors", (int)CHECKPOINT_HASH_CHARS, job_hash,
             step, digest);
}

/* The checksum is the last member, in every version, so that a reader can distinguish a later
 * version from damage. */
void qr_checkpoint_latest_encode(const struct qr_checkpoint_latest *l, struct qr_buf *ret) {
    char crc[CRC_CHARS + 1];
    size_t begin = ret->n;
    struct qr_json_writer w = qr_json_writer(ret, 0);
    crc_to_hex(l->crc32c, crc);
    qr_json_open(&w, '{');
    qr_json_key_i64(&w, "format", QR_CHECKPOINT_FORMAT);
    qr_json_key_string(&w, "job_hash", l->job_hash);
    qr_json_key_i64(&w, "step", (int64_t)l->step);
    qr_json_key_i64(&w, "epoch", (int64_t)l->epoch);
    qr_json_key_i64(&w, "reductions", (int64_t)l->reductions);
    qr_json_key_string(&w, "digest", l->digest);
    qr_json_key_string(&w, "object", l->object);
    qr_json_key_string(&w, "crc32c", crc);
    qr_json_key_bool(&w, "done", l->done);
    qr_json_key_string(&w, "check", "00000000");
    qr_json_close(&w, '}');
    qr_buf_puts(ret, "\n");
    if (qr_buf_ok(ret)) crc_insert(ret, begin, ret->n - strlen("\"}\n") - CRC_CHARS);
}

static enum qr_code latest_fail_damaged(const char *what, struct qr_err *err) {
    return qr_fail(err, QR_DATA_LOSS, "%s is damaged: malformed, or a wrong checksum", what);
}

static bool latest_read_hex(const struct qr_json *root, const char *key, size_t n, char *ret) {
    const char *s = qr_json_text(qr_json_get(root, key), "");
    if (!qr_is_hex(s, n)) return false;
    memcpy(ret, s, n + 1);
    return true;
}

static bool latest_read_count(const struct qr_json *root, const char *key, uint64_t *ret) {
    int64_t n;
    bool good =
        qr_json_i64(qr_json_get(root, key), "", 0, INT64_C(1) << 53, &n, QR_IGNORED) == QR_OK;
    if (good) *ret = (uint64_t)n;
    return good;
}

enum qr_code qr_checkpoint_latest_decode(struct qr_bytes text, const char *what,
                                         struct qr_checkpoint_latest *ret, struct qr_err *err) {
    static const char end[] = "\"}\n";
    const size_t tail = strlen(CHECK_KEY) + CRC_CHARS + strlen(end);
    qr_auto(qr_json_free_p) struct qr_json *root = NULL;
    struct qr_checkpoint_latest l = {0};
    char crc[CRC_CHARS + 1];
    uint64_t format;
    if (text.n < tail || memcmp(text.p + text.n - tail, CHECK_KEY, strlen(CHECK_KEY)) != 0 ||
        memcmp(text.p + text.n - strlen(end), end, strlen(end)) != 0 ||
        !crc_matches_at(text, text.n - strlen(end) - CRC_CHARS) ||
        qr_json_parse(text, what, &root, QR_IGNORED) != QR_OK ||
        !latest_read_count(root, "format", &format) || format < 1)
        return latest_fail_damaged(what, err);
    if (format > QR_CHECKPOINT_FORMAT)
        return qr_fail(
            err, QR_UNIMPLEMENTED,
            "%s is of format %" PRIu64
            ", written by a later version of qring; this one supports format %d: use the later "
            "version",
            what, format, (int)QR_CHECKPOINT_FORMAT);
    if (!latest_read_hex(root, "job_hash", HASH_CHARS, l.job_hash) ||
        !latest_read_hex(root, "digest", DIGEST_CHARS, l.digest) ||
        !latest_read_count(root, "step", &l.step) || !latest_read_count(root, "epoch", &l.epoch) ||
        !latest_read_count(root, "reductions", &l.reductions) ||
        !latest_read_hex(root, "crc32c", CRC_CHARS, crc) ||
        qr_json_bool(qr_json_get(root, "done"), "", &l.done, QR_IGNORED) != QR_OK)
        return latest_fail_damaged(what, err);
    for (const char *c = crc; *c; c++)
        l.crc32c = l.crc32c << 4 | (uint32_t)(*c <= '9' ? *c - '0' : *c - 'a' + 10);
    checkpoint_name(l.job_hash, l.step, l.digest, l.object, sizeof l.object);
    /* LATEST may name only the file that follows from its other fields. */
    if (strcmp(l.object, qr_json_text(qr_json_get(root, "object"), "")) != 0)
        return latest_fail_damaged(what, err);
    *ret = l;
    return QR_OK;
}
