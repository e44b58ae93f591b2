"""Circuits as texts of other programs, and drawings, by the library. Start at :func:`write`."""

from __future__ import annotations

import ctypes
import operator
from typing import Sequence

from ._library import Error, failure, lib, utf8


class _Options(ctypes.Structure):
    """struct qring_write_options."""

    _fields_ = [
        ("struct_size", ctypes.c_size_t),
        ("observables", ctypes.POINTER(ctypes.c_char_p)),
        ("n_observables", ctypes.c_size_t),
        ("parameters", ctypes.POINTER(ctypes.c_double)),
        ("n_parameters", ctypes.c_size_t),
        ("inputs", ctypes.POINTER(ctypes.c_double)),
        ("n_inputs", ctypes.c_size_t),
        ("columns", ctypes.c_uint),
    ]


def _numbers(values: Sequence[float] | None) -> tuple[ctypes.Array[ctypes.c_double] | None, int]:
    if values is None:
        return None, 0
    listed = [float(v) for v in values]
    return (ctypes.c_double * max(len(listed), 1))(*listed), len(listed)


def write(
    circuit: bytes,
    format: str,
    observables: Sequence[str] = (),
    parameters: Sequence[float] | None = None,
    inputs: Sequence[float] | None = None,
    columns: int = 0,
) -> bytes:
    """Return what qring_circuit_write writes.

    Raises
    ------
    QringError
        The format is unknown, or cannot express the circuit.
    """
    if not isinstance(format, str) or "\0" in format:
        raise TypeError(f"cannot write a circuit as {format!r}: give the name of a format")
    texts = (ctypes.c_char_p * max(len(observables), 1))(*map(utf8, observables))
    options = _Options(
        ctypes.sizeof(_Options),
        texts,
        len(observables),
        *_numbers(parameters),
        *_numbers(inputs),
        columns,
    )
    ret, n, error = ctypes.c_void_p(), ctypes.c_size_t(), Error()
    if lib.qring_circuit_write(
        circuit,
        len(circuit),
        utf8(format),
        ctypes.byref(options),
        ctypes.byref(ret),
        ctypes.byref(n),
        ctypes.byref(error),
    ):
        raise failure(error)
    try:
        return ctypes.string_at(ret.value or 0, n.value)
    finally:
        lib.qring_text_free(ret)


def draw(circuit: bytes, observables: Sequence[str], columns: int, format: str) -> str:
    """Return a drawing."""
    if format not in ("text", "svg", "latex"):
        raise ValueError(f"cannot draw as {format!r}: use text, svg or latex")
    if isinstance(columns, bool) or not 1 <= operator.index(columns) < 1 << 31:
        raise ValueError(f"cannot draw in {columns} columns: give 1 or more")
    return write(circuit, format, observables, columns=columns).decode()
