"""Which pictures of a folder are items, and what is on them?

A folder with labels (see `labelled_files`), or one of:

- `annotations.json` in the form of COCO (https://cocodataset.org/#format-data): `images` (`id`, `file_name` relative to
  the folder, `width`, `height` in pixels), `annotations` (`image_id`, `category_id`, `bbox`: left, top, width and
  height in pixels) and `categories` (`id`, `name`). Annotations of crowds are left out.
- a mask beside each picture: `street.jpg` with `street.mask.png`, whose pixels (grey or palette) are places in the list
  of labels.
"""

import io
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray
from PIL import Image, UnidentifiedImageError
from shoal_agent.front.operations.errors import BadInput
from shoal_agent.front.operations.images import DecodeImage

from shoal_converters.datasets.found import Asked, Found, Loaded, Options, parse_options, read_bytes
from shoal_converters.datasets.labelled_files import LabelledFile, list_files, locate
from shoal_converters.errors import BadData

SUFFIXES = (".png", ".jpg", ".jpeg")
ANNOTATIONS = "annotations.json"
MASK = ".mask.png"
_MASK_MODES = ("1", "L", "P")


class _CocoImage(msgspec.Struct, frozen=True, kw_only=True):
    id: int
    file_name: str
    width: int
    height: int


class _CocoAnnotation(msgspec.Struct, frozen=True, kw_only=True):
    image_id: int
    category_id: int
    bbox: tuple[float, float, float, float]
    iscrowd: int = 0


class _CocoCategory(msgspec.Struct, frozen=True, kw_only=True):
    id: int
    name: str


class _Coco(msgspec.Struct, frozen=True, kw_only=True):
    images: tuple[_CocoImage, ...]
    annotations: tuple[_CocoAnnotation, ...]
    categories: tuple[_CocoCategory, ...]


def find_pictures(asked: Asked) -> list[Found]:
    """PNG and JPEG files, as `image.decode` takes them.

    Raises:
        BadData, BadRecipe: see `list_files`, or annotations that are broken.
    """
    parse_options(asked, Options)
    if (asked.place / ANNOTATIONS).is_file():
        return _find_annotated(asked.place)
    files = [file for file in list_files(asked.place, suffixes=SUFFIXES) if not file.name.endswith(MASK)]
    return [_found(file) for file in files]


def _found(file: LabelledFile) -> Found:
    mask = file.path.with_suffix("").with_name(file.path.stem + MASK)
    if file.label is None and mask.is_file():
        label: Callable[[], object] = partial(_read_mask, mask)
    else:
        label = partial(_same, file.label)
    stratum = file.label if isinstance(file.label, str) else ""
    return Found(
        name=file.name, suffix=file.path.suffix.lower(), stratum=stratum, load=partial(_load, file.path, label=label)
    )


def _load(path: Path, *, label: Callable[[], object]) -> Loaded:
    raw = read_bytes(path)
    try:
        DecodeImage(max_pixels=1 << 28).apply(raw)
    except BadInput as error:
        raise BadData(f"{path}: {error}") from None
    return Loaded(raw, label())


def _same(label: object) -> object:
    return label


def _read_mask(path: Path) -> NDArray[Any]:
    """uint8[height, width]."""
    raw = read_bytes(path)
    try:
        with Image.open(io.BytesIO(raw), formats=("PNG",)) as mask:
            mode, pixels = mask.mode, np.asarray(mask)
    except UnidentifiedImageError:
        said = "another kind of file, or broken where it begins"
        raise BadData(f"{path}: {raw[:8]!r}… can't be read as PNG, expected a mask ({said})") from None
    except Exception as error:  # whatever Pillow meets in a broken file
        raise BadData(f"{path}: can't be read as PNG ({type(error).__name__}: {error})") from None
    if mode not in _MASK_MODES:
        raise BadData(f"{path}: a mask in the mode {mode}, expected grey or palette with 8 bits or less")
    return pixels.astype(np.uint8)


def _find_annotated(folder: Path) -> list[Found]:
    path = folder / ANNOTATIONS
    try:
        coco = msgspec.json.decode(read_bytes(path), type=_Coco)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise BadData(f"{path}: {error}") from None
    if not coco.images:
        raise BadData(f"{path}: names no image")
    images = {image.id: image for image in coco.images}
    names = {category.id: category.name for category in coco.categories}
    objects: dict[int, list[object]] = {number: [] for number in images}
    for place, annotation in enumerate(coco.annotations):
        where = f"{path}: annotation {place}"
        if annotation.image_id not in images or annotation.category_id not in names:
            raise BadData(
                f"{where}: names image {annotation.image_id} and category {annotation.category_id}, not both listed"
            )
        if not annotation.iscrowd:
            box = _to_fractions(annotation, image=images[annotation.image_id], where=where)
            objects[annotation.image_id].append({"label": names[annotation.category_id], "box": box})
    found = []
    for image in sorted(images.values(), key=lambda image: image.file_name):
        file = locate(folder, image.file_name, named_by=path)
        said = partial(_same, {"objects": objects[image.id]})
        load = partial(_load, file, label=said)
        found.append(Found(name=image.file_name, suffix=file.suffix.lower(), stratum="", load=load))
    return found


def _to_fractions(annotation: _CocoAnnotation, *, image: _CocoImage, where: str) -> dict[str, float]:
    left, top, width, height = annotation.bbox
    # Annotators draw a little over the edge; what is seen ends there.
    sides = np.array([left, top, left + width, top + height]) / [image.width, image.height, image.width, image.height]
    left, top, right, bottom = np.clip(sides, 0.0, 1.0).tolist()
    if not (left < right and top < bottom):
        raise BadData(f"{where}: the box {list(annotation.bbox)} has no area within {image.width} x {image.height}")
    return {"left": left, "top": top, "right": right, "bottom": bottom}
