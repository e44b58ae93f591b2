#!/usr/bin/python3
"""A client of S3 beside ours, for tests: what it puts ours reads, and the other way round. Server and keys as AWS' own clients have them:
AWS_ENDPOINT_URL, AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY.
s3_client.py make BUCKET | put BUCKET NAME FILE | get BUCKET NAME FILE | list BUCKET PREFIX
"""
import hashlib, hmac, os, re, sys, time, urllib.request
from urllib.parse import quote, urlsplit
from xml.sax.saxutils import unescape


def call(method, path, query="", data=b""):
    base = os.environ["AWS_ENDPOINT_URL"].rstrip("/")
    now, region, digest = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime()), "us-east-1", hashlib.sha256(data).hexdigest()
    headers = {"host": urlsplit(base).netloc, "x-amz-content-sha256": digest, "x-amz-date": now}
    names = ";".join(sorted(headers))
    canonical = "\n".join([method, quote(path), query, "".join("%s:%s\n" % (k, headers[k]) for k in sorted(headers)), names, digest])
    scope = "%s/%s/s3/aws4_request" % (now[:8], region)
    key = ("AWS4" + os.environ["AWS_SECRET_ACCESS_KEY"]).encode()
    for part in (*scope.split("/"), "AWS4-HMAC-SHA256\n%s\n%s\n%s" % (now, scope, hashlib.sha256(canonical.encode()).hexdigest())):
        key = hmac.new(key, part.encode(), hashlib.sha256).digest()
    headers["Authorization"] = "AWS4-HMAC-SHA256 Credential=%s/%s, SignedHeaders=%s, Signature=%s" % (
        os.environ["AWS_ACCESS_KEY_ID"], scope, names, key.hex())
    url = base + quote(path) + ("?" + query if query else "")
    return urllib.request.urlopen(urllib.request.Request(url, data=data if method == "PUT" else None, headers=headers, method=method), timeout=60).read()


def names(bucket, prefix):
    out, token = [], ""
    while token is not None:
        more = "continuation-token=%s&" % quote(token, safe="") if token else ""
        page = call("GET", "/%s/" % bucket, more + "list-type=2&prefix=" + quote(prefix, safe="")).decode()
        out += [unescape(k, {"&quot;": '"', "&#34;": '"', "&#39;": "'"}) for k in re.findall("<Key>(.*?)</Key>", page)]
        found = re.search("<NextContinuationToken>(.*?)</NextContinuationToken>", page)
        token = unescape(found.group(1)) if found else None
    return out


if __name__ == "__main__":
    what, bucket, *rest = sys.argv[1:]
    if what == "make":
        call("PUT", "/" + bucket)
    elif what == "put":
        with open(rest[1], "rb") as f:
            call("PUT", "/%s/%s" % (bucket, rest[0]), data=f.read())
    elif what == "get":
        data = call("GET", "/%s/%s" % (bucket, rest[0]))
        with open(rest[1], "wb") as f:
            f.write(data)
    else:
        print("\n".join(names(bucket, rest[0])))
