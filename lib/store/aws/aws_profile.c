/* store/aws/aws_profile.c — profiles in ~/.aws/credentials and ~/.aws/config
 * (docs.aws.amazon.com/sdkref/latest/guide/file-format.html). Start reading at
 * qr_s3_profile_read(). */
#include <string.h>

#include "base/file.h"
#include "base/mem.h"
#include "store/aws/aws.h"

enum { MAX_FILE_BYTES = 1 << 20 };

void qr_s3_profile_fini(struct qr_s3_profile *p) {
    struct qr_s3_keys secrets = {p->key_id, p->secret, p->session, 0};
    qr_s3_keys_fini(&secrets);
    free(p->region), free(p->endpoint), free(p->style);
    free(p->role), free(p->token_file), free(p->unsupported);
    *p = (struct qr_s3_profile){0};
}

/* Removes blanks at both ends. */
static struct qr_bytes profile_trim(const uint8_t *p, size_t n) {
    while (n && strchr(" \t\r", p[0])) p++, n--;
    while (n && strchr(" \t\r", p[n - 1])) n--;
    return qr_bytes_of(p, n);
}

static bool bytes_equal(struct qr_bytes b, const char *text) {
    return b.n == strlen(text) && memcmp(b.p, text, b.n) == 0;
}

/* Matches "[default]" and "[profile NAME]" in the config file, "[NAME]" in the credentials file. */
static bool section_matches(struct qr_bytes section, const char *name, bool config) {
    static const char word[] = "profile";
    size_t n = strlen(word);
    if (config && section.n > n && memcmp(section.p, word, n) == 0 && strchr(" \t", section.p[n]))
        return bytes_equal(profile_trim(section.p + n, section.n - n), name);
    return bytes_equal(section, name) && (!config || strcmp(name, "default") == 0);
}

static void profile_set(struct qr_s3_profile *p, struct qr_bytes key, struct qr_bytes value) {
    const struct {
        const char *key;
        char **to;
    } rows[] = {{"aws_access_key_id", &p->key_id},
                {"aws_secret_access_key", &p->secret},
                {"aws_session_token", &p->session},
                {"region", &p->region},
                {"endpoint_url", &p->endpoint},
                {"addressing_style", &p->style},
                {"role_arn", &p->role},
                {"web_identity_token_file", &p->token_file}};
    static const char *const no[] = {"source_profile", "credential_source", "credential_process",
                                     "sso_session", "sso_start_url"};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (bytes_equal(key, rows[i].key) && !*rows[i].to && value.n)
            *rows[i].to = qr_xstrndup((const char *)value.p, value.n);
    for (size_t i = 0; i < sizeof no / sizeof *no; i++)
        if (bytes_equal(key, no[i]) && !p->unsupported) p->unsupported = qr_xstrdup(no[i]);
}

void qr_s3_profile_parse(struct qr_bytes text, const char *name, bool config,
                         struct qr_s3_profile *p) {
    bool mine = false;
    for (size_t at = 0; at < text.n;) {
        const uint8_t *end = memchr(text.p + at, '\n', text.n - at);
        size_t n = end ? (size_t)(end - text.p) - at : text.n - at;
        struct qr_bytes line = profile_trim(text.p + at, n);
        at += n + 1;
        if (!line.n || strchr("#;", line.p[0]) || memchr(line.p, 0, line.n)) continue;
        const uint8_t *close = memchr(line.p, ']', line.n), *equals = memchr(line.p, '=', line.n);
        if (line.p[0] == '[' && close) {
            mine = section_matches(profile_trim(line.p + 1, (size_t)(close - line.p) - 1), name,
                                   config);
            p->there |= mine;
        } else if (mine && equals) {
            size_t k = (size_t)(equals - line.p);
            profile_set(p, profile_trim(line.p, k), profile_trim(equals + 1, line.n - k - 1));
        }
    }
}

enum qr_code qr_s3_profile_read(const struct qr_s3_options *o, struct qr_s3_profile *ret,
                                struct qr_err *err) {
    const char *name = o->profile ? o->profile : "default";
    const char *const paths[] = {o->credentials_file, o->config_file};
    qr_auto(qr_s3_profile_fini) struct qr_s3_profile p = {0};
    for (size_t i = 0; i < 2; i++) {
        qr_auto(qr_web_wipe) struct qr_buf text = {0};
        if (!paths[i] || !qr_file_exists(paths[i])) continue;
        if (qr_file_read(paths[i], MAX_FILE_BYTES, &text, err) != QR_OK)
            return qr_wrap(err, "cannot read an AWS profile");
        qr_s3_profile_parse(qr_buf_view(&text), name, i == 1, &p);
    }
    if (o->profile && !p.there)
        return qr_fail(
            err, QR_INVALID_ARGUMENT, "AWS_PROFILE=%.80s: %s and %s have no such profile", name,
            paths[0] ? paths[0] : "~/.aws/credentials", paths[1] ? paths[1] : "~/.aws/config");
    *ret = QR_MOVE(p);
    return QR_OK;
}
