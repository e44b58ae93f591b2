/* qasm/qasm_impl.h — the state of reading one text, shared by the files of this component.
 *
 * tokens.c makes tokens of the next statements; statements.c executes them, declarations.c and
 * gate_calls.c with it; operands.c reads expressions and indexed names; arithmetic.c computes.
 */
#ifndef QR_QASM_QASM_IMPL_H
#define QR_QASM_QASM_IMPL_H

#include "circuit/gate_items.h"
#include "qasm/qasm.h"

/* ---- tokens ---- */

/* Punctuation of one character is its own code. */
enum qasm_token_kind {
    QASM_END = 128, /* of the statements that were made tokens */
    QASM_NAME,
    QASM_INTEGER,
    QASM_FLOAT,
    QASM_TIMING, /* 10ns */
    QASM_IMAGINARY,
    QASM_STRING,
    QASM_HARDWARE, /* $0 */
    QASM_PRAGMA,   /* of Braket; its line follows, and QASM_PRAGMA_END */
    QASM_PRAGMA_END,
    QASM_ARROW,
    QASM_POWER, /* ** */
    QASM_CONCAT,
    QASM_EQUAL,
    QASM_UNEQUAL,
    QASM_AT_MOST,
    QASM_AT_LEAST,
    QASM_AND,
    QASM_OR,
    QASM_LEFT,
    QASM_RIGHT,
    QASM_ASSIGN, /* +=, and the others; the value is the token of the operator */
};

enum { QASM_UNNUMBERED = 1 << 30 };
struct qasm_token {
    uint8_t kind;
    uint32_t at, bytes; /* in the text */
    /* NAME: number of the name; "{": the token of its "}"; INTEGER: its value, and HARDWARE: the
     * qubit, or QASM_UNNUMBERED; ASSIGN */
    uint32_t value;
};

/* Words with a meaning; in OpenQASM 2 those of the first line alone. The number of the name of a
 * keyword is that of its enum. */
#define QASM_KEYWORDS(K)                                                                           \
    K(OPENQASM) K(include) K(qreg) K(creg) K(gate) K(opaque) K(barrier) K(measure) K(reset) K(if)  \
    K(qubit) K(bit) K(int) K(uint) K(float) K(angle) K(bool) K(complex) K(duration) K(stretch)     \
    K(array) K(const) K(input) K(output) K(let) K(def) K(return) K(extern) K(for) K(in) K(while)   \
    K(else) K(break) K(continue) K(end) K(switch) K(case) K(default) K(ctrl) K(negctrl) K(inv)     \
    K(pow) K(delay) K(box) K(cal) K(defcal) K(defcalgrammar) K(readonly) K(mutable) K(sizeof)      \
    K(durationof) K(true) K(false) K(void) K(nop)
enum qasm_keyword {
#define QASM_KEYWORD(word) QASM_KEY_##word,
    QASM_KEYWORDS(QASM_KEYWORD)
#undef QASM_KEYWORD
        QASM_N_KEYWORDS
};
enum { QASM_N_KEYWORDS_2 = QASM_KEY_qubit };

struct qasm_name {
    const char *text; /* in the text or static */
    uint32_t bytes;
    uint32_t top;     /* 1 + the innermost symbol of this name; 0: none */
    uint16_t library; /* 1 + row of the library of gates; 0: not looked up yet */
    /* Of a library gate, once resolved: enum qr_gate_kind, or -1 for a composite gate */
    bool resolved;
    int kind;
    const struct qr_composite_gate *composite;
};

/* ---- values ---- */

enum qasm_type { QASM_BIT, QASM_BOOL, QASM_INT, QASM_UINT, QASM_FLOATING, QASM_ANGLE, QASM_VOID };
enum qasm_value_kind {
    QASM_WHOLE, /* an integer, a bit, a truth value, bits */
    QASM_REAL,
    QASM_SYMBOLIC, /* depends on free symbols */
    QASM_UNKNOWN   /* a measured bit, or depends on one */
};
struct qasm_value {
    enum qasm_value_kind kind;
    union {
        int64_t whole;
        double real;
        uint32_t node;
        uint32_t result; /* UNKNOWN: 1 + a measurement's number; 0: of which is not known */
    };
    bool derived; /* UNKNOWN: depends on the result, but is another value */
    /* WHOLE: BIT, of `width` bits (0: single, at most 64), UINT, or INT; width of INT: 0 */
    uint8_t type, width; /* enum qasm_type */
    uint32_t table;      /* UNKNOWN: 1 + the table of its values; 0: none */
};

/* The values of a variable for each value of some results. */
enum { QASM_TABLE = 8 };
struct qasm_table {
    unsigned n;
    uint32_t results[QASM_TABLE];
    struct qasm_value *values; /* 2^n; the first result is the lowest bit of the index; owned */
};

/* A measurement that sets a bit. */
struct qasm_result {
    uint16_t bit;
    int8_t assumed; /* the value while a statement is executed for each of them; -1: none */
};

/* An operation on free symbols, shared by all values that contain it. */
struct qasm_node {
    enum qr_expression_op op;
    uint32_t a, b; /* operands; PARAMETER, INPUT: the leaf's name in `leaves` */
    double number;
    bool has_arg;
    struct qr_gate_arg arg; /* the angle in radians, once a gate has used it */
};

/* ---- symbols ---- */

enum qasm_symbol_kind { QASM_VARIABLE, QASM_QUBITS, QASM_GATE, QASM_SUBROUTINE };
enum { QASM_DIMENSIONS = 7, QASM_INPUT_ELEMENTS = 1 << 10 };

/* Items of a register, an array or one variable: entries of `pool`, which are qubits or cells. */
struct qasm_selection {
    bool qubits, constant;
    uint8_t n_dims; /* 0: one item */
    uint8_t width;  /* bits of int and uint; 0: 64 */
    enum qasm_type type;
    uint32_t first, n, dims[QASM_DIMENSIONS];
};
struct qasm_symbol {
    enum qasm_symbol_kind kind;
    uint32_t name, shadowed; /* shadowed: 1 + the outer symbol of this name */
    struct qasm_selection items;
    /* Gate, subroutine: the token after the name, 0 if opaque; numbers of arguments */
    uint32_t token, n_angles, n_qubits;
    uint32_t number; /* position among the symbols */
};

/* What is released at the end of a block or a call. */
struct qasm_scope {
    uint32_t n_symbols, n_pool, n_cells, start, frame, n_known;
};

enum qasm_flow { QASM_ON, QASM_BREAK, QASM_CONTINUE, QASM_RETURN, QASM_STOP };

struct qasm_reader {
    struct qr_bytes text;
    unsigned version; /* 2 or 3 */
    struct qasm_token *tokens;
    size_t n_tokens, cap_tokens;
    struct qasm_name *names;
    uint32_t n_names, cap_names, *name_slots; /* 2 * cap_names slots */

    size_t read; /* bytes of the text that are tokens already */
    uint32_t
        open; /* while tokens are made: 1 + the innermost "{"; its value is that of the outer */
    bool in_pragma; /* in a line of Braket's */

    uint32_t at; /* the next token */
    uint64_t steps;
    uint32_t max_steps, max_gates;
    unsigned depth; /* nested blocks, calls and brackets */
    struct qasm_symbol *symbols;
    uint32_t n_symbols, cap_symbols;
    uint32_t start; /* first symbol of the innermost block */
    uint32_t frame; /* first symbol of the gate or subroutine that is executed */
    /* Symbols that were declared before this gate, or up to this subroutine */
    uint32_t n_known;
    uint32_t *pool, n_pool, cap_pool;
    struct qasm_value *cells;
    uint32_t n_cells, cap_cells;
    struct qasm_node *nodes;
    uint32_t n_nodes, cap_nodes;
    char **leaves; /* texts of free symbols */
    uint32_t n_leaves, cap_leaves;
    enum qasm_flow flow;
    struct qasm_value returned;
    /* The same, bit by bit, if it is a bit register: of the call from one token up to another */
    struct qasm_value *returned_bits;
    uint32_t n_returned, cap_returned, call, call_end;
    bool exact;             /* integers must divide exactly: in the argument of pow */
    unsigned sets;          /* included gates, a mask of enum qasm_set */
    bool in_gate, checking; /* checking: a definition's body is executed, but adds no gates */

    unsigned n_qubits;
    bool physical, virtual;
    struct qr_qubits touched, measured; /* measured: since the last gate on the qubit */
    uint16_t *measured_order;           /* qubits, in the order of measurements */
    size_t n_measured, cap_measured;
    bool dynamic; /* something depends on a result, or follows a measurement of its qubit */
    struct qasm_result *results;
    uint32_t n_results, cap_results;
    struct qasm_table *tables;
    uint32_t n_tables, cap_tables;
    uint32_t latest[QR_MAX_QUBITS]; /* 1 + the last result in each bit */
    uint16_t *cell_bits;            /* cap_cells: 1 + the bit of a cell; 0: none yet */
    unsigned n_bits;
    /* 1 + the result that the failed statement must know: it is executed for 0 and for 1 */
    uint32_t needed;
    bool compared; /* by qasm_compare_register, which needs no further bits for one of the two */
    unsigned n_assumed;
    char **readouts;
    size_t n_readouts, cap_readouts;
    const char *const *inputs;
    size_t n_inputs;
    /* Elements of each input; 0: not declared. Until the end, the column of element e of input i
     * is i * QASM_INPUT_ELEMENTS + e. */
    uint32_t *input_sizes;
    struct qr_gate_reader gates;
    struct qr_buf *excerpt;
    struct qr_err *err;
};

/* ---- tokens.c ---- */

/* Reads the version. */
QR_MUST_CHECK enum qr_code qasm_tokens_begin(struct qasm_reader *r);
/* Appends the tokens of the next statements, up to a ";" outside of braces, and QASM_END. */
QR_MUST_CHECK enum qr_code qasm_tokens_more(struct qasm_reader *r);
void qasm_reader_fini(struct qasm_reader *r);
/* Fails at a token: fills the error and the excerpt. */
enum qr_code qasm_fail(struct qasm_reader *r, uint32_t token, const char *fmt, ...) QR_PRINTF(3, 4);
/* The same for what OpenQASM allows and qring cannot do; the code is UNIMPLEMENTED. */
enum qr_code qasm_refuse(struct qasm_reader *r, uint32_t token, const char *fmt, ...)
    QR_PRINTF(3, 4);
static inline const struct qasm_token *qasm_here(const struct qasm_reader *r) {
    return &r->tokens[r->at];
}
static inline bool qasm_is(const struct qasm_reader *r, unsigned kind) {
    return r->tokens[r->at].kind == kind;
}
static inline bool qasm_is_key(const struct qasm_reader *r, enum qasm_keyword key) {
    return r->tokens[r->at].kind == QASM_NAME && r->tokens[r->at].value == (uint32_t)key;
}
static inline bool qasm_is_identifier(const struct qasm_reader *r, uint32_t token) {
    return r->tokens[token].kind == QASM_NAME && r->tokens[token].value >= QASM_N_KEYWORDS;
}
/* Goes to the next token; counts a step. */
static inline void qasm_next(struct qasm_reader *r) {
    r->steps++;
    if (r->tokens[r->at].kind != QASM_END) r->at++;
}
/* Goes past the token if it is of this kind. */
static inline bool qasm_skip(struct qasm_reader *r, unsigned kind) {
    if (!qasm_is(r, kind)) return false;
    qasm_next(r);
    return true;
}
/* The token must be of this kind; what: "';' after the measurement". */
QR_MUST_CHECK enum qr_code qasm_expect(struct qasm_reader *r, unsigned kind, const char *what);
/* An identifier that is not a keyword. */
QR_MUST_CHECK enum qr_code qasm_expect_name(struct qasm_reader *r, const char *what, uint32_t *ret);
/* Fails when too many steps were taken. */
QR_MUST_CHECK enum qr_code qasm_bounded(struct qasm_reader *r, uint32_t token);
/* Enters a nested block, call or bracket; r->depth-- leaves it. */
QR_MUST_CHECK enum qr_code qasm_enter(struct qasm_reader *r, uint32_t token);
/* The first bytes of a name, as "%.*s" takes them. */
#define QASM_TEXT(r, name)                                                                         \
    (int)((r)->names[name].bytes < 64 ? (r)->names[name].bytes : 64), (r)->names[name].text

/* ---- arithmetic.c ---- */

static inline struct qasm_value qasm_whole(int64_t v) {
    return (struct qasm_value){.kind = QASM_WHOLE, .whole = v, .type = QASM_INT};
}
static inline struct qasm_value qasm_typed(int64_t v, enum qasm_type type, unsigned width) {
    return (struct qasm_value){
        .kind = QASM_WHOLE, .whole = v, .type = (uint8_t)type, .width = (uint8_t)width};
}
static inline struct qasm_value qasm_real(double v) {
    return (struct qasm_value){.kind = QASM_REAL, .real = v, .type = QASM_FLOATING};
}
static inline double qasm_number(struct qasm_value v) {
    return v.kind == QASM_WHOLE ? (double)v.whole : v.real;
}
/* A leaf of expressions; text is taken over. */
QR_MUST_CHECK enum qr_code qasm_leaf(struct qasm_reader *r, uint32_t token, bool input, char *text,
                                     struct qasm_value *ret);
/* a op b, for the operators of tokens; unary: '-', '!' and '~' with b. */
QR_MUST_CHECK enum qr_code qasm_binary(struct qasm_reader *r, uint32_t token, unsigned op,
                                       struct qasm_value a, struct qasm_value b,
                                       struct qasm_value *ret);
QR_MUST_CHECK enum qr_code qasm_unary(struct qasm_reader *r, uint32_t token, unsigned op,
                                      struct qasm_value a, struct qasm_value *ret);
/* A function by its name; *ret_known false: there is none of this name. */
QR_MUST_CHECK enum qr_code qasm_function(struct qasm_reader *r, uint32_t token,
                                         const struct qasm_value *v, unsigned n,
                                         struct qasm_value *ret, bool *ret_known);
/* Takes over the values of a table; returns 1 + its number. */
uint32_t qasm_table_add(struct qasm_reader *r, const struct qasm_table *t);
/* The value as one of a type. */
QR_MUST_CHECK enum qr_code qasm_convert(struct qasm_reader *r, uint32_t token, enum qasm_type type,
                                        unsigned width, struct qasm_value v,
                                        struct qasm_value *ret);
/* A value that is known while reading. what: "an index". */
QR_MUST_CHECK enum qr_code qasm_integer(struct qasm_reader *r, uint32_t token, struct qasm_value v,
                                        const char *what, int64_t low, int64_t high, int64_t *ret);
QR_MUST_CHECK enum qr_code qasm_truth(struct qasm_reader *r, uint32_t token, struct qasm_value v,
                                      bool *ret);
/* The value as an angle of a gate, in radians. */
QR_MUST_CHECK enum qr_code qasm_angle(struct qasm_reader *r, uint32_t token, struct qasm_value v,
                                      struct qr_gate_arg *ret);

/* ---- operands.c ---- */

QR_MUST_CHECK enum qr_code qasm_expression(struct qasm_reader *r, struct qasm_value *ret);
/* The bit register that is all of the value up to the ";"; false: it is something else. */
bool qasm_register(const struct qasm_reader *r, struct qasm_selection *ret);
/* Copies the values of a register to r->returned_bits. */
void qasm_copy_bits(struct qasm_reader *r, const struct qasm_selection *from);
/* Whether the value from the token up to here is a call alone, with r->returned_bits. */
static inline bool qasm_returns_bits(const struct qasm_reader *r, uint32_t token) {
    return r->n_returned && r->call == token && r->call_end == r->at;
}
/* NAME == INTEGER before a ")", of a bit register of any length; false: it is something else. Bits
 * are needed only while all known ones agree. */
bool qasm_compare_register(struct qasm_reader *r, struct qasm_value *ret);
/* Whether a value can begin with this token, which is not a name. */
bool qasm_begins_value(const struct qasm_reader *r);
/* The symbol that a name refers to here; NULL: none. */
struct qasm_symbol *qasm_find(const struct qasm_reader *r, uint32_t name);
/* The same for the first name of a statement: in OpenQASM 2 a gate's arguments hide no gates. */
struct qasm_symbol *qasm_find_called(const struct qasm_reader *r, uint32_t name);
QR_MUST_CHECK enum qr_code qasm_declare(struct qasm_reader *r, uint32_t token,
                                        const struct qasm_symbol *symbol);
struct qasm_scope qasm_scope_open(struct qasm_reader *r);
/* The scope of a definition, which sees the first n_known symbols. */
struct qasm_scope qasm_frame_open(struct qasm_reader *r, uint32_t n_known);
void qasm_scope_close(struct qasm_reader *r, const struct qasm_scope *scope);
/* Appends n entries to the pool, or cells; returns the first. */
uint32_t qasm_pool_add(struct qasm_reader *r, uint32_t n);
uint32_t qasm_cells_add(struct qasm_reader *r, uint32_t n);
/* Reads a name with its indices: qubits, or classical variables. */
QR_MUST_CHECK enum qr_code qasm_select(struct qasm_reader *r, struct qasm_selection *ret);
/* The same, of qubits; n_dims is 0 or 1. */
QR_MUST_CHECK enum qr_code qasm_select_qubits(struct qasm_reader *r, struct qasm_selection *ret);
/* [start : step : stop], [stop], or { ... }: appends the integers to the pool. n: the length of
 * what is indexed, which negative numbers count from; 0: a range of its own. *ret_one: not a list.
 */
QR_MUST_CHECK enum qr_code qasm_range(struct qasm_reader *r, uint32_t n, uint32_t *ret_first,
                                      uint32_t *ret_n, bool *ret_one);
/* Reads a type; *ret_width 0: not given. */
QR_MUST_CHECK enum qr_code qasm_type(struct qasm_reader *r, enum qasm_type *ret_type,
                                     unsigned *ret_width);
bool qasm_is_type(const struct qasm_reader *r);
/* "measure q": selects the qubits. */
QR_MUST_CHECK enum qr_code qasm_measure(struct qasm_reader *r, struct qasm_selection *ret);
/* Measures them into as many cells; NULL: into none. The token is that of "measure". */
QR_MUST_CHECK enum qr_code qasm_measure_into(struct qasm_reader *r, uint32_t token,
                                             const struct qasm_selection *qubits,
                                             const struct qasm_selection *cells);
/* A value that depends on what v depends on. */
static inline struct qasm_value qasm_derived(struct qasm_value v) {
    v.derived = true;
    v.table = 0;
    return v;
}
/* Fails on an UNKNOWN value, which the statement must know; what: "the angle". */
enum qr_code qasm_need(struct qasm_reader *r, uint32_t token, struct qasm_value v,
                       const char *what);
/* Marks a qubit that a gate or channel acts on. */
void qasm_touch(struct qasm_reader *r, unsigned qubit);
/* Gives the next free bits to n cells, while there are some. */
void qasm_number_bits(struct qasm_reader *r, uint32_t first_cell, uint32_t n);

/* ---- library_gates.c ---- */

enum qasm_set { QASM_QELIB = 1, QASM_STDGATES = 2, QASM_BRAKET = 4, QASM_ALWAYS = 8 };
/* Whether the includes of the text make a gate of this name known; its numbers of arguments. */
bool qasm_library_find(const struct qasm_reader *r, uint32_t name, unsigned *ret_n_angles,
                       unsigned *ret_n_qubits);
/* Whether stdgates.inc or the language has a gate of this name of n bytes. */
bool qasm_stdgates_has(const char *name, size_t n);
/* The include that has the gate, for messages; NULL: none. */
const char *qasm_library_include(const struct qasm_reader *r, uint32_t name);
/* Appends the gate of this name to r->gates.list. */
QR_MUST_CHECK enum qr_code qasm_library_add(struct qasm_reader *r, uint32_t token, uint32_t name,
                                            const struct qasm_value *angles,
                                            const uint16_t *qubits);
/* A global phase, which matters in controlled gates only. */
QR_MUST_CHECK enum qr_code qasm_phase_add(struct qasm_reader *r, uint32_t token,
                                          struct qasm_value angle);

/* ---- gate_calls.c ---- */

/* A gate with its modifiers, angles and qubits, up to the semicolon. */
QR_MUST_CHECK enum qr_code qasm_gate_call(struct qasm_reader *r);
/* gate NAME(angles) qubits { ... }; opaque NAME(angles) qubits; */
QR_MUST_CHECK enum qr_code qasm_gate_definition(struct qasm_reader *r);
/* def NAME(arguments) -> type { ... } */
QR_MUST_CHECK enum qr_code qasm_subroutine_definition(struct qasm_reader *r);
/* NAME(arguments) of a subroutine; the token is its name. */
QR_MUST_CHECK enum qr_code qasm_subroutine_call(struct qasm_reader *r,
                                                const struct qasm_symbol *symbol,
                                                struct qasm_value *ret);

/* ---- declarations.c ---- */

/* qubit, bit, int, ..., const, array, input, output, let, qreg, creg */
bool qasm_is_declaration(const struct qasm_reader *r);
QR_MUST_CHECK enum qr_code qasm_declaration(struct qasm_reader *r);
/* name = value, name += value */
QR_MUST_CHECK enum qr_code qasm_assignment(struct qasm_reader *r);
/* int[8], bit[4], array[float, 2, 3]; argument: also array[float, #dim = 2], whose dims are 0. */
QR_MUST_CHECK enum qr_code qasm_shape(struct qasm_reader *r, bool argument,
                                      struct qasm_selection *ret);
/* An expression as the value of a variable. */
QR_MUST_CHECK enum qr_code qasm_read_value(struct qasm_reader *r, const struct qasm_selection *to);
/* Gives the shape of a variable cells, which are 0. */
QR_MUST_CHECK enum qr_code qasm_add_variable(struct qasm_reader *r, uint32_t token,
                                             struct qasm_selection *items);
/* Stores r->returned_bits in as many cells. */
void qasm_store_returned(struct qasm_reader *r, const struct qasm_selection *to);
QR_MUST_CHECK enum qr_code qasm_declare_value(struct qasm_reader *r, uint32_t token,
                                              enum qasm_type type, unsigned width,
                                              struct qasm_value v);

/* ---- noise_pragmas.c ---- */

/* bit_flip(0.1) q[0], after "#pragma braket noise" */
QR_MUST_CHECK enum qr_code qasm_noise(struct qasm_reader *r);
/* Appends a channel, whose operators are taken over. */
QR_MUST_CHECK enum qr_code qasm_channel_add(struct qasm_reader *r, uint32_t token,
                                            struct qr_channel *channel, const uint16_t *qubits);

/* ---- statements.c, result_pragmas.c ---- */

QR_MUST_CHECK enum qr_code qasm_program(struct qasm_reader *r);
QR_MUST_CHECK enum qr_code qasm_statement(struct qasm_reader *r);
QR_MUST_CHECK enum qr_code qasm_expression_statement(struct qasm_reader *r);
/* Statements up to the "}" of the "{" that is the next token. */
QR_MUST_CHECK enum qr_code qasm_block(struct qasm_reader *r);
/* A pragma of Braket's: a result or noise. */
QR_MUST_CHECK enum qr_code qasm_pragma(struct qasm_reader *r);
/* Whether the token is this word. */
bool qasm_word_is(const struct qasm_reader *r, uint32_t token, const char *word);
/* A sum such as 0.5-0.5im, of which 0.5 is ret[0]. */
QR_MUST_CHECK enum qr_code qasm_complex(struct qasm_reader *r, double ret[2]);

#endif
