/* cmd/qring/verify.c — qring verify: its flags and output; the checks are in lib/verify. Start
 * reading at qr_command_verify(). */
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/parse.h"
#include "cmd/qring/command.h"
#include "verify/verify.h"

const char qr_help_verify[] =
    "Checks that a run is what it says: the chain of digests in steps.jsonl, the hashes of its "
    "files,\n"
    "its signature; and computes steps again, on any machine with any number of threads, to the "
    "same\n"
    "bits. Writes nothing.\n"
    "\n"
    "Examples:\n"
    "  qring verify out/qcnn                            # chain, files, job, data, checkpoints\n"
    "  qring verify out/qcnn --step 40                  # and step 40, from the checkpoint before\n"
    "  qring verify gs://my-bucket/run --sample 10      # and ten steps, drawn at random\n"
    "  qring verify out/qcnn --all --json | jq .verdict\n"
    "\n"
    "Usage: qring verify RUN [FLAGS]\n"
    "  RUN: folder or URL (gs://, s3://, https://) of a run\n"
    "  --step N               compute step N again, from the nearest checkpoint, or the start\n"
    "  --steps A..B           compute steps A to B again\n"
    "  --sample K             compute K steps again, drawn by --verify-seed\n"
    "  --verify-seed N        seed of the draw [a random one, which is printed]\n"
    "  --all                  compute all steps again, from the start\n"
    "  --key FILE             public key (PEM) that must have signed the run\n"
    "  --checkpoints URL      folder of the checkpoints [RUN/checkpoints]\n"
    "  --data FILE            data of the run, where it is not at the place in job.json\n"
    "  --json                 print one JSON object\n"
    "  --isa NAME             kernels [auto]: auto, portable, avx2, avx512 or neon; all give the "
    "same bits\n"
    "  --threads T            number of threads [the available CPUs]\n"
    "\n"
    "Exit codes: 0 same, 6 a line, file or step differs (the first is named), 7 not proved: no "
    "chain,\n"
    "another arithmetic, more lines than the result, files that cannot be checked; 2 usage, 4 bad "
    "data,\n"
    "138 temporary failure (retry).\n";

struct verify_flags {
    const char *step, *steps, *sample, *seed, *checkpoints, *data, *key, *isa, *threads;
    bool all, json;
};

static enum qr_code verify_parse_count(const char *flag, const char *text, uint64_t *ret,
                                       struct qr_err *err) {
    if (!text || (qr_parse_u64(text, ret) && *ret > 0 && *ret <= UINT64_C(1) << 53)) return QR_OK;
    return qr_fail(err, QR_INVALID_ARGUMENT, "%s: '%.40s' is not a number from 1", flag, text);
}

static enum qr_code read_range(const char *text, struct qr_verify_options *o, struct qr_err *err) {
    const char *dots = text ? strstr(text, "..") : NULL;
    if (!text) return QR_OK;
    qr_auto(qr_free_p) char *from = dots ? qr_xstrndup(text, (size_t)(dots - text)) : NULL;
    if (dots && qr_parse_u64(from, &o->first) && qr_parse_u64(dots + 2, &o->last) && o->first > 0 &&
        o->last >= o->first)
        return QR_OK;
    return qr_fail(err, QR_INVALID_ARGUMENT, "--steps: '%.40s' is not a range such as 10..20",
                   text);
}

static enum qr_code read_options(const struct verify_flags *f, struct qr_verify_options *o,
                                 struct qr_err *err) {
    uint64_t threads = 0;
    uint32_t seed;
    if ((f->step != NULL) + (f->steps != NULL) + (f->sample != NULL) + f->all > 1)
        return qr_fail(err, QR_INVALID_ARGUMENT,
                       "give only one of --step, --steps, --sample and --all");
    QR_TRY(verify_parse_count("--step", f->step, &o->first, err));
    o->last = o->first;
    QR_TRY(read_range(f->steps, o, err));
    QR_TRY(verify_parse_count("--sample", f->sample, &o->sample, err));
    QR_TRY(verify_parse_count("--threads", f->threads, &threads, err));
    if (threads > 1024)
        return qr_fail(err, QR_INVALID_ARGUMENT, "--threads: '%.40s' is not in 1 ... 1024",
                       f->threads);
    o->threads = (unsigned)threads;
    qr_entropy(&seed, sizeof seed);
    o->seed = seed;
    if (f->seed && !qr_parse_u64(f->seed, &o->seed))
        return qr_fail(err, QR_INVALID_ARGUMENT, "--verify-seed: '%.40s' is not a number", f->seed);
    if (!o->sample) o->seed = 0;
    o->all = f->all;
    if (f->data)
        QR_TRY(qr_overrides_add(o->set, QR_OVERRIDES_FLAG, "--data", "data.url", f->data, err));
    return QR_OK;
}

int qr_command_verify(const struct qr_command *self, int argc, char **argv) {
    struct verify_flags f = {0};
    struct qr_overrides set = {0};
    struct qr_words words = {0};
    struct qr_err err = {0};
    struct qr_verification v;
    bool help;
    const struct qr_flag flags[] = {
        {"--step", &f.step, NULL},      {"--steps", &f.steps, NULL},
        {"--sample", &f.sample, NULL},  {"--verify-seed", &f.seed, NULL},
        {"--all", NULL, &f.all},        {"--checkpoints", &f.checkpoints, NULL},
        {"--data", &f.data, NULL},      {"--key", &f.key, NULL},
        {"--json", NULL, &f.json},      {"--isa", &f.isa, NULL},
        {"--threads", &f.threads, NULL}};
    enum qr_code code = qr_read_flags(argc, argv, flags, sizeof flags / sizeof *flags, NULL, 1,
                                      &words, &help, &err);
    if (code == QR_OK && help) return qr_print_help(self);
    if (code == QR_OK && words.n == 0)
        code = qr_fail(&err, QR_INVALID_ARGUMENT,
                       "the run is missing; give its folder or URL (see --help)");
    struct qr_verify_options o = {
        .run = words.v[0], .checkpoints = f.checkpoints, .key = f.key, .set = &set, .isa = f.isa};
    if (code == QR_OK) code = read_options(&f, &o, &err);
    if (code == QR_OK) code = qr_verify(&o, &v, &err);
    qr_overrides_fini(&set);
    if (code != QR_OK) return qr_exit_report(code, &err);
    qr_auto(qr_buf_free) struct qr_buf text = {0};
    if (f.json) qr_verification_json(&v, &text);
    else qr_verification_text(&v, &text);
    if (!f.json && o.sample)
        qr_buf_printf(&text, "drawn by --verify-seed %llu\n", (unsigned long long)o.seed);
    fwrite(text.p, 1, text.n, stdout);
    code = qr_verification_code(&v, &err);
    qr_verification_fini(&v);
    return qr_exit_report(code, &err);
}
