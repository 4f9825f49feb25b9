"""Does a program compute this board's instructions? Rules over what kernel and firmware show.

Seen: user-mode emulation (`qemu-aarch64` under a container or a chroot of another architecture), from a kernel or
processors of another architecture than `uname -m` prints; and QEMU's machines without hardware help (TCG).

Hardware help shows on x86 by the clock `kvm-clock`, on Arm by a clock of the kind "KVM virtual PTP" or a product that
is called "KVM Virtual Machine" (QEMU, hw/arm/virt.c). QEMU's other helpers (of macOS, Windows, NetBSD) show nothing
that tells them from emulation: a guest of theirs counts as emulated, which only keeps its timings to itself. So does an
Arm guest of KVM without firmware and without that clock. Not seen: other makers' emulators, and a QEMU that was told
to hide.
"""

import re
from collections.abc import Callable
from typing import NamedTuple

KIN = (
    frozenset({"aarch64", "armv8l", "armv7l", "armv6l"}),
    frozenset({"x86_64", "i686", "i586", "i486", "i386"}),
    frozenset({"ppc64le", "ppcle"}),
    frozenset({"s390x", "s390"}),
)
"""A kernel runs programs of its smaller kin without emulation, and tells them so (personality(2))."""

FIELDS = {"x86": r"^vendor_id\s*:\s*\w+(Intel|AMD|Hygon|Shanghai)", "arm": r"^CPU implementer\s*:"}
"""A line of /proc/cpuinfo that only processors of one family have, as the kernel's arch/*/kernel/cpu writes it."""

TCG_TIMER_MHZ = 62.5
"""How fast the generic timer of QEMU's Arm processors ticks where KVM doesn't lend its own (QEMU, GTIMER_SCALE)."""


class Signs(NamedTuple):
    """What can be read of a board; each is empty where there is no such thing."""

    machine: str
    """As `uname -m` prints it."""
    kernel_machine: str = ""
    """/proc/sys/kernel/arch: the kernel's own architecture, from Linux 6.1 on."""
    processors: str = ""
    """/proc/cpuinfo."""
    vendor: str = ""
    """DMI."""
    product: str = ""
    """DMI."""
    compatible: str = ""
    """Of the device tree's root."""
    clocks: tuple[str, ...] = ()
    """Clock sources, and names of PTP clocks."""


def find_sign(signs: Signs) -> str:
    """The first sign of emulation, in words; empty where there is none."""
    return next((words for rule in _RULES if (words := rule(signs))), "")


def _another_kernel(signs: Signs) -> str:
    own, kernel = signs.machine, signs.kernel_machine
    if not kernel or kernel == own or any({own, kernel} <= kin for kin in KIN):
        return ""
    return f"programs are told that this is {own}, the kernel runs on {kernel}"


def _another_processor(signs: Signs) -> str:
    family = _family(signs.machine)
    for other, pattern in FIELDS.items():
        if family and other != family and re.search(pattern, signs.processors, re.MULTILINE):
            return f"programs are told that this is {signs.machine}, the processors are of the family {other}"
    return ""


def _named_so(signs: Signs) -> str:
    found = re.search(r"QEMU TCG CPU[^\n]*", signs.processors)
    return f"the processor calls itself {found[0].strip()}" if found else ""


def _slow_timer(signs: Signs) -> str:
    """An Arm kernel prints twice the timer's rate as BogoMIPS (arch/arm64/kernel/cpuinfo.c)."""
    if _family(signs.machine) != "arm" or f"BogoMIPS\t: {2 * TCG_TIMER_MHZ:.2f}" not in signs.processors:
        return ""
    return f"the timer ticks at {TCG_TIMER_MHZ} MHz, as QEMU's does"


def _unaided_machine(signs: Signs) -> str:
    names = [signs.vendor, signs.product, signs.compatible, *re.findall(r"QEMU Virtual CPU[^\n]*", signs.processors)]
    if any(re.search(r"\bKVM\b", name) for name in names) or any("kvm" in clock.lower() for clock in signs.clocks):
        return ""
    found = next((name for name in names if re.search(r"QEMU|linux,dummy-virt", name)), "")
    return f"it is a machine of QEMU's ({found.strip()}) without a sign of KVM" if found else ""


def _family(machine: str) -> str:
    if machine.startswith(("arm", "aarch")):
        return "arm"
    return "x86" if machine in ("x86_64", "i686", "i586", "i486", "i386") else ""


_RULES: tuple[Callable[[Signs], str], ...] = (
    _another_kernel,
    _another_processor,
    _named_so,
    _slow_timer,
    _unaided_machine,
)
