"""PennyLane's default.mixed: density matrices, float64, derivatives by autograd through all
operations."""
import pennylane as qml
from pennylane import numpy as np

from cases import Case, hold_the_state
from lightning_gradient import GATES, observable_of
from talk import serve


def open_case(folder):
    case = Case(folder)
    hold_the_state(case, 12)

    @qml.qnode(qml.device("default.mixed", wires=case.n), interface="autograd", diff_method="backprop")
    def value(weights, x):
        for g in case.gates:
            angle = [] if g.weight is None and g.column is None else [g.scale * (x[g.column] if g.weight is None else weights[g.weight])]
            GATES[g.name](*angle, wires=g.qubits)
            for q in g.qubits:
                qml.DepolarizingChannel(case.noise, wires=q)
        return qml.expval(observable_of(case))

    weights, derivative = np.array(case.weights, requires_grad=True), qml.grad(value, argnums=0)

    def once():
        rows, values = [], []
        for x in case.x:
            rows.append(derivative(weights, x))
            values.append(derivative.forward)
        return lambda: case.loss_and_gradient(values, rows)

    return once


serve(open_case)
