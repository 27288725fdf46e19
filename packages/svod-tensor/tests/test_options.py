from __future__ import annotations

import warnings

import pytest

from svod_ir import Opt, OptionError, OptOp
from svod_schedule import OptimizerConfig
from svod_tensor import PrepareConfig, Tensor
from svod_tensor.options import OPT_CACHE_MAX, read_device, read_opt_cache_max


def test_the_defaults_hold_in_an_empty_environment():
    assert PrepareConfig.from_env({}) == PrepareConfig()
    assert PrepareConfig() == PrepareConfig(
        opts=None, memory_planner="arena", disable_schedule_cache=False
    )


def test_the_environment_sets_each_field():
    config = PrepareConfig.from_env(
        {"SVOD_NOOPT": "1", "SVOD_MEMORY_PLANNER": "Remap", "SVOD_DISABLE_SCHEDULE_CACHE": "yes"}
    )
    none = OptimizerConfig(strategy="none")
    assert config == PrepareConfig(
        optimizer=none, memory_planner="remap", disable_schedule_cache=True
    )
    checks = {"SVOD_CHECK_OPERANDS": "1", "SVOD_CHECK_FLOATS": "NaN"}
    assert PrepareConfig.from_env(checks) == PrepareConfig(check_operands=True, check_floats="nan")
    assert PrepareConfig.from_env({"SVOD_BEAM": "3"}).optimizer == OptimizerConfig(
        strategy="beam", width=3
    )


@pytest.mark.parametrize(
    ("variable", "value"),
    [
        ("SVOD_NOOPT", "maybe"),
        ("SVOD_MEMORY_PLANNER", "heap"),
        ("SVOD_DISABLE_SCHEDULE_CACHE", "2"),
        ("SVOD_CHECK_OPERANDS", "always"),
        ("SVOD_CHECK_FLOATS", "1"),
    ],
)
def test_an_invalid_value_is_an_error_in_prepare(monkeypatch, variable, value):
    with pytest.raises(OptionError, match=variable):
        PrepareConfig.from_env({variable: value})
    monkeypatch.setenv(variable, value)
    with pytest.raises(OptionError, match=value):
        (Tensor([1.0]) + 1).realize()


def test_the_size_of_the_kernel_cache_falls_back_with_a_warning():
    assert read_opt_cache_max({}) == OPT_CACHE_MAX == 4096
    assert read_opt_cache_max({"SVOD_OPT_CACHE_MAX": "7"}) == 7
    for value in ("0", "-3", "many", "1.5"):
        with pytest.warns(UserWarning, match="positive integer"):
            assert read_opt_cache_max({"SVOD_OPT_CACHE_MAX": value}) == 4096
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        read_opt_cache_max({"SVOD_OPT_CACHE_MAX": " 12 "})


def test_kernels_of_different_opts_have_different_fingerprints():
    configs = [
        PrepareConfig(),
        PrepareConfig(opts=()),
        PrepareConfig(opts=(Opt(OptOp.UPCAST, 0, 4),)),
    ]
    assert len({c.fingerprint for c in configs}) == 3
    assert PrepareConfig(memory_planner="remap").fingerprint == PrepareConfig().fingerprint


def test_explicit_opts_override_the_optimizer():
    beam = OptimizerConfig(strategy="beam")
    given = PrepareConfig(opts=(Opt(OptOp.UPCAST, 0, 4),), optimizer=beam)
    assert given.fixed_opts == given.opts
    assert given.fingerprint == PrepareConfig(opts=given.opts).fingerprint
    assert PrepareConfig(optimizer=beam).fixed_opts is None
    assert PrepareConfig(optimizer=OptimizerConfig(strategy="none")).fixed_opts == ()


def test_search_results_are_not_used_if_tensor_cores_are_forbidden():
    assert PrepareConfig().is_tuned
    assert not PrepareConfig(optimizer=OptimizerConfig(use_tensor_cores=False)).is_tuned
    assert not PrepareConfig(optimizer=OptimizerConfig(threads=1)).is_tuned


def test_kernels_of_different_optimizers_have_different_fingerprints():
    configs = [
        PrepareConfig(optimizer=OptimizerConfig(strategy=s)) for s in ("none", "heuristic", "beam")
    ]
    configs.append(PrepareConfig(optimizer=OptimizerConfig(strategy="beam", width=2)))
    assert len({c.fingerprint for c in configs}) == 4
    no_opts = PrepareConfig(optimizer=OptimizerConfig(strategy="none"))
    assert no_opts.fingerprint == PrepareConfig(opts=()).fingerprint


def test_the_environment_sets_the_device_of_new_tensors() -> None:
    assert read_device({}) == read_device({"SVOD_DEVICE": " "}) == "CPU"
    assert read_device({"SVOD_DEVICE": "opencl:1"}) == "OPENCL:1"
    with pytest.raises(OptionError, match=r"SVOD_DEVICE='a b'"):
        read_device({"SVOD_DEVICE": "a b"})
