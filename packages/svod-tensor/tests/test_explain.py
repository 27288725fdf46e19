from __future__ import annotations

import io
import subprocess
import sys

import pytest

from svod_ir import parse_opts
from svod_tensor import PrepareConfig, Tensor
from svod_tensor.explain import WORDS, explain, main


def test_every_step_has_an_artifact_in_order():
    x = Tensor([[1.0, 2.0], [3.0, 4.0]])
    artifacts = list(explain([x @ x + 1]))
    assert [a.word for a in artifacts] == list(WORDS)
    assert all(a.text for a in artifacts)
    assert "REDUCE_AXIS" in artifacts[0].text
    assert "RANGE" in artifacts[1].text
    assert "CALL" in artifacts[2].text


def test_explaining_leaves_tensors_unrealized():
    x = Tensor([1.0, 2.0]) * 3
    list(explain([x]))
    assert not x.is_realized
    assert x.tolist() == [3.0, 6.0]


def test_each_different_kernel_is_shown_once():
    x = Tensor([1.0, 2.0])
    y = ((x * 3).contiguous() * 3).contiguous().sum()
    subjects = [a.subject for a in explain([y]) if a.word == "render"]
    assert len(subjects) == len(set(subjects)) == 2


@pytest.mark.parametrize(
    ("opts", "reason"),
    [
        (None, "# UPCAST(0, 2): lanes along axis 0 (2), close in memory, 2 at a time"),
        ("UPCAST(0, 2)", "# UPCAST(0, 2): given by the configuration, or found by a search"),
        ("", "# no opts: given by the configuration, or found by a search"),
    ],
)
def test_explain_shows_reasons_of_opts(opts, reason):
    config = PrepareConfig(opts=None if opts is None else parse_opts(opts))
    (shown,) = (a.text for a in explain([Tensor([1.0, 2.0]) * 3], config) if a.word == "optimize")
    assert shown.splitlines()[0] == reason


def test_the_command_explains_a_script(tmp_path):
    script = tmp_path / "program.py"
    script.write_text(
        "from svod_tensor import Tensor\nresult = (Tensor([1.0, 2.0]) + 1).tolist()\n"
    )
    out = io.StringIO()
    assert main([str(script), "render", "plan", "--lines", "2"], out) == 0
    assert "==  9 render: kernel 0" in out.getvalue()
    assert "more lines" in out.getvalue()
    assert "rangeify" not in out.getvalue()
    with pytest.raises(SystemExit):
        main([str(script), "frobnicate"])


def test_each_kernel_of_a_script_names_its_lines(tmp_path):
    script = tmp_path / "program.py"
    script.write_text(
        "from svod_tensor import Tensor, scope\n"
        "x = Tensor([1.0, 2.0]) + 1\n"
        "with scope('head'):\n"
        "    x = x.softmax()\n"
        "x.tolist()\n"
    )
    out = io.StringIO()
    assert main([str(script), "instantiate", "execute"], out) == 0
    assert (
        out.getvalue().count("    from program.py:2 add\n    from program.py:4 softmax in head\n")
        == 2
    )


def test_a_closed_pipe_ends_the_command_quietly(tmp_path):
    script = tmp_path / "program.py"
    script.write_text(
        "from svod_tensor import Tensor\nfor n in range(40):\n    (Tensor([1.0, 2.0]) +"
        " n).tolist()\n"
    )
    command = [sys.executable, "-m", "svod_tensor.explain", str(script), "build", "kernelize"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None and process.stderr is not None
        assert process.stdout.readline().startswith(b"==  1 build")
        process.stdout.close()
        errors = process.stderr.read()
    assert (errors, process.returncode) == (b"", 141)
