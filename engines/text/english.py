"""Turns the figures, dates, times, money, addresses, abbreviations and signs of an English sentence into words.

An ordered table of rules: each leaves words behind, so a later rule meets only what the earlier ones did not know.
Acronyms are left to the phonemizer. The costs of the patterns are bounded by the length of a sentence, which the caller
limits.
"""

import re
from collections.abc import Callable, Iterable
from datetime import date
from functools import partial

from audiocpp.engines.text import english_numbers as numbers
from audiocpp.engines.text.english_vocabulary import (
    ABBREVIATIONS,
    ADDRESS_SIGNS,
    BEFORE_FIGURES,
    FRACTIONS,
    MONTHS,
    SCALES,
    SIGNS,
    UNITS,
)

Match = re.Match[str]
Rule = tuple[re.Pattern[str], str | Callable[[Match], str]]

_DAY_FIRST_REGIONS = ("-GB", "-AU", "-NZ", "-IE", "-IN", "-ZA")

# Only whole runs of digits: a long one would be scanned once per digit by a rule that needs more than figures.
_FIGURES = r"(?<!\d)(?:\d{1,3}(?:,\d{3})+(?!\d)|\d++)"
_MONTH = r"(?P<month>(?:Jan|Feb|Mar|Apr|Jun|Jul|Aug|Sept?|Oct|Nov|Dec)(?=[.\s])|" + "|".join(MONTHS) + ")"
_DAY = r"(?P<day>[12]\d|3[01]|0?[1-9])(?:st|nd|rd|th)?"
_YEAR = r"(?P<year>1[1-9]\d\d|20\d\d)"
_COUNTED_THINGS = r"\s+(?!(?:as|has|his|is|its|this|was)\b)[a-z]+s\b"
_BEFORE_A_YEAR = "in|since|by|until|till|year|during|circa|before|after"
_ADDRESS_END = r"[^\s<>\"']{0,500}[\w/]"
_TOP_LEVEL = r"(?:com|org|net|edu|gov|io|dev|ai|app|info|co|uk|de|fr|eu|us|ca|au|me|tv)"


def normalise_english(text: str, language: str) -> str:
    """The sentence `text` in words. `language` (BCP-47) tells whether 11/12/2026 is in November (US) or December."""
    day_first = language.replace("_", "-").upper().endswith(_DAY_FIRST_REGIONS)
    for pattern, replacement in (*_ADDRESSES, _SLASH_DATE[day_first], *_RULES):
        text = pattern.sub(replacement, text)
    return text


def _address(match: Match) -> str:
    address = re.sub(r"^(?:(?:https?|ftp)://|mailto:)", "", match.group(), flags=re.IGNORECASE).rstrip("/")
    return re.sub(r"[^\w\s]|_", lambda sign: f" {ADDRESS_SIGNS.get(sign.group(), '')} ", address)


def _calendar_date(match: Match, *, month_at: int) -> str:
    """A date in figures. `month_at` is the group of the month; day and month change places when it cannot be one."""
    month, day, year = match[month_at], match[3 - month_at], match[3]
    if int(month) > 12:
        month, day = day, month
    try:
        when = date(int(year), int(month), int(day))
    except ValueError:
        return match.group()
    return _named_date(MONTHS[when.month - 1], day, year)


def _iso_date(match: Match) -> str:
    try:
        when = date(int(match["year"]), int(match[2]), int(match[3]))
    except ValueError:
        return match.group()
    return _named_date(MONTHS[when.month - 1], match[3], match["year"])


def _named_date(month: str, day: str, year: str | None) -> str:
    words = f"{month} {numbers.ordinal(day)}"
    return f"{words}, {numbers.year(year)}" if year else words


def _full_month(abbreviated: str) -> str:
    return next(month for month in MONTHS if month.startswith(abbreviated[:3]))


def _month_day(match: Match) -> str:
    return _named_date(_full_month(match["month"]), match["day"], match["year"])


def _day_month(match: Match) -> str:
    words = f"the {numbers.ordinal(match['day'])} of {_full_month(match['month'])}"
    return f"{words}, {numbers.year(match['year'])}" if match["year"] else words


def _half_day(match: Match) -> str:
    hour, minute, half = str(int(match["hour"])), match["minute"], match["half"].upper()
    spoken = numbers.clock(hour, minute) if minute and int(minute) else numbers.cardinal(hour)
    return f"{spoken} {half} M"


def _telephone(match: Match) -> str:
    groups = [numbers.spelled(group) for group in re.findall(r"\d+", match.group())]
    return ("plus " if match.group().startswith("+") else "") + ", ".join(groups)


def _money(match: Match) -> str:
    sign = "minus " if match["minus"] else ""
    scale = SCALES[match["scale"].lower()] if match["scale"] else ""
    return sign + numbers.money(match["symbol"], match["whole"], match["hundredths"] or "", scale=scale)


def _money_after(match: Match) -> str:
    return numbers.money(match["symbol"], match["whole"], match["hundredths"] or "")


def _measure(match: Match) -> str:
    one, many = UNITS[match["unit"]]
    return f"{match['figures']} {one if match['figures'] == '1' else many}"


def _slashed(match: Match) -> str:
    above, below = match.groups()
    if 0 < int(above) < int(below) <= 10:
        return numbers.fraction(above, below)
    return f"{numbers.cardinal(above)} {numbers.cardinal(below)}"


def _year_range(match: Match) -> str:
    first, last = match["year"], match["last"]
    return f"{numbers.year(first)} to {numbers.year(last if len(last) == 4 else first[:2] + last)}"


def _before_end(match: Match, word: str) -> str:
    """`word` in place of an abbreviation; its full stop stays when it also ends the sentence."""
    return word if match.string[match.end() :].strip() else f"{word}."


def _abbreviation(match: Match) -> str:
    return _before_end(match, ABBREVIATIONS[match[1].lower()])


def _initials(match: Match) -> str:
    return _before_end(match, " ".join(match.group().replace(".", "")).upper())


def _version(match: Match) -> str:
    return " point ".join(numbers.cardinal(part) for part in match.group().split("."))


def _apart(match: Match, words: str) -> str:
    """`words` in place of the match, apart from letters that touch it: `MP3` -> MP three."""
    before = match.string[match.start() - 1 : match.start()]
    after = match.string[match.end() : match.end() + 1]
    return f"{' ' if before.isalpha() else ''}{words}{' ' if after.isalpha() else ''}"


def _decimal(match: Match) -> str:
    return _apart(match, numbers.decimal(match[1] or "", match[2]))


def _cardinal(match: Match) -> str:
    return _apart(match, numbers.cardinal(match.group()))


def _sign(match: Match) -> str:
    return f" {SIGNS.get(match.group(), '')} "


def _alternatives(words: Iterable[str]) -> str:
    return "|".join(re.escape(word) for word in sorted(words, key=len, reverse=True))


_ADDRESSES: tuple[Rule, ...] = (
    (re.compile(rf"\b(?:(?:https?|ftp)://|mailto:|www\.){_ADDRESS_END}", re.IGNORECASE), _address),
    (re.compile(r"\b[\w.+-]{1,64}@[\w-]{1,63}(?:\.[\w-]{1,63}){1,8}\b"), _address),
    (re.compile(rf"\b(?:[A-Za-z0-9-]{{1,63}}\.){{1,8}}{_TOP_LEVEL}\b(?:/{_ADDRESS_END}|/)?(?!\.?\w)"), _address),
)

_SLASH_DATE: dict[bool, Rule] = {
    day_first: (
        re.compile(r"(?<![\d/])(\d{1,2})/(\d{1,2})/(\d{4})(?![\d/])"),
        partial(_calendar_date, month_at=2 if day_first else 1),
    )
    for day_first in (False, True)
}

_RULES: tuple[Rule, ...] = (
    (re.compile("[−‐‑]"), "-"),
    (re.compile("(?<=\\d)\\s?([" + "".join(FRACTIONS) + "])"), lambda match: f" and {FRACTIONS[match[1]]}"),
    (re.compile("[" + "".join(FRACTIONS) + "]"), lambda match: FRACTIONS[match.group()]),
    # Dates.
    (re.compile(rf"(?<![\d-]){_YEAR}-(\d\d)-(\d\d)(?![\d-])(?:T(?=\d))?"), lambda match: f"{_iso_date(match)} "),
    (re.compile(rf"\b{_MONTH}\.?\s+{_DAY}(?![\w:]|[.,]\d)(?:,?\s+{_YEAR}\b)?"), _month_day),
    (re.compile(rf"(?:\b[Tt]he\s+)?(?<![\w.,:$€£-]){_DAY}\s+(?:of\s+)?{_MONTH}(?:\.(?=\s*[\d,]))?(?:,?\s+{_YEAR}\b)?"),
     _day_month),
    (re.compile(rf"\b{_MONTH}\.?,?\s+{_YEAR}\b"),
     lambda match: f"{_full_month(match['month'])} {numbers.year(match['year'])}"),
    # Times.
    (re.compile(r"\b(?P<hour>1[0-2]|0?[1-9])(?::(?P<minute>[0-5]\d))?\s?(?P<half>[ap])(?:\.\s?m\b(?:\.(?=\s*\S))?|m\b)",
                re.IGNORECASE), _half_day),
    (re.compile(r"(?<![\d:.])([01]?\d|2[0-3]):([0-5]\d)(?::([0-5]\d))?(?![\d:])"),
     lambda match: numbers.clock(match[1], match[2], match[3] or "")),
    # Telephone numbers.
    (re.compile(r"\+\d{1,3}(?:[ .-]?\(?\d{2,4}\)?){2,5}\b"), _telephone),
    (re.compile(r"(?<![\w.-])(?:\(\d{3}\)\s?|(?:1-)?\d{3}[-.])?\d{3}[-.]\d{4}(?![\w-]|\.\d)"), _telephone),
    # Money.
    (re.compile(r"(?<=\d)\s?[-–]\s?(?=[$€£¥₹]\d)"), " to "),
    (re.compile(rf"(?P<minus>-)?(?P<symbol>[$€£¥₹])\s?(?P<whole>{_FIGURES})(?:\.(?P<hundredths>\d+))?"
                r"(?:\s?(?P<scale>thousand|million|billion|trillion|bn|tn|[kKmMbB])\b)?"), _money),
    (re.compile(rf"(?P<whole>{_FIGURES})(?:\.(?P<hundredths>\d+))?\s?(?P<symbol>[€£₹])"), _money_after),
    # Abbreviations.
    (re.compile(rf"\b({_alternatives(ABBREVIATIONS)})\.", re.IGNORECASE), _abbreviation),
    (re.compile(rf"\b({_alternatives(BEFORE_FIGURES)})\.?\s?(?=\d)", re.IGNORECASE),
     lambda match: f"{BEFORE_FIGURES[match[1].lower()]} " if "." in match.group() else match.group()),
    (re.compile(r"(?<=\d)((?:\s[A-Z]\w{0,30}){1,3}\s)St\.(?=\s+[A-Z])"), r"\1Street."),
    (re.compile(r"\bSt\.(?=\s+[A-Z])"), "Saint"),
    (re.compile(r"\bSt\.(?=\s+\S)"), "Street"),
    (re.compile(r"\bSt\.(?=\s*$)"), "Street."),
    (re.compile(r"\b(?:[A-Za-z]\.){2,}"), _initials),
    (re.compile(r"\b([A-Z])\.(?=\s+[A-Z])"), r"\1"),
    # Figures.
    (re.compile(rf"\b{_YEAR}s\b"), lambda match: numbers.decade(match["year"])),
    (re.compile(rf"(?<![\d-]){_YEAR}[-–](?P<last>1[1-9]\d\d|20\d\d|\d\d)(?![\d-])"), _year_range),
    (re.compile(r"(?<=[\d%])\s?–\s?(?=[\d.])"), " to "),
    (re.compile(rf"(?<![\d-])({_FIGURES}(?:\.\d+)?%?)-(?={_FIGURES}(?:\.\d+)?(?![\d-]))"), r"\1 to "),
    (re.compile(rf"(?<![\w.,])(?P<figures>{_FIGURES}(?:\.\d+)?)\s?(?P<unit>{_alternatives(UNITS)})(?![\w°])"),
     _measure),
    (re.compile(r"(?<![\w.])-(?=\.?\d)"), "minus "),
    (re.compile(r"#(?=\d)"), "number "),
    (re.compile(rf"({_FIGURES})(?:st|nd|rd|th)\b"), lambda match: numbers.ordinal(match[1])),
    (re.compile(rf"(\b(?:{_BEFORE_A_YEAR})\s){_YEAR}(?![\w%]|[.,]\d)", re.IGNORECASE),
     lambda match: match[1] + numbers.year(match["year"])),
    (re.compile(rf"(?<![\w.,])(?P<year>19\d\d|20\d\d)(?![\w%]|[.,]\d|{_COUNTED_THINGS})"),
     lambda match: numbers.year(match["year"])),
    (re.compile(r"(?<![\d./])(\d{1,4})/(\d{1,4})(?![\d/]|\.\d)"), _slashed),
    (re.compile(r"(?<![\w.])\d+(?:\.\d+){2,}(?![\d])"), _version),
    (re.compile(rf"({_FIGURES})?\.(\d+)"), _decimal),
    (re.compile(_FIGURES), _cardinal),
    # Signs.
    (re.compile(r"\bC\+\+"), "C plus plus"),
    (re.compile(r"\b([CF])#"), r"\1 sharp"),
    (re.compile(r"(?<=\w)\s?\*\s?(?=\w)"), " times "),
    (re.compile(f"[{re.escape(''.join(SIGNS))}*/\\\\|_^~{{}}\\[\\]]"), _sign),
)  # fmt: skip
