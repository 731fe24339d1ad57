// C++ exceptions in WebAssembly. The compiler knows them (-fwasm-exceptions), but Debian's
// libc++abi for WASI lacks the functions that it calls: these. Names and contracts are those of
// the Itanium C++ ABI, "Exception Handling"; the tables are those of LLVM's WebAssembly backend
// (WasmEHPrepare, EHStreamer). One thread, one language: nothing foreign is ever thrown.

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <exception>
#include <new>
#include <typeinfo>

namespace {

// What precedes a thrown object in memory.
struct alignas(std::max_align_t) Thrown {
  const std::type_info* type;
  void* (*destroy)(void*);             // destructors return their object here
  void* caught_as;                     // the object as the handler's type sees it
  int handlers;                        // that are open; negative: thrown again from the last
  Thrown* below;                       // the exception that was caught before
};

Thrown* caught = nullptr;              // the innermost that is being handled

void* object_of(Thrown* thrown) { return thrown + 1; }

// std::type_info as libc++abi makes it: whether a handler of this type takes an object of another.
// Same order of virtual functions as __shim_type_info (libcxxabi/src/private_typeinfo.h).
class HandlerType : public std::type_info {
 public:
  virtual void unused_1() const;
  virtual void unused_2() const;
  virtual bool can_catch(const HandlerType* thrown, void*& object) const = 0;
};

std::uint32_t read_unsigned(const std::uint8_t*& at) {  // LEB128
  std::uint32_t value = 0;
  for (unsigned shift = 0;; shift += 7) {
    const std::uint8_t byte = *at++;
    value |= static_cast<std::uint32_t>(byte & 0x7fu) << shift;
    if (byte < 0x80) return value;
  }
}

std::int32_t read_signed(const std::uint8_t*& at) {
  std::uint32_t value = 0;
  for (unsigned shift = 0;;) {
    const std::uint8_t byte = *at++;
    value |= static_cast<std::uint32_t>(byte & 0x7fu) << shift;
    shift += 7;
    if (byte >= 0x80) continue;
    if ((byte & 0x40u) != 0 && shift < 32) value |= ~std::uint32_t{0} << shift;
    return static_cast<std::int32_t>(value);
  }
}

constexpr std::uint8_t kOmitted = 0xff;

// The part of a function's table that says what one of its landing pads catches.
struct Actions {
  const std::uint8_t* first;           // nullptr: a cleanup
  const HandlerType* const* types;     // one past the first
};

// lsda: the function's language-specific data area. pad: which of its landing pads, from 0.
Actions actions_of(const std::uint8_t* lsda, std::size_t pad) {
  ++lsda;                              // where landing pads are counted from: nowhere here
  const HandlerType* const* types = nullptr;
  if (*lsda++ != kOmitted) {
    const std::uint32_t offset = read_unsigned(lsda);
    types = reinterpret_cast<const HandlerType* const*>(lsda + offset);
  }
  ++lsda;                              // how call sites are written: as LEB128
  const std::uint32_t length = read_unsigned(lsda);
  const std::uint8_t* const table = lsda + length;
  for (;; --pad) {
    read_unsigned(lsda);               // the landing pad, which is its own number
    const std::uint32_t action = read_unsigned(lsda);
    if (pad == 0) return {action == 0 ? nullptr : table + action - 1, types};
  }
}

}  // namespace

extern "C" {

// What a landing pad tells of itself before it asks, and the answer: the place of the type that
// catches, 0 where none does.
struct LandingPad {
  std::size_t index;
  const std::uint8_t* lsda;
  std::size_t selector;
};
thread_local LandingPad __wasm_lpad_context;

int _Unwind_CallPersonality(void* exception) {
  auto* thrown = static_cast<Thrown*>(exception);
  LandingPad& pad = __wasm_lpad_context;
  pad.selector = 0;
  const Actions actions = actions_of(pad.lsda, pad.index);
  for (const std::uint8_t* at = actions.first; at != nullptr;) {
    const std::int32_t filter = read_signed(at);
    const std::uint8_t* const next = at;
    const std::int32_t distance = read_signed(at);
    if (filter > 0) {
      const HandlerType* const handler = actions.types[-filter];
      void* object = object_of(thrown);
      const auto* type = static_cast<const HandlerType*>(thrown->type);
      if (handler == nullptr || handler->can_catch(type, object)) {
        thrown->caught_as = object;
        pad.selector = static_cast<std::size_t>(filter);
        break;
      }
    }
    at = distance == 0 ? nullptr : next + distance;
  }
  return 0;
}

void* __cxa_allocate_exception(std::size_t size) noexcept {
  void* const place = std::malloc(sizeof(Thrown) + size);
  if (place == nullptr) std::terminate();
  return static_cast<Thrown*>(place) + 1;
}

void __cxa_free_exception(void* object) noexcept { std::free(static_cast<Thrown*>(object) - 1); }

[[noreturn]] void __cxa_throw(void* object, std::type_info* type, void* (*destroy)(void*)) {
  Thrown* const thrown = static_cast<Thrown*>(object) - 1;
  *thrown = {type, destroy, object, 0, nullptr};
  __builtin_wasm_throw(0, thrown);
}

void* __cxa_get_exception_ptr(void* exception) noexcept {
  return static_cast<Thrown*>(exception)->caught_as;
}

void* __cxa_begin_catch(void* exception) noexcept {
  auto* thrown = static_cast<Thrown*>(exception);
  thrown->handlers = (thrown->handlers < 0 ? -thrown->handlers : thrown->handlers) + 1;
  if (caught != thrown) {
    thrown->below = caught;
    caught = thrown;
  }
  return thrown->caught_as;
}

void __cxa_end_catch() {
  Thrown* const thrown = caught;
  if (thrown == nullptr) return;
  if (thrown->handlers < 0) {          // on its way out again: who catches it next ends it
    if (++thrown->handlers == 0) caught = thrown->below;
    return;
  }
  if (--thrown->handlers > 0) return;
  caught = thrown->below;
  if (thrown->destroy != nullptr) thrown->destroy(object_of(thrown));
  __cxa_free_exception(object_of(thrown));
}

[[noreturn]] void __cxa_rethrow() {
  if (caught == nullptr) std::terminate();
  caught->handlers = -caught->handlers;
  __builtin_wasm_throw(0, caught);
}

// thread_local objects: the one thread ends with the page, and nothing is to be destroyed before.
int __cxa_thread_atexit(void (*)(void*), void*, void*) { return 0; }

}
