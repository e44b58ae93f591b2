"""Protocol of the measured processes: requests and JSON replies, one per line. serve(): the
measured process, in Python (gradient.c is another one). Peer: the client. Measured processes are
pinned, and compute only during a request, so that all have the same conditions."""
import json
import os
import selectors
import subprocess
import sys
import time

from cases import Cannot

THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "TF_NUM_INTRAOP_THREADS", "TF_NUM_INTEROP_THREADS")
REPLY_S = 300  # some programs compile for minutes; one gradient of TFQ at 23 qubits takes 40 s on an idle machine


def serve(open_case):
    """open_case(path) returns a function without arguments that computes one gradient of the batch.
    It returns a function that converts the result to (mean loss, gradient), which is not timed. If
    it has `executions`, [run, of a whole gradient], times are scaled to a whole gradient;
    derivatives that it does not compute are None."""
    out = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # libraries' output goes to stderr
    once = last = executions = None
    for line in sys.stdin:
        word, _, argument = line.strip().partition(" ")
        if word == "open":
            start = time.perf_counter_ns()
            try:
                once = open_case(argument)
                last = once()
                reply = {"open_ns": time.perf_counter_ns() - start}
                executions = getattr(once, "executions", None)
                if executions:
                    reply["executions"] = executions
            except Cannot as e:
                reply = {"cannot": str(e)}
        elif word == "run":
            cpu, start, count = time.process_time_ns(), time.perf_counter_ns(), 0
            while True:
                last = once()
                count += 1
                took = time.perf_counter_ns() - start
                if took >= int(argument) * 1000000:
                    break
            scale = executions[1] / executions[0] if executions else 1
            reply = {"ns": took / count * scale, "cpu_ns": (time.process_time_ns() - cpu) / count * scale}
        elif word == "result":
            loss, gradient = last()
            reply = {"loss": float(loss), "gradient": [None if g is None else float(g) for g in gradient]}
        else:
            raise SystemExit("unknown request " + word)
        out.write(json.dumps(reply) + "\n")
        out.flush()


class Failed(Exception):
    pass


class Peer:
    def __init__(self, who, command, cores, log, env=None):
        self.who, self.threads, self.log = who, len(cores), log
        environment = dict(os.environ, **{name: str(len(cores)) for name in THREADS}, **(env or {}))
        if len(cores) == 1:
            environment["XLA_FLAGS"] = "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1"
        with open(log, "w") as err:
            self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=err, text=True, env=environment,
                                            preexec_fn=lambda: os.sched_setaffinity(0, cores))

    def ask(self, request):
        try:
            self.process.stdin.write(request + "\n")
            self.process.stdin.flush()
            with selectors.DefaultSelector() as waiting:
                waiting.register(self.process.stdout, selectors.EVENT_READ)
                if not waiting.select(REPLY_S):
                    self.process.kill()
                    self.stop()
                    raise Cannot("no answer in %d s" % REPLY_S)
                line = self.process.stdout.readline()
        except BrokenPipeError:
            line = ""
        if line:
            reply = json.loads(line)
            if "cannot" in reply:
                raise Cannot(reply["cannot"])
            return reply
        self.stop()
        with open(self.log) as f:
            log = f.read().strip().splitlines()
        # Only the last line, the error: earlier lines contain paths of this machine.
        raise Failed("%s with %d thread(s) exited at '%s': %s" % (self.who, self.threads, request.split()[0], log[-1][-400:] if log else ""))

    def alive(self):
        return self.process.poll() is None

    def stop(self):
        try:
            self.process.stdin.close()
        except BrokenPipeError:  # the process exited before it read the request
            pass
        try:
            self.process.wait(20)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
