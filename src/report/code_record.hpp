#pragma once
// The record that ties a results file to the code that it measured. scripts/check_results.py compares it with the
// build.

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace xstage::bench {

/// The fingerprints that the build has written (scripts/fingerprints.py), as JSON. Only programs that measure link it.
[[nodiscard]] std::string_view build_fingerprints() noexcept;

/// Mangled names of this library's kernels that the process has launched; none in builds without nvcc.
[[nodiscard]] std::vector<std::string> launched_kernels();

/// Mangled names of the kernels that `xstage calibrate` measures with.
[[nodiscard]] std::vector<std::string> calibration_kernels(std::string_view fingerprints);

/// `code` of a results file: versions of nvcc and CUTLASS, machine code and source tokens of each kernel by its
/// readable name, tokens of the timing code. A kernel that the table lacks stands there without a hash: the check then
/// fails, the measurement is not lost. Null if the table is empty.
[[nodiscard]] nlohmann::ordered_json code_record(std::string_view fingerprints, const std::string& bench,
                                                 const std::vector<std::string>& kernels);

/// `rows_hash` of a results file: of its rows' values, whatever the order of fields and the format of numbers.
[[nodiscard]] std::string rows_hash(const nlohmann::ordered_json& rows);

}  // namespace xstage::bench
