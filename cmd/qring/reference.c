/* cmd/qring/reference.c — describes the keys of the job file, from the rows in job/keys.c: qring
 * help job, the tables of deploy/jobs/README.md, qring-job(5), completion of --set. Start reading
 * at qr_help_job(). */
#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "base/parse.h"
#include "cmd/qring/command.h"
#include "cmd/qring/reference.h"
#include "worker/settings.h"

enum { WIDTH = 96 };

/* ---- texts of a row ---- */

/* 2^40 for 1099511627776. */
static void put_limit(double x, struct qr_buf *ret) {
    int exponent;
    bool power = frexp(x, &exponent) == 0.5 && exponent > 13;
    if (power) qr_buf_printf(ret, "2^%d", exponent - 1);
    else qr_buf_printf(ret, "%.15g", x);
}

static void put_number(const struct qr_job_key *k, struct qr_buf *ret) {
    bool below = k->not_high || k->high == 1 - 0x1p-53, above = k->not_low || k->low == 1e-300;
    qr_buf_puts(ret, k->type == QR_KEY_NUMBER ? "number" : "integer");
    if (k->low <= -1e300) return;
    qr_buf_puts(ret, above ? " above " : ", ");
    put_limit(k->low == 1e-300 ? 0 : k->low, ret);
    if (k->high >= 1e300) return qr_buf_puts(ret, above ? "" : " or more");
    qr_buf_puts(ret, below ? " to below " : " to ");
    put_limit(below ? 1 : k->high, ret);
}

static void put_names(const char *const *names, size_t n, struct qr_buf *ret) {
    for (size_t i = 0; i < n; i++) qr_buf_printf(ret, "%s%s", i ? ", " : "", names[i]);
}

static void put_type(const struct qr_job_key *k, struct qr_buf *ret) {
    if (k->words) return qr_buf_puts(ret, k->words);
    switch (k->type) {
    case QR_KEY_COUNT:
    case QR_KEY_UNSIGNED:
    case QR_KEY_NUMBER: put_number(k, ret); break;
    case QR_KEY_FLAG:
    case QR_KEY_NOT: qr_buf_puts(ret, "true or false"); break;
    case QR_KEY_CHOICE:
        qr_buf_puts(ret, "one of ");
        put_names(k->names, k->n_names, ret);
        break;
    case QR_KEY_URL: qr_buf_puts(ret, "URL"); break;
    case QR_KEY_OBJECT: qr_buf_puts(ret, "object"); return;
    default: qr_buf_puts(ret, "text");
    }
    if (k->object) qr_buf_puts(ret, ", or object");
}

/* The first kind that has the key and no kind before it with the same default; *ret_n: the number
 * of kinds with this default. */
static bool next_default(const struct qr_job_object *o, const struct qr_job_key *k, size_t *kind,
                         struct qr_buf *value, struct qr_buf *kinds, size_t *ret_n) {
    for (; *kind < o->n_kinds; ++*kind) {
        bool seen = false;
        if (!qr_job_object_has(o, *kind, k)) continue;
        qr_buf_clear(value), qr_buf_clear(kinds), *ret_n = 0;
        qr_job_key_default(o, *kind, k, value);
        for (size_t i = 0; i < o->n_kinds; i++) {
            struct qr_buf other = {0};
            if (!qr_job_object_has(o, i, k)) continue;
            qr_job_key_default(o, i, k, &other);
            bool same = strcmp(qr_buf_string(&other), qr_buf_string(value)) == 0;
            seen |= same && i < *kind;
            if (same) qr_buf_printf(kinds, "%s%s", (*ret_n)++ ? ", " : "", o->kinds[i]);
            qr_buf_free(&other);
        }
        if (!seen) return ++*kind, true;
    }
    return false;
}

/* Appends "0.9; 0.95 with adadelta": the most common default first. */
static void put_default(const struct qr_job_object *o, const struct qr_job_key *k,
                        struct qr_buf *ret) {
    struct qr_buf value = {0}, kinds = {0}, others = {0}, common = {0};
    size_t kind = 0, n, most = 0;
    if (o->by && strcmp(k->name, o->by) == 0) { /* the key that selects the kind */
        if (k->value) qr_buf_puts(ret, k->value);
        else if (!k->required) qr_buf_printf(ret, "\"%s\"", o->kinds[o->kind]);
        return;
    }
    if (!o->n_kinds) qr_job_key_default(o, 0, k, &common);
    while (o->n_kinds && next_default(o, k, &kind, &value, &kinds, &n))
        if (n > most) {
            most = n;
            qr_buf_clear(&common);
            qr_buf_puts(&common, qr_buf_string(&value));
        }
    for (kind = 0; o->n_kinds && next_default(o, k, &kind, &value, &kinds, &n);)
        if (strcmp(qr_buf_string(&value), qr_buf_string(&common)) != 0)
            qr_buf_printf(&others, "; %s with %s", qr_buf_string(&value), qr_buf_string(&kinds));
    qr_buf_puts(ret, qr_buf_string(&common));
    qr_buf_puts(ret, qr_buf_string(&others));
    qr_buf_free(&value);
    qr_buf_free(&kinds);
    qr_buf_free(&others);
    qr_buf_free(&common);
}

/* Appends the kinds that have the key; nothing where all do. */
static void put_kinds(const struct qr_job_object *o, const struct qr_job_key *k,
                      struct qr_buf *ret) {
    size_t n = 0;
    for (size_t i = 0; i < o->n_kinds; i++) n += qr_job_object_has(o, i, k);
    if (n == o->n_kinds) return;
    n = 0;
    for (size_t i = 0; i < o->n_kinds; i++)
        if (qr_job_object_has(o, i, k)) qr_buf_printf(ret, "%s%s", n++ ? ", " : "", o->kinds[i]);
}

struct qr_reference_row qr_reference_row(const struct qr_job_object *o,
                                         const struct qr_job_key *k) {
    struct qr_reference_row row = {0};
    qr_buf_printf(&row.path, "%s%s%s", o->path, *o->path ? "." : "", k->name);
    put_type(k, &row.type);
    put_default(o, k, &row.value);
    put_kinds(o, k, &row.kinds);
    return row;
}

void qr_reference_row_fini(struct qr_reference_row *row) {
    qr_buf_free(&row->path);
    qr_buf_free(&row->type);
    qr_buf_free(&row->value);
    qr_buf_free(&row->kinds);
}

/* ---- a terminal ---- */

/* Prints text wrapped at WIDTH columns; the first line starts at `first`, the others at 6. */
static void put_wrapped(const char *text, int first) {
    int at = printf("%*s", first, "");
    bool begun = false;
    for (size_t n; *text; text += n + (text[n] == ' ')) {
        n = strcspn(text, " ");
        if (begun && at + 1 + (int)n > WIDTH) {
            at = printf("\n%*s", 6, "") - 1;
            begun = false;
        }
        at += printf("%s%.*s", begun ? " " : "", (int)n, text);
        begun = true;
    }
    putchar('\n');
}

static void put_key(const struct qr_job_object *o, const struct qr_job_key *k) {
    struct qr_reference_row row = qr_reference_row(o, k);
    struct qr_buf line = {0};
    qr_buf_printf(&line, "%s: %s", qr_buf_string(&row.path), qr_buf_string(&row.type));
    if (k->required) qr_buf_puts(&line, "; required");
    else if (*qr_buf_string(&row.value))
        qr_buf_printf(&line, "; default %s", qr_buf_string(&row.value));
    if (*qr_buf_string(&row.kinds))
        qr_buf_printf(&line, "; with \"%s\": %s", o->by, qr_buf_string(&row.kinds));
    put_wrapped(qr_buf_string(&line), 2);
    put_wrapped(k->about, 6);
    qr_buf_free(&line);
    qr_reference_row_fini(&row);
}

static void put_heading(const struct qr_job_object *o, bool *any) {
    printf("%s%s%s%s\n\n", *any ? "\n" : "", o->name, *o->path ? ": " : "", o->path);
    *any = true;
}

static void put_gate(const struct qr_reference_gate *g) {
    struct qr_buf line = {0};
    put_names(g->names, g->n_names, &line);
    qr_buf_printf(&line, ": %u", g->least);
    if (!g->most) qr_buf_puts(&line, " or more");
    else if (g->most > g->least) qr_buf_printf(&line, " to %u", g->most);
    qr_buf_puts(&line, g->most == 1 ? " qubit" : " qubits");
    if (g->n_takes) qr_buf_puts(&line, "; takes ");
    put_names(g->takes, g->n_takes, &line);
    put_wrapped(qr_buf_string(&line), 2);
    qr_buf_free(&line);
}

static void put_object(const struct qr_job_object *o, bool *any) {
    struct qr_reference_gate g;
    put_heading(o, any);
    for (size_t i = 0; i < o->n_keys; i++) put_key(o, &o->keys[i]);
    for (size_t i = 0; strcmp(o->name, "gate") == 0 && qr_reference_gate(i, &g); i++) put_gate(&g);
}

/* ---- queries ---- */

/* Equal but for case, and '_' or blanks for '-'. */
static bool alike(const char *a, const char *b, size_t n_b) {
    size_t i = 0;
    for (; a[i] && i < n_b; i++) {
        int x = tolower((unsigned char)a[i]), y = tolower((unsigned char)b[i]);
        if ((x == '_' || x == ' ' ? '-' : x) != (y == '_' || y == ' ' ? '-' : y)) return false;
    }
    return !a[i] && i == n_b;
}

static bool in_names(const char *const *names, size_t n, const char *word) {
    for (size_t i = 0; i < n; i++)
        if (alike(names[i], word, strlen(word))) return true;
    return false;
}

/* Appends a path without what is in brackets: "model.circuit.gates.angle". */
static void put_plain(const char *path, struct qr_buf *ret) {
    bool inside = false;
    for (const char *c = path; *c; c++) {
        inside |= *c == '[';
        if (!inside) qr_buf_put(ret, c, 1);
        inside &= *c != ']';
    }
}

/* True if a path ends with the query. */
static bool path_is(const char *path, const char *query) {
    qr_auto(qr_buf_free) struct qr_buf plain = {0};
    put_plain(path, &plain);
    const char *p = qr_buf_string(&plain);
    size_t n = strlen(p), m = strlen(query);
    return n >= m && alike(p + n - m, query, m) && (n == m || p[n - m - 1] == '.');
}

/* How a query finds an entry; the first way that finds any is used. */
enum way { BY_NAME, BY_TEXT, WAYS };

static bool asks_key(enum way way, const char *query, const struct qr_job_object *o,
                     const struct qr_job_key *k) {
    if (way == BY_TEXT) return strcasestr(k->name, query) || strcasestr(k->about, query);
    struct qr_buf path = {0};
    qr_buf_printf(&path, "%s%s%s", o->path, *o->path ? "." : "", k->name);
    bool is = path_is(qr_buf_string(&path), query);
    qr_buf_free(&path);
    if (is || !o->by) return is || in_names(k->names, k->n_names, query);
    for (size_t i = 0; i < o->n_kinds && !is; i++) /* keys that only some kinds have */
        is = alike(o->kinds[i], query, strlen(query)) && qr_job_object_has(o, i, k) &&
             (k->of || (o->has && strcmp(k->name, o->by) != 0));
    return is || in_names(k->names, k->n_names, query);
}

static bool asks_object(const char *query, const struct qr_job_object *o) {
    size_t n = strlen(query);
    bool plural = n && query[n - 1] == 's' && alike(o->name, query, n - 1);
    return *o->path ? plural || alike(o->name, query, n) || path_is(o->path, query)
                    : alike(o->name, query, n);
}

/* The flags of qringd are keys of "worker". */
static void answer_setting(const char *query, bool *any) {
    struct qr_buf help = {0};
    struct qr_help_flag f;
    qr_settings_help(&help);
    for (const char *at = qr_buf_string(&help); qr_help_flag(&at, &f);)
        if (alike(f.name + strspn(f.name, "-"), query, strlen(query))) {
            *any = true;
            printf("worker.%s: %s\n      as the flag %s of qringd: %s\n", query, f.value, f.name,
                   f.about);
        }
    qr_buf_free(&help);
}

static bool answer(enum way way, const char *query) {
    bool any = false;
    struct qr_reference_gate g;
    for (size_t i = 0; i < qr_job_n_objects; i++) {
        const struct qr_job_object *o = &qr_job_objects[i];
        bool whole = way == BY_NAME && asks_object(query, o), begun = false;
        if (whole) put_object(o, &any);
        for (size_t k = 0; k < o->n_keys && !whole; k++) {
            if (!asks_key(way, query, o, &o->keys[k])) continue;
            if (!begun) put_heading(o, &any);
            begun = true;
            put_key(o, &o->keys[k]);
        }
        for (size_t k = 0;
             way == BY_NAME && strcmp(o->name, "gate") == 0 && qr_reference_gate(k, &g); k++)
            if (in_names(g.names, g.n_names, query)) any = true, put_gate(&g);
    }
    if (way == BY_NAME && !any) answer_setting(query, &any);
    return any;
}

/* ---- known words ---- */

struct known_words {
    const char **v; /* static strings */
    size_t n;
};

static void add_word(struct known_words *w, const char *word) {
    for (size_t i = 0; i < w->n; i++)
        if (strcmp(w->v[i], word) == 0) return;
    w->v = qr_xreallocarray(w->v, w->n + 1, sizeof *w->v);
    w->v[w->n++] = word;
}

static struct known_words known_words(void) {
    struct known_words w = {0};
    struct qr_reference_gate g;
    for (size_t i = 0; i < qr_job_n_objects; i++) {
        const struct qr_job_object *o = &qr_job_objects[i];
        add_word(&w, o->name);
        for (size_t k = 0; k < o->n_keys; k++) {
            add_word(&w, o->keys[k].name);
            for (size_t n = 0; n < o->keys[k].n_names; n++) add_word(&w, o->keys[k].names[n]);
        }
    }
    for (size_t i = 0; qr_reference_gate(i, &g); i++)
        for (size_t n = 0; n < g.n_names; n++) add_word(&w, g.names[n]);
    return w;
}

void qr_help_job_words(struct qr_buf *ret) {
    struct known_words w = known_words();
    for (size_t i = 0; i < w.n; i++) qr_buf_printf(ret, "%s%s", i ? " " : "", w.v[i]);
    free(w.v);
}

void qr_job_key_paths(struct qr_buf *ret) {
    for (size_t i = 0; i < qr_job_n_objects; i++) {
        const struct qr_job_object *o = &qr_job_objects[i];
        for (size_t k = 0; k < o->n_keys && !strchr(o->path, '['); k++)
            qr_buf_printf(ret, "%s%s%s%s=", ret->n ? "|" : "", o->path, *o->path ? "." : "",
                          o->keys[k].name);
    }
}

static int report_unknown_word(const char *query) {
    struct known_words w = known_words();
    const char *last = strrchr(query, '.');
    const char *near = qr_nearest(last ? last + 1 : query, w.v, w.n);
    if (near)
        qr_error(qr_command_log(), "qring",
                 "the job file's reference has no '%.80s'; did you mean '%s'?", query, near);
    else
        qr_error(qr_command_log(), "qring",
                 "the job file's reference has no '%.80s'; qring help job prints all of it", query);
    free(w.v);
    return 2;
}

/* ---- other forms ---- */

static void put_cell(const char *text) {
    for (; *text; text++) printf(*text == '|' ? "\\|" : "%c", *text);
    fputs(" |", stdout);
}

/* The table of an object on the job page. */
static void put_markdown(const struct qr_job_object *o) {
    printf("<!-- keys: %s -->\n|key|type|default|meaning|\n|---|---|---|---|\n", o->name);
    for (size_t i = 0; i < o->n_keys; i++) {
        const struct qr_job_key *k = &o->keys[i];
        struct qr_reference_row row = qr_reference_row(o, k);
        const char *value = qr_buf_string(&row.value), *kinds = qr_buf_string(&row.kinds);
        printf("| `%s` | ", k->name);
        put_cell(qr_buf_string(&row.type));
        putchar(' ');
        put_cell(k->required ? "" : *value ? value : "-");
        printf(*kinds ? " *%s*: " : " ", kinds);
        put_cell(k->about);
        puts("");
        qr_reference_row_fini(&row);
    }
    puts("");
}

static void put_roff(const char *text) {
    if (*text == '.' || *text == '\'') fputs("\\&", stdout);
    for (; *text; text++) printf(*text == '-' ? "\\-" : *text == '\\' ? "\\e" : "%c", *text);
}

static void put_man(const struct qr_job_object *o) {
    printf(".SH %s\n", *o->path ? o->path : "KEYS");
    for (size_t i = 0; i < o->n_keys; i++) {
        struct qr_reference_row row = qr_reference_row(o, &o->keys[i]);
        fputs(".TP\n.B ", stdout);
        put_roff(o->keys[i].name);
        fputs("\n", stdout);
        put_roff(qr_buf_string(&row.type));
        fputs(o->keys[i].required          ? "; required"
              : *qr_buf_string(&row.value) ? "; default "
                                           : "",
              stdout);
        put_roff(qr_buf_string(&row.value));
        fputs(*qr_buf_string(&row.kinds) ? "; for " : "", stdout);
        put_roff(qr_buf_string(&row.kinds));
        fputs(".\n.br\n", stdout);
        put_roff(o->keys[i].about);
        fputs(".\n", stdout);
        qr_reference_row_fini(&row);
    }
}

static const char man_head[] =
    ".TH qring-job 5\n.SH NAME\nqring-job \\- job file of qring\n.SH DESCRIPTION\n"
    "A job file is one JSON object: model, data and training. qring help job explains a key.\n";

int qr_help_job(int n_words, char **words) {
    const char *form = n_words ? words[0] : "";
    bool any = false;
    if (strcmp(form, "--schema") == 0) return qr_print_job_schema();
    if (strcmp(form, "--man") == 0) fputs(man_head, stdout);
    if (!n_words)
        puts("Keys of the job file. qring help job WORD explains one: a key or its path, an object "
             "or a name.\n");
    for (size_t i = 0; i < qr_job_n_objects; i++) {
        if (!n_words) put_object(&qr_job_objects[i], &any);
        if (strcmp(form, "--tables") == 0) put_markdown(&qr_job_objects[i]);
        if (strcmp(form, "--man") == 0) put_man(&qr_job_objects[i]);
    }
    if (!n_words || strncmp(form, "--", 2) == 0) return 0;
    qr_auto(qr_buf_free) struct qr_buf query = {0};
    for (int i = 0; i < n_words; i++) {
        if (i) qr_buf_puts(&query, "-");
        put_plain(words[i], &query);
    }
    const char *q = qr_buf_string(&query), *alias = qr_job_key_alias(q);
    int code = 0;
    if (!answer(BY_NAME, q) && !(alias && answer(BY_NAME, alias)) &&
        !(strlen(q) > 2 && answer(BY_TEXT, q)))
        code = report_unknown_word(q);
    return code;
}
