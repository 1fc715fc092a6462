import pytest

from grail_cli.analysis.variants import changes_of, read_variants
from grail_cli.errors import GrailError


def test_a_method_can_carry_settings_and_a_seed():
    assert changes_of("grail") == ({"method": "grail"}, 0)
    assert changes_of("grail:leaf=last:std=0.7") == ({"method": "grail", "leaf": "last", "std": 0.7}, 0)
    assert changes_of("oar_g:seed=3") == ({"method": "oar_g"}, 3)


def test_names_keep_their_order_and_doubles_are_dropped():
    assert read_variants(" grail, oar_g:seed=1,grail ") == ("grail", "oar_g:seed=1")


@pytest.mark.parametrize(("name", "told"), [
    ("grial", "grail"), ("grail:leef=last", "leaf"), ("grail:leaf=top", "embeddings"), ("grail:leaf", "embeddings"),
    ("oar_g:seed=x", "seed"), ("grail:w_min=9", "w_min"), ("grail:method=grpo", "known")])
def test_what_is_not_known_is_named(name, told):
    with pytest.raises(GrailError) as error:
        changes_of(name)
    assert told in error.value.message + error.value.hint
