"""What a page promises: said as it is checked, and counted where it does not hold."""

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
