#!/usr/bin/python3
"""A web server for tests, on loopback: files of a folder, with ETag, Content-Length and ranges, and faults that stand in the path:
/FAULT,FAULT.../name meets one of them at each request of that path, in turn, then none; a redirect, drip, garbage, line, headers, trailers or interim that stands last
stays. A fault:
  500 503 429 404 403 401 ...  that status        reset     the connection breaks before a reply
  cut-N    N bytes, then the connection ends      slow      bytes that drip, one in 0.2 s
  endless  bytes without an end, in chunks        silent    nothing comes
  drip     60 bytes each 0.1 s
  huge     a Content-Length of 2^50               cut-chunk half of the chunk comes
  chunked  the file in chunks                     bare      neither length nor chunks
  weak     a weak ETag, and no ranges             packed    Content-Encoding: gzip
  whole    200 where a piece was asked for        other     206 with another piece
  garbage  bytes that are not HTTP                 line      a header of 1 MB
  headers  headers without an end                 trailers  so after the body
  interim  100 Continue without an end
  unsaid   206 without Content-Range              changed   another file from now on
  stray    206 of another file, without ETag      half      200, the first half of it, without ETag
  vast     a Content-Length of 2^63, no body
  cut-chunk+N, endless+N: and a Content-Length of N
  to:PLACE a redirect there; %2F is /, and "here" is this server without its path's faults
/token/name wants "Authorization: Bearer secret-of-the-fake"; /echo says what came with it, as JSON.
/log is what came, one line a request. https.py PORT FILE FOLDER [CERT KEY] writes its port to FILE ("-": prints it).
"""
import hashlib, json, os, ssl, sys, time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import unquote

MET, LOG, CHANGED = {}, [], set()
FAULTS = ("reset", "cut-", "slow", "drip", "endless", "silent", "huge", "chunk", "bare", "weak", "packed", "whole", "other", "unsaid", "changed", "stray", "half", "garbage", "line", "headers", "trailers", "interim", "vast", "to:", "none")
STAY = ("to:", "drip", "garbage", "line", "headers", "trailers", "interim")


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *args):
        pass

    def answer(self, status, body=b"", headers=(), length=None):
        self.send_response(status)
        for k, v in headers:
            self.send_header(k, v)
        if length is not False:
            self.send_header("Content-Length", str(len(body) if length is None else length))
        self.end_headers()
        self.wfile.write(body)

    def chunk(self, data):
        self.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))

    def flood(self, endless):
        while endless:
            self.wfile.write(b"X: " + b"y" * 900 + b"\r\n")

    def fault(self):
        first, _, rest = self.path[1:].partition("/")
        faults = first.split(",")
        if not rest or not all(f[:3].isdigit() or f.startswith(FAULTS) for f in faults):
            return "", self.path[1:]
        at = MET[self.path] = MET.get(self.path, -1) + 1
        return faults[at] if at < len(faults) else faults[-1] if faults[-1].startswith(STAY) else "", rest

    def do_GET(self):
        LOG.append("%s %s %s" % (self.command, self.path, self.headers.get("Range", "")))
        if self.path == "/log":
            return self.answer(200, "\n".join(LOG).encode())
        if self.path.startswith("/echo"):
            return self.answer(200, json.dumps({"path": self.path, **{k.lower(): v for k, v in self.headers.items()}}).encode())
        fault, name = self.fault()
        name = name.partition("?")[0]
        if fault.startswith("to:"):
            place = unquote(fault[3:]).replace("here", "http%s://%s" % ("s" if SECURE else "", self.headers["Host"]))
            return self.answer(302, b"elsewhere", [("Location", place)] if place else [])
        if fault[:3].isdigit():
            return self.answer(int(fault[:3]), b"<h1>no</h1>", [("Retry-After", "1")] if fault == "503" else [])
        if name.startswith("token/"):
            if self.headers.get("Authorization") != "Bearer secret-of-the-fake":
                return self.answer(401)
            name = name[6:]
        if fault == "reset":
            self.close_connection = True
            return
        while fault == "interim":
            self.wfile.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        if fault in ("garbage", "line", "headers"):
            self.close_connection = True
            self.wfile.write(b"" if fault == "garbage" else b"HTTP/1.1 200 OK\r\n")
            self.wfile.write(b"no HTTP\r\n\r\n" if fault == "garbage" else b"X: " + b"y" * (1 << 20 if fault == "line" else 9) + b"\r\n")
            return self.flood(fault == "headers")
        if fault == "silent":
            time.sleep(60)
            return
        path = os.path.join(FOLDER, unquote(name))
        if not os.path.isfile(path):
            return self.answer(404, b"<h1>no</h1>")
        with open(path, "rb") as f:
            self.file(fault, name, f.read())

    def file(self, fault, name, data):
        if fault == "changed":
            CHANGED.add(name)
        if name in CHANGED:
            data = b"changed" + data[7:]
        tag = '"%s"' % hashlib.md5(data).hexdigest()
        headers = [("ETag", "W/" + tag if fault == "weak" else tag), ("Last-Modified", "Mon, 02 Nov 2026 00:00:00 GMT")]
        asked = self.headers.get("Range", "")
        if self.headers.get("If-Match", tag) != tag:
            return self.answer(412)
        if fault == "huge":
            return self.answer(200, data, headers, 1 << 50)
        if fault == "vast":
            self.close_connection = True
            return self.answer(200, b"", headers, 1 << 63)
        fault, _, length = fault.partition("+")
        if fault in ("chunked", "cut-chunk", "endless", "trailers"):
            self.answer(200, b"", [*headers, ("Transfer-Encoding", "chunked")], length or False)
            if fault == "cut-chunk":
                self.close_connection = True
                return self.wfile.write(b"%x\r\n%s" % (len(data), data[:len(data) // 2]))
            self.chunk(data)
            while fault == "endless":
                self.chunk(b"0" * 65536)
            if fault == "trailers":
                self.wfile.write(b"0\r\n")
                return self.flood(True)
            return self.wfile.write(b"0\r\n\r\n")
        if fault == "bare":
            self.close_connection = True
            return self.answer(200, data, [*headers, ("Connection", "close")], False)
        if fault in ("stray", "half"):
            data, headers = data[::-1], []
        if fault == "half":
            return self.answer(200, data[len(data) // 2:])
        if fault == "packed":
            headers.append(("Content-Encoding", "gzip"))
        status, body = 200, data
        if asked.startswith("bytes=") and fault not in ("whole", "weak"):
            begin = 0 if fault == "other" else int(asked[6:].partition("-")[0])
            if begin >= len(data):
                return self.answer(416)
            status, body = 206, data[begin:]
            if fault != "unsaid":
                headers.append(("Content-Range", "bytes %d-%d/%d" % (begin, len(data) - 1, len(data))))
        if fault.startswith("cut-"):
            self.answer(status, body[:int(fault[4:])], headers, len(body))
            self.close_connection = True
            return
        if fault in ("slow", "drip"):
            size, pause = (1, 0.2) if fault == "slow" else (60, 0.1)
            self.answer(status, b"", headers, len(body))
            for i in range(0, len(body), size):
                self.wfile.write(body[i:i + size])
                time.sleep(pause)
            return
        self.answer(status, body, headers)


class Server(ThreadingHTTPServer):
    daemon_threads, request_queue_size = True, 128

    def handle_error(self, request, client_address):
        pass

    def get_request(self):
        s, at = super().get_request()
        s.settimeout(20)
        if SECURE:
            s = SECURE.wrap_socket(s, server_side=True, do_handshake_on_connect=False)
        return s, at


FOLDER = sys.argv[3]
SECURE = None
if len(sys.argv) > 4:
    SECURE = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    SECURE.load_cert_chain(sys.argv[4], sys.argv[5])
server = Server(("127.0.0.1", int(sys.argv[1])), Handler)
if sys.argv[2] == "-":
    print(server.server_address[1], flush=True)
else:
    with open(sys.argv[2] + ".new", "w") as f:
        f.write("%d\n" % server.server_address[1])
    os.rename(sys.argv[2] + ".new", sys.argv[2])
server.serve_forever()
