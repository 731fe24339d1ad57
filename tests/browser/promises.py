"""What a page promises: said as it is checked, and counted where it does not hold."""

import json
import time

failures = []


def check(holds, what):
    print(("ok      " if holds else "FAILED  ") + what, flush=True)
    if not holds:
        failures.append(what)


def settled(read, wanted, seconds=300.0):
    """What read() says once wanted() holds of it, or after so long that it never will: pages draw in their own time."""
    end = time.monotonic() + seconds
    while True:
        value = read()
        if wanted(value) or time.monotonic() > end:
            return value
        time.sleep(0.05)


def check_quiet(browser, url, *own):
    """Nothing on the console, and no request but the page's at `url` and what begins as one of
    `own`, which no network serves."""
    messages = [m["message"] for m in browser.log("browser")]
    check(not messages, f"nothing on the console {messages[:2] or ''}")
    events = [json.loads(e["message"])["message"] for e in browser.log("performance")]
    urls = [e["params"]["request"]["url"] for e in events
            if e["method"] == "Network.requestWillBeSent"]
    loud = [u for u in urls if u.split("#")[0] != url and not u.startswith(("data:", *own))]
    check(not loud, f"no request but the page {loud[:3] or ''}")
