#!/usr/bin/python3
"""A Cloud Storage for tests, on loopback, in memory: the JSON API as far as the client uses it, with faults on request.

Faults: POST /retry_test {"instructions": {"storage.objects.insert": ["return-503", ...]}} as in Google's storage test bench; requests that carry
x-retry-test-id: ID meet them in order. All of its instructions for HTTP are known (BENCH), also those of its header x-goog-emulator-instructions.
Ours beyond its (OURS): lost-acknowledgement (done, and the reply is cut off), wrong-crc32c (the stored bytes are damaged once), lost-session
(404 for a session), no-location (a session is opened, and not said where), ignore-range (200 from the start), other-range (206 from the start),
replaced (the object is another generation before it is read); and replies of 200 that cannot be read: cut-reply-after-YB (whole for HTTP),
short-reply (the end comes before Content-Length), chunked-reply (the last chunk does not come), html-reply; garbage-reply (not HTTP); of the token server cut-refusal.
Buckets exist when a request names them, but: missing-* (404), forbidden-* (403), readonly-* (no permission to create), late-* (403 for
writes, though the permission is there), auth-* (401 without a token of ours).
Tokens: /computeMetadata/v1/... (metadata server), /token (RS256 assertions checked against the key given to /control/key; refresh tokens), /sts, /impersonate.
/control/expire makes all tokens invalid; /control/log is what came, one line per request.
For whole workers, whose requests carry no name of a test: /control/faults takes instructions as /retry_test does, for them; /control/down
{"storage" | "token": [HOW, SECONDS]} is an outage, HOW is "503", "reset" or "hang"; /control/hold {"name": PART, "after": bool} stops the
next upload of such an object, before or after it is stored, until /control/release breaks its connection; /control/state tells of all that
and of every object that was ever stored.
gcs.py [PORT [FILE [ADDRESS]]] writes its port to FILE, and prints it.
"""
import base64, gzip, hashlib, json, re, socket, struct, sys, threading, time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, unquote, urlsplit

import tokens

TABLE = []
for _i in range(256):
    _c = _i
    for _ in range(8):
        _c = _c >> 1 ^ (0x82F63B78 if _c & 1 else 0)
    TABLE.append(_c)


KNOWN = {}  # a table walk is slow here, and tests send the same bytes again


def crc32c(data):
    key = hashlib.sha256(data).digest()
    if key not in KNOWN:
        KNOWN[key] = walk(data)
    return KNOWN[key]


def walk(data):
    crc, table = 0xFFFFFFFF, TABLE
    for b in data:
        crc = table[(crc ^ b) & 255] ^ crc >> 8
    return base64.b64encode(struct.pack(">I", crc ^ 0xFFFFFFFF)).decode()


class World:
    lock = threading.RLock()
    objects, sessions, tests, tokens = {}, {}, {}, set()
    generation, ids, key, log, idempotency = 1000, 0, None, [], {}
    down, hold, holding, stored = {}, None, False, []

    @classmethod
    def next_id(cls):
        cls.ids += 1
        return cls.ids


W = World
QUANTUM = 256 << 10
# What a reply suffers: after so many bytes the connection breaks, or nothing comes for so many seconds; or its body is another.
REPLY = re.compile(r"return-broken-stream(?:-final-chunk)?(?:-after-(\d+)([BK]))?|stall-for-(\d+)s-after-(\d+)K|cut-reply-after-(\d+)B|(?:short|chunked|html)-reply")
BENCH = re.compile(REPLY.pattern + r"|return-\d+(?:-after-\d+K)?|return-reset-connection|redirect-(?:send-token|send-handle-and-token|expect-token)-[a-z-]+|return-\d+-if-dp-enforced")
OURS = re.compile(r"lost-acknowledgement|wrong-crc32c|lost-session|no-location|ignore-range|other-range|replaced|cut-refusal|garbage-reply|return-broken-stream-after-\d+B|return-\d+-after-\d+B")
GRPC = re.compile(r"redirect-|return-\d+-if-dp-enforced")  # for gRPC alone: nothing happens


class Refuse(Exception):
    def __init__(self, status, message):
        self.status, self.message = status, message


class Cut(Exception):
    """The connection breaks."""


class Garbage(Exception):
    """The reply is not HTTP."""


class Lines:
    """A stream that remembers its last line: http.server takes headers that break off for whole ones."""
    def __init__(self, stream):
        self.stream, self.last = stream, b""

    def readline(self, *limit):
        self.last = self.stream.readline(*limit)
        return self.last

    def __getattr__(self, name):
        return getattr(self.stream, name)


class Handler(tokens.Tokens, BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    world = W
    disable_nagle_algorithm = True

    def setup(self):
        super().setup()
        self.rfile = Lines(self.rfile)

    def log_message(self, *_):
        pass

    # ---- plumbing ----
    def body(self):
        if self.headers.get("transfer-encoding", "").lower() == "chunked":
            out = b""
            while True:
                n = int(self.rfile.readline().split(b";")[0], 16)
                out += self.rfile.read(n)
                self.rfile.readline()
                if not n:
                    return out
        n = int(self.headers.get("content-length", 0))
        data = self.rfile.read(n) if n else b""
        if len(data) < n:
            raise Cut()
        return data

    def answer(self, status, body=b"", headers=()):
        if isinstance(body, (dict, list)):
            body = json.dumps(body).encode()
            headers = [("Content-Type", "application/json; charset=UTF-8"), *headers]
        if self.pending and 200 <= status < 300 and body:
            return self.suffer(status, body, headers)
        self.send_response(status)
        for k, v in headers:
            self.send_header(k, v)
        if status != 204:
            self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if status != 204:
            self.wfile.write(body)

    def suffer(self, status, body, headers):
        """A reply with the fault that waits for it; a body too short for that passes as it is."""
        (method, what), self.pending = self.pending, None
        m = REPLY.fullmatch(what)
        at = int(m.group(5) or m.group(4) or m.group(1) or 4) * (1024 if m.group(4) or m.group(2) == "K" else 1)
        if "reply" not in what and len(body) <= at or "final-chunk" in what and not self.final:
            return self.answer(status, body, headers)
        self.used(method)
        if "final-chunk" in what or what.startswith("cut-reply"):
            return self.answer(status, body[:at], headers)
        if what == "html-reply":
            return self.answer(status, b"<!doctype html><title>Sign in</title>", [("Content-Type", "text/html")])
        self.send_response(status)
        for k, v in headers:
            self.send_header(k, v)
        if what == "chunked-reply":
            self.send_header("Transfer-Encoding", "chunked")
            body = b"%x\r\n%s\r\n" % (len(body) // 2, body[:len(body) // 2])
        else:
            self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if what.startswith("stall"):
            self.wfile.write(body[:at])
            time.sleep(int(m.group(3)))
            return self.wfile.write(body[at:])
        self.wfile.write(body if what == "chunked-reply" else body[:len(body) // 2] if what == "short-reply" else body[:at])
        if what.startswith("return"):
            raise Cut()
        self.close_connection = True

    def error(self, status, message):
        self.answer(status, {"error": {"code": status, "message": message, "errors": [{"reason": "fault", "message": message}]}})

    def reset(self):
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.close_connection = True
        self.connection.close()

    def run(self):
        if self.rfile.last not in (b"\r\n", b"\n"):
            return self.reset()
        self.url = urlsplit(self.path)
        self.query = {k: v[-1] for k, v in parse_qs(self.url.query, keep_blank_values=True).items()}
        path = self.url.path
        self.pending, self.final = None, False
        try:
            self.data = self.body()
            W.log.append("%s %s" % (self.command, path if "upload_id" not in self.query else path + " session"))
            self.route(path)
        except Refuse as r:
            self.error(r.status, r.message)
        except Garbage:
            self.close_connection = True
            self.wfile.write(b"no HTTP\r\n\r\n")
        except (Cut, ConnectionError):
            try:
                self.reset()
            except OSError:
                pass

    do_GET = do_POST = do_PUT = do_DELETE = do_PATCH = run

    def fault(self, method):
        """The next instruction for this request, or None. What its reply suffers waits for that; those that count bytes of uploads or name a
        state of ours are left to who knows."""
        test = W.tests.get(self.headers.get("x-retry-test-id"))
        queue = test["instructions"].get(method) if test else None
        if not queue:
            return None
        first = queue[0]
        if "broken-stream-after" in first and method == "storage.objects.insert" or GRPC.match(first):
            return first
        if REPLY.fullmatch(first) and not (first.startswith("stall") and method == "storage.objects.insert"):
            self.pending = method, first
            return first
        if "-after-" in first or OURS.fullmatch(first) and first != "garbage-reply":
            return first
        queue.pop(0)
        if first == "garbage-reply":
            raise Garbage
        if first == "return-reset-connection":
            raise Cut()
        m = re.fullmatch(r"return-(\d+)", first)
        raise Refuse(int(m.group(1)), "fault " + first)

    def emulator(self):
        """The test bench's other way to ask for a fault: a header, for this request alone."""
        return self.headers.get("x-goog-emulator-instructions", "")

    def stall(self, fault, had, has):
        """An upload stands still when it has so many bytes."""
        m = re.fullmatch(r"stall-for-(\d+)s-after-(\d+)K", fault or "")
        if m and had <= int(m.group(2)) * 1024 <= has:
            self.used("storage.objects.insert")
            time.sleep(int(m.group(1)))

    def used(self, method):
        if method:
            W.tests[self.headers.get("x-retry-test-id")]["instructions"][method].pop(0)

    def route(self, path):
        if path.startswith("/retry_test"):
            return self.retry_test(path)
        if not path.startswith("/control/"):
            self.outage("storage" if "/storage/" in path else "token")
        if path == "/" or path.startswith(("/computeMetadata/", "/token", "/sts", "/impersonate", "/control/", "/subject")):
            return self.identity(path)
        path = path.removeprefix("/resumable").removeprefix("/upload") if "/upload/" in path else path.removeprefix("/download")
        m = re.fullmatch(r"/storage/v1/b/([^/]+)(/.*)?", path)
        if not m:
            return self.answer(404, b"404 page not found", [("Content-Type", "text/plain")])
        self.bucket, rest = unquote(m.group(1)), m.group(2) or ""
        if self.bucket.startswith("auth-") and self.headers.get("authorization", "").removeprefix("Bearer ") not in W.tokens:
            raise Refuse(401, "Invalid Credentials")
        if self.bucket.startswith("missing-"):
            raise Refuse(404, "The specified bucket does not exist.")
        if self.bucket.startswith("forbidden-") and "testPermissions" not in rest:
            raise Refuse(403, "fake@project does not have storage.objects access to the Google Cloud Storage object.")
        if rest == "/iam/testPermissions":
            self.fault("storage.buckets.testIamPermissions")
            asked = parse_qs(self.url.query).get("permissions", [])
            some = [] if self.bucket.startswith("forbidden-") else [p for p in asked if not self.bucket.startswith("readonly-") or p.endswith(".get")]
            return self.answer(200, {"kind": "storage#testIamPermissionsResponse", "permissions": some})
        if self.bucket.startswith("late-") and self.command != "GET":
            raise Refuse(403, "fake@project does not have storage.objects.create access to the Google Cloud Storage object.")
        if rest == "/o" and self.command == "GET":
            return self.list()
        if rest == "/o":
            return self.insert()
        if rest == "":
            return self.answer(200, {"kind": "storage#bucket", "name": self.bucket, "id": self.bucket, "location": "US", "storageClass": "STANDARD"})
        self.name = unquote(rest.removeprefix("/o/"))
        return {"GET": self.get, "DELETE": self.delete}[self.command]()

    # ---- faults ----
    def outage(self, what):
        how, end = W.down.get(what, ("", 0))
        left = end - time.monotonic()
        if left <= 0:
            return
        if how == "503":
            raise Refuse(503, "fault outage")
        time.sleep(left if how == "hang" else 0)
        raise Cut()

    def held(self, name, after):
        if not W.hold or W.hold["name"] not in name or W.hold["after"] != after:
            return
        W.hold, W.holding = None, True
        while W.holding:
            time.sleep(0.005)
        raise Cut()

    def whole_workers(self, path):
        if path == "/control/faults":
            W.tests[None] = json.loads(self.data)
            self.known(W.tests[None])
        elif path == "/control/down":
            W.down = {what: (how, time.monotonic() + seconds) for what, (how, seconds) in json.loads(self.data).items()}
        elif path == "/control/hold":
            W.hold = json.loads(self.data)
        elif path == "/control/release":
            W.holding = False
        left = sum(len(q) for q in W.tests.get(None, {"instructions": {}})["instructions"].values())
        self.answer(200, {"faults_left": left, "holding": W.holding, "stored": W.stored})

    @staticmethod
    def known(test):
        for first in sum(test["instructions"].values(), []):
            if not BENCH.fullmatch(first) and not OURS.fullmatch(first):
                raise Refuse(400, "no such instruction: " + first)

    def retry_test(self, path):
        if self.command == "POST":
            name = "test-%d" % W.next_id()
            W.tests[name] = {"id": name, "instructions": json.loads(self.data)["instructions"]}
            self.known(W.tests[name])
            return self.answer(200, W.tests[name])
        test = W.tests.get(path.rsplit("/", 1)[1])
        if not test:
            raise Refuse(404, "no such test")
        if self.command == "DELETE":
            del W.tests[test["id"]]
        return self.answer(200, dict(test, completed=not any(test["instructions"].values())))

    # ---- objects ----
    def resource(self, o):
        host = "http://" + self.headers.get("host", "127.0.0.1")
        at = "%s/storage/v1/b/%s/o/%s" % (host, o["bucket"], "".join("%%%02X" % b if chr(b) not in SAFE else chr(b) for b in o["name"].encode()))
        return {"kind": "storage#object", "id": "%s/%s/%d" % (o["bucket"], o["name"], o["generation"]), "name": o["name"], "bucket": o["bucket"],
                "size": str(len(o["data"])), "generation": str(o["generation"]), "metageneration": "1", "crc32c": o["crc32c"], "md5Hash": o["md5"],
                "contentType": o["type"], "etag": base64.b64encode(b"%d" % o["generation"]).decode(), "metadata": o["metadata"],
                "storageClass": "STANDARD", "timeCreated": o["time"], "updated": o["time"],
                "selfLink": at, "mediaLink": at.replace("/storage/v1", "/download/storage/v1") + "?alt=media&generation=%d" % o["generation"]}

    def check(self, o, query=None):
        query = self.query if query is None else query
        want = query.get("ifGenerationMatch")
        if want is not None and int(want) != (o["generation"] if o else 0):
            raise Refuse(412, "At least one of the pre-conditions you specified did not hold.")

    def store(self, name, data, meta, query):
        self.held(name, False)
        o = self.store_now(name, data, meta, query)
        self.held(name, True)
        return o

    def store_now(self, name, data, meta, query):
        with W.lock:
            self.check(W.objects.get((self.bucket, name)), query)
            crc = crc32c(data)
            if meta.get("crc32c", crc) != crc:
                raise Refuse(400, 'Provided CRC32C "%s" doesn\'t match calculated CRC32C "%s".' % (meta["crc32c"], crc))
            fault = self.fault("storage.objects.insert")
            if fault == "wrong-crc32c" and data:
                data = bytes([data[0] ^ 1]) + data[1:]
                crc = crc32c(data)
                self.used("storage.objects.insert")
            if self.emulator() == "inject-upload-data-error":
                raise Refuse(412, "the bytes were damaged, and the crc32c is another")
            W.generation += 1
            o = {"bucket": self.bucket, "name": name, "data": data, "generation": W.generation, "crc32c": crc,
                 "md5": base64.b64encode(hashlib.md5(data).digest()).decode(), "type": meta.get("contentType", "application/octet-stream"),
                 "metadata": meta.get("metadata", {}), "encoding": meta.get("contentEncoding"), "time": time.strftime("%Y-%m-%dT%H:%M:%S.000Z", time.gmtime())}
            W.objects[self.bucket, name] = o
            if fault != "wrong-crc32c":
                W.stored.append([self.bucket, name, hashlib.sha256(data).hexdigest(), time.monotonic()])
            if fault == "lost-acknowledgement":
                self.used("storage.objects.insert")
                raise Cut()
            return o

    def insert(self):
        kind = self.query.get("uploadType")
        if "upload_id" in self.query:
            return self.session()
        token = self.headers.get("x-goog-gcs-idempotency-token")
        if token:
            W.idempotency[token] = W.idempotency.get(token, 0) + 1
        fault = self.fault("storage.objects.insert")
        if kind == "media":
            return self.answer(200, self.resource(self.store(self.query["name"], self.data, {"contentType": self.headers.get("content-type", "")}, self.query)))
        if kind == "multipart":
            m = re.search(r"boundary=[\"']?([^\"';]+)", self.headers["content-type"])  # gcloud has single quotes
            mark = b"--" + m.group(1).encode()
            parts = self.data.split(mark)
            meta = json.loads(re.split(rb"\r?\n\r?\n", parts[1], maxsplit=1)[1])
            data = re.split(rb"\r?\n\r?\n", mark.join(parts[2:-1]), maxsplit=1)[1]
            data = data[:-2] if data.endswith(b"\r\n") else data[:-1]
            if 0 <= after(fault) <= len(self.data):
                self.used("storage.objects.insert")
                raise (Cut() if "stream" in fault else Refuse(int(fault.split("-")[1]), "fault " + fault))
            self.stall(fault, 0, len(data))
            return self.answer(200, self.resource(self.store(meta.get("name", self.query.get("name")), data, meta, self.query)))
        if kind == "resumable":
            meta = json.loads(self.data) if self.data else {}
            name = meta.get("name", self.query.get("name"))
            self.check(W.objects.get((self.bucket, name)))
            upload = "session-%d" % W.next_id()
            W.sessions[upload] = {"name": name, "meta": meta, "query": self.query, "data": bytearray(), "done": None}
            if fault == "no-location":
                self.used("storage.objects.insert")
                return self.answer(200)
            return self.answer(200, b"", [("Location", "http://%s%s?uploadType=resumable&upload_id=%s" % (self.headers["host"], self.url.path, upload))])
        raise Refuse(400, "uploadType")

    def persisted(self, s):
        n = len(s["data"])
        self.answer(308, b"", [("Range", "bytes=0-%d" % (n - 1))] if n else [])

    def session(self):
        s = W.sessions.get(self.query["upload_id"])
        if not s:
            raise Refuse(404, "no such upload")
        if self.command == "DELETE":
            del W.sessions[self.query["upload_id"]]
            return self.answer(499)
        fault = self.fault("storage.objects.insert")
        if s["done"]:
            self.final = True
            return self.answer(200, self.resource(s["done"]))
        if fault == "lost-session" and s["data"]:
            self.used("storage.objects.insert")
            del W.sessions[self.query["upload_id"]]
            raise Refuse(410, "the upload is gone")
        m = re.fullmatch(r"bytes (?:(\d+)-(\d+)|\*)/(\d+|\*)", self.headers.get("content-range", "bytes 0-%d/%d" % (len(self.data) - 1, len(self.data))))
        if not m:
            raise Refuse(400, "Content-Range")
        total = None if m.group(3) == "*" else int(m.group(3))
        if m.group(1) is None and self.data:
            raise Refuse(400, "a status query with bytes")
        if m.group(1) is not None:
            at = int(m.group(1))
            if int(m.group(2)) - at + 1 != len(self.data) or at > len(s["data"]):
                raise Refuse(400, "Content-Range does not fit the bytes")
            last = total is not None and at + len(self.data) == total
            if not last and len(self.data) % QUANTUM:
                raise Refuse(400, "a chunk that is not a multiple of 256 KiB")
            if self.emulator() == "return-503-after-256K" and QUANTUM <= at + len(self.data):
                s["data"][at:] = self.data[:max(QUANTUM - at, 0)]
                raise Refuse(503, "fault " + self.emulator())
            had = len(s["data"])
            self.stall(fault, at, at + len(self.data))
            if len(s["data"]) != had:
                raise Cut()  # somebody went on meanwhile
            if 0 <= after(fault) <= at + len(self.data):
                s["data"][at:] = self.data[:after(fault) - at]
                self.used("storage.objects.insert")
                raise (Cut() if "stream" in fault else Refuse(int(fault.split("-")[1]), "fault " + fault))
            s["data"][at:] = self.data
        if total is not None and len(s["data"]) == total:
            s["done"] = self.complete(s)
            self.final = True
            return self.answer(200, self.resource(s["done"]))
        return self.persisted(s)

    def complete(self, s):
        before = W.objects.get((self.bucket, s["name"]))
        try:
            return self.store(s["name"], bytes(s["data"]), s["meta"], s["query"])
        except Cut:  # done, though the client does not hear of it
            o = W.objects.get((self.bucket, s["name"]))
            s["done"] = o if o is not before else None
            raise

    def get(self):
        fault = self.fault("storage.objects.get")
        o = W.objects.get((self.bucket, self.name))
        if not o or ("generation" in self.query and int(self.query["generation"]) != o["generation"]):
            raise Refuse(404, "No such object: %s/%s" % (self.bucket, self.name))
        self.check(o)
        if self.query.get("alt") != "media":
            return self.answer(200, self.resource(o))
        data, status, headers, first = o["data"], 200, [], 0
        if fault == "replaced":
            self.used("storage.objects.get")
            W.generation += 1
            W.objects[self.bucket, self.name] = dict(o, generation=W.generation)
            raise Refuse(404, "No such object: %s/%s" % (self.bucket, self.name))
        plain = o["encoding"] == "gzip" and "gzip" not in self.headers.get("accept-encoding", "")
        m = re.fullmatch(r"bytes=(\d+)-(\d*)", self.headers.get("range", ""))
        if m and fault in ("ignore-range", "other-range"):
            self.used("storage.objects.get")
            if fault == "other-range":
                return self.answer(206, data, [("Content-Range", "bytes 0-%d/%d" % (len(data) - 1, len(data)))])
        elif m and not plain:
            first, end = int(m.group(1)), int(m.group(2) or len(data) - 1)
            if first >= len(data):
                raise Refuse(416, "The requested range cannot be satisfied.")
            headers = [("Content-Range", "bytes %d-%d/%d" % (first, min(end, len(data) - 1), len(data)))]
            data, status = data[first:end + 1], 206
        if fault == "wrong-crc32c":
            self.used("storage.objects.get")
        if (fault == "wrong-crc32c" or self.emulator() == "return-corrupted-data") and data:
            data = bytes([data[0] ^ 1]) + data[1:]
        elif re.fullmatch(r"return-\d+-after-\d+K", fault or "") and first <= after(fault) < first + len(data):
            self.used("storage.objects.get")
            raise Refuse(int(fault.split("-")[1]), "fault " + fault)
        if plain:  # as Google's: who does not say that gzip will do gets it unpacked, whatever part was asked for
            data = gzip.decompress(data)
        headers += [("Content-Type", o["type"]), ("x-goog-generation", str(o["generation"])), ("x-goog-hash", "crc32c=%s,md5=%s" % (o["crc32c"], o["md5"])),
                    ("x-goog-stored-content-length", str(len(o["data"])))]
        self.emulated(first, len(data))
        self.answer(status, data, headers)

    def emulated(self, first, n):
        """The header's instructions for downloads; those that stall stand still for its last word, T seconds, where the test bench has ten."""
        how = self.emulator()
        pause = re.fullmatch(r"(stall-always|stall-at-256KiB)(?:/(\d+))?", how)
        if how == "return-broken-stream" and n > 1 << 20:
            self.breaks("return-broken-stream-after-1024K")
        elif how == "return-503-after-256K" and first == 0 and n > QUANTUM:
            self.breaks("return-broken-stream-after-256K")
        elif re.fullmatch(r"return-503-after-256K/retry-[12]", how):
            if first:
                raise Refuse(503, "fault " + how)
            if n > QUANTUM:
                self.breaks("return-broken-stream-after-256K")
        elif pause and (first == 0 or pause.group(1) == "stall-always"):
            self.breaks("stall-for-%ss-after-%dK" % (pause.group(2) or 10, 0 if pause.group(1) == "stall-always" else 256))

    def breaks(self, how):
        if not self.pending:
            self.pending = None, how

    def delete(self):
        fault = self.fault("storage.objects.delete")
        with W.lock:
            o = W.objects.get((self.bucket, self.name))
            if not o:
                raise Refuse(404, "No such object: %s/%s" % (self.bucket, self.name))
            self.check(o)
            del W.objects[self.bucket, self.name]
        if fault == "lost-acknowledgement":
            self.used("storage.objects.delete")
            raise Cut()
        self.answer(204)

    def list(self):
        self.fault("storage.objects.list")
        prefix, delimiter, size = self.query.get("prefix", ""), self.query.get("delimiter", ""), min(int(self.query.get("maxResults", 1000)), PAGE)
        items, prefixes = [], []
        for (bucket, name), o in sorted(W.objects.items()):
            if bucket != self.bucket or not name.startswith(prefix) or name <= self.query.get("pageToken", ""):
                continue
            cut = name.find(delimiter, len(prefix)) if delimiter else -1
            if cut >= 0:
                if name[:cut + len(delimiter)] not in prefixes:
                    prefixes.append(name[:cut + len(delimiter)])
            else:
                items.append(o)
        out = {"kind": "storage#objects"}
        if items:
            out["items"] = [self.resource(o) for o in items[:size]]
        if prefixes:
            out["prefixes"] = prefixes
        if len(items) > size:
            out["nextPageToken"] = items[size - 1]["name"]
        self.answer(200, out)


def after(fault):
    """How much of an upload or a download comes through before it breaks; -1: it is another kind of fault."""
    m = re.fullmatch(r"return-(?:\d+|broken-stream)-after-(\d+)([KB])", fault or "")
    return int(m.group(1)) * (1024 if m.group(2) == "K" else 1) if m else -1


SAFE = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._~"
PAGE = 3  # small, so that every list of the tests has pages


class Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request, client_address):
        if not isinstance(sys.exc_info()[1], ConnectionError):  # clients that go in the middle are what this is for
            super().handle_error(request, client_address)


def main(handler):
    host = sys.argv[3] if len(sys.argv) > 3 else "127.0.0.1"
    server = Server((host, int(sys.argv[1]) if len(sys.argv) > 1 else 0), handler)
    if len(sys.argv) > 2:  # where the port is written once it listens
        with open(sys.argv[2], "w") as f:
            f.write("%d\n" % server.server_address[1])
    print(server.server_address[1], flush=True)
    server.serve_forever()


if __name__ == "__main__":
    main(Handler)
