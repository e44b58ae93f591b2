"""Scaluq: float32, a prepared circuit per sample, and its own backpropagation from the final
state."""
from scaluq import Circuit, Operator, PauliOperator, StateVector, gate

from cases import Case, hold_the_state
from talk import serve

F32 = {"precision": "f32"}
SERIAL = dict(F32, space="host_serial")  # one thread; OpenMP with one thread is slower
FIXED = {"H": gate.H, "CZ": gate.CZ, "CNOT": gate.CX}
DATA = {"RX": gate.RX}
TURN = {"RX": gate.ParamRX, "RY": gate.ParamRY, "RZ": gate.ParamRZ}


def circuit_of(case, x):
    c = Circuit(**F32)
    for g in case.gates_for(x):
        if g.name in FIXED:
            c.add_gate(FIXED[g.name](*g.qubits, **F32))
        elif g.column is not None:
            c.add_gate(DATA[g.name](*g.qubits, g.scale * x[g.column], **F32))
        elif len(g.qubits) == 1:
            c.add_param_gate(TURN[g.name](*g.qubits, g.scale, **F32), str(g.weight))
        else:
            pauli = PauliOperator(" ".join("%s %d" % p for p in zip(g.name[1:], g.qubits)), **F32)
            c.add_param_gate(gate.ParamPauliRotation(pauli, g.scale, **F32), str(g.weight))
    return c


def open_case(folder):
    case = Case(folder)
    hold_the_state(case)
    weights = {str(i): w for i, w in enumerate(case.weights)}
    observable = Operator([PauliOperator(" ".join("%s %d" % pauli for pauli in word), c, **F32) for c, word in case.paulis], **SERIAL)
    circuits = [circuit_of(case, x) for x in case.x]

    def once():
        values, derivatives = [], []
        for circuit in circuits:
            state = StateVector(case.n, **SERIAL)
            circuit.update_quantum_state(state, params=weights)
            other = state.copy()
            observable.apply_to_state(other)
            values.append(StateVector.inner_product(state, other).real)
            derivatives.append(circuit.compute_expectation_gradient_backprop(state, other, weights))
        return lambda: case.loss_and_gradient(values, [[d.get(k, 0) for k in weights] for d in derivatives])

    return once


serve(open_case)
