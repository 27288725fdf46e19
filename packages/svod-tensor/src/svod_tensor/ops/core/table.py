"""Table of the public names of `Tensor`: defining module, name in the array API standard, and test.

`docs/operations.md` is generated from this table, and tests compare it with `Tensor`.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from svod_tensor.ops.core.operation import OPERATIONS

__all__ = ["TABLE", "Member"]


class Member(NamedTuple):
    """One method or property of `Tensor`.

    Attributes:
        name: name of the method.
        theme: the module of `svod_tensor.ops` that defines it; `tensor` for methods that realize.
        standard: its name in the array API standard, version 2025.12; empty where that has none.
        test: the test of its values, as "file.py::function" in packages/svod-tensor/tests.
        also: other names of the same method.
    """

    name: str
    theme: str
    standard: str
    test: str
    also: tuple[str, ...] = ()


# fmt: off
_METHODS: Final[tuple[Member, ...]] = (
    Member("content", "core.base", "", "test_operations.py::test_a_tensor_is_created_from_a_node_or_the_content_of_another"),
    Member("from_uop", "core.base", "", "test_operations.py::test_a_tensor_is_created_from_a_node_or_the_content_of_another"),
    Member("along", "core.base", "", "test_operations.py::test_a_tensor_is_created_from_a_node_or_the_content_of_another"),
    Member("from_content", "core.base", "", "test_operations.py::test_a_tensor_is_created_from_a_node_or_the_content_of_another"),
    Member("uop", "core.base", "", "test_operations.py::test_a_tensor_is_created_from_a_node_or_the_content_of_another"),
    Member("dtype", "core.base", "dtype", "test_creation.py::test_python_data_gets_the_smallest_default_dtype_that_holds_it"),
    Member("shape", "core.base", "shape", "test_operations.py::test_sizes_agree_with_numpy"),
    Member("ndim", "core.base", "ndim", "test_operations.py::test_sizes_agree_with_numpy"),
    Member("size", "core.base", "size", "test_operations.py::test_sizes_agree_with_numpy"),
    Member("itemsize", "core.base", "", "test_operations.py::test_sizes_agree_with_numpy"),
    Member("nbytes", "core.base", "", "test_operations.py::test_sizes_agree_with_numpy"),
    Member("device", "core.base", "device", "test_devices.py::test_like_functions_keep_the_device"),
    Member("sharding", "core.base", "", "test_sharding.py::test_one_device_needs_no_shards"),
    Member("spec", "core.base", "", "test_operations.py::test_a_tensor_is_created_from_a_node_or_the_content_of_another"),
    Member("is_realized", "core.base", "", "test_realize.py::test_realizing_a_realized_tensor_has_no_effect"),
    Member("realize", "tensor", "", "test_realize.py::test_realizing_a_realized_tensor_has_no_effect"),
    Member("realize_with", "tensor", "", "test_realize.py::test_a_configuration_reaches_the_optimizer"),
    Member("realize_batch", "tensor", "", "test_realize.py::test_a_batch_may_name_a_tensor_twice_and_mix_realized_ones"),
    Member("realize_batch_with", "tensor", "", "test_realize.py::test_an_optimizer_configuration_is_accepted_as_prepare_configuration"),
    Member("prepare", "tensor", "", "test_realize.py::test_a_plan_reads_new_inputs_each_time"),
    Member("prepare_with", "tensor", "", "test_realize.py::test_a_configuration_reaches_the_optimizer"),
    Member("prepare_batch", "tensor", "", "test_realize.py::test_plan_outputs_keep_the_order_of_their_tensors"),
    Member("prepare_batch_with", "tensor", "", "test_realize.py::test_an_optimizer_configuration_is_accepted_as_prepare_configuration"),
)
# fmt: on

TABLE: Final[tuple[Member, ...]] = (
    *_METHODS,
    *(
        Member(op.name, op.theme, op.standard, op.test, (*op.aliases, *op.methods))
        for op in OPERATIONS.values()
    ),
)
