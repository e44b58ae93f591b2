#!/bin/sh
# Errors in the files that a job names (samples, channels, weights) and in new samples.
. "$(dirname "$0")/wrong"

# channels
channels() { edit "s|\"data\": .*|\"data\": {\"source\": \"csv\", \"channels\": $1},|" "$2"; }
run 2 "data.channels.train: there is no file" "$(channels '{"train": "gone.csv"}' channel1)"
run 2 "data.channels.train: there are no files below $work/gone/" "$(channels "{\"train\": \"$work/gone/\"}" channel2)"
run 2 'https://h.example/in/: an https:// server cannot list files; name each file' "$(channels '{"train": "https://h.example/in/"}' channel5)"
run 2 'data.channels|an object' "$(channels '"x"' channel3)"
wrong 2 "there is no channel 'tset'; there are: train, test" "$qring" evaluate "$(channels '{"train": "a.csv", "test": "b.csv"}' channel4)" --weights w.h5 --channel tset
wrong 2 '--channel and --data are both given' "$qring" evaluate "$base" --weights w.h5 --channel a --data b

# data
{ echo x0,x1,x2,x3,x4,x5,x6,x7,y; echo 0,0,0,0,0,0,0,0,1; echo 0,0,nan,0,0,0,0,0,-1; } >"$work/nan.csv"
{ echo x0,x1,x2,x3,x4,x5,x6,x7,y; echo 0,0,0,0,0,0,0,0,1; echo 0,0,0,0,0,0,-1; } >"$work/ragged.csv"
{ echo x0,x1,x2,x3,x4,x5,x6,x7,label; echo 0,0,0,0,0,0,0,0,1; } >"$work/noy.csv"
{ echo x0,x1,x2,y; echo 0,0,0,1; } >"$work/narrow.csv"
{ echo x0,x1,x2,x3,x4,x5,x6,x7,y; echo 0,0,0,0,0,0,0,0,0.5; } >"$work/label.csv"
data() { edit "s|\"data\": .*|\"data\": {\"source\": \"$1\", \"url\": \"$work/$2\"},|" "data-$2"; } # source, file
run 4 'nan.csv|row|column' "$(data csv nan.csv)"
run 4 'ragged.csv' "$(data csv ragged.csv)"
run 4 'noy.csv|y' "$(data csv noy.csv)"
{ echo 'a;b;y'; echo '1;2;3'; } >"$work/semicolons.csv"
printf 'a\tb\ty\n1\t2\t3\n' >"$work/tabs.csv"
{ echo x0,x1,x2,x3,x4,x5,x6,x7,y; echo 0,0,0,0,0,0,0,0,1; echo; echo 0,0,0,0,0,0,0,0,-1; } >"$work/blank.csv"
{ echo x0,x1,x2,x3,x4,x5,x6,x7,y0,y1; echo 0,0,0,0,0,0,0,0,1,0; } >"$work/y0.csv"
run 4 "noy.csv: the header has no column y (the labels); is it 'label'? give data \"labels\": \"label\"" "$(data csv noy.csv)"
run 4 'semicolons.csv|columns are separated by semicolons; use commas' "$(data csv semicolons.csv)"
run 4 'tabs.csv: header line: columns are separated by tabs; use commas' "$(data csv tabs.csv)"
run 4 'blank.csv: row 2 is a blank line; remove it' "$(data csv blank.csv)"
run 4 'y0.csv: the header has y0, but the model has 1 output, whose label is a column y' "$(data csv y0.csv)"
{ echo x1,x0,x2,x3,x4,x5,x6,x7,y; echo 0,0,0,0,0,0,0,0,1; } >"$work/turned.csv"
{ echo x0,x1,x2,x3,x4,x5,x6,x7,y; echo 0,0,0,0,0,0,0,0,1; } >"$work/straight.csv"
run 4 "turned.csv: input 0 is 'x1', but in $work/straight.csv it is 'x0'; give both files the same columns in the same order" \
    "$(edit "s|\"data\": .*|\"data\": {\"source\": \"csv\", \"url\": \"$work/straight.csv\", \"validation_url\": \"$work/turned.csv\"},|" turned)"
run 4 '3|8' "$(data csv narrow.csv)"
run 4 'label 0.5|sign' "$(data csv label.csv)"
run permanent "data.url|$work/missing.csv" "$(data csv missing.csv)"
edit 's|"data": .*|"data": {"source": "csv", "url": "nowhere.csv"},|' beside >/dev/null
run permanent "data.url: there is no file $cwd/nowhere.csv, and beside the job file no $work/nowhere.csv; correct the path" "$work/beside.json"
wrong permanent "data.url: there is no file $cwd/nowhere.csv, and beside" "$qring" validate "$work/beside.json"
run 2 'data.shuffle_split: all samples train, so there is nothing to split; give data.train_fraction below 1' \
    "$(edit 's|"data": .*|"data": {"source": "csv", "url": "d.csv", "shuffle_split": 1},|' split)"
$python -c "
import numpy; numpy.savez('$work/whole.npz', x=numpy.zeros((32, 8)), y=numpy.ones(32))
raw = open('$work/whole.npz', 'rb').read()
open('$work/cut.npz', 'wb').write(raw[:len(raw) // 2])
numpy.savez('$work/inf.npz', x=numpy.full((32, 8), numpy.inf), y=numpy.ones(32))
h = raw.replace(b'(32, 8)', b'(99, 8)'); open('$work/lying.npz', 'wb').write(h)
open('$work/noise.npz', 'wb').write(bytes(range(256)) * 8)
h5 = open('tests/golden/tfq/qcnn_weights.h5', 'rb').read(); open('$work/cut.h5', 'wb').write(h5[:6000])
import struct
t = b'{\"pqc/parameters\":{\"dtype\":\"F64\",\"shape\":[20],\"data_offsets\":[0,99999999]}}'
open('$work/lying.safetensors', 'wb').write(struct.pack('<Q', len(t)) + t + bytes(160))
open('$work/huge.safetensors', 'wb').write(struct.pack('<Q', 1 << 60) + t)
" || fail "cannot make the damaged files"
for f in cut inf lying noise; do run 4 "$f.npz" "$(data npz $f.npz)"; done

# Special files are rejected without waiting; zip bombs.
mkfifo "$work/fifo.csv"
run 2 'fifo.csv|is a FIFO' "$(data csv fifo.csv)"
run 2 'is a FIFO' "$work/fifo.csv"
run 2 '/dev/zero|is a device' /dev/zero
for f in bad-ratio bad-overlap bad-both-less; do cp "tests/fuzz/corpus/npz/$f.npz" "$work/$f.npz"; run 4 "$f.npz" "$(data npz $f.npz)"; done
echo precious >"$work/precious"
mkdir "$out"
ln -s "$work/precious" "$out/steps.jsonl"
run 2 'steps.jsonl|symbolic link|--out' "$base"
rm "$out/steps.jsonl"
check "the target of a symbolic link is not written" test "$(cat "$work/precious")" = precious

# weights
infer() { wrong "$1" "$2" "$qring" infer "$base" --weights "$3"; }
infer 4 'cut.h5' "$work/cut.h5"
infer 4 'lying.safetensors' "$work/lying.safetensors"
infer 4 'huge.safetensors' "$work/huge.safetensors"
infer permanent 'pqc' tests/golden/tfq/qcnn_three_weights.h5
infer permanent 'Keras' "$work/x.weights.h5"
infer permanent 'nothing.h5' "$work/nothing.h5"
wrong 2 "--wait: 'soon' is not a duration" "$qring" infer "$base" --weights "$work/nothing.h5" --wait soon
run 2 'early_stopping|validation' "$(edit 's|"train_fraction": 0.7|"train_fraction": 1|; s|"epochs": 50|"epochs": 50, "early_stopping": {}|' stopping)"
run 2 'train.early_stopping watches val_loss, which training computes only when it evaluates|"evaluate": false' \
    "$(edit 's|"epochs": 50|"epochs": 50, "evaluate": false, "early_stopping": {}|' blind-stopping)"
run permanent 'nothing.h5' "$(edit 's|"epochs": 50|"epochs": 50, "initial_weights": "'"$work"'/nothing.h5"|' initial)"
run permanent "train.initial_weights: there is no file $cwd/nowhere.h5, and beside the job file no $work/nowhere.h5; correct the path" \
    "$(edit 's|"epochs": 50|"epochs": 50, "initial_weights": "nowhere.h5"|' initial-beside)"

# new samples: errors name the row, the column or the flag, and the fix
net=$root/tests/golden/digests/jobs/categorical-crossentropy.json
run_to "$work/net.log" "$qring" run "$net" -n 1 --epochs 1 --out "$work/net" --logdir= --checkpoints none
samples() { rows=$1; shift; printf '%s\n' "$@" >"$work/rows$rows.csv"; echo "$work/rows$rows.csv"; } # name, lines
predict() { code=$1 words=$2 data=$3; shift 3; wrong "$code" "$words" "$qring" predict "$net" --weights "$work/net/weights.h5" --data "$data" --out "$out/predictions" "$@"; }
evaluate() { code=$1 words=$2; shift 2; wrong "$code" "$words" "$qring" evaluate "$net" --weights "$work/net/weights.h5" "$@"; }
predict 4 "rows1.csv: row 2, column 'x1': 'x' is not a number" "$(samples 1 x0,x1,x2,x3 1,2,3,4 1,x,3,4)"
predict 4 "rows2.csv: row 2, column 'x1': an empty cell; a number is needed" "$(samples 2 x0,x1,x2,x3 1,2,3,4 1,,3,4)"
predict 4 "rows3.csv: row 1, column 'x2' is NaN; every value must be a finite number" "$(samples 3 x0,x1,x2,x3 1,2,nan,4)"
predict 4 'rows4.csv: row 2 has 3 cells; the header has 4' "$(samples 4 x0,x1,x2,x3 1,2,3,4 1,2,3)"
predict 4 'rows5.csv: the first line has only numbers (0.1 ...); add a header line with column names' "$(samples 5 0.1,0.2,0.3,0.4 1,2,3,4)"
predict 4 'rows6.csv: the file has no samples' "$(samples 6 x0,x1,x2,x3)"
predict 4 "rows7.csv: 1 of the 4 inputs that the model was trained with is missing: x3; the file has x0, x1, x2" "$(samples 7 x0,x1,x2 1,2,3)"
"$qring" weights "$work/net/weights.safetensors" --to "$work/net.npz" >"$work/net.log"
wrong 2 'with the 3 input columns of|rows7.csv|dense/kernel has shape (4, 8) in the file' "$qring" predict "$net" --weights "$work/net.npz" --data "$work/rows7.csv"
predict 4 "rows8.csv: data: sample 1 (counted from 0), column 'x0' is 1e+300; inputs must be below 2^40" "$(samples 8 x0,x1,x2,x3 1,2,3,4 1e300,-1e300,3,4)"
predict 2 '--data: there is no file|nowhere.csv; correct the path' nowhere.csv
predict 2 'is a directory' "$work"
predict 4 'standard input is empty' -
wrong 2 'the job and --data are both standard input' "$qring" predict - --weights "$work/net/weights.h5" --data -
predict 2 "--set model[7].units=3: model has 2 elements, counted from 0, and no [7]" "$(samples 9 x0,x1,x2,x3 1,2,3,4)" --set 'model[7].units=3'
predict 2 "--format: 'xml' is neither csv nor jsonl" "$(samples 9 x0,x1,x2,x3 1,2,3,4)" --format xml
wrong 2 '--data is missing; give a CSV or npz file|- for standard input' "$qring" predict "$net" --weights "$work/net/weights.h5"
wrong 2 '--weights is missing' "$qring" predict "$net" --data "$work/rows9.csv"

# A command does not overwrite a file that it reads, by whatever path, nor a file of the run; a device or a FIFO is not replaced.
keeps() { # FILE COMMAND...
    kept=$1; shift
    before=$(cksum <"$kept")
    wrong 2 'the command reads this file, or the run that it reads owns it; give another path' "$@"
    check "unchanged: $kept" test "$(cksum <"$kept")" = "$before"
}
ln -s rows9.csv "$work/link.csv"
{ echo x0,x1,x2,x3,x4,x5,x6,x7,y; for i in 0 1 2 3; do echo 0,0,0,0,0,0,0,0,1; done; } >"$work/own.csv"
own=$(edit "s|\"data\": .*|\"data\": {\"source\": \"csv\", \"url\": \"own.csv\"},|" own)
h5=$root/tests/golden/tfq/qcnn_weights.h5
for name in rows9.csv ./rows9.csv net/../rows9.csv link.csv; do
    keeps "$work/rows9.csv" "$qring" predict "$net" --weights "$work/net/weights.h5" --data "$work/rows9.csv" --out "$work/$name"
done
keeps "$work/rows9.csv" "$qring" predict "$net" --weights "$work/net/weights.h5" --data "$work/link.csv" --out "file://$work/rows9.csv"
for name in weights.safetensors weights.h5 job.json steps.jsonl; do
    keeps "$work/net/$name" "$qring" predict "$work/net" --data "$work/rows9.csv" --out "$work/net/$name"
done
run_to "$work/kept.log" "$qring" run "$net" -n 1 --epochs 1 --out "$work/kept"
for name in $(find "$work/kept/checkpoints" "$work/kept/logs" -type f) "$work/kept/worker-0.log"; do
    keeps "$name" "$qring" predict "$work/kept" --data "$work/rows9.csv" --out "$name"
done
wrong 2 'the run that it reads owns it' "$qring" predict "$work/kept" --data "$work/rows9.csv" --out "$work/kept/checkpoints/new/p.csv"
check "nothing is written below checkpoints" test ! -e "$work/kept/checkpoints/new"
check "another name in the folder of the run" "$qring" predict "$work/kept" --data "$work/rows9.csv" --out "$work/kept/p.csv"
keeps "$work/own.csv" "$qring" infer "$own" --weights "$h5" --predictions "$work/own.csv"
keeps "$own" "$qring" infer "$own" --weights "$h5" --predictions "$own"
keeps "$own" "$qring" export "$own" --to qasm3 --out "$own"
keeps "$own" "$qring" sample "$own" --out "$own"
keeps "$work/net/weights.h5" "$qring" weights --init "$work/net" --to "$work/net/weights.h5"
check "a job from standard input, predictions to standard output" run_to "$work/stdin.log" sh -c "'$qring' infer - --weights '$h5' --predictions - <'$base'"
mkfifo "$work/fifo"; ln -s /dev/null "$work/null"
for name in fifo null; do
    wrong 2 'choose another path' "$qring" predict "$net" --weights "$work/net/weights.h5" --data "$work/rows9.csv" --out "$work/$name"
    wrong 2 'choose another path' "$qring" infer "$own" --weights "$h5" --predictions "$work/$name"
    wrong 2 'choose another path' "$qring" export "$own" --to qasm3 --out "$work/$name"
    wrong 2 'choose another path' "$qring" sample "$own" --out "$work/$name"
    wrong 2 'choose another path' "$qring" weights --init "$own" --to "$work/$name"
    check "$name is replaced" test ! -f "$work/$name"
done
wrong 2 'takes no inputs (data.source is none)' "$qring" predict tests/golden/digests/jobs/vqe-hamiltonian.json --weights w.h5 --data "$work/rows9.csv"
wrong 4 'x has 4 columns, but the model takes 8' "$qring" predict "$base" --weights tests/golden/tfq/qcnn_weights.h5 --data "$work/rows9.csv"
turns=$root/tests/golden/digests/jobs/gate-list.json
run_to "$work/turns.log" "$qring" run "$turns" -n 1 --epochs 1 --out "$work/turns" --logdir= --checkpoints none
"$qring" weights "$work/turns/weights.safetensors" --to "$work/turns.npz" >"$work/turns.log"
wrong 2 'rows11.csv: x has 4 columns, but the model reads 3, and the weights hold no column names' "$qring" predict "$turns" --weights "$work/turns.npz" --data "$(samples 11 id,x0,x1,x2 1,2,3,4)"
evaluate 4 'neither columns y0 to y2 nor a column y of classes' --data "$work/rows9.csv"
evaluate 4 'rows10.csv: row 1 of y is 7' --data "$(samples 10 x0,x1,x2,x3,y 1,2,3,4,7)"
evaluate 2 "--metric is 'acc'; did you mean 'accuracy'?" --metric acc
evaluate 2 "--metric: unknown key 'q'" --metric '{"name": "top_k_accuracy", "q": 2}'
evaluate 2 '--metric top_k_accuracy: train.metrics[1]: top_k_accuracy with k 5 of 3 outputs' --metric top_k_accuracy
evaluate 2 'unknown flag --metrics; did you mean --metric?' --metrics mae
end
