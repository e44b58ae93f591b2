/* Files and columns that samples are read from: channels and their files, lookup of relative paths,
 * picked columns. */
#include <sys/stat.h>

#include "data/named_files.h"
#include "tests/support/data_files.h"

/* Files of a channel are concatenated; all files have the columns of the first training file. */
static void channels(void) {
    struct qr_data_options opt = options(QR_DATA_CSV, 0, 1);
    const char *const both[] = {path, path2}, *const one[] = {path2};
    struct qr_data_channel list[] = {
        {.name = "train", .n_urls = 2, .urls = both, .source = QR_DATA_CSV},
        {.name = "validation", .n_urls = 1, .urls = one, .source = QR_DATA_CSV},
        {.name = "test", .n_urls = 1, .urls = one, .source = QR_DATA_CSV}};
    opt.url = NULL;
    opt.channels = list, opt.n_channels = 3;
    write_text(path, "a,b,y\n1,2,1\n3,4,-1\n");
    write_text(path2, "a,b,y\n5,6,1\n");
    struct qr_dataset d = load(&opt);
    CHECK(d.n_samples == 4 && d.n_train == 3 && d.n_columns == 2 && d.x[4] == 5 && d.x[7] == 6 &&
          d.y[1] == -1 && strcmp(d.names[1], "b") == 0);
    qr_dataset_fini(&d);
    struct qr_err err = {0};
    CHECK(qr_dataset_load_channel(&opt, "test", &d, &err) == QR_OK && d.n_samples == 1 &&
              d.n_train == 0 && d.x[0] == 5,
          "%s", err.msg);
    qr_dataset_fini(&d);
    CHECK(qr_dataset_load_channel(&opt, "tset", &d, &err) == QR_INVALID_ARGUMENT &&
              strstr(err.msg, "no channel 'tset'; there are: train, validation, test"),
          "%s", err.msg);
    const struct qr_data_column turned[] = {{.name = "b"}, {.name = "a"}};
    const struct qr_data_column picked[] = {{.name = "a"}, {.name = "b"}};
    opt.picked = picked, opt.n_picked = 2;
    list[2].picked = turned, list[2].n_picked = 2;
    CHECK(qr_dataset_load_channel(&opt, "test", &d, &err) == QR_OK && d.x[0] == 6 && d.x[1] == 5,
          "%s", err.msg);
    qr_dataset_fini(&d);
    opt.n_picked = 0;
    write_text(path2, "b,a,y\n5,6,1\n");
    refused(&opt, QR_DATA_LOSS, "input 0 is 'b', but in ");
    write_text(path2, "a,b,c,y\n5,6,7,1\n");
    refused(&opt, QR_DATA_LOSS, "x has 3 columns, but the model takes 2");
    const char *const gone[] = {"/nonexistent/qring/"};
    list[1].urls = gone;
    write_text(path2, "a,b,y\n5,6,1\n");
    refused(&opt, QR_NOT_FOUND, "data.channels.validation: there are no files below /nonexistent");
}

/* A relative path is looked up in the working directory, then in the job file's directory; the
 * error names its key and both paths. */
static void relative_paths(void) {
    struct qr_data_options opt = options(QR_DATA_CSV, 1, 1);
    const char *file = strrchr(path, '/') + 1;
    char here[64], both[200];
    write_text(path, "a,y\n5,1\n");
    opt.url = file;
    opt.folder = dir;
    struct qr_dataset d = load(&opt);
    CHECK(d.x[0] == 5 && d.names && strcmp(d.names[0], "a") == 0);
    qr_dataset_fini(&d);
    snprintf(here, sizeof here, "%s/none", dir);
    CHECK(mkdir(here, 0700) == 0 && chdir(here) == 0);
    write_text(file, "a,y\n6,1\n");
    d = load(&opt);
    CHECK(d.x[0] == 6, "the working directory comes first");
    qr_dataset_fini(&d);
    unlink(file);
    opt.url = "x.csv";
    snprintf(both, sizeof both,
             "data.url: there is no file %s/x.csv, and beside the job file no %s/x.csv", here, dir);
    refused(&opt, QR_NOT_FOUND, both);
    opt.folder = here;
    snprintf(both, sizeof both, "data.url: there is no file %s/x.csv; correct the path", here);
    refused(&opt, QR_NOT_FOUND, both);
    opt.folder = NULL;
    refused(&opt, QR_NOT_FOUND, both);
    opt.url = path;
    opt.validation_url = "v.csv";
    refused(&opt, QR_NOT_FOUND, "data.validation_url: there is no file ");
    opt.validation_url = "/nonexistent/qring/v.csv";
    refused(&opt, QR_NOT_FOUND, "data.validation_url: ");
    CHECK(chdir("/") == 0 && rmdir(here) == 0);
}

/* Columns are picked by name or number, in any order; in a second file by its own header, and they
 * must be the same. */
static void picked(void) {
    struct qr_data_options opt = options(QR_DATA_CSV, 0, 1);
    struct qr_data_column list[3] = {{"c d", 0}, {NULL, 0}, {"b", 0}};
    opt.picked = list;
    opt.n_picked = 2;
    opt.n_columns = 2;
    write_text(path, "a,y,b,c d\n1,9,2,3\n4,9,5,6\n");
    write_text(path2, "a,b,c d,y\n7,9,8,1\n");
    opt.validation_url = path2;
    struct qr_dataset d = load(&opt);
    CHECK(d.n_columns == 2 && strcmp(d.names[0], "c d") == 0 && strcmp(d.names[1], "a") == 0 &&
          d.x[0] == 3 && d.x[1] == 1 && d.x[2] == 6 && d.x[3] == 4 && d.x[4] == 8 && d.x[5] == 7);
    qr_dataset_fini(&d);
    write_text(path2, "b,c d,a,y\n7,8,9,1\n"); /* another column 0 */
    refused(&opt, QR_DATA_LOSS, "second.bin: input 1 is 'b', but in ");
    opt.validation_url = NULL;
    opt.n_picked = 3;
    d = load(&opt);
    CHECK(d.n_columns == 3 && d.x[5] == 5 && d.y[1] == 9);
    qr_dataset_fini(&d);
    opt.pick_all = true; /* all three columns are picked */
    d = load(&opt);
    qr_dataset_fini(&d);
    opt.n_picked = 2;
    refused(&opt, QR_DATA_LOSS, "the circuit does not use column b; if that is intended");
    list[1].name = "bb";
    refused(&opt, QR_DATA_LOSS,
            "there is no input column 'bb' (did you mean 'b'?); there are: a, b, c d");
    list[1] = (struct qr_data_column){NULL, 3};
    refused(&opt, QR_DATA_LOSS, "data.columns[1] is 3, but x has columns 0 to 2");
    list[1].number = 2;
    refused(&opt, QR_DATA_LOSS, "data.columns[1] names a column a second time");
    opt = options(QR_DATA_NPZ, 2, 1);
    opt.picked = list;
    opt.n_picked = 1;
    write_npz(path, "x", (const size_t[]){4, 3}, 2, (const size_t[]){4}, 1, 0, 0);
    refused(&opt, QR_DATA_LOSS, "its columns have no names, so there is no 'c d'");
    list[0] = (struct qr_data_column){NULL, 2};
    d = load(&opt);
    CHECK(d.n_columns == 1 && d.x[0] == 1 && d.x[3] == 5.5);
    qr_dataset_fini(&d);
}

/* Errors about local files that a remote job file names quote nothing of their content. */
static void unquoted(void) {
    struct qr_data_options opt = options(QR_DATA_CSV, 0, 1);
    const char *const both[] = {path, path2};
    struct qr_data_channel list[] = {
        {.name = "train", .n_urls = 2, .urls = both, .source = QR_DATA_CSV}};
    static const struct {
        const char *text, *text2;
    } row[] = {
        {"a,y\nprivate x,1\n", "a,y\n1,1\n"},
        {"private,y\nprivate,1\n", "a,y\n1,1\n"},
        {"a,y\n1,1\n", "private,y\n1,1\n"},
        {"a,y\n1,private\n", "a,y\n1,private 2\n"},
    };
    opt.url = NULL;
    opt.max_classes = 1;
    opt.channels = list, opt.n_channels = 1;
    for (size_t i = 0; i < COUNT(row); i++) {
        struct qr_dataset d;
        struct qr_err err = {0};
        write_text(path, row[i].text);
        write_text(path2, row[i].text2);
        opt.folder = "/jobs";
        CHECK(qr_dataset_load(&opt, &d, &err) != QR_OK && strstr(err.msg, "private"), "%s",
              err.msg);
        opt.folder = "https://h/jobs";
        CHECK(qr_dataset_load(&opt, &d, &err) == QR_DATA_LOSS &&
                  strstr(err.msg, i == 2 ? path2 : path) && !strstr(err.msg, "private") &&
                  strstr(err.msg, "nothing of a local file is quoted"),
              "%s", err.msg);
    }
    write_text(path, "a,y\n1,private\n");
    write_text(path2, "a,y\n1,private\n");
    struct qr_dataset d = load(&opt);
    struct qr_data_names names = qr_dataset_data_names(&d); /* the job says where weights go */
    CHECK(d.unquoted && d.classes.n == 1 && names.inputs.n == 0 && names.classes.n == 0);
    qr_dataset_fini(&d);
    opt.folder = "/jobs";
    d = load(&opt);
    names = qr_dataset_data_names(&d);
    CHECK(!d.unquoted && names.inputs.n == 1 && names.classes.n == 1);
    qr_dataset_fini(&d);
    static const struct {
        const char *url, *folder;
        bool unquoted;
    } place[] = {
        {"/data/x.csv", "gs://b/jobs", true},      {"file:///data/x.csv", "s3://b", true},
        {"gs://b/x.csv", "gs://b/jobs", false},    {"not-here.csv", "https://h/jobs", false},
        {"/data/x.csv", "/jobs", false},           {"/data/x.csv", NULL, false},
        {"https://h/x.csv", "gs://b/jobs", false},
    };
    for (size_t i = 0; i < COUNT(place); i++)
        CHECK(qr_named_file_unquoted(place[i].url, place[i].folder) == place[i].unquoted, "%s",
              place[i].url);
}

int main(void) {
    if (!data_begin()) return 1;
    channels();
    relative_paths();
    picked();
    unquoted();
    data_end();
    return t_end();
}
