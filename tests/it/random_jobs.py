#!/usr/bin/python3
"""Random jobs, each trained several times: with other kernels, numbers of threads and of workers the
steps, the result and the weights must have the same bits.

The objects of the job file are drawn from its schema, so that a new gate, optimizer or ansatz is
drawn as soon as `qring help job --schema` has it. What a schema cannot say (a circuit's qubits,
matrices, angles, what fits together) is drawn here; a job that qring refuses is drawn again.
JOBS=500 sets the number of jobs (100), SEED=7 that of the first (1); a job that fails is left in
build/release/it/random_jobs."""
import collections, hashlib, json, os, random, shutil, subprocess, sys

root = os.path.realpath(os.path.dirname(__file__) + "/../..")
sys.path.insert(0, root + "/tests")
import tally
from tally import check

qring = f"{root}/{os.environ.get('QR_BIN', 'build/bin')}/qring"
work = f"{root}/{os.environ.get('QR_B', 'build/release')}/it/random_jobs"
JOBS, SEED = int(os.environ.get("JOBS", "100")), int(os.environ.get("SEED", "1"))
SECONDS = 600  # a job that takes longer hangs
REFUSED = 2  # exit status of a job with an error
PARAMETERS, COLUMNS, BITS = 6, 3, 3
LARGE = 9  # a circuit of so many qubits gets few samples
DEFS = {}


class Draw:
    """Draws one job. Every draw comes from the seed."""

    def __init__(self, seed):
        self.rng = random.Random(seed)
        self.seed = seed
        self.n_columns = 0  # what a circuit may read
        self.bits = set()  # measured so far

    def chance(self, p):
        return self.rng.random() < p

    def some(self, values, least=1, most=None):
        """Draw several distinct values, in any order."""
        values = list(values)
        return self.rng.sample(values, self.rng.randint(least, min(most or len(values), len(values))))

    # ---- from the schema ----

    def value(self, schema):
        """Draw a value of a schema; None if only the caller knows its values."""
        r = self.rng
        if "$ref" in schema:
            return self.named(schema["$ref"].rpartition("/")[2])
        if "const" in schema:
            return schema["const"]
        if "enum" in schema:
            return r.choice(schema["enum"])
        if "anyOf" in schema:
            return self.value(r.choice(schema["anyOf"]))
        kind = schema.get("type")
        if kind == "boolean":
            return self.chance(0.5)
        if kind == "number":
            return r.uniform(schema.get("minimum", 0.01), schema.get("maximum", 0.5))
        if kind == "integer":
            least = schema.get("minimum", 0)
            return r.randint(least, min(schema.get("maximum", least + 4), least + 4))
        if kind == "array" and "items" in schema:
            items = [self.value(schema["items"]) for _ in range(r.randint(1, 3))]
            return None if None in items else items
        return None

    def named(self, name, given=None):
        """Draw an object of a definition; given: values of keys, None leaves a key out. One that has
        kinds (its definition lists those of one key) is drawn of one kind."""
        schema = DEFS[name]
        kinds = [(key, s["enum"]) for key, s in schema.get("properties", {}).items() if "allOf" in schema and "enum" in s]
        if kinds:
            return self.named(f"{name}.{self.rng.choice(kinds[0][1])}", given)
        ret = {}
        for key, s in schema.get("properties", {}).items():
            if given and key in given:
                ret[key] = given[key]
            elif key in schema.get("required", []) or "const" in s or self.chance(0.3):
                ret[key] = self.value(s)
        return {key: v for key, v in ret.items() if v is not None}

    # ---- circuits ----

    def angle(self):
        """An angle or another argument of a gate. Some parameters have small factors."""
        r = self.rng
        k = r.randrange(PARAMETERS)
        p = f"w{k}"
        texts = [p, p, f"{r.uniform(-2, 2):.3f}*{p}", f"sin({p})+{p}/2", f"{10.0 ** -r.randint(1, 12)}*{p}", f"hypot({p},1)-exp(-abs({p}))"]
        if self.n_columns:
            x = f"x[{r.randrange(self.n_columns)}]"
            texts += [x, f"{p}*{x}", f"2*asin(0.9*sin({x}))", f"{p}-{x}"]
            if self.chance(0.1):
                return {"data": r.randrange(self.n_columns), "scale": r.uniform(-2, 2)}
        return r.uniform(-3, 3) if self.chance(0.2) else r.choice(texts)

    def matrix(self, n):
        """A unitary of n qubits: a permutation with signs, or rotations of pairs of rows."""
        dim = 2**n
        m = [[0.0] * dim for _ in range(dim)]
        for row, column in enumerate(self.some(range(dim), dim)):
            m[row][column] = self.rng.choice((1.0, -1.0))
        for _ in range(self.rng.randrange(dim)):
            a, b = self.some(range(dim), 2, 2)
            m[a], m[b] = [0.6 * x + 0.8 * y for x, y in zip(m[a], m[b])], [0.6 * y - 0.8 * x for x, y in zip(m[a], m[b])]
        return m

    def arguments(self, schema):
        """The required arguments of a gate or channel, and one of each pair of names."""
        names = [key for key, s in schema["properties"].items() if {"$ref": "#/$defs/argument"} in s.get("anyOf", [])]
        required = [key for key in names if key in schema["required"]]
        rest = [key for key in names if key not in required]
        if not rest:
            return required
        return required + [self.rng.choice(rest)] if "oneOf" in schema or self.chance(0.8) else required

    def gate(self, qubits):
        """A gate on some of the qubits; None if they are too few."""
        kind = self.rng.choice([d for d in DEFS if d.startswith("gate.")])
        schema = DEFS[kind]
        on = schema["properties"]["qubits"]
        least = on.get("minItems", 1)
        if least > len(qubits):
            return None
        g = {"gate": kind[5:], "qubits": self.some(qubits, least, min(on.get("maxItems", 4), 3) if least < 4 else least)}
        n = len(g["qubits"])
        for key in self.arguments(schema):
            g[key] = self.angle()
        for key, value in (("matrix", lambda: self.matrix(n)), ("pauli_word", lambda: "".join(self.rng.choices("XYZ", k=n))), ("state", lambda: "".join(self.rng.choices("01", k=n)))):
            if key in schema["properties"]:
                g[key] = value()
        free = [q for q in qubits if q not in g["qubits"]]
        if free and self.chance(0.15):
            g["controls"] = self.some(free, 1, 2)
            if self.chance(0.5):
                g["control_values"] = [self.rng.randrange(2) for _ in g["controls"]]
        return g

    def channel(self, qubits):
        """A noise channel with small probabilities."""
        kind = self.rng.choice(("BitFlip", "PhaseFlip", "Depolarize", "AmplitudeDamping", "PhaseDamping", "Reset"))
        c = {"channel": kind, "qubits": self.some(qubits, 1, 1)}
        if kind != "Reset":
            c["gamma" if "Damping" in kind else "p"] = round(self.rng.uniform(0.01, 0.3), 3)
        return c

    def items(self, qubits, count, noisy, depth=0):
        """A list of gates, ansätze, groups, channels and measurements."""
        ret = []
        while len(ret) < count:
            u, item = self.rng.random(), None
            groups = depth < 2 and len(qubits) > 1
            if groups and u < 0.04:
                control = self.some(qubits, 1, 1)
                item = {"control": control, "gates": self.items([q for q in qubits if q not in control], 2, False, depth + 1)}
            elif groups and u < 0.08:
                item = {"adjoint": True, "gates": self.items(qubits, 3, False, depth + 1)}
            elif groups and u < 0.1:
                item = {"power": self.rng.randint(-2, 3), "gates": self.items(qubits, 2, False, depth + 1)}
            elif depth == 0 and u < 0.2:
                item = self.ansatz(qubits)
            elif depth == 0 and u < 0.25:
                ret += self.layer(qubits)
                continue
            elif noisy and u < 0.4:
                item = self.channel(qubits)
            elif noisy and depth == 0 and u < 0.45:
                bit = self.rng.randrange(BITS)
                self.bits.add(bit)
                item = {"measure": self.some(qubits, 1, 1), "bits": [bit]}
            elif noisy and depth == 0 and self.bits and u < 0.5:
                item = {"if": [self.rng.choice(sorted(self.bits))], "if_values": [self.rng.randrange(2)], "gates": self.items(qubits, 1, False, 2)}
            else:
                item = self.gate(qubits)
            if item:
                ret.append(item)
        return ret

    def layers(self, qubits):
        """A list of layers and named parts of all qubits, most after a layer that reads the columns."""
        ret = []
        if self.n_columns and self.chance(0.7):
            gate = self.rng.choice(("RX", "RY", "RZ"))
            ret = [{"gate": gate, "qubits": [q], "angle": {"data": i % self.n_columns}} for i, q in enumerate(qubits)]
        for _ in range(self.rng.randint(1, 4)):
            item = self.ansatz(qubits, 1) if self.chance(0.6) else None
            ret += [item] if item else self.layer(qubits)
        return ret or self.items(qubits, 2, False)

    def ansatz(self, qubits, whole=0.5):
        """A named part on some of the qubits, or on all; None if they are too few."""
        kind = self.rng.choice([d for d in DEFS if d.startswith("item.") and d != "item.ansatz"])
        keys = DEFS[kind]["properties"]
        reads = "data" in keys and "state" not in keys
        least = 4 if "electrons" in keys else 2
        if len(qubits) < least or (reads and not self.n_columns):
            return None
        on = self.some(qubits, least, least) if len(qubits) < 4 or self.chance(0.5) else self.some(qubits, 4, 4)
        if "electrons" not in keys and "state" not in keys and self.chance(whole):
            on = list(qubits)
        given = dict.fromkeys(("noise", "block", "singles", "doubles", "inputs", "ranges", "pad_with"))
        given.update(qubits=on, data=[self.rng.randrange(self.n_columns) for _ in on] if reads else None, prefix=self.rng.choice(("a_", "b_")), layers=self.rng.randint(1, 3),
                     electrons=len(on) // 2, cost=" + ".join(f"{self.rng.uniform(0.2, 2):.2f}*Z{q}" for q in on))
        if "state" in keys:
            given.update(state=[self.rng.uniform(0.1, 1) for _ in range(2 ** len(on))], normalize=True)
        return self.named(kind, given)

    def layer(self, qubits):
        """The same gate on all qubits, on all neighbours of a ring, or side by side, so that cones stay small."""
        kind, on = self.rng.choice((("RX", 1), ("RY", 1), ("RZ", 1), ("H", 1), ("CNOT", 2), ("CZ", 2), ("SWAP", 2), ("RZZ", 2), ("RXX", 2), ("ISWAP", 2), ("CCX", 3)))
        if on > len(qubits):
            return []
        names = self.arguments(DEFS[f"gate.{kind}"])
        first = range(self.rng.randrange(on), len(qubits) - on + 1, on) if self.chance(0.6) else range(len(qubits))
        return [{"gate": kind, "qubits": [qubits[(i + k) % len(qubits)] for k in range(on)], **{name: self.angle() for name in names}} for i in first]

    def observable(self, n):
        terms, widest = [], self.rng.choice((2, 2, n))
        for _ in range(self.rng.randint(1, 3)):
            on = self.some(range(n), 1, widest)
            terms.append(f"{self.rng.uniform(0.1, 2):.3f}*" + " ".join(f"{self.rng.choice('XYZ')}{q}" for q in on))
        return " + ".join(terms)

    def readout(self, n):
        u = self.rng.random()
        if u < 0.7:
            return self.observable(n)
        on = self.some(range(n), 1, 3)
        return {"probs": on} if u < 0.85 else {"projector": "".join(self.rng.choices("01", k=len(on))), "qubits": on}

    def quantum(self, n_columns):
        """A layer with a circuit that may read so many columns."""
        r = self.rng
        self.n_columns, self.bits = n_columns, set()
        noisy = self.chance(0.25)
        n = r.randint(1, 5) if noisy else r.choice((r.randint(1, 8), r.randint(9, 14)))
        qubits = list(range(n))
        gates = self.layers(qubits) if self.chance(0.4) else self.items(qubits, r.randint(2, 25 if n < LARGE else 12), noisy)
        layer = {"layer": "quantum", "circuit": {"qubits": n, "columns": n_columns, "gates": gates},
                 "readouts": [self.readout(n) for _ in range(r.randint(1, 4))]}
        if noisy:
            layer.update(method=r.choice(("auto", "exact", "density", "trajectories")), trajectories=r.randint(1, 20))
            if self.chance(0.3):
                layer["circuit"]["noise"] = {"after": {"*1": {"channel": "BitFlip", "p": 0.02}}, "readout": {"p_01": 0.02, "p_10": 0.05}}
        if self.chance(0.15):
            layer["shots"] = r.randint(1, 100)
        if self.chance(0.15):
            layer["filters"] = 2
        if self.chance(0.15):
            layer["watch"] = {"w": self.observable(n)}
        return layer

    # ---- jobs ----

    def optimizer(self):
        """An optimizer with at most one limit of the gradient, and keys of averages only beside use_ema."""
        schedule = {"boundaries": [1, 3], "values": [0.1, 0.05, 0.02], **({"warmup_steps": 2} if self.chance(0.5) else {"warmup_steps": None, "warmup_learning_rate": None})}
        o = self.named("optimizer", {"learning_rate": self.rng.choice((0.1, self.named("learning_rate", schedule)))})
        limits = self.some(("clipvalue", "clipnorm", "global_clipnorm"), 2, 2)
        return {key: v for key, v in o.items() if key not in limits and (o.get("use_ema") or not key.startswith("ema_"))}

    def classical(self):
        """A layer without a circuit."""
        kind = self.rng.choice(("dense", "activation", "dropout", "scale"))
        return self.named(f"layer.{kind}", {"units": self.rng.randint(1, 20), "factor": 0.5, "name": None})

    def job(self, folder):
        """Draw a job and write its samples to folder."""
        r = self.rng
        energy = self.chance(0.2)  # an expectation, without samples
        loss = "expectation" if energy else r.choice([d[5:] for d in DEFS if d.startswith("loss.") and d != "loss.expectation"])
        width = 0 if energy else COLUMNS
        model = []
        if not energy and self.chance(0.3):
            width = r.randint(1, 4)
            model.append({"layer": "dense", "units": width, "activation": "tanh"})
        if energy or self.chance(0.85):
            model.append(self.quantum(width))
        if not energy:
            model += [self.classical() for _ in range(r.randint(0, 2))]
            classes = loss == "categorical_crossentropy"
            model.append({"layer": "dense", "units": 3 if classes else 1, "activation": "softmax" if classes else "sigmoid" if loss == "binary_crossentropy" else "linear"})
        large = any(layer["layer"] == "quantum" and layer["circuit"]["qubits"] >= LARGE for layer in model)
        train = {"epochs": 4 if energy else 2, "loss": self.named(f"loss.{loss}", {"weights": None, "from_logits": None}), "optimizer": self.optimizer()}
        job = {"name": "random", "seed": self.seed, "precision": r.choice(("single", "double")), "model": model, "data": {"source": "none"}, "train": train}
        if self.chance(0.5):
            job["micro_batch_size"] = r.randint(1, 40)
        if not energy:
            n_samples = r.randint(4, 10 if large else 60)
            train["batch_size"] = r.randint(1, n_samples)
            train["shuffle"] = self.chance(0.8)
            job["data"] = {"source": "csv", "url": f"{folder}/{self.seed}.csv", "train_fraction": r.choice((0.7, 1))}
            with open(job["data"]["url"], "w") as f:
                f.write(",".join(f"x{i}" for i in range(COLUMNS)) + ",y\n")
                for i in range(n_samples):
                    y = i % 3 if loss == "categorical_crossentropy" else i % 2 if loss in ("binary_crossentropy", "hinge") else r.gauss(0, 1)
                    f.write(",".join(repr(r.gauss(0, 1)) for _ in range(COLUMNS)) + f",{y}\n")
        return job


def run(path, out, isa, threads, workers):
    """Train a job; returns its exit status, and the bits of what it wrote or its last words."""
    shutil.rmtree(out, ignore_errors=True)
    words = [qring, "run", path, "-n", str(workers), "--threads", str(threads), "--isa", isa, "--out", out, "--logdir=", "--checkpoints", "none", "--plaintext", "-q"]
    try:
        p = subprocess.run(words, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=SECONDS, cwd=work)
    except subprocess.TimeoutExpired:
        return 124, f"no end within {SECONDS} s"
    if p.returncode:
        return p.returncode, p.stderr[-500:]
    with open(f"{out}/result.json") as f:
        result = json.load(f)
    with open(f"{out}/steps.jsonl", "rb") as f:
        steps = hashlib.sha256(f.read()).hexdigest()
    return 0, (result["state_digest"], result["chain"], result["weights"]["sha256"], steps)


def remove(seed):
    """Remove the files of a job and its runs."""
    for name in os.listdir(work):
        if name.startswith((f"{seed}.", f"{seed}-")):
            full = f"{work}/{name}"
            shutil.rmtree(full) if os.path.isdir(full) else os.unlink(full)


def compare(seed, tables):
    """Train a random job with each table of kernels. Returns why qring refuses it, else None."""
    path, failed, r = f"{work}/{seed}.json", tally.failed, random.Random(-seed)
    job = Draw(seed).job(work)
    with open(path, "w") as f:
        json.dump(job, f)
    code, want = run(path, f"{work}/{seed}-first", "portable", 1, 1)
    if code != REFUSED and check(code == 0, f"seed {seed}: exit {code}: {want}"):
        for isa in tables:
            threads, workers = r.randint(1, 3), r.randint(1, 3)
            got = run(path, f"{work}/{seed}-{isa}", isa, threads, workers)
            check(got == (0, want), f"seed {seed}, {isa}, {threads} threads, {workers} workers: {got}, first {want}")
    if tally.failed == failed:
        remove(seed)
    return " ".join(want.split()[-12:]) if code == REFUSED else None


def have(isa):
    """Return whether this processor has a table of kernels."""
    return run(f"{root}/tests/golden/digests/jobs/hybrid-4.json", f"{work}/probe", isa, 1, 1)[0] == 0


def main():
    schema = json.loads(subprocess.run([qring, "help", "job", "--schema"], capture_output=True, check=True).stdout)
    DEFS.update(schema["$defs"])
    shutil.rmtree(work, ignore_errors=True)
    os.makedirs(work)
    for name in [name for name in os.environ if name.startswith("QRING_")] + ["TF_CONFIG"]:
        os.environ.pop(name, None)
    os.environ["QRING_HTTP_PORT"] = "0"
    tables = ["portable"] + [isa for isa in ("avx2", "avx512", "neon") if have(isa)]
    seed, trained, refused = SEED, 0, collections.Counter()
    while trained < JOBS and tally.failed < 10 and sum(refused.values()) < 4 * (trained + 10):
        reason = compare(seed, tables)
        seed += 1
        if reason:
            refused[reason] += 1
        else:
            trained += 1
    print(f"{trained} jobs of {seed - SEED} drawn, with {', '.join(tables)}; refused: {sum(refused.values())}")
    if os.environ.get("VERBOSE"):
        for reason, n in refused.most_common():
            print(f"{n:4} {reason}")
    check(trained == JOBS, f"{trained} of {JOBS} jobs trained; VERBOSE=1 prints why qring refused the others")
    print(f"{tally.passed} passed, {tally.failed} failed, 0 skipped")
    sys.exit(tally.failed != 0)


main()
