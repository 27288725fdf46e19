"""Build the ten wheels and their third-party dependencies, then install and use svod-nn and
svod-onnx from only these wheels.
"""

from __future__ import annotations

import subprocess
import sys
import venv
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SMOKE = """
import svod_tensor
from svod_tensor import Tensor
result = ((Tensor([1.0, 2.0, 3.0]) * 2 + 1).sum()).numpy()
assert float(result) == 15.0, result
print("svod_tensor", svod_tensor.__file__)
import svod_nn
layer = svod_nn.Linear(3, 1)
assert layer(Tensor([[1.0, 2.0, 3.0]])).shape == (1, 1)
print("svod_nn", svod_nn.__file__)
import svod_onnx
assert callable(svod_onnx.load)
print("svod_onnx", svod_onnx.__file__)
from importlib.util import find_spec
assert find_spec("svod_testing") is None, "users install no tests"
"""


def main(arguments: list[str]) -> int:
    folder = Path(arguments[0]).resolve()
    wheels = folder / "wheels"
    packages = sorted(str(path.parent) for path in ROOT.glob("packages/*/pyproject.toml"))
    # The build backend is installed here; build isolation would install it again for each wheel.
    _run(
        sys.executable,
        "-m",
        "pip",
        "wheel",
        "--quiet",
        "--no-build-isolation",
        "--wheel-dir",
        str(wheels),
        *packages,
    )
    built = sorted(path.name for path in wheels.glob("svod_*.whl"))
    print(f"{len(built)} wheels: {', '.join(built)}")
    if len(built) != len(packages):
        print(f"error: expected {len(packages)} wheels")
        return 1
    environment = folder / "venv"
    venv.create(environment, with_pip=True, clear=True)
    python = str(environment / ("Scripts" if sys.platform == "win32" else "bin") / "python")
    _run(
        python,
        "-m",
        "pip",
        "install",
        "--quiet",
        "--no-compile",
        "--no-index",
        "--find-links",
        str(wheels),
        "svod-nn",
        "svod-onnx",
    )
    _run(python, "-I", "-c", SMOKE)
    return 0


def _run(*command: str) -> None:
    subprocess.run(command, cwd=ROOT, check=True)


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
