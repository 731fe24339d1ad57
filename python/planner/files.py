"""The answers: what each verb of the command line prints with --json, as a record.

Each keeps the text it was made from: `json` is byte for byte what the command line prints.
"""

from __future__ import annotations

import json as _json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

from ._record import Record
from .answers import (Candidate, Cluster, Communication, Earned, Job, Memory, Model, OtherFramework,
                      OtherMachine, Rejection, Released, Robust, RuleOfThumb, Search, Strategy, Time,
                      Training)

if TYPE_CHECKING:
    import os

    import pandas

A = TypeVar("A", bound="Answer")
# Fields that a file may leave out have a default.
_answer = dataclass(frozen=True, repr=False, kw_only=True)


@_answer
class Answer(Record):
    """An answer of a verb. Verbs without a class of their own return this one: see `to_dict()`."""

    schema: str

    # The list that to_frame() makes rows of, by the name of the field.
    _rows: ClassVar[str] = ""
    # Whether `planner report` draws files of this kind.
    _drawn: ClassVar[bool] = False

    @property
    def json(self) -> str:
        """The text that the command line prints with --json."""
        return str(self.__dict__["_text"])

    @property
    def page(self) -> str:
        """What the command line prints without --json; empty for an answer read from a file."""
        return str(self.__dict__.get("_page", ""))

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes the answer to a file, as --out of the command line does."""
        with open(path, "w", encoding="utf-8") as file:
            file.write(self.json)

    def rows(self) -> list[dict[str, Any]]:
        """The answer as a table: a flat dict for each row, with dotted names."""
        if not self._rows:
            return [_flat(self.to_dict())]
        return [_flat(row) for row in self.to_dict()[self._rows]]

    def to_frame(self) -> pandas.DataFrame:
        """The same rows as a pandas.DataFrame. Raises ImportError without pandas."""
        import pandas
        return pandas.DataFrame(self.rows())

    def __str__(self) -> str:
        return self.page or repr(self)

    def __repr__(self) -> str:
        return f"<{type(self).__name__}{self._about()}>"

    def _about(self) -> str:
        return f" {self.schema}"

    def _repr_html_(self) -> str | None:
        if not self._drawn:
            return None
        from .verbs import report  # this module is imported by that one
        return report(self, format="part")


@_answer
class Plan(Answer):
    """A plan: the chosen candidate, its alternatives, and what else was found."""

    assumptions: list[str]
    model: Model
    cluster: Cluster
    job: Job
    search: Search
    max_risk: float
    chosen: Candidate | None
    because: str | None
    earned: list[Earned]
    training: Training | None
    alternatives: list[Candidate]
    pareto: list[Candidate]
    rejected: list[Rejection]
    rejected_per_limit: dict[str, int]
    other_machines: list[OtherMachine]
    other_frameworks: list[OtherFramework]
    released: list[Released]
    robust: Robust | None = None
    rules_of_thumb: list[RuleOfThumb]

    _drawn: ClassVar[bool] = True

    @property
    def strategy(self) -> Strategy | None:
        """The chosen strategy; None where nothing fits."""
        return self.chosen.strategy if self.chosen else None

    @property
    def candidates(self) -> list[Candidate]:
        """The chosen candidate, then its alternatives."""
        return [self.chosen, *self.alternatives] if self.chosen else []

    def rows(self) -> list[dict[str, Any]]:
        """The candidates, the chosen one first: strategy, time, memory and speed."""
        parts = ("strategy", "time", "memory", "throughput", "uncertainty")
        return [_flat({part: one[part] for part in parts})
                for one in (c.to_dict() for c in self.candidates)]

    def _about(self) -> str:
        where = f" {self.model.name} on {self.cluster.gpus} x {self.cluster.gpu}"
        if self.chosen is None:
            return where + ": nothing fits"
        s = self.chosen.strategy
        return (f"{where}: data={s.data} tensor={s.tensor} pipeline={s.pipeline} "
                f"sharding={s.sharding} micro_batch={s.micro_batch}, "
                f"step {self.chosen.time.step:.4g} s")


@_answer
class Simulation(Answer):
    """A simulated step. Fields that were not asked for (scaling, goodput, ...) are None."""

    candidate: int | None
    traces: dict[str, Any] | None = None
    strategy: Strategy | None = None
    evaluator: str
    ranks: int
    ranks_played: int
    operations: int | None = None
    conditions: dict[str, Any] | None = None
    planned_step: float | None = None
    critical_rank: int
    time: Time
    first_step: float
    memory: Memory | None
    healthy: Time | None = None
    slowdown: float | None = None
    growth: dict[str, float] | None = None
    peak: dict[str, Any] | None = None
    communication: list[Communication]
    streams: list[dict[str, Any]]
    critical_path: list[dict[str, Any]]
    wire_bytes_by_rank: list[int] | None = None
    link_loads: dict[str, Any] | None = None
    checkpoint_traffic: dict[str, Any] | None = None
    trace: dict[str, Any] | None = None
    scaling: list[dict[str, Any]] | None = None
    variation: dict[str, Any] | None = None
    goodput: dict[str, Any] | None = None

    _rows: ClassVar[str] = "streams"
    _drawn: ClassVar[bool] = True

    def _about(self) -> str:
        return f" of {self.ranks} ranks: step {self.time.step:.4g} s"


@_answer
class Comparison(Answer):
    """Predicted beside measured, term by term, or several plans beside each other."""

    terms: list[dict[str, Any]]
    subjects: list[dict[str, Any]] | None = None
    runs: list[dict[str, Any]] | None = None
    other_hardware: Any = None
    scaled_down: Any = None
    library: Any = None
    logs: list[dict[str, Any]] | None = None

    _drawn: ClassVar[bool] = True

    def rows(self) -> list[dict[str, Any]]:
        """The subjects where there are some, else the terms."""
        return [_flat(row) for row in self.subjects or self.terms]

    def _about(self) -> str:
        return f" of {len(self.subjects or [])} plans, {len(self.terms)} terms"


@_answer
class Validation(Answer):
    """How well measured runs are predicted. Errors are fractions; see docs/cli.md."""

    rows_: int
    predicted: int
    skipped: list[dict[str, Any]]
    time: dict[str, Any]
    time_closed_form: dict[str, Any]
    memory: dict[str, Any]
    memory_device: dict[str, Any]
    fit: dict[str, int]
    ranking: dict[str, Any]
    groups: list[dict[str, Any]]
    by: list[dict[str, Any]]
    by_size: list[dict[str, Any]]
    per_row: list[dict[str, Any]]

    _rows: ClassVar[str] = "per_row"
    _drawn: ClassVar[bool] = True

    def _about(self) -> str:
        return f" of {self.rows_} runs, {self.predicted} predicted"


@_answer
class Sweep(Answer):
    """The best plan of each of many questions. `answer` is the index of the one asked for."""

    said: str
    answer: int | None
    points: list[dict[str, Any]]
    front: list[dict[str, Any]]

    _rows: ClassVar[str] = "points"
    _drawn: ClassVar[bool] = True

    def _about(self) -> str:
        return f" of {len(self.points)} points"


@_answer
class Launch(Answer):
    """A launch script or configuration, as text, and notes on what the framework does otherwise."""

    framework: str
    text: str
    notes: list[str]
    launcher: str | None = None

    def __str__(self) -> str:
        return self.text

    def _about(self) -> str:
        return f" for {self.framework}, {len(self.text.splitlines())} lines"


@_answer
class Import(Answer):
    """A configuration as a question: its pins, and what became of each of its settings.

    `subjects` are yours and the best strategy; None where no plan was asked for.
    """

    formats: list[str]
    model: str
    spec: dict[str, Any] | None
    gpus: int | None
    options: dict[str, str]
    pins: list[str]
    read: list[dict[str, str]]
    not_read: list[dict[str, str]]
    without_influence: list[dict[str, str]]
    notes: list[str]
    command: str
    subjects: list[dict[str, Any]] | None

    _rows: ClassVar[str] = "read"

    def _about(self) -> str:
        return f" of {', '.join(self.formats)}: {self.command}"


@_answer
class Models(Answer):
    """The models that are known by name."""

    models: list[dict[str, Any]]

    _rows: ClassVar[str] = "models"

    def _about(self) -> str:
        return f": {len(self.models)} known by name"


@_answer
class Gpus(Answer):
    """The GPUs that are known by name; `local` is the one of this machine."""

    local: str | None
    gpus: list[dict[str, Any]]

    _rows: ClassVar[str] = "gpus"

    def _about(self) -> str:
        return f": {len(self.gpus)} known by name"


_KINDS: dict[str, type[Answer]] = {
    "plan/1": Plan, "simulate/1": Simulation, "compare/1": Comparison, "validate/1": Validation,
    "sweep/1": Sweep, "launch/1": Launch, "import/1": Import, "models/1": Models, "gpus/1": Gpus}


def answer_of(text: str, page: str = "") -> Answer:
    """The record of a file of this tool."""
    data = _json.loads(text)
    answer = _KINDS.get(data["schema"], Answer).from_dict(data)
    answer.__dict__.update(_text=text, _page=page)
    return answer


def _flat(data: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    """Objects inside objects as dotted names; lists stay as they are."""
    flat: dict[str, Any] = {}
    for key, value in data.items():
        if isinstance(value, dict) and value:
            flat.update(_flat(value, f"{prefix}{key}."))
        else:
            flat[prefix + key] = value
    return flat
