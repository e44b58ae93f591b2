#!/bin/sh
# Real programs and a TLS web server on loopback (tests/fake/https.py): job, data and weights from
# https:// URLs for every command, through the server's faults, with tokens; invalid certificates
# are rejected; nothing is written there, and no secret is logged.
. "$(dirname "$0")/common"
command -v openssl >/dev/null || { skip "no openssl"; end; }
unset TF_CONFIG QRING_JOB QRING_WEIGHTS QRING_HTTPS_TOKENS https_proxy HTTPS_PROXY all_proxy ALL_PROXY SSL_CERT_FILE
export http_proxy=http://127.0.0.1:1 https_proxy=http://127.0.0.1:1 # not used for localhost

# ---- certificates, servers ----
cd "$work" || exit 1
openssl ecparam -name prime256v1 -genkey -noout -out key.pem
openssl req -x509 -new -key key.pem -subj /CN=ca -days 2 -out ca.pem 2>/dev/null
certificate() { # NAME SAN DAYS
    openssl req -new -key key.pem -subj "/CN=$1" -out "$1.csr"
    printf 'subjectAltName=%s\n' "$2" >"$1.ext"
    openssl x509 -req -in "$1.csr" -CA ca.pem -CAkey key.pem -days "$3" -extfile "$1.ext" -out "$1.pem" 2>/dev/null
}
certificate good DNS:localhost 2
certificate other DNS:elsewhere.example 2
certificate expired DNS:localhost 0 # expires within a second
mkdir -p web/dir
cd "$cwd" || exit 1
server() { # NAME: sets port
    $python -B tests/fake/https.py 0 "$work/$1.port" "$work/web" "$work/$1.pem" "$work/key.pem" >/dev/null 2>"$work/$1.log" &
    started="$started $!" tries=0
    until [ -s "$work/$1.port" ] || [ $tries -gt 600 ]; do tries=$((tries + 1)); sleep 0.1; done
    check "the server listens" test -s "$work/$1.port" || end
    port=$(cat "$work/$1.port")
}
server other; other=https://localhost:$port
server expired; expired=https://localhost:$port
server good; at=https://localhost:$port

# ---- a job, its data and its weights: as files and as URLs ----
$python - "$work/web/dir" <<'P'
import json, math, sys
folder = sys.argv[1]
with open(folder + "/data.csv", "w") as f:
    f.write(",".join("x%d" % i for i in range(8)) + ",y\n")
    for n in range(40):
        f.write(",".join("%.6f" % math.sin(n * 8 + i) for i in range(8)) + ",%d\n" % (1 if n % 3 else -1))
job = json.load(open("deploy/jobs/qcnn.json"))
job["train"]["epochs"], job["data"] = 2, {"source": "csv", "url": "data.csv", "train_fraction": 0.5}
json.dump(job, open(folder + "/job.json", "w"))
P
export SSL_CERT_FILE="$work/ca.pem"
d=$work/web/dir job=$work/web/dir/job.json
check "training from files" run_to "$work/file.log" "$qring" run "$job" -n 1 --out "$work/file"
cp "$work/file/weights.h5" "$work/file/weights.safetensors" "$d"
same() { check "$1: the same weights" cmp "$work/file/weights.h5" "$work/$1/weights.h5"; }
check "training from a URL" run_to "$work/url.log" "$qring" run "$at/dir/job.json" -n 2 --out "$work/url"
same url
check "job.json of the run has the URL of the data" holds "$work/url/job.json" "\"url\": \"$at/dir/data.csv\""
check "the run continues from its folder: $(tail -n 2 "$work/url.log")" run_to "$work/again.log" "$qring" run "$work/url" -n 1 --out "$work/url" --epochs 3
check "a worker reads a job's URL" env QRING_JOB="$at/dir/job.json" TF_CONFIG="$(tf_config 0 127.0.0.1:"$(free_ports 1)")" \
    timeout 600 "$qringd" --data-port 0 --out "$work/worker" >"$work/worker.log" 2>&1
same worker
faulty=$(echo "503,cut-300/dir/data.csv" | sed 's|/|%2F|g; s|,|%2C|g')
check "through faults and redirects" run_to "$work/faults.log" "$qring" run "$at/to:%2Fdir%2Fjob.json/j" -n 1 --out "$work/faults" --set "data.url=$at/to:%2F$faulty/d?signature=hush"
same faults
for u in job.json,show job.json,validate; do
    check "qring ${u#*,}" run_to "$work/${u#*,}.log" "$qring" "${u#*,}" "$at/dir/${u%,*}"
done
"$qring" infer "$job" --weights "$d/weights.h5" --predictions "$work/file.csv" >"$work/infer.log" 2>&1 || fail "infer: $(cat "$work/infer.log")"
check "qring infer" run_to "$work/infer.log" "$qring" infer "$at/dir/job.json" --weights "$at/dir/weights.h5?signature=hush" --predictions "$work/url.csv"
check "the same predictions" cmp "$work/file.csv" "$work/url.csv"
"$qring" predict "$job" --weights "$d/weights.safetensors" --data "$d/data.csv" >"$work/file.p" 2>/dev/null
"$qring" predict "$at/dir/job.json" --weights "$at/dir/weights.safetensors" --data "$at/dir/data.csv?signature=hush" >"$work/url.p" 2>"$work/predict.log"
check "qring predict: $(cat "$work/predict.log")" cmp "$work/file.p" "$work/url.p"
check "qring evaluate" run_to "$work/evaluate.log" "$qring" evaluate "$at/dir/job.json" --weights "$at/dir/weights.h5" --data "$at/dir/data.csv"
check "qring weights" run_to "$work/weights.log" "$qring" weights "$at/dir/weights.h5"
check "initial weights from a URL" run_to "$work/initial.log" "$qring" run "$at/dir/job.json" -n 1 --out "$work/initial" --set "train.initial_weights=$at/dir/weights.h5"
check "a sweep" run_to "$work/sweep.log" "$qring" sweep "$at/dir/job.json" --set 'sweep={"keys": {"seed": [1, 2]}, "metric": "loss"}' --out "$work/sweep"

# ---- rejected servers and redirects ----
rejected() { # CODE WORDS COMMAND...
    rc=$1 words=$2; shift 2
    run_to "$work/rejected.log" "$@"; got=$?
    check "exit $rc, not $got: $*" test $got = "$rc"
    check "'$words' in: $(tail -n 2 "$work/rejected.log")" holds "$work/rejected.log" "$words"
}
rejected 2 "certificate cannot be verified" "$qring" show "$other/dir/job.json"
rejected 2 "certificate cannot be verified" "$qring" show "$expired/dir/job.json"
rejected 2 "set SSL_CERT_FILE to a file of CAs" env -u SSL_CERT_FILE "$qring" show "$at/dir/job.json"
rejected 2 "SSL_CERT_FILE" env SSL_CERT_FILE="$work/none.pem" "$qring" show "$at/dir/job.json"
rejected 2 "is not encrypted and is not followed" "$qring" show "$at/to:http%3A%2F%2Flocalhost%2Fx/job.json"
rejected 2 "certificate cannot be verified" "$qring" show "$at/to:$(echo "$other" | sed 's|:|%3A|g; s|/|%2F|g')%2Fdir%2Fjob.json/job.json"

# ---- tokens ----
rejected 2 "QRING_HTTPS_TOKENS" "$qring" show "$at/token/dir/job.json"
printf '%s secret-of-the-fake\n' "${at#https://}" >"$work/tokens"
check "a token" run_to "$work/token.log" env QRING_HTTPS_TOKENS="$work/tokens" "$qring" run "$at/token/dir/job.json" -n 2 --out "$work/token"
same token
check "QRING_HTTPS_TOKENS is a known variable" sh -c "! grep -q QRING_HTTPS_TOKENS '$work/token.log'"
rejected 2 "QRING_HTTPS_TOKENS ($work/none)" env QRING_HTTPS_TOKENS="$work/none" "$qring" show "$at/dir/job.json"

# ---- a remote job may name local files, whose content is not quoted in errors ----
$python - "$job" "$work" <<'P'
import json, sys
job, work = json.load(open(sys.argv[1])), sys.argv[2]
secret = work + "/private"
open(secret, "w").write("PRIVATE-one two\nPRIVATE-three four\n")
open(secret + ".h5", "w").write("PRIVATE-one\n")
open(secret + ".json", "w").write('{"PRIVATE-one": "PRIVATE-two"}\n')
names = ["PRIVATE%d" % i for i in range(8)]
open(secret + ".csv", "w").write(",".join(names + ["y"]) + "\n" + "".join(
    ",".join(str(i * j % 7 / 7) for j in range(8)) + ",%d\n" % (1 if i % 2 else -1) for i in range(40)))
open(secret + "-label.csv", "w").write(",".join(names + ["y"]) + "\n" + "PRIVATE,2,3,4,5,6,7,8,1\n")
def put(name, data=None, **train):
    data = {**job["data"], **(data or {})}
    if "validation_url" in data: del data["train_fraction"]
    json.dump({**job, "data": data, "train": {**job["train"], **train}},
              open(work + "/web/dir/private-" + name + ".json", "w"))
put("csv", {"url": secret})
put("npz", {"url": secret, "source": "npz"})
put("cell", {"url": secret + "-label.csv"})
put("names", {"validation_url": secret + ".csv"})
put("weights", initial_weights=secret + ".h5")
put("good", {"url": secret + ".csv"})
reads = {**job["model"][0], "readouts": [{"hamiltonian": secret + ".json"}]}
json.dump({**job, "model": [reads] + job["model"][1:]}, open(work + "/web/dir/private-energy.json", "w"))
reads = {**job["model"][0], "circuit": {"url": secret + ".csv", "inputs": ["x"]}}
json.dump({**job, "model": [reads] + job["model"][1:]}, open(work + "/web/dir/private-circuit.json", "w"))
P
private() { ! grep -q PRIVATE "$1"; }
for j in csv npz cell names weights energy circuit; do
    log=$work/private-$j.log
    run_to "$log" "$qringd" "$at/dir/private-$j.json" --out "$work/no"
    check "private, $j: the file is named: $(cat "$log")" holds "$log" "nothing of a local file is quoted"
    check "private, $j: the content is not quoted: $(cat "$log")" private "$log"
    run_to "$log" "$qring" validate "$at/dir/private-$j.json" --out "$work/no"
    check "private, $j: validate does not quote the content: $(cat "$log")" private "$log"
    cp "$d/private-$j.json" "$d/../../private-$j.json"
done
log=$work/private-local.log; run_to "$log" "$qring" validate "$work/private-cell.json" --out "$work/no"
check "the error of a local job quotes the file: $(cat "$log")" holds "$log" "'PRIVATE' is not a number"
log=$work/private-good.log; run_to "$log" "$qring" run "$at/dir/private-good.json" -n 1 --out "$work/private-good"
check "a remote job reads a valid local file: $(cat "$log")" test "$?" = 0 -a -s "$work/private-good/weights.h5"
check "the columns of that file are logged as numbers: $(grep inputs "$log")" private "$log"

# ---- URLs are read-only ----
only="https:// URLs are read-only"
rejected 2 "trained weights (--weights): $at/w.h5: $only" "$qring" run "$job" -n 1 --out "$work/no" --weights "$at/w.h5"
rejected 2 "checkpoints (--checkpoints): $at/ck" "$qring" run "$job" -n 1 --out "$work/no" --checkpoints "$at/ck"
rejected 2 "(--logdir): $at/logs" "$qring" run "$job" -n 1 --out "$work/no" --logdir "$at/logs"
rejected 2 "$at/out: --out must be a local folder" "$qring" run "$job" -n 1 --out "$at/out"
rejected 2 "$only" "$qring" validate "$job" --out "$work/no" --weights "$at/w.h5"
rejected 2 "--out: $at/p.csv: $only" "$qring" predict "$job" --weights "$d/weights.h5" --data "$d/data.csv" --out "$at/p.csv"
rejected 2 "--predictions: $at/p.csv: $only" "$qring" infer "$job" --weights "$d/weights.h5" --predictions "$at/p.csv"
rejected 2 "--to: $at/w.npz: $only" "$qring" weights "$d/weights.safetensors" --to "$at/w.npz"
rejected 2 "$only" "$qring" sweep "$job" --set 'sweep={"keys": {"seed": [1, 2]}, "metric": "loss"}' --out "$work/no" --to "$at/sweep"
check "nothing was trained" test ! -e "$work/no/steps.jsonl"
hides_secrets() { ! grep -lE 'hush|secret-of-the-fake' "$work"/*.log "$work"/*/result.json "$work"/*/steps.jsonl; }
check "no log has a signature or a token" hides_secrets
end
