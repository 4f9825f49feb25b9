"""Are the sets of the digits example apart, and does every placed picture show the digit that is said of it?"""

import io
from pathlib import Path

import numpy as np
from PIL import Image
from shoal_converters.digits.pictures import HELD_OUT, load_sets, place_digits
from shoal_converters.digits.release import EVALUATION, SIDE, make_recipe, name_recipe, prepare
from shoal_converters.importing.recipe_toml import format_recipe
from shoal_converters.recipe import load_recipe
from sklearn.datasets import load_digits


def known_pictures() -> dict[bytes, set[str]]:
    """Levels of each picture of scikit-learn, with the digits that people read in it."""
    found: dict[bytes, set[str]] = {}
    loaded = load_digits()
    for image, digit in zip(loaded.images, loaded.target, strict=True):
        found.setdefault(np.rint(image).astype(np.uint8).tobytes(), set()).add(str(digit))
    return found


def test_each_picture_is_in_one_set_and_digits_keep_their_shares() -> None:
    sets = load_sets()
    parts = (sets.training, sets.calibration, sets.held_out)
    assert [len(part.digits) for part in parts] == [997, 200, 600]
    seen = [pixels.tobytes() for part in parts for pixels in part.pixels]
    assert len(set(seen)) == len(known_pictures()) == len(seen)
    for part in parts:
        shares = np.bincount(part.digits, minlength=10) / len(part.digits)
        np.testing.assert_allclose(shares, 0.1, atol=0.005)


def test_placed_pictures_are_held_out_ones_with_their_digits(tmp_path: Path) -> None:
    known = known_pictures()
    held_out = {pixels.tobytes() for pixels in load_sets().held_out.pixels}
    placed = list(place_digits(tmp_path, count=30, seed=7, pace_s=0.0))
    assert sorted(path.name for path, _, _ in placed) == [f"digit-{number:06d}.png" for number in range(7, 37)]
    for path, content, digit in placed:
        assert path.read_bytes() == content
        pixels = np.asarray(Image.open(io.BytesIO(content)))
        assert pixels.tobytes() in held_out
        assert known[np.rint(pixels / (255 / 16)).astype(np.uint8).tobytes()] == {digit}


def test_same_number_is_the_same_picture_and_none_comes_twice(tmp_path: Path) -> None:
    first = [content for _, content, _ in place_digits(tmp_path / "a", count=40, seed=0, pace_s=0.0)]
    again = [content for _, content, _ in place_digits(tmp_path / "b", count=20, seed=20, pace_s=0.0)]
    ((_, later, _),) = place_digits(tmp_path / "c", count=1, seed=HELD_OUT, pace_s=0.0)
    assert first[20:] == again
    assert len(set(first)) == 40
    assert later == first[0]


def test_network_is_trained_on_what_boards_will_feed_it() -> None:
    training = load_sets().training
    inputs = prepare(type(training)(pixels=training.pixels[:5], digits=training.digits[:5]))
    assert (inputs.dtype.name, inputs.shape) == ("float32", (5, 1, SIDE, SIDE))
    np.testing.assert_allclose(inputs[:, 0], training.pixels[:5] / 255, atol=1e-6)


def test_recipes_are_read_back_as_they_were_made(tmp_path: Path) -> None:
    for version, variants in ((1, ("onnx-fp32",)), (2, ("onnx-fp32", "onnx-int8"))):
        path = tmp_path / name_recipe(version)
        path.write_text(format_recipe(make_recipe(version)))
        read = load_recipe(path)
        assert read == make_recipe(version)
        assert (read.version, read.variants, read.evaluation.path) == (version, variants, EVALUATION)
