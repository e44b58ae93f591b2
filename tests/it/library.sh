#!/bin/sh
# libqring and libqring_train as a C program uses them: installed, found by pkg-config, compiled as
# C99 and C++, the examples of deploy/c; exported symbols and libraries; digest, weights and
# predictions of qring run and qring predict for all example jobs.
. "$(dirname "$0")/common"
to=$work/installed/usr
run_to "$work/install.log" make --no-print-directory install "DESTDIR=$work/installed" PREFIX=/usr
check "make install: $(tail -n 3 "$work/install.log")" test -s "$to/lib/libqring.so.1"

# Names that the header declares, engine first.
grep -o '^/\* ---- jobs\|qring_[a-z_]*(' lib/api/qring.h | tr -d '(' | awk -v work="$work" '
    /jobs/ { train = "_train"; next } { print >(work "/libqring" train ".declared") }'
for name in libqring libqring_train; do
    library=$to/lib/$name.so.1
    nm -D --defined-only "$library" | awk '$2 != "A" { print $3 }' | sort >"$work/exported"
    check "$name exports qring_* only: $(grep -v '^qring_' "$work/exported")" sh -c "! grep -qv '^qring_.*@@QRING_1$' '$work/exported'"
    sort -u "$work/$name.declared" >"$work/declared"
    sed 's/@.*//' "$work/exported" >"$work/names"
    check "$name exports what the header declares: $(diff "$work/declared" "$work/names")" cmp -s "$work/declared" "$work/names"
    objdump -p "$library" | awk '$1 == "NEEDED" { print $2 }' | grep -vE '^(libc|libm|ld-linux.*|libpthread)\.so' >"$work/$name.needed"
    check "$name has no relocations of code" sh -c "! readelf -dW '$library' | grep -q TEXTREL"
done
check "the engine links cJSON only: $(cat "$work/libqring.needed")" test "$(cat "$work/libqring.needed")" = libcjson.so.1
check "libqring_train does not link gRPC: $(cat "$work/libqring_train.needed")" sh -c "! grep -qE 'grpc|gpr|cares|absl|microhttpd' '$work/libqring_train.needed'"
cat "$work"/*.declared >"$work/declared"

# the header alone
echo '#include <qring.h>' >"$work/header.c"
for as in "gcc -x c -std=c99 -pedantic" "g++ -x c++ -std=c++11 -pedantic"; do
    check "the header as ${as%% -pedantic}" sh -c "$as -Wall -Wextra -Werror -I'$to/include' -fsyntax-only '$work/header.c'"
done

# the examples, with pkg-config
export PKG_CONFIG_PATH="$to/lib/pkgconfig" PKG_CONFIG_SYSROOT_DIR="$work/installed" LD_LIBRARY_PATH="$to/lib"
compile() { # NAME PACKAGE
    check "pkg-config $2 has the version" test "$(pkg-config --modversion "$2")" = "$(cat lib/VERSION)"
    # shellcheck disable=SC2046
    gcc -std=c99 -pedantic -Wall -Wextra -Werror deploy/c/$1.c $(pkg-config --cflags --libs "$2") -o "$work/$1" 2>"$work/output"
    check "$1 compiles: $(head -n 3 "$work/output")" test -x "$work/$1"
}
for name in vqe classify; do
    compile $name qring
    run_to "$work/$name.out" "$work/$name"
    check "$name ends with 0: $(cat "$work/$name.out")" test $? = 0
done
check "the engine loads no curl or HDF5" sh -c "! ldd '$work/vqe' | grep -qE 'curl|hdf5|grpc'"
# The ground state energy of H = -Z0 Z1 - Z1 Z2 - (X0 + X1 + X2)/2 by power iteration on the dense matrix: -2.4032119.
energy=$(sed -n 's/^energy //p' "$work/vqe.out")
check "vqe finds the ground state: $energy" sh -c "awk 'BEGIN { exit !($energy >= -2.403213 && $energy < -2.403) }'"
loss=$(sed -n 's/^loss \([0-9.]*\),.*/\1/p' "$work/classify.out")
check "classify learns: $loss" sh -c "awk 'BEGIN { exit !($loss < 0.01) }'"

# training: the digest and the weights of qring run, for every example job
compile train qring-train
n_jobs=0
for job in deploy/jobs/qcnn*.json deploy/jobs/examples/*.json; do
    name=$(basename "$job" .json) n_jobs=$((n_jobs + 1))
    run_to "$work/run.log" "$qring" run "$job" -n 1 --out "$work/$name"
    run_to "$work/$name.log" sh -c "'$work/train' '$job' '$work/$name.h5' </dev/null"
    check "$name has the digest of qring run: $(tail -n 1 "$work/$name.log")" grep -q "\"state_digest\": *\"$(tail -n 1 "$work/$name.log")\"" "$work/$name/result.json"
    check "$name has the weights of qring run" cmp -s "$work/$name.h5" "$work/$name/weights.h5"
done
check "number of jobs: $n_jobs" test "$n_jobs" -ge 15
# predictions: those of qring predict
job=deploy/jobs/examples/variational-classifier.json
cut -d, -f1-4 deploy/jobs/examples/variational-classifier.csv >"$work/inputs.csv"
awk -F, -v n="$(sed 1d "$work/inputs.csv" | wc -l)" 'NR == 1 { print n, NF, 1; next } { gsub(",", " "); print }' "$work/inputs.csv" >"$work/inputs"
run_to "$work/log" sh -c "'$work/train' $job '$work/w.npz' <'$work/inputs' >'$work/train.out'"
"$qring" predict $job --weights "$work/w.npz" --data "$work/inputs.csv" 2>"$work/output" | sed 1d | sed 's/.*,//' >"$work/predicted"
sed 1d "$work/train.out" >"$work/got"
check "train prints predictions: $(head -n 2 "$work/got")" test -s "$work/got"
check "predictions are those of qring predict: $(diff "$work/predicted" "$work/got" | head -n 3)" cmp -s "$work/predicted" "$work/got"
# an error of the job
echo '{"seed": -1}' >"$work/bad.json"
"$work/train" "$work/bad.json" "$work/w.npz" </dev/null >"$work/output" 2>&1
rc=$?
check "a bad job ends with 1 and all its errors: $(cat "$work/output")" test $rc = 1 -a "$(grep -cE 'seed is -1|model is missing' "$work/output")" = 2

# man
MANPATH="$to/share/man" LC_ALL=C.UTF-8 MANWIDTH=110 man --warnings -P cat libqring >"$work/page" 2>"$work/warned"
check "man libqring: $(head -n 2 "$work/warned")" test -s "$work/page" -a ! -s "$work/warned"
while read -r name; do check "man libqring has $name" grep -q "$name" "$work/page"; done <"$work/declared"
end
