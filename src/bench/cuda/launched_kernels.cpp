#include "bench/code_record.hpp"
#include "kernels/common/launch.hpp"

namespace xstage::bench {

std::vector<std::string> launched_kernels() { return kernels::launched_kernels(); }

}  // namespace xstage::bench
