"""Makes the tables of docs/reference/settings.md from the classes of the settings: ``make docs``.

A table is between ``<!-- settings NAME -->`` and ``<!-- end -->``; the text around is written by
hand.  tests/docs compares the committed page with what this makes.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any, get_args

PAGE = Path(__file__).resolve().parent / "reference" / "settings.md"
_TABLE = re.compile(r"(?s)(<!-- settings (\w+) -->\n).*?(<!-- end -->)")


def page() -> str:
    """The text of the page."""
    from londiste.lake.settings import LakeSettings
    from londiste.migrate.databases import MigrateSettings
    from londiste.replicate.databases import ReplicateSettings
    from londiste.settings import (
        ConsumerSettings,
        NotifySettings,
        RunSettings,
        Settings,
        TickerSettings,
        WebSettings,
        WorkerSettings,
        cascade_keys,
    )
    from londiste.tools.dispatch.settings import DispatchSettings
    from londiste.tools.parallel_batches import JobSettings
    from londiste.tools.queue_mover import MoverSettings
    from londiste.tools.queue_splitter import SplitterSettings
    from londiste.tools.simple_consumer import SimpleSettings

    tables = {
        "process": _table(Settings),
        "worker": _table(WorkerSettings, Settings.model_fields),
        "ticker": _table(TickerSettings, Settings.model_fields),
        "consumer": _table(ConsumerSettings, Settings.model_fields),
        "job": _table(JobSettings, ConsumerSettings.model_fields),
        "mover": _table(MoverSettings, JobSettings.model_fields),
        "splitter": _table(SplitterSettings, JobSettings.model_fields),
        "simple": _table(SimpleSettings, ConsumerSettings.model_fields),
        "dispatch": _table(DispatchSettings, set(JobSettings.model_fields) - {"event_types"}),
        "lake": _table(LakeSettings, Settings.model_fields),
        "migrate": _table(MigrateSettings, _same(MigrateSettings, WorkerSettings)),
        "run": _table(RunSettings, Settings.model_fields),
        "notify": _table(NotifySettings, Settings.model_fields),
        "web": _table(WebSettings, Settings.model_fields),
        "file_node": _keys(cascade_keys.NODE_KEYS),
        "file_tables": _keys(cascade_keys.TABLES_KEYS),
        "file_rules": _keys(cascade_keys.RULE_KEYS),
        "replicate": _table(ReplicateSettings, _same(ReplicateSettings, WorkerSettings)),
    }
    text = PAGE.read_text(encoding="utf-8")
    return _TABLE.sub(lambda found: found[1] + tables[found[2]] + found[3], text)


def _same(kind: Any, base: Any) -> set[str]:
    """Settings that both kinds have, described and preset alike."""
    return {
        key
        for key, field in kind.model_fields.items()
        if key in base.model_fields
        and (field.description, field.default)
        == (base.model_fields[key].description, base.model_fields[key].default)
    }


def _table(kind: Any, without: Collection[str] = ()) -> str:
    """The settings of a kind as rows, but for those that another table has."""
    rows = ["| setting | default | description |\n|---|---|---|\n"]
    for key, field in kind.model_fields.items():
        if key not in without:
            rows.append(f"| `{key}` | {_default(field)} | {_description(field)} |\n")
    return "".join(rows)


def _keys(described: Mapping[str, str]) -> str:
    """Keys of the file of a cascade as rows."""
    rows = [f"| `{key}` | {text} |\n" for key, text in described.items()]
    return "".join(["| key | description |\n|---|---|\n", *rows])


def _default(field: Any) -> str:
    if field.is_required():
        return "required"
    value = field.get_default(call_default_factory=True)
    if value is None or value == "" or value == () or value == {}:
        return ""
    if isinstance(value, bool):
        return f"`{str(value).lower()}`"
    return f"`{value}`"


def _description(field: Any) -> str:
    text = str(field.description).replace("|", "\\|")
    words = [value for value in get_args(field.annotation) if isinstance(value, str)]
    if words:
        text += f" One of {', '.join(f'`{word}`' for word in words)}."
    return text


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
