"""Two hundred answers made to hang, fill or crash a grader: towers, factorials, long lists, deep brackets, code."""

import random


def hostile_answers() -> list[str]:
    """200 different answers, always the same ones."""
    rng = random.Random(7)
    made = []
    for base in range(2, 12):
        made += [
            f"{base}^{{{base}^{{{base}^{{{base}}}}}}}",
            f"({base}^{{{base + 8}}})!",
            f"{base}^{{-10^{{12}}}}",
            f"0.{base}^{{-10^{{11}}}}",
            f"\\binom{{10^{{{base + 6}}}}}{{10^{{{base + 5}}}}}",
            f"\\sum_{{k=1}}^{{10^{{{base + 6}}}}} \\sin(k^{base})",
            f"\\prod_{{k=1}}^{{10^{{{base + 4}}}}} (k+{base})",
            f"\\int_0^1 \\sin(x^{{x^{{{base}x}}}})\\,dx",
            f"(x+y+z+w+{base})^{{{base * 900}}}",
            "(" * (base * 200) + "1" + ")" * (base * 200),
            "\\frac{1}{" * (base * 40) + "2" + "}" * (base * 40),
            "[" * 3000 + "]" * 3000,
            ",".join(str(rng.randrange(10**6)) for _ in range(base * 700)),
            "+".join("x" for _ in range(base * 1000)),
            "".join(rng.choices("123456789", k=base * 1000)),
            "\\sqrt{" * (base * 30) + "2" + "}" * (base * 30),
            "!" * (base * 50),
            f"7^{{{base}00000000}}",
            "\\begin{pmatrix}"
            + "\\\\".join("&".join(["1"] * 40) for _ in range(base * 10))
            + "\\end{pmatrix}",
            f"{base}^{{10^{{10}}}} \\bmod {{10^{{9}}}}",
        ]
    return made


assert len(set(hostile_answers())) == 200 - 9  # the open brackets are the same ten times over
