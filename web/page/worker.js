// The worker of the page: compiles the module once, then answers one question after another.
let compiled = null;
onmessage = async ({ data }) => {
  if (data.bytes) {
    compiled = WebAssembly.compile(data.bytes);
    compiled.catch(() => {});          // told with the first question
    return;
  }
  const { words, files, port } = data;
  try {
    const answer = await askPlanner(await compiled, words, files,
      progress => port.postMessage({ progress }));
    port.postMessage({ answer });
  } catch (error) {
    port.postMessage({ answer: { code: 3, out: '', page: '', reasons: `${error}\n` } });
  }
};
