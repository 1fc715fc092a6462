"""Is the server ready? It lives, /health answers, it is ours by name, and it has answered one real request.

A listing proves little: it is there minutes before the first answer, and somebody else's server lists models,
too. Everything goes over one plain connection a call, with time-outs and without proxies.
"""

import http.client
import json
import threading
from dataclasses import dataclass

from .ports import wildcard_to_loopback

CALL_TIMEOUT_S = 5.0


@dataclass(frozen=True)
class Address:
    """Where a server is and how to be let in."""

    host: str
    port: int
    api_key: str | None = None


@dataclass(frozen=True)
class Reply:
    """Status and body of an answer; status 0 when there was none, with the reason as body."""

    status: int
    body: str

    def json(self) -> dict:
        """The body as an object; empty when it is none."""
        try:
            document = json.loads(self.body)
        except json.JSONDecodeError:
            return {}
        return document if isinstance(document, dict) else {}

    def error_text(self) -> str:
        """The server's own words about a refusal."""
        error = self.json().get("error", self.json())
        text = error.get("message") if isinstance(error, dict) else error
        return str(text or self.body)[:500]


def call(address: Address, method: str, path: str, body: dict | None = None,
         timeout_s: float = CALL_TIMEOUT_S) -> Reply:
    """One request; never raises for what a server or the network does."""
    connection = http.client.HTTPConnection(wildcard_to_loopback(address.host), address.port,
                                            timeout=timeout_s)
    headers = {"Content-Type": "application/json"}
    if address.api_key:
        headers["Authorization"] = f"Bearer {address.api_key}"
    try:
        connection.request(method, path, json.dumps(body) if body is not None else None, headers)
        response = connection.getresponse()
        return Reply(response.status, response.read().decode("utf-8", errors="replace"))
    except (OSError, http.client.HTTPException) as error:
        return Reply(0, f"{type(error).__name__}: {error}")
    finally:
        connection.close()


def models(address: Address) -> dict[str, dict] | None:
    """What the server lists: model id -> entry (`root`, ...); None when it does not let us in."""
    reply = call(address, "GET", "/v1/models")
    if reply.status in (401, 403):
        return None
    data = reply.json().get("data")
    if not isinstance(data, list):
        return {}
    return {entry["id"]: entry for entry in data if isinstance(entry, dict) and "id" in entry}


def one_token(address: Address, model: str, route: str, timeout_s: float) -> Reply:
    """Ask for one token through the route that will be used (`chat` or `plain`)."""
    asked = {"model": model, "max_tokens": 1, "temperature": 0.0}
    if route == "chat":
        return call(address, "POST", "/v1/chat/completions",
                    {**asked, "messages": [{"role": "user", "content": "1 + 1 ="}]}, timeout_s)
    return call(address, "POST", "/v1/completions", {**asked, "prompt": "1 + 1 ="}, timeout_s)


class FirstAnswer:
    """The first real request, asked in the background so that the server's death is seen meanwhile."""

    def __init__(self, address: Address, model: str, route: str, timeout_s: float):
        self.reply: Reply | None = None
        self._thread = threading.Thread(target=self._ask, args=(address, model, route, timeout_s),
                                        daemon=True)
        self._thread.start()

    def _ask(self, address: Address, model: str, route: str, timeout_s: float) -> None:
        self.reply = one_token(address, model, route, timeout_s)
