"""Tests of tensors, for svod and for device plugins: inputs, comparison with NumPy, and a
conformance suite.

    from svod_testing import OperatorConformance

    class TestOperators(OperatorConformance):
        device = "MINE"

`svod_device.testing` tests the protocols of a device; this suite computes with tensors on it.

Example:
    What the suite does with each operator:

    >>> import numpy as np
    >>> from svod_tensor import Tensor
    >>> from svod_testing import OperatorCase, OperatorConformance, check
    >>> class TestOperators(OperatorConformance):
    ...     device = "CPU"
    >>> case = OperatorCase("triple", (((2, 3), "int32"),), lambda x: x * 3, lambda a: a * 3)
    >>> arrays = case.make_inputs()
    >>> found = TestOperators().compute(case.on_tensors(*map(Tensor, arrays)))
    >>> check(found, case.expected(arrays))

    The cases of the suite, with arrays of these shapes:

    >>> from svod_testing import OPERATORS, SHAPES, make_array
    >>> for case in OPERATORS:
    ...     if case.name.startswith("matmul"):
    ...         arrays = case.make_inputs()
    ...         check(case.on_tensors(*map(Tensor, arrays)), case.expected(arrays))
    >>> for shape in SHAPES:
    ...     array = make_array(np.random.default_rng(0), shape, "float32")
    ...     check(Tensor(array).sum(), array.sum())
"""

from __future__ import annotations

import pytest

# Before the modules are imported: a failed assertion in them shows its operands, as in a test file.
pytest.register_assert_rewrite(*(f"svod_testing.{name}" for name in ("_compare", "_conformance")))

from svod_testing._compare import SHAPES, check, make_array  # noqa: E402
from svod_testing._conformance import OperatorConformance  # noqa: E402
from svod_testing._graphs import place_graph  # noqa: E402
from svod_testing._mesh_simulation import simulate_mesh  # noqa: E402
from svod_testing._operators import OPERATORS, OperatorCase  # noqa: E402
from svod_testing._sharded_programs import check_sharded_program  # noqa: E402

__all__ = [
    "OPERATORS",
    "SHAPES",
    "OperatorCase",
    "OperatorConformance",
    "check",
    "check_sharded_program",
    "make_array",
    "place_graph",
    "simulate_mesh",
]
