"""The tutorial's hybrid model without its state vector. Before the pool a qubit has interacted with
three others: its partner in the first convolution, and the pair that the second one couples. The
reduced state of such a strand of four is a mixture of four small states: the neighbours in the
cluster are traced out, and because they are in |+> before the CZ, each applies Z or nothing to its
end with equal probability. The two qubits of a pool come from disjoint strands, so a read-out is a
bilinear form of their two Bloch vectors."""
import functools

import jax
import jax.numpy as jnp
import numpy as np

LEAST_QUBITS = 12  # with fewer, the two strands of a read-out are neighbours in the ring

I2, X, Y, Z = np.eye(2), np.array([[0, 1], [1, 0]]), np.array([[0, -1j], [1j, 0]]), np.diag([1.0, -1])
PAULI = {"X": X, "Y": Y, "Z": Z}
CNOT = np.eye(4)[[0, 1, 3, 2]]


def kron(*factors):
    return functools.reduce(np.kron, factors)


def unitary(gates, qubits, weights):
    """Matrix of gates on one or two qubits, the first most significant: rotations, and a CNOT from
    the first to the second"""
    u = jnp.eye(2 ** len(qubits), dtype=jnp.complex64)
    for g in gates:
        if g.name == "CNOT":
            u = CNOT.astype(np.complex64) @ u
            continue
        p = dict(zip(g.qubits, g.name[1:]))
        p, half = kron(*[PAULI[p[q]] if q in p else I2 for q in qubits]).astype(np.complex64), g.scale * weights[g.weight] / 2
        u = jnp.cos(half) * u - 1j * jnp.sin(half) * (p @ u)
    return u


def stages_of(case):
    """Returns f(weights), each stage's two matrices: of a pair's convolution, and of a pool's
    source and sink"""
    half = case.n // 2
    trained = [g for g in case.gates if g.column is None and g.name not in ("H", "CZ")]
    convolution = trained[:15]
    pool = [g for g in trained if set(g.qubits) <= {0, half} and (g.weight is None or 15 <= g.weight < 21)]

    def matrices(weights):
        own = weights.reshape(-1, 21)
        return jax.vmap(lambda w: unitary(convolution, (0, 1), w))(own), jax.vmap(lambda w: unitary(pool, (0, half), w))(own)

    return matrices


def strands_of(n):
    """(qubits of each strand, index of its unitary): the middle two are the pair of the second
    convolution. With an odd number the last qubit has no first convolution, and qubit 0 no second
    one."""
    strands = [([q % n for q in range(a - 1, a + 3)], 0) for a in range(1, n - n % 2, 2)]
    if n % 2:
        strands[-1] = strands[-1][0], 1
        strands.append(([n - 1, 0, 1, 2], 2))
    return np.array([q for q, _ in strands]), np.array([k for _, k in strands])


def strand_states():
    """The four states of a strand before its inputs, with weight 1/4 each: H, CZ between
    neighbours, Z or nothing on either end"""
    bits = np.array([[i >> 3 & 1, i >> 2 & 1, i >> 1 & 1, i & 1] for i in range(16)])
    chain = (bits[:, :-1] * bits[:, 1:]).sum(1)
    return np.array([(-1.0) ** (chain + s * bits[:, 0] + t * bits[:, 3]) for s in (0, 1) for t in (0, 1)]) / 8  # 1/4, times sqrt(1/4)


def value_of(case):
    n, half = case.n, case.n // 2
    strands, kinds = strands_of(n)
    matrices = stages_of(case)
    start = strand_states().reshape(4, 2, 2, 2, 2).astype(np.complex64)
    observable = np.kron(I2, Z).astype(np.complex64)
    sigma = np.array([I2, X, Y, Z], dtype=np.complex64)
    pairs = np.array([[np.kron(a, b) for b in sigma] for a in sigma], dtype=np.complex64) / 4
    direction = np.array(case.direction, dtype=np.float32)
    place = {q: (s, k) for s, (strand, kind) in enumerate(zip(strands, kinds)) for k, q in ((0, strand[1]), (1, strand[2]))
             if not (kind == 2 and q)}  # from qubit 0's own strand only that qubit
    sources, sinks = (np.array([2 * place[q][0] + place[q][1] for q in part]) for part in (range(half), range(half, 2 * half)))

    def states(x):
        """samples x strands x 4 x 16"""
        psi = jnp.broadcast_to(start, (len(x), len(strands)) + start.shape)
        for k in range(4):
            turn = x[:, strands[:, k]].reshape(len(x), len(strands), 1, 1, 1, 1, 1) / 2
            psi = jnp.cos(turn) * psi - 1j * jnp.sin(turn) * jnp.flip(psi, 3 + k)
        return psi.reshape(len(x), len(strands), 4, 16)

    def bloch(psi):
        """Of the two middle qubits of each strand: samples x qubits x (1, x, y, z)"""
        psi = psi.reshape(psi.shape[:3] + (2, 2, 2, 2))
        vectors = []
        for axis in (4, 5):
            a, b = jnp.take(psi, 0, axis), jnp.take(psi, 1, axis)
            over = tuple(range(2, a.ndim))
            cross = jnp.sum(jnp.conj(a) * b, over)
            zero, one = (jnp.sum(jnp.real(v) ** 2 + jnp.imag(v) ** 2, over) for v in (a, b))
            vectors.append(jnp.stack([zero + one, 2 * jnp.real(cross), 2 * jnp.imag(cross), zero - one], -1))
        return jnp.stack(vectors, 2).reshape(psi.shape[0], -1, 4)

    def value(weights, x):
        (u,), (p,) = matrices(weights)
        one, middle = jnp.eye(4, dtype=jnp.complex64), jnp.kron(jnp.kron(I2, u), I2)
        if n % 2:
            which = jnp.stack([middle @ jnp.kron(u, u), middle @ jnp.kron(u, one), middle])[kinds]
            psi = jnp.einsum("bsvi,sji->bsvj", states(x), which)
        else:
            psi = states(x) @ (middle @ jnp.kron(u, u)).T
        r, form = bloch(psi), jnp.real(jnp.einsum("ij,abji->ab", jnp.conj(p.T) @ observable @ p, pairs))
        return jnp.einsum("bkp,pq,bkq,k->b", r[:, sources], form, r[:, sinks], direction)

    return value
