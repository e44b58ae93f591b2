#!/bin/sh
# Compiler warnings do not stop make, make run or make install, but are errors for make test,
# check and lint, also after a build that allowed them. Switching between the two rebuilds only
# objects with warnings.
. "$(dirname "$0")/common"
unset WERROR MAKEFLAGS MAKELEVEL
o=$work/b/lib/base/err.o
printf 'static int unused_here;\n' >"$work/warns.h"
build() { # LOG ARGUMENTS...
    log=$work/$1.log; shift
    timeout 100 make --no-print-directory "B=$work/b" "$@" >"$log" 2>&1 </dev/null
}
refused() { ! build "$@"; }
warns="CFLAGS=-include $work/warns.h"
check "a build passes" build passes "$warns" "$o"
check "and shows the warning" grep -q 'warning: .*unused_here' "$work/passes.log"
check "where warnings are errors the build ends" refused fails "$warns" WERROR=-Werror "$o"
check "with that warning" grep -q 'error: .*unused_here' "$work/fails.log"
check "a build without warnings" build clean CFLAGS= "$o"
build strict CFLAGS= WERROR=-Werror "$o"
check "is up to date where warnings are errors: $(cat "$work/strict.log")" test ! -s "$work/strict.log"
# how GOAL WORDS: how the goal compiles
how() { build "$1" -n CFLAGS=-DANOTHER "$1"; grep -- '-c lib/base/err.c' "$work/$1.log" | grep -q -- "$2"; }
for goal in test check-run lint; do check "$goal: warnings are errors" how $goal '-Werror$'; done
for goal in all install; do check "$goal: they are not" how $goal '-Werror 2>/dev/null ||'; done
end
