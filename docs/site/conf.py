"""Settings of Sphinx for docs/site/build.py."""

from __future__ import annotations

import re
from pathlib import Path

_PACKAGE = Path(__file__).resolve().parents[2] / "londiste" / "__init__.py"
_VERSION = re.search(r'__version__ = "([^"]+)"', _PACKAGE.read_text(encoding="utf-8"))

project = "Londiste"
author = "The Londiste authors"
copyright = author
version = release = _VERSION[1] if _VERSION else ""
extensions = ["myst_parser"]
# Anchors as a forge makes them.
myst_heading_anchors = 4
html_theme = "furo"
html_title = f"Londiste {version}"
html_copy_source = False
html_show_sphinx = False
# Blocks of the terminal, of settings and of plans are no code of a language.
highlight_language = "none"
# SQL with "…" where a text is shortened.
suppress_warnings = ["misc.highlighting_failure"]
pygments_style = "friendly"
pygments_dark_style = "native"
