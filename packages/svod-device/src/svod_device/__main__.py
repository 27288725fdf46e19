"""`python -m svod_device`: which devices there are, who provides them, and why one does not work.

The exit status is 1 if a device that something provides cannot be used: its memory, or the backend that it would use.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from dataclasses import asdict

from svod_device.interface import INTERFACE_VERSION
from svod_device.registry import get_registry
from svod_device.report import describe, report_devices

__all__ = ["main"]


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the report."""
    parser = argparse.ArgumentParser(prog="python -m svod_device", description="List the devices, and try them.")
    parser.add_argument("--json", action="store_true", help="for programs: everything that is known, as JSON")
    options = parser.parse_args(arguments)
    registry = get_registry()
    devices = report_devices(registry)
    if options.json:
        found = [{**asdict(device), "works": device.works} for device in devices]
        sys.stdout.write(json.dumps({"interface": INTERFACE_VERSION, "devices": found}, indent=2) + "\n")
    else:
        sys.stdout.write("\n".join(describe(registry)) + "\n")
    return 0 if all(device.works for device in devices) else 1


if __name__ == "__main__":
    sys.exit(main())
