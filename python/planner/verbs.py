"""The verbs of the command line as functions. verbs.pyi lists the options that each takes.

Every keyword argument becomes an option (see _call.py): `planner.plan("gpt2-1.5b", gpus=8,
pin={"sharding": "zero3"})` is `planner plan --model gpt2-1.5b --gpus 8 --pin sharding=zero3`. Every
verb also takes `progress`: a function that is called with a text, True for a line on standard
error, False for none; by default a line where standard error is a terminal.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Iterable

from . import _planner
from ._call import Words, answer, run
from .files import (A, Answer, Comparison, Gpus, Import, Launch, Models, Plan, Simulation, Sweep,
                    Validation, answer_of)
from .hugging_face import HuggingFace

if TYPE_CHECKING:
    import os

    from ._types import File, Progress, Table, Value


def plan(model: Value = None, gpus: Value = None, *, progress: Progress = None,
         **options: Any) -> Plan:
    """The best strategy to train a model on GPUs.

    model: a name (`planner.models()`), a path, a configuration of Hugging Face or its dict.
    gpus: how many, or "8xh100". Raises AnswerIsNo if nothing fits; its `answer` is the plan.
    """
    return _question(Plan, "plan", model, gpus, progress, options)


def sweep(model: Value = None, gpus: Value = None, *, progress: Progress = None,
          **options: Any) -> Sweep:
    """The best plan of each combination of options that are given as lists: gpus=[8, 16]."""
    return _question(Sweep, "sweep", model, gpus, progress, options)


def min_gpus(model: Value = None, *, progress: Progress = None, **options: Any) -> Sweep:
    """The fewest GPUs on which a job fits, or ends in time."""
    return _question(Sweep, "min-gpus", model, None, progress, options)


def max_batch(model: Value = None, gpus: Value = None, *, progress: Progress = None,
              **options: Any) -> Sweep:
    """The largest batch that fits."""
    return _question(Sweep, "max-batch", model, gpus, progress, options)


def simulate(plan: File, *, progress: Progress = None, **options: Any) -> Simulation:
    """A step of a plan, simulated rank by rank. plan: a Plan, its dict, or a file."""
    return _about(Simulation, "simulate", [plan], "plan.json", progress, options)


def compare(*files: File, progress: Progress = None, **options: Any) -> Comparison:
    """Plans beside their runs, or beside each other. files: plans, runs, dicts or paths.

    log: a path, or several, of what a framework printed while it ran the one plan.
    """
    return _about(Comparison, "compare", files, "file.json", progress, options)


def validate(runs: Table, *, progress: Progress = None, **options: Any) -> Validation:
    """How well measured runs are predicted. runs: a CSV file or a pandas.DataFrame."""
    return _about(Validation, "validate", [runs], "runs.csv", progress, options)


def emit(plan: File, framework: str | None = None, *, progress: Progress = None,
         **options: Any) -> Launch:
    """A plan as the launch script or configuration of a framework: "megatron", "slurm", ..."""
    return _about(Launch, "emit", [plan], "plan.json", progress, {"for": framework, **options})


def import_(*files: File, progress: Progress = None, **options: Any) -> Import:
    """A configuration that runs, as a question with pins. files: the paths of one setup.

    With plan=True or gpus="64xh100", also what it takes beside the best strategy. Raises
    AnswerIsNo if it does not fit; its `answer` is the Import.
    """
    return _about(Import, "import", files, "config.json", progress, options)


def explain(*question: str, progress: Progress = None, **options: Any) -> Answer:
    """What a word means ("zb_v"), or how a figure of a plan comes about (plan=...)."""
    words = Words("explain")
    words.words += [str(word) for word in question]
    words.add_options(options)
    return answer(words, Answer, progress)


def models(**options: Any) -> Models:
    """The models that are known by name."""
    return _about(Models, "models", [], "", None, options)


def gpus(name: File | None = None, **options: Any) -> Gpus:
    """The GPUs that are known by name, or one of them with all of its figures."""
    return _about(Gpus, "gpus", [] if name is None else [name], "gpu.json", None, options)


def report(*files: File, format: str | None = None, progress: Progress = None,
           **options: Any) -> str:
    """A page of answers, runs and files: "html" (the whole page), "part" (for a notebook), "md".

    With out=FILE the page is written there, and what is returned says how to open it.
    """
    words = _named("report", files, "file.json", {"format": format, **options})
    return run(words, progress)[0]


def load(path: str | os.PathLike[str]) -> Any:
    """The answer in a file that the command line or `Answer.save` wrote."""
    with open(path, encoding="utf-8") as file:
        return answer_of(file.read())


def from_hf(config: File) -> HuggingFace:
    """A model for plan(): a config.json, its folder, a PretrainedConfig, or its dict.

    Anything that has to_dict() or is a mapping will do. What is wrong with it is said when it is
    planned.
    """
    return HuggingFace(config)


def help(verb: str = "plan") -> str:
    """The help page of a verb, as the command line prints it."""
    words = Words("help")
    words.words.append(verb)
    return run(words)[0]


def version() -> str:
    """The version and the commit."""
    return _planner.version()


def _named(verb: str, files: Iterable[Any], name: str, options: dict[str, Any]) -> Words:
    words = Words(verb)
    for file in files:
        words.add_file(file, name)
    words.add_options(options)
    return words


def _about(kind: type[A], verb: str, files: Iterable[Any], name: str, progress: Progress,
           options: dict[str, Any]) -> A:
    return answer(_named(verb, files, name, options), kind, progress)


def _question(kind: type[A], verb: str, model: Value, gpus: Value, progress: Progress,
              options: dict[str, Any]) -> A:
    words = Words(verb)
    words.add_options({"model": model, "gpus": gpus, **options})
    return answer(words, kind, progress)
