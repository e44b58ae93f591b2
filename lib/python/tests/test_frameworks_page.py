"""Snippets of lib/python/frameworks.md, each in its own process, and examples of docstrings."""

from __future__ import annotations

import doctest
import importlib
import re
import subprocess
import sys
from pathlib import Path

import pytest
from framework_model import environment

PAGE = Path(__file__).parents[1].joinpath("frameworks").with_suffix(".md")
if not PAGE.exists():
    pytest.skip("the page is not beside the tests", allow_module_level=True)
SNIPPETS = re.findall(r"(?ms)^```python\n(.*?)^```", PAGE.read_text())


@pytest.mark.parametrize("name", ["torch", "jax", "keras"])
def test_snippet(name: str, tmp_path: Path) -> None:
    pytest.importorskip(name if name != "keras" else "torch", reason=f"{name} is not installed")
    (snippet,) = [s for s in SNIPPETS if re.search(rf"^import {name}$", s, re.MULTILINE)]
    done = subprocess.run(
        [sys.executable, "-c", snippet],
        cwd=tmp_path,
        env=environment(KERAS_BACKEND="torch"),
        capture_output=True,
        text=True,
        check=False,
    )
    if name == "keras" and "No module named 'keras'" in done.stderr:
        pytest.skip("Keras is not installed")
    assert done.returncode == 0, done.stderr[-3000:]


@pytest.mark.parametrize("name", ["torch", "jax"])
def test_docstrings(name: str) -> None:
    pytest.importorskip(name, reason=f"{name} is not installed")
    try:
        module = importlib.import_module(f"qring.{name}")
    except ImportError as error:
        pytest.skip(str(error))
    assert not doctest.testmod(module).failed


def test_length() -> None:
    assert len(PAGE.read_text().split()) <= 350
