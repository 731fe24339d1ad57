// One question to the planner's WebAssembly module: a new instance answers it and is dropped.
// `compiled` is a WebAssembly.Module; words as on the command line, files {path: text}; `progress`
// is told what is being done. Returns {code, out, reasons, page}.
async function askPlanner(compiled, words, files, progress) {
  const decoder = new TextDecoder();
  let memory = null;
  let said = '';                       // what the module's runtime says before it gives up
  const bytes = (at, size) => new Uint8Array(memory.buffer, at, size);
  const text = (at, size) => decoder.decode(bytes(at, size));
  class Ended extends Error {}
  const wasi = {
    environ_sizes_get(count, size) {
      new DataView(memory.buffer).setUint32(count, 0, true);
      new DataView(memory.buffer).setUint32(size, 0, true);
      return 0;
    },
    environ_get: () => 0,
    clock_time_get(id, precision, at) {
      const nanoseconds = id === 0 ? Date.now() * 1e6 : performance.now() * 1e6;
      new DataView(memory.buffer).setBigUint64(at, BigInt(Math.round(nanoseconds)), true);
      return 0;
    },
    fd_write(fd, parts, count, written) {
      const view = new DataView(memory.buffer);
      let all = 0;
      for (let i = 0; i < count; i++) {
        const size = view.getUint32(parts + 8 * i + 4, true);
        said += text(view.getUint32(parts + 8 * i, true), size);
        all += size;
      }
      view.setUint32(written, all, true);
      return 0;
    },
    proc_exit(code) { throw new Ended(`ended with code ${code}`); },
  };
  for (const { name } of WebAssembly.Module.imports(compiled))
    wasi[name] ??= () => 8;            // EBADF: there are no files
  const instance = await WebAssembly.instantiate(compiled, {
    planner: { progress: (at, size) => progress(text(at, size)) },
    wasi_snapshot_preview1: wasi,
  });
  const planner = instance.exports;
  memory = planner.memory;
  try {
    planner._initialize();
    const question = new TextEncoder().encode(JSON.stringify({ words, files }));
    bytes(planner.planner_question(question.length), question.length).set(question);
    const size = planner.planner_answer();
    return JSON.parse(text(planner.planner_answer_text(), size));
  } catch (error) {
    const reason = error instanceof Ended || error instanceof WebAssembly.RuntimeError ||
      error instanceof RangeError;
    if (!reason) throw error;
    return { code: 3, out: '', page: '', reasons: `${said.trim() || error.message}\n` };
  }
}
