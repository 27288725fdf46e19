"""Measure products of a few rows with a large weight, beside the transposed weight and torch.

    python benchmarks/thin_products.py
    python benchmarks/thin_products.py --weights 4096x4096 768x3072 --rows 1 4 16 --seconds 1
    SVOD_THREADS=1 python benchmarks/thin_products.py

`x @ w` is a product with a weight of (terms, columns), `x @ w.T` with one of (columns, terms), whose
rows are contiguous along the sum. All columns are GFLOP/s, and the last is torch's time of `x @ w` over
svod's. Results are compared with torch's.
"""

from __future__ import annotations

import argparse
import os

import numpy as np
import torch

from measure import measure_in_turns
from report import describe_machine, format_machine, format_table, write_json
from svod_tensor import Tensor

ROWS = (1, 2, 4, 8, 12, 16, 24, 32, 48, 64, 128)
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
            _measure(n_rows, n_terms, n_columns, arguments.seconds) for n_rows in arguments.rows
        ]
        results += table
        rows = [[f"{value:.3g}" for value in row.values()] for row in table]
        print(format_table([f"rows, by {weight}", "x @ w", "x @ w.T", "torch", "ratio"], rows))
    print(write_json("thin-products", {"machine": machine, "results": results}))


def _measure(n_rows: int, n_terms: int, n_columns: int, seconds: float) -> dict[str, object]:
    generator = np.random.default_rng(0)
    x = generator.standard_normal((n_rows, n_terms), dtype=np.float32)
    w = generator.standard_normal((n_terms, n_columns), dtype=np.float32)
    tensor = Tensor(x).realize()
    plan = (tensor @ Tensor(w).realize()).prepare()
    transposed = (tensor @ Tensor(np.ascontiguousarray(w.T)).realize().T).prepare()
    x_torch, w_torch = torch.from_numpy(x), torch.from_numpy(w)
    times = measure_in_turns(
        {
            "x @ w": plan.execute,
            "x @ w.T": transposed.execute,
            "torch": lambda: x_torch @ w_torch,
        },
        seconds,
    )
    assert plan.output_buffer is not None
    result = plan.output_buffer.as_numpy().reshape(n_rows, n_columns)
    np.testing.assert_allclose(result, (x_torch @ w_torch).numpy(), rtol=1e-3, atol=1e-2)
    n_operations = 2 * n_rows * n_terms * n_columns
    rates = {name: n_operations / time / 1e9 for name, time in times.items()}
    return {"rows": n_rows, **rates, "ratio": times["torch"] / times["x @ w"]}


def _parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--weights", nargs="+", default=list(WEIGHTS), help="terms x columns")
    parser.add_argument("--rows", nargs="+", type=int, default=list(ROWS))
    parser.add_argument("--seconds", type=float, default=1.0, help="time for each row")
    return parser.parse_args()


if __name__ == "__main__":
    main()
