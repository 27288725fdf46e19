"""Measure products of a few rows with a large weight, each operand stored or transposed, and torch.

    python benchmarks/thin_products.py
    python benchmarks/thin_products.py --weights 4096x4096 768x3072 --rows 1 4 16 --seconds 1
    SVOD_THREADS=1 python benchmarks/thin_products.py --kinds TN TT
    python benchmarks/thin_products.py --dtype bfloat16

The kinds are named as in BLAS: N is an operand as it is stored, T a transposed view of one. `x` has
few rows and `w` is the weight, so that NN is `x @ w` for `x` of (rows, terms) and `w` of (terms,
columns); in NT, rows of the stored weight are contiguous along the sum, and in TN and TT rows of the
stored `x` are contiguous along its few rows. The columns of the kinds are svod's GFLOP/s, and the
ratios behind them torch's time of the same kind over svod's. Results are compared with torch's.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import torch

from measure import measure_in_turns
from report import describe_machine, format_machine, format_table, write_json
from svod_tensor import Tensor

ROWS = (1, 2, 4, 8, 12, 16, 24, 32, 48, 64, 128)
KINDS = ("NN", "NT", "TN", "TT")
TOLERANCES = {"float32": 1e-3, "float16": 2e-2, "bfloat16": 1e-1}
"""Relative difference from torch's product of float32, by dtype."""
WEIGHTS = ("4096x4096", "2048x5632", "1000x1000", "768x3072")


def main() -> None:
    arguments = _parse_arguments()
    if "SVOD_THREADS" in os.environ:
        torch.set_num_threads(int(os.environ["SVOD_THREADS"]))
    machine = describe_machine()
    print(format_machine(machine))
    results: list[dict[str, object]] = []
    for weight in arguments.weights:
        n_terms, n_columns = map(int, weight.split("x"))
        table = [
            _measure(
                n_rows, n_terms, n_columns, arguments.kinds, arguments.seconds, arguments.dtype
            )
            for n_rows in arguments.rows
        ]
        results += [{"weight": weight, **row} for row in table]
        rows = [[f"{value:.3g}" for value in row.values()] for row in table]
        print(format_table([f"rows, by {weight}", *list(table[0])[1:]], rows), flush=True)
    print(write_json("thin-products", {"machine": machine, "results": results}))


def _measure(
    n_rows: int, n_terms: int, n_columns: int, kinds: list[str], seconds: float, dtype: str
) -> dict[str, float]:
    """GFLOP/s of svod by kind, and torch's times over svod's."""
    generator = np.random.default_rng(0)
    x = generator.standard_normal((n_rows, n_terms), dtype=np.float32)
    w = generator.standard_normal((n_terms, n_columns), dtype=np.float32)
    expected = (torch.from_numpy(x) @ torch.from_numpy(w)).numpy()
    calls: dict[str, Callable[[], object]] = {}
    for kind in kinds:
        left, right = (
            value if letter == "N" else np.ascontiguousarray(value.T)
            for letter, value in zip(kind, (x, w), strict=True)
        )
        plan = _multiply(
            kind, Tensor(left).cast(dtype).realize(), Tensor(right).cast(dtype).realize()
        ).prepare()
        calls[kind] = plan.execute
        torch_dtype = getattr(torch, dtype)
        calls[f"torch {kind}"] = partial(
            _multiply,
            kind,
            torch.from_numpy(left).to(torch_dtype),
            torch.from_numpy(right).to(torch_dtype),
        )
        plan.execute()
        assert plan.output_buffer is not None
        result = plan.output_buffer.as_numpy().reshape(n_rows, n_columns).astype(np.float32)
        tolerance = TOLERANCES[dtype]
        np.testing.assert_allclose(
            result, expected, rtol=tolerance, atol=tolerance * np.abs(expected).max() / 10
        )
    times = measure_in_turns(calls, seconds)
    n_operations = 2 * n_rows * n_terms * n_columns
    return {
        "rows": n_rows,
        **{kind: n_operations / times[kind] / 1e9 for kind in kinds},
        **{f"torch / {kind}": times[f"torch {kind}"] / times[kind] for kind in kinds},
    }


def _multiply(kind: str, left: Any, right: Any) -> Any:
    x = left if kind[0] == "N" else left.T
    w = right if kind[1] == "N" else right.T
    return x @ w


def _parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--weights", nargs="+", default=list(WEIGHTS), help="terms x columns")
    parser.add_argument("--rows", nargs="+", type=int, default=list(ROWS))
    parser.add_argument("--kinds", nargs="+", choices=KINDS, default=list(KINDS))
    parser.add_argument("--dtype", choices=list(TOLERANCES), default="float32")
    parser.add_argument("--seconds", type=float, default=1.0, help="time for each row")
    return parser.parse_args()


if __name__ == "__main__":
    main()
