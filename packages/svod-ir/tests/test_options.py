"""The environment variables of svod-ir."""

from __future__ import annotations

import os
from dataclasses import replace

import pytest

from svod_ir import IROptions, OptionError
from svod_ir.environment import cache_by_environment, read_integer, read_switch
from svod_ir.options import PassSelector


def test_all_options_are_off_by_default() -> None:
    options = IROptions.from_env({})
    assert options == IROptions()
    assert not options.check
    assert not options.dump
    assert not options.dump.matches("lower", "expand")


@pytest.mark.parametrize("value", ["1", "true", "YES", "on"])
def test_a_switch_turns_on(value: str) -> None:
    assert IROptions.from_env({"SVOD_CHECK": value}).check


def test_a_check_of_values_is_named() -> None:
    assert IROptions.from_env({"SVOD_CHECK": " Values"}).check == "values"
    assert IROptions(check="values") == IROptions.from_env({"SVOD_CHECK": "values"})
    assert (
        IROptions(check=True)
        == IROptions.from_env({"SVOD_CHECK": "1"})
        != IROptions(check="values")
    )


def test_options_take_the_text_that_the_variables_take() -> None:
    options = IROptions(dump="*", stop_after="lower:expand, kernelize")
    assert options == IROptions.from_env(
        {"SVOD_DUMP": "*", "SVOD_STOP_AFTER": "lower:expand,kernelize"}
    )
    assert options.dump.matches("lower", "expand")
    assert replace(options, dump="optimize").stop_after == options.stop_after
    with pytest.raises(OptionError, match="SVOD_STOP_AFTER='lower:' is not"):
        IROptions(stop_after="lower:")


@pytest.mark.parametrize(
    "options", [IROptions(check=True), IROptions(dump="*"), IROptions(stop_after="lower")]
)
def test_checks_dumps_and_stops_need_passes(options: IROptions) -> None:
    assert options.needs_passes
    assert not IROptions().needs_passes


@pytest.mark.parametrize("value", ["0", "", "false", "No", "off"])
def test_a_switch_stays_off(value: str) -> None:
    assert not IROptions.from_env({"SVOD_CHECK": value}).check


@pytest.mark.parametrize(
    ("text", "matched", "unmatched"),
    [
        ("*", [("lower", "expand"), ("optimize", "simplify")], []),
        ("lower", [("lower", "expand"), ("lower", "simplify")], [("optimize", "simplify")]),
        ("lower:expand", [("lower", "expand")], [("lower", "simplify"), ("optimize", "expand")]),
        ("*:simplify", [("lower", "simplify"), ("optimize", "simplify")], [("lower", "expand")]),
        (
            "lower:expand, kernelize",
            [("lower", "expand"), ("kernelize", "cut-kernels")],
            [("lower", "simplify")],
        ),
        ("optimize:apply-opts", [("optimize", "apply-opts")], [("optimize", "apply")]),
    ],
)
def test_a_selector_names_passes(
    text: str, matched: list[tuple[str, str]], unmatched: list[tuple[str, str]]
) -> None:
    selector = IROptions.from_env({"SVOD_DUMP": text}).dump
    assert all(selector.matches(*names) for names in matched)
    assert not any(selector.matches(*names) for names in unmatched)
    assert PassSelector.parse(str(selector), "SVOD_DUMP") == selector


@pytest.mark.parametrize(
    ("variable", "value"),
    [
        ("SVOD_CHECK", "maybe"),
        ("SVOD_DUMP", "lower:"),
        ("SVOD_DUMP", ":expand"),
        ("SVOD_DUMP", "lower,,expand"),
        ("SVOD_STOP_AFTER", "a b"),
        ("SVOD_STOP_AFTER", "1"),
    ],
)
def test_a_wrong_value_is_an_error_that_names_the_variable(variable: str, value: str) -> None:
    with pytest.raises(OptionError) as caught:
        IROptions.from_env({variable: value})
    assert isinstance(caught.value, ValueError)
    assert (caught.value.variable, caught.value.value) == (variable, value)
    assert str(caught.value).startswith(f"{variable}={value!r} is not ")


def test_the_process_environment_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SVOD_STOP_AFTER", "lower:expand")
    assert IROptions.from_env().stop_after.matches("lower", "expand")


def test_integers_have_a_minimum() -> None:
    assert read_integer({}, "SVOD_N", 4) == 4
    assert read_integer({"SVOD_N": " 7 "}, "SVOD_N", 4) == 7
    for value in ("x", "-1", "1.5", "0"):
        with pytest.raises(OptionError, match="an integer of at least 1"):
            read_integer({"SVOD_N": value}, "SVOD_N", 4, minimum=1)


def test_a_switch_has_a_default() -> None:
    assert read_switch({}, "SVOD_X", default=True)
    assert not read_switch({"SVOD_X": "0"}, "SVOD_X", default=True)


def test_values_derived_from_the_environment_are_recomputed_when_it_changes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    n_reads = [0]

    def read() -> str | None:
        n_reads[0] += 1
        return os.environ.get("SVOD_SOMETHING")

    cached_read = cache_by_environment(read, os.environ)
    assert [cached_read(), cached_read()] == [None, None]
    monkeypatch.setenv("SVOD_SOMETHING", "1")
    assert [cached_read(), cached_read()] == ["1", "1"]
    monkeypatch.setenv("SVOD_SOMETHING", "2")
    assert cached_read() == "2"
    monkeypatch.delenv("SVOD_SOMETHING")
    assert [cached_read(), n_reads[0]] == [None, 4]
