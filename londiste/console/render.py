"""Renders pages: the values of a page as HTML, by templates that escape every value."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

import jinja2
from markupsafe import Markup, escape

from londiste.console import picture
from londiste.console.pages.common import Page
from londiste.daemon.durations import dhms
from londiste.daemon.logline import escaped
from londiste.monitor.queues.words import size

_TEMPLATES = Path(__file__).parent / "templates"
#: Ends of names that are units, and not shown in a heading.
_UNITS = ("_seconds", "_per_second", "_at")
#: Columns with long texts.
_WIDE = ("filter", "table", "daemons", "lag", "what", "command")
#: Words of a state that deserve no attention.
_CALM = ("ok", "", "unknown")


def environment() -> jinja2.Environment:
    """The templates of the console."""
    made = jinja2.Environment(
        loader=jinja2.FileSystemLoader(_TEMPLATES),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        finalize=visible,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters["cell"] = cell
    made.filters["exact"] = lambda value: _Exact(escape(value))
    made.filters["heading"] = heading
    made.filters["kind"] = kind
    made.globals["tree"] = picture.tree
    made.globals["chart"] = picture.chart
    made.globals["box"] = (picture.WIDTH, picture.HEIGHT)
    made.globals["frame"] = (picture.CHART_WIDTH, picture.CHART_HEIGHT)
    return made


@dataclass(frozen=True)
class Visitor:
    """Who a page is for.

    user -- '' without a login.  token -- of the form that ends the session; '' if it has none.
    actions -- the page offers actions.
    """

    user: str = ""
    token: str = ""
    actions: bool = False


class Renderer:
    """Makes the HTML of pages; menu -- (path, title) of all pages."""

    def __init__(self, menu: Sequence[tuple[str, str]], history_seconds: float) -> None:
        self._environment = environment()
        self._environment.globals["menu"] = list(menu)
        self._environment.globals["history_seconds"] = history_seconds

    def page(
        self, name: str, title: str, page: Page, query: Mapping[str, str], visitor: Visitor
    ) -> str:
        """The HTML of a page."""
        return self._render(name, name, title=title, page=page, query=query, visitor=visitor)

    def page_of(self, template: str, **values: Any) -> str:
        """The HTML of a form, or of its answer."""
        return self._render(template, "", visitor=Visitor(), **values)

    def message(self, title: str, text: str) -> str:
        """The HTML of a page with one message."""
        return self.page_of("message", title=title, text=text)

    def _render(self, template: str, name: str, **values: Any) -> str:
        found = self._environment.get_template(f"{template}.html")
        return found.render(name=name, **values)


class _Exact(Markup):
    """A value that the browser sends back: with all its characters."""


def visible(value: Any) -> Any:
    """Pure: a value as a page shows it: characters without a picture of their own are escaped.

    Some of them reverse the text around them, so that a name would look like another one.
    """
    text = value if isinstance(value, str) else str(value)
    if isinstance(text, _Exact) or text.isprintable():
        return value
    shown = "\n".join(map(escaped, str(text).split("\n")))
    return Markup(shown) if isinstance(text, Markup) else shown


def heading(name: str) -> str:
    """The heading of a column: the name of its field without the unit."""
    for unit in _UNITS:
        name = name.removesuffix(unit)
    return name.replace("_", " ")


def cell(value: Any, name: str = "") -> Markup | str:
    """A value of a table, by its type and the unit in the name of its field."""
    if value is None or value == "" or value == ():
        return Markup('<span class="none">–</span>')
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, datetime):
        return Markup('<time datetime="{}">{:%Y-%m-%d %H:%M:%S} UTC</time>').format(
            value.isoformat(), value
        )
    if isinstance(value, int | float) and name.endswith("_per_second"):
        return f"{size(int(value))}/s" if name == "bytes_per_second" else f"{value:,.1f}/s"
    if isinstance(value, int | float) and name.endswith("_seconds"):
        return f"{value:.2f}s" if 0 < value < 1 else dhms(value)
    if isinstance(value, int) and name.endswith("bytes"):
        return size(value)
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, float):
        return f"{value:,.1f}"
    if isinstance(value, list | tuple):
        return Markup("<br>").join(str(one) for one in value)
    return Markup("<mark>{}</mark>").format(value) if _is_bad(value, name) else escape(value)


def _is_bad(value: Any, name: str) -> bool:
    return name in ("state", "severity") and str(value) not in _CALM


def kind(value: Any, name: str = "") -> str:
    """The class of a cell: numbers are aligned on the right."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return "number" if is_number else "wide" if name in _WIDE else "text"
