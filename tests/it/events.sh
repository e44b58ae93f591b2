#!/bin/sh
# TensorBoard's events, except for times, are the same for any number of workers, threads,
# schedule and kernels: losses, gradient norms and variances, histograms of weights and read-outs,
# logged values, the graph. So are steps.jsonl and result.json.
. "$(dirname "$0")/common"
unset TF_CONFIG
# events DIR OUT: the records of train and validation in DIR as hex, without their times and without
# the first two of each file; fails on a malformed record.
events() {
    $python - "$1" >"$2" <<'P'
import glob, struct, sys
for run in ("train", "validation"):
    for path in sorted(glob.glob("%s/%s/*tfevents*" % (sys.argv[1], run))):
        data, at, n = open(path, "rb").read(), 0, 0
        while at < len(data):
            size = struct.unpack("<Q", data[at:at + 8])[0]
            event = data[at + 12:at + 12 + size]
            assert len(event) == size and event[0] == 9, path  # field 1, eight bytes: the time
            if n > 1:
                print(run, event[9:].hex())
            at, n = at + 16 + size, n + 1
P
}
sed 's/"stages": 1,/"stages": 1, "filters": 2,/; s/"epochs": 50/"epochs": 3, "log": {"gap": "val_loss - loss", "speed": "learning_rate * gradient_norm"}/' deploy/jobs/qcnn.json >"$work/job.json"
check "one worker" run_to "$work/1.log" "$qring" run "$work/job.json" -n 1 --threads 1 --isa portable --out "$work/1"
check "one worker: events" events "$work/1/logs" "$work/1.txt"
# the graph; 6 steps: values and read-outs; 3 epochs: values and 6 weights; validation: 3 times
# values by step and by epoch, and read-outs
check "43 events, not $(wc -l <"$work/1.txt")" test "$(wc -l <"$work/1.txt")" = 43
check "read-outs at each step and evaluation" test "$(grep -c "$(printf Readouts | od -An -tx1 | tr -d ' \n')" "$work/1.txt")" = 9
tagged() { test "$(grep -c "$(printf '%s' "$1" | od -An -tx1 | tr -d ' \n')" "$work/1.txt")" = "$2"; }
check "a logged value of each step" tagged batch_speed 6
check "a logged value of each evaluation" tagged evaluation_gap_vs_iterations 3
check "a logged value by epoch" tagged epoch_gap 3
check "logged values in steps.jsonl" test "$(grep -c '"kind":"TRAIN".*"speed":' "$work/1/steps.jsonl") $(grep -c '"kind":"EVAL".*"gap":' "$work/1/steps.jsonl")" = "6 3"
values() { sed -n '/"metrics"/,/}/p' "$1/result.json"; }
check "the logged value of the last epoch, but not of the last step, in result.json: $(values "$work/1")" sh -c 'grep -q gap "$1" && ! grep -q speed "$1"' - "$work/1/result.json"
for form in "2 --threads 2" "3 --threads 1 --allreduce ring" "3 --threads 2 --allreduce star"; do
    n=$(echo "$form" | tr -d ' -')
    # shellcheck disable=SC2086
    check "-n $form" run_to "$work/$n.log" "$qring" run "$work/job.json" -n $form --out "$work/$n"
    check "-n $form: its events" events "$work/$n/logs" "$work/$n.txt"
    check "-n $form: the same steps" cmp "$work/1/steps.jsonl" "$work/$n/steps.jsonl"
    check "-n $form: the same result" test "$(values "$work/1")" = "$(values "$work/$n")"
    check "-n $form: the same events" cmp "$work/1.txt" "$work/$n.txt"
done
end
