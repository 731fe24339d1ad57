// What every launcher runs on a node, and the environment that a plan counts on.
#include <algorithm>
#include <set>

#include "reports/emit/launcher.hpp"

namespace reports::emit {
namespace {

using core::Code;
using core::code;

// Algorithms of the plan's all-reduces: all of them, and those that it does not leave to NCCL.
// Entries of the latter state no calls of the library.
struct Algorithms {
  std::set<std::string> forced, any;
};

Algorithms algorithms_of(const std::vector<planner::CommunicationEntry>& communication) {
  Algorithms found;
  for (const planner::CommunicationEntry& entry : communication) {
    if (entry.collective != "all_reduce") continue;
    const bool known = entry.algorithm == "tree" || entry.algorithm == "ring";
    if (known && entry.library.empty()) found.forced.insert(entry.algorithm);
    found.any.insert(entry.algorithm);
  }
  return found;
}

// One algorithm for all all-reduces can be asked for; NCCL has no word for those of one group.
bool asks_for_algorithm(const Algorithms& a) { return a.forced.size() == 1 && a.any.size() == 1; }

Code environment(const Start& start) {
  Code text;
  if (const Algorithms a = algorithms_of(start.communication); asks_for_algorithm(a))
    text += code("export NCCL_ALGO=allreduce:{0}  # as planned; NCCL before 2.24: {0}\n",
                 Code::shell(*a.forced.begin()));
  // torchrun gives each process one thread, which a host's optimizer is too slow with.
  if (start.q.s.offloads("optimizer") || start.q.s.offloads("params"))
    text += code("export OMP_NUM_THREADS=$(($(nproc) / {}))\n", start.gpus_per_node());
  return text;
}

// A word that no line of the text is.
Code end_mark(std::string_view text) {
  Code mark = "END_OF_FILE";
  const std::string lines = fmt::format("\n{}", text);
  while (lines.find(fmt::format("\n{}\n", mark)) != std::string::npos) mark += "_";
  return mark;
}

Code file_lines(const Written& written) {
  if (written.file_name.empty()) return "";
  const Code mark = end_mark(written.text);
  const Code lines = code(
      "folder=$(mktemp -d)\ntrap 'rm -rf \"$folder\"' EXIT\n"
      "config=$folder/{0}\ncat >\"$config\" <<'{1}'\n{2}{1}\n",
      written.file_name, mark, written.text);
  if (!written.imported) return lines;
  return lines + "export PYTHONPATH=\"$folder${PYTHONPATH:+:$PYTHONPATH}\"\n";
}

std::vector<std::string> notes_of(const Start& start) {
  std::vector<std::string> notes = start.written.notes;
  const hw_profiles::Profile& p = start.q.plan.profile;
  const Algorithms a = algorithms_of(start.communication);
  if (!a.forced.empty() && !asks_for_algorithm(a))
    notes.push_back("all-reduces run by different algorithms in the plan: NCCL cannot be told so, "
                    "and chooses for itself");
  if (p.framework.caching_allocator)
    notes.push_back("memory was predicted for PyTorch's allocator as it is by default: "
                    "PYTORCH_CUDA_ALLOC_CONF is not set here");
  if (p.node.nccl_minor)
    notes.push_back(fmt::format("the plan counts on NCCL 2.{}", *p.node.nccl_minor));
  return notes;
}

void note_placeholders(const Start& start, std::vector<std::string>& notes, std::string_view text) {
  struct Entry {
    std::string_view placeholder, what;
  };
  for (const Entry& e : {Entry{kImage, "a container image for {1} (--image)"},
                         Entry{kWorkdir, "the path of {0} (--workdir)"},
                         Entry{kScript, "your training script (--script)"},
                         Entry{kAccelerator, "SkyPilot's name of the GPU (sky show-gpus)"}})
    if (text.find(e.placeholder) != std::string_view::npos)
      notes.push_back(fmt::format("fill in {}: {}", e.placeholder,
                                  fmt::format(fmt::runtime(e.what), start.written.place,
                                              start.written.framework)));
}

}  // namespace

Code head_comment(const Start& start) {
  Code text = code("# {}\n", start.q.title());
  Code calls;
  for (const planner::CommunicationEntry& entry : start.communication)
    for (const program::LibraryCalls& c : entry.library)
      calls +=
          code("#   {}\n", Code::comment(fmt::format("{} {} of {}: {}, {}, {} channels", entry.what,
                                                     entry.collective, entry.group_size,
                                                     c.algorithm, c.protocol, c.channels)));
  if (!calls.empty()) text += "# The plan counts on NCCL to choose, by itself:\n" + calls;
  return text;
}

Code node_script(const Start& start, const Joining& joining) {
  const Written& w = start.written;
  Code text = "set -euo pipefail\n";
  if (joining.in_workdir)
    text += code("cd {}\n", Code::shell(start.place.workdir.value_or(std::string(kWorkdir))));
  text += environment(start);
  if (w.program.text().find("$TRAIN_SCRIPT") != std::string::npos) {
    if (start.place.script)
      text += code("TRAIN_SCRIPT={}\n", Code::shell(*start.place.script));
    else
      text += code("TRAIN_SCRIPT=${{TRAIN_SCRIPT:-{}}}\n", Code::own(kScript));
  }
  text += w.setup + file_lines(w);
  if (joining.torchrun)
    text += code("torchrun --nnodes {} --nproc_per_node {} {} \\\n  {}\n", start.nodes(),
                 start.gpus_per_node(), joining.options, w.program);
  else
    text += code("python {}\n", w.program);
  return text;
}

Launch launched(const Start& start, std::string_view launcher) {
  Launch launch;
  if (launcher == "torchrun") launch.text = torchrun_script(start);
  if (launcher == "slurm") launch.text = slurm_script(start);
  if (launcher == "jobset") launch.text = jobset(start);
  if (launcher == "pytorchjob") launch.text = pytorch_job(start);
  if (launcher == "mpijob") launch.text = mpi_job(start);
  if (launcher == "skypilot") launch.text = skypilot(start);
  PLANNER_CHECK(!launch.text.empty(), "one of launchers()");
  launch.notes = notes_of(start);
  note_placeholders(start, launch.notes, launch.text);
  return launch;
}

}  // namespace reports::emit
