"""Angles of gates as expressions over parameters and inputs."""

from __future__ import annotations

import math
import operator
import re
from typing import Any, Callable, Union

_SUM, _PRODUCT, _ATOM = 0, 1, 2  # how tightly the outermost operation binds
_MAX_NAME_BYTES = 64
_MAX_BYTES = 1024  # as in lib/expression/expression.h
# In a repeat, a name may contain index expressions in braces.
_NAME = re.compile(r"[A-Za-z_](?:[A-Za-z0-9_.]|\{[^{}]*\})*(?:\[[0-9]+\])?\Z")
_COLUMN = re.compile(r"[A-Za-z0-9_]+\Z")
RESERVED = frozenset("pi x sin cos tan asin acos atan sqrt exp log abs pow atan2 hypot".split())


def real(value: object, what: str) -> float:
    """Return a finite real number as a float.

    Parameters
    ----------
    value : object
        A number: Python's, NumPy's or an array without dimensions.
    what : str
        Name of the value in messages.
    """
    kind = getattr(getattr(value, "dtype", None), "kind", "")  # NumPy drops an imaginary part
    other = isinstance(value, (str, bytes, bool)) or kind in ("b", "c")
    if other or not hasattr(value, "__float__"):
        raise TypeError(f"cannot use {value!r} as {what}: it is not a real number; give a number")
    try:
        number = float(value)
    except (TypeError, ValueError, OverflowError) as error:
        raise TypeError(f"cannot use {value!r} as {what}: {error}; give a number") from None
    if not math.isfinite(number):
        raise ValueError(f"cannot use {value!r} as {what}: it is not finite; give a finite number")
    return number


class Expression:
    """A function of parameters and inputs, for the angle of a gate.

    Made by arithmetic on :class:`Parameter` and :class:`Input`: ``+``, ``-``, ``*``, ``/``,
    ``**``, and ``np.sin``, ``cos``, ``tan``, ``arcsin``, ``arccos``, ``arctan``, ``sqrt``,
    ``exp``, ``log``, ``abs``, ``square``, ``reciprocal``, ``arctan2``, ``hypot``. Immutable.
    """

    __slots__ = ("_level", "_scale", "_symbol", "_text")

    def __init__(self, text: str, level: int = _ATOM) -> None:
        if len(text) > _MAX_BYTES:  # arithmetic that uses an expression twice doubles the text
            raise ValueError(
                f"cannot use {text[:40] + '...'!r} as an expression: it is longer than "
                f"{_MAX_BYTES} bytes; use fewer terms"
            )
        self._text = text
        self._level = level
        self._symbol: Symbol | None = None  # with _scale: the expression is _scale * _symbol
        self._scale = 1.0

    def to_json(self) -> object:
        """Return the angle as in a job file: a text, or an object for a multiple of a symbol."""
        if self._symbol is None:
            return self._text
        found = self._symbol._reference()
        if found is None:
            return self._format(_SUM)
        return found if self._scale == 1 else {**found, "scale": self._scale}

    def _format(self, level: int) -> str:
        """Return the text, in parentheses unless it binds at least as tightly as `level`."""
        text, own = self._text, self._level
        if self._symbol is not None:
            text, own = self._symbol._name_in_text(), _ATOM
            if self._scale != 1:
                text, own = f"{self._scale!r}*{text}", _PRODUCT
        return text if own >= level else f"({text})"

    def _scaled(self, factor: float) -> Expression:
        assert self._symbol is not None
        ret = Expression("", _PRODUCT)
        ret._symbol = self._symbol
        ret._scale = real(self._scale * factor, "the factor of " + self._symbol.name)
        return ret

    def __add__(self, other: ExpressionLike) -> Expression:
        return _combine(self, other, " + ", _SUM)

    def __radd__(self, other: ExpressionLike) -> Expression:
        return _combine(other, self, " + ", _SUM)

    def __sub__(self, other: ExpressionLike) -> Expression:
        return _combine(self, other, " - ", _SUM)

    def __rsub__(self, other: ExpressionLike) -> Expression:
        return _combine(other, self, " - ", _SUM)

    def __mul__(self, other: ExpressionLike) -> Expression:
        if self._symbol is not None and _is_number(other):
            return self._scaled(real(other, "a factor"))
        return _combine(self, other, "*", _PRODUCT)

    def __rmul__(self, other: ExpressionLike) -> Expression:
        if self._symbol is not None and _is_number(other):
            return self._scaled(real(other, "a factor"))
        return _combine(other, self, "*", _PRODUCT)

    def __truediv__(self, other: ExpressionLike) -> Expression:
        if _is_number(other):
            divisor = real(other, "a divisor")
            if divisor == 0:
                raise ZeroDivisionError("cannot divide an expression by 0; give another divisor")
            if self._symbol is not None:
                return self._scaled(1 / divisor)
        return _combine(self, other, "/", _PRODUCT)

    def __rtruediv__(self, other: ExpressionLike) -> Expression:
        return _combine(other, self, "/", _PRODUCT)

    def __pow__(self, other: ExpressionLike) -> Expression:
        return _apply("pow", self, other)

    def __rpow__(self, other: ExpressionLike) -> Expression:
        return _apply("pow", other, self)

    def __neg__(self) -> Expression:
        return self * -1.0 if self._symbol is not None else Expression("-" + self._format(_ATOM), 1)

    def __pos__(self) -> Expression:
        return self

    def __abs__(self) -> Expression:
        return _apply("abs", self)

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **options: Any) -> Any:
        """Let NumPy's functions and scalars make expressions: ``np.sin(w)``, ``np.pi * w``."""
        function = _UFUNCS.get(ufunc.__name__)
        if function is None or method != "__call__" or options:
            return NotImplemented
        if any(getattr(value, "ndim", 0) for value in inputs):
            return NotImplemented
        # NumPy's scalars would call this method again.
        return function(*(v if isinstance(v, (Expression, str)) else float(v) for v in inputs))

    def __bool__(self) -> bool:
        raise TypeError(
            "cannot use an expression as a truth value: its parameters have no values yet; "
            "compare numbers instead"
        )

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Expression):
            return NotImplemented
        return self.to_json() == other.to_json()

    def __hash__(self) -> int:
        return hash(str(self.to_json()))

    def __str__(self) -> str:
        try:
            return self._format(_SUM)
        except ValueError:
            return str(self.to_json())

    def __repr__(self) -> str:
        return f"Expression({str(self)!r})"


ExpressionLike = Union[Expression, str, float]
"""An expression, its text (``"2*w0 + x[0]"``), or a number."""


class Symbol(Expression):
    """A parameter or an input."""

    __slots__ = ("name",)
    name: str

    def __init__(self, name: str) -> None:
        if not isinstance(name, str):
            raise TypeError(f"cannot use {name!r} as a name: it is not text; give a str")
        if not 1 <= len(name.encode("utf-8", "replace")) <= _MAX_NAME_BYTES or "\0" in name:
            raise ValueError(
                f"cannot use {name[:80]!r} as a name: it must have 1 to {_MAX_NAME_BYTES} bytes "
                "and no NUL; choose another name"
            )
        super().__init__(name)
        self.name = name
        self._symbol = self

    def _reference(self) -> dict[str, object] | None:
        """Return the object of a job file that refers to the symbol; None: write it as text."""
        raise NotImplementedError

    def _name_in_text(self) -> str:
        """Return the symbol as part of an expression."""
        raise NotImplementedError


class Parameter(Symbol):
    """A trainable number of a circuit.

    Parameters
    ----------
    name : str
        1 to 64 bytes. Gates with equal names share the parameter.
    """

    __slots__ = ()

    def _reference(self) -> dict[str, object]:
        return {"parameter": self.name}

    def _name_in_text(self) -> str:
        column = self.name.startswith(("x[", "x."))
        if column or not _NAME.match(self.name) or self.name in RESERVED:
            raise ValueError(
                f"cannot use the parameter {self.name!r} in an expression: the name must be "
                "letters, digits, _ and dots, and no function or input; rename the parameter"
            )
        return self.name

    def __repr__(self) -> str:
        return f"Parameter({self.name!r})"


class Input(Symbol):
    """A number of each sample, for example a feature.

    Parameters
    ----------
    name : str or int
        Name of the column, or its number from 0. Named columns follow the numbered ones, in
        order of first use.
    """

    __slots__ = ("column",)
    column: int | None

    def __init__(self, name: str | int) -> None:
        self.column = None
        if not isinstance(name, (str, bool)):
            try:
                self.column = operator.index(name)
            except TypeError:
                raise TypeError(
                    f"cannot use {name!r} as an input: it is not a column; give a name or a number"
                ) from None
            if not 0 <= self.column < 1 << 20:
                raise ValueError(
                    f"cannot use column {name}: it is outside 0 to 2^20 - 1; give a smaller one"
                )
            name = f"x[{self.column}]"
        super().__init__(name)  # type: ignore[arg-type]
        if self.column is None and "'" in self.name:
            raise ValueError(f"cannot use {name!r} as an input: it has a quote; rename the input")

    def _reference(self) -> dict[str, object] | None:
        return None if self.column is None else {"data": self.column}

    def _name_in_text(self) -> str:
        if self.column is not None:
            return self.name
        return f"x.{self.name}" if _COLUMN.match(self.name) else f"x['{self.name}']"

    def __repr__(self) -> str:
        return f"Input({self.name if self.column is None else self.column!r})"


def _is_number(value: object) -> bool:
    return not isinstance(value, (str, Expression))


def as_expression(value: object) -> Expression:
    """Return a number, a text or an expression as an expression."""
    if isinstance(value, Expression):
        return value
    if isinstance(value, str):
        return Expression(value, _SUM)
    number = real(value, "part of an expression")
    return Expression(repr(number), _ATOM if number >= 0 else _SUM)


def _combine(left: object, right: object, op: str, level: int) -> Expression:
    # The right operand needs parentheses at the same level: a - (b - c).
    a, b = as_expression(left)._format(level), as_expression(right)._format(level + 1)
    return Expression(a + op + b, level)


def _apply(function: str, *arguments: object) -> Expression:
    texts = ", ".join(as_expression(a)._format(_SUM) for a in arguments)
    return Expression(f"{function}({texts})")


def _function(name: str) -> Callable[..., Expression]:
    return lambda *arguments: _apply(name, *arguments)


_UFUNCS: dict[str, Callable[..., Any]] = {
    "add": operator.add,
    "subtract": operator.sub,
    "multiply": operator.mul,
    "divide": operator.truediv,
    "true_divide": operator.truediv,
    "negative": operator.neg,
    "positive": operator.pos,
    "square": lambda value: value * value,
    "reciprocal": lambda value: 1 / value,
    "power": _function("pow"),
    "float_power": _function("pow"),
    "absolute": _function("abs"),
    "fabs": _function("abs"),
    "sin": _function("sin"),
    "cos": _function("cos"),
    "tan": _function("tan"),
    "arcsin": _function("asin"),
    "arccos": _function("acos"),
    "arctan": _function("atan"),
    "arctan2": _function("atan2"),
    "hypot": _function("hypot"),
    "sqrt": _function("sqrt"),
    "exp": _function("exp"),
    "log": _function("log"),
}
