/* qasm/tokens.c — the text as tokens, numbers of names, errors with their place. Start reading at
 * qasm_tokens_more(). */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "base/text.h"
#include "qasm/qasm_impl.h"

/* Columns of the excerpt of a long line, and how many of them precede the place. */
enum { EXCERPT_COLUMNS = 100, EXCERPT_BEFORE = 60 };

enum { MAX_TOKENS = 1 << 24 };

/* ---- errors ---- */

static size_t count_characters(const uint8_t *p, size_t n) {
    size_t count = 0;
    for (size_t i = 0; i < n; i++) count += (p[i] & 0xc0) != 0x80;
    return count;
}

static void put_excerpt_line(struct qr_buf *to, const uint8_t *p, size_t n) {
    qr_auto(qr_free_p) char *line = qr_xstrndup((const char *)p, n);
    char shown[4 * EXCERPT_COLUMNS + 8];
    for (char *s = line; *s; s++)
        if (*s == '\t' || *s == '\r') *s = ' ';
    qr_text_cut(shown, sizeof shown, line);
    qr_buf_printf(to, "  %s\n", shown);
}

/* Appends the line of the place, at most EXCERPT_COLUMNS bytes of it, and the caret. */
static void put_excerpt(struct qasm_reader *r, size_t line, size_t at) {
    const uint8_t *p = r->text.p;
    size_t first = line, end = at;
    if (at - line > EXCERPT_BEFORE) first = at - EXCERPT_BEFORE;
    while (first < at && (p[first] & 0xc0) == 0x80) first++;
    while (end < r->text.n && p[end] != '\n' && end - first < EXCERPT_COLUMNS) end++;
    while (end > at && end < r->text.n && (p[end] & 0xc0) == 0x80) end--;
    put_excerpt_line(r->excerpt, p + first, end - first);
    qr_buf_printf(r->excerpt, "  %*s^\n", (int)count_characters(p + first, at - first), "");
}

static enum qr_code fail_at_byte(struct qasm_reader *r, enum qr_code code, size_t at,
                                 const char *why) {
    size_t line = 0, number = 1;
    for (size_t i = 0; i < at; i++)
        if (r->text.p[i] == '\n') line = i + 1, number++;
    put_excerpt(r, line, at);
    return qr_fail(r->err, code, "line %zu, column %zu: %s", number,
                   count_characters(r->text.p + line, at - line) + 1, why);
}

static enum qr_code fail_at_token(struct qasm_reader *r, enum qr_code code, uint32_t token,
                                  const char *fmt, va_list ap) {
    char why[QR_ERR_MSG_BYTES];
    vsnprintf(why, sizeof why, fmt, ap);
    return fail_at_byte(r, code, r->tokens[token].at, why);
}

enum qr_code qasm_fail(struct qasm_reader *r, uint32_t token, const char *fmt, ...) {
    va_list ap;
    va_start(ap, fmt);
    enum qr_code code = fail_at_token(r, QR_INVALID_ARGUMENT, token, fmt, ap);
    va_end(ap);
    return code;
}

enum qr_code qasm_refuse(struct qasm_reader *r, uint32_t token, const char *fmt, ...) {
    va_list ap;
    va_start(ap, fmt);
    enum qr_code code = fail_at_token(r, QR_UNIMPLEMENTED, token, fmt, ap);
    va_end(ap);
    return code;
}

/* ---- names ---- */

/* FNV-1a, byte by byte. */
enum { HASH_BEGIN = 0x811c9dc5u };
static uint32_t hash_next(uint32_t hash, uint8_t byte) { return (hash ^ byte) * 16777619u; }
static uint32_t name_hash(const uint8_t *p, size_t n) {
    uint32_t h = HASH_BEGIN;
    for (size_t i = 0; i < n; i++) h = hash_next(h, p[i]);
    return h;
}

/* Long searches count as steps, so that names of one hash end. */
static uint32_t *name_slot(struct qasm_reader *r, const uint8_t *p, size_t n, uint32_t hash) {
    uint32_t last = 2 * r->cap_names - 1, first = (hash ^ hash >> 15) & last, at = first;
    for (; r->name_slots[at]; at = (at + 1) & last) {
        const struct qasm_name *name = &r->names[r->name_slots[at] - 1];
        if (name->bytes == n && memcmp(name->text, p, n) == 0) break;
    }
    r->steps += ((at - first) & last) / 4;
    return &r->name_slots[at];
}

/* Number of the name; hidden: later names do not find this one. */
static uint32_t name_number(struct qasm_reader *r, const uint8_t *p, size_t n, uint32_t hash,
                            bool hidden) {
    if (r->n_names == r->cap_names) {
        r->cap_names = r->cap_names ? 2 * r->cap_names : 256;
        r->names = qr_xreallocarray(r->names, r->cap_names, sizeof *r->names);
        free(r->name_slots);
        r->name_slots = qr_xcalloc(2 * (size_t)r->cap_names, sizeof *r->name_slots);
        for (uint32_t i = 0; i < r->n_names; i++) {
            const uint8_t *text = (const uint8_t *)r->names[i].text;
            size_t bytes = r->names[i].bytes;
            if (i >= QASM_N_KEYWORDS || r->version > 2 || i < QASM_N_KEYWORDS_2)
                *name_slot(r, text, bytes, name_hash(text, bytes)) = i + 1;
        }
    }
    uint32_t *slot = name_slot(r, p, n, hash);
    if (*slot && !hidden) return *slot - 1;
    r->names[r->n_names] = (struct qasm_name){.text = (const char *)p, .bytes = (uint32_t)n};
    if (!hidden) *slot = r->n_names + 1;
    return r->n_names++;
}

static void add_keywords(struct qasm_reader *r) {
    static const char *const words[] = {
#define WORD(word) #word,
        QASM_KEYWORDS(WORD)};
    for (uint32_t i = 0; i < QASM_N_KEYWORDS; i++) {
        const uint8_t *word = (const uint8_t *)words[i];
        size_t n = strlen(words[i]);
        name_number(r, word, n, name_hash(word, n), r->version == 2 && i >= QASM_N_KEYWORDS_2);
    }
}

/* ---- tokens ---- */

static inline bool token_is_digit(uint8_t ch) { return (uint8_t)(ch - '0') <= 9; }
static inline bool token_is_letter(uint8_t ch) {
    return (uint8_t)((ch | 0x20) - 'a') <= 'z' - 'a' || ch == '_' || ch >= 0x80;
}
static inline uint8_t byte_at(const struct qasm_reader *r, size_t at) {
    return at < r->text.n ? r->text.p[at] : 0;
}
static inline bool text_has(const struct qasm_reader *r, size_t at, const char *word) {
    size_t n = strlen(word);
    return r->text.n - at >= n && memcmp(r->text.p + at, word, n) == 0;
}

static inline void add_token(struct qasm_reader *r, unsigned kind, size_t from, size_t to,
                             uint32_t value) {
    if (r->n_tokens == r->cap_tokens) {
        r->cap_tokens = r->cap_tokens ? 2 * r->cap_tokens : 1024;
        r->tokens = qr_xreallocarray(r->tokens, r->cap_tokens, sizeof *r->tokens);
    }
    r->tokens[r->n_tokens++] = (struct qasm_token){.kind = (uint8_t)kind,
                                                   .at = (uint32_t)from,
                                                   .bytes = (uint32_t)(to - from),
                                                   .value = value};
}

static size_t word_end(const struct qasm_reader *r, size_t at) {
    const uint8_t *p = r->text.p;
    size_t n = r->text.n;
    while (at < n && (token_is_letter(p[at]) || token_is_digit(p[at]))) at++;
    return at;
}

/* Past digits and underscores between them. */
static size_t digits_end(const struct qasm_reader *r, size_t at) {
    const uint8_t *p = r->text.p;
    size_t n = r->text.n;
    while (at < n && (token_is_digit(p[at]) || (p[at] == '_' && byte_at(r, at + 1) != '_'))) at++;
    return at;
}

/* Floats, units, bases, long integers. */
static enum qr_code read_other_number(struct qasm_reader *r, size_t *at) {
    size_t p = *at;
    unsigned kind = QASM_INTEGER;
    uint8_t base = byte_at(r, p + 1);
    if (byte_at(r, p) == '0' && base && strchr("xXbBoO", base)) {
        p = word_end(r, p + 2);
        add_token(r, kind, *at, p, QASM_UNNUMBERED);
        *at = p;
        return QR_OK;
    }
    p = digits_end(r, p);
    if (byte_at(r, p) == '.') kind = QASM_FLOAT, p = digits_end(r, p + 1);
    size_t sign = byte_at(r, p + 1) == '+' || byte_at(r, p + 1) == '-';
    if ((byte_at(r, p) | 0x20) == 'e' && token_is_digit(byte_at(r, p + 1 + sign)))
        kind = QASM_FLOAT, p = digits_end(r, p + 1 + sign);
    size_t end = word_end(r, p), n = end - p;
    if (n) {
        static const char *const units[] = {"ns", "us", "ms", "s", "dt", "µs", "μs"};
        bool unit = false;
        for (size_t i = 0; i < sizeof units / sizeof *units; i++)
            unit |= strlen(units[i]) == n && text_has(r, p, units[i]);
        if (!unit && !(n == 2 && text_has(r, p, "im")))
            return fail_at_byte(r, QR_INVALID_ARGUMENT, p,
                                "letters follow a number; put an operator or a blank between them");
        kind = unit ? QASM_TIMING : QASM_IMAGINARY;
    }
    add_token(r, kind, *at, end, QASM_UNNUMBERED);
    *at = end;
    return QR_OK;
}

/* Most numbers are decimal integers of a few digits. */
static enum qr_code read_number(struct qasm_reader *r, size_t *at) {
    enum { SHORT = 9 };
    size_t p = *at;
    uint32_t value = 0;
    uint8_t ch;
    while (token_is_digit(ch = byte_at(r, p)) && p - *at < SHORT)
        value = 10 * value + ch - '0', p++;
    if (token_is_digit(ch) || token_is_letter(ch) || ch == '.') return read_other_number(r, at);
    add_token(r, QASM_INTEGER, *at, p, value);
    *at = p;
    return QR_OK;
}

static enum qr_code read_string(struct qasm_reader *r, size_t *at) {
    uint8_t quote = r->text.p[*at];
    size_t p = *at + 1;
    while (byte_at(r, p) && byte_at(r, p) != quote && byte_at(r, p) != '\n') p++;
    if (byte_at(r, p) != quote)
        return fail_at_byte(r, QR_INVALID_ARGUMENT, *at,
                            "this quote is not closed on its line; close it");
    add_token(r, QASM_STRING, *at, p + 1, 0);
    *at = p + 1;
    return QR_OK;
}

static void read_hardware(struct qasm_reader *r, size_t *at) {
    size_t p = *at + 1;
    uint32_t qubit = 0;
    for (; token_is_digit(byte_at(r, p)); p++)
        if (qubit < QR_MAX_QUBITS) qubit = 10 * qubit + byte_at(r, p) - '0';
    if (p == *at + 1) { /* a name of a calibration */
        p = word_end(r, p);
        qubit = QASM_UNNUMBERED;
    }
    add_token(r, QASM_HARDWARE, *at, p, qubit);
    *at = p;
}

static enum qr_code read_operator(struct qasm_reader *r, size_t *at) {
    static const struct {
        char text[4];
        uint8_t kind, op;
    } longer[] = {{"**=", QASM_ASSIGN, QASM_POWER},
                  {"<<=", QASM_ASSIGN, QASM_LEFT},
                  {">>=", QASM_ASSIGN, QASM_RIGHT},
                  {"->", QASM_ARROW, 0},
                  {"**", QASM_POWER, 0},
                  {"++", QASM_CONCAT, 0},
                  {"==", QASM_EQUAL, 0},
                  {"!=", QASM_UNEQUAL, 0},
                  {"<=", QASM_AT_MOST, 0},
                  {">=", QASM_AT_LEAST, 0},
                  {"&&", QASM_AND, 0},
                  {"||", QASM_OR, 0},
                  {"<<", QASM_LEFT, 0},
                  {">>", QASM_RIGHT, 0},
                  {"+=", QASM_ASSIGN, '+'},
                  {"-=", QASM_ASSIGN, '-'},
                  {"*=", QASM_ASSIGN, '*'},
                  {"/=", QASM_ASSIGN, '/'},
                  {"%=", QASM_ASSIGN, '%'},
                  {"&=", QASM_ASSIGN, '&'},
                  {"|=", QASM_ASSIGN, '|'},
                  {"^=", QASM_ASSIGN, '^'}};
    uint8_t ch = r->text.p[*at];
    if (!ch || !strchr("+-*/%<>=!&|^#@.", ch))
        return fail_at_byte(r, QR_INVALID_ARGUMENT, *at,
                            "this character has no meaning in OpenQASM; remove it");
    for (size_t i = 0; i < sizeof longer / sizeof *longer; i++)
        if (longer[i].text[0] == ch && text_has(r, *at, longer[i].text)) {
            size_t n = strlen(longer[i].text);
            add_token(r, longer[i].kind, *at, *at + n, longer[i].op);
            *at += n;
            return QR_OK;
        }
    add_token(r, ch, *at, *at + 1, 0);
    ++*at;
    return QR_OK;
}

static size_t line_end(const struct qasm_reader *r, size_t at) {
    const uint8_t *end = memchr(r->text.p + at, '\n', r->text.n - at);
    return end ? (size_t)(end - r->text.p) : r->text.n;
}

/* Blanks and comments; *at stays where there are none. A newline ends a line of Braket's. */
static enum qr_code skip_blanks(struct qasm_reader *r, size_t *at) {
    for (size_t p = *at;; *at = p) {
        uint8_t ch = byte_at(r, p);
        if (ch > ' ' && ch != '/') return QR_OK;
        if (ch == '\n' && r->in_pragma) {
            r->in_pragma = false;
            add_token(r, QASM_PRAGMA_END, p, p, 0);
        }
        if (ch == ' ' || ch == '\t' || ch == '\r' || ch == '\n') p++;
        else if (ch == '/' && byte_at(r, p + 1) == '/') p = line_end(r, p);
        else if (ch == '/' && byte_at(r, p + 1) == '*') {
            for (p += 2; !(byte_at(r, p) == '*' && byte_at(r, p + 1) == '/'); p++)
                if (p >= r->text.n)
                    return fail_at_byte(r, QR_INVALID_ARGUMENT, *at,
                                        "this comment is not closed; close it with */");
            p += 2;
        } else return QR_OK;
    }
}

/* The line of a pragma or an annotation. Only Braket's pragmas have a meaning here. */
static size_t read_directive(struct qasm_reader *r, size_t at) {
    size_t p = at + (byte_at(r, at) == '#') + strlen("pragma");
    while (byte_at(r, p) == ' ' || byte_at(r, p) == '\t') p++;
    if (byte_at(r, at) == '@' || !text_has(r, p, "braket ")) return line_end(r, at);
    r->in_pragma = true;
    add_token(r, QASM_PRAGMA, at, p, 0);
    return p + strlen("braket ");
}

/* The first word of a statement. */
static bool begins_statement(const struct qasm_reader *r) {
    unsigned kind = r->n_tokens ? r->tokens[r->n_tokens - 1].kind : ';';
    return kind == ';' || kind == '{' || kind == '}' || kind == QASM_PRAGMA_END;
}

/* Past a word, which becomes a token. */
static size_t read_word(struct qasm_reader *r, size_t at) {
    const uint8_t *p = r->text.p;
    size_t n = r->text.n, end = at;
    uint32_t hash = HASH_BEGIN;
    for (; end < n && (token_is_letter(p[end]) || token_is_digit(p[end])); end++)
        hash = hash_next(hash, p[end]);
    add_token(r, QASM_NAME, at, end, name_number(r, p + at, end - at, hash, false));
    return end;
}

static enum qr_code read_token(struct qasm_reader *r, size_t *at) {
    uint8_t ch = r->text.p[*at];
    uint32_t code_point;
    switch (ch) {
    case '[':
    case ']':
    case '{':
    case '}':
    case '(':
    case ')':
    case ':':
    case ';':
    case ',':
    case '~':
        add_token(r, ch, *at, *at + 1, 0);
        ++*at;
        return QR_OK;
    case '#':
    case 'p':
    case '@':
        if (begins_statement(r) && (text_has(r, *at, "#pragma ") || text_has(r, *at, "pragma ") ||
                                    (ch == '@' && token_is_letter(byte_at(r, *at + 1))))) {
            *at = read_directive(r, *at);
            return QR_OK;
        }
        break;
    case '.':
        if (token_is_digit(byte_at(r, *at + 1))) return read_number(r, at);
        break;
    case '"':
    case '\'': return read_string(r, at);
    case '$': read_hardware(r, at); return QR_OK;
    }
    if (token_is_digit(ch)) return read_number(r, at);
    if (!token_is_letter(ch)) return read_operator(r, at);
    if (ch >= 0x80 && !qr_utf8_next(r->text.p + *at, r->text.n - *at, &code_point))
        return fail_at_byte(r, QR_INVALID_ARGUMENT, *at, "this byte is not UTF-8; remove it");
    *at = read_word(r, *at);
    return QR_OK;
}

/* The version of the first line, which determines the keywords. */
static enum qr_code read_version(struct qasm_reader *r, size_t *at) {
    r->version = 3;
    QR_TRY(skip_blanks(r, at));
    if (!text_has(r, *at, "OPENQASM")) return QR_OK;
    size_t p = *at + strlen("OPENQASM");
    QR_TRY(skip_blanks(r, &p));
    size_t end = p;
    while (token_is_digit(byte_at(r, end)) || byte_at(r, end) == '.') end++;
    char text[8] = "";
    if (end - p < sizeof text) memcpy(text, r->text.p + p, end - p);
    bool two = strcmp(text, "2") == 0 || strcmp(text, "2.0") == 0;
    if (!two && strcmp(text, "3") != 0 && strcmp(text, "3.0") != 0 && strcmp(text, "3.1") != 0)
        return fail_at_byte(r, QR_INVALID_ARGUMENT, p,
                            "this is not a version of OpenQASM that is known here; write OPENQASM "
                            "2.0; or OPENQASM 3.0;");
    r->version = two ? 2 : 3;
    QR_TRY(skip_blanks(r, &end));
    if (byte_at(r, end) != ';')
        return fail_at_byte(r, QR_INVALID_ARGUMENT, end, "expected ';' after the version");
    *at = end + 1;
    return QR_OK;
}

enum qr_code qasm_tokens_begin(struct qasm_reader *r) {
    size_t at = text_has(r, 0, "\xef\xbb\xbf") ? 3 : 0; /* a byte order mark */
    if (r->text.n > QR_PROGRAM_BYTES)
        return qr_fail(r->err, QR_INVALID_ARGUMENT,
                       "the text has %zu bytes, more than %d; split the circuit", r->text.n,
                       QR_PROGRAM_BYTES);
    QR_TRY(read_version(r, &at));
    add_keywords(r);
    r->read = at;
    return QR_OK;
}

/* Connects a "{" with its "}". */
static enum qr_code match_brace(struct qasm_reader *r) {
    uint32_t last = (uint32_t)r->n_tokens - 1;
    if (r->tokens[last].kind == '{') {
        r->tokens[last].value = r->open;
        r->open = last + 1;
        return QR_OK;
    }
    if (!r->open) return qasm_fail(r, last, "this } closes nothing; remove it");
    struct qasm_token *begin = &r->tokens[r->open - 1];
    r->open = begin->value;
    begin->value = last;
    return QR_OK;
}

enum qr_code qasm_tokens_more(struct qasm_reader *r) {
    size_t at = r->read;
    for (bool whole = false; !whole;) {
        uint8_t ch = byte_at(r, at);
        if (ch <= ' ' || ch == '/') {
            QR_TRY(skip_blanks(r, &at));
            if (at >= r->text.n) break;
            ch = r->text.p[at];
        }
        QR_TRY(read_token(r, &at));
        if (r->steps > r->max_steps) return qasm_bounded(r, (uint32_t)r->n_tokens - 1);
        if (r->n_tokens > MAX_TOKENS)
            return qasm_fail(r, MAX_TOKENS, "the text has more than %d words; split the circuit",
                             MAX_TOKENS);
        if (ch == '{' || ch == '}') QR_TRY(match_brace(r));
        if (ch != ';' || r->open || r->in_pragma) continue;
        QR_TRY(skip_blanks(r, &at));
        whole = !(text_has(r, at, "else") && word_end(r, at) == at + strlen("else"));
    }
    if (at >= r->text.n) {
        if (r->open) return qasm_fail(r, r->open - 1, "this { is not closed; close it with }");
        if (r->in_pragma) add_token(r, QASM_PRAGMA_END, at, at, 0);
        r->in_pragma = false;
    }
    add_token(r, QASM_END, at, at, 0);
    r->read = at;
    return QR_OK;
}

/* ---- reading tokens ---- */

enum qr_code qasm_expect(struct qasm_reader *r, unsigned kind, const char *what) {
    if (qasm_skip(r, kind)) return QR_OK;
    if (qasm_is(r, QASM_END))
        return qasm_fail(r, r->at, "expected %s, but the %s ends here", what,
                         qasm_here(r)->at < r->text.n ? "statement" : "text");
    const struct qasm_token *t = qasm_here(r);
    return qasm_fail(r, r->at, "expected %s, not '%.*s'", what,
                     (int)(t->bytes > 40 ? 40 : t->bytes), (const char *)r->text.p + t->at);
}

enum qr_code qasm_expect_name(struct qasm_reader *r, const char *what, uint32_t *ret) {
    if (qasm_is(r, QASM_NAME) && !qasm_is_identifier(r, r->at))
        return qasm_fail(r, r->at, "expected %s, but '%.*s' is a keyword; choose another name",
                         what, QASM_TEXT(r, qasm_here(r)->value));
    *ret = qasm_here(r)->value;
    return qasm_expect(r, QASM_NAME, what);
}

enum qr_code qasm_bounded(struct qasm_reader *r, uint32_t token) {
    if (r->steps > r->max_steps)
        return qasm_fail(r, token, "up to here reading takes more than %u steps; repeat less often",
                         r->max_steps);
    if (r->gates.list.n > r->max_gates)
        return qasm_fail(r, token, "here the circuit exceeds %u gates; use fewer", r->max_gates);
    return QR_OK;
}

enum qr_code qasm_enter(struct qasm_reader *r, uint32_t token) {
    if (r->depth == QR_QASM_DEPTH)
        return qasm_fail(r, token,
                         "more than %d blocks, calls and brackets are nested here; nest fewer",
                         QR_QASM_DEPTH);
    r->depth++;
    return QR_OK;
}

void qasm_reader_fini(struct qasm_reader *r) {
    for (uint32_t i = 0; i < r->n_leaves; i++) free(r->leaves[i]);
    for (size_t i = 0; i < r->n_readouts; i++) free(r->readouts[i]);
    qr_gate_reader_fini(&r->gates);
    free(r->leaves);
    free(r->readouts);
    free(r->tokens);
    free(r->names);
    free(r->name_slots);
    free(r->symbols);
    free(r->pool);
    free(r->cells);
    free(r->cell_bits);
    free(r->measured_order);
    free(r->returned_bits);
    free(r->results);
    for (uint32_t i = 0; i < r->n_tables; i++) free(r->tables[i].values);
    free(r->tables);
    free(r->nodes);
    free(r->input_sizes);
}
