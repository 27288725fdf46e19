"""Boxes of objects that are not hidden by better ones."""

from __future__ import annotations

import numpy as np

from svod_onnx._registry import Known, Value, operator

__all__ = ["non_max_suppression"]


@operator("NonMaxSuppression", is_host=True)
def non_max_suppression(
    boxes: Known,
    scores: Known,
    max_output_boxes_per_class: Known | None = None,
    iou_threshold: Known | None = None,
    score_threshold: Known | None = None,
    *,
    center_point_box: int = 0,
) -> Value:
    """Rows of batch, class and box, the best first: each box overlaps those before it in its class
    by no more than is allowed.

    Args:
        boxes: (batch, boxes, 4): two corners as y, x, y, x; or the centre and the size as x, y,
            width, height.
        scores: (batch, classes, boxes).
        max_output_boxes_per_class: how many boxes of a class there may be; none by default.
        iou_threshold: the share of two boxes' union that both may cover; 0 by default.
        score_threshold: only scores above it count.
        center_point_box: whether boxes have centres.
    """
    n_boxes = (
        0
        if max_output_boxes_per_class is None or max_output_boxes_per_class.size == 0
        else int(max_output_boxes_per_class.item())
    )
    share = 0.0 if iou_threshold is None or iou_threshold.size == 0 else float(iou_threshold.item())
    rows: list[tuple[int, int, int]] = []
    for batch in range(scores.shape[0]):
        low, high = _order_corners(
            boxes[batch].astype(np.float64), is_centred=bool(center_point_box)
        )
        for kind in range(scores.shape[1]):
            own = scores[batch, kind]
            order = np.argsort(-own, kind="stable")
            if score_threshold is not None and score_threshold.size:
                order = order[own[order] > score_threshold.item()]
            rows += [
                (batch, kind, int(place)) for place in _select(low, high, order, share, n_boxes)
            ]
    return np.array(rows, np.int64).reshape(-1, 3)


def _order_corners(boxes: np.ndarray, *, is_centred: bool) -> tuple[np.ndarray, np.ndarray]:
    """The least and the greatest coordinates of boxes."""
    first, second = boxes[:, :2], boxes[:, 2:]
    if is_centred:
        return first - second / 2, first + second / 2
    return np.minimum(first, second), np.maximum(first, second)


def _select(
    low: np.ndarray, high: np.ndarray, order: np.ndarray, share: float, limit: int
) -> list[int]:
    """The boxes in `order` that none before them hides."""
    areas = np.prod(high - low, axis=1)
    kept: list[int] = []
    while order.size and len(kept) < limit:
        best, order = int(order[0]), order[1:]
        kept.append(best)
        both = np.prod(
            np.clip(
                np.minimum(high[best], high[order]) - np.maximum(low[best], low[order]), 0, None
            ),
            axis=1,
        )
        union = areas[best] + areas[order] - both
        order = order[both <= share * union]
    return kept
