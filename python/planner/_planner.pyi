# The extension module, compiled from ../module.cpp.
from typing import Callable, Mapping, Sequence

def call(
    words: Sequence[str],
    files: Mapping[str, str],
    progress: Callable[[str], object] | None,
) -> tuple[int, str, str, str]: ...
def version() -> str: ...
