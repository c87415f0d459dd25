"""Handlers as values: typed options, the stored form, and table rules."""

from __future__ import annotations

import re
import sys
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

import pytest

from londiste.errors import BadOption, UsageError
from londiste.handlers import registry
from londiste.handlers.base import ALL, Handler, TableRules, literal, option
from londiste.handlers.table_rules import HandlerAttrs, unlike, wants
from londiste.replication.model import decode_attrs, encode_attrs


def test_no_handler_wants_everything() -> None:
    assert wants({}) == ALL
    assert registry.parse("", []) == ""
    assert registry.parse("default", []) == ""


def test_the_stored_form_is_that_of_londiste() -> None:
    stored = registry.parse("londiste", ["ignore_truncate=1"])
    assert stored == "londiste(ignore_truncate=1)"
    assert wants({"handler": stored}) == TableRules(ignore_truncate=True)
    assert registry.parse("fake_local", []) == "vtable"
    assert encode_attrs({"handler": stored}) == "handler=londiste%28ignore_truncate%3D1%29"


@pytest.mark.parametrize(
    ("name", "arguments", "words"),
    [
        ("nop", ["a=1"], "no option a"),
        ("vtabel", [], "unknown handler vtabel"),
        ("londiste", ["ignore_truncate=perhaps"], "not 0 or 1"),
        ("londiste", ["ignore_truncate"], "has no value"),
        ("londiste", ["ignore_truncate=1", "ignore_truncate=0"], "duplicate option"),
    ],
)
def test_what_is_wrong_is_said_in_one_line(name: str, arguments: list[str], words: str) -> None:
    with pytest.raises(BadOption, match=re.escape(words)) as caught:
        registry.parse(name, arguments)
    assert "\n" not in caught.value.message
    assert caught.value.hint


@pytest.mark.parametrize("stored", ["bulk(method=9)", "nop(a=1)", "nop(a=1"])
def test_a_stored_handler_that_is_not_known_is_an_error(stored: str) -> None:
    with pytest.raises(BadOption):
        wants({"handler": stored})


def test_filters_survive_the_attributes() -> None:
    choice = HandlerAttrs("nop", "a = '&=%,'", (), ("x,y", "ü"))
    attrs = decode_attrs(encode_attrs(choice.attrs()))
    assert attrs == choice.attrs()
    found = wants(attrs)
    assert found.where == "a = '&=%,'"
    assert not found.keeps("x,y")
    assert not found.keeps("ü")
    assert found.keeps("x")
    only = wants(HandlerAttrs(columns=("a", "b")).attrs())
    assert [only.keeps(name) for name in "abc"] == [True, True, False]


class Sort(StrEnum):
    BIG = "big"
    SMALL = "small"


@dataclass(frozen=True)
class Mine(Handler):
    """Some rows."""

    NAME = "mine"
    key: str = option(help="a column")
    count: int = option(3, help="how many")
    names: tuple[str, ...] = option((), help="which")
    sort: Sort = option(Sort.BIG, help="of which kind")  # noqa: RUF009

    def wants(self) -> TableRules:
        return TableRules(where=f"{self.key} = {literal(self.sort)}")


def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, text: str) -> str:
    (tmp_path / f"{name}.py").write_text(text)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(registry, "_known", dict(registry._known))
    registry.make.cache_clear()
    sys.modules.pop(name, None)
    return name


def test_a_module_brings_handlers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = "from tests.unit.queue.test_handlers import Mine\n__londiste_handlers__ = [Mine]\n"
    name = module(tmp_path, monkeypatch, "my_handlers", text)
    registry.load([name, "londiste.handlers.table"])
    registry.load([name])
    stored = registry.parse("mine", ["key=a", "count=5", "names=x, y", "sort=small"])
    assert registry.make(stored) == Mine("a", 5, ("x", "y"), Sort.SMALL)
    both = wants({"handler": stored, "where": "b"})
    assert both.where == "(a = 'small') and (b)"
    assert [(o.name, o.takes, o.default) for o in registry.options(Mine)] == [
        ("key", "a text", None),
        ("count", "a number", "3"),
        ("names", "a list a,b,…", ""),
        ("sort", "one of big, small", "big"),
    ]
    for wrong in (["key=a", "count=x"], ["key=a", "sort=tiny"], []):
        with pytest.raises(BadOption):
            registry.parse("mine", wrong)


@pytest.mark.parametrize(
    "text",
    [
        "x = 1\n",
        "import nothing_like_that\n",
        "__londiste_handlers__ = [int]\n",
        "from londiste.handlers.noop import Nop\n"
        "class Other(Nop): pass\n__londiste_handlers__ = [Other]\n",
    ],
)
def test_a_module_that_brings_none_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str
) -> None:
    name = module(tmp_path, monkeypatch, "no_handlers", text)
    with pytest.raises(UsageError, match="no_handlers") as caught:
        registry.load([name])
    assert caught.value.hint


def test_texts_are_quoted_for_sql() -> None:
    assert literal("it's") == "'it''s'"
    assert literal("a\\'b") == "E'a\\\\''b'"


@pytest.mark.parametrize(
    ("handler", "why"),
    [
        ("", ""),
        ("shard(key=id&nr=0&count=4)", ""),
        ("multimaster(timefield=at)", ""),
        ("dispatch(table_mode=direct&row_mode=keep_latest)", ""),
        ("dispatch(table_mode=direct&fields=a)", "columns"),
        ("dispatch(table_mode=direct&fields=a:b)", "other names"),
        ("dispatch(table_mode=direct&event_types=I,U)", "I, U events only"),
        ("dispatch(table_mode=direct&ignore_truncate=1)", "TRUNCATE"),
        ("dispatch", "partitions"),
        ("applyfn(func_name=app.f)", "function"),
        ("nop", "no rows"),
        ("qsplitter(queue=q)", "no rows"),
        ("londiste(ignore_truncate=1)", "TRUNCATE"),
    ],
)
def test_only_a_branch_with_the_rows_of_its_events_is_copied_from(handler: str, why: str) -> None:
    found = unlike(wants({"handler": handler}))
    assert why in found and bool(found) == bool(why)
    there = wants({"handler": "londiste(ignore_truncate=1)"})
    assert unlike(wants({"handler": handler}), there) == ("" if why == "TRUNCATE" else found)
