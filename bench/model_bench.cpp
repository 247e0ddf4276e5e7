/// Nanoseconds of one evaluation of each model equation, and of a profile's operating point. Target of the equations:
/// at most 50 ns, so that a planner can try a million schedules in a few tens of milliseconds.

#include <benchmark/benchmark.h>

#include <array>
#include <cstddef>
#include <cstdint>

#include "xstage/model.hpp"
#include "xstage/platform.hpp"

namespace {

using namespace xstage;

/// The paper's attention tiles (148 x 32 KiB). Escapes to the optimiser in every iteration, so nothing is folded.
model::OperatingPoint attention_tiles() { return {148 * 32768.0, 0.76, 717e3, 4.25 * 1048576}; }

/// Runs `equation(point, gap)` once an iteration.
template <typename Equation>
void evaluate(benchmark::State& state, Equation equation) {
  model::OperatingPoint point = attention_tiles();
  double gap_us = 5;
  for (auto _ : state) {
    benchmark::DoNotOptimize(point);
    benchmark::DoNotOptimize(gap_us);
    benchmark::DoNotOptimize(equation(point, gap_us));
  }
}

using Point = model::OperatingPoint;

BENCHMARK_CAPTURE(evaluate, drain_time, [](const Point& p, double) { return model::drain_time_us(p); });
BENCHMARK_CAPTURE(evaluate, recovery_gap, [](const Point& p, double) { return model::recovery_gap_us(p); });
BENCHMARK_CAPTURE(evaluate, peak_outstanding, [](const Point& p, double) { return model::peak_outstanding_bytes(p); });
BENCHMARK_CAPTURE(evaluate, isolated_issue, [](const Point& p, double) { return model::isolated_issue_us(p); });
BENCHMARK_CAPTURE(evaluate, capacity_from_knee, [](const Point& p, double) {
  return model::capacity_from_knee_bytes(p.volume_bytes, p.drain_bytes_per_us, p.issue_floor_us);
});
BENCHMARK_CAPTURE(evaluate, free_running_issue, model::free_running::issue_us);
BENCHMARK_CAPTURE(evaluate, free_running_period, model::free_running::period_us);
BENCHMARK_CAPTURE(evaluate, fixed_work_period, model::free_running::fixed_work_period_us);
BENCHMARK_CAPTURE(evaluate, free_running_overhead, model::free_running::issue_overhead_us);
BENCHMARK_CAPTURE(evaluate, aligned_issue, model::aligned::issue_us);
BENCHMARK_CAPTURE(evaluate, aligned_period, model::aligned::period_us);
BENCHMARK_CAPTURE(evaluate, aligned_overhead, model::aligned::issue_overhead_us);
BENCHMARK_CAPTURE(evaluate, aligned_next_burst,
                  [](const Point& p, double gap_us) { return model::aligned::next_burst(p, gap_us, 1e6); });
BENCHMARK_CAPTURE(evaluate, design_test, model::design_test);
BENCHMARK_CAPTURE(evaluate, completion_coupled_period, model::completion_coupled::period_us);
BENCHMARK_CAPTURE(evaluate, completion_coupled_wave, [](const Point& p, double gap_us) {
  return model::completion_coupled::wave_us({gap_us, 1, gap_us, 1, p.issue_floor_us, 6});
});
BENCHMARK_CAPTURE(evaluate, shortest_covered_sequence,
                  [](const Point& p, double) { return model::shortest_covered_sequence(p, 176, 0.4); });

constexpr std::size_t train_length = 64;

/// A whole train; the time of one burst is the reported time over 64.
void train_of_64(benchmark::State& state) {
  model::OperatingPoint point = attention_tiles();
  std::array<double, train_length> issue_us{};
  for (auto _ : state) {
    benchmark::DoNotOptimize(point);
    model::aligned::train_issue_us(point, 2, issue_us);
    benchmark::DoNotOptimize(issue_us);
  }
  state.SetItemsProcessed(state.iterations() * static_cast<std::int64_t>(train_length));
}
BENCHMARK(train_of_64);

void onset_after_64_bursts(benchmark::State& state) {
  std::array<double, train_length> issue_us{};
  issue_us.back() = 1;
  for (auto _ : state) {
    benchmark::DoNotOptimize(issue_us);
    benchmark::DoNotOptimize(model::onset_of_backpressure(issue_us, 0, 0.1));
  }
  state.SetItemsProcessed(state.iterations() * static_cast<std::int64_t>(train_length));
}
BENCHMARK(onset_after_64_bursts);

Platform calibrated_platform() {
  const auto known = [](double value) { return Estimate{value, value, value, 1, ""}; };
  PathProfile path;
  path.drain_gb_per_s = known(372.5);
  path.producer_drain_gb_per_s = known(50);
  for (int kib = 1; kib <= 24; ++kib) {
    path.issue_floor.push_back({kib * 1024.0, 0.1 + 0.01 * kib});
  }
  for (int producers = 16; producers <= 132; producers += 29) {
    path.capacity.push_back({producers, known(2e6 + 1e4 * producers), 24576, 0.01});
  }
  Platform platform;
  platform.node.devices.assign(2, Device{"NVIDIA H200", 132, 90, 0, not_measured});
  platform.paths = {path};
  return platform;
}

/// Checks its input, looks up tables; a sweep pays it once a point, not once a prediction.
void operating_point_of_a_profile(benchmark::State& state) {
  const Platform platform = calibrated_platform();
  int producers = 100;
  double bytes = 32768;
  for (auto _ : state) {
    benchmark::DoNotOptimize(producers);
    benchmark::DoNotOptimize(bytes);
    benchmark::DoNotOptimize(operating_point(platform, StorePath::store16, producers, bytes));
  }
}
BENCHMARK(operating_point_of_a_profile);

}  // namespace
