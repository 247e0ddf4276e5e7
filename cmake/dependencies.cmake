# The parts that are not ours, each with its reason. scripts/bootstrap.sh installs their Debian packages.
find_package(Threads REQUIRED)
find_package(nlohmann_json 3.11 REQUIRED)  # profiles, workloads, --json
find_package(fmt 9 REQUIRED)               # messages and tables; header-only, so that the tool needs no shared library
if(XSTAGE_TOOL)
  find_package(CLI11 2.1 REQUIRED)         # command line
endif()
if(XSTAGE_TESTS)
  find_package(GTest REQUIRED)                    # tests
  find_package(Python3 COMPONENTS Interpreter REQUIRED)  # checks of the compile log and of result files
endif()
if(XSTAGE_BENCH)
  find_package(benchmark REQUIRED)  # nanoseconds of one model evaluation
endif()

# CUTLASS: CuTe's WGMMA and TMA atoms and barriers, headers only. They track what each GPU's instructions can do better than
# inline assembly of our own would. A user's CUTLASS_DIR (its repository), or what scripts/bootstrap.sh took from PyPI.
function(xstage_find_cutlass)
  find_path(XSTAGE_CUTLASS_INCLUDE cute/arch/mma_sm90_gmma.hpp
    HINTS "${CUTLASS_DIR}/include" "$ENV{CUTLASS_DIR}/include"
          "${PROJECT_SOURCE_DIR}/build/cutlass/cutlass_library/source/include"
    NO_DEFAULT_PATH)
  if(NOT XSTAGE_CUTLASS_INCLUDE)
    message(FATAL_ERROR "CUTLASS 4 headers were not found. Set CUTLASS_DIR to a checkout of CUTLASS, or run: "
      "scripts/bootstrap.sh build")
  endif()
endfunction()
