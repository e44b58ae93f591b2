# Generates a man page from a help text on standard input. Variables: name, summary, version and see
# ("qring qringd"). A help text has a description, "Examples:", "Usage: ..." followed by flags
# ("  --out DIR   the folder ..."), "Commands:", "Exit codes: ..." and more paragraphs. The help
# texts of the programs begin with their summary: "qring - train ...".
function roff(s) {
    gsub(/\\/, "\\e", s); gsub(/-/, "\\-", s); gsub(/'/, "\\(aq", s); gsub(/`/, "\\(ga", s)
    gsub(/\^/, "\\(ha", s); gsub(/~/, "\\(ti", s)
    return s ~ /^[.]/ ? "\\&" s : s
}
# Flags and commands in bold, placeholders of values in italics.
function term(s,    i, n, w, out) {
    n = split(s, w, " ")
    for (i = 1; i <= n; i++) out = out (i > 1 ? " " : "") (w[i] ~ /^[[(]*[A-Z]/ ? "\\fI" : "\\fB") roff(w[i]) "\\fR"
    return out
}
function add(where, text) { body[where] = body[where] text "\n" }
function paragraph(where, text) { if (last != where) add(where, ".PP"); add(where, roff(text)); last = where }
NR == 1 && summary == "" { summary = $0; sub(/^[^ ]* - /, "", summary); next }
/^$/ { last = ""; if (part == "EXAMPLES" || part == "COMMANDS") part = usage ? "NOTES" : "DESCRIPTION"; next }
/^Examples:$/ { part = "EXAMPLES"; next }
/^Commands:$/ { part = "COMMANDS"; next }
/^Flags:$/ { part = "OPTIONS"; next }
/^Usage: / { usage = 1; part = "OPTIONS"; synopsis = substr($0, 8); next }
/^Exit codes: / { part = "EXIT STATUS"; sub(/^Exit codes: /, "") }
part == "EXAMPLES" { sub(/^  /, ""); add(part, roff($0)); next }
/^   *[^ ]/ && (part == "OPTIONS" || part == "COMMANDS") {
    s = substr($0, 3)
    if (s ~ /^ /) { sub(/^ */, "", s); add(part, roff(s)); next } # continues the line above
    if (match(s, /   */)) { head = substr(s, 1, RSTART - 1); what = substr(s, RSTART + RLENGTH) }
    else if (s !~ / may also be / && match(s, /^--[a-z-]* [A-Z][A-Z]* [a-z]/)) { head = substr(s, 1, RLENGTH - 2); what = substr(s, RLENGTH) }
    else if (s ~ /^-/ && s !~ / may also be /) { head = s; what = "" }
    else { paragraph(part, s); next }
    add(part, ".TP\n" term(head)); last = ""
    if (what != "") add(part, roff(what))
    next
}
!/^ / && part == "OPTIONS" { part = "NOTES" }
{ if (part == "") part = "DESCRIPTION"; sub(/^ */, ""); paragraph(part, $0) }
END {
    title = toupper(name)
    print ".\\\" made from what " (name ~ /^qring-/ ? "qring help" : name " --help") " prints"
    print ".TH " roff(title) " 1 \"\" \"qring " version "\" \"qring\""
    print ".SH NAME\n" roff(name) " \\- " roff(summary)
    print ".SH SYNOPSIS\n" term(synopsis)
    split("DESCRIPTION,COMMANDS,OPTIONS,EXIT STATUS,NOTES", order, ",")
    for (i = 1; i in order; i++) if (order[i] in body) printf ".SH %s\n%s", order[i], body[order[i]]
    if ("EXAMPLES" in body) printf ".SH EXAMPLES\n.nf\n%s.fi\n", body["EXAMPLES"]
    n = split(see, also, " ")
    if (n) print ".SH SEE ALSO"
    for (i = 1; i <= n; i++) print ".BR " roff(also[i]) " (1)" (i < n ? "," : "")
}
