"""Loss curves as SVG, without a plotting library. Start at :func:`curve`."""

from __future__ import annotations

import html
import math
from typing import Sequence

import numpy as np
from numpy.typing import NDArray

_WIDTH, _HEIGHT = 560, 280
_LEFT, _RIGHT, _TOP, _BOTTOM = 64, 16, 30, 44
_MAX_POINTS = 600
_TICKS = 5
_MAX = 1e300  # sums and differences of larger values overflow

Line = tuple[str, str, NDArray[np.float64], NDArray[np.float64]]


def _ticks(low: float, high: float) -> list[float]:
    """Return round numbers between `low` and `high`."""
    rough = (high - low) / _TICKS
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(factor * power for factor in (1, 2, 5, 10) if factor * power >= rough)
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    return [i * step for i in range(first, last + 1)]


def _thin(
    x: NDArray[np.float64], y: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Average neighbours, so that a long run has few points."""
    if len(x) <= _MAX_POINTS:
        return x, y
    edges = np.linspace(0, len(x), _MAX_POINTS + 1).astype(int)[:-1]
    counts = np.diff(np.append(edges, len(x)))
    return np.add.reduceat(x, edges) / counts, np.add.reduceat(y, edges) / counts


def curve(title: str, x_label: str, lines: Sequence[Line]) -> str:
    """Draw lines over a common axis.

    Parameters
    ----------
    title, x_label : str
        Texts; any characters.
    lines : sequence of (name, colour, x, y)
        Values that are not finite, or beyond 1e300, are left out.

    Returns
    -------
    str
        An SVG element. Axes have the colour of the surrounding text, for dark themes.
    """
    shown: list[Line] = []
    for name, colour, x, y in lines:
        keep = np.isfinite(x) & (np.abs(y) <= _MAX)
        if keep.any():
            shown.append((name, colour, *_thin(x[keep], y[keep])))
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {_HEIGHT}" '
        f'width="{_WIDTH}" height="{_HEIGHT}" role="img" font-family="sans-serif" '
        f'font-size="12" fill="currentColor"><title>{html.escape(title)}</title>',
        f'<text x="{_LEFT}" y="18" font-weight="bold">{html.escape(title)}</text>',
    ]
    if not shown:
        parts.append(f'<text x="{_LEFT}" y="{_HEIGHT // 2}">no steps recorded</text></svg>')
        return "".join(parts)
    x_low, x_high = (f([f(x) for _, _, x, _ in shown]) for f in (np.min, np.max))
    y_low, y_high = (f([f(y) for _, _, _, y in shown]) for f in (np.min, np.max))
    if x_high == x_low:
        x_low, x_high = x_low - 1, x_high + 1
    margin = 0.05 * (y_high - y_low) or 0.05 * abs(y_high) or 1.0
    y_low, y_high = y_low - margin, y_high + margin
    bottom, right = _HEIGHT - _BOTTOM, _WIDTH - _RIGHT

    def at_x(value: float) -> float:
        return float(_LEFT + (value - x_low) / (x_high - x_low) * (right - _LEFT))

    def at_y(value: float) -> float:
        return float(bottom - (value - y_low) / (y_high - y_low) * (bottom - _TOP))

    for value in _ticks(y_low, y_high):
        y_at = at_y(value)
        parts.append(
            f'<path d="M{_LEFT} {y_at:.1f}H{right}" stroke="currentColor" opacity="0.15"/>'
            f'<text x="{_LEFT - 6}" y="{y_at + 4:.1f}" text-anchor="end">{value:.4g}</text>'
        )
    for value in _ticks(x_low, x_high):
        parts.append(
            f'<text x="{at_x(value):.1f}" y="{bottom + 16}" text-anchor="middle">{value:.6g}</text>'
        )
    parts.append(
        f'<path d="M{_LEFT} {_TOP}V{bottom}H{right}" fill="none" stroke="currentColor"/>'
        f'<text x="{(_LEFT + right) / 2:.0f}" y="{_HEIGHT - 8}" text-anchor="middle">'
        f"{html.escape(x_label)}</text>"
    )
    for i, (name, colour, x, y) in enumerate(shown):
        points = " ".join(f"{at_x(a):.1f},{at_y(b):.1f}" for a, b in zip(x, y))
        if len(x) == 1:
            shape = f'<circle cx="{at_x(x[0]):.1f}" cy="{at_y(y[0]):.1f}" r="3" fill="{colour}"/>'
        else:
            shape = f'<polyline points="{points}" fill="none" stroke="{colour}"/>'
        legend = right - 130 * (len(shown) - i) + 20
        parts.append(
            f'{shape}<path d="M{legend} 14h18" stroke="{colour}" stroke-width="2"/>'
            f'<text x="{legend + 24}" y="18">{html.escape(name)}</text>'
        )
    return "".join(parts) + "</svg>"
