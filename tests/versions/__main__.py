"""Tests on every release and every pair: ``python -m tests.versions``.

    --release 14 --release 17   only these releases (default: all)
    --part sql                  only these parts: those of PARTS, and pairs
    --write                     update docs/reference/versions.md with the results; what did not
                                run keeps its last result

Exits with 1 when a test failed, and when a release is not there.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as ElementTree
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

from tests.versions import RELEASES, bindirs_with
from tests.versions.packages import NoPackage

#: What runs on one release, by the name of its row.
PARTS = {
    "sql": ("SQL functions and rights", ["tests/sql"]),
    "capture": ("capture in all forms", ["tests/capture", "tests/integration/capture"]),
    "types": ("types and table shapes", ["tests/integration/apply/test_type_matrix.py"]),
    "upgrade": ("upgrade from each released schema", ["tests/upgrade"]),
    "consumers": (
        "queues and consumers",
        ["tests/integration/consumer", "tests/integration/queue"],
    ),
}
_PAGE = Path("docs/reference/versions.md")
#: The last result of each part or pair: ``sql 14``, ``14-18``.
_RESULTS = Path("tests/versions/results.json")


@dataclass
class Result:
    """Counts of one part on one release, or of one pair."""

    counts: Counter[str] = field(default_factory=Counter)

    @property
    def ok(self) -> bool:
        return not self.counts["failed"] and self.counts["passed"] > 0

    def __str__(self) -> str:
        if not self.counts:
            return "not run"
        if self.counts["failed"]:
            return f"**{self.counts['failed']} failed**, {self.counts['passed']} passed"
        if not self.counts["passed"]:
            return "skipped"
        return f"{self.counts['passed']} passed"


def results_of(report: Path) -> dict[str, Result]:
    """The outcomes of a junit report, by the parameters of the tests (none: ``""``)."""
    found: dict[str, Result] = {}
    for case in ElementTree.parse(report).iter("testcase"):
        kinds = {child.tag for child in case}
        outcome = (
            "failed"
            if kinds & {"failure", "error"}
            else "skipped"
            if "skipped" in kinds
            else "passed"
        )
        _, _, parameters = case.get("name", "").partition("[")
        found.setdefault(parameters.rstrip("]"), Result()).counts[outcome] += 1
    return found


def page(parts: dict[tuple[str, int], Result], pairs: dict[tuple[int, int], Result]) -> str:
    """The documentation page: releases by part, and source by target."""
    head = " | ".join(str(release) for release in RELEASES)
    rule = "|---" * (len(RELEASES) + 1) + "|"
    lines = [
        "# PostgreSQL releases",
        "",
        "Written by `make test-versions` from the results of the tests; each release is the last"
        " minor release that the packages carry.",
        "",
        "## Each release",
        "",
        f"| tests | {head} |",
        rule,
    ]
    for part, (name, _) in PARTS.items():
        cells = " | ".join(str(parts.get((part, release), Result())) for release in RELEASES)
        lines.append(f"| {name} | {cells} |")
    lines += [
        "",
        "## Each pair",
        "",
        "Copy, replay, `execute`, `compare` and switchover there and back under writes; then"
        " `migrate` of a database with unusual objects, there and back. Rows: the source;"
        " columns: the target.",
        "",
        f"| | {head} |",
        rule,
    ]
    for old in RELEASES:
        cells = " | ".join(str(pairs.get((old, new), Result())) for new in RELEASES)
        lines.append(f"| {old} | {cells} |")
    return "\n".join(lines) + "\n"


def _environment(release: int) -> dict[str, str]:
    """For tests on one release; raises NoPackage when its programs are not there."""
    chosen = {"LONDISTE_TEST_PG": str(release), "LONDISTE_PGBIN": bindirs_with(release)}
    return {**os.environ, **chosen}


def _tests(env: dict[str, str], jobs: str, *args: str) -> dict[str, Result]:
    with tempfile.TemporaryDirectory() as scratch:
        report = Path(scratch) / "report.xml"
        command = [sys.executable, "-m", "pytest", "-q", "-n", jobs, "--dist", "worksteal"]
        subprocess.run([*command, f"--junitxml={report}", *args], env=env, check=False)
        return results_of(report) if report.exists() else {"": Result(Counter(failed=1))}


def _write(parts: dict[tuple[str, int], Result], pairs: dict[tuple[int, int], Result]) -> None:
    """Updates the stored results, and the page from all of them."""
    kept = json.loads(_RESULTS.read_text("utf-8")) if _RESULTS.exists() else {}
    kept |= {f"{part} {release}": dict(r.counts) for (part, release), r in parts.items()}
    kept |= {f"{old}-{new}": dict(r.counts) for (old, new), r in pairs.items()}
    _RESULTS.write_text(json.dumps(kept, indent=1, sort_keys=True) + "\n", "utf-8")
    found = {name: Result(Counter(counts)) for name, counts in kept.items()}
    text = page(
        {(part, r): found.get(f"{part} {r}", Result()) for part in PARTS for r in RELEASES},
        {(o, n): found.get(f"{o}-{n}", Result()) for o in RELEASES for n in RELEASES},
    )
    _PAGE.write_text(text, "utf-8")
    print(text)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.versions")
    parser.add_argument("--release", type=int, action="append", choices=RELEASES)
    parser.add_argument("--part", action="append", choices=[*PARTS, "pairs"])
    parser.add_argument("--jobs", default="2")
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args()
    releases = options.release or list(RELEASES)
    wanted = options.part or [*PARTS, "pairs"]
    parts: dict[tuple[str, int], Result] = {}
    pairs: dict[tuple[int, int], Result] = {}
    for release in releases:
        try:
            env = _environment(release)
        except NoPackage as missing:
            print(f"PostgreSQL {release}: {missing}", file=sys.stderr)
            parts |= {(part, release): Result() for part in wanted}
            continue
        for part in wanted:
            if part in PARTS:
                found = _tests(env, options.jobs, "-m", "not slow", *PARTS[part][1])
                total: Counter[str] = Counter()
                for result in found.values():
                    total += result.counts
                parts[part, release] = Result(total)
    if "pairs" in wanted:
        between = [f"{old}-{new}" for old in releases for new in releases]
        found = _tests(dict(os.environ), options.jobs, "tests/versions", "-k", " or ".join(between))
        for name, result in found.items():
            old, _, new = name.partition("-")
            if new:
                pairs[int(old), int(new)] = result
    if options.write:
        _write(parts, pairs)
    else:
        print(page(parts, pairs))
    return 0 if all(one.ok for one in (*parts.values(), *pairs.values())) else 1


if __name__ == "__main__":
    sys.exit(main())
