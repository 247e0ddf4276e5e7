# xstage_kernels: symmetric heap over real GPUs and the fused kernels. With nvcc only; without it src/memory/unavailable.cpp
# (in `xstage`) says so to whoever asks for a heap.
if(NOT XSTAGE_HAVE_CUDA)
  return()
endif()

file(GLOB kernel_sources CONFIGURE_DEPENDS
  src/memory/peer_access_*.cpp src/kernels/common/*.cpp src/kernels/gemm/*.cu src/kernels/gemm/*.cpp
  src/kernels/attention/*.cu src/kernels/attention/*.cpp
  src/kernels/all_to_all/*.cu src/kernels/all_to_all/*.cpp
  src/kernels/moe/*.cu src/kernels/moe/*.cpp
  src/kernels/collective/*.cu src/kernels/collective/*.cpp
  src/trace/cuda/*.cu src/trace/cuda/*.cpp)
add_library(xstage_kernels STATIC ${kernel_sources})
target_include_directories(xstage_kernels PRIVATE src)
target_include_directories(xstage_kernels SYSTEM PRIVATE "${XSTAGE_CUTLASS_INCLUDE}")
target_link_libraries(xstage_kernels
  PUBLIC xstage xstage_cuda_node
  PRIVATE CUDA::cudart_static fmt::fmt-header-only Threads::Threads ${CMAKE_DL_LIBS})
xstage_cuda_settings(xstage_kernels)
# WGMMA and setmaxnreg exist in the architecture-specific target only.
set_target_properties(xstage_kernels PROPERTIES CUDA_ARCHITECTURES "90a-real")
# NDEBUG in every build type: CuTe's device-side assertions are calls, and ptxas serialises WGMMA around calls (C7510).
target_compile_definitions(xstage_kernels PRIVATE $<$<COMPILE_LANGUAGE:CUDA>:NDEBUG>)
target_compile_options(xstage_kernels PRIVATE "$<$<COMPILE_LANGUAGE:CUDA>:--expt-relaxed-constexpr>")

# xstage_bench_cuda: what `xstage bench` runs on GPUs.
file(GLOB bench_cuda_sources CONFIGURE_DEPENDS src/bench/cuda/*.cu src/bench/cuda/*.cpp)
add_library(xstage_bench_cuda STATIC ${bench_cuda_sources})
target_include_directories(xstage_bench_cuda SYSTEM PRIVATE "${XSTAGE_CUTLASS_INCLUDE}")
target_link_libraries(xstage_bench_cuda
  PUBLIC xstage_bench xstage_kernels xstage_cuda_node
  PRIVATE CUDA::cudart_static fmt::fmt-header-only Threads::Threads ${CMAKE_DL_LIBS})
xstage_cuda_settings(xstage_bench_cuda)
set_target_properties(xstage_bench_cuda PROPERTIES CUDA_ARCHITECTURES "90a-real")
target_compile_options(xstage_bench_cuda PRIVATE "$<$<COMPILE_LANGUAGE:CUDA>:--expt-relaxed-constexpr>")
