from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from svod_device import get_allocator
from svod_ir.derivatives import make_traced
from svod_runtime import DonatedBufferError
from svod_tensor import PrepareConfig, Tensor, Variable, jit
from svod_tensor.errors import DonatedTensorError, DonationError
from svod_testing import check

LARGE = 1 << 18


def array(*shape: int, seed: int = 1) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def own(a: np.ndarray) -> Tensor:
    """A realized tensor on memory of its own."""
    return Tensor(a).clone().realize()


def in_use() -> int:
    return get_allocator("CPU").in_use_bytes


UPDATES: dict[str, Callable[[Tensor], Tensor]] = {
    "elementwise": lambda x: x * 0.5 + 1,
    "rows": lambda x: x.reshape(64, -1).softmax(-1).reshape(-1),
    "reversed": lambda x: x[::-1] + 1,
    "two kernels": lambda x: x + x.reshape(512, -1).sum(0).tile(512),
    "prime": lambda x: x * x + 1,
}


@pytest.mark.parametrize("mode", ["arena", "remap", "disabled"])
@pytest.mark.parametrize("name", UPDATES)
def test_donation_does_not_change_results(name: str, mode: str) -> None:
    size = 10007 if name == "prime" else LARGE
    config = PrepareConfig(memory_planner=mode)
    step, plain = jit(UPDATES[name], config=config, donate=0), jit(UPDATES[name], config=config)
    x, y = own(array(size)), own(array(size))
    for _ in range(3):
        x, y = step(x), plain(y)
    assert np.array_equal(x.numpy(), y.numpy())


def test_an_update_of_a_large_array_allocates_no_second_buffer() -> None:
    step = jit(lambda x: x * 0.5 + 1, donate="x")
    x = own(array(LARGE))
    x = step(x)
    address = x.buffer().address
    before = in_use()
    for _ in range(3):
        x = step(x)
        assert x.buffer().address == address
        assert in_use() == before
    (plan,) = step.plans()
    assert plan.memory_report.n_donated == 1
    assert plan.memory_report.bytes_donated == 4 * LARGE
    assert "1 outputs of 1.00 MiB in donated memory" in step.explain()


def test_intermediates_use_donated_memory_before_the_result_does() -> None:
    def chain(x: Tensor) -> Tensor:
        for _ in range(6):
            x = (x @ x * 0.1).contiguous()
        return x

    a = array(128, 128)
    plain, step = jit(chain), jit(chain, donate=0)
    expected = plain(Tensor(a)).numpy()
    assert np.array_equal(step(own(a)).numpy(), expected)
    assert plain.plans()[0].memory_report.bytes_after == 2 * a.nbytes
    assert step.plans()[0].memory_report.bytes_after < 2 * a.nbytes


@pytest.mark.parametrize("n", [2, 3, 5])
def test_the_kernel_that_writes_the_result_reads_no_intermediate_in_donated_memory(n: int) -> None:
    def chain(x: Tensor) -> Tensor:
        for _ in range(n):
            x = (x @ x * 0.1).contiguous()
        return x

    a = array(16, 16)
    assert np.array_equal(jit(chain, donate=0)(own(a)).numpy(), jit(chain)(Tensor(a)).numpy())


def test_an_optimizer_step_updates_everything_in_place() -> None:
    @jit(donate=("weights", "momentum"))
    def step(weights: dict[str, Tensor], momentum: dict[str, Tensor], gradients: dict[str, Tensor]):
        momentum = {n: m * 0.9 + gradients[n] for n, m in momentum.items()}
        return {n: w - momentum[n] * 0.1 for n, w in weights.items()}, momentum

    names = ("a", "b", "c")
    w, m, g = ({n: array(1000 + i, seed=s) for i, n in enumerate(names)} for s in range(3))
    weights, momentum, gradients = ({n: own(v) for n, v in group.items()} for group in (w, m, g))
    addresses = {t.buffer().address for t in (*weights.values(), *momentum.values())}
    for _ in range(3):
        weights, momentum = step(weights, momentum, gradients)
        m = {n: np.float32(0.9) * m[n] + g[n] for n in names}
        w = {n: w[n] - np.float32(0.1) * m[n] for n in names}
    assert {t.buffer().address for t in (*weights.values(), *momentum.values())} == addresses
    assert step.plans()[0].memory_report.n_donated == 6
    for n in names:
        check(weights[n], w[n], rtol=1e-5, atol=1e-5)
        check(momentum[n], m[n], rtol=1e-5, atol=1e-5)


def test_a_donated_tensor_cannot_be_used_afterwards() -> None:
    step = jit(lambda state, by: state["x"] * by, donate="state")
    x = own(array(4, 3))
    view, part = x.reshape(12), x[1:3]
    later = x + 1
    step({"x": x}, 2.0)
    for gone in (x, view, part):
        for use in (
            lambda t: t + 1,
            lambda t: t.numpy(),
            lambda t: t.shape,
            lambda t: t.assign(t),
            lambda t: step({"x": t}, 2.0),
        ):
            with pytest.raises(
                DonatedTensorError, match=r"<lambda> took its memory as state\['x'\]"
            ):
                use(gone)
        assert "donated to <lambda>" in repr(gone)
        assert not hasattr(gone, "no_such_thing")
    check(later, array(4, 3) + 1)


def test_graphs_built_before_a_donation_keep_their_values() -> None:
    step = jit(lambda x: x * 2, donate=0)
    a = array(8)
    x = own(a)
    total, shifted = x.sum(), x + 1
    check(step(x), a * 2)
    check(total, a.sum(), rtol=1e-5)
    check(shifted, a + 1)


def test_an_element_of_a_donated_tensor_keeps_its_value() -> None:
    y = (Tensor([4.0, 5.0, 6.0]) + 0.0).realize()
    x = y * 2
    element = x[1]
    x.assign(Tensor([7.0, 8.0, 9.0]))
    assert jit(lambda x: x * 2, donate="x")(x).tolist() == [14.0, 16.0, 18.0]
    assert element.item() == 10.0


def test_an_equal_value_is_computed_again_after_a_value_was_donated() -> None:
    z, x = ((Tensor([1.0, 2.0, 3.0]) + 0.0).realize() for _ in range(2))
    y = z * 2
    node = y.uop
    x.assign(x + 1)
    Tensor.realize_batch([x, y])
    assert jit(lambda y: y + 1, donate="y")(y).tolist() == [3.0, 5.0, 7.0]
    again = z * 2
    assert again.uop is node
    x.assign(x * 3).realize()
    assert again.tolist() == [2.0, 4.0, 6.0]


def test_the_memory_of_a_numpy_array_is_copied_first() -> None:
    a = array(LARGE)
    x = Tensor.from_numpy(a)
    kept = a.copy()
    step = jit(lambda x: x + 1, donate=0)
    check(step(x), kept + 1)
    assert np.array_equal(a, kept)
    check(step(a), kept + 1)
    assert np.array_equal(a, kept)
    with pytest.raises(DonatedTensorError):
        x.sum()


def test_an_unchanged_argument_passes_through() -> None:
    step = jit(lambda x, y: (x, x.reshape(2, 2), y + x), donate=("x", "y"))
    a, b = array(4), array(4, seed=2)
    for _ in range(2):
        x, y = own(a), own(b)
        same, shaped, total = step(x, y)
        check(same, a)
        check(shaped, a.reshape(2, 2))
        check(total, a + b)
        with pytest.raises(DonatedTensorError):
            x.sum()


def test_an_argument_may_be_assigned_to_and_donated() -> None:
    @jit(donate=0)
    def step(x: Tensor) -> Tensor:
        x[0] = 7
        return x * 2

    assert step(Tensor([1.0, 2.0])).tolist() == [14.0, 4.0]
    assert step(Tensor([1.0, 3.0])).tolist() == [14.0, 6.0]


def test_variables_and_lazy_arguments_may_come_with_donation() -> None:
    n = Variable("n", 1, 8)
    step = jit(lambda x, m: (x * 2, x[:m].sum()), donate="x")
    a = np.arange(8, dtype=np.float32)
    for size in (3, 8):
        doubled, total = step(Tensor(a) + 1, n.bind(size))
        check(doubled, (a + 1) * 2)
        assert total.item() == (a + 1)[:size].sum()
    assert step.n_captures == 1


def test_methods_count_self() -> None:
    class Counter:
        @jit(donate=1)
        def step(self, x: Tensor) -> Tensor:
            return x + 1

    counter = Counter()
    x = own(array(3))
    check(counter.step(x), array(3) + 1)
    with pytest.raises(DonatedTensorError, match=r"step took its memory as x"):
        x.sum()


def test_a_function_called_during_a_capture_donates_no_argument() -> None:
    inner = jit(lambda x: x + 1, donate=0)
    outer = jit(lambda x: inner(x) * x)
    x = own(array(3))
    check(outer(x), (array(3) + 1) * array(3))
    check(x, array(3))


@pytest.mark.parametrize(
    ("donate", "message"),
    [
        ("y", "cannot donate 'y' to <lambda>: it is not a parameter"),
        (2, "cannot donate 2 to <lambda>: it is not a parameter"),
        (-1, "cannot donate -1 to <lambda>: it is not a parameter"),
        (("x", "args"), "cannot donate 'args' to <lambda>: it is not a parameter"),
    ],
)
def test_an_unknown_parameter_is_an_error_at_decoration(donate: object, message: str) -> None:
    with pytest.raises(DonationError, match="not a parameter") as caught:
        jit(lambda x, by=1, *args: x * by, donate=donate)
    assert str(caught.value).startswith(message)


def test_arguments_that_cannot_be_donated_are_errors(tmp_path) -> None:
    step = jit(lambda x, y: x * 2 + y, donate="x")
    x, y = own(array(4)), own(array(4))
    with pytest.raises(DonationError, match="cannot donate x to <lambda>: it has the memory of y"):
        step(x, x)
    with pytest.raises(DonationError, match="cannot donate x to <lambda>: it has the memory of y"):
        step(x, x.reshape(4))
    with pytest.raises(
        DonationError, match=r"cannot donate x to <lambda>: it is 2.0, which has no memory"
    ):
        step(2.0, y)
    path = tmp_path / "data"
    path.write_bytes(bytes(range(4)))
    with pytest.raises(DonationError, match="cannot donate x to <lambda>: it is a file, on DISK"):
        step(Tensor.from_file(path), y)
    both = jit(lambda x, y: x + y, donate=("x", "y"))
    with pytest.raises(DonationError, match="cannot donate y to <lambda>: it has the memory of x"):
        both(x, x)
    check(x, array(4))
    check(step(x, y), array(4) * 3)


def test_a_captured_tensor_cannot_be_donated() -> None:
    weight = own(array(4))
    step = jit(lambda x: x * weight, donate=0)
    with pytest.raises(
        DonationError, match="it has the memory of a tensor that the function holds"
    ):
        step(weight)
    check(step(own(array(4))), array(4) ** 2)


def test_a_plan_that_would_read_donated_memory_is_an_error() -> None:
    weight = own(array(4))
    apply = jit(lambda x: x * weight)
    check(apply(own(array(4))), array(4) ** 2)
    plan = (weight + 1).prepare()
    plan.execute()
    jit(lambda w: w - 1, donate="w")(weight)
    with pytest.raises(DonatedBufferError, match="was donated: <lambda> took it as w"):
        apply(own(array(4)))
    with pytest.raises(DonatedBufferError, match="was donated: <lambda> took it as w"):
        plan.execute()


def test_a_plan_may_overwrite_its_donated_inputs() -> None:
    a = array(LARGE)
    x = own(a)
    buffer = x.buffer()
    y = x * 2 + 1
    later = x.sum()
    plan = y.prepare(donate=[x])
    assert plan.output_buffer is buffer
    assert plan.memory_report.n_donated == 1
    with pytest.raises(DonatedTensorError, match="a plan took its memory as"):
        x.sum()
    plan.execute()
    check(y, a * 2 + 1)
    check(later, a.sum(), rtol=1e-4, atol=1e-2)
    with pytest.raises(DonatedBufferError, match="was donated: taken by the last execution"):
        plan.execute()
    buffer.copyin(a + 1)
    (index,) = plan.donated_indices
    plan.replace_buffer(index, buffer)
    plan.execute()
    check(y, (a + 1) * 2 + 1)


def test_a_marked_view_of_donated_memory_keeps_its_values() -> None:
    x = own(array(5))
    before = x.numpy().copy()
    marked = Tensor.from_uop(make_traced(x.uop))
    plan = Tensor.prepare_batch_with([marked, x + 1], PrepareConfig(), donate=[x])
    plan.execute()
    kept, changed = (np.frombuffer(b.to_bytes(), np.float32) for b in plan.output_buffers)
    np.testing.assert_array_equal(kept, before)
    np.testing.assert_array_equal(changed, before + 1)


def test_only_inputs_with_memory_are_donated_to_a_plan() -> None:
    x = own(array(4))
    with pytest.raises(
        DonationError,
        match=r"cannot donate donate\[1\] to a plan: it has the memory of donate\[0\]",
    ):
        (x + 1).prepare(donate=[x, x.reshape(2, 2)])
    y = Tensor(array(4)) + 1
    z = y * 2
    z.prepare(donate=[y]).execute()
    check(z, (array(4) + 1) * 2)


def test_unused_donated_memory_is_freed_at_the_next_call() -> None:
    step = jit(lambda x: x.sum(), donate=0)
    used: list[int] = []
    for _ in range(4):
        step(own(array(LARGE)))
        used.append(in_use())
    assert used[1:] == used[:1] * 3
