#include "cli/call.hpp"

#include <exception>
#include <new>

#include "cli/kept_output.hpp"
#include "cli/process.hpp"

namespace cli {

int guarded(const std::function<int()>& verb) {
  try {
    return verb();
  } catch (const core::Stopped& stopped) {
    write_reason(stopped.what());
    return kInterrupted;
  } catch (const std::bad_alloc&) {
    write_reason("out of memory");
  } catch (const std::exception& error) {
    write_reason(error.what());
  }
  return kFailed;
}

CallAnswer answer_call_by(const std::function<int()>& verb, const core::Call& call,
                          std::function<void(std::string_view)> progress) {
  KeptOutput kept{.progress = std::move(progress)};
  const core::CallScope scope(&call);
  const KeepOutput keep(kept);
  const int code = guarded(verb);
  return {code, std::move(kept.out), std::move(kept.reasons), std::move(kept.page)};
}

}  // namespace cli
