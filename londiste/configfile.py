"""Settings file: parses TOML or INI into sections of keys, and finds their lines.

The meaning of the keys is in ``londiste.settings``.
"""

from __future__ import annotations

import configparser
import json
import re
import socket
import stat
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from londiste.errors import BadOption


def read(file: Path, *, ini: bool | None = None) -> tuple[str, dict[str, dict[str, Any]]]:
    """The text of a file, and its sections; keys before the first are those of section ``""``.

    ini -- whether it is an INI file; None: if its name ends in ``.ini``.

    Raises BadOption for a missing or unreadable file, or one of another format than its name.
    """
    if ini is None:
        ini = file.suffix == ".ini"
    if ini:
        text = _text(file, comments_in_any_encoding=True)
        return text, _ini(file, text)
    text, found = document(file)
    return text, sections(found)


def document(file: Path) -> tuple[str, dict[str, Any]]:
    """The text of a TOML file, and what it contains.  Raises BadOption."""
    text = _text(file)
    try:
        return text, tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise BadOption(f"{file}: not TOML: {error}", hint="correct the line it names") from None


def _text(file: Path, *, comments_in_any_encoding: bool = False) -> str:
    """The text of a file in UTF-8, without a byte order mark."""
    try:
        data = file.read_bytes()
    except FileNotFoundError:
        raise BadOption(
            f"{file}: no such file", hint="print a template: londiste config worker"
        ) from None
    except OSError as error:
        raise BadOption(
            f"{file}: cannot be read: {error}", hint="make the file readable for this user"
        ) from None
    lines = re.split(rb"\r\n|\r|\n", data)
    if comments_in_any_encoding:
        lines = [b"#" if re.match(rb"\s*[#;]", each) else each for each in lines]
    try:
        return b"\n".join(lines).decode("utf-8-sig")
    except UnicodeDecodeError as error:
        number = b"\n".join(lines)[: error.start].count(b"\n") + 1
        raise BadOption(
            f"{file}:{number}: not UTF-8",
            hint=f"convert the file, for instance: iconv -f latin1 -t utf-8 {file}",
        ) from None


def line(text: str, section: str, key: str | None) -> int:
    """The line of a section's head, or of a key in it; 1 if it is unknown."""
    current = ""
    for number, line in enumerate(text.splitlines(), 1):
        head = re.match(r"\s*\[\s*\"?([^\]\"]+?)\"?\s*\]", line)
        if head:
            current = head.group(1)
            if key is None and current.split(".")[0] == section:
                return number
        elif key is not None and current.split(".")[0] == section:
            name = re.match(r"\s*\"?([^\s=\":]+)\"?\s*[=:]", line)
            if name and key.endswith(name.group(1).strip('"')):
                return number
    return 1


def toml_value(value: str | Sequence[str]) -> str:
    """A string or list of strings as TOML.  Pure."""
    # As JSON, but TOML has no pairs of surrogates; and nothing that a terminal would obey.
    text = json.dumps(value, ensure_ascii=False)
    return "".join(c if c.isprintable() else rf"\U{ord(c):08x}" for c in text)


def refuse_readable_password(file: Path, key: str, value: Any, where: str) -> None:
    """Raises BadOption for a password in a file that other users can read."""
    if has_password(value) and stat.S_IMODE(file.stat().st_mode) & 0o077:
        raise BadOption(
            f"{where}: a password in {key}, in a file that other users can read",
            hint=f"chmod 600 {file}, or better: store it in ~/.pgpass or a service file",
        )


def has_password(value: Any) -> bool:
    """Whether a value is a connection string with a password."""
    return isinstance(value, str) and bool(
        re.search(r"(?i)\bpassword\s*=|://[^/@\s]*:[^/@\s]*@", value)
    )


def sections(document: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """The sections of a TOML document with flat keys."""
    result: dict[str, dict[str, Any]] = {"": {}}
    for key, value in document.items():
        if isinstance(value, dict):
            result[key] = dict(_flat(value))
        else:
            result[""][key] = value
    return result


def _flat(table: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for key, value in table.items():
        if isinstance(value, dict):
            yield from _flat(value, f"{prefix}{key}.")
        else:
            yield prefix + key, value


def _ini(file: Path, text: str) -> dict[str, dict[str, Any]]:
    new_style = re.search(r"(?m)^\s*config_format\s*=\s*2\s*$", text) is not None
    parser = configparser.ConfigParser(
        interpolation=configparser.ExtendedInterpolation()
        if new_style
        else configparser.BasicInterpolation(),
        strict=True,
        inline_comment_prefixes=None,
    )
    parser.optionxform = str  # type: ignore[assignment,method-assign]
    built_in = {
        "job_name": file.stem,
        "service_name": file.stem,
        "host_name": socket.gethostname(),
        "config_dir": str(file.resolve().parent),
        "config_file": str(file.resolve()),
    }
    try:
        parser.read_string(text, source=str(file))
        own = {name: list(parser[name]) for name in parser.sections()}
        parser.read_dict({parser.default_section: _escaped(built_in, new_style)})
        return {
            name: {key: _unquoted(parser[name][key]) for key in keys} for name, keys in own.items()
        }
    except configparser.InterpolationError as error:
        # Its text quotes the value, which may have a password.
        sign = "$" if new_style else "%"
        problem = {
            configparser.InterpolationMissingOptionError: "names an unknown setting",
            configparser.InterpolationDepthError: "names itself",
        }.get(type(error), "is incomplete")
        raise BadOption(
            f"{file}:{line(text, error.section, error.option)}: {error.option}: a reference with"
            f" {sign} {problem}",
            hint=f"write {sign}{sign} for a {sign} that means itself",
        ) from None
    except configparser.MissingSectionHeaderError as error:
        raise BadOption(
            f"{file}:{error.lineno}: a line before the first section",
            hint="add a line [SECTION] above it",
        ) from None
    except configparser.ParsingError as error:
        number = error.errors[0][0] if error.errors else 1
        raise BadOption(
            f"{file}:{number}: neither KEY = VALUE nor [SECTION]", hint="correct the line"
        ) from None
    except (configparser.DuplicateOptionError, configparser.DuplicateSectionError) as error:
        first = re.sub(r"^While reading from .*?\]: ", "", str(error))
        raise BadOption(f"{file}:{error.lineno}: {first}", hint="correct the line") from None
    except configparser.Error as error:
        first = str(error).splitlines()[0]
        raise BadOption(f"{file}: not an INI file: {first}", hint="correct the line") from None


def _escaped(values: Mapping[str, str], new_style: bool) -> dict[str, str]:
    sign = "$" if new_style else "%"
    return {key: value.replace(sign, sign * 2) for key, value in values.items()}


def _unquoted(value: str) -> Any:
    return value.strip() if value.strip() else None
