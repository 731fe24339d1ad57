"""Records: objects with typed fields, made from the JSON that the command line prints.

The fields of a record are the keys of its JSON object; a key that is a word of Python has an
underscore behind it (`from_`). A key that this version does not know stays in `to_dict()`. A key
that a file leaves out is None.
"""

from __future__ import annotations

import copy
import dataclasses
import functools
import sys
import types
import typing
from typing import Any, Callable, Mapping, TypeVar

R = TypeVar("R", bound="Record")


class Record:
    """Base of all records. Read-only; two are equal if their fields are."""

    @classmethod
    def from_dict(cls: type[R], data: Mapping[str, Any]) -> R:
        """The record of a JSON object."""
        record = object.__new__(cls)
        values = {name: make(data[key]) if data.get(key) is not None else None
                  for name, key, make in _fields(cls)}
        values["_data"] = data
        record.__dict__.update(values)
        return record

    def to_dict(self) -> dict[str, Any]:
        """The JSON object as it came, as a copy of its own."""
        return copy.deepcopy(self._data)  # type: ignore[attr-defined]


def _fields(cls: type) -> tuple[tuple[str, str, Callable[[Any], Any]], ...]:
    """Name, key of the JSON and maker of each field."""
    known = _FIELDS.get(cls)
    if known is None:
        # Hints are texts until they are needed: working them all out would slow the import.
        hints = typing.get_type_hints(cls, vars(sys.modules[cls.__module__]))
        known = tuple((f.name, f.name.rstrip("_"), _maker(hints[f.name]))
                      for f in dataclasses.fields(cls))
        _FIELDS[cls] = known
    return known


_FIELDS: dict[type, tuple[tuple[str, str, Callable[[Any], Any]], ...]] = {}


def _same(value: Any) -> Any:
    return value


@functools.lru_cache(maxsize=None)
def _maker(hint: Any) -> Callable[[Any], Any]:
    """What turns a value of JSON into one of the hinted type; it never gets None."""
    origin, parts = typing.get_origin(hint), typing.get_args(hint)
    if origin in (typing.Union, types.UnionType):
        return _maker(next(p for p in parts if p is not type(None)))
    if origin is list:
        item = _maker(parts[0])
        return _same if item is _same else lambda values: [item(v) for v in values]
    if isinstance(hint, type) and issubclass(hint, Record):
        return hint.from_dict
    return float if hint is float else _same
