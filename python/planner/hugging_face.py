"""Models as Hugging Face describes them."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any, Mapping

if TYPE_CHECKING:
    from ._types import File


class HuggingFace:
    """A model for plan(); from_hf() makes it. `path` is its file, or `text` is its JSON."""

    def __init__(self, config: File) -> None:
        self.path, self.text, self.name = "", "", ""
        if isinstance(config, (str, os.PathLike)):
            self.path = os.fspath(config)
            return
        self.text = json_text(config)
        data = json.loads(self.text)
        named = data.get("_name_or_path") or data.get("name") or data.get("model_type") or "model"
        self.name = str(named).rstrip("/").rsplit("/", 1)[-1]

    def __repr__(self) -> str:
        return f"<model {self.path or self.name}>"


def json_text(value: Any) -> str:
    """The JSON of a mapping, or of an object with to_dict()."""
    data = value if isinstance(value, Mapping) else value.to_dict()
    # A configuration may hold types of torch, of which the planner reads none.
    return json.dumps(data, default=str)
