"""The page that plans, in a real browser. usage: planning_page_test.py BIN_FOLDER PAGE
[SCREENSHOT_FOLDER]

Holds build/web/bin/planner.html, opened from disk, to what it promises: answers that are the
binary's to the byte, nothing sent, its size, links that carry the whole question, a search that can
be stopped, a config.json of one's own, and hostile texts that stay texts. Exits 77 where there is
no browser or no page."""

import gzip
import json
import pathlib
import subprocess
import sys
import tempfile

import webdriver
from promises import check, check_quiet, failures, settled

# Of each kind: one GPU, the many of a node, of several nodes, of two generations; all pins, none;
# what is refused, what does not fit; every verb of the page.
QUESTIONS = [
    "plan --model gpt2-1.5b --gpus 8",
    "plan --model llama3-8b --gpus 8xrtx3090",
    "plan --model llama3-70b --gpus 64xh100 --framework megatron_core --tokens 1T",
    "plan --model llama3-70b --gpus 8xrtx3090",
    "plan --model gemma-3-27b --gpus 16xa100 --framework fsdp2",
    "plan --model deepseek-v3 --gpus 256xh100 --framework megatron_core",
    "plan --model mixtral-8x7b --gpus 32xh100 --framework fsdp2 --objective memory",
    "plan --model llama3-8b --gpus 1xrtx4090 --mode finetune --lora-rank 16 --quantization nf4",
    "plan --model gpt2-1.5b --gpus 8 --pin tensor=3",
    "plan --model gtp2 --gpus 8",
    "plan --modle gpt2",
    "plan --model alexnet --gpus 4",
    "plan --model llama3-8b --gpus 8xh100+8xa100",
    "sweep --model gpt2-1.5b --gpus 1,2,4,8",
    "max-batch --model llama3-8b --gpus 8xh100",
    "min-gpus --model llama3-70b --gpu h100",
    "models",
]

CONFIG = {"model_type": "llama", "_name_or_path": "someone/tiny-llama", "hidden_size": 512,
          "intermediate_size": 1024, "num_hidden_layers": 6, "num_attention_heads": 8,
          "num_key_value_heads": 2, "vocab_size": 32000, "max_position_embeddings": 2048,
          "rms_norm_eps": 1e-5, "tie_word_embeddings": False}

MOST_COMPRESSED = 6_000_000            # bytes

# Keeps the answer where settled() finds it: a call of WebDriver waits for 30 s only.
ASK = """window.answered = null;
    ask(arguments[0], arguments[1]).then(a => window.answered = a, e => window.answered = {
        code: -1, out: '', page: '', reasons: String(e)});"""


def ask(browser, words, files=None):
    browser.run(ASK, words, files or {})
    return settled(lambda: browser.run("return window.answered"), lambda a: a is not None)


def without_clock(text):
    """A plan says how long its search took."""
    if not text.startswith("{"):
        return text
    answer = json.loads(text)
    for timed in (answer.get("search"), answer.get("clock")):
        if isinstance(timed, dict):
            timed.pop("seconds", None)
    return json.dumps(answer)


def check_answers(browser, planner):
    for question in QUESTIONS:
        words = question.split() + ["--json"]
        here = subprocess.run([planner, *words, "--quiet"], capture_output=True, text=True,
                              env={"LC_ALL": "C.UTF-8"})
        there = ask(browser, words + ["--quiet"])
        same = (there["code"] == here.returncode and
                without_clock(there["out"]) == without_clock(here.stdout))
        reasons = "".join(f"planner: {line}\n" for line in there["reasons"].splitlines()
                          if not line.startswith("note:"))
        said = "".join(line + "\n" for line in here.stderr.splitlines()
                       if not line.startswith("note:"))
        check(same and reasons == said,
              f"{question}: the binary's answer ({len(there['out'])} bytes, code {there['code']})"
              + ("" if same else f" and not {here.returncode} {here.stdout[:200]!r}")
              + ("" if reasons == said else f" {reasons!r} and not {said!r}"))


def status(browser):
    return browser.run("return document.getElementById('status').textContent")


def summary(browser):
    return browser.run("""const root = document.getElementById('summary').shadowRoot;
        return document.getElementById('result').hidden || !root ? '' : root.textContent""")


def submit(browser, **fields):
    browser.run("""for (const [name, text] of Object.entries(arguments[0]))
        field(name).value = text; document.getElementById('status').textContent = '';""", fields)
    browser.click("button.main")
    return settled(lambda: status(browser),
                   lambda s: s.startswith(("answered", "not planned", "stopped")))


def check_form(browser, shots):
    ended = submit(browser, model="gpt2-1.5b", gpus="8", gpu="h100-sxm-80g")
    check(ended.startswith("answered"), f"the form is answered: {ended}")
    check("zero1" in summary(browser), "its summary names the strategy")
    if shots:
        browser.screenshot(f"{shots}/planning_page.png", whole=True)
    terminal = browser.run("return document.getElementById('terminal').textContent")
    check(terminal.startswith("Recommended: "), "the terminal's text is there")
    browser.run("""document.getElementById('target').closest('details').open = true;
        document.getElementById('target').value = 'slurm';
        document.getElementById('target').onchange()""")
    launch = settled(
        lambda: browser.run("return document.getElementById('launch').textContent"), bool)
    check(launch.startswith("#!"), "and a file that starts it")
    ended = submit(browser, model="no-such-model")
    reasons = browser.run("return document.getElementById('reasons').textContent")
    check(ended == "not planned" and "no-such-model" in reasons, "an error is said in words")


def check_link(browser, url):
    """A config.json that is brought, its link, and the same answer in a fresh page."""
    browser.run("bring('config.json', arguments[0])", json.dumps(CONFIG))
    submit(browser, gpus="4", gpu="rtx4090", more="--pin tensor=2")
    first = browser.run("return plan")
    check(first and json.loads(first)["model"]["name"].startswith("tiny-"),
          "a config.json of one's own is planned")
    browser.run("window.linked = null; link().then(l => window.linked = l)")
    link = settled(lambda: browser.run("return window.linked"), bool)
    browser.open("about:blank")
    browser.open(link)
    settled(lambda: status(browser), lambda s: s.startswith("answered"))
    again = browser.run("return plan")
    check(again is not None and without_clock(again) == without_clock(first),
          f"its link of {len(link)} characters asks the same")
    check(link.startswith(url + "#"), "no server would see what it asks")


def check_hostile(browser):
    """The name of a file that is brought stands in the answer, and stays a text there."""
    name = "<img src=x onerror=window.struck=1>.json"
    browser.run("bring(arguments[0], arguments[1])", name, json.dumps(CONFIG))
    ended = submit(browser, gpus="1", gpu="rtx4090", more="")
    said = summary(browser) + browser.run("return document.getElementById('reasons').textContent")
    check("<img" in said, f"a hostile name is shown: {ended}")
    check(browser.run("""return !window.struck &&
        !document.getElementById('summary').shadowRoot.querySelector('img')"""), "as a text")


def check_stop(browser):
    browser.run("""field('model').value = 'deepseek-v3'; field('gpus').value = '16384';
        field('gpu').value = 'h100-sxm-80g'; field('more').value = '';""")
    browser.click("button.main")
    browser.click("#stop")
    ended = settled(lambda: status(browser), lambda s: s in ("stopped",) or s[:8] == "answered")
    check(ended == "stopped", f"a search can be stopped: {ended}")
    ended = submit(browser, model="gpt2-124m", gpus="1")
    check(ended.startswith("answered"), f"and another asked: {ended}")


def main():
    binaries, page = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])
    shots = sys.argv[3] if len(sys.argv) > 3 else None
    if not page.exists():
        print(f"skipped: no {page} (./dev web makes it)")
        return 77
    if why := webdriver.missing():
        print(f"skipped: {why}")
        return 77
    size = len(gzip.compress(page.read_bytes()))
    check(size < MOST_COMPRESSED, f"the page has {size / 1e6:.2f} MB compressed")
    with tempfile.TemporaryDirectory() as folder:
        copy = pathlib.Path(folder) / "planner.html"     # nothing lies beside it
        copy.write_bytes(page.read_bytes())
        browser = webdriver.Browser()
        try:
            url = copy.as_uri()
            browser.open(url)
            settled(lambda: browser.run("return document.getElementById('models').children.length"),
                    lambda n: n > 0)
            check_form(browser, shots)
            check_answers(browser, str(binaries / "planner"))
            check_link(browser, url)
            check_hostile(browser)
            check_stop(browser)
            check_quiet(browser, url, "blob:", "about:")
        finally:
            browser.close()
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
