"""Arrays as files that the program reads, and back. Start at :func:`write_samples`."""

from __future__ import annotations

import csv
import hashlib
import io
import os
import tempfile
from pathlib import Path
from typing import Any, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

_NAMES = ("x", "y", "sample_weight")


def arrays_of(data: Any) -> dict[str, NDArray[Any]]:
    """Return the arrays of ``(x, y)``, ``(x, y, sample_weight)``, ``x`` or a mapping, checked."""
    if isinstance(data, Mapping):
        given = dict(data)
        unknown = sorted(set(given) - set(_NAMES))
        if unknown:
            raise ValueError(f"cannot use data: unknown arrays {unknown}; give x, y, sample_weight")
    elif isinstance(data, (tuple, list)) and len(data) <= len(_NAMES):
        given = dict(zip(_NAMES, data))
    else:
        given = {"x": data}
    arrays = {name: np.asarray(array) for name, array in given.items() if array is not None}
    if "x" not in arrays:
        raise ValueError("cannot use data: x is missing; give (x, y)")
    if arrays["x"].ndim != 2:
        raise ValueError(
            f"cannot use data: x has shape {arrays['x'].shape}; give (samples, inputs)"
        )
    for name, array in arrays.items():
        words = name == "y" and array.ndim == 1 and is_words(array)
        if array.dtype.kind not in "biuf" and not words:
            raise TypeError(
                f"cannot use data: {name} has dtype {array.dtype}; give real numbers"
                + (", or words of shape (samples,)" if name == "y" else "")
            )
        if array.ndim not in (1, 2) or len(array) != len(arrays["x"]):
            raise ValueError(
                f"cannot use data: {name} has shape {array.shape}, x {arrays['x'].shape}; give "
                "one row per sample"
            )
    return arrays


def is_words(array: NDArray[Any]) -> bool:
    """Tell whether all elements are texts."""
    if array.dtype.kind == "O":
        return all(isinstance(item, str) for item in array.tolist())
    return array.dtype.kind in "UT"


def _write(path: Path, content: bytes) -> None:
    """Write a file at once, so that a reader never sees a part of it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=f"{path.name}.tmp-")
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
        # mkstemp allows the owner only; the workers of a shared folder may be other users.
        os.chmod(name, 0o644)
        os.replace(name, path)
    except BaseException:
        os.unlink(name)
        raise


def npz_bytes(arrays: Mapping[str, NDArray[Any]]) -> bytes:
    """Return an npz file; equal arrays give equal bytes."""
    stream = io.BytesIO()
    plain: dict[str, Any] = {
        # The program reads little-endian numbers in C order.
        name: np.ascontiguousarray(array, array.dtype.newbyteorder("<"))
        for name, array in arrays.items()
    }
    np.savez(stream, **plain)
    return stream.getvalue()


def csv_bytes(columns: Sequence[tuple[str, Sequence[Any]]]) -> bytes:
    """Return a CSV file; numbers have all digits of a float64."""
    stream = io.StringIO()
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow([name for name, _ in columns])
    writer.writerows(zip(*(column for _, column in columns)))
    return stream.getvalue().encode()


def columns_of(
    arrays: Mapping[str, NDArray[Any]], inputs: Sequence[str], labels: Sequence[str], weight: str
) -> list[tuple[str, Sequence[Any]]]:
    """Return names and values of CSV columns."""
    x = arrays["x"].astype(np.float64)
    columns: list[tuple[str, Sequence[Any]]] = [
        (name, x[:, i].tolist()) for i, name in enumerate(inputs)
    ]
    if "y" in arrays:
        y = arrays["y"]
        y = y if is_words(y) else y.astype(np.float64)
        y = y.reshape(len(y), -1)
        columns += [(name, y[:, i].tolist()) for i, name in enumerate(labels)]
    if "sample_weight" in arrays:
        columns.append((weight, arrays["sample_weight"].astype(np.float64).reshape(-1).tolist()))
    return columns


def table_names(data: Any) -> list[str] | None:
    """Return the names of columns if x is a table, such as a pandas DataFrame."""
    x = data
    if isinstance(data, Mapping):
        x = data.get("x")
    elif isinstance(data, (tuple, list)) and data:
        x = data[0]
    columns = getattr(x, "columns", None)
    return None if columns is None else [str(name) for name in columns]


def _free(name: str, taken: Sequence[str]) -> str:
    while name in taken:
        name += "_"
    return name


def write_samples(
    data: Any,
    folder: Path,
    stem: str,
    source: str | None = None,
    names: Sequence[str] | None = None,
) -> tuple[Path, dict[str, Any]]:
    """Write samples into a file whose name contains a hash of its content.

    So the file of an earlier run in the same folder keeps its content.

    Parameters
    ----------
    data
        As of :func:`arrays_of`.
    folder, stem
        Where the file goes, and the begin of its name.
    source : str, optional
        ``"npz"`` or ``"csv"``. Default: npz, but CSV for words and names.
    names : sequence of str, optional
        Names of the columns of x; those of a table hold.

    Returns
    -------
    path : Path
    keys : dict
        ``source`` and other keys of a job's data object, without ``url``.
    """
    arrays = arrays_of(data)
    if not len(arrays["x"]):
        raise ValueError("cannot use data: x has no samples; give at least one")
    width = arrays["x"].shape[1]
    names = table_names(data) or names
    words = "y" in arrays and is_words(arrays["y"])
    keys: dict[str, Any] = {"source": source or ("csv" if words or names else "npz")}
    if keys["source"] == "csv":
        if names is None or len(names) != width:
            names = [f"x{i}" for i in range(width)]
        labels = []
        if "y" in arrays:
            outputs = arrays["y"].reshape(len(arrays["y"]), -1).shape[1]
            plain = ["y"] if outputs == 1 else [f"y{i}" for i in range(outputs)]
            labels = [_free(name, names) for name in plain]
            if labels != plain:
                keys["labels"] = labels if outputs > 1 else labels[0]
        weight = _free("sample_weight", names)
        if "sample_weight" in arrays:
            keys["sample_weight"] = weight
        content = csv_bytes(columns_of(arrays, names, labels, weight))
    else:
        if "sample_weight" in arrays:
            keys["sample_weight"] = "sample_weight"
        content = npz_bytes(arrays)
    digest = hashlib.sha256(content).hexdigest()[:12]
    path = folder / f"{stem}-{digest}.{keys['source']}"
    if not path.exists():
        _write(path, content)
    return path, keys
