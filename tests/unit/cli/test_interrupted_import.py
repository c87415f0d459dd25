"""Python loads the program: Ctrl-C meanwhile, and the search for garbage behind it."""

from __future__ import annotations

import gc
import subprocess
import sys

import pytest

from londiste.cli import COMMANDS, cli

#: Sends the signal when a module of the program is imported.
PROGRAM = """
import os, runpy, signal, sys

class CtrlC:
    @staticmethod
    def find_spec(name, path=None, target=None):
        if name == module:
            os.kill(os.getpid(), signal.SIGINT)

_, module, *arguments = sys.argv
sys.argv[:] = ["londiste", *arguments]
sys.meta_path.insert(0, CtrlC)
runpy.run_module("londiste", run_name="__main__", alter_sys=True)
"""


@pytest.mark.parametrize("module", ["click", "londiste.cli", "londiste.cli.errors"])
def test_ctrl_c_during_an_import_is_no_traceback(module: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, module, "version"],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stderr) == (130, "interrupted\n")


def test_a_loaded_command_searches_for_garbage_again() -> None:
    gc.disable()
    try:
        assert cli.load("version", COMMANDS["version"]).name == "version"
        assert gc.isenabled()
    finally:
        gc.enable()
