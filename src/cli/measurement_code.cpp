#include "cli/measurement_code.hpp"

#include <string_view>

#include "report/code_record.hpp"
#include "xstage/files.hpp"

namespace xstage::cli {

std::string code_of_measurement(const Console& console, const std::string& node) {
  constexpr std::string_view recorded = "recorded:";
  if (node.starts_with(recorded)) {
    return read_samples(node.substr(recorded.size())).code;
  }
  if (node != "cuda") {
    return "";
  }
  const auto kernels = bench::calibration_kernels(console.fingerprints);
  const auto record = bench::code_record(console.fingerprints, "calibration", kernels);
  return record.is_null() ? "" : record.dump();
}

}  // namespace xstage::cli
