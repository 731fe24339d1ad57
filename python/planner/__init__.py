"""Plans how to train a large model: predicts memory, communication and time of every sensible
strategy, and picks one. The functions are the verbs of the command line, in this process:

    import planner
    plan = planner.plan("gpt2-1.5b", gpus=8)
    print(plan.chosen.time.step, plan.strategy)
"""

from .errors import AnswerIsNo, Error, Note
from .verbs import (compare, emit, explain, from_hf, gpus, help, import_, load, max_batch, min_gpus,
                    models, plan, report, simulate, sweep, validate, version)

__all__ = ["AnswerIsNo", "Error", "Note", "compare", "emit", "explain", "from_hf", "gpus", "help",
           "import_", "load", "max_batch", "min_gpus", "models", "plan", "report", "simulate",
           "sweep", "validate", "version"]
__version__ = version().partition(" ")[0]
