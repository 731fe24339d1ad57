"""From Python arguments to the words of a command line, and from what it answers to Python.

One rule for every option, present or future: `global_batch=512` is `--global-batch 512`, a flag
is True, and a list repeats an option that may be repeated, else it is joined by commas. What the
options of a verb are is asked of the library, never written down here. An argument that is no
option is passed on all the same: the command line then says what is wrong, in its own words.
"""

from __future__ import annotations

import functools
import json
import os
import sys
import warnings
from typing import TYPE_CHECKING, Any, Iterable, Mapping

from . import _planner
from .errors import AnswerIsNo, Error, Note
from .files import A, Answer, answer_of
from .hugging_face import HuggingFace, json_text

if TYPE_CHECKING:
    from ._types import Progress


class Words:
    """A command line under construction, and the files in memory that it names."""

    def __init__(self, verb: str) -> None:
        self.verb = verb
        self.words = [verb]
        self.files: dict[str, str] = {}

    def bring(self, name: str, text: str) -> str:
        """A file that exists for this call alone. Its name is changed where it is taken."""
        stem, dot, end = name.rpartition(".")
        number = 1
        while name in self.files:
            number += 1
            name = f"{stem}-{number}{dot}{end}"
        self.files[name] = text
        return name

    def add_file(self, value: Any, name: str) -> None:
        """A positional argument: an answer, a mapping, a table, or the path of a file."""
        self.words.append(self._file(value, name))

    def add_options(self, options: Mapping[str, Any]) -> None:
        """Keyword arguments, by the rule above."""
        takes = takes_of(self.verb) if options else {}
        for key, value in options.items():
            option = "--" + key.rstrip("_").replace("_", "-")
            if value is None or value is False or option == "--json":
                continue
            if value is True:
                self.words.append(option)
                continue
            for word in self._values(value, option, takes.get(option, "value")):
                # A word that looks like an option would be taken for one.
                self.words += [f"{option}={word}"] if word.startswith("-") else [option, word]

    def _values(self, value: Any, option: str, takes: str) -> Iterable[str]:
        if takes == "values":
            if isinstance(value, Mapping):
                return [f"{key}={_word(one)}" for key, one in value.items()]
            return [_word(one) for one in value] if _is_list(value) else [_word(value)]
        return [self._file(value, option.strip("-") + ".json")]

    def _file(self, value: Any, name: str) -> str:
        if isinstance(value, Answer):
            return self.bring(name, value.json)
        if isinstance(value, HuggingFace):
            return value.path or self.bring(f"{value.name}/config.json", value.text)
        if hasattr(value, "to_csv"):
            return self.bring(name, value.to_csv(index=False))
        if isinstance(value, Mapping) or hasattr(value, "to_dict"):
            if name == "model.json":
                return self._file(HuggingFace(value), name)
            return self.bring(name, json_text(value))
        return _word(value)


def _is_list(value: Any) -> bool:
    return isinstance(value, (list, tuple, set, frozenset, range))


def _word(value: Any) -> str:
    if _is_list(value):
        return ",".join(_word(one) for one in value)
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, Mapping):
        return ",".join(f"{key}={_word(one)}" for key, one in value.items())
    if isinstance(value, float) and value.is_integer() and abs(value) < 2**53:
        return str(int(value))  # 5e11 tokens
    return os.fspath(value) if isinstance(value, os.PathLike) else str(value)


@functools.cache
def option_table() -> dict[str, Any]:
    """Every verb with its options, as `planner help --json` prints them, by name."""
    _, out, _, _ = _planner.call(["help", "--json"], {}, None)
    return {verb["name"]: verb for verb in json.loads(out)["verbs"]}


@functools.cache
def takes_of(verb: str) -> dict[str, str]:
    """What each option of a verb takes: flag, value, or values (it may be repeated)."""
    return {option["name"]: option["takes"] for option in option_table()[verb]["options"]}


class _Line:
    """Progress as one line of standard error, written over as work goes on."""

    def __init__(self) -> None:
        self.shown = False

    def __call__(self, text: str) -> None:
        self.shown = True
        sys.stderr.write(f"\r\033[K{text[:79]}")
        sys.stderr.flush()

    def clear(self) -> None:
        if self.shown:
            sys.stderr.write("\r\033[K")
            sys.stderr.flush()


def _callers_level() -> int:
    """How far above the caller of this function the first frame outside of this package is."""
    frame, level = sys._getframe(1), 1
    while frame.f_back and frame.f_globals.get("__package__") == __package__:
        frame, level = frame.f_back, level + 1
    return level


def run(words: Words, progress: Progress = None) -> tuple[str, str]:
    """Standard output and page of a command line. Raises Error where its exit code is not 0."""
    line = _Line()
    if progress is None:
        progress = sys.stderr is not None and sys.stderr.isatty()
    told = line if progress is True else progress or None
    try:
        code, out, reasons, page = _planner.call(words.words, words.files, told)
    finally:
        line.clear()
    reasons = reasons.rstrip("\n")
    if code == 0:
        if reasons:
            warnings.warn(reasons, Note, stacklevel=_callers_level())
        return out, page
    if code == 1:
        raise AnswerIsNo(reasons, answer_of(out, page) if out.startswith("{") else None)
    raise Error(reasons, code)


def answer(words: Words, kind: type[A], progress: Progress = None) -> A:
    """The same with --json, as a record of the kind that the verb answers with."""
    words.words.append("--json")
    out, page = run(words, progress)
    made = answer_of(out, page)
    if not isinstance(made, kind):
        raise TypeError(f"expected a {kind.__name__}, found {made!r}")
    return made
