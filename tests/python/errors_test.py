"""Errors: the text of the command line, and its exit code."""

import csv
import os
import pickle
import sys
import tempfile
import unittest
import warnings

import planner
from command_line import reasons

RUNS = os.path.join(os.environ["PLANNER_SOURCE"], "docs", "examples", "runs.csv")

class SameText(unittest.TestCase):
    """What is wrong is said in the words of the command line."""

    def check(self, words: list[str], function, *arguments, **options) -> None:
        code, text = reasons(*words)
        with self.assertRaises(planner.Error) as caught:
            function(*arguments, **options)
        self.assertEqual(str(caught.exception), text)
        self.assertEqual(caught.exception.code, code)

    def test_unknown_options(self) -> None:
        job = ["--model", "gpt2-124m", "--gpus", "2"]
        for words, options in ((["--seq-len", "512"], {"seq_len": 512}),
                               (["--tensor", "2"], {"tensor": 2}),
                               (["--batch-size", "8"], {"batch_size": 8}),
                               (["--quiett"], {"quiett": True}),
                               (["--nothing-like-it", "1,2"], {"nothing_like_it": [1, 2]})):
            self.check(["plan", *job, *words], planner.plan, "gpt2-124m", gpus=2, **options)

    def test_values(self) -> None:
        self.check(["plan", "--gpus", "2"], planner.plan, gpus=2)
        self.check(["plan", "--model", "gtp2"], planner.plan, "gtp2")
        self.check(["plan", "--model", "gpt2-124m", "--gpus=-5"], planner.plan, "gpt2-124m", -5)
        self.check(["plan", "--model", "gpt2-124m", "--pin", "tensor=two", "--forbid", "x=1"],
                   planner.plan, "gpt2-124m", pin={"tensor": "two"}, forbid={"x": 1})
        self.check(["simulate", "nowhere.json"], planner.simulate, "nowhere.json")
        self.check(["emit", "nowhere.json", "--for", "megatrn"], planner.emit, "nowhere.json",
                   "megatrn")
        self.check(["gpus", "h10"], planner.gpus, "h10")
        self.check(["explain", "zb_w"], planner.explain, "zb_w")
        self.check(["plan", "--model", "gpt2-124m", "--out", "/nowhere/plan.json"], planner.plan,
                   "gpt2-124m", out="/nowhere/plan.json")
        self.check(["help", "modls"], planner.help, "modls")

    def test_an_answer_that_is_no_comes_with_the_error(self) -> None:
        self.check(["plan", "--model", "llama3-70b", "--gpus", "2", "--gpu", "rtx3090"],
                   planner.plan, "llama3-70b", gpus=2, gpu="rtx3090")
        with self.assertRaises(planner.AnswerIsNo) as caught:
            planner.plan("llama3-70b", gpus=2, gpu="rtx3090")
        self.assertEqual(caught.exception.code, 1)
        self.assertIsNone(caught.exception.answer.chosen)
        self.assertEqual(caught.exception.answer.rejected[0].limit, "host_memory")

    def test_a_file_in_memory_is_named_as_one_of_the_system_would_be(self) -> None:
        with self.assertRaises(planner.Error) as caught:
            planner.simulate({"schema": "plan/1"})
        self.assertTrue(str(caught.exception).startswith("plan.json:1:1"), caught.exception)

    def test_an_error_survives_another_process(self) -> None:
        for error in (planner.Error("text", 3), planner.AnswerIsNo("no")):
            again = pickle.loads(pickle.dumps(error))
            self.assertEqual((type(again), str(again), again.code),
                             (type(error), str(error), error.code))

    def test_notes_beside_an_answer_are_warnings(self) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            planner.plan("gpt2-124m", gpus=1, gpu="rtx3090")
            planner.validate(RUNS)
        with open(RUNS, encoding="utf-8", newline="") as file:
            rows = list(csv.DictReader(file))
        rows[0]["seq_len"] = "many"
        with tempfile.TemporaryDirectory() as folder:
            broken = os.path.join(folder, "runs.csv")
            with open(broken, "w", encoding="utf-8", newline="") as file:
                table = csv.DictWriter(file, list(rows[0]))
                table.writeheader()
                table.writerows(rows)
            with self.assertWarns(planner.Note) as caught:
                self.assertEqual(planner.validate(broken).predicted, len(rows) - 1)
            self.assertEqual(str(caught.warning), reasons("validate", broken)[1])
            self.assertEqual(caught.filename, __file__)

    def test_the_import_needs_nothing_but_the_standard_library(self) -> None:
        for module in ("numpy", "pandas", "asyncio", "IPython"):
            self.assertNotIn(module, sys.modules)


if __name__ == "__main__":
    unittest.main()
