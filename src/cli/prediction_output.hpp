#pragma once
/// A prediction as a table, as CSV or as JSON, printed row by row.

#include <memory>
#include <ostream>
#include <string>

#include "cli/prediction.hpp"

namespace xstage::cli {

/// Where the rows go. What `begin` prints comes before the first row, what `end` prints after the last.
class PredictionOutput {
 public:
  PredictionOutput() = default;
  virtual ~PredictionOutput() = default;
  PredictionOutput(const PredictionOutput&) = delete;
  PredictionOutput& operator=(const PredictionOutput&) = delete;

  virtual void begin() = 0;
  virtual void row(const PredictedPoint& point, const PredictedBurst& burst) = 0;
  virtual void end() = 0;
};

/// What every form of output says about the whole.
struct PredictionContext {
  const Platform& platform;
  const std::string& origin;  ///< the platform's file
  const PredictionQuestion& question;
  const Estimate& unevenness;
  bool extrapolates;  ///< at least one point
  std::ostream& out;
};

[[nodiscard]] std::unique_ptr<PredictionOutput> table_output(const PredictionContext& context);
[[nodiscard]] std::unique_ptr<PredictionOutput> csv_output(const PredictionContext& context);
[[nodiscard]] std::unique_ptr<PredictionOutput> json_output(const PredictionContext& context);

}  // namespace xstage::cli
