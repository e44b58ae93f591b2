"""The PennyLane device and from_qnode, beside default.qubit."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest

qml = pytest.importorskip("pennylane")

from pennylane import numpy as pnp  # noqa: E402
from pennylane.exceptions import DeviceError  # noqa: E402

import qring  # noqa: E402
from qring._pl_gates import GATES  # noqa: E402
from qring.pennylane import QringDevice, from_qnode  # noqa: E402

WITHIN = 1e-10
N = 5


def _gate(name, wires, angles):
    if name.startswith("Adjoint("):
        return qml.adjoint(getattr(qml, name[8:-1])(wires=wires[0]))
    operator = getattr(qml, name)
    n = operator.num_wires
    wires = wires[0] if n == 1 else wires[: n or 3]
    return operator(*angles[: len(GATES[name][1])], wires=wires)


def _random_unitary(n, rng):
    a = rng.normal(size=(2**n, 2**n)) + 1j * rng.normal(size=(2**n, 2**n))
    return np.linalg.qr(a)[0]


def _prepare(rng):
    for i in range(N):
        qml.RY(rng.uniform(0.2, 2.9), i)
        qml.RZ(rng.uniform(0.2, 2.9), i)
    for i in range(N - 1):
        qml.CNOT([i, i + 1])


def _compare(circuit, args, trainable, interface="autograd"):
    """Compares values and gradients; circuit(*args) applies gates and returns measurements."""
    costs = []
    for dev in (QringDevice(wires=N), qml.device("default.qubit", wires=N)):
        diff = "adjoint" if dev.name == "qring" else "backprop"
        node = qml.QNode(circuit, dev, diff_method=diff)
        values = node(*args)
        values = values if isinstance(values, tuple) else (values,)

        def cost(*a, node=node):
            r = node(*a)
            r = r if isinstance(r, tuple) else (r,)
            return sum(pnp.sum(pnp.sin(v + 0.3 * i)) for i, v in enumerate(r))

        gradient = qml.grad(cost, argnums=trainable)(*args)
        costs.append((values, gradient))
    (a, da), (b, db) = costs
    for x, y in zip(a, b, strict=True):
        assert np.shape(x) == np.shape(y)
        np.testing.assert_allclose(x, y, rtol=0, atol=WITHIN)
    for x, y in zip(da, db, strict=True) if isinstance(da, tuple) else [(da, db)]:
        assert np.shape(x) == np.shape(y)
        np.testing.assert_allclose(x, y, rtol=0, atol=WITHIN)


@pytest.mark.parametrize("name", sorted(GATES))
@pytest.mark.parametrize("controls", [0, 1])
def test_gate(name, controls):
    rng = np.random.default_rng(1)

    def circuit(angles):
        _prepare(np.random.default_rng(2))
        if controls:
            qml.ctrl(_gate(name, [3, 1, 0, 2], angles), control=4, control_values=[0])
        else:
            _gate(name, [3, 1, 4, 0], angles)
        return (
            qml.expval(qml.Z(1) @ qml.Y(3)),
            qml.expval(0.3 * qml.X(0) - 1.2 * qml.Y(1) @ qml.X(4) + 0.5 * qml.I(0)),
        )

    _compare(circuit, (pnp.array(rng.uniform(-3, 3, 3)),), [0])


@pytest.mark.parametrize("name", sorted(GATES))
def test_gate_state(name):
    """Amplitudes, with the global phase."""
    angles = np.random.default_rng(3).uniform(-3, 3, 3)
    states = []
    for dev in (QringDevice(wires=N), qml.device("default.qubit", wires=N)):

        @qml.qnode(dev)
        def circuit():
            _prepare(np.random.default_rng(2))
            _gate(name, [3, 1, 4, 0], angles)
            return qml.state()

        states.append(circuit())
    np.testing.assert_allclose(*states, rtol=0, atol=WITHIN)


@pytest.mark.parametrize("n", [1, 2, 3])
def test_matrices_words_phases(n):
    rng = np.random.default_rng(n)
    u = _random_unitary(n, rng)

    def gates(w):
        qml.BasisState(np.array([1, 0, 1]), wires=[0, 2, 4])
        _prepare(np.random.default_rng(2))
        qml.QubitUnitary(u, wires=range(n))
        qml.ctrl(qml.QubitUnitary(u, wires=range(n)), control=[3, 4], control_values=[1, 0])
        qml.PauliRot(w[0], "XIZY", wires=[0, 4, 2, 3])
        qml.ctrl(qml.PauliRot(w[1], "YX", wires=[0, 1]), control=4)
        qml.GlobalPhase(w[2])
        qml.ctrl(qml.GlobalPhase(w[1]), control=[1, 2], control_values=[1, 0])
        qml.MultiControlledX(wires=[0, 1, 2, 3], control_values=[1, 0, 1])
        qml.MultiRZ(w[2], wires=[0, 2, 3])

    def circuit(w):
        gates(w)
        return qml.expval(qml.Z(0)), qml.var(qml.X(1) @ qml.Y(3)), qml.probs([1, 3])

    w = pnp.array([0.3, 0.7, -1.1])
    _compare(circuit, (w,), [0])
    states = []
    for dev in (QringDevice(wires=N), qml.device("default.qubit", wires=N)):
        node = qml.QNode(lambda: (gates(w), qml.state())[1], dev)
        states.append(node())
    np.testing.assert_allclose(*states, rtol=0, atol=WITHIN)


ANGLES = np.array([0.1, 0.5, 0.7])


@pytest.mark.parametrize(
    "gate",
    [
        lambda: qml.pow(qml.X(0), 0.25),
        lambda: qml.ctrl(qml.pow(qml.X(0), 0.25), [1, 3], [0, 1]),
        lambda: qml.adjoint(qml.pow(qml.CNOT([2, 0]), 0.25)),
        lambda: qml.DoubleExcitationPlus(0.3, [3, 0, 2, 1]),
        lambda: qml.ctrl(qml.DoubleExcitationMinus(ANGLES, [3, 0, 2, 1]), 4),
        lambda: qml.BlockEncode(np.array([[0.1, 0.2], [0.3, 0.4]]), [1, 0]),
        lambda: qml.FermionicSWAP(ANGLES, [0, 1]),
        lambda: qml.ctrl(qml.FermionicSWAP(ANGLES, [0, 1]), 4),
    ],
)
def test_gates_with_a_matrix_only(gate):
    """And FermionicSWAP, whose decomposition takes no batch."""

    def gates(w):
        _prepare(np.random.default_rng(2))
        qml.RX(w, 0)
        gate()

    def circuit(w):
        gates(w)
        return qml.expval(qml.Z(0) @ qml.X(2)), qml.probs([1, 4])

    _compare(circuit, (pnp.array(0.4),), [0])
    states = []
    for dev in (QringDevice(wires=N), qml.device("default.qubit", wires=N)):
        states.append(qml.QNode(lambda: (gates(0.4), qml.state())[1], dev)())
    np.testing.assert_allclose(*states, rtol=0, atol=WITHIN)


def test_matrices_are_not_differentiated():
    def circuit(w):
        qml.H(0)
        qml.DoubleExcitationPlus(w, range(4))
        return qml.expval(qml.X(0))

    with pytest.raises(DeviceError, match="not supported"):
        qml.grad(qml.QNode(circuit, QringDevice(wires=4)))(pnp.array(0.7))
    with pytest.raises(ValueError, match="depend on the values"):
        from_qnode(_qnode(circuit))


def test_marked_gates():
    """Markers of qml.fourier.mark, also below a control, have no effect."""

    def circuit(angles):
        _prepare(np.random.default_rng(2))
        qml.fourier.mark(qml.RX(angles[0], 1), "x")
        qml.ctrl(qml.fourier.mark(qml.RY(angles[1], 2), "y"), control=[0, 3])
        return qml.expval(qml.Z(1) @ qml.Y(2))

    _compare(circuit, (pnp.array([0.4, 1.3]),), [0])


@pytest.mark.parametrize("seed", range(4))
def test_random_circuit(seed):
    def circuit(w, x):
        rng = np.random.default_rng(seed)
        names = sorted(GATES)
        for i in range(40):
            wires = [int(q) for q in rng.permutation(N)]
            _gate(names[rng.integers(len(names))], wires, [w[i % 7], 2 * x, w[(i + 3) % 7]])
        return qml.expval(qml.Z(0) @ qml.X(2)), qml.expval(qml.Y(4)), qml.probs(wires=[3, 0])

    w = pnp.array(np.random.default_rng(seed).uniform(-3, 3, 7))
    _compare(circuit, (w, pnp.array(0.37)), [0, 1])


OBSERVABLES = [
    lambda: qml.Hadamard(1) @ qml.Z(2),
    lambda: qml.Hermitian(np.array([[1, 2 - 1j], [2 + 1j, -0.5]]), 3) @ qml.X(0),
    lambda: qml.Projector([1, 0, 1], wires=[4, 0, 1]),
    lambda: qml.Projector(np.array([0.6, 0.8j]), wires=[2]),
    lambda: qml.Hamiltonian([0.1, -2.0, 0.7], [qml.Z(0), qml.X(1) @ qml.Y(2), qml.I(0)]),
    lambda: 2.0 * (qml.X(0) + 0.5 * qml.Hadamard(2)),
    lambda: qml.prod(qml.X(0), qml.Y(1)) + qml.s_prod(3.0, qml.Z(3)),
    lambda: qml.I(2),
]


@pytest.mark.parametrize("make", OBSERVABLES)
@pytest.mark.parametrize("measure", ["expval", "var"])
def test_observable(make, measure):
    def circuit(w):
        _prepare(np.random.default_rng(2))
        for i in range(N):
            qml.Rot(w[i], w[i + 1], w[i + 2], wires=i)
        qml.IsingXX(w[0], [0, 3])
        return getattr(qml, measure)(make())

    _compare(circuit, (pnp.array(np.linspace(0.1, 1.0, N + 2)),), [0])


def test_coefficients_are_differentiated():
    def circuit(w, c):
        qml.RY(w, 0)
        qml.CNOT([0, 1])
        h = qml.Hamiltonian(c, [qml.Z(0), qml.X(0) @ qml.X(1), qml.Y(1)])
        return qml.expval(qml.X(1)), qml.expval(h)

    _compare(circuit, (pnp.array(0.4), pnp.array([0.5, -0.2, 0.0])), [0, 1])


def test_coefficients_of_variances_and_squares():
    torch = pytest.importorskip("torch")

    def circuit(w, c):
        qml.RY(w, 0)
        qml.RX(0.7, 1)
        h = qml.Hamiltonian(c, [qml.Z(0), qml.X(0) @ qml.X(1), qml.Y(1)])
        square = qml.pow(c[0] * qml.Z(0) + 0.2 * qml.X(1), 2)
        return qml.var(h), qml.var(c[1] * qml.Z(1)), qml.expval(square)

    def total(dev, w, c):
        a, b, d = qml.QNode(circuit, dev)(w, c)
        return a + 2 * b + 3 * d

    coefficients = np.array([1.3, -0.2, 0.1])
    c = torch.tensor(coefficients, requires_grad=True)
    total(QringDevice(wires=2), torch.tensor(0.4, dtype=torch.float64), c).backward()
    other = qml.device("default.qubit", wires=2)
    for k, found in enumerate(c.grad.tolist()):
        # The total is quadratic in each coefficient, so this difference is its derivative.
        up, down = coefficients + np.eye(3)[k], coefficients - np.eye(3)[k]
        wanted = (total(other, 0.4, up) - total(other, 0.4, down)) / 2
        np.testing.assert_allclose(found, wanted, rtol=0, atol=WITHIN)


def test_power_of_a_coefficient_is_refused():
    @qml.qnode(QringDevice(wires=1))
    def circuit(c):
        return qml.expval(qml.pow(qml.s_prod(c, qml.Z(0)) + 0.5 * qml.I(0), 3))

    with pytest.raises(ValueError, match="cannot differentiate"):
        qml.grad(circuit)(pnp.array(0.3))


@pytest.mark.parametrize("measure", ["expval", "probs"])
def test_broadcasting(measure):
    def circuit(w, x):
        qml.AngleEmbedding(x, wires=range(N))
        qml.StronglyEntanglingLayers(w, wires=range(N))
        qml.RX(x[:, 0] * x[:, 1], 2)
        if measure == "probs":
            return qml.probs(wires=[4, 0]), qml.expval(qml.Z(1))
        return tuple(qml.expval(qml.Z(i)) for i in range(N))

    rng = np.random.default_rng(0)
    w, x = pnp.array(rng.normal(size=(2, N, 3))), pnp.array(rng.normal(size=(7, N)))
    _compare(circuit, (w, x), [0, 1])
    _compare(circuit, (w, x), [0])


@pytest.mark.parametrize("measure", [lambda: qml.expval(qml.Z(0)), lambda: qml.probs(wires=[0, 1])])
def test_broadcast_global_phase(measure):
    def circuit(a):
        qml.GlobalPhase(a)
        qml.RX(0.3, 0)
        return measure()

    _compare(circuit, (pnp.array([0.1, 0.2, 0.3]),), [0])


def test_broadcast_state_preparation():
    def circuit(x, w):
        qml.AmplitudeEmbedding(x, wires=range(2), normalize=True)
        qml.RX(w, 0)
        return qml.expval(qml.Z(0))

    x = np.random.default_rng(0).normal(size=(3, 4))
    values = [
        qml.QNode(circuit, d)(x, 0.3)
        for d in (QringDevice(wires=2), qml.device("default.qubit", wires=2))
    ]
    np.testing.assert_allclose(*values, rtol=0, atol=WITHIN)


def test_broadcast_controlled_matrix():
    def circuit(u):
        qml.RX(0.3, 0)
        qml.ctrl(qml.QubitUnitary(u, [1, 0]), control=2, control_values=0)
        once = qml.ControlledQubitUnitary(u, [2, 0, 1], control_values=[0])
        qml.pow(qml.adjoint(once), 2)
        return qml.expval(qml.Z(0))

    rng = np.random.default_rng(0)
    u = np.stack([_random_unitary(2, rng) for _ in range(3)])
    values = [
        qml.QNode(circuit, d)(u) for d in (QringDevice(wires=3), qml.device("default.qubit"))
    ]
    np.testing.assert_allclose(*values, rtol=0, atol=WITHIN)


def _tape(values, n=2):
    ops = [qml.RX(values[0], 0), qml.RY(values[1], 1), qml.CNOT([0, 1])]
    tape = qml.tape.QuantumScript(ops, [qml.expval(qml.Z(1)), qml.probs(wires=[0])])
    tape.trainable_params = [0, 1]
    return tape


def test_batch_of_tapes_is_one_call(monkeypatch):
    calls = []
    original = qring.Function.value_and_vjp
    monkeypatch.setattr(
        qring.Function,
        "value_and_vjp",
        lambda self, *a, **k: (calls.append(1), original(self, *a, **k))[1],
    )
    dev, rng = QringDevice(wires=2), np.random.default_rng(0)
    tapes = [_tape([float(a), float(b)]) for a, b in rng.normal(size=(20, 2))]
    dy = [(float(a), rng.normal(size=2)) for a in rng.normal(size=20)]
    results, vjps = dev.execute_and_compute_vjp(tapes, dy)
    assert len(calls) == 1
    jacobians = dev.compute_derivatives(tapes)
    reference = qml.device("default.qubit").execute(tapes)
    for r, q, g, j, t in zip(results, reference, vjps, jacobians, dy, strict=True):
        np.testing.assert_allclose(r[0], q[0], atol=WITHIN)
        np.testing.assert_allclose(r[1], q[1], atol=WITHIN)
        for p in range(2):
            expected = t[0] * j[0][p] + t[1] @ j[1][p]
            np.testing.assert_allclose(g[p], expected, atol=WITHIN)


def test_copies():
    dev = QringDevice(wires=2, seed=5)
    node = qml.QNode(lambda w: (qml.RX(w, 0), qml.expval(qml.Z(0)))[1], dev)
    node(0.1)
    copies = [copy.deepcopy(dev), pickle.loads(pickle.dumps(dev))]
    draw = qml.tape.QuantumScript([qml.H(0)], [qml.sample(wires=0)], shots=50)
    bits = dev.execute(draw)
    for other in copies:
        assert other.plan_cache() == {"hits": 0, "misses": 0, "plans": 0}
        assert qml.QNode(node.func, other)(0.1) == node(0.1)
        assert np.array_equal(other.execute(draw), bits)


def test_copy_of_a_torch_layer():
    torch = pytest.importorskip("torch")

    @qml.qnode(QringDevice(wires=2))
    def node(inputs, w):
        qml.AngleEmbedding(inputs, wires=range(2))
        qml.RY(w, 0)
        return qml.expval(qml.Z(0))

    layer, x = qml.qnn.TorchLayer(node, {"w": ()}), torch.rand(4, 2)
    assert torch.equal(copy.deepcopy(layer)(x), layer(x))


def test_plans_are_cached_by_structure():
    dev = QringDevice(wires=2)
    for a in range(5):
        dev.execute(qml.tape.QuantumScript([qml.RX(0.1 * a, 0)], [qml.expval(qml.Z(0))]))
    assert dev.plan_cache() == {"hits": 4, "misses": 1, "plans": 1}
    other = QringDevice(wires=2, plans=2)
    for wire in (0, 1, 0, 1):
        for g in (qml.RX, qml.RY):
            other.execute(qml.tape.QuantumScript([g(0.1, wire)], [qml.expval(qml.Z(0))]))
    assert other.plan_cache()["plans"] == 2


def test_measurements_that_share_a_plan():
    """Equal Pauli words, but other results: the first tape's combination must not be used."""
    z0, z1 = qml.Z(0), qml.Z(1)
    measurements = [
        [qml.var(z0), qml.var(z1)],
        [qml.expval(z0), qml.expval(z1)],
        [qml.expval(z0), qml.expval(z1), qml.expval(z0)],
        [qml.expval(z0), qml.expval(z1), qml.expval(z1)],
        [qml.expval(2.0 * z0), qml.expval(z1)],
        [qml.expval(z0 + 0.5 * qml.I(0)), qml.expval(z1)],
        [qml.expval(z0 + z1)],
    ]
    ops = [qml.RY(0.4, 0), qml.RY(1.1, 1)]
    tapes = [qml.tape.QuantumScript(ops, m) for m in measurements]
    dev, reference = QringDevice(wires=2), qml.device("default.qubit", wires=2)
    for tape in [*tapes, *tapes[::-1]]:
        np.testing.assert_allclose(dev.execute(tape), reference.execute(tape), atol=WITHIN)
    assert len(dev.compute_derivatives(tapes)) == len(tapes)
    for a, b in zip(dev.execute(tapes), reference.execute(tapes), strict=True):
        np.testing.assert_allclose(a, b, atol=WITHIN)


def test_state_measurements():
    values = []
    for dev in (QringDevice(wires=["a", "b", 7]), qml.device("default.qubit", wires=["a", "b", 7])):
        node = qml.QNode(
            lambda: (
                qml.RY(0.4, "b"),
                qml.CNOT(["b", 7]),
                qml.probs(op=qml.Y(7)),
                qml.purity([7]),
                qml.density_matrix(["b"]),
                qml.vn_entropy([7]),
                qml.probs(),
                qml.expval(qml.Z(7)),
            )[2:],
            dev,
        )
        values.append(node())
    for a, b in zip(*values, strict=True):
        np.testing.assert_allclose(a, b, atol=WITHIN)


def test_mid_circuit_measurement():
    values = []
    for dev in (QringDevice(), qml.device("default.qubit")):

        @qml.qnode(dev)
        def circuit(w):
            qml.RY(w, 0)
            m = qml.measure(0)
            qml.cond(m, qml.RX)(2 * w, wires=1)
            return qml.expval(qml.Z(1)), qml.expval(m)

        values.append(circuit(0.4))
    np.testing.assert_allclose(*values, atol=WITHIN)


@pytest.mark.parametrize("measure", [qml.expval, qml.var])
@pytest.mark.parametrize("value", [lambda m, n: m, lambda m, n: n - 2 * m, lambda m, n: m == n])
def test_derivatives_of_outcomes(measure, value):
    def circuit(w):
        qml.RY(w[0], 0)
        m = qml.measure(0)
        qml.cond(m, qml.RX)(w[1], wires=1)
        return measure(value(m, qml.measure(1))), qml.expval(qml.Z(0))

    results = []
    for dev, diff in ((QringDevice(), "adjoint"), (qml.device("default.qubit"), "backprop")):
        node, w = qml.QNode(circuit, dev, diff_method=diff), pnp.array([0.4, 1.1])

        def cost(w, node=node):
            return pnp.stack(node(w))

        results.append((cost(w), qml.jacobian(cost)(w)))
    for a, b in zip(*results, strict=True):
        np.testing.assert_allclose(a, b, rtol=0, atol=WITHIN)


W = np.random.default_rng(1).normal(size=(2, 4, 3))
U16 = _random_unitary(4, np.random.default_rng(2))
BLOCKS = {
    "unitary": (lambda c: c.unitary(U16, range(4)), lambda: qml.QubitUnitary(U16, range(4))),
    "state": (
        lambda c: c.ansatz("amplitude", range(4), state=[[z.real, z.imag] for z in U16[0]]),
        lambda: qml.MottonenStatePreparation(U16[0], range(4)),
    ),
    "layers": (
        lambda c: c.ansatz("strongly-entangling", range(4), layers=2),
        lambda: qml.StronglyEntanglingLayers(W, range(4)),
    ),
    "inputs": (
        lambda c: c.ansatz("iqp", range(4)),
        lambda: qml.IQPEmbedding(W[0, :, 0], range(4)),
    ),
    "gates": (
        lambda c: c.ecr(0, 1).rot(0.1, 0.2, 0.3, 2).pauli_rot(0.7, "XYZ", [3, 1, 0]).iswap(2, 3),
        lambda: (
            qml.ECR([0, 1]),
            qml.Rot(0.1, 0.2, 0.3, 2),
            qml.PauliRot(0.7, "XYZ", [3, 1, 0]),
            qml.ISWAP([2, 3]),
        ),
    ),
}


@pytest.mark.parametrize("name", BLOCKS)
def test_inverse_control_and_power(name):
    """Circuits in blocks have the matrices of qml.adjoint, ctrl and pow."""
    build, gates = BLOCKS[name]
    prepared = qring.Circuit(6)
    for q in range(6):
        prepared.ry(0.3 + q, q).rz(0.8 - q, q)
    before, c = qring.state(prepared), build(qring.Circuit(6))
    on, off = (qml.ctrl(gates, control=[5, 4], control_values=v) for v in ([1, 0], [0, 1]))
    for ours, theirs, phase in (
        (c.adjoint(), qml.adjoint(gates), name in ("unitary", "state")),
        (c.controlled([5, 4], [1, 0]), on, False),
        (c.adjoint().controlled([5, 4], [0, 1]), qml.adjoint(off), False),
        (c.controlled(4).power(2).controlled(5, 0), lambda: (off(), off()), False),
    ):
        f = qring.StateFunction(prepared + ours)
        got = f(W.ravel()[: len(f.parameters)], W[0, :, 0][: len(f.inputs)])
        want = qml.matrix(theirs, wire_order=range(6))() @ before
        if phase:
            got = got * (np.vdot(got, want) / abs(np.vdot(got, want)))
        np.testing.assert_allclose(got, want, rtol=0, atol=WITHIN)


def test_errors():
    dev = QringDevice(wires=2)
    with pytest.raises(DeviceError, match="float"):
        QringDevice(wires=1, dtype="int32")
    with pytest.raises(DeviceError, match="device option"):
        dev.setup_execution_config(qml.devices.ExecutionConfig(device_options={"a": 1}))
    with pytest.raises(qml.exceptions.WireError):
        qml.QNode(lambda: qml.expval(qml.Z(2)), dev)()
    with pytest.raises(qml.exceptions.QuantumFunctionError):
        qml.QNode(lambda: qml.state(), dev, diff_method="adjoint")()
    with pytest.raises(DeviceError):
        qml.QNode(lambda: qml.sample(wires=0), dev)()


def test_float32():
    dev = QringDevice(wires=2, dtype="float32")
    tape = qml.tape.QuantumScript([qml.RX(0.3, 0)], [qml.expval(qml.Z(0))])
    assert abs(dev.execute(tape) - np.cos(0.3)) < 1e-6


# ---- from_qnode ----


def _qnode(function):
    return qml.QNode(function, qml.device("default.qubit"))


def test_from_qnode():
    def model(inputs, w, a):
        qml.AngleEmbedding(inputs, wires=range(3), rotation="Y")
        qml.StronglyEntanglingLayers(w, wires=range(3))
        qml.RX(2 * a + np.sin(a) * inputs[0] - 1 / (1 + a**2), 0)
        qml.RY(np.arccos(inputs[1]), 1)
        qml.adjoint(qml.CPhaseShift00)(np.pi * a, [0, 1])
        return qml.expval(qml.Z(0) @ qml.X(1)), qml.expval(0.5 * qml.Y(2) - 2.0 * qml.I(0))

    rng = np.random.default_rng(0)
    w, x = rng.normal(size=(2, 3, 3)), rng.uniform(-1, 1, size=(4, 3))
    f = from_qnode(_qnode(model), x[0], w)
    assert f.parameters == ("a", *(f"w[{i}]" for i in range(18)))
    assert f.inputs == ("x[0]", "x[1]", "x[2]")
    values = f.forward(np.concatenate([[0.3], w.ravel()]), x)
    for row, sample in zip(values, x, strict=True):
        np.testing.assert_allclose(row, _qnode(model)(sample, w, 0.3), atol=WITHIN)


def test_from_qnode_names_that_mean_something_else():
    def model(x, pi, x_):
        qml.RX(np.sin(x[0]) + x[1], 0)
        qml.RY(np.exp(pi) * x_, 0)
        return qml.expval(qml.Z(0))

    x = np.array([0.3, 0.4])
    f = from_qnode(_qnode(model), x)
    assert f.parameters == ("pi_", "x_", "x__[0]", "x__[1]")
    found = f.forward([0.2, 0.5, *x])
    np.testing.assert_allclose(found, [_qnode(model)(x, 0.2, 0.5)], atol=WITHIN)


def _by_value(w):
    (qml.RX if w > 0.5 else qml.RY)(w, 0)
    return qml.expval(qml.Z(0))


def _cond(w):
    qml.cond(w > 1, qml.X)(0)
    qml.RX(w, 0)
    return qml.expval(qml.Z(0))


def _angle(angle):
    def function(w):
        qml.RX(angle(w), 0)
        return qml.expval(qml.Z(0))

    return function


BY_VALUE = [
    lambda w: w if w < 200 else 1.0,
    lambda w: max(w, -200),
    lambda w: w if abs(w) < 1 else 1.0,
    lambda w: w if w else 0.1,
    lambda w: w if w == 0 else 2 * w,
    lambda w: w - int(w),
    lambda w: w // 1,
    lambda w: w % 200,
    lambda w: w + divmod(w, 200)[0],
    lambda w: w + 0.0 * round(w),
    lambda w: w + np.clip([w], 0, 200)[0],
    # Values that are read where no placeholder sees it
    lambda w: float(w) + 0.0,
    lambda w: w * (1 if float(w) > -0.5 else 2),
    lambda w: w * (1 if float(w) < 1 else 2),
    lambda w: w * (1 if np.isclose(w, 0, atol=0.2) else 2),
]


def _probs(w):
    qml.RX(w, 0)
    return qml.probs(0)


def _coefficient(w):
    return qml.expval(w * qml.Z(0))


def _embedding(w):
    qml.AmplitudeEmbedding([w, 1.0], 0, normalize=True)
    return qml.expval(qml.Z(0))


def _not_hermitian(w):
    qml.RX(w, 0)
    return qml.expval(qml.sum(qml.Z(0), qml.prod(qml.X(0), qml.Y(0))))


_REFUSED = [_by_value, _cond, *map(_angle, BY_VALUE), _probs, _coefficient, _embedding]
_REFUSED.append(_not_hermitian)


def test_from_qnode_with_measurements():
    @qml.qnode(qml.device("default.qubit"))
    def model(w):
        qml.RX(np.square(w[0]) + np.reciprocal(w[0]), 0)
        m = qml.measure(0)
        qml.cond(m, qml.RY)(w[1], wires=1)
        n = qml.measure(1)
        return qml.expval(m), qml.expval(qml.Z(1)), qml.expval(n - 2 * m)

    w = np.array([0.7, 0.9])
    values = from_qnode(model, w).forward(w)
    np.testing.assert_allclose(values, model(w), rtol=0, atol=WITHIN)


@pytest.mark.parametrize("function", _REFUSED)
def test_from_qnode_refuses(function):
    with pytest.raises(ValueError, match="cannot turn the QNode into a function"):
        from_qnode(_qnode(function))


def test_from_qnode_refuses_unused():
    with pytest.raises(ValueError, match=r"no gate uses w\[1\]"):
        from_qnode(_qnode(lambda w: (qml.RX(w[0], 0), qml.expval(qml.Z(0)))[1]), np.zeros(2))
    with pytest.raises(TypeError, match="not a QNode"):
        from_qnode(lambda: None)


def test_circuit_from_pennylane():
    @qml.qnode(qml.device("default.qubit", wires=2))
    def circuit(angle):
        qml.RX(angle, 0)
        qml.IsingXY(0.3, [0, 1])
        return qml.expval(qml.Y(1))

    c = qring.Circuit.from_pennylane(circuit, 0.7)
    assert c.readouts == ()
    assert abs(qring.expval(c, "Y1").forward([])[0] - circuit(0.7)) < 1e-12
    for operator in (qml.Y(1), qml.Hamiltonian([1.0], [qml.Y(1)]), qml.Y(1).pauli_rep):
        assert abs(qring.expval(c, operator).forward([])[0] - circuit(0.7)) < 1e-12
    for operator in (qml.Hermitian(np.eye(2), 0), qml.FermiC(0)):
        with pytest.raises(TypeError, match="not a sum of Paulis"):
            qring.expval(c, operator)
    for operator in (qml.Hamiltonian([], []), qml.pauli.PauliSentence({})):
        with pytest.raises(qring.QringError, match="the sum is zero"):
            qring.expval(c, operator)
    with pytest.raises(TypeError, match="give a QNode or a tape"):
        qring.Circuit.from_pennylane(lambda: None)


def test_circuit_from_pennylane_numbers_qubits_by_wires():
    @qml.qnode(qml.device("default.qubit"))
    def circuit(a):
        qml.RX(a, 1)
        qml.RY(0.7, 0)
        return qml.expval(qml.Z(0)), qml.expval(qml.Z(1))

    c = qring.Circuit.from_pennylane(circuit, 0.3)
    tape = qml.workflow.construct_tape(circuit)(0.3)
    assert c == qring.Circuit.from_pennylane(tape)
    values = qring.expval(c, [qml.Z(0), qml.Z(1)]).forward([])
    np.testing.assert_allclose(values, circuit(0.3), rtol=0, atol=WITHIN)
    named = qring.Circuit.from_pennylane(qml.map_wires(tape, {1: "b", 0: "a"})[0][0])
    np.testing.assert_allclose(qring.expval(named, "Z1").forward([]), values[:1], atol=WITHIN)


def test_exported_function():
    """Values and derivatives by weights, of a batch of inputs."""
    c = qring.Circuit(3).ry(qring.Input("a"), 0).rx("w[1]", 1).cnot(0, 1)
    c.rz("2*sin(w[1])*v + pow(v, 2)", 1).gate("ISWAP", [1, 2], controls=[0], exponent="v").h(2)
    f = qring.expval(c, ["Z2", "0.5*X1 Z2 - Y0 + 0.25"])
    x, w = np.array([[0.3], [0.5]]), [0.7, -0.4]
    module = {}
    exec(c.export("python", f.observables, parameters=w), module)
    values = np.array(module["circuit"](x)).T
    np.testing.assert_allclose(values, f.forward(w, x), rtol=0, atol=1e-12)
    by_weights, _ = f.jacobian(w, x[:1])
    weights = {
        name: pnp.array(value, requires_grad=True) for name, value in module["weights"].items()
    }
    found = qml.grad(lambda w: module["circuit"](x[0], w)[1], argnums=0)(weights)
    np.testing.assert_allclose(
        [found[name] for name in f.parameters], by_weights[0, 1], rtol=0, atol=1e-12
    )
