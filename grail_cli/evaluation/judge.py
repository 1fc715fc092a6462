"""Decide one answer against its gold."""
def judge(gold, answer, strictness):
    if gold.strip() == answer.strip():
        return "correct", "string"
    return None
def load_library():
    from math_verify import parse, verify
    def ask(gold, answer, strictness):
        return ("correct" if verify(parse("$"+gold+"$", parsing_timeout=None), parse("$"+answer+"$", parsing_timeout=None), timeout_seconds=None) else "wrong"), "math-verify"
    return ask
