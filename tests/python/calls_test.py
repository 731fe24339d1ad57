"""What a call does beside answering: progress, interruption, other threads, files in memory.

Tests wait for a state and never for a time. A sweep that takes minutes stands for work that has not
ended when it is interrupted.
"""

import concurrent.futures
import io
import os
import signal
import threading
import unittest
from contextlib import redirect_stderr
from typing import Any

import planner
from command_line import printed, timeless

LONG = dict(model="gpt3-175b", gpus=list(range(64, 1000, 8)))
GPT = {"model_type": "gpt2", "architectures": ["GPT2LMHeadModel"], "n_embd": 768, "n_layer": 12,
       "n_head": 12, "vocab_size": 50257, "n_positions": 1024}


class Stop(Exception):
    """Raised by progress in these tests."""


def threads_of_process() -> int:
    """Threads that the system counts, Python's and the library's."""
    return len(os.listdir("/proc/self/task"))


class Progress(unittest.TestCase):
    """Who is told what is being done."""

    def test_a_function_is_told(self) -> None:
        told: list[str] = []
        planner.sweep("gpt2-124m", gpus=[1, 2], gpu="rtx3090", progress=told.append)
        self.assertIn("point", told[0])
        told.clear()
        planner.plan("llama3-8b", gpus=64, progress=told.append)
        self.assertTrue(any("strategies" in text for text in told), told)

    def test_quiet_tells_nothing(self) -> None:
        told: list[str] = []
        planner.sweep("gpt2-124m", gpus=[1, 2], gpu="rtx3090", progress=told.append, quiet=True)
        self.assertEqual(told, [])

    def test_a_line_on_standard_error_is_cleared(self) -> None:
        with redirect_stderr(io.StringIO()) as shown:
            planner.sweep("gpt2-124m", gpus=[1, 2], gpu="rtx3090", progress=True)
        self.assertIn("point", shown.getvalue())
        self.assertTrue(shown.getvalue().endswith("\r\033[K"))

    def test_standard_error_that_is_no_terminal_is_left_alone(self) -> None:
        with redirect_stderr(io.StringIO()) as shown:
            planner.sweep("gpt2-124m", gpus=[1, 2], gpu="rtx3090")
        self.assertEqual(shown.getvalue(), "")

    def test_an_error_of_the_function_ends_the_call(self) -> None:
        def stop(_: str) -> None:
            raise Stop
        before = threads_of_process()
        with self.assertRaises(Stop):
            planner.sweep(**LONG, progress=stop)
        self.assertEqual(threads_of_process(), before)


class Interruption(unittest.TestCase):
    """Ctrl-C ends the search, and the interpreter goes on."""

    def test_ctrl_c_while_the_library_works(self) -> None:
        before = threads_of_process()
        begun = threading.Event()

        def interrupt() -> None:
            begun.wait()
            os.kill(os.getpid(), signal.SIGINT)
        other = threading.Thread(target=interrupt, daemon=True)
        other.start()
        with self.assertRaises(KeyboardInterrupt):
            planner.sweep(**LONG, progress=lambda _: begun.set())
        other.join()
        self.assertEqual(threads_of_process(), before)
        self.assertIsNotNone(planner.plan("gpt2-124m", gpus=1, gpu="rtx3090").chosen)

    def test_handlers_of_the_program_stay_its_own(self) -> None:
        heard: list[int] = []
        before = signal.signal(signal.SIGTERM, lambda number, _: heard.append(number))
        try:
            planner.sweep("gpt2-124m", gpus=[1, 2], gpu="rtx3090",
                          progress=lambda _: os.kill(os.getpid(), signal.SIGTERM))
        finally:
            signal.signal(signal.SIGTERM, before)
        self.assertEqual(set(heard), {signal.SIGTERM})
        self.assertIs(signal.getsignal(signal.SIGINT), signal.default_int_handler)


class Threads(unittest.TestCase):
    """Other threads run, and may ask questions of their own."""

    def test_python_runs_while_the_library_works(self) -> None:
        begun, stop = threading.Event(), threading.Event()

        def progress(_: str) -> None:
            begun.set()
            if stop.is_set():
                raise Stop

        def work() -> None:
            with self.assertRaises(Stop):
                planner.sweep(**LONG, progress=progress)
        other = threading.Thread(target=work, daemon=True)
        other.start()
        begun.wait()
        answer = planner.plan("gpt2-124m", gpus=1, gpu="rtx3090")
        self.assertTrue(other.is_alive())
        stop.set()
        other.join()
        self.assertIsNotNone(answer.chosen)

    def test_plans_at_the_same_time_are_those_of_one_after_the_other(self) -> None:
        questions = [("gpt2-1.5b", 8), ("llama3-8b", 8), ("gpt2-124m", 2), ("bert-large", 4)] * 2
        with concurrent.futures.ThreadPoolExecutor(4) as pool:
            plans = list(pool.map(lambda q: planner.plan(*q), questions))
        for (model, gpus), plan in zip(questions, plans):
            alone = printed("plan", "--model", model, "--gpus", str(gpus), "--json")
            self.assertEqual(timeless(plan.json), timeless(alone))


class Files(unittest.TestCase):
    """Files that exist only in memory."""

    def test_models_of_hugging_face(self) -> None:
        class PretrainedConfig:
            def to_dict(self) -> dict[str, Any]:
                return GPT | {"torch_dtype": complex, "_name_or_path": "someone/mine"}
        for config in (GPT, planner.from_hf(GPT)):
            plan = planner.plan(config, gpus=2, gpu="rtx3090")
            self.assertEqual((plan.model.name, plan.model.hidden), ("gpt2", 768))
        for config in (PretrainedConfig(), planner.from_hf(PretrainedConfig())):
            self.assertEqual(planner.plan(config, gpus=2, gpu="rtx3090").model.name, "mine")

    def test_a_model_in_memory_is_planned_like_its_file(self) -> None:
        import json
        import tempfile
        with tempfile.TemporaryDirectory() as folder:
            os.mkdir(os.path.join(folder, "gpt2"))
            path = os.path.join(folder, "gpt2", "config.json")
            with open(path, "w", encoding="utf-8") as file:
                json.dump(GPT, file)
            by_file = printed("plan", "--model", path, "--gpus", "2", "--json")
            for model in (path, os.path.dirname(path), planner.from_hf(path), GPT):
                self.assertEqual(timeless(planner.plan(model, gpus=2).json), timeless(by_file))

    def test_a_profile_in_memory(self) -> None:
        mine = planner.gpus("H100").gpus[0]
        plan = planner.plan("gpt2-1.5b", gpus=8, gpu=mine)
        self.assertEqual(plan.chosen.time, planner.plan("gpt2-1.5b", gpus=8, gpu="H100").chosen.time)

    def test_several_answers_have_names_of_their_own(self) -> None:
        plans = [planner.plan("gpt2-124m", gpus=n, gpu="rtx3090") for n in (1, 2)]
        labels = [s["label"] for s in planner.compare(*plans).subjects]
        self.assertEqual(len(set(labels)), 2)

    def test_nothing_is_left_of_a_call(self) -> None:
        planner.plan(GPT, gpus=2, gpu="rtx3090")
        with self.assertRaises(planner.Error):
            planner.plan("gpt2/config.json", gpus=2)


if __name__ == "__main__":
    unittest.main()
