"""Rules of the obfuscate handler: the masked value for each rule."""

from __future__ import annotations

import json
import pickle
import re
import uuid
from collections.abc import Iterator

import pytest

from londiste.engine import row_transform
from londiste.engine.spec import CopySpec
from londiste.errors import BadOption
from londiste.handlers import registry
from londiste.handlers.obfuscate import Mask, Obfuscate
from londiste.handlers.table_rules import wants


@pytest.fixture(autouse=True)
def key(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    registry.make.cache_clear()
    monkeypatch.setattr(Obfuscate, "secret", "a key")
    yield
    registry.make.cache_clear()


def masked(rules: dict[str, object], **values: str | None) -> dict[str, str | None]:
    return Mask(json.dumps(rules), b"a key")(values)


def test_columns_without_a_rule_are_left_out() -> None:
    assert masked({"a": "keep", "b": "skip"}, a="1", b="2", c="3") == {"a": "1"}


def test_null_stays_null() -> None:
    rules: dict[str, object] = {"a": "hash", "b": "bool", "c": {"x": "hash"}}
    assert masked(rules, a=None, b=None, c=None) == {"a": None, "b": None, "c": None}


@pytest.mark.parametrize("text", ["f", "false", "0", "", "off", "No"])
def test_what_is_false_is_false_whatever_wrote_it(text: str) -> None:
    assert masked({"a": "bool"}, a=text) == {"a": "f"}
    assert masked({"a": "bool"}, a="x" + text) == {"a": "t"}


def test_hashes_have_their_forms_and_depend_on_value_and_key() -> None:
    rules: dict[str, object] = {"a": "hash", "b": "hash32", "c": "hash64"}
    one, other = masked(rules, a="x", b="x", c="x"), masked(rules, a="y", b="y", c="y")
    assert one != other
    assert one == masked(rules, a="x", b="x", c="x")
    assert str(uuid.UUID(one["a"] or "")) == one["a"]
    assert -(2**31) <= int(one["b"] or "") < 2**31
    assert -(2**63) <= int(one["c"] or "") < 2**63
    assert Mask(json.dumps(rules), b"another")({"a": "x"}) != {"a": one["a"]}


@pytest.mark.parametrize(
    ("copied", "replayed"),
    [
        ("2026-01-02 03:04:05", "2026-01-02T03:04:05"),
        ("2026-01-02 03:04:05.25+00", "2026-01-02T03:04:05.25+00:00"),
        ("0044-03-15 12:00:00+00 BC", "0044-03-15T12:00:00+00:00 BC"),
        ("infinity", "infinity"),
        ("t", "t"),
    ],
)
@pytest.mark.parametrize("rule", ["hash", "hash32", "hash64"])
def test_a_copied_and_a_replayed_value_have_one_hash(rule: str, copied: str, replayed: str) -> None:
    assert masked({"a": rule}, a=copied) == masked({"a": rule}, a=replayed)


def test_documents_are_changed_all_the_way_down() -> None:
    rules: dict[str, object] = {"d": {"k": "keep", "h": "hash32", "b": "bool", "in": {"h": "hash"}}}
    found = masked(
        rules,
        d='{"k": [1.50, {"x": 1e400}], "h": "s3cret", "b": 0, "in": {"h": 7, "z": "s3cret"},'
        ' "z": "s3cret"}',
    )["d"]
    assert found is not None
    assert "s3cret" not in found
    assert '"k":[1.50,{"x":1e400}]' in found
    document = json.loads(found)
    assert document["b"] is False
    assert isinstance(document["h"], int)
    assert list(document["in"]) == ["h"]
    for nothing in ('"s3cret"', "[1]", "not json", '{"z": 1}'):
        assert masked(rules, d=nothing) == {"d": "{}"}


def test_a_line_of_copy_is_changed_field_by_field() -> None:
    mask = Mask('{"id": "keep", "v": "keep", "h": "hash"}', b"a key")
    names = (("id", "id"), ("v", "v"), ("h", "h"))
    spec = CopySpec(
        "q", "", "", None, None, names, (), "", 1, rows=pickle.loads(pickle.dumps(mask))
    )  # type: ignore[arg-type]
    change = row_transform.changing(spec)
    text = "a\\tb\\nc\\\\d\\re\\bf\\fg\\vh é"
    line = change(f"1\t{text}\tx\n".encode())
    assert line == f"1\t{text}\t{mask({'h': 'x'})['h']}\n".encode()
    assert change(b"1\t\\N\t\\N\n") == b"1\t\\N\t\\N\n"


@pytest.mark.parametrize(
    ("rules", "words"),
    [
        ("", "not valid JSON"),
        ("[]", "not a JSON object"),
        ('{"a": "rot13"}', "a: unknown rule rot13"),
        ('{"a": {"b": "rot13"}}', "a.b: unknown rule"),
    ],
)
def test_rules_are_checked(rules: str, words: str) -> None:
    with pytest.raises(BadOption, match=re.escape(words)):
        registry.parse("obfuscate", [f"rules={rules}"])


def test_another_key_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    stored = registry.parse("obfuscate", ['rules={"a": "hash"}'])
    assert wants({"handler": stored}).changed == {"a"}
    assert "a key" not in stored
    assert "a key" not in repr(wants({"handler": stored}))
    for secret, words in (("other", "not the one"), ("", "is missing")):
        monkeypatch.setattr(Obfuscate, "secret", secret)
        with pytest.raises(BadOption, match=words):
            wants({"handler": stored})
