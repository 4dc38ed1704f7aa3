"""The words that English abbreviations, units and signs stand for. Data only."""

MONTHS = (
    "January", "February", "March", "April", "May", "June",
    "July", "August", "September", "October", "November", "December",
)  # fmt: skip

ABBREVIATIONS = {
    "dr": "Doctor", "mr": "Mister", "mrs": "Missis", "ms": "Miz", "prof": "Professor", "gen": "General",
    "sen": "Senator", "rev": "Reverend", "capt": "Captain", "lt": "Lieutenant", "col": "Colonel", "sgt": "Sergeant",
    "gov": "Governor", "mt": "Mount", "jr": "Junior", "sr": "Senior", "inc": "Incorporated", "ltd": "Limited",
    "dept": "department", "approx": "approximately", "etc": "et cetera", "vs": "versus", "cf": "compare",
    "viz": "namely", "ave": "Avenue", "blvd": "Boulevard", "e.g": "for example", "i.e": "that is",
}  # fmt: skip
"""Read so when a full stop follows."""

BEFORE_FIGURES = {
    "no": "number", "nos": "numbers", "fig": "figure", "vol": "volume", "ch": "chapter", "p": "page", "pp": "pages",
    "sec": "section", "eq": "equation", "art": "article",
}  # fmt: skip
"""Read so when a full stop and a figure follow."""

UNITS = {
    "km/h": ("kilometer per hour", "kilometers per hour"), "mph": ("mile per hour", "miles per hour"),
    "km": ("kilometer", "kilometers"), "cm": ("centimeter", "centimeters"), "mm": ("millimeter", "millimeters"),
    "m": ("meter", "meters"), "kg": ("kilogram", "kilograms"), "mg": ("milligram", "milligrams"),
    "g": ("gram", "grams"), "ml": ("milliliter", "milliliters"), "l": ("liter", "liters"), "lb": ("pound", "pounds"),
    "lbs": ("pound", "pounds"), "oz": ("ounce", "ounces"), "ft": ("foot", "feet"),
    "ms": ("millisecond", "milliseconds"), "s": ("second", "seconds"), "min": ("minute", "minutes"),
    "h": ("hour", "hours"), "Hz": ("hertz", "hertz"), "kHz": ("kilohertz", "kilohertz"),
    "MHz": ("megahertz", "megahertz"), "GHz": ("gigahertz", "gigahertz"), "kB": ("kilobyte", "kilobytes"),
    "KB": ("kilobyte", "kilobytes"), "MB": ("megabyte", "megabytes"), "GB": ("gigabyte", "gigabytes"),
    "TB": ("terabyte", "terabytes"), "°C": ("degree Celsius", "degrees Celsius"),
    "°F": ("degree Fahrenheit", "degrees Fahrenheit"), "°": ("degree", "degrees"), "%": ("percent", "percent"),
}  # fmt: skip
"""Unit as written after a figure -> singular and plural."""

CURRENCIES = {
    "$": ("dollar", "dollars", "cent", "cents"),
    "€": ("euro", "euros", "cent", "cents"),
    "£": ("pound", "pounds", "penny", "pence"),
    "₹": ("rupee", "rupees", "paisa", "paise"),
    "¥": ("yen", "yen", "sen", "sen"),
}
"""Symbol -> singular and plural of the unit and of its hundredth."""

SCALES = {
    "k": "thousand", "m": "million", "b": "billion", "bn": "billion", "tn": "trillion",
    "thousand": "thousand", "million": "million", "billion": "billion", "trillion": "trillion",
}  # fmt: skip
"""What may follow an amount of money, in lower case."""

ADDRESS_SIGNS = {
    ".": "dot", "/": "slash", "-": "dash", "_": "underscore", "@": "at", ":": "colon", "?": "question mark",
    "=": "equals", "&": "and", "#": "hash", "%": "percent", "~": "tilde", "+": "plus",
}  # fmt: skip
"""How the signs of a URL or an e-mail address are read."""

SIGNS = {
    "&": "and", "@": "at", "=": "equals", "<": "less than", ">": "greater than", "+": "plus", "×": "times",
    "÷": "divided by", "±": "plus or minus", "≈": "approximately", "≤": "at most", "≥": "at least",
    "≠": "does not equal", "²": "squared", "³": "cubed", "%": "percent", "°": "degrees", "$": "dollars", "€": "euros",
    "£": "pounds", "¥": "yen", "₹": "rupees", "#": "number",
}  # fmt: skip
"""How a sign is read that no other rule knew."""

FRACTIONS = {
    "½": "1/2", "¼": "1/4", "¾": "3/4", "⅓": "1/3", "⅔": "2/3", "⅛": "1/8", "⅜": "3/8", "⅝": "5/8", "⅞": "7/8",
}  # fmt: skip

LETTERS = {
    "b": "bee", "c": "see", "d": "dee", "e": "ee", "f": "eff", "g": "gee", "h": "aitch", "j": "jay", "k": "kay",
    "l": "el", "m": "em", "n": "en", "p": "pee", "q": "cue", "r": "are", "s": "ess", "t": "tee", "u": "you", "v": "vee",
    "w": "double-you", "x": "ex", "y": "why", "z": "zee",
}  # fmt: skip
"""The names of letters, spelled as words that are read like them. What is not here is a word as well."""
