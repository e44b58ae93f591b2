"""Bits of values and derivatives: equal with any instruction set, threads, compiler and machine."""

from __future__ import annotations

import digest
import pytest

import qring

# Changes only in a commit that changes the plan of one of these circuits and says why.
COMMITTED = "d2942a412608d48104d7f61ab72f8a92b0875628d1a4961c4a4978ad28d9050f"


@pytest.mark.parametrize("isa", ["auto", "portable", "avx2", "avx512", "neon"])
def test_digest(isa: str) -> None:
    try:
        qring.expval(qring.Circuit(1), "Z0", isa=isa)
    except qring.QringError as error:
        pytest.skip(str(error))
    assert digest.digest(isa) == COMMITTED


def test_digest_with_threads() -> None:
    assert digest.digest(threads=2) == COMMITTED
