"""Selection of bounding boxes."""

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
    """Indices (batch, class, box) of the selected boxes, in descending order of their scores.

    A selected box overlaps each earlier box of its class by at most `iou_threshold`.

    Args:
        boxes: (batch, boxes, 4): two corners as y, x, y, x; or center and size as x, y, width,
            height.
        scores: (batch, classes, boxes).
        max_output_boxes_per_class: largest number of selected boxes of a class; 0 by default.
        iou_threshold: largest intersection over union of two selected boxes; 0 by default.
        score_threshold: boxes need a score above it.
        center_point_box: whether boxes are given by center and size.
    """
    n_boxes = (
        0
        if max_output_boxes_per_class is None or max_output_boxes_per_class.size == 0
        else int(max_output_boxes_per_class.item())
    )
    max_iou = (
        0.0 if iou_threshold is None or iou_threshold.size == 0 else float(iou_threshold.item())
    )
    rows: list[tuple[int, int, int]] = []
    for batch in range(scores.shape[0]):
        # In float64: products of half-precision coordinates overflow.
        low, high = _order_corners(
            boxes[batch].astype(np.float64), is_centred=bool(center_point_box)
        )
        for class_index in range(scores.shape[1]):
            class_scores = scores[batch, class_index]
            # A stable sort keeps the order of equal scores, as the reference does.
            order = np.argsort(-class_scores, kind="stable")
            if score_threshold is not None and score_threshold.size:
                order = order[class_scores[order] > score_threshold.item()]
            rows += [
                (batch, class_index, int(box))
                for box in _select(low, high, order, max_iou, n_boxes)
            ]
    return np.array(rows, np.int64).reshape(-1, 3)


def _order_corners(boxes: np.ndarray, *, is_centred: bool) -> tuple[np.ndarray, np.ndarray]:
    """Lower and upper coordinates of boxes."""
    first, second = boxes[:, :2], boxes[:, 2:]
    if is_centred:
        return first - second / 2, first + second / 2
    return np.minimum(first, second), np.maximum(first, second)


def _select(
    low: np.ndarray, high: np.ndarray, order: np.ndarray, max_iou: float, limit: int
) -> list[int]:
    """Boxes in `order` that no selected box suppresses."""
    areas = np.prod(high - low, axis=1)
    selected: list[int] = []
    while order.size and len(selected) < limit:
        best, order = int(order[0]), order[1:]
        selected.append(best)
        intersection = np.prod(
            np.clip(
                np.minimum(high[best], high[order]) - np.maximum(low[best], low[order]), 0, None
            ),
            axis=1,
        )
        union = areas[best] + areas[order] - intersection
        # A product, since boxes without area have a union of 0.
        order = order[intersection <= max_iou * union]
    return selected
