"""Attacks of a hostile peer: raw TCP, TLS and HTTP/2 frames, with the job's certificate and
without. Used by tests/faults/rows_peers.py and rows_flood.py."""
import os, random, socket, ssl, struct, threading, time

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
DATA, HEADERS, PRIORITY, RST_STREAM, SETTINGS, PING, GOAWAY, WINDOW_UPDATE, CONTINUATION = 0, 1, 2, 3, 4, 6, 7, 8, 9


def literal(name, value): return b"\0" + bytes([len(name)]) + name + bytes([len(value)]) + value


# POST http /qring.Link/Stream, as gRPC wants it
REQUEST = b"\x83\x86\x04\x12/qring.Link/Stream\x01\x01x" + literal(b"content-type", b"application/grpc") + literal(b"te", b"trailers")


def frame(kind, flags, stream, payload=b""): return struct.pack(">I", len(payload))[1:] + bytes([kind, flags]) + struct.pack(">I", stream) + payload


def message(payload, length=None): return b"\0" + struct.pack(">I", len(payload) if length is None else length) + payload


def tcp(port, small=False, host=None):
    """host: the address of this end."""
    s = socket.socket()
    if host: s.bind((host, 0))
    if small: s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
    s.settimeout(5)
    s.connect(("127.0.0.1", port))
    s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return s


def context(cert=None):
    c = ssl.create_default_context()
    c.check_hostname, c.verify_mode = False, ssl.CERT_NONE
    c.set_alpn_protocols(["h2"])
    if cert: c.load_cert_chain(cert + "/tls.crt", cert + "/tls.key")
    return c


def h2(port, cert, small=False, stream=True):
    """Opens an HTTP/2 connection with the certificate and, unless stream is False, one stream."""
    s = context(cert).wrap_socket(tcp(port, small))
    s.sendall(PREFACE + frame(SETTINGS, 0, 0) + (frame(HEADERS, 4, 1, REQUEST) if stream else b""))
    return s


def pour(s, piece, most, seconds=3):
    """Sends the piece repeatedly until the peer closes, `most` bytes are sent or the time is over;
    returns the bytes sent."""
    sent, end = 0, time.monotonic() + seconds
    s.settimeout(0.5)
    try:
        while sent < most and time.monotonic() < end: sent += s.send(piece)
    except OSError: pass
    return sent


def drip(s, read, seconds):
    """Reads `read` bytes a second."""
    end = time.monotonic() + seconds
    s.settimeout(1)
    while time.monotonic() < end:
        try:
            if not s.recv(read): return
        except TimeoutError: pass
        except OSError: return
        time.sleep(1)


def end(s):
    """Waits at most a second for the peer to close, then closes with RST."""
    try:
        s.settimeout(1)
        while s.recv(65536): pass
    except (OSError, ValueError): pass
    try: s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    except OSError: pass
    s.close()


# ---- attacks: functions of (port, cert) ----

def slow_reader(port, cert):
    s = h2(port, cert, small=True)
    s.sendall(frame(SETTINGS, 0, 0, struct.pack(">HI", 4, 1)) + b"".join(frame(PING, 0, 0, bytes(8)) for _ in range(2)))
    drip(s, 1, 5)
    end(s)


def settings_unread(port, cert):
    """Sends endless SETTINGS, which the worker must acknowledge, and reads no acknowledgement."""
    s = h2(port, cert, small=True)
    pour(s, frame(SETTINGS, 0, 0) * 1000, 32 << 20, 3)
    end(s)


FLOODS = {  # frames outside messages, which a peer may send endlessly
    "PING": frame(PING, 0, 0, bytes(8)),
    "acknowledgement of a PING that was not sent": frame(PING, 1, 0, bytes(8)),
    "SETTINGS": frame(SETTINGS, 0, 0),
    "SETTINGS with changing values": frame(SETTINGS, 0, 0, struct.pack(">HI", 4, 1 << 16)) + frame(SETTINGS, 0, 0, struct.pack(">HI", 4, 1 << 20)),
    "WINDOW_UPDATE": frame(WINDOW_UPDATE, 0, 0, struct.pack(">I", 1)) + frame(WINDOW_UPDATE, 0, 1, struct.pack(">I", 1)),
    "empty DATA": frame(DATA, 0, 1),
    "DATA with an empty message": frame(DATA, 0, 1, message(b"")),
    "DATA of one byte with 255 bytes of padding": frame(DATA, 8, 1, b"\xff\0" + bytes(255)),
    "PRIORITY": frame(PRIORITY, 0, 1, bytes(5)) + frame(PRIORITY, 0, 3, bytes(5)),
    "RST_STREAM": frame(RST_STREAM, 0, 1, struct.pack(">I", 8)),
    "GOAWAY": frame(GOAWAY, 0, 0, bytes(8)),
    "frames of an unknown type": frame(200, 0, 0, bytes(8)),
}


def flood(kind, reads, most=16 << 20):
    """Returns an attack that repeats one frame, and reads the replies or not."""
    def attack(port, cert):
        try: s = h2(port, cert, small=not reads)
        except OSError: return
        if reads: threading.Thread(target=swallow, args=(s,), daemon=True).start()
        pour(s, FLOODS[kind] * (16384 // len(FLOODS[kind])), most)
        end(s)
    return attack


def empty_continuations(port, cert):
    s = h2(port, cert, stream=False)
    s.sendall(frame(HEADERS, 0, 1, REQUEST))
    pour(s, frame(CONTINUATION, 0, 1) * 1000, 16 << 20)
    end(s)


def swallow(s):
    try:
        while s.recv(65536): pass
    except (OSError, ValueError): pass


def at_once(attacks):
    """Returns an attack that runs all of these concurrently. A connection that is closed during its
    handshake, because of what another one sends, is not an error."""
    def one(attack, port, cert):
        try: attack(port, cert)
        except OSError: pass
    def all_attacks(port, cert):
        started = [threading.Thread(target=one, args=(a, port, cert)) for a in attacks]
        for t in started: t.start()
        for t in started: t.join()
    return all_attacks


def slow_reader_no_cert(port, cert):
    s, c = tcp(port, small=True), context().wrap_bio(i := ssl.MemoryBIO(), o := ssl.MemoryBIO())
    try: c.do_handshake()
    except ssl.SSLWantReadError: pass
    s.sendall(o.read())
    drip(s, 1, 4)
    end(s)


def oversize_frame(port, cert):
    s = h2(port, cert)
    s.sendall(b"\xff\xff\xff" + bytes([DATA, 0]) + struct.pack(">I", 1))
    pour(s, bytes(16384), 32 << 20)
    end(s)


def oversize_message(port, cert):
    """Announces a message of 256 MB and sends as much as the worker accepts."""
    s = h2(port, cert)
    s.sendall(frame(DATA, 0, 1, message(b"", 256 << 20)))
    pour(s, frame(DATA, 0, 1, bytes(16384)), 64 << 20)
    end(s)


def oversize_record(port, cert):
    s = tcp(port)
    pour(s, b"\x16\x03\x01\xff\xff" + os.urandom(65535), 16 << 20)
    end(s)


def endless_stream(port, cert):
    """Messages of 1000 bytes without end."""
    s = h2(port, cert)
    pour(s, frame(DATA, 0, 1, message(os.urandom(1000)) * 16), 64 << 20)
    end(s)


def endless_headers(port, cert):
    s = h2(port, cert, stream=False)
    s.sendall(frame(HEADERS, 0, 1, REQUEST))
    pour(s, frame(CONTINUATION, 0, 1, literal(b"much", b"x" * 100) * 100), 64 << 20)
    end(s)


def garbage(port, cert):
    dice = random.Random(31)
    for i in range(100):
        s = tcp(port)
        try: s.sendall([dice.randbytes(5000), b"GET / HTTP/1.1\r\nHost: a\r\n\r\n", PREFACE + frame(SETTINGS, 0, 0)][i % 3])
        except OSError: pass
        s.close()


def rapid_reset(port, cert):
    """Opens and resets 20 000 streams (CVE-2023-44487), dozens in each TLS record."""
    s = h2(port, cert, stream=False) if cert else tcp(port)
    s.settimeout(2)
    try:
        if not cert: s.sendall(PREFACE + frame(SETTINGS, 0, 0))
        for first in range(1, 40000, 100):
            s.sendall(b"".join(frame(HEADERS, 4, i, REQUEST) + frame(RST_STREAM, 0, i, struct.pack(">I", 8)) for i in range(first, first + 100, 2)))
    except OSError: pass
    end(s)


def rapid_reset_no_cert(port, cert): rapid_reset(port, None)


def streams_unacknowledged(port, cert):
    s = h2(port, cert, stream=False)
    try:
        for first in range(1, 20000, 100): s.sendall(b"".join(frame(HEADERS, 4, i, REQUEST) for i in range(first, first + 100, 2)))
    except OSError: pass
    end(s)


def bytewise(port, cert):
    """Sends the handshake and a request in segments of one byte."""
    s, c = tcp(port), context(cert).wrap_bio(i := ssl.MemoryBIO(), o := ssl.MemoryBIO())
    stop, written = time.monotonic() + 4, False
    try:
        while time.monotonic() < stop:
            try:
                c.do_handshake()
                if not written: c.write(PREFACE + frame(SETTINGS, 0, 0) + frame(HEADERS, 4, 1, REQUEST) + frame(DATA, 0, 1, message(b"abc")) * 20)
                written = True
            except ssl.SSLWantReadError: pass
            out = o.read()
            for k in range(len(out)): s.send(out[k:k + 1])
            if written and not out: break
            if not written: i.write(s.recv(16384))
    except OSError: pass
    end(s)


def bytewise_no_cert(port, cert): bytewise(port, None)


def many(n, first, hold):
    def attack(port, cert):
        opened = []
        for _ in range(n):
            try:
                s = tcp(port)
                if first: s.sendall(first)
                opened.append(s)
            except OSError: pass
        time.sleep(hold)
        for s in opened: s.close()
    return attack


def client_hello():
    c = context().wrap_bio(ssl.MemoryBIO(), o := ssl.MemoryBIO())
    try: c.do_handshake()
    except ssl.SSLWantReadError: pass
    return o.read()


def resets(port, cert):
    for k in range(3000):
        try:
            s = tcp(port)
            if k % 3 == 0: s.send(b"\x16")
            s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            s.close()
        except OSError: pass
