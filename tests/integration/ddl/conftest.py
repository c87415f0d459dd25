"""A cascade that runs scripts."""

from __future__ import annotations

from tests.fixtures.scripts import tree  # noqa: F401 -- fixture
