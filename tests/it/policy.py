"""Checks which connections between pods a NetworkPolicy, enforced as nftables rules, admits.

Run by tests/it/policy.sh. Start reading at main().
"""
import copy, os, select, shutil, socket, struct, subprocess, sys

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "faults"))
import ring

ring.WORK = os.environ["WORK"]
import namespaces_dns
from namespaces import GATEWAY, address, certificates, enter, inside, pod, run, socket_in
from ring import check, until
import yaml

RING, STRANGER, OTHER, OUTSIDE = (0, 1), 2, 3, 4  # OUTSIDE is not a pod: the bucket and the metadata server
METADATA = "169.254.169.254"
OPEN = {0: (2222, 2224, 8080, 9999), 1: (2222, 2224, 8080, 9999), STRANGER: (443, 2222), OTHER: (2222, 2224), OUTSIDE: (80, 443, 988, 2222, 5000)}
# Seconds to wait for expected connections and, after these, for unexpected ones: the kernel resends
# a SYN after a second.
TIMEOUT_S, UNEXPECTED_S = 3, 0.2


def objects(file):
    with open("deploy/jobs/" + file, encoding="utf-8") as f:
        return [d for d in yaml.safe_load_all(f) if d]


# ---- a policy as rules ----

def selects(selector, labels):
    if set(selector) - {"matchLabels"}: raise ValueError(f"unsupported selector: {selector}")
    return all(labels.get(k) == v for k, v in selector.get("matchLabels", {}).items())


def peers(side, rule, labels):
    """Return nft matches of a rule's peers; [""] matches any peer."""
    if side not in rule: return [""]
    way, found = {"from": "ip saddr", "to": "ip daddr"}[side], []
    for peer in rule[side]:
        if set(peer) == {"podSelector"}:
            found += [f"{way} {address(i)}" for i, l in labels.items() if selects(peer["podSelector"], l)]
        elif set(peer) == {"ipBlock"} and set(peer["ipBlock"]) == {"cidr"}:
            found.append(f"{way} {peer['ipBlock']['cidr']}")
        else: raise ValueError(f"unsupported peer: {peer}")
    return found


def ports(rule):
    if "ports" not in rule: return [""]
    return [f"{p.get('protocol', 'TCP').lower()} dport {p['port']}" for p in rule["ports"]]


def rules(policy, labels):
    """Return the nft ruleset of each pod that the policy selects."""
    spec = policy["spec"]
    text = "table ip wall {\n"
    for kind, side, hook, itself in (("Ingress", "from", "input", "iif"), ("Egress", "to", "output", "oif")):
        if kind not in spec["policyTypes"]: continue
        text += f" chain {hook} {{ type filter hook {hook} priority 0; policy drop; ct state established,related accept; {itself} lo accept\n"
        for rule in spec.get(kind.lower(), []):
            text += "".join(f"  {peer} {port} accept\n" for peer in peers(side, rule, labels) for port in ports(rule))
        text += " }\n"
    return {i: text + "}\n" for i, l in labels.items() if selects(spec["podSelector"], l)}


def enforce(policies, labels):
    """Load the rulesets of the policies, at most one per pod; pods without a policy get none."""
    texts = {i: "" for i in labels}
    for policy in policies:
        for i, text in rules(policy, labels).items():
            if texts[i]: raise ValueError("two policies for one pod")
            texts[i] = text
    start = lambda i: subprocess.Popen([*inside(i), "nft", "-f", "-"], stdin=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    for i, p in [(i, start(i)) for i in texts]:
        _, error = p.communicate("table ip wall\ndelete table ip wall\n" + texts[i])
        if p.returncode: raise RuntimeError(f"nft in pod {i}: {error.strip()}")


# ---- connections ----

def ask_dns(s):
    s.sendto(struct.pack(">HHHHHH", 7, 0x100, 1, 0, 0, 0) + b"\6qcnn-0\4qcnn\7default\3svc\7cluster\5local\0" + struct.pack(">HH", 1, 1), (GATEWAY, 53))


def reached(wanted, awaited, timeout_s):
    """Return those of wanted (pod, address, port) that answer, waiting for the awaited ones.

    Port "53/udp" gets a DNS query.
    """
    waiting, found = {}, set()
    for target in wanted:
        udp = target[2] == "53/udp"
        s = socket_in(target[0], socket.AF_INET, socket.SOCK_DGRAM if udp else socket.SOCK_STREAM)
        s.setblocking(False)
        try:
            if udp: ask_dns(s)
            else: s.connect_ex(target[1:])
        except PermissionError: s.close()  # rejected by an egress rule
        else: waiting[s] = target
    poll = select.poll()
    for s, target in waiting.items(): poll.register(s, select.POLLIN if target[2] == "53/udp" else select.POLLOUT)
    by_fd = {s.fileno(): s for s in waiting}
    end = ring.time.monotonic() + timeout_s
    while waiting and (left := end - ring.time.monotonic()) > 0:
        if awaited <= found:
            end = min(end, ring.time.monotonic() + UNEXPECTED_S)
            awaited = {None}
        for fd, _ in poll.poll(left * 1000):
            s = by_fd[fd]
            target = waiting.pop(s)
            if target[2] == "53/udp" or s.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR) == 0: found.add(target)
            poll.unregister(fd)
            s.close()
    for s in waiting: s.close()
    return found


def expected(bucket):
    """Return whether each (pod, address, port) must be reached, with the name of the rule."""
    a, b = RING
    table = {}
    for x, y in ((a, b), (b, a)):
        for port in (2222, 2224): table[x, address(y), port] = True, "pods of the ring reach each other"
        table[x, address(y), 9999] = False, "ports that the ring does not use are closed"
    for x in (STRANGER, OTHER, OUTSIDE):
        for port in (2222, 2224, 9999): table[x, address(a), port] = False, "others do not reach the ring"
        table[x, address(a), 8080] = True, "all pods may read metrics"
    for i in RING:
        table[i, GATEWAY, "53/udp"] = table[i, GATEWAY, 53] = True, "DNS is admitted"
        for y, port in ((STRANGER, 2222), (OTHER, 2222), (OTHER, 2224), (OUTSIDE, 2222), (OUTSIDE, 5000), (OUTSIDE, 80)):
            table[i, address(y), port] = False, "the ring reaches nothing else"
        table[i, address(OUTSIDE), 443] = bucket, "a configured bucket is admitted"
        for port in (80, 988): table[i, METADATA, port] = bucket, "the metadata server of a configured bucket is admitted"
        table[i, METADATA, 5000] = False, "other ports of the metadata server are closed"
    return table


def wrong(bucket, timeout_s=TIMEOUT_S):
    """Return the connections that are not as expected, as sentences."""
    table = expected(bucket)
    found = reached(table, {target for target, (good, _) in table.items() if good}, timeout_s)
    return sorted(f"{why}: {target} is {'reached' if target in found else 'not reached'}" for target, (good, why) in table.items() if (target in found) != good)


def without(policy, side, *changes):
    """Return a copy of the policy with its rules changed, or removed, by the functions."""
    policy = copy.deepcopy(policy)
    policy["spec"][side] = [r for r in (f(r) for r in policy["spec"][side] for f in changes) if r]
    return policy


def plant(policy, bucket):
    """Yield the planted faults: name, policies, rules that must be reported as violated."""
    no_port = lambda port: lambda r: None if any(p["port"] == port for p in r["ports"]) else r
    if bucket:
        yield "no bucket", [without(policy, "egress", no_port(443))], ["a configured bucket is admitted"]
        return
    any_peer = lambda r: {k: v for k, v in r.items() if k != "from"}
    any_target = lambda r: {k: v for k, v in r.items() if k != "to"}
    yield "the policy is not enforced", [], ["others do not reach the ring", "the ring reaches nothing else"]
    yield "ingress from all peers", [without(policy, "ingress", any_peer)], ["others do not reach the ring"]
    yield "egress to all addresses", [without(policy, "egress", any_target)], ["the ring reaches nothing else"]
    yield "no port for data", [without(policy, "ingress", lambda r: dict(r, ports=[p for p in r["ports"] if p["port"] != 2224]))], [
        "pods of the ring reach each other"]
    yield "no DNS", [without(policy, "egress", no_port(53))], ["DNS is admitted"]
    other = copy.deepcopy(policy)
    other["spec"]["podSelector"]["matchLabels"]["app.kubernetes.io/instance"] = "another"
    yield "the policy selects other pods", [other], ["others do not reach the ring"]


# ---- a ring with the policy ----

def environment(container, replicas):
    names = {"QRING_PEER_TEMPLATE", "QRING_REPLICAS"}
    given = {e["name"]: e.get("value", replicas) for e in container["env"]}
    return {k: given[k] for k in names}


def trains(what, every, bucket, digest):
    """Train with both pods of the manifest, addressed by name, to the bits of one worker."""
    runs = next(d for d in every if d["kind"] in ("Job", "StatefulSet"))
    replicas = next(d["data"]["replicas"] for d in every if d["kind"] == "ConfigMap")
    env = dict(os.environ, **environment(runs["spec"]["template"]["spec"]["containers"][0], replicas))
    env.pop("QRING_HTTP_PORT")
    flags = ["--epochs", "2", "--start-timeout", "15s", "--form-timeout", "15s"]
    if bucket:
        env.update(STORAGE_EMULATOR_HOST=address(OUTSIDE) + ":443", GCE_METADATA_HOST=METADATA)
        flags += ["--weights", "gs://auth-policy/qcnn/weights.h5", "--tls-dir", certificates(job="qcnn", namespace="default")]
    else: flags += ["--plaintext"]
    out = f"{ring.WORK}/{what}"
    with open(out + ".log0", "w") as log0, open(out + ".log1", "w") as log1:
        running = [subprocess.Popen([*inside(i), ring.QRINGD, "deploy/jobs/qcnn.json", "--index", str(i), "--out", f"{out}{i}", *flags],
                                    env=env, stdout=log, stderr=log, stdin=subprocess.DEVNULL) for i, log in ((0, log0), (1, log1))]
        codes = []
        for p in running:
            try: codes.append(p.wait(60))
            except subprocess.TimeoutExpired:
                p.kill()
                codes.append(p.wait())
    last = lambda i: open(f"{out}.log{i}").read()[-400:]
    check(f"{what}: two pods with the policy end with 0 0, not {codes}: {last(0)} {last(1)}", codes == [0, 0])
    got = f"{out}0/result.json"
    check(f"{what}: to the digest of one worker", os.path.exists(got) and ring.json.load(open(got))["state_digest"] == digest)


def serve():
    """Start the fake bucket on port 443 of OUTSIDE; the metadata server's port 80 redirects to it."""
    written = ring.WORK + "/port"
    fake = subprocess.Popen([*inside(OUTSIDE), sys.executable, "-B", "tests/fake/gcs.py", "443", written, "0.0.0.0"],
                            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    run(*inside(OUTSIDE), "nft", "-f", "-", text="table ip twice { chain pre { type nat hook prerouting priority -100; tcp dport 80 redirect to :443; }; }\n")
    check("the fake bucket listens", until(lambda: os.path.exists(written), 20))
    return fake


def listen():
    held = []
    for i, all_ports in OPEN.items():
        for port in all_ports:
            s = socket_in(i, socket.AF_INET, socket.SOCK_STREAM)
            s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            s.bind(("0.0.0.0", port))
            s.listen(64)
            held.append(s)
    return held


def main():
    enter(nameserver=True)
    shutil.rmtree(ring.WORK + "/one", ignore_errors=True)
    for i in OPEN: pod(i)
    run(*inside(OUTSIDE), "ip", "addr", "add", METADATA + "/32", "dev", "eth0")
    for i in RING: run(*inside(i), "ip", "route", "add", METADATA + "/32", "dev", "eth0")
    names = namespaces_dns.Names()
    for i in RING: names.answer[f"qcnn-{i}.qcnn.default.svc"] = names.address(address(i))
    one = subprocess.run([ring.QRING, "run", "deploy/jobs/qcnn.json", "-n", "1", "--epochs", "2", "--out", ring.WORK + "/one"],
                         capture_output=True, stdin=subprocess.DEVNULL)
    check(f"one worker trains: {one.stderr[-300:]}", one.returncode == 0)
    with open(ring.WORK + "/one/result.json", encoding="utf-8") as f: digest = ring.json.load(f)["state_digest"]
    for file, bucket in (("qcnn.yaml", False), ("statefulset.yaml", True)):
        every = objects(file)
        (policy,) = [d for d in every if d["kind"] == "NetworkPolicy"]
        runs = next(d for d in every if d["kind"] in ("Job", "StatefulSet"))
        own = runs["spec"]["template"]["metadata"]["labels"]
        labels = {0: own, 1: own, STRANGER: {"app.kubernetes.io/name": "web"}, OTHER: dict(own, **{"app.kubernetes.io/instance": "other"})}
        held = listen()
        enforce([policy], labels)
        for line in (found := wrong(bucket)) or ["everything"]: check(f"{file}: {line}", not found)
        for what, planted, reported in plant(policy, bucket):
            enforce(planted, labels)
            violations = wrong(bucket, 0.5)
            for words in reported: check(f"{file}: {what}: the violation of \"{words}\" is reported: {violations}", any(words in s for s in violations))
        for s in held: s.close()
        enforce([policy], labels)
        fake = serve() if bucket else None
        trains(file.removesuffix(".yaml"), every, bucket, digest)
        if fake: fake.kill()
    print("{passed} passed, {failed} failed, {skipped} skipped".format(**ring.counts))


main()
