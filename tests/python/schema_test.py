"""docs/schemas is what the records say, and what the command line writes holds to it.

UPDATE_GOLDEN=1 writes the schemas anew. The check below knows the words of JSON Schema that they
use; where the package jsonschema is installed, it checks too.
"""

import json
import os
import tempfile
import unittest
from typing import Any, Iterator

import schemas
from command_line import printed

FOLDER = os.path.join(os.environ["PLANNER_SOURCE"], "docs", "schemas")
RUNS = os.path.join(os.environ["PLANNER_SOURCE"], "docs", "examples", "runs.csv")
TYPES = {"string": str, "integer": int, "number": (int, float), "boolean": bool, "object": dict,
         "array": list, "null": type(None)}


def faults(value: Any, schema: dict[str, Any], root: dict[str, Any], at: str) -> Iterator[str]:
    """What of a value does not hold to a schema."""
    if "$ref" in schema:
        yield from faults(value, root["$defs"][schema["$ref"].rsplit("/", 1)[1]], root, at)
    if "anyOf" in schema:
        tried = [list(faults(value, one, root, at)) for one in schema["anyOf"]]
        if all(tried):
            yield min(tried, key=len)[0]
    if "const" in schema and value != schema["const"]:
        yield f"{at}: {value!r} is not {schema['const']!r}"
    if "type" in schema:
        is_flag = isinstance(value, bool) and schema["type"] != "boolean"
        if is_flag or not isinstance(value, TYPES[schema["type"]]):
            yield f"{at}: {value!r} is no {schema['type']}"
            return
    if isinstance(value, dict):
        for key in schema.get("required", []):
            if key not in value:
                yield f"{at}: no {key}"
        for key, one in value.items():
            of_key = schema.get("properties", {}).get(key, schema.get("additionalProperties", {}))
            yield from faults(one, of_key, root, f"{at}/{key}")
    if isinstance(value, list):
        for i, one in enumerate(value):
            yield from faults(one, schema.get("items", {}), root, f"{at}/{i}")


class Schemas(unittest.TestCase):

    def test_files_are_what_the_records_say(self) -> None:
        written = schemas.texts()
        if os.environ.get("UPDATE_GOLDEN") == "1":
            os.makedirs(FOLDER, exist_ok=True)
            for name, text in written.items():
                with open(os.path.join(FOLDER, name), "w", encoding="utf-8") as file:
                    file.write(text)
        for name, text in written.items():
            with open(os.path.join(FOLDER, name), encoding="utf-8") as file:
                self.assertEqual(file.read(), text, "UPDATE_GOLDEN=1 writes it anew")
        self.assertEqual(set(written) | {"README.md"}, set(os.listdir(FOLDER)))

    def check(self, *words: str, code: int = 0) -> dict[str, Any]:
        data = json.loads(printed(*words, "--json", code=code))
        schema = schemas.file_schema(data["schema"])
        with self.subTest(" ".join(words)):
            self.assertEqual(list(faults(data, schema, schema, "")), [])
            try:
                import jsonschema
            except ImportError:
                return data
            jsonschema.Draft202012Validator(schema).validate(data)
        return data

    def test_what_the_command_line_writes_holds(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            plan, traces = os.path.join(folder, "plan.json"), os.path.join(folder, "traces")
            job = ["--model", "gpt2-1.5b", "--gpus", "8", "--framework", "megatron_core"]
            printed("plan", *job, "--out", plan)
            self.check("plan", *job, "--tokens", "1B")
            self.check("plan", *job, "--pin", "pipeline=2", "--pin", "sharding=none")
            self.check("plan", "--model", "llama3-8b", "--gpus", "8", "--gpu", "rtx3090,h100")
            for model in ("alexnet", "uce-33l", "bert-large"):
                self.check("plan", "--model", model, "--gpus", "2")
            self.check("plan", "--model", "alexnet", "--gpus", "2", "--search", "mcmc")
            self.check("plan", "--model", "mixtral-8x7b", "--gpus", "16", "--mode", "inference")
            self.check("plan", "--model", "llama3-70b", "--gpus", "2", "--gpu", "rtx3090", code=1)
            self.check("simulate", plan)
            self.check("simulate", plan, "--straggler", "rank=1,slowdown=2", "--scale", "1,2",
                       "--mtbf", "50000h", "--save", "60s", "--restart", "10min", "--chakra",
                       traces, "--trace", os.path.join(folder, "step.json"))
            self.check("simulate", plan, "--straggler", "random=1%,slowdown=2", "--failures",
                       "llama3-405b", "--storage", "2GB/s", "--restart", "10min")
            self.check("plan", *job, "--robust", "stragglers=1%x1.2,links=1%x0.5")
            self.check("simulate", plan, "--collectives", "flows")
            self.check("simulate", plan, "--fabric", "dgx-superpod", "--storage", "20GB/s")
            self.check("simulate", traces)
            self.check("compare", plan, plan)
            self.check("compare", plan, "--strategies")
            log = os.path.join(folder, "train.log")
            with open(log, "w", encoding="utf-8") as file:
                file.write("iteration 1/ 1 | elapsed time per iteration (ms): 1234.5 |\n")
            self.check("compare", plan, "--log", log)
            self.check("emit", plan, "--for", "megatron")
            script = os.path.join(folder, "train.sh")
            printed("emit", plan, "--for", "megatron", "--out", script)
            self.check("import", script)
            self.check("import", script, "--plan", "--gpu", "h100-sxm-80g")
            tiny, run = os.path.join(folder, "tiny.json"), os.path.join(folder, "run.json")
            printed("plan", "--model", "mlp-mnist", "--gpus", "2", "--gpu", "host", "--out", tiny)
            printed("exec", tiny, "--steps", "1", "--out", run)
            self.check("compare", tiny, run)
            self.check("compare", tiny, run, run)
        self.check("validate", RUNS)
        self.check("sweep", "--model", "gpt2-124m", "--gpus", "1,2")
        self.check("models")
        self.check("gpus")

    def test_a_file_that_does_not_hold_is_found(self) -> None:
        schema = schemas.file_schema("launch/1")
        good = {"schema": "launch/1", "framework": "megatron", "text": "x", "notes": ["y"]}
        self.assertEqual(list(faults(good | {"more": 1}, schema, schema, "")), [])
        for bad in ({"schema": "launch/2"}, {"text": 3}, {"notes": ["y", 1]}, {"notes": None}):
            self.assertEqual(len(list(faults(good | bad, schema, schema, ""))), 1, bad)
        del good["text"]
        self.assertEqual(list(faults(good, schema, schema, "")), [": no text"])


if __name__ == "__main__":
    unittest.main()
