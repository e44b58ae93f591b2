#!/usr/bin/python3
"""Row 46: a Cloud Storage server (tests/fake/gcs.py) whose successful replies are malformed, and
downloads that break repeatedly. No times are measured."""
import hashlib, json, os, struct, subprocess, urllib.request, zipfile

from ring import QRING, Ring, WORK, alone, check, job, main, report, row, truth
from storage import OFTEN, SMALL, Fake, small

# Faults that make the body of a 200 unreadable.
CUT = ["return-broken-stream", "cut-reply-after-0B", "cut-reply-after-20B", "short-reply", "chunked-reply", "html-reply"]


def faults(fake, **instructions):
    fake.ask("faults", {"instructions": {("token" if method == "token" else "storage.objects." + method): list(of) for method, of in instructions.items()}})


def upload(fake, bucket, name, content):
    """Stores an object in the fake server."""
    url = f"http://{fake.at}/upload/storage/v1/b/{bucket}/o?uploadType=media&name={name.replace('/', '%2F')}"
    urllib.request.urlopen(urllib.request.Request(url, data=content), timeout=60).close()


@row(46)
def unreadable_success():
    """The reply to the final upload is a 200 with an unreadable body: the weights count as stored,
    once."""
    with Fake("cut") as fake:
        good = 0
        for what in CUT:
            name = "cut-" + what
            r = Ring(name, small("cut"), 2, 3, [*OFTEN[:4], "--logdir=", "--weights", f"gs://auth-bucket/{name}/w.h5"], env=fake.env)
            faults(fake, insert=[what] * 3, get=[what], token=[what])  # the weights, a checkpoint, LATEST
            for i in range(2): r.start(i)
            codes = r.wait()
            left = fake.ask("state")["faults_left"]
            check(f"{what}: exit codes 0, not {codes}; {r.last_lines()}", codes == {0: 0, 1: 0})
            check(f"{what}: {left} faults were not used", left == 0)
            r.same()
            with open(alone(r.job, r.epochs) + "/weights.h5", "rb") as f: want = hashlib.sha256(f.read()).hexdigest()
            stored = fake.stored(name + "/w.h5")
            check(f"{what}: the weights are stored once, with the right bytes: {stored}, {want}", [o[2] for o in stored] == [want])
            good += codes == {0: 0, 1: 0} and [o[2] for o in stored] == [want]
        report(46, f"unreadable bodies of 200 in {len(CUT)} ways, for final uploads, tokens and downloads: exit 0, weights stored",
               f"{good} of {len(CUT)}", "all")


@row(46)
def large_upload_with_cut_reply():
    """An upload above 8 MiB takes several requests; the last reply is cut, and so are the replies
    to the status queries that follow."""
    with Fake("large") as fake:
        path = WORK + "/large.npz"
        n = 1200000
        header = ("{'descr': '<f8', 'fortran_order': False, 'shape': (%d,), }" % n).encode()
        header += b" " * (63 - (10 + len(header)) % 64) + b"\n"
        with zipfile.ZipFile(path, "w") as z:
            z.writestr("w.npy", b"\x93NUMPY\1\0" + struct.pack("<H", len(header)) + header + struct.pack(f"<{n}d", *range(n)))
        subprocess.run([QRING, "weights", path, "--to", WORK + "/large.safetensors"], check=True, stdout=subprocess.DEVNULL)
        with open(WORK + "/large.safetensors", "rb") as f: want = hashlib.sha256(f.read()).hexdigest()
        good = 0
        for times in (1, 3, 4):
            name = f"large-{times}.safetensors"
            faults(fake, insert=["return-broken-stream-final-chunk-after-100B"] * times)
            done = subprocess.run([QRING, "weights", path, "--to", "gs://plain/" + name], env={**os.environ, **fake.env}, capture_output=True, text=True, timeout=120)
            check(f"{times} replies cut: {done.stderr}", done.returncode == 0)
            stored = [o[2] for o in fake.stored(name)]
            check(f"{times} replies cut: the same bytes, once: {stored}", stored == [want])
            good += done.returncode == 0 and stored == [want]
        report(46, "an upload of 9.6 MB whose last replies are cut: exit 0, the same bytes, stored once", f"{good} of 3", "all")


@row(46)
def download_breaks_repeatedly():
    """A data file above 8 MiB: the stream breaks every 256 KiB, the server ignores Range, the
    object is replaced during the download."""
    text = "a,b,c,d,y\n" + "".join(",".join(f"{((i * 37 + k * 11) % 200 - 100) / 100:.55f}" for k in range(4)) + f",{1 if i % 3 else -1}\n" for i in range(40000))
    content = text.encode()
    disk = WORK + "/data.csv"
    os.makedirs(WORK, exist_ok=True)
    with open(disk, "wb") as f: f.write(content)
    def job_with_data(name, url):
        path = job(name, model=SMALL["model"])
        with open(path) as f: j = json.load(f)
        j["data"] = {"source": "csv", "url": url}
        with open(path, "w") as f: json.dump(j, f)
        return path
    with Fake("breaks") as fake:
        upload(fake, "plain", "d/data.csv", content)
        local, breaks, broken = job_with_data("breaks-disk", disk), 0, "return-broken-stream-after-256K"
        for what, odd in (("repeatedly", [broken] * 4 + ["short-reply", "html-reply", broken, "return-416", broken, "replaced", broken]),
                          ("Range is ignored", [broken, "ignore-range"]), ("another range", [broken, "other-range"])):
            r = Ring("breaks-" + odd[1], job_with_data("breaks", "gs://plain/d/data.csv"), 1, 1, [*OFTEN[:4], "--logdir="], env=fake.env)
            faults(fake, get=odd)
            breaks += len(odd)
            r.start(0)
            codes, left = r.wait(), fake.ask("state")["faults_left"]
            check(f"{what}: exit code 0, not {codes}; {r.last_lines()}", codes == {0: 0})
            check(f"{what}: {left} faults were not used", left == 0)
            digest, _ = truth(local, 1)
            with open(r.out + "/result.json") as f: mine = json.load(f)["state_digest"]
            check(f"{what}: digest {mine}, not {digest}", mine == digest)
        report(46, f"a data file of {len(content) / 1e6:.1f} MB whose download breaks {breaks} times in six ways: trained", "digest of the local file", "the same, exit 0")


main()
