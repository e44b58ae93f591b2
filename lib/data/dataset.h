/* data/dataset.h — loads the samples of a job: x [samples, columns] and y, float64.
 *
 * Usage     qr_dataset_load; qr_dataset_y and the fields for each sample; qr_dataset_fini.
 * Sources   "cluster-excitations": TFQ's tutorial, seeded: for round r, qubit q: angle
 *           a = -pi + 2 pi u, u = uniform(seed, DATA, r, q); x is a on qubit q and 0 elsewhere;
 *           y = +1 if |a| <= pi/2 else -1.
 *           "npz": arrays x, y. "csv": a header line; the labels are column y, the other columns
 *           are x in file order.
 *           "none": one sample without columns or labels.
 * Split     The first floor(N * train_fraction) samples train, the rest validate, in file order or
 *           in the order given by shuffle_split's seed. With a channel "validation" all samples of
 *           "train" train.
 * Channels  are named sets of files. "train" and "validation" hold the training and validation
 *           samples (url and validation_url define them with one file each); others are loaded by
 *           name only. The files of a channel are concatenated in the given order, and messages
 *           count rows accordingly. All files have the columns of the first training file.
 * Folders   A URL or path that ends with '/' means all files below it, sorted by their bytes,
 *           except files and folders whose name begins with '.' or '_'. Not for stores that cannot
 *           list.
 * Paths     A relative path is resolved against the working directory and, when no file is there,
 *           against `folder`. NOT_FOUND: the message has the key and both paths.
 * Checks    DATA_LOSS: NaN or infinity (the message has file, row and column); a number of columns
 *           other than wanted; no samples; an npz array x that is not [samples, columns] (or
 *           one-dimensional for one column), or a y of more than two dimensions; a CSV file without
 *           labels whose first line has only numbers, other than 0, 1, 2 ….
 * Labels    With n_outputs > 1, a y of one column holds class numbers 0 … n_outputs-1 and becomes
 *           one-hot (other values: DATA_LOSS), or with one_label_for_all is the label of every
 *           output, as Keras' losses broadcast it. CSV: with n_outputs > 1 the labels are the
 *           columns y0 … y<k-1>, or one column y, or those of opt's labels. A single column of
 *           labels may hold words, which are classes: sorted by their bytes over all files of the
 *           data set, the first is class 0.
 * Names     With opt's inputs, the columns of a CSV file are found by the names that they had when
 *           the model was trained (DATA_LOSS: the message has the missing ones), and other columns
 *           are not read. Columns that are not picked are not read either, when all are picked by
 *           name.
 * Columns   x has the picked columns, by name (CSV only) or number, in the order of the picks;
 *           DATA_LOSS when one is missing.
 * Weights   are finite, 0 or more, and below 2^40, and at least one training sample has a weight
 *           above 0; else DATA_LOSS.
 * Memory    holds the whole set. RESOURCE_EXHAUSTED above the memory limit.
 * Threads   loading: one; a loaded data set is constant and may be read by any.
 */
#ifndef QR_DATA_DATASET_H
#define QR_DATA_DATASET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/bytes.h"
#include "base/err.h"
#include "format/data_names.h"
#include "format/tensor.h"

enum qr_data_source { QR_DATA_EXCITATIONS, QR_DATA_NPZ, QR_DATA_CSV, QR_DATA_NONE };

/* A column of x: by its name in the file, or, if name is NULL, by its number from 0, not counting
 * labels and weights. */
struct qr_data_column {
    const char *name;
    size_t number;
};

/* A named set of files. All fields are borrowed. */
struct qr_data_channel {
    const char *name;
    size_t n_urls; /* 1 or more */
    const char *const *urls;
    enum qr_data_source source; /* NPZ or CSV */
    /* x is these columns of its files, as many as the data's n_picked; 0: those of the data */
    size_t n_picked;
    const struct qr_data_column *picked;
};

struct qr_data_options {
    enum qr_data_source source;
    uint64_t seed;
    unsigned rounds, qubits;          /* EXCITATIONS */
    const char *url, *validation_url; /* NPZ, CSV; borrowed; validation_url may be NULL */
    /* NPZ, CSV: the samples of url in memory: x with the inputs alone, in the order of the picks, y
     * unless no_labels, and sample_weight's unless only_inputs. Loading empties the list; NULL:
     * none */
    struct qr_tensors *arrays;
    size_t n_channels; /* none has the name of a URL above; borrowed */
    const struct qr_data_channel *channels;
    const char *folder;    /* folder of the job file; NULL: none; borrowed */
    double train_fraction; /* in (0, 1] */
    bool shuffle_split;    /* shuffle the samples before the split */
    uint64_t split_seed;
    /* columns wanted: the inputs of the model's first layer; 0: any number */
    size_t n_columns;
    /* the file may have more than n_columns: the model reads the columns that it names */
    bool more_columns;
    /* NPZ, CSV: x is these distinct columns of the file; borrowed; 0: all */
    size_t n_picked;
    const struct qr_data_column *picked;
    bool pick_all;           /* a column of the file that is not picked is an error */
    const char *columns_key; /* job key of the picks, for messages; NULL: data.columns */
    /* columns of y wanted (1, or the classes of a one-hot y); 0: any number */
    size_t n_outputs;
    bool one_label_for_all; /* a single label is that of every output, not a class number */
    /* samples have no labels: a column or array y is not read, and n_outputs is ignored */
    bool no_labels;
    /* with no_labels: label columns and a column sample_weight of a CSV file are not inputs, and
     * may be missing; of npz neither is read */
    bool only_inputs;
    /* the column or array of each sample's weight, 0 or more; NULL: none; borrowed */
    const char *sample_weight;
    /* the label columns of a CSV file, or the one label array of npz; borrowed; 0: y, or
     * y0 … y<k-1> */
    size_t n_labels;
    const char *const *labels;
    size_t max_classes; /* maximum number of distinct words in labels; 0: labels are numbers */
    bool signs;         /* two words are the labels -1 and 1, not 0 and 1 */
    /* Names stored with the weights of a trained model; borrowed. inputs: names of its inputs; NULL
     * or empty: inputs are matched by position. classes: the words of its classes, in order; NULL:
     * those of the files, sorted; empty: words are rejected. */
    const struct qr_name_list *inputs, *classes;
};

struct qr_dataset {
    size_t n_samples, n_train; /* samples n_train .. n_samples-1 validate */
    size_t n_columns, n_outputs;
    double *x, *y; /* [n_samples, n_columns], [n_samples, qr_dataset_y_width]; row-major; owned */
    char **names;  /* n_columns names of x; owned; NULL: the file has none */
    /* sample → its row in the file, from 0; owned; NULL: the same number */
    uint32_t *row;
    bool weighted;               /* a row of y has the n_outputs labels, then the sample's weight */
    bool label_for_all;          /* the file had one label per sample, used for every output */
    bool unquoted;               /* messages must not quote its content (named_files.h) */
    struct qr_name_list classes; /* words of the labels in the file; empty: they are numbers */
    char *unread; /* "a, b": columns of the (first) file that are not inputs; NULL: none */
    /* peak memory beside the data set while it was read: the largest file, or its samples while
     * files were concatenated */
    uint64_t file_bytes;
    /* the data manifest in the job hash: SHA-256 of (u64le n_samples, n_train, n_columns,
     * n_outputs, SHA-256 of x, of y) */
    uint8_t digest[32];
};

/* Loads the training and validation samples of a job. Errors: see the head of this file;
 * INVALID_ARGUMENT (train_fraction, no url). */
QR_MUST_CHECK enum qr_code qr_dataset_load(const struct qr_data_options *opt,
                                           struct qr_dataset *ret, struct qr_err *err);
/* True when there is a channel of this name, or a URL that defines it. */
bool qr_data_has_channel(const struct qr_data_options *opt, const char *name);
/* INVALID_ARGUMENT when there is no channel of this name; the message lists the channels. */
QR_MUST_CHECK enum qr_code qr_data_check_channel(const struct qr_data_options *opt,
                                                 const char *name, struct qr_err *err);
/* Loads the samples of one channel, none of which trains (n_train 0; no digest). INVALID_ARGUMENT:
 * no channel of this name. */
QR_MUST_CHECK enum qr_code qr_dataset_load_channel(const struct qr_data_options *opt,
                                                   const char *name, struct qr_dataset *ret,
                                                   struct qr_err *err);
/* Loads samples that are not the job's own, none of which trains (n_train 0; no digest), from one
 * file. opt->source is ignored: a ZIP archive is npz, any other file CSV.
 *
 * Args:     key    prefix of a NOT_FOUND message
 *           file   the bytes of the file, which this function takes; messages call it opt->url.
 *                  NULL: opt->arrays, or else the file at opt->url is read
 */
QR_MUST_CHECK enum qr_code qr_dataset_load_samples(const struct qr_data_options *opt,
                                                   const char *key, struct qr_buf *file,
                                                   struct qr_dataset *ret, struct qr_err *err);
void qr_dataset_fini(struct qr_dataset *d); /* leaves it all-zero */
/* Names of inputs and classes, for a file of weights; borrowed from d. Empty for unquoted data. */
struct qr_data_names qr_dataset_data_names(const struct qr_dataset *d);
/* Values per row of y: the labels, and the weight if the data is weighted. */
static inline size_t qr_dataset_y_width(const struct qr_dataset *d) {
    return d->n_outputs + d->weighted;
}
/* Labels of a sample, followed by its weight if the data is weighted. */
static inline const double *qr_dataset_y(const struct qr_dataset *d, size_t sample) {
    return d->y + sample * qr_dataset_y_width(d);
}
/* Row of a sample in the file, from 0, for messages. */
static inline size_t qr_dataset_row(const struct qr_dataset *d, size_t sample) {
    return d->row ? d->row[sample] : sample;
}

#endif
