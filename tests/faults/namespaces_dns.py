"""A cluster's DNS server that can give wrong, late or cached answers to pods of namespaces.py:
UDP and TCP on the gateway's port 53, one answer per name.

answer["w0.job.default.svc"] = Names.address("10.77.0.10"), Names.NXDOMAIN, ... ; other names do not
exist. Pods use a search list as in Kubernetes: the complete name is
w0.job.default.svc.cluster.local. asked[] has (time, name, answer) of each query.
"""
import socket, struct, threading, time

from namespaces import GATEWAY

SUFFIX = ".cluster.local"
A, SRV = 1, 33


class Names:
    NXDOMAIN, SERVFAIL, SILENCE = ("nxdomain",), ("servfail",), ("silence",)

    @staticmethod
    def address(*ips, truncated=False, after=0.0, lost=False):
        """truncated: over UDP half of the records and the TC bit. after: seconds of delay. lost:
        drop each query's first transmission."""
        return "address", ips, truncated, after, lost

    def __init__(self):
        self.answer, self.asked, self.dropped = {}, [], set()
        self.cache_seconds, self.cached = {}, {}  # job -> seconds; (name, form) -> (answer, expiry)
        self.udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.udp.bind((GATEWAY, 53))
        self.tcp = socket.create_server((GATEWAY, 53), backlog=64)
        threading.Thread(target=self._datagrams, daemon=True).start()
        threading.Thread(target=self._connections, daemon=True).start()

    def _datagrams(self):
        while True:
            question, client = self.udp.recvfrom(4096)
            self._later(question, False, lambda a, client=client: self.udp.sendto(a, client))

    def _connections(self):
        while True:
            c, _ = self.tcp.accept()
            threading.Thread(target=self._connection, args=(c,), daemon=True).start()

    def _connection(self, c):
        def exactly(n):
            data = b""
            while len(data) < n:
                part = c.recv(n - len(data))
                if not part: raise OSError
                data += part
            return data
        try:
            while True:
                question = exactly(struct.unpack(">H", exactly(2))[0])
                self._later(question, True, lambda a: c.sendall(struct.pack(">H", len(a)) + a))
        except OSError: c.close()

    def _later(self, question, tcp, send):
        reply, after = self._reply(question, tcp)
        def go():
            try: send(reply)
            except OSError: pass  # the client has closed
        if reply and after: threading.Timer(after, go).start()
        elif reply: go()

    def _from_cache(self, name, form, answer):
        """Like CoreDNS' cache: by name, type, DO and CD, negative answers too."""
        seconds = next((s for job, s in self.cache_seconds.items() if f".{job}." in name), 0)
        cached, expiry = self.cached.get((name, form), (None, 0))
        if time.monotonic() < expiry: return cached
        if seconds: self.cached[name, form] = answer, time.monotonic() + seconds
        return answer

    def _reply(self, question, tcp):
        ident, = struct.unpack(">H", question[:2])
        labels, at = [], 12
        while question[at]:
            labels.append(question[at + 1:at + 1 + question[at]].decode().lower())
            at += 1 + question[at]
        kind, = struct.unpack(">H", question[at + 1:at + 3])
        name, asked = ".".join(labels), question[12:at + 5]
        answer = self.answer.get(name.removesuffix(SUFFIX), self.NXDOMAIN) if name.endswith(SUFFIX) else self.NXDOMAIN
        opt = question[at + 5:at + 16]
        form = kind, len(opt) == 11 and bool(opt[7] & 0x80), bool(question[3] & 0x10)
        answer = self._from_cache(name, form, answer)
        self.asked.append((time.monotonic(), name, answer[0] + (" by TCP" if tcp else "")))
        flags, records, additional, after = 0x8180, [], [], 0
        if answer is self.SILENCE: return None, 0
        if answer is self.NXDOMAIN: flags |= 3
        elif answer is self.SERVFAIL: flags |= 2
        else:
            _, ips, truncated, after, lost = answer
            if lost and question not in self.dropped:
                self.dropped.add(question)
                return None, 0
            addresses = [b"\xc0\x0c" + struct.pack(">HHIH", A, 1, 0, 4) + socket.inet_aton(ip) for ip in ips]
            if kind == A: records = addresses
            if kind == SRV:  # like a cluster's DNS for a pod's name: the name itself, and its address as an additional record
                records = [b"\xc0\x0c" + struct.pack(">HHIHHHH", SRV, 1, 0, 8, 0, 100, 2222) + b"\xc0\x0c"]
                additional = addresses
            if not tcp and (truncated or len(records) > 25):
                flags |= 0x200
                records = records[:len(records) // 2][:25]
        return struct.pack(">HHHHHH", ident, flags, 1, len(records), 0, len(additional)) + asked + b"".join(records + additional), after
