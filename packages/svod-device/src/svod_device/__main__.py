"""`python -m svod_device`: report the installed devices, their providers, and their problems.

Each device is tried in a child process: memory is allocated, bytes are copied to the device and
back, and each backend builds and runs a kernel. The exit status is 1 if the memory or the default
backend of a device does not work.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from dataclasses import asdict

from svod_device._registry import get_registry
from svod_device._report import describe, report_devices
from svod_device.interface import INTERFACE_VERSION

__all__ = ["main"]

_SECONDS = 60.0


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the report, and return the exit status."""
    parser = argparse.ArgumentParser(
        prog="python -m svod_device", description="List the installed devices and try each of them."
    )
    parser.add_argument(
        "devices", nargs="*", help="device names, as CPU or REMOTE:host; default: one of each kind"
    )
    parser.add_argument("--json", action="store_true", help="print the complete report as JSON")
    parser.add_argument(
        "--seconds", type=float, default=_SECONDS, help="time limit for each device (%(default)g)"
    )
    options = parser.parse_args(arguments)
    devices = report_devices(get_registry(), options.devices, limit_s=options.seconds)
    if options.json:
        reports = [{**asdict(device), "works": device.works} for device in devices]
        sys.stdout.write(
            json.dumps({"interface": INTERFACE_VERSION, "devices": reports}, indent=2) + "\n"
        )
    else:
        sys.stdout.write("\n".join(describe(devices)) + "\n")
    return 0 if all(device.works for device in devices) else 1


if __name__ == "__main__":
    sys.exit(main())
