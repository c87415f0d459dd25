"""A stranger's machine: a shell in an empty directory, servers, services, and the page."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TypeVar

from psycopg import conninfo

from londiste.embedded.postgres import Cluster
from tests.fixtures.cluster import Server, template
from tests.support.pages.plan import Page
from tests.support.pages.reading import READ, SETTINGS, SHELL, Block, blocks, missing
from tests.support.programs.wheels import Environment, outside
from tests.support.waiting import wait_for

T = TypeVar("T")

#: The services of the quickstart, whose root and leaf many pages continue.
ALIASES = {"root": "shop_old", "leaf": "shop_new"}

#: Every command that fails is reported, and the page goes on: all its faults are seen at once.
FUNCTIONS = """
set -o pipefail -m
trap 'echo "-- failed with code $?: $BASH_COMMAND"' ERR
until_() {
    for _ in $(seq 300); do if eval "$1" > .until 2>&1; then return; fi; sleep 0.2; done
    cat .until; echo "never true: $1"; return 1
}
has() {
    local found
    found=$(psql -XAt -v ON_ERROR_STOP=1 -d "service=$1" -c "$2") || return
    grep -Eq -- "${3:-.}" <<< "$found" || { echo "found $found"; return 1; }
}
is() { until_ "has '$1' \\"$2\\" '$3'"; }
code() { local wanted=$1 found=0; shift; "$@" || found=$?; test $found = $wanted || \\
    { echo "exit code $found and not $wanted: $*"; return 1; }; }
"""


class Machine:
    """One page, pasted block by block."""

    def __init__(
        self,
        page: Page,
        installed: Environment,
        directory: Path,
        servers: tuple[Server, Server],
    ) -> None:
        self.page = page
        self.directory = directory
        self.pasted = 0
        self._made: list[tuple[Server, str]] = []
        self._log = directory / ".printed"
        self._log.touch()
        self._number = 0
        self._used: set[str] = set()
        self._failed: list[str] = []
        (directory / "home").mkdir()
        main, second = servers
        services = dict(self._databases(main, second))
        (directory / ".services").write_text(
            "\n".join(f"[{name}]\n" + _lines(dsn) for name, dsn in services.items())
        )
        where = conninfo.conninfo_to_dict(main.dsn())
        env = outside(
            installed,
            HOME=str(directory / "home"),
            PGSERVICEFILE=str(directory / ".services"),
            PGHOST=str(where["host"]),
            PGPORT=str(where["port"]),
            PGUSER=str(where["user"]),
            LONDISTE_POLL_INTERVAL="0.1",
            LONDISTE_MAX_RETRY_DELAY="0.5",
            PIP_DISABLE_PIP_VERSION_CHECK="1",
            PAGER="cat",
        )
        # psql and pg_dump of the server; the wheels do not bring them.
        env["PATH"] = f"{installed.bin}:{_client_programs(main)}:{env['PATH']}"
        with self._log.open("ab") as output:
            self._shell = subprocess.Popen(
                ["bash", "--norc", "--noprofile"],
                cwd=directory,
                env=env,
                stdin=subprocess.PIPE,
                stdout=output,
                stderr=subprocess.STDOUT,
                text=True,
                start_new_session=True,
            )

    def _databases(self, main: Server, second: Server) -> Iterable[tuple[str, str]]:
        """Creates the databases of the page; their services."""
        page = self.page
        for server, names, source in (
            (main, (*page.nodes, *page.installed), template(main)),
            (main, page.empty, None),
            (second, page.elsewhere, None),
        ):
            for name in names:
                server.drop_database(name)
                server.create_database(name, template=source)
                self._made.append((server, name))
                yield name, server.dsn(name)
                if name in ALIASES and page.nodes:
                    yield ALIASES[name], server.dsn(name)

    def paste_page(self) -> None:
        """Pastes the whole page; AssertionError with what was printed at the first failure."""
        self.run(FUNCTIONS)
        if self.page.nodes:
            self.run(cascade(self.page.nodes))
        self.run(self.page.given)
        programs: list[str] = []
        for block in blocks(self.page.path):
            if block.language != "python" or block.file:
                self._run_programs(programs)
            if self._skipped(block):
                continue
            if block.language == "python" and not block.file:
                self._used_in(block.text, self.page.before)
                programs.append(block.text)
                self.pasted += 1
            else:
                self._paste(block)
        self._run_programs(programs)
        self.run(self.page.then)
        assert not self._failed, f"{self.page.path}\n" + "\n---\n".join(self._failed)
        unused = self.page.fragments - self._used
        assert not unused, f"not on {self.page.path}: {unused}"

    def _paste(self, block: Block) -> None:
        self.pasted += len(block.commands)
        if block.language in SHELL:
            printed = self.run(self._script(block.script))
            for command, shown in block.shown:
                other = self._used_in(command, self.page.other_output)
                if shown and not other:
                    lost = missing([self._named(line) for line in shown], printed)
                    if lost:
                        self._failed.append(f"{block}: {command}not printed: {lost}\n{printed}")
        elif block.language in SETTINGS or block.file:
            self._before(block.text)
            self._write(block)
        elif block.language == "sql":
            self._before(block.text)
            on = next(iter(self._used_in(block.text, self.page.sql).values()), self.page.database)
            statements = f"cat > .sql <<'SQL'\n{self._named(block.text)}\nSQL\n"
            self.run(f"{statements}psql -X -v ON_ERROR_STOP=1 -d 'service={on}' -f .sql")
        else:
            assert block.language in READ, f"{block}: language {block.language}"

    def _run_programs(self, programs: list[str]) -> None:
        """Programs without a name that follow each other are one program."""
        if programs:
            text = self._named("\n".join(programs))
            before = "".join(self._used_in(text, self.page.before).values())
            self.run(f"{before}\ncat > .program.py <<'PY'\n{text}\nPY\npython .program.py")
            programs.clear()

    def _skipped(self, block: Block) -> bool:
        """A block that a plan excludes by a fragment which is no line of a script."""
        found = self._used_in(block.text, self.page.not_run)
        return bool(found) and block.language not in SHELL

    def _script(self, script: str) -> str:
        """A script with what the plan says of its lines."""
        page = self.page
        made: list[str] = []
        for line in re.sub(r"\\\n\s*", "", script).splitlines():
            whole = f"{line}\n"
            if self._used_in(whole, page.not_run):
                self.pasted -= 1
                continue
            made += self._used_in(whole, page.before).values()
            bare = re.sub(r"(^|\s+)#\s.*$", "", line).rstrip()
            stays = [one for one in page.stays if re.search(one, bare)]
            self._used.update(stays)
            codes = self._used_in(whole, page.codes)
            line = f"{self._named(bare)} &" if stays else self._named(line)
            for wanted in codes.values():
                line = f"code {wanted} {line}"
            made.append(line)
        return "\n".join(made) + "\n"

    def _before(self, text: str) -> None:
        for script in self._used_in(text, self.page.before).values():
            self.run(script)

    def _used_in(self, text: str, table: Mapping[str, T]) -> dict[str, T]:
        found = {key: value for key, value in table.items() if key in text}
        self._used.update(found)
        return found

    def _named(self, text: str) -> str:
        """Text with what the reader has instead of the names of the page."""
        for name, own in self._used_in(text, self.page.names).items():
            text = text.replace(name, own.replace("{dir}", str(self.directory)))
        return text

    def _write(self, block: Block) -> None:
        """Writes a file, or completes one."""
        text = self._named(block.text)
        given = self._used_in(block.text, self.page.files)
        name = next(iter(given.values()), block.file)
        assert name, f"{block}: in which file is it?"
        path = self.directory / name.removeprefix(">>")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(completed(path.read_text(), text) if name.startswith(">>") else text)

    def run(self, script: str) -> str:
        """Runs a script in the shell; what it printed."""
        if not script.strip():
            return ""
        self._number += 1
        file = self.directory / f".block{self._number}"
        file.write_text(f"{script}\ntrue\n")
        begin = self._log.stat().st_size
        done = f"-- end of {file.name} --"
        assert self._shell.stdin
        self._shell.stdin.write(f". ./{file.name} < /dev/null\necho '{done}'\n")
        self._shell.stdin.flush()

        def printed() -> str:
            return self._log.read_bytes()[begin:].decode("utf-8", "replace")

        def ended() -> bool:
            return f"{done}\n" in printed() or self._shell.poll() is not None

        try:
            wait_for(ended, timeout=self.page.patience, what=file.name)
        except AssertionError as error:
            raise AssertionError(f"{error}\n{script}\n{printed()}") from None
        text = printed()
        assert f"{done}\n" in text, f"{self.page.path}\n{script}\n{text}"
        if re.search("(?m)^-- failed with code|^Traceback", text):
            self._failed.append(f"{script}\n{text}")
        return text

    def close(self) -> None:
        """Ctrl-C for what stays, the end of daemons, and of the databases."""
        if self._shell.poll() is None and self._shell.stdin:
            self._shell.stdin.write("set +e\njobs -p | sed s/^/-/ | xargs -r kill -INT --\nexit\n")
            self._shell.stdin.close()
        for sign in (signal.SIGTERM, signal.SIGKILL):
            for pid in self._pids():
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, sign)
            if sign is signal.SIGTERM:
                try:
                    wait_for(lambda: not self._pids(), what="the end of daemons")
                except AssertionError:
                    continue
        self._shell.kill()
        self._shell.wait()
        for server, name in self._made:
            server.drop_database(name)

    def _pids(self) -> list[int]:
        """Processes that work in this directory, but the shell."""
        found = []
        for entry in Path("/proc").iterdir():
            try:
                here = entry.name.isdigit() and (entry / "cwd").readlink() == self.directory
            except OSError:
                continue
            if here and int(entry.name) != self._shell.pid:
                found.append(int(entry.name))
        return found


def cascade(nodes: Mapping[str, str | None]) -> str:
    """Commands that create a cascade and start its daemons, as in the quickstart."""
    providers = set(nodes.values())
    script = []
    for name, provider in nodes.items():
        kind = "root" if not provider else "branch" if name in providers else "leaf"
        ticks = ", ".join(f'"service={one}"' for one in nodes if one in providers)
        below = f'--provider "service={provider}"' if provider else ""
        script.append(
            f"cat > {name}.toml <<'END'\n[londiste]\n"
            f'db = "service={name}"\nqueue_name = "shop"\n'
            f'logfile = "{name}.log"\npidfile = "{name}.pid"\n\n'
            f"[ticker]\ndatabases = [{ticks or chr(34) + 'service=' + name + chr(34)}]\nEND\n"
            f'londiste -c {name}.toml create-{kind} {name} "service={name}" {below}'
        )
    root = next(iter(nodes))
    script.append(f"londiste -c {root}.toml ticker -d &")
    script += [f"londiste -c {name}.toml worker -d &" for name in nodes]
    return "\n".join([*script, "wait", f"cp {root}.toml any.toml", ""])


def completed(file: str, more: str) -> str:
    """A settings file with further keys, in the section that they name or in the first one."""
    found = re.match(r"(?m)(?:#.*\n|\s)*(\[[^\n]*\])\n", more)
    header = found[1] if found else next(iter(re.findall(r"(?m)^\[.*\]$", file)))
    keys = more[found.end() :] if found else more
    if not re.search(rf"(?m)^{re.escape(header)}$", file):
        return f"{file}\n{more}"
    return file.replace(f"{header}\n", f"{header}\n{keys}\n", 1)


def _client_programs(server: Server) -> str:
    return str(server.bindir) if isinstance(server, Cluster) else ""


def _lines(dsn: str) -> str:
    return "".join(f"{key}={value}\n" for key, value in conninfo.conninfo_to_dict(dsn).items())
