#!/bin/sh
# qring predict and qring evaluate: new samples get the predictions of qring infer and Keras, as
# CSV and JSON lines, from files, npz, a bucket and standard input; loss, metrics and confusion
# matrix are those of training's own evaluation. Errors leave no output (more in bad_data.sh).
. "$(dirname "$0")/common"
unset TF_CONFIG QRING_JOB QRING_WEIGHTS GOOGLE_APPLICATION_CREDENTIALS GCE_METADATA_HOST NO_GCE_CHECK
jobs=tests/golden/digests/jobs

# against Keras: the same values by predict, and the class by their sign
for precision in single double; do
    d=$work/$precision
    golden infer-job "$d" "$precision"
    run_to "$d/log" "$qring" predict "$d/job.json" --weights tests/golden/tfq/qcnn_weights.h5 --data "$d/data.csv" --out "$d/predictions"
    check "predict: $(tail -n 2 "$d/log")" test -s "$d/predictions"
    "$qring" infer "$d/job.json" --weights tests/golden/tfq/qcnn_weights.h5 --json >"$d/infer.json" 2>"$d/log"
    golden infer-check "$d" "$precision"
    check "$precision: the head" test "$(head -n 1 "$d/predictions")" = sample,class,prediction
    "$qring" predict "$d/job.json" --weights tests/golden/tfq/qcnn_weights.h5 --data "$d/data.csv" --format jsonl >"$d/predictions"
    golden infer-check "$d" "$precision"
done

# Against infer, on the job's own file, whose last rows are held out: the same numbers as text.
own() { sed -n 's/.*"url": "\([^"]*\)".*/\1/p' "$1"; }
$python - $jobs "$work" <<'P'
import json, sys
jobs, work = sys.argv[1:]
def make(name, of, train, activation=None):
    job = json.load(open("%s/%s.json" % (jobs, of)))
    job["train"].update(train)
    if activation:
        job["model"][-1]["activation"] = activation
    json.dump(job, open("%s/%s.json" % (work, name), "w"))
make("logits", "categorical-crossentropy", {"loss": {"name": "categorical_crossentropy", "from_logits": True}}, "linear")
make("bit-logits", "binary-crossentropy", {"loss": {"name": "binary_crossentropy", "from_logits": True}}, "linear")
make("two-signs", "gate-list", {"loss": "hinge"}, "tanh")
make("signs", "gate-list", {"loss": "mse", "metrics": ["mae", "accuracy"]})
P
for name in categorical-crossentropy logits binary-crossentropy bit-logits two-signs signs gate-list counts-auc expectation-weights weighted-classes; do
    job=$jobs/$name.json d=$work/$name
    if [ -e "$work/$name.json" ]; then job=$work/$name.json; fi
    data=$(own "$job") weights=$d/weights.safetensors
    run_to "$d.log" "$qring" run "$job" -n 1 --epochs 2 --out "$d" --checkpoints none --logdir= || fail "$name: $(tail -n 2 "$d.log")"
    "$qring" infer "$job" --weights "$weights" --predictions "$d/infer.csv" --json >"$d/infer.json" 2>"$d.log" || fail "$name: $(cat "$d.log")"
    "$qring" predict "$job" --weights "$weights" --data "$data" >"$d/p.csv" 2>"$d.log" || fail "$name: $(cat "$d.log")"
    "$qring" predict "$job" --weights "$weights" --data "$data" --format jsonl >"$d/p.jsonl" 2>"$d.log" || fail "$name: $(cat "$d.log")"
    "$qring" evaluate "$job" --weights "$weights" --json >"$d/evaluate.json" 2>"$d.log" || fail "$name: $(cat "$d.log")"
    { head -n 1 "$data"; sed '1d; s/,.*//' "$d/infer.csv" | while read -r row; do sed -n "$((row + 2))p" "$data"; done; } >"$d/held-out.csv"
    "$qring" evaluate "$job" --weights "$weights" --data "$d/held-out.csv" --json >"$d/evaluate-file.json" 2>"$d.log" || fail "$name: $(cat "$d.log")"
    "$qring" predict "$job" --weights "$weights" --data - --threads 3 --isa portable <"$data" >"$d/stdin.csv" 2>"$d.log" || fail "$name: $(cat "$d.log")"
    check "$name: standard input, other threads and kernels: the same bytes" cmp "$d/p.csv" "$d/stdin.csv"
    # inputs only, as CSV and npz
    $python - "$data" "$d/new.csv" "$d/new.npz" <<'P'
import csv, struct, sys, zipfile
rows = list(csv.reader(open(sys.argv[1])))
keep = [j for j, name in enumerate(rows[0]) if name not in ("y", "w") and not (name[0] == "y" and name[1:].isdigit())]
rows = [[r[j] for j in keep] for r in rows if r]
csv.writer(open(sys.argv[2], "w", newline="")).writerows(rows)
head = "{'descr': '<f8', 'fortran_order': False, 'shape': (%d, %d), }" % (len(rows) - 1, len(keep))
head += " " * (-(len(head) + 11) % 64) + "\n"
with zipfile.ZipFile(sys.argv[3], "w") as z:
    z.writestr("x.npy", b"\x93NUMPY\1\0" + struct.pack("<H", len(head)) + head.encode() + b"".join(struct.pack("<d", float(v)) for r in rows[1:] for v in r))
P
    "$qring" predict "$job" --weights "$weights" --data "$d/new.csv" --out "$d/new-p.csv" 2>"$d.log" || fail "$name: $(cat "$d.log")"
    check "$name: without labels the same bytes" cmp "$d/p.csv" "$d/new-p.csv"
    "$qring" predict "$d" --data "$d/new.csv" 2>"$d.log" | cmp - "$d/p.csv" || fail "$name: the run's folder: $(cat "$d.log")"
    QRING_SET="micro_batch_size=3" "$qring" predict "$d" --data "$d/new.csv" --set train.batch_size=7 2>"$d.log" | cmp - "$d/p.csv" || fail "$name: keys set: $(cat "$d.log")"
    "$qring" predict "$job" --weights "$weights" --data "$d/new.npz" 2>"$d.log" | cmp - "$d/p.csv" || fail "$name: npz: $(cat "$d.log")"
    "$qring" predict "$job" --weights "$weights" --data - <"$d/new.npz" 2>"$d.log" | cmp - "$d/p.csv" || fail "$name: npz on standard input: $(cat "$d.log")"
    if $python - "$d" "$name" "$data" <<'P'
import csv, json, math, sys
d, name, data = sys.argv[1:]
bad = []
def check(ok, what):
    if not ok:
        bad.append(what)
infer, p, own = [list(csv.DictReader(open(f))) for f in (d + "/infer.csv", d + "/p.csv", data)]
lines = [json.loads(line) for line in open(d + "/p.jsonl")]
inferred, ours, ours_file = [json.load(open(d + "/" + f)) for f in ("infer.json", "evaluate.json", "evaluate-file.json")]
columns = lambda row, word: [row[c] for c in row if c == word or c.startswith(word + "_")]
check(len(p) == len(own) == len(lines) and [int(r["sample"]) for r in p] == list(range(len(own))), "a row for each sample, in order")
which = [int(r["sample"]) for r in infer]
held_out = [p[i] for i in which]
logits, crossentropy = "logits" in name or name == "weighted-classes", any(c.startswith("probability") for c in p[0])
check(crossentropy == (name not in ("two-signs", "signs", "gate-list", "expectation-weights")), "probabilities for losses that have them")
for mine, theirs in zip(held_out, infer):
    z, q = columns(theirs, "prediction"), columns(mine, "probability" if crossentropy else "prediction")
    if logits:
        z, q = [float(v) for v in z], [float(v) for v in q]
        sum_ = sum(math.exp(v) for v in z)
        z = [1 / (1 + math.exp(-z[0]))] if len(z) == 1 else [math.exp(v) / sum_ for v in z]
        check(all(abs(a - b) < 1e-14 for a, b in zip(z, q)) and len(z) == len(q), "the probabilities of %r: %r" % (z, q))
    else:
        check(z == q, "infer's numbers: %r, not %r" % (z, q))
for row, line in zip(p, lines):
    word = "probability" if crossentropy else "prediction"
    values, classes = [float(v) for v in columns(row, word)], [int(v) for v in columns(row, "class")]
    check(line == {"sample": int(row["sample"]), **({"class": classes[0] if len(classes) == 1 else classes} if classes else {}),
                   word: values[0] if len(values) == 1 else values}, "JSON lines have what CSV has: %r" % line)
    if not classes:
        continue
    best = max(range(len(values)), key=lambda j: values[j])
    want = [best] if len(values) > 1 and crossentropy else [int(v > 0.5) if crossentropy else (1 if v >= 0 else -1) for v in values]
    check(classes == want, "the class of %r: %r" % (values, classes))
check(("class" in p[0]) == (name not in ("expectation-weights", "gate-list")), "classes")
# evaluate: the bits of infer's loss and metrics, also for the same rows in a file, and those of
# training's result
for e in ours, ours_file:
    check(e["loss"] == inferred["loss"] and e["metrics"] == inferred["metrics"] and e["samples"] == inferred["samples"], "infer's loss and metrics")
check(ours["set"] == "validation" and ours_file["set"] == "data" and ours_file["data"].endswith("held-out.csv"), "name of the set")
result = json.load(open(d + "/result.json"))
check(json.dumps(result).count(json.dumps(inferred["loss"])) >= 1, "training's own val_loss: %r" % inferred["loss"])
if "class" in p[0]:
    def label(row):
        y = float(row["y"])
        return int(y) if crossentropy else int(y == 1)
    n = max(2, len(columns(p[0], "probability")))
    counts = [[0] * n for _ in range(n)]
    for mine, row in zip(held_out, [own[i] for i in which]):
        counts[label(row)][max(0, int(mine["class"]))] += 1
    check(ours["confusion_matrix"] == ours_file["confusion_matrix"] == counts, "the matrix of %r: %r" % (counts, ours.get("confusion_matrix")))
    check(inferred.get("confusion_matrix", counts) == counts, "infer's matrix of %r" % counts)
else:
    check("confusion_matrix" not in ours, "no matrix")
for what in sorted(set(bad))[:5]:
    print(what)
sys.exit(bool(bad))
P
    then pass; else fail "$name: see above"; fi
done
job=$jobs/categorical-crossentropy.json weights=$work/categorical-crossentropy/weights.h5 data=tests/golden/digests/data/classes.csv

# Evaluate as text; additional metrics; a metric of the job is not repeated.
run_to "$work/evaluate" "$qring" evaluate $job --weights "$weights" --metric auc --metric '{"name": "top_k_accuracy", "k": 2}' --metric accuracy; rc=$?
check "evaluate ends with 0, not $rc" test $rc = 0
check "rows of the text: $(cat "$work/evaluate")" test "$(sed 's/ .*//' "$work/evaluate" | head -n 6 | tr '\n' ' ')" = "12 loss accuracy auc top_k_accuracy Confusion "
check "an additional metric does not change the loss" test "$("$qring" evaluate $job --weights "$weights" --json --metric auc | sed 's/.*"loss"://; s/,.*//')" = "$("$qring" evaluate $job --weights "$weights" --json | sed 's/.*"loss"://; s/,.*//')"
run_to "$work/whole" env QRING_JOB=$root/deploy/jobs/qcnn.json QRING_WEIGHTS="$root/tests/golden/tfq/qcnn_weights.h5" "$qring" evaluate
check "job and weights from the environment: $(tail -n 1 "$work/whole")" holds "$work/whole" 'Confusion matrix'

# Columns by name: in any order; unused columns are an error, unless the job selects columns.
named() { printf '{"name": "named", "model": [{"layer": "quantum", "circuit": {"qubits": 1, "gates": [{"gate": "RY", "qubits": [0], "angle": "w*x.a + asin(x.c)"}]}}], "data": {"source": "csv", "url": "nowhere.csv"%s}}' "$1" >"$work/named.json"; }
named ''
{ echo a,c; echo 0.5,0.25; echo -2,1; } >"$work/ac.csv"
{ echo c,a; echo 0.25,0.5; echo 1,-2; } >"$work/ca.csv"
{ echo c,b,a; echo 0.25,7,0.5; echo 1,7,-2; } >"$work/cba.csv"
{ echo a,c; echo 0.5,0.25; echo -2,1; echo 1,1.5; } >"$work/asin.csv"
$python - "$work/named.safetensors" <<'P'
import json, struct, sys
head = json.dumps({"pqc/parameters": {"dtype": "F64", "shape": [1], "data_offsets": [0, 8]}}).encode()
open(sys.argv[1], "wb").write(struct.pack("<Q", len(head)) + head + struct.pack("<d", 0.75))
P
predict() { "$qring" predict "$work/named.json" --weights "$work/named.safetensors" --data "$@"; } # the data of the job does not exist and is not needed
predict "$work/ac.csv" >"$work/ac" 2>"$work/log" || fail "by name: $(cat "$work/log")"
predict "$work/ca.csv" >"$work/ca" 2>"$work/log"
check "another order, the same bytes" cmp "$work/ac" "$work/ca"
check "cos(w a + asin c)" $python -c "
import math, sys
rows = [r.split(',') for r in open('$work/ac').read().split()]
sys.exit(rows[0] != ['sample', 'prediction'] or any(abs(float(r[1]) - math.cos(0.75 * a + math.asin(c))) > 1e-6 for r, (a, c) in zip(rows[1:], [(0.5, 0.25), (-2, 1)])) or len(rows) != 3)"
predict "$work/cba.csv" >"$work/cba" 2>"$work/log"; rc=$?
check "an unused column: exit 4, not $rc, and its name" sh -c "test $rc = 4 && grep -q 'column b; if that is intended' '$work/log' && test ! -s '$work/cba'"
predict "$work/asin.csv" --out "$work/old" >"$work/cba" 2>"$work/log"; rc=$?
check "the sample without a finite prediction is named: $(cat "$work/log")" sh -c "test $rc = 4 && grep -q 'asin.csv: sample 2 (counted from 0) gives a number that is not finite' '$work/log' && test ! -e '$work/old'"
named ', "columns": ["c", "a"]'
predict "$work/cba.csv" >"$work/cba" 2>"$work/log"
check "selected columns: others are ignored: $(cat "$work/log")" cmp "$work/ac" "$work/cba"

# Names of inputs and classes are stored with the weights, and select the columns of other files.
$python - "$work" <<'P'
import csv, json, random, sys
work = sys.argv[1]
random.seed(5)
names, words = ["length", "width", "height"], ["setosa", "virginica", "alba"]
rows = [([round(random.gauss(c, 0.4), 3) for c in ((0.5, 2, 1), (1.5, 1, 2.5), (2.6, 2.2, 0.3))[k]], k) for k in [random.randrange(3) for _ in range(60)]]
def write(name, head, row):
    with open("%s/%s.csv" % (work, name), "w", newline="") as f:
        csv.writer(f).writerows([head] + [row(i, x, k) for i, (x, k) in enumerate(rows)])
write("iris", names + ["species"], lambda i, x, k: x + [words[k]])
write("permuted", ["species", "height", "length", "width"], lambda i, x, k: [words[k], x[2], x[0], x[1]])
write("with-id", ["id", "note"] + names + ["species"], lambda i, x, k: ["s-%d" % i, ""] + x + [words[k]])
write("unlabelled", [" width", " height", " length"], lambda i, x, k: [x[1], x[2], x[0]])
write("without", ["length", "species"], lambda i, x, k: [x[0], words[k]])
write("places", ["0", "1", "2"], lambda i, x, k: x)
write("other-names", ["h", "w", "l"], lambda i, x, k: [x[2], x[1], x[0]])
write("other-class", names + ["species"], lambda i, x, k: x + ["tulip" if i == 3 else words[k]])
order = sorted(words)
write("numbers", names + ["y"], lambda i, x, k: x + [order.index(words[k])])
def job(name, url, **data):
    json.dump({"name": name, "seed": 2, "model": [{"layer": "dense", "units": 6, "activation": "tanh"}, {"layer": "dense", "units": 3, "activation": "softmax"}],
               "data": {"source": "csv", "url": "%s/%s.csv" % (work, url), "train_fraction": 0.75, **data},
               "train": {"epochs": 12, "loss": "categorical_crossentropy", "metrics": ["accuracy"], "optimizer": {"name": "adam", "learning_rate": 0.05}}}, open("%s/%s.json" % (work, name), "w"))
job("iris", "iris", labels="species")
job("numbers", "numbers")
P
for name in iris numbers; do
    run_to "$work/$name.log" "$qring" run "$work/$name.json" -n 2 --out "$work/$name-run" --checkpoints none --logdir= || fail "$name: $(tail -n 2 "$work/$name.log")"
done
iris=$work/iris-run
check "the classes and their order: $(grep classes "$work/iris.log")" holds "$work/iris.log" 'classes: alba (0), setosa (1), virginica (2)'
for key in state_digest job_hash; do
    check "$key: named classes equal numbered classes" test "$(json_string "$iris/result.json" $key)" = "$(json_string "$work/numbers-run/result.json" $key)"
done
"$qring" weights "$iris/weights.h5" >"$work/log"
check "weights: the inputs" holds "$work/log" '  inputs: length, width, height'
check "weights: the classes" holds "$work/log" '  classes: alba, setosa, virginica'
"$qring" evaluate "$iris" --data "$work/iris.csv" --json >"$work/output" 2>"$work/log"
check "evaluate: $(cat "$work/log")" holds "$work/output" '"classes":["alba","setosa","virginica"]'
own=$(sed 's/.*"samples"/"samples"/' "$work/output")
for name in permuted with-id; do
    "$qring" evaluate "$work/iris.json" --weights "$iris/weights.safetensors" --data "$work/$name.csv" --json >"$work/output" 2>"$work/log"
    check "$name: loss, metrics and matrix are those of the training file: $(cat "$work/output" "$work/log")" test "$(sed 's/.*"samples"/"samples"/' "$work/output")" = "$own"
done
check "ignored columns are logged once" test "$(cat "$work/log")" = "I qring: $work/with-id.csv: ignoring columns that are not inputs: id, note"
"$qring" predict "$iris" --data "$work/iris.csv" >"$work/by-name" 2>"$work/log" || fail "by name: $(cat "$work/log")"
for name in permuted with-id unlabelled places; do
    "$qring" predict "$iris" --data "$work/$name.csv" 2>"$work/log" | cmp - "$work/by-name" || fail "$name: $(cat "$work/log")"
done
"$qring" predict "$iris" --data "$work/other-names.csv" --set 'data.columns=["l", "w", "h"]' 2>"$work/log" | cmp - "$work/by-name" || fail "columns set: $(cat "$work/log")"
check "predictions have the names of classes" test "$(cut -d, -f2 "$work/by-name" | sort -u | tr '\n' ' ')" = "alba class setosa virginica "
"$qring" predict "$iris" --data "$work/permuted.csv" --format jsonl 2>"$work/log" | head -n 1 >"$work/output"
check "JSON predictions have the names of classes: $(cat "$work/output")" grep -Eq '"class":"(alba|setosa|virginica)"' "$work/output"
"$qring" predict "$work/numbers-run" --data "$work/permuted.csv" 2>"$work/log" | sed -n 2p | cut -d, -f2 >"$work/output"
check "numbered classes stay numbers: $(cat "$work/output")" grep -qx '[012]' "$work/output"
rejected() { # FILE WORDS
    "$qring" evaluate "$iris" --data "$work/$1.csv" >"$work/output" 2>"$work/log"; rc=$?
    check "$1: exit 4, not $rc" test $rc = 4
    check "$1: nothing on standard output" test ! -s "$work/output"
    check "$1: $(cat "$work/log")" grep -qF "$2" "$work/log"
}
rejected without '2 of the 3 inputs that the model was trained with are missing: width, height; the file has length'
rejected other-class "row 4, column 'species': 'tulip' is not a class of the trained model (alba, setosa, virginica)"
"$qring" weights "$iris/weights.safetensors" --to "$work/iris.h5" --job "$iris/job.json" >"$work/log" 2>&1
check "converted weights have the same bytes, with names" cmp "$work/iris.h5" "$iris/weights.h5"
"$qring" weights "$iris/weights.safetensors" --to "$work/iris.npz" >"$work/log" 2>&1
nameless() { "$qring" "$1" "$work/iris.json" --weights "$work/iris.npz" --data "$work/$2.csv" >"$work/output" 2>"$work/log"; }
nameless predict places
check "weights and columns without names: no message: $(cat "$work/log")" test ! -s "$work/log"
nameless predict permuted
check "weights without names: the order of columns is logged: $(cat "$work/log")" holds "$work/log" \
    'permuted.csv: the weights hold no names of inputs; using the columns in file order: height, length, width'
nameless evaluate iris; rc=$?
check "named classes in the data, none in the weights: exit 4, not $rc: $(cat "$work/log")" test $rc = 4
check "named classes in the data, none in the weights: the error" holds "$work/log" 'the weights have no class names'

# --out: the same bytes, written atomically
echo old >"$work/old"
predict "$work/cba.csv" --out "$work/old" >"$work/output" 2>&1
check "--out has the bytes of standard output" cmp "$work/old" "$work/ac"
check "--out: no output" test ! -s "$work/output"
echo old >"$work/old"
predict "$work/asin.csv" --out "$work/old" >"$work/output" 2>&1
check "an error leaves the old file" test "$(cat "$work/old")" = old
check "an error leaves no temporary file" test -z "$(find "$work" -name '*.tmp-*')"
predict "$work/ac.csv" >/dev/full 2>"$work/log"; rc=$?
check "standard output on a full disk: exit 2, not $rc" sh -c "test $rc = 2 && grep -q 'cannot write standard output' '$work/log'"

# a reader that closes the pipe
{ echo a,c; yes 0.5,0.25 | head -n 50000; } >"$work/many.csv"
predict "$work/many.csv" 2>"$work/log" | head -n 2 >"$work/output"
check "a closed pipe: no message: $(cat "$work/log")" test ! -s "$work/log"
check "a closed pipe: the rows before" cmp -n 20 "$work/output" "$work/ac"
(trap '' PIPE; predict "$work/many.csv" 2>"$work/log"; echo $? >"$work/rc") | head -n 2 >"$work/output"
check "a closed pipe with SIGPIPE ignored: exit 141, not $(cat "$work/rc"): $(cat "$work/log")" test "$(cat "$work/rc")$(cat "$work/log")" = 141
check "all 50000 rows" test "$(predict "$work/many.csv" | wc -l)" = 50001

# 40000 named columns, which the weights file keeps in several attributes
$python - "$work" <<'P'
import json, sys
job = {"name": "wide", "model": [{"layer": "dense", "units": 1}], "data": {"source": "csv", "url": sys.argv[1] + "/wide.csv"}, "train": {"loss": "mse"}}
with open(sys.argv[1] + "/wide.json", "w") as f: json.dump(job, f)
with open(sys.argv[1] + "/wide.csv", "w") as f:
    print(",".join(f"column{i:06}" for i in range(40000)) + ",y", *[",".join(["0.5"] * 40000) + f",{y}" for y in (0, 1)], sep="\n", file=f)
P
check "40000 columns: a run" run_to "$work/log" "$qring" run "$work/wide.json" --out "$work/wide"
for file in weights.h5 weights.safetensors; do
    check "40000 columns: predict with $file" sh -c "'$qring' predict '$work/wide.json' --weights '$work/wide/$file' --data '$work/wide.csv' --out '$work/wide-$file' 2>'$work/log'"
done
check "40000 columns: the names of both files: $(tail -n 1 "$work/log")" test "$(wc -l <"$work/wide-weights.h5") $(wc -l <"$work/wide-weights.safetensors")" = "3 3"

# a file size limit
mkdir "$work/limited"
(ulimit -f 1; predict "$work/many.csv" --out "$work/limited/p.csv" 2>"$work/log"); rc=$?
check "a file size limit: exit 2, not $rc" test $rc = 2
check "a file size limit: the error: $(cat "$work/log")" holds "$work/log" 'p.csv: File too large'
check "a file size limit: no file is left" test -z "$(ls -A "$work/limited")"

# from a bucket, and to it
fake_storage
$python - "$at" "$data" <<'P'
import json, sys, urllib.request as u
at, path = sys.argv[1:]
token = json.load(u.urlopen(u.Request("http://%s/computeMetadata/v1/instance/service-accounts/default/token" % at, headers={"Metadata-Flavor": "Google"})))
u.urlopen(u.Request("http://%s/upload/storage/v1/b/auth-predict/o?uploadType=media&name=new.csv" % at, data=open(path, "rb").read(),
                    headers={"Authorization": "Bearer " + token["access_token"]}))
P
run_to "$work/log" env STORAGE_EMULATOR_HOST="$at" GCE_METADATA_HOST="$at" "$qring" predict $job --weights "$work/categorical-crossentropy/weights.safetensors" \
    --data gs://auth-predict/new.csv --out gs://auth-predict/p.csv; rc=$?
check "a bucket: exit 0, not $rc: $(tail -n 2 "$work/log")" test $rc = 0
object auth-predict p.csv "$work/bucket.csv"
check "the predictions in the bucket" cmp "$work/bucket.csv" "$work/categorical-crossentropy/p.csv"
end
