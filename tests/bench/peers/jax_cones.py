"""The cost of a graph by light cones: an edge's Z Z depends only on gates near the edge, a small
circuit. Edges with isomorphic cones have the same value, which is computed once."""
import types

import networkx

import jax_state


def cone_of(layers, qubits):
    """(qubits, gates by layer) of the light cone of a product of Z on these qubits. From the last
    layer backwards, gates that touch no qubit of the cone cancel."""
    seen, out = set(qubits), []
    for _, gates in reversed(layers):
        kept = [g for g in gates if seen & set(g.qubits)]
        out.insert(0, kept)
        seen |= {q for g in kept for q in g.qubits}
    return sorted(seen), out


def cone_graph(qubits, seen, layers):
    """The cone as a graph, labelled with the gates of each qubit and pair by layer, and with the
    qubits that are read out"""
    graph = networkx.Graph()
    for q in seen:
        graph.add_node(q, label=repr([q in qubits] + [[g[2:] + (g.name,) for g in gates if g.qubits == (q,)] for gates in layers]))
    for pair in {tuple(sorted(g.qubits)) for gates in layers for g in gates if len(g.qubits) == 2}:
        graph.add_edge(*pair, label=repr([[g[2:] + (g.name,) for g in gates if tuple(sorted(g.qubits)) == pair] for gates in layers]))
    return graph


def classes_of(case):
    """[(small case, sum of the coefficients of all terms with an isomorphic cone)]"""
    found, layers = {}, jax_state.layers_of(case.gates)
    same = networkx.algorithms.isomorphism.categorical_node_match("label", ""), networkx.algorithms.isomorphism.categorical_edge_match("label", "")
    for coefficient, qubits in case.observable:
        seen, cone = cone_of(layers, qubits)
        graph = cone_graph(qubits, seen, cone)
        alike = found.setdefault(networkx.weisfeiler_lehman_graph_hash(graph, edge_attr="label", node_attr="label"), [])
        for other in alike:
            if networkx.is_isomorphic(graph, other[0], *same):
                other[2] += coefficient
                break
        else:
            gates = [g._replace(qubits=tuple(seen.index(q) for q in g.qubits)) for part in cone for g in part]
            observable = [(1.0, tuple(seen.index(q) for q in qubits))]
            alike.append([graph, types.SimpleNamespace(n=len(seen), gates=gates, observable=observable), coefficient])
    return [(local, coefficient) for alike in found.values() for _, local, coefficient in alike]


def value_of(classes):
    values = [(jax_state.layered(local, False), coefficient) for local, coefficient in classes]

    def value(weights, x):  # without inputs all samples have the same value
        return sum(c * v(weights, x[0]) for v, c in values) + 0 * x[:, 0]

    return value
