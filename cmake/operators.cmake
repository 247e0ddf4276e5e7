# xstage_operators: what operators know without CUDA, and the bookkeeping of the symmetric heap.
file(GLOB operator_sources CONFIGURE_DEPENDS src/heap/*.cpp src/ops/*/*.cpp)
list(FILTER operator_sources EXCLUDE REGEX "src/heap/peer_access_")  # needs CUDA: in xstage_kernels
if(XSTAGE_HAVE_CUDA)
  list(FILTER operator_sources EXCLUDE REGEX "src/heap/unavailable")
endif()
add_library(xstage_operators STATIC ${operator_sources})
target_include_directories(xstage_operators PRIVATE src)
target_link_libraries(xstage_operators
  PUBLIC xstage
  PRIVATE $<BUILD_INTERFACE:nlohmann_json::nlohmann_json> $<BUILD_INTERFACE:fmt::fmt-header-only>)
