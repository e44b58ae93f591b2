/* circuit/gate_hints.c — what is meant by a name that no gate has: by its meaning first, then by
 * its letters. */
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

/* Names as plain() makes them; others of the same meaning behind a space. */
static const struct {
    const char *names, *means;
} meanings[] = {
    {"measure measurement m mz measureall sample shot",
     "a circuit has no measurements: the layer's \"readouts\" are exact expectation values"},
    {"reset", "qubits begin in |0> and are never reset"},
    {"barrier delay wirecut snapshot",
     "a circuit has no timing and no marks; leave it out, gates keep their order"},
    {"initialize prepare stateprep statepreparation amplitudeembedding mottonenstatepreparation "
     "qubitstatevector amplitude",
     "write {\"ansatz\": \"amplitude\"}, with \"state\" where it is constant; 'Basis' prepares a "
     "state of zeros and ones"},
    {"angleembedding angleencoding encoder embedding",
     "write {\"ansatz\": \"angle\"}, or an 'RX', 'RY' or 'RZ' for each qubit, with \"angle\": "
     "{\"data\": column}"},
    {"globalphase gphase phase0 gp",
     "no read-out sees a global phase; on a control's side it is a 'P' on the control"},
    {"u4 u5 su4 su2 specialunitary arbitraryunitary matrix twoqubitunitary",
     "a constant unitary on one or two qubits is 'Unitary' with \"matrix\"; 'U' turns one qubit by "
     "theta, phi and lambda"},
    {"controlled control ctrl controlledgate controlledqubitunitary c",
     "any gate takes \"controls\": [qubits]"},
    {"adjoint inverse inv dagger dg dag",
     "write the gate with negative angles or exponent; 'Sdg', 'Tdg' and 'SXdg' have names"},
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
     "noise is not simulated: states are pure and read-outs exact"},
    {"if ifelse cif cond while condition", "gates do not depend on measurements"},
    {"for forloop loop repeat layer layers block",
     "write {\"repeat\": times, \"index\": \"i\", \"gates\": [gates]}"},
    {"qft iqft invqft inverseqft qftinverse aqft quantumfouriertransform",
     "write its gates: for each qubit 'H', then 'CP' with it and each later qubit, by angles pi/2, "
     "pi/4 and so on, and 'SWAP' at the end; the inverse has them backwards with negative angles"},
    {"diagonal hamiltonian evolve approxtimeevolution trotterproduct",
     "write its gates: 'PauliRot' is e^(-i angle/2 P) for a product of Paulis"},
};

/* Letters and digits, in lower case; "gate" at the end left out. */
static void plain(const char *name, char ret[NAME_BYTES]) {
    size_t n = 0;
    for (; *name && n + 1 < NAME_BYTES; name++)
        if (isalnum((unsigned char)*name)) ret[n++] = (char)tolower((unsigned char)*name);
    ret[n] = 0;
    if (n > 4 && strcmp(ret + n - 4, "gate") == 0) ret[n - 4] = 0;
}

/* Names as job files have them, TFQ's and Cirq's left out. */
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

static const char *meaning_of(const char *name) {
    for (size_t i = 0; *name && i < sizeof meanings / sizeof *meanings; i++)
        if (is_one_of(meanings[i].names, name)) return meanings[i].means;
    return NULL;
}

/* The known name that reads so once signs and case are left out. */
static const char *same_word(const char *name, const char *const *known, size_t n) {
    for (size_t i = 0; i < n; i++) {
        char other[NAME_BYTES];
        plain(known[i], other);
        if (strcmp(other, name) == 0) return known[i];
    }
    return NULL;
}

/* "cryy", "controlled_u2", "mcrx": a gate with controls; "rxdg": one backwards. */
static bool derived(const char *name, const char *const *known, size_t n, struct qr_buf *to) {
    static const char *const before[] = {"multicontrolled", "controlled", "ctrl", "mc", "cc", "c"},
                             *const behind[] = {"dagger", "adjoint", "inverse", "dag", "dg", "inv"};
    const char *gate;
    for (size_t i = 0; i < sizeof before / sizeof *before; i++) {
        size_t length = strlen(before[i]);
        if (strncmp(name, before[i], length) != 0) continue;
        if (!(gate = same_word(name + length, known, n))) continue;
        qr_buf_printf(to, "; write '%s' with \"controls\": [qubits]", gate);
        return true;
    }
    for (size_t i = 0; i < sizeof behind / sizeof *behind; i++) {
        size_t length = strlen(behind[i]), whole = strlen(name);
        char stem[NAME_BYTES];
        if (whole <= length || strcmp(name + whole - length, behind[i]) != 0) continue;
        snprintf(stem, sizeof stem, "%.*s", (int)(whole - length), name);
        if (!(gate = same_word(stem, known, n))) continue;
        qr_buf_printf(to, "; write '%s' with negative angles or exponent", gate);
        return true;
    }
    return false;
}

/* Ansätze, by our names or others'. */
static bool is_ansatz(const char *name, struct qr_buf *to) {
    const char *meant = qr_ansatz_alias(name);
    if (!meant && !qr_ansatz_of(name)) return false;
    qr_buf_puts(to, "; it is an ansatz, which stands as {\"ansatz\": name}");
    if (meant) qr_buf_printf(to, ": %s", meant);
    return true;
}

/* Each gate by one name. */
static void list_known(struct qr_buf *to) {
    const struct qr_composite_gate *w;
    qr_buf_puts(to, "; known are");
    for (int k = 0; k < QR_GATE_KINDS; k++)
        qr_buf_printf(to, " %s", qr_gate_info((enum qr_gate_kind)k)->name);
    qr_buf_puts(to, " RX RY RZ");
    for (size_t i = 0; (w = qr_composite_gate_at(i)); i++) qr_buf_printf(to, " %s", w->names[0]);
}

static void plain_word(const char *name, char ret[NAME_BYTES]) {
    plain(strncasecmp(name, "qml.", 4) == 0 ? name + 4 : name, ret);
}

const char *qr_gate_alternative(const char *name) {
    char word[NAME_BYTES];
    plain_word(name, word);
    return meaning_of(word);
}

char *qr_gate_hint(const char *name) {
    const char *known[MAX_NAMES], *found;
    size_t n = known_names(known);
    char word[NAME_BYTES];
    struct qr_buf text = {0};
    plain_word(name, word);
    if ((found = meaning_of(word))) qr_buf_printf(&text, "; %s", found);
    else if (is_ansatz(name, &text)) found = NULL;
    else if (*word && (found = same_word(word, known, n)))
        qr_buf_printf(&text, "; did you mean '%s'?", found);
    else if (!derived(word, known, n, &text)) {
        /* of two letters any is near many */
        found = strlen(name) > 2 ? qr_nearest(name, known, n) : NULL;
        if (found) qr_buf_printf(&text, "; did you mean '%s'?", found);
    }
    if (!text.n) list_known(&text);
    char *hint = qr_xstrdup(qr_buf_string(&text));
    qr_buf_free(&text);
    return hint;
}
