# xstage_fingerprints: a table of what the kernels of this build are, compiled into the programs that measure, so that a
# results file says which machine code it belongs to. build/*/fingerprints.json is the same for scripts/check_results.py.
# Sources are part of it, so every one of them is a dependency; the script writes anew only what has changed.
set(fingerprints_source "${PROJECT_BINARY_DIR}/generated/fingerprints.cpp")
set(fingerprints_table "${PROJECT_BINARY_DIR}/fingerprints.json")
set(fingerprinted_objects "")
set(fingerprint_compiler "")
if(XSTAGE_HAVE_CUDA)
  # Of every library that has been defined so far, whatever it is called.
  get_directory_property(targets BUILDSYSTEM_TARGETS)
  foreach(target IN LISTS targets)
    get_target_property(sources ${target} SOURCES)
    if(sources MATCHES "\\.cu(;|$)")
      list(APPEND fingerprinted_objects "$<FILTER:$<TARGET_OBJECTS:${target}>,INCLUDE,\\.cu\\.o$>")
    endif()
  endforeach()
  set(fingerprint_compiler --nvcc "${CMAKE_CUDA_COMPILER_VERSION}")
  if(XSTAGE_OPERATORS)
    list(APPEND fingerprint_compiler --cutlass "${XSTAGE_CUTLASS_INCLUDE}")
  endif()
endif()

find_package(Python3 COMPONENTS Interpreter)  # with nvcc it is required anyway
if(Python3_Interpreter_FOUND)
  file(GLOB_RECURSE fingerprinted_sources CONFIGURE_DEPENDS
    src/*.cu src/*.cuh src/*.cpp src/*.hpp include/*.hpp
    scripts/fingerprints.py scripts/machine_code.py scripts/cpp_code.py scripts/python_code.py)
  add_custom_command(OUTPUT "${fingerprints_source}" "${fingerprints_table}"
    COMMAND "${Python3_EXECUTABLE}" -B "${PROJECT_SOURCE_DIR}/scripts/fingerprints.py"
      --repository "${PROJECT_SOURCE_DIR}" --json "${fingerprints_table}" --cpp "${fingerprints_source}"
      ${fingerprint_compiler} ${fingerprinted_objects}
    DEPENDS ${fingerprinted_sources} ${fingerprinted_objects}
    COMMENT "Fingerprints of the kernels" COMMAND_EXPAND_LISTS VERBATIM)
else()
  file(CONFIGURE OUTPUT "${fingerprints_source}" CONTENT [[
#include "report/code_record.hpp"

namespace xstage::bench {

std::string_view build_fingerprints() noexcept { return "{}"; }

}  // namespace xstage::bench
]])
endif()
add_library(xstage_fingerprints STATIC "${fingerprints_source}")
target_include_directories(xstage_fingerprints PRIVATE src)
target_link_libraries(xstage_fingerprints PRIVATE nlohmann_json::nlohmann_json)
