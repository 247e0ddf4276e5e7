#include "unit/calibrate_synthetic.hpp"

#include <algorithm>
#include <iterator>
#include <string>

#include "xstage/calibrate.hpp"

namespace xstage::test {
namespace {

double volume(const BurstExperiment& e) { return static_cast<double>(e.producers) * static_cast<double>(e.bytes); }

/// Issue time of a burst that meets `backlog` bytes.
double issue_us(const Truth& truth, const BurstExperiment& e, double backlog) {
  const double floor = truth.floor_us(static_cast<double>(e.bytes));
  if (e.target == Target::local || !truth.backs_up(e.producers)) {
    return floor;
  }
  return std::max(floor, (backlog + volume(e) - truth.capacity(e.producers)) / truth.drain);
}

double steady_issue_us(const Truth& truth, const BurstExperiment& e, double gap) {
  const double floor = truth.floor_us(static_cast<double>(e.bytes));
  if (e.target == Target::local) {
    return floor;
  }
  const double rate = truth.rate(e.producers);
  const bool limited = e.regime == Regime::aligned && truth.backs_up(e.producers);
  const double used_gap = limited ? std::min(gap, truth.capacity(e.producers) / rate) : gap;
  return std::max(floor, volume(e) / rate - used_gap);
}

BurstSample with_issue(const BurstExperiment& e, double issue) {
  BurstSample sample;
  sample.experiment = e;
  sample.issue_us = issue;
  sample.issue_p5_us = issue;
  sample.issue_p95_us = issue;
  sample.issue_slowest_us = issue;
  sample.stored_bytes = volume(e);
  sample.link_bytes = sample.stored_bytes;
  return sample;
}

BurstSample periodic_sample(const Truth& truth, const BurstExperiment& e, Noise& noise) {
  const double gap = e.gap_us + truth.loop_overhead_us;
  BurstSample sample = with_issue(e, steady_issue_us(truth, e, gap) * noise.factor());
  sample.gap_us = gap;
  sample.period_us = (steady_issue_us(truth, e, gap) + gap) * noise.factor();
  sample.window_us = sample.period_us;
  return sample;
}

std::vector<BurstSample> train_samples(const Truth& truth, const BurstExperiment& e, Noise& noise) {
  std::vector<BurstSample> samples;
  double backlog = 0;
  for (int burst = 0; burst < e.bursts; ++burst) {
    const double gap = burst == 0 ? 0 : e.gap_us + truth.loop_overhead_us;
    backlog = std::max(0.0, backlog - truth.drain * gap);
    const double issue = issue_us(truth, e, backlog);
    backlog = std::max(0.0, backlog + volume(e) - truth.drain * issue);
    BurstSample sample = with_issue(e, issue * noise.factor());
    sample.burst_index = burst;
    sample.gap_us = gap;
    samples.push_back(sample);
  }
  return samples;
}

}  // namespace

double Truth::rate(int producers) const { return std::min(producers * producer, drain); }

double Truth::floor_us(double bytes) const {
  constexpr double start_us = 0.1;
  constexpr double queue_rate = 136533;  // 7.5 ns per KiB: the first measurement, K = 8
  return start_us + std::min(bytes, queue_bytes) / queue_rate + std::max(0.0, bytes - queue_bytes) / producer;
}

double Noise::factor() {
  // The sum of twelve uniforms is near normal with deviation 1; std::normal_distribution differs between libraries.
  double sum = -6;
  for (int i = 0; i < 12; ++i) {
    sum += static_cast<double>(random_() >> 11) * 0x1p-53;
  }
  return 1 + deviation_ * sum;
}

NodeDescription synthetic_node(int devices, int multiprocessors) {
  NodeDescription node;
  node.kind = "simulated";
  node.name = "equations";
  node.links = "18 NVLink, 26.56 GB/s each";
  node.devices.assign(static_cast<std::size_t>(devices), Device{"equations", multiprocessors, 90, 0, 1980});
  return node;
}

std::vector<BurstSample> synthetic_samples(const Truth& truth, const BurstExperiment& e, Noise& noise) {
  switch (e.mode) {
    case BurstMode::train:
      return train_samples(truth, e, noise);
    case BurstMode::isolated:
      return {with_issue(e, issue_us(truth, e, 0) * noise.factor())};
    case BurstMode::periodic:
    case BurstMode::fixed_work:
      return {periodic_sample(truth, e, noise)};
  }
  return {};
}

SamplesFile synthetic_file(const Truth& truth, const std::vector<BurstExperiment>& experiments, Noise noise) {
  SamplesFile file;
  file.node = synthetic_node();
  for (const BurstExperiment& experiment : experiments) {
    const std::vector<BurstSample> samples = synthetic_samples(truth, experiment, noise);
    file.samples.insert(file.samples.end(), samples.begin(), samples.end());
  }
  return file;
}

SamplesFile synthetic_calibration(const Truth& truth, bool quick, Noise noise) {
  return synthetic_file(truth, calibration_sweep(synthetic_node(), quick), noise);
}

SamplesFile only(SamplesFile file, const std::function<bool(const BurstExperiment&)>& choose) {
  std::erase_if(file.samples, [&](const BurstSample& sample) { return !choose(sample.experiment); });
  return file;
}

BurstExperiment zero_gap_experiment(int producers, std::int64_t bytes) {
  BurstExperiment experiment;
  experiment.producers = producers;
  experiment.bytes = bytes;
  experiment.bursts = 64;
  return experiment;
}

BurstExperiment isolated_experiment(int producers, std::int64_t bytes) {
  BurstExperiment experiment = zero_gap_experiment(producers, bytes);
  experiment.mode = BurstMode::isolated;
  experiment.regime = Regime::aligned;
  return experiment;
}

std::vector<BurstExperiment> drain_and_floor_experiments() {
  std::vector<BurstExperiment> experiments;
  for (const int producers : {1, 2, 4, 8, 16, 33, 66, 132}) {
    for (const std::int64_t kibibytes : {8, 32, 128}) {
      experiments.push_back(zero_gap_experiment(producers, kibibytes * 1024));
    }
  }
  for (const std::int64_t kibibytes : {1, 2, 4, 8, 16, 24, 32, 64, 128}) {
    experiments.push_back(isolated_experiment(4, kibibytes * 1024));
  }
  return experiments;
}

SamplesFile first_measurement() {
  return read_samples(std::string(XSTAGE_SOURCE_DIR) + "/tests/data/first_measurement_h200x2.csv");
}

}  // namespace xstage::test
