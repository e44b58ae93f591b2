"""Methods of :class:`qring.Circuit` that add a gate.

Gates are named as in the job file (lib/circuit/gate_rows.h, composite_gates.c). Angles are in
radians and come first, qubits last; exponents are in half-turns. Every method returns the circuit.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Iterable, Sequence, Union

from .expression import Expression, Input, real

if TYPE_CHECKING:
    from typing_extensions import Self

Angle = Union[float, str, Expression]
"""A number, an expression, or its text: ``0.5``, ``2 * Parameter("w0")``, ``"2*w0"``."""
Qubit = Union[int, str]
"""A number from 0, or inside a repeat with an index also an index expression: ``"(i+1)%n"``."""


def _exponent(value: Angle) -> dict[str, Angle]:
    is_one = not isinstance(value, (str, Expression)) and value == 1
    return {} if is_one else {"exponent": value}


def _listed(value: Any) -> list[Any]:
    """Return the elements of a sequence, or one value, such as NumPy's, in a list."""
    one = isinstance(value, (str, bytes)) or not hasattr(value, "__iter__")
    return [value] if one or not getattr(value, "shape", True) else list(value)


def _matrix_json(matrix: Any) -> list[list[list[float]]]:
    """Return rows of complex numbers, or of pairs of their parts, as in a job file."""
    rows = matrix.tolist() if hasattr(matrix, "tolist") else matrix
    try:
        entries = [
            [complex(*v) if isinstance(v, (list, tuple)) else complex(v) for v in row]
            for row in rows
        ]
    except (TypeError, ValueError) as error:
        raise TypeError(
            f"cannot use the matrix: {error}; give rows of complex numbers, or of [re, im]"
        ) from None
    what = "an entry of the matrix"
    return [[[real(v.real, what), real(v.imag, what)] for v in row] for row in entries]


class GateMethods:
    """One method for each gate."""

    def _add(
        self,
        gate: str,
        qubits: Sequence[Qubit],
        angles: dict[str, Angle] | None = None,
        others: dict[str, object] | None = None,
    ) -> Self:
        raise NotImplementedError

    # ---- one qubit ----

    def i(self, qubit: Qubit) -> Self:
        """Add the identity."""
        return self._add("I", [qubit])

    identity = i

    def x(self, qubit: Qubit, exponent: Angle = 1) -> Self:
        """Add a power of Pauli X, with eigenvalues 1 and e^(i pi exponent)."""
        return self._add("X", [qubit], _exponent(exponent))

    def y(self, qubit: Qubit, exponent: Angle = 1) -> Self:
        """Add a power of Pauli Y, with eigenvalues 1 and e^(i pi exponent)."""
        return self._add("Y", [qubit], _exponent(exponent))

    def z(self, qubit: Qubit, exponent: Angle = 1) -> Self:
        """Add a power of Pauli Z, with eigenvalues 1 and e^(i pi exponent)."""
        return self._add("Z", [qubit], _exponent(exponent))

    def h(self, qubit: Qubit, exponent: Angle = 1) -> Self:
        """Add a power of Hadamard, with eigenvalues 1 and e^(i pi exponent)."""
        return self._add("H", [qubit], _exponent(exponent))

    def s(self, qubit: Qubit) -> Self:
        """Add diag(1, i)."""
        return self._add("S", [qubit])

    def sdg(self, qubit: Qubit) -> Self:
        """Add diag(1, -i)."""
        return self._add("Sdg", [qubit])

    def t(self, qubit: Qubit) -> Self:
        """Add diag(1, e^(i pi/4))."""
        return self._add("T", [qubit])

    def tdg(self, qubit: Qubit) -> Self:
        """Add diag(1, e^(-i pi/4))."""
        return self._add("Tdg", [qubit])

    def sx(self, qubit: Qubit) -> Self:
        """Add the square root of X."""
        return self._add("SX", [qubit])

    def sxdg(self, qubit: Qubit) -> Self:
        """Add the inverse of the square root of X."""
        return self._add("SXdg", [qubit])

    def rx(self, angle: Angle, qubit: Qubit) -> Self:
        """Add e^(-i angle/2 X)."""
        return self._add("RX", [qubit], {"angle": angle})

    def ry(self, angle: Angle, qubit: Qubit) -> Self:
        """Add e^(-i angle/2 Y)."""
        return self._add("RY", [qubit], {"angle": angle})

    def rz(self, angle: Angle, qubit: Qubit) -> Self:
        """Add e^(-i angle/2 Z)."""
        return self._add("RZ", [qubit], {"angle": angle})

    def p(self, angle: Angle, qubit: Qubit) -> Self:
        """Add diag(1, e^(i angle))."""
        return self._add("P", [qubit], {"angle": angle})

    phase = p
    u1 = p

    def u2(self, phi: Angle, lam: Angle, qubit: Qubit) -> Self:
        """Add U(pi/2, phi, lam)."""
        return self._add("U2", [qubit], {"phi": phi, "lambda": lam})

    def u(self, theta: Angle, phi: Angle, lam: Angle, qubit: Qubit) -> Self:
        """Add [[cos, -e^(i lam) sin], [e^(i phi) sin, e^(i (phi + lam)) cos]] of theta/2."""
        return self._add("U", [qubit], {"theta": theta, "phi": phi, "lambda": lam})

    u3 = u

    def r(self, theta: Angle, phi: Angle, qubit: Qubit) -> Self:
        """Add e^(-i theta/2 (cos(phi) X + sin(phi) Y))."""
        return self._add("R", [qubit], {"theta": theta, "phi": phi})

    def rot(self, phi: Angle, theta: Angle, omega: Angle, qubit: Qubit) -> Self:
        """Add RZ(omega) RY(theta) RZ(phi), as in PennyLane."""
        return self._add("Rot", [qubit], {"phi": phi, "theta": theta, "omega": omega})

    def phased_x(self, phase_exponent: Angle, exponent: Angle, qubit: Qubit) -> Self:
        """Add Z^p X^exponent Z^-p with p = phase_exponent."""
        angles = {"phase_exponent": phase_exponent, "exponent": exponent}
        return self._add("PhasedX", [qubit], angles)

    # ---- a control and its target ----

    def cnot(self, control: Qubit, target: Qubit, exponent: Angle = 1) -> Self:
        """Add a controlled power of X."""
        return self._add("CNOT", [control, target], _exponent(exponent))

    cx = cnot

    def cz(self, control: Qubit, target: Qubit, exponent: Angle = 1) -> Self:
        """Add a controlled power of Z."""
        return self._add("CZ", [control, target], _exponent(exponent))

    def cy(self, control: Qubit, target: Qubit) -> Self:
        """Add controlled Y."""
        return self._add("CY", [control, target])

    def ch(self, control: Qubit, target: Qubit) -> Self:
        """Add a controlled Hadamard."""
        return self._add("CH", [control, target])

    def cs(self, control: Qubit, target: Qubit) -> Self:
        """Add a controlled S."""
        return self._add("CS", [control, target])

    def csdg(self, control: Qubit, target: Qubit) -> Self:
        """Add a controlled inverse of S."""
        return self._add("CSdg", [control, target])

    def csx(self, control: Qubit, target: Qubit) -> Self:
        """Add a controlled square root of X."""
        return self._add("CSX", [control, target])

    def cp(self, angle: Angle, control: Qubit, target: Qubit) -> Self:
        """Add diag(1, 1, 1, e^(i angle))."""
        return self._add("CP", [control, target], {"angle": angle})

    cphase = cp
    cu1 = cp

    def crx(self, angle: Angle, control: Qubit, target: Qubit) -> Self:
        """Add a controlled RX."""
        return self._add("CRX", [control, target], {"angle": angle})

    def cry(self, angle: Angle, control: Qubit, target: Qubit) -> Self:
        """Add a controlled RY."""
        return self._add("CRY", [control, target], {"angle": angle})

    def crz(self, angle: Angle, control: Qubit, target: Qubit) -> Self:
        """Add a controlled RZ."""
        return self._add("CRZ", [control, target], {"angle": angle})

    def crot(self, phi: Angle, theta: Angle, omega: Angle, control: Qubit, target: Qubit) -> Self:
        """Add a controlled Rot."""
        return self._add("CRot", [control, target], {"phi": phi, "theta": theta, "omega": omega})

    def cu3(self, theta: Angle, phi: Angle, lam: Angle, control: Qubit, target: Qubit) -> Self:
        """Add a controlled U."""
        return self._add("CU3", [control, target], {"theta": theta, "phi": phi, "lambda": lam})

    def cu(
        self, theta: Angle, phi: Angle, lam: Angle, gamma: Angle, control: Qubit, target: Qubit
    ) -> Self:
        """Add a controlled e^(i gamma) U."""
        angles = {"theta": theta, "phi": phi, "lambda": lam, "gamma": gamma}
        return self._add("CU", [control, target], angles)

    # ---- two qubits ----

    def swap(self, a: Qubit, b: Qubit, exponent: Angle = 1) -> Self:
        """Add a power of SWAP."""
        return self._add("SWAP", [a, b], _exponent(exponent))

    def iswap(self, a: Qubit, b: Qubit, exponent: Angle = 1) -> Self:
        """Add a power of iSWAP."""
        return self._add("ISWAP", [a, b], _exponent(exponent))

    def siswap(self, a: Qubit, b: Qubit) -> Self:
        """Add the square root of iSWAP."""
        return self._add("SISWAP", [a, b])

    sqisw = siswap

    def dcx(self, a: Qubit, b: Qubit) -> Self:
        """Add CNOT(a, b), then CNOT(b, a)."""
        return self._add("DCX", [a, b])

    def ecr(self, a: Qubit, b: Qubit) -> Self:
        """Add the echoed cross-resonance gate."""
        return self._add("ECR", [a, b])

    def xx(self, a: Qubit, b: Qubit, exponent: Angle = 1) -> Self:
        """Add a power of XX."""
        return self._add("XX", [a, b], _exponent(exponent))

    def yy(self, a: Qubit, b: Qubit, exponent: Angle = 1) -> Self:
        """Add a power of YY."""
        return self._add("YY", [a, b], _exponent(exponent))

    def zz(self, a: Qubit, b: Qubit, exponent: Angle = 1) -> Self:
        """Add a power of ZZ."""
        return self._add("ZZ", [a, b], _exponent(exponent))

    def rxx(self, angle: Angle, a: Qubit, b: Qubit) -> Self:
        """Add e^(-i angle/2 XX)."""
        return self._add("RXX", [a, b], {"angle": angle})

    isingxx = rxx

    def ryy(self, angle: Angle, a: Qubit, b: Qubit) -> Self:
        """Add e^(-i angle/2 YY)."""
        return self._add("RYY", [a, b], {"angle": angle})

    isingyy = ryy

    def rzz(self, angle: Angle, a: Qubit, b: Qubit) -> Self:
        """Add e^(-i angle/2 ZZ)."""
        return self._add("RZZ", [a, b], {"angle": angle})

    isingzz = rzz

    def rzx(self, angle: Angle, a: Qubit, b: Qubit) -> Self:
        """Add e^(-i angle/2 ZX)."""
        return self._add("RZX", [a, b], {"angle": angle})

    def isingxy(self, angle: Angle, a: Qubit, b: Qubit) -> Self:
        """Add e^(i angle/4 (XX + YY))."""
        return self._add("IsingXY", [a, b], {"angle": angle})

    def pswap(self, angle: Angle, a: Qubit, b: Qubit) -> Self:
        """Add SWAP with the phase e^(i angle) on 01 and 10."""
        return self._add("PSWAP", [a, b], {"angle": angle})

    def phased_iswap(self, phase_exponent: Angle, exponent: Angle, a: Qubit, b: Qubit) -> Self:
        """Add Cirq's PhasedISwapPowGate."""
        angles = {"phase_exponent": phase_exponent, "exponent": exponent}
        return self._add("PhasedISwap", [a, b], angles)

    def fsim(self, theta: Angle, phi: Angle, a: Qubit, b: Qubit) -> Self:
        """Add Cirq's FSimGate."""
        return self._add("FSIM", [a, b], {"theta": theta, "phi": phi})

    def single_excitation(self, angle: Angle, a: Qubit, b: Qubit) -> Self:
        """Rotate 01 and 10 into each other by angle/2."""
        return self._add("SingleExcitation", [a, b], {"angle": angle})

    def givens(self, angle: Angle, a: Qubit, b: Qubit) -> Self:
        """Rotate 01 and 10 into each other by the angle."""
        return self._add("Givens", [a, b], {"angle": angle})

    # ---- more qubits ----

    def ccx(self, control1: Qubit, control2: Qubit, target: Qubit) -> Self:
        """Add X with two controls."""
        return self._add("CCX", [control1, control2, target])

    toffoli = ccx
    ccnot = ccx

    def ccz(self, a: Qubit, b: Qubit, c: Qubit) -> Self:
        """Add Z with two controls."""
        return self._add("CCZ", [a, b, c])

    def cswap(self, control: Qubit, a: Qubit, b: Qubit) -> Self:
        """Add a controlled SWAP."""
        return self._add("CSWAP", [control, a, b])

    fredkin = cswap

    def double_excitation(self, angle: Angle, a: Qubit, b: Qubit, c: Qubit, d: Qubit) -> Self:
        """Rotate 0011 and 1100 into each other by angle/2."""
        return self._add("DoubleExcitation", [a, b, c, d], {"angle": angle})

    def mcx(self, controls: Iterable[Qubit], target: Qubit) -> Self:
        """Add X with any number of controls."""
        return self._add("MCX", [*controls, target])

    def mcp(self, angle: Angle, controls: Iterable[Qubit], target: Qubit) -> Self:
        """Add diag(1, e^(i angle)) with any number of controls."""
        return self._add("MCP", [*controls, target], {"angle": angle})

    def multi_rz(self, angle: Angle, qubits: Iterable[Qubit]) -> Self:
        """Add e^(-i angle/2 Z...Z)."""
        return self._add("MultiRZ", list(qubits), {"angle": angle})

    def pauli_rot(self, angle: Angle, word: str, qubits: Iterable[Qubit]) -> Self:
        """Add e^(-i angle/2 P), where P has a letter I, X, Y or Z for each qubit."""
        return self._add("PauliRot", list(qubits), {"angle": angle}, {"pauli_word": word})

    def ms(self, angle: Angle, qubits: Iterable[Qubit]) -> Self:
        """Add e^(-i angle/2 XX) on each pair of qubits."""
        return self._add("MS", list(qubits), {"angle": angle})

    def unitary(self, matrix: Any, qubits: Qubit | Iterable[Qubit]) -> Self:
        """Add a matrix on one to six qubits.

        Parameters
        ----------
        matrix : array_like, complex, (2^n, 2^n)
            Unitary within 1e-6. The first qubit is the most significant.
        qubits : int or sequence of int
            The qubits that the matrix acts on.
        """
        return self._add("Unitary", _listed(qubits), others={"matrix": _matrix_json(matrix)})

    def basis(self, state: str | Iterable[int] | Input, qubits: Iterable[Qubit]) -> Self:
        """Flip the qubits whose digit is 1.

        Parameters
        ----------
        state : str, sequence of int, or Input
            ``"0101"``, ``[0, 1, 0, 1]``, or the numbered input of the first qubit; the inputs
            of the other qubits follow it.
        qubits : sequence of int
            One for each digit.
        """
        found: object
        if isinstance(state, Input):
            if state.column is None:
                raise ValueError(
                    f"cannot use {state!r} as a state: a state needs consecutive columns; give "
                    "the number of the first: Input(0)"
                )
            found = {"data": state.column}
        elif isinstance(state, str):
            found = state
        else:
            digits = list(state)
            if not all(d in (0, 1) for d in digits):
                raise ValueError(f"cannot use {digits!r} as a state: give 0 or 1 for each qubit")
            found = "".join("1" if d else "0" for d in digits)
        return self._add("Basis", list(qubits), others={"state": found})
