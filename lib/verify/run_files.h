/* verify/run_files.h — reads the files of a run from its folder or URL. Private to lib/verify.
 *
 * Threads   One.
 */
#ifndef QR_VERIFY_RUN_FILES_H
#define QR_VERIFY_RUN_FILES_H

#include "base/checksum.h"
#include "format/json.h"
#include "record/provenance.h"

struct qr_run_files {
    char *url; /* without a slash at the end */
    bool has_result, has_provenance;
    struct qr_json *result; /* result.json; NULL: none */
    /* steps.jsonl; provenance.json; provenance.dsse.json, empty: none */
    struct qr_buf steps, statement, envelope;
    /* Facts of result.json, or else of provenance.json; "" or 0: not known */
    struct qr_provenance facts;
    char why[320]; /* both files exist, and contradict each other; "": they do not */
};
/* Reads steps.jsonl, result.json and provenance.json, of which the last two may be missing.
 *
 * Errors:   INVALID_ARGUMENT: run is empty; NOT_FOUND: no steps.jsonl; DATA_LOSS: malformed; those
 *           of the store
 */
QR_MUST_CHECK enum qr_code qr_run_files_read(const char *run, struct qr_run_files *ret,
                                             struct qr_err *err);
void qr_run_files_fini(struct qr_run_files *r);
/* Returns the location of a file that the run names, heap: a relative path is below its folder. For
 * an absolute path without a file, and for each one if the run is remote, that is the file of the
 * same name in the run's folder, unless the run names this file as well. */
char *qr_run_files_locate(const struct qr_run_files *r, const char *name);
/* Says whether a file that the run names is inside its folder, or may be read elsewhere. The author
 * of a run must not choose what the verifier reads: elsewhere only the weights that result.json
 * names are read, of a remote run only from its own bucket or host. */
enum qr_run_file_place { QR_RUN_FILE_INSIDE, QR_RUN_FILE_ELSEWHERE, QR_RUN_FILE_REFUSED };
enum qr_run_file_place qr_run_files_place(const struct qr_run_files *r, const char *name);
/* Computes the SHA-256 of a file of the run, as hex. */
QR_MUST_CHECK enum qr_code qr_run_files_sha256(const struct qr_run_files *r, const char *name,
                                               char ret[65], struct qr_err *err);

#endif
