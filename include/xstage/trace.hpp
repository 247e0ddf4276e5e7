#pragma once
/// Spans of instrumented kernels: what each role of each CTA did, and when. They are recorded on the device, converted
/// to one clock, and written as a trace for Perfetto (ui.perfetto.dev) or summed up for comparison with the model.
///
///     trace::SpanRecorder recorder({&heap.rank(0), &heap.rank(1)}, issuers, 64);
///     gemm_of_rank[r].instrument(recorder.instruments(r));      // on every rank, then launch
///     const trace::Trace trace = recorder.read();               // waits for the GPUs
///     trace::write_perfetto("gemm.json", trace);
///     std::cout << trace::summary_table(trace);

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "xstage/symmetric_heap.hpp"

namespace xstage {

struct Instruments;

namespace trace {

/// Names of the numbers in spans.
struct Names {
  std::vector<std::string> roles;  // [role]
  std::vector<std::string> kinds;  // [kind]
};

/// The names for this library's kernels.
[[nodiscard]] const Names& kernel_names();

/// One activity of one role of one CTA.
struct Span {
  int rank = 0;
  int block = 0;  // CTA of the rank's launch
  int role = 0;
  int kind = 0;
  int tile = -1;              // its number in the schedule; -1: none
  std::int64_t begin_ns = 0;  // on the clock of the rank's GPU
  std::int64_t end_ns = 0;
};

/// How the clock of a rank's GPU relates to the common one, which is that of rank 0's GPU.
struct RankClock {
  int device = 0;
  std::int64_t offset_ns = 0;  // this rank's clock minus the common clock
  double uncertainty_ns = 0;   // the true offset lies within offset_ns ± this
};

struct Trace {
  Names names = kernel_names();
  std::vector<RankClock> clocks;  // [rank]
  std::vector<Span> spans;
  int full_tracks = 0;  // tracks whose buffers are full: their later spans are missing
};

/// The spans moved to the common clock, whose 0 is the beginning of the earliest one, in order of their beginning.
/// Throws InputError if a span ends before it begins or names a rank, role or kind that the trace does not have.
[[nodiscard]] std::vector<Span> on_common_clock(const Trace& trace);

struct PerfettoOptions {
  /// CTAs that are shown, the same on every rank. Empty: all of them.
  std::vector<int> blocks = {0};
};

/// Chrome trace-event JSON (format of Perfetto and chrome://tracing): a process for each rank, in it a thread for each
/// CTA and role, times in microseconds. Throws InputError if no rank has spans of a CTA that is asked for.
[[nodiscard]] std::string perfetto_json(const Trace& trace, const PerfettoOptions& options = {});

/// Writes the same JSON to a file, atomically.
void write_perfetto(const std::filesystem::path& path, const Trace& trace, const PerfettoOptions& options = {});

/// All spans of one kind on one rank, whatever their CTA and role.
struct KindSummary {
  int rank = 0;
  int kind = 0;
  std::size_t count = 0;
  double mean_us = 0;
  double p95_us = 0;  // interpolated between order statistics
  double max_us = 0;
  double total_us = 0;
};

/// In order of rank, then kind; kinds without spans are absent. Clocks do not matter, since only durations count.
[[nodiscard]] std::vector<KindSummary> summarise(const Trace& trace);

/// The summary as text, one line a rank and kind.
[[nodiscard]] std::string summary_table(const Trace& trace);

/// Holds the buffers that instrumented kernels write spans into, one on each rank's GPU.
class SpanRecorder {
 public:
  /// Collective: `ranks` are all ranks of a heap, in order, driven by this process. `blocks` is at least the number of
  /// CTAs of a launch (Gemm::issuers()), and `spans_each` is the number of spans for each role of each CTA. Allocates a
  /// few bytes of the heap.
  SpanRecorder(std::vector<HeapRank*> ranks, int blocks, int spans_each);
  SpanRecorder(SpanRecorder&&) noexcept;
  SpanRecorder& operator=(SpanRecorder&&) noexcept;
  /// Waits for the GPUs. Kernels that are still instrumented must not be launched again.
  ~SpanRecorder();

  /// What Gemm::instrument takes on this rank.
  [[nodiscard]] Instruments instruments(int rank) const;

  /// Waits for the GPUs, then deletes all spans. A launch overwrites the spans of the launch before it only as far as
  /// it records as many: clear before every launch whose spans are to be read.
  void clear();

  /// Waits for the GPUs, compares their clocks, and returns the spans since the last clear. Throws DeviceError if a GPU
  /// does not take part in the comparison in time, as when another program keeps it busy.
  [[nodiscard]] Trace read();

 private:
  class State;
  std::unique_ptr<State> state_;
};

}  // namespace trace
}  // namespace xstage
