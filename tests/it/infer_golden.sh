#!/bin/sh
# Weights from Keras give Keras' predictions; files of qring have the same tree, types and
# attributes as Keras'.
. "$(dirname "$0")/common"
for precision in single double; do
    d=$work/$precision
    golden infer-job "$d" "$precision"
    if timeout 600 "$qring" infer "$d/job.json" --weights tests/golden/tfq/qcnn_weights.h5 --predictions "$d/predictions" --json >"$d/infer.json" 2>"$d/log"; then
        pass; golden infer-check "$d" "$precision"
    else fail "qring infer: exit $?"; tail -n 5 "$d/log"; fi
done

# Files that qring writes: of the tutorial's job and with three filters, after one epoch; converted
# to npz.
sed 's/"name": "qcnn"/"name": "qcnn3"/; s/"layer": "quantum",/"layer": "quantum", "filters": 3,/; s/"variant": "research"/"variant": "notebook"/' deploy/jobs/qcnn.json >"$work/three.json"
walk() { # job, golden listing, name
    d=$work/$3; mkdir -p "$d"
    run_to "$d/log" "$qring" run "$1" -n 1 --epochs 1 --out "$d/out" || { fail "qring run $1"; tail -n 5 "$d/log"; return; }
    $python tests/interop/h5walk.py --listing "tests/golden/tfq/$2_listing.txt" >"$d/keras.walk" || fail "h5walk $2"
    $python tests/interop/h5walk.py "$d/out/weights.h5" >"$d/weights.h5.walk" || fail "h5walk of qring's file"
    check "$3: h5walk lists objects" test -s "$d/weights.h5.walk"
    if diff -u "$d/keras.walk" "$d/weights.h5.walk" >"$d/diff"; then pass; else fail "$3: the HDF5 tree differs from Keras'"; head -n 40 "$d/diff"; fi
    # as documented in deploy/jobs/predictions.md: npz for NumPy, with the numbers of safetensors
    run_to "$d/log" "$qring" weights "$d/out/weights.safetensors" --to "$d/weights.npz" || fail "qring weights --to npz: exit $?"
    golden same-weights "$d/out/weights.safetensors" "$d/weights.npz"
}
walk deploy/jobs/qcnn.json qcnn_weights tutorial
walk "$work/three.json" qcnn_three_weights three
end
