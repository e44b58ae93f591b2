"""Malformed HTTP/2 from a seed: header blocks with every metadata name that libgrpc knows, all
forms of HPACK, frames of every kind, trailers, settings, and TLS handshakes with changed bytes;
for a client that attacks a server and a server that attacks its clients. Used by
tests/faults/rows_http2.py."""
import base64, random, socket, ssl, struct, threading

import attacks
from attacks import CONTINUATION, DATA, GOAWAY, HEADERS, PING, PREFACE, PRIORITY, RST_STREAM, SETTINGS, WINDOW_UPDATE, frame, message

PUSH_PROMISE = 5
END_STREAM, END_HEADERS, PADDED, PRIORITIZED = 1, 4, 8, 32

# every key() in gRPC 1.51's src/core/lib/transport/metadata_batch.h, names that its filters use,
# and one of qring's
NAMES = (":path :authority :method :status :scheme content-type te grpc-encoding grpc-internal-encoding-request grpc-accept-encoding grpc-status "
         "grpc-timeout grpc-previous-rpc-attempts grpc-retry-pushback-ms user-agent grpc-message host endpoint-load-metrics-bin grpc-server-stats-bin "
         "grpc-trace-bin grpc-tags-bin grpclb_client_stats lb-cost-bin lb-token x-endpoint-load-metrics-bin grpc-internal-stream-encoding-request "
         "authorization connection content-length cookie transfer-encoding qring-link").encode().split()
VALUES = [b"x", b"", b"-1", b"0", b"1", b"identity", b"gzip,deflate", b"trailers", b"PUT", b"GET", b"https", b"200", b"99999999999999999999", b"1S", b"99999999H",
          b"application/grpc", b"application/grpc+proto", b"AAAA", b"AAAAAAAAAAB4", b"=", b"\0\0\0\0\0\0\0\0abc", b"\xff\xfe", b"\n", b"a" * 300]
PATHS = [b"/qring.Link/Stream", b"/tensorflow.ProfilerService/Monitor", b"/tensorflow.ProfilerService/Profile", b"/", b"", b"*", b"x" * 200]
SETTING_VALUES = [0, 1, 2, 100, 16383, 16384, 65535, 1 << 20, (1 << 24) - 1, 1 << 24, (1 << 31) - 1, 1 << 31, (1 << 32) - 1]


def integer(first, bits, n):
    """HPACK integer with a prefix of `bits` bits (RFC 7541, 5.1)."""
    most = (1 << bits) - 1
    if n < most: return bytes([first | n])
    out, n = [first | most], n - most
    while n >= 128: out, n = out + [n & 127 | 128], n >> 7
    return bytes(out + [n])


def text(s, huffman=0): return integer(huffman, 7, len(s)) + s


def literal(name, value): return b"\0" + text(name) + text(value)


def request_of(path=b"/qring.Link/Stream", *more):
    """A header block as sent by gRPC clients, with more fields at the end."""
    return b"\x83\x86" + b"\x04" + text(path) + b"\x01\x01x" + literal(b"content-type", b"application/grpc") + literal(b"te", b"trailers") + b"".join(more)


def reply_of(*more): return b"\x88" + literal(b"content-type", b"application/grpc") + literal(b"qring-link", b"1") + b"".join(more)


class Dice(random.Random):
    """Random frames from a seed."""

    def bytes_(self, most): return self.randbytes(self.randrange(most + 1))

    def value(self):
        r = self.random()
        return self.choice(VALUES) if r < 0.8 else str(self.getrandbits(self.choice((4, 16, 33, 65)))).encode() if r < 0.9 else self.bytes_(40)

    def name(self):
        r = self.random()
        if r < 0.85: return self.choice(NAMES)
        return self.choice((b"x-", b"grpc-", b":", b"", b"X-UPPER", b"a b")) + self.randbytes(self.randrange(4)) + self.choice((b"", b"-bin"))

    def field(self, valid):
        """A header field; valid: HPACK can decode it. Its name and value may still be wrong."""
        r, name = self.random(), self.name()
        if valid and name.endswith(b"-bin"): return b"\0" + text(name) + text(base64.b64encode(self.bytes_(30)))
        if valid or r < 0.5: return self.choice((b"\0", b"\x10", b"\x40")) + text(name) + text(self.value())
        if r < 0.6: return integer(0x80, 7, self.choice((0, 1, 8, 15, 61, 62, 63, 200, 1 << 31)))
        if r < 0.75: return integer(self.choice((0x40, 0, 0x10)), self.choice((4, 6)), self.choice((1, 8, 16, 31, 61, 62, 70, 1 << 20))) + text(self.value())
        if r < 0.85: return b"\0" + text(self.bytes_(12), 0x80) + text(self.bytes_(30), 0x80)
        if r < 0.92: return integer(0x20, 5, self.choice((0, 1, 4096, 4097, 1 << 30)))
        return self.choice((b"\xff" * 12, b"\0\x7f\xff\xff\xff\xff\x0f", b"\0" + text(b"te")[:-1], self.bytes_(20)))

    def block(self, base, valid):
        """A header block: the base, possibly damaged, with random fields before or after it."""
        more = b"".join([self.field(valid) for _ in range(self.randrange(5))])
        if valid or self.random() < 0.8: return base + more
        if self.random() < 0.5 or not base: return more + base
        cut = self.randrange(len(base))
        return base[:cut] + self.randbytes(self.randrange(3)) + base[cut + self.randrange(3):] + more

    def headers(self, stream, block, valid, end=False):
        """HEADERS frames of a block, sometimes with CONTINUATIONs, priority or padding (for which
        gRPC 1.51 ends the connection)."""
        flags, r = END_STREAM if end else 0, self.random()
        if r < 0.85 or (valid and r < 0.9): return frame(HEADERS, flags | END_HEADERS, stream, block)
        if r < 0.9: return frame(HEADERS, flags | END_HEADERS | PADDED, stream, b"\x03" + block + bytes(3))
        if r < 0.95: return frame(HEADERS, flags | END_HEADERS | PRIORITIZED, stream, struct.pack(">IB", self.choice((0, stream, 7)), 9) + block)
        cut = self.randrange(len(block) + 1)
        return frame(HEADERS, flags, stream, block[:cut]) + frame(CONTINUATION, 0, stream, b"") + frame(CONTINUATION, END_HEADERS, stream, block[cut:])

    def data(self, stream, end=False):
        body = message(self.bytes_(60)) if self.random() < 0.7 else self.choice((b"", b"\0", b"\1\0\0\0\1a", b"\0\xff\xff\xff\xff", b"\7\0\0\0\0", self.bytes_(30)))
        return frame(DATA, END_STREAM if end else 0, stream, body)

    def noise(self, stream):
        """A frame that is unexpected or malformed."""
        r = self.randrange(10)
        pick = self.choice((0, stream, stream + 2, 1, 2, (1 << 31) - 1))
        if r == 0: return frame(SETTINGS, self.choice((0, 0, 1)), self.choice((0, 0, pick)), b"".join(
            struct.pack(">HI", self.choice((1, 2, 3, 4, 5, 6, 0xfe03, 0, 9)), self.choice(SETTING_VALUES)) for _ in range(self.randrange(4))) + self.bytes_(2)[:self.randrange(2)])
        if r == 1: return frame(WINDOW_UPDATE, 0, pick, struct.pack(">I", self.choice((0, 1, 65535, (1 << 31) - 1))))
        if r == 2: return frame(PING, self.choice((0, 1)), self.choice((0, 0, pick)), bytes(self.choice((8, 8, 8, 7, 9))))
        if r == 3: return frame(RST_STREAM, 0, pick, struct.pack(">I", self.getrandbits(4)))
        if r == 4: return frame(GOAWAY, 0, self.choice((0, pick)), struct.pack(">II", pick, self.getrandbits(4)) + self.bytes_(20))
        if r == 5: return frame(PRIORITY, 0, pick, self.randbytes(self.choice((5, 5, 4))))
        if r == 6: return frame(PUSH_PROMISE, END_HEADERS, pick, struct.pack(">I", stream + 1) + request_of())
        if r == 7: return frame(self.getrandbits(8), self.getrandbits(8), pick, self.bytes_(50))
        if r == 8: return struct.pack(">I", self.choice((16385, (1 << 24) - 1, 20)))[1:] + bytes([self.getrandbits(3), self.getrandbits(8)]) + struct.pack(">I", pick) + self.bytes_(60)
        return frame(self.choice((HEADERS, CONTINUATION, DATA)), self.getrandbits(6), pick, self.bytes_(40))

    def request(self, stream, valid):
        """A client's stream: headers, then messages, trailers, a reset, or nothing."""
        out = [self.headers(stream, self.block(request_of(self.choice(PATHS) if self.random() < 0.3 else PATHS[self.randrange(2)]), valid), valid)]
        for _ in range(self.randrange(3)): out.append(self.data(stream, self.random() < 0.2))
        if self.random() < 0.15: out.append(self.headers(stream, self.block(b"", valid), valid, True))
        if self.random() < 0.4: out.append(frame(RST_STREAM, 0, stream, struct.pack(">I", self.choice((0, 8)))))
        if not valid and self.random() < 0.05: out.append(self.noise(stream))
        return b"".join(out)

    def reply(self, stream, valid):
        """A server's reply to a stream."""
        out = [self.headers(stream, self.block(reply_of(), valid), valid, self.random() < 0.1)] if self.random() < 0.9 else []
        for _ in range(self.randrange(4)): out.append(self.data(stream, self.random() < 0.1) if valid or self.random() < 0.8 else self.noise(stream))
        if self.random() < 0.7: out.append(self.headers(stream, self.block(literal(b"grpc-status", self.value()), valid), valid, True))
        if self.random() < 0.3: out.append(frame(RST_STREAM, 0, stream, struct.pack(">I", self.getrandbits(4))))
        return b"".join(out)

    def scramble(self, sent):
        """Handshake bytes, some of them changed or missing."""
        b = bytearray(sent)
        for _ in range(self.randrange(4)):
            if b: b[self.randrange(len(b))] = self.getrandbits(8)
        return bytes(b[:self.randrange(len(b) + 1)] if self.random() < 0.3 else b)


def every_name(base, per_connection=40):
    """Header blocks: the base and each name with each value, in lists for one connection each."""
    blocks = [base + literal(n, v) for n in NAMES for v in VALUES]
    return [blocks[i:i + per_connection] for i in range(0, len(blocks), per_connection)]


def drain(s, seconds):
    """Reads until the peer closes or sends nothing for that long."""
    try:
        s.settimeout(seconds)
        while s.recv(65536): pass
    except (OSError, ValueError): pass


def processed(s, seconds=5):
    """Waits for the reply to a PING: the peer has processed everything sent before. False: the
    connection ended."""
    seen = b""
    try:
        s.sendall(frame(PING, 0, 0, b"PINGPING"))
        s.settimeout(seconds)
        while b"PINGPING" not in seen:
            b = s.recv(65536)
            if not b: return False
            seen = seen[-16:] + b
    except (OSError, ValueError): return False
    return True


def close(s, dice):
    try:
        if dice.random() < 0.5: s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        s.close()
    except OSError: pass


def send_blocks(port, context, blocks):
    """Opens one connection with a stream for each block. True: the peer processed all."""
    try:
        s = context.wrap_socket(attacks.tcp(port)) if context else attacks.tcp(port)
        s.sendall(PREFACE + frame(SETTINGS, 0, 0) + b"".join(frame(HEADERS, END_HEADERS, 2 * i + 1, b) for i, b in enumerate(blocks)))
        done = processed(s)
        s.close()
        return done
    except OSError: return False


def attack(port, context, seed, n):
    """Opens one connection with at most n requests; returns the number sent."""
    dice = Dice(seed)
    sent, valid = 0, dice.random() < 0.7
    try:
        s = context.wrap_socket(attacks.tcp(port)) if context else attacks.tcp(port)
        hello = PREFACE if dice.random() < 0.98 else dice.scramble(PREFACE)
        s.sendall(hello + (frame(SETTINGS, 0, 0) if valid or dice.random() < 0.9 else dice.noise(1)) + (frame(SETTINGS, 1, 0) if dice.random() < 0.2 else b""))
        if not valid: n = dice.randrange(1, n + 1)
        out = [dice.request(2 * i + 1 if valid or dice.random() < 0.97 else dice.getrandbits(31), valid) for i in range(n)]
        s.sendall(b"".join(out))
        sent = n
        if dice.random() < 0.9: processed(s, 2)
        close(s, dice)
    except OSError: pass
    return sent


HELLO = attacks.client_hello()


def attack_handshake(port, seed):
    """Sends a handshake with changed bytes, garbage, or HTTP/2 without TLS."""
    dice = Dice(seed)
    try:
        s = attacks.tcp(port)
        r = dice.random()
        if r < 0.6: s.sendall(dice.scramble(HELLO))
        elif r < 0.8: s.sendall(PREFACE + frame(SETTINGS, 0, 0) + dice.request(1, False))
        else: s.sendall(dice.bytes_(3000))
        if dice.random() < 0.2: drain(s, 0.02)
        close(s, dice)
    except OSError: pass


class Server:
    """A hostile server. It replies with every name, on one connection for each of these values,
    then with random frames from the seed. cert: a certificate's folder, or None for plaintext."""

    def __init__(self, port, cert, seed, values):
        self.seed, self.values, self.connections, self.replies = seed, list(values), 0, 0
        self.context = None
        if cert:
            self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            self.context.load_cert_chain(cert + "/tls.crt", cert + "/tls.key")
            self.context.load_verify_locations(cert + "/ca.crt")
            self.context.verify_mode = ssl.CERT_REQUIRED
            self.context.set_alpn_protocols(["h2"])
        self.listener = socket.create_server(("127.0.0.1", port), backlog=128)
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self):
        while True:
            try: s, _ = self.listener.accept()
            except OSError: return
            self.connections += 1
            try: self._one(s, Dice(f"{self.seed}/{self.connections}"))
            except (OSError, ValueError): pass
            finally: s.close()

    def _one(self, s, dice):
        s.settimeout(0.5)
        if not self.values and dice.random() < 0.1:
            s.recv(65536)
            s.sendall(dice.bytes_(2000))
            return
        if self.context:
            if not self.values and dice.random() < 0.1: return self._scrambled(s, dice)
            s = self.context.wrap_socket(s, server_side=True)
            s.settimeout(0.5)
        if self.values: return self._names(s, self.values.pop())
        valid = dice.random() < 0.7
        s.sendall(frame(SETTINGS, 0, 0) + frame(SETTINGS, 1, 0) if valid else dice.noise(1))
        self._await_request(s)
        for i in range(8 if dice.random() < 0.2 else 1):
            s.sendall(dice.reply(2 * i + 1, valid))
            self.replies += 1
        drain(s, dice.choice((0.005, 0.02, 0.05)))
        close(s, dice)

    def _await_request(self, s):
        seen = b""
        while b"/qring.Link/Stream" not in seen:
            b = s.recv(65536)
            if not b: raise OSError("no request")
            seen = seen[-64:] + b

    def _names(self, s, value):
        fields = [literal(n, b"AAAA" if n.endswith(b"-bin") else value) for n in NAMES]
        s.sendall(frame(SETTINGS, 0, 0) + frame(SETTINGS, 1, 0))
        self._await_request(s)
        s.sendall(frame(HEADERS, END_HEADERS, 1, reply_of(*fields)) + frame(DATA, 0, 1, message(b"x")) + frame(HEADERS, END_HEADERS | END_STREAM, 1, b"".join(fields)))
        processed(s, 0.5)
        self.replies += 1

    def _scrambled(self, s, dice):
        tls = self.context.wrap_bio(i := ssl.MemoryBIO(), o := ssl.MemoryBIO(), server_side=True)
        for _ in range(3):
            i.write(s.recv(65536))
            try: tls.do_handshake()
            except ssl.SSLWantReadError: pass
            s.sendall(dice.scramble(o.read()))

    def close(self): self.listener.close()
