"""Qiskit Aer in single precision, by parameter shifts, all executions of a sample in one run:
density matrices, or one trajectory per shot with averaged expectation values or measured bits.
Above 8 qubits only a part of the gradient is computed: all of it takes minutes with trajectories,
hours with density matrices."""
import numpy as np
from qiskit import QuantumCircuit
from qiskit.circuit import ParameterVector
from qiskit.quantum_info import SparsePauliOp
from qiskit_aer import AerSimulator
from qiskit_aer.noise import NoiseModel, depolarizing_error

from cases import ESTIMATED, REPETITIONS, Case, hold_the_state
from shifts import Shifts
from talk import serve


def noise_model(case):
    """Depolarizing noise on each qubit of each gate; Qiskit's parameter counts the identity as one
    of four Paulis."""
    one, model = depolarizing_error(case.noise * 4 / 3, 1), NoiseModel()
    model.add_all_qubit_quantum_error(one, ["h", "rx", "ry", "rz"])
    model.add_all_qubit_quantum_error(one.tensor(one), ["cz", "cx", "rxx", "ryy", "rzz"])
    return model


def circuit_of(case, x, parameters):
    circuit, parameters = QuantumCircuit(case.n), iter(parameters)
    for g in case.gates:
        angle = [next(parameters)] if g.weight is not None else [] if g.column is None else [g.scale * x[g.column]]
        getattr(circuit, "cx" if g.name == "CNOT" else g.name.lower())(*angle, *g.qubits)
    if case.samples_shots:
        circuit.measure_all()
    else:
        terms = [("Z" * len(qubits), qubits, c) for c, qubits in case.observable]
        circuit.save_expectation_value(SparsePauliOp.from_sparse_list(terms, case.n), range(case.n))
    return circuit


def mean_of(case, counts):
    """The observable's mean over measured bits; Qiskit writes qubit 0 last"""
    signs = {bits: sum(c * (-1) ** sum(bits[-1 - q] == "1" for q in qubits) for c, qubits in case.observable) for bits in counts}
    return sum(signs[bits] * n for bits, n in counts.items()) / sum(counts.values())


def open_case(folder):
    case = Case(folder)
    exact = case.name not in ESTIMATED
    hold_the_state(case, 12 if exact else 30)
    shifts = Shifts(case, None if case.n <= 8 else 3 if exact else 80)
    parameters = ParameterVector("t", len(shifts.angles[0]))
    circuits = [circuit_of(case, x, parameters) for x in case.x]
    binds = dict(zip(parameters, np.array(shifts.angles).T.tolist()))
    simulator = AerSimulator(method="density_matrix" if exact else "statevector", noise_model=noise_model(case), precision="single",
                             max_parallel_threads=1)

    def once():
        done = simulator.run(circuits, shots=1 if exact else REPETITIONS, parameter_binds=[binds] * len(circuits)).result()
        if not done.success:
            raise RuntimeError(done.status)
        n = len(shifts.angles)

        def result():
            values = [mean_of(case, done.get_counts(i)) if case.samples_shots else done.data(i)["expectation_value"]
                      for i in range(n * len(circuits))]
            return shifts.loss_and_gradient([values[i:i + n] for i in range(0, len(values), n)])

        return result

    once.executions = shifts.executions
    return once


serve(open_case)
