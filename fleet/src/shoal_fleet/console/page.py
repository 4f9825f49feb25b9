"""How is a page put together so that nothing in it can come from elsewhere?

Style and script stand in the page itself; the policy that goes with it names them by digest, so that a word of
a device that got into the page unescaped would still not run.
"""

import base64
import hashlib
import html
from collections.abc import Iterable
from importlib import resources
from typing import NamedTuple

from shoal_fleet.access.csrf import FIELD

_FILES = resources.files("shoal_fleet.console")
STYLE = (_FILES / "page.css").read_text(encoding="utf-8")
LIVE = (_FILES / "live.js").read_text(encoding="utf-8")


def escape(text: object) -> str:
    """Text as HTML that means just that text."""
    return html.escape(str(text))


def element(tag: str, text: object, *, css: str = "") -> str:
    """An element that holds text."""
    return wrap(tag, escape(text), css=css)


def wrap(tag: str, inside: str, *, css: str = "") -> str:
    """An element that holds HTML."""
    return f'<{tag} class="{css}">{inside}</{tag}>' if css else f"<{tag}>{inside}</{tag}>"


def table(columns: Iterable[tuple[str, str]], groups: Iterable[Iterable[Iterable[str]]]) -> str:
    """A table of columns, each a heading with its class, over groups of rows of cells in HTML."""
    headings = list(columns)
    head = "".join(element("th", heading, css=css) for heading, css in headings)
    bodies = (
        "".join(
            wrap("tr", "".join(wrap("td", cell, css=css) for cell, (_, css) in zip(row, headings, strict=True)))
            for row in group
        )
        for group in groups
    )
    return wrap("table", wrap("thead", wrap("tr", head)) + "".join(wrap("tbody", body) for body in bodies))


class Visitor(NamedTuple):
    """Who looks at a page."""

    name: str
    csrf: str
    """Word for forms; empty where there is no session to end."""


NOBODY = Visitor("", "")


def form(action: str, inside: str, *, csrf: str, css: str = "") -> str:
    """A form that is sent to a page of this fleet, with the word that says it comes from one."""
    word = f'<input type="hidden" name="{FIELD}" value="{escape(csrf)}">' if csrf else ""
    return f'<form method="post" action="{escape(action)}" class="{escape(css)}">{word}{inside}</form>'


def field(label: str, name: str, *, kind: str, autocomplete: str) -> str:
    """A field of a form with its label. What was typed is never in the page."""
    return (
        f'<label>{escape(label)}<input name="{escape(name)}" type="{escape(kind)}" '
        f'autocomplete="{escape(autocomplete)}" required maxlength="1024"></label>'
    )


def document(title: str, main: str, *, is_live: bool, visitor: Visitor = NOBODY) -> str:
    """A whole page. A live one gets its `main` anew every two seconds, or every five where scripts are off."""
    live = f"<script>{LIVE}</script>" if is_live else ""
    refresh = '<noscript><meta http-equiv="refresh" content="5"></noscript>' if is_live else ""
    return (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{escape(title)}</title>'
        f'<meta name="viewport" content="width=device-width, initial-scale=1">{refresh}<style>{STYLE}</style></head>'
        f"<body><header><h1>Shoal</h1>{_navigation(visitor)}</header>"
        f'<p class="notice">The fleet does not answer. This is what it said last.</p>'
        f"<main>{main}</main>{live}</body></html>"
    )


def policy() -> str:
    """Content-Security-Policy of every page."""
    return (
        f"default-src 'none'; style-src '{_digest(STYLE)}'; script-src '{_digest(LIVE)}'; connect-src 'self'; "
        "base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
    )


def _navigation(visitor: Visitor) -> str:
    if not visitor.name:
        return ""
    links = '<nav class="soft"><a href="/status">Status</a><a href="/docs">API</a></nav>'
    if not visitor.csrf:
        return links + element("span", visitor.name, css="soft corner")
    account = f'<a href="/account" class="soft corner">{escape(visitor.name)}</a>'
    return links + account + form("/logout", '<button class="plain">Log out</button>', csrf=visitor.csrf)


def _digest(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


HEADERS = {
    "Content-Security-Policy": policy(),
    "Cache-Control": "no-store",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    # Not no-referrer: with that a browser says `Origin: null` where it sends a form, and the form is refused.
    "Referrer-Policy": "same-origin",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}
"""Of every page."""
