"""Snippets of the page and examples of docstrings."""

from __future__ import annotations

import doctest
import importlib
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import qring

PAGE = Path(__file__).parents[1] / "README.md"
SNIPPETS = re.findall(r"(?ms)^```python\n(.*?)^```", PAGE.read_text())
# Snippets of the frameworks' pages are run by the frameworks' own tests.
FRAMEWORKS = ("torch", "jax", "keras", "pennylane", "kubernetes")


@pytest.mark.parametrize("i", range(len(SNIPPETS)))
def test_snippet(i: int) -> None:
    for name in FRAMEWORKS:
        if re.search(rf"\b{name}\b", SNIPPETS[i]):
            pytest.importorskip(name)
    # As the first snippet imports them
    names: dict[str, Any] = {"__name__": f"snippet{i}", "np": np, "qring": qring}
    exec(compile(SNIPPETS[i], f"README.md, snippet {i + 1}", "exec"), names)


def test_page() -> None:
    assert len(SNIPPETS) >= 4
    assert len(PAGE.read_text().split()) <= 700


@pytest.mark.parametrize("name", ["", ".circuit", ".expression", ".function"])
def test_docstrings(name: str) -> None:
    module = importlib.import_module("qring" + name)
    with (
        np.printoptions(legacy="1.25")
        if np.lib.NumpyVersion(np.__version__) >= "2.0.0"
        else np.printoptions()
    ):
        failed = doctest.testmod(module).failed
    assert not failed
