from __future__ import annotations

from collections import OrderedDict
from typing import Any, NamedTuple

import pytest

from svod_tensor import Tensor
from svod_tensor._trees import flatten


class Pair(NamedTuple):
    low: Any
    high: Any


VALUES = [
    (1, [1], ("",), "*"),
    ([], [], (), "[]"),
    (None, [], (), "None"),
    ((1,), [1], ("[0]",), "(*,)"),
    ([1, (2, [3])], [1, 2, 3], ("[0]", "[1][0]", "[1][1][0]"), "[*, (*, [*])]"),
    ({"b": 1, "a": [2]}, [2, 1], ("['a'][0]", "['b']"), "{'a': [*], 'b': *}"),
    ({10: 1, 9: 2}, [2, 1], ("[9]", "[10]"), "{9: *, 10: *}"),
    ({"b": 1, 2: 3}, [1, 3], ("['b']", "[2]"), "{'b': *, 2: *}"),
    (Pair(1, {"x": None}), [1], (".low",), "Pair(low=*, high={'x': None})"),
    ([{}, ()], [], (), "[{}, ()]"),
]


@pytest.mark.parametrize(("tree", "leaves", "paths", "text"), VALUES)
def test_a_nested_value_is_flattened_to_leaves_and_a_structure(tree, leaves, paths, text) -> None:
    found, structure = flatten(tree)
    assert (found, structure.paths, str(structure), structure.n_leaves) == (
        leaves,
        paths,
        text,
        len(leaves),
    )
    assert structure.unflatten(found) == tree
    assert flatten(structure.unflatten(found))[1] == structure


def test_paths_are_written_as_python_has_them() -> None:
    tree = {"w": [1, Pair(2, (3,))], "b": {0: 4}}
    leaves, structure = flatten(tree)
    assert [eval(f"tree{path}", {"tree": tree}) for path in structure.paths] == leaves


def test_dicts_with_the_same_keys_have_one_structure_and_keep_their_order() -> None:
    one, other = {"a": 1, "b": 2}, OrderedDict(b=2, a=1)
    assert flatten(one) == flatten(other)
    assert hash(flatten(one)[1]) == hash(flatten(other)[1])
    assert list(flatten(other)[1].unflatten([1, 2]).items()) == [("b", 2), ("a", 1)]


def test_structures_of_all_different_values_differ() -> None:
    trees = [
        *(tree for tree, *_ in VALUES),
        (1, 2),
        [1, 2],
        Pair(1, 2),
        {"a": 1},
        {"a": None},
        [None],
        [()],
    ]
    assert len({flatten(tree)[1] for tree in trees}) == len(trees)


def test_tensors_are_leaves() -> None:
    x, y = Tensor([1.0]), Tensor([2.0])
    leaves, structure = flatten((x, [y]))
    assert leaves[0] is x
    assert leaves[1] is y
    assert structure == flatten((1, [2]))[1]


def test_the_first_difference_of_structures_is_named() -> None:
    _, structure = flatten({"w": [1, (2, 3)], "b": 1})
    for other, difference in (
        ({"w": [1, (2, 3)], "b": 1}, None),
        ({"w": [1, [2, 3]], "b": 1}, ("['w'][1]", "tuple of 2", "list of 2")),
        ({"w": [1, (2, 3, 4)], "b": 1}, ("['w'][1]", "tuple of 2", "tuple of 3")),
        ({"w": [1, (2, 3)], "c": 1}, ("", "dict of 'b', 'w'", "dict of 'c', 'w'")),
        ({"w": [1, (2, None)], "b": 1}, ("['w'][1][1]", "a leaf", "None")),
        ({"w": [1, Pair(2, 3)], "b": 1}, ("['w'][1]", "tuple of 2", "Pair of 2")),
        ({"w": [1, (2, 3)], "b": {}}, ("['b']", "a leaf", "dict of nothing")),
    ):
        assert structure.find_difference(flatten(other)[1]) == difference


def test_another_number_of_leaves_cannot_be_arranged() -> None:
    with pytest.raises(ValueError, match=r"expected 2 leaves, got 1: \[\*, \*\]"):
        flatten([1, 2])[1].unflatten([1])
