# The toolchain of the preset `web`: WebAssembly with the interface of WASI, by Clang and Debian's
# packages of libc++ and wasi-libc. Exceptions: web/exceptions.cpp.
set(CMAKE_SYSTEM_NAME Generic)          # WASI is unknown to CMake
set(CMAKE_SYSTEM_PROCESSOR wasm32)
find_program(CMAKE_CXX_COMPILER NAMES clang++-19 REQUIRED)
set(CMAKE_CXX_COMPILER_TARGET wasm32-wasi)
set(CMAKE_CXX_FLAGS_INIT "-fwasm-exceptions")
# A page that asks one question after another: no main(). A stack as long as Linux gives; it lies
# first, so that what overflows it is a trap and not other data.
set(CMAKE_EXE_LINKER_FLAGS_INIT
    "-mexec-model=reactor -Wl,-z,stack-size=8388608,--stack-first,--strip-debug")
set(CMAKE_EXECUTABLE_SUFFIX_CXX ".wasm")
# Does not run here.
set(CMAKE_TRY_COMPILE_TARGET_TYPE STATIC_LIBRARY)
