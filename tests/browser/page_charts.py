"""Charts and pictures of a page: drawn, in words, in round units, and what a pointer and keys do."""

from promises import check, settled


def check_charts(browser, least):
    drawn = browser.run("""return [...document.querySelectorAll('.chart')].map(b =>
        [b.hidden || b.querySelector('svg path, canvas') !== null,
         document.getElementById(b.id + 'a').textContent.length])""")
    check(len(drawn) >= least and all(d for d, _ in drawn),
          f"{len(drawn)} charts are drawn, none of them scrolled to")
    check(browser.run("return scrollY") == 0, "and the page is still at its top")
    check(all(n > 10 for _, n in drawn), "every chart is said in words")


def check_tips(browser):
    """Every chart says what is under the pointer, at each of its series' first points."""
    silent = browser.run("""return [...document.querySelectorAll('.chart:not([hidden])')].map(b => {
        const chart = echarts.getInstanceByDom(b), said = [];
        chart.getOption().series.forEach((s, i) => {
          if (s.silent || !s.data.length || (s.type === 'custom' && / range$/.test(s.name))) return;
          chart.dispatchAction({type: 'showTip', seriesIndex: i, dataIndex: 0});
          const tip = b.querySelector('.tip');
          said.push(tip && tip.textContent.length > 3);
        });
        chart.dispatchAction({type: 'hideTip'});
        return said.length && said.every(Boolean) ? null : b.id + ' ' + said;
      }).filter(Boolean)""")
    check(not silent, f"every chart says what is under the pointer {silent or ''}")


def check_network(browser):
    """A picture of links: its cells fill the row, and stand out from the page in both themes."""
    rows = browser.run("""return [...document.querySelectorAll('.network .cells')].map(svg => {
        const all = svg.getBoundingClientRect(), cells = [...svg.querySelectorAll('rect')];
        const last = cells[cells.length - 1].getBoundingClientRect();
        return [cells.length, all.width, last.right - all.right,
                new Set(cells.map(c => getComputedStyle(c).fill)).has('rgb(0, 0, 0)'),
                [...svg.querySelectorAll('text')].every(t => {
                  const r = t.getBoundingClientRect();
                  return r.left >= all.left && r.right <= all.right; })]; })""")
    check(len(rows) >= 6 and all(n > 0 and width > 100 and abs(over) < 3 and not black and inside
                                 for n, width, over, black, inside in rows),
          f"{len(rows)} rows of links fill their width {rows[:2]}")


def check_round_times(browser):
    """Every time axis ticks at round numbers of one unit."""
    labels = browser.run("""return [...document.querySelectorAll('.chart')].flatMap(b => {
        const chart = echarts.getInstanceByDom(b);
        return !chart ? [] : chart.getModel().queryComponents({mainType: 'xAxis'}).concat(
            chart.getModel().queryComponents({mainType: 'yAxis'})).filter(
              a => a.axis.type === 'value').map(a => a.axis.getViewLabels().map(
                l => l.formattedLabel).filter(Boolean)).filter(
              ls => ls.some(l => / (ns|us|ms|s|min|h|d)$/.test(l)));
      })""")
    rough = [ls for ls in labels if len(ls) < 2 or len({l.split()[-1] for l in ls if l != "0"}) > 1
             or any(len(l.split()[0].replace(".", "").strip("0")) > 3 for l in ls)]
    check(len(labels) >= 5 and not rough, f"{len(labels)} time axes in round units {rough or ''}")


SPAN = """const b = [...document.querySelectorAll('.chart')].find(b => b.querySelector('canvas'));
    const z = echarts.getInstanceByDom(b).getOption().dataZoom[0];
    return [z.startValue, z.endValue]"""


def check_timeline(browser):
    name = browser.run("""const b = [...document.querySelectorAll('.chart')].find(
        b => b.querySelector('canvas')); b.scrollIntoView({block: 'start'}); return '#' + b.id""")
    whole = browser.run(SPAN)
    browser.run("document.querySelector(arguments[0]).focus()", name)
    browser.keys("+", "+")
    near = settled(lambda: browser.run(SPAN),
                   lambda span: span[1] - span[0] < 0.3 * (whole[1] - whole[0]))
    check(near[1] - near[0] < 0.3 * (whole[1] - whole[0]), f"the timeline zooms by keyboard {near}")
    browser.keys("\ue014")
    moved = settled(lambda: browser.run(SPAN), lambda span: span[0] > near[0])
    check(moved[0] > near[0], "and moves")
    browser.keys("0")
    again = settled(lambda: browser.run(SPAN), lambda span: span == whole)
    check(again == whole, "and shows the whole step again")
    box = browser.run("const r = document.querySelector(arguments[0]).getBoundingClientRect();"
                      "return [r.left, r.top, r.width]", name)
    tip = ""
    for part in range(4, 20):
        browser.point_at(int(box[0] + box[2] * part / 20), int(box[1]) + 48)
        tip = settled(lambda: browser.run("""
            const t = [...document.querySelectorAll(arguments[0] + ' .tip')].pop();
            return t ? t.textContent : ''""", name), bool, 1.0)
        if tip:
            break
    check("stage 0" in tip and "from" in tip, f"pointing at a slice says what it is: {tip!r}")
    browser.run("""[...document.querySelectorAll('.zoom button')].find(
        b => b.textContent === 'List what is in view').click()""")
    rows = settled(lambda: browser.run(
        "return document.querySelectorAll(arguments[0] + ' + div tr').length", name),
        lambda count: count > 5)
    check(rows > 5, f"what is in view is listed as a table of {rows} rows")
