# Flags of our own code: warnings as errors and sanitizers, for this folder and those below it. Nobody who links a
# library of ours gets them. xstage_portable_binary: an executable that needs nothing beyond the C library.
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)

set(XSTAGE_HOST_WARNINGS -Wall -Wextra -Wshadow -Wconversion -Wsign-conversion -Werror)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
  # GCC 12 warns about std::string's own operator+ (gcc.gnu.org/PR105651, fixed in 13).
  list(APPEND XSTAGE_HOST_WARNINGS -Wno-restrict)
endif()

set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
add_compile_options("$<$<COMPILE_LANGUAGE:CXX>:${XSTAGE_HOST_WARNINGS};-Wpedantic>")

if(XSTAGE_SANITIZE)
  set(sanitizers -fsanitize=address,undefined -fno-sanitize-recover=all -fno-omit-frame-pointer)
  add_compile_options("$<$<COMPILE_LANGUAGE:CXX>:${sanitizers}>")
  add_link_options(${sanitizers})
endif()
if(XSTAGE_FUZZ)
  add_compile_options("$<$<COMPILE_LANGUAGE:CXX>:-fsanitize=fuzzer-no-link>")
endif()

# Sources of one folder become one translation unit, so names of a folder's unnamed namespaces must differ. The presets ask
# for it; without it each source is compiled alone, as in the build for clang-tidy, which sees an include that is missing.
# Of a test's compilation half is GoogleTest's templates; tests go eight by eight, since a unit of them is large, and the
# unnamed namespace of each lies in a namespace of the file's name. What tests share stays alone.
function(xstage_unity target)
  if(NOT XSTAGE_UNITY)
    return()
  endif()
  get_target_property(sources ${target} SOURCES)
  set(tests 0)
  foreach(source IN LISTS sources)
    if(NOT source MATCHES "(src|tests)/.*\\.cpp$" OR (source MATCHES "/(test|tests)/" AND NOT source MATCHES "_test\\.cpp$"))
      continue()
    endif()
    cmake_path(GET source PARENT_PATH folder)
    cmake_path(RELATIVE_PATH folder BASE_DIRECTORY "${PROJECT_SOURCE_DIR}" OUTPUT_VARIABLE folder)
    string(REPLACE "/" "_" group "${folder}")
    if(source MATCHES "_test\\.cpp$")
      math(EXPR batch "${tests} / 8")
      math(EXPR tests "${tests} + 1")
      string(APPEND group "_${batch}")
    endif()
    set_source_files_properties("${source}" PROPERTIES UNITY_GROUP "${group}")
  endforeach()
  set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_MODE GROUP)
endfunction()

add_library(xstage_portable_binary INTERFACE)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND NOT XSTAGE_SANITIZE)
  target_link_options(xstage_portable_binary INTERFACE -static-libstdc++ -static-libgcc)
endif()
