"""docker-compose.yml is valid, and the files that it names exist."""

from __future__ import annotations

import os
import re
import shlex
from pathlib import Path
from typing import Any

import pytest
import yaml

from londiste.cli import COMMANDS
from londiste.settings import TickerSettings, WorkerSettings, load

REPOSITORY = Path(__file__).parents[2]
EXAMPLES = REPOSITORY / "examples" / "compose"


@pytest.fixture(scope="module")
def compose() -> dict[str, Any]:
    loaded = yaml.safe_load((REPOSITORY / "docker-compose.yml").read_text(encoding="utf-8"))
    assert isinstance(loaded, dict)
    return loaded


def test_it_has_two_servers_a_spark_cluster_a_ticker_and_a_worker(compose: dict[str, Any]) -> None:
    services = compose["services"]
    assert {"ticker", "worker", "spark-master", "spark-worker"} <= set(services)
    images = {name: services[name]["image"] for name in ("root", "leaf")}
    assert images == {"root": "postgres:16", "leaf": "postgres:18"}


def test_services_wait_only_for_services_that_exist(compose: dict[str, Any]) -> None:
    for service in compose["services"].values():
        assert set(service.get("depends_on", [])) <= set(compose["services"])
        if "build" in service:
            assert (REPOSITORY / service["build"] / "Dockerfile").is_file()
        for volume in service.get("volumes", []):
            source = volume.split(":")[0]
            assert source in compose["volumes"] or (REPOSITORY / source).is_dir()


def test_its_commands_are_ours(compose: dict[str, Any]) -> None:
    lines = [service["command"] for service in compose["services"].values() if "command" in service]
    script = (EXAMPLES / "setup.sh").read_text(encoding="utf-8").replace("\\\n", " ")
    lines += [shlex.split(found) for found in re.findall(r"^ *(londiste -c .*)", script, re.M)]
    head = (REPOSITORY / "docker-compose.yml").read_text(encoding="utf-8").split("\n\n")[0]
    lines += [shlex.split(found) for found in re.findall(r"(londiste -c .*)", head)]
    used = [line[3] for line in lines if line[0] == "londiste"]
    assert len(used) > 8
    assert set(used) <= set(COMMANDS)
    for line in lines:
        for argument in line:
            path = Path(argument)
            if path.parent == Path("/etc/londiste") and "$" not in argument:
                assert (EXAMPLES / path.name).is_file()


@pytest.mark.parametrize("name", ["root.toml", "leaf.toml"])
def test_its_settings_are_understood(name: str) -> None:
    worker = load(WorkerSettings, EXAMPLES / name)
    assert worker.queue_name == "shop"
    if name == "root.toml":
        assert load(TickerSettings, EXAMPLES / name).databases == (worker.db,)
    else:
        assert worker.spark["spark.master"] == "spark://spark-master:7077"


@pytest.mark.parametrize("name", ["setup.sh", "entrypoint.sh"])
def test_its_scripts_can_be_started(name: str) -> None:
    assert os.access(EXAMPLES / name, os.X_OK)
