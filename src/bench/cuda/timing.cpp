#include "bench/cuda/timing.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <thread>
#include <utility>

#include "bench/statistics.hpp"

namespace xstage::bench {

namespace {

using cuda::check;
using cuda::CurrentDevice;

constexpr double trial_us = 15000;
/// Before each trial, as long as it takes. Long GEMMs are bound by power: without a rest the clock that a variant gets
/// depends on what ran before it, and two programs that measure different variants cannot be compared.
constexpr std::chrono::microseconds rest{15000};
constexpr int least_replays = 3;
constexpr int most_replays = 500;
constexpr int estimate_replays = 5;
/// The host may be ahead of a GPU by about a thousand launches. One that it has to wait for, while that GPU waits for a
/// launch on another one, would never come.
constexpr int most_eager_calls = 100;
constexpr int exit_code_device = 4;  // of the command line

/// Kernels bound their waits, so this is long enough for any trial; if not, nothing that waits for the GPU would
/// return.
constexpr std::chrono::seconds patience{60};

/// Until `query` succeeds. A GPU that never gets there ends the process: on the way out of here destructors would wait
/// for it as well. Result files have been written after every cell.
template <typename Query>
void await(const Query& query, const std::string& what) {
  const auto deadline = std::chrono::steady_clock::now() + patience;
  cudaError_t status = query();
  while (status == cudaErrorNotReady) {
    if (std::chrono::steady_clock::now() > deadline) {
      fmt::print(stderr, "xstage: {}: it has not finished within {} s; giving up\n", what, patience.count());
      std::quick_exit(exit_code_device);
    }
    std::this_thread::sleep_for(std::chrono::microseconds(20));
    status = query();
  }
  check(status, what);
}

class Event {
 public:
  explicit Event(int device) {
    const CurrentDevice current(device);
    check(cudaEventCreate(&event_), fmt::format("creating an event on GPU {}", device));
  }
  ~Event() {
    if (event_ != nullptr) {
      static_cast<void>(cudaEventDestroy(event_));
    }
  }
  Event(Event&& other) noexcept : event_(std::exchange(other.event_, nullptr)) {}
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;
  Event& operator=(Event&&) = delete;
  [[nodiscard]] cudaEvent_t get() const { return event_; }

 private:
  cudaEvent_t event_ = nullptr;
};

/// How long what lies between the two takes on each GPU.
class Span {
 public:
  explicit Span(const Ranks& ranks) : ranks_(ranks) {
    for (int rank = 0; rank < ranks.count(); ++rank) {
      starts_.emplace_back(ranks.device(rank));
      ends_.emplace_back(ranks.device(rank));
    }
  }
  void start(int rank) { record(starts_, rank); }
  void end(int rank) { record(ends_, rank); }

  /// Waits for all; the maximum.
  [[nodiscard]] double microseconds() const {
    double longest = 0;
    for (int rank = 0; rank < ranks_.count(); ++rank) {
      const auto index = static_cast<std::size_t>(rank);
      await([&] { return cudaEventQuery(ends_[index].get()); },
            fmt::format("waiting for a trial on GPU {}", ranks_.device(rank)));
      float milliseconds = 0;
      check(cudaEventElapsedTime(&milliseconds, starts_[index].get(), ends_[index].get()), "reading a trial's time");
      longest = std::max(longest, 1000.0 * static_cast<double>(milliseconds));
    }
    return longest;
  }

 private:
  void record(const std::vector<Event>& events, int rank) {
    const CurrentDevice current(ranks_.device(rank));
    check(cudaEventRecord(events[static_cast<std::size_t>(rank)].get(), ranks_.stream(rank)), "recording an event");
  }

  const Ranks& ranks_;
  std::vector<Event> starts_;
  std::vector<Event> ends_;
};

/// Ends the capture on every way out: a stream that is left capturing is of no more use.
class Capture {
 public:
  explicit Capture(cudaStream_t stream) : stream_(stream) {
    check(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal), "beginning a capture");
  }
  ~Capture() {
    if (stream_ != nullptr) {
      cudaGraph_t graph = nullptr;
      static_cast<void>(cudaStreamEndCapture(stream_, &graph));
      static_cast<void>(cudaGraphDestroy(graph));
      static_cast<void>(cudaGetLastError());
    }
  }
  Capture(const Capture&) = delete;
  Capture& operator=(const Capture&) = delete;

  cudaGraph_t end() {
    cudaGraph_t graph = nullptr;
    check(cudaStreamEndCapture(std::exchange(stream_, nullptr), &graph), "ending a capture");
    return graph;
  }

 private:
  cudaStream_t stream_;
};

void run_eagerly(const Ranks& ranks, const Variant& variant, int calls) {
  for (int call = 0; call < calls; ++call) {
    for (int rank = 0; rank < ranks.count(); ++rank) {
      const CurrentDevice current(ranks.device(rank));
      variant.enqueue(rank, 0, ranks.stream(rank));  // the same operands: what a layer has
    }
  }
}

}  // namespace

Ranks::Ranks(const std::vector<int>& devices) : devices_(devices) {
  for (const int device : devices) {
    streams_.emplace_back(device);
  }
}

void Ranks::synchronise() const {
  for (int rank = 0; rank < count(); ++rank) {
    await([&] { return cudaStreamQuery(stream(rank)); }, fmt::format("waiting for GPU {}", device(rank)));
  }
}

/// One executable graph of `calls` calls a rank.
class CapturedVariant::Graphs {
 public:
  Graphs(const Ranks& ranks, const Variant& variant, int calls) {
    try {
      for (int rank = 0; rank < ranks.count(); ++rank) {
        add(ranks, variant, rank, calls);
      }
    } catch (...) {
      destroy();
      throw;
    }
  }
  ~Graphs() { destroy(); }
  Graphs(const Graphs&) = delete;
  Graphs& operator=(const Graphs&) = delete;

  void launch(const Ranks& ranks, int rank) const {
    const CurrentDevice current(ranks.device(rank));
    check(cudaGraphLaunch(graphs_[static_cast<std::size_t>(rank)], ranks.stream(rank)), "launching a graph");
  }

  /// Before the first launch behind a gate: whatever the driver still has to load or to allocate may wait for a GPU.
  void warm_up(const Ranks& ranks) const {
    for (int rank = 0; rank < ranks.count(); ++rank) {
      launch(ranks, rank);
    }
    ranks.synchronise();
  }

  [[nodiscard]] double microseconds(const Ranks& ranks, StartGate& gate) const {
    Span span(ranks);
    {
      const ShutGate shut(gate);
      for (int rank = 0; rank < ranks.count(); ++rank) {
        const CurrentDevice current(ranks.device(rank));
        gate.hold(ranks.stream(rank));
        span.start(rank);
        launch(ranks, rank);
        span.end(rank);
      }
    }
    return span.microseconds();
  }

 private:
  void add(const Ranks& ranks, const Variant& variant, int rank, int calls) {
    const CurrentDevice current(ranks.device(rank));
    Capture capture(ranks.stream(rank));
    for (int call = 0; call < calls; ++call) {
      variant.enqueue(rank, call, ranks.stream(rank));
    }
    cudaGraph_t graph = capture.end();
    cudaGraphExec_t executable = nullptr;
    const cudaError_t status = cudaGraphInstantiate(&executable, graph, 0);
    static_cast<void>(cudaGraphDestroy(graph));
    check(status, "instantiating a graph");
    graphs_.push_back(executable);
    check(cudaGraphUpload(executable, ranks.stream(rank)), "uploading a graph");
  }

  void destroy() {
    for (cudaGraphExec_t graph : graphs_) {
      static_cast<void>(cudaGraphExecDestroy(graph));
    }
    graphs_.clear();
  }

  std::vector<cudaGraphExec_t> graphs_;
};

namespace {

double eager_microseconds(const Ranks& ranks, const Variant& variant, int calls) {
  Span span(ranks);
  for (int rank = 0; rank < ranks.count(); ++rank) {
    span.start(rank);
  }
  run_eagerly(ranks, variant, calls);
  for (int rank = 0; rank < ranks.count(); ++rank) {
    span.end(rank);
  }
  return span.microseconds() / calls;
}

}  // namespace

CapturedVariant::CapturedVariant(const Ranks& ranks, StartGate& gate, Variant variant) : variant_(std::move(variant)) {
  run_eagerly(ranks, variant_, 2);
  ranks.synchronise();
  variant_.check();
  // A first, short graph: the eager time of a short kernel is the host's.
  const Graphs first(ranks, variant_, estimate_replays);
  first.warm_up(ranks);
  const double estimate_us = first.microseconds(ranks, gate) / estimate_replays;
  variant_.check();
  replays_ =
      std::clamp(static_cast<int>(std::lround(trial_us / std::max(estimate_us, 1.0))), least_replays, most_replays);
  eager_us_ = eager_microseconds(ranks, variant_, std::min(replays_, most_eager_calls));
  variant_.check();
  graphs_ = std::make_unique<Graphs>(ranks, variant_, replays_);
  graphs_->warm_up(ranks);
  variant_.check();
}

CapturedVariant::~CapturedVariant() = default;
CapturedVariant::CapturedVariant(CapturedVariant&&) noexcept = default;

double CapturedVariant::run_trial(const Ranks& ranks, StartGate& gate) const {
  std::this_thread::sleep_for(rest);
  const double longest_us = graphs_->microseconds(ranks, gate);
  variant_.check();
  return longest_us / replays_;
}

void CapturedVariant::capture_single_call(const Ranks& ranks) {
  single_ = std::make_unique<Graphs>(ranks, variant_, 1);
  single_->warm_up(ranks);
  variant_.check();
}

double CapturedVariant::run_single_call(const Ranks& ranks, StartGate& gate) const {
  const double longest_us = single_->microseconds(ranks, gate);
  variant_.check();
  return longest_us;
}

std::vector<VariantTimes> run_rounds(const Ranks& ranks, StartGate& gate, const std::vector<CapturedVariant>& variants,
                                     int trials, const std::function<bool()>& proceed) {
  std::vector<VariantTimes> times;
  for (const CapturedVariant& variant : variants) {
    times.push_back({variant.name(), variant.replays(), variant.eager_us(), {}});
    static_cast<void>(variant.run_trial(ranks, gate));
  }
  for (int round = 0; round < trials && proceed(); ++round) {
    for (std::size_t step = 0; step < variants.size(); ++step) {
      const std::size_t index = (static_cast<std::size_t>(round) + step) % variants.size();
      times[index].trials_us.push_back(variants[index].run_trial(ranks, gate));
    }
  }
  return times;
}

std::vector<double> run_single_calls(const Ranks& ranks, StartGate& gate, std::vector<CapturedVariant>& variants,
                                     int count, const std::function<bool()>& proceed) {
  for (CapturedVariant& variant : variants) {
    variant.capture_single_call(ranks);
  }
  std::vector<std::vector<double>> calls_us(variants.size());
  for (int round = 0; round < count && proceed(); ++round) {
    for (std::size_t step = 0; step < variants.size(); ++step) {
      const std::size_t index = (static_cast<std::size_t>(round) + step) % variants.size();
      calls_us[index].push_back(variants[index].run_single_call(ranks, gate));
    }
  }
  std::vector<double> medians(variants.size());
  std::transform(calls_us.begin(), calls_us.end(), medians.begin(),
                 [](const std::vector<double>& calls) { return median(calls); });
  return medians;
}

}  // namespace xstage::bench
