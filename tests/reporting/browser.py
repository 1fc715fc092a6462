"""A real browser for tests: headless Chromium over its debugging pipe, with real mouse clicks."""

import json
import os
import select
import shutil
import subprocess
import time
from pathlib import Path

CHROMIUM = next(
    (
        found
        for name in ("chromium", "chromium-browser", "google-chrome", "chrome")
        if (found := shutil.which(name))
    ),
    None,
)


class Browser:
    """One page of headless Chromium; a context manager. `requests`: every address the page asked for."""

    def __init__(self, profile: Path, width: int = 1400, height: int = 1000):
        self._number, self._session, self._buffer, self.requests, self.errors = 0, None, b"", [], []
        to_read, self._write = os.pipe()
        self._read, to_write = os.pipe()
        options = [
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-dev-shm-usage",
            "--remote-debugging-pipe",
            "--no-first-run",
            "--disable-background-networking",
            f"--user-data-dir={profile}",
            f"--window-size={width},{height}",
        ]
        self._process = subprocess.Popen(
            ["bash", "-c", f'exec "$0" "$@" 3<&{to_read} 4>&{to_write}', CHROMIUM, *options],
            pass_fds=(to_read, to_write),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        os.close(to_read)
        os.close(to_write)
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Network"):
            self.call(f"{domain}.enable")

    def __enter__(self) -> "Browser":
        return self

    def __exit__(self, *exc) -> None:
        self._process.terminate()
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        os.close(self._read)
        os.close(self._write)

    def call(self, method: str, **params) -> dict:
        """Send one command of the DevTools protocol and wait for its answer."""
        self._number += 1
        message = {"id": self._number, "method": method, "params": params}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._write, json.dumps(message).encode() + b"\0")
        deadline = time.monotonic() + 60
        while True:
            answer = self._next(deadline)
            if answer.get("id") == self._number:
                assert "error" not in answer, answer
                return answer["result"]

    def _next(self, deadline: float) -> dict:
        while b"\0" not in self._buffer:
            ready, _, _ = select.select([self._read], [], [], max(0.0, deadline - time.monotonic()))
            assert ready, "the browser does not answer"
            chunk = os.read(self._read, 1 << 20)
            assert chunk, "the browser has ended"
            self._buffer += chunk
        raw, self._buffer = self._buffer.split(b"\0", 1)
        event = json.loads(raw)
        if event.get("method") == "Network.requestWillBeSent":
            self.requests.append(event["params"]["request"]["url"])
        if event.get("method") == "Runtime.exceptionThrown":
            self.errors.append(event["params"]["exceptionDetails"])
        return event

    def open(self, path: Path) -> None:
        """Open a file and wait until it is loaded and the browser of samples shows a problem."""
        self.call("Page.navigate", url=path.as_uri())
        self.wait("document.readyState === 'complete' && document.querySelector('#detail h3') !== null")

    def js(self, expression: str):
        """The value of an expression in the page (promises are awaited)."""
        answer = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in answer, answer
        return answer["result"].get("value")

    def wait(self, condition: str, seconds: float = 20) -> None:
        """Wait until the expression is true in the page."""
        deadline = time.monotonic() + seconds
        while not self.js(f"Boolean({condition})"):
            assert time.monotonic() < deadline, f"never true: {condition}"
            time.sleep(0.02)

    def click(self, expression: str) -> None:
        """Click, with the mouse, in the middle of the element that the expression names."""
        box = self.js(
            f"(() => {{ const e = {expression}; e.scrollIntoView({{block: 'center'}}); "
            "const r = e.getBoundingClientRect(); return [r.x + r.width / 2, r.y + r.height / 2]; })()"
        )
        for kind in ("mousePressed", "mouseReleased"):
            self.call("Input.dispatchMouseEvent", type=kind, x=box[0], y=box[1], button="left", clickCount=1)

    def choose(self, select_id: str, value: str) -> None:
        """Choose an option of a select element, as a person's choice reports it."""
        self.js(
            f"(() => {{ const s = document.getElementById({select_id!r}); s.value = {value!r}; "
            "s.dispatchEvent(new Event('change', {bubbles: true})); })()"
        )

    def screenshot(self, path: Path) -> None:
        """A picture of the window as PNG."""
        import base64

        path.write_bytes(base64.b64decode(self.call("Page.captureScreenshot", format="png")["data"]))
