"""Pods in network namespaces for the fault rows: one namespace per pod with nftables rules,
connected by a bridge or by tests/faults/proxy.c.

enter() restarts the program in its own namespaces, which end with the program. Where namespaces are
forbidden it prints one SKIP and exits. Pods reach each other by address (10.77.0.10 + index), or by
name where the program runs a DNS server at 10.77.0.1. Frames pass the bridge, or, in
`with Proxy(...)`, the proxy.
"""
import ctypes, os, socket, struct, subprocess, sys, threading, time

import ring

PROXY = os.path.join(ring.ROOT, os.environ.get("QR_B", "build/release"), "tests/faults/proxy")
GATEWAY = "10.77.0.1"
libc = ctypes.CDLL(None, use_errno=True)
os.environ["PATH"] += ":/usr/sbin:/sbin"


def run(*command, check=True, text=None):
    p = subprocess.run(command, input=text, capture_output=True, text=True, stdin=None if text is not None else subprocess.DEVNULL)
    if check and p.returncode: raise RuntimeError(f"{' '.join(command)}: {(p.stderr or p.stdout).strip()}")
    return p.stdout


def forbidden():
    """Returns why pods cannot be created, or None. The trial's namespaces end with its shell."""
    for tool in ("unshare", "nsenter", "ip", "nft", "tc"):
        if subprocess.run(["sh", "-c", f"command -v {tool}"], stdout=subprocess.DEVNULL).returncode: return f"no {tool}: make deps"
    trial = ("mount -t tmpfs tmpfs /run && ip link set lo up && ip link add br9 type bridge && ip netns add probe"
             " && ip link add a9 type veth peer name b9 netns probe && nft add table ip t"
             " && nft add chain ip t f '{ type filter hook input priority 0; }' && nft add rule ip t f numgen random mod 9 0 drop"
             f" && {PROXY} a9 br9 </dev/null")
    p = subprocess.run(["unshare", *unshare_flags(), "sh", "-c", trial], capture_output=True, text=True)
    return "network namespaces are forbidden here: " + (p.stderr.strip().splitlines() or ["?"])[-1] if p.returncode else None


def unshare_flags(): return ["-n", "-m"] if os.geteuid() == 0 else ["-U", "-r", "-n", "-m"]


def enter(nameserver=False):
    """Continues inside the namespaces. nameserver: resolve names at the gateway, with a resolv.conf
    like that of Kubernetes."""
    if os.environ.get("QR_INSIDE") != "yes":
        why = forbidden()
        if why:
            print("SKIP", why)
            print("0 passed, 0 failed, 1 skipped")
            sys.exit(0)
        os.environ["QR_INSIDE"] = "yes"
        os.execvp("unshare", ["unshare", *unshare_flags(), "--fork", "--kill-child", sys.executable, *sys.argv])
    run("mount", "-t", "tmpfs", "tmpfs", "/run")
    run("ip", "link", "set", "lo", "up")
    run("ip", "link", "add", "br0", "address", "02:00:0a:4d:00:01", "type", "bridge")  # fixed: by default the address changes as pods are added, and their ARP entries are stale
    run("ip", "addr", "add", GATEWAY + "/24", "dev", "br0")
    run("ip", "link", "set", "br0", "up")
    if not nameserver: return
    os.makedirs(ring.WORK, exist_ok=True)
    with open(ring.WORK + "/resolv.conf", "w") as f:
        f.write(f"nameserver {GATEWAY}\nsearch default.svc.cluster.local svc.cluster.local cluster.local\noptions ndots:5\n")
    run("mount", "--bind", ring.WORK + "/resolv.conf", os.path.realpath("/etc/resolv.conf"))


made = set()


def address(i): return f"10.77.0.{10 + i}"


def pod(i):
    """Name of pod i's namespace, which the first call creates."""
    name = f"p{i}"
    if i in made: return name
    made.add(i)
    run("ip", "netns", "add", name)
    run("ip", "link", "add", f"v{i}", "type", "veth", "peer", "name", "eth0", "netns", name)
    run("ip", "link", "set", f"v{i}", "master", "br0", "up")
    run("nsenter", f"--net=/run/netns/{name}", "sh", "-c",
        f"ip link set lo up && ip addr add {address(i)}/24 dev eth0 && ip link set eth0 up && ip route add default via {GATEWAY}")
    return name


def inside(i): return ["nsenter", f"--net=/run/netns/{pod(i)}"]


class Pods(ring.Ring):
    """A ring whose worker i runs in pod i (or at[i]), with TLS or without."""

    def __init__(self, name, job_file, n, epochs, flags=(), tls=True, peers=None, at=None, **more):
        self.at = dict(at or {})
        flags = [*flags, *([] if tls else ["--plaintext"])]
        for i in range(n): pod(self.at.get(i, i))
        super().__init__(name, job_file, n, epochs, flags, peers or [f"{address(i)}:2222" for i in range(n)],
                         prefix=lambda i: inside(self.at.get(i, i)), tls=certificates() if tls is True else tls or None, **more)

    def regroups(self, i=0): return self.log(i).count("resumed after step")

    def rate(self, seconds):
        """Lines of steps.jsonl a second, measured from now on."""
        before, at = self.lines(), time.monotonic()
        time.sleep(seconds)
        return (self.lines() - before) / (time.monotonic() - at)

    def metrics(self, i):
        """Worker i's /metrics by name; {} when it does not answer. Needs --http-port 8080."""
        values = {}
        try:
            with socket_in(self.at.get(i, i)) as s:
                s.settimeout(1)
                s.connect(("127.0.0.1", 8080))
                s.sendall(b"GET /metrics HTTP/1.0\r\n\r\n")
                text = b"".join(iter(lambda: s.recv(65536), b"")).decode()
        except OSError: return values
        for line in text.splitlines():
            name, _, value = line.rpartition(" ")
            if not name.startswith("#") and name.startswith("qring"): values[name] = float(value)
        return values


def socket_in(i, *kind):
    """Creates a socket (default TCP) in pod i's namespace; the thread returns to its own."""
    home, there = os.open("/proc/thread-self/ns/net", os.O_RDONLY), os.open(f"/run/netns/{pod(i)}", os.O_RDONLY)
    try:
        if libc.setns(there, 0): raise OSError(ctypes.get_errno(), "setns")
        try: return socket.socket(*kind)
        finally: libc.setns(home, 0)
    finally:
        os.close(home)
        os.close(there)


def certificates(name="tls", namespace="ml", job="faults"):
    path = f"{ring.WORK}/{name}"
    if not os.path.exists(path + "/tls.crt"):
        run(ring.QRING, "certs", job, "--namespace", namespace, "--service", job, "--out", path)
    return path


# ---- nftables rules of the pods ----

def cut(rules):
    """Sets rules for packets into pods, {pod: ["ip saddr 10.77.0.10 drop", ...]}, and removes those
    of all other pods. {}: everything passes."""
    texts = {i: "add table ip cuts\ndelete table ip cuts\n" for i in made}
    for i, lines in rules.items():
        texts[i] += "add table ip cuts\nadd chain ip cuts in { type filter hook input priority 0; }\n"
        texts[i] += "".join(f"add rule ip cuts in {l}\n" for l in lines)
    start = lambda i: subprocess.Popen([*inside(i), "nft", "-f", "-"], stdin=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    for i, p in [(i, start(i)) for i in texts]:
        _, error = p.communicate(texts[i])
        if p.returncode: raise RuntimeError(f"nft in pod {i}: {error.strip()}")


def one_way(a, b): return {b: [f"ip saddr {address(a)} drop"]}
def partition(some, others): return {x: [f"ip saddr {address(y)} drop" for y in far] for near, far in ((some, others), (others, some)) for x in near}
def losing(percent, pods): return {i: [f"ip protocol tcp numgen random mod 1000 < {round(percent * 10)} drop"] for i in pods}


def reset(pods):
    """Ends every TCP connection of these pods within milliseconds, as `ss -K` does: an error
    locally, an RST to the peer. Returns their number."""
    diag, destroy, dump, acknowledge, established = 20, 21, 0x301, 5, 1 << 1
    found = []
    for i in pods:
        s = socket_in(i, socket.AF_NETLINK, socket.SOCK_RAW, 4)
        for family in (socket.AF_INET, socket.AF_INET6):
            s.send(struct.pack("=IHHII", 72, diag, dump, 1, 0) + struct.pack("=BBBBI48x", family, socket.IPPROTO_TCP, 0, 0, established))
            more = True
            while more:
                data, at = s.recv(1 << 16), 0
                while at < len(data):
                    n, kind = struct.unpack_from("=IH", data, at)
                    if kind == diag: found.append((s, family, data[at + 20:at + 68]))
                    more = kind == diag
                    at += (n + 3) & ~3
    for s, family, name in found:
        which = struct.pack("=BBBBI", family, socket.IPPROTO_TCP, 0, 0, established) + name
        s.send(struct.pack("=IHHII", 72, destroy, acknowledge, 2, 0) + which)
    for s in {s for s, _, _ in found}: s.close()
    return len(found)


class Proxy:
    """Context manager: the proxy in place of the bridge between these pods. Delays each frame by
    delay_us."""

    def __init__(self, *pods, delay_us=0): self.pods, self.delay_us = pods, delay_us

    def __enter__(self):
        for i in self.pods:
            pod(i)
            run("ip", "link", "set", f"v{i}", "nomaster")
        self.process = subprocess.Popen([PROXY, *(f"v{i}" for i in self.pods)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        if self.process.stdout.readline() != "ready\n": raise RuntimeError("the proxy does not start")
        try: os.setpriority(os.PRIO_PROCESS, self.process.pid, -15)  # keeps other programs from adding delay
        except PermissionError: pass
        self.order(f"* * delay {self.delay_us}")
        return self

    def send(self, order):
        self.process.stdin.write(order + "\n")
        self.process.stdin.flush()
        return self.process.stdout.readline().strip()

    def order(self, order):
        answer = self.send(order)
        if answer != "ok": raise RuntimeError(f"the proxy answers '{answer}' to '{order}'")

    def count(self):
        names = ("frames", "bytes", "lost", "doubled", "reordered", "flipped", "mean_ns", "worst_ns")
        return dict(zip(names, map(int, self.send("count").split())))

    def __exit__(self, *_):
        self.process.stdin.close()
        self.process.wait()
        for i in self.pods: run("ip", "link", "set", f"v{i}", "master", "br0")


class Watch(threading.Thread):
    """Calls look() every 2 ms and keeps (time, value) of each value that is new and not None."""

    def __init__(self, look):
        super().__init__(daemon=True)
        self.look, self.seen, self.closed = look, [], False
        self.start()

    def run(self):
        while not self.closed:
            value = self.look()
            if value is not None and (not self.seen or self.seen[-1][1] != value): self.seen.append((time.monotonic(), value))
            time.sleep(0.002)

    def close(self):
        self.closed = True
        self.join()
        return [v for _, v in self.seen]
