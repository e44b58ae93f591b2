"""qring.verify: an honest run, one that was changed, steps that differ, and what is not a run."""

from __future__ import annotations

import json
import shutil

import pytest

import qring

JOB = {
    "name": "small",
    "seed": 3,
    "model": [
        {
            "layer": "quantum",
            "circuit": {"ansatz": "qcnn", "qubits": 8, "stages": 1, "variant": "research"},
            "readouts": ["Z4"],
        },
        {"layer": "dense", "units": 1},
    ],
    "data": {"source": "cluster-excitations", "rounds": 2, "train_fraction": 0.7},
    "train": {"epochs": 4, "batch_size": 5, "optimizer": {"name": "adam", "learning_rate": 0.02}},
}


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    out = tmp_path_factory.mktemp("verify") / "run"
    qring.run(qring.Job(JOB), out=out)
    return out


@pytest.fixture
def copy(run, tmp_path):
    shutil.copytree(run, tmp_path / "copy")
    return tmp_path / "copy"


def change(path, old, new):
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new, 1))


def test_same(run):
    answer = qring.verify(run)
    assert answer
    assert answer.verdict == "same"
    assert answer.difference is None
    assert {"job", "data", "chain", "files"} <= {check.name for check in answer.checks}
    assert answer.check("chain").text.startswith("16 lines, steps 1 to 12")
    assert answer.check("steps") is None
    assert str(answer).endswith("same")


def test_steps(run):
    answer = qring.verify(run, all=True, threads=1)
    assert answer
    assert answer.steps == 12
    assert answer.seconds > 0
    assert qring.verify(run, step=3).steps == 3
    assert qring.verify(run, steps=(2, 5)).steps == 5
    drawn = qring.verify(run, sample=2, seed=7)
    assert drawn
    assert drawn.seed == 7
    assert (
        drawn.check("steps").text.split(":")[0]
        == qring.verify(run, sample=2, seed=7).check("steps").text.split(":")[0]
    )


def test_changed_line(copy):
    lines = (copy / "steps.jsonl").read_text().splitlines(True)
    (copy / "steps.jsonl").write_text("".join(lines[:4] + lines[5:]))
    answer = qring.verify(copy)
    assert not answer
    assert answer.verdict == "differs"
    assert "lines are missing before line 5" in answer.check("chain").text


def test_changed_seed(copy):
    change(copy / "job.json", '"seed": 3', '"seed": 4')
    assert "seed is 3 in the run, 4 in job.json" in qring.verify(copy).check("job").text


def test_difference(copy):
    lines = (copy / "steps.jsonl").read_text().splitlines(True)
    lines[2] = lines[2].replace('"loss":0.', '"loss":0.1', 1)
    (copy / "steps.jsonl").write_text("".join(lines))
    difference = qring.verify(copy, step=3).difference
    assert (difference.step, difference.kind, difference.key) == (3, "TRAIN", "loss")
    assert difference.recorded.startswith("0.1")
    assert difference.recorded != difference.computed
    assert difference.recorded_digest == difference.computed_digest


def test_without_chain(copy):
    lines = [json.loads(line) for line in (copy / "steps.jsonl").read_text().splitlines()]
    for line in lines:
        del line["chain"], line["state_digest"]
    text = "".join(json.dumps(line, separators=(",", ":")) + "\n" for line in lines)
    (copy / "steps.jsonl").write_text(text)
    (copy / "provenance.json").unlink()
    result = json.loads((copy / "result.json").read_text())
    del result["chain"]
    (copy / "result.json").write_text(json.dumps(result))
    answer = qring.verify(copy)
    assert answer.verdict == "unproven"
    assert "no chain" in answer.check("chain").text


def test_errors(run, tmp_path):
    with pytest.raises(qring.QringError, match="the run has steps 1 to 12"):
        qring.verify(run, step=13)
    with pytest.raises(qring.QringError, match="not the folder of a run"):
        qring.verify(tmp_path)
    with pytest.raises(qring.QringError, match="only one of step"):
        qring.verify(run, step=1, all=True)
    with pytest.raises(qring.QringError, match="the first and the last"):
        qring.verify(run, steps=(1, 2, 3))
