#include "device/launch.hpp"
#include "report/code_record.hpp"

namespace xstage::bench {

std::vector<std::string> launched_kernels() { return kernels::launched_kernels(); }

}  // namespace xstage::bench
