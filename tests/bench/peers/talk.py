"""Requests and JSON replies, one per line. serve(): the computing process, in Python (gradient.c
is another one). Peer: the requesting process; computing processes are pinned, and only work while
they have a request, so that all run on the same machine state."""
import json
import os
import selectors
import subprocess
import sys
import time

from cases import Cannot

THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "TF_NUM_INTRAOP_THREADS", "TF_NUM_INTEROP_THREADS")
ANSWER_S = 300  # compiling takes some of them minutes; one gradient of TFQ at 23 qubits takes 40 s when nothing else runs


def serve(open_case):
    """open_case(path) returns a function of no arguments that computes one gradient of the batch and returns (mean loss, its gradient)
    as a function to be called later, so that only the computing is timed. If it has `executions`, [run, of a whole gradient], times are
    scaled to a whole gradient; derivatives that it does not compute are None."""
    out = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what libraries print goes to stderr
    once = last = executions = None
    for line in sys.stdin:
        word, _, argument = line.strip().partition(" ")
        if word == "open":
            start = time.perf_counter_ns()
            try:
                once = open_case(argument)
                last = once()
                answer = {"open_ns": time.perf_counter_ns() - start}
                executions = getattr(once, "executions", None)
                if executions:
                    answer["executions"] = executions
            except Cannot as e:
                answer = {"cannot": str(e)}
        elif word == "run":
            cpu, start, count = time.process_time_ns(), time.perf_counter_ns(), 0
            while True:
                last = once()
                count += 1
                took = time.perf_counter_ns() - start
                if took >= int(argument) * 1000000:
                    break
            scale = executions[1] / executions[0] if executions else 1
            answer = {"ns": took / count * scale, "cpu_ns": (time.process_time_ns() - cpu) / count * scale}
        elif word == "result":
            loss, gradient = last()
            answer = {"loss": float(loss), "gradient": [None if g is None else float(g) for g in gradient]}
        else:
            raise SystemExit("unknown request " + word)
        out.write(json.dumps(answer) + "\n")
        out.flush()


class Failed(Exception):
    pass


class Peer:
    def __init__(self, who, command, cores, log, env=None):
        self.who, self.threads, self.log = who, len(cores), log
        everything = dict(os.environ, **{name: str(len(cores)) for name in THREADS}, **(env or {}))
        if len(cores) == 1:
            everything["XLA_FLAGS"] = "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1"
        with open(log, "w") as err:
            self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=err, text=True, env=everything,
                                            preexec_fn=lambda: os.sched_setaffinity(0, cores))

    def ask(self, request):
        try:
            self.process.stdin.write(request + "\n")
            self.process.stdin.flush()
            with selectors.DefaultSelector() as waiting:
                waiting.register(self.process.stdout, selectors.EVENT_READ)
                if not waiting.select(ANSWER_S):
                    self.process.kill()
                    self.stop()
                    raise Cannot("no answer in %d s" % ANSWER_S)
                line = self.process.stdout.readline()
        except BrokenPipeError:
            line = ""
        if line:
            answer = json.loads(line)
            if "cannot" in answer:
                raise Cannot(answer["cannot"])
            return answer
        self.stop()
        with open(self.log) as f:
            said = f.read().strip().splitlines()
        # the last line is the error; those before name this machine's folders
        raise Failed("%s with %d thread(s) ended at '%s': %s" % (self.who, self.threads, request.split()[0], said[-1][-400:] if said else ""))

    def alive(self):
        return self.process.poll() is None

    def stop(self):
        try:
            self.process.stdin.close()
        except BrokenPipeError:  # it ended before it read what was asked
            pass
        try:
            self.process.wait(20)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
