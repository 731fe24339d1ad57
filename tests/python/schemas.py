"""JSON Schemas of the files, from the records of planner/files.py: docs/schemas/NAME-VERSION.json.

They say what a file of one version holds: the keys that are always there, and the type of each. A
later release of the same version may add keys, so others are allowed.
"""

import dataclasses
import json
import types
import typing
from typing import Any

from planner import answers, files
from planner._record import Record

BASE = "https://json-schema.org/draft/2020-12/schema"
PLAIN = {str: "string", int: "integer", float: "number", bool: "boolean", dict: "object"}


def schema_of(hint: Any, defs: dict[str, Any]) -> dict[str, Any]:
    """The schema of a type; records go to `defs`."""
    origin, parts = typing.get_origin(hint), typing.get_args(hint)
    if hint is Any:
        return {}
    if origin in (typing.Union, types.UnionType):
        return {"anyOf": [schema_of(part, defs) for part in parts]}
    if hint is type(None):
        return {"type": "null"}
    if origin is list:
        return {"type": "array", "items": schema_of(parts[0], defs)}
    if origin is dict:
        values = schema_of(parts[1], defs)
        return {"type": "object"} | ({"additionalProperties": values} if values else {})
    if issubclass(hint, Record):
        if hint.__name__ not in defs:
            defs[hint.__name__] = {}   # it may hold itself
            defs[hint.__name__] = object_of(hint, defs)
        return {"$ref": f"#/$defs/{hint.__name__}"}
    return {"type": PLAIN[hint]}


def object_of(kind: type[Record], defs: dict[str, Any]) -> dict[str, Any]:
    """The schema of a record."""
    hints = typing.get_type_hints(kind, vars(files) | vars(answers))
    fields = dataclasses.fields(kind)  # type: ignore[arg-type]
    return {"type": "object",
            "description": " ".join((kind.__doc__ or "").split()),
            "properties": {f.name.rstrip("_"): schema_of(hints[f.name], defs) for f in fields},
            "required": [f.name.rstrip("_") for f in fields if f.default is dataclasses.MISSING]}


def file_schema(name: str) -> dict[str, Any]:
    """The schema of the files whose `schema` is "plan/1", say."""
    defs: dict[str, Any] = {}
    whole = object_of(files._KINDS[name], defs)
    whole["properties"]["schema"] = {"const": name}
    return {"$schema": BASE, "title": name} | whole | {"$defs": dict(sorted(defs.items()))}


def texts() -> dict[str, str]:
    """Every schema, by the name of its file."""
    return {name.replace("/", "-") + ".json": json.dumps(file_schema(name), indent=1) + "\n"
            for name in files._KINDS}
