"""The report page in a real browser. usage: page_test.py BIN_FOLDER [SCREENSHOT_FOLDER]

Opens pages from disk and holds them to what they promise: the answer first, every chart drawn
without scrolling, no request and no message on the console, every number as in its file, round time
axes, sorting, zooming, hovering, themes, paper, keyboard, accessibility, nothing cut at any width,
and hostile texts that stay texts. Exits 77 where there is no browser."""

import json
import os
import pathlib
import sys
import tempfile
import time

import webdriver
from page_charts import check_charts, check_network, check_round_times, check_timeline, check_tips
from page_files import make_files, make_hostile, planner, readable
from page_numbers import at, says
from promises import check, check_quiet, failures, settled

HERE = pathlib.Path(__file__).parent


def check_numbers(browser, files):
    cells = browser.run("""return [...document.querySelectorAll('[data-source]')].map(
        c => [c.dataset.source, c.dataset.value ?? null, c.textContent])""")
    documents = [json.loads(pathlib.Path(f).read_text()) for f in files]
    wrong = []
    for source, exact, text in cells:
        index, slash, pointer = source.partition("/")
        value = at(documents[int(index)], slash + pointer)
        number = isinstance(value, (int, float)) and not isinstance(value, bool)
        if (number and json.loads(exact) != value) or not says(text, value):
            wrong.append((source, exact, text, value))
    check(len(cells) > 100 and not wrong,
          f"{len(cells)} numbers and texts are as in the files {wrong[:3] or ''}")
    bare = browser.run("""return [...document.querySelectorAll('td.n:not([data-value])')].map(
        c => c.textContent).filter(t => t !== '-')""")
    check(not bare, f"every number has its exact value {bare[:3] or ''}")


ORDER = """const main = document.querySelector('main'), out = [];
    for (const e of main.querySelectorAll('h2, h3, .verdict, .tiles, .bar, .chart, table'))
      if (!e.hidden && !e.closest('details:not([open])')) out.push(e.className === 'chart'
        ? document.getElementById(e.id + 't').textContent : e.className.split(' ')[0] || e.tagName);
    return out"""


def check_answer(browser, binary):
    """A plan's page: verdict, five tiles with gauges, memory bar, timeline, then the rest."""
    planner(binary, "report", "plan.json", "--quiet", "--out", "answer.html")
    browser.open(pathlib.Path("answer.html").resolve().as_uri())
    order = browser.run(ORDER)
    seen = [o for o in order if o not in ("section", "part")]
    check(seen[:3] == ["verdict", "tiles", "bar"] and
          seen.index("The first step of a run") < seen.index(
              "Parts of a step on the critical rank"), f"the answer comes first: {seen[:6]}")
    tiles = browser.run("""return [...document.querySelectorAll('.tile')].map(t => [
        t.querySelector('.what').textContent, t.querySelector('.figure').textContent,
        t.querySelector('.gauge .fill').getBoundingClientRect().width,
        t.querySelector('.gauge').getAttribute('aria-label').length])""")
    check(len(tiles) == 5 and all(width > 0 and said > 5 for _, _, width, said in tiles),
          f"five tiles with gauges {[t[:2] for t in tiles]}")
    risk = json.loads(pathlib.Path("plan.json").read_text())["chosen"]["uncertainty"]
    verdict = browser.run("return document.querySelector('.verdict').textContent")
    check("risk of running out of memory" in verdict and risk["out_of_memory"] <= 0.05
          and verdict.startswith("Fits"), f"the verdict says the risk: {verdict[-60:]!r}")
    under = browser.run("""return [...document.querySelectorAll('figure + .scroll')].length""")
    folded = browser.run("""return [...document.querySelectorAll('main details')].map(d => [
        d.open, d.querySelector('summary').textContent])""")
    check(under == 0 and folded and not any(is_open for is_open, _ in folded)
          and all(len(said) > 10 for _, said in folded),
          f"{len(folded)} tables are folded, each with a line that says what it is")
    browser.run("document.querySelector('main details summary').focus()")
    browser.keys("\ue007")
    check(browser.run("return document.querySelector('main details').open"),
          "a folded table opens by keyboard")


def check_measured_first(browser, binary):
    """A plan with its run: predicted beside measured opens the page."""
    planner(binary, "report", "host_plan.json", "host_run.json", "--quiet", "--out", "host.html")
    browser.open(pathlib.Path("host.html").resolve().as_uri())
    headings = browser.run("return [...document.querySelectorAll('h2')].map(h => h.textContent)")
    check(headings[0] == "Predicted beside measured" and headings[1].startswith("Plan "),
          f"predicted beside measured comes first {headings}")
    series = browser.run("""return echarts.getInstanceByDom(document.querySelector('.chart'))
        .getOption().series.filter(s => s.type === 'bar').map(s => [s.name, s.data.length])""")
    check([name for name, _ in series] == ["predicted", "measured"] and series[0][1] >= 4,
          f"two bars a term {series}")
    errors = """const t = [...document.querySelectorAll('table')].find(
        t => t.caption.textContent.startsWith('Predicted and measured'));
        return [...t.tBodies[0].rows].map(r => [r.cells[0].textContent, r.cells[3].textContent])"""
    here = dict(browser.run(errors))
    check(here["time: step"].endswith("%"), f"with its relative error {here['time: step']}")
    planner(binary, "report", "plan.json", "run.json", "--quiet", "--out", "elsewhere.html")
    browser.open(pathlib.Path("elsewhere.html").resolve().as_uri())
    verdict = browser.run("return document.querySelector('.verdict').textContent")
    other = dict(browser.run(errors))
    check(verdict.startswith("Times are not comparable") and "H100" in verdict
          and other["time: step"] == "not comparable" and other["memory: live"] == "0.0 %",
          f"a run on other hardware is not compared in time {verdict[:80]!r}")


def check_sort(browser):
    index = browser.run("""const all = [...document.querySelectorAll('main table')];
        const t = all.findIndex(t => t.caption.textContent === 'Candidates');
        all[t].closest('details').open = true; return t;""")
    column = """const t = document.querySelectorAll('main table')[arguments[0]];
        return [[...t.tBodies[0].rows].map(r => Number(r.cells[1].dataset.value)),
                t.tHead.rows[0].cells[1].getAttribute('aria-sort')]"""
    press = """document.querySelectorAll('main table')[arguments[0]]
        .tHead.rows[0].cells[1].querySelector('button').focus()"""
    browser.run(press, index)
    browser.keys("\ue007")
    values, state = browser.run(column, index)
    check(values == sorted(values) and state == "ascending", "a table sorts up, by keyboard")
    browser.keys("\ue007")
    values, state = browser.run(column, index)
    check(values == sorted(values, reverse=True) and state == "descending", "and down")


def check_themes(browser):
    paper = "return getComputedStyle(document.body).backgroundColor"
    seen = []
    for _ in range(3):
        seen.append(browser.run(paper))
        browser.run("document.getElementById('theme').focus()")
        browser.keys(" ")
    check(len(set(seen)) == 2 and browser.run(paper) == seen[0], f"the theme switches {seen}")


def check_print(browser, folder):
    pdf = browser.do("POST", "/print", {"background": True})
    check(len(pdf) > 40_000, f"prints, {len(pdf) * 3 // 4} bytes of PDF")
    if folder:
        import base64
        (folder / "page.pdf").write_bytes(base64.b64decode(pdf))
    check(browser.run("return document.documentElement.dataset.theme ?? ''") == ""
          and browser.run("return document.querySelector('.chart canvas') !== null"),
          "and is as before afterwards")
    folded = "return document.querySelectorAll('main details:not([open])').length"
    before = browser.run(folded)
    browser.run("dispatchEvent(new Event('beforeprint'))")
    check(before > 5 and browser.run(folded) == 0, "every table is open on paper")
    browser.developer("Emulation.setDeviceMetricsOverride", width=718, height=900,
                      deviceScaleFactor=1, mobile=False)  # A4 between its margins
    browser.developer("Emulation.setEmulatedMedia", media="print")
    wide = settled(lambda: browser.run("return document.documentElement.scrollWidth"),
                   lambda pixels: pixels <= 718)
    check(wide <= 718, f"and nothing is wider than the paper ({wide})")
    browser.developer("Emulation.setEmulatedMedia", media="")
    browser.developer("Emulation.clearDeviceMetricsOverride")
    check(browser.run("return [...document.querySelectorAll('.chart:not([hidden])')].every("
                      "b => b.querySelectorAll('svg path').length > 3)"),
          "every chart is a drawing on paper")
    browser.run("dispatchEvent(new Event('afterprint'))")
    check(browser.run(folded) == before, "and folded again afterwards")


def check_accessible(browser, what):
    browser.run((HERE / "vendor" / "axe.min.js").read_text())
    found = browser.run_async("""const done = arguments[0];
        axe.run(document, {resultTypes: ['violations']}).then(r => done(r.violations.map(
            v => v.id + ': ' + v.nodes.slice(0, 2).map(n => n.html.slice(0, 120)).join(' | '))))""")
    check(not found, f"accessible in {what} {found or ''}")
    levels = browser.run("""return [...document.querySelectorAll('h1,h2,h3,h4')].map(
        h => Number(h.tagName[1]))""")
    steps = [b - a for a, b in zip(levels, levels[1:])]
    check(levels[0] == 1 and levels.count(1) == 1 and max(steps) <= 1, "headings descend by one")


# What is wider than the box that holds it: tables, and the labels of drawn charts.
CUT = """const cut = [...document.querySelectorAll('.scroll')].filter(
      s => s.scrollWidth > s.clientWidth + 1).map(s => s.getAttribute('aria-label'));
    for (const svg of document.querySelectorAll('.chart svg')) {
      const box = svg.getBoundingClientRect();
      for (const t of svg.querySelectorAll('text')) {
        const r = t.getBoundingClientRect();
        if (r.width && (r.left < box.left - 1 || r.right > box.right + 1))
          cut.push(t.textContent);
      }
    }
    return cut"""


def check_widths(browser, folder, name="page"):
    for width in (390, 820, 1280):
        browser.developer("Emulation.setDeviceMetricsOverride", width=width, height=900,
                          deviceScaleFactor=1, mobile=width < 600)
        wide = settled(lambda: browser.run("return document.documentElement.scrollWidth"),
                       lambda pixels: pixels <= width)
        check(wide <= width, f"{name}: {width} pixels wide without scrolling sideways ({wide})")
        if folder:
            browser.screenshot(folder / f"{name}-{width}.png", whole=True)
        browser.run("document.querySelectorAll('details').forEach(d => d.open = true)")
        cut = settled(lambda: browser.run(CUT), lambda found: not found)
        check(not cut, f"{name}: nothing is cut at {width} pixels, all tables open {cut[:4] or ''}")
        browser.run("document.querySelectorAll('details').forEach(d => d.open = false)")
    browser.developer("Emulation.clearDeviceMetricsOverride")


def check_hostile(browser, binary):
    files = [f for f in make_hostile() if readable(binary, f)]
    check(len(files) >= 6, f"hostile files are read, or refused with a reason: {len(files)} read")
    planner(binary, "report", *files, "--quiet", "--out", "hostile.html")
    url = pathlib.Path("hostile.html").resolve().as_uri()
    browser.log("browser"), browser.log("performance")
    browser.open(url)
    check(browser.run("return window.hit ?? null") is None
          and browser.run("return document.querySelectorAll('img, script').length") == 3,
          "markup in a file stays text")
    check_quiet(browser, url)
    check_widths(browser, None, "the hostile page")
    browser.run("""const s = document.createElement('script'); s.textContent = 'window.hit = 2';
        document.body.appendChild(s);""")
    check(browser.run("return window.hit ?? null") is None, "no other script may run")


def check_large(browser, binary):
    planner(binary, "report", "big.json", "--quiet", "--out", "big.html")
    size = os.path.getsize("big.html")
    check(size < 10_000_000, f"a plan of 16,384 GPUs is a page of {size} bytes")
    browser.open(pathlib.Path("big.html").resolve().as_uri())
    check_widths(browser, None, "the large plan")
    planner(binary, "--model", "gpt2-124m", "--gpus", 2, "--gpu", "rtx4090", "--seq", 64,
            "--global-batch", 16384, "--pin", "micro_batch=1", "--pin", "pipeline=2", "--out",
            "long.json")
    planner(binary, "report", "long.json", "--quiet", "--out", "long.html")
    browser.open(pathlib.Path("long.html").resolve().as_uri())
    said = browser.run("return document.querySelector('main').textContent")
    slices = browser.run("""return JSON.parse(document.getElementById('charts').textContent).find(
        c => c.kind === 'timeline').data.slices.length""")
    check("too many passes for one chart" in said and 50_000 < slices <= 60_001,
          f"of a step of 16,384 micro-batches the timeline shows the first {slices} passes")
    planner(binary, "report", "plan.json", "big.json", "plan.json", "--quiet", "--out", "two.html")
    browser.open(pathlib.Path("two.html").resolve().as_uri())
    check_accessible(browser, "a page of several plans")
    browser.open(pathlib.Path("big.html").resolve().as_uri())
    began = time.monotonic()
    check_timeline(browser)
    print(f"        its timeline took {time.monotonic() - began:.1f} s to try")


def main():
    binary = str(pathlib.Path(sys.argv[1]).resolve() / "planner")
    folder = pathlib.Path(sys.argv[2]).resolve() if len(sys.argv) > 2 else None
    reason = webdriver.missing()
    if reason:
        print(f"skipped: {reason}")
        sys.exit(77)
    with tempfile.TemporaryDirectory() as work:
        os.chdir(work)
        make_files(binary)
        files = ["plan.json", "run.json", "simulate.json", "links.json", "compare.json",
                 "validate.json", "sweep.json"]
        planner(binary, "report", *files, "--quiet", "--out", "page.html")
        browser = webdriver.Browser()
        try:
            url = pathlib.Path("page.html").resolve().as_uri()
            browser.open(url)
            check(browser.run("return document.documentElement.dataset.ready") == "yes", "opens")
            check_charts(browser, 12)
            check_network(browser)
            check_round_times(browser)
            check_tips(browser)
            check_numbers(browser, files)
            check_sort(browser)
            check_timeline(browser)
            check_themes(browser)
            check_print(browser, folder)
            check_accessible(browser, "light")
            browser.developer("Emulation.setEmulatedMedia", features=[
                {"name": "prefers-color-scheme", "value": "dark"}])
            check_accessible(browser, "dark")
            browser.developer("Emulation.setEmulatedMedia", features=[])
            check_widths(browser, folder)
            check_quiet(browser, url)
            check_answer(browser, binary)
            check_widths(browser, folder, "answer")
            check_measured_first(browser, binary)
            check_hostile(browser, binary)
            check_large(browser, binary)
        finally:
            browser.close()
            os.chdir("/")
    print(f"{'FAILED' if failures else 'ok'}: {len(failures)} of the page's promises do not hold")
    sys.exit(1 if failures else 0)


main()
