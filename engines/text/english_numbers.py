"""English words for figures: cardinals, ordinals, years, decimals, money. num2words spells; this composes.

Every function takes the figures as they are written, thousands separators included.
"""

from num2words import num2words

from audiocpp.engines.text.english_vocabulary import CURRENCIES

_LONGEST_READ_AS_NUMBER = 15
"""Digits; longer figures are codes rather than quantities and are read digit by digit."""


def _number(figures: str) -> int:
    return int(figures.replace(",", ""))


def cardinal(figures: str) -> str:
    """`3,497` -> three thousand four hundred and ninety-seven. `007` and over-long figures -> digit by digit."""
    digits = figures.replace(",", "")
    if len(digits) > _LONGEST_READ_AS_NUMBER or (len(digits) > 1 and digits[0] == "0"):
        return spelled(digits)
    return str(num2words(int(digits))).replace(",", "")


def spelled(figures: str) -> str:
    """`2671` -> two six seven one. What is not a digit is left out."""
    return " ".join(str(num2words(int(digit))) for digit in figures if digit.isdigit())


def decimal(whole: str, fraction: str) -> str:
    """`3`, `50` -> three point five zero. Either may be empty."""
    words = cardinal(whole) if whole else "zero"
    return f"{words} point {spelled(fraction)}" if fraction else words


def ordinal(figures: str) -> str:
    """`22` -> twenty-second."""
    digits = figures.replace(",", "")
    if len(digits) > _LONGEST_READ_AS_NUMBER:
        return spelled(digits)
    return str(num2words(int(digits), to="ordinal")).replace(",", "")


def year(figures: str) -> str:
    """`1999` -> nineteen ninety-nine."""
    return str(num2words(int(figures), to="year"))


def decade(figures: str) -> str:
    """`1990` -> nineteen nineties."""
    words = year(figures)
    return f"{words[:-1]}ies" if words.endswith("y") else f"{words}s"


def fraction(above: str, below: str) -> str:
    """`3`, `4` -> three quarters. `below` is 2 or more."""
    names = {2: "half", 4: "quarter"}
    name = names.get(_number(below)) or ordinal(below)
    if _number(above) == 1:
        return f"one {name}"
    return f"{cardinal(above)} {'halves' if name == 'half' else name + 's'}"


def money(symbol: str, whole: str, hundredths: str, *, scale: str = "") -> str:
    """`$`, `99,070`, `01`, `` -> ninety-nine thousand and seventy dollars and one cent.

    With a scale (`million`), or with other than two decimals, the amount is read as a decimal number of units.
    """
    one, many, one_hundredth, many_hundredths = CURRENCIES[symbol]
    if scale or len(hundredths) not in (0, 2):
        return " ".join(filter(None, (decimal(whole, hundredths), scale, many)))
    parts = []
    if _number(whole) or not hundredths.strip("0"):
        parts.append(f"{cardinal(whole)} {one if _number(whole) == 1 else many}")
    if hundredths.strip("0"):
        count = int(hundredths)
        parts.append(f"{cardinal(str(count))} {one_hundredth if count == 1 else many_hundredths}")
    return " and ".join(parts)


def clock(hour: str, minute: str, second: str = "") -> str:
    """`14`, `05` -> fourteen oh five; `9`, `00` -> nine o'clock."""
    words = [cardinal(str(int(hour)))]
    if int(minute):
        words.append(f"oh {cardinal(minute[1])}" if minute[0] == "0" else cardinal(minute))
    elif second:
        words.append("oh oh")
    else:
        words.append("o'clock")
    if second:
        words.append(f"and {cardinal(str(int(second)))} second{'' if int(second) == 1 else 's'}")
    return " ".join(words)
