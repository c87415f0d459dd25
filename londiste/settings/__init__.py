"""Settings: one frozen class per kind of process, the only reader of keys.

A value comes from the defaults here, then the file, then the environment
(``LONDISTE_<KEY>``), then ``--set`` and the command's own options; later wins.  Files are
TOML, or the INI files of earlier versions, with the same keys.

``kinds.py`` has the classes, ``fields.py`` what several of them share, ``loading.py`` the reader,
``earlier.py`` the keys of earlier versions, ``cascade_file.py`` the file of a whole cascade.
``database_variable.py`` decides between that file and ``LONDISTE_DB``.
"""

from __future__ import annotations

from londiste.settings.earlier import WITHOUT_EFFECT
from londiste.settings.fields import (
    BatchFields,
    CommaList,
    EngineFields,
    LoopFields,
    QueueFields,
    Settings,
    SparkSettings,
    WordList,
)
from londiste.settings.kinds import (
    ConsumerSettings,
    DatabaseSettings,
    NodeSettings,
    NotifySettings,
    RunSettings,
    TickerSettings,
    WebSettings,
    WorkerSettings,
)
from londiste.settings.loading import TABLE_SECTION, annotated, databases_of, load

__all__ = [
    "TABLE_SECTION",
    "WITHOUT_EFFECT",
    "BatchFields",
    "CommaList",
    "ConsumerSettings",
    "DatabaseSettings",
    "EngineFields",
    "LoopFields",
    "NodeSettings",
    "NotifySettings",
    "QueueFields",
    "RunSettings",
    "Settings",
    "SparkSettings",
    "TickerSettings",
    "WebSettings",
    "WordList",
    "WorkerSettings",
    "annotated",
    "databases_of",
    "load",
]
