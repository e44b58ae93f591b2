/* Arguments of gates as expressions: accepted forms, errors with their columns, values and
 * derivatives against a slow evaluator that shares no code with lib. */
#include <math.h>
#include <stdio.h>

#include "base/mem.h"
#include "circuit/circuit_json.h"
#include "tests/t.h"

/* ---- names: a, b, c ... are parameters 0, 1, 2 ...; columns of names "p", "q r" are 4, 5 ---- */

static uint32_t parameter(void *context, const char *name, size_t n) {
    (void)context;
    return n == 1 ? (uint32_t)(name[0] - 'a') : 99;
}
static const char *column(void *context, const char *name, size_t n, uint32_t *ret) {
    (void)context;
    *ret = n == 1 ? 4 : 5;
    return (n == 1 && *name == 'p') || (n == 3 && memcmp(name, "q r", 3) == 0)
               ? NULL
               : "no column has this name";
}
static const struct qr_expression_names names = {NULL, parameter, column, 6, NULL};

static bool parse(const char *text, double *scale, struct qr_expression *e, struct qr_err *err) {
    return qr_expression_parse(text, "angle", &names, scale, e, err) == QR_OK;
}

static double value(const char *text, const double *theta, const double *x) {
    struct qr_expression e;
    struct qr_err err;
    double scale;
    if (!parse(text, &scale, &e, &err)) {
        CHECK(false, "%s", err.msg);
        return (double)NAN;
    }
    double v = scale * qr_expression_value(&e, theta, x);
    qr_expression_fini(&e);
    return v;
}

/* ---- form ---- */

/* text: the printed form; nodes: the number after simplification. */
static const struct {
    const char *from, *text;
    unsigned nodes;
} forms[] = {
    {"1.5", "1.5", 1},
    {"2*(3 + 4) - pow(2, 3)/4", "12", 1},
    {"a", "a", 1},
    {"-a", "-a", 1},
    {" - ( 2 * a ) ", "-2*a", 1},
    {"a/4", "0.25*a", 1},
    {"2*a/4*3", "1.5*a", 1},
    {"3*(2*(-a))", "-6*a", 1},
    {"pi*x[2]", "3.141592653589793*x[2]", 1},
    {"x[2]*pi/2", "1.5707963267948966*x[2]", 1},
    {"x.p", "x[4]", 1},
    {"x['q r']", "x[5]", 1},
    {"2*asin(sqrt(x[1]))", "2*asin(sqrt(x[1]))", 3},
    {"-asin(x[1])/2", "-0.5*asin(x[1])", 2},
    {"a*x[0] + b", "a*x[0] + b", 5},
    {"2*(a + b)", "2*(a + b)", 3},
    {"-(a + b)", "-(a + b)", 3},
    {"a - (b - c)", "a - (b - c)", 5},
    {"a - b - c", "a - b - c", 5},
    {"a/(b*c)", "a/(b*c)", 5},
    {"a*(b/c)", "a*(b/c)", 5},
    {"a/b/c", "a/b/c", 5},
    {"2*a + 3*4", "2*a + 12", 5},
    {"a*-b", "a*-b", 4},
    {"--a", "a", 1},
    {"a - -b", "a - -b", 4},
    {"+a", "a", 1},
    {"a + -2", "a + -2", 3},
    {"0*sin(a)", "0*sin(a)", 2},
    {"2/a", "2/a", 3},
    {"pow(a, 2)", "pow(a, 2)", 3},
    {"1e-3*sin(1e2*a)", "0.001*sin(100*a)", 4},
    {"2*atan2(-a, hypot(3, 4))", "2*atan2(-a, 5)", 4},
    {"hypot(a + b, -x[1])/2", "0.5*hypot(a + b, -x[1])", 6},
};

static void test_forms(void) {
    char *letters[] = {(char[]){"a"}, (char[]){"b"}, (char[]){"c"}};
    for (size_t i = 0; i < COUNT(forms); i++) {
        struct qr_expression e, again;
        struct qr_err err;
        double scale, scale_again;
        struct qr_buf text = {0};
        if (!parse(forms[i].from, &scale, &e, &err)) {
            CHECK(false, "%s", err.msg);
            continue;
        }
        bool number = e.n == 1 && e.node->op == QR_EXPRESSION_NUMBER;
        qr_expression_print(&e, scale, &(struct qr_expression_style){.parameters = letters}, &text);
        CHECK(e.n == forms[i].nodes && strcmp(qr_buf_string(&text), forms[i].text) == 0 &&
                  (!number || scale == 1),
              "%s: %u nodes, %s", forms[i].from, e.n, qr_buf_string(&text));
        CHECK(parse(qr_buf_string(&text), &scale_again, &again, &err) && scale == scale_again &&
                  qr_expression_equal(&e, &again),
              "%s is read back differently", forms[i].text);
        qr_expression_fini(&e);
        qr_expression_fini(&again);
        qr_buf_free(&text);
    }
}

/* Expressions that differ in one operation, name, number or length are not equal. Other tests
 * compare circuits with qr_expression_equal. */
static void test_unequal(void) {
    static const char *const pairs[][2] = {
        {"a + b", "a - b"}, {"a + b", "a + c"}, {"sin(a)", "cos(a)"}, {"a + x[0]", "a + x[1]"},
        {"a + 2", "a + 3"}, {"a", "x[0]"},      {"a", "a + b"}};
    for (size_t i = 0; i < COUNT(pairs); i++) {
        struct qr_expression e[2];
        struct qr_err err;
        double scale;
        for (size_t k = 0; k < 2; k++)
            CHECK(parse(pairs[i][k], &scale, &e[k], &err), "%s", err.msg);
        CHECK(!qr_expression_equal(&e[0], &e[1]) && !qr_expression_equal(&e[1], &e[0]) &&
                  qr_expression_equal(&e[0], &e[0]),
              "%s and %s", pairs[i][0], pairs[i][1]);
        for (size_t k = 0; k < 2; k++) qr_expression_fini(&e[k]);
    }
}

/* ---- errors ---- */

static const struct {
    const char *text;
    unsigned column;
    const char *why;
} errors[] = {
    {"", 1, "expected a number, a name or ("},
    {"a +", 4, "expected a number, a name or ("},
    {"a b", 3, "expected an operator"},
    {"2a", 2, "expected an operator"},
    {"a ^ 2", 3, "pow(a, b)"},
    {"a**2", 2, "pow(a, b)"},
    {"2*(a + b", 3, "is not closed"},
    {"(a + b))", 8, "unexpected"},
    {"(a b)", 4, "expected ) or an operator"},
    {"sin a", 4, "( must follow the function sin"},
    {"b + sine(a)", 5, "did you mean sin"},
    {"arcsin(a)", 1, "did you mean asin"},
    {"gauss(a)", 1, "there are sin cos"},
    {"a + np.sin(b)", 5, "did you mean sin"},
    {"2*np.pi", 3, "'np.pi' would be a trainable weight; write pi"},
    {"PI/4", 1, "write pi"},
    {"\317\200/4", 1, "write pi"},
    {"sin(a, b)", 6, "sin takes one number"},
    {"pow(a)", 6, "pow takes two numbers"},
    {"1 + atan2(a)", 12, "atan2 takes two numbers: atan2(a, b)"},
    {"hypot(a, b, c)", 11, "expected ) or an operator"},
    {"arctan2(a, b)", 1, "did you mean atan2"},
    {"#0", 1, "unexpected"},
    {"sin(a", 4, "is not closed"},
    {"x", 1, "write x[0]"},
    {"1 + x*2", 5, "write x[0]"},
    {"x[6]", 1, "there is no x[6], the circuit's inputs are x[0] to x[5]"},
    {"x[-1]", 1, "write x[0]"},
    {"x[99999999999999999999]", 1, "there is no x["},
    {"a + x.petal", 5, "no column has this name"},
    {"x.", 1, "a column's name has 1 to 64 bytes, not 0"},
    {"1.2.3", 1, "'1.2.3' is not a finite decimal number"},
    {"1e999", 1, "not a finite decimal number"},
    {"a + asin(2)", 5, "not a finite number"},
    {"a + 1/0", 6, "not a finite number"},
    {"a/0", 1, "constant factor"},
    {"\303\251 + $", 5, "unexpected"}, /* characters are counted, not bytes */
    {"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", 1,
     "at most 64 bytes, not 67"},
};

static void check_rejected(const char *text, unsigned at, const char *why) {
    struct qr_expression e;
    struct qr_err err;
    double scale;
    char place[48];
    snprintf(place, sizeof place, "\", column %u: ", at);
    if (parse(text, &scale, &e, &err)) {
        CHECK(false, "%s is accepted", text);
        qr_expression_fini(&e);
        return;
    }
    CHECK(err.code == QR_INVALID_ARGUMENT && strncmp(err.msg, "angle: expression \"", 19) == 0 &&
              strstr(err.msg, place) && strstr(err.msg, why),
          "%s: %s", text, err.msg);
}

static void test_errors(void) {
    for (size_t i = 0; i < COUNT(errors); i++)
        check_rejected(errors[i].text, errors[i].column, errors[i].why);
    struct qr_buf b = {0};
    for (int i = 0; i < 40; i++) qr_buf_puts(&b, "(");
    check_rejected(qr_buf_string(&b), 33, "more than 32 nested brackets");
    qr_buf_clear(&b);
    for (int i = 0; i < 40; i++) qr_buf_puts(&b, "-");
    check_rejected(qr_buf_string(&b), 33, "more than 32 nested brackets");
    qr_buf_clear(&b);
    for (int i = 0; i < 100; i++) qr_buf_puts(&b, "a+");
    check_rejected(qr_buf_string(&b), 128, "more than 128");
    while (b.n < 2000) qr_buf_puts(&b, "a+");
    struct qr_expression e;
    struct qr_err err;
    double scale;
    CHECK(!parse(qr_buf_string(&b), &scale, &e, &err) && strstr(err.msg, "at most 1024 bytes"));
    qr_buf_free(&b);
    const struct qr_expression_names none = {NULL, parameter, NULL, 0, NULL};
    CHECK(qr_expression_parse("x[0]", "angle", &none, &scale, &e, &err) != QR_OK &&
              strstr(err.msg, "has no inputs"),
          "%s", err.msg);
    CHECK(qr_expression_parse("x.p", "angle", &none, &scale, &e, &err) != QR_OK &&
              strstr(err.msg, "inputs have no names here"),
          "%s", err.msg);
}

/* ---- values and derivatives ---- */

enum { N_THETA = 3, N_X = 3, N_VARIABLES = N_THETA + N_X };

/* A random expression, as text and as a tree; derivatives by dual numbers in long double. */
struct tree {
    char op; /* n a x, + - * / ~, and a letter for each function */
    double number;
    unsigned index;
    struct tree *left, *right;
};
struct dual {
    long double v, d[N_VARIABLES];
};

static uint64_t state = 88172645463325252u;
static unsigned below(unsigned n) {
    state ^= state << 13, state ^= state >> 7, state ^= state << 17;
    return (unsigned)(state >> 11) % n;
}

static struct tree *tree_new(unsigned depth) {
    static const char inner[] = "+-*/~sctSCTqelpbAh";
    struct tree *t = qr_xcalloc(1, sizeof *t);
    t->op = depth ? inner[below(sizeof inner - 1)] : "nax"[below(3)];
    t->number = (double)(int)below(40) / 8;
    t->index = below(3);
    if (!depth) return t;
    t->left = tree_new(below(depth));
    if (strchr("+-*/pAh", t->op)) t->right = tree_new(below(depth));
    return t;
}
static void tree_free(struct tree *t) {
    if (!t) return;
    tree_free(t->left);
    tree_free(t->right);
    free(t);
}

/* Text of a node, with l and r for its operands: arguments stay inside the domains. */
static const char *pattern(char op) {
    switch (op) {
    case '+': return "(l + r)";
    case '-': return "(l-r)";
    case '*': return "l * r";
    case '/': return "l/(2 + cos(r))";
    case '~': return "(-l)";
    case 's': return "sin(l)";
    case 'c': return "cos( l )";
    case 't': return "tan(sin(l))";
    case 'S': return "asin(0.9*sin(l))";
    case 'C': return "acos(0.9 * cos(l))";
    case 'T': return "atan (l)";
    case 'q': return "sqrt(1 + l*l)";
    case 'e': return "exp(sin(l))";
    case 'l': return "log(2 - cos(l))";
    case 'p': return "pow(2 + sin(l), cos(r))";
    case 'A': return "atan2(l, 2 - cos(r))";
    case 'h': return "hypot(l, 2 - cos(r))";
    default: return "abs(0.3 + sin(l))";
    }
}
static void put_tree(const struct tree *t, struct qr_buf *to) {
    if (t->op == 'n') qr_buf_printf(to, "%g", t->number);
    else if (t->op == 'a') qr_buf_printf(to, "%c", 'a' + t->index);
    else if (t->op == 'x') qr_buf_printf(to, "x[%u]", t->index);
    else
        for (const char *p = pattern(t->op); *p; p++)
            if (*p == 'l' && p[1] != 'o') put_tree(t->left, to);
            else if (*p == 'r' && (p[1] == ')' || !p[1] || p[1] == ' ') && p[-1] != 'q')
                put_tree(t->right, to);
            else qr_buf_printf(to, "%c", *p);
}

static struct dual of_number(long double v) { return (struct dual){.v = v}; }
/* f(a) with its derivative f'(a). */
static struct dual chain(struct dual a, long double v, long double slope) {
    for (int k = 0; k < N_VARIABLES; k++) a.d[k] *= slope;
    a.v = v;
    return a;
}
static struct dual plus(struct dual a, struct dual b, long double sign) {
    for (int k = 0; k < N_VARIABLES; k++) a.d[k] += sign * b.d[k];
    a.v += sign * b.v;
    return a;
}
static struct dual times(struct dual a, struct dual b) {
    for (int k = 0; k < N_VARIABLES; k++) a.d[k] = a.d[k] * b.v + a.v * b.d[k];
    a.v *= b.v;
    return a;
}
static struct dual dual_sin(struct dual a) { return chain(a, sinl(a.v), cosl(a.v)); }
static struct dual dual_cos(struct dual a) { return chain(a, cosl(a.v), -sinl(a.v)); }
static struct dual dual_exp(struct dual a) { return chain(a, expl(a.v), expl(a.v)); }
static struct dual dual_log(struct dual a) { return chain(a, logl(a.v), 1 / a.v); }

/* Derivatives by those of its sine and cosine. */
static struct dual dual_angle(struct dual y, struct dual x) {
    long double square = x.v * x.v + y.v * y.v;
    struct dual v = of_number(atan2l(y.v, x.v));
    for (int k = 0; k < N_VARIABLES; k++) v.d[k] = (y.d[k] * x.v - x.d[k] * y.v) / square;
    return v;
}
static struct dual dual_length(struct dual x, struct dual y) {
    struct dual square = plus(times(x, x), times(y, y), 1);
    return chain(square, sqrtl(square.v), 0.5L / sqrtl(square.v));
}

static struct dual dual_of(const struct tree *t, const double *at) {
    struct dual l = {0}, r = {0}, v = {0};
    if (t->left) l = dual_of(t->left, at);
    if (t->right) r = dual_of(t->right, at);
    unsigned which = t->index + (t->op == 'x' ? N_THETA : 0);
    switch (t->op) {
    case 'n': return of_number(t->number);
    case 'a':
    case 'x': v = of_number(at[which]), v.d[which] = 1; return v;
    case '+': return plus(l, r, 1);
    case '-': return plus(l, r, -1);
    case '*': return times(l, r);
    case '/':
        v = plus(of_number(2), dual_cos(r), 1);
        return times(l, chain(v, 1 / v.v, -1 / (v.v * v.v)));
    case '~': return plus(of_number(0), l, -1);
    case 's': return dual_sin(l);
    case 'c': return dual_cos(l);
    case 't': v = dual_sin(l); return chain(v, tanl(v.v), 1 / (cosl(v.v) * cosl(v.v)));
    case 'S':
        v = times(of_number(0.9), dual_sin(l));
        return chain(v, asinl(v.v), 1 / sqrtl(1 - v.v * v.v));
    case 'C':
        v = times(of_number(0.9), dual_cos(l));
        return chain(v, acosl(v.v), -1 / sqrtl(1 - v.v * v.v));
    case 'T': return chain(l, atanl(l.v), 1 / (1 + l.v * l.v));
    case 'q':
        v = plus(of_number(1), times(l, l), 1);
        return chain(v, sqrtl(v.v), 0.5L / sqrtl(v.v));
    case 'e': return dual_exp(dual_sin(l));
    case 'l': return dual_log(plus(of_number(2), dual_cos(l), -1));
    case 'A': return dual_angle(l, plus(of_number(2), dual_cos(r), -1));
    case 'h': return dual_length(l, plus(of_number(2), dual_cos(r), -1));
    case 'p': return dual_exp(times(dual_log(plus(of_number(2), dual_sin(l), 1)), dual_cos(r)));
    default:
        v = plus(of_number(0.3), dual_sin(l), 1);
        return chain(v, fabsl(v.v), v.v < 0 ? -1 : 1);
    }
}

/* Rounding grows with the intermediate values; `size`, from the value and its derivatives,
 * estimates them. */
static bool near_enough(double got, long double want, long double size) {
    return fabsl(got - want) <= 1e-12L * (1 + size);
}

static void one_tree(const char *text, const struct tree *t) {
    struct qr_expression e;
    struct qr_err err;
    double scale, at[N_VARIABLES], d[QR_EXPRESSION_NODES], sum[N_VARIABLES] = {0};
    if (!parse(text, &scale, &e, &err)) {
        CHECK(strstr(err.msg, "more than ") || strstr(err.msg, "bytes"), "%s", err.msg);
        return;
    }
    for (int k = 0; k < N_VARIABLES; k++) at[k] = (double)(int)below(4000) / 1000 - 2;
    double v = qr_expression_derivatives(&e, at, at + N_THETA, d),
           same = qr_expression_value(&e, at, at + N_THETA);
    CHECK(memcmp(&v, &same, sizeof v) == 0, "%s: values differ", text);
    for (unsigned i = 0; i < e.n; i++) {
        if (e.node[i].op == QR_EXPRESSION_PARAMETER) sum[e.node[i].index] += scale * d[i];
        if (e.node[i].op == QR_EXPRESSION_INPUT) sum[N_THETA + e.node[i].index] += scale * d[i];
    }
    struct dual want = dual_of(t, at);
    long double size = fabsl(want.v);
    for (int k = 0; k < N_VARIABLES; k++) size += fabsl(want.d[k]);
    size *= size + 1;
    CHECK(near_enough(scale * v, want.v, size), "%s is %g, not %Lg", text, scale * v, want.v);
    for (int k = 0; k < N_VARIABLES; k++) {
        CHECK(near_enough(sum[k], want.d[k], size), "%s: by %d %.15g, not %.15Lg", text, k, sum[k],
              want.d[k]);
        double low[N_VARIABLES], high[N_VARIABLES], h = 1e-5;
        memcpy(low, at, sizeof at), memcpy(high, at, sizeof at);
        low[k] -= h, high[k] += h;
        double slope = scale *
                       (qr_expression_value(&e, high, high + N_THETA) -
                        qr_expression_value(&e, low, low + N_THETA)) /
                       (2 * h);
        /* The remainder is of third order, and third derivatives reach size^3. */
        if (size < 30)
            CHECK(fabs(slope - sum[k]) <= 1e-4 * (1 + (double)(size * size)),
                  "%s: by %d %g, by differences %g", text, k, sum[k], slope);
    }
    qr_expression_fini(&e);
}

static void test_random(void) {
    for (int i = 0; i < 3000; i++) {
        struct tree *t = tree_new(1 + below(5));
        struct qr_buf text = {0};
        put_tree(t, &text);
        one_tree(qr_buf_string(&text), t);
        tree_free(t);
        qr_buf_free(&text);
    }
}

/* At the ends of domains, and outside. */
static void test_edges(void) {
    double zero[3] = {0}, one[3] = {1, 1, 1}, two[3] = {2, -2, 2}, d[QR_EXPRESSION_NODES], scale;
    CHECK(isnan(value("asin(a)", two, NULL)) && isnan(value("sqrt(b)", two, NULL)) &&
          isnan(value("log(b)", two, NULL)) && isnan(value("pow(b, 0.5)", two, NULL)) &&
          isinf(value("1/a", zero, NULL)) && isinf(value("log(a)", zero, NULL)));
    CHECK(value("pow(b, 3)", two, NULL) == -8 && value("pow(a, 0)", zero, NULL) == 1 &&
          value("abs(b)", two, NULL) == 2 && value("2*asin(sqrt(x[1]))", NULL, one) == M_PI);
    struct qr_expression e;
    struct qr_err err;
    /* By a at 0, and at exponents where a formula would be 0 * inf. */
    static const struct {
        const char *text;
        double by_first;
    } at_zero[] = {{"pow(a, 1)", 1}, {"pow(a, 2)", 0}, {"pow(a, 0)", 0}, {"abs(a)", 0}};
    for (size_t i = 0; i < COUNT(at_zero); i++)
        if (parse(at_zero[i].text, &scale, &e, &err)) {
            qr_expression_derivatives(&e, zero, NULL, d);
            CHECK(scale * d[0] == at_zero[i].by_first, "%s: %g", at_zero[i].text, d[0]);
            qr_expression_fini(&e);
        }
    /* Where the direction is undefined; the smallest and the largest numbers do not overflow. */
    double tiny[3] = {-0x1p-1000, 0x1p-1000, 0}, huge[3] = {-0x1p1000, 0x1p1000, 0};
    CHECK(value("atan2(a, b)", zero, NULL) == 0 && value("hypot(a, b)", zero, NULL) == 0 &&
          value("atan2(a, b)", tiny, NULL) == -M_PI_4 &&
          value("atan2(b, a)", huge, NULL) == 3 * M_PI_4);
    static const char *const pairs[] = {"atan2(a, b)", "hypot(a, b)"};
    for (size_t i = 0; i < COUNT(pairs); i++)
        if (parse(pairs[i], &scale, &e, &err)) {
            qr_expression_derivatives(&e, zero, NULL, d);
            CHECK(d[0] == 0 && d[1] == 0, "%s: %g %g", pairs[i], d[0], d[1]);
            qr_expression_derivatives(&e, tiny, NULL, d);
            CHECK(i ? fabs(d[0] + M_SQRT1_2) < 1e-15 && fabs(d[1] - M_SQRT1_2) < 1e-15
                    : d[0] == 0x1p999 && d[1] == 0x1p999,
                  "%s: %g %g", pairs[i], d[0], d[1]);
            qr_expression_derivatives(&e, huge, NULL, d);
            CHECK(i ? fabs(d[0] + M_SQRT1_2) < 1e-15 && fabs(d[1] - M_SQRT1_2) < 1e-15
                    : d[0] == 0x1p-1001 && d[1] == 0x1p-1001,
                  "%s: %g %g", pairs[i], d[0], d[1]);
            qr_expression_fini(&e);
        }
    if (parse("pow(x[0], a)", &scale, &e, &err)) {
        qr_expression_derivatives(&e, one, zero, d);
        CHECK(d[1] == 0, "%g", d[1]);
        qr_expression_fini(&e);
    }
}

/* ---- in circuits ---- */

static struct qr_circuit *circuit(const char *gates, struct qr_err *err) {
    struct qr_json *root = NULL;
    struct qr_circuit *c = NULL;
    struct qr_qubits readouts;
    char *text = qr_xasprintf("{\"qubits\": 2, \"gates\": [%s]}", gates);
    CHECK(qr_json_parse(qr_bytes_of_string(text), "text", &root, err) == QR_OK, "%s", err->msg);
    if (root && qr_circuit_from_json(root, "circuit", &c, &readouts, err) != QR_OK) c = NULL;
    qr_json_free(root);
    free(text);
    return c;
}

#define ANGLE(q, text) "{\"gate\": \"RX\", \"qubits\": [" #q "], \"angle\": " text "}"

static bool same_gates(const struct qr_circuit *a, const struct qr_circuit *b) {
    bool same = a->n_gates == b->n_gates && a->n_params == b->n_params &&
                a->n_columns == b->n_columns && a->n_expressions == b->n_expressions;
    for (size_t i = 0; same && i < a->n_gates; i++)
        for (unsigned k = 0; k < a->gates[i].n_args; k++) {
            const struct qr_gate_arg *x = &a->gates[i].args[k], *y = &b->gates[i].args[k];
            same = same && x->kind == y->kind && x->scale == y->scale && x->index == y->index;
        }
    return same;
}

/* The object form and the same expression as text are one circuit. */
static void test_short_forms(void) {
    static const char *const pairs[][2] = {
        {"0.5", "\"1/2\""},
        {"{\"parameter\": \"w\"}", "\"w\""},
        {"{\"parameter\": \"w\", \"scale\": -2}", "\"-2*w\""},
        {"{\"data\": 1}", "\"x[1]\""},
        {"{\"data\": 1, \"scale\": 3.141592653589793}", "\"pi*x[1]\""},
        {"{\"parameter\": \"theta[3]\", \"scale\": 0.5}", "\"theta[3]/2\""},
    };
    for (size_t i = 0; i < COUNT(pairs); i++) {
        struct qr_err err;
        char *text[2];
        struct qr_circuit *c[2];
        for (int k = 0; k < 2; k++) {
            text[k] = qr_xasprintf("{\"gate\": \"RX\", \"qubits\": [0], \"angle\": %s}, {\"gate\": "
                                   "\"U3\", \"qubits\": [1], \"theta\": %s, \"phi\": 0.25, "
                                   "\"lambda\": {\"parameter\": \"z\"}}",
                                   pairs[i][k], pairs[i][k]);
            c[k] = circuit(text[k], &err);
            CHECK(c[k], "%s", err.msg);
        }
        CHECK(c[0] && c[1] && same_gates(c[0], c[1]), "%s", pairs[i][1]);
        for (int k = 0; k < 2; k++) qr_circuit_free(c[k]), free(text[k]);
    }
}

static void test_circuits(void) {
    struct qr_err err;
    struct qr_circuit *c =
        circuit(ANGLE(0, "\"w10*x[0] + w2\"") "," ANGLE(1, "\"w10*x[0]+(w2)\"") "," ANGLE(
                    1, "\"-2*sin(b.c)\"") "," ANGLE(0, "\"w2*pi\""),
                &err);
    CHECK(c, "%s", err.msg);
    if (!c) return;
    CHECK(c->n_params == 3 && strcmp(c->param_names[0], "b.c") == 0 &&
          strcmp(c->param_names[1], "w2") == 0 && strcmp(c->param_names[2], "w10") == 0);
    CHECK(c->n_expressions == 2 && c->gates[0].args[0].index == 0 &&
          c->gates[1].args[0].index == 0 && c->gates[2].args[0].index == 1 &&
          c->gates[2].args[0].scale == -2 / M_PI && c->gates[3].args[0].kind == QR_ARG_PARAMETER &&
          c->n_columns == 1);
    struct qr_circuit *copy = qr_circuit_copy(c);
    CHECK(same_gates(c, copy) && qr_expression_equal(&c->expressions[1], &copy->expressions[1]));
    char *drawing = qr_circuit_draw(c, NULL, 0, QR_DRAWING_TEXT, 100);
    CHECK(strstr(drawing, "RX(w10*x[0] + w2)") && strstr(drawing, "RX(-2*sin(b.c))"), "%s",
          drawing);
    struct qr_observable o;
    uint8_t zero[3] = {9, 9, 9};
    CHECK(qr_observable_parse("Z0", 2, &o, &err) == QR_OK);
    qr_circuit_zero_gradient(c, &o, 1, zero);
    CHECK(zero[0] && !zero[1] && !zero[2], "%d %d %d", zero[0], zero[1], zero[2]);
    qr_observable_fini(&o);
    free(drawing);
    qr_circuit_free(copy);
    qr_circuit_free(c);
    CHECK(!circuit(ANGLE(0, "\"w + * 2\""), &err) &&
              strcmp(err.msg, "circuit.gates[0].angle: expression \"w + * 2\", column 5: "
                              "unexpected '* 2'; expected a number, a name or (") == 0,
          "%s", err.msg);
}

/* Columns by name come after those with numbers, in order of mention, until they are resolved. */
static void test_columns(void) {
    struct qr_err err;
    static const char gates[] = ANGLE(0, "\"x.b\"") "," ANGLE(
        1, "\"sin(x['a c'] + x.b)\"") "," ANGLE(0, "\"sin(x['a c'] + x[0])\"");
    struct qr_circuit *c = circuit(gates, &err);
    CHECK(c, "%s", err.msg);
    if (!c) return;
    CHECK(c->n_columns == 3 && c->n_named == 2 && strcmp(c->column_names[0], "b") == 0 &&
          strcmp(c->column_names[1], "a c") == 0 && c->gates[0].args[0].index == 1 &&
          c->n_expressions == 2);
    static const char *const wrong[] = {"b", "d"}, *const right[] = {"b", NULL, "a c", "d"};
    CHECK(qr_circuit_resolve_columns(c, wrong, 2, &err) == QR_INVALID_ARGUMENT &&
              strstr(err.msg, "x.a c"),
          "%s", err.msg);
    CHECK(qr_circuit_resolve_columns(c, right, 0, &err) == QR_INVALID_ARGUMENT &&
              strstr(err.msg, "x[0]"),
          "%s", err.msg);
    CHECK(c->n_columns == 3 && c->n_expressions == 2);
    CHECK(qr_circuit_resolve_columns(c, right, 4, &err) == QR_OK, "%s", err.msg);
    /* x.b and x[0] are now one column, so the two expressions are one. */
    CHECK(c->n_columns == 4 && c->n_named == 4 && c->gates[0].args[0].index == 0 &&
          c->n_expressions == 1 && c->gates[1].args[0].index == 0 &&
          c->gates[2].args[0].index == 0);
    struct qr_circuit *copy = qr_circuit_copy(c);
    char *drawing = qr_circuit_draw(copy, NULL, 0, QR_DRAWING_TEXT, 100);
    CHECK(strstr(drawing, "RX(x.b)") && strstr(drawing, "RX(sin(x['a c'] + x.b))"), "%s", drawing);
    free(drawing);
    qr_circuit_free(copy);
    qr_circuit_free(c);
}

int main(void) {
    test_forms();
    test_unequal();
    test_errors();
    test_random();
    test_edges();
    test_short_forms();
    test_circuits();
    test_columns();
    return t_end();
}
