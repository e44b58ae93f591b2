/* data/dataset.h — the samples of a job: x (samples × columns, float64) and y.
 *
 * Sources   "cluster-excitations": TFQ's tutorial, seeded: for round r, qubit q: angle
 *           a = -pi + 2 pi u, u = uniform(seed, DATA, r, q); x is a on qubit q and 0 elsewhere;
 *           y = +1 if |a| <= pi/2 else -1.
 *           "npz" (arrays x, y), "csv" (header; label column y; the other columns are x in file
 *           order). The first floor(N * train_fraction) samples train, the rest validate, in file
 *           order, or in one that shuffle_split's seed fixes; or all train, with a channel
 *           "validation".
 *           "none": one sample without columns or labels.
 * Channels  files under a name: "train" and "validation" are what trains and validates (url and
 *           validation_url are these, of one file), others are loaded by name alone. The files of a
 *           channel stand one behind the other in the order given, also in what messages count as
 *           rows; all have the columns of the first that trains.
 * Folders   a URL or path that ends with '/' is all files below it, sorted by their bytes; what
 *           begins with '.' or '_', file or folder below it, is left. Not of stores without lists.
 * Paths     a relative one is seen from the folder where the program runs and, where nothing is
 *           there, from `folder`. One that is nowhere: NOT_FOUND with its key and both places.
 * Checks    NaN or infinity: DATA_LOSS naming file, row and column. x columns != wanted: DATA_LOSS
 *           with both numbers. No samples: DATA_LOSS. npz: x is samples × columns (or
 *           one-dimensional where one column is wanted), y one- or two-dimensional. CSV without
 *           labels: a first line of numbers alone, but 0, 1, 2 …: DATA_LOSS, it is a sample. With
 *           n_outputs > 1 a y of one column holds class numbers 0 … n_outputs-1 and becomes one-hot
 *           (anything else: DATA_LOSS), or with one_label_for_all is the label of every output, as
 *           Keras' losses broadcast it. CSV: with n_outputs > 1 the labels are columns
 *           y0 … y<k-1>, or one such column y, or what opt's labels names. A single column of
 *           labels may hold words, which are classes: sorted by their bytes over all files of the
 *           data set, the first is class 0.
 * Names     with opt's inputs a CSV file's columns are found by the names that they had when the
 *           model was trained: DATA_LOSS naming those that are missing. Other columns are not read,
 *           nor are those that are not picked, where all are picked by name.
 * Columns   those that are picked, by name or number, in the order in which they are; others of the
 *           file are left. Names only of a CSV file. One that is not
 *           there: DATA_LOSS.
 * Weights   finite, 0 or more, below 2^40; not all 0 of those that train: DATA_LOSS naming the row.
 * Memory    the whole set; refused above the memory limit with both numbers.
 */
#ifndef QR_DATA_DATASET_H
#define QR_DATA_DATASET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/bytes.h"
#include "base/err.h"
#include "format/data_names.h"

enum qr_data_source { QR_DATA_EXCITATIONS, QR_DATA_NPZ, QR_DATA_CSV, QR_DATA_NONE };

/* A column of x: by its name in the file, or, where that is NULL, by its number from 0, labels and
 * weights not counted. */
struct qr_data_column {
    const char *name;
    size_t number;
};

/* Files whose samples belong together. All borrowed. */
struct qr_data_channel {
    const char *name;
    size_t n_urls; /* 1 or more */
    const char *const *urls;
    enum qr_data_source source; /* NPZ or CSV */
    /* x is these columns of its files, as many as the data's n_picked; 0: the same ones */
    size_t n_picked;
    const struct qr_data_column *picked;
};

struct qr_data_options {
    enum qr_data_source source;
    uint64_t seed;
    unsigned rounds, qubits;          /* EXCITATIONS */
    const char *url, *validation_url; /* NPZ, CSV; borrowed; validation_url may be NULL */
    size_t n_channels;                /* not the name of a URL above; borrowed */
    const struct qr_data_channel *channels;
    const char *folder;    /* of the job file; NULL: none; borrowed */
    double train_fraction; /* in (0, 1] */
    bool shuffle_split;    /* the samples are shuffled before they are split */
    uint64_t split_seed;
    /* wanted: what the model's first layer takes; 0: whatever the file has */
    size_t n_columns;
    /* the file may have more than n_columns: the model reads those that it names */
    bool more_columns;
    /* NPZ, CSV: x is these columns of the file, no two of them the same; borrowed; 0: all */
    size_t n_picked;
    const struct qr_data_column *picked;
    bool pick_all;           /* a column of the file that is not picked is an error */
    const char *columns_key; /* where they are said, for messages; NULL: data.columns */
    /* columns of y wanted (1, or the classes of a one-hot y); 0: whatever the file has */
    size_t n_outputs;
    bool one_label_for_all; /* a single label is every output's, not a class number */
    /* a sample has none: a column or array y is not read, and n_outputs is not looked at */
    bool no_labels;
    /* with no_labels: of a CSV file labels of n_outputs and a column sample_weight are no inputs
     * where they are there, and not missed; of npz neither is read */
    bool only_inputs;
    /* the column or array that has each sample's weight, 0 or more; NULL: none; borrowed */
    const char *sample_weight;
    /* the columns of a CSV file that are labels, or, of npz, where it is one, the array; borrowed;
     * 0: y, or y0 … y<k-1> */
    size_t n_labels;
    const char *const *labels;
    size_t max_classes; /* how many different words labels may be; 0: they are numbers */
    bool signs;         /* two words are the labels -1 and 1, not 0 and 1 */
    /* What the weights of a trained model have; borrowed. inputs: names of its inputs; NULL or
     * empty: by place. classes: the words that are its classes, in order; NULL: those that the
     * files have, sorted; empty: words are refused. */
    const struct qr_name_list *inputs, *classes;
};

struct qr_dataset {
    size_t n_samples, n_train; /* samples n_train .. n_samples-1 validate */
    size_t n_columns, n_outputs;
    double *x, *y; /* row-major; owned */
    char **names;  /* n_columns names of x, where a file has them; owned; NULL: none has */
    /* sample → its row in the file from 0; owned; NULL: the same number */
    uint32_t *row;
    bool weighted;      /* a row of y ends with the sample's weight, behind its n_outputs labels */
    bool label_for_all; /* the file had one label a sample, and it is every output's */
    bool unquoted;      /* messages have nothing of its content (find.h) */
    struct qr_name_list classes; /* what labels are called in the file; empty: they are numbers */
    char *unread; /* "a, b": columns of the (first) file beside the model's inputs; NULL: none */
    /* what was in memory beside it while it was read: the largest file, or its samples while they
     * were put behind others */
    uint64_t file_bytes;
    /* the data manifest in the job hash: SHA-256 of (u64le n_samples, n_train, n_columns,
     * n_outputs, SHA-256 of x, of y) */
    uint8_t digest[32];
};

QR_MUST_CHECK enum qr_code qr_dataset_load(const struct qr_data_options *opt,
                                           struct qr_dataset *ret, struct qr_err *err);
bool qr_data_has_channel(const struct qr_data_options *opt, const char *name);
/* INVALID_ARGUMENT listing those that there are: none has this name. */
QR_MUST_CHECK enum qr_code qr_data_check_channel(const struct qr_data_options *opt,
                                                 const char *name, struct qr_err *err);
/* The samples of one channel, none of which trains (n_train 0; no digest). INVALID_ARGUMENT: there
 * is none of that name. */
QR_MUST_CHECK enum qr_code qr_dataset_load_channel(const struct qr_data_options *opt,
                                                   const char *name, struct qr_dataset *ret,
                                                   struct qr_err *err);
/* Samples beside the job's, none of which trains (n_train 0; no digest): of one file, whatever
 * opt->source says: one that is a ZIP archive is npz, any other CSV. It is opt->url's, or, unless
 * that is NULL, `file`, whose bytes are taken and which messages call opt->url. key: what the error
 * of a file that is not there begins with. */
QR_MUST_CHECK enum qr_code qr_dataset_load_samples(const struct qr_data_options *opt,
                                                   const char *key, struct qr_buf *file,
                                                   struct qr_dataset *ret, struct qr_err *err);
void qr_dataset_fini(struct qr_dataset *d);
/* Names of inputs and classes for a file of weights, borrowed from d; none of unquoted data. */
struct qr_data_names qr_dataset_data_names(const struct qr_dataset *d);
static inline size_t qr_dataset_y_width(const struct qr_dataset *d) {
    return d->n_outputs + d->weighted;
}
/* Labels of a sample, and its weight where the data is weighted. */
static inline const double *qr_dataset_y(const struct qr_dataset *d, size_t sample) {
    return d->y + sample * qr_dataset_y_width(d);
}
/* Where people find this sample: its row in the file, from 0. */
static inline size_t qr_dataset_row(const struct qr_dataset *d, size_t sample) {
    return d->row ? d->row[sample] : sample;
}

#endif
