"""What a fleet is expected to do: one change of its description, one change of the result."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest
from pydantic import ValidationError

from bench.fleet import __main__ as program
from bench.fleet.model import Costs, read, sources
from bench.fleet.simulate import HEADROOM, Forecast, Use, forecast


def expected(**keys: object) -> Forecast:
    return forecast(*read(keys))


def use(found: Forecast, name: str) -> Use:
    return next(each for each in found.uses if each.name == name)


def test_a_backlog_drains_at_the_clock_time_of_its_rows() -> None:
    # Of one worker: 0.73 of the processor time of all parts, two cores for the servers at least.
    found = expected(rate=100, outage_hours=10)
    each = 0.73 * (2.3 + 3.6 + 6.8) * 1e-6
    assert found.backlog == 100 * 36_000
    assert found.drain == pytest.approx(0.4 + 3_600_000 / (1 / each - 100), rel=0.05)
    # Twice the cost, twice the time.
    double = {"read": 4.6, "program": 7.2, "apply": 13.6}
    slower = expected(rate=100, outage_hours=10, costs=double)
    assert slower.drain == pytest.approx(2 * found.drain, rel=0.05)


def test_disk_is_that_of_all_event_tables_and_of_the_outage() -> None:
    found = expected(rate=1000, event_bytes=120, rotation_hours=2, event_tables=3, outage_hours=62)
    assert found.disk == pytest.approx(1000 * 200 * 7200 * 3 / 1e9)
    assert found.disk_after_outage - found.disk == pytest.approx(1000 * 200 * 62 * 3600 / 1e9)
    assert expected(rate=1000, event_tables=2).disk < expected(rate=1000, event_tables=3).disk


def test_lag_is_half_a_tick_and_the_batch() -> None:
    slow, fast = (expected(rate=10, peak=1, tick_seconds=ticks) for ticks in (3.0, 1.0))
    assert slow.lag - fast.lag == pytest.approx(1.0, rel=0.01)
    # Two round trips to the provider for each batch.
    far = expected(rate=10, peak=1, tick_seconds=1.0, round_trip_ms=50)
    assert far.lag - fast.lag == pytest.approx(2 * (0.050 - 0.0005), rel=0.01)


def test_a_peak_that_a_worker_cannot_follow_is_worked_off_later() -> None:
    found = expected(rate=40_000, peak=4, peak_hours=2, worker_cores=64, subscriber_cores=64)
    # 160,000 a second come, 106,000 are processed; 29,000 come afterwards.
    assert 0.4 * 7200 < found.lag_at_peak < 0.6 * 7200
    assert 0.5 * 7200 < found.peak_is_worked_off < 2 * 7200
    assert found.first.name == "worker of a subscriber"
    assert found.first.advice.startswith("split each queue into 3")
    below = expected(rate=10_000, peak=4)
    assert below.peak_is_worked_off == 0
    assert below.lag_at_peak < 1


def test_a_mean_that_a_worker_cannot_follow_is_never_worked_off() -> None:
    found = expected(rate=150_000, peak=1)
    assert math.isinf(found.lag_at_peak) or math.isinf(found.peak_is_worked_off)
    assert math.isinf(found.drain)


def test_a_server_with_too_many_rows_is_named_with_the_number_of_servers() -> None:
    load = {"databases": 100, "rate": 2000, "peak": 2, "tick_seconds": 1.0}
    load |= {"worker_machines": 50, "subscriber_cores": 64}
    found = expected(**load)
    name = "processor of a provider"
    assert found.first.name == name
    assert found.first.needed == pytest.approx(100 * 4000 * 18.3e-6 / 8)
    assert found.first.advice == "spread the databases over 2 servers"
    spread = expected(**load, provider_servers=2)
    assert use(spread, name).needed <= HEADROOM
    assert use(spread, name).advice == ""


def test_branches_relieve_a_provider_with_many_readers() -> None:
    many = {"databases": 20, "subscribers": 40, "rate": 800, "worker_machines": 99}
    without, branched = expected(**many), expected(**many, branches=4)
    advice = use(without, "processor of a provider").advice
    assert advice.startswith("branches")
    ours, theirs = (use(f, "processor of a provider").needed for f in (branched, without))
    assert ours < theirs / 2
    # Each hop costs time.
    assert branched.lag > without.lag / 2
    assert branched.daemons == 20 * (40 + 4) + 1 + 4


def test_batches_yield_and_events_do_not() -> None:
    # Hundreds of queues with a tick every 5 ms: the ticks fill the machine, the rows do not.
    short, long = (
        expected(databases=200, rate=50, subscribers=2, tick_seconds=ticks, worker_memory_gb=99)
        for ticks in (0.005, 1.0)
    )
    name = "processor of a worker machine"
    assert use(short, name).peak == pytest.approx(1.0)
    assert use(short, name).needed == use(long, name).needed
    assert use(short, name).needed < HEADROOM
    assert use(short, name).advice.startswith("ticker_max_lag")
    assert use(long, name).peak < HEADROOM
    assert short.peak_is_worked_off == 0


@pytest.mark.parametrize("more", ["subscribers", "databases", "queues"])
def test_more_of_anything_needs_more_of_everything(more: str) -> None:
    few, many = expected(**{more: 2}), expected(**{more: 20})
    assert many.daemons > few.daemons
    assert many.memory > few.memory
    assert many.processor > few.processor
    assert all(b.needed >= a.needed for a, b in zip(few.uses, many.uses, strict=True))


def test_a_provider_carries_what_its_headroom_allows() -> None:
    found = expected(rate=100, tick_seconds=1.0)
    exactly = expected(rate=100, tick_seconds=1.0, subscribers=found.direct, worker_machines=999)
    more = expected(rate=100, tick_seconds=1.0, subscribers=found.direct + 1, worker_machines=999)
    name = "processor of a provider"
    assert use(exactly, name).peak <= HEADROOM < use(more, name).peak
    assert exactly.direct == found.direct


def test_a_disk_that_is_too_small_for_the_outage_is_named() -> None:
    found = expected(rate=1000, event_disk_gb=10)
    assert found.first.name == "disk of event tables after the outage"
    assert "GB" in found.first.advice


@pytest.mark.parametrize(
    ("document", "words"),
    [
        ({"databasses": 2}, "databasses"),
        ({"rate": 0}, "rate"),
        ({"rate": float("nan")}, "rate"),
        ({"databases": 1.5}, "databases"),
        ({"workload": "fast"}, "workload"),
        ({"peak": 20, "peak_hours": 2}, "more than the changes of a day"),
        ({"costs": {"aply": 1}}, "aply"),
        ({"costs": {"apply": -1}}, "apply"),
    ],
)
def test_a_description_that_cannot_be_is_refused(document: dict[str, object], words: str) -> None:
    with pytest.raises(ValidationError, match=words):
        read(document)


@pytest.mark.parametrize("workload", ["rows", "packed", "hot"])
def test_each_cost_has_a_unit_and_a_source(workload: str) -> None:
    assert set(sources(workload)) == set(Costs.model_fields)
    assert all(unit and source for unit, source in sources(workload).values())


def test_the_program_reads_a_file_and_options(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "fleet.toml"
    file.write_text("databases = 5\nrate = 150000\npeak = 1\n[costs]\ncapture = 3\n")
    program.main([str(file), "--subscribers", "3", "--json"])
    found = json.loads(capsys.readouterr().out)
    assert (found["fleet"]["databases"], found["fleet"]["subscribers"]) == (5, 3)
    assert found["costs"]["capture"] == 3
    assert found["drain"] is None
    program.main([str(file)])
    assert "| backlog is drained after | never |" in capsys.readouterr().out
    with pytest.raises(SystemExit, match=r"(?s)error: rate: .*hint: "):
        program.main(["--rate", "fast"])
    with pytest.raises(SystemExit, match=r"(?s)error: .*hint: "):
        program.main([str(tmp_path / "none.toml")])
