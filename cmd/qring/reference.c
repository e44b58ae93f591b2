/* cmd/qring/reference.c — qring help job: prints deploy/jobs/README.md from "The keys" to "Worker",
 * which is compiled in. tests/lint/job_page.py describes the marks of its tables. Start reading at
 * qr_help_job(). */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/parse.h"
#include "cmd/qring/command.h"
#include "job_page.h" /* generated from the page by the Makefile */

enum { WIDTH = 96, MOST_CELLS = 8, MOST_OBJECTS = 32, MOST_PARTS = 8 };

struct text {
    const char *p;
    size_t n;
};

/* ---- blocks of the page ---- */

/* "<!-- object: circuit model[].circuit by ansatz -->": name of the object, its path, and the key
 * that selects its kind. */
struct page_object {
    struct text name, path, by;
};

enum block_kind { HEADING, PARAGRAPH, CODE, TABLE };
struct page_block {
    enum block_kind kind;
    unsigned level;         /* of a heading */
    struct text text, head; /* of a table: rows, and titles of the columns */
    bool keys, names;       /* of a table: kind of its rows */
    struct text of, kinds;  /* of a table: object, and its kinds; kind of the names */
};

struct page {
    struct page_block *blocks; /* owned */
    size_t n;
    struct page_object objects[MOST_OBJECTS];
    size_t n_objects;
};

static struct text text_trim(const char *p, size_t n) {
    while (n && (*p == ' ' || *p == '\n')) p++, n--;
    while (n && (p[n - 1] == ' ' || p[n - 1] == '\n')) n--;
    return (struct text){p, n};
}

static bool text_begins(struct text t, const char *with) {
    return t.n >= strlen(with) && memcmp(t.p, with, strlen(with)) == 0;
}

/* Removes the text up to one of these characters from the front, and returns it. */
static struct text text_take_word(struct text *t, const char *ends) {
    size_t n = 0;
    while (n < t->n && !strchr(ends, t->p[n])) n++;
    struct text found = {t->p, n};
    t->p += n, t->n -= n;
    while (t->n && strchr(ends, *t->p)) t->p++, t->n--;
    return found;
}

static bool text_equals(struct text a, const char *b) {
    return a.n == strlen(b) && memcmp(a.p, b, a.n) == 0;
}

static struct text line_at(const char *p) { return (struct text){p, strcspn(p, "\n")}; }
static const char *line_after(const char *p) {
    p += strcspn(p, "\n");
    return *p ? p + 1 : p;
}

static void read_object(struct page *page, struct text words) {
    QR_ASSERT(page->n_objects < MOST_OBJECTS);
    struct page_object *o = &page->objects[page->n_objects++];
    *o = (struct page_object){.name = text_take_word(&words, " ")};
    if (!text_begins(words, "by ")) o->path = text_take_word(&words, " ");
    if (text_begins(words, "by ")) text_take_word(&words, " "), o->by = words;
}

/* A marker describes the block below it. */
static void read_marker(struct page *page, struct text line, struct page_block *next) {
    struct text words = text_trim(line.p + 4, line.n - 7), mark = text_take_word(&words, " ");
    if (text_equals(mark, "object:")) read_object(page, words);
    next->keys = text_equals(mark, "keys:"), next->names = text_equals(mark, "names:");
    next->of = text_take_word(&words, " ");
    next->kinds = words;
}

static bool ends_paragraph(struct text line) {
    return !line.n || text_begins(line, "<!--") || text_begins(line, "|") ||
           text_begins(line, "```") || text_begins(line, "#") || text_begins(line, "- ");
}

/* Reads a block at p. Returns the position after it. */
static const char *read_block(const char *p, struct page_block *b) {
    struct text line = line_at(p);
    const char *end = line_after(p);
    if (text_begins(line, "#")) {
        b->kind = HEADING;
        b->level = (unsigned)strspn(p, "#");
        b->text = text_trim(p + b->level, line.n - b->level);
        return end;
    }
    if (text_begins(line, "```")) {
        const char *from = end;
        while (*end && !text_begins(line_at(end), "```")) end = line_after(end);
        b->kind = CODE, b->text = (struct text){from, (size_t)(end - from)};
        return line_after(end);
    }
    if (text_begins(line, "|")) {
        b->kind = TABLE, b->head = line;
        p = line_after(end); /* skip the line of dashes */
        end = p;
        while (text_begins(line_at(end), "|")) end = line_after(end);
    } else {
        b->kind = PARAGRAPH;
        while (!ends_paragraph(line_at(end))) end = line_after(end);
    }
    b->text = (struct text){p, (size_t)(end - p)};
    return end;
}

static struct page read_page(void) {
    struct page page = {0};
    struct page_block next = {0};
    const char *p = (const char *)qr_job_page;
    while (*p) {
        struct text line = line_at(p);
        if (text_begins(line, "<!--")) read_marker(&page, line, &next);
        if (!line.n || text_begins(line, "<!--")) {
            p = line_after(p);
            continue;
        }
        p = read_block(p, &next);
        page.blocks = qr_xreallocarray(page.blocks, page.n + 1, sizeof *page.blocks);
        page.blocks[page.n++] = next;
        next = (struct page_block){0};
    }
    return page;
}

static const struct page_object *object_of(const struct page *page, struct text name) {
    for (size_t i = 0; i < page->n_objects; i++)
        if (page->objects[i].name.n == name.n &&
            memcmp(page->objects[i].name.p, name.p, name.n) == 0)
            return &page->objects[i];
    return NULL;
}

static size_t cells_of(struct text row, struct text ret[MOST_CELLS]) {
    size_t n = 0;
    row = text_trim(row.p + 1, row.n - 1);
    while (row.n && n < MOST_CELLS) {
        size_t k = 0;
        while (k < row.n && row.p[k] != '|') k++;
        ret[n++] = text_trim(row.p, k);
        k += k < row.n;
        row.p += k, row.n -= k;
    }
    return n;
}

/* Next name in a cell: text between backquotes. */
static bool next_name(struct text *cell, struct text *ret) {
    const char *from = memchr(cell->p, '`', cell->n);
    if (!from) return false;
    size_t left = cell->n - (size_t)(from + 1 - cell->p);
    const char *to = memchr(from + 1, '`', left);
    if (!to) return false;
    *ret = (struct text){from + 1, (size_t)(to - from - 1)};
    cell->n -= (size_t)(to + 1 - cell->p), cell->p = to + 1;
    return true;
}

/* ---- printing ---- */

/* Without backquotes, stars and link targets. */
static void add_plain(struct qr_buf *to, struct text t) {
    bool code = false;
    for (size_t i = 0; i < t.n; i++) {
        const char *p = t.p + i;
        if (*p == '`') code = !code;
        else if (!code && (*p == '*' || *p == '[')) continue;
        else if (!code && *p == ']' && i + 1 < t.n && p[1] == '(')
            while (i < t.n && t.p[i] != ')') i++;
        else if (code || *p != ']') qr_buf_put(to, p, 1);
    }
}

static size_t columns_of(struct text t) {
    size_t n = 0;
    for (size_t i = 0; i < t.n; i++) n += (t.p[i] & 0xC0) != 0x80;
    return n;
}

static void put_spaces(size_t n) { printf("%*s", (int)n, ""); }

/* Wraps text at WIDTH columns; the first line starts at `first`, the others at `others`. */
static void put_wrapped(struct qr_buf *plain, size_t first, size_t others) {
    struct text left = text_trim(qr_buf_string(plain), strlen(qr_buf_string(plain)));
    size_t at = first;
    bool begun = false;
    put_spaces(first);
    while (left.n) {
        struct text word = text_take_word(&left, " \n");
        size_t n = columns_of(word);
        if (begun && at + 1 + n > WIDTH) {
            putchar('\n');
            put_spaces(at = others);
            begun = false;
        }
        if (begun) putchar(' ');
        at += n + begun;
        begun = true;
        fwrite(word.p, 1, word.n, stdout);
    }
    putchar('\n');
    qr_buf_clear(plain);
}

/* `With "name": "adam" or "adamw":` before their keys; `With "gates":` before its own. */
static void put_kinds(const struct page *page, const struct page_block *b) {
    const struct page_object *o = object_of(page, b->of);
    struct qr_buf line = {0};
    struct text kinds = b->kinds;
    if (!kinds.n || !o) return;
    for (bool first = true; kinds.n; first = false) {
        struct text kind = text_take_word(&kinds, " ");
        const char *by = !first ? ", " : "With ";
        if (text_equals(kind, "gates")) qr_buf_printf(&line, "%s\"gates\"", by);
        else if (first)
            qr_buf_printf(&line, "With \"%.*s\": \"%.*s\"", (int)o->by.n, o->by.p, (int)kind.n,
                          kind.p);
        else qr_buf_printf(&line, ", \"%.*s\"", (int)kind.n, kind.p);
    }
    qr_buf_puts(&line, ":");
    put_wrapped(&line, 2, 6);
    qr_buf_free(&line);
}

static void put_key(const struct page *page, const struct page_block *b,
                    const struct text cells[5]) {
    const struct page_object *o = object_of(page, b->of);
    struct qr_buf line = {0};
    if (o && o->path.n) qr_buf_printf(&line, "%.*s.", (int)o->path.n, o->path.p);
    add_plain(&line, cells[0]);
    qr_buf_puts(&line, ": ");
    add_plain(&line, cells[1]);
    if (!cells[2].n) qr_buf_puts(&line, "; required");
    else if (!text_equals(cells[2], "-"))
        qr_buf_puts(&line, "; default "), add_plain(&line, cells[2]);
    put_wrapped(&line, 2, 6);
    add_plain(&line, cells[3]);
    put_wrapped(&line, 6, 6);
    add_plain(&line, cells[4]);
    put_wrapped(&line, 6, 6);
    qr_buf_free(&line);
}

/* Any other row: the first cell is the subject of the others. */
static void put_cells(const struct page_block *b, const struct text *cells, size_t n) {
    struct text titles[MOST_CELLS];
    struct qr_buf line = {0};
    size_t n_titles = cells_of(b->head, titles), example = 0;
    add_plain(&line, cells[0]);
    if (n == 2 && cells[1].n) {
        struct text rest = cells[1], name;
        qr_buf_puts(&line, ": ");
        if (next_name(&rest, &name) && name.n + 2 == cells[1].n) /* "Adam" alone: name its column */
            add_plain(&line, titles[1]), qr_buf_puts(&line, " ");
        add_plain(&line, cells[1]);
    }
    put_wrapped(&line, 2, 6);
    if (n == 2) return qr_buf_free(&line);
    for (size_t i = 1; i < n && i < n_titles; i++) {
        if (text_equals(titles[i], "example")) example = i;
        if (!cells[i].n || example == i) continue;
        if (strlen(qr_buf_string(&line))) qr_buf_puts(&line, "; ");
        add_plain(&line, titles[i]);
        qr_buf_puts(&line, ": ");
        add_plain(&line, cells[i]);
    }
    put_wrapped(&line, 6, 6);
    if (example) add_plain(&line, cells[example]), put_wrapped(&line, 6, 6);
    qr_buf_free(&line);
}

static void put_row(const struct page *page, const struct page_block *b, struct text row) {
    struct text cells[MOST_CELLS];
    size_t n = cells_of(row, cells);
    if (b->keys && n >= 5) put_key(page, b, cells);
    else put_cells(b, cells, n);
}

static void put_block(const struct page *page, const struct page_block *b) {
    struct qr_buf line = {0};
    const char *p = b->text.p, *end = b->text.p + b->text.n;
    if (b->kind == PARAGRAPH) {
        add_plain(&line, b->text);
        put_wrapped(&line, 2, text_begins(b->text, "- ") ? 4 : 2);
    } else if (b->kind == HEADING) {
        add_plain(&line, b->text);
        put_wrapped(&line, 0, 0);
    } else if (b->keys) {
        put_kinds(page, b);
    }
    for (; b->kind >= CODE && p < end; p = line_after(p)) {
        if (b->kind == TABLE) put_row(page, b, line_at(p));
        else printf("    %.*s\n", (int)line_at(p).n, p);
    }
    qr_buf_free(&line);
}

/* ---- queries ---- */

/* A word, or a path: "learning_rate", "train.optimizer", "model[0].circuit.gates[3].angle". */
struct query {
    char text[160];
    struct text parts[MOST_PARTS]; /* of text */
    size_t n;
};

/* Next character, for comparison: ignores case, and treats '_', '-' and blanks as equal, ä as a. */
static char fold(struct text *t) {
    unsigned char c = (unsigned char)*t->p;
    size_t n = c == 0xC3 && t->n > 1 && ((unsigned char)t->p[1] & 0xDF) == 0x84 ? 2 : 1;
    t->p += n, t->n -= n;
    return n == 2                 ? 'a'
           : c == ' ' || c == '_' ? '-'
           : c >= 'A' && c <= 'Z' ? (char)(c + 'a' - 'A')
                                  : (char)c;
}

static bool alike(struct text a, struct text b) {
    while (a.n && b.n)
        if (fold(&a) != fold(&b)) return false;
    return !a.n && !b.n;
}

static bool alike_or_plural(struct text singular, struct text b) {
    struct text without = {b.p, b.n ? b.n - 1 : 0};
    return alike(singular, b) || (b.n && b.p[b.n - 1] == 's' && alike(singular, without));
}

/* Joins the words, and skips text in brackets. */
static bool read_query(int n_words, char **words, struct query *q) {
    struct qr_buf joined = {0};
    size_t n = 0, inside = 0;
    for (int i = 0; i < n_words; i++) qr_buf_printf(&joined, "%s%s", i ? "-" : "", words[i]);
    for (const char *c = qr_buf_string(&joined); *c && n + 1 < sizeof q->text; c++) {
        inside += *c == '[';
        if (!inside) q->text[n++] = *c;
        inside -= *c == ']' && inside;
    }
    qr_buf_free(&joined);
    q->text[n] = '\0', q->n = 0;
    for (struct text left = {q->text, n}; left.n && q->n < MOST_PARTS;)
        q->parts[q->n++] = text_take_word(&left, ".");
    return q->n > 0;
}

/* True if the parts before the last one are in the path, in this order. */
static bool leads_to(const struct query *q, struct text path) {
    size_t i = 0;
    while (i + 1 < q->n && path.n)
        if (alike(text_take_word(&path, ".[]"), q->parts[i])) i++;
    return i + 1 >= q->n;
}

static struct text last_of(struct text path) {
    struct text last = {path.p, 0};
    while (path.n) last = text_take_word(&path, ".[]");
    return last;
}

/* True if the last part is one of these names of a table or a list. */
static bool asks_name(const struct page *page, const struct page_block *b, const struct query *q,
                      struct text names) {
    const struct page_object *o = object_of(page, b->of);
    struct text name;
    if (!b->keys && !b->names) return false;
    while (next_name(&names, &name)) {
        if (!alike(name, q->parts[q->n - 1])) continue;
        if (b->keys) return leads_to(q, o ? o->path : b->of);
        return q->n == 1 || alike_or_plural(b->of, q->parts[q->n - 2]) ||
               (o && leads_to(q, o->path));
    }
    return false;
}

/* True for a whole table: keys of a kind, or of the object at the end of a path. */
static bool asks_table(const struct page *page, const struct page_block *b, const struct query *q) {
    const struct page_object *o = object_of(page, b->of);
    struct text kinds = b->kinds, last = q->parts[q->n - 1];
    if (!b->keys || !o) return false;
    while (kinds.n)
        if (alike(text_take_word(&kinds, " "), last) && q->n == 1) return true;
    return leads_to(q, o->path) && alike(last_of(o->path), last);
}

/* True for a section: by its heading, or by the object of its first table. */
static bool asks_section(const struct page *page, size_t heading, const struct query *q) {
    struct text last = q->parts[q->n - 1];
    if (q->n == 1 && alike(page->blocks[heading].text, last)) return true;
    for (size_t i = heading + 1; i < page->n && page->blocks[i].kind != HEADING; i++) {
        const struct page_block *b = &page->blocks[i];
        const struct page_object *o = b->keys && !b->kinds.n ? object_of(page, b->of) : NULL;
        if (o && alike_or_plural(o->name, last) && leads_to(q, o->path)) return true;
    }
    return false;
}

/* ---- answers ---- */

/* Lists the headings below a section. */
static void put_parts(const struct page *page, size_t heading) {
    struct qr_buf line = {0};
    for (size_t i = heading + 1; i < page->n; i++) {
        const struct page_block *b = &page->blocks[i];
        if (b->kind != HEADING) continue;
        if (b->level <= page->blocks[heading].level) break;
        qr_buf_puts(&line, strlen(qr_buf_string(&line)) ? ", " : "\nSubsections: ");
        add_plain(&line, b->text);
    }
    if (strlen(qr_buf_string(&line))) {
        putchar('\n');
        put_wrapped(&line, 2, 4);
    }
    qr_buf_free(&line);
}

struct reference_answer {
    const struct page *page;
    const struct query *q; /* NULL: print everything */
    size_t heading;        /* of the section */
    bool begun, any;       /* printed: this section, any section */
};

/* Prints the heading once, and an empty line before each block. */
static void begin_block(struct reference_answer *a) {
    if (!a->begun && a->any) putchar('\n');
    if (!a->begun) put_block(a->page, &a->page->blocks[a->heading]);
    a->begun = a->any = true;
    putchar('\n');
}

static void put_rows(struct reference_answer *a, const struct page_block *b) {
    const char *p = b->text.p, *end = p + b->text.n;
    bool begun = false;
    if (b->kind == PARAGRAPH && asks_name(a->page, b, a->q, b->text)) {
        begin_block(a);
        put_block(a->page, b);
    }
    for (; b->kind == TABLE && p < end; p = line_after(p)) {
        struct text cells[MOST_CELLS];
        cells_of(line_at(p), cells);
        if (!asks_name(a->page, b, a->q, cells[0])) continue;
        if (!begun) begin_block(a);
        if (!begun && b->keys) put_kinds(a->page, b);
        begun = true;
        put_row(a->page, b, line_at(p));
    }
}

static void put_section(struct reference_answer *a) {
    const struct page *page = a->page;
    bool whole = !a->q || asks_section(page, a->heading, a->q);
    a->begun = false;
    for (size_t i = a->heading + 1; i < page->n && page->blocks[i].kind != HEADING; i++) {
        const struct page_block *b = &page->blocks[i];
        if (whole || asks_table(page, b, a->q)) {
            begin_block(a);
            put_block(page, b);
        } else {
            put_rows(a, b);
        }
    }
    if (whole && a->q) put_parts(page, a->heading);
}

/* ---- known words ---- */

struct words {
    char **v; /* owned, with its strings */
    size_t n;
};

/* Adds a word once; headings in lower case and with dashes. */
static void add_word(struct words *w, struct text word, bool heading) {
    char *plain = qr_xmalloc(word.n + 1);
    size_t n = 0;
    while (word.n) {
        char c = *word.p, folded = fold(&word);
        plain[n++] = heading ? folded : c;
    }
    plain[n] = '\0';
    for (size_t i = 0; i < w->n; i++)
        if (strcmp(w->v[i], plain) == 0) n = 0;
    if (n == 0) return free(plain);
    w->v = qr_xreallocarray(w->v, w->n + 1, sizeof *w->v);
    w->v[w->n++] = plain;
}

static struct words words_of(const struct page *page) {
    struct words w = {0};
    for (size_t i = 0; i < page->n; i++) {
        const struct page_block *b = &page->blocks[i];
        const char *p = b->text.p, *end = p + b->text.n;
        struct text cells[MOST_CELLS], name;
        if (b->kind == HEADING) add_word(&w, b->text, true);
        if (!b->keys && !b->names) continue;
        if (b->kind == PARAGRAPH)
            for (struct text all = b->text; next_name(&all, &name);) add_word(&w, name, false);
        for (; b->kind == TABLE && p < end; p = line_after(p)) {
            cells_of(line_at(p), cells);
            while (next_name(&cells[0], &name)) add_word(&w, name, false);
        }
    }
    for (size_t i = 0; i < page->n_objects; i++) add_word(&w, page->objects[i].name, false);
    return w;
}

static void words_fini(struct words *w) {
    for (size_t i = 0; i < w->n; i++) free(w->v[i]);
    free(w->v);
}

void qr_help_job_words(struct qr_buf *ret) {
    struct page page = read_page();
    struct words w = words_of(&page);
    for (size_t i = 0; i < w.n; i++) qr_buf_printf(ret, "%s%s", i ? " " : "", w.v[i]);
    words_fini(&w);
    free(page.blocks);
}

static int report_unknown_word(const struct page *page, const struct query *q) {
    struct words w = words_of(page);
    const char *near = qr_nearest(q->parts[q->n - 1].p, (const char *const *)w.v, w.n);
    if (near)
        qr_error(qr_command_log(), "qring",
                 "the job file's reference has no '%.80s'; did you mean '%s'?", q->text, near);
    else
        qr_error(qr_command_log(), "qring",
                 "the job file's reference has no '%.80s'; qring help job prints all of it",
                 q->text);
    words_fini(&w);
    return 2;
}

int qr_help_job(int n_words, char **words) {
    struct page page = read_page();
    struct query q;
    struct reference_answer a = {.page = &page,
                                 .q = n_words && read_query(n_words, words, &q) ? &q : NULL};
    int code = 0;
    if (!a.q)
        puts("Reference of the job file. qring help job WORD prints one entry: a key or its path, "
             "a name,\nor a heading.\n");
    for (; a.heading < page.n; a.heading++)
        if (page.blocks[a.heading].kind == HEADING) put_section(&a);
    if (!a.any) code = report_unknown_word(&page, &q);
    free(page.blocks);
    return code;
}
