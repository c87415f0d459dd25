"""The site of the documentation: what is added to the pages, and that it is built."""

from __future__ import annotations

import importlib.util
import os
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"


def script(name: str) -> ModuleType:
    """A module of docs/site."""
    spec = importlib.util.spec_from_file_location(f"site_{name}", DOCS / "site" / f"{name}.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


build = script("build")
charts = script("charts")


def test_the_navigation_has_every_page_by_job(tmp_path: Path) -> None:
    index = (DOCS / "index.md").read_text(encoding="utf-8")
    found = dict(build.sections(index))
    assert list(found)[:3] == ["Start", "Set up and run", "Replicate tables"]
    assert {"quickstart", "which-tool", "glossary"} <= set(found["Start"])
    listed = {page for pages in found.values() for page in pages}
    of_sql = (DOCS / "reference/sql/index.md").read_text(encoding="utf-8")
    listed |= {f"reference/sql/{page}" for _, pages in build.sections(of_sql) for page in pages}
    every = {page.with_suffix("").as_posix() for page in build.pages()}
    assert every - listed == {"index"}
    assert listed - every == set()
    addresses = build.prepare(tmp_path / "source")
    prepared = (tmp_path / "source/index.md").read_text(encoding="utf-8")
    assert prepared.startswith(index.split("\n## ")[0])
    assert ":caption: Set up and run" in prepared
    assert f"{build.FORGE}/examples/README.md" in addresses
    for page in build.pages():
        text = (tmp_path / "source" / page).read_text(encoding="utf-8")
        assert "](../../examples/" not in text and "](../../sql/" not in text, page


def test_pages_and_files_that_pages_link_to_are_in_the_site(tmp_path: Path) -> None:
    build.prepare(tmp_path / "source")
    missing = set()
    for page in build.pages():
        text = (DOCS / page).read_text(encoding="utf-8")
        for found in build._LINK.finditer(text):
            to = found["to"].partition("#")[0]
            target = Path(os.path.normpath(DOCS / page.parent / to))
            is_inside = to and ":" not in to and target.is_relative_to(DOCS)
            if is_inside and not (tmp_path / "source" / page.parent / to).is_file():
                missing.add((str(page), to))
    assert missing == set()


def test_a_link_out_of_the_documentation_is_an_address() -> None:
    page = Path("howto/x.md")
    plain = "[a](../reference/errors.md#b) [c](#d) [e](https://example.org/f)"
    assert build.linked(plain, page) == plain
    assert build.linked("[`x`](../../sql/rights.tsv)", page) == (
        f"[`x`]({build.FORGE}/sql/rights.tsv)"
    )
    block = "```\n[a](../../nope)\n```"
    assert build.linked(block, page) == block
    with pytest.raises(ValueError, match="nope"):
        build.linked("[a](../../nope)", page)


@pytest.mark.parametrize("chart", charts.CHARTS, ids=lambda chart: chart.name)
def test_a_chart_shows_the_figures_of_the_page_and_no_other(chart: charts.Chart) -> None:  # type: ignore[name-defined]
    page = (DOCS / "benchmarks.md").read_text(encoding="utf-8")
    made = charts.svg(page, chart)
    table = page[page.index(chart.table) :].split("\n\n")[0]
    figures = re.findall(r'text-anchor="start"[^>]*>(\d[\d.,]*)', made)
    assert len(figures) >= 2
    assert all(re.search(rf"\| \**{re.escape(figure)}\b", table) for figure in figures)
    widths = [float(width) for width in re.findall(r'width="([\d.]+)" height="14"', made)]
    values = [float(figure.replace(",", "")) for figure in figures[: len(widths)]]
    most = max(values)
    for width, value in zip(widths, values, strict=True):
        assert width == pytest.approx(max(1.0, value / most * max(widths)), abs=0.2)
    assert f"](charts/{chart.name}.svg)" in charts.with_charts(page)


def test_a_chart_without_its_table_is_an_error() -> None:
    with pytest.raises(ValueError, match="replay"):
        charts.svg("# Benchmarks\n", charts.CHARTS[0])


@pytest.mark.slow
def test_the_site_is_built_without_a_warning_and_a_dead_link_is_one(tmp_path: Path) -> None:
    for name in ("sphinx", "furo", "myst_parser"):
        pytest.importorskip(name, reason="needs the extra docs")
    done = subprocess.run(
        [sys.executable, DOCS / "site/build.py", tmp_path],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    html = tmp_path / "html"
    shown = (html / "index.html").read_text(encoding="utf-8")
    assert "Set up and run" in shown and 'href="which-tool.html"' in shown
    findings = (html / "reference/findings.html").read_text(encoding="utf-8")
    assert 'id="halted"' in findings and 'id="londistelag"' in findings
    assert (html / "searchindex.js").exists()
    assert list((html / "_images").glob("replay.svg"))
    assert list((html / "_images").glob("architecture.svg"))

    page = tmp_path / "source/glossary.md"
    page.write_text(page.read_text(encoding="utf-8") + "\n[x](howto/tls.md#nowhere)\n")
    argv = [sys.executable, "-m", "sphinx", "-q", "-W", "-c", DOCS / "site"]
    argv += ["-d", tmp_path / "doctrees", tmp_path / "source", html]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    assert done.returncode != 0
    assert "nowhere" in done.stderr
