/* circuit/gate_hints.c — suggestions for unknown gate names: by meaning first, then by spelling.
 * Start reading at qr_gate_hint(). */
#include <ctype.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/bytes.h"
#include "base/mem.h"
#include "base/parse.h"
#include "circuit/ansatz/ansatz.h"
#include "circuit/composite_gates.h"

enum { NAME_BYTES = 48, MAX_NAMES = 160 };

/* Names as normalize_name() returns them, separated by spaces. */
static const struct {
    const char *names, *hint;
} hints[] = {
    {"measure measurement m mz measureall sample shot",
     "write {\"measure\": [qubits], \"bits\": [bits]}; the layer's \"readouts\" need none"},
    {"reset", "write {\"channel\": \"Reset\", \"qubits\": [qubits]}; qubits begin in |0>"},
    {"barrier delay wirecut snapshot",
     "circuits have no timing and no markers; remove it, gates keep their order"},
    {"initialize prepare stateprep statepreparation amplitudeembedding mottonenstatepreparation "
     "qubitstatevector amplitude",
     "write {\"ansatz\": \"amplitude\"}, with \"state\" where it is constant; 'Basis' prepares a "
     "state of zeros and ones"},
    {"angleembedding angleencoding encoder embedding",
     "write {\"ansatz\": \"angle\"}, or an 'RX', 'RY' or 'RZ' for each qubit, with \"angle\": "
     "{\"data\": column}"},
    {"globalphase gphase phase0 gp",
     "a global phase changes no read-out; with a control it is a 'P' on the control"},
    {"u4 u5 su4 su2 specialunitary arbitraryunitary matrix twoqubitunitary",
     "a constant unitary on one to six qubits is 'Unitary' with \"matrix\"; 'U' rotates one qubit "
     "by theta, phi and lambda"},
    {"controlled control ctrl controlledgate controlledqubitunitary c",
     "any gate takes \"controls\": [qubits], and several gates are controlled by {\"control\": "
     "[qubits], \"gates\": [gates]}"},
    {"adjoint inverse inv dagger dg dag", "write {\"adjoint\": true, \"gates\": [gates]}"},
    {"power pow", "write {\"power\": number, \"gates\": [gates]}"},
    {"sdag sdagger sadj sadjoint sinv sinverse si", "did you mean 'Sdg'?"},
    {"tdag tdagger tadj tadjoint tinv tinverse ti", "did you mean 'Tdg'?"},
    {"sxdag sxdagger sxadj sxinv vdg vdagger", "did you mean 'SXdg'?"},
    {"v sqrtx sqrtnot srnot squarerootx", "did you mean 'SX'?"},
    {"sqrtz phases", "did you mean 'S'?"},
    {"phase cirqphase rphi rotphase", "did you mean 'P' (e^(i angle) on 1)?"},
    {"not flip bitflip", "did you mean 'X'?"},
    {"molmersorensen mlmersrensen moelmersoerensen gms", "did you mean 'MS'?"},
    {"fermionicsingleexcitation singleexcitationplus singleexcitationminus orbitalrotation",
     "did you mean 'SingleExcitation' or 'Givens'?"},
    {"fermionicdoubleexcitation doubleexcitationplus doubleexcitationminus",
     "did you mean 'DoubleExcitation'?"},
    {"paulievolution pauliexp exppauli rpauli rotpauli", "did you mean 'PauliRot'?"},
    {"rv", "write 'R', 'Rot' or 'U'"},
    {"depolarize depolarizing depolarizingchannel bitflipchannel amplitudedamping phasedamping "
     "noise channel kraus kraus1",
     "write {\"channel\": name, \"qubits\": [qubits]} and its strengths"},
    {"if ifelse cif cond condition", "write {\"if\": [measured bits], \"gates\": [gates]}"},
    {"for forloop loop repeat layer layers block",
     "write {\"repeat\": times, \"index\": \"i\", \"gates\": [gates]}"},
    {"qft iqft invqft inverseqft qftinverse aqft quantumfouriertransform",
     "write its gates: for each qubit 'H', then 'CP' with it and each later qubit, by angles pi/2, "
     "pi/4 and so on, and 'SWAP' at the end; {\"adjoint\": true, \"gates\": [gates]} is the "
     "inverse"},
    {"diagonal hamiltonian evolve approxtimeevolution trotterproduct",
     "write its gates: 'PauliRot' is e^(-i angle/2 P) for a product of Paulis"},
};

/* Letters and digits, in lower case; a final "gate" is removed. */
static void normalize_name(const char *name, char ret[NAME_BYTES]) {
    size_t n = 0;
    for (; *name && n + 1 < NAME_BYTES; name++)
        if (isalnum((unsigned char)*name)) ret[n++] = (char)tolower((unsigned char)*name);
    ret[n] = 0;
    if (n > 4 && strcmp(ret + n - 4, "gate") == 0) ret[n - 4] = 0;
}

/* Names in job files, without TFQ's and Cirq's. */
static size_t known_names(const char *ret[MAX_NAMES]) {
    size_t n = 0;
    for (int k = 0; k < QR_GATE_KINDS; k++) {
        const struct qr_gate_info *info = qr_gate_info((enum qr_gate_kind)k);
        ret[n++] = info->name;
        if (info->also) ret[n++] = info->also;
    }
    const struct qr_composite_gate *w;
    for (size_t i = 0; (w = qr_composite_gate_at(i)); i++)
        for (unsigned k = 0; k < QR_COMPOSITE_NAMES && w->names[k]; k++) {
            QR_ASSERT(n < MAX_NAMES);
            ret[n++] = w->names[k];
        }
    return n;
}

static bool is_one_of(const char *list, const char *name) {
    size_t n = strlen(name);
    for (const char *p = list; *p; p += *p == ' ') {
        size_t length = strcspn(p, " ");
        if (length == n && memcmp(p, name, n) == 0) return true;
        p += length;
    }
    return false;
}

static const char *hint_of(const char *name) {
    for (size_t i = 0; *name && i < sizeof hints / sizeof *hints; i++)
        if (is_one_of(hints[i].names, name)) return hints[i].hint;
    return NULL;
}

/* The known name with the same normalized form. */
static const char *find_normalized(const char *name, const char *const *known, size_t n) {
    for (size_t i = 0; i < n; i++) {
        char other[NAME_BYTES];
        normalize_name(known[i], other);
        if (strcmp(other, name) == 0) return known[i];
    }
    return NULL;
}

/* "cryy", "controlled_u2", "mcrx": a gate with controls; "rxdg": an inverse. */
static bool hint_derived(const char *name, const char *const *known, size_t n, struct qr_buf *to) {
    static const char
        *const prefixes[] = {"multicontrolled", "controlled", "ctrl", "mc", "cc", "c"},
               *const suffixes[] = {"dagger", "adjoint", "inverse", "dag", "dg", "inv"};
    const char *gate;
    for (size_t i = 0; i < sizeof prefixes / sizeof *prefixes; i++) {
        size_t length = strlen(prefixes[i]);
        if (strncmp(name, prefixes[i], length) != 0) continue;
        if (!(gate = find_normalized(name + length, known, n))) continue;
        qr_buf_printf(to, "; write '%s' with \"controls\": [qubits]", gate);
        return true;
    }
    for (size_t i = 0; i < sizeof suffixes / sizeof *suffixes; i++) {
        size_t length = strlen(suffixes[i]), whole = strlen(name);
        char stem[NAME_BYTES];
        if (whole <= length || strcmp(name + whole - length, suffixes[i]) != 0) continue;
        snprintf(stem, sizeof stem, "%.*s", (int)(whole - length), name);
        if (!(gate = find_normalized(stem, known, n))) continue;
        qr_buf_printf(to, "; write {\"adjoint\": true, \"gates\": [gates]} with '%s'", gate);
        return true;
    }
    return false;
}

/* Ansätze, by their names here or in other programs. */
static bool hint_ansatz(const char *name, struct qr_buf *to) {
    const char *suggestion = qr_ansatz_alias(name);
    if (!suggestion && !qr_ansatz_of(name)) return false;
    qr_buf_puts(to, "; it is an ansatz: write {\"ansatz\": name}");
    if (suggestion) qr_buf_printf(to, "; %s", suggestion);
    return true;
}

/* Each gate by one name. */
static void hint_list_gates(struct qr_buf *to) {
    const struct qr_composite_gate *w;
    qr_buf_puts(to, "; known gates:");
    for (int k = 0; k < QR_GATE_KINDS; k++)
        qr_buf_printf(to, " %s", qr_gate_info((enum qr_gate_kind)k)->name);
    qr_buf_puts(to, " RX RY RZ");
    for (size_t i = 0; (w = qr_composite_gate_at(i)); i++) qr_buf_printf(to, " %s", w->names[0]);
}

static void normalize_gate_name(const char *name, char ret[NAME_BYTES]) {
    normalize_name(strncasecmp(name, "qml.", 4) == 0 ? name + 4 : name, ret);
}

const char *qr_gate_alternative(const char *name) {
    char word[NAME_BYTES];
    normalize_gate_name(name, word);
    return hint_of(word);
}

char *qr_gate_hint(const char *name) {
    const char *known[MAX_NAMES], *found;
    size_t n = known_names(known);
    char word[NAME_BYTES];
    struct qr_buf text = {0};
    normalize_gate_name(name, word);
    if ((found = hint_of(word))) qr_buf_printf(&text, "; %s", found);
    else if (hint_ansatz(name, &text)) found = NULL;
    else if (*word && (found = find_normalized(word, known, n)))
        qr_buf_printf(&text, "; did you mean '%s'?", found);
    else if (!hint_derived(word, known, n, &text)) {
        /* With two letters many names are near */
        found = strlen(name) > 2 ? qr_nearest(name, known, n) : NULL;
        if (found) qr_buf_printf(&text, "; did you mean '%s'?", found);
    }
    if (!text.n) hint_list_gates(&text);
    char *hint = qr_xstrdup(qr_buf_string(&text));
    qr_buf_free(&text);
    return hint;
}
