"""qring.Job, qring.run, qring.sweep and qring.Result, against the program typed by hand."""

from __future__ import annotations

import copy
import io
import json
import os
import pickle
import re
import shutil
import signal
import subprocess
import sys
import time
import types
import xml.etree.ElementTree
from pathlib import Path

import numpy as np
import pytest

import qring
from qring import _progress, _safetensors
from qring._program import start

ROOT = Path(__file__).parents[3]
JOBS = ROOT / "deploy" / "jobs"
EXAMPLES = JOBS / "examples"
QRING = os.environ.get("QRING") or str(ROOT / "build" / "bin" / "qring")

pytestmark = pytest.mark.skipif(
    shutil.which(QRING) is None, reason="the program qring is not built: make, or set QRING"
)


@pytest.fixture(autouse=True)
def _program(monkeypatch, tmp_path):
    monkeypatch.setenv("QRING", QRING)
    monkeypatch.chdir(tmp_path)


def by_hand(*arguments):
    command = [QRING, *map(str, arguments)]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def samples(n=40, seed=1):
    x = np.random.default_rng(seed).normal(size=(n, 2))
    return x, (x[:, 0] > 0).astype(float)


SMALL = {
    "name": "small",
    "seed": 1,
    "data": {"source": "npz", "train_fraction": 0.8},
    "model": [
        {
            "layer": "quantum",
            "circuit": {"qubits": 2, "gates": [{"ansatz": "angle"}, {"ansatz": "basic-entangler"}]},
            "readouts": ["Z0"],
        }
    ],
    "train": {
        "epochs": 3,
        "batch_size": 8,
        "loss": "mse",
        "metrics": ["binary_accuracy"],
        "optimizer": {"name": "adam", "learning_rate": 0.1},
    },
}
WORDS = {
    **SMALL,
    "name": "words",
    "model": [*SMALL["model"], {"layer": "dense", "units": 2, "activation": "softmax"}],
    "train": {**SMALL["train"], "loss": "categorical_crossentropy", "metrics": ["accuracy"]},
}


# ---- jobs ----


def test_job_from_dict_file_keywords_and_folder(tmp_path):
    path = tmp_path / "small.json"
    path.write_text(json.dumps(SMALL))
    assert qring.Job(SMALL) == qring.Job(path) == qring.Job(str(path)) == qring.Job(**SMALL)
    assert qring.Job(SMALL, seed=4).to_json() == {**SMALL, "seed": 4}
    assert qring.Job(SMALL).to_json() is not SMALL
    (tmp_path / "job.json").write_text(json.dumps(SMALL))
    assert qring.Job(tmp_path) == qring.Job(SMALL)
    assert repr(qring.Job(SMALL)) == "Job('small', 1 layers)"


def test_job_does_not_share_its_keys():
    job = qring.Job(SMALL)
    job.copy().set("train.epochs", 9)
    copy.copy(job).set("train.epochs", 9)
    job.to_json()["train"]["epochs"] = 9
    assert job.to_json()["train"]["epochs"] == SMALL["train"]["epochs"] == 3


def test_job_takes_circuits_and_numpy_values():
    circuit = qring.Circuit(2).ry("w0", 0).cnot(0, 1)
    layer = {"layer": "quantum", "circuit": circuit, "readouts": ["Z0 Z1"]}
    job = qring.Job(model=[layer, circuit], seed=np.int64(3))
    first, second = job.to_json()["model"]
    assert first["circuit"] == second["circuit"] == circuit.to_json()
    assert second["layer"] == "quantum"
    assert job.to_json()["seed"] == 3
    with pytest.raises(TypeError, match="cannot put"):
        qring.Job(model=[object()])


def test_set_follows_paths():
    job = qring.Job(WORDS).set("model[1].name", "head").set("model[head].units", 3)
    job.set("train.optimizer.learning_rate", 0.5).set("worker.threads", 1).set("seed", None)
    keys = job.to_json()
    assert keys["model"][1]["units"] == 3
    assert keys["train"]["optimizer"] == {"name": "adam", "learning_rate": 0.5}
    assert keys["worker"] == {"threads": 1}
    assert "seed" not in keys
    for path in ("", "a..b", "[0]", "model[7].units", "name.x", "model[1", "model.units"):
        with pytest.raises(ValueError, match="cannot set"):
            job.set(path, 1)


def test_file_names_are_resolved_beside_the_job_file():
    keys = qring.Job(EXAMPLES / "transfer-learning.json").to_json()
    assert keys["data"]["url"] == str(EXAMPLES / "transfer-learning.csv")
    assert keys["train"]["initial_weights"]["url"] == str(EXAMPLES / "transfer-base.h5")
    keys = qring.Job(EXAMPLES / "vqe-h2.json").to_json()
    assert keys["model"][0]["readouts"][0]["hamiltonian"] == str(EXAMPLES / "h2.txt")


def test_the_file_of_a_circuit_is_resolved_beside_the_job_file(tmp_path):
    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / "a.qasm").write_text("input float x; qubit q; U(x, 0, 0) q;")
    model = [{"layer": "quantum", "circuit": {"url": "a.qasm", "inputs": ["x"]}}]
    (folder / "job.json").write_text(json.dumps({"model": model}))
    keys = qring.Job(folder / "job.json").to_json()
    assert keys["model"][0]["circuit"]["url"] == str(folder / "a.qasm")


def test_job_files_that_cannot_be_read(tmp_path):
    with pytest.raises(qring.QringError, match=r"cannot read the job .*none.json"):
        qring.Job(tmp_path / "none.json")
    (tmp_path / "bad.json").write_text("{")
    with pytest.raises(qring.QringError, match=r"cannot read the job .*bad.json"):
        qring.Job(tmp_path / "bad.json")
    with pytest.raises(TypeError, match="give a JSON object"):
        qring.Job([1])


def test_validate():
    report = qring.Job(EXAMPLES / "sandwich.json").validate()
    assert (report["parameters"], report["train_samples"]) == (24, 150)
    job = qring.Job(SMALL).set("model[0].circuit.gates[1].ansatz", "basic-entanglerr")
    with pytest.raises(qring.QringError, match=r"the job: .* did you mean") as caught:
        job.validate()
    assert caught.value.code == qring.Code.INVALID_ARGUMENT


# ---- runs ----


@pytest.mark.parametrize("workers", [1, 2])
@pytest.mark.parametrize(
    ("path", "epochs"),
    [
        *((path, 1) for path in sorted(JOBS.glob("qcnn*.json"))),
        *((path, 3) for path in sorted(EXAMPLES.glob("*.json"))),
    ],
    ids=lambda value: getattr(value, "stem", None),
)
def test_digest_is_that_of_the_program(path, epochs, workers, tmp_path):
    by_hand("run", path, "--epochs", epochs, "--quiet", "--out", "hand")
    result = qring.run(path, workers=workers, epochs=epochs, out="python", progress=False)
    assert result.digest == json.loads(Path("hand/result.json").read_text())["state_digest"]
    assert result.out == tmp_path / "python"
    assert result.summary["workers"] == workers


@pytest.fixture(scope="module")
def sandwich(tmp_path_factory):
    out = tmp_path_factory.mktemp("runs") / "sandwich"
    by_hand("run", EXAMPLES / "sandwich.json", "--epochs", "3", "--quiet", "--out", out)
    return qring.load(out)


def test_history_has_all_steps_and_evaluations(sandwich):
    history = sandwich.history
    assert list(history) == [
        *("step", "epoch", "samples", "loss", "binary_accuracy"),
        *("val_step", "val_epoch", "val_samples", "val_loss", "val_binary_accuracy"),
    ]
    assert history["step"].tolist() == list(range(1, 91))
    assert history["val_step"].tolist() == [30, 60, 90]
    assert history["step"].dtype == np.int64
    assert len(history["loss"]) == 90
    assert history["val_loss"][-1] == sandwich.metrics["val_loss"]
    assert sandwich.metrics["val_binary_accuracy"] == 0.92


def test_history_to_pandas(sandwich):
    pytest.importorskip("pandas")
    table = sandwich.history.to_pandas()
    assert len(table) == 90
    assert table.index.name == "step"
    assert table["loss"].tolist() == sandwich.history["loss"].tolist()
    assert table["val_loss"].dropna().tolist() == sandwich.history["val_loss"].tolist()


def test_history_skips_an_unfinished_line_and_names_a_malformed_one(tmp_path):
    path = tmp_path / "steps.jsonl"
    path.write_text('{"step":1,"kind":"TRAIN","loss":null}\n{"step":2,"ki')
    history = qring.History.read(path)
    assert history["step"].tolist() == [1]
    assert np.isnan(history["loss"]).all()
    path.write_text("{}\n")
    with pytest.raises(qring.QringError, match="line 1 is malformed"):
        qring.History.read(path)


@pytest.mark.parametrize(
    "line",
    ["[]", "5", "[" * 10_000, '{"kind": "TRAIN", "step": "x"}', '{"kind": "TRAIN", "step": 1e999}']
    + ['{"kind": "TRAIN", "step": 1, "samples": ' + "9" * 400 + "}"],
    ids=lambda line: line[:30],
)
def test_malformed_lines_of_a_history(line, tmp_path):
    path = tmp_path / "steps.jsonl"
    good = '{"kind": "TRAIN", "step": 1, "loss": 0.5}\n'
    path.write_text(good + line + "\n")
    with pytest.raises(qring.QringError, match="line 2 is malformed") as caught:
        qring.History.read(path)
    assert caught.value.code == qring.Code.DATA_LOSS
    bar = _progress.Bar("a", path, None)
    bar._stale = None
    bar._shown = 0.0
    bar.tick()
    assert bar._done == 1


def test_a_deeply_nested_result(tmp_path):
    (tmp_path / "result.json").write_text("[" * 100_000)
    with pytest.raises(qring.QringError, match="cannot read the result") as caught:
        qring.load(tmp_path)
    assert caught.value.code == qring.Code.DATA_LOSS


def test_weights_equal_those_of_the_program(sandwich, tmp_path):
    by_hand("weights", sandwich.out / "weights.safetensors", "--to", tmp_path / "w.npz")
    expected = np.load(tmp_path / "w.npz")
    assert sorted(sandwich.weights) == sorted(expected.files)
    for name, array in sandwich.weights.items():
        assert array.dtype == np.float64
        assert array.flags.writeable
        np.testing.assert_array_equal(array, expected[name])
    assert sandwich.inputs == ["x0", "x1"]
    assert sandwich.classes is None


def test_weights_equal_those_of_keras(sandwich):
    h5py = pytest.importorskip("h5py")
    found = {}

    def visit(name, item):
        if isinstance(item, h5py.Dataset):
            found[name] = item[()]

    with h5py.File(sandwich.out / "weights.h5") as file:
        file.visititems(visit)
    kernel = next(value for name, value in found.items() if "dense_1" in name and value.ndim == 2)
    np.testing.assert_array_equal(kernel, sandwich.weights["dense_1/kernel"].astype(np.float32))


def _with_header(text):
    return len(text).to_bytes(8, "little") + text + b"\0" * 8


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\xff" * 8,
        _with_header(b"[1]"),
        _with_header(b"{]"),
        _with_header(b'{"a":{"dtype":"F64","shape":[2],"data_offsets":[0,8]}}'),
        _with_header(b'{"a":{"dtype":"F64","shape":[2],"data_offsets":[0,16]}}'),
        _with_header(b'{"a":{"dtype":"X","shape":[1],"data_offsets":[0,8]}}'),
        _with_header(b'{"a":{"dtype":"F64","shape":[-1],"data_offsets":[0,-8]}}'),
        _with_header(b'{"a":{"dtype":"F64","shape":[1]}}'),
        _with_header(b'{"a":{"dtype":"F64","shape":[1e999],"data_offsets":[0,8]}}'),
        pytest.param(_with_header(b'{"a":' * 99999), id="nested deeply"),
        _with_header(b'{"__metadata__":[1]}'),
        _with_header(b'{"__metadata__":{"qring.inputs":3}}'),
    ],
)
def test_malformed_weights_are_an_error(content, tmp_path):
    path = tmp_path / "w.safetensors"
    path.write_bytes(content)
    with pytest.raises(qring.QringError, match="it is not a safetensors file"):
        _safetensors.read(path)


def test_predict_equals_the_program(sandwich, tmp_path):
    x, _ = samples(5)
    np.savez(tmp_path / "new.npz", x=x)
    text = by_hand("predict", sandwich.out, "--data", tmp_path / "new.npz")
    expected = np.array([line.split(",")[1:] for line in text.splitlines()[1:]], float)
    np.testing.assert_array_equal(sandwich.predict(x), expected)
    np.testing.assert_array_equal(sandwich.predict(x[2]), expected[2])
    np.testing.assert_array_equal(sandwich.predict(tmp_path / "new.npz"), expected)
    with pytest.raises(ValueError, match="training had 2 inputs"):
        sandwich.predict(np.zeros((3, 4)))
    with pytest.raises(qring.QringError, match="cannot predict classes"):
        sandwich.predict_classes(x)


def test_predict_finds_columns_of_a_table_by_name(sandwich):
    pandas = pytest.importorskip("pandas")
    x, _ = samples(5)
    table = pandas.DataFrame({"other": 1, "x1": x[:, 1], "x0": x[:, 0]})
    np.testing.assert_array_equal(sandwich.predict(table), sandwich.predict(x))
    with pytest.raises(ValueError, match="columns x1 are missing"):
        sandwich.predict(table[["x0"]])


def test_names_of_columns_are_texts():
    pandas = pytest.importorskip("pandas")
    x, y = samples()
    table = pandas.DataFrame({20: x[:, 1], 10: x[:, 0]})
    result = qring.run(SMALL, data=(table, y, np.ones((40, 1), bool)), out="numbered")
    assert sorted(result.inputs) == ["10", "20"]
    found = result.predict(table[[10, 20]])
    np.testing.assert_array_equal(found, result.predict(table))


def test_evaluate_equals_the_program(sandwich):
    expected = json.loads(by_hand("evaluate", sandwich.out, "--json"))
    report = sandwich.evaluate()
    assert report["loss"] == expected["loss"] == sandwich.metrics["val_loss"]
    assert report["metrics"] == expected["metrics"]
    x, y = samples(6)
    both = np.stack([y, 1 - y], 1)
    report = sandwich.evaluate(x, both)
    assert report["samples"] == 6
    assert report["loss"] == pytest.approx(np.abs(sandwich.predict(x) - both).mean())
    with pytest.raises(ValueError, match="y is missing"):
        sandwich.evaluate(x)


def test_arrays_as_data():
    x, y = samples()
    result = qring.run(SMALL, data=(x, y), out="arrays")
    np.savez("hand.npz", x=x, y=y)
    job = {**SMALL, "data": {"source": "npz", "url": "hand.npz", "train_fraction": 0.8}}
    Path("hand.json").write_text(json.dumps(job))
    by_hand("run", "hand.json", "--quiet", "--out", "hand")
    assert result.digest == qring.load("hand").digest
    assert len(result.history["loss"]) == 3 * 32 // 8
    # The same call does nothing; other data is an error, and the finished run stays.
    assert qring.run(SMALL, data=(x, y), out="arrays").digest == result.digest
    with pytest.raises(qring.QringError, match="checkpoints of another job"):
        qring.run(SMALL, data=(x + 1, y), out="arrays")
    assert qring.load("arrays").evaluate()["loss"] == result.metrics["val_loss"]
    other = qring.run(SMALL, data=(x + 1, y), out="arrays", fresh=True)
    assert other.digest != result.digest


def test_no_samples():
    for kind in ({}, {"y": np.zeros(0)}, {"y": np.zeros(0, str)}):
        with pytest.raises(ValueError, match="cannot use data: x has no samples"):
            qring.run(SMALL, data={"x": np.zeros((0, 2)), **kind}, out="none")


def test_kinds_of_arrays():
    x, y = samples()
    first = qring.run(SMALL, data={"x": x, "y": y}, out="a")
    for i, data in enumerate([(x.tolist(), y.astype(bool)), (np.asfortranarray(x), y.astype(int))]):
        assert qring.run(SMALL, data=data, out=f"b{i}").digest == first.digest
    assert qring.run(SMALL, data=(x.astype(">f8"), y), out="c").digest == first.digest
    weighted = qring.run(SMALL, data=(x, y, np.full(40, 0.5)), out="d")
    assert weighted.history["loss"][0] == pytest.approx(first.history["loss"][0] / 2)
    validated = qring.run(SMALL, data=(x, y), validation_data=(x[:4], y[:4]), out="e")
    assert validated.history["val_samples"].tolist() == [4, 4, 4]
    assert len(validated.history["loss"]) == 3 * 40 // 8
    for data in (x, y, (x, y[:3]), (x, y, y, y), {"z": x}, {"y": y}):
        with pytest.raises((ValueError, qring.QringError)):
            qring.run(SMALL, data=data, out="f")
    for data in ((x * 1j, y), (x, np.array([None] * 40))):
        with pytest.raises(TypeError, match="cannot use data"):
            qring.run(SMALL, data=data, out="f")


def test_labels_as_words():
    x, y = samples()
    words = np.where(y > 0, "right", "left")
    result = qring.run(WORDS, data=(x, words), out="words")
    assert result.classes == ["left", "right"]
    assert set(result.predict_classes(x)) <= {"left", "right"}
    assert result.predict(x).shape == (40, 2)
    assert result.predict_classes(x[0]) in ("left", "right")
    report = result.evaluate(x, words)
    hits = (result.predict_classes(x) == words).mean()
    assert report["metrics"]["accuracy"] == pytest.approx(hits)
    assert np.sum(report["confusion_matrix"]) == 40
    assert qring.run(WORDS, data=(x, words.astype(object)), out="words").digest == result.digest


def test_inputs_by_name():
    x, y = samples()
    circuit = qring.Circuit(2).rx(qring.Input("height"), 0).rx(2 * qring.Input("y"), 1)
    job = qring.Job(SMALL).set("model[0].circuit", circuit.ry("w0", 0).cnot(0, 1))
    numbers = qring.Circuit(2).rx(qring.Input(0), 0).rx(2 * qring.Input(1), 1)
    expected = qring.run(
        job.copy().set("model[0].circuit", numbers.ry("w0", 0).cnot(0, 1)),
        data=(x, y),
        out="numbers",
    )
    result = qring.run(job, data=(x, y), out="names")
    assert result.digest == expected.digest
    assert result.inputs == ["height", "y"]
    np.testing.assert_array_equal(result.predict(x), expected.predict(x))
    assert result.evaluate(x, y)["loss"] == expected.evaluate(x, y)["loss"]
    pandas = pytest.importorskip("pandas")
    table = pandas.DataFrame({"y": x[:, 1], "height": x[:, 0]})
    other = qring.run(job, data=(table, y, np.ones(40)), out="table")
    assert other.inputs == ["height", "y"]
    np.testing.assert_array_equal(other.predict(x), other.predict(table))
    np.testing.assert_allclose(other.predict(table), expected.predict(x), atol=1e-6)


@pytest.mark.parametrize("names", [("a", "b"), ("é", "a b"), ("1", "a,b"), ("f0", "f1")])
def test_input_names(names):
    """Columns are in the order of Function.inputs, which is not the one of JSON's keys."""
    x, y = samples()
    if names[0] == "f0":
        circuit = qring.Circuit(2).rx("x.f{i}", "i").repeat(2, index="i")
    else:
        first, second = map(qring.Input, names)
        circuit = qring.Circuit(2).h(1).gate("U3", 1, lam=second, theta=first, phi=0.1)
    circuit += qring.Circuit(2).ry("w0", 0).ry("w1", 1).cnot(0, 1)
    job = qring.Job(SMALL).set("model[0].circuit", circuit)
    result = qring.run(job, data=(x, y), out=Path("out"))
    assert result.inputs == list(names) == list(qring.expval(circuit, "Z1").inputs)
    assert next(Path("out").glob("*.csv")).read_text().splitlines()[0] == (
        '1,"a,b",y' if names[0] == "1" else ",".join([*names, "y"])
    )


def test_evaluate_with_sample_weights():
    """Their column or array has the name that it had in training."""
    x, y = samples()
    weights = np.linspace(0.1, 1, 40)
    np.savez("w.npz", x=x, y=y, w=weights)
    data = {"source": "npz", "url": "w.npz", "sample_weight": "w"}
    by_number = qring.run({**SMALL, "data": data}, out="number")
    circuit = qring.Circuit(2).rx(qring.Input("sample_weight"), 0).rx(qring.Input("y"), 1)
    job = qring.Job(SMALL).set("model[0].circuit", circuit.ry("w0", 0).cnot(0, 1))
    by_name = qring.run(job, data=(x, y, weights), out="name")
    for result in (by_number, by_name):
        wanted = (weights * (result.predict(x) - y) ** 2).mean()
        assert result.evaluate(x, y, sample_weight=weights)["loss"] == pytest.approx(wanted)


def test_sweep():
    x, y = samples()
    grid = {"train.optimizer.learning_rate": [0.1, 0.3], "seed": [1, 2]}
    found = qring.sweep(SMALL, grid, data=(x, y), metric="loss", workers=2, out="sweep")
    assert len(found) == 4
    losses = [trial["metrics"]["loss"] for trial in found.trials]
    assert found.best.metrics["loss"] == min(losses)
    first = qring.run(qring.Job(SMALL), data=(x, y), seed=1, out="one")
    assert found[0].digest == first.digest == found.trials[0]["state_digest"]
    assert len(found[3].history["loss"]) == 12
    assert [trial.metrics["loss"] for trial in found] == losses
    with pytest.raises(IndexError, match="cannot find trial -1: the last one is 3"):
        found[-1]
    xml.etree.ElementTree.fromstring(found._repr_html_())
    with pytest.raises(qring.QringError, match="sweep"):
        qring.sweep(SMALL, {"train.epochz": [1]}, data=(x, y), out="bad")
    pytest.importorskip("pandas")
    table = found.to_pandas()
    assert table["train.optimizer.learning_rate"].tolist() == [0.1, 0.1, 0.3, 0.3]


def test_sweep_whose_trials_fail():
    x, y = samples()
    model = [*SMALL["model"], {"layer": "dense", "units": 1}]
    grid = {"train.optimizer.learning_rate": [1e299, 1e300]}
    with pytest.raises(qring.QringError, match="no trial has a result"):
        qring.sweep(qring.Job(SMALL, model=model), grid, data=(x, y), out="sweep")
    found = qring.SweepResult("sweep")
    with pytest.raises(qring.QringError, match="cannot tell the best trial .*; see trials"):
        found.best  # noqa: B018
    with pytest.raises(qring.QringError, match="trial 1: it failed: step 2: .* not finite"):
        found[1]


# ---- errors ----


def test_errors_of_the_program():
    x, y = samples()
    job = qring.Job(SMALL).set("train.loss", "msee")
    with pytest.raises(qring.QringError, match=r"the job: train\.loss") as caught:
        qring.run(job, data=(x, y), out="bad")
    assert caught.value.exit_code == 2
    assert caught.value.code == qring.Code.INVALID_ARGUMENT
    assert not str(caught.value).startswith("E ")
    again = pickle.loads(pickle.dumps(caught.value))
    assert (str(again), again.exit_code) == (str(caught.value), 2)
    x[7, 1] = np.nan
    with pytest.raises(qring.QringError, match=r"sample 7|row") as caught:
        qring.run(SMALL, data=(x, y), out="nan")
    assert caught.value.exit_code == 4
    for workers in (0, -1, 1.5, True):
        with pytest.raises(ValueError, match="cannot start"):
            qring.run(SMALL, workers=workers)


def test_a_job_name_that_is_a_path_writes_nothing(tmp_path):
    for name in ("../../evil", str(tmp_path / "evil"), "..", "", "a/b", "x" * 64):
        for start in (qring.run, qring.sweep):
            with pytest.raises(qring.QringError, match="not a valid job name") as caught:
                start(qring.Job(SMALL, name=name), data=samples())
            assert caught.value.code == qring.Code.INVALID_ARGUMENT
    assert not list(tmp_path.iterdir())
    assert not (tmp_path.parent.parent / "evil").exists()


def test_a_missing_program_is_named(monkeypatch):
    monkeypatch.setenv("QRING", "/nowhere/qring")
    with pytest.raises(qring.QringError, match=r"/nowhere/qring.*not a program"):
        qring.run(SMALL)
    monkeypatch.delenv("QRING")
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(qring.QringError, match="not on PATH; build it"):
        qring.Job(SMALL).validate()
    assert not Path("out").exists()


def test_a_closed_stderr_does_not_stop_a_run(monkeypatch, tmp_path):
    """More lines than a pipe holds are read, although each fails to be shown."""
    program = tmp_path / "qring"
    program.write_text("#!/bin/sh\nseq -f 'trial %g: loss 1' 9999 >&2\necho done\n")
    program.chmod(0o755)
    monkeypatch.setenv("QRING", str(program))
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    sys.stderr.close()
    end = time.monotonic() + 20

    def tick():
        assert time.monotonic() < end

    line = _progress._Lines("a", None, None).line
    assert start(["run"], on_line=line, on_tick=tick) == b"done\n"


def test_load_without_a_run(tmp_path):
    with pytest.raises(qring.QringError, match=r"cannot read the result .*train first"):
        qring.load(tmp_path)


# ---- interrupts ----

_INTERRUPTED = """
import qring, signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)  # shells ignore it in background jobs
try:
    qring.run(sys.argv[1], epochs=1000000, workers=2, out=sys.argv[2])
except KeyboardInterrupt:
    print("interrupted")
"""


def _wait_for(condition, seconds=60):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "timeout"
        time.sleep(0.05)


def _processes(out):
    """Ids of the processes that have the folder in their command line."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if os.fsencode(out) in path.read_bytes():
                found.append(int(path.parent.name))
        except OSError:
            continue
    return found


@pytest.fixture
def training(tmp_path):
    """A Python process that trains for long, and its output folder."""
    out = tmp_path / "long"
    child = subprocess.Popen(
        [sys.executable, "-c", _INTERRUPTED, str(JOBS / "qcnn.json"), str(out)],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT / "lib" / "python")},
    )
    with child:
        try:
            steps = out / "steps.jsonl"
            _wait_for(
                lambda: child.poll() is not None or (steps.exists() and steps.stat().st_size > 0)
            )
            assert child.poll() is None
            yield child, out
        finally:
            child.kill()


def test_an_interrupted_run_ends_with_a_checkpoint_and_resumes(training):
    child, out = training
    child.send_signal(signal.SIGINT)
    assert child.communicate(timeout=60)[0] == "interrupted\n"
    assert child.returncode == 0
    assert _processes(out) == []
    done = json.loads((out / "steps.jsonl").read_text().splitlines()[-1])["epoch"]
    assert list((out / "checkpoints").glob("*.safetensors"))
    with pytest.raises(qring.QringError):
        qring.load(out)
    result = qring.run(JOBS / "qcnn.json", epochs=done + 2, out=out)
    assert result.digest == qring.run(JOBS / "qcnn.json", epochs=done + 2, out="straight").digest


def test_the_program_ends_with_a_killed_python(training):
    child, out = training
    assert len(_processes(out)) >= 2
    child.kill()
    child.communicate()
    _wait_for(lambda: not _processes(out))


# ---- pictures and bars ----


def test_pictures_are_well_formed(sandwich):
    svg = xml.etree.ElementTree.fromstring(sandwich._repr_svg_())
    assert svg.tag == "{http://www.w3.org/2000/svg}svg"
    lines = svg.findall("{http://www.w3.org/2000/svg}polyline")
    assert [len(line.get("points").split()) for line in lines] == [90, 3]
    xml.etree.ElementTree.fromstring(sandwich._repr_html_())
    assert sandwich.digest in sandwich._repr_html_()
    assert "nan" not in sandwich._repr_svg_()
    assert repr(sandwich).startswith("Result('sandwich', loss=0.340863, ")


def test_curves_of_unusual_values():
    from qring._curve import curve

    steps = np.arange(100_000.0)
    for x, y in [
        (steps, np.sin(steps)),
        (steps[:1], steps[:1]),
        (steps[:0], steps[:0]),
        (steps[:3], np.array([np.nan, np.inf, 1.0])),
        (steps[:5], np.full(5, 3.0)),
        (steps[:5], np.full(5, 0.0)),
        (steps[:2], np.array([-1e300, 1e300])),
        (steps[:2], np.array([1e-300, 2e-300])),
        (steps[:3], np.array([-1e308, 1e308, 1.0])),
    ]:
        text = curve('<a & "b">', "step", [("loss", "red", x, y)])
        assert len(text) < 20_000
        xml.etree.ElementTree.fromstring(text)


class _Screen:
    def __init__(self):
        self.text = ""

    def write(self, text):
        self.text += text

    def flush(self):
        pass

    def isatty(self):
        return True

    def fileno(self):
        raise OSError


def test_bar_in_a_terminal(monkeypatch):
    screen = _Screen()
    monkeypatch.setattr(sys, "stderr", screen)
    result = qring.run(EXAMPLES / "sandwich.json", epochs=3, out="bar")
    assert f"sandwich [{'=' * 24}] step 90/90 - loss: 0.340863" in screen.text
    assert screen.text.endswith("\x1b[K\n")
    # Nothing is trained again.
    assert qring.run(EXAMPLES / "sandwich.json", epochs=3, out="bar").digest == result.digest
    screen.text = ""
    qring.run(EXAMPLES / "sandwich.json", epochs=3, out="quiet", progress=False)
    assert screen.text == ""
    with pytest.raises(qring.QringError):
        qring.run(qring.Job(SMALL).set("model", []), out="bad")
    # A bar that was drawn while the program started ends before the traceback.
    assert screen.text == "" or screen.text.endswith("\n")
    x, y = samples()
    qring.sweep(SMALL, {"seed": [1, 2]}, data=(x, y), out="sweep")
    assert "trial 2/2" in screen.text


def test_lines_in_a_log(capsys):
    qring.run(EXAMPLES / "sandwich.json", epochs=2, out="log", progress=True)
    lines = capsys.readouterr().err.splitlines()
    assert [line.split(" - ")[0] for line in lines] == [
        "sandwich: Epoch 1/2",
        "sandwich: Epoch 2/2",
    ]
    qring.run(EXAMPLES / "sandwich.json", epochs=2, out="none")
    assert capsys.readouterr() == ("", "")


def test_bar_in_a_notebook(monkeypatch):
    shown = []

    class Handle:
        def update(self, value):
            shown.append(value)

    def display(value, display_id):
        assert display_id is True
        shown.append(value)
        return Handle()

    ipython = types.ModuleType("IPython")
    ipython.get_ipython = lambda: types.SimpleNamespace(kernel=object())
    module = types.ModuleType("IPython.display")
    module.display, module.HTML = display, str
    monkeypatch.setitem(sys.modules, "IPython", ipython)
    monkeypatch.setitem(sys.modules, "IPython.display", module)
    qring.run(EXAMPLES / "sandwich.json", epochs=3, out="bar")
    assert 'value="1.0000"' in shown[-1]
    assert "step 90/90" in shown[-1]
    xml.etree.ElementTree.fromstring(shown[-1])


def test_bar_knows_position_and_length(tmp_path):
    path = tmp_path / "steps.jsonl"
    path.write_text('{"step":9,"epoch":1,"kind":"TRAIN","loss":1}\n')
    bar = _progress.Bar("job", path, 8)
    bar.plan(4, 0)
    bar.tick(end=True)
    assert bar.fraction == 0  # lines of an earlier run do not count
    bar.line("33 training samples, 8 validation samples")
    path.write_text('{"step":10,"epoch":2,"kind":"TRAIN","loss":0.5}\n{"step":11,')
    bar.tick(end=True)
    assert (bar.total, bar.fraction) == (20, 0.5)
    assert bar.text().startswith("step 10/20 - loss: 0.5 - ")


# ---- the page ----


def test_snippets_of_the_page():
    pytest.importorskip("pandas")
    names = {}
    for block in page_blocks()[:2]:
        exec(block, names)
    assert names["result"].metrics["val_accuracy"] > 0.8
    assert names["found"].best.out.is_dir()


def page_blocks():
    page = (ROOT / "lib/python/jobs.md").read_text()
    return re.findall(r"^```python\n(.*?)^```$", page, re.DOTALL | re.MULTILINE)
