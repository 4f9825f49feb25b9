"""Which boards are told to be computed by a program? QEMU's texts are what kernels printed under its version 7.2."""

import pytest
from shoal_agent.emulation import Signs, find_sign

ARM = "processor\t: 0\nBogoMIPS\t: {bogomips}\nCPU implementer\t: 0x41\nCPU architecture: 8\nCPU part\t: 0xd08\n"
X86 = "processor\t: 0\nvendor_id\t: AuthenticAMD\ncpu family\t: 15\nmodel name\t: {name}\n"
PI_4 = ARM.format(bogomips="108.00") + "Model\t\t: Raspberry Pi 4 Model B Rev 1.4\n"
QEMU_A72 = ARM.format(bogomips="125.00")
Q35 = "Standard PC (Q35 + ICH9, 2009)"

EMULATED = {
    "qemu-aarch64 on x86": Signs(machine="aarch64", kernel_machine="x86_64", processors=X86.format(name="AMD EPYC")),
    "the same on a kernel before 6.1": Signs(machine="aarch64", processors=X86.format(name="AMD EPYC")),
    "qemu-x86_64 on a Pi": Signs(machine="x86_64", processors=PI_4),
    "machine virt": Signs(
        machine="aarch64", kernel_machine="aarch64", processors=QEMU_A72, compatible="linux,dummy-virt"
    ),
    "machine virt with firmware": Signs(
        machine="aarch64", processors=QEMU_A72, vendor="QEMU", product="QEMU Virtual Machine"
    ),
    "a newer machine virt, whose timer is faster": Signs(
        machine="aarch64", processors=ARM.format(bogomips="2000.00"), compatible="linux,dummy-virt"
    ),
    "machine raspi4b, with the real board's device tree": Signs(
        machine="aarch64", processors=QEMU_A72, compatible="raspberrypi,4-model-b brcm,bcm2711"
    ),
    "machine pc": Signs(
        machine="x86_64",
        kernel_machine="x86_64",
        processors=X86.format(name="QEMU Virtual CPU version 2.5+"),
        vendor="QEMU",
        product="Standard PC (i440FX + PIIX, 1996)",
        clocks=("tsc-early", "hpet", "acpi_pm"),
    ),
    "-cpu max": Signs(
        machine="x86_64", processors=X86.format(name="QEMU TCG CPU version 2.5+"), vendor="QEMU", product=Q35
    ),
    "another processor's name": Signs(
        machine="x86_64", processors=X86.format(name="Intel Xeon"), vendor="QEMU", product=Q35, clocks=("tsc", "hpet")
    ),
}

REAL = {
    "Raspberry Pi 4": Signs(
        machine="aarch64",
        kernel_machine="aarch64",
        processors=PI_4,
        compatible="raspberrypi,4-model-b brcm,bcm2711",
        clocks=("arch_sys_counter",),
    ),
    "its 32-bit programs": Signs(machine="armv8l", kernel_machine="aarch64", processors=PI_4),
    "an Intel box": Signs(
        machine="x86_64",
        kernel_machine="x86_64",
        processors="vendor_id\t: GenuineIntel\nmodel name\t: Intel(R) N100\n",
        vendor="Default string",
        product="Default string",
        clocks=("tsc", "hpet", "acpi_pm"),
    ),
    "its 32-bit programs ": Signs(machine="i686", kernel_machine="x86_64", processors=X86.format(name="AMD Ryzen")),
    "QEMU with KVM": Signs(
        machine="x86_64",
        processors=X86.format(name="AMD EPYC"),
        vendor="QEMU",
        product=Q35,
        clocks=("kvm-clock", "tsc", "acpi_pm"),
    ),
    "Firecracker": Signs(
        machine="x86_64", kernel_machine="x86_64", processors=X86.format(name="AMD EPYC"), clocks=("tsc", "kvm-clock")
    ),
    "virt with KVM and firmware": Signs(
        machine="aarch64", processors=ARM.format(bogomips="50.00"), vendor="QEMU", product="KVM Virtual Machine"
    ),
    "virt with KVM and its clock": Signs(
        machine="aarch64",
        processors=ARM.format(bogomips="108.00"),
        compatible="linux,dummy-virt",
        clocks=("arch_sys_counter", "KVM virtual PTP"),
    ),
    "nothing can be read": Signs(machine="riscv64"),
}


@pytest.mark.parametrize("signs", EMULATED.values(), ids=EMULATED)
def test_an_emulated_board_is_known_by_some_sign(signs: Signs) -> None:
    assert find_sign(signs)


@pytest.mark.parametrize("signs", REAL.values(), ids=REAL)
def test_a_real_board_or_one_with_hardware_help_is_not_called_emulated(signs: Signs) -> None:
    assert find_sign(signs) == ""


def test_the_sign_is_told_in_words() -> None:
    assert find_sign(EMULATED["qemu-aarch64 on x86"]) == (
        "programs are told that this is aarch64, the kernel runs on x86_64"
    )
