#pragma once
/// Collects errors by group and quantity.

#include <string>
#include <string_view>
#include <vector>

#include "xstage/calibrate.hpp"

namespace xstage::calibrate {

/// "16-byte stores, periodic, free-running", with what departs from the plain case appended.
[[nodiscard]] std::string group_name(const BurstExperiment& experiment);

/// Statistics of errors in any order; without errors `samples` is 0.
[[nodiscard]] ErrorStatistics statistics_of(const std::vector<double>& errors);

/// The quantity that errors refer to.
struct Quantity {
  std::string_view name;
  std::string_view correction = {};  ///< what a corrected prediction takes into account; empty where there is none
  bool in_bursts = false;
  bool of_the_law = true;  ///< as in ErrorSummary
};

class ErrorCollector {
 public:
  /// Adds an error. An error that is not finite is ignored, since there was no prediction or no measurement.
  void add(const BurstExperiment& experiment, const Quantity& quantity, double error_of_law,
           double error_of_corrected = not_measured);

  /// Groups and their quantities in the order of their first error.
  [[nodiscard]] std::vector<ErrorSummary> summaries() const;

 private:
  struct Series {
    std::string group;
    Quantity quantity;
    std::vector<double> errors_of_law;
    std::vector<double> errors_of_corrected;
  };

  std::vector<Series> series_;
};

}  // namespace xstage::calibrate
