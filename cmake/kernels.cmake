# xstage_kernels: symmetric heap over real GPUs and the fused kernels. With nvcc only; without it src/heap/unavailable.cpp
# (in `xstage_operators`) says so to whoever asks for a heap.
if(NOT XSTAGE_HAVE_CUDA)
  return()
endif()

file(GLOB kernel_sources CONFIGURE_DEPENDS
  src/heap/peer_access_*.cpp src/fabric/*.cu src/fabric/*.cpp src/report/cuda/*.cpp
  src/ops/*/device/*.cu src/ops/*/device/*.cpp)
add_library(xstage_kernels STATIC ${kernel_sources})
target_include_directories(xstage_kernels PRIVATE src)
target_include_directories(xstage_kernels SYSTEM PRIVATE "${XSTAGE_CUTLASS_INCLUDE}")
target_link_libraries(xstage_kernels
  PUBLIC xstage_operators xstage_cuda_node xstage_device xstage
  PRIVATE CUDA::cudart_static $<BUILD_INTERFACE:fmt::fmt-header-only> Threads::Threads ${CMAKE_DL_LIBS})
xstage_cuda_settings(xstage_kernels)
# WGMMA and setmaxnreg exist in the architecture-specific target only.
set_target_properties(xstage_kernels PROPERTIES CUDA_ARCHITECTURES "90a-real")
# NDEBUG in every build type: CuTe's device-side assertions are calls, and ptxas serialises WGMMA around calls (C7510).
target_compile_definitions(xstage_kernels PRIVATE $<$<COMPILE_LANGUAGE:CUDA>:NDEBUG>)
target_compile_options(xstage_kernels PRIVATE "$<$<COMPILE_LANGUAGE:CUDA>:--expt-relaxed-constexpr>")
