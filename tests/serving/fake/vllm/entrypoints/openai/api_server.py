"""A stand-in for vLLM's server: the same command line, start-up lines and routes, and every way to misbehave.

FAKE_VLLM holds a JSON object of switches (all optional):
    delay_s     seconds before it listens
    hang        never listens
    log         file whose text is written at the start
    exit        exit code right after that (or -signal)
    flood       bytes of noise before it listens
    ansi        colours and carriage returns in the log
    not_yet_s   completions answer 503 for that long
    refuse      completions answer this status for ever
    names       ids to list in place of the asked ones
    garbage     answers are no JSON; garbage_at: the K-th completion's alone
    ignore_term SIGTERM is ignored
    grandchild  "group", "session" or "early": one more process that ignores SIGTERM
    record      file to which every request body goes
    die_at      dies at that completion request (exit code 1)
    statuses    {"K": status}: the K-th completion fails
    drop_at     closes the connection at that completion
    slow_s      seconds that a completion takes
    text        completion text
"""

import argparse
import json
import os
import signal
import subprocess
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

SWITCHES = json.loads(os.environ.get("FAKE_VLLM", "{}"))
STUBBORN = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(600)"
COUNT_LOCK = threading.Lock()


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="api_server.py")
    for name in ("--model", "--host", "--generation-config", "--dtype", "--chat-template", "--max-lora-rank"):
        parser.add_argument(name)
    for name in ("--port", "--max-model-len", "--tensor-parallel-size", "--data-parallel-size"):
        parser.add_argument(name, type=int)
    parser.add_argument("--gpu-memory-utilization", type=float)
    parser.add_argument("--served-model-name", nargs="+")
    parser.add_argument("--lora-modules", nargs="+", default=[])
    for name in ("--enforce-eager", "--disable-uvicorn-access-log", "--enable-lora", "--trust-remote-code",
                 "--no-enable-chunked-prefill"):
        parser.add_argument(name, action="store_true")
    return parser.parse_args()


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    args: argparse.Namespace
    born = time.monotonic()
    completions = 0

    def log_message(self, *arguments) -> None:
        pass

    def answer(self, document: object, status: int = 200, garbage: bool = bool(SWITCHES.get("garbage"))) -> None:
        body = b"<html>" if garbage else json.dumps(document).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_GET(self) -> None:
        if self.path == "/v1/models":
            names = SWITCHES.get("names") or self.args.served_model_name
            adapters = [item.split("=")[0] for item in self.args.lora_modules]
            self.answer({"object": "list", "data": [
                {"id": name, "object": "model", "owned_by": "vllm", "root": self.args.model, "max_model_len": self.args.max_model_len or 1024}
                for name in [*names, *adapters]]})
        else:
            self.answer({})

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        with COUNT_LOCK:
            Handler.completions += 1
            number = Handler.completions
            if SWITCHES.get("record"):
                with open(SWITCHES["record"], "a", encoding="utf-8") as file:
                    file.write(json.dumps({"path": self.path, **body}) + "\n")
        if time.monotonic() - self.born < SWITCHES.get("not_yet_s", 0):
            return self.answer({"error": {"message": "not yet"}}, 503)
        if SWITCHES.get("refuse"):
            return self.answer({"error": {"message": "refused by a switch"}}, SWITCHES["refuse"])
        if number == SWITCHES.get("die_at"):
            os._exit(1)
        if number == SWITCHES.get("drop_at"):
            self.close_connection = True
            return self.connection.close()
        if number == SWITCHES.get("garbage_at"):
            return self.answer({}, garbage=True)
        status = SWITCHES.get("statuses", {}).get(str(number))
        if status:
            return self.answer({"error": {"message": f"status {status} by a switch"}}, status)
        time.sleep(SWITCHES.get("slow_s", 0))
        return self.complete(body)

    def complete(self, body: dict) -> None:
        text = SWITCHES.get("text", "The answer is \\boxed{4}.")
        prompt = body.get("prompt", "")
        prompt_ids = prompt if isinstance(prompt, list) else list(json.dumps(body.get("messages", prompt)).encode())
        choices = []
        for index in range(body.get("n") or 1):
            choice = {"index": index, "finish_reason": "stop", "token_ids": [*text.encode(), 0], "prompt_token_ids": prompt_ids}
            choice |= {"message": {"role": "assistant", "content": text}} if "messages" in body else {"text": text}
            choices.append(choice)
        count = len(choices) * (len(text.encode()) + 1)
        usage = {"prompt_tokens": len(prompt_ids), "completion_tokens": count, "total_tokens": len(prompt_ids) + count}
        self.answer({"id": "fake", "object": "completion", "created": 1, "model": body["model"], "choices": choices, "usage": usage})


class Server(ThreadingHTTPServer):
    allow_reuse_address = True
    daemon_threads = True
    request_queue_size = 512


def main() -> None:
    print("(APIServer pid=1) INFO 12-01 04:00:38 [api_server.py:1] vLLM API server version fake", flush=True)
    if SWITCHES.get("grandchild"):
        # "early": before any handler is installed, so that SIGTERM kills us and leaves it behind
        subprocess.Popen([sys.executable, "-c", STUBBORN], start_new_session=SWITCHES["grandchild"] == "session")
    if SWITCHES.get("ignore_term"):
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    elif SWITCHES.get("grandchild") != "early":
        signal.signal(signal.SIGTERM, lambda signum, frame: os._exit(0))
    args = Handler.args = parse()
    if SWITCHES.get("log"):
        with open(SWITCHES["log"], encoding="utf-8") as file:
            sys.stdout.write(file.read())
        sys.stdout.flush()
    if SWITCHES.get("flood"):
        sys.stdout.write(("noise " * 20 + "\n") * (SWITCHES["flood"] // 121))
        sys.stdout.flush()
    if SWITCHES.get("ansi"):
        print("\x1b[36m(EngineCore pid=2)\x1b[0;0m INFO 12-01 04:00:39 [x.py:1] Starting to load model\rLoading weights", flush=True)
    if "exit" in SWITCHES:
        code = SWITCHES["exit"]
        os.kill(os.getpid(), -code) if code < 0 else os._exit(code)
    time.sleep(SWITCHES.get("delay_s", 0))
    if SWITCHES.get("hang"):
        print("(EngineCore pid=2) INFO 12-01 04:00:59 [x.py:68] Starting to load model somewhere...", flush=True)
        time.sleep(600)
    server = Server((args.host, args.port), Handler)
    print("(APIServer pid=1) INFO 12-01 04:01:05 [launcher.py:140] Starting vLLM server", flush=True)
    server.serve_forever(poll_interval=0.05)


if __name__ == "__main__":
    main()
