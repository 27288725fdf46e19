"""Correct device that queues launches, interprets them at the next wait, and can be broken.

Tests also use the text of this module as the source of plugins.
"""

import ctypes

import numpy as np

from svod_device import Backend, CompiledSpec, DeviceLostError, HostAllocator
from svod_device.host_memory import view_host
from svod_dtype import void
from svod_ir import Op, Target, UOp, parse_graph, print_graph
from svod_ir.evaluate import evaluate_linear

OPEN = {}
"""Allocators of the open devices by name; their programs launch through them."""


class Allocator(HostAllocator):
    is_host_addressable = False

    def __init__(self, device):
        super().__init__(device)
        self.queue, self.problem, self.is_broken = [], "", False
        OPEN[device] = self

    def wait(self):
        """Run the queue. After an error, every later wait raises it."""
        while self.queue and not self.problem:
            try:
                self.queue.pop(0)()
            except ValueError as error:
                self.problem = str(error)
        if self.problem:
            raise DeviceLostError(device=self.device, problem=self.problem)

    def allocate(self, nbytes):
        self.wait()
        return super().allocate(nbytes)

    def free(self, memory):
        self.queue.append(lambda: ctypes.memset(memory.address, 0xA5, memory.capacity))

    def copy_in(self, address, source):
        self.wait()
        super().copy_in(address, source)

    def copy_out(self, destination, address):
        self.wait()
        super().copy_out(destination, address)

    def synchronize(self):
        self.wait()


class Renderer:
    def render(self, linear, name):
        return f"# {name}\n{print_graph(UOp(Op.LINEAR, void, tuple(linear)))}"


class Compiler:
    cache_key = "text"

    def compile(self, spec):
        return CompiledSpec.from_source(spec)


def make_program(allocator):
    class Program:
        entry = None

        def __init__(self, compiled):
            self.name, self.var_names = compiled.name, compiled.var_names
            self.nodes = parse_graph(compiled.source).src
            self.params = sorted(
                {n for n in self.nodes if n.op is Op.PARAM}, key=lambda n: n.arg.slot
            )

        def __call__(self, buffers, values, global_size, local_size=None):
            buffers, variables = list(buffers), dict(zip(self.var_names, values, strict=True))
            allocator.queue.append(lambda: self.run(buffers, variables))

        def run(self, buffers, variables):
            if allocator.is_broken:
                raise ValueError(f"kernel {self.name} faulted")
            arrays = {
                p.arg.slot: np.frombuffer(
                    view_host(address, p.arg.size * p.dtype.itemsize, None), p.dtype.numpy
                )
                for p, address in zip(self.params, buffers, strict=True)
            }
            evaluate_linear(self.nodes, arrays, variables)

        def timed_call(self, *arguments):
            self(*arguments)
            allocator.wait()
            return 7

    return Program


def make_backend(device):
    return Backend(Renderer(), Compiler(), make_program(OPEN[device]), Target.generic())
