#!/usr/bin/env python3
"""A stranger's text in every field of every kind of file, through every verb and every form.

Each text of a file is replaced by one that a shell, a browser, a spreadsheet, a Markdown reader or a
terminal would act on. A reader may refuse it. Whatever is written all the same is read by a parser
of its form, and holds nothing of the text but data: no hidden character, no tag, no link, no
formula, no cell more, and no command to copy that starts anything.

usage: strangers_texts.py BIN_FOLDER
"""

import copy
import csv
import html.parser
import io
import json
import os
import re
import subprocess
import sys
import tempfile

# Nothing hidden in it: names may hold it.
SEEN = ("=x'; touch PWNED; '$(touch PWNED)`touch PWNED`\" # </script></title>"
        "<img src=x onerror=PWNED()>|[a](javascript:PWNED)|")
HIDDEN = "x\ntouch PWNED\x1b]0;PWNED\x07\u009b2J\u202e"
HIDDEN_CHARACTERS = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
HANGS = 300

planner = os.path.join(os.path.abspath(sys.argv[1]), "planner")
failures, pages, refused, accepted = [], 0, 0, 0


def run(*words):
    done = subprocess.run([planner, *words], capture_output=True, timeout=HANGS,
                          stdin=subprocess.DEVNULL)
    return done.returncode, done.stdout.decode(errors="backslashreplace"), \
        done.stderr.decode(errors="backslashreplace")


def must(*words):
    code, _, err = run(*words)
    if code != 0:
        sys.exit(f"planner {' '.join(words)}: exit {code}: {err}")


# ---- what a form may hold -----------------------------------------------------------------------

class Elements(html.parser.HTMLParser):
    """The tags of a page, with the names of their attributes, and its links."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.links, self.scripts = set(), set(), 0
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        self.tags.add((tag, tuple(sorted(name for name, _ in attributes))))
        self.links.update(value for name, value in attributes if name in ("href", "src"))
        self.scripts += tag == "script"


def html_fault(text, honest):
    page, other = Elements(text), Elements(honest)
    kinds = {tag for tag, _ in other.tags}
    names = {name for _, attributes in other.tags for name in attributes}
    strange = [f"<{tag} {' '.join(attributes)}>" for tag, attributes in page.tags
               if tag not in kinds or not set(attributes) <= names]
    strange += [link for link in page.links if link and not link.startswith(("#", "data:"))]
    if page.scripts != other.scripts:
        strange.append(f"{page.scripts} scripts instead of {other.scripts}")
    return strange[:3]


def cells(line):
    return len(re.sub(r"\\.", "", line).split("|"))


def markdown_fault(text, _):
    bare = re.sub(r"\\.", "", text)
    strange = re.findall(r"<[a-zA-Z/!][^\n]{0,20}|\]\([^)\n]{0,30}", bare)
    strange = [s for s in strange if not re.fullmatch(r"\]\([\w.-]+\.svg", s)]
    lines = text.split("\n")
    for i, line in enumerate(lines):
        if line.startswith("|") and i > 0 and lines[i - 1].startswith("|") and \
                cells(line) != cells(lines[i - 1]):
            strange.append(f"a cell more: {line[:120]}")
    return strange[:3]


def csv_fault(text, _):
    rows = list(csv.reader(io.StringIO(text)))
    strange = [cell for row in rows for cell in row if cell[:1] in tuple("=+-@")
               and not re.fullmatch(r"[-+]?[0-9.]+([eE][-+]?[0-9]+)?", cell)]
    return (strange + [f"{len(row)} cells" for row in rows if len(row) != len(rows[0])])[:3]


def json_fault(text, _):
    json.loads(text)
    return []


def text_fault(text, _):
    """The commands of the block `Next` are run in a shell where planner does nothing."""
    at = text.rfind("\nNext\n")
    if at < 0:
        return []
    commands = [line[2:].split("   ")[0] for line in text[at + 6:].replace("\\\n      ", "").split("\n")
                if line.startswith("  ") and not line.startswith("    ")]
    script = "planner() { :; }\nopen() { :; }\ncat() { :; }\n" + "\n".join(
        command for command in commands if command.startswith(("planner ", "open ", "cat ")))
    done = subprocess.run(["bash", "-c", script], capture_output=True, timeout=HANGS)
    return [done.stderr.decode()[:200]] if done.stderr else []


FAULTS = {"html": html_fault, "md": markdown_fault, "csv": csv_fault, "json": json_fault,
          "text": text_fault}


def check(where, form, text, honest):
    hidden = HIDDEN_CHARACTERS.search(text)
    # A tab or a form feed is no text of ours in any form; page scripts are compiled in.
    if hidden and not (form == "html" and honest and hidden.group() in honest):
        failures.append(f"{where}: {form} holds {hidden.group()!r}")
    try:
        found = FAULTS[form](text, honest)
    except ValueError as error:
        found = [f"not {form}: {error}"]
    failures.extend(f"{where}: {form}: {fault}" for fault in found)
    if os.path.exists("PWNED"):
        failures.append(f"{where}: {form}: a command ran")
        os.remove("PWNED")


# ---- files with a text replaced -----------------------------------------------------------------

def paths(value, path=()):
    if isinstance(value, str):
        yield path
    children = value.items() if isinstance(value, dict) else \
        enumerate(value) if isinstance(value, list) else ()
    for key, child in children:
        yield from paths(child, path + (key,))


def put(value, path, text):
    for key in path[:-1]:
        value = value[key]
    value[path[-1]] = text


def shape(path):
    return tuple("" if isinstance(key, int) else key for key in path)


def with_every_text(file, reader):
    """The file as JSON with SEEN in every text that `reader` takes it in. Refusals and hidden
    characters are checked here, one text of each kind at a time."""
    global refused, accepted
    with open(file) as stream:
        honest = json.load(stream)
    everything, tried = copy.deepcopy(honest), set()
    for path in paths(honest):
        if shape(path) in tried:
            continue
        tried.add(shape(path))
        for attack in (SEEN, HIDDEN):
            one = copy.deepcopy(honest)
            put(one, path, attack)
            with open("one.json", "w") as stream:
                json.dump(one, stream)
            code, out, err = run(*[("one.json" if word == "FILE" else word) for word in reader])
            where = f"{file} {'/'.join(map(str, path))}"
            if code not in (0, 2):
                failures.append(f"{where}: exit {code}: {err[:200]}")
            check(where, "text", out + err, "")
            refused += code == 2
            accepted += code == 0
            if code == 0 and attack is SEEN:
                candidate = copy.deepcopy(everything)
                put(candidate, path, attack)
                with open("one.json", "w") as stream:
                    json.dump(candidate, stream)
                if run(*[("one.json" if word == "FILE" else word) for word in reader])[0] == 0:
                    everything = candidate
    return everything


def through(file, lying, verbs):
    """Each verb on the honest file and on the lying one, whose pages are checked. FILE stands for it."""
    global pages
    for form, words in verbs:
        outputs = []
        for name in (file, lying):
            for left in ("page.html", "page.md", "page.csv"):
                if os.path.exists(left):
                    os.remove(left)
            code, out, err = run(*[(name if word == "FILE" else word) for word in words])
            if "--out" in words and code == 0:
                with open(words[words.index("--out") + 1]) as stream:
                    out = stream.read()
            outputs.append((code, out, err))
        (honest_code, honest, _), (code, out, err) = outputs
        where = f"{lying}: planner {' '.join(words)}"
        if honest_code != 0:
            failures.append(f"{where}: the honest file is refused: {outputs[0][2][:300]}")
        if code not in (0, 2):
            failures.append(f"{where}: exit {code}: {err[:200]}")
        check(where, "text", err, "")
        if code == 0:
            pages += 1
            check(where, form, out, honest)


def lie(file, reader, verbs):
    lying = "lying-" + os.path.basename(file)
    everything = with_every_text(file, reader)
    with open(lying, "w") as stream:
        json.dump(everything, stream)
    through(file, lying, verbs)


def lie_in_text(file, verbs):
    """A file that is no JSON: SEEN and HIDDEN in place of the word STRANGER."""
    with open(file) as stream:
        template = stream.read()
    honest = file + ".honest"
    with open(honest, "w") as stream:
        stream.write(template.replace("STRANGER", "a_name"))
    for i, attack in enumerate((SEEN.replace("'", ""), SEEN.replace('"', ""), SEEN, HIDDEN)):
        lying = f"{i}-{file}"
        with open(lying, "w", newline="") as stream:
            stream.write(template.replace("STRANGER", attack))
        through(honest, lying, verbs)


PAGES = [("html", ["report", "FILE", "--out", "page.html"]),
         ("html", ["report", "FILE", "--format", "part"]), ("md", ["report", "FILE", "--format", "md"])]
QUESTION = ["--model", "mlp-mnist", "--gpus", "2", "--gpu", "h100-sxm-80g", "--recipe", "fp32",
            "--global-batch", "8", "--pin", "data=2", "--quiet"]

RUNS = """id,dataset,group,source,framework,model,family,layers,hidden,heads,kv_heads,ffn_hidden,ffn,vocab,tied_embeddings,seq_len,gpu,gpus,gpus_per_node,internode_gbps,data,tensor,sequence_parallel,pipeline,virtual_stages,context,sharding,shard_group,micro_batch,global_batch,precision,reduce_dtype,optimizer,lora_rank,quantization,offload,tp_overlap,fp8_scaling,checkpoint,attention,fused_norm,compile,schedule,step_seconds,peak_memory_gib,memory_kind,fits,note
"STRANGER","STRANGER",,"STRANGER",fsdp1,"STRANGER",mpt,24,2048,16,16,8192,gelu,50368,1,2048,h100-sxm-80g,8,8,,8,1,0,1,1,1,zero3,8,4,64,bf16,fp32,adamw,0,none,none,0,,none,flash1,0,0,none,1.2,40,allocated,,"STRANGER"
b,"STRANGER",,"STRANGER",fsdp1,m,mpt,24,2048,16,16,8192,gelu,50368,1,2048,"STRANGER",8,8,,8,1,0,1,1,1,zero3,8,4,64,bf16,fp32,adamw,0,none,none,0,,none,flash1,0,0,none,1.2,,,,
"""
COLLECTIVES = """id,gpu,topology,n_gpus,nodes,collective,bytes,time_us,algbw_GBps,busbw_GBps,place,source,note
"STRANGER",H100,"NVSwitch STRANGER",8,1,all_reduce,1073741824,4000,,,in-place,"STRANGER","STRANGER"
b,"STRANGER","STRANGER",8,1,"STRANGER",1073741824,4000,,,in-place,"STRANGER",
"""
SCRIPT = """#!/bin/bash
NAME="STRANGER"
torchrun --nproc_per_node 8 pretrain_gpt.py --num-layers 12 --hidden-size 768 \\
  --num-attention-heads 12 --seq-length 1024 --max-position-embeddings 1024 --micro-batch-size 4 \\
  --global-batch-size 64 --bf16 --vocab-size 50304 --strange "$NAME" --save "STRANGER" # STRANGER
"""
JOB = """# STRANGER
[model]
name = "llama3"
flavor = "8B"
[training]
local_batch_size = 2
seq_len = 8192
dataset = "STRANGER"
[parallelism]
data_parallel_shard_degree = 8
"""
DEEPSPEED = """{"train_batch_size": 16, "train_micro_batch_size_per_gpu": 2, "STRANGER": "STRANGER",
 "zero_optimization": {"stage": 2}, "bf16": {"enabled": true}, "wandb": {"team": "STRANGER"}}
"""
LOG = """STRANGER
 iteration 1/ 2 | elapsed time per iteration (ms): 900.5 | global batch size: 8 | STRANGER
 iteration 2/ 2 | elapsed time per iteration (ms): 100.5 | global batch size: 8 | STRANGER
STRANGER | memory (MB) | max allocated: 512.00 | max reserved: 600.00
"""


def main():
    must(*QUESTION, "--out", "plan.json")
    must("exec", "plan.json", "--steps", "1", "--quiet", "--out", "run.json")
    must("simulate", "plan.json", "--links", "shared", "--out", "simulate.json")
    must("compare", "plan.json", "run.json", "--out", "compare.json")
    must("sweep", "--model", "mlp-mnist", "--gpu", "h100-sxm-80g", "--gpus", "1,2", "--recipe", "fp32",
         "--global-batch", "8", "--out", "sweep.json")
    with open("plan.json") as stream:
        plan = json.load(stream)
    for name, part in (("model.json", plan["model"]["spec"]),
                       ("profile.json", plan["cluster"]["profile"])):
        with open(name, "w") as stream:
            json.dump(part, stream)
    for name, text in (("runs.csv", RUNS), ("timed.csv", COLLECTIVES), ("train.sh", SCRIPT),
                       ("job.toml", JOB), ("ds.json", DEEPSPEED), ("train.log", LOG)):
        with open(name, "w") as stream:
            stream.write(text)

    lie("plan.json", ["explain", "time.step", "--plan", "FILE"],
        [("text", ["explain", "memory.activations", "--plan", "FILE"]),
         ("text", ["explain", "why-not", "tensor=1", "--plan", "FILE"]),
         ("text", ["compare", "FILE", "--strategies"]),
         ("csv", ["compare", "FILE", "--strategies", "--format", "csv"]),
         ("md", ["compare", "FILE", "--strategies", "--format", "md"]),
         ("json", ["compare", "FILE", "--strategies", "--json"]),
         ("text", ["simulate", "FILE"]), ("json", ["simulate", "FILE", "--json"]),
         ("json", ["simulate", "FILE", "--trace", "step.json", "--out", "page.md"]),
         ("json", ["emit", "FILE", "--for", "slurm", "--json"]),
         ("text", ["exec", "FILE", "--steps", "1", "--quiet"]), *PAGES])
    lie("run.json", ["report", "FILE", "--format", "md"],
        [("text", ["compare", "plan.json", "FILE"]),
         ("csv", ["compare", "plan.json", "FILE", "--format", "csv"]),
         ("md", ["compare", "plan.json", "FILE", "--format", "md"]), *PAGES])
    for name in ("simulate.json", "compare.json", "sweep.json"):
        lie(name, ["report", "FILE", "--format", "md"], PAGES)
    ask = ["--gpus", "2", "--global-batch", "8"]
    lie("model.json", ["--model", "FILE", *ask],
        [("text", ["--model", "FILE", *ask, "--full"]), ("json", ["--model", "FILE", *ask, "--json"])])
    lie("profile.json", ["--model", "gpt2-124m", "--gpu", "FILE", *ask],
        [("text", ["--model", "gpt2-124m", "--gpu", "FILE", *ask, "--full"]),
         ("text", ["sweep", "--model", "gpt2-124m", "--gpu", "FILE", *ask]),
         ("csv", ["sweep", "--model", "gpt2-124m", "--gpu", "FILE", *ask, "--format", "csv"]),
         ("md", ["sweep", "--model", "gpt2-124m", "--gpu", "FILE", *ask, "--format", "md"]),
         ("text", ["min-gpus", "--model", "gpt2-124m", "--gpu", "FILE"])])
    lie_in_text("runs.csv", [("text", ["validate", "FILE"]), ("json", ["validate", "FILE", "--json"])])
    lie_in_text("timed.csv", [("text", ["validate", "FILE"]), ("json", ["validate", "FILE", "--json"])])
    for name in ("train.sh", "job.toml", "ds.json"):
        model = ["--model", "gpt2-124m"] if name == "ds.json" else []
        lie_in_text(name, [("text", ["import", "FILE", *model]),
                           ("json", ["import", "FILE", *model, "--json"])])
    lie_in_text("train.log", [("text", ["compare", "plan.json", "--log", "FILE"]),
                              ("md", ["compare", "plan.json", "--log", "FILE", "--format", "md"])])

    # The name of a file is a text, too.
    for attack in (SEEN.replace("/", ""), HIDDEN):
        for file in ("plan.json", "run.json"):
            lying = f"{attack}{file}"
            with open(file) as stream, open(lying, "w") as copied:
                copied.write(stream.read())
            through(file, lying, [("text", ["compare", "plan.json", "FILE"]),
                                  ("csv", ["compare", "plan.json", "FILE", "--format", "csv"]),
                                  ("md", ["compare", "plan.json", "FILE", "--format", "md"]), *PAGES])
        plan_verbs = [["simulate", "FILE"], ["explain", "time.step", "--plan", "FILE"],
                      ["exec", "FILE", "--steps", "1", "--quiet"], ["emit", "FILE", "--for", "slurm"],
                      ["verify", "FILE"], ["validate", "FILE"], ["import", "FILE"]]
        for words in plan_verbs:
            code, out, err = run(*[(f"{attack}plan.json" if w == "FILE" else w) for w in words])
            check(f"planner {' '.join(words)} of {attack!r}", "text", out + err, "")
        code, out, err = run(*QUESTION, "--out", attack)
        check(f"plan --out {attack!r}", "text", out + err, "")
        for words in (["--model", attack, "--gpus", "2"], ["--gpus", attack], ["explain", attack],
                      [attack], ["--pin", attack], ["simulate", "plan.json", "--fabric", attack]):
            code, out, err = run(*words)
            check(f"planner {words!r}", "text", out + err, "")

    print(f"{accepted} texts taken, {refused} refused, {pages} pages read back")
    if failures or not pages:
        print(*failures[:25], f"{len(failures)} failures", sep="\n")
        sys.exit(1)


with tempfile.TemporaryDirectory() as folder:
    os.chdir(folder)
    main()
