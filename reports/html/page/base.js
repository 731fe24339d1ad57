// The page's behaviour, in pieces that make one script (html.cpp): this one says numbers, switches
// the theme and holds what charts share. Texts reach the page through textContent alone. No request
// is made.
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
const percent = x => (100 * x).toPrecision(2) + ' %';
const count = x => Math.abs(x) < 1e4 ? String(+x.toPrecision(4)) :
  inUnits(x, [['K', 1e3], ['M', 1e6], ['B', 1e9], ['T', 1e12]]);

// ---- theme ---------------------------------------------------------------------------------
const themes = ['system', 'light', 'dark'];
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

const palette = () => [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11].map(i => colour('c' + i));

// ---- axes in round units -------------------------------------------------------------------
// A step between ticks: about `many` of them over `span`, a round number of the largest unit that
// keeps the numbers small. `bases` are the round numbers between one and the next power of ten.
const timeUnits = [['ps', 1e-12], ['ns', 1e-9], ['us', 1e-6], ['ms', 1e-3], ['s', 1], ['min', 60],
  ['h', 3600], ['d', 86400]];
function roundStep(x) {
  const power = 10 ** Math.floor(Math.log10(x));
  return power * [1, 2, 5, 10].find(b => b * power >= x * (1 - 1e-9));
}
function timeStep(span, many) {
  const least = Math.max(span, 1e-15) / many;
  if (least < 30) return roundStep(least);
  return [30, 60, 120, 300, 600, 1800, 3600, 7200, 21600, 43200, 86400].find(s => s >= least) ||
    86400 * roundStep(least / 86400);
}
// Says the multiples of `step` in one unit, as "0", "50 ms", "1.5 s"; nothing at other values.
function timeLabels(step, most) {
  const fits = timeUnits.filter(u => u[1] <= most * (1 + 1e-9) && (u[1] < 60 || step % u[1] === 0));
  const unit = fits.length ? fits[fits.length - 1] : timeUnits[0];
  return x => Math.abs(x / step - Math.round(x / step)) > 1e-3 ? ''
    : Math.abs(x) < step / 2 ? '0' : +(x / unit[1]).toPrecision(6) + ' ' + unit[0];
}
const manyTicks = () => Math.max(2, Math.min(8, Math.floor(room / 110)));
// Options of an axis of times from 0, or of one that need not hold 0; `scale` seconds a unit.
function timeAxis(low, high, many, scale = 1) {
  const step = timeStep(((high - low) || high || 1) * scale, many);
  const labels = timeLabels(step, Math.abs(high) * scale);
  return {interval: step / scale, min: Math.floor(low * scale / step + 1e-9) * step / scale,
          max: Math.ceil(high * scale / step - 1e-9) * step / scale,
          axisLabel: {color: colour('ink'), formatter: x => labels(x * scale), hideOverlap: true}};
}
// Of times that differ widely: a logarithmic axis that ticks at 1, 2 and 5 of each power of ten.
function wideTimeAxis(name, low, high) {
  const ticks = [];
  for (let power = 10 ** Math.floor(Math.log10(low)); power <= high; power *= 10)
    ticks.push(power, 2 * power, 5 * power);
  const first = ticks.filter(t => t <= low * (1 + 1e-9)).length - 1;
  const past = ticks.findIndex(t => t >= high * (1 - 1e-9));
  const shown = ticks.slice(Math.max(first, 0), past < 0 ? undefined : past + 1);
  return axis('log', name, x => timeLabels(x, x)(x), {min: shown[0], max: shown[shown.length - 1],
    axisLabel: {color: colour('ink'), customValues: shown, formatter: x => timeLabels(x, x)(x)},
    axisTick: {customValues: shown}});
}
// Ticks of an axis of bytes stand at powers of two, and far enough apart for three digits to tell.
function byteAxis(low, high, many) {
  if (high - low < high / 40) low = high - high / 40;
  const step = 2 ** Math.ceil(Math.log2(Math.max(high - low, 1) / many));
  return {interval: step, min: Math.floor(low / step) * step, max: Math.ceil(high / step) * step,
          axisLabel: {color: colour('ink'), hideOverlap: true, formatter: roundBytes}};
}
const roundBytes = x => x === 0 ? '0' : bytes(x).replace(/\.0+(?= )/, '');
// Powers of ten of a second, of a logarithmic axis.
const decade = x => Math.abs(Math.log10(x) - Math.round(Math.log10(x))) > 1e-6 ? ''
  : timeLabels(10 ** Math.round(Math.log10(x)), Math.min(x, 1))(10 ** Math.round(Math.log10(x)));

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
let room = 1000;    // pixels across of the chart that is being drawn
function base(tooltip) {
  return {
    animation: false, color: palette(), backgroundColor: 'transparent',
    textStyle: {color: colour('ink'), fontFamily: getComputedStyle(document.body).fontFamily},
    legend: {type: 'plain', top: 0, textStyle: {color: colour('ink')}},
    grid: {left: 24, right: room < 600 ? 24 : 40, top: 24, bottom: 40, containLabel: true},
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
// An axis that goes up, with its name above it; of two, the second stands at the right.
const upward = (made, right) => Object.assign(made, {nameLocation: 'end', nameGap: 10,
  nameTextStyle: {color: colour('ink'), align: right ? 'right' : 'left'}});
// Labels down the side, the first on top; long ones take several lines.
const names = (labels, width) => Object.assign(axis('category', '', undefined, {data: labels,
  inverse: true, axisTick: {show: false}}), {axisLabel: {color: colour('ink'), lineHeight: 14,
  width: Math.min(width || 130, room * (width > 150 ? 0.38 : 0.34)), overflow: 'break',
  interval: 0}});
// Pixels that a legend needs, row after row, as wide as the chart.
function legendHeight(option) {
  if (!option.legend) return 0;
  const pen = legendHeight.pen || (legendHeight.pen = document.createElement('canvas').getContext('2d'));
  pen.font = '12px ' + option.textStyle.fontFamily;
  let rows = 1, across = 0;
  for (const name of option.legend.data || option.series.map(s => s.name)) {
    const wide = pen.measureText(name).width + 42;
    if (across > 0 && across + wide > room - 12) { rows++; across = 0; }
    across += wide;
  }
  return 24 * rows;
}
const limit = (value, format, position) => value === null ? undefined : {
  symbol: 'none', silent: true, lineStyle: {color: colour('bad'), width: 2, type: 'dashed'},
  label: {color: colour('bad'), align: 'right',
          formatter: () => 'limit ' + format(value), position},
  data: [{xAxis: value}]};
function stacked(labels, parts, format, limitAt) {
  const option = base({trigger: 'axis', axisPointer: {type: 'shadow'}, formatter: ps =>
    tip([ps[0].name].concat(ps.filter(p => p.value > 0)
      .map(p => p.seriesName + ': ' + format(p.value))))});
  const sums = labels.map((_, i) => parts.reduce((sum, p) => sum + (p[1][i] || 0), 0));
  const most = Math.max(...sums, limitAt || 0);
  option.xAxis = axis('value', '', format,
    (format === bytes ? byteAxis : timeAxis)(0, most, manyTicks()));
  const long = labels.some(l => l.includes('\n'));
  option.yAxis = names(labels, long ? 170 : 130);
  option.series = parts.map(([name, values], i) => ({name, type: 'bar', stack: 'all',
    data: values, barMaxWidth: 28, itemStyle: {borderColor: colour('paper'), borderWidth: 0.5},
    markLine: i === 0 && limitAt ? limit(limitAt, format, 'start') : undefined}));
  return option;
}
