"""qring.hybrid_job on this machine."""

from __future__ import annotations

import contextlib
import io
import json
import os
import pickle
import shutil
import signal
import subprocess
import sys
import tarfile
import time
import zipfile
from pathlib import Path

import numpy as np
import pytest

import qring
from qring import _hybrid_files, hybrid

pytest.importorskip("cloudpickle")

ROOT = Path(__file__).parents[3]
QRING = os.environ.get("QRING") or str(ROOT / "build" / "bin" / "qring")
PACKAGE = Path(qring.__file__).parents[1]
SECONDS = 60.0


@pytest.fixture(autouse=True)
def _folder(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)


def local(**keys):
    return qring.hybrid_job(local=True, **keys)


def helper(x):
    return 2 * x


def wait_for(reached):
    end = time.monotonic() + SECONDS
    while not reached():
        assert time.monotonic() < end
        time.sleep(0.02)


# ---- values ----


def test_value_hyperparameters_log_and_working_folder(tmp_path):
    @local()
    def train(n, *rest, rate=0.1, **more):
        print("printed", n)
        print("warned", file=sys.stderr)
        return {"x": np.full(helper(n), rate), "rest": rest, "more": more, "cwd": os.getcwd()}

    job = train(2, 7, 8, label="é" * 3000)
    assert job.name.startswith("train-")
    value = job.result(SECONDS)
    assert job.state() == "succeeded"
    np.testing.assert_array_equal(value["x"], [0.1] * 4)
    assert value["rest"] == (7, 8)
    assert value["more"] == {"label": "é" * 3000}
    assert value["cwd"] == str(tmp_path / "out" / job.name / "out" / "work")
    assert sorted(job.logs().splitlines()) == ["printed 2", "warned"]
    assert len(job.logs(lines=1).splitlines()) == 1
    found = job.hyperparameters
    label = found.pop("label")
    assert found == {"n": "2", "rest": "(7, 8)", "rate": "0.1"}
    assert len(label) == 2500
    assert label.endswith("é ...")


def test_two_jobs_at_once_wait_and_no_zombie():
    @local()
    def meet(own, other):
        Path(own).touch()
        end = time.monotonic() + 30
        while not Path(other).exists() and time.monotonic() < end:
            time.sleep(0.01)
        return Path(other).exists()

    a, b = (str(Path(name).absolute()) for name in "ab")
    jobs = [meet(a, b), meet(b, a)]
    assert jobs[0].name != jobs[1].name
    assert [job.result(SECONDS) for job in jobs] == [True, True]

    @local(wait=True)
    def quick():
        return 1

    assert quick().state() == "succeeded"
    children = subprocess.run(
        ["ps", "-o", "stat=", "--ppid", str(os.getpid())], capture_output=True, text=True
    ).stdout
    assert "Z" not in children


def test_from_a_script_that_ends_first(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(
        "import time, qring\n"
        "from pathlib import Path\n"
        "class Point:\n"
        "    def __init__(self, x): self.x = x\n"
        "def scale(p): return Point(3 * p.x)\n"
        "@qring.hybrid_job('mine', local=True)\n"
        "def main(p):\n"
        f"    end = time.monotonic() + {SECONDS}\n"
        f"    while not Path({str(tmp_path / 'go')!r}).exists() and time.monotonic() < end:\n"
        "        time.sleep(0.01)\n"
        "    return scale(p).x\n"
        "job = main(Point(2))\n"
        "print(job.name, job.state(), job.folder)\n"
    )
    environment = {**os.environ, "PYTHONPATH": str(PACKAGE)}
    out = subprocess.check_output(
        [sys.executable, str(script)], env=environment, text=True, timeout=SECONDS
    )
    name, state, folder = out.split()
    assert (name, state) == ("mine", "running")
    job = qring.attach(folder, local=True)
    assert job.name == "mine"
    assert job.state() == "running"
    (tmp_path / "go").touch()
    assert job.result(SECONDS) == 6
    assert qring.attach(Path("out/mine"), local=True).hyperparameters.keys() == {"p"}
    with pytest.raises(qring.QringError, match="cannot find a hybrid job") as caught:
        qring.attach("out", local=True)
    assert caught.value.code == qring.Code.NOT_FOUND


def test_relative_paths_in_the_environment(tmp_path, monkeypatch):
    (tmp_path / "mods").mkdir()
    (tmp_path / "mods" / "mod_d.py").write_text("d = 4\n")
    monkeypatch.setenv("PYTHONPATH", "mods")
    monkeypatch.setenv("QRING", "./bin/qring")
    # Executed text has no module that could be sent.
    names = {"qring": qring}
    exec(
        "@qring.hybrid_job(local=True)\n"
        "def use():\n"
        "    import os, mod_d\n"
        "    return name(), mod_d.d, os.environ['QRING']\n"
        "def name(): return 'n'\n",
        names,
    )
    assert names["use"]().result(SECONDS) == ("n", 4, str(tmp_path / "bin" / "qring"))


@pytest.mark.skipif(shutil.which(QRING) is None, reason="the program qring is not built")
def test_run_inside(monkeypatch):
    monkeypatch.setenv("QRING", QRING)
    circuit = qring.Circuit(2).ry(qring.Input("x0"), 0).ry("w0", 1).cnot(0, 1)
    layer = {"layer": "quantum", "circuit": circuit, "readouts": ["Z1"]}
    keys = qring.Job(name="in", seed=1, model=[layer], train={"epochs": 2, "loss": "mse"})
    x = np.linspace(-1, 1, 16)[:, None]

    @local()
    def train(job):
        result = qring.run(job, data=(x, np.sign(x[:, 0])), out=qring.results_dir() / "run")
        for step, loss in zip(result.history["step"], result.history["loss"]):
            qring.log_metric("loss", loss, step)
        return result.digest

    job = train(keys)
    expected = qring.run(keys, data=(x, np.sign(x[:, 0])), progress=False)
    assert job.result(SECONDS) == expected.digest
    np.testing.assert_array_equal(job.metrics()["loss"], expected.history["loss"])
    assert qring.load(job.results() / "run").digest == expected.digest


# ---- data ----


def test_channels(tmp_path):
    (tmp_path / "a.csv").write_text("1\n")
    (tmp_path / "folder" / "deep").mkdir(parents=True)
    (tmp_path / "folder" / "deep" / "b.txt").write_text("two")

    def read():
        names = {}
        for channel in ("table", "texts"):
            folder = qring.input_dir(channel)
            for path in folder.rglob("*.*"):
                names[str(path.relative_to(folder))] = path.read_text()
        try:
            qring.input_dir("other")
        except qring.QringError as error:
            return names, str(error)

    both = {"table": "a.csv", "texts": tmp_path / "folder"}
    names, error = local(input_data=both)(read)().result(SECONDS)
    assert names == {"a.csv": "1\n", "deep/b.txt": "two"}
    assert error.startswith("cannot read the channel 'other': the job has table, texts;")

    # Its folder is below that of the data.
    @local(input_data=".")
    def here():
        return sorted(os.listdir(qring.input_dir()))

    assert here().result(SECONDS) == ["a.csv", "folder"]


def test_metrics_and_curve():
    @local()
    def log():
        qring.log_metric("loss", 3)
        for step in (0, 1, 4):
            qring.log_metric("loss", np.float32(0.5) ** step, np.int64(step))
        qring.log_metric("accuracy", 1.0, 4)
        qring.log_metric("val_loss", 9.0, 4)
        with open("../metrics.jsonl", "a") as file:
            file.write('{"name": "lo')  # of a process that was killed
        qring.log_metric("loss", 0.25, 5)

    before = time.time()
    job = log()
    job.result(SECONDS)
    found = job.metrics()
    assert found["step"].tolist() == [0, 1, 4, 5]
    assert found["loss"].tolist() == [1, 0.5, 0.0625, 0.25]
    np.testing.assert_array_equal(found["accuracy"], [np.nan, np.nan, 1, np.nan])
    assert found["val_loss"].tolist() == [9]
    assert found["val_step"].tolist() == [4]
    assert before <= found["time"].min() <= found["time"].max() <= time.time()
    text = job._repr_html_()
    assert text.count("<polyline") == 1
    assert "val_loss" in text
    pandas = pytest.importorskip("pandas")
    assert isinstance(found.to_pandas(), pandas.DataFrame)
    assert found.to_pandas().loc[4, "val_loss"] == 9


def test_results_are_packed():
    @local()
    def keep():
        (qring.results_dir() / "sub").mkdir()
        (qring.results_dir() / "sub" / "w.txt").write_text("w")
        raise SystemExit(3)

    job = keep()
    with pytest.raises(qring.HybridJobError, match="SystemExit: 3"):
        job.result(SECONDS)
    folder = job.results("here")
    assert folder == Path("here")
    assert (folder / "sub" / "w.txt").read_text() == "w"

    @local()
    def remove():
        (qring.results_dir() / "link").symlink_to("nowhere")

    with pytest.raises(qring.HybridJobError, match="cannot pack the results"):
        remove().result(SECONDS)


def archive_of(name, kind=tarfile.REGTYPE, mode=0o644):
    member = tarfile.TarInfo(name)
    member.type, member.mode, member.size, member.linkname = kind, mode, 1, "/etc/passwd"
    if kind != tarfile.REGTYPE:
        member.size = 0
    target = io.BytesIO()
    with tarfile.open(fileobj=target, mode="w:gz") as archive:
        archive.addfile(member, io.BytesIO(b"x"))
    return target.getvalue()


@pytest.mark.parametrize("filters", [True, False])
def test_archives_stay_in_their_folder(filters, tmp_path, monkeypatch):
    if not filters:
        # As in Python 3.9 to 3.11.3.
        monkeypatch.delattr(tarfile, "data_filter", raising=False)
    folder = tmp_path / "a" / "b"
    outside = tmp_path / "outside"
    for data in (
        archive_of("../outside"),
        archive_of("a/../../outside"),
        archive_of("a", tarfile.SYMTYPE),
        archive_of("a", tarfile.FIFOTYPE),
        archive_of("a", tarfile.CHRTYPE),
        archive_of("a")[:20],
        b"x",
    ):
        with pytest.raises(qring.QringError, match="cannot unpack the archive") as caught:
            _hybrid_files.unpack(data, folder)
        assert caught.value.code == qring.Code.DATA_LOSS
    # The filters of Python drop the leading "/".
    with contextlib.suppress(qring.QringError):
        _hybrid_files.unpack(archive_of(str(outside)), folder)
    assert not outside.exists()
    _hybrid_files.unpack(archive_of("sub/file", mode=0o6755), folder)
    assert (folder / "sub" / "file").read_bytes() == b"x"
    assert (folder / "sub" / "file").stat().st_mode & 0o6000 == 0


# ---- checkpoints ----


def test_checkpoints_and_copies():
    data = {"w": np.arange(3.0), 1: (2, "x"), "nested": [{"a": None}]}

    @local(name="first")
    def first():
        before = qring.load_checkpoint()
        qring.save_checkpoint("old", "b-1")
        qring.save_checkpoint(data)
        qring.save_checkpoint("new", "b-1")
        return before

    one = first()
    assert one.result(SECONDS) is None
    saved = one.checkpoints()
    assert saved.keys() == {"checkpoint", "b-1"}
    assert saved["b-1"] == "new"
    np.testing.assert_array_equal(saved["checkpoint"].pop("w"), data["w"])
    assert saved["checkpoint"] == {1: (2, "x"), "nested": [{"a": None}]}

    def second():
        found = qring.load_checkpoint(), qring.load_checkpoint("b-1")
        qring.save_checkpoint("own", "b-1")
        return found, qring.load_checkpoint("b-1"), qring.load_checkpoint("none")

    two = local(copy_checkpoints_from=one)(second)()
    (copied, text), own, none = two.result(SECONDS)
    assert copied[1] == (2, "x")
    assert (text, own, none) == ("new", "own", None)
    three = local(copy_checkpoints_from="out/" + two.name)(second)()
    (copied, text), _, _ = three.result(SECONDS)
    assert copied[1] == (2, "x")
    assert text == "own"


def test_checkpoint_is_never_there_in_part(tmp_path, monkeypatch):
    folders = hybrid.files.Folders(tmp_path / "code", tmp_path / "input", tmp_path)
    monkeypatch.setattr(_hybrid_files, "_current", folders)
    qring.save_checkpoint(1)
    monkeypatch.setattr(os, "fsync", lambda file: (_ for _ in ()).throw(OSError("full")))
    with pytest.raises(OSError, match="full"):
        qring.save_checkpoint(2)
    assert qring.load_checkpoint() == 1
    with pytest.raises(TypeError, match="cannot save the checkpoint 'x'"):
        qring.save_checkpoint((i for i in ()), "x")


# ---- ends ----


def test_traceback():
    def inner(x):
        raise KeyError(x)

    @local()
    def outer():
        inner("lost")

    job = outer()
    with pytest.raises(qring.HybridJobError) as caught:
        job.result(SECONDS)
    error = pickle.loads(pickle.dumps(caught.value))
    assert job.state() == "failed"
    assert str(error).startswith(f"{job.name} failed: KeyError: 'lost'\n\nTraceback")
    assert "in outer" in error.traceback
    assert "in inner" in error.traceback
    assert "_hybrid_runner" not in error.traceback
    assert job.logs() == error.traceback.strip()


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGSEGV])
def test_killed_and_resumed(number):
    @local()
    def count():
        steps = qring.load_checkpoint() or 0
        for step in range(steps, 4):
            qring.log_metric("loss", step, step)
            qring.save_checkpoint(step + 1)
            if step == 1 and steps == 0:
                os.kill(os.getpid(), number)
                time.sleep(60)
        return steps

    job = count()
    assert job.wait(SECONDS) == "failed"
    assert job.checkpoints() == {"checkpoint": 2}
    name = "exit code 143" if number == signal.SIGTERM else rf"by signal {number:d} \("
    with pytest.raises(qring.HybridJobError, match=name) as caught:
        job.result()
    assert caught.value.code == qring.Code.ABORTED
    job.resume()
    assert job.result(SECONDS) == 2
    assert job.metrics()["step"].tolist() == [0, 1, 2, 3]
    # A finished job is not computed again.
    (job.folder / "code" / "call.pickle").unlink()
    job.resume()
    wait_for(lambda: not job._backend._running())
    assert job.result() == 2


def test_what_a_killed_job_has_started_ends_too():
    @local()
    def leave():
        if os.fork() == 0:
            time.sleep(600)
        os._exit(3)

    with pytest.raises(qring.HybridJobError, match="its process ended with exit code 3"):
        leave().result(SECONDS)


def test_a_start_that_takes_too_long(monkeypatch):
    monkeypatch.setattr("qring._hybrid_local._START_SECONDS", 0.0)

    @local(out="slow")
    def one():
        return 1

    with pytest.raises(qring.QringError, match=r"cannot start slow: .* did not start in 0 s"):
        one()
    assert not Path("slow").exists()


def test_all_processes_killed_and_machine_restarted():
    @local()
    def sleep():
        print("started")
        time.sleep(60)

    job = sleep()
    wait_for(lambda: "started" in job.logs())
    with pytest.raises(qring.QringError, match="it runs already"):
        job.resume()
    os.killpg(int((job.folder / "group").read_text()), signal.SIGKILL)
    with pytest.raises(qring.HybridJobError, match="processes were killed"):
        job.result(SECONDS)


def test_cancel_and_delete(tmp_path):
    @local()
    def sleep():
        try:
            print("started")
            time.sleep(600)
        finally:
            qring.save_checkpoint("cleaned up")

    job = sleep()
    with pytest.raises(TimeoutError, match=r"running after 0\.1 s"):
        job.result(0.1)
    wait_for(lambda: "started" in job.logs())
    job.cancel()
    assert job.wait(SECONDS) == "cancelled"
    assert job.checkpoints() == {"checkpoint": "cleaned up"}
    with pytest.raises(qring.HybridJobError) as caught:
        job.result()
    assert caught.value.code == qring.Code.CANCELLED
    job.cancel()
    job.resume()
    assert job.state() == "running"
    os.killpg(int((job.folder / "group").read_text()), signal.SIGKILL)
    assert job.wait(SECONDS) == "failed"
    job.resume()
    job.delete()
    assert not job.folder.exists()
    with pytest.raises(qring.QringError, match="its folder was deleted") as caught:
        job.result()
    assert caught.value.code == qring.Code.NOT_FOUND
    job.delete()


def test_timeout():
    @local(timeout=1.5)
    def sleep():
        time.sleep(600)

    with pytest.raises(qring.HybridJobError, match=r"it did not end in 1\.5 s"):
        sleep().result(SECONDS)


def test_environment():
    @local(env={"COLOUR": "red"})
    def colour():
        return os.environ["COLOUR"]

    assert colour().result(SECONDS) == "red"


# ---- what travels ----


def wheel(folder):
    path = folder / "tinydep-1.0-py3-none-any.whl"
    info = "tinydep-1.0.dist-info"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("tinydep.py", "value = 41\n")
        archive.writestr(f"{info}/METADATA", "Metadata-Version: 2.1\nName: tinydep\nVersion: 1.0\n")
        archive.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nTag: py3-none-any\n")
        archive.writestr(f"{info}/RECORD", "")
    return path


def test_dependencies(tmp_path):
    path = wheel(tmp_path)
    Path("requirements.txt").write_text(f"# ours\n--no-index\n{path}  # here\n")

    def use():
        import tinydep

        return tinydep.value, tinydep.__file__

    for given in ("requirements.txt", ["--no-index", path]):
        job = local(dependencies=given)(use)()
        value, where = job.result(SECONDS)
        assert value == 41
        assert where.startswith(str(job.folder / "out"))
    call = json.loads((job.folder / "code" / "call.json").read_text())
    assert call["dependencies"] == ["--no-index", f"./dependencies/{path.name}"]
    job = local(dependencies=["--no-index", "no-such-package-here"])(use)()
    with pytest.raises(qring.HybridJobError, match="cannot install the dependencies: pip ended"):
        job.result(SECONDS)
    assert "No matching distribution" in job.logs()


def test_include_modules(tmp_path, monkeypatch):
    (tmp_path / "lib" / "pack").mkdir(parents=True)
    (tmp_path / "lib" / "mod_a.py").write_text("def a(): return 'a'\n")
    (tmp_path / "lib" / "pack" / "__init__.py").write_text("")
    (tmp_path / "lib" / "pack" / "b.py").write_text("def b(): return 'b'\n")
    (tmp_path / "mod_c.py").write_text("def c(): return 'c'\n")
    monkeypatch.syspath_prepend(tmp_path / "lib")
    import mod_a
    from pack import b

    def use():
        import mod_c

        return mod_a.a() + b.b() + mod_c.c()

    job = local(include_modules=["mod_a", "pack.b", "mod_c.py"])(use)()
    assert job.result(SECONDS) == "abc"

    @local()
    def without():
        return mod_a.a()

    with pytest.raises(qring.HybridJobError, match="include_modules="):
        without().result(SECONDS)


def test_other_version_of_python():
    @local(name="old")
    def one():
        return 1

    job = one()
    job.result(SECONDS)
    path = job.folder / "code" / "call.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "python": "3.5"}))
    (job.folder / "code" / "call.pickle").write_bytes(b"not read")
    (job.folder / "out" / "outcome.json").unlink()
    job.resume()
    here = "{}.{}".format(*sys.version_info)
    with pytest.raises(
        qring.HybridJobError, match=rf"failed: cannot run old: .*Python 3\.5 .*{here};"
    ):
        job.result(SECONDS)


def test_cloudpickle_is_missing(monkeypatch):
    @local()
    def one():
        return 1

    monkeypatch.setitem(sys.modules, "cloudpickle", None)
    with pytest.raises(ImportError, match=r"pip install 'qring\[hybrid\]'"):
        one()
    assert not Path("out").exists()


def test_what_pickle_cannot_store():
    @local()
    def give():
        return (i for i in range(3))

    with pytest.raises(qring.HybridJobError, match="cannot store the value of type generator"):
        give().result(SECONDS)

    @local()
    def take(x):
        return x

    with pytest.raises(TypeError, match=r"cannot send .*take to a job"):
        take(x for x in range(3))
    assert len(os.listdir("out")) == 1


# ---- wrong values ----


def test_outside_a_job():
    for call in (
        lambda: qring.log_metric("loss", 1),
        qring.input_dir,
        qring.results_dir,
        lambda: qring.save_checkpoint(1),
        qring.load_checkpoint,
    ):
        with pytest.raises(qring.QringError, match="this process is not a hybrid job"):
            call()


@pytest.mark.parametrize(
    ("call", "error"),
    [
        (lambda: qring.log_metric("loss", float("nan")), "not a finite"),
        (lambda: qring.log_metric("loss", float("inf")), "not a finite"),
        (lambda: qring.log_metric("loss", 1, -1), "negative"),
        (lambda: qring.log_metric("step", 1), "column"),
        (lambda: qring.log_metric("a b", 1), "name of a metric"),
        (lambda: qring.input_dir("../out"), "name of a channel"),
        (lambda: qring.input_dir(".."), "name of a channel"),
        (lambda: qring.save_checkpoint(1, "/tmp/x"), "name of a checkpoint"),
        (lambda: qring.load_checkpoint("../code/call.pickle"), "name of a checkpoint"),
        (lambda: qring.load_checkpoint("x" * 101), "name of a checkpoint"),
    ],
)
def test_wrong_values_inside(call, error, tmp_path, monkeypatch):
    folders = hybrid.files.Folders(tmp_path, tmp_path, tmp_path)
    monkeypatch.setattr(_hybrid_files, "_current", folders)
    with pytest.raises(ValueError, match=error):
        call()
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("keys", "kind", "error"),
    [
        ({"input_data": "nowhere"}, ValueError, "cannot copy input data nowhere"),
        ({"input_data": {"../x": "."}}, ValueError, "name of a channel"),
        ({"input_data": "gs://b/x"}, ValueError, "local files and folders"),
        ({"dependencies": "nowhere.txt"}, ValueError, "requirements file"),
        ({"dependencies": ["-r other.txt"]}, ValueError, "cannot send the dependency"),
        ({"include_modules": "no_such_module"}, ValueError, "cannot be imported from a file"),
        ({"include_modules": "sys"}, ValueError, "cannot be imported from a file"),
        ({"copy_checkpoints_from": "nowhere"}, qring.QringError, "cannot find a hybrid job"),
        ({"name": "1"}, ValueError, "cannot name"),
        ({"timeout": 0}, ValueError, "timeout=0"),
        ({"env": {"A": 1}}, TypeError, "env 'A'"),
        ({"memroy": "1Gi"}, TypeError, "memroy"),
    ],
)
def test_wrong_options(keys, kind, error):
    with pytest.raises(kind, match=error):
        local(**keys)(lambda: 1)()
    # A call that fails leaves nothing.
    assert not Path("out").exists() or not os.listdir("out")


def test_interrupted_start(monkeypatch):
    start = hybrid.Local.start
    groups = []

    def interrupted(self, options):
        start(self, options)
        groups.append(int((self.folder / "group").read_text()))
        raise KeyboardInterrupt

    monkeypatch.setattr(hybrid.Local, "start", interrupted)
    with pytest.raises(KeyboardInterrupt):
        local()(lambda: time.sleep(600))()
    assert not os.listdir("out")

    def ended():
        try:
            os.killpg(groups[0], 0)
        except ProcessLookupError:
            return True
        return False

    wait_for(ended)


def test_wrong_calls():
    @local(name="twice")
    def one(x):
        return x

    with pytest.raises(TypeError, match="missing a required argument"):
        one()
    with pytest.raises(TypeError, match="parentheses"):
        qring.hybrid_job(one)
    job = one(1)
    with pytest.raises(qring.QringError, match="out/twice exists; choose another name=") as caught:
        one(2)
    assert caught.value.code == qring.Code.ALREADY_EXISTS
    assert job.result(SECONDS) == 1
    assert not qring.attach("out/twice", local=True).metrics()


@pytest.mark.skipif(not (ROOT / "lib/python/jobs.md").exists(), reason="the page is not there")
def test_snippet_of_the_page(tmp_path):
    page = (ROOT / "lib/python/jobs.md").read_text()
    text = page.partition("## A function as a job")[2]
    block = text.partition("```python\n")[2].partition("```")[0]
    (tmp_path / "samples.csv").write_text("x,y\n")
    names = {"qring": qring, "__name__": "__main__"}
    exec(block, names)
    job = qring.attach(names["fitted"].folder, local=True)
    assert job.result() == "x,y\n"
    assert job.metrics()["loss"].tolist() == [1, 1 / 2, 1 / 3, 1 / 4, 1 / 5]
    assert (Path("out") / job.name / "results" / "note.txt").read_text() == "kept"
