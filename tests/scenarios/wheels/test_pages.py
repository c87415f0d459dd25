"""Every page is pasted in order, as a stranger has it: wheels, own environment, no checkout.

What is on a page is in tests/support/pages/reading.py, what stands before it in the plans beside.
``not_run`` of a plan is the list of what is not pasted, with the reasons.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.fixtures.cluster import Server
from tests.support.pages.all import PAGES
from tests.support.pages.machine import Machine
from tests.support.pages.plan import Page
from tests.support.programs.wheels import Environment

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]


def _case(page: Page) -> object:
    marks = [pytest.mark.xfail(reason=page.unfinished)] if page.unfinished else []
    return pytest.param(page, id=Path(page.path).stem, marks=marks)


@pytest.mark.parametrize("page", [_case(page) for page in PAGES])
def test_a_page_runs_as_pasted(
    page: Page,
    installed: Environment,
    tmp_path: Path,
    cluster: Server,
    cluster16: Server,
    record_property: Callable[[str, object], None],
) -> None:
    machine = Machine(page, installed, tmp_path, (cluster, cluster16))
    try:
        machine.paste_page()
    finally:
        machine.close()
    record_property("pasted", machine.pasted)
    print(f"{page.path}: {machine.pasted} pasted")
