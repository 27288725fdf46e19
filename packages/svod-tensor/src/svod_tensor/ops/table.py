"""Every public name of `Tensor`: the module that defines it, what the array API standard calls it, and the test that shows it.

`docs/operations.md` is made from this table, and tests compare it with `Tensor`.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from svod_tensor.ops.operation import OPERATIONS

__all__ = ["TABLE", "Member"]


class Member(NamedTuple):
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
_METHODS: Final[tuple[Member, ...]] = (
    Member("content", "base", "", "test_operations.py::test_a_tensor_is_made_of_a_node_or_of_the_content_of_another"),
    Member("from_uop", "base", "", "test_operations.py::test_a_tensor_is_made_of_a_node_or_of_the_content_of_another"),
    Member("along", "base", "", "test_operations.py::test_a_tensor_is_made_of_a_node_or_of_the_content_of_another"),
    Member("from_content", "base", "", "test_operations.py::test_a_tensor_is_made_of_a_node_or_of_the_content_of_another"),
    Member("uop", "base", "", "test_operations.py::test_a_tensor_is_made_of_a_node_or_of_the_content_of_another"),
    Member("dtype", "base", "dtype", "test_creation.py::test_python_data_gets_the_smallest_default_dtype_that_holds_it"),
    Member("shape", "base", "shape", "test_operations.py::test_sizes_agree_with_numpy"),
    Member("ndim", "base", "ndim", "test_operations.py::test_sizes_agree_with_numpy"),
    Member("size", "base", "size", "test_operations.py::test_sizes_agree_with_numpy"),
    Member("itemsize", "base", "", "test_operations.py::test_sizes_agree_with_numpy"),
    Member("nbytes", "base", "", "test_operations.py::test_sizes_agree_with_numpy"),
    Member("device", "base", "device", "test_devices.py::test_what_is_like_a_tensor_is_on_its_device"),
    Member("sharding", "base", "", "test_sharding.py::test_one_device_needs_no_shards"),
    Member("form", "base", "", "test_operations.py::test_a_tensor_is_made_of_a_node_or_of_the_content_of_another"),
    Member("is_realized", "base", "", "test_realize.py::test_realizing_a_realized_tensor_changes_nothing"),
    Member("realize", "tensor", "", "test_realize.py::test_realizing_a_realized_tensor_changes_nothing"),
    Member("realize_with", "tensor", "", "test_realize.py::test_a_configuration_reaches_the_optimizer"),
    Member("realize_batch", "tensor", "", "test_realize.py::test_a_batch_may_name_a_tensor_twice_and_mix_realized_ones"),
    Member("realize_batch_with", "tensor", "", "test_realize.py::test_an_optimizer_configuration_stands_for_the_one_that_holds_it"),
    Member("prepare", "tensor", "", "test_realize.py::test_a_plan_reads_new_inputs_each_time"),
    Member("prepare_with", "tensor", "", "test_realize.py::test_a_configuration_reaches_the_optimizer"),
    Member("prepare_batch", "tensor", "", "test_realize.py::test_plan_outputs_keep_the_order_of_their_tensors"),
    Member("prepare_batch_with", "tensor", "", "test_realize.py::test_an_optimizer_configuration_stands_for_the_one_that_holds_it"),
    Member("assign", "assignment", "", "test_assignment.py::test_assigning_replaces_the_elements_and_returns_the_tensor"),
    Member("gradient", "differentiation", "", "test_derivatives.py::test_a_gradient_of_a_graph_is_one_by_the_elements_of_its_sources"),
    Member("uniform", "distributions", "", "test_distributions.py::test_numbers_have_their_distribution"),
    Member("normal", "distributions", "", "test_distributions.py::test_numbers_have_their_distribution"),
    Member("exponential", "distributions", "", "test_distributions.py::test_numbers_have_their_distribution"),
    Member("truncated_normal", "distributions", "", "test_distributions.py::test_numbers_have_their_distribution"),
    Member("bernoulli", "distributions", "", "test_distributions.py::test_events_have_their_probability"),
    Member("categorical", "distributions", "", "test_distributions.py::test_categories_have_probabilities_in_proportion_to_their_weights"),
    Member("multinomial", "distributions", "", "test_distributions.py::test_without_replacement_each_choice_is_among_those_left"),
    Member("permutation", "distributions", "", "test_distributions.py::test_every_order_is_as_likely"),
    Member("shuffle", "distributions", "", "test_distributions.py::test_shuffling_moves_whole_parts_along_an_axis"),
    Member("to", "placing", "", "test_devices.py::test_the_first_device_of_a_kind_has_two_names"),
    Member("to_device", "placing", "to_device", "test_devices.py::test_the_first_device_of_a_kind_has_two_names"),
    Member("shard", "placing", "", "test_sharding.py::test_a_sharded_program_agrees_with_the_reference"),
    Member("shards", "placing", "", "test_sharding.py::test_one_device_needs_no_shards"),
    Member("rand", "random", "", "test_random.py::test_uniform_numbers_are_uniform"),
    Member("randn", "random", "", "test_random.py::test_normal_numbers_are_normal"),
    Member("randint", "random", "", "test_random.py::test_integers_are_uniform_between_any_bounds"),
    Member("dropout", "random", "", "test_random.py::test_dropout_keeps_the_mean"),
    Member("buffer", "reading", "", "test_assignment.py::test_assigning_keeps_the_buffer"),
    Member("numpy", "reading", "", "test_creation.py::test_arrays_of_every_shape_come_back_unchanged"),
    Member("tolist", "reading", "", "test_creation.py::test_item_and_tolist_give_python_numbers"),
    Member("item", "reading", "", "test_creation.py::test_item_and_tolist_give_python_numbers"),
    Member("from_numpy", "sources", "", "test_creation.py::test_an_aligned_array_is_shared_and_a_copy_is_not"),
    Member("from_file", "sources", "", "test_creation.py::test_an_empty_file_is_an_empty_tensor"),
    Member("from_dlpack", "sources", "from_dlpack", "test_creation.py::test_dlpack_brings_floats_that_numpy_lacks"),
)
# fmt: on

TABLE: Final[tuple[Member, ...]] = (
    *_METHODS,
    *(Member(one.name, one.theme, one.standard, one.test, (*one.aliases, *one.methods)) for one in OPERATIONS.values()),
)
