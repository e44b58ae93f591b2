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


def forge(change):
    """Change lines and make all other files agree with them."""
    was = json.load(open(path("result.json")))["chain"]
    text, chain = chained(change(lines()))
    put(text)
    replace("result.json", was, chain)
    replace("provenance.json", was, chain)
    for name in ("steps.jsonl", "result.json"):
        with open(path("provenance.json")) as f: p = json.load(f)
        old = next(s["digest"]["sha256"] for s in p["subject"] if s["name"] == name)
        with open(path(name), "rb") as f: replace("provenance.json", old, hashlib.sha256(f.read()).hexdigest())


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
