#include "cli/bench_run.hpp"

#include "bench/code_record.hpp"
#include "cli/quantities.hpp"

namespace xstage::cli {

ExitCode verdict(Console& console, const std::string& output, std::size_t rows, const bench::RunState& state) {
  const std::string kept = output.empty() ? "" : fmt::format("; {} has the {} rows of the others", output, rows);
  if (state.stopped) {
    console.err << "xstage: interrupted" << kept << '\n';
    return ExitCode::device;
  }
  if (state.failed_cells > 0) {
    console.err << fmt::format("xstage: {} cells failed{}\n", state.failed_cells, kept);
    return ExitCode::device;
  }
  if (state.wrong_cells > 0) {
    console.err << fmt::format("xstage: {} cells have wrong results{}\n", state.wrong_cells, kept);
    return ExitCode::test_failed;
  }
  return ExitCode::success;
}

std::string results_text(const Console& console, Json document) {
  document["code"] = bench::code_record(console.fingerprints, document.at("bench"), bench::launched_kernels());
  return bench::format_result_file(document);
}

std::string ratio_with_interval(const bench::PairedRatio& ratio) {
  return fmt::format("{} [{}, {}]", fixed(ratio.ratio, 3), fixed(ratio.low, 3), fixed(ratio.high, 3));
}

}  // namespace xstage::cli
