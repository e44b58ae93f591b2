"""MindQuantum: complex64, its own expectation with gradient. Samples are one batch of an encoder if
each has inputs for most qubits; if each has one input, one circuit per sample is cheaper, because
derivatives by the encoder are computed too."""
import mindquantum as mq
import numpy as np
from mindquantum.core import gates
from mindquantum.core.circuit import Circuit
from mindquantum.core.operators import Hamiltonian, QubitOperator
from mindquantum.simulator import Simulator

from cases import Case, hold_the_state
from talk import serve

TURN = {"RX": gates.RX, "RY": gates.RY, "RZ": gates.RZ, "RXX": gates.Rxx, "RYY": gates.Ryy, "RZZ": gates.Rzz}


def circuit_of(case, x):
    """x is None: inputs are the encoder's parameters"""
    c = Circuit()
    for g in case.gates if x is None else case.gates_for(x):
        if g.name == "H":
            c += gates.H.on(*g.qubits)
        elif g.name in ("CZ", "CNOT"):
            c += (gates.Z if g.name == "CZ" else gates.X).on(g.qubits[1], g.qubits[0])
        elif g.column is None:
            c += Circuit([TURN[g.name]({"w%d" % g.weight: g.scale}).on(list(g.qubits))]).as_ansatz()
        elif x is None:
            c += Circuit([TURN[g.name]({"x%d" % g.column: g.scale}).on(list(g.qubits))]).as_encoder()
        else:
            c += TURN[g.name](g.scale * x[g.column]).on(list(g.qubits))
    return c


def open_case(folder):
    case = Case(folder)
    hold_the_state(case)
    terms = sum((QubitOperator(" ".join("%s%d" % pauli for pauli in word), c) for c, word in case.paulis), QubitOperator())
    observable, simulator = Hamiltonian(terms, dtype=mq.complex64), Simulator("mqvector", case.n, dtype=mq.complex64)
    batched = sum(v != 0 for v in case.x[0]) > case.n // 2
    circuits = [circuit_of(case, None if batched else x) for x in (case.x[:1] if batched else case.x)]
    run = [simulator.get_expectation_with_grad(observable, c, parallel_worker=1) for c in circuits]
    names, weights = circuits[0].ansatz_params_name, np.array(case.weights)
    order = [int(name[1:]) for name in names]
    columns = [int(name[1:]) for name in circuits[0].encoder_params_name]
    x = np.array(case.x)[:, columns]

    def once():
        out = [run[0](x, weights[order])] if batched else [r(weights[order]) for r in run]

        def result():
            values = np.concatenate([np.real(o[0]).ravel() for o in out])
            derivatives = np.zeros((len(values), len(weights)))
            derivatives[:, order] = np.real(out[0][2][:, 0]) if batched else [np.real(o[1]).ravel() for o in out]
            return case.loss_and_gradient(values, derivatives)

        return result

    return once


serve(open_case)
