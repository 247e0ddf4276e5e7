#pragma once
/// One line on a terminal that says how far a measurement is and how long it will still take.

#include <chrono>
#include <cstddef>
#include <ostream>
#include <string>

namespace xstage::cli {

/// "[##########..........] 12/24  time left 0:31". The time left assumes that what remains takes as long a step as what
/// is done; unknown before the first step.
[[nodiscard]] std::string progress_line(std::size_t done, std::size_t total, double elapsed_seconds);

class ProgressBar {
 public:
  /// Silent unless `enabled`: a pipe gets no control characters.
  ProgressBar(std::ostream& out, bool enabled);
  /// Clears the line.
  ~ProgressBar();
  ProgressBar(const ProgressBar&) = delete;
  ProgressBar& operator=(const ProgressBar&) = delete;

  void show(std::size_t done, std::size_t total);

 private:
  std::ostream& out_;
  bool enabled_;
  std::chrono::steady_clock::time_point start_;
};

}  // namespace xstage::cli
