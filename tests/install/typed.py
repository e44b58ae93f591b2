"""Tests completions: tests/install/typed.py PREFIX WORK.

Runs bash (with Debian's bash-completion), zsh and fish on terminals, in parallel, with the completions
installed under PREFIX. A case has the typed keys, with TAB, and the expected words of the program.
Prints "N passed, N failed, N skipped".
"""
import os
import pty
import re
import select
import shutil
import sys
import threading
import time

PREFIX, WORK = os.path.abspath(sys.argv[1]), os.path.abspath(sys.argv[2])
HOME = os.path.join(WORK, "home")
counts = {"passed": 0, "failed": 0, "skipped": 0}

# Files of the working directory.
FILES = ["jobs/tutorial.json", "jobs/notes.txt", "trained.h5", "only/", "two words/job.json", "plain"]

# Typed keys, and the expected words of the program.
CASES = [
    ("qring va\t", ["validate"]),
    ("qring comp\tf\t", ["completion", "fish"]),
    ("qring help gr\t", ["help", "gradient"]),
    ("qring help jo\tlearning_\t", ["help", "job", "learning_rate"]),
    ("qring help job strongly\t", ["help", "job", "strongly-entangling"]),
    ("qring --ver\t", ["--version"]),
    ("qring run jobs/\t", ["run", "jobs/tutorial.json"]),
    ("qring run job\t\t", ["run", "jobs/tutorial.json"]),
    ("qring run two\t\t", ["run", "two words/job.json"]),
    ("qring run --isa po\t", ["run", "--isa", "portable"]),
    ("qring run --isa=po\t", ["run", "--isa=portable"]),
    ("qring run --allreduce ha\t", ["run", "--allreduce", "halving"]),
    ("qring run --allr\tsta\t", ["run", "--allreduce", "star"]),
    ("qring run --log-f\tj\t", ["run", "--log-format", "json"]),
    ("qring run jobs/tutorial.json --fre\t", ["run", "jobs/tutorial.json", "--fresh"]),
    ("qring run --out onl\t", ["run", "--out", "only/"]),
    ("qring run --rest\t", ["run", "--restart"]),
    ("qring infer --weights tra\t", ["infer", "--weights", "trained.h5"]),
    ("qring pre\t", ["predict"]),
    ("qring predict --format js\t", ["predict", "--format", "jsonl"]),
    ("qring predict --weights trained.h5 --data pla\t", ["predict", "--weights", "trained.h5", "--data", "plain"]),
    ("qring evaluate --met\tauc", ["evaluate", "--metric", "auc"]),
    ("qring gradient --of pr\t", ["gradient", "--of", "prediction"]),
    ("qring weights tra\t", ["weights", "trained.h5"]),
    ("qring weights trained.h5 --jo\tjobs/\t", ["weights", "trained.h5", "--job", "jobs/tutorial.json"]),
    ("qring validate --price-per-c\t4", ["validate", "--price-per-cpu-hour", "4"]),
    ("qring certs --keep\t", ["certs", "--keep-ca"]),
    ("qringd --log-l\terr\t", ["--log-level", "error"]),
    ("qringd jobs/\t", ["jobs/tutorial.json"]),
    # no completion
    ("qring run --peer-t\t", ["run", "--peer-t"]),
    ("qring status pla\t", ["status", "pla"]),
    ("qring run --epochs pla\t", ["run", "--epochs", "pla"]),
    ("qring run --progress-f\t", ["run", "--progress-f"]),
]

SETUP = {
    "bash": "PS1='@@ '\nbind 'set enable-bracketed-paste off'\nbind 'set bell-style none'\n"
            ". /usr/share/bash-completion/bash_completion\n"
            "qring() { printf '[%s]' \"$@\"; echo .; }; qringd() { qring \"$@\"; }\n",
    "zsh": "PROMPT='@@ '\nunsetopt zle_bracketed_paste beep prompt_cr prompt_sp\nfpath=(\"$COMPLETIONS/zsh/site-functions\" $fpath)\n"
           "autoload -Uz compinit && compinit -u -d \"$HOME/zcompdump\"\nunset zle_bracketed_paste\n"
           "qring() { printf '[%s]' \"$@\"; echo .; }; qringd() { qring \"$@\"; }\n",
    "fish": "function fish_prompt; echo '@@ '; end\nfunction qring; printf '[%s]' $argv; echo .; end\n"
            "function qringd; qring $argv; end\nset -g fish_autosuggestion_enabled 0\nset -g fish_greeting\n",
}


def check(ok, what):
    counts["passed" if ok else "failed"] += 1
    if not ok:
        print("not so:", what, flush=True)


def plain(output):
    """Remove control sequences for the terminal: titles, modes, marks."""
    return re.sub(rb"\x1b(\][^\x07\x1b]*(\x07|\x1b\\)|\[[0-9;?=<>]*[A-Za-z]|[=>])", b"", output)


class Shell:
    """A shell on a new terminal."""

    def __init__(self, name):
        rc = os.path.join(HOME, name + "rc")
        with open(rc, "w", encoding="utf-8") as f:
            f.write(SETUP[name])
        if name == "zsh":
            shutil.copy(rc, os.path.join(HOME, ".zshrc"))
        argv = {"bash": ["bash", "--noprofile", "--rcfile", rc, "-i"], "zsh": ["zsh", "-d", "-i"],
                "fish": ["fish", "-C", "source " + rc, "-i"]}[name]
        env = {"PATH": PREFIX + "/bin:/usr/bin:/bin", "HOME": HOME, "TERM": "dumb", "LC_ALL": "C.UTF-8", "COLUMNS": "400",
               "COMPLETIONS": PREFIX + "/share", "XDG_DATA_DIRS": PREFIX + "/share:/usr/share", "ZDOTDIR": HOME}
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            os.chdir(os.path.join(WORK, "files"))
            os.execvpe(argv[0], argv, env)
        self.output = b""

    def until(self, pattern, seconds):
        """Return the output up to the pattern, or None after the timeout."""
        end = time.monotonic() + seconds
        while not re.search(pattern, self.output):
            ready = select.select([self.fd], [], [], max(0, end - time.monotonic()))[0]
            try:
                more = os.read(self.fd, 65536) if ready else b""
            except OSError:
                more = b""
            if not more:
                return None
            self.output = plain(self.output + more)
        output, self.output = self.output, b""
        return output

    def quiet(self, seconds):
        """Read until there is no output for the given time."""
        while select.select([self.fd], [], [], seconds)[0]:
            try:
                more = os.read(self.fd, 65536)
            except OSError:
                return
            if not more:
                return
            self.output = plain(self.output + more)

    def type(self, keys):
        for part in re.split("(\t)", keys):
            if part:
                os.write(self.fd, part.encode())
                self.quiet(1 if part == "\t" else 0.05)

    def close(self):
        os.close(self.fd)
        os.kill(self.pid, 9)
        os.waitpid(self.pid, 0)


def normalized(words):
    """Normalize: --flag=value is --flag value, and a slash at the end of a folder is ignored."""
    return [part.rstrip("/") for w in words for part in (w.split("=", 1) if w.startswith("--") else [w])]


def typed(name):
    shell = Shell(name)
    if shell.until(rb"@@ ", 60) is None:
        check(False, "%s starts: %r" % (name, shell.output[-300:]))
        shell.close()
        return
    shell.quiet(0.3)
    for keys, words in CASES:
        if name == "fish":  # fish offers job files first, and also other files
            keys = keys.replace("jobs/\t", "jobs/tu\t").replace("job\t\t", "job\ttu\t")
        shell.output = b""
        shell.type(keys)
        os.write(shell.fd, b"\n")
        output = shell.until(rb"\n\r?(\[[^]]*\])+\.", 30)
        got = re.findall(rb"\n\r?((?:\[[^]]*\])+)\.", output or b"")
        got = got[-1].decode(errors="replace")[1:-1].split("][") if got else []
        check(normalized(got) == normalized(words), "%s: %r gives %r, not %r: %r" % (name, keys, got, words, (output or shell.output)[-300:]))
        shell.quiet(0.1)
        if output is None:  # clear the line
            os.write(shell.fd, b"\x03")
            shell.quiet(0.2)
    shell.close()


def main():
    os.makedirs(HOME, exist_ok=True)
    for f in FILES:
        path = os.path.join(WORK, "files", f)
        os.makedirs(path if f.endswith("/") else os.path.dirname(path), exist_ok=True)
        if not f.endswith("/"):
            open(path, "w", encoding="utf-8").close()
    threads = []
    for name in ("bash", "zsh", "fish"):
        if shutil.which(name):
            threads.append(threading.Thread(target=typed, args=(name,)))
            threads[-1].start()
        else:
            counts["skipped"] += 1
            print("SKIP no %s: make deps" % name)
    for thread in threads:
        thread.join()
    print("{passed} passed, {failed} failed, {skipped} skipped".format(**counts))


main()
