"""The stubs say what the library takes, and type checkers find what does not hold."""

import inspect
import os
import re
import subprocess
import sys
import tempfile
import textwrap
import unittest

import planner
import stubs
from planner import _planner, verbs

PACKAGE = os.path.join(os.environ["PLANNER_SOURCE"], "python", "planner")
GOOD = """
import planner
plan = planner.plan("gpt2-1.5b", gpus=8, pin={"sharding": "zero3"}, forbid=["tensor=8"], seq=1024)
assert plan.chosen is not None
step: float = plan.chosen.time.step
device: int = plan.chosen.memory.stages[0].device
slow: float | None = planner.simulate(plan, unfold=True, scale=[1, 2]).slowdown
text: str = planner.emit(plan, "megatron", candidate=1).text
planner.plan(planner.from_hf({"model_type": "llama"}), "8xh100", progress=print)
planner.compare(plan, "run.json", plan.to_dict()).save("comparison.json")
"""
BAD = {"planner.plan('gpt2-1.5b', seq_len=3)": "call-arg",
       "planner.simulate()": "call-arg",
       "planner.plan('x').chosen.time.stepp": "union-attr",
       "planner.plan('x', allow_stale='yes')": "arg-type"}


class Stubs(unittest.TestCase):

    def test_the_file_is_what_the_options_say(self) -> None:
        path = os.path.join(PACKAGE, "verbs.pyi")
        if os.environ.get("UPDATE_GOLDEN") == "1":
            with open(path, "w", encoding="utf-8") as file:
                file.write(stubs.text())
        with open(path, encoding="utf-8") as file:
            self.assertEqual(file.read(), stubs.text(), "UPDATE_GOLDEN=1 writes it anew")

    def test_every_option_of_a_verb_is_there(self) -> None:
        text = stubs.text()
        for name, _ in stubs.functions():
            verb = name.rstrip("_").replace("_", "-")
            for option in planner._call.takes_of(verb) \
                    if verb in planner._call.option_table() else []:
                word = option.lstrip("-").replace("-", "_")
                if word in ("json", "for"):
                    continue
                start = text.index(f"def {name}(")
                self.assertRegex(text[start:text.index(") -> ", start)], rf"\n    {word}_?: ")

    def test_the_extension_has_what_its_stub_says(self) -> None:
        with open(os.path.join(PACKAGE, "_planner.pyi"), encoding="utf-8") as file:
            declared = dict(re.findall(r"def (\w+)\(([^)]*)\)", file.read()))
        self.assertEqual(set(declared), {n for n in vars(_planner) if not n.startswith("_")})
        for name, parameters in declared.items():
            words = re.findall(r"(\w+): ", parameters)
            self.assertEqual(re.findall(r"(\w+): ", getattr(_planner, name).__doc__.split("\n")[0]),
                             words)

    def test_what_is_exported_is_documented(self) -> None:
        for name in planner.__all__:
            self.assertTrue(inspect.getdoc(getattr(planner, name)), name)
        for name, function in stubs.functions():
            self.assertIs(getattr(planner, name), function)
        self.assertTrue(os.path.exists(os.path.join(PACKAGE, "py.typed")))
        self.assertIs(verbs.plan, planner.plan)


class TypeChecker(unittest.TestCase):

    def setUp(self) -> None:
        try:
            import mypy  # noqa: F401
        except ImportError:
            self.skipTest("mypy is not installed")

    def check(self, source: str) -> str:
        """What mypy says of a program."""
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "program.py")
            with open(path, "w", encoding="utf-8") as file:
                file.write(source)
            done = subprocess.run([sys.executable, "-m", "mypy", "--strict", "--cache-dir", folder,
                                   path], capture_output=True, text=True, check=False)
        return done.stdout + done.stderr

    def test_right_programs_pass(self) -> None:
        self.assertIn("Success", self.check(textwrap.dedent(GOOD)))

    def test_wrong_ones_do_not(self) -> None:
        for line, error in BAD.items():
            with self.subTest(line):
                self.assertIn(f"[{error}]", self.check(f"import planner\n{line}\n"))


if __name__ == "__main__":
    unittest.main()
