"""An OpenAI-compatible server for the tests: answers from a rule, fails on demand, records what it was asked."""

import json
import threading
from collections import Counter
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class FakeServer:
    """A server on a free port. plan(number of the request, body) -> None to answer, or a status, `drop`,
    `empty`, `garbage`.
    """

    def __init__(
        self,
        *,
        vllm: bool = True,
        model: str = "fake",
        plan=lambda number, body: None,
        answer=lambda prompt, seed: r"\boxed{7}",
    ):
        self.vllm, self.model, self.plan, self.answer = vllm, model, plan, answer
        self.bodies: list[dict] = []
        self.statuses: Counter = Counter()
        self._lock = threading.Lock()
        outer = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *args):
                pass

            def do_GET(self):
                if self.path == "/v1/models":
                    return self._json(
                        200,
                        {
                            "object": "list",
                            "data": [
                                {
                                    "id": outer.model,
                                    "object": "model",
                                    "owned_by": "vllm" if outer.vllm else "x",
                                    "root": "/models/fake",
                                }
                            ],
                        },
                    )
                if self.path == "/version" and outer.vllm:
                    return self._json(200, {"version": "0.31"})
                return self._json(404, {"error": {"message": "no"}})

            def do_POST(self):
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                with outer._lock:
                    number = len(outer.bodies)
                    outer.bodies.append(body)
                plan = outer.plan(number, body)
                outer.statuses[plan] += 1
                if plan == "drop":
                    self.close_connection = True
                    return self.connection.close()
                if plan == "garbage":
                    return self._raw(200, b"<html>not json", "application/json")
                if isinstance(plan, int):
                    return self._json(plan, {"error": {"message": f"planned {plan}", "code": plan}})
                return self._json(200, outer.reply(body, empty=plan == "empty"))

            def _json(self, status, document):
                self._raw(status, json.dumps(document).encode(), "application/json")

            def _raw(self, status, data, kind):
                self.send_response(status)
                self.send_header("Content-Type", kind)
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_port}/v1"
        threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True).start()

    def reply(self, body: dict, *, empty: bool) -> dict:
        choices = []
        for index in range(body.get("n") or 1):
            text = (
                ""
                if empty
                else self.answer(
                    body.get("prompt") or body["messages"][-1]["content"], (body.get("seed") or 0) + index
                )
            )
            choice = {"index": index, "finish_reason": "stop"}
            if "messages" in body:
                choice["message"] = {"role": "assistant", "content": text}
            else:
                choice |= {"text": text, "token_ids": [] if empty else [ord(c) for c in text]}
            choices.append(choice)
        return {
            "id": "x",
            "object": "chat.completion" if "messages" in body else "text_completion",
            "created": 0,
            "model": self.model,
            "choices": choices,
            "usage": {"prompt_tokens": 1, "completion_tokens": 0 if empty else 5, "total_tokens": 6},
        }

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        self._server.shutdown()
        self._server.server_close()
