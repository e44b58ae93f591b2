#!/usr/bin/python3
"""Rows 31-34: hostile peers, with the job's certificate and without, beside two workers that
train over TLS. Memory of the attacked worker, its generation, its counters and every step are
checked; at the end each step and the digest are those of one worker alone."""
import json, os, shutil, socket, ssl, threading, time

import attacks
from ring import check, folder, job, main, report, row, until
from watched import IDLE_KB, PEER_KB, start_attacked, call, certificates, cut, finish, fork, issued, refused, start, state


@row(31)
def attacks_in_turn():
    r, w, tls, go = start_attacked("attacks", 31)
    control, data = w.ports()
    slow = [fork.Process(target=f, args=(p, tls), daemon=True) for f in (attacks.slow_reader, attacks.slow_reader_no_cert) for p in (control, data)]
    before, had_kb = w.metrics(), w.kb("VmRSS")
    for p in slow: p.start()
    time.sleep(2)
    report(31, "slow readers, two with the certificate and two without", f"{(w.kb('VmRSS') - had_kb) / 1024:.1f} MB more", f"{len(slow) * PEER_KB >> 10} MB")
    check("slow readers: memory", w.kb("VmRSS") - had_kb <= len(slow) * PEER_KB)
    for name, port in ("control", control), ("data", data):
        go(f"streams reset 20 000 times, certificate, {name} port", attacks.rapid_reset, port, rises=cut)
        go(f"a message of 256 MB, {name} port", attacks.oversize_message, port)
        go(f"an endless stream of messages, {name} port", attacks.endless_stream, port)
    go("10 000 streams, settings never acknowledged", attacks.streams_unacknowledged, control, rises=cut)
    go("endless SETTINGS, acknowledgements unread", attacks.settings_unread, control)
    go("a frame of 16 MB", attacks.oversize_frame, control)
    go("headers without end", attacks.endless_headers, control)
    go("one byte at a time, certificate", attacks.bytewise, control)
    go("one byte at a time, no certificate", attacks.bytewise_no_cert, control, rises=refused)
    go("streams reset without a certificate", attacks.rapid_reset_no_cert, control, rises=refused)
    go("TLS records of 64 KB without end", attacks.oversize_record, control, rises=refused)
    go("garbage before TLS, 100 times", attacks.garbage, control, rises=refused)
    go("3000 connects that are reset", attacks.resets, control, 3000 * IDLE_KB, each=3000)
    hello = attacks.client_hello()
    for what, first in ("1000 silent connections", b""), ("1000 connections with half a ClientHello", hello[:len(hello) // 2]), \
            ("1000 connections that stop after the ClientHello", hello):
        go(what, attacks.many(1000, first, 1), control, 1000 * IDLE_KB, rises=cut, each=1000)
    for p in slow: p.join(10)
    check("slow readers: state", state(before) == state(w.metrics()))
    report(31, "changes of the ring during all attacks", int(w.metrics()["qring_regroups_total"]), 0)
    report(31, "steps, all equal to one worker's", finish(r), "all")


@row(32)
def wrong_certificates():
    name = job("strangers")
    tls = certificates("strangers-tls", name, "--keep-ca")
    certs = {"no_certificate": None, "wrong_ca": certificates("wrong-ca", name),
             "foreign_job": certificates("foreign-job", "other", "--ca", tls), "expired": issued(tls, "expired", ["URI.1=qring://default/strangers"], days=0),
             "foreign namespace": certificates("foreign-namespace", name, "--namespace", "elsewhere", "--ca", tls)}
    r, w = start("strangers", tls=tls)
    for reason, cert in certs.items():
        key = 'qring_tls_refused_total{reason="%s"}' % reason.replace("foreign namespace", "foreign_job")
        before = w.metrics()
        for port in w.ports():
            for _ in range(5): call(port, cert)
        check(f"{reason}: counted", until(lambda: w.metrics()[key] >= before[key] + 10, every=0.1))
        after = w.metrics()
        check(f"{reason}: {state(after)}", state(before) == state(after) and before["qring_tls_accepted_total"] == after["qring_tls_accepted_total"])
        report(32, reason, f"10 calls, {after[key] - before[key]:.0f} refused", "10; no change of state")
    report(32, "steps, all equal to one worker's", finish(r), "all")


class Tap:
    """Proxy with the job's certificate between worker 1 and worker 0's control port. Records what
    worker 1 sends: decrypted, and as encrypted again towards worker 0."""

    def __init__(self, to, cert):
        self.to, self.cert, self.sessions = to, cert, []
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self):
        c = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        c.load_cert_chain(self.cert + "/tls.crt", self.cert + "/tls.key")
        c.load_verify_locations(self.cert + "/ca.crt")
        c.verify_mode = ssl.CERT_OPTIONAL
        c.set_alpn_protocols(["h2"])
        while True:
            s, _ = self.listener.accept()
            threading.Thread(target=self._one, args=(c, s), daemon=True).start()

    def _one(self, c, s):
        try:
            far, plain, cipher = attacks.tcp(self.to), bytearray(), bytearray()
            near, there = c.wrap_socket(s, server_side=True), attacks.context(self.cert).wrap_bio(i := ssl.MemoryBIO(), o := ssl.MemoryBIO())
            lock = threading.Lock()
            def flush():
                b = o.read()
                cipher.extend(b)
                far.sendall(b)
            while True:
                try:
                    there.do_handshake()
                    break
                except ssl.SSLWantReadError:
                    flush()
                    i.write(far.recv(65536))
            flush()
            self.sessions.append((plain, cipher))
            far.settimeout(None)
            near.settimeout(0.01)
            def back():
                try:
                    while b := far.recv(65536):
                        i.write(b)
                        while True:
                            try:
                                with lock: p = there.read(65536)
                            except ssl.SSLWantReadError: break
                            with lock: near.sendall(p)
                except (OSError, ssl.SSLError): near.close()
            threading.Thread(target=back, daemon=True).start()
            while True:
                try:
                    with lock: b = near.recv(65536)
                except TimeoutError:
                    time.sleep(0.005)
                    continue
                if not b: break
                with lock:
                    plain.extend(b)
                    there.write(b)
                    flush()
        except (OSError, ssl.SSLError): pass
        finally: s.close()


def replay(port, what, cert):
    """Sends a recorded session again; cert None: its encrypted bytes."""
    try:
        s = attacks.context(cert).wrap_socket(attacks.tcp(port)) if cert else attacks.tcp(port)
        s.sendall(what)
        s.settimeout(1.5)
        while s.recv(4096): pass
    except OSError: pass


def replay_inside_tls(what, r, w, plain, cert):
    before, lines = w.metrics(), r.lines()
    replay(w.control, plain, cert)
    check(f"{what}: training continues", until(lambda: r.lines() > lines + 50))
    time.sleep(2)
    after = w.metrics()
    changes = after["qring_regroups_total"] - before["qring_regroups_total"]
    report(33, f"a session replayed {what}", f"{changes:.0f} changes of the ring", "no step lost")


@row(33)
def replays():
    tls = certificates("replays-tls", job("replays"))
    taps = []
    def behind_a_tap(r):
        taps.append(Tap(int(r.peers[0].split(":")[1]), tls))
        peers = [f"127.0.0.1:{taps[0].port}", r.peers[1]]
        return {"TF_CONFIG": json.dumps({"cluster": {"worker": peers}, "task": {"type": "worker", "index": 1}})}
    r, w = start("replays", tls=tls, views={1: behind_a_tap})
    longest = lambda: max(taps[0].sessions, key=lambda session: len(session[0]), default=(b"", b""))
    if not check("the tap recorded a session", until(lambda: len(longest()[0]) > 500 and w.metrics()["qring_members"] == 2, every=0.1)): return
    plain, cipher = (bytes(b) for b in longest())
    before = w.metrics()
    for _ in range(10): replay(w.control, cipher, None)
    check("replays of a session's bytes are counted", until(lambda: refused(w.metrics()) >= refused(before) + 10, every=0.1))
    after = w.metrics()
    check(f"replayed bytes change nothing: {state(after)}", state(before) == state(after) and before["qring_tls_accepted_total"] == after["qring_tls_accepted_total"])
    report(33, "a session's bytes replayed", f"10 times, {refused(after) - refused(before):.0f} refused", "10; no change of state")
    replay_inside_tls("by a holder of the certificate, of a connected worker", r, w, plain, tls)
    before = w.metrics()
    r.kill(1)
    r.worker[1].wait()
    r.start(1)
    joined = lambda m: m["qring_members"] == 2 and m["qring_regroups_total"] >= before["qring_regroups_total"] + 2
    check("a new worker 1 joins", until(lambda: joined(w.metrics()), every=0.05))
    time.sleep(0.5)
    replay_inside_tls("by a holder of the certificate, of a worker restarted since", r, w, plain, tls)
    if 1 not in r.alive(): r.start(1)
    check("both train again", until(lambda: w.metrics()["qring_members"] == 2, every=0.05))
    del taps[0].sessions[:]
    report(33, "steps, all equal to one worker's", finish(r), "all")


@row(34)
def rotation():
    name = job("rotation")
    a, b = certificates("rotation-a", name, "--keep-ca"), certificates("rotation-b", name, "--keep-ca")
    live, version = folder("rotation-live"), [0]
    def mount(cert, *cas):
        """Renews the files as the kubelet renews a Secret's volume: a new folder, and one link
        switched to it."""
        version[0] += 1
        new = f"{live}/..{version[0]}"
        os.mkdir(new)
        for f in "tls.crt", "tls.key": shutil.copy(f"{cert}/{f}", new)
        with open(new + "/ca.crt", "w") as out:
            for ca in cas:
                with open(ca + "/ca.crt") as f: out.write(f.read())
        os.symlink(f"..{version[0]}", live + "/..new")
        os.rename(live + "/..new", live + "/..data")
    def serial():
        s = attacks.context(b if version[0] >= 4 else a).wrap_socket(attacks.tcp(w.control))
        c = s.getpeercert(True)
        s.close()
        return c
    mount(a, a)
    for f in "tls.crt", "tls.key", "ca.crt": os.symlink(f"..data/{f}", f"{live}/{f}")
    r, w = start("rotation", tls=live)
    before, seen, began = w.metrics(), {serial()}, time.monotonic()
    certificates("", name, "--ca", a, out=a)
    for cert, cas in ((a, (a,)), (a, (a, b)), (b, (a, b)), (b, (b,))):
        mount(cert, *cas)
        time.sleep(1.3)
        seen.add(serial())
    check(f"three certificates were presented: {len(seen)}", len(seen) == 3)
    call(w.control, a)
    key = 'qring_tls_refused_total{reason="wrong_ca"}'
    check("the removed CA is refused", until(lambda: w.metrics()[key] > before[key], every=0.1))
    after = w.metrics()
    check(f"state unchanged: {state(before)}, {state(after)}", state(before) == state(after))
    report(34, "four changes of the files while training", f"{int(after['qring_regroups_total'])} changes of the ring, longest pause "
           f"{r.longest_gap(began, time.monotonic()):.2f} s", "0 failed steps")
    report(34, "steps, all equal to one worker's", finish(r), "all")


main()
