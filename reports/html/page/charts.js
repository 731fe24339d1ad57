// Charts are made and made anew, tables sorted, numbers pointed at.
// ---- charts: all made at once, so that a screenshot or a print of the page has them ----------
// Pixels below the legend. A bar that says in what it differs needs room for its lines.
const tallOfBars = d =>
  90 + (!d.bars.some(b => b.differs) ? 34 : room < 600 ? 66 : 44) * d.bars.length;
const tall = {
  memory: tallOfBars, time: tallOfBars,
  communication: d => 90 + 52 * d.bars.length, beside: d => 90 + 44 * d.bars.length,
  timeline: d => 110 + 24 * d.lanes.length,
  heat: d => 170 + 34 * new Set(d.map(c => c.y)).size,
};
const kTall = 300;
const kPaper = 690;  // pixels that A4 and Letter have between their margins
const charts = data.map((c, i) => {
  const box = document.getElementById('c' + (i + 1));
  const chart = {kind: c.kind, data: c.data, box, echart: null, line: null};
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
  room = paper ? kPaper : chart.box.clientWidth;
  const option = chart.line ? chart.line.option() : draw[chart.kind](chart.data);
  const legend = legendHeight(option);
  option.grid.top += legend;
  const height = legend + (tall[chart.kind] ? tall[chart.kind](chart.data) : kTall);
  chart.box.style.height = height + 'px';
  if (!chart.echart) {
    chart.echart = echarts.init(chart.box, null, {renderer: chart.line && !paper ? 'canvas' : 'svg',
                                                  width: room, height});
    if (chart.wire) chart.wire();
  } else {
    // Else the tip is shown again later, by a part of the chart that is gone by then.
    chart.echart.dispatchAction({type: 'hideTip'});
    if (chart.room !== room) chart.echart.resize({width: room, height, silent: true});
  }
  chart.echart.setOption(option, {notMerge: true});
  chart.room = room;
}
// Of the timeline: on paper a drawing, since a canvas is painted later than paper is.
function forget(chart) {
  if (!chart.line || !chart.echart) return;
  chart.echart.dispose();
  chart.echart = null;
}
function redraw() { for (const c of charts) if (c.echart) show(c); }
const sized = new ResizeObserver(entries => {
  for (const e of entries) {
    const chart = charts.find(c => c.box === e.target);
    if (!paper && chart.echart && chart.box.clientWidth !== chart.room) show(chart);
  }
});
for (const c of charts) {
  show(c);
  sized.observe(c.box);
}
// Paper is light and narrow, and has every table open.
let before = null;
window.addEventListener('beforeprint', () => {
  before = {theme: root.dataset.theme, folded: [...document.querySelectorAll('details:not([open])')]};
  for (const d of before.folded) d.open = true;
  root.dataset.theme = 'light';
  paper = true;
  for (const c of charts) {
    forget(c);
    show(c);
    if (c.echart) c.echart.getZr().flush();  // now, not with the next frame
  }
});
window.addEventListener('afterprint', () => {
  if (before.theme) root.dataset.theme = before.theme; else delete root.dataset.theme;
  paper = false;
  for (const d of before.folded) d.open = false;
  for (const c of charts) {
    forget(c);
    show(c);
  }
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
// A table that is wider than its box shows its rows as blocks (page.css), so that nothing is cut;
// it stays a table to who listens.
const boxes = new ResizeObserver(entries => {
  for (const e of entries) {
    const table = e.target.firstElementChild, across = e.target.clientWidth;
    if (table.across === across) continue;
    table.across = across;
    table.classList.remove('stacked');
    table.classList.toggle('stacked', e.target.scrollWidth > across + 1);
  }
});
function stackable(table, titles) {
  table.setAttribute('role', 'table');
  for (const row of table.tBodies[0].rows) {
    row.setAttribute('role', 'row');
    [...row.cells].forEach((cell, i) => {
      cell.setAttribute('role', 'cell');
      cell.dataset.label = titles[i];
    });
  }
  boxes.observe(table.parentElement);
}
for (const table of document.querySelectorAll('main table')) {
  const heads = [...table.tHead.rows[0].cells];
  const body = table.tBodies[0];
  if (heads.length <= 2) table.classList.add('narrow');
  if (heads.length > 6) table.classList.add('wide');
  if (heads.length > 2) stackable(table, heads.map(th => th.textContent));
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
  const cell = e.target.closest('[data-value]');
  if (!cell || cell.title) return;
  const source = cell.dataset.source;
  const slash = source ? source.indexOf('/') : -1;
  cell.title = cell.dataset.value +
    (source ? ', ' + files[Number(source.slice(0, slash))] + ' ' + source.slice(slash) : ', worked out here');
});
root.dataset.ready = 'yes';
