"""Reader of safetensors files: a length, a JSON header, raw little-endian numbers."""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ._library import Code, QringError

_DTYPES = {
    "F64": "<f8",
    "F32": "<f4",
    "F16": "<f2",
    "I64": "<i8",
    "I32": "<i4",
    "I16": "<i2",
    "I8": "|i1",
    "U64": "<u8",
    "U32": "<u4",
    "U16": "<u2",
    "U8": "|u1",
    "BOOL": "|b1",
}
_LENGTH_BYTES = 8
_MALFORMED = (ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError)


def read(path: Path) -> tuple[dict[str, NDArray[np.generic]], dict[str, str]]:
    """Read all tensors of a file.

    Returns
    -------
    tensors : dict
        Arrays by name, in the order of the file.
    metadata : dict
        Texts by name.

    Raises
    ------
    QringError
        The file is missing or malformed.
    """
    try:
        raw = path.read_bytes()
    except OSError as error:
        raise QringError(
            f"cannot read the weights {path}: {error.strerror}; train first", Code.NOT_FOUND
        ) from None
    try:
        length = int.from_bytes(raw[:_LENGTH_BYTES], "little")
        start = _LENGTH_BYTES + length
        if len(raw) < start:
            raise ValueError(f"its header has {length} bytes, the file {len(raw)}")
        header = json.loads(raw[_LENGTH_BYTES:start])
        metadata = header.pop("__metadata__", {})
        if not all(isinstance(text, str) for text in metadata.values()):
            raise ValueError("its metadata are not texts")
        tensors: dict[str, NDArray[np.generic]] = {}
        for name, entry in header.items():
            dtype = np.dtype(_DTYPES[entry["dtype"]])
            shape = tuple(int(n) for n in entry["shape"])
            first, last = entry["data_offsets"]
            if not 0 <= first <= last <= len(raw) - start or min(shape, default=0) < 0:
                raise ValueError(f"tensor {name!r} is outside the file")
            if last - first != math.prod(shape) * dtype.itemsize:
                raise ValueError(f"tensor {name!r} has {last - first} bytes for shape {shape}")
            # The copy is aligned and writable.
            tensors[name] = (
                np.frombuffer(raw[start + first : start + last], dtype).reshape(shape).copy()
            )
    except _MALFORMED as error:
        raise QringError(
            f"cannot read the weights {path}: {error}; it is not a safetensors file",
            Code.DATA_LOSS,
        ) from None
    return tensors, metadata
