#!/bin/sh
# Named data channels: several files, folders, lists, CSV beside npz, and columns in other orders
# give the bits of one file; url and validation_url are two channels. Evaluation and prediction
# accept any channel, as do keys outside the job, a run's folder, and validate.
. "$(dirname "$0")/common"
unset TF_CONFIG QRING_JOB QRING_WEIGHTS QRING_SET QRING_SEED
mkdir -p "$work/parts/more" "$work/parts/_temporary" "$work/elsewhere"
$python - "$work" <<'P'
import csv, json, math, struct, sys, zipfile
work = sys.argv[1]
names = ["x%d" % i for i in range(8)]
rows = [["%.6f" % math.sin(n * 8 + i) for i in range(8)] + [str(1 if n % 3 else -1)] for n in range(60)]
def write(name, rows, names=names, order=None):
    with open(work + "/" + name, "w", newline="") as f:
        out = csv.writer(f)
        out.writerow([*names, "y"])
        out.writerows([[r[j] for j in order] + [r[8]] for r in rows] if order else rows)
def npz(name, rows):
    def array(a, shape, values):
        head = "{'descr': '<f8', 'fortran_order': False, 'shape': %s, }" % (shape,)
        head += " " * (-(len(head) + 11) % 64) + "\n"
        a[1].writestr(a[0], b"\x93NUMPY\1\0" + struct.pack("<H", len(head)) + head.encode() + struct.pack("<%dd" % len(values), *values))
    with zipfile.ZipFile(work + "/" + name, "w") as z:
        array(("x.npy", z), (len(rows), 8), [float(v) for r in rows for v in r[:8]])
        array(("y.npy", z), (len(rows),), [float(r[8]) for r in rows])
write("train.csv", rows[:40]); write("held.csv", rows[40:50]); write("test.csv", rows[50:])
write("one.csv", rows[:15]); write("two.csv", rows[15:40])
write("parts/a.csv", rows[:15]); write("parts/b.csv", rows[15:30]); write("parts/more/c.csv", rows[30:40])
for hidden in (".lock", "_SUCCESS", "_temporary/d.csv"):
    open(work + "/parts/" + hidden, "w").write("no data\n")
npz("two.npz", rows[15:40])
write("turned.csv", rows[15:40], ["b%d" % i for i in reversed(range(8))], list(reversed(range(8))))
write("unlabelled.csv", rows[50:]); text = [r.rsplit(",", 1)[0] for r in open(work + "/unlabelled.csv").read().split()]
open(work + "/unlabelled.csv", "w").write("\n".join(text) + "\n")
job = json.load(open("deploy/jobs/qcnn.json"))
job["train"]["epochs"] = 2
def make(name, **data):
    job["data"] = {"source": "csv", **data}
    json.dump(job, open("%s/%s.json" % (work, name), "w"))
test = {"test": "test.csv", "new": {"url": "unlabelled.csv"}}
make("plain", url="train.csv", validation_url="held.csv")
make("named", channels={"train": "train.csv", "validation": {"url": "held.csv"}, **test})
make("mixed", url="train.csv", channels={"validation": ["held.csv"], **test})
make("list", channels={"train": ["one.csv", "two.csv"], "validation": "held.csv"})
make("folder", channels={"train": "parts/", "validation": "held.csv"})
make("split", url="parts/", train_fraction=0.75)
make("whole", url="train.csv", train_fraction=0.75)
make("columns", columns=names, channels={"train": ["one.csv"], "validation": "held.csv", "other": {"url": "turned.csv", "columns": ["b%d" % i for i in range(8)]}})
job["data"] = {"source": "npz", "channels": {"train": {"url": ["one.csv"], "source": "csv"}, "validation": {"url": "held.csv", "source": "csv"}, "test": "two.npz"}}
json.dump(job, open(work + "/formats.json", "w"))
P

# The same bits, however the samples are split into files.
hash() { json_string "$work/$1/result.json" job_hash; }
trained() { # NAME AS
    check "$1 trains: $(tail -n 1 "$work/$1.log" 2>/dev/null)" run_to "$work/$1.log" "$qring" run "$work/$1.json" -n "${3:-1}" --out "$work/$1" --logdir=
    [ -z "$2" ] && return
    check "$1 has the weights of $2" cmp "$work/$1/weights.h5" "$work/$2/weights.h5"
    check "$1 has the job hash of $2: $(hash "$1") $(hash "$2")" test "$(hash "$1")" = "$(hash "$2")"
}
trained plain ''
for name in named mixed list; do trained $name plain; done
trained folder plain 2
trained whole ''
trained split whole
check "other samples change the job hash" test "$(hash whole)" != "$(hash plain)"
run_to "$work/set.log" "$qring" run "$work/plain.json" -n 1 --out "$work/set" --logdir= --set "data.channels.test.url=$work/test.csv"
check "a channel added with --set does not change the job hash" test "$(hash set)" = "$(hash plain)"

# evaluation and prediction by channel name
ask() { # LOG COMMAND JOB FLAGS...
    log=$work/$1 command=$2 job=$work/$3; shift 3
    "$qring" "$command" "$job" --weights "$work/plain/weights.safetensors" "$@" >"$log" 2>"$log.err" || fail "$command $*: $(cat "$log.err")"
}
loss() { sed -n 's/.*"loss" *: *\([^,]*\),.*/\1/p' "$work/$1" | head -n 1; }
ask file evaluate plain.json --data "$work/test.csv" --json
ask channel evaluate named.json --channel test --json
check "evaluate: a channel has the file's loss" test "$(loss channel)" = "$(loss file)"
check "evaluate --json names the channel: $(cat "$work/channel")" holds "$work/channel" '"set":"channel","channel":"test","samples":10'
ask channel evaluate named.json --channel test
check "evaluate names the channel in its text" holds "$work/channel" "10 samples (channel test)"
ask held evaluate plain.json --json
ask channel evaluate plain.json --channel validation --json
check "validation_url is the channel validation" test "$(loss channel)" = "$(loss held)"
ask channel evaluate plain.json --channel train --json
check "url is the channel train" holds "$work/channel" '"samples":40'
ask one predict plain.json --data "$work/unlabelled.csv"
ask other predict named.json --channel new
check "predict: the same bytes" cmp "$work/one" "$work/other"
ask channel infer mixed.json --channel test
check "infer: $(tail -n 1 "$work/channel")" holds "$work/channel" "10 samples (channel test)"
QRING_SET="data.channels.late.url=$work/test.csv" ask channel evaluate plain.json --channel late --json
check "a channel from the environment" test "$(loss channel)" = "$(loss file)"
ask channel evaluate plain.json --channel late --json --set "data.channels.late=$work/test.csv"
check "a channel from --set, as a string" test "$(loss channel)" = "$(loss file)"
ask file evaluate columns.json --data "$work/two.csv" --json
ask channel evaluate columns.json --channel other --json
check "a channel with its own column names" test "$(loss channel)" = "$(loss file)"
ask channel evaluate formats.json --channel test --json
check "a channel of npz in a job of CSV: number of samples" holds "$work/channel" '"samples":25'
check "a channel of npz in a job of CSV: loss $(loss channel) $(loss file)" test "$(loss channel)" = "$(loss file)"

# a run's folder, from another working directory
(cd "$work/elsewhere" && "$qring" evaluate "$work/named" --channel test --json) >"$work/channel" 2>&1
check "the job in a run's folder finds its channels" test "$(loss channel)" = "$(ask file evaluate plain.json --data "$work/test.csv" --json; loss file)"
check "the job in a run's folder has absolute paths" holds "$work/list/job.json" "\"$work/one.csv\""
check "validate: $(tail -n 3 "$work/validate.log" 2>/dev/null)" run_to "$work/validate.log" "$qring" validate "$work/named.json" --out "$work/none"
check "validate reads every channel" holds "$work/validate.log" "10 samples in channel test, 10 samples in channel new"
run_to "$work/validate.log" "$qring" validate "$work/named.json" --out "$work/none" --set data.channels.test=gone.csv; rc=$?
check "a missing file of a channel: exit 2, not $rc" test $rc = 2
check "a missing file of a channel: named" holds "$work/validate.log" "data.channels.test: there is no file"
end
