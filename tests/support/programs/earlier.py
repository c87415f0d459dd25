"""Becomes a program of earlier versions: a file of ``tests/support/skytools``, or an entry point.

python -m tests.support.programs.earlier welcome.py ARGUMENTS
python -m tests.support.programs.earlier pgqadm ARGUMENTS
"""

from __future__ import annotations

import runpy
import sys
import tomllib
from importlib import import_module
from pathlib import Path

ROOT = Path(__file__).parents[3]
PROGRAMS = ROOT / "tests" / "support" / "skytools"


def main(program: str, *arguments: str) -> None:
    """Runs it as if the shell had started it."""
    if program.endswith(".py"):
        sys.argv = [str(PROGRAMS / program), *arguments]
        runpy.run_path(sys.argv[0], run_name="__main__")
        return
    sys.argv = [program, *arguments]
    # ``pgqadm`` -> ``module:function``.
    scripts = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["scripts"]
    module, _, function = scripts[program].partition(":")
    getattr(import_module(module), function)()


if __name__ == "__main__":
    main(*sys.argv[1:])
