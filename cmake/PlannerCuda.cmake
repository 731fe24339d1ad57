# Finds a CUDA toolkit without failing when there is none, and gives planner_cuda_executable().
#
# After include(PlannerCuda):
#   PLANNER_CUDA_FOUND     TRUE where PLANNER_CUDA is ON and nvcc and the toolkit were found
#   planner_nccl           imported target, exists only where nccl.h and libnccl were found
#   planner_cupti          imported target, CUPTI's headers, exists only where those of CUDA 12 or newer
#                          were found: libcupti is opened when a run asks for it
#   planner_cuda_executable(name SOURCES ... LINKS ...)
#
# nvcc is taken from CMAKE_CUDA_COMPILER, PATH, $CUDA_HOME or /usr/local/cuda. Toolkits assembled
# from Python wheels have no CMake files for NCCL, so it is looked for beside the toolkit's own
# headers and libraries. Architectures come from PLANNER_CUDA_ARCHITECTURES alone: never "native",
# so that a build machine without a GPU makes the same binary.
include_guard(GLOBAL)
include(CheckLanguage)

set(PLANNER_CUDA_FOUND FALSE)

if(PLANNER_CUDA)
  if(NOT CMAKE_CUDA_COMPILER)
    find_program(PLANNER_NVCC nvcc HINTS $ENV{CUDA_HOME}/bin /usr/local/cuda/bin)
    mark_as_advanced(PLANNER_NVCC)
    if(PLANNER_NVCC AND NOT DEFINED ENV{CUDACXX})
      set(ENV{CUDACXX} ${PLANNER_NVCC})
    endif()
  endif()
  set(CMAKE_CUDA_ARCHITECTURES ${PLANNER_CUDA_ARCHITECTURES})
  if(NOT CMAKE_CUDA_HOST_COMPILER)
    set(CMAKE_CUDA_HOST_COMPILER ${CMAKE_CXX_COMPILER})
  endif()
  check_language(CUDA)  # a toolkit that does not work here is no reason to stop
  if(CMAKE_CUDA_COMPILER)
    enable_language(CUDA)
    # CMake 3.25 (Debian 12) does not know that nvcc 12 and newer take C++20.
    if(NOT CMAKE_CUDA20_STANDARD_COMPILE_OPTION)
      set(CMAKE_CUDA20_STANDARD_COMPILE_OPTION "-std=c++20")
      set(CMAKE_CUDA20_EXTENSION_COMPILE_OPTION "-std=c++20")
    endif()
    set(CMAKE_CUDA_STANDARD 20)
    set(CMAKE_CUDA_STANDARD_REQUIRED ON)
    set(CMAKE_CUDA_EXTENSIONS OFF)
    find_package(CUDAToolkit QUIET)
    if(CUDAToolkit_FOUND)
      set(PLANNER_CUDA_FOUND TRUE)
    endif()
  endif()
  if(NOT PLANNER_CUDA_FOUND)
    message(STATUS "CUDA toolkit not found: the CUDA binaries are left out. Install a CUDA "
                   "toolkit (13.0 is known to work), or pass "
                   "-DCMAKE_CUDA_COMPILER=/path/to/nvcc, to build them.")
  endif()
endif()

if(PLANNER_CUDA_FOUND)
  find_path(PLANNER_NCCL_INCLUDE nccl.h HINTS ${CUDAToolkit_INCLUDE_DIRS})
  find_library(PLANNER_NCCL_LIBRARY NAMES nccl libnccl.so.2 HINTS ${CUDAToolkit_LIBRARY_DIR})
  mark_as_advanced(PLANNER_NCCL_INCLUDE PLANNER_NCCL_LIBRARY)
  if(PLANNER_NCCL_INCLUDE AND PLANNER_NCCL_LIBRARY)
    add_library(planner_nccl UNKNOWN IMPORTED GLOBAL)
    set_target_properties(planner_nccl PROPERTIES
      IMPORTED_LOCATION ${PLANNER_NCCL_LIBRARY}
      INTERFACE_INCLUDE_DIRECTORIES ${PLANNER_NCCL_INCLUDE})
  else()
    message(STATUS "NCCL not found: CUDA binaries are built without it. Install it, or pass "
                   "-DPLANNER_NCCL_INCLUDE= and -DPLANNER_NCCL_LIBRARY=.")
  endif()
  if(CUDAToolkit_CUPTI_INCLUDE_DIR AND CUDAToolkit_VERSION VERSION_GREATER_EQUAL 12)
    add_library(planner_cupti INTERFACE IMPORTED GLOBAL)
    set_target_properties(planner_cupti PROPERTIES
      INTERFACE_INCLUDE_DIRECTORIES ${CUDAToolkit_CUPTI_INCLUDE_DIR})
  else()
    message(STATUS "CUPTI's headers of CUDA 12 or newer not found: --device-times cupti is left out. "
                   "Install the toolkit's CUPTI (cuda-cupti-dev), or pass "
                   "-DCUDAToolkit_CUPTI_INCLUDE_DIR=.")
  endif()
  message(STATUS "CUDA ${CUDAToolkit_VERSION} (${CMAKE_CUDA_COMPILER}), "
                 "architectures ${PLANNER_CUDA_ARCHITECTURES}")
endif()

# Warnings are errors for nvcc, for its host compiler and for plain C++ sources. The binary runs
# where it was built and where it is copied beside its libraries: RPATH $ORIGIN first, then the
# toolkit's folder. cudart and the C++ runtime are linked statically: a GPU machine often has an
# older distribution than the build machine.
function(planner_cuda_settings name)
  target_compile_options(${name} PRIVATE
    "$<$<COMPILE_LANGUAGE:CUDA>:SHELL:-Werror all-warnings>"
    "$<$<COMPILE_LANGUAGE:CUDA>:-Xcompiler=-Wall,-Wextra,-Wshadow,-Werror>"
    "$<$<COMPILE_LANGUAGE:CUDA>:-Xcompiler=$<JOIN:${PLANNER_PLACES},$<COMMA>>>")
  set_target_properties(${name} PROPERTIES
    CUDA_ARCHITECTURES "${PLANNER_CUDA_ARCHITECTURES}"
    CUDA_RUNTIME_LIBRARY Static)
endfunction()

function(planner_cuda_executable name)
  cmake_parse_arguments(ARG "" "" "SOURCES;LINKS" ${ARGN})
  add_executable(${name} ${ARG_SOURCES})
  target_link_libraries(${name} PRIVATE ${ARG_LINKS} CUDA::cudart_static Threads::Threads)
  if(COMMAND planner_compile_settings)
    planner_compile_settings(${name})
  endif()
  planner_cuda_settings(${name})
  target_link_options(${name} PRIVATE -static-libstdc++ -static-libgcc)
  set_target_properties(${name} PROPERTIES
    UNITY_BUILD OFF
    BUILD_RPATH "$ORIGIN"
    INSTALL_RPATH "$ORIGIN")
endfunction()
