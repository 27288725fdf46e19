"""Operators agree with those of PyTorch on the sample inputs of its operator database (`tox run -e
operators-torch`).

Each entry of the database is in `operator_database/operators.py` with a counterpart, or in
`operator_database/exceptions.toml` as an entry without one. A counterpart runs on all samples of an
entry, in float32 and in a second dtype; in float64 its gradients are compared too. The table of
exceptions has the number of samples that differ, so one that agrees must be removed."""

from __future__ import annotations

import dataclasses
import inspect
import random
import tomllib
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import svod_dtype
from operator_database.operators import (
    COUNTERPARTS,
    FIRST_RESULT,
    RANDOM,
    VECTORS,
    UnsupportedError,
)
from svod_tensor import Tensor, vjp

torch = pytest.importorskip("torch", reason="torch is not installed", exc_type=ImportError)
pytest.importorskip("expecttest", reason="expecttest is not installed", exc_type=ImportError)
# The database and its samples warn of deprecated functions.
pytestmark = pytest.mark.filterwarnings("ignore")

FOLDER = Path(__file__).with_name("operator_database")
EXCEPTIONS = tomllib.loads((FOLDER / "exceptions.toml").read_text())
# Units in the last place that a result may differ by; the elements of a sum or of a product of
# matrices round as its largest.
ULPS = 4
# Pools have a thousand samples of every combination of arguments. All run in float32, and one in
# `STEP` in the other checks.
MANY, STEP = 400, 8
DTYPES = {
    name: getattr(torch, name) for name in ("float32", "float64", "int64", "complex64", "bool")
}


def load_database() -> dict[str, Any]:
    """The entries of PyTorch's operator database by name and variant."""
    from torch.testing._internal.common_methods_invocations import op_db

    return {f"{entry.name}/{entry.variant_test_name}".rstrip("/"): entry for entry in op_db}


DATABASE = load_database()
TABLE = {
    sample.rpartition(" ")[0]: int(sample.rpartition(" ")[2])
    for group in EXCEPTIONS["exception"]
    for sample in group["samples"]
}
LOOSE = {name: group["ulps"] for group in EXCEPTIONS["tolerance"] for name in group["operators"]}


def find_second_dtype(name: str) -> str | None:
    """The dtype beside float32: complex64 for functions of one element and for matrices, otherwise
    integers first.
    """
    from torch.testing._internal.opinfo.core import UnaryUfuncInfo

    dtypes = DATABASE[name].dtypes
    order = ["int64", "complex64", "bool"]
    if isinstance(DATABASE[name], UnaryUfuncInfo) or name.startswith(("linalg.", "fft.")):
        order = ["complex64", "int64", "bool"]
    return next((dtype for dtype in order if DTYPES[dtype] in dtypes), None)


def list_calls() -> list[tuple[str, str]]:
    """The pairs of an operator and a dtype that the suite runs."""
    pairs = []
    for name in COUNTERPARTS:
        first = ["float32"] if torch.float32 in DATABASE[name].dtypes else []
        second = find_second_dtype(name)
        pairs += [(name, dtype) for dtype in (*first, *([second] if second else []))]
    return pairs


CALLS = list_calls()
DIFFERENTIABLE = [
    name
    for name, entry in DATABASE.items()
    if name in COUNTERPARTS
    and name not in RANDOM
    and entry.supports_autograd
    and torch.float64 in entry.dtypes
]


def map_tensors(function: Callable[[Any], Any], value: Any) -> Any:
    """`value` with `function` applied to its tensors and dtypes, inside of lists, tuples, slices
    and dicts.
    """
    if isinstance(value, dict):
        return {key: map_tensors(function, item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return (
            type(value)([map_tensors(function, item) for item in value])
            if type(value) in (list, tuple)
            else tuple(map_tensors(function, item) for item in value)
        )
    if isinstance(value, (torch.Tensor, torch.dtype)):
        return function(value)
    return value


def to_array(value: Any) -> np.ndarray:
    value = value.detach()
    return (value.float() if value.dtype == torch.bfloat16 else value).numpy(force=True)


def to_svod(value: Any) -> Any:
    """The tensor or dtype of svod with the value of PyTorch's."""
    if isinstance(value, torch.dtype):
        return svod_dtype.to_dtype(str(value).removeprefix("torch."))
    tensor = Tensor(np.array(to_array(value)))
    return tensor.cast("bfloat16") if value.dtype == torch.bfloat16 else tensor


def make_samples(name: str, dtype: str, *, requires_grad: bool = False) -> list[Any]:
    """The samples of an entry, which are the same in each run."""
    random.seed(0)
    np.random.seed(0)
    torch.manual_seed(0)
    entry = DATABASE[name]
    samples = list(entry.sample_inputs("cpu", DTYPES[dtype], requires_grad=requires_grad))
    return samples if dtype == "float32" or len(samples) <= MANY else samples[::STEP]


def call_torch(name: str, sample: Any, function: Callable[[Any], Any] = lambda x: x) -> Any:
    args, kwargs = (
        map_tensors(function, (sample.input, *sample.args)),
        map_tensors(function, sample.kwargs),
    )
    return DATABASE[name].op(*args, **kwargs)


def call_svod(name: str, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    """Call the counterpart.

    Raises:
        UnsupportedError: if it does not have the arguments.
    """
    function = COUNTERPARTS[name]
    try:
        inspect.signature(function).bind(*args, **kwargs)
    except TypeError as error:
        raise UnsupportedError(str(error)) from error
    return function(*args, **kwargs)


def flatten(value: Any) -> list[Any]:
    """The tensors and numbers of a result."""
    return (
        [part for item in value for part in flatten(item)]
        if isinstance(value, (list, tuple))
        else [value]
    )


@dataclasses.dataclass
class Outcome:
    """The kind of a difference and a description; the kind is None if there is none."""

    kind: str | None
    text: str = ""


AGREES = Outcome(None)


def describe(sample: Any) -> str:
    """The sample in a line: shapes instead of tensors."""

    def brief(value: Any) -> Any:
        return (
            f"{str(value.dtype).removeprefix('torch.')}{list(value.shape)}"
            if isinstance(value, torch.Tensor)
            else str(value)
        )

    return f"{map_tensors(brief, (sample.input, *sample.args))} {map_tensors(brief, sample.kwargs)}"


def is_close(ours: np.ndarray, theirs: np.ndarray, ulps: float, *, by_largest: bool) -> bool:
    """True if no element differs by more than `ulps` units in the last place, of itself or of the
    largest element.
    """
    if theirs.dtype.kind not in "fc":
        return bool(np.array_equal(ours, theirs))
    # A component of a complex element rounds as the absolute value does.
    by_element = np.abs(theirs)
    finite = by_element[np.isfinite(by_element)]
    scale = (
        finite.max(initial=0) if by_largest else np.where(np.isfinite(by_element), by_element, 0)
    )
    information = np.finfo(theirs.dtype)
    with np.errstate(all="ignore"):
        near = np.abs(ours - theirs) <= ulps * information.eps * scale + 4 * information.tiny
    same = (ours == theirs) | (np.isnan(ours) & np.isnan(theirs))
    return bool(np.all(near | same))


def measure(ours: np.ndarray, theirs: np.ndarray) -> str:
    """The largest difference in units in the last place, of the element and of the largest
    element.
    """
    if theirs.dtype.kind not in "fc":
        return ""
    with np.errstate(all="ignore"):
        ulps = np.abs(ours - theirs) / np.finfo(theirs.dtype).eps
        of_largest = np.nanmax(ulps) / np.abs(theirs[np.isfinite(theirs)]).max(initial=0)
        return f"{np.nanmax(ulps / np.abs(theirs)):.3g} ulps, {of_largest:.3g} of the largest: "


def compare(name: str, ours: Any, theirs: Any, widened: Callable[[], Any]) -> Outcome:
    """Compare results: their number, dtypes, shapes and values."""
    ours, theirs = flatten(ours), flatten(theirs)
    if name in FIRST_RESULT:
        ours, theirs = ours[:1], theirs[:1]
    if len(ours) != len(theirs):
        return Outcome("shape", f"{len(ours)} results instead of {len(theirs)}")
    outcome = AGREES
    for position, (x, y) in enumerate(zip(ours, theirs, strict=True)):
        if not isinstance(y, torch.Tensor):
            x = x.item() if isinstance(x, Tensor) else x
            if x != y and x == x:
                return Outcome("values", f"{x} instead of {y}")
            continue
        if tuple(x.shape) != tuple(y.shape):
            return Outcome("shape", f"{tuple(x.shape)} instead of {tuple(y.shape)}")
        if name not in RANDOM:
            values = x.cast("float32").numpy() if x.dtype == svod_dtype.bfloat16 else x.numpy()
            expected = to_array(y)
            # Integers compare as floats where one side has these, and the dtype is compared below.
            is_float = expected.dtype.kind in "fc" or values.dtype.kind not in "fc"
            cast = values.astype(expected.dtype) if is_float else values
            ulps, by_largest = LOOSE.get(name, ULPS), name in LOOSE
            if position in VECTORS.get(name, ()):
                cast, expected = np.abs(cast), np.abs(expected)
            if not is_close(cast, expected, ulps, by_largest=by_largest):
                # PyTorch rounds too: what it gives in twice the width is as good.
                wide = (
                    to_array(flatten(widened())[position])
                    if y.dtype in (torch.float32, torch.complex64)
                    else expected
                )
                wide = np.abs(wide) if position in VECTORS.get(name, ()) else wide
                if not is_close(cast, wide.astype(expected.dtype), ulps, by_largest=by_largest):
                    return Outcome(
                        "values", f"{measure(cast, expected)}{cast} instead of {expected}"
                    )
        if x.dtype != to_svod(y.dtype):
            outcome = Outcome("dtype", f"{x.dtype} instead of {y.dtype}")
    return outcome


WIDE = {"float32": "float64", "complex64": "complex128"}


def widen(value: Any) -> Any:
    """The tensor or dtype in twice the width."""
    name = str(value if isinstance(value, torch.dtype) else value.dtype).removeprefix("torch.")
    wide = getattr(torch, WIDE.get(name, name))
    return wide if isinstance(value, torch.dtype) else value.detach().to(wide)


def widen_integers(value: Any) -> Any:
    """The tensor or dtype in twice the width, and float64 for integers, whose functions are
    float32.
    """
    if isinstance(value, torch.Tensor) and not value.is_floating_point() and not value.is_complex():
        return value.double()
    return widen(value)


def has_float_results(name: str, dtype: str) -> bool:
    """True for functions of one or two elements that map integers to floats."""
    return dtype == "int64" and name.startswith("special.")


def run_values(name: str, dtype: str) -> list[tuple[Any, Outcome]]:
    """The outcome of each sample; all are computed together, which compiles their kernels
    together.
    """
    samples, results = make_samples(name, dtype), []
    for sample in samples:
        try:
            args, kwargs = (
                map_tensors(to_svod, (sample.input, *sample.args)),
                map_tensors(to_svod, sample.kwargs),
            )
            results.append(call_svod(name, args, kwargs))
        except UnsupportedError as error:
            results.append(Outcome("unsupported", str(error)))
        except Exception as error:
            results.append(Outcome(type(error).__name__, str(error)))
    realize(results)
    outcomes = []
    for sample, ours in zip(samples, results, strict=True):
        if isinstance(ours, Outcome):
            outcomes.append((sample, ours))
            continue
        try:
            theirs = call_torch(name, sample)
            outcomes.append(
                (
                    sample,
                    compare(
                        name,
                        ours,
                        theirs,
                        lambda sample=sample: call_torch(
                            name,
                            sample,
                            widen_integers if has_float_results(name, dtype) else widen,
                        ),
                    ),
                )
            )
        except Exception as error:
            outcomes.append((sample, Outcome(type(error).__name__, str(error))))
    return outcomes


def realize(results: list[Any]) -> None:
    """Compute all results together; one that fails is computed again where it is read."""
    tensors = [part for result in results for part in flatten(result) if isinstance(part, Tensor)]
    try:
        Tensor.realize_batch(tensors)
    except Exception:
        return


def is_differentiable(value: Any) -> bool:
    return isinstance(value, torch.Tensor) and value.requires_grad


def run_gradients(name: str) -> list[tuple[Any, Outcome]]:
    """The outcome of each sample: its gradients in float64 with a drawn cotangent."""
    samples, results, expectations = [], [], []
    rng = np.random.default_rng(0)
    for sample in make_samples(name, "float64", requires_grad=True):
        leaves: list[Any] = []
        map_tensors(
            lambda x, leaves=leaves: leaves.append(x) if is_differentiable(x) else x,
            [sample.input, *sample.args, *sample.kwargs.values()],
        )
        if not leaves:
            continue
        outputs = flatten(call_torch(name, sample))[: 1 if name in FIRST_RESULT else None]
        kept = [i for i, output in enumerate(outputs) if is_differentiable(output)]
        if not kept:
            continue
        cotangents = [draw(rng, outputs[i]) for i in kept]
        samples.append(sample)
        try:
            theirs = torch.autograd.grad(
                [outputs[i] for i in kept], leaves, cotangents, allow_unused=True
            )
        except RuntimeError as error:
            # Some gradients are not determined, and PyTorch says so.
            results.append(Outcome("undetermined", str(error)))
            expectations.append([])
            continue
        expectations.append(
            [
                torch.zeros_like(x) if part is None else part
                for x, part in zip(leaves, theirs, strict=True)
            ]
        )
        try:
            results.append(differentiate(name, sample, leaves, kept, cotangents))
        except UnsupportedError as error:
            results.append(Outcome("unsupported", str(error)))
        except Exception as error:
            results.append(Outcome(type(error).__name__, str(error)))
    realize(results)
    outcomes = []
    for sample, ours, theirs in zip(samples, results, expectations, strict=True):
        if isinstance(ours, Outcome):
            outcomes.append((sample, ours))
            continue
        try:
            outcomes.append((sample, compare_gradients(ours, theirs)))
        except Exception as error:
            outcomes.append((sample, Outcome(type(error).__name__, str(error))))
    return outcomes


def draw(rng: np.random.Generator, output: Any) -> Any:
    """A cotangent of an output, with an imaginary part where the output has one."""
    shape = tuple(output.shape)
    value = rng.normal(size=shape) + (1j * rng.normal(size=shape) if output.is_complex() else 0)
    return torch.tensor(np.asarray(value)).to(output.dtype)


def differentiate(
    name: str, sample: Any, leaves: list[Any], kept: list[int], cotangents: list[Any]
) -> list[Tensor]:
    """The gradients of the counterpart at the leaves, for cotangents of the outputs in `kept`."""
    positions = {id(leaf): position for position, leaf in enumerate(leaves)}

    def call(*inputs: Tensor) -> Any:
        def convert(value: Any) -> Any:
            return inputs[positions[id(value)]] if id(value) in positions else to_svod(value)

        args, kwargs = (
            map_tensors(convert, (sample.input, *sample.args)),
            map_tensors(convert, sample.kwargs),
        )
        outputs = flatten(call_svod(name, args, kwargs))
        return tuple(outputs[i] for i in kept)

    values, pull = vjp(call, *map(to_svod, leaves))
    # PyTorch's gradients of complex numbers are the conjugates of those here and in JAX.
    return [
        part.conj()
        for part in pull(
            tuple(to_svod(c).conj().cast(v.dtype) for c, v in zip(cotangents, values, strict=True))
        )
    ]


def compare_gradients(ours: list[Tensor], theirs: list[Any]) -> Outcome:
    outcome = AGREES
    for x, y in zip(ours, theirs, strict=True):
        expected = to_array(y)
        if tuple(x.shape) != expected.shape:
            return Outcome("shape", f"{tuple(x.shape)} instead of {expected.shape}")
        scale = max(1.0, np.abs(expected[np.isfinite(expected)]).max(initial=0))
        if not np.allclose(x.numpy(), expected, rtol=1e-9, atol=1e-9 * scale, equal_nan=True):
            return Outcome("values", f"{x.numpy()} instead of {expected}")
    return outcome


def check(
    key: str, outcomes: list[tuple[Any, Outcome]], record: Callable[[str, object], None]
) -> None:
    """Compare the numbers of samples that differ, by the kind of difference, with the table."""
    found = Counter(f"{key} {outcome.kind}" for _, outcome in outcomes if outcome.kind is not None)
    expected = Counter(
        {entry: count for entry, count in TABLE.items() if entry.rpartition(" ")[0] == key}
    )
    record(
        "samples",
        [key.split()[-1], len(outcomes), sum(found.values()), found[f"{key} unsupported"]],
    )
    if found != expected:
        lines = [
            f"{outcome.kind}: {describe(sample)}: {outcome.text}"
            for sample, outcome in outcomes
            if outcome.kind is not None
        ]
        pytest.fail(
            "\n".join(
                [
                    (
                        f"of {len(outcomes)} samples differ {dict(found)}, in the table"
                        f" {dict(expected)}"
                    ),
                    *lines,
                ]
            ),
            pytrace=False,
        )


def test_every_entry_has_a_counterpart_or_a_reason_for_none() -> None:
    without = [name for group in EXCEPTIONS["without"] for name in group["operators"]]
    assert sorted([*COUNTERPARTS, *without]) == sorted(DATABASE)


def test_every_exception_names_a_test() -> None:
    keys = {f"{name} {dtype}" for name, dtype in CALLS} | {
        f"{name} gradients" for name in DIFFERENTIABLE
    }
    assert {entry.rpartition(" ")[0] for entry in TABLE} <= keys


@pytest.mark.parametrize(
    ("name", "dtype"), [pytest.param(*call, id=f"{call[0]}-{call[1]}") for call in CALLS]
)
def test_values(name: str, dtype: str, record_property: Callable[[str, object], None]) -> None:
    check(f"{name} {dtype}", run_values(name, dtype), record_property)


@pytest.mark.parametrize("name", DIFFERENTIABLE)
def test_gradients(name: str, record_property: Callable[[str, object], None]) -> None:
    check(f"{name} gradients", run_gradients(name), record_property)
