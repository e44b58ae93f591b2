"""Quantum circuits as PyTorch modules. Start reading at :class:`Layer`.

>>> import qring, qring.torch, torch
>>> circuit = qring.Circuit(2).rx("x[0]", 0).ry("w0", 0).cnot(0, 1).ry("w1", 1)
>>> model = torch.nn.Sequential(torch.nn.Linear(3, 1), qring.torch.Layer(circuit, ["Z0", "Z1"]))
>>> model(torch.zeros(5, 3)).shape
torch.Size([5, 2])
"""

from __future__ import annotations

import itertools
import math
import weakref
from typing import Any, Callable, Sequence

import torch
from torch import Tensor, nn
from torch.autograd import forward_ad

from ._function_set import CircuitNames, FunctionSet
from ._library import FLOAT32, FLOAT64, lib
from .circuit import Circuit
from .function import DType, Function

__all__ = ["Layer"]

_NAMES = {torch.float32: "float32", torch.float64: "float64"}
_CODES = {torch.float32: (FLOAT32, 4), torch.float64: (FLOAT64, 8)}

# ---- operators ----
#
# qring::expval and qring::expval_vjp are operators of PyTorch, so torch.compile traces them as one
# node each. Their arguments are tensors and numbers; a function set is found by its number.
# n_outputs is an argument because a compiled graph may be read from PyTorch's cache in a process
# where the number belongs to another set. PyTorch's Python code around an operator costs more than
# a small circuit, so a call outside torch.compile and torch.func goes by _Eager. In torch.func it
# goes by _Transformed, because PyTorch cannot differentiate operators there.

_numbers = itertools.count(1)
_sets: weakref.WeakValueDictionary[int, FunctionSet] = weakref.WeakValueDictionary()


def _register(functions: FunctionSet) -> int:
    number = next(_numbers)
    _sets[number] = functions
    return number


def _find(number: int) -> FunctionSet:
    found = _sets.get(number)
    if found is None:
        raise RuntimeError(
            f"cannot call circuit {number}: its qring.torch.Layer was deleted; keep the layer as "
            "long as programs that call it"
        )
    return found


def _function(weights: Tensor, number: int, n_outputs: int, by_inputs: bool) -> Function:
    found = _find(number).get(_NAMES[weights.dtype], by_inputs)
    if found.n_outputs != n_outputs:
        raise RuntimeError(
            f"cannot call circuit {number}: the program was compiled for {n_outputs} outputs, but "
            f"it has {found.n_outputs}; compile the program again"
        )
    return found


def _fill(argument: Any, tensor: Tensor) -> Tensor:
    """Refer to a tensor's memory, without a NumPy array; returns the tensor to keep."""
    address, strides = tensor.data_ptr(), tensor.stride()
    code, size = _CODES[tensor.dtype]
    if address & (size - 1) or tensor.is_neg():  # C reads aligned numbers as they are stored
        return _fill(argument, tensor.detach().resolve_neg().clone())
    struct = argument.struct
    struct.data = address
    struct.dtype = code
    if len(strides) == 1:
        argument.strides[0] = strides[0] * size
    else:
        argument.strides[0], argument.strides[1] = strides[0] * size, strides[1] * size
    return tensor


def _values(function: Function, weights: Tensor, inputs: Tensor) -> Tensor:
    function._check_weights(weights.shape)
    ret = weights.new_empty((inputs.shape[0], function.n_outputs))
    function._forward(lib.qring_forward, weights, inputs, inputs.shape[0], ret, _fill)
    return ret


def _derivatives(
    function: Function, weights: Tensor, inputs: Tensor, cotangents: Tensor
) -> tuple[Tensor, Tensor | None]:
    by_weights = torch.empty_like(weights)
    by_inputs = torch.empty_like(inputs) if function.input_gradients else None
    n = inputs.shape[0]
    function._vjp_into(weights, inputs, n, cotangents, None, by_weights, by_inputs, fill=_fill)
    return by_weights, by_inputs


def _compute(
    weights: Tensor, inputs: Tensor, number: int, n_outputs: int, by_inputs: bool
) -> Tensor:
    """Map weights (P,) and inputs (B, I) to values (B, R).

    by_inputs tells whether derivatives by inputs will follow.
    """
    return _values(_function(weights, number, n_outputs, by_inputs), weights, inputs)


_expval = torch.library.custom_op("qring::expval", _compute, mutates_args=(), device_types="cpu")


@_expval.register_fake
def _(weights: Tensor, inputs: Tensor, number: int, n_outputs: int, by_inputs: bool) -> Tensor:
    return weights.new_empty((inputs.shape[0], n_outputs))


def _compute_vjp(
    weights: Tensor, inputs: Tensor, cotangents: Tensor, number: int, by_inputs: bool
) -> tuple[Tensor, Tensor]:
    """Return derivatives by weights (P,) and inputs (B, I), or (0,) without by_inputs."""
    function = _function(weights, number, cotangents.shape[1], by_inputs)
    by_weights, d_inputs = _derivatives(function, weights, inputs, cotangents)
    if d_inputs is None:
        d_inputs = torch.zeros_like(inputs) if by_inputs else inputs.new_empty(0)
    return by_weights, d_inputs


_expval_vjp = torch.library.custom_op(
    "qring::expval_vjp", _compute_vjp, mutates_args=(), device_types="cpu"
)


@_expval_vjp.register_fake
def _(
    weights: Tensor, inputs: Tensor, cotangents: Tensor, number: int, by_inputs: bool
) -> tuple[Tensor, Tensor]:
    return weights.new_empty(weights.shape), inputs.new_empty(inputs.shape if by_inputs else 0)


def _setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    weights, samples, number, _, by_inputs = inputs
    ctx.save_for_backward(weights, samples)
    ctx.number, ctx.by_inputs = number, by_inputs
    # Backward may run after the layer was deleted.
    ctx.functions = _sets.get(number)


def _backward(
    ctx: Any, cotangents: Tensor, call: Callable[..., Any] = torch.ops.qring.expval_vjp
) -> tuple[Tensor | None, ...]:
    weights, samples = ctx.saved_tensors
    by_weights, by_inputs = ctx.needs_input_grad[:2]
    # The function of the forward call has the weights' gates at hand.
    d_weights, d_samples = call(
        weights, samples, cotangents, ctx.number, by_inputs or ctx.by_inputs
    )
    return (
        d_weights if by_weights else None,
        d_samples if by_inputs else None,
        None,
        None,
        None,
    )


_expval.register_autograd(_backward, setup_context=_setup_context)


class _Eager(torch.autograd.Function):
    """The operator and its derivative for plain tensors, without PyTorch's dispatcher."""

    @staticmethod
    def forward(
        ctx: Any,
        weights: Tensor,
        inputs: Tensor,
        functions: FunctionSet,
        number: int,
        by_inputs: bool,
    ) -> Tensor:
        ctx.save_for_backward(weights, inputs)
        ctx.functions, ctx.number = functions, number
        ctx.function = functions.get(_NAMES[weights.dtype], by_inputs)
        return _values(ctx.function, weights, inputs)

    @staticmethod
    def backward(ctx: Any, cotangents: Tensor) -> tuple[Tensor | None, ...]:
        weights, inputs = ctx.saved_tensors
        by_inputs = ctx.needs_input_grad[1]
        if torch.is_grad_enabled():  # refuses second derivatives
            found = _TransformedVjp.apply(weights, inputs, cotangents, ctx.number, by_inputs)
        else:
            found = _derivatives(ctx.function, weights, inputs, cotangents)
        return found[0], found[1] if by_inputs else None, None, None, None


# Private functions of PyTorch 2; without them every call goes by the operator.
_is_transformed = getattr(torch._C, "_are_functorch_transforms_active", lambda: True)
_n_modes = getattr(torch._C, "_len_torch_dispatch_stack", lambda: 1)


def _lanes(tensor: Tensor, dim: int | None, size: int) -> Tensor:
    """Return the tensor with the axis of torch.vmap in front."""
    return tensor.expand(size, *tensor.shape) if dim is None else tensor.movedim(dim, 0)


def _vmap(
    call: Callable[..., Tensor], info: Any, dims: tuple[int | None, ...], arguments: Any
) -> tuple[Tensor, int]:
    weights, inputs, number, n_outputs, by_inputs = arguments
    size = info.batch_size
    inputs = _lanes(inputs, dims[1], size)
    if dims[0] is None:  # the lanes are one batch
        ret = call(weights, inputs.flatten(0, 1), number, n_outputs, by_inputs)
        return ret.reshape(size, inputs.shape[1], n_outputs), 0
    lanes = zip(_lanes(weights, dims[0], size), inputs)
    return torch.stack([call(w, x, number, n_outputs, by_inputs) for w, x in lanes]), 0


def _vmap_vjp(
    call: Callable[..., Any], info: Any, dims: tuple[int | None, ...], arguments: Any
) -> tuple[tuple[Tensor, Tensor], tuple[int, int]]:
    number, by_inputs = arguments[3:]
    lanes = zip(*(_lanes(t, d, info.batch_size) for t, d in zip(arguments[:3], dims)))
    found = [call(w, x, c, number, by_inputs) for w, x, c in lanes]
    return (torch.stack([w for w, _ in found]), torch.stack([x for _, x in found])), (0, 0)


_expval.register_vmap(
    lambda info, dims, *arguments: _vmap(torch.ops.qring.expval, info, dims, arguments)
)
_expval_vjp.register_vmap(
    lambda info, dims, *arguments: _vmap_vjp(torch.ops.qring.expval_vjp, info, dims, arguments)
)


class _Transformed(torch.autograd.Function):
    """The operator in torch.func and torch.autograd.forward_ad."""

    @staticmethod
    def forward(*arguments: Any) -> Tensor:
        return (torch.ops.qring.expval if _n_modes() else _compute)(*arguments)

    setup_context = staticmethod(_setup_context)

    @staticmethod
    def backward(ctx: Any, cotangents: Tensor) -> tuple[Tensor | None, ...]:
        return _backward(ctx, cotangents, _TransformedVjp.apply)

    @staticmethod
    def jvp(ctx: Any, *tangents: Any) -> Any:
        raise NotImplementedError(
            "cannot differentiate a circuit in forward mode: qring has derivatives in reverse "
            "mode only; use torch.func.grad, vjp or jacrev"
        )

    @staticmethod
    def vmap(info: Any, dims: tuple[int | None, ...], *arguments: Any) -> tuple[Tensor, int]:
        return _vmap(_Transformed.apply, info, dims, arguments)


class _TransformedVjp(torch.autograd.Function):
    """The derivative of the operator in torch.func; it has no derivative itself."""

    @staticmethod
    def forward(*arguments: Any) -> tuple[Tensor, Tensor]:
        return (torch.ops.qring.expval_vjp if _n_modes() else _compute_vjp)(*arguments)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        """Keep nothing: there are no second derivatives."""

    @staticmethod
    def backward(ctx: Any, *cotangents: Any) -> Any:
        raise NotImplementedError(
            "cannot differentiate a circuit twice: qring has first derivatives only"
        )

    jvp = backward

    @staticmethod
    def vmap(
        info: Any, dims: tuple[int | None, ...], *arguments: Any
    ) -> tuple[tuple[Tensor, Tensor], tuple[int, int]]:
        return _vmap_vjp(_TransformedVjp.apply, info, dims, arguments)


def _call(functions: FunctionSet, number: int, weights: Tensor, inputs: Tensor | None) -> Tensor:
    """Check and flatten the arguments of a layer, and call the operator."""
    n_inputs, n_outputs = len(functions.inputs), functions.n_outputs
    shape = None if inputs is None else tuple(inputs.shape)
    if not shape or shape[-1] != n_inputs:
        functions.check_inputs(shape)
    samples = weights.new_empty((1, 0)) if inputs is None else inputs
    if weights.dtype not in _NAMES or samples.dtype not in _NAMES:
        raise TypeError(
            f"cannot use weights of {weights.dtype} and inputs of {samples.dtype}: give "
            "torch.float32 or torch.float64"
        )
    by_inputs = samples.requires_grad and torch.is_grad_enabled()
    rows, on_cpu = samples.cpu(), weights.cpu()
    if rows.dim() != 2:
        rows = rows.reshape(math.prod(rows.shape[:-1]), n_inputs)
    ret: Tensor
    if torch.compiler.is_compiling():
        ret = torch.ops.qring.expval(on_cpu, rows, number, n_outputs, by_inputs)
    elif _is_transformed() or forward_ad._current_level >= 0:
        ret = _Transformed.apply(on_cpu, rows, number, n_outputs, by_inputs)
    elif _n_modes():
        ret = torch.ops.qring.expval(on_cpu, rows, number, n_outputs, by_inputs)
    else:
        ret = _Eager.apply(on_cpu, rows, functions, number, by_inputs)
    if shape is None or len(shape) != 2:
        ret = ret.reshape(*(shape or (0,))[:-1], n_outputs)
    return ret.to(weights.device)


# ---- module ----


class Layer(CircuitNames, nn.Module):
    """Expectation values of a circuit as a module.

    P is the number of parameters of the circuit, I of inputs, R of observables. Derivatives by
    weights and inputs are exact (adjoint differentiation); second derivatives are not available.
    The circuit is simulated on the CPU; tensors of other devices are copied.

    Parameters
    ----------
    circuit : qring.Circuit or dict
        The circuit, or the circuit object of a job file.
    observables : str or sequence of str
        Sums of products of Paulis, for example ``"Z0"`` or ``["Z0", "0.5*X0 Z1"]``.
    dtype : str or numpy.dtype, optional
        float32 or float64, the precision of amplitudes. Default: that of the weights, so
        ``layer.double()`` makes the simulation float64 too.
    threads : int, optional
        Default: all processors that this process may use. Results do not depend on it.
    method, trajectories, seed, shots, gradient
        How noise channels and shots are simulated, as for :func:`qring.expval`.

    Attributes
    ----------
    weight : torch.nn.Parameter, (P,)
        In the order of `parameter_names`, uniform in [0, 2 pi) at first.

    Examples
    --------
    >>> import qring, qring.torch, torch
    >>> layer = qring.torch.Layer(qring.Circuit(1).rx("x[0]", 0).ry("w0", 0), "Z0")
    >>> layer(torch.zeros(3, 1)).sum().backward()
    >>> layer.weight.grad.shape
    torch.Size([1])
    """

    weight: nn.Parameter

    def __init__(
        self,
        circuit: Circuit | dict[str, Any],
        observables: str | Sequence[str],
        *,
        dtype: DType | None = None,
        threads: int | None = None,
        method: str = "auto",
        trajectories: int | None = None,
        seed: int = 0,
        shots: int | None = None,
        gradient: str = "adjoint",
    ) -> None:
        super().__init__()
        options = (dtype, threads, method, trajectories, seed, shots, gradient)
        self._bind(FunctionSet(circuit, observables, *options))
        self.weight = nn.Parameter(torch.empty(len(self._functions.parameters)))
        self.reset_parameters()

    def _bind(self, functions: FunctionSet) -> None:
        self._functions = functions
        self._number = _register(functions)

    def reset_parameters(self) -> None:
        """Draw the weights uniformly from [0, 2 pi)."""
        nn.init.uniform_(self.weight, 0, 2 * math.pi)

    def forward(self, inputs: Tensor | None = None) -> Tensor:
        """Compute expectation values.

        Parameters
        ----------
        inputs : Tensor, (..., I), float32 or float64, optional
            Needed if the circuit has inputs.

        Returns
        -------
        Tensor, (..., R)
            Of the weights' dtype.
        """
        return _call(self._functions, self._number, self.weight, inputs)

    def extra_repr(self) -> str:
        """Return the sizes, for ``repr``."""
        shots = self._functions.options["shots"]
        return (
            f"qubits={self._functions.n_qubits}, parameters={len(self._functions.parameters)}, "
            f"inputs={len(self._functions.inputs)}, outputs={self._functions.n_outputs}"
            f"{f', shots={shots}' if shots else ''}"
        )

    def __getstate__(self) -> dict[str, Any]:
        # A number belongs to one process and one layer.
        return {k: v for k, v in self.__dict__.items() if k != "_number"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)  # type: ignore[no-untyped-call]
        self._bind(self._functions)
