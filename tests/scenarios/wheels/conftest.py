"""One environment with both wheels for all pages and commands of a stranger."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.programs.wheels import Environment, environment, wheels  # noqa: F401


@pytest.fixture(scope="session")
def installed(
    wheels: Path,  # noqa: F811
    tmp_path_factory: pytest.TempPathFactory,
) -> Environment:
    """Both wheels in an environment outside of the checkout."""
    directory = tmp_path_factory.mktemp("stranger") / "venv"
    return environment(directory, *map(str, wheels.glob("*.whl")), borrowed=True)
