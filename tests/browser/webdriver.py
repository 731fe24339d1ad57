"""A headless Chromium over the WebDriver protocol, with the standard library alone.

Browser() starts chromedriver on a free port of this machine; close() ends both. Every call raises
RuntimeError with what the driver said. W3C WebDriver, and Chromium's own commands for what that
does not have (its developer protocol)."""

import base64
import json
import shutil
import socket
import subprocess
import time
import urllib.error
import urllib.request

ELEMENT = "element-6066-11e4-a52e-4f735466cecf"


def missing():
    """The reason why there is no browser to test with, or None."""
    for names in (("chromium", "chromium-browser", "google-chrome"), ("chromedriver",)):
        if not any(shutil.which(name) for name in names):
            return f"none of {', '.join(names)} is installed (Debian: chromium, chromium-driver)"
    return None


class Browser:
    def __init__(self, width=1280, height=900):
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        self.driver = subprocess.Popen(["chromedriver", f"--port={self.port}"],
                                       stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.session = None
        binary = next(filter(None, map(shutil.which, ("chromium", "chromium-browser",
                                                      "google-chrome"))))
        options = {"binary": binary,
                   "args": ["--headless=new", "--no-sandbox", "--disable-gpu",
                            "--disable-dev-shm-usage", "--hide-scrollbars",
                            f"--window-size={width},{height}"]}
        wanted = {"capabilities": {"alwaysMatch": {
            "browserName": "chrome", "goog:chromeOptions": options,
            "goog:loggingPrefs": {"browser": "ALL", "performance": "ALL"}}}}
        while self.driver.poll() is None:
            try:
                self.session = self.call("POST", "/session", wanted)["sessionId"]
                break
            except (urllib.error.URLError, ConnectionError):
                time.sleep(0.1)
        if self.session is None:
            raise RuntimeError(f"chromedriver ended with {self.driver.returncode}")

    def call(self, method, path, body=None):
        request = urllib.request.Request(f"http://127.0.0.1:{self.port}{path}", method=method,
                                         data=None if body is None else json.dumps(body).encode(),
                                         headers={"Content-Type": "application/json"})
        try:
            with urllib.request.urlopen(request, timeout=600) as answer:
                return json.load(answer)["value"]
        except urllib.error.HTTPError as error:
            raise RuntimeError(json.load(error)["value"]["message"]) from None

    def do(self, method, path, body=None):
        return self.call(method, f"/session/{self.session}{path}", body)

    def open(self, url):
        self.do("POST", "/url", {"url": url})

    def run(self, script, *arguments):
        return self.do("POST", "/execute/sync", {"script": script, "args": list(arguments)})

    def run_async(self, script, *arguments):
        return self.do("POST", "/execute/async", {"script": script, "args": list(arguments)})

    def find(self, css):
        return self.do("POST", "/element", {"using": "css selector", "value": css})

    def click(self, css):
        self.do("POST", f"/element/{self.find(css)[ELEMENT]}/click", {})

    def keys(self, *keys):
        actions = [{"type": kind, "value": key} for key in keys for kind in ("keyDown", "keyUp")]
        self.do("POST", "/actions", {"actions": [{"type": "key", "id": "k", "actions": actions}]})

    def point_at(self, x, y):
        """Moves the mouse to (x, y) of what is in view."""
        move = {"type": "pointerMove", "duration": 0, "origin": "viewport", "x": x, "y": y}
        self.do("POST", "/actions", {"actions": [
            {"type": "pointer", "id": "m", "parameters": {"pointerType": "mouse"},
             "actions": [move]}]})

    def developer(self, command, **parameters):
        return self.do("POST", "/goog/cdp/execute", {"cmd": command, "params": parameters})

    def log(self, kind):
        return self.do("POST", "/se/log", {"type": kind})

    def screenshot(self, path, whole=False):
        parameters = {"format": "png", "captureBeyondViewport": whole}
        with open(path, "wb") as file:
            file.write(base64.b64decode(
                self.developer("Page.captureScreenshot", **parameters)["data"]))

    def close(self):
        try:
            if self.session:
                self.call("DELETE", f"/session/{self.session}")
        finally:
            self.driver.terminate()
            self.driver.wait(20)
