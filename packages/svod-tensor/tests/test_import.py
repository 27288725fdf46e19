from __future__ import annotations

import subprocess
import sys


def test_importing_loads_no_heavy_module():
    heavy = (
        "numpy",
        "llvmlite",
        "structlog",
        "ml_dtypes",
        "asyncio",
        "svod_runtime",
        "svod_codegen",
        "svod_schedule.pipeline",
    )
    code = f"import sys, svod_tensor; print(*[m for m in {heavy} if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == []


def test_an_unknown_lazy_name_is_an_attribute_error():
    code = (
        "import svod_tensor\ntry:\n    svod_tensor.nothing\nexcept AttributeError as e:\n   "
        " print(e)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "no attribute 'nothing'" in done.stdout
