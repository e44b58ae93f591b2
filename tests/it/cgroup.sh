#!/bin/sh
# A worker logs its threads and memory and the file that limits them: recorded trees of cgroup v2,
# v1 and both (tests/cgroups), bind-mounted in a mount namespace; the kernel's v1 hierarchy; a v2
# hierarchy mounted in a mount namespace.
. "$(dirname "$0")/common"

[ "$(id -u)" = 0 ] && unshare -m true 2>/dev/null ||
    { skip "cgroups: cannot create a mount namespace"; end; }
# unpack TREE FOLDER: writes the files of a recorded tree below the folder
unpack() {
    awk -v to="$2" '/^= / { if (f) close(f); f = to substr($0, 3); d = f; sub(/\/[^\/]*$/, "", d); gsub(/ /, "\\ ", d); system("mkdir -p " d); printf "" >f; next } f { print >f }' "$1"
}
# inside TREE COMMAND...: bind-mounts the files of the tree over /sys/fs/cgroup and /proc/self
cat >"$work/inside" <<'END'
#!/bin/sh
tree=$1; shift
mkdir -p "$tree/sys/fs/cgroup"
mount --bind "$tree/sys/fs/cgroup" /sys/fs/cgroup || exit 99
for f in cgroup mountinfo; do [ ! -e "$tree/proc/self/$f" ] || mount --bind "$tree/proc/self/$f" "/proc/$$/$f" || exit 99; done
exec "$@"
END
chmod +x "$work/inside"

# limits LOG: the text of the worker's log line
limits() { sed -n 's/.*"message":"limits: \([^"]*\)".*/\1/p' "$1"; }
cpus=$(nproc)
mebibytes() { awk -v n="$1" 'BEGIN { printf "%.1f MiB", n / 1048576 }'; }
for t in v2-pod v2-high v2-host v2-below v2-host-namespace v1-pod v1-host hybrid hybrid-split; do
    tree=$work/$t; mkdir -p "$tree"
    unpack "tests/cgroups/$t" "$tree"
    run_to "$work/$t.log" unshare -m "$work/inside" "$tree" "$qringd" deploy/jobs/qcnn.json --epochs 1 --out "$work/$t.out"; rc=$?
    limit_line=$(limits "$work/$t.log")
    threads=$(sed -n 's/^threads //p' "tests/cgroups/$t") memory=$(sed -n 's/^memory //p' "tests/cgroups/$t")
    check "$t: the job trains (exit $rc): $(tail -n 2 "$work/$t.log")" [ $rc = 0 ]
    if [ "${threads%% *}" -lt "$cpus" ]; then
        case $limit_line in "${threads%% *} thread"*" (${threads#* }), "*) pass ;; *) fail "$t: threads by $threads, not: $limit_line" ;; esac
    fi
    case $limit_line in *", $(mebibytes "${memory%% *}") of memory (${memory#* })") pass ;; *) fail "$t: memory by $memory, not: $limit_line" ;; esac
done

# --threads, and `qring validate`; a job that does not fit gets an error with the limit's file.
tree=$work/v2-high
run_to "$work/set.log" unshare -m "$work/inside" "$tree" "$qringd" deploy/jobs/qcnn.json --epochs 1 --out "$work/set.out" --threads 1
check "--threads: $(limits "$work/set.log")" test "$(limits "$work/set.log")" = "1 thread (as set), 384.0 MiB of memory (cgroup v2, memory.high)"
run_to "$work/validate.log" unshare -m "$work/inside" "$tree" "$qring" validate deploy/jobs/qcnn.json
check "qring validate: $(cat "$work/validate.log")" holds "$work/validate.log" "this process may use 384.0 MiB (cgroup v2, memory.high)"
run_to "$work/json.log" unshare -m "$work/inside" "$tree" "$qring" validate deploy/jobs/qcnn.json --json
check "qring validate --json: $(cat "$work/json.log")" holds "$work/json.log" '"memory_limit_by":"cgroup v2, memory.high"'
mkdir -p "$work/tight/sys/fs/cgroup"; echo 8388608 >"$work/tight/sys/fs/cgroup/memory.high"
run_to "$work/tight.log" unshare -m "$work/inside" "$work/tight" "$qringd" deploy/jobs/qcnn.json --epochs 1 --out "$work/tight.out"; rc=$?
check "too little memory: a permanent exit code, not $rc" test $rc -ge 1 -a $rc -lt 124
check "the limit's file is named: $(cat "$work/tight.log")" holds "$work/tight.log" "may use 8388608 bytes (cgroup v2, memory.high)"

# The kernel's v1 hierarchy: a nested group whose parent has the limit. Nothing is bind-mounted.
v1=/sys/fs/cgroup/memory group=qring-$$ own=$(sed -n 's/^[0-9]*:memory:\(.*\)/\1/p' /proc/self/cgroup)
if [ -n "$own" ] && mkdir "$v1$own/$group" 2>/dev/null; then
    echo 1 >"$v1$own/$group/memory.use_hierarchy" 2>/dev/null
    mkdir "$v1$own/$group/in"
    echo 201326592 >"$v1$own/$group/memory.limit_in_bytes"
    run_to "$work/real1.log" sh -c 'echo $$ >"$1/tasks" && shift && exec "$@"' sh "$v1$own/$group/in" "$qringd" deploy/jobs/qcnn.json --epochs 1 --out "$work/real1.out"
    case $(limits "$work/real1.log") in *", 192.0 MiB of memory (cgroup v1, memory.limit_in_bytes)") pass ;; *) fail "the kernel's v1: $(cat "$work/real1.log")" ;; esac
    rmdir "$v1$own/$group/in" "$v1$own/$group"
else skip "the kernel's cgroup v1: not mounted, or read-only"; fi

# A v2 hierarchy: a nested group. If v1 has the memory controller, v2 has no limit, and none is
# logged.
cat >"$work/real2" <<'END'
#!/bin/sh
at=$1; shift
mount -t cgroup2 none "$at" || exit 99
mkdir "$at/qring-$$" "$at/qring-$$/in" || exit 99
trap 'echo $$ >"$at/cgroup.procs"; rmdir "$at/qring-$$/in" "$at/qring-$$"' EXIT
if grep -qw memory "$at/cgroup.controllers"; then
    echo +memory >"$at/cgroup.subtree_control" && echo +memory >"$at/qring-$$/cgroup.subtree_control" && echo 209715200 >"$at/qring-$$/memory.high" && echo "memory: v2's"
fi
echo $$ >"$at/qring-$$/in/cgroup.procs" || exit 99
"$@"
END
chmod +x "$work/real2"; mkdir "$work/v2"
run_to "$work/real2.log" unshare -m "$work/real2" "$work/v2" "$qringd" deploy/jobs/qcnn.json --epochs 1 --out "$work/real2.out"; rc=$?
if [ $rc = 99 ]; then skip "the kernel's cgroup v2: $(tail -n 1 "$work/real2.log")"
elif grep -q "^memory: v2's" "$work/real2.log"; then
    case $(limits "$work/real2.log") in *", 200.0 MiB of memory (cgroup v2, memory.high)") pass ;; *) fail "the kernel's v2: $(cat "$work/real2.log")" ;; esac
else
    echo "the kernel's v2 has no memory controller: v1 has it"
    case $(limits "$work/real2.log") in *"cgroup v2"*) fail "v2 without controllers sets a limit: $(limits "$work/real2.log")" ;; *" of memory ("*) pass ;; *) fail "the kernel's v2: $(cat "$work/real2.log")" ;; esac
fi
end
