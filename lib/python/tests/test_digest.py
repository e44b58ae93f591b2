"""Bits of values and derivatives: equal with any instruction set, threads, compiler and machine."""

from __future__ import annotations

import digest
import pytest

import qring

# Changes only in a commit that changes the plan of one of these circuits and says why.
COMMITTED = "84e137f2c1ed7bc41cd1777b68348724172f9af208e24691f52b57339938b1ba"


@pytest.mark.parametrize("isa", ["auto", "portable", "avx2", "avx512", "neon"])
def test_digest(isa: str) -> None:
    try:
        qring.expval(qring.Circuit(1), "Z0", isa=isa)
    except qring.QringError as error:
        pytest.skip(str(error))
    assert digest.digest(isa) == COMMITTED


def test_digest_with_threads() -> None:
    assert digest.digest(threads=2) == COMMITTED
