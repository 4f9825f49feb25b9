"""What is known about a kind of board before anything has been measured on it?

One TOML file per board. It holds facts from the maker's documents and measurements; what nobody knows is left out.
An agent starts from it and prefers what it reads or measures on its own board. Which profiles contradict themselves or
each other is said in `device_profile_rules`.
"""

import datetime
import enum
from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from shoal_wire.encoding import Bytes, Identifier, Label, ModelName, Text
from shoal_wire.errors import Malformed
from shoal_wire.toml import read_toml

MAX_PROFILE_BYTES = 256 << 10


class Architecture(enum.Enum):
    """Instruction set, as `uname -m` prints it."""

    X86_64 = "x86_64"
    AARCH64 = "aarch64"


class Engine(enum.Enum):
    """A library that runs models."""

    ONNXRUNTIME = "onnxruntime"
    LITERT = "litert"
    TFLITE_RUNTIME = "tflite-runtime"
    OPENVINO = "openvino"
    TENSORRT = "tensorrt"


Celsius = Annotated[float, Meta(ge=-40, le=150)]
Instruction = Annotated[str, Meta(pattern=r"^[a-z0-9_]{1,40}\Z")]
"""As the kernel prints it in /proc/cpuinfo: of `Features` on Arm, of `flags` on x86."""
Milliseconds = Annotated[float, Meta(gt=0, le=86_400_000)]


class Cluster(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Cores of one kind."""

    core: Label
    cores: Annotated[int, Meta(ge=1, le=1024)]
    threads: Annotated[int, Meta(ge=1, le=2048)] | None = None
    """Processors that the kernel shows, where a core counts as several."""
    top_mhz: Annotated[int, Meta(ge=1, le=20_000)] | None = None


class PowerSensor(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A file by which the kernel tells of energy, power or the supply. Nobody can read what no such file names."""

    measures: Literal["energy", "power", "current", "voltage", "under-voltage", "over-current"]
    of: Label
    path: Label
    """A pattern of file names: the numbers of hwmon folders differ from start to start."""
    driver: Label
    unit: Label
    """Of the number in the file."""
    accuracy: Text | None = None
    """As the maker states it."""


class PowerSource(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A way to feed the board, with the supply that its maker asks for."""

    connector: Label
    volts: Annotated[float, Meta(gt=0, le=60)]
    amperes: Annotated[float, Meta(gt=0, le=100)] | None = None


class ThermalLimits(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What the board's own firmware does about heat; the temperature is that of the chip."""

    slowed_from_celsius: Celsius
    """The cores are slowed down from here on."""
    limit_celsius: Celsius
    """Never passed: everything is slowed down until the chip stays below."""


class MeasuredSpeed(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Sustained rate of one variant, measured on this kind of board."""

    model: ModelName
    variant: Identifier
    engine: Engine
    engine_version: Label
    threads: Annotated[int, Meta(ge=1)]
    answers_per_second: Annotated[float, Meta(gt=0)]
    precision: Literal["exact", "fast"] = "exact"
    batch: Annotated[int, Meta(ge=1, le=1024)] = 1
    device: Label = ""
    """As the engine names it; empty: what the engine takes unasked."""
    p50_ms: Milliseconds | None = None
    p95_ms: Milliseconds | None = None
    joules: Annotated[float, Meta(gt=0)] | None = None
    """For an answer."""
    joules_source: Literal["meter", "estimate"] | None = None
    meter: Label | None = None
    """Which meter: what it leaves out differs (a processor's package isn't the whole board)."""
    memory_peak_bytes: Bytes | None = None
    """The most memory that the worker ever held (VmHWM)."""
    measured_on: datetime.date | None = None
    agent_version: Label | None = None
    governor: Label | None = None
    """The rule that set the clock of the processor."""
    processor: Label | None = None
    """As the board named it, where the profile is of a family."""


class DeviceProfile(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A kind of board. What is None or empty is unknown, and the agent asks the board."""

    name: Identifier
    board: Label
    architecture: Architecture
    engines: Annotated[tuple[Engine, ...], Meta(min_length=1)]
    """The first that is installed and passes its probe serves, until the agent has measured."""
    ciphers: Annotated[tuple[Literal["aes-256-gcm", "chacha20-poly1305"], ...], Meta(min_length=1)]
    """Suites for sealed files, the fastest first."""
    grants: Literal["x25519", "mlkem768-x25519"] = "x25519"
    """How content keys should be sealed to such a board. The hybrid one outlasts quantum computers, and makes desired
    documents seven times as long."""
    processor: Label | None = None
    cores: Annotated[int, Meta(ge=1)] | None = None
    memory_bytes: tuple[Bytes, ...] = ()
    """The sizes of memory that the board is sold with."""
    power_sources: tuple[PowerSource, ...] = ()
    thermal_limits: ThermalLimits | None = None
    compatible: tuple[Label, ...] = ()
    """Names in the `compatible` of a device tree's root by which such a board is known."""
    processor_names: tuple[Label, ...] = ()
    """Beginnings of `model name` in /proc/cpuinfo by which such a board is known (x86)."""
    clusters: tuple[Cluster, ...] = ()
    instructions: tuple[Instruction, ...] = ()
    """Those that engines or ciphers gain by, and that every such board has."""
    lacks_instructions: tuple[Instruction, ...] = ()
    """Those that no such board has, where one might expect them."""
    accelerators: tuple[Label, ...] = ()
    power_sensors: tuple[PowerSensor, ...] = ()
    storage: tuple[Label, ...] = ()
    known_limits: tuple[Text, ...] = ()
    """What to know before one chooses such a board or wonders at it."""
    measured_speeds: tuple[MeasuredSpeed, ...] = ()
    sources: tuple[Text, ...] = ()
    """Documents that the facts come from."""


def parse_profile(text: bytes | str) -> DeviceProfile:
    """Read the text of a profile.

    Raises:
        Malformed: too long, not TOML, an unknown field, or a field of another type or range; the message names the
            field.
    """
    raw = text.encode() if isinstance(text, str) else text
    if len(raw) > MAX_PROFILE_BYTES:
        raise Malformed(f"device profile: {len(raw)} bytes, expected at most {MAX_PROFILE_BYTES}")
    try:
        profile = msgspec.convert(read_toml(raw, what="device profile"), DeviceProfile)
    except msgspec.ValidationError as error:
        raise Malformed(f"device profile: {error}") from None
    limits = profile.thermal_limits
    if limits is not None and limits.slowed_from_celsius > limits.limit_celsius:
        raise Malformed(
            f"device profile {profile.name}: slowed_from_celsius is {limits.slowed_from_celsius:g}, "
            f"expected at most limit_celsius, {limits.limit_celsius:g}"
        )
    return profile
