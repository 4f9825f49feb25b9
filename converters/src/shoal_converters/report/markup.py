"""How is HTML written so that no text out of a report can become markup?

Plain strings are text and are escaped; what `element` gives is markup and stays. Joining the two with `+` gives a plain
string, which is escaped again: a mistake shows, and harms nobody.
"""

from collections.abc import Iterable
from html import escape

VOID = frozenset({"br", "circle", "img", "line", "meta", "path", "polyline", "rect"})
"""Elements without content; those of SVG close themselves."""


class Markup(str):
    """Text that is HTML already."""


def element(name: str, /, *content: str, **attributes: str | float | bool) -> Markup:
    """`<name attributes>content</name>`.

    Of an attribute's name a trailing underscore is cut and others become hyphens: `class_`, `data_label`. True stands
    for an attribute without a value, False for none.
    """
    told = "".join(_attribute(key, value) for key, value in attributes.items())
    if name in VOID:
        return Markup(f"<{name}{told}/>")
    return Markup(f"<{name}{told}>{join(content)}</{name}>")


def join(parts: Iterable[str], *, separator: str = "") -> Markup:
    """Markup of several parts, one after the other."""
    return Markup(_escaped(separator).join(map(_escaped, parts)))


def raw(text: str) -> Markup:
    """Text of this program's own that is markup, as a style sheet."""
    return Markup(text)


def _escaped(part: str) -> str:
    return str(part) if isinstance(part, Markup) else escape(part, quote=True)


def _attribute(key: str, value: str | float | bool) -> str:
    if value is False:
        return ""
    name = key.removesuffix("_").replace("_", "-")
    if value is True:
        return f" {name}"
    text = f"{value:.6g}" if isinstance(value, float) else str(value)
    return f' {name}="{escape(text, quote=True)}"'
