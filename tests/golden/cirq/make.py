#!/usr/bin/env python3
"""Makes cirq.json and tfq.json: circuits as Cirq 1.5 and TensorFlow Quantum 0.7.6 write them, and their states.

    pip install tensorflow-quantum==0.7.6; python tests/golden/cirq/make.py

A row of cirq.json: "circuit" (of cirq.to_json; a list begins with one), "values" (of its symbols), "state" (re and im of each
amplitude, qubits in Cirq's order, after "start" on three qubits, else |0..0>), up to a global phase, and "readouts" (their
values). tfq.json: "program" (hex of a program) with
the same; and a model with data circuits of several structures: prepend, circuit, readouts, data, and for each sample its
values."""
import json
import os

os.environ["TF_USE_LEGACY_KERAS"], os.environ["TF_CPP_MIN_LOG_LEVEL"] = "1", "3"
import cirq
import numpy
import sympy
import tensorflow_quantum as tfq

a, b, x, odd = sympy.symbols("a b x two\\ words")
VALUES = {"a": 0.7, "b": -1.3, "x": 0.45, "two words": 0.2}
q = cirq.LineQubit.range(3)
START = cirq.Circuit(cirq.ry(0.4)(q[0]), cirq.ry(1.1)(q[1]), cirq.ry(-0.9)(q[2]), cirq.CZ(q[0], q[1]), cirq.rz(0.6)(q[0]), cirq.rx(0.8)(q[1]))


def state(circuit):
    plain = cirq.drop_terminal_measurements(cirq.unroll_circuit_op(circuit, deep=True, tags_to_check=None))
    plain = cirq.resolve_parameters(plain, VALUES)
    return cirq.final_state_vector(plain, qubit_order=sorted(circuit.all_qubits()), dtype=numpy.complex128, ignore_terminal_measurements=True)


def numbers(s):
    return [float(part) for z in s for part in (z.real, z.imag)]


def value(operator, circuit):
    order = {k: i for i, k in enumerate(sorted(circuit.all_qubits()))}
    return float(cirq.PauliSum.wrap(operator).expectation_from_state_vector(state(circuit).astype(numpy.complex128), order).real)


def gates():
    yield from (cirq.X, cirq.Y**a, cirq.Z**0.5, cirq.H**b, cirq.rx(a), cirq.ry(0.3), cirq.rz(2 * a - b / 3), cirq.ms(a))
    yield from (cirq.XX**a, cirq.YY**0.3, cirq.ZZ ** (a * b), cirq.CZ**a, cirq.CNOT**0.5, cirq.SWAP**b, cirq.ISWAP**0.5)
    yield cirq.XPowGate(exponent=a, global_shift=0.3)
    yield cirq.CCXPowGate(exponent=a, global_shift=0.25)
    yield from (cirq.CCZ, cirq.CSWAP)
    yield cirq.PhasedXPowGate(phase_exponent=a, exponent=b, global_shift=0.1)
    yield cirq.PhasedXZGate(x_exponent=a, z_exponent=b, axis_phase_exponent=0.3)
    yield cirq.PhasedISwapPowGate(phase_exponent=0.2, exponent=a)
    yield from (cirq.FSimGate(a, 0.4), cirq.PhasedFSimGate(0.3, a, 0.5, b, 0.7), cirq.IdentityGate(2))
    yield cirq.MatrixGate(cirq.testing.random_unitary(4, random_state=3))
    yield from (cirq.DiagonalGate([0.1, a, 0.3, b]), cirq.ThreeQubitDiagonalGate([0.2 * i for i in range(8)]))
    yield cirq.DensePauliString("XIY", coefficient=-1)
    yield cirq.PauliStringPhasorGate(cirq.DensePauliString("XYZ", coefficient=-1), exponent_neg=a, exponent_pos=0.3)
    yield cirq.PauliInteractionGate(cirq.X, True, cirq.Y, False)
    yield from (cirq.QubitPermutationGate([1, 2, 0]), cirq.QuantumFourierTransformGate(3))
    yield cirq.inverse(cirq.QuantumFourierTransformGate(3, without_reverse=True))
    yield from (cirq.PhaseGradientGate(num_qubits=3, exponent=0.4), cirq.ParallelGate(cirq.Y**a, 3), cirq.WaitGate(cirq.Duration(nanos=1)))
    yield cirq.circuits.qasm_output.QasmUGate(0.2, 0.3, 1.4)
    yield cirq.ControlledGate(cirq.PhasedXZGate(x_exponent=a, z_exponent=0.2, axis_phase_exponent=0.3), 2, control_values=[0, (0, 1)])
    yield cirq.ControlledGate(cirq.X**a, control_values=cirq.SumOfProducts([(0, 1), (1, 0)]))
    yield cirq.ControlledGate(cirq.ControlledGate(cirq.MatrixGate(cirq.testing.random_unitary(2, random_state=4))))


def operations():
    for gate in gates(): yield [gate(*q[: cirq.num_qubits(gate)])]
    yield [cirq.GlobalPhaseGate(numpy.exp(0.4j))().controlled_by(q[0], q[1], control_values=[0, 1])]
    yield [cirq.PhasedFSimGate(0.3, a, 0.5, b, 0.7)(q[2], q[0]).controlled_by(q[1], control_values=[0])]
    yield [(cirq.X(q[0]) * cirq.Z(q[2]) * -1).controlled_by(q[1])]
    yield [cirq.PauliStringPhasor(cirq.X(q[0]) * cirq.Z(q[2]), exponent_neg=a).controlled_by(q[1])]
    yield [cirq.X(q[0]).with_tags("t"), cirq.Y(q[1]) ** (sympy.sqrt(x + 1) * sympy.pi), cirq.Z(q[0]) ** (odd**2 - sympy.E), cirq.X(q[0]) ** odd]
    inner = cirq.FrozenCircuit(cirq.X(q[0]) ** a, cirq.CNOT(q[0], q[1]), cirq.rz(b)(q[1]))
    outer = cirq.FrozenCircuit(
        cirq.CircuitOperation(inner, repetitions=2, qubit_map={q[0]: q[2]}, param_resolver={"a": b * 2}, use_repetition_ids=False),
        cirq.H(q[0]))
    for n in 1, 3, -2:
        yield [cirq.CircuitOperation(outer, repetitions=n, qubit_map={q[0]: q[1], q[1]: q[0]}, param_resolver={b: a + 0.1}, use_repetition_ids=False),
               cirq.CircuitOperation(inner, use_repetition_ids=False).controlled_by(q[2])]


def rows():
    for some in operations(): yield cirq.Circuit(cirq.IdentityGate(3)(*q), some), []
    grid = [cirq.GridQubit(1, 0), cirq.NamedQubit("q10"), cirq.NamedQubit("q9"), cirq.LineQubit(-4), cirq.GridQubit(0, 5), cirq.LineQubit(2)]
    circuit = cirq.Circuit([cirq.ry(0.2 + 0.3 * i)(k) for i, k in enumerate(grid)], cirq.CNOT(grid[0], grid[3]))
    yield circuit, [cirq.Z(grid[4]), 0.5 * cirq.X(grid[1]) * cirq.Y(grid[3]) - 2 * cirq.Z(grid[0]) + 0.25, cirq.PauliString(-1.5, cirq.X(grid[2]))]


def main():
    here = os.path.dirname(os.path.abspath(__file__))
    out = []
    for circuit, readouts in rows():
        text = cirq.to_json([circuit, *readouts] if readouts else circuit, indent=None)
        whole = circuit if readouts else START + circuit
        out.append({"circuit": json.loads(text), "state": numbers(state(whole)), "readouts": [value(o, circuit) for o in readouts]})
    write(os.path.join(here, "cirq.json"), {"values": VALUES, "start": numbers(state(START)), "rows": out})

    grid = cirq.GridQubit.rect(2, 2)
    kinds = [cirq.X, cirq.Y, cirq.Z, cirq.H, cirq.XX, cirq.YY, cirq.ZZ, cirq.CZ, cirq.CNOT, cirq.SWAP, cirq.ISWAP]
    circuits = [cirq.Circuit(cirq.ry(0.3 + i)(k) for i, k in enumerate(grid)) for _ in range(2)]
    for i, gate in enumerate(kinds):
        on = [grid[(i + k) % 4] for k in range(cirq.num_qubits(gate))]
        circuits[0].append((gate ** (0.25 * a))(*on))
        circuits[1].append(cirq.ControlledOperation([grid[(i + 2) % 4]], (gate**b)(*on), control_values=[i % 2]))
    circuits[0].append([
        cirq.PhasedXPowGate(phase_exponent=0.3 * a, exponent=b, global_shift=0.2)(grid[1]).controlled_by(grid[0], grid[3], control_values=[1, 0]),
        cirq.PhasedISwapPowGate(phase_exponent=0.1, exponent=a)(grid[0], grid[2]), cirq.FSimGate(a, 0.2)(grid[3], grid[1]), cirq.I(grid[0]),
        cirq.measure(grid[0])])
    circuits.append(cirq.Circuit(cirq.H(cirq.LineQubit(10)), cirq.rx(a)(cirq.LineQubit(9)), cirq.CNOT(cirq.GridQubit(-1, 2), cirq.LineQubit(9))))
    serialized = [t.numpy() for t in tfq.convert_to_tensor(circuits)]
    read = tfq.from_tensor(tfq.convert_to_tensor(circuits))
    programs = [{"program": s.hex(), "state": numbers(state(c)), "readouts": []} for s, c in zip(serialized, read)]

    prepend = cirq.Circuit(cirq.H.on_each(*grid))
    data = [cirq.Circuit(cirq.rx(0.5)(grid[1]), cirq.CNOT(grid[1], grid[2]), cirq.X(grid[0]) ** 0.25),
            cirq.Circuit(cirq.X(grid[0]) ** 0.25, cirq.rx(-1.5)(grid[1]), cirq.ZZ(grid[0], grid[3]) ** 0.75),
            cirq.Circuit(cirq.CNOT(grid[1], grid[2]), cirq.rx(0.125)(grid[1]), cirq.FSimGate(0.5, 0.25)(grid[2], grid[3])),
            cirq.Circuit(cirq.I(grid[0]))]
    readouts = [1.0 * cirq.Z(grid[3]), 0.5 * cirq.X(grid[0]) * cirq.Y(grid[2]) - cirq.Z(grid[1]) + 2]
    whole = tfq.from_tensor(tfq.convert_to_tensor([prepend + d + circuits[0] for d in data]))
    model = {"prepend": [prepend], "data": data, "circuit": [circuits[0]]}
    hexes = {k: [t.numpy().hex() for t in tfq.convert_to_tensor(v)] for k, v in model.items()}
    hexes["readouts"] = [t.numpy().hex() for t in tfq.convert_to_tensor(readouts)]
    write(os.path.join(here, "tfq.json"), {"values": VALUES, "rows": programs, "model": hexes,
                                           "expected": [[value(o, c) for o in readouts] for c in whole]})


def write(path, value):
    with open(path, "w", encoding="utf-8") as f:
        f.write("{\n")
        f.write(",\n".join(f'"{k}": [\n' + ",\n".join(json.dumps(r) for r in v) + "\n]" if k == "rows" else f'"{k}": {json.dumps(v)}'
                           for k, v in value.items()))
        f.write("\n}\n")


main()
