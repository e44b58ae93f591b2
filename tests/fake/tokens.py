"""The token servers of the fake Cloud Storage (gcs.py): a part of its handler, which has `world`, `data`, `answer` and the faults."""
import base64, hashlib, json, time
from urllib.parse import parse_qs


class Tokens:
    def token(self, field="access_token", seconds=3600):
        name = "ya29.token-%d" % self.world.next_id()
        self.world.tokens.add(name)
        return {field: name, "expires_in": seconds, "token_type": "Bearer"}

    def oauth_error(self, status, error, description):
        self.answer(status, {"error": error, "error_description": description})

    def identity(self, path):
        if path in ("/control/faults", "/control/down", "/control/hold", "/control/release", "/control/state"):
            return self.whole_workers(path)
        if not path.startswith("/control/"):
            if self.fault("token") == "cut-refusal":
                self.used("token")
                return self.answer(400, b'{"error": "temporarily_un')
        if path == "/control/key":
            self.world.key = json.loads(self.data)
            return self.answer(200, {})
        if path == "/control/expire":
            self.world.tokens.clear()
            return self.answer(200, {})
        if path == "/control/log":
            log, self.world.log, tokens, self.world.idempotency = self.world.log, [], self.world.idempotency, {}
            return self.answer(200, {"log": log, "idempotency": sorted(tokens.values())})
        if path == "/": # Google's clients ask so whether there is a metadata server
            return self.answer(200, b"computeMetadata/\n", [("Metadata-Flavor", "Google")])
        if path.startswith("/computeMetadata/"):
            if self.headers.get("metadata-flavor") != "Google":
                return self.answer(403, b"Missing Metadata-Flavor:Google header.")
            plain = {"project/project-id": b"project", "universe/universe-domain": b"googleapis.com"}.get(path.removeprefix("/computeMetadata/v1/"))
            account = {"aliases": ["default"], "email": "fake@project", "scopes": ["https://www.googleapis.com/auth/cloud-platform"]}
            what = plain or (account if path.endswith("/service-accounts/default/") else self.token())
            return self.answer(200, what, [("Metadata-Flavor", "Google")] + ([("Content-Type", "application/text")] if what is plain else []))
        if path == "/subject":
            return self.answer(200, {"id_token": "subject-of-a-pod"}) if self.headers.get("x-asks") == "qring" else self.answer(403)
        if path == "/impersonate":
            if self.headers.get("authorization", "").removeprefix("Bearer ") not in self.world.tokens or json.loads(self.data)["lifetime"] != "3600s":
                return self.oauth_error(403, "forbidden", "not a token of ours")
            t = self.token("accessToken")
            return self.answer(200, {"accessToken": t["accessToken"], "expireTime": "2099-01-01T00:00:00Z"})
        f = {k: v[0] for k, v in parse_qs(self.data.decode()).items()}
        if path == "/sts":
            good = {"grant_type": "urn:ietf:params:oauth:grant-type:token-exchange", "requested_token_type": "urn:ietf:params:oauth:token-type:access_token",
                    "subject_token": "subject-of-a-pod", "subject_token_type": "urn:ietf:params:oauth:token-type:jwt", "audience": "//iam/pool",
                    "scope": "https://www.googleapis.com/auth/cloud-platform"}
            return self.answer(200, self.token()) if f == good else self.oauth_error(400, "invalid_grant", "the subject token is not accepted")
        if f.get("grant_type") == "refresh_token":
            good = {"grant_type": "refresh_token", "client_id": "id", "client_secret": "secret&=", "refresh_token": "1//refresh"}
            return self.answer(200, self.token()) if f == good else self.oauth_error(400, "invalid_grant", "Token has been expired or revoked.")
        why = self.assertion(f)
        return self.oauth_error(400, "invalid_grant", why) if why else self.answer(200, self.token())

    def assertion(self, f):
        """Empty when the signed request is right (RFC 7523, RFC 8017 8.2.2), else why not."""
        try:
            head, claims, signature = f["assertion"].split(".")
            un64 = lambda t: base64.urlsafe_b64decode(t + "=" * (-len(t) % 4))
            h, c, n, e = json.loads(un64(head)), json.loads(un64(claims)), int(self.world.key["n"], 16), int(self.world.key["e"], 16)
            if any("=" in part for part in (head, claims, signature)) or f["grant_type"] != "urn:ietf:params:oauth:grant-type:jwt-bearer":
                return "form"
            if h != {"alg": "RS256", "typ": "JWT", "kid": "key-1"}:
                return "header"
            size = (n.bit_length() + 7) // 8
            digest = bytes.fromhex("3031300d060960864801650304020105000420") + hashlib.sha256((head + "." + claims).encode()).digest()
            want = b"\0\1" + b"\xff" * (size - 3 - len(digest)) + b"\0" + digest
            if pow(int.from_bytes(un64(signature), "big"), e, n).to_bytes(size, "big") != want:
                return "Invalid JWT Signature."
            if c["iss"] != "worker@project.iam" or not c["aud"].endswith("/token") or "devstorage" not in c["scope"]:
                return "claims"
            return "" if c["exp"] - c["iat"] == 3600 and abs(c["iat"] - time.time()) < 300 else "Invalid JWT: the clock"
        except (KeyError, ValueError, TypeError) as x:
            return "malformed: %r" % x
