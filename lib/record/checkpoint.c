/* record/checkpoint.c — encodes, decodes and verifies checkpoint files and LATEST;
 * checkpoint_store.c stores them. Start reading at qr_checkpoint_encode(). */
#include "record/checkpoint.h"

#include <inttypes.h>
#include <stdio.h>
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
enum {
    CRC_CHARS = 8,
    OWN_METADATA = 9,
    NUMBER_CHARS = 24,
    HASH_CHARS = 64,
    DIGEST_CHARS = 32,
    MAX_STATE_VALUES = 1 << 27
};

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

static bool crc_from_hex(const char *s, uint32_t *ret) {
    uint32_t v = 0;
    if (!qr_is_hex(s, CRC_CHARS)) return false;
    for (; *s; s++) v = v << 4 | (uint32_t)(*s <= '9' ? *s - '0' : *s - 'a' + 10);
    *ret = v;
    return true;
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
    for (size_t i = 0; i < t->n; i++) {
        uint8_t b[8];
        qr_set_u64le(b, qr_bits_of_double(t->values[i]));
        crc = qr_crc32c(crc, b, sizeof b);
    }
    return crc;
}

void qr_checkpoint_digest(const struct qr_checkpoint *c, char ret[33]) {
    struct qr_buf b = {.max = (size_t)MAX_STATE_VALUES * 8};
    uint8_t counters[16], digest[QR_XXH3_BYTES];
    qr_buf_puts(&b, c->contract);
    qr_set_u64le(counters, c->step);
    qr_set_u64le(counters + 8, c->epoch);
    qr_buf_put(&b, counters, sizeof counters);
    for (size_t i = 0; i < c->n_digested && i < c->tensors.n; i++) {
        const struct qr_tensor *t = &c->tensors.v[i];
        uint8_t *at = qr_buf_grow(&b, 8 * t->n);
        for (size_t k = 0; at && k < t->n; k++)
            qr_set_u64le(at + 8 * k, qr_bits_of_double(t->values[k]));
    }
    qr_xxh3(b.p, b.n, digest);
    qr_hex(digest, sizeof digest, ret);
    /* A state larger than any that can be saved: no file has this digest. */
    if (!qr_buf_ok(&b)) memset(ret, '0', DIGEST_CHARS);
    qr_buf_free(&b);
}

/* ---- the file ---- */

enum qr_code qr_checkpoint_encode(const struct qr_checkpoint *c, struct qr_buf *ret,
                                  uint32_t *ret_crc32c, struct qr_err *err) {
    char step[NUMBER_CHARS], epoch[NUMBER_CHARS], reductions[NUMBER_CHARS], digested[NUMBER_CHARS],
        format[48], digest[33];
    qr_checkpoint_digest(c, digest);
    if (strcmp(digest, c->digest) != 0)
        return qr_fail(err, QR_INTERNAL,
                       "the state of step %" PRIu64
                       " has digest %s, expected %s: it was damaged in memory",
                       c->step, digest, c->digest);
    snprintf(step, sizeof step, "%" PRIu64, c->step);
    snprintf(epoch, sizeof epoch, "%" PRIu64, c->epoch);
    snprintf(reductions, sizeof reductions, "%" PRIu64, c->reductions);
    snprintf(digested, sizeof digested, "%zu", c->n_digested);
    snprintf(format, sizeof format, FORMAT_NAME "%d", (int)QR_CHECKPOINT_FORMAT);
    struct qr_metadata *m = qr_xcalloc(OWN_METADATA + c->tensors.n, sizeof *m);
    const struct qr_metadata own[OWN_METADATA] = {
        {"format", format},    {"contract", c->contract}, {"job_hash", c->job_hash},
        {"step", step},        {"epoch", epoch},          {"pass", reductions},
        {"digest", c->digest}, {"digested", digested},    {"crc32c", "00000000"}};
    memcpy(m, own, sizeof own);
    char(*crc)[CRC_CHARS + 1] = qr_xcalloc(c->tensors.n + 1, sizeof *crc);
    for (size_t i = 0; i < c->tensors.n; i++) {
        crc_to_hex(checkpoint_tensor_crc(&c->tensors.v[i]), crc[i]);
        m[OWN_METADATA + i] =
            (struct qr_metadata){qr_xasprintf("crc32c/%s", c->tensors.v[i].name), crc[i]};
    }
    size_t begin = ret->n;
    qr_safetensors_write(&c->tensors, m, OWN_METADATA + c->tensors.n, ret);
    for (size_t i = 0; i < c->tensors.n; i++) free((void *)(uintptr_t)m[OWN_METADATA + i].key);
    free(m);
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

static const char *checkpoint_metadata_text(const struct qr_json *metadata, const char *key) {
    const char *s;
    return qr_json_string(qr_json_get(metadata, key), "", &s, NULL) == QR_OK ? s : "";
}

bool qr_checkpoint_is(struct qr_bytes file) {
    qr_auto(qr_json_free_p) struct qr_json *root = NULL;
    if (qr_safetensors_header(file, "", &root, NULL) != QR_OK ||
        qr_json_type(root) != QR_JSON_OBJECT)
        return false;
    const struct qr_json *metadata = qr_json_get(root, "__metadata__");
    if (!metadata || qr_json_type(metadata) != QR_JSON_OBJECT) return false;
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
    struct qr_tensors t = {0};
    enum qr_code code = qr_safetensors_read(file, what, &t, err);
    if (code != QR_OK) return checkpoint_fail_header(what, err);
    const char *name = NULL;
    for (size_t i = 0; i < t.n && !name; i++)
        if (checkpoint_tensor_damaged(file, &t.v[i])) name = t.v[i].name;
    if (name)
        code = qr_fail(err, QR_DATA_LOSS,
                       "%s is damaged: tensor '%.100s' does not match its crc32c", what, name);
    else
        code =
            qr_fail(err, QR_DATA_LOSS, "%s is damaged: its header does not match its crc32c", what);
    qr_tensors_free(&t);
    return code;
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
               *digest = checkpoint_metadata_text(metadata, "digest");
    uint64_t digested = 0;
    if (strlen(contract) >= sizeof c->contract || !qr_is_hex(hash, HASH_CHARS) ||
        !qr_is_hex(digest, DIGEST_CHARS) ||
        !qr_parse_u64(checkpoint_metadata_text(metadata, "step"), &c->step) ||
        !qr_parse_u64(checkpoint_metadata_text(metadata, "epoch"), &c->epoch) ||
        !qr_parse_u64(checkpoint_metadata_text(metadata, "pass"), &c->reductions) ||
        !qr_parse_u64(checkpoint_metadata_text(metadata, "digested"), &digested) || c->step >> 53 ||
        c->epoch >> 53 || c->reductions >> 53)
        return qr_fail(
            err, QR_DATA_LOSS,
            "%s: its metadata lack contract, job_hash, step, epoch, pass, digest or digested",
            what);
    snprintf(c->contract, sizeof c->contract, "%s", contract);
    memcpy(c->job_hash, hash, HASH_CHARS + 1);
    memcpy(c->digest, digest, DIGEST_CHARS + 1);
    c->n_digested = digested <= c->tensors.n ? (size_t)digested : 0;
    return QR_OK;
}

enum qr_code qr_checkpoint_decode(struct qr_bytes file, const char *what, struct qr_checkpoint *ret,
                                  struct qr_err *err) {
    qr_auto(qr_json_free_p) struct qr_json *root = NULL;
    struct qr_checkpoint c = {0};
    char digest[33];
    struct qr_err own;
    if (!err) err = &own;
    enum qr_code code = qr_safetensors_header(file, what, &root, err);
    if (code != QR_OK) return checkpoint_fail_header(what, err);
    const struct qr_json *metadata =
        qr_json_type(root) == QR_JSON_OBJECT ? qr_json_get(root, "__metadata__") : NULL;
    if (metadata && qr_json_type(metadata) != QR_JSON_OBJECT) metadata = NULL;
    code = checkpoint_check_bytes(file, metadata, what, err);
    if (code == QR_OK) code = qr_safetensors_read(file, what, &c.tensors, err);
    if (code == QR_OK) code = checkpoint_read_fields(metadata, what, &c, err);
    if (code == QR_OK) {
        qr_checkpoint_digest(&c, digest);
        if (strcmp(digest, c.digest) != 0)
            code =
                qr_fail(err, QR_DATA_LOSS, "%s: its state has digest %s, but its metadata say %s",
                        what, digest, c.digest);
    }
    if (code == QR_OK) *ret = c;
    else qr_checkpoint_fini(&c);
    return code;
}

/* ---- LATEST ---- */

void checkpoint_name(const char *job_hash, uint64_t step, const char *digest, char *ret,
                     size_t cap) {
    snprintf(ret, cap, "%.*s-%016" PRIu64 "-%s.safetensors", (int)CHECKPOINT_HASH_CHARS, job_hash,
             step, digest);
}

static void latest_put_text(struct qr_json_writer *w, const char *key, const char *value) {
    qr_json_put_key(w, key);
    qr_json_put_string(w, value);
}
static void latest_put_number(struct qr_json_writer *w, const char *key, uint64_t value) {
    qr_json_put_key(w, key);
    qr_json_put_i64(w, (int64_t)value);
}

/* The checksum is the last member, in every version, so that a reader can distinguish a later
 * version from damage. */
void qr_checkpoint_latest_encode(const struct qr_checkpoint_latest *l, struct qr_buf *ret) {
    char crc[CRC_CHARS + 1];
    size_t begin = ret->n;
    struct qr_json_writer w = qr_json_writer(ret, 0);
    crc_to_hex(l->crc32c, crc);
    qr_json_open(&w, '{');
    latest_put_number(&w, "format", QR_CHECKPOINT_FORMAT);
    latest_put_text(&w, "job_hash", l->job_hash);
    latest_put_number(&w, "step", l->step);
    latest_put_number(&w, "epoch", l->epoch);
    latest_put_number(&w, "pass", l->reductions);
    latest_put_text(&w, "digest", l->digest);
    latest_put_text(&w, "object", l->object);
    latest_put_text(&w, "crc32c", crc);
    qr_json_put_key(&w, "done");
    qr_json_put_bool(&w, l->done);
    latest_put_text(&w, "check", "00000000");
    qr_json_close(&w, '}');
    qr_buf_puts(ret, "\n");
    if (qr_buf_ok(ret)) crc_insert(ret, begin, ret->n - strlen("\"}\n") - CRC_CHARS);
}

static enum qr_code latest_fail_damaged(const char *what, struct qr_err *err) {
    return qr_fail(err, QR_DATA_LOSS, "%s is damaged: malformed, or a wrong checksum", what);
}

enum qr_code qr_checkpoint_latest_decode(struct qr_bytes text, const char *what,
                                         struct qr_checkpoint_latest *ret, struct qr_err *err) {
    static const char end[] = "\"}\n";
    const size_t tail = strlen(CHECK_KEY) + CRC_CHARS + strlen(end);
    qr_auto(qr_json_free_p) struct qr_json *root = NULL;
    struct qr_checkpoint_latest l = {0};
    const char *hash, *digest, *object, *crc;
    int64_t format, step, epoch, reductions, most = INT64_C(1) << 53;
    if (text.n < tail || memcmp(text.p + text.n - tail, CHECK_KEY, strlen(CHECK_KEY)) != 0 ||
        memcmp(text.p + text.n - strlen(end), end, strlen(end)) != 0 ||
        !crc_matches_at(text, text.n - strlen(end) - CRC_CHARS) ||
        qr_json_parse(text, what, &root, NULL) != QR_OK || qr_json_type(root) != QR_JSON_OBJECT ||
        qr_json_i64(qr_json_get(root, "format"), "", 1, most, &format, NULL) != QR_OK)
        return latest_fail_damaged(what, err);
    if (format > QR_CHECKPOINT_FORMAT)
        return qr_fail(
            err, QR_UNIMPLEMENTED,
            "%s is of format %" PRId64
            ", written by a later version of qring; this one supports format %d: use the later "
            "version",
            what, format, (int)QR_CHECKPOINT_FORMAT);
    if (qr_json_string(qr_json_get(root, "job_hash"), "", &hash, NULL) != QR_OK ||
        !qr_is_hex(hash, HASH_CHARS) ||
        qr_json_string(qr_json_get(root, "digest"), "", &digest, NULL) != QR_OK ||
        !qr_is_hex(digest, DIGEST_CHARS) ||
        qr_json_i64(qr_json_get(root, "step"), "", 0, most, &step, NULL) != QR_OK ||
        qr_json_i64(qr_json_get(root, "epoch"), "", 0, most, &epoch, NULL) != QR_OK ||
        qr_json_i64(qr_json_get(root, "pass"), "", 0, most, &reductions, NULL) != QR_OK ||
        qr_json_string(qr_json_get(root, "object"), "", &object, NULL) != QR_OK ||
        qr_json_string(qr_json_get(root, "crc32c"), "", &crc, NULL) != QR_OK ||
        !crc_from_hex(crc, &l.crc32c) ||
        qr_json_bool(qr_json_get(root, "done"), "", &l.done, NULL) != QR_OK)
        return latest_fail_damaged(what, err);
    l.step = (uint64_t)step;
    l.epoch = (uint64_t)epoch;
    l.reductions = (uint64_t)reductions;
    memcpy(l.job_hash, hash, HASH_CHARS + 1);
    memcpy(l.digest, digest, DIGEST_CHARS + 1);
    checkpoint_name(l.job_hash, l.step, l.digest, l.object, sizeof l.object);
    /* LATEST may name only the file that follows from its other fields. */
    if (strcmp(l.object, object) != 0) return latest_fail_damaged(what, err);
    *ret = l;
    return QR_OK;
}
