/* cmd/qring/weights.c — qring weights: lists, compares and converts weights. Start reading at
 * qr_command_weights(). */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "cmd/qring/command.h"
#include "store/store.h"

const char qr_help_weights[] =
    "Lists, compares or converts files of weights: .h5 (Keras), .npz and .safetensors; prints the\n"
    "initial weights of a job.\n"
    "\n"
    "Examples:\n"
    "  qring weights out/qcnn/weights.h5                     # names, shapes, sizes\n"
    "  qring weights a.safetensors b.safetensors             # largest difference of each tensor\n"
    "  qring weights out/qcnn/weights.h5 w.npz --job deploy/jobs/qcnn.json   # convert, if w.npz "
    "is new\n"
    "  qring weights w.safetensors --to w.npz                # convert, overwrite w.npz\n"
    "  qring weights out/qcnn/weights.h5 --job out/qcnn --values  # by name of the parameters\n"
    "  qring weights --init job.json --seed 7                # tensor, index, name and first "
    "value\n"
    "\n"
    "Usage: qring weights FILE... [FLAGS]\n"
    "       qring weights --init JOB [FLAGS]\n"
    "  --to OUT               write the weights of the one FILE to OUT, in the format of its "
    "suffix; two\n"
    "                         FILEs of which the second does not exist mean the same\n"
    "  --job JOB              job of the weights, needed between .h5 and the other formats, which "
    "order\n"
    "                         parameters differently\n"
    "  --init JOB             print the initial weights of a job, from its seed or "
    "initial_weights, as\n"
    "                         CSV: tensor, index in it, name of the circuit's parameter, value; "
    "with\n"
    "                         --to write them to a file\n"
    "  --values               with FILE and --job: print the weights as --init does\n"
    "  --set PATH=VALUE       set a key of JOB, repeatable: --set 'model[1].units=8'\n"
    "  --seed N               random seed, as --set seed=N\n"
    "  --json                 print JSON\n";

static const size_t max_bytes = (size_t)1 << 30;

/* The weights of a file. */
struct listed {
    const char *url; /* as given */
    enum qr_weights_format format;
    struct qr_tensors tensors;
    struct qr_data_names names;
};

static void listed_fini(struct listed *l) {
    qr_tensors_free(&l->tensors);
    qr_data_names_fini(&l->names);
}

/* The tensors in the job's layout: names, shapes, natural order. */
static enum qr_code list_of_job(const struct qr_workload *w, const struct qr_weights_file *file,
                                struct qr_tensors *ret, struct qr_err *err) {
    qr_auto(qr_free_p) char *numbers = qr_xcalloc(qr_model_n_params(w->model) + 1, sizeof(double));
    double *values = (double *)(void *)numbers;
    QR_TRY(qr_workload_decode(w, file, values, err));
    for (size_t i = 0; i < w->layout.n; i++) {
        const struct qr_weights_entry *e = &w->layout.entries[i];
        values += qr_tensors_add(ret, e->name, e->rank, e->dims, values)->n;
    }
    return QR_OK;
}

/* w NULL: reads the tensors as they are in the file. */
static enum qr_code read_listed(const struct qr_workload *w, const char *url, struct listed *ret,
                                struct qr_err *err) {
    struct qr_weights_file file;
    QR_TRY(qr_weights_file_read(url, &file, err));
    *ret = (struct listed){.url = url, .format = file.format, .names = file.names};
    file.names = (struct qr_data_names){.inputs = {0}};
    enum qr_code code =
        w ? list_of_job(w, &file, &ret->tensors, err)
          : qr_weights_list(file.format, qr_buf_view(&file.bytes), file.url, &ret->tensors, err);
    qr_weights_file_fini(&file);
    return code;
}

static void put_shape(struct qr_buf *b, const struct qr_tensor *t) {
    qr_buf_puts(b, "(");
    for (unsigned d = 0; d < t->rank; d++) qr_buf_printf(b, "%s%zu", d ? ", " : "", t->dims[d]);
    qr_buf_puts(b, ")");
}

static void put_tensor_name(struct qr_buf *b, const char *name) {
    struct qr_buf shown = {0};
    qr_buf_put_printable(&shown, name);
    qr_buf_printf(b, "  %-24s ", qr_buf_string(&shown));
    qr_buf_free(&shown);
}

static void json_shape(struct qr_json_writer *w, const struct qr_tensor *t) {
    qr_json_key_string(w, "name", t->name);
    qr_json_key_open(w, "shape", '[');
    for (unsigned d = 0; d < t->rank; d++) qr_json_put_i64(w, (int64_t)t->dims[d]);
    qr_json_close(w, ']');
}

static void list_names(const char *what, const struct qr_name_list *l, struct qr_buf *b) {
    enum { SHOWN_NAMES = 12 };
    if (!l->n) return;
    qr_buf_printf(b, "  %s: ", what);
    qr_name_list_put(l, NULL, SHOWN_NAMES, b);
    qr_buf_puts(b, "\n");
}

static void list_tensors(const struct listed *l, bool json) {
    const struct qr_tensors *t = &l->tensors;
    struct qr_buf b = {0};
    size_t total = 0;
    struct qr_json_writer w = qr_json_writer(&b, 0);
    if (json) {
        qr_json_open(&w, '{');
        qr_json_key_string(&w, "file", l->url);
        qr_json_key_open(&w, "tensors", '[');
    } else {
        qr_buf_put_printable(&b, l->url);
        qr_buf_puts(&b, "\n");
    }
    for (size_t i = 0; i < t->n; i++) {
        total += t->v[i].n;
        if (json) {
            qr_json_open(&w, '{');
            json_shape(&w, &t->v[i]);
            qr_json_close(&w, '}');
            continue;
        }
        struct qr_buf shape = {0};
        put_shape(&shape, &t->v[i]);
        put_tensor_name(&b, t->v[i].name);
        qr_buf_printf(&b, "%-14s %zu\n", qr_buf_string(&shape), t->v[i].n);
        qr_buf_free(&shape);
    }
    if (json) {
        qr_json_close(&w, ']');
        qr_json_key_i64(&w, "values", (int64_t)total);
        qr_put_name_list(&w, "inputs", &l->names.inputs);
        qr_put_name_list(&w, "classes", &l->names.classes);
        qr_json_close(&w, '}');
        qr_buf_puts(&b, "\n");
    } else {
        qr_buf_printf(&b, "  %zu values\n", total);
        list_names("inputs", &l->names.inputs, &b);
        list_names("classes", &l->names.classes, &b);
    }
    fputs(qr_buf_string(&b), stdout);
    qr_buf_free(&b);
}

static bool same_shape(const struct qr_tensor *a, const struct qr_tensor *b) {
    return a->rank == b->rank && memcmp(a->dims, b->dims, a->rank * sizeof *a->dims) == 0;
}

static double largest_difference(const struct qr_tensor *a, const struct qr_tensor *b) {
    double most = 0;
    for (size_t i = 0; i < a->n; i++) {
        double d = fabs(a->values[i] - b->values[i]);
        if (!(d <= most)) most = d;
        if (isnan(most)) break;
    }
    return most;
}

static enum qr_code report_mismatch(const struct listed *of_a, const struct qr_tensor *a,
                                    const struct listed *of_b, const struct qr_tensor *b,
                                    struct qr_err *err) {
    struct qr_buf one = {0}, other = {0};
    put_shape(&one, a);
    if (b) put_shape(&other, b);
    enum qr_code code =
        b ? qr_fail(err, QR_INVALID_ARGUMENT,
                    "%s has shape %s in %s, but %s in %s: the files are of different models",
                    a->name, qr_buf_string(&one), of_a->url, qr_buf_string(&other), of_b->url)
          : qr_fail(err, QR_INVALID_ARGUMENT,
                    "%s of %s is missing in %s: the files are of different models", a->name,
                    of_a->url, of_b->url);
    qr_buf_free(&one);
    qr_buf_free(&other);
    return code;
}

static enum qr_code compare_files(const struct listed *one, const struct listed *two, bool json,
                                  struct qr_err *err) {
    const struct qr_tensors *t = &one->tensors, *u = &two->tensors;
    qr_auto(qr_buf_free) struct qr_buf b = {0};
    struct qr_json_writer w = qr_json_writer(&b, 0);
    enum qr_code code = QR_OK;
    double most = 0;
    if (json) qr_json_open(&w, '[');
    for (size_t i = 0; i < t->n && code == QR_OK; i++) {
        const struct qr_tensor *a = &t->v[i], *other = qr_tensors_find(u, a->name);
        if (!other || !same_shape(a, other)) {
            code = report_mismatch(one, a, two, other, err);
            break;
        }
        double d = largest_difference(a, other);
        if (!isnan(most) && !(d <= most)) most = d;
        if (json) {
            qr_json_open(&w, '{');
            json_shape(&w, a);
            qr_json_key_double(&w, "max_abs_difference", d);
            qr_json_close(&w, '}');
        } else {
            struct qr_buf shape = {0};
            put_shape(&shape, a);
            put_tensor_name(&b, a->name);
            qr_buf_printf(&b, "%-14s %.17g\n", qr_buf_string(&shape), d);
            qr_buf_free(&shape);
        }
    }
    for (size_t i = 0; i < u->n && code == QR_OK; i++)
        if (!qr_tensors_find(t, u->v[i].name))
            code = report_mismatch(two, &u->v[i], one, NULL, err);
    if (json) qr_json_close(&w, ']');
    else if (most == 0) qr_buf_puts(&b, "equal\n");
    else qr_buf_printf(&b, "largest difference %.17g\n", most);
    if (json) qr_buf_puts(&b, "\n");
    if (code == QR_OK) fputs(qr_buf_string(&b), stdout);
    return code;
}

/* w NULL: the layout is that of the tensors. */
static enum qr_code convert(const struct listed *from, const struct qr_workload *w, const char *to,
                            struct qr_err *err) {
    enum qr_weights_format want;
    const struct qr_tensors *t = &from->tensors;
    QR_TRY(qr_weights_format_of(to, &want, err));
    if (!w && (from->format == QR_WEIGHTS_H5 || want == QR_WEIGHTS_H5))
        return qr_fail(err, QR_INVALID_ARGUMENT,
                       "--job is missing: .h5 holds parameters sorted by the names of their "
                       "symbols, which only the job has");
    qr_auto(qr_free_p) struct qr_weights_entry *entries = qr_xcalloc(t->n + 1, sizeof *entries);
    struct qr_buf values = {0}, file = {0};
    enum qr_code code = QR_OK;
    for (size_t i = 0; i < t->n && code == QR_OK; i++) {
        const struct qr_tensor *v = &t->v[i];
        if (v->rank > 2)
            code = qr_fail(err, QR_INVALID_ARGUMENT,
                           "%s: %s has %u axes; weights of these models have one or two", from->url,
                           v->name, v->rank);
        entries[i] = (struct qr_weights_entry){
            .name = v->name,
            .rank = v->rank,
            .dims = {v->rank > 0 ? v->dims[0] : 1, v->rank > 1 ? v->dims[1] : 1}};
        qr_buf_put(&values, v->values, v->n * sizeof *v->values);
    }
    const struct qr_weights_layout layout =
        w ? w->layout : (struct qr_weights_layout){t->n, entries};
    qr_auto(qr_free_p) double *aligned = qr_xcalloc(values.n / sizeof(double) + 1, sizeof *aligned);
    if (values.n) memcpy(aligned, values.p, values.n);
    if (code == QR_OK) code = qr_weights_encode(want, &layout, aligned, &from->names, &file, err);
    if (code == QR_OK) code = qr_url_write(to, qr_buf_view(&file), err);
    qr_buf_free(&values);
    qr_buf_free(&file);
    return code;
}

/* Formats order quantum parameters differently; the names are those of qring and of TFQ layers. */
static enum qr_code check_orders(const struct listed *a, const struct listed *b,
                                 struct qr_err *err) {
    if ((a->format == QR_WEIGHTS_H5) == (b->format == QR_WEIGHTS_H5)) return QR_OK;
    for (size_t i = 0; i < a->tensors.n; i++)
        if (strncmp(a->tensors.v[i].name, "pqc", 3) == 0)
            return qr_fail(err, QR_INVALID_ARGUMENT,
                           "--job is missing: %s and %s order the parameters of %s differently, "
                           "and only the job has both orders",
                           a->url, b->url, a->tensors.v[i].name);
    return QR_OK;
}

/* ---- weights by name ---- */

static const char *parameter_name(const struct qr_model_tensor *t, size_t i) {
    return t->circuit ? t->circuit->param_names[i] : "";
}

static void named_text(const struct qr_workload *w, struct qr_buf *b) {
    qr_buf_puts(b, "tensor,index,parameter,value\n");
    for (size_t i = 0; i < qr_model_n_tensors(w->model); i++) {
        const struct qr_model_tensor *t = qr_model_tensor(w->model, i);
        for (size_t k = 0; k < t->n; k++) {
            const char *name = parameter_name(t, k);
            /* Quote names as in CSV. */
            const char *quote = strpbrk(name, ",\"\r\n") ? "\"" : "";
            qr_buf_printf(b, "%s,%zu,%s", t->name, k, quote);
            for (; *name; name++) qr_buf_printf(b, "%s%c", *name == '"' ? "\"" : "", *name);
            qr_buf_printf(b, "%s,%.17g\n", quote, w->initial[t->offset + k]);
        }
    }
}

static void named_json(const struct qr_loaded *l, struct qr_buf *b) {
    const struct qr_model *m = l->load.model;
    struct qr_json_writer w = qr_json_writer(b, 0);
    qr_json_open(&w, '{');
    qr_json_key_string(&w, "job", l->job->name);
    qr_json_key_open(&w, "parameters", '{');
    for (size_t i = 0; i < qr_model_n_tensors(m); i++) {
        const struct qr_model_tensor *t = qr_model_tensor(m, i);
        if (!t->circuit) continue;
        qr_json_key_open(&w, t->name, '[');
        for (size_t k = 0; k < t->n; k++) qr_json_put_string(&w, parameter_name(t, k));
        qr_json_close(&w, ']');
    }
    qr_json_close(&w, '}');
    qr_json_put_key(&w, "weights");
    qr_put_tensors(&w, m, l->load.initial, 0);
    qr_json_close(&w, '}');
    qr_buf_puts(b, "\n");
}

/* Prints the initial weights, or others in their place. */
static enum qr_code print_named(const struct qr_loaded *l, bool json, struct qr_err *err) {
    qr_auto(qr_buf_free) struct qr_buf b = {0};
    if (json) named_json(l, &b);
    else named_text(&l->load, &b);
    QR_TRY(qr_buf_ok(&b) ? QR_OK
                         : qr_fail(err, QR_RESOURCE_EXHAUSTED,
                                   "cannot print the weights: they exceed 1 GiB of "
                                   "text; write them with --to w.npz"));
    fputs(qr_buf_string(&b), stdout);
    return QR_OK;
}

static enum qr_code write_initial(const struct qr_workload *w, const char *to, struct qr_err *err) {
    enum qr_weights_format format;
    qr_auto(qr_buf_free) struct qr_buf file = {0};
    const struct qr_data_names names = qr_dataset_data_names(&w->data);
    QR_TRY(qr_weights_format_of(to, &format, err));
    QR_TRY(qr_weights_encode(format, &w->layout, w->initial, &names, &file, err));
    return qr_url_write(to, qr_buf_view(&file), err);
}

static bool is_absent(const char *url) {
    qr_auto(qr_buf_free) struct qr_buf file = {.max = max_bytes};
    return qr_url_read(url, max_bytes, &file, QR_IGNORED) == QR_NOT_FOUND;
}

/* The command without --init. w NULL: without --job. */
static enum qr_code process_files(const struct qr_words *words, const struct qr_workload *w,
                                  const char *to, bool json, struct qr_err *err) {
    struct listed l[64] = {{.url = NULL}};
    size_t n = words->n;
    enum qr_code code = QR_OK;
    if (!to && n == 2 && is_absent(words->v[1])) to = words->v[--n];
    for (size_t i = 0; i < n && code == QR_OK; i++) code = read_listed(w, words->v[i], &l[i], err);
    if (code == QR_OK && to) {
        code = convert(&l[0], w, to, err);
        if (code == QR_OK && !json) printf("wrote %s\n", to);
    } else if (code == QR_OK && n == 2) {
        if (!w) code = check_orders(&l[0], &l[1], err);
        if (code == QR_OK) code = compare_files(&l[0], &l[1], json, err);
    } else {
        for (size_t i = 0; i < n && code == QR_OK; i++) list_tensors(&l[i], json);
    }
    for (size_t i = 0; i < n; i++) listed_fini(&l[i]);
    return code;
}

static enum qr_code process_initial(const struct qr_loaded *l, const char *to, bool json,
                                    struct qr_err *err) {
    if (!to) return print_named(l, json, err);
    QR_TRY(write_initial(&l->load, to, err));
    if (!json) printf("wrote %s\n", to);
    return QR_OK;
}

/* The weights of a file, by name. */
static enum qr_code process_values(struct qr_loaded *l, const struct qr_words *words, bool json,
                                   struct qr_err *err) {
    if (!l->job || words->n != 1)
        return qr_fail(err, QR_INVALID_ARGUMENT,
                       "--values needs one FILE, and --job, which has the names");
    QR_TRY(qr_workload_weights(&l->load, words->v[0], l->load.initial, err));
    return print_named(l, json, err);
}

int qr_command_weights(const struct qr_command *self, int argc, char **argv) {
    const char *to = NULL, *job = NULL, *init = NULL;
    bool help, json = false, values = false;
    const struct qr_flag flags[] = {{"--to", &to, NULL},
                                    {"--values", NULL, &values},
                                    {"--job", &job, NULL},
                                    {"--init", &init, NULL},
                                    {"--json", NULL, &json}};
    qr_auto(qr_overrides_fini) struct qr_overrides set = {0};
    struct qr_words words;
    qr_auto(qr_loaded_fini) struct qr_loaded l = {0};
    struct qr_err err = {0};
    enum qr_code code = qr_read_flags(argc, argv, flags, 5, &set, 64, &words, &help, &err);
    if (code == QR_OK && help) return qr_print_help(self);
    if (code == QR_OK && init && (words.n || job))
        code = qr_fail(&err, QR_INVALID_ARGUMENT, "--init JOB takes no files and no --job");
    if (code == QR_OK && !init && set.n)
        code = qr_fail(&err, QR_INVALID_ARGUMENT, "%s is supported only with --init JOB",
                       set.v[0].given);
    if (code == QR_OK && !init && !words.n)
        code = qr_fail(&err, QR_INVALID_ARGUMENT, "no file is given; give FILE... (see --help)");
    if (code == QR_OK && !init && to && words.n != 1)
        code = qr_fail(&err, QR_INVALID_ARGUMENT, "--to converts one file, not %zu", words.n);
    if (code == QR_OK && values && (init || to))
        code = qr_fail(&err, QR_INVALID_ARGUMENT, "--values excludes --init and --to");
    if (code == QR_OK && to && (code = qr_url_check_writable(to, &err)) != QR_OK)
        qr_wrap(&err, "--to");
    if (code == QR_OK && (job || init))
        code = qr_load_workload(init ? init : job, &set, NULL, "1", &l, &err);
    const char *const inputs[] = {job, init, words.n ? words.v[0] : NULL};
    if (code == QR_OK && to) code = qr_check_destination("--to", to, inputs, 3, l.job, &err);
    if (code == QR_OK)
        code = values ? process_values(&l, &words, json, &err)
               : init ? process_initial(&l, to, json, &err)
                      : process_files(&words, job ? &l.load : NULL, to, json, &err);
    return qr_exit_report(code, &err);
}
