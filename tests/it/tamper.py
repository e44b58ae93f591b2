"""Tampers with the folder of a run: tamper.py KIND DIR."""
import hashlib, json, os, re, shutil, sys

kind, folder = sys.argv[1:3]
path = lambda name: os.path.join(folder, name)


def lines():
    with open(path("steps.jsonl")) as f: return f.read().splitlines(True)


def put(text):
    with open(path("steps.jsonl"), "w") as f: f.writelines(text)


def flip(line, key):
    """Return the line with another first digit of a hash."""
    at = line.index(f'"{key}":"') + len(key) + 4
    return line[:at] + ("0" if line[at] != "0" else "1") + line[at + 1:]


def replace(name, old, new):
    with open(path(name)) as f: text = f.read()
    assert old in text, (name, old)
    with open(path(name), "w") as f: f.write(text.replace(old, new))


def chained(text):
    """Return the lines with a matching chain, and its last value."""
    r = json.load(open(path("result.json")))
    chain = hashlib.sha256(f"qring-chain-v1\njob_hash={r['job_hash']}\ndata_hash={r['data_hash']}\narithmetic={r['arithmetic']}\n".encode()).hexdigest()
    out = []
    for line in text:
        head = line.split(',"chain":')[0]
        chain = hashlib.sha256((chain + head).encode()).hexdigest()
        out.append(f'{head},"chain":"{chain}"}}\n')
    return out, chain


def seal(*drop):
    """Make the hashes of all files agree, and leave some out."""
    def sha256(name, otherwise):
        if "/" in name or not os.path.exists(path(name)): return otherwise
        with open(path(name), "rb") as f: return hashlib.sha256(f.read()).hexdigest()
    weights = json.load(open(path("result.json")))["weights"]
    for key, name in (("sha256", "weights.h5"), ("safetensors_sha256", "weights.safetensors")): replace("result.json", weights[key], sha256(name, weights[key]))
    p = json.load(open(path("provenance.json")))
    p["subject"] = [s for s in p["subject"] if s["name"] not in drop]
    for s in p["subject"]: s["digest"]["sha256"] = sha256(s["name"], s["digest"]["sha256"])
    with open(path("provenance.json"), "w") as f: json.dump(p, f, indent=2)


def forge(change):
    """Change lines and make all other files agree with them."""
    result = json.load(open(path("result.json")))
    text, chain = chained(change(lines()))
    put(text)
    last = json.loads(text[-1])
    for key in ("chain", "state_digest"):
        for name in ("result.json", "provenance.json"): replace(name, result[key], last[key])
    seal()


def numbers(steps, epochs):
    """Change both numbers of result.json."""
    r = json.load(open(path("result.json")))
    for key, n in (("steps", steps), ("epochs", epochs)): replace("result.json", f'"{key}": {r[key]},', f'"{key}": {n},')


def loss(text):
    text[30] = re.sub(r'"loss":0\.', '"loss":0.1', text[30], count=1)
    return text


checkpoints = lambda: sorted(n for n in os.listdir(path("checkpoints")) if n.endswith(".safetensors"))
text = lines()
if kind == "loss": put(loss(text))
elif kind == "digest": text[30] = flip(text[30], "state_digest"); put(text)
elif kind == "chain": text[30] = flip(text[30], "chain"); put(text)
elif kind == "deleted": del text[30]; put(text)
elif kind == "deleted-evaluation": del text[32]; put(text)
elif kind == "deleted-last": put(text[:-1])
elif kind == "deleted-first": put(text[1:])
elif kind == "inserted": text.insert(31, text[10]); put(text)
elif kind == "swapped": text[30], text[31] = text[31], text[30]; put(text)
elif kind == "garbage": text[30] = "hello\n"; put(text)
elif kind == "cut": put(text[:-1] + [text[-1][:-20]])
elif kind == "forged-loss": forge(loss)
elif kind == "forged-digest": forge(lambda t: t[:30] + [flip(t[30], "state_digest")] + t[31:])
elif kind == "weight":
    with open(path("weights.safetensors"), "r+b") as f:
        f.seek(-9, 2); byte = f.read(1); f.seek(-9, 2); f.write(bytes([byte[0] ^ 1]))
elif kind == "checkpoint": shutil.copy(path("checkpoints/" + checkpoints()[0]), path("checkpoints/" + checkpoints()[1]))
elif kind in ("appended", "fewer-steps"):
    if kind == "appended": numbers(101, 50)
    forge(lambda t: t + [t[-2].replace('"step":100', '"step":101')])
elif kind == "fewer-epochs": numbers(98, 49); forge(lambda t: t[:147] + [re.sub(r'"loss":0\.', '"loss":0.0', line) for line in t[147:]])
elif kind == "second-evaluation": forge(lambda t: t + [re.sub(r'"accuracy":[0-9.]+', '"accuracy":1', t[-1])])
elif kind == "early-evaluation": forge(lambda t: t[:30] + [t[30].replace('"kind":"TRAIN"', '"kind":"EVAL"')] + t[31:])
elif kind == "skipped": forge(lambda t: t[:30] + t[31:])
elif kind == "skipped-evaluation": forge(lambda t: t[:32] + t[33:])
elif kind == "far-step": forge(lambda t: t + [t[-1].replace('"step":100', '"step":9999999999999999')])
elif kind == "result-loss": replace("result.json", '"loss": 0.', '"loss": 0.0'); seal()
elif kind == "result-accuracy": replace("result.json", '"val_accuracy": ', '"val_accuracy": 0.'); seal()
elif kind == "field": replace("provenance.json", '"seed": "1"', '"seed": "999"')
elif kind == "data-field": replace("provenance.json", "samples, ", "samples; ")
elif kind == "precision": replace("job.json", '"seed": 1', '"seed": 1, "precision": "double"'); seal()
elif kind == "unlisted": seal("weights.h5", "weights.safetensors")
elif kind == "unreadable":
    with open(path("weights.h5"), "w") as f: f.write("garbage")
    seal()
elif kind == "input-names":
    with open(path("weights.safetensors"), "rb") as f: text = f.read()
    assert rb'[\"a\",\"b\"]' in text
    with open(path("weights.safetensors"), "wb") as f: f.write(text.replace(rb'[\"a\",\"b\"]', rb'[\"b\",\"a\"]'))
    seal()
elif kind == "without-result":
    for name in ("result.json", "provenance.json"): os.remove(path(name))
elif kind == "without-result-file": # provenance.json does not list weights.safetensors, of another state
    with open(path("weights.safetensors"), "r+b") as f: f.seek(-9, 2); f.write(b"?")
    seal("weights.safetensors", "result.json"); os.remove(path("result.json"))
elif kind == "weights-at": # URL: weights.h5 is there
    os.remove(path("weights.h5"))
    for name, old in (("result.json", json.load(open(path("result.json")))["weights"]["url"]), ("provenance.json", "weights.h5")): replace(name, old, sys.argv[3])
    seal()
elif kind == "subject": # NAME: another file is listed
    p = json.load(open(path("provenance.json")))
    p["subject"].append({"name": sys.argv[3], "digest": {"sha256": 64 * "0"}})
    with open(path("provenance.json"), "w") as f: json.dump(p, f)
elif kind == "seed": replace("job.json", '"seed": 1', '"seed": 2')
elif kind == "arithmetic":
    for name in ("result.json", "provenance.json"): replace(name, '"f32-v1"', '"f32-v0"')
elif kind == "other-program":
    for name in ("result.json", "provenance.json"): replace(name, '"f32-v1"', '"f32-v0"')
    forge(lambda t: t)
elif kind == "without-chain":
    put([re.sub(r',"state_digest.*', "}", line) for line in text])
    os.remove(path("provenance.json"))
    r = json.load(open(path("result.json")))
    for key in ("chain", "data_hash", "arithmetic", "program"): del r[key]
    with open(path("result.json"), "w") as f: json.dump(r, f)
else: sys.exit(f"unknown kind {kind}")
