/* CSV files matched by the input names of a trained model, labels that are words, columns that
 * data.labels names, and unsupported formats. */
#include "tests/support/data_files.h"

#include "format/data_names.h"

static char letters[][2] = {"a", "b", "c"}, *abc[] = {letters[0], letters[1], letters[2]};
static const struct qr_name_list inputs = {3, abc};
/* Not in alphabetical order. */
static char dog[] = "dog", cat[] = "cat", *animals[] = {dog, cat};
static const struct qr_name_list classes = {2, animals}, none = {0};

static struct qr_data_options csv(size_t n_outputs) {
    struct qr_data_options opt = options(QR_DATA_CSV, 0, n_outputs);
    opt.max_classes = n_outputs > 1 ? n_outputs : 2;
    return opt;
}

/* Inputs are matched by name, whatever the order, blanks and other columns of a file. */
static void by_name(void) {
    static const struct {
        const char *text, *unread;
    } table[] = {
        {"a,b,c,y\n1,2,3,0\n4,5,6,1\n", NULL},
        {"c,y,a,b\n3,0,1,2\n6,1,4,5\n", NULL},
        {"a, b, c, y\n1, 2, 3, 0\n4, 5, 6, 1\n", NULL},
        {"id,b,note,c,a,y\ns-1,2,,3,1,0\ns-2,5,\"x, y\",6,4,1\n", "id, note"},
        {"0,1,2,y\n1,2,3,0\n4,5,6,1\n", NULL}, /* no names: by position */
    };
    for (size_t i = 0; i < COUNT(table); i++) {
        struct qr_data_options opt = csv(1);
        opt.inputs = &inputs;
        opt.classes = &none;
        write_text(path, table[i].text);
        struct qr_dataset d = load(&opt);
        static const double want[] = {1, 2, 3, 4, 5, 6};
        CHECK(d.n_samples == 2 && d.n_columns == 3 && memcmp(d.x, want, sizeof want) == 0 &&
                  d.y[0] == 0 && d.y[1] == 1,
              "row %zu", i);
        CHECK(table[i].unread ? d.unread && strcmp(d.unread, table[i].unread) == 0 : !d.unread,
              "row %zu: %s", i, d.unread ? d.unread : "nothing");
        qr_dataset_fini(&d);
    }
    static const char *const bad[][2] = {
        {"a,id,y\n1,2,0\n", "2 of the 3 inputs that the model was trained with are missing: b, c; "
                            "the file has a, id; give its columns those names"},
        {"0,1,y\n1,2,0\n", "x has 2 columns without names, but the model was trained with 3"},
        {"a,b,c,y\n1,x,3,0\n", "row 1, column 'b': 'x' is not a number"},
    };
    for (size_t i = 0; i < COUNT(bad); i++) {
        struct qr_data_options opt = csv(1);
        opt.inputs = &inputs;
        write_text(path, bad[i][0]);
        refused(&opt, QR_DATA_LOSS, bad[i][1]);
    }
    /* An npz file has no names. */
    struct qr_data_options opt = options(QR_DATA_NPZ, 0, 1);
    opt.inputs = &inputs;
    write_npz(path, "x", (const size_t[]){4, 3}, 2, (const size_t[]){4}, 1, 0, 0);
    struct qr_dataset d = load(&opt);
    CHECK(d.n_columns == 3 && d.x[11] == 5.5);
    qr_dataset_fini(&d);
    write_npz(path, "x", (const size_t[]){4, 2}, 2, (const size_t[]){4}, 1, 0, 0);
    refused(&opt, QR_DATA_LOSS, "x has 2 columns without names, but the model was trained with 3");
}

/* A column that is not picked by name need not have numbers. */
static void picked(void) {
    static const struct qr_data_column two[] = {{"b", 0}, {"a", 0}}, numbers[] = {{NULL, 1}};
    struct qr_data_options opt = csv(1);
    opt.n_picked = 2;
    opt.picked = two;
    write_text(path, "id,a,b,y\ns-1,1,2,7\n");
    struct qr_dataset d = load(&opt);
    CHECK(d.n_columns == 2 && d.x[0] == 2 && d.x[1] == 1 && d.y[0] == 7);
    qr_dataset_fini(&d);
    opt.n_picked = 1;
    opt.picked = numbers;
    refused(&opt, QR_DATA_LOSS,
            "column 'id': 's-1' is not a number; if this column is not an input, list the inputs "
            "by name in data \"columns\"");
}

static void words(void) {
    static const char text[] = "kind,a\ncat,1\n dog ,2\n\"ape\",3\ncat,4\n";
    static const char *const kind[] = {"kind"};
    struct qr_data_options opt = csv(3);
    opt.n_labels = 1;
    opt.labels = kind;
    write_text(path, text);
    struct qr_dataset d = load(&opt);
    static const double one_hot[] = {0, 1, 0, 0, 0, 1, 1, 0, 0, 0, 1, 0};
    CHECK(d.n_columns == 1 && d.x[3] == 4 && memcmp(d.y, one_hot, sizeof one_hot) == 0);
    CHECK(d.classes.n == 3 && strcmp(d.classes.v[0], "ape") == 0 &&
          strcmp(d.classes.v[2], "dog") == 0);
    /* The same samples with numbers have the same digest, and so the same job hash. */
    write_text(path, "kind,a\n1,1\n2,2\n0,3\n1,4\n");
    struct qr_dataset numbers = load(&opt);
    CHECK(memcmp(d.digest, numbers.digest, sizeof d.digest) == 0 && numbers.classes.n == 0);
    qr_dataset_fini(&numbers);
    qr_dataset_fini(&d);
    /* Two words, as bits or as signs; for one output or for all. */
    for (int signs = 0; signs < 2; signs++) {
        opt = csv(2);
        opt.max_classes = 2;
        opt.signs = signs;
        opt.one_label_for_all = true;
        write_text(path, "a,y\n1,no\n2,yes\n");
        d = load(&opt);
        double no = signs ? -1 : 0;
        CHECK(d.y[0] == no && d.y[1] == no && d.y[2] == 1 && d.y[3] == 1 && d.label_for_all);
        qr_dataset_fini(&d);
    }
    static const struct {
        const char *text;
        size_t max;
        const char *says;
    } bad[] = {
        {"a,y\n1,cat\n2,dog\n3,ape\n", 2,
         "the labels in column 'y' are 3 classes (ape, cat, dog), but the loss takes "
         "two classes; use categorical_crossentropy with 3 outputs"},
        {"a,y\n1,cat\n2,dog\n", 0, "column 'y' are words (cat, dog), but the loss takes numbers"},
        {"a,y\n1,cat\n2,\n", 2, "row 2, column 'y': an empty cell; a label is needed"},
        {"a,y\n1,cat\n2,nan\n", 2, "row 2, column 'y' is NaN"},
        {"a,species\n1,cat\n", 2,
         "no column y (the labels); is it 'species'? give data "
         "\"labels\": \"species\""},
    };
    for (size_t i = 0; i < COUNT(bad); i++) {
        opt = csv(1);
        opt.max_classes = bad[i].max;
        write_text(path, bad[i].text);
        refused(&opt, QR_DATA_LOSS, bad[i].says);
    }
}

/* The classes of a trained model keep their order, whatever words a file has. */
static void known_classes(void) {
    struct qr_data_options opt = csv(2);
    opt.classes = &classes;
    write_text(path, "a,y\n1,cat\n2,cat\n");
    struct qr_dataset d = load(&opt);
    CHECK(d.y[0] == 0 && d.y[1] == 1 && d.classes.n == 2 && strcmp(d.classes.v[0], "dog") == 0);
    qr_dataset_fini(&d);
    write_text(path, "a,y\n1,cat\n2,ape\n");
    refused(&opt, QR_DATA_LOSS,
            "row 2, column 'y': 'ape' is not a class of the trained model "
            "(dog, cat); correct the label or remove the row");
    write_text(path, "a,y\n1,0\n2,1\n"); /* no class has this name */
    refused(&opt, QR_DATA_LOSS, "row 1, column 'y': '0' is not a class of the trained model");
    opt.classes = &none;
    write_text(path, "a,y\n1,cat\n2,dog\n");
    refused(&opt, QR_DATA_LOSS, "are words, but the weights have no class names");
    write_text(path, "a,y\n1,0\n2,1\n");
    d = load(&opt);
    CHECK(d.y[1] == 0 && d.y[3] == 1);
    qr_dataset_fini(&d);
}

/* Two files share one order of classes. */
static void classes_of_files(void) {
    for (size_t n_outputs = 1; n_outputs <= 3; n_outputs += 2) {
        struct qr_data_options opt = csv(n_outputs);
        opt.validation_url = path2;
        write_text(path, "a,y\n1,cow\n");
        write_text(path2, n_outputs > 1 ? "a,y\n1,ant\n2,dog\n3,cow\n" : "a,y\n1,ant\n2,cow\n");
        struct qr_dataset d = load(&opt);
        static const double one_hot[] = {0, 1, 0, 1, 0, 0, 0, 0, 1, 0, 1, 0}, bits[] = {1, 0, 1};
        CHECK(memcmp(d.y, n_outputs > 1 ? one_hot : bits, d.n_samples * n_outputs * sizeof *d.y) ==
                  0 &&
              d.classes.n == (n_outputs > 1 ? 3 : 2) && strcmp(d.classes.v[0], "ant") == 0);
        qr_dataset_fini(&d);
    }
    struct qr_data_options opt = csv(1);
    opt.validation_url = path2;
    write_text(path2, "a,y\n1,ant\n2,dog\n");
    write_text(path, "a,y\n1,cow\n");
    refused(&opt, QR_DATA_LOSS,
            "and 1 more: the labels in column 'y' are 3 classes (ant, cow, "
            "dog), but the loss takes two classes; use categorical_crossentropy with 3 outputs");
    write_text(path, "a,y\n1,1\n");
    refused(&opt, QR_DATA_LOSS, "first.bin: its labels are numbers, but those of ");
}

static void named_labels(void) {
    static const char *const three[] = {"p", "q", "r"}, *const x_and_label[] = {"t"};
    struct qr_data_options opt = csv(3);
    opt.n_labels = 3;
    opt.labels = three;
    write_text(path, "y,r,q,p\n1,0.5,0.25,0.125\n");
    struct qr_dataset d = load(&opt);
    CHECK(d.n_columns == 1 && strcmp(d.names[0], "y") == 0 && d.y[0] == 0.125 && d.y[2] == 0.5);
    qr_dataset_fini(&d);
    write_text(path, "y,R,q,p\n1,0.5,0.25,0.125\n");
    refused(&opt, QR_DATA_LOSS,
            "no column 'r', which data.labels names (did you mean 'R'?); it "
            "has: y, R, q, p");
    opt.only_inputs = opt.no_labels = true; /* label columns that exist are not inputs */
    d = load(&opt);
    CHECK(d.n_columns == 2 && strcmp(d.names[1], "R") == 0);
    qr_dataset_fini(&d);
    opt = options(QR_DATA_NPZ, 1, 1);
    opt.n_labels = 1;
    opt.labels = x_and_label;
    struct qr_tensors t = {0};
    qr_tensors_add(&t, "x", 2, (const size_t[]){2, 1}, (const double[]){1, 2});
    qr_tensors_add(&t, "t", 1, (const size_t[]){2}, (const double[]){5, 6});
    write_tensors(path, &t);
    d = load(&opt);
    CHECK(d.y[0] == 5 && d.y[1] == 6);
    qr_dataset_fini(&d);
}

static void other_formats(void) {
    static const struct {
        const char *bytes;
        size_t n;
        bool also_npz;
        const char *says;
    } table[] = {
#define BYTES(s) s, sizeof s - 1
        {BYTES("PAR1\x15\x04"), true, "cannot read Parquet; write CSV or npz"},
        {BYTES("ARROW1\0\0"), true, "cannot read Arrow"},
        {BYTES("\x89HDF\r\n\x1a\n"), true, "cannot read HDF5"},
        {BYTES("\x93NUMPY\1\0"), true, "cannot read a single NumPy array; write both"},
        {BYTES("\x1f\x8b\x08"), true, "cannot read gzip; unpack it first"},
        {BYTES("\x28\xb5\x2f\xfd"), true, "cannot read zstd"},
        {BYTES("PK\3\4xl"), false, "cannot read a ZIP archive"},
        {BYTES("\xff\xfe"
               "a\0,\0y\0\n\0"),
         true, "cannot read text in UTF-16; save it as UTF-8"},
        {BYTES("\xfe\xff\0a\0,\0y\0\n"), true, "UTF-16"},
        {BYTES("a\0,\0y\0\n\0"), true, "UTF-16"},
        {BYTES("\0a\0,\0y\0\n"), true, "UTF-16"},
        {BYTES("\0\0\0\0"), false, "not printable text in UTF-8"},
#undef BYTES
    };
    for (size_t i = 0; i < COUNT(table); i++)
        for (int npz = 0; npz <= table[i].also_npz; npz++) {
            struct qr_data_options opt = options(npz ? QR_DATA_NPZ : QR_DATA_CSV, 1, 1);
            struct qr_err err;
            CHECK(qr_file_replace(path, qr_bytes_of(table[i].bytes, table[i].n), &err) == QR_OK);
            refused(&opt, QR_DATA_LOSS, table[i].says);
        }
}

static void lists(void) {
    static const char *const bad[][2] = {{"[\"a\",\"a\"]", "duplicate name 'a'"},
                                         {"[\"a\",\"\"]", "name 1 is empty"},
                                         {"[\"\\u001b\"]", "name 0 is empty, longer"},
                                         {"[1]", "must be a string"},
                                         {"{}", "must be an array"},
                                         {"[\"a\"", "list"}};
    struct qr_err err;
    struct qr_name_list l = {0};
    for (size_t i = 0; i < COUNT(bad); i++)
        CHECK(qr_name_list_parse(qr_bytes_of_string(bad[i][0]), "the list", &l, &err) ==
                      QR_DATA_LOSS &&
                  strstr(err.msg, bad[i][1]) && strstr(err.msg, "the list") && !l.v,
              "%zu: %s", i, err.msg);
    struct qr_buf text = {0};
    qr_name_list_put(&inputs, NULL, 2, &text);
    CHECK(strcmp(qr_buf_string(&text), "a, b and 1 more") == 0, "%s", qr_buf_string(&text));
    qr_buf_free(&text);
}

int main(void) {
    CHECK(data_begin());
    by_name();
    picked();
    words();
    known_classes();
    classes_of_files();
    named_labels();
    other_formats();
    lists();
    data_end();
    return t_end();
}
