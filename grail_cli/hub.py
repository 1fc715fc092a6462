"""The Hugging Face Hub without a network: its library asks for minutes again and again; here it is told at once."""

import contextlib
import os
import socket
import sys
from functools import lru_cache
from pathlib import Path
from urllib.parse import urlsplit

from .errors import GrailError

PROXIES = ("https_proxy", "http_proxy", "all_proxy")
SECONDS = 5  # for one connection to the Hub


@lru_cache
def reachable() -> bool:
    """Whether the Hub takes a connection; asked once a process, and assumed behind a proxy.

    Where it does not, Hugging Face's libraries are switched to their offline mode, here and in processes started
    later: they use what they have cached and fail at once for the rest.
    """
    if os.environ.get("HF_HUB_OFFLINE", "").upper() in ("1", "TRUE", "YES", "ON"):
        return False
    if any(os.environ.get(name) or os.environ.get(name.upper()) for name in PROXIES):
        return True
    if _connects(os.environ.get("HF_ENDPOINT") or "https://huggingface.co"):
        return True
    os.environ["HF_HUB_OFFLINE"] = "1"
    for name in ("huggingface_hub.constants", "datasets.config"):
        if name in sys.modules:  # they have read the environment already
            sys.modules[name].HF_HUB_OFFLINE = True
    return False


def advice(otherwise: str) -> str:
    """The next step for what the Hub did not give: the network's fault is named where it is one."""
    if reachable():
        return otherwise
    return f"the Hub is out of reach (no network, or HF_HUB_OFFLINE) and its cache does not have it; {otherwise}"


def model_folder(model: str, *, revision: str | None = None, where: str = "model.path") -> Path:
    """The cache folder of a Hub model with its config.json and, where it has one, the index of its weights.

    No weights are fetched. Raises GrailError when neither cache nor Hub have the model.
    """
    reachable()
    from huggingface_hub import hf_hub_download
    from huggingface_hub.errors import EntryNotFoundError

    try:
        folder = Path(hf_hub_download(model, "config.json", revision=revision)).parent
    except (OSError, ValueError, EntryNotFoundError) as error:
        first = (str(error).strip() or type(error).__name__).splitlines()[0]
        raise GrailError(f"config.json of {model!r} cannot be read: {first}", where=where, kind="bad_model",
                         hint=advice("check the id and the network, or give a local folder.")) from None
    with contextlib.suppress(EntryNotFoundError):  # a small model is one file
        hf_hub_download(model, "model.safetensors.index.json", revision=revision)
    return folder


def _connects(endpoint: str) -> bool:
    parts = urlsplit(endpoint)
    try:
        port = parts.port or (80 if parts.scheme == "http" else 443)
        with socket.create_connection((parts.hostname or "", port), timeout=SECONDS):
            return True
    except (OSError, ValueError):
        return False
