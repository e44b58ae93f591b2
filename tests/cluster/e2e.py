#!/usr/bin/python3
"""The cases of tests/cluster/e2e, on the node: e2e.py FOLDER MANIFESTS EPOCHS [CASE...].
Undisturbed runs are FOLDER/alone, FOLDER/half and FOLDER/short (a half and a quarter of its epochs)
and FOLDER/tutorial. Each case has its own namespace; QR_LANES of them run in parallel, except those
that need the node for themselves."""
import os
import sys
import threading
import traceback

import cases_job
import cases_kinds
import cases_kueue
import cases_python
import cases_tensorboard
from kube import until
from rings import Job, JobSet, StatefulSet, TFJob, TrainJob
from world import Stop, api, check, counts, enter, here, lock, log_line, outside, row, table

# The longest cases come first, so that no lane is idle at the end.
ORDER = ("chart", "job", "statefulset", "restarts", "jobset", "trainjob", "overlays", "tfjob", "ps", "namespace", "suspend", "tensorboard",
         "submit", "hybrid", "sweep", "evaluator", "runtime", "refused", "kueue", "lost")
EXCLUSIVE = ("kueue", "lost") # one has webhooks for every pod, one stops the kubelet
CASES = {name[5:]: case for module in (cases_job, cases_kinds, cases_kueue, cases_python, cases_tensorboard) for name, case in vars(module).items() if name.startswith("case_")}
done = {}


def clean_up():
    """Deletes what a case has left: Jobs first, because their finalizers delay the namespace's
    deletion."""
    for kind in (TFJob, TrainJob, JobSet, Job, StatefulSet):
        api.delete(api.path(*kind.kind, here.space), propagationPolicy="Background")
    api.delete("/api/v1/namespaces/" + here.space)


def run_case(name):
    here.rows = done[name] = []
    try:
        enter("e2e-" + name, "baseline" if name == "tfjob" else "restricted") # the tutorial's own manifest is not restricted
        CASES[name]()
    except Exception as e: # pylint: disable=broad-except
        check("%s aborted %s" % (name, "" if isinstance(e, Stop) else traceback.format_exc()), False)
    until(lambda: clean_up() or True, 20)
    for r in here.rows:
        log_line(row(r))


def lane(names):
    while True:
        with lock:
            name = names.pop(0) if names else None
        if not name:
            return
        run_case(name)


def main():
    names = sys.argv[4:] or list(ORDER)
    unknown = [n for n in names if n not in CASES]
    if unknown or sorted(ORDER) != sorted(CASES):
        print("unknown case: %s; known: %s" % (" ".join(unknown), " ".join(ORDER)))
        check("the cases are known", False)
        names = []
    shared = [n for n in names if n not in EXCLUSIVE]
    helpers = []
    try:
        helpers.append(outside())
        lanes = [threading.Thread(target=lane, args=(shared,)) for _ in range(int(os.environ.get("QR_LANES", "2")))]
        for t in lanes:
            t.start()
        for t in lanes:
            t.join()
        lane([n for n in names if n in EXCLUSIVE])
    except Stop:
        pass
    for p in helpers:
        p.terminate()
    table([r for name in names for r in done.get(name, [])])
    print("{passed} passed, {failed} failed, {skipped} skipped".format(**counts))
    return 1 if counts["failed"] else 0


sys.exit(main())
