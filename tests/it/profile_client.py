"""A client of the profiler's port, like TensorBoard's plugin: one unary gRPC call over HTTP/2, written by hand.

  profile_client.py capture PORT MS FILE   write the XSpace of a capture of MS milliseconds to FILE
  profile_client.py monitor PORT MS        print the worker's monitor text
  profile_client.py garbage PORT           send bytes that are not HTTP/2, then a request that is not a message
  profile_client.py spans FILE             print a line for each thread and span name: thread, name, count, microseconds
"""
import collections
import socket
import struct
import sys


def varint(n):
    out = b""
    while n > 127:
        out += bytes([n & 127 | 128])
        n >>= 7
    return out + bytes([n])


def field(number, value):
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    return varint(number << 3 | 2) + varint(len(value)) + value


def fields(data):
    at = 0

    def number():
        nonlocal at
        n = shift = 0
        while True:
            byte = data[at]
            at += 1
            n |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return n

    while at < len(data):
        tag = number()
        if tag & 7 == 0:
            yield tag >> 3, number()
        elif tag & 7 == 2:
            n = number()
            yield tag >> 3, data[at:at + n]
            at += n
        else:
            raise SystemExit(f"wire type {tag & 7}")


# ---- HTTP/2: one stream, headers as literals, windows that need no update ----

def frame(kind, flags, stream, payload):
    return struct.pack(">I", len(payload))[1:] + bytes([kind, flags]) + struct.pack(">I", stream) + payload


def header(name, value):
    return b"\0" + bytes([len(name)]) + name + varint_of_7(len(value)) + value


def varint_of_7(n):
    assert n < 127
    return bytes([n])


def call(port, method, message):
    """Return the bytes of the answer, or None."""
    s = socket.create_connection(("127.0.0.1", port), timeout=30)
    head = b"".join(header(n, v) for n, v in (
        (b":method", b"POST"), (b":scheme", b"http"), (b":path", b"/tensorflow.ProfilerService/" + method),
        (b":authority", b"localhost"), (b"content-type", b"application/grpc"), (b"te", b"trailers")))
    window = (1 << 31) - 1
    s.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + frame(4, 0, 0, struct.pack(">HI", 4, window))
              + frame(8, 0, 0, struct.pack(">I", window - 65535)) + frame(1, 4, 1, head)
              + frame(0, 1, 1, b"\0" + struct.pack(">I", len(message)) + message))
    got, answer = b"", b""
    while True:
        while len(got) < 9 or len(got) < 9 + int.from_bytes(got[:3], "big"):
            more = s.recv(1 << 16)
            if not more:
                return answer[5:] or None
            got += more
        n = int.from_bytes(got[:3], "big")
        kind, flags, payload = got[3], got[4], got[9:9 + n]
        got = got[9 + n:]
        if kind == 4 and not flags & 1:
            s.sendall(frame(4, 1, 0, b""))
        if kind == 6 and not flags & 1:
            s.sendall(frame(6, 1, 0, payload))
        if kind == 0:
            answer += payload
        if kind == 3 or (kind in (0, 1) and flags & 1):
            return answer[5:] or None


def capture(port, ms, path):
    options = field(4, 1) + field(9, ms)
    answer = call(port, b"Profile", field(1, ms) + field(4, options) + field(5, b"/logs/plugins/profile")
                  + field(6, b"2026_01_01_00_00_00") + field(7, b"localhost:%d" % port))
    if answer is None:
        raise SystemExit("no answer")
    files = {dict(fields(v))[1].decode(): dict(fields(v))[2] for n, v in fields(answer) if n == 6}
    if list(files) != ["xplane.pb"]:
        raise SystemExit(f"files {list(files)}")
    with open(path, "wb") as f:
        f.write(files["xplane.pb"])


def spans(path):
    with open(path, "rb") as f:
        space = f.read()
    for number, plane in fields(space):
        if number != 1 or dict(fields(plane))[2] != b"/host:CPU":
            continue
        names = {}
        for n, v in fields(plane):
            if n == 4:
                names[dict(fields(v))[1]] = dict(fields(dict(fields(v))[2]))[2].decode()
        for n, line in fields(plane):
            if n != 3:
                continue
            count, took = collections.Counter(), collections.Counter()
            for k, event in fields(line):
                if k == 4:
                    e = dict(fields(event))
                    count[names[e[1]]] += 1
                    took[names[e[1]]] += e.get(3, 0)
            for name in count:
                print(f"{dict(fields(line))[2].decode()}\t{name}\t{count[name]}\t{took[name] / 1e6:.3f}")


def garbage(port):
    s = socket.create_connection(("127.0.0.1", port), timeout=5)
    s.sendall(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n" + bytes(range(256)) * 64)
    s.close()
    if call(port, b"Profile", b"\x0b\x0b") is not None:
        raise SystemExit("an answer to garbage")


def main(argv):
    what = argv[1] if len(argv) > 1 else ""
    if what == "capture":
        capture(int(argv[2]), int(argv[3]), argv[4])
    elif what == "monitor":
        answer = call(int(argv[2]), b"Monitor", field(1, int(argv[3])))
        print(dict(fields(answer))[1].decode() if answer else "no answer")
    elif what == "garbage":
        garbage(int(argv[2]))
    elif what == "spans":
        spans(argv[2])
    else:
        raise SystemExit(__doc__)


main(sys.argv)
