"""Settings of a program of earlier versions: one section of its file, read by key.

The section may have any key.  ``londiste.settings`` has the settings of the present programs.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeVar, cast

from londiste import configfile
from londiste.errors import BadOption

T = TypeVar("T")

_TRUE = frozenset(("1", "true", "yes", "on", "t", "y"))
_FALSE = frozenset(("0", "false", "no", "off", "f", "n", ""))


class Config:
    """The section of a file; ``--set`` values win."""

    def __init__(
        self, main_section: str, filename: str | Path, override: Mapping[str, str] | None = None
    ) -> None:
        self.main_section = main_section
        self.filename = Path(filename).absolute()
        self.override = dict(override or {})
        self._values: dict[str, Any] = {}
        self._sections: list[str] = []
        self.reload()

    def reload(self) -> None:
        """Reads the file again; an invalid file changes nothing.  Raises BadOption."""
        ini = self.filename.suffix != ".toml"
        text, sections = configfile.read(self.filename, ini=ini)
        if self.main_section not in sections:
            raise BadOption(
                f"{self.filename}: section [{self.main_section}] is missing",
                hint=f"add a line [{self.main_section}] before the settings",
            )
        values = sections[self.main_section]
        for key, value in values.items():
            place = f"{self.filename}:{configfile.line(text, self.main_section, key)}"
            configfile.refuse_readable_password(self.filename, key, value, place)
        # Keys were the same in capitals.
        known = {key.lower(): value for key, value in {**values, **self.override}.items()}
        self._values = {"job_name": self.filename.stem, **known}
        self._sections = [name for name in sections if name]

    def sections(self) -> list[str]:
        """Names of the sections of the file."""
        return list(self._sections)

    def options(self) -> list[str]:
        """Keys of the section."""
        return list(self._values)

    def has_option(self, key: str) -> bool:
        """Whether the section has the key."""
        return key.lower() in self._values

    def clone(self, main_section: str) -> Config:
        """The settings of another section of the file."""
        return Config(main_section, self.filename, self.override)

    def get(self, key: str, default: str | None = None) -> str:
        """The value of a key.  Raises BadOption if neither file nor default has one."""
        value = self._values.get(key.lower())
        if value is not None:
            return str(value)
        if self.has_option(key) and default is None:
            return ""
        if default is None:
            raise BadOption(
                f"{self.filename}: setting {key} is missing in section [{self.main_section}]",
                hint=f"add a line to the section: {key} = …",
            )
        return default

    def getint(self, key: str, default: int | None = None) -> int:
        """The value as a whole number."""
        return int(self._number(key, default, int))

    def getfloat(self, key: str, default: float | None = None) -> float:
        """The value as a number."""
        return float(self._number(key, default, float))

    def getboolean(self, key: str, default: bool | None = None) -> bool:
        """The value as yes or no."""
        text = self.get(key, None if default is None else str(int(default))).lower()
        if text in _TRUE:
            return True
        if text in _FALSE:
            return False
        raise self._bad(key, text, "1 or 0")

    getbool = getboolean

    def getlist(self, key: str, default: list[str] | None = None) -> list[str]:
        """The values between commas."""
        if default is not None and self._values.get(key.lower()) is None:
            return list(default)
        return [part for part in (p.strip() for p in self.get(key).split(",")) if part]

    def getdict(self, key: str, default: dict[str, str] | None = None) -> dict[str, str]:
        """Pairs ``name:value`` between commas."""
        if default is not None and self._values.get(key.lower()) is None:
            return dict(default)
        pairs = (part.partition(":") for part in self.getlist(key))
        return {name.strip(): value.strip() for name, _, value in pairs}

    def getfile(self, key: str, default: str | None = None) -> str:
        """The value as a path; ``~`` is the home directory."""
        return str(Path(self.get(key, default)).expanduser())

    def _number(self, key: str, default: T | None, kind: type[T]) -> T:
        text = self.get(key, None if default is None else str(default))
        try:
            return cast(Any, kind)(text)  # type: ignore[no-any-return]
        except ValueError:
            raise self._bad(key, text, "a number") from None

    def _bad(self, key: str, text: str, wanted: str) -> BadOption:
        hint = f"correct {key} in section [{self.main_section}]"
        if re.search(r"\s[;#]", text):
            hint = "write the comment on a line of its own"
        return BadOption(f"{self.filename}: setting {key} is {text!r}, not {wanted}", hint=hint)
