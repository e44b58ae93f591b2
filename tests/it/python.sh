#!/bin/sh
# The Python package: all tests but those of python_jobs.sh, and of frameworks, which make python
# and make interop-qasm run.
. "$(dirname "$0")/common"
. "$(dirname "$0")/pytest"
run_pytest 550 --ignore=tests/test_torch.py --ignore=tests/test_qiskit.py --ignore=tests/test_cirq.py --ignore=tests/test_jax.py --ignore=tests/test_keras.py --ignore-glob='tests/test_pennylane*' \
    --ignore=tests/test_frameworks_page.py --ignore-glob='tests/test_hybrid*' --ignore=tests/test_job.py --ignore=tests/test_kubernetes.py
end
