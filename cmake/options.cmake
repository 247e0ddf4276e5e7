# What a user may choose. Everything else follows from the machine.
set(XSTAGE_CUDA AUTO CACHE STRING "Build the CUDA node: AUTO (if nvcc is found), ON (fail without nvcc), OFF")
set_property(CACHE XSTAGE_CUDA PROPERTY STRINGS AUTO ON OFF)
set(XSTAGE_CUDA_ARCHITECTURES "80-real;90-real;90-virtual" CACHE STRING
  "GPU architectures of the burst kernels; 90-virtual is compiled by the driver on later GPUs")
option(XSTAGE_TESTS "Build the tests" ON)
option(XSTAGE_BENCH "Build the micro-benchmarks" ON)
option(XSTAGE_SANITIZE "Address and undefined-behaviour sanitizers in all host code" OFF)
option(XSTAGE_FUZZ "Build the libFuzzer targets (clang only)" OFF)

if(NOT XSTAGE_CUDA MATCHES "^(AUTO|ON|OFF)$")
  message(FATAL_ERROR "XSTAGE_CUDA is '${XSTAGE_CUDA}': it must be AUTO, ON or OFF")
endif()
if(XSTAGE_FUZZ AND NOT CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
  message(FATAL_ERROR "XSTAGE_FUZZ needs clang (libFuzzer); the compiler is ${CMAKE_CXX_COMPILER_ID}. Use: cmake --preset fuzz")
endif()
if(NOT CMAKE_BUILD_TYPE AND NOT CMAKE_CONFIGURATION_TYPES)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "Build type" FORCE)
endif()
