// The timeline of a step: only what is in view, and nothing narrower than a pixel.

class Timeline {
  constructor(d, box) {
    this.d = d;
    this.box = box;
    this.from = 0;
    this.to = d.end;
    this.lanes = d.lanes.map(() => []);
    for (const s of d.slices) this.lanes[s[0]].push(s);
    this.labels = d.lanes.map(l => l[0] + ', ' + l[1]);
    this.short = d.lanes.map(l => l[0].replace(/^rank [0-9]+, /, '') + ' ' + l[1]);
    // Idle time of compute lanes: what no slice covers.
    this.idle = d.lanes.map((l, i) => {
      const gaps = [];
      if (l[1] !== 'compute') return gaps;
      let done = 0;
      for (const s of this.lanes[i]) {
        if (s[1] > done) gaps.push([i, done, s[1] - done]);
        done = Math.max(done, s[1] + s[2]);
      }
      if (done < d.end) gaps.push([i, done, d.end - done]);
      return gaps;
    });
  }
  // [lane, start, end, kind, how many, the first]; kind -1: idle.
  inView() {
    const pixel = (this.to - this.from) / Math.max(this.box.clientWidth - 150, 100);
    const rows = [];
    for (const gaps of this.idle)
      for (const g of gaps)
        if (g[2] >= pixel && g[1] < this.to && g[1] + g[2] > this.from)
          rows.push([g[0], g[1], g[1] + g[2], -1, 1, null]);
    for (const lane of this.lanes) {
      let last = null;
      for (const s of lane) {
        if (s[1] > this.to) break;
        const end = s[1] + s[2];
        if (end < this.from) continue;
        const thin = s[2] < pixel;
        if (last && thin && last.thin && s[1] - last.row[2] < pixel && last.row[3] === s[4]) {
          last.row[2] = end;
          last.row[4]++;
          continue;
        }
        last = {thin, row: [s[0], s[1], end, s[4], 1, s]};
        rows.push(last.row);
      }
    }
    return rows;
  }
  describe(row) {
    const [lane, start, end, kind, many, s] = row;
    const lines = [this.labels[lane]];
    if (kind < 0) lines.push('idle: bubble, or waiting');
    else if (many > 1) lines.push(many + ' slices of ' + this.d.kinds[kind]);
    else {
      lines.push(this.d.names[s[3]]);
      if (this.d.kinds[kind] !== this.d.names[s[3]]) lines.push('kind: ' + this.d.kinds[kind]);
      if (s[5] >= 0) lines.push('micro-batch ' + s[5]);
      if (s[6] >= 0) lines.push('layer ' + s[6]);
    }
    lines.push('from ' + seconds(start * 1e-9) + ' for ' + seconds((end - start) * 1e-9));
    return lines;
  }
  option() {
    this.rows = this.inView();
    const colours = palette();
    const option = base({trigger: 'item',
      formatter: p => tip(this.describe(this.rows[p.value[3]]))});
    option.grid = {left: 24, right: room < 600 ? 24 : 40, top: 12, bottom: 64, containLabel: true};
    option.xAxis = axis('value', '', undefined, Object.assign(
      timeAxis(this.from, this.to, manyTicks(), 1e-9), {min: 0, max: this.d.end}));
    option.yAxis = names(this.short, 130);
    option.dataZoom = [
      {type: 'inside', filterMode: 'none', startValue: this.from, endValue: this.to,
       zoomOnMouseWheel: 'ctrl', moveOnMouseWheel: false, minValueSpan: 100},
      {type: 'slider', filterMode: 'none', startValue: this.from, endValue: this.to, bottom: 8,
       height: 22, labelFormatter: x => seconds(x * 1e-9), textStyle: {color: colour('ink')},
       minValueSpan: 100}];
    const kinds = [...this.d.kinds, 'idle'];
    const fill = i => i < 0 || i === this.d.kinds.length ? colour('idle')
                                                         : colours[i % colours.length];
    option.legend.data = kinds;
    option.legend.selectedMode = false;
    option.series = kinds.map((name, i) => ({name, type: 'custom', clip: true, progressive: 0,
      itemStyle: {color: fill(i)}, encode: {x: [1, 2], y: 0},
      renderItem: (params, api) => {
        const a = api.coord([api.value(1), api.value(0)]), b = api.coord([api.value(2), api.value(0)]);
        const tall = Math.max(api.size([0, 1])[1] * 0.7, 3);
        const shape = echarts.graphic.clipRectByRect(
          {x: a[0], y: a[1] - tall / 2, width: Math.max(b[0] - a[0], 1), height: tall},
          {x: params.coordSys.x, y: params.coordSys.y, width: params.coordSys.width,
           height: params.coordSys.height});
        return shape && {type: 'rect', shape, style: {fill: fill(i),
          stroke: name === 'idle' ? colour('soft') : null, lineDash: [3, 3], lineWidth: 0.5}};
      },
      data: this.rows.map((r, n) => [r, n]).filter(([r]) => (r[3] < 0 ? kinds.length - 1 : r[3]) === i)
        .map(([r, n]) => [r[0], r[1], r[2], n])}));
    return option;
  }
  zoom(from, to) {
    const span = Math.max(100, Math.min(this.d.end, to - from));
    this.from = Math.max(0, Math.min(from, this.d.end - span));
    this.to = this.from + span;
  }
}

function timelineTools(chart) {
  const {line, box} = chart;
  const redrawn = () => show(chart);
  const act = {
    'Zoom in': () => line.zoom(line.from + (line.to - line.from) / 4, line.to - (line.to - line.from) / 4),
    'Zoom out': () => line.zoom(line.from - (line.to - line.from) / 2, line.to + (line.to - line.from) / 2),
    'Earlier': () => line.zoom(line.from - (line.to - line.from) / 4, line.to - (line.to - line.from) / 4),
    'Later': () => line.zoom(line.from + (line.to - line.from) / 4, line.to + (line.to - line.from) / 4),
    'Whole step': () => line.zoom(0, line.d.end),
  };
  const keys = {'+': 'Zoom in', '=': 'Zoom in', '-': 'Zoom out', 'ArrowLeft': 'Earlier',
                'ArrowRight': 'Later', '0': 'Whole step'};
  const tools = document.createElement('div');
  tools.className = 'zoom';
  for (const name of Object.keys(act)) {
    const b = document.createElement('button');
    b.type = 'button';
    b.textContent = name;
    b.addEventListener('click', () => { act[name](); redrawn(); });
    tools.appendChild(b);
  }
  const list = document.createElement('button');
  list.type = 'button';
  list.textContent = 'List what is in view';
  tools.appendChild(list);
  box.before(tools);
  const out = document.createElement('div');
  box.after(out);
  list.addEventListener('click', () => listView(line, out));
  box.tabIndex = 0;
  box.setAttribute('role', 'application');
  box.addEventListener('keydown', e => {
    if (!keys[e.key]) return;
    e.preventDefault();
    act[keys[e.key]]();
    redrawn();
  });
  chart.wire = () => {
    let waiting = 0;
    chart.echart.on('datazoom', () => {
      const z = chart.echart.getOption().dataZoom[0];
      line.from = z.startValue;
      line.to = z.endValue;
      clearTimeout(waiting);
      waiting = setTimeout(redrawn, 60);
    });
  };
}

// The slices in view as a table, the first thousand.
function listView(line, out) {
  const rows = line.inView().slice(0, 1000);
  const table = document.createElement('table');
  const add = (cells, tag, to) => {
    const tr = document.createElement('tr');
    for (const text of cells) {
      const cell = document.createElement(tag);
      cell.textContent = text;
      if (tag === 'th') cell.scope = 'col';
      tr.appendChild(cell);
    }
    to.appendChild(tr);
  };
  const caption = document.createElement('caption');
  caption.textContent = rows.length + ' slices in view' + (rows.length === 1000 ? ', the first' : '');
  table.appendChild(caption);
  const head = table.createTHead(), body = table.createTBody();
  add(['lane', 'what'], 'th', head);
  for (const row of rows) {
    const lines = line.describe(row);
    add([lines[0], lines.slice(1).join(', ')], 'td', body);
  }
  const scroll = document.createElement('div');
  scroll.className = 'scroll';
  scroll.tabIndex = 0;
  scroll.setAttribute('role', 'group');
  scroll.setAttribute('aria-label', caption.textContent);
  scroll.appendChild(table);
  out.replaceChildren(scroll);
}
