"""Builds the documentation as a site: ``make site``, into build/site/html.

The pages stay plain Markdown. This copies them and adds what only a site needs: lists of pages
for the navigation, made from docs/index.md; charts; addresses of files that are no pages. A warning
ends the build, a link inside of the site that leads nowhere is one. Links to other sites are listed
in build/site/external-links.txt, and not visited.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

import charts

SITE = Path(__file__).resolve().parent
DOCS = SITE.parent
ROOT = DOCS.parent
OUT = ROOT / "build" / "site"
#: Files of the repository that are no pages.
FORGE = "https://github.com/londiste/londiste/blob/main"

_LINK = re.compile(r"(?<!!)\[(?P<text>(?:[^\]\[]|\[[^\]]*\])*)\]\((?P<to>[^()\s]+)\)")
_ADDRESS = re.compile(r"https?://[^\s)>\"'`]+")


def pages(docs: Path = DOCS) -> Iterator[Path]:
    """The pages, relative to the folder of the documentation."""
    for path in sorted(docs.rglob("*.md")):
        if SITE not in path.parents:
            yield path.relative_to(docs)


def files(docs: Path = DOCS) -> Iterator[Path]:
    """Pictures, and schemas that a reader downloads, relative to the folder."""
    for path in sorted(docs.rglob("*")):
        if path.suffix in (".svg", ".png", ".json") and SITE not in path.parents:
            yield path.relative_to(docs)


def linked(text: str, page: Path, docs: Path = DOCS) -> str:
    """A page whose links to files of the repository are addresses of the forge."""

    def replace(found: re.Match[str]) -> str:
        to, _, anchor = found["to"].partition("#")
        if not to or re.match(r"[a-z]+:", to):
            return found[0]
        target = Path(os.path.normpath(docs / page.parent / to))
        if target.is_relative_to(docs):
            return found[0]
        if not target.exists():
            raise ValueError(f"{page}: link to {found['to']}, which does not exist")
        address = f"{FORGE}/{target.relative_to(docs.parent).as_posix()}"
        return f"[{found['text']}]({address}{'#' * bool(anchor)}{anchor})"

    return "".join(
        part if part.startswith("```") else _LINK.sub(replace, part)
        for part in re.split(r"(?ms)(^```.*?^```$)", text)
    )


def sections(index: str) -> Iterator[tuple[str, list[str]]]:
    """The headings of docs/index.md, with the pages that are listed below each."""
    heading, found = "Start", list[str]()
    for line in [*index.splitlines(), "## end"]:
        if line.startswith("#") and not line.startswith("# "):
            if found:
                yield heading, list(dict.fromkeys(found))
            heading, found = line.lstrip("# "), []
        found += [
            one["to"].partition("#")[0].removesuffix(".md")
            for one in _LINK.finditer(line)
            if ".md" in one["to"] and not one["to"].startswith(("..", "http"))
        ]


def navigation(index: str) -> str:
    """The lists of pages for the navigation, which a reader of the page does not see."""
    lines: list[str] = []
    for heading, found in sections(index):
        lines += ["", "```{toctree}", ":hidden:", f":caption: {heading}", "", *found, "```"]
    return "\n".join(lines) + "\n"


def prepare(source: Path) -> list[str]:
    """Writes the sources of the site; the addresses of other sites that they name."""
    shutil.rmtree(source, ignore_errors=True)
    addresses: set[str] = set()
    for page in pages():
        text = linked((DOCS / page).read_text(encoding="utf-8"), page)
        if page.name == "benchmarks.md":
            text = charts.with_charts(text)
        if page.name == "index.md":
            text += navigation(text)
        addresses.update(_ADDRESS.findall(text))
        target = source / page
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text, encoding="utf-8")
    for file in files():
        target = source / file
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(DOCS / file, target)
    (source / "charts").mkdir()
    figures = (DOCS / "benchmarks.md").read_text(encoding="utf-8")
    for chart in charts.CHARTS:
        path = source / "charts" / f"{chart.name}.svg"
        path.write_text(charts.svg(figures, chart), encoding="utf-8")
    return sorted(addresses)


def main(out: Path = OUT) -> int:
    """Builds the site into ``out``; the exit code of Sphinx."""
    addresses = prepare(out / "source")
    (out / "external-links.txt").write_text("\n".join(addresses) + "\n", encoding="utf-8")
    argv = [sys.executable, "-m", "sphinx", "-q", "-W", "--keep-going", "-j", "2", "-b", "html"]
    argv += ["-c", str(SITE), "-d", str(out / "doctrees"), str(out / "source"), str(out / "html")]
    code = subprocess.run(argv, check=False).returncode
    if code == 0:
        print(f"{out / 'html' / 'index.html'}")
        print(f"{len(addresses)} links to other sites: {out / 'external-links.txt'}")
    return code


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]).resolve() if len(sys.argv) > 1 else OUT))
