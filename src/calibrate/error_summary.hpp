#pragma once
/// Collects relative errors by group and quantity.

#include <string>
#include <vector>

#include "xstage/calibrate.hpp"

namespace xstage::calibrate {

/// "16-byte stores, periodic, free-running", with what departs from the plain case appended.
[[nodiscard]] std::string group_name(const BurstExperiment& experiment);

class ErrorCollector {
 public:
  /// Ignores errors that are not finite: there was no prediction or no measurement.
  void add(const BurstExperiment& experiment, const std::string& quantity, double relative_error);
  void add_bursts(const BurstExperiment& experiment, const std::string& quantity, double difference_in_bursts);

  /// Groups and their quantities in the order of their first error.
  [[nodiscard]] std::vector<ErrorSummary> summaries() const;

 private:
  struct Series {
    std::string group;
    std::string quantity;
    std::vector<double> errors;
    bool in_bursts = false;
  };
  void add_to_series(const BurstExperiment& experiment, const std::string& quantity, double error, bool in_bursts);

  std::vector<Series> series_;
};

}  // namespace xstage::calibrate
