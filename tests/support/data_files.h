/* tests/support/data_files.h — two files of samples in a folder of their own, and the data that the
 * loader reads from them.
 *
 * Use     data_begin; write a file, then load or refused; data_end. One folder per program.
 */
#ifndef TESTS_SUPPORT_DATA_FILES_H
#define TESTS_SUPPORT_DATA_FILES_H

#include <math.h>
#include <unistd.h>

#include "base/file.h"
#include "base/mem.h"
#include "data/dataset.h"
#include "format/npz.h"
#include "tests/t.h"

extern char dir[sizeof "/tmp/qring-test-data-XXXXXX"], path[64], path2[64];

bool data_begin(void); /* false: cannot make the folder */
void data_end(void);   /* deletes the files and the folder */

void write_text(const char *to, const char *text);
/* Frees t. */
void write_tensors(const char *to, struct qr_tensors *t);
/* Values of x count up from 0 in steps of 0.5, those of y in steps of 1. bad_x: replaces the value
 * of x at bad_at, unless it is 0. */
void write_npz(const char *to, const char *x_name, const size_t *x_dims, unsigned x_rank,
               const size_t *y_dims, unsigned y_rank, double bad_x, size_t bad_at);

/* Options for the file `path`. */
struct qr_data_options options(enum qr_data_source source, size_t n_columns, size_t n_outputs);
/* Loads a valid dataset; exits if it has no x. */
struct qr_dataset load(const struct qr_data_options *opt);
/* Checks that the loader fails with this code, and that its error contains these words. */
void refused(const struct qr_data_options *opt, enum qr_code want, const char *says);

#endif
