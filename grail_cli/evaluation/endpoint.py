"""A server behind a URL: what it serves, whether it is vLLM, and what its refusals mean."""

import os
import re
from collections.abc import Callable
from dataclasses import dataclass
from urllib.parse import urlsplit

from ..errors import GrailError, RunFailed

_INSTANCE = re.compile(r"grail-[0-9a-f]{16}")  # the identity that our own servers list beside their model


@dataclass(frozen=True)
class Server:
    """Where and what: base URL with /v1, the served model's name, whether it is vLLM; `check_alive` raises RunFailed
    when its owner knows that it has died."""

    url: str
    model: str
    is_vllm: bool
    api_key: str = "none"
    check_alive: Callable[[], None] = lambda: None


def refused(error, server: Server) -> GrailError:
    """The fault for a request that the server will never take, in its own words."""
    body = error.body if isinstance(error.body, dict) else {}
    said = str(body.get("message") or error.message).strip().splitlines()[0][:300]
    hint = {
        401: "set OPENAI_API_KEY.",
        403: "set OPENAI_API_KEY.",
        404: f"the server may serve another model than {server.model!r}.",
    }.get(error.status_code, "change the setting that it names; finished samples are kept.")
    if any(name in said for name in ("top_k", "min_p", "chat_template_kwargs", "xtra")):
        hint = "this server knows fewer sampling settings: --set eval.top_k=0 --set eval.min_p=0"
    return RunFailed(
        f"the server refused a request ({error.status_code}): {said}",
        where=server.url,
        hint=hint,
        kind="refused",
    )


def is_loopback(url: str) -> bool:
    """Whether a URL is this machine's own."""
    return (urlsplit(url).hostname or "") in ("127.0.0.1", "localhost", "::1")


def find_server(url: str, model: str | None, api_key: str | None = None) -> Server:
    """The server behind a URL, its models looked up. model: the name wanted; None takes the only one served.

    Raises GrailError when nothing answers there or it serves another model.
    """
    import httpx

    base = url.rstrip("/")
    base = base if base.endswith("/v1") else f"{base}/v1"
    key = api_key or os.environ.get("OPENAI_API_KEY")
    with httpx.Client(
        trust_env=not is_loopback(base),
        timeout=20.0,
        headers={"Authorization": f"Bearer {key}"} if key else {},
    ) as client:
        try:
            reply = client.get(f"{base}/models")
            reply.raise_for_status()
            models = reply.json()["data"]
            served = {
                str(entry["id"]): str(entry.get("root") or "")
                for entry in models
                if not _INSTANCE.fullmatch(str(entry["id"]))
            }
        except (httpx.HTTPError, ValueError, KeyError, TypeError) as error:
            raise GrailError(
                f"no OpenAI-compatible server answers there ({type(error).__name__}: {error}).",
                where=base,
                kind="no_server",
                hint="start one: grail serve --model MODEL, or give the right URL.",
            ) from None
        try:
            is_vllm = (
                any(entry.get("owned_by") == "vllm" for entry in models)
                or "version" in client.get(f"{base[:-3]}/version").json()
            )
        except (httpx.HTTPError, ValueError):
            is_vllm = False
    if model is None and len(served) == 1:
        model = next(iter(served))
    if model not in served:
        by_root = [
            name for name, root in served.items() if model and root.rstrip("/") == str(model).rstrip("/")
        ]
        if not by_root:
            raise GrailError(
                f"serves {', '.join(served) or 'nothing'}, not {model!r}.",
                where=base,
                kind="other_model",
                hint="give --model the served name or the path that it serves.",
            )
        model = by_root[0]
    return Server(base, model, is_vllm, key or "none")
