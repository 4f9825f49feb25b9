"""What is read of a board, from files as the kernel lays them out?"""

from pathlib import Path

from shoal_agent.board import (
    read_emulation,
    read_governor,
    read_kind,
    read_name,
    read_processor,
    read_thermal_class,
    thermal_class,
)
from shoal_agent.tuning.meters import find_meter


def put(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def test_a_raspberry_pi_is_known_by_its_model(tmp_path: Path) -> None:
    text = "processor\t: 0\nCPU part\t: 0xd0b\n\nModel\t\t: Raspberry Pi 5 Model B Rev 1.0\n"
    assert read_processor(put(tmp_path / "cpuinfo", text)).endswith("0xd0b Raspberry Pi 5 Model B Rev 1.0")


def test_a_board_is_named_by_its_device_tree_or_else_by_dmi(tmp_path: Path) -> None:
    proc, system = tmp_path / "proc", tmp_path / "sys"
    assert read_name(proc=proc, system=system) == ""
    put(system / "class/dmi/id/sys_vendor", "Intel\n")
    put(system / "class/dmi/id/product_name", "NUC\n")
    assert read_name(proc=proc, system=system) == "Intel NUC"
    put(proc / "device-tree/model", "Raspberry Pi 5 Model B Rev 1.0\0")
    assert read_name(proc=proc, system=system) == "Raspberry Pi 5 Model B Rev 1.0"


def test_signs_of_emulation_are_read_and_make_a_kind_of_their_own(tmp_path: Path) -> None:
    proc, system = tmp_path / "proc", tmp_path / "sys"
    assert not read_kind(processors=2, proc=proc, system=system).is_emulated
    put(proc / "device-tree/compatible", "linux,dummy-virt\0")
    assert "linux,dummy-virt" in read_emulation(proc=proc, system=system)
    assert read_kind(processors=2, proc=proc, system=system).is_emulated
    put(system / "class/ptp/ptp0/clock_name", "KVM virtual PTP\n")
    assert read_emulation(proc=proc, system=system) == ""
    (system / "class/ptp/ptp0/clock_name").unlink()
    put(system / "devices/system/clocksource/clocksource0/available_clocksource", "kvm-clock tsc \n")
    assert read_emulation(proc=proc, system=system) == ""
    put(proc / "sys/kernel/arch", "sparc64\n")
    assert "the kernel runs on sparc64" in read_emulation(proc=proc, system=system)


def test_governor_and_warmth_are_unknown_where_the_kernel_shows_none(tmp_path: Path) -> None:
    assert (read_governor(tmp_path), read_thermal_class(tmp_path)) == ("unknown", "unknown")


def test_the_warmest_sensor_counts(tmp_path: Path) -> None:
    put(tmp_path / "class/thermal/thermal_zone0/temp", "41000\n")
    put(tmp_path / "class/thermal/thermal_zone1/temp", "68000\n")
    put(tmp_path / "devices/system/cpu/cpu0/cpufreq/scaling_governor", "ondemand\n")
    assert (read_governor(tmp_path), read_thermal_class(tmp_path)) == ("ondemand", "warm")


def test_classes_of_warmth() -> None:
    assert [thermal_class(celsius) for celsius in (59.9, 60.0, 74.9, 75.0)] == ["cool", "warm", "warm", "hot"]


def test_rapl_packages_are_added_up_and_followed_over_their_end(tmp_path: Path) -> None:
    first = put(tmp_path / "class/powercap/intel-rapl:0/energy_uj", "1000000")
    second = put(tmp_path / "class/powercap/intel-rapl:1/energy_uj", "9000000")
    put(tmp_path / "class/powercap/intel-rapl:0:0/energy_uj", "77")  # a part of the first package
    for package in (0, 1):
        put(tmp_path / f"class/powercap/intel-rapl:{package}/max_energy_range_uj", "10000000")
    meter = find_meter(tmp_path)
    meter.start()
    first.write_text("3000000")
    second.write_text("500000")
    assert (meter.name, meter.stop()) == ("RAPL", 2.0 + 1.5)


def test_a_meter_that_falls_silent_gives_no_figure(tmp_path: Path) -> None:
    counter = put(tmp_path / "class/hwmon/hwmon0/energy1_input", "5")
    meter = find_meter(tmp_path)
    meter.start()
    counter.unlink()
    assert (meter.name, meter.stop()) == ("hwmon energy", None)


def test_power_is_added_up_over_time(tmp_path: Path) -> None:
    put(tmp_path / "class/hwmon/hwmon0/power1_input", "2000000")
    meter = find_meter(tmp_path)
    meter.start()
    joules = meter.stop()
    assert meter.name == "hwmon power"
    assert joules is not None and joules > 0


def test_a_board_without_a_meter_says_so(tmp_path: Path) -> None:
    meter = find_meter(tmp_path)
    meter.start()
    assert (meter.name, meter.stop()) == ("", None)
