"""OpenCL devices for svod:

`OPENCL:0`, `OPENCL:1`, ... are the devices of all platforms of the machine.
"""

from __future__ import annotations

from svod_opencl.errors import NoDeviceError, NoPlatformError
from svod_opencl.options import OpenCLOptions
from svod_opencl.renderer import OpenCLRenderer

__all__ = ["NoDeviceError", "NoPlatformError", "OpenCLOptions", "OpenCLRenderer"]
