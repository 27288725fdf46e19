"""`python -m svod_device`: which devices there are, who provides them, and why one does not work.

Each device is tried in a process of its own: memory is allocated, bytes are copied there and back,
and a kernel is built and run by each backend. The exit status is 1 if a device that something
provides cannot be used: its memory, or the backend that it would use."""

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
    """Print the report."""
    parser = argparse.ArgumentParser(
        prog="python -m svod_device", description="List the devices, and try them."
    )
    parser.add_argument(
        "devices", nargs="*", help="what to try, as CPU or REMOTE:host; by default one of each kind"
    )
    parser.add_argument(
        "--json", action="store_true", help="for programs: everything that is known, as JSON"
    )
    parser.add_argument(
        "--seconds", type=float, default=_SECONDS, help="how long each may take (%(default)g)"
    )
    options = parser.parse_args(arguments)
    devices = report_devices(get_registry(), options.devices, limit_s=options.seconds)
    if options.json:
        found = [{**asdict(device), "works": device.works} for device in devices]
        sys.stdout.write(
            json.dumps({"interface": INTERFACE_VERSION, "devices": found}, indent=2) + "\n"
        )
    else:
        sys.stdout.write("\n".join(describe(devices)) + "\n")
    return 0 if all(device.works for device in devices) else 1


if __name__ == "__main__":
    sys.exit(main())
