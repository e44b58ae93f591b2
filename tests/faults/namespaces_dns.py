"""A cluster's DNS server that can give wrong, late or cached answers to pods of namespaces.py:
UDP and TCP on the gateway's port 53, one answer per name.

answer["w0.job.default.svc"] = Names.address("10.77.0.10"), Names.NXDOMAIN, ... ; other names do not exist. Pods use a search
list as in Kubernetes: the complete name is w0.job.default.svc.cluster.local. asked[] has (time, name, answer) of each query.
"""
import socket, struct, threading, time

from namespaces import GATEWAY

SUFFIX = ".cluster.local"
A, SRV = 1, 33


class Names:
    NXDOMAIN, SERVFAIL, SILENCE = ("nxdomain",), ("servfail",), ("silence",)

    @staticmethod
    def address(*ips, truncated=False, after=0.0, lost=False):
        """truncated: over UDP only half of the answer and the bit that says so. after: seconds until it leaves. lost: each question's first."""
        return "address", ips, truncated, after, lost

    def __init__(self):
        self.answer, self.asked, self.heard = {}, [], set()
        self.remembers, self.said = {}, {}  # job -> seconds; what was said, until when
        self.udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.udp.bind((GATEWAY, 53))
        self.tcp = socket.create_server((GATEWAY, 53), backlog=64)
        threading.Thread(target=self._datagrams, daemon=True).start()
        threading.Thread(target=self._connections, daemon=True).start()

    def _datagrams(self):
        while True:
            question, who = self.udp.recvfrom(4096)
            self._later(question, False, lambda a, who=who: self.udp.sendto(a, who))

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
            except OSError: pass  # who asked is gone
        if reply and after: threading.Timer(after, go).start()
        elif reply: go()

    def _remembered(self, name, form, told):
        """As CoreDNS' cache: by name, type, DO and CD, also that there is none."""
        seconds = next((s for job, s in self.remembers.items() if f".{job}." in name), 0)
        before, end = self.said.get((name, form), (None, 0))
        if time.monotonic() < end: return before
        if seconds: self.said[name, form] = told, time.monotonic() + seconds
        return told

    def _reply(self, question, tcp):
        ident, = struct.unpack(">H", question[:2])
        labels, at = [], 12
        while question[at]:
            labels.append(question[at + 1:at + 1 + question[at]].decode().lower())
            at += 1 + question[at]
        kind, = struct.unpack(">H", question[at + 1:at + 3])
        name, asked = ".".join(labels), question[12:at + 5]
        told = self.answer.get(name.removesuffix(SUFFIX), self.NXDOMAIN) if name.endswith(SUFFIX) else self.NXDOMAIN
        opt = question[at + 5:at + 16]
        form = kind, len(opt) == 11 and bool(opt[7] & 0x80), bool(question[3] & 0x10)
        told = self._remembered(name, form, told)
        self.asked.append((time.monotonic(), name, told[0] + (" by TCP" if tcp else "")))
        flags, records, beside, after = 0x8180, [], [], 0
        if told is self.SILENCE: return None, 0
        if told is self.NXDOMAIN: flags |= 3
        elif told is self.SERVFAIL: flags |= 2
        else:
            _, ips, truncated, after, lost = told
            if lost and question not in self.heard:
                self.heard.add(question)
                return None, 0
            where = [b"\xc0\x0c" + struct.pack(">HHIH", A, 1, 0, 4) + socket.inet_aton(ip) for ip in ips]
            if kind == A: records = where
            if kind == SRV:  # as a cluster's DNS for the name of a pod: itself, and its address beside
                records = [b"\xc0\x0c" + struct.pack(">HHIHHHH", SRV, 1, 0, 8, 0, 100, 2222) + b"\xc0\x0c"]
                beside = where
            if not tcp and (truncated or len(records) > 25):
                flags |= 0x200
                records = records[:len(records) // 2][:25]
        return struct.pack(">HHHHHH", ident, flags, 1, len(records), 0, len(beside)) + asked + b"".join(records + beside), after
