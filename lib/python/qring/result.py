"""Results of runs: weights, history, predictions. Start at :class:`Result` and :func:`load`."""

from __future__ import annotations

import html
import importlib
import json
import os
import tempfile
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Iterable, Mapping

import numpy as np
from numpy.typing import NDArray

from . import _curve, _program, _safetensors
from ._library import Code, QringError
from ._samples import arrays_of, columns_of, csv_bytes, is_words, npz_bytes

if TYPE_CHECKING:
    from .job import Job

__all__ = ["History", "Result", "SweepResult", "load"]

_TRAIN_COLOUR, _EVAL_COLOUR = "#4c78a8", "#f58518"


def _pandas() -> Any:
    try:
        return importlib.import_module("pandas")
    except ImportError:
        raise ImportError("cannot make a table: pandas is missing; pip install pandas") from None


def read_json(
    path: Path,
    what: str,
    hint: str = "train first, with qring.run",
    malformed: Code = Code.DATA_LOSS,
) -> dict[str, Any]:
    """Read a JSON object from a file; `hint` says what to do when the file is missing."""
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise QringError(
            f"cannot read {what} {path}: {error.strerror}; {hint}", Code.NOT_FOUND
        ) from None
    except (ValueError, RecursionError) as error:
        raise QringError(f"cannot read {what} {path}: {error}", malformed) from None
    if not isinstance(value, dict):
        raise QringError(f"cannot read {what} {path}: it is not a JSON object", malformed)
    return value


def _int64(text: str) -> int:
    """Return an integer that an array can hold."""
    value = int(text)
    if not -(2**63) <= value < 2**63:
        raise ValueError("the integer is too large")
    return value


class History(dict[str, "NDArray[Any]"]):
    """Values of each step and of each evaluation, as arrays by name.

    ``step``, ``epoch``, ``samples``, ``loss`` and the job's metrics have an element for each step;
    ``val_step``, ``val_epoch``, ``val_loss`` and so on one for each evaluation. Missing values are
    NaN.
    """

    @classmethod
    def read(cls, path: Path) -> History:
        """Read a file steps.jsonl; a last line without its end is left out."""
        entries = []
        try:
            lines = path.read_bytes().split(b"\n")[:-1]
        except OSError as error:
            raise QringError(
                f"cannot read the history {path}: {error.strerror}; it is in the folder of the run",
                Code.NOT_FOUND,
            ) from None
        for number, line in enumerate(lines, 1):
            try:
                entry = json.loads(line, parse_int=_int64)
                if not isinstance(entry.get("step", 0), int):
                    raise ValueError("the step is not an integer")
                for key in ("state_digest", "chain"):  # no values: see qring.verify
                    entry.pop(key, None)
                entries.append((entry.pop("kind") == "EVAL", entry))
            except (ValueError, KeyError, AttributeError, RecursionError):
                raise QringError(
                    f"cannot read the history {path}: line {number} is malformed", Code.DATA_LOSS
                ) from None
        return cls.of(entries)

    @classmethod
    def of(cls, rows: Iterable[tuple[bool, Mapping[str, Any]]]) -> History:
        """Make arrays of rows: whether one is an evaluation, and its values by name."""
        columns: dict[str, list[dict[str, Any]]] = {"": [], "val_": []}
        for evaluated, values in rows:
            row: dict[str, Any] = {}
            for key, value in values.items():
                row.update(value if isinstance(value, dict) else {key: value})
            columns["val_" if evaluated else ""].append(row)
        history = cls()
        for prefix, entries in columns.items():
            for name in dict.fromkeys(name for row in entries for name in row):
                column = [row.get(name) for row in entries]
                if all(isinstance(value, int) for value in column) and name in (
                    "step",
                    "epoch",
                    "samples",
                ):
                    history[prefix + name] = np.array(column, np.int64)
                elif all(value is None or isinstance(value, (int, float)) for value in column):
                    history[prefix + name] = np.array(
                        [np.nan if value is None else value for value in column], np.float64
                    )
                else:
                    # Matrices, such as the metric confusion_matrix, and texts.
                    cells = np.empty(len(column), object)
                    cells[:] = column
                    history[prefix + name] = cells
        return history

    def to_pandas(self) -> Any:
        """Return a pandas DataFrame with a row per step; evaluations are in the row of their step.

        Returns
        -------
        pandas.DataFrame
            Indexed by ``step``.
        """
        pandas = _pandas()

        def frame(prefix: str) -> Any:
            names = [name for name in self if name.startswith("val_") == bool(prefix)]
            table = pandas.DataFrame({name: self[name] for name in names})
            key = f"{prefix}step"
            if key not in table:
                return pandas.DataFrame(index=pandas.Index([], name="step"))
            # A step may be evaluated twice, after a resumed run: the last one holds.
            return table.drop_duplicates(key, keep="last").set_index(key).rename_axis("step")

        return frame("").join(frame("val_"), how="outer")


class Result:
    """A finished run.

    Parameters
    ----------
    out : str or path
        Its output folder.

    Attributes
    ----------
    out : Path
        Absolute path of the output folder.
    """

    def __init__(self, out: str | os.PathLike[str]) -> None:
        self.out = Path(out).absolute()
        self._summary = read_json(self.out / "result.json", "the result")

    @property
    def summary(self) -> dict[str, Any]:
        """Content of result.json: losses, metrics, digests, seconds, cost."""
        return dict(self._summary)

    @property
    def digest(self) -> str:
        """Digest of the final state; equal digests mean equal weights, to the last bit."""
        return str(self._summary["state_digest"])

    @property
    def metrics(self) -> dict[str, float]:
        """Final ``loss``, ``val_loss`` (with validation samples) and metrics by name."""
        values = {
            key: self._summary[key]
            for key in ("loss", "val_loss")
            if self._summary.get(key) is not None
        }
        return {**values, **self._summary.get("metrics", {})}

    @cached_property
    def job(self) -> Job:
        """The job as trained."""
        from .job import Job

        return Job(read_json(self.out / "job.json", "the job"))

    @cached_property
    def history(self) -> History:
        """Values of each step and of each evaluation, as arrays by name."""
        return History.read(self.out / "steps.jsonl")

    @cached_property
    def _tensors(self) -> tuple[dict[str, NDArray[Any]], dict[str, str]]:
        reason = self._summary.get("no_weights")
        if reason is not None:
            raise QringError(f"cannot read the weights: {reason}", Code.NOT_FOUND)
        return _safetensors.read(self.out / "weights.safetensors")

    @property
    def weights(self) -> dict[str, NDArray[Any]]:
        """Trained weights as arrays by name, float64, such as ``pqc/parameters``.

        Parameters of a circuit are in natural order of their names; kernels have the shape
        (inputs, units).
        """
        return self._tensors[0]

    @property
    def inputs(self) -> list[str] | None:
        """Names of the model's inputs in its order, if they have names."""
        return self._names("qring.inputs")

    @property
    def classes(self) -> list[str] | None:
        """Words of the classes, if the labels were words."""
        return self._names("qring.classes")

    def _names(self, key: str) -> list[str] | None:
        text = self._tensors[1].get(key)
        return [str(name) for name in json.loads(text)] if text is not None else None

    def _write(self, arrays: Mapping[str, NDArray[Any]], folder: str) -> Path:
        """Write samples for the program: CSV where training had names of columns, else npz."""
        inputs = self.inputs
        width = arrays["x"].shape[1]
        labels = self._labels(arrays.get("y"))
        weight = str(self._data().get("sample_weight") or "sample_weight")
        if inputs is not None and len(inputs) != width:
            raise ValueError(
                f"cannot use x of shape {arrays['x'].shape}: training had {len(inputs)} inputs "
                f"({', '.join(inputs)})"
            )
        words = "y" in arrays and is_words(arrays["y"])
        if inputs is None and not words:
            path = Path(folder) / "samples.npz"
            names = {"x": "x", "y": labels[0], "sample_weight": weight}
            path.write_bytes(npz_bytes({names[key]: array for key, array in arrays.items()}))
        else:
            path = Path(folder) / "samples.csv"
            columns = inputs or [f"x{i}" for i in range(width)]
            path.write_bytes(csv_bytes(columns_of(arrays, columns, labels, weight)))
        return path

    def _data(self) -> dict[str, Any]:
        """Return the data object of the job."""
        data = self.job.to_json().get("data")
        return data if isinstance(data, dict) else {}

    def _labels(self, y: NDArray[Any] | None) -> list[str]:
        """Return the names of the label columns in training."""
        given = self._data().get("labels")
        if isinstance(given, str):
            return [given]
        if isinstance(given, list):
            return [str(name) for name in given]
        outputs = 1 if y is None or y.ndim == 1 or self.inputs is None else y.shape[1]
        return ["y"] if outputs == 1 else [f"y{i}" for i in range(outputs)]

    def _samples(self, x: Any, y: Any = None, sample_weight: Any = None) -> dict[str, Any]:
        columns = getattr(x, "columns", None)
        inputs = self.inputs
        if columns is not None and inputs is not None:
            # A table: columns by name, in any order.
            by_name = {str(name): name for name in columns}
            missing = [name for name in inputs if name not in by_name]
            if missing:
                raise ValueError(f"cannot use x: columns {', '.join(missing)} are missing")
            x = x[[by_name[name] for name in inputs]]
        x = np.asarray(x)
        return arrays_of((x[None] if x.ndim == 1 else x, y, sample_weight))

    def _rows(self, x: Any) -> list[dict[str, Any]]:
        command = ["predict", str(self.out), "--format", "jsonl", "--data"]
        with tempfile.TemporaryDirectory() as folder:
            if isinstance(x, (str, os.PathLike)):
                path = os.fspath(x)
            else:
                path = str(self._write(self._samples(x), folder))
            text = _program.start([*command, path])
        return [json.loads(line) for line in text.splitlines()]

    def predict(self, x: Any) -> NDArray[np.float64]:
        """Predict new samples, with the program ``qring predict``.

        Parameters
        ----------
        x : array of shape (samples, inputs) or (inputs,), table, or path
            Inputs in the order of :attr:`inputs`, scaled as in training; a table's columns are
            found by name. Or the path or URL of a CSV or npz file.

        Returns
        -------
        array of shape (samples,) or (samples, outputs), or without the axis of samples
            Probabilities of a classifier, else the outputs of the model.
        """
        rows = self._rows(x)
        key = "probability" if rows and "probability" in rows[0] else "prediction"
        values = np.array([row[key] for row in rows], np.float64)
        return values[0] if _single(x) else values

    def predict_classes(self, x: Any) -> NDArray[Any]:
        """Predict the classes of new samples.

        Parameters
        ----------
        x
            As of :meth:`predict`.

        Returns
        -------
        array of shape (samples,) or (samples, outputs), or without the axis of samples
            Numbers, or words where training had words.

        Raises
        ------
        QringError
            The model is not a classifier.
        """
        rows = self._rows(x)
        if rows and "class" not in rows[0]:
            raise QringError(
                "cannot predict classes: neither the loss nor a metric of the job is a "
                "classifier's; use predict",
                Code.FAILED_PRECONDITION,
            )
        values = np.array([row["class"] for row in rows])
        found: NDArray[Any] = values[0] if _single(x) else values
        return found

    def evaluate(
        self, x: Any = None, y: Any = None, *, sample_weight: Any = None, channel: str | None = None
    ) -> dict[str, Any]:
        """Compute loss and metrics of labelled samples, with the program ``qring evaluate``.

        Parameters
        ----------
        x, y : arrays, or a path and None
            Inputs as of :meth:`predict` and their labels; `x` may be the path or URL of a CSV or
            npz file with labels. Default: the job's validation samples.
        sample_weight : array of shape (samples,), optional
            Factors of the loss, if the job has them.
        channel : str, optional
            Name of one of the job's data channels, instead of samples.

        Returns
        -------
        dict
            ``loss``, ``samples``, ``metrics`` (by name), and for a classifier
            ``confusion_matrix``.
        """
        command = ["evaluate", str(self.out), "--json"]
        with tempfile.TemporaryDirectory() as folder:
            if channel is not None:
                command += ["--channel", channel]
            elif isinstance(x, (str, os.PathLike)):
                command += ["--data", os.fspath(x)]
            elif x is not None:
                if y is None:
                    raise ValueError("cannot evaluate x: y is missing; give its labels")
                arrays = self._samples(x, y, sample_weight)
                command += ["--data", str(self._write(arrays, folder))]
            report: dict[str, Any] = json.loads(_program.start(command))
        # The names of temporary files mean nothing to the caller.
        return {key: value for key, value in report.items() if key not in ("data", "weights")}

    def _repr_svg_(self) -> str:
        """Return the loss curve, for notebooks."""
        history = self.history
        none = np.zeros(0)
        return _curve.curve(
            self.job.name,
            "step",
            [
                ("loss", _TRAIN_COLOUR, history.get("step", none), history.get("loss", none)),
                (
                    "val_loss",
                    _EVAL_COLOUR,
                    history.get("val_step", none),
                    history.get("val_loss", none),
                ),
            ],
        )

    def _repr_html_(self) -> str:
        """Return values and loss curve, for notebooks."""
        rows = {**self.metrics, "steps": self._summary.get("steps"), "state_digest": self.digest}
        cells = "".join(
            f"<tr><th>{html.escape(str(name))}</th><td>{html.escape(_short(value))}</td></tr>"
            for name, value in rows.items()
        )
        try:
            picture = self._repr_svg_()
        except QringError:
            # A result from a cluster has no history; its values are shown all the same.
            picture = ""
        return f"<div>{picture}<table>{cells}</table></div>"

    def __repr__(self) -> str:
        values = ", ".join(f"{name}={_short(value)}" for name, value in self.metrics.items())
        return f"Result({self._summary.get('job')!r}, {values}, digest={self.digest})"


def _single(x: Any) -> bool:
    return not isinstance(x, (str, os.PathLike)) and np.ndim(x) == 1


def _short(value: Any) -> str:
    return f"{value:.6g}" if isinstance(value, float) else str(value)


class SweepResult:
    """A finished sweep.

    Parameters
    ----------
    out : str or path
        Its output folder.

    Attributes
    ----------
    out : Path
        Absolute path of the output folder.
    """

    def __init__(self, out: str | os.PathLike[str]) -> None:
        self.out = Path(out).absolute()
        self._table = read_json(self.out / "sweep.json", "the sweep")

    @property
    def metric(self) -> str:
        """What the trials are compared by."""
        return str(self._table["metric"])

    @property
    def trials(self) -> list[dict[str, Any]]:
        """Rows of sweep.json: ``trial``, ``status``, ``set``, ``metrics``, ``state_digest``."""
        return [dict(row) for row in self._table["trials"]]

    @property
    def best(self) -> Result:
        """Result of the best trial."""
        if self._table["best"] is None:
            raise QringError(
                f"cannot tell the best trial of {self.out}: none has a result; see trials",
                Code.NOT_FOUND,
            )
        return self[int(self._table["best"])]

    def __getitem__(self, trial: int) -> Result:
        """Return the result of a trial."""
        if not 0 <= trial < len(self):
            raise IndexError(f"cannot find trial {trial}: the last one is {len(self) - 1}")
        if (error := self._table["trials"][trial].get("error")) is not None:
            raise QringError(f"cannot read trial {trial}: it failed: {error}", Code.NOT_FOUND)
        return Result(self.out / "trials" / f"{trial:04d}")

    def __len__(self) -> int:
        return len(self._table["trials"])

    def to_pandas(self) -> Any:
        """Return a pandas DataFrame with a row per trial."""
        pandas = _pandas()
        rows = [
            {
                **{key: row.get(key) for key in ("trial", "status", "epochs", "steps")},
                **row.get("set", {}),
                **row.get("metrics", {}),
                "state_digest": row.get("state_digest"),
            }
            for row in self._table["trials"]
        ]
        return pandas.DataFrame(rows).set_index("trial")

    def _repr_html_(self) -> str:
        """Return the table of trials, for notebooks."""
        keys = list(dict.fromkeys(key for row in self.trials for key in row.get("set", {})))
        values = list(dict.fromkeys(key for row in self.trials for key in row.get("metrics", {})))

        def line(tag: str, cells: list[Any], bold: bool = False) -> str:
            style = ' style="font-weight:bold"' if bold else ""
            inner = "".join(f"<{tag}>{html.escape(_short(cell))}</{tag}>" for cell in cells)
            return f"<tr{style}>{inner}</tr>"

        best = self._table["best"]
        body = [
            line(
                "td",
                [row["trial"], row.get("status", "")]
                + [row.get("set", {}).get(key, "") for key in keys]
                + [row.get("metrics", {}).get(key, "") for key in values],
                row["trial"] == best,
            )
            for row in self.trials
        ]
        return f"<table>{line('th', ['trial', 'status', *keys, *values])}{''.join(body)}</table>"

    def __repr__(self) -> str:
        return f"SweepResult({len(self)} trials, best={self._table['best']} by {self.metric})"


def load(out: str | os.PathLike[str]) -> Result:
    """Find the result of a finished run again.

    Parameters
    ----------
    out : str or path
        The output folder of the run.

    Returns
    -------
    Result

    Raises
    ------
    QringError
        The folder has no finished run.
    """
    return Result(out)
