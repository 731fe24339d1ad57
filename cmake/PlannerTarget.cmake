# planner_library(name SOURCES ... HEADERS ... LINKS ... [PRIVATE_LINKS ...] [DATA ...])
#
# One folder is one target. HEADERS are the public ones: each is compiled with nothing before it, so
# that a header that leans on its includer fails the build: by the source of its name, which includes
# it first, else by a source of its own. LINKS are the arrows of docs/decisions/0001: a header
# that a target does not link cannot be included by it. DATA files are embedded (EmbedData.cmake).
# Every folder's headers are reached as "folder/header.hpp" through a per-target view of the tree,
# so the arrows hold for includes too.
if(NOT PLANNER_WEB)
  include(CheckPIESupported)
  check_pie_supported(LANGUAGES CXX)
endif()
set(PLANNER_WARNINGS -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wno-sign-conversion -Werror)
# GCC's ivdep is unknown to Clang, names may be alike within a unity batch, and test data may hold
# bytes that are not UTF-8. No fused products and sums: results are GCC's to the bit.
set(PLANNER_CLANG -Wno-unknown-pragmas -Wno-shadow -Wno-invalid-source-encoding -ffp-contract=off)

# What makes a fault harder to use: guards of the stack, checked calls of the library where code is
# optimised, tables of addresses that are read-only from the start, and on x86-64 landing pads.
# Not under sanitizers, which check more.
set(PLANNER_HARDENING -fstack-protector-strong $<$<NOT:$<CONFIG:Debug>>:-U_FORTIFY_SOURCE>
    $<$<NOT:$<CONFIG:Debug>>:-D_FORTIFY_SOURCE=2>)
if(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
  list(APPEND PLANNER_HARDENING -fstack-clash-protection -fcf-protection=full)
endif()

# Binaries name sources by their place in the tree, or in the build, so that they do not depend on
# where these stand.
set(PLANNER_PLACES -ffile-prefix-map=${CMAKE_SOURCE_DIR}/= -ffile-prefix-map=${CMAKE_BINARY_DIR}/=)

function(planner_compile_settings target)
  get_target_property(type ${target} TYPE)
  if(type STREQUAL EXECUTABLE)         # libraries are so anyway
    set_target_properties(${target} PROPERTIES POSITION_INDEPENDENT_CODE ON)
  endif()
  if(NOT PLANNER_SANITIZE AND NOT PLANNER_WEB)
    target_compile_options(${target} PRIVATE $<$<COMPILE_LANGUAGE:CXX>:${PLANNER_HARDENING}>)
    target_link_options(${target} PRIVATE -Wl,-z,relro,-z,now)
  endif()
  target_compile_options(${target} PRIVATE $<$<COMPILE_LANGUAGE:CXX>:${PLANNER_WARNINGS}>)
  target_compile_options(
    ${target} PRIVATE "$<$<COMPILE_LANG_AND_ID:CXX,Clang>:${PLANNER_CLANG}>")
  target_compile_options(${target} PRIVATE $<$<COMPILE_LANGUAGE:CXX>:${PLANNER_PLACES}>)
  if(PLANNER_UNITY)  # GCC takes what a batch includes for headers
    target_compile_options(${target} PRIVATE $<$<CXX_COMPILER_ID:GNU>:-Wno-subobject-linkage>)
  endif()
  if(PLANNER_SANITIZE)
    target_compile_options(${target} PRIVATE -fsanitize=${PLANNER_SANITIZE} -fno-omit-frame-pointer)
    target_link_options(${target} PRIVATE -fsanitize=${PLANNER_SANITIZE})
  endif()
  if(PLANNER_SANITIZE MATCHES "thread")
    target_compile_options(${target} PRIVATE
      "$<$<COMPILE_LANGUAGE:CXX>:SHELL:-include ${CMAKE_SOURCE_DIR}/cmake/thread_sanitizer.hpp>")
  endif()
endfunction()

# result: whether the header's own source, of SOURCES, includes it before anything else.
function(planner_includes_first result include header)
  string(REGEX REPLACE "\\.hpp$" ".cpp" source ${header})
  set(${result} FALSE PARENT_SCOPE)
  if(source IN_LIST ARGN)
    file(STRINGS ${source} first REGEX "^#include" LIMIT_COUNT 1)
    if(first STREQUAL "#include \"${include}\"")
      set(${result} TRUE PARENT_SCOPE)
    endif()
  endif()
endfunction()

function(planner_library target)
  cmake_parse_arguments(ARG "" "" "SOURCES;HEADERS;LINKS;PRIVATE_LINKS;DATA" ${ARGN})
  file(RELATIVE_PATH folder ${CMAKE_SOURCE_DIR} ${CMAKE_CURRENT_SOURCE_DIR})

  # The view: build/include/<target>/<folder> -> source folder. Only linkers of the target see it.
  set(view ${CMAKE_BINARY_DIR}/include/${target})
  get_filename_component(parent ${view}/${folder} DIRECTORY)
  file(MAKE_DIRECTORY ${parent})
  if(NOT EXISTS ${view}/${folder})
    file(CREATE_LINK ${CMAKE_CURRENT_SOURCE_DIR} ${view}/${folder} SYMBOLIC)
  endif()

  set(alone)
  if(PLANNER_WEB)                      # they stand alone elsewhere
    set(ARG_HEADERS)
  endif()
  foreach(header IN LISTS ARG_HEADERS)
    planner_includes_first(proven ${folder}/${header} ${header} ${ARG_SOURCES})
    if(proven)
      continue()
    endif()
    string(MAKE_C_IDENTIFIER ${header} id)
    set(file ${CMAKE_CURRENT_BINARY_DIR}/alone/${id}.cpp)
    file(CONFIGURE OUTPUT ${file} CONTENT "#include \"${folder}/${header}\"\n" @ONLY)
    list(APPEND alone ${file})
    set_source_files_properties(${file} PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
  endforeach()

  if(ARG_DATA)
    include(EmbedData)
    planner_embed_data(${target} embedded ${ARG_DATA})
  endif()

  add_library(${target} STATIC ${ARG_SOURCES} ${embedded} ${alone})
  target_include_directories(${target} PUBLIC $<BUILD_INTERFACE:${view}>)
  target_link_libraries(${target} PUBLIC ${ARG_LINKS} PRIVATE ${ARG_PRIVATE_LINKS})
  # The Python module is a shared library of the same objects. Hidden symbols cannot be replaced by
  # another library's, so the compiler may inline them as it does for an executable.
  if(NOT PLANNER_WEB)
    target_compile_options(${target} PRIVATE
      $<$<COMPILE_LANGUAGE:CXX>:-fPIC;-fvisibility=hidden;-fno-semantic-interposition>)
  endif()
  planner_compile_settings(${target})
endfunction()
