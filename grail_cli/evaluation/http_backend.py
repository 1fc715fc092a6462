"""Samples from an OpenAI-compatible server: many requests in flight, all samples of a prompt in one request.

A vLLM server is sent the token ids of our own renderer and tells the ids that it made; any other server is sent chat
messages. What is worth retrying is retried with growing waits for `patience_s`; what is not fails at once; a server
that its owner knows to be dead ends the run. Proxies are never used for this machine's own addresses.
"""

import asyncio
import queue
import random
import threading
import time
from collections import Counter
from collections.abc import Iterator, Set

from .backend import Failed, Finished, Request, Sampling
from .endpoint import Server, is_loopback, refused

_EMPTY_TRIES = 3
_LONGEST_WAIT_S = 30.0


def _sample_of(request: Request, sample: int) -> Request:
    """One sample of a request, with the seed that it has there."""
    return Request(request.problem_id, sample, 1, request.seed + sample - request.first, request.messages,
                   request.prompt_ids)


class HttpBackend:
    """An async client in a thread of its own, behind the plain iterator of `Backend`."""

    def __init__(
        self,
        server: Server,
        sampling: Sampling,
        *,
        chat_kwargs: dict,
        concurrency: int = 64,
        timeout_s: float = 1800.0,
        patience_s: float = 360.0,
    ):
        self.server, self.sampling, self.chat_kwargs = server, sampling, chat_kwargs
        self.gate = Gate(concurrency)
        self.timeout_s, self.patience_s = timeout_s, patience_s
        self.about = {
            "backend": "vllm" if server.is_vllm else "openai",
            "url": server.url,
            "served_model": server.model,
        }

    def generate(
        self, requests: list[Request], done: Set[tuple[str, int]] = frozenset()
    ) -> Iterator[Finished | Failed]:
        """Samples as they arrive, in any order. Raises RunFailed when the server is gone for good."""
        wanted = [
            part
            for request in requests
            for part in missing_parts(request, done, together=self.server.is_vllm)
        ]
        arrived: queue.Queue = queue.Queue()
        stop = threading.Event()
        thread = threading.Thread(
            target=lambda: asyncio.run(self._run(wanted, arrived, stop)), name="eval-client", daemon=True
        )
        thread.start()
        try:
            while (item := arrived.get()) is not None:
                if isinstance(item, BaseException):
                    raise item
                yield item
        finally:
            stop.set()
            thread.join(timeout=10.0)

    async def _run(self, wanted: list[Request], arrived: queue.Queue, stop: threading.Event) -> None:
        import httpx
        import openai

        http = httpx.AsyncClient(
            trust_env=not is_loopback(self.server.url),
            timeout=httpx.Timeout(self.timeout_s, connect=20.0),
            limits=httpx.Limits(max_connections=None, max_keepalive_connections=self.gate.most),
        )
        client = openai.AsyncOpenAI(
            base_url=self.server.url,
            api_key=self.server.api_key,
            max_retries=0,
            timeout=self.timeout_s,
            http_client=http,
        )
        tasks: set[asyncio.Task] = set()
        failures: list[BaseException] = []

        def ended(task: asyncio.Task) -> None:
            tasks.discard(task)
            if not task.cancelled() and task.exception() is not None:
                failures.append(task.exception())

        try:
            for request in wanted:
                await self.gate.enter()
                if stop.is_set() or failures:
                    break
                task = asyncio.create_task(self._one(client, request, arrived, stop))
                tasks.add(task)
                task.add_done_callback(ended)
            while tasks and not stop.is_set() and not failures:
                await asyncio.wait(tasks, timeout=0.5, return_when=asyncio.FIRST_EXCEPTION)
            if failures:
                raise failures[0]
            arrived.put(None)
        # the thread's only way to tell; raised again by `generate`
        except BaseException as error:
            arrived.put(error)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            await client.close()

    async def _one(self, client, request: Request, arrived: queue.Queue, stop: threading.Event) -> None:
        """One request to its end: retried while that helps; what is left over becomes Failed."""
        import openai

        todo, empties, first_failure, tries, why = [request], Counter(), None, 0, ""
        try:
            while todo:
                left = todo[0]
                try:
                    found = await self._ask(client, left)
                    self.gate.succeeded()
                    first_failure = None
                    good = [item for item in found if isinstance(item, Finished)]
                    for item in good:
                        arrived.put(item)
                    have = {item.sample for item in good}
                    again = []  # rare: one request a sample whose answer was empty
                    for sample in range(left.first, left.first + left.count):
                        if sample in have:
                            continue
                        why = "the server's answer was empty"
                        empties[sample] += 1
                        if empties[sample] < _EMPTY_TRIES:
                            again.append(_sample_of(left, sample))
                        else:
                            arrived.put(Failed(left.problem_id, sample, why))
                    todo[:1] = again
                    if not again:
                        continue
                except openai.APIStatusError as error:
                    if error.status_code not in (408, 409, 425, 429) and error.status_code < 500:
                        raise refused(error, self.server) from None
                    why = f"status {error.status_code}"
                    self.gate.strained(error.status_code in (429, 503))
                except (
                    openai.APIConnectionError,
                    openai.APITimeoutError,
                    openai.APIResponseValidationError,
                    ValueError,
                ) as error:
                    why = f"{type(error).__name__}: {error}"
                    self.gate.strained(isinstance(error, openai.APITimeoutError))
                self.server.check_alive()
                first_failure = first_failure or time.monotonic()
                if stop.is_set() or time.monotonic() - first_failure > self.patience_s:
                    break
                tries += 1
                await asyncio.sleep(min(_LONGEST_WAIT_S, 0.5 * 2 ** min(tries, 8)) * random.uniform(0.7, 1.0))
            for part in todo:
                for sample in range(part.first, part.first + part.count):
                    arrived.put(Failed(part.problem_id, sample, why))
        finally:
            self.gate.leave()

    async def _ask(self, client, request: Request) -> list[Finished | Failed]:
        """The samples of one reply; Failed for a choice without any text or token."""
        sampling = self.sampling
        common = {
            "model": self.server.model,
            "n": request.count,
            "seed": request.seed,
            "temperature": sampling.temperature,
            "top_p": sampling.top_p,
            "max_tokens": sampling.max_new_tokens,
            "presence_penalty": 0.0,
            "frequency_penalty": 0.0,
        }
        if self.server.is_vllm:
            more = {
                "top_k": sampling.top_k or -1,
                "min_p": sampling.min_p,
                "repetition_penalty": 1.0,
                "return_token_ids": True,
                "skip_special_tokens": True,
                "add_special_tokens": False,
            }
            reply = await client.completions.create(**common, prompt=request.prompt_ids, extra_body=more)
        else:
            more = {
                name: value
                for name, value in (
                    ("top_k", sampling.top_k),
                    ("min_p", sampling.min_p),
                    ("chat_template_kwargs", self.chat_kwargs),
                )
                if value
            }
            reply = await client.chat.completions.create(
                **common, messages=request.messages, extra_body=more or None
            )
        choices = getattr(reply, "choices", None)
        if not choices:
            raise ValueError("a reply without choices")
        return [
            self._sample(request, choice, reply, place, len(choices)) for place, choice in enumerate(choices)
        ]

    def _sample(self, request: Request, choice, reply, place: int, choices: int) -> Finished | Failed:
        index = choice.index if isinstance(choice.index, int) and 0 <= choice.index < request.count else place
        text = choice.text if self.server.is_vllm else (choice.message.content if choice.message else None)
        ids = (choice.model_extra or {}).get("token_ids") if self.server.is_vllm else None
        tokens = (
            len(ids)
            if ids is not None
            else (reply.usage.completion_tokens if reply.usage and choices == 1 else None)
        )
        sample = request.first + index
        if not text and not tokens:
            return Failed(request.problem_id, sample, "the server's answer was empty")
        reason = "length" if choice.finish_reason == "length" else "stop"
        return Finished(
            request.problem_id,
            sample,
            request.seed + index,
            text or "",
            ids,
            tokens,
            reason,
            request.prompt_ids if self.server.is_vllm else None,
        )


class Gate:
    """How many requests are in flight: at first `most`, half of it under strain, one more a success.

    A server such as vLLM queues by itself, and fewer requests than it has room for leave it idle.
    """

    def __init__(self, most: int):
        self.most, self.limit, self.inside = most, float(most), 0
        self._last_cut = 0.0

    async def enter(self) -> None:
        while self.inside >= int(self.limit):
            await asyncio.sleep(0.005)
        self.inside += 1

    def leave(self) -> None:
        self.inside -= 1

    def succeeded(self) -> None:
        self.limit = min(float(self.most), self.limit + 1.0)

    def strained(self, overload: bool) -> None:
        """Halve on a sign of overload, at most once a second: one full queue answers many requests alike."""
        if overload and time.monotonic() - self._last_cut > 1.0:
            self._last_cut, self.limit = time.monotonic(), max(1.0, self.limit / 2)


def missing_parts(request: Request, done: Set[tuple[str, int]], *, together: bool) -> list[Request]:
    """The samples of a request that are not done, as requests of consecutive samples (of one each unless together)."""
    parts: list[list[int]] = []
    for sample in range(request.first, request.first + request.count):
        if (request.problem_id, sample) in done:
            continue
        if together and parts and parts[-1][-1] == sample - 1:
            parts[-1].append(sample)
        else:
            parts.append([sample])
    return [
        Request(
            request.problem_id,
            part[0],
            len(part),
            request.seed + part[0] - request.first,
            request.messages,
            request.prompt_ids,
        )
        for part in parts
    ]
