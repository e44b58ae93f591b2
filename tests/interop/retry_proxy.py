#!/usr/bin/python3
"""retry_proxy.py PORT HOST:PORT FILE: forwards HTTP to Google's storage test bench and adds
"x-retry-test-id: ID" to every request, with the ID in FILE at that moment (none if empty), because
whole programs cannot send it. When the connection to the test bench breaks, the proxy resets the
client's."""
import socket, socketserver, struct, sys, threading

target, id_file = sys.argv[2].rsplit(":", 1), sys.argv[3]


def relay(source, sink):
    """Copies until the source ends; resets the sink when the source breaks."""
    try:
        while data := source.recv(1 << 16):
            sink.sendall(data)
    except OSError:
        reset(sink)


def reset(s):
    try: s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    except OSError: pass
    s.close()


class Handler(socketserver.BaseRequestHandler):
    def handle(self):
        head = b""
        while b"\r\n\r\n" not in head:
            data = self.request.recv(1 << 16)
            if not data: return
            head += data
        with open(id_file) as f: name = f.read().strip()
        line, rest = head.split(b"\r\n", 1)
        more = b"\r\nConnection: close\r\n" + (b"x-retry-test-id: %s\r\n" % name.encode() if name else b"")  # one request per connection
        with socket.create_connection((target[0], int(target[1]))) as bench:
            bench.sendall(line + more + rest)
            threading.Thread(target=relay, args=(self.request, bench), daemon=True).start()
            relay(bench, self.request)


class Server(socketserver.ThreadingTCPServer):
    allow_reuse_address, daemon_threads = True, True

    def handle_error(self, *_):
        if not isinstance(sys.exc_info()[1], OSError): super().handle_error(*_)


Server(("127.0.0.1", int(sys.argv[1])), Handler).serve_forever()
