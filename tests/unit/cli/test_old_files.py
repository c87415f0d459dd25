"""Settings files of earlier versions: encodings, broken lines, and errors without secrets."""

from __future__ import annotations

from pathlib import Path

import pytest

from londiste import configfile
from londiste.errors import BadOption
from londiste.settings import NodeSettings, load


def read(tmp_path: Path, data: bytes, name: str = "job.ini") -> dict[str, dict[str, object]]:
    file = tmp_path / name
    file.write_bytes(data)
    file.chmod(0o600)
    return configfile.read(file)[1]


@pytest.mark.parametrize(
    "data",
    [
        b"\xef\xbb\xbf[job]\na = x\n",
        b"[job]\r\na = x\r\n",
        b"[job]\n# caf\xe9\n  ; \xf5\na = x\n",
        b"[job]\na: x",
    ],
)
def test_files_of_other_editors_are_read(tmp_path: Path, data: bytes) -> None:
    assert read(tmp_path, data)["job"] == {"a": "x"}


def test_a_byte_order_mark_is_no_part_of_a_toml_file(tmp_path: Path) -> None:
    assert read(tmp_path, b'\xef\xbb\xbf[job]\na = "x"\n', "job.toml")["job"] == {"a": "x"}


@pytest.mark.parametrize(
    ("data", "place", "hint"),
    [
        (b"[job]\na = 1\nb = caf\xe9\n", ":3: not UTF-8", "iconv -f latin1 -t utf-8"),
        (b"a = 1\n[job]\n", ":1: a line before the first section", "add a line [SECTION]"),
        (b"[job]\na = 1\npassword geheim\n", ":3: neither KEY = VALUE", "correct the line"),
        (b"[job]\na = 1\na = 2\n", ":3: option 'a' in section 'job' already exists", "correct"),
        (b"[job]\na = 1\n[job]\n", ":3: section 'job' already exists", "correct the line"),
    ],
)
def test_a_broken_line_is_named(tmp_path: Path, data: bytes, place: str, hint: str) -> None:
    with pytest.raises(BadOption) as raised:
        read(tmp_path, data)
    assert f"{tmp_path}/job.ini{place}" in raised.value.message
    assert hint in raised.value.hint
    assert "geheim" not in str(raised.value)


@pytest.mark.parametrize("end", ["a%b", "%", "%(nope)s", "%(x", "%(db)s"])
def test_a_percent_sign_in_a_password_is_an_error_that_does_not_show_it(
    tmp_path: Path, end: str
) -> None:
    with pytest.raises(BadOption) as raised:
        read(tmp_path, f"[job]\n\ndb = host=h password=geheim{end}-wort\n".encode())
    error = raised.value
    assert error.message.startswith(f"{tmp_path}/job.ini:3: db: ")
    assert error.hint == "write %% for a % that means itself"
    text = error.message + error.detail
    assert "geheim" not in text
    assert "wort" not in text


def test_a_doubled_percent_sign_is_one(tmp_path: Path) -> None:
    found = read(tmp_path, b"[job]\ndb = password=a%%b\nlog = /x/%(job_name)s.log\n")
    assert found["job"] == {"db": "password=a%b", "log": "/x/job.log"}


@pytest.mark.parametrize("key", ["provider_db", "subscriber_db"])
@pytest.mark.parametrize("side", ["provider", "subscriber"])
def test_a_password_of_a_pair_that_others_can_read_is_refused_by_its_key(
    tmp_path: Path, key: str, side: str
) -> None:
    file = tmp_path / "replic.ini"
    known = {"provider_db": "dbname=a", "subscriber_db": "dbname=b"}
    known[key] += " password=geheim"
    keys = "".join(f"{name} = {value}\n" for name, value in known.items())
    file.write_text(f"[londiste]\npgq_queue_name = q\n{keys}")
    file.chmod(0o644)
    with pytest.raises(BadOption) as raised:
        load(NodeSettings, file, {"side": side})
    number = 3 if key == "provider_db" else 4
    assert raised.value.message.startswith(f"{file}:{number}: a password in {key}, ")
    assert "geheim" not in raised.value.message
    file.chmod(0o600)
    assert load(NodeSettings, file, {"side": side}).queue_name == "q"
