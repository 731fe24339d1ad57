"""What the functions return is what the command line prints, byte for byte and field by field."""

import dataclasses
import json
import os
import tempfile
import typing
import unittest

import planner
from command_line import of_any_commit, printed, timeless
from planner import answers, files
from planner._record import Record

RUNS = os.path.join(os.environ["PLANNER_SOURCE"], "docs", "examples", "runs.csv")


class SameBytes(unittest.TestCase):
    """Each verb beside the binary."""

    @classmethod
    def setUpClass(cls) -> None:
        cls.folder = tempfile.TemporaryDirectory()
        cls.path = os.path.join(cls.folder.name, "plan.json")
        cls.other = os.path.join(cls.folder.name, "other.json")
        cls.plan = planner.plan("gpt2-124m", gpus=4, gpu="rtx3090", out=cls.path)
        planner.plan("gpt2-124m", gpus=4, gpu="rtx3090", pin={"sharding": "zero3"}, out=cls.other)

    @classmethod
    def tearDownClass(cls) -> None:
        cls.folder.cleanup()

    def check(self, answer: files.Answer, *words: str) -> None:
        self.assertEqual(timeless(answer.json), timeless(printed(*words, "--json")))
        self.assertEqual(answer.page, printed(*words))

    def test_plans_of_several_models(self) -> None:
        for model, gpus in (("gpt2-1.5b", "8"), ("llama3-8b", "16"), ("mixtral-8x7b", "8xh100")):
            with self.subTest(model):
                self.check(planner.plan(model, gpus), "plan", "--model", model, "--gpus", gpus)

    def test_every_kind_of_option(self) -> None:
        answer = planner.plan(
            "gpt2-1.5b", gpus=8, gpu=["h100-sxm-80g", "rtx3090"], global_batch=256,
            pin={"sharding": "zero3", "overlap": True, "stages": [48]}, forbid=["micro_batch=1"],
            allow_stale=True, max_risk=0.01, tokens=5e11, top=2, price=None, quiet=False)
        self.check(answer, "plan", "--model", "gpt2-1.5b", "--gpus", "8", "--gpu",
                   "h100-sxm-80g,rtx3090", "--global-batch", "256", "--pin", "sharding=zero3",
                   "--pin", "overlap=true", "--pin", "stages=48", "--forbid", "micro_batch=1",
                   "--allow-stale", "--max-risk", "0.01", "--tokens", "500000000000", "--top", "2")

    def test_an_answer_may_take_the_place_of_its_file(self) -> None:
        words = ["simulate", self.path, "--straggler", "rank=1,slowdown=1.5", "--scale", "1,2"]
        by_file = planner.simulate(self.path, straggler="rank=1,slowdown=1.5", scale=[1, 2])
        self.assertEqual(by_file.json, printed(*words, "--json"))
        for plan in (self.plan, self.plan.to_dict(), planner.load(self.path)):
            again = planner.simulate(plan, straggler="rank=1,slowdown=1.5", scale=[1, 2])
            self.assertEqual(again.json, by_file.json)

    def test_other_verbs(self) -> None:
        self.check(planner.compare(self.path, self.other), "compare", self.path, self.other)
        self.check(planner.compare(self.path, strategies=True), "compare", self.path,
                   "--strategies")
        self.check(planner.validate(RUNS), "validate", RUNS)
        self.check(planner.models(), "models")
        self.check(planner.gpus(), "gpus")
        self.check(planner.gpus("H100"), "gpus", "H100")
        self.check(planner.explain("zb_v"), "explain", "zb_v")
        self.check(planner.explain("memory.activations", plan=self.path), "explain",
                   "memory.activations", "--plan", self.path)
        self.check(planner.sweep("gpt2-124m", gpus=[1, 2], seq=[512, 1024]), "sweep", "--model",
                   "gpt2-124m", "--gpus", "1,2", "--seq", "512,1024")
        self.check(planner.min_gpus("llama3-8b", gpu="a100-sxm-80g"), "min-gpus", "--model",
                   "llama3-8b", "--gpu", "a100-sxm-80g")
        self.check(planner.max_batch("gpt2-124m", gpu="rtx3090", gpus=1), "max-batch", "--model",
                   "gpt2-124m", "--gpu", "rtx3090", "--gpus", "1")

    def test_launch_files(self) -> None:
        path = os.path.join(self.folder.name, "megatron.json")
        plan = planner.plan("gpt2-1.5b", gpus=8, framework="megatron_core", out=path)
        launch = planner.emit(plan, "megatron")
        self.assertEqual(launch.json, printed("emit", path, "--for", "megatron", "--json"))
        self.assertEqual(str(launch), printed("emit", path, "--for", "megatron"))
        self.assertIsNone(launch.launcher)
        job = planner.emit(plan, "megatron", launcher="jobset", image="x", workdir="/y")
        self.assertEqual(job.launcher, "jobset")
        script = os.path.join(self.folder.name, "train.sh")
        planner.emit(plan, "megatron", out=script)
        self.check(planner.import_(script, var={"TP": 2}, gpus="16xh100"), "import", script,
                   "--var", "TP=2", "--gpus", "16xh100")

    def test_reports(self) -> None:
        for form in ("html", "part", "md"):
            self.assertEqual(of_any_commit(planner.report(self.path, format=form)),
                             of_any_commit(printed("report", self.path, "--format", form)))
        page = planner.load(self.path)._repr_html_()
        self.assertTrue(page.startswith('<div class="planner-part">'))
        self.assertNotIn("<script", page)

    def test_what_was_saved_is_what_the_command_line_writes(self) -> None:
        saved = os.path.join(self.folder.name, "saved.json")
        self.plan.save(saved)
        with open(saved, encoding="utf-8") as file, open(self.path, encoding="utf-8") as out:
            self.assertEqual(file.read(), out.read())
        self.assertEqual(planner.load(saved), self.plan)

    def test_help_and_version(self) -> None:
        self.assertEqual(planner.help("simulate"), printed("simulate", "--help"))
        self.assertEqual(of_any_commit(f"planner {planner.version()}\n"),
                         of_any_commit(printed("--version")))


class Fields(unittest.TestCase):
    """Records have the fields of the JSON, and no others."""

    def seen(self) -> dict[type, set[str]]:
        """The keys with which each kind of record occurs in answers that have everything."""
        keys: dict[type, set[str]] = {}

        def look(record: Record) -> None:
            data = record.to_dict()
            keys.setdefault(type(record), set()).update(data)
            for value in vars(record).values():
                for one in value if isinstance(value, list) else [value]:
                    if isinstance(one, Record):
                        look(one)

        with tempfile.TemporaryDirectory() as folder:
            plan = planner.plan("gpt2-1.5b", gpus=8, tokens="1B", pin=["checkpoint=every_k"])
            traces = os.path.join(folder, "traces")
            trace = os.path.join(folder, "step.json")
            script = os.path.join(folder, "train.sh")
            planner.emit(planner.plan("gpt2-1.5b", gpus=8, framework="megatron_core"), "megatron",
                         out=script)
            everything = dict(straggler=["rank=1,slowdown=1.5", "random=1%,slowdown=1.2"], scale=[1, 2], mtbf="50000h",
                              save="60s", restart="10min", sample_steps=20)
            for answer in (
                    plan, planner.simulate(plan, trace=trace, chakra=traces, **everything),
                    planner.simulate(plan, collectives="flows", storage="20GB/s"), planner.simulate(traces),
                    planner.compare(plan, plan), planner.compare(plan, strategies=True),
                    planner.validate(RUNS), planner.models(), planner.gpus(),
                    planner.sweep("gpt2-124m", gpus=[1, 2]), planner.emit(plan, "deepspeed"),
                    planner.import_(script, plan=True, gpu="h100-sxm-80g"),
                    planner.plan("gpt2-1.5b", gpus=8, framework="fsdp2"),
                    planner.plan("llama3-8b", gpus=8, gpu="rtx3090",
                                 robust="stragglers=1%x1.2,links=1%x0.5"), self.without_answer(),
                    planner.plan("gpt2-124m", gpus=2, gpu="t4", loss_scale=1024),
                    planner.plan("alexnet", gpus=2, gpu="h100", search="mcmc"),
                    planner.plan("mixtral-8x7b", gpus=64, gpu="h100", precision="fp8", mtp=1,
                                 fp8_tensors="dispatch", expert_imbalance=1.2, clip=1)):
                look(answer)
        return keys

    @staticmethod
    def without_answer() -> planner.files.Plan:
        try:
            planner.plan("llama3-70b", gpus=2, gpu="rtx3090")
        except planner.AnswerIsNo as error:
            return error.answer
        raise AssertionError("it fits")

    # Of comparisons with a run: the module runs no plans.
    OF_RUNS = {files.Comparison: {"runs", "other_hardware", "scaled_down", "library", "logs"}}

    def test_keys_are_fields_and_fields_are_keys(self) -> None:
        seen = self.seen()
        for kind, keys in seen.items():
            with self.subTest(kind.__name__):
                fields = {f.name.rstrip("_") for f in dataclasses.fields(kind)}
                self.assertEqual(keys | self.OF_RUNS.get(kind, set()), fields)
        known = {kind for module in (answers, files) for kind in vars(module).values()
                 if isinstance(kind, type) and issubclass(kind, Record)}
        self.assertEqual(known - set(seen), {Record, files.Answer})

    def test_values_have_the_types_that_fields_declare(self) -> None:
        def check(record: Record) -> None:
            hints = typing.get_type_hints(type(record), vars(files) | vars(answers))
            for field in dataclasses.fields(record):
                value, hint = getattr(record, field.name), hints[field.name]
                optional = type(None) in typing.get_args(hint)
                with self.subTest(f"{type(record).__name__}.{field.name}"):
                    if value is None:
                        self.assertTrue(optional or hint is typing.Any)
                        continue
                    plain = next((p for p in typing.get_args(hint) if p is not type(None)), hint) \
                        if optional else hint
                    if plain is not typing.Any:
                        self.assertIsInstance(value, typing.get_origin(plain) or plain)
                for one in value if isinstance(value, list) else [value]:
                    if isinstance(one, Record):
                        check(one)
        check(planner.plan("gpt2-1.5b", gpus=8, tokens="1B", pin={"pipeline": 2}))
        check(planner.gpus())
        check(planner.validate(RUNS))

    def test_to_dict_is_the_json_and_belongs_to_the_caller(self) -> None:
        plan = planner.plan("gpt2-124m", gpus=1, gpu="rtx3090")
        data = plan.to_dict()
        self.assertEqual(data, json.loads(plan.json))
        data["model"]["name"] = "changed"
        self.assertEqual(plan.to_dict()["model"]["name"], "gpt2-124m")
        self.assertEqual(plan.chosen.time.to_dict(), json.loads(plan.json)["chosen"]["time"])

    def test_a_key_that_is_not_known_yet_is_kept(self) -> None:
        data = planner.plan("gpt2-124m", gpus=1, gpu="rtx3090").chosen.time.to_dict()
        time = answers.Time.from_dict(data | {"later": 3})
        self.assertEqual(time.to_dict()["later"], 3)


class Tables(unittest.TestCase):
    """Answers as rows."""

    def test_rows_are_flat_and_those_of_the_answer(self) -> None:
        plan = planner.plan("gpt2-1.5b", gpus=8)
        rows = plan.rows()
        self.assertEqual(len(rows), 1 + len(plan.alternatives))
        self.assertEqual(rows[0]["time.step"], plan.chosen.time.step)
        self.assertEqual(rows[1]["memory.peaks.weights"], plan.alternatives[0].memory.peaks.weights)
        self.assertEqual(len(planner.models().rows()), len(planner.models().models))
        self.assertEqual([r["gpus"] for r in planner.sweep("gpt2-124m", gpus=[1, 2]).rows()],
                         [1, 2])

    def test_frames(self) -> None:
        try:
            import pandas
        except ImportError:
            self.skipTest("pandas is not installed")
        frame = planner.plan("gpt2-1.5b", gpus=8).to_frame()
        self.assertIsInstance(frame, pandas.DataFrame)
        self.assertTrue((frame["memory.device"] > 0).all())
        runs = pandas.read_csv(RUNS, comment="#")
        self.assertEqual(planner.validate(runs).per_row, planner.validate(RUNS).per_row)


if __name__ == "__main__":
    unittest.main()
