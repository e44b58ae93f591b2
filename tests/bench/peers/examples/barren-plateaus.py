"""deploy/jobs/examples/barren-plateaus.json in JAX: all copies as one batch of angles."""
import math

QUBITS, LAYERS = 6, 80
AXES = [[(i ** 3 + 5 * i * d + 3 * d * d) % 17 % 3 for i in range(QUBITS)] for d in range(LAYERS)]  # of "YXZ"


def energies_of(case):
    """Returns f(angles); one compiled layer is scanned over"""
    np, lax = case.numpy, case.jax.lax
    number = {"float32": np.complex64, "float64": np.complex128}[case.dtype]
    one = np.eye(2, dtype=number)
    paulis = np.array([[[0, -1j], [1j, 0]], [[0, 1], [1, 0]], [[1, 0], [0, -1]]], number)
    axes = paulis[np.array(AXES)]
    bits = (np.arange(2 ** QUBITS)[:, None] >> np.arange(QUBITS - 1, -1, -1)) & 1
    ladder = (-1.0) ** (bits[:, 1:] * bits[:, :-1]).sum(1)
    parity = (-1.0) ** (bits[:, 0] + bits[:, 1])
    first = np.array(1, number)
    for _ in range(QUBITS):
        first = np.kron(first, np.array([math.cos(math.pi / 8), math.sin(math.pi / 8)], number))

    def layer(state, angles_and_axes):
        angles, axes = angles_and_axes
        for i in range(QUBITS):
            half = angles[:, i, None, None] / 2
            gate = np.cos(half) * one - 1j * np.sin(half) * axes[i]
            state = np.einsum("cij,cajb->caib", gate, state.reshape(len(angles), 2 ** i, 2, -1)).reshape(len(angles), -1)
        return state * ladder, None

    def energies(w):
        state, _ = lax.scan(layer, np.tile(first, (len(w), 1)), (w.transpose(1, 0, 2), axes))
        return (abs(state) ** 2) @ parity

    return energies


def model(case):
    energies = energies_of(case)

    def outputs(weights, x):
        return energies(case.numpy.stack([weights[n] for n in case.tensors]).reshape(-1, LAYERS, QUBITS))[None, :]

    return outputs
