"""The exponent of a cost that grows, whatever a program costs to start."""

from __future__ import annotations

import pytest

from bench.scale.growth import fit

SIZES = (10, 100, 1000)


@pytest.mark.parametrize("exponent", [0.5, 1.0, 1.5, 2.0])
@pytest.mark.parametrize(("fixed", "factor"), [(0.0, 0.01), (0.4, 0.01), (5.0, 0.05)])
def test_the_exponent_is_that_of_the_growth_above_a_fixed_cost(
    fixed: float, factor: float, exponent: float
) -> None:
    found = fit([(size, fixed + factor * size**exponent) for size in SIZES])
    assert found.exponent == pytest.approx(exponent, abs=0.1)
    for size in SIZES:
        assert found.at(size) == pytest.approx(fixed + factor * size**exponent, rel=0.02)


@pytest.mark.parametrize("costs", [(0.4, 0.41, 0.42), (0.5, 0.4, 0.45), (0.0, 0.0, 0.0)])
def test_a_cost_that_stays_has_no_exponent(costs: tuple[float, ...]) -> None:
    found = fit(list(zip(SIZES, costs, strict=True)))
    assert found.exponent == 0
    assert found.at(1000) == pytest.approx(sum(costs) / 3, abs=1e-6)


def test_the_order_of_the_sizes_does_not_matter() -> None:
    points = [(1000, 10.4), (10, 0.5), (100, 1.4)]
    assert fit(points) == fit(points[::-1])
    assert fit(points).exponent == pytest.approx(1.0, abs=0.05)


def test_costs_that_no_power_fits_exactly_are_fitted_nearly() -> None:
    points = [(1, 0.2), (10, 0.31), (100, 1.15), (1000, 11.0)]
    assert fit(points).exponent == pytest.approx(1.0, abs=0.1)


def test_a_little_noise_at_the_end_is_no_steep_growth() -> None:
    points = [(1, 0.31), (10, 0.32), (100, 0.32), (500, 0.44)]
    assert 0.8 < fit(points).exponent < 1.9
