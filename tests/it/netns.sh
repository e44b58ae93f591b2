#!/bin/sh
# Four pods in network namespaces with a cluster-like DNS server, over TLS. No name exists at
# first (NXDOMAIN); pod 1 is killed and restarts with a new address, but its name keeps the old
# one; the name of pod 3 appears 12 s late, and other names never: pods that reach each other
# exchange the addresses of the others. The digest is that of one worker.
if [ "$1" != inside ]; then
    . "$(dirname "$0")/common"
    PATH="$PATH:/usr/sbin:/sbin"; export PATH
    as="-n -m"; [ "$(id -u)" = 0 ] || as="-U -r -n -m"
    for tool in unshare nsenter ip dnsmasq; do command -v $tool >/dev/null || { fail "no $tool: make deps"; end; }; done
    # shellcheck disable=SC2086
    if ! unshare $as sh -c 'mount -t tmpfs tmpfs /run && ip link add br9 type bridge && ip netns add probe && ip link add a9 type veth peer name b9 netns probe' >"$work/probe.log" 2>&1; then
        skip "cannot create network namespaces: $(tail -n 1 "$work/probe.log")"; end
    fi
    job=$root/deploy/jobs/qcnn.json
    run_to "$work/one.log" "$qring" run "$job" -n 1 --epochs 3 --out "$work/one" || { fail "one worker: exit $?"; tail -n 5 "$work/one.log"; end; }
    "$qring" certs qml --service qml-worker --out "$work/tls" >/dev/null || { fail "no certificates"; end; }
    # shellcheck disable=SC2086
    work=$work qringd=$qringd job=$job timeout -k 5 600 unshare $as --kill-child sh "$0" inside >"$work/inside.log" 2>&1 </dev/null
    rc=$?
    for i in 0 1 2 3; do
        if [ "$(cat "$work/exit$i" 2>/dev/null)" = 0 ]; then pass; else fail "worker $i ended with ${rc}/$(cat "$work/exit$i" 2>/dev/null)"; tail -n 5 "$work/worker$i.log"; fi
    done
    one=$(json_string "$work/one/result.json" state_digest)
    four=$(json_string "$work/four/result.json" state_digest)
    if [ -n "$one" ] && [ "$one" = "$four" ]; then pass; else fail "digest of four pods '$four', of one worker '$one'"; tail -n 20 "$work/inside.log"; fi
    check "the DNS server was queried before the names existed" grep -q 'qml-worker-0.default.svc is NXDOMAIN' "$work/dns.log"
    check "pod 1's name had its old address" grep -q 'qml-worker-1.default.svc.* is 10.77.0.11' "$work/dns.log"
    check "pod 1's name never had its new address" test -z "$(grep ' is 10.77.0.22' "$work/dns.log")"
    check "the ring did not form before the late name" test "$(cat "$work/early" 2>/dev/null)" = 0
    end
fi

# ---- inside the namespaces; all processes end with this shell (--kill-child) ----
mount -t tmpfs tmpfs /run || exit 1
printf 'nameserver 10.77.0.1\nsearch default.svc.cluster.local svc.cluster.local\noptions ndots:5 timeout:1 attempts:1\n' >"$work/resolv.conf"
mount --bind "$work/resolv.conf" "$(readlink -f /etc/resolv.conf 2>/dev/null || echo /etc/resolv.conf)" || exit 1
ip link set lo up
ip link add br0 type bridge && ip addr add 10.77.0.1/24 dev br0 && ip link set br0 up || exit 1
pod() { # name, address: creates a namespace with one interface on the bridge
    ip netns add "$1" && ip link add "v$1" type veth peer name eth0 netns "$1" && ip link set "v$1" master br0 up &&
        nsenter --net="/run/netns/$1" sh -c "ip link set lo up; ip addr add $2/24 dev eth0; ip link set eth0 up; ip route add default via 10.77.0.1" || exit 1
}
: >"$work/hosts"
dnsmasq -k --user=root --group=root --pid-file= --no-resolv --no-hosts --addn-hosts="$work/hosts" --local=/svc/ --local=/local/ --local-ttl=0 \
    --listen-address=10.77.0.1 --bind-interfaces --log-queries --log-facility="$work/dns.log" --conf-file=/dev/null &
dns=$!
names='"qml-worker-0.default.svc:2222","qml-worker-1.default.svc:2222","qml-worker-2.default.svc:2222","qml-worker-3.default.svc:2222"'
host() { # index, address: sets the address of a name
    grep -v "qml-worker-$1\\." "$work/hosts" >"$work/hosts.new"
    echo "$2 qml-worker-$1.default.svc" >>"$work/hosts.new"
    cat "$work/hosts.new" >"$work/hosts"
    kill -HUP $dns
}
start() { # namespace, index
    TF_CONFIG="{\"cluster\":{\"worker\":[$names]},\"task\":{\"type\":\"worker\",\"index\":$2}}" \
        exec nsenter --net="/run/netns/$1" "$qringd" "$job" --epochs 3 --out "$work/four" --tls-dir "$work/tls" >"$work/worker$2.log" 2>&1 </dev/null
}
worker() { rm -f "$work/exit$2"; (start "$1" "$2") & last=$!; }

for i in 0 1 2 3; do pod w$i 10.77.0.1$i; done
pod w1b 10.77.0.22
worker w0 0; p0=$last
worker w1 1; p1=$last
worker w2 2; p2=$last
worker w3 3; p3=$last
began=$(date +%s)
until_second() { while [ $(($(date +%s) - began)) -lt "$1" ]; do sleep 0.2; done; }
until_second 6
kill -9 "$p1"; wait "$p1"
cp "$work/worker1.log" "$work/worker1.first.log"
host 1 10.77.0.11
until_second 8
worker w1b 1; p1=$last
until_second 12
if [ -e "$work/four/result.json" ]; then echo 1; else echo 0; fi >"$work/early"
host 3 10.77.0.13
i=0
for p in $p0 $p1 $p2 $p3; do wait "$p"; echo $? >"$work/exit$i"; i=$((i + 1)); done
kill $dns
