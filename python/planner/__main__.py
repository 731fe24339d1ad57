"""`python -m planner ...`: the command line, for verbs that run in one process."""

import sys

from . import _planner


def main() -> int:
    """Prints what the command line would print, and returns its exit code."""
    code, out, reasons, _ = _planner.call(sys.argv[1:], {}, None)
    sys.stdout.write(out)
    for line in reasons.splitlines():
        sys.stderr.write(f"planner: {line}\n")
    return code


if __name__ == "__main__":
    sys.exit(main())
