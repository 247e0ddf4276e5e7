// Stands in for src/bench/cuda/launched_kernels.cpp in builds without nvcc.

#include "report/code_record.hpp"

namespace xstage::bench {

std::vector<std::string> launched_kernels() { return {}; }

}  // namespace xstage::bench
