"""ctypes binding of lib/api/qring.h.

Start reading at :func:`load`. NumPy is not imported here, so that ``import qring`` stays fast.
"""

from __future__ import annotations

import ctypes
import enum
import os
from pathlib import Path
from typing import Any

from ._version import __version__

FLOAT32 = 1
FLOAT64 = 2
MAX_DIMENSIONS = 3


class Code(enum.IntEnum):
    """Kinds of failure, with the numbers of gRPC's status codes."""

    OK = 0
    CANCELLED = 1
    UNKNOWN = 2
    INVALID_ARGUMENT = 3
    DEADLINE_EXCEEDED = 4
    NOT_FOUND = 5
    ALREADY_EXISTS = 6
    PERMISSION_DENIED = 7
    RESOURCE_EXHAUSTED = 8
    FAILED_PRECONDITION = 9
    ABORTED = 10
    OUT_OF_RANGE = 11
    UNIMPLEMENTED = 12
    INTERNAL = 13
    UNAVAILABLE = 14
    DATA_LOSS = 15
    UNAUTHENTICATED = 16


class QringError(RuntimeError):
    """A failure that the library reports.

    Attributes
    ----------
    code : Code
        Kind of failure, for example ``Code.OUT_OF_RANGE`` for a weight that is not finite.
    """

    code: Code

    def __init__(self, message: str, code: int = Code.UNKNOWN) -> None:
        super().__init__(message)
        try:
            self.code = Code(code)
        except ValueError:
            self.code = Code.UNKNOWN

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (str(self), int(self.code))


class Error(ctypes.Structure):
    """struct qring_error."""

    _fields_ = [("code", ctypes.c_int), ("message", ctypes.c_char * 768)]


class Array(ctypes.Structure):
    """struct qring_array."""

    _fields_ = [
        ("data", ctypes.c_void_p),
        ("dtype", ctypes.c_int),
        ("strides", ctypes.c_ssize_t * MAX_DIMENSIONS),
    ]


class Options(ctypes.Structure):
    """struct qring_options."""

    _fields_ = [
        ("struct_size", ctypes.c_size_t),
        ("dtype", ctypes.c_int),
        ("threads", ctypes.c_uint),
        ("isa", ctypes.c_char_p),
        ("input_gradients", ctypes.c_int),
        ("states", ctypes.c_int),
        ("method", ctypes.c_char_p),
        ("trajectories", ctypes.c_uint),
        ("seed", ctypes.c_ulonglong),
        ("shots", ctypes.c_uint),
        ("gradient", ctypes.c_char_p),
    ]


def failure(error: Error) -> QringError:
    """Return the exception for a filled ``struct qring_error``."""
    return QringError(error.message.decode("utf-8", "replace"), error.code)


def _declare(lib: ctypes.CDLL) -> None:
    """Set the argument and result types of every function of qring.h."""
    size, text, handle, code = ctypes.c_size_t, ctypes.c_char_p, ctypes.c_void_p, ctypes.c_int
    # Pointers to structs are declared as void *: byref() objects and NULL then pass without a
    # type search, and the callers of this module are the only ones.
    pointer = ctypes.c_void_p
    call = [handle, pointer, pointer, size]
    signatures: dict[str, tuple[Any, list[Any]]] = {
        "qring_version": (text, []),
        "qring_circuit_function": (
            code,
            [text, size, ctypes.POINTER(text), size, pointer, pointer, pointer],
        ),
        "qring_circuit_from_qasm": (
            code,
            [text, size, ctypes.POINTER(text), size, pointer, pointer, pointer],
        ),
        "qring_circuit_from_cirq": (
            code,
            [text, size, ctypes.POINTER(text), size, pointer, pointer, pointer],
        ),
        "qring_circuit_write": (
            code,
            [text, size, text, pointer, pointer, pointer, pointer],
        ),
        "qring_function_free": (None, [handle]),
        "qring_set_seed": (None, [handle, ctypes.c_ulonglong]),
        "qring_n_qubits": (size, [handle]),
        "qring_n_parameters": (size, [handle]),
        "qring_n_inputs": (size, [handle]),
        "qring_n_observables": (size, [handle]),
        "qring_n_gates": (size, [handle]),
        "qring_n_bits": (size, [handle]),
        "qring_parameter_name": (text, [handle, size]),
        "qring_input_name": (text, [handle, size]),
        "qring_engine": (text, [handle]),
        # The address is kept, because qring_text_free needs it.
        "qring_draw": (ctypes.c_void_p, [handle, ctypes.c_uint]),
        "qring_text_free": (None, [ctypes.c_void_p]),
        "qring_forward": (code, [*call, pointer, pointer]),
        "qring_sum_new": (ctypes.c_void_p, [size]),
        "qring_sum_free": (None, [handle]),
        "qring_sum_add": (code, [handle, handle, pointer]),
        "qring_sum_values": (code, [handle, pointer, pointer]),
        "qring_vjp": (code, [*call, pointer, pointer, pointer, pointer, handle, pointer]),
        "qring_jacobian": (code, [*call, pointer, pointer, pointer, pointer]),
        "qring_states": (code, [*call, pointer, pointer]),
        "qring_sample_bits": (code, [*call, pointer, pointer, pointer]),
    }
    for name, (result, arguments) in signatures.items():
        function = getattr(lib, name)
        function.restype = result
        function.argtypes = arguments


def utf8(text: str) -> bytes:
    """Return a text for the library."""
    try:
        return text.encode()
    except UnicodeEncodeError:
        raise ValueError(
            f"cannot use {text[:80]!r}: it has half of a surrogate pair, which is not a character; "
            "remove it"
        ) from None


def owned_text(address: ctypes.c_void_p) -> bytes:
    """Return the text at an address from the library, which is freed."""
    try:
        return ctypes.string_at(address)
    finally:
        lib.qring_text_free(address)


def candidates() -> list[str]:
    """Return the places of libqring.so.1, in order of preference."""
    beside = Path(__file__).with_name("libqring.so.1")
    if beside.exists():
        return [str(beside)]
    given = os.environ.get("QRING_LIBRARY")
    return [given] if given else ["libqring.so.1"]


def load() -> ctypes.CDLL:
    """Load libqring.so.1 and check its version.

    Returns
    -------
    ctypes.CDLL
        The library; calls release the interpreter's lock.

    Raises
    ------
    ImportError
        The library is missing, lacks a function, or has another version.
    """
    path = candidates()[0]
    hint = "install the wheel, or set QRING_LIBRARY to the path of libqring.so.1"
    try:
        lib = ctypes.CDLL(path)
    except OSError as error:
        raise ImportError(f"cannot load the library of qring: {error}; {hint}") from None
    try:
        _declare(lib)
    except AttributeError as error:
        raise ImportError(f"cannot use {path} as the library of qring: {error}; {hint}") from None
    version = lib.qring_version().decode()
    if version != __version__:
        raise ImportError(
            f"cannot use {path}: its version is {version}, but the package's is {__version__}; "
            f"{hint} {__version__}"
        )
    return lib


lib = load()
