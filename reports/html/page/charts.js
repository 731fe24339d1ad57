// Charts are made and made anew, tables sorted, numbers pointed at.
// ---- charts: made when they come into view, or are printed -----------------------------------
const tall = {
  memory: d => 130 + 34 * d.bars.length, time: d => 130 + 34 * d.bars.length,
  communication: d => 130 + 52 * d.bars.length, beside: d => 120 + 44 * d.bars.length,
  timeline: d => 130 + 20 * d.lanes.length,
  heat: d => 150 + 34 * new Set(d.map(c => c.y)).size,
};
const charts = data.map((c, i) => {
  const box = document.getElementById('c' + (i + 1));
  const chart = {kind: c.kind, data: c.data, box, echart: null, line: null};
  if (tall[c.kind]) box.style.height = Math.max(180, tall[c.kind](c.data)) + 'px';
  if (c.kind === 'timeline') {
    chart.line = new Timeline(c.data, box);
    timelineTools(chart);
  }
  return chart;
});
function show(chart) {
  const empty = Array.isArray(chart.data) ? chart.data.length === 0
    : chart.data.bars && chart.data.bars.length === 0;
  if (empty) {
    chart.box.hidden = true;
    return;
  }
  if (!chart.echart) {
    chart.echart = echarts.init(chart.box, null,
                                {renderer: chart.line && !paper ? 'canvas' : 'svg'});
    if (chart.wire) chart.wire();
  }
  chart.echart.setOption(chart.line ? chart.line.option() : draw[chart.kind](chart.data),
                         {notMerge: true});
}
// Of the timeline: on paper a drawing, since a canvas is painted later than paper is.
function forget(chart) {
  if (!chart.line || !chart.echart) return;
  chart.echart.dispose();
  chart.echart = null;
}
function redraw() { for (const c of charts) if (c.echart) show(c); }
const seen = new IntersectionObserver(entries => {
  for (const e of entries) {
    const chart = charts.find(c => c.box === e.target);
    if (e.isIntersecting && !chart.echart) show(chart);
  }
}, {rootMargin: '300px'});
const sized = new ResizeObserver(entries => {
  for (const e of entries) {
    const chart = charts.find(c => c.box === e.target);
    if (chart.echart) chart.echart.resize();
  }
});
for (const c of charts) {
  seen.observe(c.box);
  sized.observe(c.box);
}
// Paper is light and narrow.
const kPaper = 690;  // pixels that A4 and Letter have between their margins
let before = null;
window.addEventListener('beforeprint', () => {
  before = {theme: root.dataset.theme};
  root.dataset.theme = 'light';
  paper = true;
  for (const c of charts) {
    forget(c);
    show(c);
    if (!c.echart) continue;
    c.echart.resize({width: kPaper});
    c.echart.getZr().flush();  // now, not with the next frame
  }
});
window.addEventListener('afterprint', () => {
  if (before.theme) root.dataset.theme = before.theme; else delete root.dataset.theme;
  paper = false;
  for (const c of charts) {
    forget(c);
    if (c.line) show(c);
    if (c.echart) c.echart.resize({width: 'auto'});
  }
  redraw();
});

// ---- tables sort by any column, with the keyboard too -----------------------------------------
function key(row, i) {
  const cell = row.cells[i];
  return cell.dataset.value !== undefined ? Number(cell.dataset.value) : cell.textContent;
}
function order(a, b) {
  if (typeof a !== typeof b) return typeof a === 'number' ? -1 : 1;
  return typeof a === 'number' ? a - b : a.localeCompare(b, 'en', {numeric: true});
}
for (const table of document.querySelectorAll('main table')) {
  const heads = [...table.tHead.rows[0].cells];
  const body = table.tBodies[0];
  heads.forEach((th, i) => {
    const b = document.createElement('button');
    b.type = 'button';
    b.textContent = th.textContent;
    th.replaceChildren(b);
    b.addEventListener('click', () => {
      const down = th.getAttribute('aria-sort') === 'ascending';
      for (const other of heads) other.removeAttribute('aria-sort');
      th.setAttribute('aria-sort', down ? 'descending' : 'ascending');
      const rows = [...body.rows].sort((x, y) => order(key(x, i), key(y, i)) * (down ? -1 : 1));
      body.replaceChildren(...rows);
    });
  });
}
// Pointing at a number says exactly what the file has, and where.
const files = [...document.querySelectorAll('footer code')].map(c => c.textContent);
document.querySelector('main').addEventListener('pointerover', e => {
  const cell = e.target.closest('td[data-value]');
  if (!cell || cell.title) return;
  const source = cell.dataset.source;
  const slash = source ? source.indexOf('/') : -1;
  cell.title = cell.dataset.value +
    (source ? ', ' + files[Number(source.slice(0, slash))] + ' ' + source.slice(slash) : ', worked out here');
});
root.dataset.ready = 'yes';
