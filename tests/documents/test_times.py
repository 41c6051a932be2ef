"""Times, periods and numbers (time.md section 1.3)."""

from __future__ import annotations

from datetime import date, timedelta

import pytest

from mastaba_documents import times
from mastaba_documents.times import (
    DAY,
    SECOND,
    Period,
    Precision,
    civil,
    days_of,
    parse_day,
    parse_instant,
    parse_number,
    parse_period,
    parse_time,
    time_text,
)


def test_days_are_those_of_the_standard_library() -> None:
    for number in range(-719162, 2932896, 9973):
        day = date(1970, 1, 1) + timedelta(number)
        assert days_of(day.year, day.month, day.day) == number
        assert civil(number) == (day.year, day.month, day.day)


@pytest.mark.parametrize("year", [-9999, -4713, -4, -1, 0, 1, 9999])
def test_years_before_the_first_one_count_on(year: int) -> None:
    for month, day in ((1, 1), (2, 28), (3, 1), (12, 31)):
        assert civil(days_of(year, month, day)) == (year, month, day)
    assert parse_time(f"{'-' if year < 0 else ''}{abs(year):04d}") is not None


@pytest.mark.parametrize(
    ("text", "step", "days"),
    [
        ("2023-01-31", "P1M", ["2023-02-28", "2023-03-31", "2023-04-30"]),
        ("2024-02-29", "P1Y", ["2025-02-28", "2026-02-28", "2027-02-28", "2028-02-29"]),
        ("2023-01-31", "P1M1D", ["2023-03-01", "2023-04-02"]),
        ("2023-12-30", "P1W", ["2024-01-06"]),
    ],
)
def test_steps_are_counted_from_the_start(text: str, step: str, days: list[str]) -> None:
    start, period = parse_time(text), parse_period(step)
    assert start is not None
    assert period is not None
    found = [time_text(period.after(start.start, n + 1), Precision.DAY) for n in range(len(days))]
    assert found == days


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        ("P1Y", "P1Y"),
        ("P12M", "P1Y"),
        ("P18M", "P18M"),
        ("PT5S", "PT5S"),
        ("PT60S", "PT1M"),
        ("PT90M", "PT1H30M"),
        ("P1W", "P7D"),
        ("PT24H", "P1D"),
        ("PT0.5S", "PT0.5S"),
        ("P1DT12H", "P1DT12H"),
    ],
)
def test_periods_are_written_in_one_form(text: str, canonical: str) -> None:
    assert str(parse_period(text)) == canonical


@pytest.mark.parametrize(
    "text", ["P", "PT", "P0D", "PT0S", "1Y", "P1S", "P1Y1Y", "P1M1Y", "PT1H ", "P1.5Y", "-P1Y", ""]
)
def test_other_texts_are_no_periods(text: str) -> None:
    assert parse_period(text) is None


def test_precision_decides_about_the_interval() -> None:
    day = parse_time("2024-02-29")
    assert day is not None
    assert day.end - day.start == DAY
    assert not day.is_point
    instant = parse_time("2024-02-29T00:00:00.5Z")
    assert instant is not None
    assert (instant.start - day.start, instant.end - instant.start) == (500_000, 100_000)
    assert instant.is_point


def test_numbers() -> None:
    assert parse_number("490") == parse_number("4.9e2") == parse_number("490.000")
    for text in ("", "nan", "inf", "1_0", "1e999", "٣", " 1"):
        assert parse_number(text) is None


def test_a_period_of_nothing_but_months_keeps_the_time() -> None:
    start = parse_time("2024-01-31T12:30:00Z")
    assert start is not None
    assert time_text(Period(1, 0).after(start.start), Precision.SECOND) == "2024-02-29T12:30:00Z"


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("1970-01-01T00:00:00Z", 0.0),
        ("1970-01-01t00:00:01z", 1.0),
        ("1970-01-01 01:00:00.5+01:00", 0.5),
        ("1969-12-31T23:59Z", -60.0),
        ("1970-01-01T00:00:00", None),
        ("1970-01-01", None),
        ("1970-01-01T00Z", None),
        ("1970-13-01T00:00:00Z", None),
        ("１970-01-01T00:00:00Z", None),
    ],
)
def test_instants_have_a_time_and_a_zone(text: str, seconds: float | None) -> None:
    assert parse_instant(text) == (None if seconds is None else seconds * SECOND)


@pytest.mark.parametrize(
    ("text", "day"),
    [
        ("2026-11-30", date(2026, 11, 30)),
        ("0001-01-01", date(1, 1, 1)),
        ("0000-12-31", None),
        ("2026-02-30", None),
        ("20261130", None),
        ("2026-W01-1", None),
        ("2026-11", None),
        ("２026-11-30", None),
    ],
)
def test_days_have_one_form(text: str, day: date | None) -> None:
    assert parse_day(text) == day


def test_long_texts_are_not_kept() -> None:
    """Texts come from requests, and may have a megabyte."""
    times._parsed_time.cache_clear()
    assert parse_time("2" * 1_000_000) is None
    assert parse_time("1950") is not None
    assert times._parsed_time.cache_info().currsize == 1
