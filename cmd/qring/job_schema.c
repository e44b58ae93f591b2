/* cmd/qring/job_schema.c — prints the JSON Schema of the job file from the rows in job/keys.c, and
 * lists the gates. Start reading at qr_print_job_schema(). */
#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "circuit/composite_gates.h"
#include "cmd/qring/command.h"
#include "cmd/qring/reference.h"
#include "worker/settings.h"

/* ---- gates ---- */

static void add_text(const char **list, unsigned *n, const char *text) {
    if (text) list[(*n)++] = text;
}

/* A native gate, or the rotation that is another name of it (RX). */
static void native_gate(const struct qr_gate_info *info, bool rotation,
                        struct qr_reference_gate *g) {
    bool named = info->also && info->rotation && strcmp(info->also, info->rotation) == 0;
    g->least = g->most = info->n_targets;
    g->exponent = !rotation && info->power && info->has_exponent;
    if (!rotation) add_text(g->names, &g->n_names, info->name);
    if (rotation == named) add_text(g->names, &g->n_names, info->also);
    if (!rotation) add_text(g->names, &g->n_names, info->tfq);
    if (!rotation) add_text(g->names, &g->n_names, info->cirq);
    for (unsigned k = 0; k < info->n_args && !rotation; k++)
        add_text(g->takes, &g->n_takes, info->arg_names[k]);
    if (g->exponent || rotation) add_text(g->takes, &g->n_takes, "angle");
    if (info->has_exponent && !rotation) add_text(g->takes, &g->n_takes, "global_shift");
}

static void composite_gate(const struct qr_composite_gate *c, struct qr_reference_gate *g) {
    static const char *const also[] = {NULL, "pauli_word", "matrix", "state"};
    g->least = c->least, g->most = c->most;
    for (unsigned k = 0; k < QR_COMPOSITE_NAMES; k++) add_text(g->names, &g->n_names, c->names[k]);
    for (unsigned k = 0; k < QR_COMPOSITE_ARGS; k++) {
        add_text(g->takes, &g->n_takes, c->args[k]);
        if (c->args[k] && strcmp(c->args[k], "lambda") == 0)
            add_text(g->takes, &g->n_takes, "delta");
    }
    add_text(g->takes, &g->n_takes, also[c->takes]);
}

bool qr_reference_gate(size_t i, struct qr_reference_gate *ret) {
    *ret = (struct qr_reference_gate){0};
    for (int k = 0; k < QR_GATE_KINDS; k++) {
        const struct qr_gate_info *info = qr_gate_info((enum qr_gate_kind)k);
        bool named = info->also && info->rotation && strcmp(info->also, info->rotation) == 0;
        if (i <= named) return native_gate(info, i == 1, ret), true;
        i -= 1 + named;
    }
    const struct qr_composite_gate *c = qr_composite_gate_at(i);
    if (c) composite_gate(c, ret);
    return c != NULL;
}

/* ---- schema: text without a layout, which is parsed and printed ---- */

static void put_string(struct qr_buf *b, const char *text) {
    struct qr_json_writer w = qr_json_writer(b, 0);
    qr_json_put_string(&w, text);
}

static void put_list(struct qr_buf *b, const char *const *names, size_t n) {
    for (size_t i = 0; i < n; i++) qr_buf_printf(b, "%s\"%s\"", i ? ", " : "", names[i]);
}

static void put_bounds(struct qr_buf *b, const struct qr_job_key *k) {
    bool below = k->not_high || k->high == 1 - 0x1p-53, above = k->not_low || k->low == 1e-300;
    qr_buf_printf(b, "\"type\": \"%s\"", k->type == QR_KEY_NUMBER ? "number" : "integer");
    if (k->low > -1e300)
        qr_buf_printf(b, ", \"%s\": %.17g", above ? "exclusiveMinimum" : "minimum",
                      k->low == 1e-300 ? 0 : k->low);
    if (k->high < 1e300)
        qr_buf_printf(b, ", \"%s\": %.17g", below ? "exclusiveMaximum" : "maximum",
                      below ? 1 : k->high);
}

/* Members of a value's schema. */
static void put_scalar(struct qr_buf *b, const struct qr_job_key *k) {
    switch (k->type) {
    case QR_KEY_COUNT:
    case QR_KEY_UNSIGNED:
    case QR_KEY_NUMBER: put_bounds(b, k); break;
    case QR_KEY_FLAG:
    case QR_KEY_NOT: qr_buf_puts(b, "\"type\": \"boolean\""); break;
    case QR_KEY_CHOICE:
        qr_buf_puts(b, "\"enum\": [");
        put_list(b, k->names, k->n_names);
        qr_buf_puts(b, "]");
        break;
    case QR_KEY_OTHER: qr_buf_put(b, k->schema + 1, strlen(k->schema) - 2); break; /* no braces */
    default: qr_buf_puts(b, "\"type\": \"string\"");
    }
}

/* A scalar, an object, or either. */
static void put_value(struct qr_buf *b, const struct qr_job_key *k) {
    bool either = k->object && (k->type != QR_KEY_OBJECT || k->words);
    if (!k->object) return put_scalar(b, k);
    if (either) qr_buf_puts(b, "\"anyOf\": [{"), put_scalar(b, k), qr_buf_puts(b, "}, {");
    qr_buf_printf(b, "\"$ref\": \"#/$defs/%s\"%s", k->object, either ? "}]" : "");
}

/* A default that is JSON, not words. */
static void put_default(struct qr_buf *b, const struct qr_job_object *o, size_t kind,
                        const struct qr_job_key *k) {
    struct qr_buf text = {0};
    qr_auto(qr_json_free_p) struct qr_json *v = NULL;
    struct qr_err err;
    qr_job_key_default(o, kind, k, &text);
    if (text.n && qr_json_parse(qr_buf_view(&text), "a default", &v, &err) == QR_OK)
        qr_buf_printf(b, ", \"default\": %s", qr_buf_string(&text));
    qr_buf_free(&text);
}

/* How a definition differs from its object. item: an ansatz in a list of gates, where "qubits" is
 * an optional list. gate: one that takes some of the keys; NULL: none. */
struct variant {
    bool item;
    const struct qr_reference_gate *gate;
};

static bool has_key(const struct qr_job_object *o, size_t kind, const struct qr_job_key *k,
                    const struct variant *as) {
    static const char *const of_all[] = {"gate", "qubits", "controls", "control_values"};
    bool has = !as->gate && qr_job_object_has(o, kind, k);
    for (size_t i = 0; as->gate && i < sizeof of_all / sizeof *of_all; i++)
        has |= strcmp(of_all[i], k->name) == 0;
    for (size_t i = 0; as->gate && i < as->gate->n_takes; i++)
        has |= strcmp(as->gate->takes[i], k->name) == 0;
    return has;
}

static bool is_required(const struct qr_job_key *k, const struct variant *as) {
    bool lambda = strcmp(k->name, "lambda") == 0 || strcmp(k->name, "delta") == 0;
    bool angle = strcmp(k->name, "angle") == 0 && as->gate && as->gate->exponent;
    return k->required && !lambda && !angle && !(as->item && strcmp(k->name, "qubits") == 0);
}

static void put_property(struct qr_buf *b, const struct qr_job_object *o, size_t kind,
                         const struct qr_job_key *k, const struct variant *as) {
    bool qubits = strcmp(k->name, "qubits") == 0;
    if (qubits && as->item) k = qr_job_key(qr_job_object("gate"), "qubits");
    qr_buf_printf(b, "\"%s\": {\"description\": ", k->name);
    put_string(b, k->about);
    qr_buf_puts(b, ", ");
    if (o->by && strcmp(k->name, o->by) == 0) qr_buf_printf(b, "\"const\": \"%s\"", o->kinds[kind]);
    else put_value(b, k), put_default(b, o, kind, k);
    if (qubits && as->gate) qr_buf_printf(b, ", \"minItems\": %u", as->gate->least);
    if (qubits && as->gate && as->gate->most)
        qr_buf_printf(b, ", \"maxItems\": %u", as->gate->most);
    qr_buf_puts(b, "}");
}

/* Members of an object with certain keys only. */
static void put_closed(struct qr_buf *b, const struct qr_job_object *o, size_t kind,
                       const struct variant *as) {
    const char *comma = "";
    qr_buf_puts(b, "\"type\": \"object\", \"additionalProperties\": false, \"required\": [");
    for (size_t i = 0; i < o->n_keys; i++)
        if (has_key(o, kind, &o->keys[i], as) && is_required(&o->keys[i], as))
            qr_buf_printf(b, "%s\"%s\"", comma, o->keys[i].name), comma = ", ";
    qr_buf_puts(b, "], \"properties\": {");
    comma = "";
    for (size_t i = 0; i < o->n_keys; i++)
        if (has_key(o, kind, &o->keys[i], as)) {
            qr_buf_puts(b, comma), comma = ", ";
            put_property(b, o, kind, &o->keys[i], as);
        }
    qr_buf_printf(b, "}%s%s", o->schema ? ", " : "", o->schema ? o->schema : "");
}

/* Definitions of the kinds from `first` on, and one that selects a kind by its key. */
static void put_kinds(struct qr_buf *b, const struct qr_job_object *o, size_t first,
                      const char *name, const struct variant *as) {
    bool required = qr_job_key(o, o->by)->required || first;
    for (size_t i = as->item || !first ? first : 0; i < o->n_kinds; i++) {
        qr_buf_printf(b, "\"%s.%s\": {", name, o->kinds[i]);
        put_closed(b, o, i, as);
        qr_buf_puts(b, "}, ");
    }
    qr_buf_printf(b, "\"%s%s\": {\"type\": \"object\", \"properties\": {\"%s\": {\"enum\": [", name,
                  first ? ".ansatz" : "", o->by);
    put_list(b, o->kinds + first, o->n_kinds - first);
    qr_buf_printf(b, "]}}, \"required\": [%s%s%s], \"allOf\": [", required ? "\"" : "",
                  required ? o->by : "", required ? "\"" : "");
    for (size_t i = first; i < o->n_kinds; i++) {
        bool named = required || i != o->kind;
        qr_buf_printf(b,
                      "%s{\"if\": {\"required\": [%s%s%s], \"properties\": {\"%s\": {\"const\": "
                      "\"%s\"}}}, \"then\": {\"$ref\": \"#/$defs/%s.%s\"}}",
                      i > first ? ", " : "", named ? "\"" : "", named ? o->by : "",
                      named ? "\"" : "", o->by, o->kinds[i], name, o->kinds[i]);
    }
    qr_buf_puts(b, "]}, ");
}

/* A circuit is an ansatz, a file, or a list of items, each with the key that names its kind. */
static void put_circuits(struct qr_buf *b, const struct qr_job_object *o) {
    enum { FIRST_ANSATZ = 2, FIRST_ITEM = 3 }; /* after "gates", "url" and "qcnn" */
    static const char *const items[] = {"gate",  "ansatz",  "adjoint", "control",
                                        "power", "channel", "measure", "if"};
    put_kinds(b, o, FIRST_ANSATZ, "circuit", &(struct variant){.item = false});
    put_kinds(b, o, FIRST_ITEM, "item", &(struct variant){.item = true});
    qr_buf_puts(b, "\"circuit\": {\"type\": \"object\", \"if\": {\"required\": [\"ansatz\"]}, "
                   "\"then\": {\"$ref\": \"#/$defs/circuit.ansatz\"}, "
                   "\"else\": {\"if\": {\"required\": [\"url\"]}, "
                   "\"then\": {\"$ref\": \"#/$defs/circuit.url\"}, "
                   "\"else\": {\"$ref\": \"#/$defs/circuit.gates\"}}}, "
                   "\"item\": {\"type\": \"object\", ");
    for (size_t i = 0; i < sizeof items / sizeof *items; i++)
        qr_buf_printf(b,
                      "\"if\": {\"required\": [\"%s\"]}, \"then\": {\"$ref\": \"#/$defs/%s%s\"}, "
                      "\"else\": {",
                      items[i],
                      strcmp(items[i], "ansatz") == 0    ? "item."
                      : strcmp(items[i], "channel") == 0 ? "noise_"
                                                         : "",
                      items[i]);
    qr_buf_puts(b, "\"$ref\": \"#/$defs/repeat\"}}}}}}}}}, "
                   "\"complex\": {\"anyOf\": [{\"type\": \"number\"}, {\"type\": \"array\", "
                   "\"minItems\": 2, \"maxItems\": 2, \"items\": {\"type\": \"number\"}}]}, ");
}

/* A pattern for the names of a gate in any case: the patterns of schemas have no flag for it. */
static void put_any_case(struct qr_buf *b, const struct qr_reference_gate *g) {
    for (unsigned i = 0; i < g->n_names; i++) {
        qr_buf_puts(b, i ? "|" : "^(");
        for (const char *c = g->names[i]; *c; c++)
            if (isalpha((unsigned char)*c)) qr_buf_printf(b, "[%c%c]", toupper(*c), tolower(*c));
            else qr_buf_put(b, c, 1);
    }
    qr_buf_puts(b, ")$");
}

static void put_gates(struct qr_buf *b, const struct qr_job_object *o) {
    struct qr_reference_gate g;
    struct qr_buf cases = {0}, known = {0};
    for (size_t i = 0; qr_reference_gate(i, &g); i++) {
        const struct variant as = {.gate = &g};
        bool lambda = false;
        for (unsigned k = 0; k < g.n_takes; k++) lambda |= strcmp(g.takes[k], "lambda") == 0;
        qr_buf_printf(b, "\"gate.%s\": {", g.names[0]);
        put_closed(b, o, 0, &as);
        if (g.exponent) qr_buf_puts(b, ", \"not\": {\"required\": [\"exponent\", \"angle\"]}");
        if (lambda)
            qr_buf_puts(b, ", \"oneOf\": [{\"required\": [\"lambda\"]}, "
                           "{\"required\": [\"delta\"]}]");
        qr_buf_puts(b, "}, ");
        qr_buf_puts(&known, i ? ", {\"pattern\": \"" : "{\"pattern\": \"");
        put_any_case(&known, &g);
        qr_buf_puts(&known, "\"}");
        qr_buf_printf(&cases, "%s{\"if\": {\"properties\": {\"gate\": {\"pattern\": \"",
                      i ? ", " : "");
        put_any_case(&cases, &g);
        qr_buf_printf(&cases, "\"}}}, \"then\": {\"$ref\": \"#/$defs/gate.%s\"}}", g.names[0]);
    }
    qr_buf_printf(b,
                  "\"gate\": {\"type\": \"object\", \"required\": [\"gate\", \"qubits\"], "
                  "\"properties\": {\"gate\": {\"type\": \"string\", \"anyOf\": [%s]}}, "
                  "\"allOf\": [%s]}, ",
                  qr_buf_string(&known), qr_buf_string(&cases));
    qr_buf_free(&cases);
    qr_buf_free(&known);
}

static void put_worker(struct qr_buf *b) {
    const char *name;
    qr_buf_puts(b, "\"worker\": {\"type\": \"object\", \"additionalProperties\": false, "
                   "\"properties\": {");
    for (size_t i = 0, n = 0; (name = qr_settings_name(i)) != NULL; i++) {
        if (!qr_settings_in_job(name)) continue;
        qr_buf_puts(b, n++ ? ", \"" : "\"");
        for (const char *c = name; *c; c++) qr_buf_put(b, *c == '-' ? "_" : c, 1);
        qr_buf_puts(b, "\": {\"type\": [\"string\", \"number\", \"boolean\"]}");
    }
    qr_buf_puts(b, "}}");
}

int qr_print_job_schema(void) {
    static const struct variant plain = {0};
    struct qr_buf text = {0}, laid_out = {0};
    struct qr_json_writer w = qr_json_writer(&laid_out, 0);
    struct qr_json *v;
    struct qr_err err;
    qr_buf_puts(&text, "{\"$schema\": \"https://json-schema.org/draft/2020-12/schema\", \"title\": "
                       "\"A job file of qring\", \"$comment\": \"made by qring help job "
                       "--schema\", ");
    put_closed(&text, &qr_job_objects[0], 0, &plain);
    qr_buf_puts(&text, ", \"$defs\": {");
    for (size_t i = 1; i < qr_job_n_objects; i++) {
        const struct qr_job_object *o = &qr_job_objects[i];
        if (strcmp(o->name, "gate") == 0) put_gates(&text, o);
        else if (strcmp(o->name, "circuit") == 0) put_circuits(&text, o);
        else if (o->by) put_kinds(&text, o, 0, o->name, &plain);
        else {
            qr_buf_printf(&text, "\"%s\": {", o->name);
            put_closed(&text, o, 0, &plain);
            qr_buf_puts(&text, "}, ");
        }
    }
    put_worker(&text);
    qr_buf_puts(&text, ", \"metric_name\": {");
    put_scalar(&text, qr_job_key(qr_job_object("metric"), "name"));
    qr_buf_puts(&text, "}}}");
    enum qr_code code = qr_json_parse(qr_buf_view(&text), "the schema", &v, &err);
    if (code == QR_OK) qr_json_put_shortest(&w, v), qr_json_free(v), puts(qr_buf_string(&laid_out));
    qr_buf_free(&text);
    qr_buf_free(&laid_out);
    return qr_exit_report(code, &err);
}
