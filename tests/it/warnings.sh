#!/bin/sh
# Compiler warnings do not stop make, make run or make install, but are errors in make test,
# check and lint, also after a build that allowed them. Switching between the two rebuilds only
# objects with warnings.
. "$(dirname "$0")/common"
unset WERROR MAKEFLAGS MAKELEVEL
o=$work/b/lib/base/err.o
printf 'static int unused_here;\n' >"$work/warns.h"
build() { # LOG ARGUMENTS...
    log=$work/$1.log; shift
    timeout 600 make --no-print-directory "B=$work/b" "$@" >"$log" 2>&1 </dev/null
}
fails() { ! build "$@"; }
warns="CFLAGS=-include $work/warns.h"
check "a build with a warning passes" build passes "$warns" "$o"
check "the warning is printed" grep -q 'warning: .*unused_here' "$work/passes.log"
check "WERROR=-Werror: the build fails" fails fails "$warns" WERROR=-Werror "$o"
check "WERROR=-Werror: the warning is an error" grep -q 'error: .*unused_here' "$work/fails.log"
check "a build without warnings" build clean CFLAGS= "$o"
build strict CFLAGS= WERROR=-Werror "$o"
check "a build without warnings is up to date with WERROR=-Werror: $(cat "$work/strict.log")" test ! -s "$work/strict.log"
# compiles_with GOAL WORDS: the goal's compiler command has these words
compiles_with() { build "$1" -n CFLAGS=-DANOTHER "$1"; grep -- '-c lib/base/err.c' "$work/$1.log" | grep -q -- "$2"; }
for goal in test check-run lint; do check "$goal: warnings are errors" compiles_with $goal '-Werror$'; done
for goal in all install; do check "$goal: warnings are not errors" compiles_with $goal '-Werror 2>/dev/null ||'; done
end
