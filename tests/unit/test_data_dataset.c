/* Data sets: the generator, valid files, and malformed files with the error for each. */
#include "exact/random.h"
#include "tests/support/data_files.h"

static void generator(void) {
    struct qr_data_options opt = options(QR_DATA_EXCITATIONS, 8, 1);
    opt.train_fraction = 0.7;
    struct qr_dataset d = load(&opt), e = load(&opt);
    CHECK(d.n_samples == 160 && d.n_train == 112 && d.n_columns == 8 && d.n_outputs == 1);
    CHECK(memcmp(d.digest, e.digest, 32) == 0);
    size_t wrong = 0, plus = 0;
    for (size_t s = 0; s < 160; s++) {
        double a = d.x[s * 8 + s % 8];
        wrong +=
            a != -M_PI + 2 * M_PI * qr_random_uniform(1, QR_RANDOM_DATA, (uint32_t)(s / 8), s % 8);
        wrong += d.y[s] != (fabs(a) <= M_PI_2 ? 1 : -1) || !(a >= -M_PI && a <= M_PI);
        for (size_t q = 0; q < 8; q++) wrong += q != s % 8 && d.x[s * 8 + q] != 0;
        plus += d.y[s] > 0;
    }
    CHECK(wrong == 0);
    /* 80 expected, standard deviation 6.3: within five deviations. */
    CHECK(plus > 48 && plus < 112, "%zu", plus);
    qr_dataset_fini(&e);
    opt.seed = 2;
    e = load(&opt);
    CHECK(memcmp(d.digest, e.digest, 32) != 0);
    qr_dataset_fini(&e);
    opt.seed = 1, opt.train_fraction = 0.5;
    e = load(&opt);
    CHECK(memcmp(d.digest, e.digest, 32) != 0 && e.n_train == 80);
    qr_dataset_fini(&e);
    qr_dataset_fini(&d);
}

static void files(void) {
    struct qr_data_options opt = options(QR_DATA_NPZ, 2, 1);
    write_npz(path, "x", (const size_t[]){4, 2}, 2, (const size_t[]){4}, 1, 0, 0);
    opt.train_fraction = 0.8;
    struct qr_dataset d = load(&opt);
    CHECK(d.n_samples == 4 && d.n_train == 3 && d.x[5] == 2.5 && d.y[3] == 3);
    qr_dataset_fini(&d);
    opt.n_columns = 0; /* any number of columns; class numbers become one-hot */
    opt.n_outputs = 4;
    d = load(&opt);
    CHECK(d.n_columns == 2 && d.n_outputs == 4 && d.y[0] == 1 && d.y[1] == 0 &&
          d.y[2 * 4 + 2] == 1 && d.y[15] == 1);
    qr_dataset_fini(&d);
    opt.one_label_for_all = true; /* or one label for all outputs, as Keras broadcasts it */
    d = load(&opt);
    CHECK(d.n_outputs == 4 && d.y[0] == 0 && d.y[3] == 0 && d.y[12] == 3 && d.y[15] == 3);
    qr_dataset_fini(&d);
    opt.one_label_for_all = false;
    opt.n_columns = 1; /* a file with more columns than the model names */
    refused(&opt, QR_DATA_LOSS, "x has 2 columns, but the model takes 1");
    opt.more_columns = true;
    opt.n_outputs = 1;
    d = load(&opt);
    CHECK(d.n_columns == 2 && d.x[5] == 2.5);
    qr_dataset_fini(&d);
    opt.n_columns = 3;
    refused(&opt, QR_DATA_LOSS, "x has 2 columns, but the model takes 3");
    opt.more_columns = false;
    opt.n_columns = 0;
    /* All of the first file train, all of the second validate, whatever the fraction. */
    opt.validation_url = path2;
    write_npz(path2, "x", (const size_t[]){3, 2}, 2, (const size_t[]){3, 1}, 2, 0, 0);
    d = load(&opt);
    CHECK(d.n_samples == 7 && d.n_train == 4 && d.x[8] == 0 && d.x[13] == 2.5 && d.y[6] == 2);
    qr_dataset_fini(&d);
    opt.validation_url = NULL;
    opt.n_columns = 1;
    write_npz(path, "x", (const size_t[]){4}, 1, (const size_t[]){4, 1}, 2, 0, 0);
    d = load(&opt);
    CHECK(d.n_columns == 1 && d.x[3] == 1.5);
    qr_dataset_fini(&d);
    opt.n_outputs = 3;
    write_npz(path, "x", (const size_t[]){4, 1}, 2, (const size_t[]){4, 3}, 2, 0, 0);
    d = load(&opt);
    CHECK(d.n_outputs == 3 && d.y[11] == 11);
    qr_dataset_fini(&d);

    opt = options(QR_DATA_CSV, 2, 1);
    write_text(path, "b,y,a\n1,-1,2\n3,1,4.5\n");
    d = load(&opt);
    CHECK(d.n_samples == 2 && d.x[0] == 1 && d.x[1] == 2 && d.x[3] == 4.5 && d.y[0] == -1 &&
          d.y[1] == 1);
    qr_dataset_fini(&d);
    opt.n_outputs = 2;
    write_text(path, "y1,a,b,y0\n0.25,1,2,0.75\n");
    d = load(&opt);
    CHECK(d.n_outputs == 2 && d.y[0] == 0.75 && d.y[1] == 0.25 && d.x[1] == 2);
    qr_dataset_fini(&d);
    write_text(path, "a,b,y\n1,2,1\n3,4,0\n");
    d = load(&opt);
    CHECK(d.y[0] == 0 && d.y[1] == 1 && d.y[2] == 1 && d.y[3] == 0);
    qr_dataset_fini(&d);
}

static void malformed_csv(void) {
    static const struct {
        const char *text;
        size_t n_outputs;
        const char *says;
    } table[] = {
        {"", 1, "is empty"},
        {"a,b,y\n", 1, "the file has no samples"},
        {"a,b\n1,2\n", 1, "the header has no column y"},
        {"0.5,1\n1,2\n", 1, "the header has no column y (the labels); is the header line"},
        {"a,b,z\n1,2,0\n", 3, "neither columns y0 to y2 nor a column y"},
        {"a,y\n1,2\n", 1, "x has 1 columns, but the model takes 2"},
        {"y\n1\n", 1, "x has no columns"},
        {"a,b,y\n1,2,3\n1,nan,3\n", 1, "row 2, column 'b' is NaN"},
        {"a,b,y\n1,2,3\n1,2,3\n1,2,-inf\n", 1, "row 3, column 'y' is -infinity"},
        {"a,b,y\n1,2\n", 1, "row 1 has 2 cells"},
        {"a,b,y\n1,2,3,4\n", 1, "row 1 has more"},
        {"a,b,y\n1,two,3\n", 1, "row 1, column 'b': 'two' is not a number"},
        {"a,b,y\n1,,3\n", 1, "row 1, column 'b'"},
        {"a,b,y\n1,2,0\n1,2,3\n", 3,
         "row 2 of y is 3; the model has 3 outputs, so y must be a class number from 0 to 2, or 3 "
         "columns"},
        {"a,b,y\n1,2,0.5\n", 3, "row 1 of y is 0.5"},
    };
    for (size_t i = 0; i < COUNT(table); i++) {
        struct qr_data_options opt = options(QR_DATA_CSV, 2, table[i].n_outputs);
        write_text(path, table[i].text);
        refused(&opt, QR_DATA_LOSS, table[i].says);
    }
}

static void malformed_npz(void) {
    static const struct {
        const char *x_name;
        size_t x[3];
        unsigned x_rank;
        size_t y[2];
        unsigned y_rank;
        size_t n_outputs;
        double bad;
        const char *says;
    } table[] = {
        {"X", {4, 2}, 2, {4}, 1, 1, 0, "array 'x' is missing; the file has: X, y"},
        {"x", {4}, 1, {4}, 1, 1, 0, "array x has 1 dimension;"},
        {"x", {4, 2, 2}, 3, {4}, 1, 1, 0, "array x has 3 dimensions; it must be samples × columns"},
        {"x", {4, 3}, 2, {4}, 1, 1, 0, "x has 3 columns, but the model takes 2"},
        {"x", {4, 2}, 2, {5}, 1, 1, 0, "x has 4 samples, but y has 5"},
        {"x", {4, 2}, 2, {4, 2}, 2, 1, 0, "y has 2 columns, but the model has 1 output"},
        {"x", {4, 2}, 2, {4, 2}, 2, 3, 0, "y has 2 columns, but the model has 3 outputs"},
        {"x",
         {4, 2},
         2,
         {4},
         1,
         3,
         0,
         "row 4 of y is 3; the model has 3 outputs, so y must be a class number"},
        {"x", {0, 2}, 2, {0}, 1, 1, 0, "the file has no samples"},
        {"x",
         {4, 2},
         2,
         {4},
         1,
         1,
         (double)NAN,
         "array x: row 3, column 2 (counted from 1) is NaN"},
        {"x",
         {4, 2},
         2,
         {4},
         1,
         1,
         (double)INFINITY,
         "array x: row 3, column 2 (counted from 1) is infinity"},
    };
    for (size_t i = 0; i < COUNT(table); i++) {
        struct qr_data_options opt = options(QR_DATA_NPZ, 2, table[i].n_outputs);
        write_npz(path, table[i].x_name, table[i].x, table[i].x_rank, table[i].y, table[i].y_rank,
                  table[i].bad, 5);
        refused(&opt, QR_DATA_LOSS, table[i].says);
    }
    struct qr_data_options opt = options(QR_DATA_NPZ, 2, 1);
    write_text(path, "not a zip file at all");
    refused(&opt, QR_DATA_LOSS, "");
    /* The error names the validation file if that one is malformed. */
    write_npz(path, "x", (const size_t[]){4, 2}, 2, (const size_t[]){4}, 1, 0, 0);
    write_npz(path2, "x", (const size_t[]){4, 3}, 2, (const size_t[]){4}, 1, 0, 0);
    opt.n_columns = 0;
    opt.validation_url = path2;
    refused(&opt, QR_DATA_LOSS, "second.bin: x has 3 columns, but the model takes 2");
}

/* With no_labels there are no labels, and a y is not an input; weights are kept. */
static void unlabelled(void) {
    static const char *const texts[] = {"a,b,w\n1,2,5\n3,4,6\n", "a,y,b,w\n1,9,2,5\n3,9,4,6\n"};
    struct qr_data_options opt = options(QR_DATA_CSV, 2, 3);
    opt.no_labels = true;
    for (size_t i = 0; i < 2 * COUNT(texts); i++) {
        write_text(path, texts[i / 2]);
        opt.sample_weight = i % 2 ? "w" : NULL;
        opt.n_columns = i % 2 ? 2 : 3;
        struct qr_dataset d = load(&opt);
        CHECK(d.n_samples == 2 && d.n_columns == opt.n_columns && d.n_outputs == 0 &&
              qr_dataset_y_width(&d) == i % 2 && !d.label_for_all && strcmp(d.names[1], "b") == 0);
        CHECK(d.x[d.n_columns] == 3 && d.x[d.n_columns + 1] == 4);
        if (i % 2) CHECK(*qr_dataset_y(&d, 0) == 5 && *qr_dataset_y(&d, 1) == 6);
        qr_dataset_fini(&d);
    }
    opt = options(QR_DATA_NPZ, 2, 3);
    opt.no_labels = true;
    static const size_t lengths[] = {4, 7}; /* of a y that is not read */
    for (size_t i = 0; i < COUNT(lengths); i++) {
        write_npz(path, "x", (const size_t[]){4, 2}, 2, &lengths[i], 1, 0, 0);
        struct qr_dataset d = load(&opt);
        CHECK(d.n_samples == 4 && d.n_outputs == 0 && qr_dataset_y_width(&d) == 0);
        CHECK(d.x[7] == 3.5);
        qr_dataset_fini(&d);
    }
    opt = options(QR_DATA_EXCITATIONS, 8, 3);
    opt.no_labels = true;
    struct qr_dataset made = load(&opt);
    CHECK(made.n_samples == 160 && qr_dataset_y_width(&made) == 0);
    qr_dataset_fini(&made);
    opt = options(QR_DATA_NONE, 0, 1);
    opt.url = NULL;
    struct qr_dataset none = load(&opt);
    CHECK(none.n_samples == 1 && none.n_train == 1 && none.n_columns == 0 &&
          qr_dataset_y_width(&none) == 0 && none.x);
    qr_dataset_fini(&none);
}

static enum qr_code load_samples(struct qr_data_options *opt, const char *text,
                                 struct qr_dataset *ret, struct qr_err *err) {
    struct qr_buf file = {0};
    qr_buf_puts(&file, text);
    opt->url = "some text";
    opt->only_inputs = opt->no_labels = true;
    enum qr_code code = qr_dataset_load_samples(opt, "--data", &file, ret, err);
    CHECK(!file.p);
    return code;
}

/* Samples apart from the job's: none trains, and columns of labels and weights are not inputs. */
static void samples(void) {
    static const char *const texts[] = {"a,b\n1,2\n3,4\n", "y,a,b,w\n9,1,2,5\n9,3,4,5\n",
                                        "w,a,y1,y0,b,y2\n5,1,0,0,2,1\n5,3,0,0,4,1\n",
                                        "0,1\n1,2\n3,4\n"};
    struct qr_dataset d;
    struct qr_err err;
    for (size_t i = 0; i < COUNT(texts); i++) {
        struct qr_data_options opt = options(QR_DATA_NPZ, 2, 3);
        opt.sample_weight = "w";
        CHECK(load_samples(&opt, texts[i], &d, &err) == QR_OK, "%s", err.msg);
        CHECK(d.n_samples == 2 && d.n_train == 0 && d.n_columns == 2 && d.n_outputs == 0 &&
              qr_dataset_y_width(&d) == 0 && d.file_bytes == strlen(texts[i]));
        CHECK(d.x[0] == 1 && d.x[1] == 2 && d.x[2] == 3 && d.x[3] == 4);
        qr_dataset_fini(&d);
    }
    static const struct {
        const char *text, *words;
    } bad[] = {{"0.5,1\n1,2\n", "the first line has only numbers (0.5 ...)"},
               {"1,0\n1,2\n", "the first line has only numbers (1 ...)"},
               {"a,b,c\n1,2,3\n", "some text: x has 3 columns, but the model takes 2"},
               {"a,y0,y1\n1,2,3\n", "x has 3 columns"}, /* two of three labels are inputs */
               {"a,b\n", "the file has no samples"}};
    for (size_t i = 0; i < COUNT(bad); i++) {
        struct qr_data_options opt = options(QR_DATA_CSV, 2, 3);
        CHECK(load_samples(&opt, bad[i].text, &d, &err) == QR_DATA_LOSS &&
                  strstr(err.msg, bad[i].words),
              "%s", err.msg);
    }
    struct qr_data_options years = options(QR_DATA_CSV, 2, 3); /* names of training are numbers */
    qr_auto(qr_name_list_fini) struct qr_name_list trained = {0};
    qr_name_list_add(&trained, "2024", 4);
    qr_name_list_add(&trained, "2025", 4);
    years.inputs = &trained;
    CHECK(load_samples(&years, "2024,2025\n1,2\n", &d, &err) == QR_OK && d.n_samples == 1, "%s",
          err.msg);
    qr_dataset_fini(&d);
    CHECK(load_samples(&years, "2025,1\n1,2\n", &d, &err) == QR_DATA_LOSS &&
              strstr(err.msg, "only numbers"),
          "%s", err.msg);
    struct qr_data_options opt = options(QR_DATA_CSV, 2, 3); /* a ZIP archive is read as npz */
    opt.only_inputs = opt.no_labels = true;
    opt.sample_weight = "w";
    write_npz(path, "x", (const size_t[]){4, 2}, 2, (const size_t[]){7}, 1, 0, 0);
    CHECK(qr_dataset_load_samples(&opt, "--data", NULL, &d, &err) == QR_OK, "%s", err.msg);
    CHECK(d.n_samples == 4 && d.n_train == 0 && d.x[7] == 3.5 && qr_dataset_y_width(&d) == 0);
    qr_dataset_fini(&d);
    opt.only_inputs = opt.no_labels = false; /* without no_labels, labels are required */
    opt.sample_weight = NULL;
    write_text(path, "a,b,y\n1,2,1\n");
    CHECK(qr_dataset_load_samples(&opt, "--data", NULL, &d, &err) == QR_OK, "%s", err.msg);
    CHECK(d.n_outputs == 3 && qr_dataset_y(&d, 0)[1] == 1);
    qr_dataset_fini(&d);
    write_text(path, "a,b\n1,2\n");
    CHECK(qr_dataset_load_samples(&opt, "--data", NULL, &d, &err) == QR_DATA_LOSS &&
          strstr(err.msg, "neither columns y0 to y2 nor a column y"));
    opt.url = "nowhere";
    CHECK(qr_dataset_load_samples(&opt, "--data", NULL, &d, &err) == QR_NOT_FOUND &&
          strstr(err.msg, "--data: there is no file"));
}

static void bad_options(void) {
    struct qr_data_options opt = options(QR_DATA_EXCITATIONS, 9, 1);
    refused(&opt, QR_INVALID_ARGUMENT, "makes 8, but the model takes 9");
    opt = options(QR_DATA_EXCITATIONS, 8, 3);
    refused(&opt, QR_INVALID_ARGUMENT, "the model has 3 outputs");
    opt = options(QR_DATA_EXCITATIONS, 8, 1);
    opt.rounds = 0;
    refused(&opt, QR_INVALID_ARGUMENT, "0 rounds");
    opt.rounds = 4000000000u, opt.qubits = 64, opt.n_columns = 64;
    refused(&opt, QR_RESOURCE_EXHAUSTED, "this process may use");
    opt = options(QR_DATA_EXCITATIONS, 8, 1);
    opt.train_fraction = 0;
    refused(&opt, QR_INVALID_ARGUMENT, "train_fraction is 0");
    opt.train_fraction = (double)NAN;
    refused(&opt, QR_INVALID_ARGUMENT, "train_fraction is nan");
    opt.train_fraction = 0.001;
    refused(&opt, QR_DATA_LOSS, "leaves none to train on");
    opt = options(QR_DATA_NPZ, 2, 1);
    opt.url = "/nonexistent/qring/x.npz";
    refused(&opt, QR_NOT_FOUND, "/nonexistent/qring/x.npz");
}

/* A shuffled split: each sample once, x with its y, with its row number; the same seed gives the
 * same split, another seed another one. */
static void shuffled(void) {
    struct qr_data_options opt = options(QR_DATA_NPZ, 2, 1);
    enum { N = 100 };
    write_npz(path, "x", (const size_t[]){N, 2}, 2, (const size_t[]){N}, 1, 0, 0);
    opt.train_fraction = 0.8;
    struct qr_dataset plain = load(&opt);
    CHECK(!plain.row && qr_dataset_row(&plain, 7) == 7);
    opt.shuffle_split = true;
    opt.split_seed = 3;
    struct qr_dataset d = load(&opt), again = load(&opt);
    size_t wrong = 0, moved = 0;
    uint8_t seen[N] = {0};
    for (size_t i = 0; i < N; i++) {
        size_t row = qr_dataset_row(&d, i);
        wrong += row >= N || seen[row]++ || d.y[i] != (double)row || d.x[2 * i] != (double)row ||
                 d.x[2 * i + 1] != (double)row + 0.5;
        moved += row != i;
        uint64_t key = qr_random_u64(3, QR_RANDOM_SPLIT, 0, row);
        wrong += i && qr_random_u64(3, QR_RANDOM_SPLIT, 0, d.row[i - 1]) > key;
    }
    CHECK(wrong == 0 && moved > 80 && d.n_train == 80, "%zu wrong, %zu moved", wrong, moved);
    CHECK(memcmp(d.digest, again.digest, 32) == 0 && memcmp(d.digest, plain.digest, 32) != 0);
    qr_dataset_fini(&again);
    opt.split_seed = 4;
    again = load(&opt);
    CHECK(memcmp(d.digest, again.digest, 32) != 0);
    qr_dataset_fini(&again);
    qr_dataset_fini(&d);
    qr_dataset_fini(&plain);
}

/* Weights follow the labels in y: from a column or an array by name, shuffled with their
 * samples. */
static void weights(void) {
    static const double of_row[3] = {0.5, 0, 2};
    struct qr_data_options opt = options(QR_DATA_CSV, 2, 1);
    opt.sample_weight = "w";
    write_text(path, "a,w,y,b\n1,0.5,-1,2\n3,0,1,4\n5,2,1,6\n");
    write_text(path2, "a,b,y,w\n5,6,1,3\n");
    struct qr_dataset d = load(&opt);
    CHECK(d.weighted && d.n_columns == 2 && d.n_outputs == 1 && qr_dataset_y_width(&d) == 2);
    CHECK(d.x[1] == 2 && d.x[2] == 3 && strcmp(d.names[1], "b") == 0);
    CHECK(qr_dataset_y(&d, 0)[0] == -1 && qr_dataset_y(&d, 0)[1] == 0.5 &&
          qr_dataset_y(&d, 1)[1] == 0 && qr_dataset_y(&d, 2)[1] == 2);
    qr_dataset_fini(&d);
    opt.validation_url = path2;
    d = load(&opt);
    CHECK(d.n_samples == 4 && qr_dataset_y(&d, 3)[0] == 1 && qr_dataset_y(&d, 3)[1] == 3);
    qr_dataset_fini(&d);
    opt.validation_url = NULL;
    opt.train_fraction = 0.7;
    opt.shuffle_split = true;
    for (opt.split_seed = 0; opt.split_seed < 3; opt.split_seed++) {
        d = load(&opt);
        for (size_t i = 0; i < 3; i++)
            CHECK(qr_dataset_y(&d, i)[1] == of_row[d.row[i]] && d.x[2 * i] == 1 + 2.0 * d.row[i]);
        qr_dataset_fini(&d);
    }
    opt = options(QR_DATA_CSV, 2, 2);
    opt.sample_weight = "w";
    write_text(path, "a,w,y,b\n1,0.5,1,2\n3,1,0,4\n");
    d = load(&opt); /* one-hot */
    CHECK(qr_dataset_y_width(&d) == 3 && d.y[0] == 0 && d.y[1] == 1 && d.y[2] == 0.5 &&
          d.y[3] == 1 && d.y[4] == 0 && d.y[5] == 1);
    qr_dataset_fini(&d);
    opt.n_outputs = 1;
    write_text(path, "a,y,b\n1,1,2\n");
    refused(&opt, QR_DATA_LOSS, "no column 'w', which data.sample_weight names");
    write_text(path, "a,w,y,b\n1,1,1,2\n3,-1,1,4\n");
    refused(&opt, QR_DATA_LOSS, "row 2: the weight in 'w' is -1; a weight is 0 or more");
    write_text(path, "a,w,y,b\n1,2e12,1,2\n");
    refused(&opt, QR_DATA_LOSS, "below 2^40");
    write_text(path, "a,w,y,b\n1,0,1,2\n3,0,1,4\n5,1,1,6\n");
    opt.train_fraction = 0.7;
    refused(&opt, QR_DATA_LOSS, "the weights in 'w' are 0 for all 2 training samples");
}

static void weights_npz(void) {
    struct qr_data_options opt = options(QR_DATA_NPZ, 2, 1);
    opt.sample_weight = "w";
    write_npz(path, "x", (const size_t[]){4, 2}, 2, (const size_t[]){4}, 1, 0, 0);
    refused(&opt, QR_DATA_LOSS, "array 'w' is missing");
    for (size_t n = 3; n < 6; n++) {
        struct qr_tensors t = {0};
        struct qr_tensor *w = qr_tensors_add(&t, "w", 1, (const size_t[]){n}, NULL);
        for (size_t i = 0; i < n; i++) w->values[i] = 10 + (double)i;
        static const double four[4] = {0, 1, 2, 3}, eight[8] = {0, 0.5, 1, 1.5, 2, 2.5, 3, 3.5};
        qr_tensors_add(&t, "y", 1, (const size_t[]){4}, four);
        qr_tensors_add(&t, "x", 2, (const size_t[]){4, 2}, eight);
        write_tensors(path, &t);
        if (n != 4) {
            refused(&opt, QR_DATA_LOSS,
                    n == 3 ? "x has 4 samples, but w has 3 weights"
                           : "x has 4 samples, but w has 5 weights");
            continue;
        }
        struct qr_dataset d = load(&opt);
        CHECK(d.weighted && d.x[7] == 3.5 && qr_dataset_y(&d, 3)[0] == 3 &&
              qr_dataset_y(&d, 3)[1] == 13);
        qr_dataset_fini(&d);
    }
}

int main(void) {
    if (!data_begin()) return 1;
    generator();
    files();
    malformed_csv();
    malformed_npz();
    unlabelled();
    samples();
    bad_options();
    shuffled();
    weights();
    weights_npz();
    data_end();
    return t_end();
}
