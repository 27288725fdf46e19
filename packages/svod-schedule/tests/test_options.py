"""How kernels are optimised, from the environment and as values."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import fields, replace

import pytest

from svod_dtype import int8, int32, uint8
from svod_ir import OptionError, Target, TensorCore
from svod_schedule import ConfigError, OptimizerConfig

VARIABLES: dict[str, tuple[str, dict[str, object]]] = {
    "SVOD_NOOPT": ("1", {"strategy": "none"}),
    "SVOD_BEAM": ("7", {"strategy": "beam", "width": 7}),
    "BEAM_TIMEOUT": ("2.5", {"kernel_seconds": 2.5}),
    "BEAM_PLAN_TIMEOUT": ("90", {"plan_seconds": 90.0}),
    "BEAM_TIMEOUT_SEC": ("3", {"compile_seconds": 3.0}),
    "BEAM_UOPS_MAX": ("500", {"max_uops": 500}),
    "BEAM_UPCAST_MAX": ("64", {"max_upcast": 64}),
    "BEAM_LOCAL_MAX": ("128", {"max_local": 128}),
    "BEAM_BLOAT_MAX": ("1.5", {"max_bloat": 1.5}),
    "BEAM_ROUNDS_MAX": ("3", {"max_rounds": 3}),
    "BEAM_MEASURED_MAX": ("12", {"max_measured": 12}),
    "BEAM_RUNS": ("9", {"n_runs": 9}),
    "BEAM_MIN_PROGRESS": ("0.1", {"min_gain": 0.1}),
    "BEAM_PADTO": ("1", {"can_pad": True}),
    "SVOD_TENSOR_CORES": ("0", {"use_tensor_cores": False}),
    "BEAM_LOG_SURPASS_MAX": ("yes", {"log_drops": True}),
    "BEAM_IGNORE_CACHE": ("1", {"use_cache": False}),
    "BEAM_MAX_TASKS_PER_CHILD": ("4", {"tasks_per_worker": 4}),
}


def test_the_defaults_hold_in_an_empty_environment() -> None:
    assert OptimizerConfig.from_env({}) == OptimizerConfig()
    assert OptimizerConfig().strategy == "heuristic"
    assert OptimizerConfig.from_env({"SVOD_BEAM": "0", "SVOD_NOOPT": "0"}) == OptimizerConfig()


@pytest.mark.parametrize("variable", VARIABLES)
def test_each_variable_sets_its_fields(variable: str) -> None:
    value, expected = VARIABLES[variable]
    assert OptimizerConfig.from_env({variable: value}) == replace(OptimizerConfig(), **expected)  # type: ignore[arg-type]


def test_every_field_has_a_variable() -> None:
    # SVOD_THREADS is an option of the device, which `threads` cannot exceed.
    assert {name for _, expected in VARIABLES.values() for name in expected} == {
        f.name for f in fields(OptimizerConfig)
    } - {"threads"}


@pytest.mark.parametrize("variable", VARIABLES)
def test_an_invalid_value_is_an_error(variable: str) -> None:
    for value in ("many", "-1", "nan", "inf"):
        with pytest.raises(OptionError, match=variable):
            OptimizerConfig.from_env({variable: value})


def test_no_opts_and_a_search_contradict_each_other() -> None:
    with pytest.raises(
        OptionError, match="SVOD_BEAM='4' is not 0 if SVOD_NOOPT=1 disables all opts"
    ):
        OptimizerConfig.from_env({"SVOD_NOOPT": "1", "SVOD_BEAM": "4"})
    assert OptimizerConfig.from_env({"SVOD_NOOPT": "1", "SVOD_BEAM": "0"}).strategy == "none"


def test_an_invalid_field_is_an_error() -> None:
    with pytest.raises(ConfigError, match="width=0 is not finite and at least 1"):
        OptimizerConfig(width=0)
    with pytest.raises(ConfigError, match="kernel_seconds=inf is not"):
        OptimizerConfig(kernel_seconds=float("inf"))
    with pytest.raises(ConfigError, match="strategy='best' is not one of none, heuristic, beam"):
        OptimizerConfig(strategy="best")  # type: ignore[arg-type]


def test_the_fingerprint_names_the_options_that_affect_the_opts() -> None:
    beam = OptimizerConfig(strategy="beam")
    assert (
        len(
            {
                beam.fingerprint,
                *(OptimizerConfig(strategy=s).fingerprint for s in ("none", "heuristic")),
            }
        )
        == 3
    )
    assert replace(beam, width=5).fingerprint != beam.fingerprint
    assert replace(beam, kernel_seconds=1.0).fingerprint != beam.fingerprint
    for told in ({"log_drops": True}, {"use_cache": False}, {"tasks_per_worker": 2}):
        assert replace(beam, **told).fingerprint == beam.fingerprint  # type: ignore[arg-type]
    assert OptimizerConfig(width=9).fingerprint == OptimizerConfig().fingerprint


def test_the_fingerprint_is_the_same_in_every_process() -> None:
    code = (
        "from svod_schedule import OptimizerConfig;"
        " print(OptimizerConfig(strategy='beam').fingerprint)"
    )
    environment = {**os.environ, "PYTHONHASHSEED": "3"}
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == OptimizerConfig(strategy="beam").fingerprint


def test_tensor_cores_can_be_forbidden() -> None:
    target = replace(
        Target.generic(), tensor_cores=(TensorCore((16, 1, 4), 4, (uint8, int8, int32)),)
    )
    assert OptimizerConfig().restrict(target) is target
    for strategy in ("heuristic", "beam"):
        forbidden = OptimizerConfig(strategy=strategy, use_tensor_cores=False)
        assert forbidden.restrict(target) == Target.generic()
        assert forbidden.fingerprint != OptimizerConfig(strategy=strategy).fingerprint


def test_threads_are_a_part_of_the_targets_cores() -> None:
    target = replace(Target.generic(), cores=8, parts_per_core=4)
    assert OptimizerConfig(threads=8).restrict(target) is target
    for strategy in ("heuristic", "beam"):
        limited = OptimizerConfig(strategy=strategy, threads=3)
        # The pool has more threads, each of which may run a part.
        assert limited.restrict(target).parts_per_core == 1
        assert limited.restrict(target).cores == limited.restrict_cores(target).cores == 3
        assert limited.restrict(replace(target, cores=2)).cores == 2
        assert limited.fingerprint != OptimizerConfig(strategy=strategy).fingerprint
