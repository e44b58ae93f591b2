"""qsim's quantum trajectories (qsimcirq) in single precision, by parameter shifts: expectation
values averaged over trajectories, or one measurement of each. Translating a circuit in Python takes
ten times as long as simulating it and counts as compilation: each execution has its own simulator,
which caches the translated circuit."""
import cirq
import numpy as np
import qsimcirq

from cases import ESTIMATED, REPETITIONS, Cannot, Case, hold_the_state
from shifts import Shifts
from talk import serve

PARITIES = {"RXX": cirq.XXPowGate, "RYY": cirq.YYPowGate, "RZZ": cirq.ZZPowGate}


def gate_of(name, angle):
    if name in PARITIES:
        return PARITIES[name](exponent=angle / np.pi, global_shift=-0.5)
    return getattr(cirq, name) if angle is None else getattr(cirq, name.capitalize())(rads=angle)


def circuit_of(case, qubits, x, angles):
    noise = cirq.MixedUnitaryChannel(cirq.mixture(cirq.depolarize(case.noise)))  # computed once: cirq.depolarize would compute it for each gate
    operations, angles = [], iter(angles)
    for g in case.gates:
        angle = next(angles) if g.weight is not None else None if g.column is None else g.scale * x[g.column]
        on = [qubits[q] for q in g.qubits]
        operations += [gate_of(g.name, angle)(*on)] + [noise(q) for q in on]
    if case.samples_shots:
        operations.append(cirq.measure(*qubits, key="bits"))
    return qsimcirq.QSimCircuit(cirq.Circuit(operations))


def open_case(folder):
    case = Case(folder)
    if case.name not in ESTIMATED:
        raise Cannot("density matrices are not supported")
    hold_the_state(case)
    shifts, qubits = Shifts(case), cirq.LineQubit.range(case.n)
    observable = sum(c * cirq.PauliString(*[cirq.Z(qubits[q]) for q in of]) for c, of in case.observable)
    options = qsimcirq.QSimOptions(ev_noisy_repetitions=REPETITIONS, cpu_threads=1)
    programs = [[(qsimcirq.QSimSimulator(options, circuit_memoization_size=1), circuit_of(case, qubits, x, angles)) for angles in shifts.angles]
                for x in case.x]

    def value(simulator, circuit):
        if not case.samples_shots:
            return simulator.simulate_expectation_values(circuit, observable)[0]
        signs = 1 - 2 * simulator.run(circuit, repetitions=REPETITIONS).measurements["bits"].astype(int)
        return sum(c * np.prod(signs[:, of], axis=1).mean() for c, of in case.observable)

    def once():
        results = [[value(*program) for program in of_sample] for of_sample in programs]
        return lambda: shifts.loss_and_gradient(np.real(results).tolist())

    once.executions = shifts.executions
    return once


serve(open_case)
