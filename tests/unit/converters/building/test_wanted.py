"""Which variants are made: those that are named, else those that a target runs, else all."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from shoal_converters.building.wanted import list_wanted
from shoal_converters.errors import BadRecipe
from shoal_converters.inspection.boards import load_profiles
from shoal_converters.paths import VARIANTS
from shoal_wire.device_profile import DeviceProfile

PROFILES = {profile.name: profile for profile in load_profiles(Path(__file__).resolve().parents[4] / "device_profiles")}


def formats(names: tuple[str, ...]) -> set[str]:
    return {VARIANTS[name].format for name in names}


def test_what_is_named_is_made_once_and_in_its_order_whatever_the_targets_are() -> None:
    named = ("openvino-int8", "coreml-fp16", "openvino-int8")
    assert list_wanted(named, [PROFILES["raspberry-pi-5"]]).names == ("openvino-int8", "coreml-fp16")


def test_everything_is_made_where_nothing_is_asked_for() -> None:
    assert list_wanted((), ()).names == tuple(VARIANTS)


def test_a_raspberry_pi_with_two_engines_gets_their_formats_only() -> None:
    wanted = list_wanted((), [PROFILES["raspberry-pi-5"]])
    assert formats(wanted.names) == {"onnx", "tflite"}
    assert "onnx-int8-tensorrt" in wanted.left_out
    assert "coreml-fp16" in wanted.left_out


def test_the_form_for_tensorrt_is_made_where_a_target_has_it() -> None:
    wanted = list_wanted((), [PROFILES["raspberry-pi-5"], PROFILES["jetson-orin-nano"]])
    assert {"onnx-int8", "onnx-int8-tensorrt", "tflite-int8"} <= set(wanted.names)


@given(st.lists(st.sampled_from(sorted(PROFILES)), unique=True, min_size=1))
def test_each_variant_is_either_made_or_left_out(targets: list[str]) -> None:
    profiles: list[DeviceProfile] = [PROFILES[name] for name in targets]
    wanted = list_wanted((), profiles)
    assert sorted((*wanted.names, *wanted.left_out)) == sorted(VARIANTS)
    assert set(wanted.names) == {name for one in profiles for name in list_wanted((), [one]).names}


def test_an_unknown_variant_is_named_with_those_that_there_are() -> None:
    with pytest.raises(BadRecipe, match=r"unknown 'onnx-int3', expected out of .*'onnx-int8'"):
        list_wanted(("onnx-fp32", "onnx-int3"), ())
