"""Registry: entry points, devices, and broken and conflicting plugins."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest

from svod_device import (
    INTERFACE_VERSION,
    Backend,
    Buffer,
    CachingAllocator,
    CompiledSpec,
    DeviceLostError,
    DeviceOptions,
    Dims,
    DiskError,
    DuplicatePluginError,
    HostAllocator,
    PluginInterfaceError,
    PluginLoadError,
    ProgramSpec,
    Registry,
    UnknownBackendError,
    UnknownDeviceError,
    base_device_key,
    canonical_device,
    clear,
    get_allocator,
    get_device,
    register_allocator,
    register_backend,
)
from svod_device._registry import ALLOCATORS, COMPILERS
from svod_dtype import DeviceNameError, parse_device_name, uint8
from svod_ir import Target, UOp


class FakeCompiler:
    """Compiler that counts its calls."""

    def __init__(self, cache_key: str = "fake-1") -> None:
        self.compiled: list[str] = []
        self.cache_key = cache_key

    def compile(self, spec: ProgramSpec) -> CompiledSpec:
        self.compiled.append(spec.name)
        return CompiledSpec.from_bytes(spec, spec.source.encode())


class FakeRenderer:
    def render(self, linear: Sequence[UOp], name: str) -> str:
        return name


class FakeProgram:
    entry = None

    def __init__(self, spec: CompiledSpec) -> None:
        self.name = spec.name

    def __call__(
        self,
        buffers: Sequence[int],
        values: Sequence[int],
        global_size: Dims,
        local_size: Dims | None = None,
    ) -> None:
        pass


COMPILER = FakeCompiler()


def make_allocator(device: str) -> HostAllocator:
    return HostAllocator(device)


def make_backend(device: str) -> Backend:
    return Backend(FakeRenderer(), COMPILER, FakeProgram, Target.generic())


def make_other_backend(device: str) -> Backend:
    return Backend(FakeRenderer(), FakeCompiler(), FakeProgram, Target.generic())


CPU = EntryPoint("CPU", "svod_device.cpu:make_cpu_allocator", ALLOCATORS)
DISK = EntryPoint("DISK", "svod_device.disk:make_disk_allocator", ALLOCATORS)


@pytest.fixture
def registry() -> Registry:
    """Registry of CPU and DISK from entry points, and of a device FAKE with two backends."""
    registry = Registry([CPU, DISK], DeviceOptions())
    registry.register(ALLOCATORS, "FAKE", make_allocator)
    registry.register(COMPILERS, "FAKE.one", make_backend)
    registry.register(COMPILERS, "FAKE.two", make_other_backend)
    return registry


GOOD = """
from svod_device import HostAllocator
def make(device):
    return HostAllocator(device)
"""


def test_cpu_and_disk_are_registered_by_entry_points(tmp_path: Path) -> None:
    registry = Registry()
    plugins = {(p.group, p.name): p for p in registry.iter_plugins()}
    assert plugins[ALLOCATORS, "CPU"].value == CPU.value
    assert plugins[ALLOCATORS, "DISK"].value == DISK.value
    (tmp_path / "file").write_bytes(b"abc")
    assert registry.get_allocator("CPU").is_writable
    assert not registry.get_allocator(f"DISK:{tmp_path}/file").is_writable


def test_an_installed_distribution_adds_a_device(install: Callable[..., str]) -> None:
    install("svod-good", GOOD, allocators=["GOOD = MODULE:make"])
    registry = Registry()
    assert "GOOD" in registry.list_kinds()
    assert registry.get_allocator("good:2").device == "GOOD:2"


def test_one_device_has_one_allocator_under_all_its_names(registry: Registry) -> None:
    assert (
        registry.get_allocator("cpu")
        is registry.get_allocator("CPU:0")
        is registry.get_allocator("CPU")
    )
    assert registry.get_allocator("CPU:1") is not registry.get_allocator("CPU")
    assert registry.get_device("fake:0") is registry.get_device("FAKE")
    assert registry.get_device("FAKE").allocator is registry.get_allocator("FAKE")
    assert canonical_device("fake:0") == "FAKE"


def test_an_unknown_device_is_an_error_that_lists_the_available_devices(registry: Registry) -> None:
    for look_up in (registry.get_allocator, registry.get_device):
        with pytest.raises(UnknownDeviceError) as caught:
            look_up("TPU:3")
        assert (
            str(caught.value)
            == "unknown device 'TPU:3': no installed plugin provides this kind\n  note: available devices: CPU,"
            " DISK, FAKE\n  hint: install its plugin; `python -m svod_device` lists the"
            " installed plugins"
        )
        assert isinstance(caught.value, LookupError)


def test_a_malformed_name_is_an_error_that_lists_the_available_devices(registry: Registry) -> None:
    for name in ("CPU:x", "CPU:-1", "CPU:1.5", "C PU", "CPU:"):
        with pytest.raises(DeviceNameError, match=f"invalid device name '{name}'") as caught:
            registry.get_device(name)
        assert caught.value.__notes__ == ["available devices: CPU, DISK, FAKE"]


def test_the_plugin_checks_the_location_of_a_device_name(registry: Registry) -> None:
    def make(device: str) -> HostAllocator:
        if parse_device_name(device).location is None:
            raise DeviceNameError(given=device, reason="FAR needs the address of a machine")
        return HostAllocator(device)

    registry.register(ALLOCATORS, "FAR", make)
    device = registry.get_device("far:host-7:8080")
    assert device.name == device.allocator.device == "FAR:host-7:8080"
    assert registry.get_device("FAR:other") is not device
    assert base_device_key("FAR:other") == device.base_key == "FAR"
    with pytest.raises(
        DeviceNameError, match="invalid device name 'FAR:2': FAR needs the address"
    ) as caught:
        registry.get_allocator("FAR:2")
    assert caught.value.__notes__ == ["available devices: CPU, DISK, FAKE, FAR"]


def test_a_plugin_that_fails_to_import_does_not_affect_other_plugins(
    install: Callable[..., str],
) -> None:
    module = install("svod-broken", "import no_such_module", allocators=["BROKEN = MODULE:make"])
    install("svod-good", GOOD, allocators=["GOOD = MODULE:make"])
    registry = Registry()
    with pytest.raises(PluginLoadError) as caught:
        registry.get_device("BROKEN:1")
    assert (
        str(caught.value) == "plugin 'BROKEN' of distribution 'svod-broken' failed to load: "
        "ModuleNotFoundError: No module named 'no_such_module'\n"
        f"  note: entry point: {module}:make\n"
        "  hint: reinstall or uninstall svod-broken"
    )
    assert isinstance(caught.value, ImportError)
    assert registry.get_allocator("GOOD").device == "GOOD"
    assert registry.get_allocator("CPU").device == "CPU"
    assert "BROKEN" in registry.list_kinds()


@pytest.mark.parametrize(
    ("text", "entry", "problem"),
    [
        ("def make(device): raise RuntimeError('no driver')", "make", "RuntimeError: no driver"),
        ("make = 3", "make", "TypeError: MODULE:make is int, not a factory"),
        (
            "def make(device): return 3",
            "make",
            "TypeError: MODULE:make returned int, not Allocator",
        ),
        ("raise SystemExit('no driver')", "make", "SystemExit: no driver"),
        ("import sys\ndef make(device): sys.exit(3)", "make", "SystemExit: 3"),
        ("", "absent", "AttributeError: module 'MODULE' has no attribute 'absent'"),
    ],
)
def test_a_factory_that_fails_is_reported(
    install: Callable[..., str], text: str, entry: str, problem: str
) -> None:
    module = install("svod-broken", text, allocators=[f"BROKEN = MODULE:{entry}"])
    with pytest.raises(PluginLoadError) as caught:
        Registry().get_allocator("BROKEN")
    assert problem.replace("MODULE", module) in caught.value.headline


def test_two_distributions_for_one_name_are_an_error_that_names_both(
    install: Callable[..., str],
) -> None:
    first = install("svod-first", GOOD, allocators=["TWIN = MODULE:make"])
    second = install("svod-second", GOOD, allocators=["twin = MODULE:make"])
    registry = Registry()
    with pytest.raises(DuplicatePluginError) as caught:
        registry.get_allocator("TWIN")
    providers = {f"svod-first 1.0 ({first}:make)", f"svod-second 1.0 ({second}:make)"}
    assert set(caught.value.providers) == providers
    assert caught.value.headline.startswith("plugin 'TWIN' is provided twice: by svod-")
    assert caught.value.hint == "uninstall one of them"
    assert registry.get_allocator("CPU").device == "CPU"


def test_the_same_factory_declared_twice_is_no_conflict(registry: Registry) -> None:
    registry.register(ALLOCATORS, "FAKE", make_allocator, "again")
    assert registry.get_allocator("FAKE").device == "FAKE"


def test_a_device_chooses_its_backend() -> None:
    class Choosing(HostAllocator):
        default_backend = "llvm"

    def make(options: DeviceOptions, names: Sequence[str]) -> Registry:
        registry = Registry([CPU], options)
        registry.register(ALLOCATORS, "MINE", lambda device: CachingAllocator(Choosing(device), 0))
        registry.register(ALLOCATORS, "FAKE", make_allocator)
        for kind in ("CPU", "MINE", "FAKE"):
            for name in names:
                registry.register(COMPILERS, f"{kind}.{name}", make_backend)
        return registry

    several = make(DeviceOptions(), ["clang", "llvm", "zig"])
    assert [several.get_device(kind).default_backend for kind in ("CPU", "MINE:1", "FAKE")] == [
        "llvm",
        "llvm",
        "clang",
    ]
    assert make(DeviceOptions(), ["zig", "clang"]).get_device("CPU").default_backend == "clang"
    chosen = DeviceOptions(backends={"CPU": "zig"})
    assert make(chosen, ["clang", "llvm", "zig"]).get_device("CPU").default_backend == "zig"
    with pytest.raises(UnknownBackendError) as caught:
        _ = make(chosen, ["clang", "llvm"]).get_device("CPU").renderer
    assert (
        str(caught.value) == "device 'CPU' has no backend 'zig'\n"
        "  note: available backends: clang, llvm\n"
        "  hint: set SVOD_CPU_BACKEND=clang"
    )


def test_permanent_memory_remains_usable_after_close(registry: Registry) -> None:
    class Permanent(HostAllocator):
        is_permanent = True

    registry.register(ALLOCATORS, "KEPT", lambda device: CachingAllocator(Permanent(device), 0))
    for name, is_lost in (("KEPT", False), ("CPU", False), ("FAKE", True)):
        device = registry.get_device(name)
        buffer = Buffer(device.allocator, uint8, 3)
        buffer.copyin(b"abc")
        registry.close(name)
        assert (device.opening == 0) is not is_lost
        if is_lost:
            with pytest.raises(DeviceLostError):
                buffer.to_bytes()
        else:
            assert buffer.to_bytes() == b"abc"


def test_a_device_without_backends_cannot_run_kernels(registry: Registry) -> None:
    device = registry.get_device("DISK:/tmp/x")
    assert repr(device) == "Device(DISK:/tmp/x, backends: none)"
    with pytest.raises(UnknownBackendError) as caught:
        _ = device.backend
    assert (
        str(caught.value)
        == "device 'DISK:/tmp/x' has no backend: it stores data but cannot run kernels\n"
        '  hint: copy the data to a device with a backend, as in x.to("CPU")'
    )


def test_a_device_exposes_the_objects_of_its_backend(registry: Registry) -> None:
    device = registry.get_device("FAKE:1")
    assert device.backend_names == ("one", "two")
    assert device.backend is device.get_backend("one")
    assert device.get_backend("two") is not device.backend
    assert device.compiler.inner is COMPILER
    assert device.renderer.render((), "k") == "k"
    assert device.target.name == Target.generic().name
    assert device.launcher is None
    assert device.loader(CompiledSpec("k")).name == "k"


def test_devices_of_one_kind_share_a_base_key(registry: Registry) -> None:
    assert base_device_key("fake:7") == registry.get_device("FAKE:1").base_key == "FAKE"


def test_the_process_has_one_registry_that_can_be_cleared() -> None:
    clear()
    register_allocator("MINE", make_allocator)
    register_backend("MINE.one", make_backend)
    try:
        assert get_allocator("MINE").device == "MINE"
        assert get_device("MINE").default_backend == "one"
    finally:
        clear()
    with pytest.raises(UnknownDeviceError):
        get_device("MINE")


@pytest.mark.parametrize(
    ("interface", "problem", "hint"),
    [
        (
            2,
            "is written for version 2 of the plugin interface; svod-device has version 1",
            "upgrade svod-device",
        ),
        (
            0,
            "is written for version 0 of the plugin interface; svod-device has version 1",
            "upgrade svod-other",
        ),
        (
            None,
            "declares no version of the plugin interface; svod-device has version 1",
            "install a release of svod-other that declares it; plugin authors: see `docs/new-device.md`",
        ),
    ],
)
def test_a_plugin_for_a_different_interface_version_is_not_imported(
    install: Callable[..., str], interface: int | None, problem: str, hint: str
) -> None:
    module = install(
        "svod-other",
        GOOD,
        interface=interface,
        allocators=["OTHER = MODULE:make"],
        compilers=["OTHER.x = MODULE:make"],
    )
    registry = Registry()
    with pytest.raises(PluginInterfaceError) as caught:
        registry.get_allocator("OTHER")
    error = caught.value
    assert error.headline == f"plugin 'OTHER' of svod-other 1.0 {problem}"
    assert error.hint == hint
    assert (error.plugin, error.distribution, error.version) == ("OTHER", "svod-other", "1.0")
    assert (error.declared, error.expected) == (interface, 1)
    assert isinstance(error, ImportError)
    assert module not in sys.modules
    with pytest.raises(PluginInterfaceError):
        registry.make_backend("OTHER", "x")
    assert registry.get_allocator("CPU").device == "CPU"


def test_svod_s_own_plugins_declare_the_interface_version() -> None:
    for plugin in Registry().iter_plugins():
        if plugin.distribution.startswith("svod-"):
            assert plugin.interface == INTERFACE_VERSION, plugin


def test_the_error_of_a_factory_keeps_its_hint() -> None:
    def fail(device: str) -> HostAllocator:
        raise DiskError(path="/dev/fake", problem="no such driver", hint="install the driver")

    registry = Registry([CPU])
    registry.register(ALLOCATORS, "FAKE", fail, "fakery")
    with pytest.raises(PluginLoadError) as caught:
        registry.get_allocator("FAKE")
    assert caught.value.headline.endswith(
        "failed to load: DiskError: DISK:/dev/fake: no such driver"
    )
    assert caught.value.hint == "install the driver"
