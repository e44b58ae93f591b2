# Prints C without comments and contents of strings, as FILE:LINE:text. Used by tests/lint/banned.
FNR == 1 { inside = 0 }
{
    s = $0; out = ""
    if (!inside) gsub(/\\\\/, "", s)
    if (!inside) gsub(/\\"/, "", s)
    if (!inside) gsub(/'"'/, "' '", s)
    while (s != "") {
        if (inside) {
            i = index(s, "*/")
            if (!i) { s = ""; break }
            s = substr(s, i + 2); inside = 0; continue
        }
        if (!match(s, /"|\/\*|\/\//)) { out = out s; break }
        out = out substr(s, 1, RSTART - 1); tok = substr(s, RSTART, 1); two = substr(s, RSTART, 2); s = substr(s, RSTART)
        if (two == "//") break
        if (two == "/*") { s = substr(s, 3); inside = 1; continue }
        s = substr(s, 2); i = index(s, "\"")
        out = out "\"\""
        s = i ? substr(s, i + 1) : ""
    }
    if (out ~ /[^ \t]/) print FILENAME ":" FNR ":" out
}
