"""English figures, signs and abbreviations as they are read."""

import pytest

from audiocpp.engines.text.speech import normalise


@pytest.mark.parametrize(
    ("written", "read"),
    [
        ("3,497 items", "three thousand four hundred and ninety-seven items"),
        ("999", "nine hundred and ninety-nine"),
        ("1000", "one thousand"),
        ("1,000,000", "one million"),
        ("3.14", "three point one four"),
        ("0.50", "zero point five zero"),
        ("-5", "minus five"),
        ("\u22125.5", "minus five point five"),
        ("007", "zero zero seven"),
        ("12345678901234567890", "one two three four five six seven eight nine zero " * 2),
        ("the 1st, 22nd and 103rd", "the first, twenty-second and one hundred and third"),
        ("10-20", "ten to twenty"),
        ("5–10", "five to ten"),
        ("1/2 and 3/4", "one half and three quarters"),
        ("2½", "two and one half"),
        ("24/7", "twenty-four seven"),
        ("50%", "fifty percent"),
        ("5%-10%", "five percent to ten percent"),
        ("version 1.2.3", "version one point two point three"),
        ("MP3, GPT-4, B2B", "MP three, GPT-four, B two B"),
        ("well-known x-ray", "well-known x-ray"),
    ],
)
def test_numbers(written: str, read: str) -> None:
    assert normalise(written, "en") == read.strip()


@pytest.mark.parametrize(
    ("written", "read"),
    [
        ("$99,070.01", "ninety-nine thousand and seventy dollars and one cent"),
        ("£5", "five pounds"),
        ("£1.01", "one pound and one penny"),
        ("€3.50", "three euros and fifty cents"),
        ("$1.2 million", "one point two million dollars"),
        ("$5m", "five million dollars"),
        ("$0.99", "ninety-nine cents"),
        ("$0", "zero dollars"),
        ("$2.00", "two dollars"),
        ("$1.999", "one point nine nine nine dollars"),
        ("-$3", "minus three dollars"),
        ("5 €", "five euros"),
        ("$5-$10", "five dollars to ten dollars"),
        ("¥500", "five hundred yen"),
    ],
)
def test_money(written: str, read: str) -> None:
    assert normalise(written, "en") == read


@pytest.mark.parametrize(
    "written", ["2026-11-30", "11/30/2026", "30/11/2026", "Nov 30 2026", "Nov. 30, 2026", "November 30th, 2026"]
)
def test_dates_written_in_several_ways_are_read_alike(written: str) -> None:
    assert normalise(written, "en-US") == "November thirtieth, twenty twenty-six"


def test_the_region_tells_the_month_of_an_ambiguous_date() -> None:
    assert normalise("11/12/2026", "en-US") == "November twelfth, twenty twenty-six"
    assert normalise("11/12/2026", "en-GB") == "December eleventh, twenty twenty-six"


@pytest.mark.parametrize(
    ("written", "read"),
    [
        ("the 1st of May", "the first of May"),
        ("30 November 2026", "the thirtieth of November, twenty twenty-six"),
        ("on Mar 3", "on March third"),
        ("Sept 2001", "September two thousand and one"),
        ("in 1999", "in nineteen ninety-nine"),
        ("In 1850 it was", "In eighteen fifty it was"),
        ("1999-2004", "nineteen ninety-nine to two thousand and four"),
        ("the 1990s", "the nineteen nineties"),
        ("1999 pages", "one thousand nine hundred and ninety-nine pages"),
        ("it may 5", "it may five"),
    ],
)
def test_dates_and_years(written: str, read: str) -> None:
    assert normalise(written, "en-US") == read


@pytest.mark.parametrize("written", ["2026-02-30", "13/13/2026"])
def test_what_is_no_date_is_still_read(written: str) -> None:
    words = normalise(written, "en-US")
    assert "twenty twenty-six" in words
    assert not any(map(str.isdigit, words))


@pytest.mark.parametrize(
    ("written", "read"),
    [
        ("14:05", "fourteen oh five"),
        ("3:30 pm", "three thirty P M"),
        ("at 3 p.m. we", "at three P M we"),
        ("at 3 p.m.", "at three P M."),
        ("10:00 AM", "ten A M"),
        ("9:00", "nine o'clock"),
        ("1:02:03", "one oh two and three seconds"),
        ("I am 3 amps", "I am three amps"),
    ],
)
def test_times(written: str, read: str) -> None:
    assert normalise(written, "en") == read


@pytest.mark.parametrize(
    ("written", "read"),
    [
        ("555-1234", "five five five, one two three four"),
        ("(415) 555-2671", "four one five, five five five, two six seven one"),
        ("+1 415 555 2671", "plus one, four one five, five five five, two six seven one"),
        ("100 200 300", "one hundred two hundred three hundred"),
    ],
)
def test_telephone_numbers(written: str, read: str) -> None:
    assert normalise(written, "en") == read


@pytest.mark.parametrize(
    ("written", "read"),
    [
        ("https://example.com/a-b?x=1.", "example dot com slash a dash b question mark x equals one."),
        ("www.example.org,", "www dot example dot org,"),
        ("example.co.uk", "example dot co dot uk"),
        ("joe.bloggs@example.com", "joe dot bloggs at example dot com"),
        ("end.And", "end.And"),
    ],
)
def test_addresses(written: str, read: str) -> None:
    assert normalise(written, "en") == read


@pytest.mark.parametrize(
    ("written", "read"),
    [
        ("Dr. Smith and Mr. Jones", "Doctor Smith and Mister Jones"),
        ("St. Louis", "Saint Louis"),
        ("5 Main St. is", "five Main Street is"),
        ("e.g. this, i.e. that, etc.", "for example this, that is that, et cetera."),
        ("the U.S. and the E.U.", "the U S and the E U."),
        ("J. R. R. Tolkien", "J R R Tolkien"),
        ("No. 5", "number five"),
        ("No.", "No."),
        ("pp. 3-4", "pages three to four"),
        ("NASA and HTTP", "NASA and HTTP"),
        ("5 km, 1 kg and 20°C", "five kilometers, one kilogram and twenty degrees Celsius"),
        ("a < b & c", "a less than b and c"),
        ("2 + 2 = 4", "two plus two equals four"),
        ("3 * 4", "three times four"),
        ("C++ and C#", "C plus plus and C sharp"),
        ("#5", "number five"),
        ("and/or snake_case", "and or snake case"),
    ],
)
def test_abbreviations_units_and_signs(written: str, read: str) -> None:
    assert normalise(written, "en") == read


def test_pictographs_are_not_read() -> None:
    assert normalise("Hi 👩‍💻 there 🇬🇧!", "en") == "Hi there!"


def test_other_languages_keep_their_figures() -> None:
    assert normalise("3,5 km & mehr", "de") == "3,5 km & mehr"
