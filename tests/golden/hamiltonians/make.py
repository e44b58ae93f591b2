#!/usr/bin/env python3
"""Makes the files beside it: one operator as OpenFermion and PennyLane write it, in their text and as JSON of their data, and what it is.

    pip install openfermion==1.8.1 pennylane==0.45.1; python tests/golden/hamiltonians/make.py

h2-*: the hydrogen molecule at 0.7414 angstrom, STO-3G, Jordan-Wigner, made by PennyLane's own Hartree-Fock; odd-*: terms with wide numbers, a complex
coefficient without an imaginary part, the identity. values.json: each one's terms and, by NumPy's dense diagonalisation, its lowest energy; and the
largest cut of Petersen's graph, by trying all. deploy/jobs/examples/h2.txt has h2's terms, plain."""
import itertools
import json
import os

import numpy
import openfermion
import pennylane as qml
from openfermion.utils import save_operator
from pennylane import numpy as pnp

here = os.path.dirname(os.path.abspath(__file__))


def write(name, text):
    with open(os.path.join(here, name), "w") as f:
        f.write(text)


def words(pauli_word):
    return " ".join(f"{p}{w}" for w, p in sorted(pauli_word.items()))


def all_forms(name, h, n):
    ops = qml.to_openfermion(h)
    write(f"{name}-pennylane.txt", str(h) + "\n")
    write(f"{name}-sentence.txt", str(h.pauli_rep) + "\n")
    save_operator(ops, f"{name}-openfermion.txt", here, allow_overwrite=True, plain_text=True)
    os.replace(os.path.join(here, f"{name}-openfermion.txt.data"), os.path.join(here, f"{name}-openfermion.txt"))
    write(f"{name}-terms.json", json.dumps([[word, complex(c).real] for word, c in ops.terms.items()]) + "\n")
    coeffs, each = h.terms()
    write(f"{name}-ops.json", json.dumps({"coeffs": [float(c) for c in coeffs], "ops": [str(o) for o in each]}) + "\n")
    write(f"{name}-members.json", json.dumps({words(word): float(c.real) for word, c in h.pauli_rep.items()}) + "\n")
    write(f"{name}-plain.txt", "# a coefficient and Paulis a line\n" + "".join(f"{float(c.real)!r} {words(word)}".rstrip() + "\n" for word, c in h.pauli_rep.items()))
    lowest = numpy.linalg.eigvalsh(qml.matrix(h, wire_order=range(n)))[0]
    return {"name": name, "qubits": n, "terms": [[words(word), float(c.real)] for word, c in h.pauli_rep.items()], "lowest": float(lowest)}


h2, n = qml.qchem.molecular_hamiltonian(qml.qchem.Molecule(["H", "H"], pnp.array([[0, 0, 0], [0, 0, 0.7414]], requires_grad=False), unit="angstrom"))
odd = qml.Hamiltonian([1e-07, -2.5, 0.1 + 0.2, 3.0, -1e22], [qml.X(0) @ qml.Y(11), qml.I(3), qml.Z(2), qml.Y(1), qml.Z(0) @ qml.Z(1) @ qml.X(2)])
edges = [(i, (i + 1) % 5) for i in range(5)] + [(i, i + 5) for i in range(5)] + [(5 + i, 5 + (i + 2) % 5) for i in range(5)]
cut = max(sum(s[a] != s[b] for a, b in edges) for s in itertools.product((0, 1), repeat=10))
values = {"operators": [all_forms("h2", h2, n), all_forms("odd", odd, 12)], "petersen": {"edges": edges, "largest_cut": cut}}
write("values.json", json.dumps(values, indent=1) + "\n")
