// The page's behaviour: draws its charts with ECharts from the JSON beside it, sorts tables,
// switches the theme. Texts reach the page through textContent alone. No request is made.
'use strict';
(() => {
const data = JSON.parse(document.getElementById('charts').textContent);
const root = document.documentElement;

// ---- numbers as people read them, as the tables print them ---------------------------------
function digits3(x) {
  const a = Math.abs(x);
  return a >= 100 ? x.toFixed(0) : a >= 10 ? x.toFixed(1) : x.toFixed(2);
}
function inUnits(x, units) {
  let best = units[0];
  for (const u of units) if (Math.abs(x) >= 0.9995 * u[1]) best = u;
  return digits3(x / best[1]) + ' ' + best[0];
}
const bytes = x => x === 0 ? '0 B' : inUnits(x, [['B', 1], ['KiB', 2 ** 10], ['MiB', 2 ** 20],
  ['GiB', 2 ** 30], ['TiB', 2 ** 40], ['PiB', 2 ** 50]]);
const seconds = x => x === 0 ? '0 s' : inUnits(x, [['ps', 1e-12], ['ns', 1e-9], ['us', 1e-6],
  ['ms', 1e-3], ['s', 1], ['min', 60], ['h', 3600], ['d', 86400]]);
const count = x => Math.abs(x) < 1e4 ? String(+x.toPrecision(4)) :
  inUnits(x, [['K', 1e3], ['M', 1e6], ['B', 1e9], ['T', 1e12]]);

// ---- theme ---------------------------------------------------------------------------------
const themes = ['as the system', 'light', 'dark'];
let theme = 0;
const systemDark = window.matchMedia('(prefers-color-scheme: dark)');
const button = document.getElementById('theme');
button.hidden = false;
button.addEventListener('click', () => {
  theme = (theme + 1) % themes.length;
  if (theme === 0) delete root.dataset.theme; else root.dataset.theme = themes[theme];
  button.textContent = 'Theme: ' + themes[theme];
  redraw();
});
systemDark.addEventListener('change', redraw);
const colour = name => getComputedStyle(root).getPropertyValue('--' + name).trim();
const isDark = () => colour('paper') !== '#ffffff';

// Okabe and Ito's colours, told apart by every kind of sight, and more of like lightness.
const palette = () => isDark()
  ? ['#56b4e9', '#e69f00', '#2fbf8f', '#f0e442', '#cc79a7', '#ff8a50', '#9aa5ff', '#b0b0b0',
     '#8ad3d3', '#d9a6ff', '#c9c27a']
  : ['#0072b2', '#e69f00', '#009e73', '#b8a800', '#cc79a7', '#d55e00', '#5560d0', '#767676',
     '#2a9d9d', '#9b51c9', '#8a7f2c'];

// ---- options that charts share -------------------------------------------------------------
function tip(lines) {  // a node, so that no text is read as markup
  const box = document.createElement('div');
  box.className = 'tip';
  for (const line of lines) {
    const p = document.createElement('div');
    p.textContent = line;
    box.appendChild(p);
  }
  return box;
}
let paper = false;  // while the page is printed
function base(tooltip) {
  return {
    animation: false, color: palette(), backgroundColor: 'transparent',
    textStyle: {color: colour('ink'), fontFamily: getComputedStyle(document.body).fontFamily},
    legend: {type: paper ? 'plain' : 'scroll', top: 0, textStyle: {color: colour('ink')},
             pageTextStyle: {color: colour('ink')}, pageIconColor: colour('accent')},
    grid: {left: 12, right: 40, top: paper ? 64 : 48, bottom: 40, containLabel: true},
    tooltip: Object.assign({confine: true, backgroundColor: colour('panel'),
                            borderColor: colour('line'), textStyle: {color: colour('ink')}},
                           tooltip),
    aria: {enabled: false},
  };
}
function axis(type, name, format, more) {
  return Object.assign({type, name, nameLocation: 'middle', nameGap: 28,
    nameTextStyle: {color: colour('ink')},
    axisLabel: {color: colour('ink'), formatter: format, hideOverlap: true},
    axisLine: {lineStyle: {color: colour('soft')}},
    splitLine: {lineStyle: {color: colour('line')}}}, more);
}
// Labels down the side, the first on top; wide ones are cut, the table has them whole.
const names = (labels, width) => Object.assign(axis('category', '', undefined, {data: labels,
  inverse: true, axisTick: {show: false}}), {axisLabel: {color: colour('ink'), width: width || 120, overflow: 'truncate'}});
const limit = (value, format, position) => value === null ? undefined : {
  symbol: 'none', silent: true, lineStyle: {color: colour('bad'), width: 2, type: 'dashed'},
  label: {color: colour('bad'), formatter: () => 'limit ' + format(value), position},
  data: [{xAxis: value}]};
// Ticks of an axis of bytes stand at powers of two.
function ticks(most) {
  const interval = 2 ** Math.ceil(Math.log2(Math.max(most, 1) / (innerWidth < 600 ? 3 : 6)));
  return {interval, max: Math.ceil(most / interval) * interval};
}

function stacked(labels, parts, format, limitAt) {
  const option = base({trigger: 'axis', axisPointer: {type: 'shadow'}, formatter: ps =>
    tip([ps[0].name].concat(ps.filter(p => p.value > 0)
      .map(p => p.seriesName + ': ' + format(p.value))))});
  const sums = labels.map((_, i) => parts.reduce((sum, p) => sum + (p[1][i] || 0), 0));
  option.xAxis = axis('value', '', format,
    format === bytes ? ticks(Math.max(...sums, limitAt || 0)) : {splitNumber: innerWidth < 600 ? 3 : 6});
  option.yAxis = names(labels);
  option.series = parts.map(([name, values], i) => ({name, type: 'bar', stack: 'all',
    data: values, barMaxWidth: 28, itemStyle: {borderColor: colour('paper'), borderWidth: 0.5},
    markLine: i === 0 && limitAt ? limit(limitAt, format, 'start') : undefined}));
  return option;
}

// ---- one drawer per kind: (data) -> option, and how tall -------------------------------------
const draw = {};

draw.candidates = d => {
  const option = base({formatter: p => tip(p.seriesType === 'line' || !p.data.point ? [p.seriesName]
    : [p.data.point.label, p.data.point.strategy, 'step ' + seconds(p.data.point.step) + ' (' +
       seconds(p.data.point.low) + ' to ' + seconds(p.data.point.high) + ')',
       'memory ' + bytes(p.data.point.device)])});
  const at = p => ({value: [p.device, p.step], point: p});
  const front = d.points.filter(p => p.front).sort((a, b) => a.device - b.device);
  option.xAxis = axis('value', 'memory per GPU', bytes,
                      ticks(Math.max(d.usable, ...d.points.map(p => p.device))));
  option.yAxis = axis('value', 'step', seconds, {scale: true, nameGap: 64});
  option.grid.left = 40;
  option.series = [
    {name: 'Pareto front', type: 'line', step: 'end', symbol: 'none', silent: true,
     data: front.map(p => [p.device, p.step]), lineStyle: {type: 'dotted', width: 2}},
    {name: 'candidates', type: 'scatter', symbolSize: 11, data: d.points.slice(1).map(at)},
    {name: 'recommended', type: 'scatter', symbol: 'diamond', symbolSize: 18,
     data: d.points.slice(0, 1).map(at), markLine: limit(d.usable, bytes, 'end')}];
  return option;
};

draw.memory = d => stacked(d.bars.map(b => b.label),
  d.names.map((name, i) => [name, d.bars.map(b => b.parts[i])]), bytes, d.usable);
draw.time = d => stacked(d.bars.map(b => b.label),
  ['compute', 'exposed communication', 'bubble', 'optimizer']
    .map((name, i) => [name, d.bars.map(b => b.parts[i])]), seconds, null);

draw.communication = d => {
  const option = base({trigger: 'axis', axisPointer: {type: 'shadow'}, formatter: ps =>
    tip([ps[0].name].concat(ps.map(p => p.seriesName + ': ' +
      (p.value === null || p.value === undefined ? 'not known' : bytes(p.value)))))});
  option.xAxis = axis('value', '', bytes,
    ticks(Math.max(...d.bars.flatMap(b => [b.law, b.predicted, b.measured]))));
  option.yAxis = names(d.bars.map(b => b.label), 150);
  option.series = ['law', 'predicted', 'measured']
    .filter(key => d.bars.some(b => b[key] !== null))
    .map(key => ({name: key === 'law' ? 'by the law' : key, type: 'bar', barMaxWidth: 14,
                  data: d.bars.map(b => b[key])}));
  return option;
};

draw.scaling = d => {
  const option = base({trigger: 'axis', formatter: ps => tip([ps[0].value[0] + ' GPUs'].concat(
    ps.map(p => p.seriesName + ': ' + (p.seriesIndex === 2 ? (100 * p.value[1]).toFixed(1) + ' %'
      : count(p.value[1]) + ' samples/s'))))});
  const per = d[0][1] / d[0][0];
  option.xAxis = axis('log', 'GPUs', count, {logBase: 2, min: d[0][0], max: d[d.length - 1][0]});
  option.yAxis = [axis('log', 'samples a second', count, {nameGap: 52}),
                  axis('value', 'efficiency', v => Math.round(100 * v) + ' %',
                       {min: 0, max: v => Math.max(1, v.max), nameGap: 48, splitLine: {show: false}})];
  option.grid.left = option.grid.right = 36;
  option.series = [
    {name: 'predicted', type: 'line', data: d.map(p => [p[0], p[1]]), symbolSize: 8},
    {name: 'perfect', type: 'line', symbol: 'none', lineStyle: {type: 'dotted'},
     data: d.map(p => [p[0], per * p[0]])},
    {name: 'efficiency', type: 'line', yAxisIndex: 1, symbol: 'triangle', symbolSize: 8,
     lineStyle: {type: 'dashed'}, data: d.map(p => [p[0], p[2]])}];
  return option;
};

draw.checkpoints = d => {
  const option = base({trigger: 'axis', formatter: ps => tip(['K = ' + ps[0].value[0]].concat(
    ps.map(p => p.seriesName + ': ' + (p.seriesIndex === 0 ? bytes : seconds)(p.value[1]))))});
  const least = d.points.find(p => p[0] === d.least);
  option.xAxis = axis('value', 'layers between checkpoints, K', String, {min: 1, minInterval: 1});
  option.yAxis = [axis('value', 'memory per GPU', bytes, {scale: true, nameGap: 64}),
                  axis('value', 'step', seconds, {scale: true, nameGap: 56,
                                                  splitLine: {show: false}})];
  option.grid.left = option.grid.right = 44;
  const mark = limit(d.usable, bytes, 'insideEndTop');
  mark.data = [{yAxis: d.usable}];
  option.series = [
    {name: 'memory', type: 'line', data: d.points.map(p => [p[0], p[1]]), symbolSize: 7,
     markLine: mark,
     markPoint: {symbol: 'pin', symbolSize: 46, data: [{coord: [least[0], least[1]]}],
                 label: {formatter: () => 'K=' + d.least, color: '#ffffff', fontSize: 10}}},
    {name: 'step', type: 'line', yAxisIndex: 1, symbol: 'triangle', symbolSize: 7,
     lineStyle: {type: 'dashed'}, data: d.points.map(p => [p[0], p[2]])}];
  return option;
};

// Error bars: from low to high across the middle of a bar, with caps.
function whisker(index, offset) {
  return (params, api) => {
    const low = api.coord([api.value(1), api.value(0)]);
    const high = api.coord([api.value(2), api.value(0)]);
    const y = low[1] + offset, cap = 5, style = {stroke: colour('ink'), lineWidth: 1.5, fill: null};
    const line = (x1, y1, x2, y2) => ({type: 'line', shape: {x1, y1, x2, y2}, style});
    return {type: 'group', children: [line(low[0], y, high[0], y),
      line(low[0], y - cap, low[0], y + cap), line(high[0], y - cap, high[0], y + cap)]};
  };
}
draw.beside = d => {
  const option = base({trigger: 'axis', axisPointer: {type: 'shadow'}, formatter: ps =>
    tip([ps[0].name].concat(ps.filter(p => p.seriesType === 'bar')
      .map(p => p.seriesName + ': ' + (p.value === null ? 'not known' : seconds(p.value)))))});
  option.xAxis = axis('value', '', seconds);
  option.yAxis = names(d.bars.map(b => b.label.replace(/^time[.]/, '')), 150);
  option.legend.data = ['predicted', 'measured'];
  option.series = ['predicted', 'measured'].map(key => ({name: key, type: 'bar', barWidth: 10,
    barGap: '20%', data: d.bars.map(b => b[key])}));
  for (const [key, offset] of [['predicted', -6], ['measured', 6]]) {
    const rows = d.bars.map((b, i) => [i, b[key + '_low'], b[key + '_high']])
      .filter(r => typeof r[1] === 'number' && typeof r[2] === 'number');
    option.series.push({name: key + ', range', type: 'custom', renderItem: whisker(0, offset),
      encode: {x: [1, 2], y: 0}, data: rows, z: 5});
  }
  return option;
};

draw.validation = d => {
  const good = d.filter(p => p[0] > 0 && p[1] > 0);
  const all = good.flatMap(p => [p[0], p[1]]);
  const low = Math.min(...all, 1), high = Math.max(...all, low * 10);
  const option = base({formatter: p => p.seriesType === 'line' ? tip(['equal'])
    : tip([p.value[2], 'measured ' + seconds(p.value[0]), 'predicted ' + seconds(p.value[1])])});
  option.xAxis = axis('log', 'measured', seconds, {min: low, max: high});
  option.yAxis = axis('log', 'predicted', seconds, {min: low, max: high, nameGap: 56});
  option.grid.left = 40;
  option.series = [
    {name: 'runs', type: 'scatter', symbolSize: 7, data: good, itemStyle: {opacity: 0.6}},
    {name: 'equal', type: 'line', symbol: 'none', silent: true, data: [[low, low], [high, high]],
     lineStyle: {type: 'dotted'}}];
  return option;
};

draw.loss = d => {
  const option = base({trigger: 'axis', formatter: ps =>
    tip(['step ' + ps[0].value[0], 'loss ' + ps[0].value[1]])});
  option.xAxis = axis('value', 'step', String, {min: 1, minInterval: 1});
  option.yAxis = axis('value', 'loss', String, {scale: true, nameGap: 56});
  option.grid.left = 40;
  option.series = [{name: 'loss', type: 'line', data: d}];
  return option;
};

draw.heat = d => {
  const unique = key => [...new Set(d.map(c => c[key]))];
  const xs = unique('x'), ys = unique('y');
  const known = d.map(c => c.value).filter(v => v !== null);
  const option = base({formatter: p => tip([xs[p.value[0]], ys[p.value[1]],
    p.value[2] === '-' ? 'nothing fits' : count(p.value[2]) + ' tokens/s'])});
  delete option.legend;
  option.grid.top = 12;
  option.grid.bottom = 90;
  option.xAxis = Object.assign(axis('category', '', undefined, {data: xs}),
    {axisLabel: {color: colour('ink'), rotate: xs.length > 6 ? 30 : 0}});
  option.yAxis = names(ys, 160);
  option.visualMap = {min: Math.min(...known, 0), max: Math.max(...known, 1), calculable: true,
    orient: 'horizontal', left: 'center', bottom: 0, formatter: count,
    textStyle: {color: colour('ink')},
    inRange: {color: isDark() ? ['#12304d', '#2f7fb8', '#f0e442'] : ['#e8f1fa', '#3b8bc2', '#08306b']}};
  option.series = [{type: 'heatmap', data: d.map(c =>
      [xs.indexOf(c.x), ys.indexOf(c.y), c.value === null ? '-' : c.value]),
    label: {show: innerWidth > 90 * xs.length, formatter: p => p.value[2] === '-' ? 'does not fit'
      : count(p.value[2])},
    itemStyle: {borderColor: colour('line'), borderWidth: 1}}];
  return option;
};

// ---- the timeline: only what is in view, and nothing narrower than a pixel --------------------
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
    option.grid = {left: 12, right: 40, top: paper ? 64 : 36, bottom: 64, containLabel: true};
    option.xAxis = axis('value', '', x => seconds(x * 1e-9), {min: 0, max: this.d.end});
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
  const show = () => chart.echart.setOption(line.option(), {notMerge: true});
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
    b.addEventListener('click', () => { act[name](); show(); });
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
    show();
  });
  chart.wire = () => {
    let waiting = 0;
    chart.echart.on('datazoom', () => {
      const z = chart.echart.getOption().dataZoom[0];
      line.from = z.startValue;
      line.to = z.endValue;
      clearTimeout(waiting);
      waiting = setTimeout(show, 60);
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
})();
