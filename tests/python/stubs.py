"""Prints planner/verbs.pyi: the functions of verbs.py with the options that their verbs take.

usage: PYTHONPATH=build/release/python python3 tests/python/stubs.py

The options are those of the library that is imported (`planner help --json`), so that the stub
says what it takes. A test keeps the file in step: tests/python/stub_test.py.
"""

import inspect
import keyword
import textwrap
from typing import Any, Iterator

from planner import verbs
from planner._call import option_table

HEAD = '''\
# Written by tests/python/stubs.py from the options of the command line; a test keeps it true
# (UPDATE_GOLDEN=1 writes it anew). What each option means: planner.help(VERB).
import os
from typing import Any

from ._types import File, Progress, Table, Value, Values
from .files import (Answer, Comparison, Gpus, Import, Launch, Models, Plan, Simulation, Sweep,
                    Validation, answer_of)
from .hugging_face import HuggingFace
'''
WIDTH = 92  # of a line, less its indentation and the sign of a comment
TYPES = {"flag": "bool", "value": "Value", "values": "Values"}


def functions() -> Iterator[tuple[str, Any]]:
    """The public functions, in the order of the file."""
    for name, value in vars(verbs).items():
        if inspect.isfunction(value) and value.__module__ == verbs.__name__ and name[0] != "_":
            yield name, value


def options_of(name: str, function: Any) -> list[str]:
    """Keyword parameters of a verb's options, with what each means."""
    parameters = inspect.signature(function).parameters
    if not any(p.kind is p.VAR_KEYWORD for p in parameters.values()):
        return []
    lines = []
    for option in option_table()[name.rstrip("_").replace("_", "-")]["options"]:
        word = option["name"].lstrip("-").replace("-", "_")
        # emit() names its framework by position.
        if word in parameters or word == "json" or (name, word) == ("emit", "for"):
            continue
        word += "_" if keyword.iskeyword(word) else ""
        default = "False" if option["takes"] == "flag" else "None"
        declared = f"{word}: {TYPES[option['takes']]} = {default},"
        if len(declared) + len(option["help"]) <= WIDTH:
            lines.append(f"{declared}  # {option['help']}")
        else:
            lines += ["# " + line for line in textwrap.wrap(option["help"], WIDTH)] + [declared]
    return lines


def stub_of(name: str, function: Any) -> str:
    """The declaration of one function."""
    signature = inspect.signature(function)
    own, starred = [], False
    for p in signature.parameters.values():
        if p.kind is p.VAR_KEYWORD:
            continue
        if p.kind is p.KEYWORD_ONLY and not starred:
            own.append("*,")
            starred = True
        starred = starred or p.kind is p.VAR_POSITIONAL
        star = "*" if p.kind is p.VAR_POSITIONAL else ""
        default = "" if p.default is p.empty else f" = {p.default!r}"
        own.append(f"{star}{p.name}: {p.annotation}{default},")
    more = options_of(name, function)
    if more and not starred:
        own.append("*,")
    body = "".join(f"    {line}\n" for line in own + more)
    head = f"def {name}(\n{body})" if body else f"def {name}()"
    return f"{head} -> {signature.return_annotation}: ...\n"


def text() -> str:
    """The whole file."""
    return HEAD + "".join("\n" + stub_of(name, function) for name, function in functions())


if __name__ == "__main__":
    print(text(), end="")
