"""Origins of nodes: the source lines that built them, propagated through rewrites.

Nodes are hash-consed, so an origin is not part of a node. Labels are stored beside the graph: the
process has one weak table from nodes to the source lines that built them, and a compilation may
`record_labels` of its own instead (`svod_tensor` labels each node with its index in the graph, so
that cached artifacts mention no line).

A pass that rewrites a graph has a map from nodes to their images. If `make_images` made the map,
labels propagate automatically: unlabeled nodes below an image get the labels of the node.

Example:
    >>> from svod_dtype import float32
    >>> from svod_ir import BufferArg, Op, UOp
    >>> from svod_ir.origins import Origin, add_origin, clear_origins, format_origins, get_origins
    >>> from svod_ir.origins import has_origins, needs_origin
    >>> y = UOp(Op.BUFFER, float32, (), BufferArg(1, 4, "CPU")) * 2.0
    >>> clear_origins()
    >>> needs_origin(y), has_origins()
    (True, False)
    >>> add_origin(y, Origin("/home/me/model.py", 3, "forward", "mul"))
    >>> needs_origin(y), has_origins(), format_origins(get_origins(y))
    (False, True, 'model.py:3 mul')
    >>> from svod_ir.origins import add_gradient_origin, make_images, propagate_labels
    >>> gradient, faster, joined = y * 3.0, y + 1.0, y - 1.0
    >>> add_gradient_origin(gradient, y)
    >>> format_origins(get_origins(gradient))
    'model.py:3 gradient of mul'
    >>> images = make_images()  # of a pass
    >>> images[y] = faster
    >>> propagate_labels(joined, (y, gradient))
    >>> format_origins(get_origins(faster)), len(get_origins(joined))
    ('model.py:3 mul', 2)
    >>> clear_origins()
    >>> from svod_ir.origins import get_labels, record_labels
    >>> from svod_ir.origins import Labels
    >>> labels: Labels = {y: frozenset({7})}
    >>> with record_labels(labels):
    ...     make_images()[y] = faster
    ...     get_labels(faster)
    frozenset({7})
"""

from __future__ import annotations

from collections.abc import Collection, Generator, Hashable, Iterable, MutableMapping
from contextlib import contextmanager
from contextvars import ContextVar
from os.path import basename
from typing import Final, NamedTuple, TypeAlias
from weakref import WeakKeyDictionary

from svod_ir._bodies import get_bodies
from svod_ir.ops import Op
from svod_ir.uop import UOp, defines

__all__ = [
    "Labels",
    "Origin",
    "add_gradient_origin",
    "add_origin",
    "clear_origins",
    "format_origins",
    "get_labels",
    "get_origins",
    "has_origins",
    "make_images",
    "needs_origin",
    "propagate_labels",
    "record_labels",
]

Labels: TypeAlias = "MutableMapping[UOp, frozenset[Hashable]]"
"""Labels of nodes: source lines, or the indices that a compilation assigns."""


class Origin(NamedTuple):
    """A source line that built nodes, its scope, and the operation that it called."""

    file: str
    line: int
    function: str
    operation: str
    scope: str = ""

    def __str__(self) -> str:
        return f"{basename(self.file)}:{self.line} {self.operation}"


def format_origins(origins: Collection[Origin], *, max_shown: int = 1) -> str:
    """Format the first origins, and the number of others."""
    texts = list(dict.fromkeys(map(str, origins)))
    more = f" (+{len(texts) - max_shown} more)" if len(texts) > max_shown else ""
    return ", ".join(texts[:max_shown]) + more


# Weak, so that origins do not keep nodes alive.
_origins: Final[WeakKeyDictionary[UOp, frozenset[Hashable]]] = WeakKeyDictionary()
# A context variable, since threads compile different graphs at the same time.
_recorded: ContextVar[Labels | None] = ContextVar("recorded", default=None)


def has_origins() -> bool:
    """True if any node has an origin."""
    return bool(_origins)


def add_origin(root: UOp, origin: Origin | None) -> None:
    """Set the origin of each node below `root` that has none; None marks it as unknown."""
    _label(_origins, root, frozenset() if origin is None else frozenset((origin,)))


def add_gradient_origin(root: UOp, node: UOp) -> None:
    """Mark nodes below `root` that have no origin as part of the derivative of `node`."""
    # Without origins, derivatives walk no graph.
    if _origins and (label := _origins.get(node)):
        _label(
            _origins,
            root,
            frozenset(_differentiate(item) if isinstance(item, Origin) else item for item in label),
        )


def _differentiate(origin: Origin) -> Origin:
    prefix = "gradient of "
    return (
        origin
        # Of a second derivative, the prefix is not repeated.
        if origin.operation.startswith(prefix)
        else origin._replace(operation=prefix + origin.operation)
    )


def get_origins(node: UOp) -> frozenset[Origin]:
    """The source lines that built a node."""
    return frozenset(label for label in _origins.get(node, ()) if isinstance(label, Origin))


def needs_origin(node: UOp) -> bool:
    """True if a node can have an origin, and has none yet."""
    return node not in _origins and not _is_memory(node)


def clear_origins() -> None:
    """Forget all origins, for tests."""
    _origins.clear()


@contextmanager
def record_labels(labels: Labels) -> Generator[None]:
    """Propagate `labels`, instead of the origins of nodes, in the rewrites of this context."""
    token = _recorded.set(labels)
    try:
        yield
    finally:
        _recorded.reset(token)


@defines("make_images")
def make_images() -> dict[UOp, UOp]:
    """An empty map from nodes to their images; setting an entry propagates the labels of its key."""
    labels = _find_recorded()
    # A plain dict if nothing is tracked: a Python `__setitem__` would slow down every pass.
    return {} if labels is None else _Images(labels)


def propagate_labels(image: UOp, nodes: Iterable[UOp]) -> None:
    """Label `image`, and unlabeled nodes below it, with the labels of the nodes it was made from."""
    labels = _find_recorded()
    if labels is not None and image not in labels:
        none: frozenset[Hashable] = frozenset()
        label = none.union(*(labels.get(node, none) for node in nodes))
        if label:
            _label(labels, image, label)


def get_labels(node: UOp) -> frozenset[Hashable]:
    """The labels recorded for `node` in this context."""
    labels = _recorded.get()
    return frozenset() if labels is None else labels.get(node, frozenset())


def _find_recorded() -> Labels | None:
    labels = _recorded.get()
    return labels if labels is not None or not _origins else _origins


def _label(labels: Labels, root: UOp, label: frozenset[Hashable]) -> None:
    stack = [root]
    while stack:
        node = stack.pop()
        # The graph below a labeled node is labeled too, so each node is entered once.
        if node not in labels and not _is_memory(node):
            labels[node] = label
            # Equal kernels of different lines share one body.
            if node.op is not Op.CALL:
                stack.extend(node.src)
                stack.extend(get_bodies(node))


def _is_memory(node: UOp) -> bool:
    """True if a node computes nothing: a leaf, or a reshaped leaf.

    Different source lines that read the same memory share such nodes.
    """
    while node.op is Op.RESHAPE or (node.op is Op.SHRINK and node.arg == (0, None)):
        node = node.source
    return not node.src


class _Images(dict["UOp", "UOp"]):
    def __init__(self, labels: Labels) -> None:
        self._labels = labels

    def __setitem__(self, node: UOp, image: UOp) -> None:
        super().__setitem__(node, image)
        label = self._labels.get(node)
        if label is not None:
            _label(self._labels, image, label)
