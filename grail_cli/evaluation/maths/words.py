"""Words in answers: unit names and their sizes, number words, phrases that introduce a value, texts made equal."""

import re
from fractions import Fraction

# name -> (dimension, size in the dimension's base). Only units that can stand for one another need a size.
_SIZES: dict[str, tuple[str, Fraction]] = {}
for _dimension, _names in {
    "length": {
        "mm": "1/1000",
        "cm": "1/100",
        "m": 1,
        "km": 1000,
        "in": "127/5000",
        "ft": "381/1250",
        "yd": "1143/1250",
        "mi": "201168/125",
    },
    "time": {"s": 1, "min": 60, "h": 3600, "day": 86400, "week": 604800, "ms": "1/1000"},
    "mass": {"mg": "1/1000", "g": 1, "kg": 1000, "lb": "45359237/100000", "oz": "45359237/1600000"},
    "volume": {"mL": "1/1000", "L": 1},
    "money": {"dollar": 1, "cent": "1/100"},
    "energy": {"J": 1, "kJ": 1000},
    "power": {"W": 1, "kW": 1000},
    "force": {"N": 1, "kN": 1000},
    "pressure": {"Pa": 1, "kPa": 1000},
    "frequency": {"Hz": 1, "kHz": 1000},
    "angle": {"degree": 1},
    "radian": {"rad": 1},
}.items():
    for _name, _size in _names.items():
        _SIZES[_name] = (_dimension, Fraction(_size))

# fmt: off
_ALIASES = {
    "millimeter": "mm", "millimetre": "mm", "centimeter": "cm", "centimetre": "cm", "meter": "m",
    "metre": "m", "kilometer": "km", "kilometre": "km", "inch": "in", "inche": "in", "foot": "ft",
    "feet": "ft", "yard": "yd", "mile": "mi", "second": "s", "sec": "s", "minute": "min", "hour": "h",
    "hr": "h", "day": "day", "week": "week", "gram": "g", "kilogram": "kg", "pound": "lb", "ounce": "oz",
    "milliliter": "mL", "liter": "L", "litre": "L", "ml": "mL", "dollar": "dollar", "buck": "dollar",
    "cent": "cent", "joule": "J", "watt": "W", "newton": "N", "pascal": "Pa", "hertz": "Hz",
    "degree": "degree", "deg": "degree", "°": "degree", "radian": "rad", "mph": "mi/h", "kph": "km/h",
    "kmh": "km/h", "sq": "square", "cu": "cubic", "mins": "min", "usd": "dollar", "percent": "%", "unit": "",
    "lbs": "lb", "meters": "m", "inches": "in", "pts": "point",
}
# units that are known when written in plain letters behind a number and a blank (never a bare letter)
PLAIN_UNITS = {
    "cm", "mm", "km", "kg", "mi", "ft", "lb", "lbs", "oz", "hr", "hrs", "sec", "mph", "kph", "mL", "ml",
    "kJ", "kPa", "Hz", "yd", "usd",
}

_ONES = (
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen "
    "seventeen eighteen nineteen twenty"
).split()
NUMBER_WORDS = {
    **{word: i for i, word in enumerate(_ONES)}, "thirty": 30, "forty": 40, "fifty": 50, "sixty": 60,
    "seventy": 70, "eighty": 80, "ninety": 90, "hundred": 100, "thousand": 1000,
}
BASE_WORDS = {**NUMBER_WORDS, "binary": 2, "octal": 8, "decimal": 10, "hex": 16, "sixteen": 16}

_NO_SOLUTION = {
    "no solution", "no solutions", "no real solution", "no real solutions", "none", "nosolution",
    "empty set", "there is no solution", "there are no solutions", "no such solution", "inconsistent",
    "empty", "the empty set",
}
_ALL_REALS = {
    "all real numbers", "all reals", "all real number", "real numbers", "the real numbers",
    "every real number", "all real x", "all real values", "r", "set of all real numbers",
    "the set of all real numbers",
}
_UNDEFINED = {"undefined", "does not exist", "dne", "not defined"}
# fmt: on
_INTRODUCTION = re.compile(
    r"(?:^|\b)(?:is|are|be|equals?|at|of|about|approximately|to|answer|solutions?|=|:|roughly|exactly"
    r"|option|choice)\s*:?\s*$|[:=]\s*$",
    re.I,
)
APPROXIMATELY = re.compile(r"^\W*(?:approximately|approx|about|roughly|exactly|nearly)?\W*$", re.I)


def introduces_value(text: str) -> bool:
    """Whether a text only leads to the value behind it: `The mode is`, `Solution is:`, `approximately`."""
    return bool(_INTRODUCTION.search(text.strip()) or APPROXIMATELY.match(text.strip()))


def plain_words(text: str) -> str:
    """A text in lower case, without LaTeX, punctuation, articles; one blank between words."""
    text = re.sub(r"\\(?:text|mathrm|operatorname|mathbf)\s*\{|\\[a-zA-Z]+|[{}]", " ", text)
    text = re.sub(r"[^\w\s%/'+-]", " ", text.lower())
    text = re.sub(r"\b(?:the|a|an)\b", " ", text)
    return " ".join(text.split())


def meaning(text: str) -> str | None:
    """`empty`, `reals` or `undefined` for the phrases that say so, else None."""
    words = " ".join(
        re.sub(r"[^\w\s]", " ", re.sub(r"\\(?:text|mathrm)\s*\{|[{}]", " ", text).lower()).split()
    )
    if words in _NO_SOLUTION:
        return "empty"
    if words in _ALL_REALS and words != "r":
        return "reals"
    return "undefined" if words in _UNDEFINED else None


def unit(text: str) -> str:
    """A unit in one spelling: `square feet`, `ft^2`, `sq. ft` -> `ft^2`; `miles per hour`, `mph` -> `mi/h`."""
    text = re.sub(r"\\(?:text|mathrm|operatorname|mathbf|rm)\s*|[{}()\[\]]|\\[,;: !]|~", " ", text)
    text = re.sub(r"\bper\b|\\?/", " / ", text).replace("\\cdot", " ").replace("*", " ")
    text = re.sub(r"\^\s*", "^", text)
    parts = []
    square = ""
    for word in text.replace("/", " / ").split():
        word = word.strip(".,;:!")
        if word == "/":
            parts.append("/")
            continue
        power = ""
        if "^" in word:
            word, power = word.split("^", 1)
        name = _unit_name(word)
        if name in ("square", "squared", "cubic", "cubed"):
            mark = "2" if name.startswith("square") else "3"
            if name.endswith("ed") and parts:
                parts[-1] += "^" + mark
            else:
                square = "^" + mark
            continue
        if name:
            parts.append(name + (("^" + power) if power else square))
            square = ""
    return " ".join(parts).replace(" / ", "/")


def _unit_name(word: str) -> str:
    if word in _SIZES:
        return word
    low = word.lower()
    for candidate in (low, low.removesuffix("s"), low.removesuffix("es")):
        if candidate in _ALIASES:
            return _ALIASES[candidate]
    return low.removesuffix("s") if len(low) > 3 else low


def unit_scale(one: str, other: str) -> Fraction | None:
    """How many `other` one `one` is, for two units of one dimension; None when they cannot be turned into
    each other.
    """
    if one == other:
        return Fraction(1)
    scale = Fraction(1)
    parts, others = one.split("/"), other.split("/")
    if len(parts) != len(others):
        return None
    for position, (a, b) in enumerate(zip(parts, others, strict=True)):
        (name_a, _, power_a), (name_b, _, power_b) = a.partition("^"), b.partition("^")
        if power_a != power_b or name_a not in _SIZES or name_b not in _SIZES:
            return None
        (kind_a, size_a), (kind_b, size_b) = _SIZES[name_a], _SIZES[name_b]
        if kind_a != kind_b:
            return None
        factor = (size_a / size_b) ** (int(power_a) if power_a.isdigit() else 1)
        scale = scale * factor if position == 0 else scale / factor
    return scale


def known_unit(name: str) -> bool:
    """Whether every part of a unit in `unit`'s spelling is one whose size is known."""
    return bool(name) and all(part.partition("^")[0] in _SIZES for part in re.split(r"[ /]", name) if part)
