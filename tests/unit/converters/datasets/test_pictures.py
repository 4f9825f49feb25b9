"""Which pictures are found in a folder, with which labels, and is a broken set refused by name?"""

import io
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from shoal_converters.datasets import load_items
from shoal_converters.datasets.items import Item
from shoal_converters.errors import BadData
from shoal_converters.recipe import Data
from shoal_converters.tasks import make_task

LABELS = ("cat", "dog")


def png(level: int = 0, *, width: int = 4, height: int = 3) -> bytes:
    file = io.BytesIO()
    Image.new("RGB", (width, height), (level, level, level)).save(file, "PNG")
    return file.getvalue()


def place(folder: Path, files: dict[str, bytes | str]) -> Path:
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return folder


def load(folder: Path, *, task: str = "classification", labels: tuple[str, ...] = LABELS, **data: Any) -> list[Item]:
    return load_items(Data(path="set", **data), folder=folder, task=make_task(task, {}), labels=labels)


def test_a_folder_for_each_label(tmp_path: Path) -> None:
    place(tmp_path / "set", {"dog/b.png": png(2), "cat/z.png": png(1), "cat/deep/a.PNG": png(3), "cat/notes.txt": ""})

    items = load(tmp_path)

    assert [(item.name, item.expected) for item in items] == [
        ("cat/deep/a.PNG", {"label": "cat"}),
        ("cat/z.png", {"label": "cat"}),
        ("dog/b.png", {"label": "dog"}),
    ]
    assert items[1].raw == png(1)
    assert items[0].suffix == ".png"


def test_a_table_of_labels_beats_folders_and_may_give_places(tmp_path: Path) -> None:
    table = "label,file\n0,x/a.png\n1,b.png\n"
    place(tmp_path / "set", {"x/a.png": png(1), "b.png": png(2), "unused.png": png(3), "labels.csv": table})
    assert [(item.name, item.expected["label"]) for item in load(tmp_path)] == [("b.png", "dog"), ("x/a.png", "cat")]


def test_pictures_alone_have_no_labels(tmp_path: Path) -> None:
    place(tmp_path / "set", {"a.png": png(1), ".hidden.png": b"", "b.png": png(2)})
    assert [(item.name, item.expected) for item in load(tmp_path)] == [("a.png", {}), ("b.png", {})]


@pytest.mark.parametrize(
    ("files", "said"),
    [
        ({"cat/a.png": png(), "cow/b.png": png(), "ox/c.png": png()}, "'cow', expected one of cat, dog.*'ox'"),
        ({"cat/a.png": png(), "dog/readme.txt": ""}, "dog: no items of the label 'dog'"),
        ({"cat/a.png": png(), "loose.png": png()}, "files beside the folders of labels have no label: loose.png"),
        ({"cat/a.png": png()[:40]}, r"cat/a\.png: image: .* can't be read as PNG"),
        ({"readme.txt": ""}, r"no file that ends in one of \['\.png'"),
        ({"labels.csv": "file,label\nb.png,cat\n", "a.png": png()}, r"labels\.csv: names 'b\.png', but there is no"),
        ({"labels.csv": "file,label\n../out.png,cat\n", "a.png": png()}, r"'\.\./out\.png', which lies outside"),
        ({"labels.csv": "file,label\n/etc/x.png,cat\n", "a.png": png()}, "'/etc/x.png', which lies outside"),
        ({"labels.csv": "file,label\nlink/x.png,cat\n", "a.png": png()}, "'link/x.png', which lies outside"),
        ({"labels.csv": "file,label\na.png,cat\na.png,dog\n", "a.png": png()}, "line 3: 'a.png' is named twice"),
        ({"labels.csv": "name,label\na.png,cat\n", "a.png": png()}, r"no column 'file', found \['name', 'label'\]"),
        ({"labels.csv": "file,label\na.png\n", "a.png": png()}, "line 2 has 1 cells, expected 2"),
        ({"labels.csv": "file,label\na.png,\n", "a.png": png()}, "label '', expected one of cat, dog"),
    ],
)
def test_refuses_a_broken_set(tmp_path: Path, files: dict[str, bytes | str], said: str) -> None:
    place(tmp_path / "set", files)
    place(tmp_path, {"out.png": png(), "elsewhere/x.png": png()})
    if "labels.csv" in files:
        (tmp_path / "set" / "link").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(BadData, match=said):
        load(tmp_path)


def test_refuses_a_set_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(BadData, match="set: no such file or folder"):
        load(tmp_path)


def test_boxes_in_pixels_become_fractions_of_the_picture(tmp_path: Path) -> None:
    coco = {
        "images": [
            {"id": 7, "file_name": "b.png", "width": 40, "height": 20},
            {"id": 9, "file_name": "a.png", "width": 4, "height": 3},
        ],
        "categories": [{"id": 3, "name": "dog"}],
        "annotations": [
            {"image_id": 7, "category_id": 3, "bbox": [10, 5, 20, 10]},
            {"image_id": 7, "category_id": 3, "bbox": [-4, 15, 14, 10]},
            {"image_id": 7, "category_id": 3, "bbox": [0, 0, 9, 9], "iscrowd": 1},
        ],
    }
    place(tmp_path / "set", {"a.png": png(), "b.png": png(width=40, height=20), "annotations.json": json.dumps(coco)})

    empty, full = load(tmp_path, task="detection")

    assert (empty.name, empty.expected) == ("a.png", {"objects": []})
    assert full.expected == {
        "objects": [
            {"label": "dog", "box": {"left": 0.25, "top": 0.25, "right": 0.75, "bottom": 0.75}},
            {"label": "dog", "box": {"left": 0.0, "top": 0.75, "right": 0.25, "bottom": 1.0}},
        ]
    }


@pytest.mark.parametrize(
    ("annotation", "said"),
    [
        ({"image_id": 8, "category_id": 3, "bbox": [0, 0, 1, 1]}, "annotation 0: names image 8 and category 3"),
        (
            {"image_id": 7, "category_id": 3, "bbox": [50, 0, 1, 1]},
            "annotation 0: the box .* has no area within 40 x 20",
        ),
        ({"image_id": 7, "bbox": [0, 0, 1, 1]}, "category_id"),
    ],
)
def test_refuses_broken_annotations(tmp_path: Path, annotation: dict[str, object], said: str) -> None:
    coco = {
        "images": [{"id": 7, "file_name": "a.png", "width": 40, "height": 20}],
        "categories": [{"id": 3, "name": "dog"}],
        "annotations": [annotation],
    }
    place(tmp_path / "set", {"a.png": png(width=40, height=20), "annotations.json": json.dumps(coco)})
    with pytest.raises(BadData, match=said):
        load(tmp_path, task="detection")


def mask(rows: list[list[int]]) -> bytes:
    file = io.BytesIO()
    Image.fromarray(np.array(rows, np.uint8)).save(file, "PNG")
    return file.getvalue()


def test_a_mask_beside_each_picture_becomes_runs(tmp_path: Path) -> None:
    place(tmp_path / "set", {"a.png": png(), "a.mask.png": mask([[0, 0, 1], [1, 1, 0]])})
    (item,) = load(tmp_path, task="segmentation", kind="pictures")
    assert item.expected == {
        "mask": {"width": 3, "height": 2, "labels": ["cat", "dog"], "runs": [[0, 2], [1, 3], [0, 1]]}
    }


def test_refuses_a_mask_of_unknown_labels_and_a_picture_without_one(tmp_path: Path) -> None:
    place(tmp_path / "set", {"a.png": png(), "a.mask.png": mask([[0, 5]])})
    with pytest.raises(BadData, match=r"a\.png: mask: values \[5\], expected places in the list of 2 labels"):
        load(tmp_path, task="segmentation")
    place(tmp_path / "set", {"a.mask.png": mask([[0, 1]]), "b.png": png(1)})
    with pytest.raises(BadData, match=r"no label for 1 of 2 items: b\.png"):
        load(tmp_path, task="segmentation")


def test_names_a_mask_that_is_none_and_no_address_in_memory(tmp_path: Path) -> None:
    place(tmp_path / "set", {"a.png": png(), "a.mask.png": b"GIF89a.."})
    with pytest.raises(BadData, match=r"a\.mask\.png: b'GIF89a\.\.'… can't be read as PNG, expected a mask") as refused:
        load(tmp_path, task="segmentation")
    assert " at 0x" not in str(refused.value)
