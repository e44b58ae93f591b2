#!/bin/sh
# make install into an empty root: which files are installed, that the programs run from there,
# that man shows every flag of every command without a warning, that bash, zsh and fish complete
# commands, flags, values and files on a terminal. compile_commands.json has every source with the
# flags of this build.
. "$(dirname "$0")/common"
unset TF_CONFIG
installed=$work/root
to=$installed/usr
run_to "$work/install.log" make --no-print-directory install "DESTDIR=$installed" PREFIX=/usr
check "make install: $(tail -n 3 "$work/install.log")" test -x "$to/bin/qring"
commands=$("$to/bin/qring" help | sed -n '/^Commands:/,/^$/s/^  \([a-z]*\) .*/\1/p' | grep -v '^help$')
check "qring help lists commands: $commands" test "$(echo "$commands" | wc -l)" -ge 9
{
    printf 'bin/%s\n' qring qringd
    printf 'share/man/man1/%s.1\n' qring qringd
    printf '%s\n' share/man/man3/libqring.3 share/man/man5/qring-job.5 include/qring.h lib/libqring.so.1 lib/libqring_train.so.1 lib/pkgconfig/qring.pc lib/pkgconfig/qring-train.pc
    for c in $commands; do echo "share/man/man1/qring-$c.1"; done
    printf 'share/bash-completion/completions/%s\n' qring qringd
    printf 'share/fish/vendor_completions.d/%s.fish\n' qring qringd
    printf '%s\n' share/zsh/site-functions/_qring share/qring/job.schema.json share/doc/qring/copyright share/doc/qring/changelog
} | sort >"$work/want"
(cd "$to" && find . -type f | sed 's|^\./||' | sort) >"$work/got"
check "the documented files, and no others, are installed: $(diff "$work/want" "$work/got" | grep '^[<>]')" cmp -s "$work/want" "$work/got"
check "no file outside of the prefix" test "$(ls "$installed")" = usr
check "files are writable by their owner only" test -z "$(find "$installed" -type f -perm /022)"
for p in qring qringd; do
    "$to/bin/$p" --version >"$work/output" 2>&1
    check "$p --version: $(cat "$work/output")" grep -q "^$p $(cat lib/VERSION) (arithmetic " "$work/output"
done
mkdir "$work/elsewhere"
(cd "$work/elsewhere" && run_to "$work/run.log" "$to/bin/qring" run -n 2 --epochs 1 --out "$work/elsewhere/out")
check "two workers train with the installed programs: $(tail -n 2 "$work/run.log")" test -s "$work/elsewhere/out/weights.h5"

# ---- compile_commands.json ----
check "make compile_commands.json" run_to "$work/database.log" make --no-print-directory compile_commands.json
$python - "$QR_B/.flags" "$cwd" >"$work/output" 2>&1 <<'P'
import glob, json, sys
flags = open(sys.argv[1]).read().split()
entries = json.load(open("compile_commands.json"))
for e in entries:
    words = e["command"].replace(sys.argv[2], ".").split()
    own = [w for w in words[len(flags):-6] if "/kernels/" not in e["file"] or not w.startswith(("-m", "-fno-tree", "-falign"))]
    if words[:len(flags)] != flags or own or words[-3:] != [e["file"], "-o", e["output"]] or e["directory"] != sys.argv[2]:
        print("flags differ from the build's:", e["file"], words)
for f in set(glob.glob("lib/**/*.c", recursive=True) + glob.glob("cmd/**/*.c", recursive=True)) - {e["file"] for e in entries} - {"lib/api/xla_ffi.c"}: # make xla
    print("missing:", f)
wide = [e["file"] for e in entries if "-mavx512f" in e["command"] and not e["file"].endswith("kernel_avx512.c")]
if "x86_64" in open("/proc/self/maps").read() and wide: print("AVX-512 is for the kernels of its table alone:", wide)
P
check "compile_commands.json has every source, with this build's flags: $(head -n 3 "$work/output")" test ! -s "$work/output"

# ---- man ----
export MANPATH="$to/share/man" LC_ALL=C.UTF-8 MANWIDTH=120
# flags: those of a help text, one a line
flags() { grep -oE '(^  |, )--?[a-z][a-z-]*' | sed 's/^[ ,]*//' | sort -u; }
page() { # PAGE: shown by man, kept in $work/page
    man --warnings -P cat "$1" >"$work/page" 2>"$work/warned"
    rc=$?
    check "man $1: exit $rc, $(head -n 2 "$work/warned")" test $rc = 0 -a ! -s "$work/warned"
    for part in NAME SYNOPSIS EXAMPLES 'SEE ALSO'; do check "man $1 has $part" grep -qx "$part" "$work/page"; done
    check "man $1 has the version" grep -q "qring $(cat lib/VERSION)" "$work/page"
}
for c in $commands; do
    page "qring-$c"
    for flag in $("$to/bin/qring" "$c" --help | flags); do
        check "man qring-$c has $flag" grep -qE -- "^ +(.*, )?$flag( |\$)" "$work/page"
    done
done
page qringd
n=0
for flag in $("$to/bin/qringd" --help | flags); do
    n=$((n + 1))
    check "man qringd has $flag" grep -qE -- "(^| )$flag( |\$)" "$work/page"
done
check "qringd has flags: $n" test $n -ge 30
check "man qringd has exit codes" grep -qx 'EXIT STATUS' "$work/page"
page qring
for c in $commands; do check "man qring has $c" grep -qE "^ +$c " "$work/page"; done
man -w qring >"$work/output" 2>&1
check "man finds the installed page: $(cat "$work/output")" grep -qx "$to/share/man/man1/qring.1" "$work/output"

# ---- completion ----
for c in $commands; do
    "$to/bin/qring" "$c" --help | flags >"$work/want"
    sed -n "/^    $c)\$/,/^        case/s/^        flags='\(.*\)'\$/\1/p" "$to/share/bash-completion/completions/qring" | tr ' ' '\n' | sort -u >"$work/got"
    check "bash completes the flags of qring $c --help: $(comm -23 "$work/want" "$work/got")" test -s "$work/got" -a -z "$(comm -23 "$work/want" "$work/got")"
done
unset LC_ALL
$python tests/install/typed.py "$to" "$work" >"$work/typed.log" 2>&1
grep -E '^(not so|SKIP)' "$work/typed.log"
add "$work/typed.log"
end
