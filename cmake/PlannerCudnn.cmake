# Finds cuDNN 9's headers and those of its frontend, without failing where they are absent.
#
# After include(PlannerCudnn), where a CUDA toolkit was found:
#   planner_cudnn   imported target with both include folders, exists only where both were found
#
# Looked for where the compiler looks, in the toolkit, below $CUDNN_PATH and $CUDNN_FRONTEND_PATH and
# where the pip wheels nvidia-cudnn-cu12 or -cu13 and nvidia-cudnn-frontend lie. Nothing is linked:
# libcudnn is opened when a run asks for it.
include_guard(GLOBAL)

if(NOT PLANNER_CUDA_FOUND)
  return()
endif()

set(wheels)
find_package(Python3 QUIET COMPONENTS Interpreter)
if(Python3_Interpreter_FOUND)
  execute_process(COMMAND ${Python3_EXECUTABLE} -c "import sys; print(';'.join(p for p in sys.path if p))"
    OUTPUT_VARIABLE wheels ERROR_QUIET OUTPUT_STRIP_TRAILING_WHITESPACE)
endif()
set(cudnn_wheels ${wheels})
list(TRANSFORM cudnn_wheels APPEND /nvidia/cudnn)

find_path(PLANNER_CUDNN_INCLUDE cudnn_version.h
  HINTS $ENV{CUDNN_PATH} ${CUDAToolkit_INCLUDE_DIRS} PATHS ${cudnn_wheels} PATH_SUFFIXES include)
find_library(PLANNER_CUDNN_LIBRARY NAMES cudnn libcudnn.so.9
  HINTS $ENV{CUDNN_PATH} ${CUDAToolkit_LIBRARY_DIR} PATHS ${cudnn_wheels}
  PATH_SUFFIXES lib lib64)
find_path(PLANNER_CUDNN_FRONTEND_INCLUDE cudnn_frontend.h
  HINTS $ENV{CUDNN_FRONTEND_PATH} $ENV{CUDNN_PATH} PATHS ${wheels} PATH_SUFFIXES include)
mark_as_advanced(PLANNER_CUDNN_INCLUDE PLANNER_CUDNN_LIBRARY PLANNER_CUDNN_FRONTEND_INCLUDE)

# version_of(RESULT FILE PREFIX PARTS...): the numbers that FILE defines, joined by points.
function(planner_version_of result file prefix)
  set(version)
  foreach(part IN LISTS ARGN)
    set(number)
    if(EXISTS ${file})
      file(STRINGS ${file} line REGEX "^#define ${prefix}${part} +[0-9]+" LIMIT_COUNT 1)
      string(REGEX MATCH "[0-9]+$" number "${line}")
    endif()
    list(APPEND version ${number})
  endforeach()
  list(JOIN version . version)
  set(${result} ${version} PARENT_SCOPE)
endfunction()
planner_version_of(cudnn_version ${PLANNER_CUDNN_INCLUDE}/cudnn_version.h CUDNN_ MAJOR MINOR PATCHLEVEL)
planner_version_of(frontend_version ${PLANNER_CUDNN_FRONTEND_INCLUDE}/cudnn_frontend_version.h
  CUDNN_FRONTEND_ MAJOR_VERSION MINOR_VERSION PATCH_VERSION)

# 1.18 is the oldest frontend that this was compiled against.
set(left_out)
if(NOT cudnn_version VERSION_GREATER_EQUAL 9)
  string(APPEND left_out " cudnn.h of version 9 or newer (pip install nvidia-cudnn-cu12 or -cu13, as the "
                         "toolkit is, or set CUDNN_PATH);")
endif()
if(NOT frontend_version VERSION_GREATER_EQUAL 1.18)
  string(APPEND left_out " cudnn_frontend.h of version 1.18 or newer (pip install nvidia-cudnn-frontend, "
                         "or set CUDNN_FRONTEND_PATH);")
endif()
if(left_out)
  message(STATUS "cuDNN's attention is left out, own kernels compute it. Not found:${left_out} then "
                 "configure again")
else()
  add_library(planner_cudnn INTERFACE IMPORTED GLOBAL)
  set_target_properties(planner_cudnn PROPERTIES INTERFACE_INCLUDE_DIRECTORIES
    "${PLANNER_CUDNN_INCLUDE};${PLANNER_CUDNN_FRONTEND_INCLUDE}")
  set(opened "${PLANNER_CUDNN_LIBRARY}")
  if(NOT opened)
    set(opened "not here: runs on this machine use own kernels")
  endif()
  message(STATUS "cuDNN ${cudnn_version} (libcudnn.so.9: ${opened}), its frontend "
                 "${frontend_version} (${PLANNER_CUDNN_FRONTEND_INCLUDE})")
endif()
