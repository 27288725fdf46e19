from __future__ import annotations

import inspect
import pickle

import pytest

from svod_dtype import InternalError, UserError
from svod_ir import UOp
from svod_tensor import errors

EXAMPLES = {
    "AmbiguousTruthError": (
        {"shape": (2, 3)},
        "the truth value of a tensor of shape (2, 3) is ambiguous",
        ValueError,
    ),
    "ApiVersionError": (
        {"given": "2020.12", "known": ("2024.12", "2025.12")},
        "no array API '2020.12'; there are 2024.12, 2025.12",
        ValueError,
    ),
    "CopyRequiredError": (
        {"operation": "asarray", "problem": "a list has no memory to share"},
        "asarray(copy=False): a list has no memory to share",
        BufferError,
    ),
    "ArgumentNameError": (
        {"operation": "sum", "given": "dim", "expected": ("axis",), "call": "x.sum(axis=1)"},
        "sum() got an unexpected keyword argument 'dim'",
        TypeError,
    ),
    "MissingNameError": (
        {"owner": "'Tensor' object", "missing": "cuda", "hint": 'write x.to("CUDA")'},
        "'Tensor' object has no attribute 'cuda'",
        AttributeError,
    ),
    "UnknownPlanError": (
        {"name": "stp", "known": ("step", "start")},
        "no captured function 'stp' has kernels that were not searched before; there are step, start",
        LookupError,
    ),
    "MissingImportError": (
        {"module": "svod_tensor", "missing": "tensor", "hint": "write Tensor(data)"},
        "cannot import name 'tensor' from 'svod_tensor'",
        ImportError,
    ),
    "AssignmentDtypeError": (
        {"target": "float32", "value": "int8"},
        "cannot assign a tensor of int8 to one of float32",
        TypeError,
    ),
    "ResultDtypeError": (
        {"operation": "add", "result": "float32", "target": "int32"},
        "add: cannot cast the result from float32 to int32 with casting rule 'same_kind'",
        TypeError,
    ),
    "BatchOutputError": (
        {"expected": 3, "found": 2},
        "3 tensors are to be realized, but the plan has 2 outputs",
        ValueError,
    ),
    "BufferNotFoundError": ({"node": "BUFFER 4"}, "no buffer for BUFFER 4", LookupError),
    "BranchError": (
        {
            "operation": "cond",
            "path": "result['a']",
            "first": "float32 (3,)",
            "other": "float32 ()",
            "branches": ("true_fun", "false_fun"),
        },
        "cond: result['a']: float32 (3,) from true_fun, but float32 () from false_fun",
        TypeError,
    ),
    "CarriedValueError": (
        {
            "operation": "scan",
            "path": "carry[1]",
            "before": "float32 (3,)",
            "after": "float64 (3,)",
        },
        "scan: carry[1]: float32 (3,) became float64 (3,)",
        TypeError,
    ),
    "LoopArgumentError": (
        {
            "operation": "scan",
            "problem": "xs has no tensor to slice, and length is None",
            "hint": "name the length",
        },
        "scan: xs has no tensor to slice, and length is None",
        ValueError,
    ),
    "TraceError": (
        {
            "operation": "scan",
            "function": "step",
            "problem": "it returns None, not a pair",
            "hint": "return a pair",
        },
        "scan cannot run step: it returns None, not a pair",
        RuntimeError,
    ),
    "CalledPropertyError": (
        {"name": "size", "hint": "write x.shape[0]"},
        "size is a property and not callable\n  hint: write x.shape[0]",
        TypeError,
    ),
    "CaptureError": (
        {"function": "step", "problem": "it reads values while it is captured", "hint": "do not"},
        "cannot capture step: it reads values while it is captured",
        RuntimeError,
    ),
    "DataDependentShapeError": (
        {"operation": "x[mask]", "hint": "use where"},
        "x[mask]: the shape of the result depends on values that are not computed yet",
        IndexError,
    ),
    "DataError": ({"found": {}}, "cannot convert dict to a tensor", TypeError),
    "DependencyCycleError": (
        {"kernels": ["a", "b"]},
        "2 kernels depend on each other: a, b",
        ValueError,
    ),
    "DerivativeError": (
        {
            "operation": "grad",
            "problem": "the function returns shape (2,), not a scalar",
            "hint": "reduce it",
        },
        "grad: the function returns shape (2,), not a scalar",
        ValueError,
    ),
    "DonatedTensorError": (
        {"argument": "x", "taker": "step"},
        "this tensor was donated: step took its memory as x",
        RuntimeError,
    ),
    "DonationError": (
        {"function": "step", "argument": "x", "problem": "is a file", "hint": "copy it"},
        "cannot donate x to step: it is a file",
        ValueError,
    ),
    "DynamicShapeError": (
        {"function": "step", "parameter": "'x'", "problem": "is not a parameter"},
        "dynamic_shapes of step: 'x' is not a parameter",
        ValueError,
    ),
    "EinsumError": (
        {"formula": "ij", "problem": "it is odd"},
        "einsum 'ij': it is odd",
        ValueError,
    ),
    "EmptyReductionError": (
        {"operation": "max", "shape": (0,), "axis": 0},
        "max: zero-size array to reduction operation, which has no identity: axis 0 of shape (0,)",
        ValueError,
    ),
    "EmptyScheduleError": (
        {"n_tensors": 0},
        "nothing to prepare: no tensors were given",
        ValueError,
    ),
    "IndexKindError": (
        {"found": 1.5, "problem": "float is no index"},
        "cannot index with 1.5: float is no index",
        IndexError,
    ),
    "IndexOutOfRangeError": (
        {"index": 5, "axis": 1, "size": 3},
        "index 5 is out of bounds for axis 1 with size 3",
        IndexError,
    ),
    "IntegerDivisionError": (
        {"operation": "floor_divide", "position": (1, 0)},
        "floor_divide: element (1, 0) of the divisor is 0",
        ZeroDivisionError,
    ),
    "IntegerOverflowError": (
        {"value": 300, "dtype": "int8"},
        "300 does not fit int8",
        OverflowError,
    ),
    "MatrixError": (
        {"operation": "inv", "problem": "is singular", "index": (2, 1)},
        "inv: matrix 2, 1 is singular",
        ValueError,
    ),
    "MissingFileError": ({"path": "/x"}, "no such file or directory: '/x'", FileNotFoundError),
    "NoKernelsFoundError": ({"root": "SINK"}, "no kernels found below SINK", ValueError),
    "NonFiniteCastError": (
        {"value": float("nan"), "dtype": "int8"},
        "cannot convert nan to int8",
        ValueError,
    ),
    "IndexTensorError": (
        {"operation": "take", "position": (2,), "value": 9, "axis": 1, "size": 4},
        (
            "take: element (2,) of the indices is 9, out of bounds for axis 1 with size 4\n  hint:"
            " use -4 to 3"
        ),
        IndexError,
    ),
    "ProgramMetadataError": (
        {
            "problem": "it writes nothing",
            "kernel": "k",
            "globals_": [0],
            "outs": [],
            "n_buffers": 1,
        },
        "kernel k: it writes nothing\n  note: globals (0,), outs (), 1 buffers",
        ValueError,
    ),
    "RaggedDataError": (
        {"depth": 1, "lengths": [-1, 2]},
        "nested lists have an inhomogeneous shape after 1 dimension: lengths a scalar, 2",
        ValueError,
    ),
    "RepeatedWriteError": (
        {"shape": (2, 3)},
        "cannot write to a tensor of shape (2, 3) that repeats elements of another one",
        ValueError,
    ),
    "SafetensorsError": (
        {"path": "/m", "problem": "it lies", "name": "w"},
        "/m, tensor 'w': it lies",
        ValueError,
    ),
    "ScheduleError": ({"rule": "a rule", "found": "CONST"}, "a rule, found CONST", ValueError),
    "StaleCaptureError": (
        {"function": "f", "path": "[0]", "result": "1", "expected": "2"},
        "f: the captured function's result[0] is 1, and the plain one's 2",
        RuntimeError,
    ),
    "SymbolicBoundsError": (
        {
            "operation": "slicing",
            "axis": 1,
            "found": UOp.variable("at", 0, 9) + 1,
            "low": 0,
            "high": 8,
        },
        "slicing: at + 1, which may be 1 to 10, is not known to be from 0 to 8 on axis 1",
        IndexError,
    ),
    "SingleElementError": (
        {"operation": "item", "shape": (3,)},
        "item: only one-element tensors can be converted to a Python scalar, not shape (3,)",
        ValueError,
    ),
    "ShardError": ({"devices": ("CPU", "CPU")}, "shard: got a device twice: CPU, CPU", ValueError),
    "SymbolicShapeError": (
        {"operation": "split", "shape": ("n",)},
        "split needs concrete sizes, not (n,)",
        ValueError,
    ),
    "BoundsConflictError": (
        {"name": "n", "first": (1, 16), "second": (1, 8)},
        "variable 'n' goes from 1 to 8 and from 1 to 16 in one computation",
        ValueError,
    ),
    "VariableNameError": (
        {"name": "n m", "problem": "is not an identifier"},
        "variable name 'n m' is not an identifier",
        ValueError,
    ),
    "VariableBoundsError": (
        {"name": "n", "low": 1, "high": 4, "value": 9},
        "variable 'n': 9 is outside 1 to 4",
        ValueError,
    ),
    "VariableConflictError": (
        {"name": "n", "first": 1, "second": 2},
        "variable 'n' is bound to 1 and to 2 in one computation",
        ValueError,
    ),
    "ViewBoundsError": (
        {"kernel": 1, "base_id": 2, "base_bytes": 8, "offset_bytes": 4, "size_bytes": 8},
        "view 1 of buffer 2 takes 8 bytes at offset 4, but there are 8",
        ValueError,
    ),
}


OWN = [name for name in errors.__all__ if getattr(errors, name).__module__ == errors.__name__]


def test_every_error_has_an_example():
    assert set(EXAMPLES) == set(OWN)


@pytest.mark.parametrize("name", OWN)
def test_messages_are_as_written(name):
    values, message, builtin = EXAMPLES[name]
    error = getattr(errors, name)(**values)
    assert str(error).startswith(message)
    assert isinstance(error, builtin)
    assert isinstance(error, (UserError, InternalError))


def test_the_tree_at_the_top_of_the_module_is_complete():
    assert all(name in inspect.getdoc(errors) for name in errors.__all__)


@pytest.mark.parametrize("name", EXAMPLES)
def test_errors_are_picklable(name: str) -> None:
    error = getattr(errors, name)(**EXAMPLES[name][0])
    found = pickle.loads(pickle.dumps(error))
    assert (type(found), str(found)) == (type(error), str(error))
    assert found.__dict__.keys() == error.__dict__.keys()
