# xstage_cuda_node: src/node/cuda with nvcc; without it unavailable.cpp alone, which says so to whoever asks for a GPU.
# xstage_device: what all host code around CUDA shares. With nvcc only.
if(XSTAGE_HAVE_CUDA)
  file(GLOB cuda_node_sources CONFIGURE_DEPENDS src/node/cuda/*.cu src/node/cuda/*.cpp)
  list(FILTER cuda_node_sources EXCLUDE REGEX "/unavailable\\.cpp$")
else()
  file(GLOB cuda_node_sources CONFIGURE_DEPENDS src/node/cuda/unavailable.cpp)
endif()

add_library(xstage_cuda_node STATIC ${cuda_node_sources})
xstage_unity(xstage_cuda_node)
target_include_directories(xstage_cuda_node PRIVATE src)
target_link_libraries(xstage_cuda_node PUBLIC xstage PRIVATE $<BUILD_INTERFACE:fmt::fmt-header-only>)
if(NOT XSTAGE_HAVE_CUDA)
  return()
endif()

file(GLOB device_sources CONFIGURE_DEPENDS src/device/*.cpp)
add_library(xstage_device STATIC ${device_sources})
xstage_unity(xstage_device)
target_include_directories(xstage_device PRIVATE src)
target_link_libraries(xstage_device
  PUBLIC xstage
  PRIVATE CUDA::cudart_static $<BUILD_INTERFACE:fmt::fmt-header-only> Threads::Threads ${CMAKE_DL_LIBS})

# NVML is opened at run time (dlopen): a machine without a driver still starts the tool.
target_link_libraries(xstage_cuda_node
  PUBLIC xstage_device
  PRIVATE CUDA::cudart_static Threads::Threads ${CMAKE_DL_LIBS})

# How all CUDA code is compiled.
function(xstage_cuda_settings target)
  set_target_properties(${target} PROPERTIES
    CUDA_STANDARD 20 CUDA_STANDARD_REQUIRED ON CUDA_EXTENSIONS OFF
    CUDA_RUNTIME_LIBRARY Static
    CUDA_SEPARABLE_COMPILATION OFF)  # relocatable device code changes what ptxas does (design rule 9)

  # Warnings are errors on either side of nvcc. -Wpedantic stays out: nvcc's own line directives are not ISO C++.
  list(JOIN XSTAGE_HOST_WARNINGS "," host_warnings)
  target_compile_options(${target} PRIVATE
    "$<$<COMPILE_LANGUAGE:CUDA>:-Xcompiler=${host_warnings};-Werror=all-warnings;-lineinfo>")

  # Design rule 10: what ptxas says about every kernel is kept beside its object file and read by scripts/check_ptxas.py.
  target_compile_options(${target} PRIVATE "$<$<COMPILE_LANGUAGE:CUDA>:-Xptxas=-v,-warn-spills>")
  # A launcher of the user's own (ccache) comes behind it; without one, a trailing ";" would be an empty argument.
  find_package(Python3 COMPONENTS Interpreter REQUIRED)
  set(launcher "${Python3_EXECUTABLE}" "${PROJECT_SOURCE_DIR}/scripts/capture_ptxas.py" ${CMAKE_CUDA_COMPILER_LAUNCHER})
  set_target_properties(${target} PROPERTIES CUDA_COMPILER_LAUNCHER "${launcher}")
endfunction()
xstage_cuda_settings(xstage_cuda_node)
