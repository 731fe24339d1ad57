"""The command line beside the module, for tests that hold one to the other."""

import os
import re
import subprocess

BINARY = os.environ["PLANNER_BINARY"]


def printed(*words: str, code: int = 0) -> str:
    """Standard output of the binary, which ends with `code`."""
    done = subprocess.run([BINARY, *words], capture_output=True, text=True, check=False,
                          stdin=subprocess.DEVNULL)
    if done.returncode != code:
        raise AssertionError(f"{words} ended with {done.returncode}: {done.stderr}")
    return done.stdout


def reasons(*words: str) -> tuple[int, str]:
    """Exit code and standard error of the binary, without its name on each line."""
    done = subprocess.run([BINARY, *words], capture_output=True, text=True, check=False,
                          stdin=subprocess.DEVNULL)
    return done.returncode, re.sub(r"^planner: ", "", done.stderr, flags=re.MULTILINE).rstrip("\n")


def of_any_commit(text: str) -> str:
    """A text without the commit behind the version: a wheel that is made from a copy has none."""
    return re.sub(r"(planner \d+\.\d+\.\d+) \([^)]*\)", r"\1", text)


def timeless(text: str) -> str:
    """A plan's text without the time that its search took, the only figure that changes."""
    return re.sub(r'("simulated": \d+,\s+"seconds": )[0-9.e+-]+', r"\1-", text)
