"""What do kernels show of boards, as files under a folder?

Written after the kernel's device trees (arch/arm64/boot/dts) and its printing of processors
(arch/arm64/kernel/cpuinfo.c, arch/x86/kernel/cpu/proc.c), after texts that people published of such boards, and after
what QEMU's machines showed here. Read on hardware by this project: none of the boards; the virtual ones only.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

A53 = "fp asimd evtstrm crc32 cpuid"
A72 = A53
A76 = "fp asimd evtstrm aes pmull sha1 sha2 crc32 atomics fphp asimdhp cpuid asimdrdm lrcpc dcpop asimddp"
A78AE = f"{A76} uscat ilrcpc flagm paca pacg"
GRACEMONT = (
    "fpu vme de pse tsc msr sse sse2 ht syscall nx lm constant_tsc nonstop_tsc ssse3 fma sse4_1 sse4_2 popcnt aes "
    "xsave avx f16c rdrand bmi1 avx2 bmi2 erms sha_ni avx_vnni vaes vpclmulqdq"
)
GUEST = "fpu vme sse sse2 lm ssse3 fma sse4_2 popcnt aes avx hypervisor avx2"


class RecordedBoard(NamedTuple):
    """Files under a root, and what the board is."""

    machine: str
    files: Mapping[str, bytes]
    profile: str
    reason: str
    """A part of the words in which it is told."""


def write_board(board: RecordedBoard, root: Path) -> Path:
    """Lay the files out; returns the root."""
    for name, content in board.files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    return root


def arm_processors(features: str, *, part: str, count: int = 4, bogomips: str = "108.00", model: str = "") -> bytes:
    """/proc/cpuinfo of a 64-bit Arm kernel; `model` is a line that Raspberry Pi's kernel adds."""
    blocks = [
        f"processor\t: {number}\nBogoMIPS\t: {bogomips}\nFeatures\t: {features}\nCPU implementer\t: 0x41\n"
        f"CPU architecture: 8\nCPU variant\t: 0x0\nCPU part\t: {part}\nCPU revision\t: 3\n"
        for number in range(count)
    ]
    return ("\n".join(blocks) + (f"\nModel\t\t: {model}\n" if model else "")).encode()


def x86_processors(name: str, *, flags: str, count: int = 4, vendor: str = "GenuineIntel") -> bytes:
    """/proc/cpuinfo of an x86 kernel."""
    blocks = [
        f"processor\t: {number}\nvendor_id\t: {vendor}\ncpu family\t: 6\nmodel\t\t: 190\nmodel name\t: {name}\n"
        f"flags\t\t: {flags}\nbugs\t\t:\n"
        for number in range(count)
    ]
    return "\n".join(blocks).encode()


def device_tree(model: str, *, compatible: Sequence[str]) -> dict[str, bytes]:
    """The two texts of a device tree's root, which end in zeros."""
    return {
        "proc/device-tree/model": model.encode() + b"\0",
        "proc/device-tree/compatible": b"".join(name.encode() + b"\0" for name in compatible),
    }


def dmi(vendor: str, product: str) -> dict[str, bytes]:
    """What the firmware of a PC says of it."""
    return {
        "sys/class/dmi/id/sys_vendor": f"{vendor}\n".encode(),
        "sys/class/dmi/id/product_name": f"{product}\n".encode(),
    }


def _pi(model: str, compatible: Sequence[str], *, features: str, part: str, profile: str) -> RecordedBoard:
    files = device_tree(model, compatible=compatible)
    files["proc/cpuinfo"] = arm_processors(features, part=part, model=model)
    return RecordedBoard("aarch64", files, profile, f"the device tree says {compatible[0]} ({model})")


def _jetson(model: str, compatible: Sequence[str], *, cores: int, profile: str) -> RecordedBoard:
    files = device_tree(model, compatible=compatible)
    files["proc/cpuinfo"] = arm_processors(A78AE, part="0xd42", count=cores, bogomips="62.50")
    return RecordedBoard("aarch64", files, profile, model)


def _computer(name: str, vendor: str, product: str, *, profile: str, reason: str, flags: str) -> RecordedBoard:
    files = {"proc/cpuinfo": x86_processors(name, flags=flags), **dmi(vendor, product)}
    return RecordedBoard("x86_64", files, profile, reason)


RASPBERRY_PIS = {
    "Raspberry Pi 3B": _pi(
        "Raspberry Pi 3 Model B Rev 1.2",
        ["raspberrypi,3-model-b", "brcm,bcm2837"],
        features=A53,
        part="0xd03",
        profile="raspberry-pi-3",
    ),
    "Raspberry Pi 3B+": _pi(
        "Raspberry Pi 3 Model B Plus Rev 1.3",
        ["raspberrypi,3-model-b-plus", "brcm,bcm2837"],
        features=A53,
        part="0xd03",
        profile="raspberry-pi-3",
    ),
    "Raspberry Pi Zero 2 W": _pi(
        "Raspberry Pi Zero 2 W Rev 1.0",
        ["raspberrypi,model-zero-2-w", "brcm,bcm2837"],
        features=A53,
        part="0xd03",
        profile="raspberry-pi-zero-2-w",
    ),
    "Raspberry Pi 4B": _pi(
        "Raspberry Pi 4 Model B Rev 1.4",
        ["raspberrypi,4-model-b", "brcm,bcm2711"],
        features=A72,
        part="0xd08",
        profile="raspberry-pi-4",
    ),
    "Raspberry Pi 5": _pi(
        "Raspberry Pi 5 Model B Rev 1.0",
        ["raspberrypi,5-model-b", "brcm,bcm2712"],
        features=A76,
        part="0xd0b",
        profile="raspberry-pi-5",
    ),
}

JETSONS = {
    "Jetson Orin Nano developer kit": _jetson(
        "NVIDIA Jetson Orin Nano Developer Kit",
        ["nvidia,p3768-0000+p3767-0005", "nvidia,p3767-0005", "nvidia,tegra234"],
        cores=6,
        profile="jetson-orin-nano",
    ),
    "the same with a Super system": _jetson(
        "NVIDIA Jetson Orin Nano Engineering Reference Developer Kit Super",
        ["nvidia,p3768-0000+p3767-0005-super", "nvidia,p3767-0005", "nvidia,tegra234"],
        cores=6,
        profile="jetson-orin-nano",
    ),
    "Jetson Orin NX": _jetson(
        "NVIDIA Jetson Orin NX Engineering Reference Developer Kit",
        ["nvidia,p3768-0000+p3767-0000", "nvidia,p3767-0000", "nvidia,tegra234"],
        cores=8,
        profile="jetson-orin-nx",
    ),
    "Jetson AGX Orin developer kit": _jetson(
        "NVIDIA Jetson AGX Orin Developer Kit",
        ["nvidia,p3737-0000+p3701-0000", "nvidia,p3701-0000", "nvidia,tegra234"],
        cores=12,
        profile="jetson-agx-orin",
    ),
}

COMPUTERS = {
    "N100 mini PC": _computer(
        "Intel(R) N100",
        "AZW",
        "MINI S",
        profile="intel-n100",
        reason="the processor is Intel(R) N100, the computer AZW MINI S",
        flags=GRACEMONT,
    ),
    "N100 whose maker wrote no name": _computer(
        "Intel(R) N100",
        "Default string",
        "Default string",
        profile="intel-n100",
        reason="Intel(R) N100",
        flags=GRACEMONT,
    ),
    "Core Ultra": _computer(
        "Intel(R) Core(TM) Ultra 7 155H",
        "ASUSTeK COMPUTER INC.",
        "NUC14RVK",
        profile="intel-core-ultra",
        reason="Ultra 7 155H",
        flags=GRACEMONT,
    ),
    "a processor that no profile names": _computer(
        "Intel(R) N97",
        "Default string",
        "Default string",
        profile="generic-x86-64",
        reason="claims Intel(R) N97",
        flags=GRACEMONT,
    ),
    "a name that only begins like another": _computer(
        "Intel(R) N1000",
        "Default string",
        "Default string",
        profile="generic-x86-64",
        reason="claims Intel(R) N1000",
        flags=GRACEMONT,
    ),
    "virtual machine on an N100": _computer(
        "Intel(R) N100",
        "QEMU",
        "Standard PC (Q35 + ICH9, 2009) KVM",
        profile="generic-x86-64",
        reason="virtual machine",
        flags=f"{GRACEMONT} hypervisor",
    ),
    "virtual machine": _computer(
        "Common KVM processor",
        "Google",
        "Google Compute Engine",
        profile="generic-x86-64",
        reason="virtual machine",
        flags=GUEST,
    ),
}

ODD = {
    "QEMU's machine virt": RecordedBoard(
        "aarch64",
        {
            **device_tree("linux,dummy-virt", compatible=["linux,dummy-virt"]),
            "proc/cpuinfo": arm_processors(A72, part="0xd08", count=2, bogomips="125.00"),
        },
        "generic-aarch64",
        "its processor is a program",
    ),
    "QEMU's machine raspi3b, with the real board's device tree": RecordedBoard(
        "aarch64",
        {
            **device_tree("Raspberry Pi 3 Model B", compatible=["raspberrypi,3-model-b", "brcm,bcm2837"]),
            "proc/cpuinfo": arm_processors(A53, part="0xd03", bogomips="125.00"),
        },
        "generic-aarch64",
        "its processor is a program",
    ),
    "a 32-bit system on a Raspberry Pi 4": RecordedBoard(
        "armv7l",
        {**device_tree("Raspberry Pi 4 Model B Rev 1.4", compatible=["raspberrypi,4-model-b", "brcm,bcm2711"])},
        "generic-armv7l",
        "but its system is armv7l and raspberry-pi-4 is aarch64",
    ),
    "a board that no profile names": RecordedBoard(
        "aarch64",
        device_tree("FriendlyElec NanoPi R6S", compatible=["friendlyarm,nanopi-r6s", "rockchip,rk3588s"]),
        "generic-aarch64",
        "claims FriendlyElec NanoPi R6S",
    ),
    "no files at all": RecordedBoard(
        "aarch64", {}, "generic-aarch64", "neither device tree nor processor says what board it is"
    ),
    "bytes that are no text": RecordedBoard(
        "aarch64",
        {
            "proc/device-tree/model": b"\xff\xfe\x1b[2J\n\0",
            "proc/device-tree/compatible": bytes(range(256)) * 4,
            "proc/cpuinfo": bytes(range(255, -1, -1)) * 1000,
        },
        "generic-aarch64",
        "claims",
    ),
    "empty files": RecordedBoard(
        "x86_64",
        {"proc/device-tree/compatible": b"", "proc/cpuinfo": b"", "sys/class/dmi/id/sys_vendor": b""},
        "generic-x86-64",
        "neither device tree nor processor says what board it is",
    ),
}

BOARDS: Mapping[str, RecordedBoard] = RASPBERRY_PIS | JETSONS | COMPUTERS | ODD
