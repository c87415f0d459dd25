"""The plans of all pages."""

from __future__ import annotations

from tests.support.pages import cascades, larger, operating, queues, spark
from tests.support.pages.plan import Page

PAGES: tuple[Page, ...] = (
    *queues.PAGES,
    *cascades.PAGES,
    *larger.PAGES,
    *operating.PAGES,
    *spark.PAGES,
)
