"""Does the HTML report say everything, and nothing that a browser would run or fetch?"""

import re
from html.parser import HTMLParser

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from shoal_converters.report.html import write_html
from shoal_converters.report.markup import VOID, Markup, element, join
from shoal_converters.report.results import Interval, Report

from tests.unit.converters.report.report_example import example, report, speed, variant, variants

PICTURE = "data:image/png;base64,iVBORw0KGgo="
LETTERS = st.characters(exclude_categories=["Cs", "Cc"])
HOSTILE = "\"><script>alert(1)</script><img src=x onerror='alert(2)'>&amp;"


class Page(HTMLParser):
    """Elements, attributes and text of a page; what is opened must be closed in turn."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.names: list[str] = []
        self.attributes: list[tuple[str, str]] = []
        self.words: list[str] = []
        self._open: list[str] = []
        self.feed(text)
        self.close()
        assert self._open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.names.append(tag)
        self.attributes += [(name, value or "") for name, value in attrs]
        self._open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert tag in VOID
        self.names.append(tag)
        self.attributes += [(name, value or "") for name, value in attrs]

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self._open and self._open[-1] != "style":
            self.words.append(data)

    @property
    def text(self) -> str:
        return re.sub(r"\s+", " ", " ".join(self.words))


def hostile(told: Report) -> Report:
    """Every string of a report made hostile."""

    def spoil(value: object) -> object:
        if isinstance(value, dict):
            return {f"{key}{HOSTILE}" if key not in FIELDS else key: spoil(one) for key, one in value.items()}
        if isinstance(value, list | tuple):
            return [spoil(one) for one in value]
        return f"{value}{HOSTILE}" if isinstance(value, str) and value != "exact" else value

    return msgspec.convert(spoil(msgspec.to_builtins(told)), Report)


def _fields(kind: type[msgspec.Struct]) -> set[str]:
    return {field.name for field in msgspec.structs.fields(kind)}


FIELDS = {
    name for kind in msgspec.Struct.__subclasses__() if kind.__module__.endswith("results") for name in _fields(kind)
}


def test_every_variant_and_every_part_is_there() -> None:
    told = report(variants=variants(pictures=(PICTURE,)))
    page = Page(write_html(told))
    for one in told.variants:
        assert one.name in page.text
        assert all(digest in page.text for digest in one.sha256s.values())
    for words in (
        told.name,
        told.original.how,
        "4. per channel, 3 layers in float",
        "/features/first/conv",
        "cats/tabby/0001.jpg",
        "dogs/beagle/0113.jpg",
        "raspberry-pi-5",
        "71.3 answers/s",
        "32 calls of 16 items, answered by the source in PyTorch 2.13",
        "4.1e-07",
        "not comparable",
        told.predictions[0].source,
        told.missing["onnx-int8-tensorrt"],
        told.notes[0],
        told.licence,
        told.provenance,
        told.source_sha256,
        told.manifest_sha256,
        told.command,
        "openvino doesn't take the model: unknown operator",
    ):
        assert words in page.text
    assert ("src", PICTURE) in page.attributes


def test_nothing_is_fetched_and_nothing_is_run() -> None:
    text = write_html(hostile(report(variants=variants(pictures=(PICTURE,)))))
    page = Page(text)
    assert not {"script", "link", "iframe", "object", "embed", "base", "form"} & set(page.names)
    for name, value in page.attributes:
        assert not name.startswith("on")
        assert name not in ("href", "action", "srcset", "background")
        assert name != "src" or value.startswith("data:image/")
    style = text[text.index("<style>") : text.index("</style>")]
    assert "url(" not in style and "@import" not in style
    assert ("content", "default-src 'none'; img-src data:; style-src 'unsafe-inline'") in page.attributes


def test_hostile_words_are_shown_as_they_are() -> None:
    page = Page(write_html(hostile(report())))
    assert f"pet-breeds{HOSTILE}" in page.text
    assert f"tflite-int8{HOSTILE}" in page.text
    assert f"Apache-2.0{HOSTILE}" in page.text


@pytest.mark.parametrize("picture", ["https://example.org/x.png", "javascript:alert(1)", "data:text/html,x"])
def test_a_picture_from_elsewhere_is_left_out(picture: str) -> None:
    one = variant("onnx-int8", worst=(example(1, picture=picture),))
    page = Page(write_html(report(variants=(one,))))
    assert "img" not in page.names
    assert "cats/tabby/0001.jpg" in page.text


def test_the_verdict_says_what_is_released_what_it_gains_and_what_was_left_out() -> None:
    page = Page(write_html(report()))
    assert "6 of 9 variants of pet-breeds version 3 are released" in page.text
    assert "within 0.01 of the original's top-1 accuracy of 0.8125 on 1,280 items" in page.text
    assert "tflite-int8 has 0.27 × the size of tflite-fp32 and is 9.0 × as fast on this machine" in page.text
    assert "openvino-int8 (loses 0.0219 of top-1 accuracy, allowed 0.01)" in page.text
    assert "could not be made here: onnx-int8-tensorrt" in page.text


def test_the_verdict_names_no_gain_that_was_not_found() -> None:
    slow = variant("onnx-int8", size_bytes=18_700_000, speeds=(speed("onnxruntime", 4.0),))
    full = variant("onnx-fp32", speeds=(speed("onnxruntime", 20.0),))
    verdict = Page(write_html(report(variants=(full, slow)))).text.partition(". 2 of 2")[0]
    assert "as fast" not in verdict
    assert "the size of" not in verdict


def test_a_build_that_releases_nothing_says_so() -> None:
    lost = variant("onnx-int8", drop=0.5, is_released=False, reason="loses 0.5")
    page = Page(write_html(report(variants=(lost,))))
    assert "Nothing of pet-breeds version 3 is released" in page.text


def test_a_report_with_nothing_but_an_original_can_be_written() -> None:
    bare = Report(
        name="m",
        version=1,
        task="regression",
        metric="R2",
        samples=0,
        max_drop=0.0,
        original=variant("original", drop=None),
        variants=(),
        licence="",
        provenance="",
        source_sha256="",
        versions={},
        machine="",
        command="",
    )
    assert "Nothing of m version 1 is released" in Page(write_html(bare)).text


def test_numbers_that_are_not_defined_are_shown_as_missing() -> None:
    odd = variant("onnx-int8", value=float("nan"), drop=float("nan"), drop_interval=Interval(float("nan"), 1.0))
    text = write_html(report(variants=(odd,)))
    assert not re.search(r"\bnan\b|\binf\b", text)


def test_tables_have_captions_and_headings_that_screen_readers_find() -> None:
    page = Page(write_html(report()))
    assert page.names.count("caption") == page.names.count("table") > 0
    assert {value for name, value in page.attributes if name == "scope"} == {"col", "row"}
    assert ("lang", "en") in page.attributes
    assert "figcaption" in page.names


def test_equal_reports_give_equal_pages() -> None:
    assert write_html(report()) == write_html(report())


@given(st.text(LETTERS), st.text(LETTERS))
def test_text_never_becomes_markup(text: str, value: str) -> None:
    page = Page(element("p", join([text, Markup("<br/>")]), title=value))
    assert page.names == ["p", "br"]
    assert "".join(page.words) == text
    assert [name for name, _ in page.attributes] == ["title"]
