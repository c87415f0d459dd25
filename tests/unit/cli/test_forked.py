"""A program that tests fork is what it would be if they had started it."""

from __future__ import annotations

import ast
import contextlib
import importlib
import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.programs import forked, quick
from tests.support.programs.fork_server import OF_ONE_PROCESS

PROGRAM = [sys.executable, "-m", "tests.support.programs.what_i_am"]

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="nothing is forked there")


def answer(how: Callable[..., Any], directory: Path, *words: str) -> tuple[int, Any, str]:
    """Exit code, what it knows about itself, and what it wrote on stderr."""
    env = {**os.environ, "PYTHONPATH": str(forked.ROOT), "LÄNGE": "ä", "EMPTY": ""}
    process = how([*PROGRAM, *words], env, directory)
    return process.returncode, json.loads(process.stdout), process.stderr


def started(argv: list[str], env: dict[str, str], cwd: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        argv,
        env=env,
        cwd=cwd,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )


def forks(argv: list[str], env: dict[str, str], cwd: Path) -> subprocess.CompletedProcess[str]:
    return forked.run(argv, env=env, cwd=cwd, timeout=60)


@pytest.mark.parametrize("words", [("exit", "0"), ("exit", "3"), ("signal", "15")])
def test_it_is_what_it_would_be_if_it_were_started(words: tuple[str, str], tmp_path: Path) -> None:
    code, itself, _ = answer(forks, tmp_path, *words)
    wanted, other, _ = answer(started, tmp_path, *words)
    assert (code, itself) == (wanted, other)
    assert itself["parent"] == os.getpid()


@pytest.mark.parametrize("words", [("exit", "0"), ("exit", "3"), ("signal", "15")])
def test_so_is_what_a_forked_daemon_starts(words: tuple[str, str], tmp_path: Path) -> None:
    found = []
    for how in (forks, started):
        code, itself, _ = answer(how, tmp_path, "worker", *words)
        parent = str(itself.pop("parent"))
        assert itself["environment"].pop("LONDISTE_PARENT_PID") == parent
        itself["listed environment"].remove(f"LONDISTE_PARENT_PID={parent}")
        found.append((code, itself))
    assert found[0] == found[1]
    assert "PASSED" in found[0][1]["environment"]


def test_a_forked_daemon_starts_forks(tmp_path: Path) -> None:
    with (tmp_path / "log").open("w+b") as log:
        argv = [*PROGRAM, "worker", "exit", "0"]
        env = {**os.environ, "PYTHONPATH": str(forked.ROOT)}
        assert forked.start(argv, env=env, output=log).wait(60) == 0
        log.seek(0)
        # A new Python would not know the commands.
        assert b"\nlondiste.cli is loaded\n" in log.read()


def test_no_two_have_the_same_random_numbers(tmp_path: Path) -> None:
    assert answer(forks, tmp_path, "exit", "0")[2] != answer(forks, tmp_path, "exit", "0")[2]


def test_it_is_waited_for_signalled_and_leads_a_group(tmp_path: Path) -> None:
    with contextlib.ExitStack() as stack:
        log = stack.enter_context((tmp_path / "log").open("wb"))
        argv = [sys.executable, "-m", "londiste", "ticker", "--db", f"host={tmp_path}"]
        running = forked.start(argv, env=os.environ, output=log, own_group=True)
        stack.callback(running.kill)
        assert isinstance(running, forked.Fork)
        assert os.getpgid(running.pid) == running.pid
        with pytest.raises(subprocess.TimeoutExpired):
            running.wait(0.01)
        running.kill()
        assert running.wait(30) == -9
        running.terminate()
        assert running.poll() == -9


def calls_at_import(tree: ast.AST) -> Iterator[str]:
    """What a statement of a module calls when it is imported."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.Call):
            yield ast.unparse(node.func)
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            yield from calls_at_import(node)


def test_what_modules_know_of_their_process_is_made_known_to_a_fork() -> None:
    of_a_process = re.compile(r"(uuid|time|random|secrets|socket|os|datetime|threading)\.[a-z]")
    found = set()
    for path in (forked.ROOT / "londiste").rglob("*.py"):
        module = ".".join(path.relative_to(forked.ROOT).with_suffix("").parts)
        for statement in ast.parse(path.read_text(encoding="utf-8")).body:
            match statement:
                case ast.Assign(targets=[name]) | ast.AnnAssign(target=name):
                    if any(map(of_a_process.match, calls_at_import(statement))):
                        found.add((module, ast.unparse(name)))
    assert found == {(module.__name__, name) for module, name in OF_ONE_PROCESS}


def test_a_shorter_period_is_one_that_its_module_reads() -> None:
    for place, seconds in quick.PERIODS.items():
        module, _, name = place.partition(":")
        assert getattr(importlib.import_module(module), name) == seconds
        tree = ast.parse((forked.ROOT / f"{module.replace('.', '/')}.py").read_text("utf-8"))
        defaults = {
            ast.unparse(default)
            for function in ast.walk(tree)
            if isinstance(function, ast.FunctionDef)
            for default in (*function.args.defaults, *function.args.kw_defaults)
            if default is not None
        }
        # A default has been read when the period is set.
        assert name not in defaults, place
