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

#include "bench/bench_run.hpp"
#include "bench/statistics.hpp"

namespace xstage::bench {

namespace {

using cuda::check;
using cuda::CurrentDevice;

/// Length of a trial. It is long enough that the start of a graph does not count, and that the graph has at least one
/// pair of calls: then the results of the previous graph are not those that the last call of this graph must write.
constexpr double trial_us = 4000;
constexpr int least_replays = 2;
constexpr int most_replays = 400;
constexpr int estimate_replays = 3;
constexpr int most_single_calls = 5;
/// Length of one piece of sustained replays: the host waits for a piece while the next one runs.
constexpr double piece_us = 50000;
/// The host may be ahead of a GPU by about a thousand launches. If it then had to wait for that GPU, while the GPU
/// waits for a launch on another one, the trial would never end.
constexpr int most_eager_calls = 100;
constexpr int exit_code_device = 4;  // exit code of the command line

/// Time limit of a trial. Kernels bound their waits, so it is long enough for any trial; beyond it no wait for the GPU
/// would return.
constexpr std::chrono::seconds patience{60};

/// Polls until `query` succeeds. A GPU that never finishes ends the process, since destructors on the way out would
/// wait for it as well. Result files have been written after every cell.
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

/// Marks the end of some work on each GPU.
class Mark {
 public:
  explicit Mark(const Ranks& ranks) {
    for (int rank = 0; rank < ranks.count(); ++rank) {
      events_.emplace_back(ranks.device(rank));
    }
  }
  void record(const Ranks& ranks) const {
    for (int rank = 0; rank < ranks.count(); ++rank) {
      const CurrentDevice current(ranks.device(rank));
      check(cudaEventRecord(event(rank), ranks.stream(rank)), "recording an event");
    }
  }
  void wait(const Ranks& ranks) const {
    for (int rank = 0; rank < ranks.count(); ++rank) {
      await([&] { return cudaEventQuery(event(rank)); },
            fmt::format("waiting for sustained replays on GPU {}", ranks.device(rank)));
    }
  }
  /// Time from this mark to a later one, on the GPU where it is longest. Both must have been waited for.
  [[nodiscard]] double microseconds_to(const Mark& later) const {
    double longest = 0;
    for (std::size_t rank = 0; rank < events_.size(); ++rank) {
      float milliseconds = 0;
      check(cudaEventElapsedTime(&milliseconds, events_[rank].get(), later.events_[rank].get()),
            "reading the time of sustained replays");
      longest = std::max(longest, 1000.0 * static_cast<double>(milliseconds));
    }
    return longest;
  }

 private:
  [[nodiscard]] cudaEvent_t event(int rank) const { return events_[static_cast<std::size_t>(rank)].get(); }
  std::vector<Event> events_;
};

/// The work between two marks, and its time on each GPU.
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

  /// Waits for all GPUs. Returns the maximum.
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

/// Ends the capture on every way out: a stream that stays in capture mode cannot be used any more.
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

/// One executable graph of `calls` calls for each rank.
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

  /// Runs before the first launch behind a gate, because what the driver still has to load or allocate may wait for a
  /// GPU.
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
  // A first, short graph estimates the time, since the eager time of a short kernel is that of the host.
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
  std::this_thread::sleep_for(std::chrono::milliseconds(rest_ms));
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

double CapturedVariant::run_sustained(const Ranks& ranks, double seconds, double call_us) const {
  const double graph_us = std::max(1.0, call_us * replays_);
  const int graphs = std::max(1, static_cast<int>(std::lround(piece_us / graph_us)));
  const int pieces = std::max(4, static_cast<int>(std::ceil(seconds * 1e6 / (graph_us * graphs))));
  std::vector<Mark> ends;
  for (int piece = 0; piece < pieces; ++piece) {
    for (int graph = 0; graph < graphs; ++graph) {
      for (int rank = 0; rank < ranks.count(); ++rank) {
        graphs_->launch(ranks, rank);
      }
    }
    ends.emplace_back(ranks).record(ranks);
    if (piece > 0) {
      ends[static_cast<std::size_t>(piece) - 1].wait(ranks);
    }
  }
  ends.back().wait(ranks);
  variant_.check();
  const int half = pieces / 2;
  const double calls = static_cast<double>(pieces - half - 1) * graphs * replays_;
  return ends[static_cast<std::size_t>(half)].microseconds_to(ends.back()) / calls;
}

namespace {

/// Calls `run(variant)` for all variants in each of `rounds` rounds, each of which begins with another variant.
template <typename Run>
void alternate(std::size_t variants, int rounds, const std::function<bool()>& proceed, const Run& run) {
  for (int round = 0; round < rounds && proceed(); ++round) {
    for (std::size_t step = 0; step < variants; ++step) {
      run((static_cast<std::size_t>(round) + step) % variants);
    }
  }
}

}  // namespace

std::vector<Times> time_variants(const Ranks& ranks, StartGate& gate, std::vector<CapturedVariant>& variants,
                                 int trials, const std::function<bool()>& proceed) {
  std::vector<Times> times(variants.size());
  for (std::size_t index = 0; index < variants.size(); ++index) {
    times[index].replays = variants[index].replays();
    times[index].eager_us = variants[index].eager_us();
    static_cast<void>(variants[index].run_trial(ranks, gate));
  }
  alternate(variants.size(), trials, proceed,
            [&](std::size_t index) { times[index].trials_us.push_back(variants[index].run_trial(ranks, gate)); });
  for (CapturedVariant& variant : variants) {
    variant.capture_single_call(ranks);
  }
  std::vector<std::vector<double>> calls_us(variants.size());
  alternate(variants.size(), std::min(trials, most_single_calls), proceed,
            [&](std::size_t index) { calls_us[index].push_back(variants[index].run_single_call(ranks, gate)); });
  for (std::size_t index = 0; index < variants.size(); ++index) {
    times[index].one_shot_us = median(calls_us[index]);
  }
  return times;
}

}  // namespace xstage::bench
