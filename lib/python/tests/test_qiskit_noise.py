"""Noise models in the form of Qiskit Aer's ``NoiseModel.to_dict(serializable=True)``."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import qring

PAULIS = {
    "I": np.eye(2),
    "X": np.array([[0, 1], [1, 0]]),
    "Y": np.array([[0, -1j], [1j, 0]]),
    "Z": np.diag([1, -1]),
}
TOLERANCE = 1e-13


def error(gate: str, branches: list[Any], probabilities: list[float]) -> dict[str, Any]:
    """Return a quantum error; a branch is a list of (name, qubits) or (name, qubits, params)."""
    rows = [
        [{"name": i[0], "qubits": i[1], **({"params": i[2]} if len(i) > 2 else {})} for i in branch]
        for branch in branches
    ]
    return {
        "type": "qerror",
        "id": "0f",
        "operations": [gate],
        "instructions": rows,
        "probabilities": probabilities,
    }


def noise_of(*errors: dict[str, Any]) -> dict[str, Any]:
    """Return the noise of a model with these errors."""
    return qring.noise_from_qiskit({"errors": list(errors)})


def pairs(matrix: Any) -> list[Any]:
    """Return a matrix as Aer's encoder writes it."""
    return [[[v.real, v.imag] for v in row] for row in np.asarray(matrix, complex).tolist()]


def on(letters: str) -> Any:
    """Return the Pauli product, qubit 0 the most significant."""
    ret = np.eye(1)
    for letter in letters:
        ret = np.kron(ret, PAULIS[letter])
    return ret


def values(noise: dict[str, Any], gates: list[dict[str, Any]], texts: list[str]) -> Any:
    """Return expectation values of a circuit on two qubits with the noise."""
    circuit = qring.Circuit.from_json({"qubits": 2, "gates": gates}).noise(**noise)
    return qring.expval(circuit, texts).forward([])


def test_paulis() -> None:
    """Branches of Paulis are multiplied; the letters of a Pauli are from the last qubit."""
    noise = noise_of(
        error("x", [[("id", [0])], [("x", [0])], [("x", [0]), ("z", [0])]], [0.7, 0.2, 0.1]),
        error(
            "cx",
            [
                [("pauli", [0, 1], ["II"])],
                [("pauli", [0, 1], ["XZ"])],
                [("y", [1])],
                [("x", [0]), ("x", [0])],
            ],
            [0.5, 0.25, 0.125, 0.125],
        ),
    )
    one, two = noise["after"]["X"][0], noise["after"]["CX"][0]
    assert one == {"channel": "PauliChannel", "qubits": 1, "p_x": 0.2, "p_y": 0.1, "p_z": 0}
    assert two["channel"] == "PauliChannel"
    assert two["qubits"] == 2
    assert {k: v for k, v in two.items() if k[:2] == "p_" and v} == {"p_zx": 0.25, "p_iy": 0.125}
    # RX has no error in Qiskit's model.
    assert noise["after"]["RX"] == noise["after"]["CRX"] == []
    got = values(
        noise,
        [{"gate": "X", "qubits": [1]}, {"gate": "RX", "qubits": [0], "angle": 0.3}],
        ["Z0", "Z1"],
    )
    assert got == pytest.approx([np.cos(0.3), -(1 - 2 * 0.3)], abs=TOLERANCE)


def test_operators() -> None:
    """Resets, Kraus operators and unitaries, on the qubits that Qiskit means."""
    damping = [[[1, 0], [0, np.sqrt(0.75)]], [[0, 0.5], [0, 0]]]
    u = np.kron(np.diag([1, 1j]), PAULIS["X"])  # S on the last qubit, X on the first
    noise = noise_of(
        error("h", [[("kraus", [0], [pairs(m) for m in damping])]], [1]),
        error(
            "sx", [[("id", [0])], [("reset", [0])], [("reset", [0]), ("x", [0])]], [0.5, 0.3, 0.2]
        ),
        error(
            "cx", [[("unitary", [0, 1], [pairs(u)])], [("h", [1]), ("cx", [1, 0])]], [0.25, 0.75]
        ),
    )
    kraus = noise["after"]["H"][0]
    assert kraus["channel"] == "Kraus"
    assert kraus["operators"] == [pairs(m) for m in damping]
    operators = [
        np.array(m)[..., 0] + 1j * np.array(m)[..., 1] for m in noise["after"]["CX"][0]["operators"]
    ]
    cnot = np.eye(4)[[0, 3, 2, 1]]  # qubit 1 controls qubit 0, the most significant
    h = (PAULIS["X"] + PAULIS["Z"]) / np.sqrt(2)
    wanted = [
        0.5 * np.kron(PAULIS["X"], np.diag([1, 1j])),
        np.sqrt(0.75) * cnot @ np.kron(np.eye(2), h),
    ]
    for found, m in zip(operators, wanted):
        assert found == pytest.approx(m, abs=TOLERANCE)
    got = values(noise, [{"gate": "X", "qubits": [0]}], ["Z0"])
    assert got == pytest.approx([0.5 * -1 + 0.3 - 0.2], abs=TOLERANCE)
    assert values(noise, [{"gate": "H", "qubits": [0]}], ["X0"]) == pytest.approx(
        [np.sqrt(0.75)], abs=TOLERANCE
    )
    cx = [{"gate": "RY", "qubits": [0], "angle": 0.4}, {"gate": "CNOT", "qubits": [0, 1]}]
    state = np.array([np.cos(0.2), 0, 0, np.sin(0.2)])
    rho = sum(m @ np.outer(state, state) @ m.conj().T for m in wanted)
    names = ["Z0", "Z1", "X0 X1", "Y0 X1", "Z0 Y1"]
    letters = ["ZI", "IZ", "XX", "YX", "ZY"]
    exact = [np.trace(rho @ on(name)).real for name in letters]
    assert values(noise, cx, names) == pytest.approx(exact, abs=TOLERANCE)


def test_many_operators() -> None:
    """More than 16 products are reduced to as many as the channel needs."""
    once = [("kraus", [0], [pairs(0.75**0.5 * PAULIS["I"]), pairs(0.5 * PAULIS["X"])])]
    noise = noise_of(error("x", [once * 5], [1]))
    operators = noise["after"]["X"][0]["operators"]
    assert len(operators) == 2
    got = values(noise, [{"gate": "X", "qubits": [0]}], ["Z0"])
    assert got == pytest.approx([-(0.5**5)], abs=TOLERANCE)


def test_native_names() -> None:
    """Each name is one that the library gives to the gate."""
    flip = [[("id", [0])], [("x", [0]), ("x", [1])]]
    h = [{"gate": "H", "qubits": [q]} for q in (0, 1)]
    for gate in ("csx", "cs", "csdg", "iswap", "rxx", "ryy", "rzz"):
        noise = noise_of(error(gate, flip, [0.6, 0.4]))
        angle = {"angle": 0.3} if gate[0] == "r" else {}
        item = {"gate": gate.upper(), "qubits": [0, 1], **angle}
        # Both flipped: X0 X1 commutes, Z0 X1 does not.
        exact = values({}, [*h, item], ["X0 X1", "Z0"])
        exact[1] *= 0.2
        assert values(noise, [*h, item], ["X0 X1", "Z0"]) == pytest.approx(exact, abs=TOLERANCE)


def test_readout() -> None:
    """Probabilities of Aer are rows of what was, columns of what is read."""
    every = {
        "type": "roerror",
        "operations": ["measure"],
        "probabilities": [[0.9, 0.1], [0.3, 0.7]],
    }
    assert noise_of(every) == {"readout": {"p_01": 0.1, "p_10": 0.3}}
    some = {**every, "gate_qubits": [[1]]}
    noise = noise_of(some)
    assert noise == {"readout": [{"p_01": 0.1, "p_10": 0.3, "qubits": [1]}]}
    got = values(noise, [{"gate": "X", "qubits": [0]}], ["Z0", "Z1"])
    assert got == pytest.approx([-1, 0.8], abs=TOLERANCE)
    for errors in ((every, some), (some, every), (every, every)):
        with pytest.raises(ValueError, match="of all qubits and of some"):
            noise_of(*errors)
    four = [[1, 0, 0, 0]] * 4
    with pytest.raises(ValueError, match="on several qubits"):
        noise_of({**every, "probabilities": four})


def test_shared_gates() -> None:
    """Powers of one gate need equal errors."""
    flip, other = [[("id", [0])], [("x", [0])]], [[("id", [0])], [("z", [0])]]
    noise = noise_of(error("x", flip, [0.9, 0.1]), error("sx", flip, [0.9, 0.1]))
    assert len(noise["after"]["X"]) == 1
    with pytest.raises(ValueError, match="errors of x and sx: both are powers of X"):
        noise_of(error("x", flip, [0.9, 0.1]), error("sx", other, [0.9, 0.1]))


@pytest.mark.parametrize(
    ("broken", "words"),
    [
        ({"operations": ["u3"]}, "error of u3: it is not a native gate"),
        ({"gate_qubits": [[0]]}, r"error of x on qubits \[\[0\]\]: noise after a gate is the same"),
        ({"type": "other"}, "type 'other'"),
        ({"instructions": [[{"name": "x", "qubits": [1]}]]}, "on more than 1 qubits"),
        ({"instructions": [[{"name": "foo", "qubits": [0]}]]}, "its instruction 'foo' is unknown"),
    ],
)
def test_refusals(broken: dict[str, Any], words: str) -> None:
    """What cannot be mapped raises ValueError with the reason."""
    with pytest.raises(ValueError, match=words):
        noise_of({**error("x", [[("x", [0])]], [1]), **broken})
