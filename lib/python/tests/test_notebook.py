"""The notebook deploy/python/tutorial.ipynb: cells without the tag cluster, and their outputs."""

from __future__ import annotations

import ast
import contextlib
import io
import json
import os
import re
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import qring
import qring.kubernetes

ROOT = Path(__file__).parents[3]
NOTEBOOK = ROOT / "deploy" / "python" / "tutorial.ipynb"
QRING = os.environ.get("QRING") or str(ROOT / "build" / "bin" / "qring")
# The tests of a wheel have no source tree around them.
CELLS = json.loads(NOTEBOOK.read_text())["cells"] if NOTEBOOK.exists() else []
CODE = [cell for cell in CELLS if cell["cell_type"] == "code"]

pytestmark = pytest.mark.skipif(not NOTEBOOK.exists(), reason="deploy/python is not there")


def for_cluster(cell: dict[str, Any]) -> bool:
    return "cluster" in cell["metadata"].get("tags", [])


def source(cell: dict[str, Any]) -> str:
    return "".join(cell["source"])


def printed(cell: dict[str, Any]) -> str:
    return "".join("".join(o["text"]) for o in cell["outputs"] if o["output_type"] == "stream")


@pytest.mark.skipif(shutil.which(QRING) is None, reason="the program qring is not built")
def test_cells(monkeypatch, tmp_path):
    monkeypatch.setenv("QRING", QRING)
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {"__name__": "__main__"}
    for cell in CODE:
        if not for_cluster(cell):
            text = io.StringIO()
            with contextlib.redirect_stdout(text):
                exec(compile(source(cell), f"tutorial.ipynb, {cell['id']}", "exec"), names)
            assert text.getvalue() == printed(cell), cell["id"]

    # The job is that of the job file, and so is its result.
    job = qring.Job(ROOT / "deploy" / "jobs" / "qcnn.json")
    assert names["job"] == job
    digest = names["result"].digest
    assert digest == qring.run(job, out="file", progress=False).digest
    outputs = {cell["id"]: json.dumps(cell["outputs"]) for cell in CODE}
    for cell in ("run", "digest"):
        assert set(re.findall(r"\b[0-9a-f]{32}\b", outputs[cell])) == {digest}
    assert "<polyline" in outputs["run"]

    for losses in (
        names["result"].history["loss"],
        names["own_result"].history["loss"],
        np.array(names["losses"]),
    ):
        assert losses[-5:].mean() < 0.5 * losses[:5].mean()
    assert names["result"].metrics["val_accuracy"] == 1


def test_cells_for_a_cluster():
    cells = [cell for cell in CODE if for_cluster(cell)]
    assert len(cells) >= 4
    calls = set()
    for cell in cells:
        assert cell["outputs"] == []
        assert cell["execution_count"] is None
        for node in ast.walk(ast.parse(source(cell))):
            if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
                owner = {"qring": qring, "run": qring.kubernetes.Handle}.get(node.value.id)
                assert owner is None or hasattr(owner, node.attr), node.attr
                calls.add(node.attr)
    assert {"submit", "state", "scale", "result", "digest", "delete"} <= calls


def test_format():
    notebook = json.loads(NOTEBOOK.read_text())
    assert (notebook["nbformat"], notebook["nbformat_minor"]) == (4, 5)
    identifiers = [cell["id"] for cell in CELLS]
    assert len(set(identifiers)) == len(identifiers)
    assert all(re.fullmatch(r"[a-zA-Z0-9-_]{1,64}", name) for name in identifiers)
    # Neither times nor paths of the machine that stored the outputs.
    assert all("execution" not in cell["metadata"] for cell in CODE)
    outputs = json.dumps([cell["outputs"] for cell in CODE])
    assert not re.search(r"/(home|root|tmp|work|usr|opt)/|seconds|<progress", outputs)
    assert len(outputs) < 20_000
    assert all(len(line) <= 100 for cell in CODE for line in source(cell).splitlines())


def test_links():
    text = "".join(source(cell) for cell in CELLS if cell["cell_type"] == "markdown")
    links = re.findall(r"\]\(([^)#]+)[^)]*\)", text)
    assert len(links) >= 4
    for link in links:
        assert (NOTEBOOK.parent / link).is_file(), link
