"""Makes docs/demo.svg, the picture of the README, from a run of the demo: ``make picture``.

    python docs/demo_picture.py              # runs the demo, half a minute
    python docs/demo_picture.py demo.txt     # takes its recorded output

tests/docs and the test of the demo compare the picture with what the demo prints.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from html import escape, unescape
from pathlib import Path

PICTURE = Path(__file__).resolve().parent / "demo.svg"
PROMPT = "$ londiste demo"

COLUMNS = 104
CHARACTER, LINE, EDGE, HEAD = 7.8, 18, 18, 40

_COLOURS = {"command": "#79c0ff", "bar": "#3fb950", "good": "#3fb950", "plain": "#c9d1d9"}
_SVG = """\
<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:g} {height:g}" role="img">
<title>Output of londiste demo</title>
<rect width="100%" height="100%" rx="8" fill="#0d1117"/>
<circle cx="22" cy="20" r="6" fill="#ff5f57"/>
<circle cx="42" cy="20" r="6" fill="#febc2e"/>
<circle cx="62" cy="20" r="6" fill="#28c840"/>
<g font-family="ui-monospace, 'DejaVu Sans Mono', Menlo, monospace" font-size="13"
 xml:space="preserve">
{lines}
</g>
</svg>
"""


def record() -> str:
    """What the demo prints."""
    done = subprocess.run(
        [sys.executable, "-m", "londiste", "demo"],
        env={**os.environ, "COLUMNS": str(COLUMNS)},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=True,
    )
    return done.stdout


def shown(printed: str) -> list[str]:
    """The lines of the picture: connection strings of the temporary servers are abbreviated."""
    text = re.sub(r"host=\S+ port=\d+ user=\S+ ", "host=… ", printed)
    return [PROMPT, *(line.rstrip() for line in text.splitlines())]


def svg(lines: list[str]) -> str:
    """The picture of a terminal with these lines."""
    made = []
    for number, line in enumerate(lines):
        y = HEAD + LINE * (number + 1)
        parts = "".join(
            f'<tspan fill="{_COLOURS[kind]}">{escape(part)}</tspan>' for kind, part in _parts(line)
        )
        length = f'textLength="{len(line) * CHARACTER:g}" lengthAdjust="spacingAndGlyphs"'
        made.append(f'<text x="{EDGE}" y="{y}" {length}>{parts}</text>')
    width = EDGE * 2 + max(COLUMNS, *map(len, lines)) * CHARACTER
    height = HEAD + LINE * (len(lines) + 1)
    return _SVG.format(width=width, height=height, lines="\n".join(made))


def lines_of(picture: str) -> list[str]:
    """The lines that a picture shows."""
    return [
        unescape(re.sub("<[^>]*>", "", found))
        for found in re.findall("<text[^>]*>.*</text>", picture)
    ]


def form(lines: list[str]) -> list[str]:
    """Lines without figures and widths; the order in which tables finish is that of a run."""
    plain = [re.sub(r"[\d,.:…]*\d[\d,.:…]*", "0", line) for line in lines]
    plain = [" ".join(re.sub("[━╸╺]+", "━", line).split()) for line in plain]
    steps = [line for line in plain if "━" not in line]
    return [*steps, *sorted(line for line in plain if "━" in line)]


def _parts(line: str) -> list[tuple[str, str]]:
    """The line in pieces of one colour."""
    if line.startswith("$ "):
        return [("command", line)]
    if line == "all tables are equal":
        return [("good", line)]
    pieces = re.split("(━+)", line)
    return [("bar" if "━" in piece else "plain", piece) for piece in pieces if piece]


def main() -> None:
    printed = Path(sys.argv[1]).read_text(encoding="utf-8") if sys.argv[1:] else record()
    PICTURE.write_text(svg(shown(printed)), encoding="utf-8")


if __name__ == "__main__":
    main()
