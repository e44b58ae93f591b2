#!/bin/sh
# The Python package: jobs and hybrid jobs, on this machine and as objects of a cluster.
. "$(dirname "$0")/common"
. "$(dirname "$0")/pytest"
run_pytest 170 tests/test_job.py tests/test_kubernetes.py tests/test_hybrid.py tests/test_hybrid_cluster.py
end
