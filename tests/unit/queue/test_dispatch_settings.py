"""The settings of the dispatcher that need no database to be wrong."""

from __future__ import annotations

import pytest

from londiste.errors import BadOption
from londiste.settings import load
from londiste.tools.dispatch.settings import DispatchBase


@pytest.mark.parametrize("address", ["hdfs://host/files", "s3:/files"])
def test_files_go_into_a_directory_and_an_address_is_refused_by_its_own_name(address: str) -> None:
    with pytest.raises(BadOption, match=r"target_path.*not a directory"):
        load(DispatchBase, None, {"db": "dbname=x", "queue_name": "q", "target_path": address})
