#pragma once
/// Where a verb writes: results to `out`, everything about the run itself (progress, errors) to `err`.

#include <ostream>
#include <string>
#include <string_view>

namespace xstage::cli {

struct Console {
  std::ostream& out;
  std::ostream& err;
  bool progress_bar = false;  ///< `err` is a terminal
  std::string command;        ///< the command line, for provenance
  std::string_view fingerprints =
      {};  ///< of the build's kernels (report/code_record.hpp); empty: results do not have them
};

}  // namespace xstage::cli
