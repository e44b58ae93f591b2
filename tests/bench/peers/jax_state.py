"""State vectors in jax.numpy. A convolution's gates are one 4 x 4 matrix, and its pairs one loop.
In layered circuits the gates of one qubit between two layers of CZ or ZZ are one matrix, those of
four qubits one larger matrix, and a layer of CZ and ZZ is a vector of phases."""
import functools

import jax
import jax.numpy as jnp
import numpy as np

from cases import Gate, stages
from jax_strands import stages_of

GROUP = 4  # maximum qubits of one matrix
FEW = 6    # up to this number of qubits all samples are one array, and each gate is a few operations on it
DIAGONAL = ("CZ", "RZZ")


def bits_of(n):
    """A column of 2^n zeros and ones for each qubit, the first the most significant"""
    return (np.arange(2 ** n)[:, None] >> np.arange(n)[::-1] & 1).astype(np.int8)


def eigenvalues(n, observable):
    """Eigenvalue for each amplitude of an observable that is a sum of products of Z"""
    signs = 1 - 2 * bits_of(n)
    return sum(c * np.prod(signs[:, list(qubits)], axis=1) for c, qubits in observable).astype(np.float32)


def one_qubit(gates, n, weights, x):
    """The 2 x 2 matrices of a layer's one-qubit gates, as four arrays with an entry per qubit. All
    qubits have the same gates; a missing one is a rotation by 0."""
    more = (1,) * (x.ndim - 1)  # axes of samples, if x has them
    m = [jnp.ones((n,) + more), jnp.zeros((n,) + more), jnp.zeros((n,) + more), jnp.ones((n,) + more)]
    for name in dict.fromkeys(g.name for g in gates):
        by = {g.qubits[0]: g for g in gates if g.name == name}
        assert len(by) == sum(g.name == name for g in gates) and (name != "H" or len(by) == n)
        if name == "H":
            r = [0.5 ** 0.5, 0.5 ** 0.5, 0.5 ** 0.5, -0.5 ** 0.5]
        else:
            every = [by.get(q, Gate(name, (q,), weight=0, scale=0.0)) for q in range(n)]
            if every[0].weight is None:
                half = x[np.array([g.column for g in every])]
            else:
                half = weights[np.array([g.weight for g in every])].reshape((n,) + more)
            half = half * np.array([g.scale / 2 for g in every], np.float32).reshape((n,) + more)
            c, s = jnp.cos(half), jnp.sin(half)
            r = {"RX": [c, -1j * s, -1j * s, c], "RY": [c, -s, s, c], "RZ": [c - 1j * s, 0, 0, c + 1j * s]}[name]
        m = [r[0] * m[0] + r[1] * m[2], r[0] * m[1] + r[1] * m[3], r[2] * m[0] + r[3] * m[2], r[2] * m[1] + r[3] * m[3]]
    return m


# ---- layers ----

def layers_of(gates):
    """[(diagonal, gates)]: consecutive gates of the same kind"""
    out = []
    for g in gates:
        if not out or out[-1][0] != (g.name in DIAGONAL):
            out.append((g.name in DIAGONAL, []))
        out[-1][1].append(g)
    return out


def phases_of(n, gates):
    """Signs of a layer's CZ, and for each weight the summed eigenvalues of its ZZ"""
    bits, sums = bits_of(n), {}
    for g in gates:
        if g.name == "RZZ":
            sums.setdefault((g.weight, g.scale), []).append((1.0, g.qubits))
    ones = sum((bits[:, a] & bits[:, b] for a, b in (g.qubits for g in gates if g.name == "CZ")), np.zeros(2 ** n, np.int8))
    return (1 - 2 * (ones % 2)).astype(np.float32), {k: eigenvalues(n, terms) for k, terms in sums.items()}


def apply_grouped(psi, n, m):
    """Applies each qubit's 2 x 2 matrix, GROUP qubits at once. Each time the first axis moves to
    the end, so that the final order is the initial one."""
    matrices = jnp.stack(m, -1).reshape(n, 2, 2)
    for q in range(0, n, GROUP):
        u = functools.reduce(jnp.kron, matrices[q:q + GROUP])
        psi = (u @ psi.reshape(len(u), -1)).T
    return psi.reshape(-1)


def apply_each(psi, n, m):
    for q in range(n):
        psi = psi.reshape(2 ** q, 2, 2 ** (n - q - 1), -1)
        a, b = psi[:, 0], psi[:, 1]
        psi = jnp.stack([m[0][q] * a + m[1][q] * b, m[2][q] * a + m[3][q] * b], 1)
    return psi.reshape(2 ** n, -1)


def layered(case, few):
    """few: samples are the state's last axis and x is columns x samples; otherwise the state of one
    sample"""
    n, obs = case.n, eigenvalues(case.n, case.observable)
    layers = [(diagonal, phases_of(n, gates) if diagonal else gates) for diagonal, gates in layers_of(case.gates)]

    def value(weights, x):
        psi = None
        for diagonal, what in layers:
            if not diagonal:
                m = one_qubit(what, n, weights, x)
                if psi is None:  # from |0>: a product state
                    columns = jnp.broadcast_to(jnp.stack([m[0] + 0j, m[2] + 0j], 1), (n, 2) + x.shape[1:])
                    psi = functools.reduce(lambda a, b: (a[:, None] * b[None]).reshape((-1,) + x.shape[1:]), columns)
                else:
                    psi = apply_each(psi, n, m) if few else apply_grouped(psi, n, m)
                continue
            signs, sums = what
            if sums:
                angle = sum(scale * weights[w] / 2 * v for (w, scale), v in sums.items())
                psi = psi * jax.lax.complex(jnp.cos(angle), -jnp.sin(angle)).reshape((-1,) + (1,) * few)
            if (signs < 0).any():
                psi = psi * signs.reshape((-1,) + (1,) * few)
        return jnp.tensordot(obs, jnp.real(psi) ** 2 + jnp.imag(psi) ** 2, 1)

    return value


# ---- the tutorial's stages, on the last m axes ----

def rotate_axes(psi, m, by):
    """Moves the first `by` of the last m qubits to the end"""
    return jnp.swapaxes(psi.reshape(-1, 2 ** by, 2 ** (m - by)), 1, 2)


def on_pairs(psi, m, u):
    """Applies u to qubits 0 and 1 of the last m, to 2 and 3, ...: always to the first two (four, if
    the number of pairs is even), which then move to the end"""
    pairs, k = m // 2, 1 if m // 2 % 2 else 2
    u = jnp.kron(u, u) if k == 2 else u

    def step(psi, _):
        return jnp.einsum("ij,djc->dci", u, psi.reshape(-1, 4 ** k, 2 ** (m - 2 * k))).reshape(psi.shape), None

    return jax.lax.scan(step, psi, None, pairs // k)[0]


def on_halves(psi, m, p):
    """Applies p to the first qubits of both halves, which then move to the end of their halves; the
    last qubit of an odd number stays"""
    half = m // 2

    def step(psi, _):
        v = psi.reshape(-1, 2, 2 ** (half - 1), 2, 2 ** (half - 1), 1 + m % 2)
        return jnp.einsum("ijkl,dkalbr->daibjr", p.reshape(2, 2, 2, 2), v).reshape(psi.shape), None

    return jax.lax.scan(step, psi, None, half)[0]


def tutorial(case):
    """The cluster state, the inputs, then each stage's two matrices, in loops that rotate the order
    of the qubits"""
    n, first, matrices = case.n, [g for g in case.gates if g.column is None and g.weight is None], stages_of(case)
    cluster = phases_of(n, [g for g in first if g.name == "CZ"])[0] * np.float32(2 ** (-n / 2))
    obs = eigenvalues(n, case.observable)

    def value(weights, x):
        c, s = jnp.cos(x / 2), jnp.sin(x / 2)
        psi = apply_grouped(jnp.complex64(cluster), n, [c, -1j * s, -1j * s, c])
        for u, p, bits in zip(*matrices(weights), stages(n, case.stages)):
            m = len(bits)
            psi = on_pairs(psi, m, u)
            psi = rotate_axes(psi, m, 1 + m % 2).reshape(-1)  # with an odd number the last qubit is in front
            psi = on_pairs(psi, m, u)
            if m % 2 == 0:
                psi = rotate_axes(psi, m, m - 1).reshape(-1)
            psi = on_halves(psi, m, p)
        return jnp.tensordot(obs, jnp.real(psi) ** 2 + jnp.imag(psi) ** 2, 1)

    return value


def value_of_one(case):
    """Returns f(weights, x of one sample), the observable's value"""
    return tutorial(case) if case.name.startswith("qcnn") else layered(case, False)


def value_of(case):
    """Returns f(weights, x of all samples)"""
    if case.n <= FEW:
        return lambda weights, x: layered(case, True)(weights, x.T)
    return jax.vmap(value_of_one(case), (None, 0))
