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

constexpr Quantity period_law{"period"};
constexpr Quantity fixed_work_period{"period", "tail of fixed work"};
constexpr Quantity issue_time{"issue time, share of the drain time"};
constexpr Quantity train_issue_time{"issue time, share of the drain time", "uneven drain"};
constexpr Quantity issue_time_beyond_knee{"issue time beyond the knee"};
/// The law predicts one issue time for all producers; this is the distance of the slowest producer from it.
constexpr Quantity slowest_issue_time{"slowest producer's issue time, share of the drain time", {}, false, false};
constexpr Quantity slowest_beyond_knee{"slowest producer's issue time beyond the knee", {}, false, false};
constexpr Quantity onset_of_backpressure{"onset of back-pressure", "uneven drain", true};
constexpr Quantity counterfactual_period{"completion-coupled period", {}, false, false};

double relative_error(double predicted, double measured) { return std::abs(predicted - measured) / measured; }

/// Error of an issue time as a fraction of V/R, the tile's drain time, since that is its cost to the tile: near the
/// floor a relative error would weigh a few nanoseconds as heavily as microseconds of back-pressure.
double share_of_drain(const ComparedSample& row, double predicted_us, double measured_us) {
  return std::abs(predicted_us - measured_us) / row.drain_time_us;
}

double difference(const Onset& onset) { return std::abs(static_cast<double>(onset.predicted - onset.measured)); }

void add_slowest_error(const ComparedSample& row, ErrorCollector& errors) {
  errors.add(row.sample.experiment, slowest_issue_time,
             share_of_drain(row, row.predicted_issue_us, row.sample.issue_slowest_us));
}

void add_periodic_errors(const ComparedSample& row, ErrorCollector& errors) {
  const BurstExperiment& experiment = row.sample.experiment;
  const double period = row.sample.period_us;
  errors.add(experiment, experiment.mode == BurstMode::fixed_work ? fixed_work_period : period_law,
             relative_error(row.predicted_period_us, period), relative_error(row.corrected_period_us, period));
  errors.add(experiment, issue_time, share_of_drain(row, row.predicted_issue_us, row.sample.issue_us));
  add_slowest_error(row, errors);
  errors.add(experiment, counterfactual_period, relative_error(row.completion_coupled_period_us, period));
}

void add_isolated_errors(const ComparedSample& row, ErrorCollector& errors) {
  const BurstExperiment& experiment = row.sample.experiment;
  errors.add(experiment, issue_time_beyond_knee, relative_error(row.predicted_issue_us, row.sample.issue_us));
  errors.add(experiment, slowest_beyond_knee, relative_error(row.predicted_issue_us, row.sample.issue_slowest_us));
}

void add_train_errors(const ComparedTrain& train, ErrorCollector& errors) {
  const BurstExperiment& experiment = train.bursts.front().sample.experiment;
  for (const ComparedSample& row : train.bursts) {
    errors.add(experiment, train_issue_time, share_of_drain(row, row.predicted_issue_us, row.sample.issue_us),
               share_of_drain(row, row.uneven_issue_us, row.sample.issue_us));
    add_slowest_error(row, errors);
  }
  if (train.onset) {
    errors.add(experiment, onset_of_backpressure, difference(*train.onset),
               train.uneven_onset ? difference(*train.uneven_onset) : not_measured);
  }
}

/// Length of the train that starts at `first`: samples of the same experiment with ascending burst indices.
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
        add_isolated_errors(compared, errors);
      }
      validation.rows.push_back(compared);
    }
    row += length;
  }
  validation.errors = errors.summaries();
  return validation;
}

}  // namespace xstage
