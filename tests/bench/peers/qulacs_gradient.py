"""Qulacs: a prepared circuit per sample, and its own backpropagation. The prediction needs a
separate forward run. Only complex128; rotations have the opposite sign."""
from qulacs import GeneralQuantumOperator, ParametricQuantumCircuit, QuantumState

from cases import Case, hold_the_state
from talk import serve

PAULI = {"X": 1, "Y": 2, "Z": 3}


def circuit_of(case, x):
    """(circuit, (weight, factor) of each of its parameters)"""
    c, of = ParametricQuantumCircuit(case.n), []
    fixed = {"H": c.add_H_gate, "CZ": c.add_CZ_gate, "CNOT": c.add_CNOT_gate}
    data = {"RX": c.add_RX_gate}
    turn = {"RX": c.add_parametric_RX_gate, "RY": c.add_parametric_RY_gate, "RZ": c.add_parametric_RZ_gate}
    for g in case.gates_for(x):
        if g.name in fixed:
            fixed[g.name](*g.qubits)
        elif g.column is not None:
            data[g.name](*g.qubits, -g.scale * x[g.column])
        else:
            angle = -g.scale * case.weights[g.weight]
            if len(g.qubits) == 1:
                turn[g.name](*g.qubits, angle)
            else:
                c.add_parametric_multi_Pauli_rotation_gate(list(g.qubits), [PAULI[p] for p in g.name[1:]], angle)
            of.append((g.weight, -g.scale))
    return c, of


def open_case(folder):
    case = Case(folder)
    hold_the_state(case)
    observable, state = GeneralQuantumOperator(case.n), QuantumState(case.n)
    for c, word in case.paulis:
        observable.add_operator(c, " ".join("%s %d" % pauli for pauli in word))
    circuits = [circuit_of(case, x) for x in case.x]

    def once():
        values, derivatives = [], []
        for circuit, _ in circuits:
            state.set_zero_state()
            circuit.update_quantum_state(state)
            values.append(observable.get_expectation_value(state).real)
            derivatives.append(circuit.backprop(observable))
        return lambda: case.loss_and_gradient(values, [case.by_weight(d, of) for d, (_, of) in zip(derivatives, circuits)])

    return once


serve(open_case)
