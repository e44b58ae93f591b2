"""Tests completions: tests/install/typed.py PREFIX WORK. bash (with Debian's bash-completion), zsh
and fish run on terminals, in parallel, with the completions installed under PREFIX; a case is the
keys typed, with TAB, and the words that the program must get. Prints "N passed, N failed, N skipped"."""
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

# Keys typed, and the words that the program must get.
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
    # what is not there is not offered
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


def plain(said):
    """Without what a shell tells a terminal: its title, modes, marks."""
    return re.sub(rb"\x1b(\][^\x07\x1b]*(\x07|\x1b\\)|\[[0-9;?=<>]*[A-Za-z]|[=>])", b"", said)


class Shell:
    """A shell on a terminal of its own."""

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
        self.said = b""

    def until(self, pattern, seconds):
        """What it says up to the pattern; None where that does not come."""
        end = time.monotonic() + seconds
        while not re.search(pattern, self.said):
            ready = select.select([self.fd], [], [], max(0, end - time.monotonic()))[0]
            try:
                more = os.read(self.fd, 65536) if ready else b""
            except OSError:
                more = b""
            if not more:
                return None
            self.said = plain(self.said + more)
        said, self.said = self.said, b""
        return said

    def quiet(self, seconds):
        """Reads until it has said nothing for so long."""
        while select.select([self.fd], [], [], seconds)[0]:
            try:
                more = os.read(self.fd, 65536)
            except OSError:
                return
            if not more:
                return
            self.said = plain(self.said + more)

    def type(self, keys):
        for part in re.split("(\t)", keys):
            if part:
                os.write(self.fd, part.encode())
                self.quiet(1 if part == "\t" else 0.05)

    def close(self):
        os.close(self.fd)
        os.kill(self.pid, 9)
        os.waitpid(self.pid, 0)


def alike(words):
    """--flag=value is --flag value, a folder has its name with or without a slash at the end."""
    return [part.rstrip("/") for w in words for part in (w.split("=", 1) if w.startswith("--") else [w])]


def typed(name):
    shell = Shell(name)
    if shell.until(rb"@@ ", 60) is None:
        check(False, "%s comes up: %r" % (name, shell.said[-300:]))
        shell.close()
        return
    shell.quiet(0.3)
    for keys, words in CASES:
        if name == "fish":  # it shows job files before other files, and shows these too
            keys = keys.replace("jobs/\t", "jobs/tu\t").replace("job\t\t", "job\ttu\t")
        shell.said = b""
        shell.type(keys)
        os.write(shell.fd, b"\n")
        said = shell.until(rb"\n\r?(\[[^]]*\])+\.", 30)
        got = re.findall(rb"\n\r?((?:\[[^]]*\])+)\.", said or b"")
        got = got[-1].decode(errors="replace")[1:-1].split("][") if got else []
        check(alike(got) == alike(words), "%s: %r gives %r, not %r: %r" % (name, keys, got, words, (said or shell.said)[-300:]))
        shell.quiet(0.1)
        if said is None:  # what is on its line goes
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
    at_once = []
    for name in ("bash", "zsh", "fish"):
        if shutil.which(name):
            at_once.append(threading.Thread(target=typed, args=(name,)))
            at_once[-1].start()
        else:
            counts["skipped"] += 1
            print("SKIP no %s: make deps" % name)
    for thread in at_once:
        thread.join()
    print("{passed} passed, {failed} failed, {skipped} skipped".format(**counts))


main()
