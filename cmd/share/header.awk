# Generates libqring(3) from the public header: its head comment, then its declarations with their comments.
function roff(s) {
    gsub(/\\/, "\\e", s); gsub(/-/, "\\-", s); gsub(/'/, "\\(aq", s); gsub(/`/, "\\(ga", s); gsub(/\^/, "\\(ha", s)
    return s ~ /^[.]/ ? "\\&" s : s
}
BEGIN {
    print ".TH LIBQRING 3 \"\" \"qring " version "\" \"qring\"\n.SH NAME"
    print "libqring, libqring_train \\- expectation values and exact derivatives of quantum circuits, training"
    print ".SH SYNOPSIS\n.nf\n\\fB#include <qring.h>\\fR\n\n\\fBcc ... $(pkg\\-config \\-\\-cflags \\-\\-libs qring)\\fR\n\\fBcc ... $(pkg\\-config \\-\\-cflags \\-\\-libs qring\\-train)\\fR, with jobs\n.fi\n.SH DESCRIPTION\n.nf"
}
NR == 1 { sub(/^\/\* qring.h [^ ]* /, "   ") ; head = 1 }
head { line = $0; sub(/^ ?\*\/?/, "", line); sub(/ \*\/$/, "", line); print roff(line); if ($0 ~ /\*\/$/) { head = 0; print ".fi\n.SH DECLARATIONS\n.nf" } next }
/^#ifdef __cplusplus/ { skip = 1 }
/^#/ || skip { if (/^#endif/) skip = 0; next }
{ gsub(/QRING_EXPORT */, ""); if ($0 != "" || before != "") print roff($0); before = $0 }
END { print ".fi\n.SH SEE ALSO\n.BR qring (1),\n.BR qring\\-job (5)" }
