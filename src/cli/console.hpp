#pragma once
/// Where a verb writes: results to `out`, everything about the run itself (progress, errors) to `err`.

#include <ostream>
#include <string>

namespace xstage::cli {

struct Console {
  std::ostream& out;
  std::ostream& err;
  bool progress_bar = false;  ///< `err` is a terminal
  std::string command;        ///< the command line, for provenance
};

}  // namespace xstage::cli
