from pathlib import Path

import pytest
from shoal_wire.device_profile import MAX_PROFILE_BYTES, Architecture, Engine, parse_profile
from shoal_wire.errors import Malformed
from shoal_wire.sealed_file import AES_256_GCM, CHACHA20_POLY1305

PROFILE_FILES = sorted((Path(__file__).resolve().parents[3] / "device_profiles").iterdir())

SMALLEST = """\
name = "board-1"
board = "A board"
architecture = "aarch64"
engines = ["litert", "onnxruntime"]
ciphers = ["chacha20-poly1305"]
"""


@pytest.mark.parametrize("path", PROFILE_FILES, ids=lambda path: path.name)
def test_every_shipped_profile_parses_and_is_named_as_its_file(path: Path) -> None:
    assert path.name == f"{parse_profile(path.read_bytes()).name}.toml"


def test_prefers_chacha_on_the_board_without_aes_instructions() -> None:
    by_name = {path.stem: parse_profile(path.read_bytes()) for path in PROFILE_FILES}

    assert by_name["raspberry-pi-4"].ciphers == (CHACHA20_POLY1305, AES_256_GCM)
    assert by_name["raspberry-pi-5"].ciphers == (AES_256_GCM, CHACHA20_POLY1305)


def test_leaves_out_what_is_unknown() -> None:
    profile = parse_profile(SMALLEST)

    assert profile.architecture is Architecture.AARCH64
    assert profile.engines == (Engine.LITERT, Engine.ONNXRUNTIME)
    assert (profile.cores, profile.thermal_limits) == (None, None)
    assert profile.grants == "x25519"
    assert (profile.memory_bytes, profile.power_sources, profile.measured_speeds) == ((), (), ())


def test_says_how_content_keys_should_be_sealed() -> None:
    assert parse_profile(f'grants = "mlkem768-x25519"\n{SMALLEST}').grants == "mlkem768-x25519"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("name = ", r"^device profile: "),
        (SMALLEST.replace("board-1", "../board"), r"\$\.name"),
        (SMALLEST.replace("aarch64", "armv6l"), r"armv6l.*\$\.architecture"),
        (SMALLEST.replace("litert", "tensorflow"), r"tensorflow.*\$\.engines"),
        (SMALLEST.replace("chacha20-poly1305", "rot13"), r"rot13.*\$\.ciphers"),
        (SMALLEST.replace('"litert", "onnxruntime"', ""), r"\$\.engines"),
        (SMALLEST.replace("architecture", "arch"), r"arch"),
        (SMALLEST + "coores = 4\n", r"unknown field `coores`"),
        (SMALLEST + "cores = 0\n", r"\$\.cores"),
        (SMALLEST + "[[power_sources]]\nconnector = 'USB-C'\nvolts = '5 V'\n", r"\$\.power_sources\[.*\]\.volts"),
        (
            SMALLEST + "[thermal_limits]\nslowed_from_celsius = 90\nlimit_celsius = 85\n",
            r"board-1: slowed_from_celsius is 90, expected at most limit_celsius, 85",
        ),
    ],
)
def test_refuses_what_the_schema_does_not_allow_and_names_it(text: str, message: str) -> None:
    with pytest.raises(Malformed, match=message):
        parse_profile(text)


def test_refuses_a_text_that_is_too_long_before_parsing_it() -> None:
    with pytest.raises(Malformed, match=rf"{MAX_PROFILE_BYTES + 1} bytes, expected at most {MAX_PROFILE_BYTES}"):
        parse_profile(b"#" * (MAX_PROFILE_BYTES + 1))


def test_refuses_text_that_is_no_utf_8() -> None:
    with pytest.raises(Malformed, match="device profile"):
        parse_profile(b'name = "\xff"')
