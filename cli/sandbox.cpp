#include "cli/sandbox.hpp"

#include <fcntl.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/landlock.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <filesystem>

#include <fmt/format.h>

#include "cli/choose.hpp"
#include "cli/kept_output.hpp"

namespace cli {
namespace {

// Rights that later kernels know and the headers of Debian 12 do not define.
constexpr std::uint64_t kTruncate = 1 << 14, kBindTcp = 1 << 0, kConnectTcp = 1 << 1,
                        kAbstractSockets = 1 << 0, kSignals = 1 << 1;
struct Ruleset {
  std::uint64_t files = 0, network = 0, scoped = 0;
};

#if defined(__x86_64__)
constexpr std::uint32_t kArchitecture = AUDIT_ARCH_X86_64;
#elif defined(__aarch64__)
constexpr std::uint32_t kArchitecture = AUDIT_ARCH_AARCH64;
#else
constexpr std::uint32_t kArchitecture = 0;
#endif

// Refused with EPERM. No verb that is confined has a use for any of them.
constexpr std::array kRefused{
    SYS_execve, SYS_execveat, SYS_socket, SYS_socketpair, SYS_connect, SYS_bind, SYS_listen,
    SYS_accept, SYS_accept4, SYS_ptrace, SYS_process_vm_readv, SYS_process_vm_writev, SYS_kill,
    SYS_pidfd_open, SYS_pidfd_send_signal, SYS_pidfd_getfd, SYS_mount, SYS_umount2,
    SYS_pivot_root, SYS_chroot, SYS_unshare, SYS_setns, SYS_bpf, SYS_perf_event_open, SYS_keyctl,
    SYS_add_key, SYS_request_key, SYS_userfaultfd, SYS_io_uring_setup, SYS_io_uring_enter,
    SYS_io_uring_register, SYS_init_module, SYS_finit_module, SYS_delete_module,
    SYS_kexec_load, SYS_open_by_handle_at, SYS_personality, SYS_swapon, SYS_reboot};

// The address sanitizer looks for leaks when the process ends, and traces it for that: the sandbox
// forbids it.
#if defined(__SANITIZE_ADDRESS__)
constexpr bool kLooksForLeaks = true;
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
constexpr bool kLooksForLeaks = true;
#else
constexpr bool kLooksForLeaks = false;
#endif
#else
constexpr bool kLooksForLeaks = false;
#endif

int landlock_version() {
  return static_cast<int>(
      ::syscall(SYS_landlock_create_ruleset, nullptr, 0, LANDLOCK_CREATE_RULESET_VERSION));
}

bool has_seccomp() {
  const std::uint32_t action = SECCOMP_RET_ERRNO;
  return kArchitecture != 0 &&
         ::syscall(SYS_seccomp, SECCOMP_GET_ACTION_AVAIL, 0, &action) == 0;
}

core::Problem failed(std::string expected, std::string found) {
  return {"--sandbox", std::move(expected), std::move(found), "write --sandbox off",
          core::ProblemKind::failed_running};
}
core::Problem not_taken(const char* what) {
  return failed(fmt::format("the kernel to take {}", what), std::strerror(errno));
}

// All rights to write and to run files that the version of Landlock knows.
std::uint64_t confined_rights(int version) {
  std::uint64_t rights =
      LANDLOCK_ACCESS_FS_EXECUTE | LANDLOCK_ACCESS_FS_WRITE_FILE | LANDLOCK_ACCESS_FS_REMOVE_DIR |
      LANDLOCK_ACCESS_FS_REMOVE_FILE | LANDLOCK_ACCESS_FS_MAKE_CHAR | LANDLOCK_ACCESS_FS_MAKE_DIR |
      LANDLOCK_ACCESS_FS_MAKE_REG | LANDLOCK_ACCESS_FS_MAKE_SOCK | LANDLOCK_ACCESS_FS_MAKE_FIFO |
      LANDLOCK_ACCESS_FS_MAKE_BLOCK | LANDLOCK_ACCESS_FS_MAKE_SYM;
  if (version >= 2) rights |= LANDLOCK_ACCESS_FS_REFER;
  if (version >= 3) rights |= kTruncate;
  return rights;
}

core::Status allow(int ruleset, const std::string& path, std::uint64_t rights) {
  const int at = ::open(path.c_str(), O_PATH | O_CLOEXEC);
  if (at < 0) return core::Done{};     // the write will say why it cannot be
  landlock_path_beneath_attr rule{};
  rule.allowed_access = rights;
  rule.parent_fd = at;
  const long added =
      ::syscall(SYS_landlock_add_rule, ruleset, LANDLOCK_RULE_PATH_BENEATH, &rule, 0);
  const bool taken = added == 0 || errno == EBADFD;  // pipes and sockets are none of Landlock's
  if (!taken) {
    const core::Problem problem = not_taken("a rule of Landlock");
    ::close(at);
    return problem;
  }
  ::close(at);
  return core::Done{};
}

// The folder of a file, where links lead to it; and the file itself where it is there, which may be
// a stream such as /dev/stdout.
core::Status allow_writing(int ruleset, int version, const std::string& file) {
  const std::uint64_t write =
      confined_rights(version) & (LANDLOCK_ACCESS_FS_WRITE_FILE | kTruncate);
  std::error_code ignored;
  const std::filesystem::path target = std::filesystem::weakly_canonical(file, ignored);
  const std::string folder = target.has_parent_path() ? target.parent_path().string() : ".";
  core::Status done = allow(ruleset, folder,
                            write | LANDLOCK_ACCESS_FS_REMOVE_FILE | LANDLOCK_ACCESS_FS_MAKE_REG);
  const bool is_file = std::filesystem::exists(file, ignored) &&
                       !std::filesystem::is_directory(file, ignored);
  return done.ok() && is_file ? allow(ruleset, file, write) : done;
}

core::Status confine_files(const std::vector<std::optional<std::string>>& written) {
  const int version = landlock_version();
  Ruleset all{confined_rights(version), version >= 4 ? kBindTcp | kConnectTcp : 0,
              version >= 6 ? kAbstractSockets | kSignals : 0};
  const std::size_t size = version >= 6 ? sizeof all : version >= 4 ? 16 : 8;
  const int ruleset = static_cast<int>(::syscall(SYS_landlock_create_ruleset, &all, size, 0));
  if (ruleset < 0) return not_taken("a ruleset of Landlock");
  core::Status done = core::Done{};
  for (const std::optional<std::string>& file : written)
    if (file && done.ok()) done = allow_writing(ruleset, version, *file);
  if (done.ok() && ::syscall(SYS_landlock_restrict_self, ruleset, 0) != 0)
    done = not_taken("a ruleset of Landlock");
  ::close(ruleset);
  return done;
}

core::Status confine_calls() {
  constexpr std::uint32_t kRefuse = SECCOMP_RET_ERRNO | EPERM;
  const auto load = [](std::size_t offset) {
    return sock_filter{BPF_LD | BPF_W | BPF_ABS, 0, 0, static_cast<std::uint32_t>(offset)};
  };
  const auto answer = [](std::uint32_t value) { return sock_filter{BPF_RET | BPF_K, 0, 0, value}; };
  std::vector<sock_filter> filter{
      load(offsetof(seccomp_data, arch)),
      {BPF_JMP | BPF_JEQ | BPF_K, 1, 0, kArchitecture},
      answer(kRefuse),
      load(offsetof(seccomp_data, nr)),
      {BPF_JMP | BPF_JGE | BPF_K, 0, 1, 0x40000000},  // numbers of another interface (x32)
      answer(kRefuse)};
  for (const long call : kRefused) {
    filter.push_back({BPF_JMP | BPF_JEQ | BPF_K, 0, 1, static_cast<std::uint32_t>(call)});
    filter.push_back(answer(kRefuse));
  }
  filter.push_back(answer(SECCOMP_RET_ALLOW));
  const sock_fprog program{static_cast<unsigned short>(filter.size()), filter.data()};
  if (::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0)
    return not_taken("a filter of system calls");
  return core::Done{};
}

}  // namespace

void add_sandbox_option(OptionSet& set, std::optional<std::string>& word) {
  set.text("--sandbox", word, "on|off",
           "read files where this process can write only its answer, start nothing and reach no "
           "network (on where the kernel has it)");
}

std::string sandbox_of_kernel() {
  const int version = landlock_version();
  if (version < 1 || !has_seccomp()) return "";
  return fmt::format("Landlock {} and seccomp", version);
}

core::Status enter_sandbox(const std::optional<std::string>& word,
                           const std::vector<std::optional<std::string>>& written) {
  core::Problems problems;
  std::string chosen;
  choose(word, "--sandbox", {"on", "off"}, chosen, problems);
  if (!problems.empty()) return problems;
  if (word == "off" || (kLooksForLeaks && !word)) return core::Done{};
  if (kept_output() != nullptr) {      // it would confine the caller for good
    if (!word) return core::Done{};
    return core::Problem{"--sandbox", "a process of its own", "a call inside another program",
                         "run the planner binary in a shell"};
  }
  if (sandbox_of_kernel().empty()) {
    if (!word) return core::Done{};
    return failed("a kernel with Landlock and seccomp", "another one");
  }
  if (::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) return not_taken("no new privileges");
  if (core::Status files = confine_files(written); !files.ok()) return files;
  return confine_calls();
}

}  // namespace cli
