/// Compares a profile's predictions with samples, row by row and in summary.

#include <cmath>
#include <cstddef>
#include <iterator>
#include <span>
#include <utility>
#include <vector>

#include "calibrate/compare.hpp"
#include "calibrate/error_summary.hpp"
#include "xstage/calibrate.hpp"

namespace xstage {
namespace {

using namespace calibrate;  // NOLINT(google-build-using-namespace): this file is that namespace's front

double relative_error(double predicted, double measured) { return std::abs(predicted - measured) / measured; }

/// A wrong issue time costs its share of the tile's drain, so it is measured by V/R: near the floor a relative error
/// would weigh a few nanoseconds as heavily as microseconds of back-pressure.
double issue_error(const ComparedSample& row, double predicted_issue_us) {
  return std::abs(predicted_issue_us - row.sample.issue_us) / row.drain_time_us;
}

double burst_difference(const Onset& onset) { return std::abs(static_cast<double>(onset.predicted - onset.measured)); }

void add_periodic_errors(const ComparedSample& row, ErrorCollector& errors) {
  const BurstExperiment& experiment = row.sample.experiment;
  const double period = row.sample.period_us;
  errors.add(experiment, "period", relative_error(row.predicted_period_us, period));
  errors.add(experiment, "period with the tail of fixed work", relative_error(row.corrected_period_us, period));
  errors.add(experiment, "issue time, share of the drain time", issue_error(row, row.predicted_issue_us));
  errors.add(experiment, "completion-coupled period", relative_error(row.completion_coupled_period_us, period));
}

void add_train_errors(const ComparedTrain& train, ErrorCollector& errors) {
  const BurstExperiment& experiment = train.bursts.front().sample.experiment;
  for (const ComparedSample& row : train.bursts) {
    errors.add(experiment, "issue time, share of the drain time", issue_error(row, row.predicted_issue_us));
    errors.add(experiment, "issue time with uneven drain, share of the drain time",
               issue_error(row, row.uneven_issue_us));
  }
  if (train.onset) {
    errors.add_bursts(experiment, "onset of back-pressure", burst_difference(*train.onset));
  }
  if (train.uneven_onset) {
    errors.add_bursts(experiment, "onset of back-pressure, uneven drain", burst_difference(*train.uneven_onset));
  }
}

/// The length of the train that starts at `first`: same experiment, burst indices going up.
std::size_t train_length(std::span<const BurstSample> samples, std::size_t first) {
  std::size_t end = first + 1;
  while (end < samples.size() && samples[end].experiment == samples[first].experiment &&
         samples[end].burst_index > samples[end - 1].burst_index) {
    ++end;
  }
  return end - first;
}

}  // namespace

Validation validate(const Platform& platform, const SamplesFile& samples, bool all) {
  Validation validation;
  ErrorCollector errors;
  const std::span<const BurstSample> rows(samples.samples);
  for (std::size_t row = 0; row < rows.size();) {
    const BurstExperiment& experiment = rows[row].experiment;
    const std::size_t length = experiment.mode == BurstMode::train ? train_length(rows, row) : 1;
    const bool wanted = experiment.target == Target::remote && (all || experiment.held_out);
    if (wanted && experiment.mode == BurstMode::train) {
      ComparedTrain train = compare_train(platform, rows.subspan(row, length));
      add_train_errors(train, errors);
      std::move(train.bursts.begin(), train.bursts.end(), std::back_inserter(validation.rows));
    } else if (wanted) {
      const ComparedSample compared = compare_steady(platform, rows[row]);
      if (is_steady_state(experiment.mode)) {
        add_periodic_errors(compared, errors);
      } else if (is_beyond_knee(platform, compared)) {
        errors.add(experiment, "issue time beyond the knee",
                   relative_error(compared.predicted_issue_us, compared.sample.issue_us));
      }
      validation.rows.push_back(compared);
    }
    row += length;
  }
  validation.errors = errors.summaries();
  return validation;
}

}  // namespace xstage
