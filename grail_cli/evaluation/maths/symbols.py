"""The tables of the tokenizer: names of functions, operators, relations and brackets, in LaTeX and plain text."""

# fmt: off
FUNCTIONS = {
    "sin", "cos", "tan", "cot", "sec", "csc", "arcsin", "arccos", "arctan", "arccot", "arcsec", "arccsc",
    "sinh", "cosh", "tanh", "coth", "sech", "csch", "ln", "log", "lg", "exp", "sqrt", "max", "min", "gcd",
    "lcm", "det", "arg", "sgn", "abs", "floor", "ceil", "arsinh", "arcosh", "artanh", "Re", "Im", "tr",
    "dim", "rank", "lim", "sup", "inf",
}
ALIASES = {
    "asin": "arcsin", "acos": "arccos", "atan": "arctan", "cosec": "csc", "tg": "tan", "ctg": "cot",
    "arctg": "arctan", "arcsinh": "arsinh", "arccosh": "arcosh", "arctanh": "artanh", "asinh": "arsinh",
    "acosh": "arcosh", "atanh": "artanh", "sign": "sgn", "ceiling": "ceil",
}
CONSTANTS = {
    "pi": r"\pi", "infty": r"\infty", "infinity": r"\infty", "oo": r"\infty", "imath": "i", "jmath": "j",
}
PLAIN_GREEK = {"theta", "alpha", "beta", "gamma", "lambda", "omega", "phi", "sigma", "delta", "rho"}
RELATIONS = {
    "=": "=", "<": "<", ">": ">", r"\le": "<=", r"\leq": "<=", r"\leqslant": "<=", r"\ge": ">=",
    r"\geq": ">=", r"\geqslant": ">=", r"\ne": "!=", r"\neq": "!=", r"\approx": "~", r"\in": "in",
    r"\equiv": "===", r"\lt": "<", r"\gt": ">", r"\simeq": "~", r"\cong": "~", r"\doteq": "~",
    r"\notin": "notin", r"\subset": "sub", r"\subseteq": "sub", r"\to": "->", r"\rightarrow": "->",
    r"\Rightarrow": "=>", r"\sim": "dist", r"\propto": "prop", r"\ll": "<<", r"\gg": ">>",
    r"\leftrightarrow": "<->", r"\Leftrightarrow": "<=>", r"\iff": "<=>", r"\leqq": "<=", r"\geqq": ">=",
    r"\perp": "perp", r"\parallel": "par", r"\coloneqq": "=", r"\mapsto": "->", r"\implies": "=>",
}
PLAIN_OPERATORS = [
    ("<=>", r"\iff"), ("<=", r"\le"), (">=", r"\ge"), ("=<", r"\le"), ("!=", r"\ne"), ("==", "="),
    ("~=", r"\approx"), ("+/-", r"\pm"), ("**", "^"), ("->", r"\to"), (":=", "="), ("...", r"\ldots"),
]
OPERATORS = {
    r"\cdot": "*", r"\times": "*", r"\ast": "*", r"\bullet": "*", r"\div": "/", r"\pm": "pm", r"\mp": "mp",
    r"\cup": "cup", r"\bigcup": "cup", r"\cap": "cap", r"\setminus": "setminus", r"\backslash": "setminus",
    r"\bmod": "mod", r"\pmod": "pmod", r"\mod": "mod", r"\over": "over", r"\choose": "choose",
    r"\ldots": "dots", r"\dots": "dots", r"\cdots": "dots", r"\dotsc": "dots", r"\dotsb": "dots",
    r"\vdots": "dots", r"\deg": "deg", r"\prime": "'", r"\or": "sep", r"\lor": "sep", r"\vee": "sep",
    r"\land": "sep", r"\wedge": "sep", r"\money": "money", r"\circ": "circ", r"\hline": "", r"\relax": "",
    r"\null": "", r"\nonumber": "", r"\colon": ":", r"\par": "", r"\newline": "sep", r"\row": "row",
}
BRACKETS = {
    "(": ("open", "("), "[": ("open", "["), r"\{": ("open", r"\{"), r"\langle": ("open", "<"),
    ")": ("close", ")"), "]": ("close", "]"), r"\}": ("close", r"\}"), r"\rangle": ("close", ">"),
    r"\lfloor": ("open", "floor"), r"\rfloor": ("close", "floor"), r"\lceil": ("open", "ceil"),
    r"\rceil": ("close", "ceil"), "{": ("open", "{"), "}": ("close", "}"), r"\lgroup": ("open", "("),
    r"\rgroup": ("close", ")"),
}
SHORT_WORDS = {"is", "if", "at", "of", "no", "to", "in", "am", "pm"}
UNITS_TOO = {"min", "sec", "tr", "Re", "deg"}  # in roman type these are units, not functions
ACCENTS = {
    "hat", "vec", "bar", "dot", "ddot", "tilde", "widehat", "widetilde", "overrightarrow", "overline",
    "underbar", "check",
}
# fmt: on
