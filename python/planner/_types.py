"""What the functions of verbs.py take."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, Callable, Mapping, Protocol, Sequence, Union

if TYPE_CHECKING:
    from .hugging_face import HuggingFace


class HasToDict(Protocol):
    """A PretrainedConfig of Hugging Face, say, or a record of this package."""

    def to_dict(self) -> Mapping[str, Any]: ...


class HasToCsv(Protocol):
    """A pandas.DataFrame, say."""

    def to_csv(self, *, index: bool) -> str: ...


Scalar = Union[str, int, float, "os.PathLike[str]"]
# What an option takes. A mapping or an object with to_dict() stands for a file of that content.
Value = Union[Scalar, Sequence[Scalar], Mapping[str, Any], HasToDict, "HuggingFace", None]
# An option that may be given several times: a mapping stands for KEY=VALUE, one for each key.
Values = Union[Scalar, Sequence[Scalar], Mapping[str, Any], None]
# A file: a path, or its content.
File = Union[str, "os.PathLike[str]", Mapping[str, Any], HasToDict]
Table = Union[str, "os.PathLike[str]", HasToCsv]
Progress = Union[Callable[[str], object], bool, None]
