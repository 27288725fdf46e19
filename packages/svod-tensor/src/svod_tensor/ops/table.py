"""Every public name of `Tensor`: the module that defines it, what the array API standard calls it, and the test that shows it.

`docs/operations.md` is made from this table, and tests compare it with `Tensor`.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from svod_tensor.ops.operation import OPERATIONS

__all__ = ["TABLE", "Operation"]


class Operation(NamedTuple):
    """One method or property of `Tensor`.

    Attributes:
        name: of the method.
        theme: the module of `svod_tensor.ops` that defines it; `tensor` for what computes and reads.
        standard: its name in the array API standard, version 2025.12; empty where that has none.
        test: shows what it computes; a file of packages/svod-tensor/tests, and a function of it.
        also: other names of the same method.
    """

    name: str
    theme: str
    standard: str
    test: str
    also: tuple[str, ...] = ()


# fmt: off
_METHODS: Final[tuple[Operation, ...]] = (
    Operation("content", "base", "", "test_operations.py::test_a_tensor_is_made_of_a_node_or_of_the_content_of_another"),
    Operation("from_uop", "base", "", "test_operations.py::test_a_tensor_is_made_of_a_node_or_of_the_content_of_another"),
    Operation("along", "base", "", "test_operations.py::test_a_tensor_is_made_of_a_node_or_of_the_content_of_another"),
    Operation("from_content", "base", "", "test_operations.py::test_a_tensor_is_made_of_a_node_or_of_the_content_of_another"),
    Operation("uop", "base", "", "test_operations.py::test_a_tensor_is_made_of_a_node_or_of_the_content_of_another"),
    Operation("dtype", "base", "dtype", "test_creation.py::test_python_data_gets_the_smallest_default_dtype_that_holds_it"),
    Operation("shape", "base", "shape", "test_operations.py::test_sizes_agree_with_numpy"),
    Operation("ndim", "base", "ndim", "test_operations.py::test_sizes_agree_with_numpy"),
    Operation("size", "base", "size", "test_operations.py::test_sizes_agree_with_numpy"),
    Operation("itemsize", "base", "", "test_operations.py::test_sizes_agree_with_numpy"),
    Operation("nbytes", "base", "", "test_operations.py::test_sizes_agree_with_numpy"),
    Operation("device", "base", "device", "test_devices.py::test_what_is_like_a_tensor_is_on_its_device"),
    Operation("sharding", "base", "", "test_sharding.py::test_one_device_needs_no_shards"),
    Operation("form", "base", "", "test_operations.py::test_a_tensor_is_made_of_a_node_or_of_the_content_of_another"),
    Operation("is_realized", "base", "", "test_realize.py::test_realizing_a_realized_tensor_changes_nothing"),
    Operation("realize", "tensor", "", "test_realize.py::test_realizing_a_realized_tensor_changes_nothing"),
    Operation("realize_with", "tensor", "", "test_realize.py::test_a_configuration_reaches_the_optimizer"),
    Operation("realize_batch", "tensor", "", "test_realize.py::test_a_batch_may_name_a_tensor_twice_and_mix_realized_ones"),
    Operation("realize_batch_with", "tensor", "", "test_realize.py::test_an_optimizer_configuration_stands_for_the_one_that_holds_it"),
    Operation("prepare", "tensor", "", "test_realize.py::test_a_plan_reads_new_inputs_each_time"),
    Operation("prepare_with", "tensor", "", "test_realize.py::test_a_configuration_reaches_the_optimizer"),
    Operation("prepare_batch", "tensor", "", "test_realize.py::test_plan_outputs_keep_the_order_of_their_tensors"),
    Operation("prepare_batch_with", "tensor", "", "test_realize.py::test_an_optimizer_configuration_stands_for_the_one_that_holds_it"),
    Operation("assign", "assignment", "", "test_assignment.py::test_assigning_replaces_the_elements_and_returns_the_tensor"),
    Operation("gradient", "differentiation", "", "test_derivatives.py::test_a_gradient_of_a_graph_is_one_by_the_elements_of_its_sources"),
    Operation("uniform", "distributions", "", "test_distributions.py::test_numbers_have_their_distribution"),
    Operation("normal", "distributions", "", "test_distributions.py::test_numbers_have_their_distribution"),
    Operation("exponential", "distributions", "", "test_distributions.py::test_numbers_have_their_distribution"),
    Operation("truncated_normal", "distributions", "", "test_distributions.py::test_numbers_have_their_distribution"),
    Operation("bernoulli", "distributions", "", "test_distributions.py::test_events_have_their_probability"),
    Operation("categorical", "distributions", "", "test_distributions.py::test_categories_have_probabilities_in_proportion_to_their_weights"),
    Operation("multinomial", "distributions", "", "test_distributions.py::test_without_replacement_each_choice_is_among_those_left"),
    Operation("permutation", "distributions", "", "test_distributions.py::test_every_order_is_as_likely"),
    Operation("shuffle", "distributions", "", "test_distributions.py::test_shuffling_moves_whole_parts_along_an_axis"),
    Operation("to", "placing", "", "test_devices.py::test_the_first_device_of_a_kind_has_two_names"),
    Operation("to_device", "placing", "to_device", "test_devices.py::test_the_first_device_of_a_kind_has_two_names"),
    Operation("shard", "placing", "", "test_sharding.py::test_a_sharded_program_agrees_with_the_reference"),
    Operation("shards", "placing", "", "test_sharding.py::test_one_device_needs_no_shards"),
    Operation("rand", "random", "", "test_random.py::test_uniform_numbers_are_uniform"),
    Operation("randn", "random", "", "test_random.py::test_normal_numbers_are_normal"),
    Operation("randint", "random", "", "test_random.py::test_integers_are_uniform_between_any_bounds"),
    Operation("dropout", "random", "", "test_random.py::test_dropout_keeps_the_mean"),
    Operation("buffer", "reading", "", "test_assignment.py::test_assigning_keeps_the_buffer"),
    Operation("numpy", "reading", "", "test_creation.py::test_arrays_of_every_shape_come_back_unchanged"),
    Operation("tolist", "reading", "", "test_creation.py::test_item_and_tolist_give_python_numbers"),
    Operation("item", "reading", "", "test_creation.py::test_item_and_tolist_give_python_numbers"),
    Operation("from_numpy", "sources", "", "test_creation.py::test_an_aligned_array_is_shared_and_a_copy_is_not"),
    Operation("from_file", "sources", "", "test_creation.py::test_an_empty_file_is_an_empty_tensor"),
    Operation("from_dlpack", "sources", "from_dlpack", "test_creation.py::test_dlpack_brings_floats_that_numpy_lacks"),
)
# fmt: on

TABLE: Final[tuple[Operation, ...]] = (
    *_METHODS,
    *(
        Operation(one.name, one.theme, one.standard, one.test, (*one.aliases, *one.methods))
        for one in OPERATIONS.values()
    ),
)
