"""Are recorded outputs read within their bounds, and are outputs that moved told from those that didn't?"""

import io
import struct
import zipfile
from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from shoal_agent.front.operations.errors import BadPipeline
from shoal_agent.front.operations.values import Tensors, Verdict
from shoal_agent.front.reference_outputs import (
    MAX_ARRAY_BYTES,
    MAX_ARRAYS,
    MAX_FILE_BYTES,
    compare_outputs,
    read_reference,
)

Arrays = Mapping[str, NDArray[Any]]


def npz(arrays: Arrays, *, compressed: bool = False) -> bytes:
    """As NumPy itself writes it."""
    file = io.BytesIO()
    (np.savez_compressed if compressed else np.savez)(file, **arrays)  # type: ignore[arg-type]
    return file.getvalue()


def archive(**members: bytes) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as made:
        for name, content in members.items():
            made.writestr(name, content)
    return file.getvalue()


def judge(outputs: list[Tensors], arrays: Arrays, *, maximum: float = 0.1) -> Verdict:
    return compare_outputs(outputs, read_reference([npz(arrays)], what="r.npz"), maximum_difference=maximum)


ONES = np.ones((1, 4), np.float32)


@given(st.floats(-0.2, 0.2), st.floats(0.01, 100.0))
def test_outputs_may_differ_by_as_much_of_their_size_as_is_allowed(part: float, size: float) -> None:
    verdict = judge([{"y": ONES * size * (1 + part)}], {"0/y": ONES * np.float32(size)})
    if abs(abs(part) - 0.1) > 1e-4:
        assert verdict.passed is (abs(part) <= 0.1)


def test_the_array_that_is_farthest_off_is_named_with_both_numbers() -> None:
    outputs: list[Tensors] = [{"a": ONES, "b": ONES * 1.25}, {"a": ONES * 1.5, "b": ONES}]
    reference = {f"{call}/{name}": ONES for call in (0, 1) for name in ("a", "b")}
    verdict = judge(outputs, reference)
    assert (verdict.passed, verdict.words) == (False, "output 'a' of call 1: differs by 0.5, allowed are 0.1")
    assert judge(outputs, reference, maximum=0.5).passed


@pytest.mark.parametrize(("value", "passed"), [(0.0, True), (0.1, True), (-0.11, False)])
def test_reference_of_zeros_allows_that_much_in_absolute_terms(value: float, passed: bool) -> None:
    assert judge([{"y": np.full((1, 4), value)}], {"0/y": ONES * 0}).passed is passed


@pytest.mark.parametrize(
    ("outputs", "words"),
    [
        ([{"z": ONES}], r"output 'y' of call 0: missing, found \['z'\]"),
        ([], "output 'y' of call 0: there were 0 calls"),
        ([{"y": ONES[0]}], r"output 'y' of call 0: expected the shape \[1, 4\], found \[4\]"),
        ([{"y": ONES * np.nan}], "output 'y' of call 0: holds what isn't a finite number"),
        ([{"y": ONES * np.inf}], "output 'y' of call 0: holds what isn't a finite number"),
    ],
    ids=["missing", "no-call", "shape", "nan", "infinite"],
)
def test_outputs_that_cannot_be_compared_fail(outputs: list[Tensors], words: str) -> None:
    verdict = judge(outputs, {"0/y": ONES}, maximum=10.0)
    assert not verdict.passed
    with pytest.raises(AssertionError, match=words):
        raise AssertionError(verdict.words)


def test_later_calls_and_other_outputs_need_not_be_recorded() -> None:
    assert judge([{"y": ONES, "z": ONES}, {"y": ONES}], {"0/y": ONES}).passed


def test_names_of_outputs_may_have_slashes_and_colons() -> None:
    name = "StatefulPartitionedCall/head:0"
    assert judge([{name: ONES}], {f"0/{name}": ONES}).passed


@pytest.mark.parametrize("compressed", [False, True])
def test_what_numpy_writes_is_read(compressed: bool) -> None:
    arrays: Arrays = {"0/y": np.arange(6, dtype=np.float32).reshape(1, 2, 3), "1/y": ONES / 2}
    raw = npz(arrays, compressed=compressed)
    found = read_reference([raw[:7], raw[7:]], what="r.npz")
    assert {f"{place.call}/{place.output}": array.tolist() for place, array in found.items()} == {
        name: array.tolist() for name, array in arrays.items()
    }


def header(shape: str, *, descr: str = "<f4", data: bytes = b"") -> bytes:
    """An .npy file with any header: NEP 1."""
    text = f"{{'descr': {descr!r}, 'fortran_order': False, 'shape': {shape}, }}\n".encode()
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text + data


def cut(raw: bytes, length: int) -> bytes:
    return raw[:length]


ONE = npz({"0/y": ONES})
DAMAGED = ONE.replace(ONES.tobytes(), bytes(16), 1)


@pytest.mark.parametrize(
    ("raw", "words"),
    [
        (b"", "not a NumPy .npz file"),
        (b"PK" + bytes(100), "not a NumPy .npz file"),
        (cut(ONE, len(ONE) - 5), "not a NumPy .npz file"),
        (ONE[60:], "not a NumPy .npz file"),
        (DAMAGED, "not a NumPy .npz file: Bad CRC"),
        (npz({}), "0 arrays of 0 bytes, expected 1 to 1024"),
        (npz({"y": ONES}), "'y.npy', expected <call>/<output>.npy"),
        (npz({"-1/y": ONES}), "'-1/y.npy', expected <call>/<output>.npy"),
        (npz({"0/y": ONES.astype(np.float64)}), r"float64 \[1, 4\] in 32 bytes, expected float32"),
        (npz({"0/y": np.asfortranarray(np.ones((2, 2), np.float32))}), "the last axis first"),
        (npz({"0/y": ONES * np.nan}), "0/y.npy: holds what isn't a finite number"),
        (npz({"0/y": np.array([None])}), r"object \[1\] in \d+ bytes"),
        (archive(**{"0/y.npy": header("(1000000000000,)")}), r"float32 \[1000000000000\] in 0 bytes"),
        (archive(**{"0/y.npy": header("(-1, -1)", data=bytes(4))}), "not a NumPy .npz file"),
        (archive(**{"0/y.npy": header("__import__('os')")}), "not a NumPy .npz file"),
        (archive(**{"0/y.npy": b"other"}), "not a NumPy .npz file"),
        (npz({f"{n}/y": ONES[:, :1] for n in range(MAX_ARRAYS + 1)}), "1025 arrays, expected at most 1024"),
    ],
)
def test_file_that_is_no_record_of_outputs_is_refused(raw: bytes, words: str) -> None:
    with pytest.raises(BadPipeline, match=rf"^reference outputs r\.npz: .*{words}"):
        read_reference([raw], what="r.npz")


def test_file_that_is_too_long_is_not_read_to_its_end() -> None:
    given = 0

    def chunks() -> Any:
        nonlocal given
        while True:
            given += 1
            yield bytes(1 << 20)

    with pytest.raises(BadPipeline, match=f"longer than {MAX_FILE_BYTES} bytes"):
        read_reference(chunks(), what="r.npz")
    assert given == MAX_FILE_BYTES // (1 << 20) + 1


def test_little_that_unpacks_to_much_is_refused_before_it_is_unpacked() -> None:
    raw = npz({"0/y": np.zeros(MAX_ARRAY_BYTES // 4 + 1, np.float32)}, compressed=True)
    assert len(raw) < 1 << 20
    with pytest.raises(BadPipeline, match=f"1 arrays of {MAX_ARRAY_BYTES + 132} bytes, expected 1 to 1024 of "):
        read_reference([raw], what="r.npz")


def test_size_that_a_member_hides_is_not_unpacked() -> None:
    """The directory says 132 bytes, the member has a mebibyte."""
    raw = npz({"0/y": np.zeros(1 << 18, np.float32)}, compressed=True)
    size = struct.pack("<I", (1 << 20) + 128)
    assert raw.count(size) >= 1
    with pytest.raises(BadPipeline, match=r"not a NumPy \.npz file"):
        read_reference([raw.replace(size, struct.pack("<I", 132))], what="r.npz")
