"""The settings of token credit: torch-free, closed sets, and a method for every name."""

import subprocess
import sys
from typing import get_args

import pytest

from grail_cli import credit
from grail_cli.credit import METHODS, CreditSettings
from grail_cli.credit.settings import Method


def test_settings_and_the_names_of_methods_import_no_torch():
    code = ("import sys; from grail_cli.credit.settings import CreditSettings; from grail_cli.credit import METHODS;"
            "CreditSettings(method='grail'); print('torch' in sys.modules, len(METHODS))")
    printed = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert printed.split() == ["False", "6"]


def test_every_method_has_a_name_in_the_settings_and_a_sentence():
    assert get_args(Method) == tuple(METHODS) == ("grpo", "grail", "oar_g", "oar_p", "entropy", "shuffled")
    assert all(function.__doc__ for function in METHODS.values())


def test_public_names_are_found_and_others_are_not():
    assert all(getattr(credit, name) is not None for name in credit.__all__) and set(dir(credit)) == set(credit.__all__)
    with pytest.raises(AttributeError, match="no attribute 'saliencies'"):
        credit.saliencies


@pytest.mark.parametrize("values,said", [
    ({"method": "grial"}, "grpo.*shuffled"), ({"leaf": "second"}, "embeddings"), ({"std": 0}, "greater than 0"),
    ({"w_min": 2.0}, "w_min <= mean <= w_max"), ({"mean": 6.0}, "w_min <= mean <= w_max"),
    ({"spread": 1}, "Extra inputs"), ({"temperature": 0}, "greater than 0"), ({"std": float("nan")}, "finite"),
])
def test_values_outside_their_range_are_refused(values, said):
    with pytest.raises(ValueError, match=said):
        CreditSettings(**values)


def test_the_defaults_are_the_papers():
    paper = dict(std=0.5, mean=1.0, w_min=0.5, w_max=5.0, leaf="embeddings", rollouts="wrong", answer_span="first",
                 alignment="predictor", stats="completion", pin="all", refresh="step", temperature=None)
    assert paper.items() <= CreditSettings(method="grail").model_dump().items()
