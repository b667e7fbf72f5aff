"""`Retry-After` against a second reader of the forms that HTTP allows."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from shipsilently_core._wire import Reply, retry_after
from tests.properties.support import almost, corpus

HEADERS = {name: content.decode() for name, content in corpus("retry_after").items()}
#: Friday, 15 January 2027, 08:00:00 GMT.
NOW = 1_800_000_000.0
MOMENT = datetime.fromtimestamp(NOW, UTC)
BASE, HOUR = 1.5, 3600.0

MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
TIME = r"(?P<hour>\d\d):(?P<minute>\d\d):(?P<second>\d\d)"
SHORT, LONG, MONTH = (
    "|".join(day[:3] for day in DAYS),
    "|".join(DAYS),
    f"(?P<month>{'|'.join(MONTHS)})",
)
#: The three forms of RFC 9110, section 5.6.7.
FORMS = (
    re.compile(rf"(?:{SHORT}), (?P<day>\d\d) {MONTH} (?P<year>\d{{4}}) {TIME} GMT", re.ASCII),
    re.compile(rf"(?:{LONG}), (?P<day>\d\d)-{MONTH}-(?P<year>\d\d) {TIME} GMT", re.ASCII),
    re.compile(rf"(?:{SHORT}) {MONTH} (?P<day>[ \d]\d) {TIME} (?P<year>\d{{4}})", re.ASCII),
)


def date_in(text: str) -> datetime | None:
    """The moment, where it is in one of HTTP's forms and exists."""
    for form in FORMS:
        found = form.fullmatch(text)
        if found:
            year, day, hour, minute, second = (
                int(found[part]) for part in ("year", "day", "hour", "minute", "second")
            )
            year += 2000 if len(found["year"]) == 2 else 0
            try:
                return datetime(
                    year, MONTHS.index(found["month"]) + 1, day, hour, minute, second, tzinfo=UTC
                )
            except ValueError:
                return None
    return None


def written(moment: datetime, form: int) -> str:
    """A moment in one of HTTP's forms."""
    day, month, clock = DAYS[moment.weekday()], MONTHS[moment.month - 1], f"{moment:%H:%M:%S}"
    if form == 0:
        return f"{day[:3]}, {moment.day:02} {month} {moment.year:04} {clock} GMT"
    if form == 1:
        return f"{day}, {moment.day:02}-{month}-{moment.year % 100:02} {clock} GMT"
    return f"{day[:3]} {month} {moment.day:2} {clock} {moment.year:04}"


def pause(text: str | None, date: str | None = None, status: int = 429) -> float | None:
    """What this project makes of it."""
    headers = {"retry-after": text, "date": date}
    given = {name: value for name, value in headers.items() if value is not None}
    return retry_after(Reply(status, headers=given), now=NOW, base=BASE)


def check(text: str) -> None:
    found = pause(text)
    assert pause(text, status=503) == found
    assert pause(text, status=500) is None
    assert pause(text, status=200) is None
    assert found is not None
    text = text.strip()
    number = re.fullmatch(r"([0-9]+)(\.[0-9]+)?", text)
    date = date_in(text)
    if number:
        whole, part = number[1].lstrip("0"), float(number[2] or 0)
        assert found == (HOUR if len(whole) > 4 else min(HOUR, int(whole or 0) + part))
    elif date is not None:
        left = (date - MOMENT).total_seconds()
        assert found == (BASE if left <= 0 else min(left, HOUR))
    elif re.search(r"[0-9]{1,2}:[0-9]{2}|[A-Za-z]{3}", text):
        # Perhaps a date in one of the forms of mail, which servers write as well.
        assert found == BASE or 0 < found <= HOUR
    else:
        assert found == BASE


@pytest.mark.parametrize("name", HEADERS)
def test_the_corpus_is_read_as_http_says(name: str) -> None:
    """Each header of the corpus is the pause that it names, or counts as the backoff's base."""
    check(HEADERS[name])


EXACT = {
    "seconds": 120,
    "zero": 0,
    "a-fraction": 1.5,
    "an-hour": HOUR,
    "more-than-an-hour": HOUR,
    "a-hundred-digits": HOUR,
    "blanks-around": 7,
    "negative": BASE,
    "not-a-number": BASE,
    "infinity": BASE,
    "two-values": BASE,
    "arabic-digits": BASE,
    "with-underscores": BASE,
    "date-ahead": 30,
    "date-long-ahead": HOUR,
    "date-now": BASE,
    "date-past": BASE,
    "date-of-rfc850": 30,
    "date-of-asctime": 30,
    "date-without-a-zone": 30,
    "date-with-an-offset": 30,
    "date-that-does-not-exist": BASE,
    "offset-beyond-a-day": BASE,
    "empty": BASE,
    "null-byte": BASE,
}


@pytest.mark.parametrize("name", EXACT)
def test_known_headers_have_known_pauses(name: str) -> None:
    """What a person reads in these headers is what is obeyed."""
    assert pause(HEADERS[name]) == EXACT[name]


@given(almost("retry_after").map(lambda b: b.decode("latin-1")) | st.text(max_size=30))
@example("Thu, 01 Jan 1970 00:00:00 GMT")
def test_any_text_is_the_pause_it_names_or_the_base(text: str) -> None:
    """A number or a date in HTTP's forms is obeyed to the second; other text within bounds."""
    check(text)


@given(st.integers(0, 10**30), st.none() | st.integers(0, 10**9))
def test_any_number_of_seconds_is_obeyed_up_to_an_hour(whole: int, part: int | None) -> None:
    """Whole and fractional seconds count as they are, whatever the answer's date says."""
    text = f"{whole}" if part is None else f"{whole}.{part}"
    for date in (None, written(MOMENT + timedelta(days=1), 0), "soon"):
        assert pause(text, date) == min(float(text), HOUR)


@given(
    st.integers(-(10**6), 10**6),
    st.integers(-(10**8), 10**8),
    st.sampled_from([0, 1, 2]),
    st.sampled_from([0, 1, 2]),
)
def test_a_date_is_reckoned_from_the_answers_own(
    ahead: int, wrong: int, form: int, own: int
) -> None:
    """Whoever's clock is wrong: the pause is the time between the two dates of the service."""
    dated = MOMENT + timedelta(seconds=wrong)
    text = written(dated + timedelta(seconds=ahead), form)
    expected = BASE if ahead <= 0 else min(float(ahead), HOUR)
    assert pause(text, written(dated, own)) == expected
