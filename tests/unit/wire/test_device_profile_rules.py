"""Is told where a profile contradicts itself or another one?"""

import pytest
from shoal_wire.device_profile import DeviceProfile, parse_profile
from shoal_wire.device_profile_rules import find_clashes, find_mistakes

RIGHT = """\
name = "board-1"
board = "A board"
architecture = "aarch64"
engines = ["litert"]
ciphers = ["chacha20-poly1305", "aes-256-gcm"]
cores = 6
instructions = ["asimd"]
lacks_instructions = ["aes"]
compatible = ["us,board-1"]
sources = ["Its data sheet"]
clusters = [{ core = "big", cores = 2 }, { core = "little", cores = 4 }]
"""
ROW = """
[[measured_speeds]]
model = "faces"
variant = "tflite-int8"
engine = "litert"
engine_version = "2.0"
threads = 2
answers_per_second = 20.0
p50_ms = 10.0
p95_ms = 12.0
joules = 0.5
joules_source = "estimate"
"""


def read(text: str) -> DeviceProfile:
    return parse_profile(text)


def test_profile_that_agrees_with_itself_has_no_mistakes() -> None:
    assert find_mistakes(read(RIGHT + ROW)) == ()


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (RIGHT.replace('sources = ["Its data sheet"]', ""), "sources: expected the documents that cores, clusters"),
        (RIGHT.replace("cores = 6", "cores = 8"), "cores: 8, but the clusters have 6"),
        (RIGHT.replace('["aes"]', '["aes", "asimd"]'), "lacks_instructions: asimd stand under instructions as well"),
        (
            RIGHT.replace('["chacha20-poly1305", "aes-256-gcm"]', '["aes-256-gcm"]'),
            "ciphers: aes-256-gcm is first, but the processor has no AES instructions",
        ),
        (
            RIGHT.replace('lacks_instructions = ["aes"]', "").replace('["asimd"]', '["aes"]'),
            "ciphers: chacha20-poly1305 is first, but the processor has AES instructions",
        ),
        (f'processor_names = ["X"]\n{RIGHT}', "processor_names: only x86 kernels print a name"),
        (RIGHT + ROW + ROW, "measured_speeds: 2 rows for faces tflite-int8 litert exact threads=2"),
        (RIGHT.replace('compatible = ["us,board-1"]', "") + ROW, "timings of no one kind of board"),
        (RIGHT + ROW.replace('joules_source = "estimate"', ""), "joules and joules_source go together"),
        (RIGHT + ROW.replace("p95_ms = 12.0", "p95_ms = 9.0"), "p95_ms 9 is less than p50_ms 10"),
        (RIGHT.replace('["litert"]', '["onnxruntime"]') + ROW, "litert isn't among the profile's engines"),
    ],
    ids=[
        "no sources",
        "cores",
        "both ways",
        "AES first without it",
        "AES last with it",
        "name on Arm",
        "twice",
        "any board",
        "joules of nowhere",
        "p95",
        "engine",
    ],
)
def test_contradiction_is_told(text: str, words: str) -> None:
    assert [words in mistake for mistake in find_mistakes(read(text))] == [True]


def test_same_setting_in_another_precision_is_another_row() -> None:
    assert find_mistakes(read(RIGHT + ROW + ROW + 'precision = "fast"\n')) == ()


def test_profiles_that_claim_the_same_clash() -> None:
    other = read(RIGHT.replace("board-1", "board-2").replace("us,board-2", "us,board-1"))
    assert find_clashes([read(RIGHT), other]) == ("board-2: 'us,board-1' is a sign of board-1 as well",)
    assert len(find_clashes([read(RIGHT), read(RIGHT)])) == 2
    assert find_clashes([read(RIGHT)]) == ()
