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
