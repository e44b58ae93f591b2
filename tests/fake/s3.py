#!/usr/bin/python3
"""An S3 for tests, on loopback, in memory: path-style addresses, objects with conditions and checksums, lists in pages, faults on request as in
gcs.py (whose plumbing and instructions it has: insert is PUT, get is HEAD and GET). Every request's signature (AWS Signature Version 4) and the
SHA-256 of its payload are verified here, independently of the client.
Buckets exist when a request names them, but: missing-* (404), forbidden-* (403), readonly-* (403 for writes), late-* (403 for writes, though the
check of a write passes), elsewhere-* (in region eu-west-7), careless-* (passes over conditions), unable-* (501 for conditions), unsummed-* (keeps no
checksum), slow-* (409 and 400 RequestTimeout once for each write).
Keys: KEYS, and those that are given out: STS (POST /, AssumeRoleWithWebIdentity), a container's endpoint (/v2/credentials), an instance's metadata
(/latest/..., v2). /control/expire ends the latter, /control/log is what came; the rest of /control as gcs.py.
s3.py [PORT [FILE [ADDRESS]]] writes its port to FILE, and prints it.
"""
import hashlib, hmac, re, time
from urllib.parse import parse_qs, quote, unquote
from xml.sax.saxutils import escape

import gcs
from gcs import Cut, Refuse, W, after, crc32c

KEYS = {"AKIDFAKE": "fake/secret+key"}
GIVEN = {}  # id: [secret, session, ended]
SLOW = {}
CODES = {400: "InvalidRequest", 403: "AccessDenied", 404: "NoSuchKey", 409: "InvalidBucketState", 412: "PreconditionFailed", 416: "InvalidRange",
         429: "TooManyRequests", 500: "InternalError", 501: "NotImplemented", 503: "SlowDown"}
EARLY = 900  # keys that are given out last so many seconds


def mac(key, text):
    return hmac.new(key, text.encode(), hashlib.sha256).digest()


class Handler(gcs.Handler):
    def answer(self, status, body=b"", headers=()):
        if self.command == "HEAD":
            self.send_response(status)
            for k, v in headers:
                self.send_header(k, v)
            if not any(k == "Content-Length" for k, _ in headers):
                self.send_header("Content-Length", "0")
            return self.end_headers()
        if self.pending and self.command in ("PUT", "DELETE") and 200 <= status < 300:
            (method, what), self.pending = self.pending, None
            self.used(method)
            if what == "html-reply":
                return super().answer(200, b"<!doctype html><title>Sign in</title>", [("Content-Type", "text/html")])
            raise Cut()
        super().answer(status, body, headers)

    def error(self, status, message):
        code, _, text = message.rpartition("|")
        extra = [("x-amz-bucket-region", "eu-west-7")] if status == 301 else []
        region = "<Region>eu-west-7</Region>" if status == 301 else ""
        body = '<?xml version="1.0" encoding="UTF-8"?>\n<Error><Code>%s</Code><Message>%s</Message>%s<RequestId>1</RequestId></Error>' % (
            code or CODES.get(status, "Error"), escape(text), region)
        self.answer(status, body.encode(), [("Content-Type", "application/xml"), *extra])

    do_HEAD = gcs.Handler.run

    # ---- signatures ----
    def signed(self):
        m = re.fullmatch(r"AWS4-HMAC-SHA256 Credential=([^/]+)/(\d{8})/([^/]+)/s3/aws4_request, SignedHeaders=([^,]+), Signature=([0-9a-f]{64})",
                         self.headers.get("authorization", ""))
        if not m:
            raise Refuse(403, "AccessDenied|no signature")
        name, day, region, names, signature = m.groups()
        secret, session, ended = [KEYS[name], None, False] if name in KEYS else GIVEN.get(name, [None, None, False])
        if secret is None:
            raise Refuse(403, "InvalidAccessKeyId|The AWS Access Key Id you provided does not exist in our records.")
        if ended:
            raise Refuse(400, "ExpiredToken|The provided token has expired.")
        if self.headers.get("x-amz-security-token") != session:
            raise Refuse(400, "InvalidToken|The provided token is malformed or otherwise invalid.")
        names_list = names.split(";")
        for want in [h.lower() for h in self.headers if h.lower().startswith("x-amz-")] + ["host"]:
            if want not in names_list:
                raise Refuse(403, "AccessDenied|There were headers present in the request which were not signed: " + want)
        if self.headers["x-amz-content-sha256"] != hashlib.sha256(self.data).hexdigest():
            raise Refuse(400, "XAmzContentSHA256Mismatch|The provided 'x-amz-content-sha256' header does not match what was computed.")
        stamp = self.headers["x-amz-date"]
        if abs(time.mktime(time.strptime(stamp, "%Y%m%dT%H%M%SZ")) - time.timezone - time.time()) > 900:
            raise Refuse(403, "RequestTimeTooSkewed|The difference between the request time and the current time is too large.")
        path = quote(unquote(self.url.path), safe="/-._~")
        query = "&".join(sorted("%s=%s" % (quote(unquote(k), safe="-._~"), quote(unquote(v), safe="-._~"))
                                for k, _, v in (p.partition("=") for p in self.url.query.split("&") if p)))
        lines = "".join("%s:%s\n" % (n, " ".join(self.headers[n].split())) for n in names_list)
        canonical = "\n".join([self.command, path, query, lines, names, self.headers["x-amz-content-sha256"]])
        key = mac(mac(mac(mac(("AWS4" + secret).encode(), day), region), "s3"), "aws4_request")
        text = "AWS4-HMAC-SHA256\n%s\n%s/%s/s3/aws4_request\n%s" % (stamp, day, region, hashlib.sha256(canonical.encode()).hexdigest())
        if path != self.url.path or not hmac.compare_digest(mac(key, text).hex(), signature):
            raise Refuse(403, "SignatureDoesNotMatch|The request signature we calculated does not match the signature you provided.")

    # ---- keys ----
    def new_keys(self):
        name = "ASIAFAKE%d" % W.next_id()
        GIVEN[name] = ["given/secret+%s" % name, "session-of-%s==" % name, False]
        ends = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() + EARLY))
        return name, *GIVEN[name][:2], ends

    def keys_json(self):
        name, secret, session, ends = self.new_keys()
        self.answer(200, {"Code": "Success", "Type": "AWS-HMAC", "AccessKeyId": name, "SecretAccessKey": secret, "Token": session, "Expiration": ends})

    def sts(self):
        self.fault("token")
        f = {k: v[0] for k, v in parse_qs(self.data.decode()).items()}
        good = {"Action": "AssumeRoleWithWebIdentity", "Version": "2011-06-15", "RoleArn": "arn:aws:iam::1:role/qring", "RoleSessionName": "qring",
                "WebIdentityToken": "subject-of-a-pod"}
        if f != good:
            return self.answer(400, b"<ErrorResponse><Error><Type>Sender</Type><Code>InvalidIdentityToken</Code>"
                                    b"<Message>No OpenIDConnect provider found</Message></Error></ErrorResponse>")
        self.answer(200, ('<AssumeRoleWithWebIdentityResponse xmlns="https://sts.amazonaws.com/doc/2011-06-15/"><AssumeRoleWithWebIdentityResult>'
                          "<Credentials><AccessKeyId>%s</AccessKeyId><SecretAccessKey>%s</SecretAccessKey><SessionToken>%s</SessionToken>"
                          "<Expiration>%s</Expiration></Credentials></AssumeRoleWithWebIdentityResult></AssumeRoleWithWebIdentityResponse>"
                          % self.new_keys()).encode())

    def metadata(self, path):
        self.fault("token")
        if path == "/latest/api/token" and self.command == "PUT" and int(self.headers.get("x-aws-ec2-metadata-token-ttl-seconds", 0)):
            return self.answer(200, b"imds-token")
        if self.headers.get("x-aws-ec2-metadata-token") != "imds-token":
            return self.answer(401)
        place = "/latest/meta-data/iam/security-credentials/"
        return self.answer(200, b"worker-role") if path == place else self.keys_json() if path == place + "worker-role" else self.answer(404)

    # ---- requests ----
    def route(self, path):
        if path.startswith("/retry_test"):
            return self.retry_test(path)
        if path == "/control/expire":
            for k in GIVEN.values():
                k[2] = True
            return self.answer(200, {})
        if path.startswith("/control/"):
            return self.identity(path)
        token = path == "/" or path.startswith(("/latest/", "/v2/"))
        self.outage("token" if token else "storage")
        if path == "/":
            return self.sts()
        if path.startswith("/latest/"):
            return self.metadata(path)
        if path == "/v2/credentials":
            self.fault("token")
            return self.keys_json() if self.headers.get("authorization") == "container-token" else self.answer(403)
        self.signed()
        self.bucket, _, name = path[1:].partition("/")
        self.name = unquote(name)
        write = self.command in ("PUT", "DELETE")
        if self.bucket.startswith("missing-"):
            raise Refuse(404, "NoSuchBucket|The specified bucket does not exist")
        if self.bucket.startswith("elsewhere-"):
            raise Refuse(301, "PermanentRedirect|The bucket you are attempting to access must be addressed using the specified endpoint.")
        if self.bucket.startswith("forbidden-") or self.bucket.startswith("readonly-") and write or \
                self.bucket.startswith("late-") and write and ".check-" not in self.name:
            raise Refuse(403, "AccessDenied|Access Denied")
        if self.bucket.startswith("unable-") and write and (self.headers.get("if-match") or self.headers.get("if-none-match")):
            raise Refuse(501, "NotImplemented|A header you provided implies functionality that is not implemented")
        if self.bucket.startswith("slow-") and self.command == "PUT" and SLOW.setdefault(self.name, 2):
            SLOW[self.name] -= 1
            raise Refuse(409, "ConditionalRequestConflict|retry") if SLOW[self.name] else Refuse(400, "RequestTimeout|not read from")
        if not name and self.command == "GET":
            return self.list()
        return {"GET": self.get, "HEAD": self.get, "PUT": self.put, "DELETE": self.delete}[self.command]()

    def conditions(self, o):
        match, none = self.headers.get("if-match"), self.headers.get("if-none-match")
        if self.bucket.startswith("careless-") and self.command == "PUT":
            return
        if match and not o:
            raise Refuse(404, "NoSuchKey|The specified key does not exist.")
        if match and match != o["etag"] or none and o:
            raise Refuse(412, "At least one of the pre-conditions you specified did not hold")

    def put(self):
        fault = self.fault("storage.objects.insert")
        if 0 <= after(fault) <= len(self.data):
            self.used("storage.objects.insert")
            raise Cut() if "stream" in fault else Refuse(int(fault.split("-")[1]), "fault " + fault)
        self.stall(fault, 0, len(self.data))
        self.held(self.name, False)
        with W.lock:
            self.conditions(W.objects.get((self.bucket, self.name)))
            data, crc = self.data, crc32c(self.data)
            if self.headers.get("x-amz-checksum-crc32c", crc) != crc:
                raise Refuse(400, "BadDigest|The CRC32C you specified did not match what we received.")
            if fault == "wrong-crc32c" and data:
                data = bytes([data[0] ^ 1]) + data[1:]
                self.used("storage.objects.insert")
            o = {"data": data, "crc32c": crc32c(data), "etag": '"%s"' % hashlib.md5(data).hexdigest(),
                 "meta": [(k, v) for k, v in self.headers.items() if k.lower().startswith("x-amz-meta-")]}
            W.objects[self.bucket, self.name] = o
            if fault != "wrong-crc32c":
                W.stored.append([self.bucket, self.name, hashlib.sha256(data).hexdigest(), time.monotonic()])
        if fault == "lost-acknowledgement":
            self.used("storage.objects.insert")
            raise Cut()
        self.held(self.name, True)
        self.answer(200, b"", [("ETag", o["etag"]), *self.sums(o)])

    def sums(self, o):
        return [] if self.bucket.startswith("unsummed-") else [("x-amz-checksum-crc32c", o["crc32c"])]

    def get(self):
        fault = self.fault("storage.objects.get")
        if self.command == "HEAD":
            self.pending = None  # what a reply suffers waits for one with a body
        o = W.objects.get((self.bucket, self.name))
        if not o:
            raise Refuse(404, "NoSuchKey|The specified key does not exist.")
        self.conditions(o)
        headers = [("ETag", o["etag"]), *o["meta"]]
        data, status, first = o["data"], 200, 0
        if self.command == "HEAD":
            return self.answer(200, b"", [*headers, *self.sums(o), ("Content-Length", str(len(data)))])
        if fault == "replaced":
            self.used("storage.objects.get")
            W.objects[self.bucket, self.name] = dict(o, etag='"%032x"' % W.next_id())
            raise Refuse(412, "replaced")
        m = re.fullmatch(r"bytes=(\d+)-(\d*)", self.headers.get("range", ""))
        if m and fault in ("ignore-range", "other-range"):
            self.used("storage.objects.get")
            if fault == "other-range":
                return self.answer(206, data, [*headers, ("Content-Range", "bytes 0-%d/%d" % (len(data) - 1, len(data)))])
        elif m:
            first, end = int(m.group(1)), int(m.group(2) or len(data) - 1)
            if first >= len(data):
                raise Refuse(416, "The requested range cannot be satisfied.")
            headers.append(("Content-Range", "bytes %d-%d/%d" % (first, min(end, len(data) - 1), len(data))))
            data, status = data[first:end + 1], 206
        if fault == "wrong-crc32c" and data:
            self.used("storage.objects.get")
            data = bytes([data[0] ^ 1]) + data[1:]
        self.answer(status, data, headers)

    def delete(self):
        fault = self.fault("storage.objects.delete")
        W.objects.pop((self.bucket, self.name), None)
        if fault == "lost-acknowledgement":
            self.used("storage.objects.delete")
            raise Cut()
        self.answer(204)

    def list(self):
        self.fault("storage.objects.list")
        if self.query.get("list-type") != "2":
            raise Refuse(400, "list-type")
        at = self.query.get("continuation-token", "")
        names = [n for b, n in sorted(W.objects) if b == self.bucket and n.startswith(self.query.get("prefix", "")) and n > at]
        page, more = names[:gcs.PAGE], len(names) > gcs.PAGE
        body = '<?xml version="1.0" encoding="UTF-8"?>\n<ListBucketResult xmlns="http://s3.amazonaws.com/doc/2006-03-01/"><Name>%s</Name><IsTruncated>%s</IsTruncated>' % (
            self.bucket, str(more).lower())
        body += "".join("<Contents><Key>%s</Key><Size>%d</Size><Owner><ID>1</ID></Owner></Contents>" % (escape(n, {'"': "&quot;"}), len(W.objects[self.bucket, n]["data"]))
                        for n in page)
        body += "<NextContinuationToken>%s</NextContinuationToken>" % escape(page[-1]) if more else ""
        self.answer(200, (body + "</ListBucketResult>").encode(), [("Content-Type", "application/xml")])


if __name__ == "__main__":
    gcs.main(Handler)
