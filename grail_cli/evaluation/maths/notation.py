"""One spelling for what only looks different: wrappers, styles, Unicode, spacing, digit groups, trailing
points.

`clean` keeps the meaning and the LaTeX; everything later reads its output. `letters` is the text without spacing, for
answers that are equal letter by letter.
"""

import re
import unicodedata

# fmt: off
_UNICODE = {
    "−": "-", "–": "-", "—": "-", "‐": "-", "‑": "-", "﹣": "-", "×": r"\times ", "·": r"\cdot ",
    "⋅": r"\cdot ", "∙": r"\cdot ", "∗": "*", "÷": "/", "∕": "/", "⁄": "/", "±": r"\pm ", "∓": r"\mp ",
    "≤": r"\le ", "⩽": r"\le ", "≦": r"\le ", "≥": r"\ge ", "⩾": r"\ge ", "≧": r"\ge ", "≠": r"\ne ",
    "≈": r"\approx ", "≅": r"\approx ", "∞": r"\infty ", "∪": r"\cup ", "∩": r"\cap ", "∈": r"\in ",
    "∉": r"\notin ", "∅": r"\emptyset ", "⌀": r"\emptyset ", "ø": r"\emptyset ", "Ø": r"\emptyset ",
    "∖": r"\setminus ", "⊂": r"\subset ", "⊆": r"\subseteq ", "→": r"\to ", "⇒": r"\Rightarrow ",
    "°": r"^\circ ", "º": r"^\circ ", "˚": r"^\circ ", "′": "'", "’": "'", "‘": "'", "“": '"', "”": '"',
    "″": "''", "…": r"\ldots ", "⋯": r"\ldots ", "ℝ": r"\mathbb{R}", "ℤ": r"\mathbb{Z}", "ℕ": r"\mathbb{N}",
    "ℚ": r"\mathbb{Q}", "ℂ": r"\mathbb{C}", "∑": r"\sum ", "∏": r"\prod ", "∫": r"\int ", "∂": r"\partial ",
    "∆": r"\Delta ", "∠": r"\angle ", "⌊": r"\lfloor ", "⌋": r"\rfloor ", "⌈": r"\lceil ", "⌉": r"\rceil ",
    "⟨": r"\langle ", "⟩": r"\rangle ", "∣": "|", "％": "%", "，": ",", "；": ";", "：": ":", "（": "(", "）": ")",
    "｛": r"\{", "｝": r"\}", "［": "[", "］": "]", "＝": "=", "＋": "+", "＜": "<", "＞": ">", "／": "/", "．": ".",
    "。": ".", "、": ",", "¢": r"\text{ cents}", "∨": r"\text{ or }", "∧": r"\text{ and }", "ħ": r"\hbar ",
}
_GREEK_LETTERS = {
    "alpha": 0x3B1, "beta": 0x3B2, "gamma": 0x3B3, "delta": 0x3B4, "epsilon": 0x3B5, "zeta": 0x3B6,
    "eta": 0x3B7, "theta": 0x3B8, "iota": 0x3B9, "kappa": 0x3BA, "lambda": 0x3BB, "mu": 0x3BC, "nu": 0x3BD,
    "xi": 0x3BE, "pi": 0x3C0, "rho": 0x3C1, "sigma": 0x3C3, "tau": 0x3C4, "phi": 0x3C6, "chi": 0x3C7,
    "psi": 0x3C8, "omega": 0x3C9, "Gamma": 0x393, "Delta": 0x394, "Theta": 0x398, "Lambda": 0x39B,
    "Pi": 0x3A0, "Sigma": 0x3A3, "Phi": 0x3A6, "Psi": 0x3A8, "Omega": 0x3A9,
}
# fmt: on
_GREEK = {chr(code): f"\\{name} " for name, code in _GREEK_LETTERS.items()}
_TABLE = str.maketrans({**_UNICODE, **_GREEK})
_RAISED = {**{c: str(i) for i, c in enumerate("⁰¹²³⁴⁵⁶⁷⁸⁹")}, "⁻": "-", "⁺": "+", "ⁿ": "n"}
_LOWERED = {**{c: str(i) for i, c in enumerate("₀₁₂₃₄₅₆₇₈₉")}, "ₙ": "n"}
_INVISIBLE = re.compile("[\u200b-\u200f\u2060-\u2064\ufeff\u00ad\u202a-\u202e]")

_GROUP = r"\{((?:[^{}]|\{(?:[^{}]|\{[^{}]*\})*\})*)\}"  # a braced group with two further levels inside
_STYLE = (
    r"\\(?:mathbf|boldsymbol|bm|mathit|mathsf|mathtt|mathnormal|mathcal|mathscr|mathfrak|underline|"
    r"uline|emph|ensuremath|displaylimits|boxed|fbox|framebox|cancel|phantom|smash|mathstrut)"
)
_TEXT = r"\\(?:textbf|textit|textrm|textsf|texttt|textnormal|textup|textsc|mbox|hbox|text)"


def clean(text: str) -> str:
    """A text with one spelling for equal things; LaTeX commands and words stay."""
    text = _INVISIBLE.sub("", text)
    text = re.sub(r"[½¼¾⅓⅔⅕⅖⅗⅘⅙⅚⅛⅜⅝⅞]", _vulgar, text)
    text = re.sub(
        "[" + "".join(_RAISED) + "]+", lambda m: "^{" + "".join(_RAISED[c] for c in m.group()) + "}", text
    )
    text = re.sub(
        "[" + "".join(_LOWERED) + "]+", lambda m: "_{" + "".join(_LOWERED[c] for c in m.group()) + "}", text
    )
    text = re.sub(r"([√∛∜])\s*(\d+(?:\.\d+)?|[A-Za-z]|\([^()]*\))?", _root, text)
    text = unicodedata.normalize("NFKC", text.translate(_TABLE))
    text = text.translate(_TABLE)
    text = re.sub(r"\x08oxed", r"\\boxed", text)
    text = _rows(text)
    text = re.sub(r"\\(?:left|right|middle)\s*\.", " ", text)
    text = re.sub(r"\\(?:left|right|middle|[bB]igg?[lrm]?)(?![A-Za-z])\s*", "", text)
    text = re.sub(
        r"\\(?:limits|nolimits|displaystyle|textstyle|scriptstyle|bf|it|rm|sf|tt|large|Large|small"
        r"|normalsize|centering"
        r"|hfill|noindent|checkmark|qed|square|blacksquare)(?![A-Za-z])",
        " ",
        text,
    )
    text = re.sub(r"\\(?:color|textcolor|colorbox)\s*(?:\[[^\]]*\])?\{[^{}]*\}", "", text)
    text = re.sub(r"\\(?:label|tag)\*?\{[^{}]*\}", "", text)
    text = re.sub(r"\\[dtc]frac(?![A-Za-z])", r"\\frac", text)
    text = re.sub(r"\\[dt]binom(?![A-Za-z])", r"\\binom", text)
    text = re.sub(
        r"\\\$|\\text\{\s*\\?\$\s*\}|(?<![\\\w])USD(?!\w)|[€£]|\\(?:euro|pounds)(?![A-Za-z])",
        r"\\money ",
        text,
    )
    text = (
        text.replace("$", " ").replace(r"\(", " ").replace(r"\)", " ").replace(r"\[", " ").replace(r"\]", " ")
    )
    text = re.sub(r"\\(?:lvert|rvert|vert|mid)(?![A-Za-z])", "|", text)
    text = re.sub(r"\\(?:lbrack|rbrack)(?![A-Za-z])", lambda m: "[" if "l" in m.group()[1] else "]", text)
    text = re.sub(r"\\(?:lbrace|rbrace)(?![A-Za-z])", lambda m: r"\{" if m.group()[1] == "l" else r"\}", text)
    text = _unwrap_styles(text)
    text = re.sub(r"(\d)\s*(?:\{,\}|,\\!|\\!,)\s*(?:\\!)?\s*(?=\d{3}(?!\d))", r"\1", text)
    text = text.replace(r"\!", "")
    text = re.sub(
        r"(?<![\d.,^_\\])(?<![\^_]\{)(\d{1,3})((?:(?:\\[,; ]|~| )+\d{3})+)(?![\d])(?!\.\d)",
        lambda m: m.group(1) + re.sub(r"\D", "", m.group(2)),
        text,
    )
    text = re.sub(
        r"\\[,;:> ]|~|\\q?quad(?![A-Za-z])|\\(?:h|v)space\*?\{[^{}]*\}"
        r"|\\(?:thinspace|enspace|medspace)(?![A-Za-z])",
        " ",
        text,
    )
    text = re.sub(
        r"\\(?:degree|degrees|textdegree)(?![A-Za-z])|\^\s*\\circ(?![A-Za-z])|\^\{\s*\\circ\s*\}|\^\{?o\}?(?=\s*$)",
        r"\\deg ",
        text,
    )
    text = re.sub(r"\\(?:%|percent(?![A-Za-z]))", "%", text)
    text = re.sub(r"(?<=\d)\s*(?:\.\s*){3,}\s*$", "", text)
    return _trim(text)


def letters(cleaned: str) -> str:
    """A cleaned text without spacing, sign variants and text commands; digits stay apart where they were."""
    text = re.sub(r"\\text\{([^{}]*)\}", r"\1", cleaned)
    text = re.sub(r"\\(?:mathrm|operatorname)\{([^{}]*)\}", r"\1", text)
    text = re.sub(r"(?<=\d)\s+(?=\d)", "\x00", text)
    return re.sub(r"\s+", "", text).replace("\x00", " ")


def _rows(text: str) -> str:
    """`\\\\` as `\\row`; in a text without any environment a doubled backslash is one that was escaped
    twice.
    """
    if r"\begin" not in text or r"\\begin" in text:
        text = re.sub(r"\\\\(?=[A-Za-z{}%$])", r"\\", text)
    return re.sub(r"\\\\(?:\s*\[[^\]]*(?:pt|em|ex|mm|cm)\])?", r" \\row ", text)


def _vulgar(match: re.Match) -> str:
    above, below = unicodedata.normalize("NFKC", match.group()).split("\u2044")
    return rf"\frac{{{above}}}{{{below}}}"


def _root(match: re.Match) -> str:
    index = {"√": "", "∛": "[3]", "∜": "[4]"}[match.group(1)]
    inner = match.group(2)
    return rf"\sqrt{index}" + ("{" + inner + "}" if inner else "")


def _unwrap_styles(text: str) -> str:
    for _ in range(6):  # styles nest a few levels, no more
        before = text
        text = re.sub(_STYLE + r"\s*(?=\{)", "", text)
        text = re.sub(_TEXT + r"\s*\{", r"\\text{", text)
        text = re.sub(r"\\text\{\s*\\text\s*" + _GROUP + r"\s*\}", r"\\text{\1}", text)
        if text == before:
            break
    text = re.sub(r"\\(?:mathbf|boldsymbol|mathit|mathsf|mathcal)\s*(?=[A-Za-z\\])", "", text)
    return text.replace("**", " ") if text.strip().startswith("**") and text.strip().endswith("**") else text


def _trim(text: str) -> str:
    """Without the blanks, quotes and points around an answer, and without braces around the whole of it."""
    for _ in range(8):
        before = text
        text = text.strip()
        text = re.sub(r"(?<!\.)[.,;:]+$", "", text) if not text.endswith("...") else text
        text = re.sub(r"^(['\"`])(.*)\1$", r"\2", text, flags=re.S)
        text = re.sub(r"^\*+([^*]+)\*+$", r"\1", text)
        if text.startswith("{") and _closes_at_end(text):
            text = text[1:-1]
        if text == before:
            return text
    return text


def _closes_at_end(text: str) -> bool:
    depth = 0
    for match in re.finditer(r"\\.|[{}]", text, re.S):
        depth += {"{": 1, "}": -1}.get(match.group(), 0)
        if depth == 0:
            return match.end() == len(text) and match.group() == "}"
    return False
