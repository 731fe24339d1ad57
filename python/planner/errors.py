"""What is raised: the text of the command line, and its exit code."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .files import Answer


class Error(Exception):
    """What the command line says on standard error. `code` is its exit code: 2 for bad input, found
    before work starts; 3 for what failed while running."""

    def __init__(self, text: str, code: int) -> None:
        super().__init__(text)
        self.code = code

    def __reduce__(self) -> tuple[type[Error], tuple[str, int]]:
        return type(self), (str(self), self.code)


class AnswerIsNo(Error):
    """A valid question whose answer is no (exit code 1): no plan is feasible, say.
    `answer` is what --json prints all the same, where it prints something."""

    def __init__(self, text: str, answer: Answer | None = None) -> None:
        super().__init__(text, 1)
        self.answer = answer

    def __reduce__(self) -> tuple[type[AnswerIsNo], tuple[str]]:  # type: ignore[override]
        return type(self), (str(self),)


class Note(UserWarning):
    """What the command line says on standard error beside an answer that is fine."""
