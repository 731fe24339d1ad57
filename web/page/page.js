'use strict';
// The page: a form whose fields are options of `planner plan`, and its answer. Every question is
// answered by a worker, so that the page stays quick and a long search can be stopped.
const $ = id => document.getElementById(id);
const form = $('question');
const field = name => form.elements.namedItem(name);

// ---- the worker ----
const through = async (data, stream) =>
  new Uint8Array(await new Response(new Blob([data]).stream().pipeThrough(stream)).arrayBuffer());
const unpack = async (text, format) =>
  through(Uint8Array.from(atob(text), c => c.charCodeAt(0)), new DecompressionStream(format));
const bytes = unpack($('module').textContent.trim(), 'gzip');
const source = URL.createObjectURL(new Blob([$('worker').textContent], { type: 'text/javascript' }));
let worker = null;
let stopped = null;                    // ends what waits for the worker
async function ready() {
  const made = new Worker(source);
  made.postMessage({ bytes: await bytes });
  return made;
}
worker = ready();

function ask(words, files = {}) {
  return new Promise((resolve, reject) => {
    const channel = new MessageChannel();
    stopped = () => {
      channel.port1.close();           // progress may be on its way
      reject(new Error('stopped'));
    };
    channel.port1.onmessage = ({ data }) => {
      if (data.progress) $('status').textContent = data.progress;
      else resolve(data.answer);
    };
    worker.then(w => w.postMessage({ words, files, port: channel.port2 }, [channel.port2]), reject);
  });
}

$('stop').onclick = () => {
  worker.then(w => w.terminate());
  worker = ready();
  if (stopped) stopped();
};

// ---- the question ----
let config = null;                     // {path, text} of a file of a model that was brought
const OPTIONS = { seq: '--seq', batch: '--global-batch', framework: '--framework',
                  recipe: '--recipe', objective: '--objective', tokens: '--tokens',
                  per_node: '--gpus-per-node' };
const value = name => field(name).value.trim();

// Words as a shell splits them: blanks, and quotes of both kinds.
function split(text) {
  const words = [];
  for (const [whole] of text.matchAll(/(?:[^\s"']+|"[^"]*"|'[^']*')+/g))
    words.push(whole.replace(/"([^"]*)"|'([^']*)'/g, (all, one, other) => one ?? other));
  return words;
}

function words() {
  const all = ['plan', '--model', value('model')];
  const gpu = value('gpu');
  all.push('--gpus', value('gpus') + (gpu ? 'x' + gpu : ''));
  for (const [name, option] of Object.entries(OPTIONS))
    if (value(name)) all.push(option, value(name));
  if (value('price')) all.push('--price', `${gpu || 'h100-sxm-80g'}=${value('price')}`);
  return all.concat(split(value('more')));
}

const quoted = word => /^[\w@%+=:,./-]+$/.test(word) ? word : `'${word.replaceAll("'", "'\\''")}'`;
const modelFiles = () => config && value('model') === config.path ? { [config.path]: config.text } : {};

// ---- a file of a model ----
function bring(name, text) {
  let path = name;
  if (name === 'config.json') {
    let read = {};
    try { read = JSON.parse(text); } catch { /* the planner says what is wrong with it */ }
    const known = String(read?._name_or_path || read?.model_type || 'model');
    path = `${known.split('/').pop().replace(/[^\w.-]/g, '-') || 'model'}/config.json`;
  }
  config = { path, text };
  field('model').value = path;
}
async function take(file) {
  if (!file) return;
  bring(file.name, await file.text());
  $('status').textContent = `${file.name} is the model now`;
}
$('choose').onclick = () => $('file').click();
$('file').onchange = () => take($('file').files[0]);
document.addEventListener('dragover', event => {
  event.preventDefault();
  document.body.classList.add('dropping');
});
document.addEventListener('dragleave', event => {
  if (!event.relatedTarget) document.body.classList.remove('dropping');
});
document.addEventListener('drop', event => {
  event.preventDefault();
  document.body.classList.remove('dropping');
  take(event.dataTransfer.files[0]);
});

// ---- links: the question is in the part after '#', which no server sees ----
async function link() {
  const asked = new URLSearchParams();
  for (const input of form.elements)
    if (input.name && input.value.trim()) asked.set(input.name, input.value.trim());
  if (config && value('model') === config.path) {
    const packed = await through(config.text, new CompressionStream('deflate-raw'));
    asked.set('config', btoa(Array.from(packed, b => String.fromCharCode(b)).join('')));
  }
  return `${location.href.split('#')[0]}#${asked}`;
}
async function fill(hash) {
  const asked = new URLSearchParams(hash);
  if (!asked.has('model')) return false;
  for (const input of form.elements) if (input.name) input.value = asked.get(input.name) ?? '';
  config = null;
  if (asked.has('config')) {
    const text = await unpack(asked.get('config'), 'deflate-raw');
    config = { path: value('model'), text: new TextDecoder().decode(text) };
  }
  return true;
}

// ---- the answer ----
let plan = null;                       // the text of plan.json
const asking = on => {
  form.querySelector('.main').disabled = on;
  $('stop').hidden = !on;
};

async function answer() {
  const began = performance.now();
  asking(true);
  $('status').textContent = 'planning';
  $('reasons').hidden = $('result').hidden = true;
  plan = null;
  try {
    const planned = await ask([...words(), '--json'], modelFiles());
    $('reasons').textContent = planned.reasons.trim();
    $('reasons').hidden = planned.code === 0 || !planned.reasons.trim();
    $('terminal').textContent = planned.page;
    if (planned.code > 1) {
      $('status').textContent = 'not planned';
      return;
    }
    plan = planned.out;
    await show(planned.code === 0);
    const seconds = (performance.now() - began) / 1000;
    $('status').textContent = `answered in ${seconds.toFixed(1)} s`;
    $('answer').focus({ preventScroll: true });
  } catch (error) {
    $('status').textContent = error.message;
  } finally {
    asking(false);
  }
}

async function show(fits) {
  const drawn = await ask(['report', 'plan.json', '--format', 'part', '--quiet'],
                          { 'plan.json': plan });
  const place = $('summary');
  const root = place.shadowRoot ?? place.attachShadow({ mode: 'open' });
  root.innerHTML = drawn.code === 0 ? drawn.out : '';
  for (const id of ['whole', 'save']) $(id).hidden = drawn.code !== 0;
  $('target').closest('details').hidden = !fits;
  $('target').value = '';
  $('launch').textContent = $('notes').textContent = '';
  $('save-launch').hidden = true;
  $('result').hidden = false;
}

function save(name, text, type) {
  const a = document.createElement('a');
  a.href = URL.createObjectURL(new Blob([text], { type }));
  a.download = name;
  a.click();
  setTimeout(() => URL.revokeObjectURL(a.href), 60000);
}

async function copy(text, what) {
  try {
    await navigator.clipboard.writeText(text);
    $('status').textContent = `${what} is copied`;
  } catch {                            // a page from a disk may not
    prompt(`Copy ${what}:`, text);
  }
}

$('whole').onclick = async () => {
  const whole = await ask(['report', 'plan.json', '--format', 'html', '--quiet'],
                          { 'plan.json': plan });
  const page = new Blob([whole.code === 0 ? whole.out : whole.reasons],
                        { type: whole.code === 0 ? 'text/html' : 'text/plain' });
  const opened = window.open(URL.createObjectURL(page));
  if (!opened) save('plan.html', whole.out, 'text/html');
};
$('save').onclick = () => save('plan.json', plan, 'application/json');
$('link').onclick = async () => {
  const to = await link();
  history.replaceState(null, '', to);
  copy(to, 'the link');
};
$('command').onclick = () => copy(['planner', ...words()].map(quoted).join(' '), 'the command');
$('target').onchange = async () => {
  const target = $('target').value;
  $('launch').textContent = $('notes').textContent = '';
  $('save-launch').hidden = true;
  if (!target) return;
  const emitted = await ask(['emit', 'plan.json', '--for', target], { 'plan.json': plan });
  $('notes').textContent = emitted.reasons;
  $('launch').textContent = emitted.out;
  $('save-launch').hidden = emitted.code !== 0;
};
$('save-launch').onclick = () =>
  save(`plan-${$('target').value}.txt`, $('launch').textContent, 'text/plain');

form.onsubmit = event => {
  event.preventDefault();
  answer();
};
field('model').oninput = () => {
  if (config && value('model') !== config.path) config = null;
};

// ---- begin ----
function offer(list, names) {
  for (const name of names) {
    const option = document.createElement('option');
    option.value = option.textContent = name;
    list.append(option);
  }
}
async function begin() {
  if (typeof WebAssembly === 'undefined' || typeof DecompressionStream === 'undefined') {
    $('reasons').textContent = 'This browser is too old: it has no WebAssembly or no ' +
      'DecompressionStream. Chromium 95, Firefox 113 and Safari 16.4 have both.';
    $('reasons').hidden = false;
    return;
  }
  const choices = JSON.parse((await ask(['choices'])).out);
  for (const name of ['models', 'gpus', 'frameworks', 'recipes']) offer($(name), choices[name]);
  offer($('target'), ['', ...choices.targets]);
  if (await fill(location.hash.slice(1))) return answer();
  field('model').value = 'gpt2-1.5b';
  field('gpus').value = '8';
  field('gpu').value = 'h100-sxm-80g';
}
window.onhashchange = async () => {
  if (await fill(location.hash.slice(1))) answer();
};
begin();
