#!/bin/sh
# libqring as a C program uses it: installed, found by pkg-config, compiled as C99 and C++, the
# examples of deploy/c; exported symbols and libraries; the bits of qring gradient.
. "$(dirname "$0")/common"
to=$work/installed/usr
run_in 100 "$work/install.log" make --no-print-directory install "DESTDIR=$work/installed" PREFIX=/usr
check "make install: $(tail -n 3 "$work/install.log")" test -s "$to/lib/libqring.so.1"
library=$to/lib/libqring.so.1

nm -D --defined-only "$library" | awk '$2 != "A" { print $3 }' | sort >"$work/exported"
check "it exports qring_* only: $(grep -v '^qring_' "$work/exported")" sh -c "! grep -qv '^qring_.*@@QRING_1$' '$work/exported'"
grep -o 'qring_[a-z_]*(' lib/api/qring.h | tr -d '(' | sort -u >"$work/declared"
sed 's/@.*//' "$work/exported" >"$work/names"
check "it exports what the header declares: $(diff "$work/declared" "$work/names")" cmp -s "$work/declared" "$work/names"
needed=$(objdump -p "$library" | awk '$1 == "NEEDED" { print $2 }' | grep -vE '^(libc|libm|ld-linux.*|libpthread)\.so')
check "cJSON is its only library: $needed" test "$needed" = libcjson.so.1
check "it has no executable stack or relocations of code" sh -c "! readelf -dW '$library' | grep -q TEXTREL"

# the header alone
echo '#include <qring.h>' >"$work/header.c"
for as in "gcc -x c -std=c99 -pedantic" "g++ -x c++ -std=c++11 -pedantic"; do
    if ! command -v "${as%% *}" >/dev/null; then skip "no ${as%% *}"; continue; fi
    check "the header as ${as%% -pedantic}" sh -c "$as -Wall -Wextra -Werror -I'$to/include' -fsyntax-only '$work/header.c'"
done

# the examples, by pkg-config
export PKG_CONFIG_PATH="$to/lib/pkgconfig" PKG_CONFIG_SYSROOT_DIR="$work/installed" LD_LIBRARY_PATH="$to/lib"
check "pkg-config has the version" test "$(pkg-config --modversion qring)" = "$(cat lib/VERSION)"
for name in vqe classify; do
    # shellcheck disable=SC2046
    gcc -std=c99 -pedantic -Wall -Wextra -Werror deploy/c/$name.c $(pkg-config --cflags --libs qring) -o "$work/$name" 2>"$work/said"
    check "$name compiles: $(head -n 3 "$work/said")" test -x "$work/$name"
    run_in 60 "$work/$name.said" "$work/$name"
    check "$name ends with 0: $(cat "$work/$name.said")" test $? = 0
done
# The ground state energy of H = -Z0 Z1 - Z1 Z2 - (X0 + X1 + X2)/2 by power iteration on the dense matrix: -2.4032119.
energy=$(sed -n 's/^energy //p' "$work/vqe.said")
check "vqe finds the ground state: $energy" sh -c "awk 'BEGIN { exit !($energy >= -2.403213 && $energy < -2.403) }'"
loss=$(sed -n 's/^loss \([0-9.]*\),.*/\1/p' "$work/classify.said")
check "classify learns: $loss" sh -c "awk 'BEGIN { exit !($loss < 0.01) }'"

# man
MANPATH="$to/share/man" LC_ALL=C.UTF-8 MANWIDTH=110 man --warnings -P cat libqring >"$work/page" 2>"$work/warned"
check "man libqring: $(head -n 2 "$work/warned")" test -s "$work/page" -a ! -s "$work/warned"
while read -r name; do check "man libqring has $name" grep -q "$name" "$work/page"; done <"$work/declared"
end
