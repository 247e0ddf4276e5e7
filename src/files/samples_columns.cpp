#include "files/samples_columns.hpp"

#include <fmt/format.h>

#include <array>
#include <cmath>

namespace xstage::files {
namespace {

/// Readers of the measured columns that every sample, or only some, must fill.
template <double BurstSample::*Member>
constexpr SampleColumn required(std::string_view name) {
  return {name, [](const CsvCell& cell, BurstSample& sample) { sample.*Member = cell.number(); },
          [](const BurstSample& sample) { return cell_of(sample.*Member); }};
}
template <double BurstSample::*Member>
constexpr SampleColumn optional(std::string_view name) {
  return {name, [](const CsvCell& cell, BurstSample& sample) { sample.*Member = cell.number_or_empty(); },
          [](const BurstSample& sample) { return cell_of(sample.*Member); }};
}

template <typename Enum, Enum BurstExperiment::*Member>
constexpr SampleColumn choice(std::string_view name) {
  return {name, [](const CsvCell& cell, BurstSample& sample) { sample.experiment.*Member = cell.name<Enum>(); },
          [](const BurstSample& sample) { return std::string(name_of(sample.experiment.*Member)); }};
}

template <int BurstExperiment::*Member>
constexpr SampleColumn count(std::string_view name) {
  return {name, [](const CsvCell& cell, BurstSample& sample) { sample.experiment.*Member = cell.small_integer(); },
          [](const BurstSample& sample) { return cell_of(sample.experiment.*Member); }};
}

constexpr std::array columns{
    choice<StorePath, &BurstExperiment::path>("store_path"),
    choice<BurstMode, &BurstExperiment::mode>("burst_mode"),
    choice<Regime, &BurstExperiment::regime>("regime"),
    choice<Target, &BurstExperiment::target>("target"),
    choice<Direction, &BurstExperiment::direction>("direction"),
    choice<GapFiller, &BurstExperiment::filler>("gap_filler"),
    count<&BurstExperiment::source>("source_device"),
    SampleColumn{"destination_devices",
                 [](const CsvCell& cell, BurstSample& sample) { sample.experiment.destinations = cell.integers(); },
                 [](const BurstSample& sample) { return cell_of(sample.experiment.destinations); }},
    count<&BurstExperiment::producers>("producers"),
    SampleColumn{"bytes_per_producer",
                 [](const CsvCell& cell, BurstSample& sample) { sample.experiment.bytes = cell.integer(); },
                 [](const BurstSample& sample) { return cell_of(sample.experiment.bytes); }},
    count<&BurstExperiment::threads>("threads_per_producer"),
    SampleColumn{"requested_gap_us",
                 [](const CsvCell& cell, BurstSample& sample) { sample.experiment.gap_us = cell.number(); },
                 [](const BurstSample& sample) { return cell_of(sample.experiment.gap_us); }},
    count<&BurstExperiment::bursts>("bursts"),
    SampleColumn{"held_out",
                 [](const CsvCell& cell, BurstSample& sample) { sample.experiment.held_out = cell.boolean(); },
                 [](const BurstSample& sample) { return cell_of(sample.experiment.held_out); }},
    SampleColumn{"burst_index",
                 [](const CsvCell& cell, BurstSample& sample) { sample.burst_index = cell.small_integer(); },
                 [](const BurstSample& sample) { return cell_of(sample.burst_index); }},
    optional<&BurstSample::gap_us>("gap_us"),
    required<&BurstSample::issue_us>("issue_us"),
    optional<&BurstSample::issue_p5_us>("issue_p5_us"),
    optional<&BurstSample::issue_p95_us>("issue_p95_us"),
    optional<&BurstSample::issue_slowest_us>("issue_slowest_us"),
    optional<&BurstSample::period_us>("period_us"),
    optional<&BurstSample::visible_us>("visible_us"),
    required<&BurstSample::stored_bytes>("stored_bytes"),
    optional<&BurstSample::window_us>("window_us"),
    optional<&BurstSample::link_bytes>("link_bytes"),
    SampleColumn{"trials", [](const CsvCell& cell, BurstSample& sample) { sample.trials = cell.small_integer(); },
                 [](const BurstSample& sample) { return cell_of(sample.trials); }},
    SampleColumn{"verified", [](const CsvCell& cell, BurstSample& sample) { sample.verified = cell.boolean(); },
                 [](const BurstSample& sample) { return cell_of(sample.verified); }},
    optional<&BurstSample::clock_mhz>("clock_mhz"),
};

void require(bool holds, std::string_view column, double value, std::string_view rule) {
  if (!holds) {
    throw InputError(fmt::format("{} {}: {}", column, value, rule));
  }
}

void check_measured(std::string_view column, double value) {
  require(std::isfinite(value) && value >= 0, column, value, "must be a finite number, at least 0");
}

void check_if_measured(std::string_view column, double value) {
  if (!std::isnan(value)) {
    check_measured(column, value);
  }
}

void check_burst_index(const BurstSample& sample) {
  const int bursts = sample.experiment.bursts;
  if (sample.experiment.mode == BurstMode::train) {
    require(sample.burst_index >= 0 && sample.burst_index < bursts, "burst_index", sample.burst_index,
            fmt::format("must be from 0 to {} in a train of {} bursts", bursts - 1, bursts));
  } else {
    require(sample.burst_index == -1, "burst_index", sample.burst_index, "must be -1 outside trains");
  }
}

}  // namespace

std::span<const SampleColumn> sample_columns() { return columns; }

void check_sample(const BurstSample& sample, const NodeDescription& node) {
  check_experiment(sample.experiment, node);
  check_burst_index(sample);
  check_measured("issue_us", sample.issue_us);
  check_measured("stored_bytes", sample.stored_bytes);
  const BurstMode mode = sample.experiment.mode;
  if (mode == BurstMode::periodic || mode == BurstMode::fixed_work) {
    check_measured("gap_us", sample.gap_us);
  }
  check_if_measured("gap_us", sample.gap_us);
  check_if_measured("issue_p5_us", sample.issue_p5_us);
  check_if_measured("issue_p95_us", sample.issue_p95_us);
  check_if_measured("issue_slowest_us", sample.issue_slowest_us);
  check_if_measured("period_us", sample.period_us);
  check_if_measured("visible_us", sample.visible_us);
  check_if_measured("window_us", sample.window_us);
  check_if_measured("link_bytes", sample.link_bytes);
  check_if_measured("clock_mhz", sample.clock_mhz);
  require(!(sample.issue_p5_us > sample.issue_p95_us), "issue_p5_us", sample.issue_p5_us,
          "must not exceed issue_p95_us");
  require(sample.trials >= 1, "trials", sample.trials, "must be at least 1");
}

}  // namespace xstage::files
