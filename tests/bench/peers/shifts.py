"""Gradients by parameter shifts, for simulators of noisy circuits that return values only. The
derivative by the angle t of one gate e^(-i t P / 2) with P P = 1 is (f(t + pi/2) - f(t - pi/2)) /
2, with any noise after the gate: two executions for each gate with a weight."""
import collections
import math


class Shifts:
    def __init__(self, case, most=None):
        """most: maximum executions; then only derivatives by the weights that occur in the fewest
        gates are computed."""
        gates = [g for g in case.gates if g.weight is not None]
        occurrences = collections.Counter(g.weight for g in gates)
        self.case, self.weights, executions, self.whole = case, set(), 1, 1 + 2 * len(gates)
        for weight in sorted(occurrences, key=lambda w: (occurrences[w], w)):
            executions += 2 * occurrences[weight]
            if most is None or executions <= most:
                self.weights.add(weight)
        base = [g.scale * case.weights[g.weight] for g in gates]
        self.gates = [i for i, g in enumerate(gates) if g.weight in self.weights]
        self.of = [(gates[i].weight, gates[i].scale) for i in self.gates]
        # angles of all gates with a weight, for each execution: unshifted, then pairs shifted up
        # and down
        self.angles = [base] + [base[:i] + [base[i] + by] + base[i + 1:] for i in self.gates for by in (math.pi / 2, -math.pi / 2)]

    @property
    def executions(self):
        """[executions per sample, executions of a whole gradient]"""
        return [len(self.angles), self.whole]

    def loss_and_gradient(self, results):
        """results: each sample's values of the observable, one per execution. A derivative is None
        for a weight that was not shifted."""
        rows = [self.case.by_weight([(up - down) / 2 for up, down in zip(r[1::2], r[2::2])], self.of) for r in results]
        loss, gradient = self.case.loss_and_gradient([r[0] for r in results], rows)
        return loss, [d if weight in self.weights else None for weight, d in enumerate(gradient)]
