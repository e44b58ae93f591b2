"""Run by tests/it/policy.sh in its own namespaces: pods, the rules of a NetworkPolicy in front of them, and which pods reach each other."""
import copy, os, select, shutil, socket, struct, subprocess, sys

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "faults"))
import ring

ring.WORK = os.environ["WORK"]
import namespaces_dns
from namespaces import GATEWAY, address, certificates, enter, inside, pod, run, socket_in
from ring import check, until
import yaml

RING, STRANGER, OTHER, OUTSIDE = (0, 1), 2, 3, 4  # OUTSIDE: no pod: the bucket, and the metadata server's address too
METADATA = "169.254.169.254"
OPEN = {0: (2222, 2224, 8080, 9999), 1: (2222, 2224, 8080, 9999), STRANGER: (443, 2222), OTHER: (2222, 2224), OUTSIDE: (80, 443, 988, 2222, 5000)}
# Seconds for what must come, and, once all of that has, for what must not: the kernel asks once, and again only after a second.
PATIENCE, AFTERWARDS = 3, 0.2


def objects(file):
    with open("deploy/jobs/" + file, encoding="utf-8") as f:
        return [d for d in yaml.safe_load_all(f) if d]


# ---- a policy as rules ----

def selects(selector, labels):
    if set(selector) - {"matchLabels"}: raise ValueError(f"a selector of another kind: {selector}")
    return all(labels.get(k) == v for k, v in selector.get("matchLabels", {}).items())


def peers(side, rule, labels):
    """What a rule's other ends are, as nft's matches; [""]: anyone."""
    if side not in rule: return [""]
    way, found = {"from": "ip saddr", "to": "ip daddr"}[side], []
    for peer in rule[side]:
        if set(peer) == {"podSelector"}:
            found += [f"{way} {address(i)}" for i, l in labels.items() if selects(peer["podSelector"], l)]
        elif set(peer) == {"ipBlock"} and set(peer["ipBlock"]) == {"cidr"}:
            found.append(f"{way} {peer['ipBlock']['cidr']}")
        else: raise ValueError(f"a peer of another kind: {peer}")
    return found


def ports(rule):
    if "ports" not in rule: return [""]
    return [f"{p.get('protocol', 'TCP').lower()} dport {p['port']}" for p in rule["ports"]]


def rules(policy, labels):
    """nft's text for each pod that the policy selects."""
    spec = policy["spec"]
    text = "table ip wall {\n"
    for kind, side, hook, itself in (("Ingress", "from", "input", "iif"), ("Egress", "to", "output", "oif")):
        if kind not in spec["policyTypes"]: continue
        text += f" chain {hook} {{ type filter hook {hook} priority 0; policy drop; ct state established,related accept; {itself} lo accept\n"
        for rule in spec.get(kind.lower(), []):
            text += "".join(f"  {who} {which} accept\n" for who in peers(side, rule, labels) for which in ports(rule))
        text += " }\n"
    return {i: text + "}\n" for i, l in labels.items() if selects(spec["podSelector"], l)}


def enforce(policies, labels):
    """No rules where there is no policy. More than one for a pod would add up, which nothing here needs."""
    texts = {i: "" for i in labels}
    for policy in policies:
        for i, text in rules(policy, labels).items():
            if texts[i]: raise ValueError("two policies for one pod")
            texts[i] = text
    start = lambda i: subprocess.Popen([*inside(i), "nft", "-f", "-"], stdin=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    for i, p in [(i, start(i)) for i in texts]:
        _, said = p.communicate("table ip wall\ndelete table ip wall\n" + texts[i])
        if p.returncode: raise RuntimeError(f"nft in pod {i}: {said.strip()}")


# ---- who reaches whom ----

def ask_dns(s):
    s.sendto(struct.pack(">HHHHHH", 7, 0x100, 1, 0, 0, 0) + b"\6qcnn-0\4qcnn\7default\3svc\7cluster\5local\0" + struct.pack(">HH", 1, 1), (GATEWAY, 53))


def reached(wanted, awaited, patience):
    """Of (pod, address, port) those that a connection is made to; those awaited are waited for; "53/udp" is asked, not connected to."""
    waiting, found = {}, set()
    for who in wanted:
        udp = who[2] == "53/udp"
        s = socket_in(who[0], socket.AF_INET, socket.SOCK_DGRAM if udp else socket.SOCK_STREAM)
        s.setblocking(False)
        try:
            if udp: ask_dns(s)
            else: s.connect_ex(who[1:])
        except PermissionError: s.close()  # what goes out is refused at once
        else: waiting[s] = who
    poll = select.poll()
    for s, who in waiting.items(): poll.register(s, select.POLLIN if who[2] == "53/udp" else select.POLLOUT)
    by_fd = {s.fileno(): s for s in waiting}
    end = ring.time.monotonic() + patience
    while waiting and (left := end - ring.time.monotonic()) > 0:
        if awaited <= found:
            end = min(end, ring.time.monotonic() + AFTERWARDS)
            awaited = {None}
        for fd, _ in poll.poll(left * 1000):
            s = by_fd[fd]
            who = waiting.pop(s)
            if who[2] == "53/udp" or s.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR) == 0: found.add(who)
            poll.unregister(fd)
            s.close()
    for s in waiting: s.close()
    return found


def expected(bucket):
    """(pod, address, port) -> whether it is reached, and what that is."""
    a, b = RING
    table = {}
    for x, y in ((a, b), (b, a)):
        for port in (2222, 2224): table[x, address(y), port] = True, "pods of the ring reach each other"
        table[x, address(y), 9999] = False, "a port that is none of the ring's"
    for x in (STRANGER, OTHER, OUTSIDE):
        for port in (2222, 2224, 9999): table[x, address(a), port] = False, "others do not reach the ring"
        table[x, address(a), 8080] = True, "anyone may read metrics"
    for i in RING:
        table[i, GATEWAY, "53/udp"] = table[i, GATEWAY, 53] = True, "DNS goes through"
        for y, port in ((STRANGER, 2222), (OTHER, 2222), (OTHER, 2224), (OUTSIDE, 2222), (OUTSIDE, 5000), (OUTSIDE, 80)):
            table[i, address(y), port] = False, "the ring reaches nothing else"
        table[i, address(OUTSIDE), 443] = bucket, "a bucket goes through where one is named"
        for port in (80, 988): table[i, METADATA, port] = bucket, "so does the metadata server"
        table[i, METADATA, 5000] = False, "and nothing else of it"
    return table


def wrong(bucket, patience=PATIENCE):
    """Sentences about what is not as expected."""
    table = expected(bucket)
    found = reached(table, {who for who, (good, _) in table.items() if good}, patience)
    return sorted(f"{why}: {who} is {'reached' if who in found else 'not reached'}" for who, (good, why) in table.items() if (who in found) != good)


def without(policy, side, *which):
    """The policy, planted: rules for which a function says so are gone or changed."""
    policy = copy.deepcopy(policy)
    policy["spec"][side] = [r for r in (f(r) for r in policy["spec"][side] for f in which) if r]
    return policy


def plant(policy, bucket):
    """(what is planted, the policies that stand then, what must be noticed)."""
    no_port = lambda port: lambda r: None if any(p["port"] == port for p in r["ports"]) else r
    if bucket:
        yield "no bucket", [without(policy, "egress", no_port(443))], ["a bucket goes through where one is named"]
        return
    anyone = lambda r: {k: v for k, v in r.items() if k != "from"}
    anywhere = lambda r: {k: v for k, v in r.items() if k != "to"}
    yield "it is not enforced", [], ["others do not reach the ring", "the ring reaches nothing else"]
    yield "whoever comes is let in", [without(policy, "ingress", anyone)], ["others do not reach the ring"]
    yield "the ring may go anywhere", [without(policy, "egress", anywhere)], ["the ring reaches nothing else"]
    yield "no port for data", [without(policy, "ingress", lambda r: dict(r, ports=[p for p in r["ports"] if p["port"] != 2224]))], [
        "pods of the ring reach each other"]
    yield "no DNS", [without(policy, "egress", no_port(53))], ["DNS goes through"]
    other = copy.deepcopy(policy)
    other["spec"]["podSelector"]["matchLabels"]["app.kubernetes.io/instance"] = "another"
    yield "it selects other pods", [other], ["others do not reach the ring"]


# ---- a ring behind it ----

def environment(container, replicas):
    names = {"QRING_PEER_TEMPLATE", "QRING_REPLICAS"}
    given = {e["name"]: e.get("value", replicas) for e in container["env"]}
    return {k: given[k] for k in names}


def trains(what, every, bucket, digest):
    """Both pods of the manifest, by their names, with the same bits as one worker."""
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
    check(f"{what}: two pods behind it end with 0 0, not {codes}: {last(0)} {last(1)}", codes == [0, 0])
    got = f"{out}0/result.json"
    check(f"{what}: to the digest of one worker", os.path.exists(got) and ring.json.load(open(got))["state_digest"] == digest)


def serve():
    """The fake bucket on port 443 of OUTSIDE, which is the metadata server's port 80 as well."""
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
        for what, planted, noticed in plant(policy, bucket):
            enforce(planted, labels)
            said = wrong(bucket, 0.5)
            for words in noticed: check(f"{file}: {what}: it is noticed that not \"{words}\": {said}", any(words in s for s in said))
        for s in held: s.close()
        enforce([policy], labels)
        fake = serve() if bucket else None
        trains(file.removesuffix(".yaml"), every, bucket, digest)
        if fake: fake.kill()
    print("{passed} passed, {failed} failed, {skipped} skipped".format(**ring.counts))


main()
