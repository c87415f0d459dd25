"""Handler ``obfuscate``: masks values before they reach this node.

Rows are changed by this program, between the two servers: in the tasks of a copy, and in the worker
before anything is sent to this node's database.  So no original value of such a column is in its
tables, its staged rows or its log.

A rule for each column:

    keep       the value unchanged
    skip       nothing; the default for other columns
    bool       whether it is true: false, f, no, off, 0 and the empty text are not
    hash       128 bits of a keyed hash, as the text of a uuid
    hash32     32 bits of it, as a signed number; hash64: 64 bits
    {…}        the value is a JSON object: rules by its keys, all the way down

NULL stays NULL.  The hash is BLAKE2s of the value's text with ``obfuscator_key``: equal values
have equal hashes on all nodes with the same key, so they can still be joined and counted.
Times have another text in JSON than in a copy: the text of the copy counts.
"""

from __future__ import annotations

import functools
import hashlib
import json
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

from londiste.changes.jsonrow import plain_time
from londiste.errors import BadOption
from londiste.handlers.base import Handler, TableRules, option

RULES = ("keep", "skip", "bool", "hash", "hash32", "hash64")
Image = dict[str, str | None]

#: A value of each rule: a type that takes it takes all values of the rule.
_EXAMPLES = {
    "bool": "t",
    "hash": "f" * 8 + "-ffff-ffff-ffff-" + "f" * 12,
    "hash32": str(-(2**31)),
    "hash64": str(-(2**63)),
}
_EXAMPLE_DOCUMENT = '{"key": "value"}'

_FALSE = frozenset({"", "f", "false", "n", "no", "off", "0"})
#: Hashes that are remembered: columns repeat their values.
_REMEMBERED = 65_536


class _Number(str):
    """A number of a JSON document, as it was written."""

    __slots__ = ()


@dataclass(frozen=True)
class Mask:
    """Changes a row by the rules; plain data, which pickles."""

    rules: str
    key: bytes = field(repr=False)

    def __call__(self, image: Image) -> Image:
        """The changed columns of ``image`` that have a rule."""
        rules = _parsed(self.rules)
        return {
            name: self._value(rules[name], value) if value is not None else None
            for name, value in image.items()
            if rules.get(name, "skip") != "skip"
        }

    def _value(self, rule: Any, value: str) -> str:
        if rule == "keep":
            return value
        if isinstance(rule, str):
            return _scalar(self.key, rule, value if rule == "bool" else plain_time(value))
        try:
            document = _DECODER.decode(value)
        except (ValueError, RecursionError):
            # Nobody can tell what is in it.
            return "{}"
        return _dump(self._document(rule, document)) if isinstance(document, dict) else "{}"

    def _document(self, rules: Mapping[str, Any], document: dict[str, Any]) -> dict[str, Any]:
        """The keys of an object that have a rule."""
        result: dict[str, Any] = {}
        for name, value in document.items():
            rule = rules.get(name, "skip")
            if rule == "keep" or (value is None and rule != "skip"):
                result[name] = value
            elif isinstance(rule, Mapping):
                if isinstance(value, dict):
                    result[name] = self._document(rule, value)
            elif rule != "skip":
                text = value if isinstance(value, str) else _dump(value)
                changed = _scalar(self.key, rule, text)
                result[name] = (
                    changed == "t"
                    if rule == "bool"
                    else changed
                    if rule == "hash"
                    else _Number(changed)
                )
        return result


@dataclass(frozen=True)
class Obfuscate(Handler):
    """Keeps, excludes or hashes each column, inside of JSON too, before rows reach this node."""

    NAME: ClassVar[str] = "obfuscate"
    OF_LONDISTE_3: ClassVar[Mapping[str, str]] = {
        "rules": "with the table's rules of the file obfuscator_map, as JSON: --handler obfuscate"
        ' --handler-arg \'rules={"id": "keep", "mail": "hash"}\'',
    }

    #: From the settings of this process.
    secret: ClassVar[str] = ""

    rules: str = option(
        help='JSON: {"id": "keep", "mail": "hash", "doc": {"name": "hash32"}};'
        " rules: keep, skip (default), bool, hash, hash32, hash64"
    )
    key_check: str = option("", help="set automatically: detects a worker with another key")
    ignore_truncate: bool = option(False, help="ignore TRUNCATE events on this node")

    @classmethod
    def configure(cls, settings: Mapping[str, str]) -> None:
        Obfuscate.secret = settings.get("obfuscator_key", "")

    @classmethod
    def complete(cls, pairs: Mapping[str, str]) -> dict[str, str]:
        return {**pairs, "key_check": _check(_key(cls.secret))}

    def wants(self) -> TableRules:
        key = _key(self.secret)
        if self.key_check and self.key_check != _check(key):
            raise BadOption(
                "obfuscator_key is not the one that the table was added with",
                detail="new hashes would differ from the stored ones",
                hint="set the old key; or londiste remove-table, then londiste add-table with"
                " the new key",
            )
        return replace(self.holds(), rows=Mask(self.rules, key), examples=_examples(self.rules))

    def holds(self) -> TableRules:
        # Nodes below have no key.
        rules = _parsed(self.rules)
        return TableRules(
            columns=frozenset(name for name, rule in rules.items() if rule != "skip"),
            changed=frozenset(n for n, rule in rules.items() if rule not in ("keep", "skip")),
            ignore_truncate=self.ignore_truncate,
        )


def _examples(text: str) -> tuple[tuple[str, str], ...]:
    """A value of each column that a rule changes."""
    return tuple(
        (name, _EXAMPLE_DOCUMENT if isinstance(rule, dict) else _EXAMPLES[rule])
        for name, rule in _parsed(text).items()
        if isinstance(rule, dict) or rule in _EXAMPLES
    )


def _key(secret: str) -> bytes:
    if not secret:
        raise BadOption(
            "handler obfuscate: setting obfuscator_key is missing",
            detail="without a key short values can be guessed",
            hint='set obfuscator_key = "…", up to 32 bytes, in the settings of this node',
        )
    return (
        secret.encode() if len(secret.encode()) <= 32 else hashlib.sha256(secret.encode()).digest()
    )


def _check(key: bytes) -> str:
    return hashlib.blake2s(b"\0obfuscator_key", key=key, digest_size=4).hexdigest()


@functools.lru_cache(maxsize=256)
def _parsed(text: str) -> dict[str, Any]:
    try:
        rules = json.loads(text)
    except ValueError as error:
        raise _wrong(f"rules are not valid JSON: {error}") from None
    if not isinstance(rules, dict) or not rules:
        raise _wrong("rules are not a JSON object")
    _look(rules, "")
    return rules


def _look(rules: Mapping[str, Any], path: str) -> None:
    for name, rule in rules.items():
        if isinstance(rule, dict):
            _look(rule, f"{path}{name}.")
        elif rule not in RULES:
            raise _wrong(f"{path}{name}: unknown rule {rule}")


def _wrong(text: str) -> BadOption:
    return BadOption(
        f"handler obfuscate: {text}",
        hint='--handler-arg \'rules={"id": "keep", "mail": "hash"}\'; rules are '
        + ", ".join(RULES),
    )


@functools.lru_cache(maxsize=_REMEMBERED)
def _scalar(key: bytes, rule: str, value: str) -> str:
    """The text of a value after a rule."""
    if rule == "bool":
        return "f" if value.strip().lower() in _FALSE else "t"
    bits = {"hash": 16, "hash32": 4, "hash64": 8}[rule]
    digest = hashlib.blake2s(value.encode("utf-8", "surrogatepass"), key=key, digest_size=bits)
    if rule == "hash":
        return str(uuid.UUID(bytes=digest.digest()))
    return str(int.from_bytes(digest.digest(), "big", signed=True))


def _dump(value: Any) -> str:
    """JSON with numbers as they were written."""
    if isinstance(value, _Number):
        return str.__str__(value)
    if isinstance(value, dict):
        return "{" + ",".join(f"{json.dumps(k)}:{_dump(v)}" for k, v in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ",".join(map(_dump, value)) + "]"
    return json.dumps(value, ensure_ascii=False)


_DECODER = json.JSONDecoder(parse_float=_Number, parse_int=_Number)
