"""Which sounds are found in a folder, and what is heard in them?"""

import io
import wave
from pathlib import Path
from typing import Any

import pytest
from shoal_converters.datasets import load_items
from shoal_converters.datasets.items import Item
from shoal_converters.errors import BadData
from shoal_converters.recipe import Data
from shoal_converters.tasks import make_task

RATE_HZ = 16_000


def wav(length_s: float = 0.5) -> bytes:
    file = io.BytesIO()
    with wave.open(file, "wb") as sound:
        sound.setnchannels(1)
        sound.setsampwidth(2)
        sound.setframerate(RATE_HZ)
        sound.writeframes(b"\1\0" * round(length_s * RATE_HZ))
    return file.getvalue()


def place(folder: Path, files: dict[str, bytes | str]) -> None:
    for name, content in files.items():
        path = folder / "set" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())


def load(folder: Path, *, task: str, labels: tuple[str, ...] = ("yes", "no"), **data: Any) -> list[Item]:
    return load_items(Data(path="set", **data), folder=folder, task=make_task(task, {}), labels=labels)


def test_a_folder_for_each_keyword_is_a_set_for_classification(tmp_path: Path) -> None:
    place(tmp_path, {"yes/a.wav": wav(), "no/b.wav": wav(0.25)})
    items = load(tmp_path, task="classification")
    assert [(item.name, item.expected) for item in items] == [
        ("no/b.wav", {"label": "no"}),
        ("yes/a.wav", {"label": "yes"}),
    ]
    assert items[1].raw == wav()


def test_for_events_a_sound_is_its_folders_label_from_end_to_end(tmp_path: Path) -> None:
    place(tmp_path, {"yes/a.wav": wav(), "hum/b.wav": wav(0.25)})
    hum, yes = load(tmp_path, task="events", options={"background": "hum"})
    assert hum.expected == {"events": [], "duration_s": 0.25}
    assert yes.expected == {"events": [{"label": "yes", "start_s": 0.0, "end_s": 0.5}], "duration_s": 0.5}


EVENTS = [{"label": "no", "start_s": 0.1, "end_s": 0.2}, {"label": "yes", "start_s": 0.25, "end_s": 0.4}]


@pytest.mark.parametrize(
    "tables",
    [
        {"a.csv": "label,start_s,end_s\nno,0.1,0.2\nyes,0.25,0.4\n", "b.csv": "label,start_s,end_s\n"},
        {"labels.csv": "file,label,start_s,end_s\na.wav,no,0.1,0.2\na.wav,yes,0.25,0.4\nb.wav,no,0,0.5\n"},
    ],
)
def test_events_come_from_a_table_beside_each_sound_or_from_one_for_all(tmp_path: Path, tables: dict[str, str]) -> None:
    place(tmp_path, {"a.wav": wav(), "b.wav": wav(), **tables})
    first, second = load(tmp_path, task="events")
    assert first.expected == {"events": EVENTS, "duration_s": 0.5}
    assert len(second.expected["events"]) == (1 if "labels.csv" in tables else 0)


def test_notes_come_from_a_table_beside_each_sound(tmp_path: Path) -> None:
    place(tmp_path, {"a.wav": wav(), "a.csv": "pitch,start_s,end_s\n60,0.1,0.2\n64,0.25,0.4\n"})
    (item,) = load(tmp_path, task="notes", labels=())
    assert item.expected == {"notes": [{"pitch": 60, "start_s": 0.1}, {"pitch": 64, "start_s": 0.25}]}


@pytest.mark.parametrize(
    ("files", "said"),
    [
        ({"a.wav": wav()[:30]}, r"a\.wav: WAV: "),
        ({"a.wav": wav(), "a.csv": "label,start_s,end_s\nno,0.2,0.1\n"}, "ends at 0.1 s, expected an end after"),
        ({"a.wav": wav(), "a.csv": "label,start_s,end_s\nno,nan,0.1\n"}, "a.wav: label "),
        ({"a.wav": wav(), "a.csv": "label,start_s,end_s\nno,soon,0.1\n"}, "a.wav: label .*start_s"),
        ({"a.wav": wav(), "a.csv": "label,start_s,end_s\noops,0,0.1\n"}, "'oops', expected one of yes, no"),
        ({"a.wav": wav(), "a.csv": ""}, r"a\.csv: empty, expected a line with the names"),
        ({"a.wav": wav(), "a.csv": "label,label\n"}, r"a\.csv: a column is named twice"),
    ],
)
def test_refuses_a_broken_set(tmp_path: Path, files: dict[str, bytes | str], said: str) -> None:
    place(tmp_path, files)
    with pytest.raises(BadData, match=said):
        load(tmp_path, task="events")
