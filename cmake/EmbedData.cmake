# planner_embed_data(target out file...): turns data files into one C++ source that defines
# `std::span<const core::EmbeddedFile> <target>_data()`; see core/embedded.hpp.
function(planner_embed_data target out)
  set(generated ${CMAKE_CURRENT_BINARY_DIR}/${target}_data.cpp)
  set(inputs)
  foreach(file IN LISTS ARGN)
    list(APPEND inputs ${CMAKE_CURRENT_SOURCE_DIR}/${file})
  endforeach()
  list(JOIN ARGN "," names)
  add_custom_command(
    OUTPUT ${generated}
    COMMAND ${CMAKE_COMMAND} -DOUT=${generated} -DTARGET=${target} -DFILES=${names}
            -DROOT=${CMAKE_CURRENT_SOURCE_DIR} "-DPIECE=${PLANNER_EMBED_PIECE}" -P ${CMAKE_SOURCE_DIR}/cmake/EmbedFiles.cmake
    DEPENDS ${inputs} ${CMAKE_SOURCE_DIR}/cmake/EmbedFiles.cmake
    VERBATIM)
  set_source_files_properties(${generated} PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON
    COMPILE_OPTIONS $<$<CXX_COMPILER_ID:Clang>:-Wno-overlength-strings>)
  set(${out} ${generated} PARENT_SCOPE)
endfunction()
