"""What `--compare` names: a method, or a method with other settings, such as `grail:leaf=last` or `oar_g:seed=1`.

So leaves, alignments and noise seeds are held against each other in the same table as methods.
"""

from typing import get_args

from pydantic import ValidationError

from ..credit.settings import CreditSettings, Method
from ..errors import GrailError, nearest

SEED = "seed"  # not a setting: another stream of random draws


def read_variants(text: str) -> tuple[str, ...]:
    """The names in a comma-separated list, each checked, doubles dropped. Raises GrailError for one that is unknown."""
    names = tuple(dict.fromkeys(part.strip() for part in text.split(",") if part.strip()))
    for name in names:
        changes_of(name)
    return names


def changes_of(name: str) -> tuple[dict, int]:
    """Settings that differ, and the number added to the seed: `oar_g:seed=1` -> ({"method": "oar_g"}, 1).

    Raises GrailError naming the method, key or value that is not known.
    """
    method, *parts = name.split(":")
    if method not in get_args(Method):
        raise GrailError(f"no method {method!r}; {nearest(method, get_args(Method))}", where="--compare")
    changes, seed = {"method": method}, 0
    for part in parts:
        key, _, value = part.partition("=")
        if key == SEED and value.isdigit():
            seed = int(value)
        elif key in CreditSettings.model_fields and key != "method":
            changes[key] = value
        else:
            known = [*(k for k in CreditSettings.model_fields if k != "method"), SEED]
            raise GrailError(f"{part!r} in {name!r}: {nearest(key, known)}", where="--compare",
                             hint="write METHOD:key=value, such as grail:leaf=last or oar_g:seed=1.")
    try:
        checked = CreditSettings.model_validate(changes)
    except ValidationError as error:
        fault = error.errors()[0]
        raise GrailError(f"{name!r}: {fault['msg']}", where="--compare") from None
    return {key: getattr(checked, key) for key in changes}, seed
