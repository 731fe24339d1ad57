// One drawer per kind of chart: its data to an option of ECharts.

const draw = {};

draw.candidates = d => {
  const option = base({formatter: p => tip(p.seriesType === 'line' || !p.data.point ? [p.seriesName]
    : [p.data.point.label, p.data.point.strategy, 'step ' + seconds(p.data.point.step) + ' (' +
       seconds(p.data.point.low) + ' to ' + seconds(p.data.point.high) + ')',
       'memory ' + bytes(p.data.point.device),
       'risk of running out ' + percent(p.data.point.risk)])});
  const at = p => ({value: [p.device, p.step], point: p});
  const front = d.points.filter(p => p.front).sort((a, b) => a.device - b.device);
  const steps = d.points.map(p => p.step);
  option.xAxis = axis('value', 'memory per GPU', bytes,
                      byteAxis(0, Math.max(d.usable, ...d.points.map(p => p.device)), manyTicks()));
  const low = Math.min(...steps), high = Math.max(...steps);
  option.yAxis = upward(high > 4 * low ? wideTimeAxis('step', low, high)
    : axis('value', 'step', seconds, timeAxis(low, high, 6)));
  option.series = [
    {name: 'Pareto front', type: 'line', step: 'end', symbol: 'none', silent: true,
     data: front.map(p => [p.device, p.step]), lineStyle: {type: 'dotted', width: 2}},
    {name: 'candidates', type: 'scatter', symbolSize: 11, data: d.points.slice(1).map(at)},
    {name: 'recommended', type: 'scatter', symbol: 'diamond', symbolSize: 18,
     data: d.points.slice(0, 1).map(at), markLine: limit(d.usable, bytes, 'end')}];
  return option;
};

const barName = b => b.differs ? b.label + '\n' + b.differs : b.label;
draw.memory = d => stacked(d.bars.map(barName),
  d.names.map((name, i) => [name, d.bars.map(b => b.parts[i])]), bytes, d.usable);
draw.time = d => stacked(d.bars.map(barName),
  ['compute', 'exposed communication', 'bubble', 'optimizer']
    .map((name, i) => [name, d.bars.map(b => b.parts[i])]), seconds, null);

draw.communication = d => {
  const option = base({trigger: 'axis', axisPointer: {type: 'shadow'}, formatter: ps =>
    tip([ps[0].name].concat(ps.map(p => p.seriesName + ': ' +
      (p.value === null || p.value === undefined ? 'not known' : bytes(p.value)))))});
  option.xAxis = axis('value', '', bytes,
    byteAxis(0, Math.max(...d.bars.flatMap(b => [b.law, b.predicted, b.measured])), manyTicks()));
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
  option.yAxis = [upward(axis('log', 'samples a second', count)),
                  upward(axis('value', 'efficiency', v => Math.round(100 * v) + ' %',
                    {min: 0, max: v => Math.max(1, v.max), splitLine: {show: false}}), true)];
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
  const span = (i, of) => of(Math.min(...d.points.map(p => p[i])),
                             Math.max(...d.points.map(p => p[i])), 6);
  option.xAxis = axis('value', 'layers between checkpoints, K', String, {min: 1, minInterval: 1});
  option.yAxis = [upward(axis('value', 'memory per GPU', bytes, span(1, byteAxis))),
                  upward(axis('value', 'step', seconds, Object.assign({splitLine: {show: false}},
                    span(2, timeAxis))), true)];
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
      .map(p => p.seriesName + ': ' + (p.value === null ? 'not known' : format(p.value)))))});
  const format = d.unit === 'bytes' ? bytes : seconds;
  const most = Math.max(...d.bars.flatMap(b => [b.predicted, b.measured, b.predicted_high,
    b.measured_high].map(Number).filter(Number.isFinite)));
  option.xAxis = axis('value', '', format,
                      (d.unit === 'bytes' ? byteAxis : timeAxis)(0, most, manyTicks()));
  option.yAxis = names(d.bars.map(b => b.label), 150);
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
  const decades = {min: 10 ** Math.floor(Math.log10(low)), max: 10 ** Math.ceil(Math.log10(high))};
  option.xAxis = axis('log', 'measured', decade, decades);
  option.yAxis = upward(axis('log', 'predicted', decade, decades));
  option.series = [
    {name: 'runs', type: 'scatter', symbolSize: 7, data: good, itemStyle: {opacity: 0.6}},
    {name: 'equal', type: 'line', symbol: 'none', silent: true, data: [[decades.min, decades.min], [decades.max, decades.max]],
     lineStyle: {type: 'dotted'}}];
  return option;
};

draw.loss = d => {
  const option = base({trigger: 'axis', formatter: ps =>
    tip(['step ' + ps[0].value[0], 'loss ' + ps[0].value[1]])});
  option.xAxis = axis('value', 'step', String, {min: 1, minInterval: 1});
  option.yAxis = upward(axis('value', 'loss', String, {scale: true}));
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
  option.grid.bottom = 110;
  const across = (room - Math.min(160, room * 0.34) - 60) / xs.length;
  option.xAxis = Object.assign(axis('category', '', undefined, {data: xs}),
    {axisLabel: Object.assign({color: colour('ink'), interval: 0, lineHeight: 14},
      across < 40 ? {rotate: 60} : {width: across - 6, overflow: 'break'})});
  option.yAxis = names(ys, 160);
  option.visualMap = {min: Math.min(...known, 0), max: Math.max(...known, 1), calculable: true,
    orient: 'horizontal', left: 'center', bottom: 0, formatter: count,
    textStyle: {color: colour('ink')},
    inRange: {color: isDark() ? ['#12304d', '#2f7fb8', '#f0e442'] : ['#e8f1fa', '#3b8bc2', '#08306b']}};
  option.series = [{type: 'heatmap', data: d.map(c =>
      [xs.indexOf(c.x), ys.indexOf(c.y), c.value === null ? '-' : c.value]),
    label: {show: across > 44, formatter: p => p.value[2] === '-' ? 'does not fit'
      : count(p.value[2])},
    itemStyle: {borderColor: colour('line'), borderWidth: 1}}];
  return option;
};
