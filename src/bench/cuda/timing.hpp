#pragma once
// Times several ways of doing one thing on several GPUs against each other: graphs of many calls, alternating trials.

#include <cuda_runtime_api.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "bench/cuda/start_gate.hpp"
#include "bench/row.hpp"
#include "device/device_memory.hpp"

namespace xstage::bench {

/// What --verify says of a variant.
struct Verification {
  double error = 0;    // the largest, in roundings of bf16
  bool right = true;   // besides that error
  std::string remark;  // for the reader
};

/// One way to do it, and all that a row says of it.
struct Variant {
  std::string name;
  /// Enqueues a rank's part of one call. `call` counts the calls of a graph and chooses their inputs.
  std::function<void(int rank, int call, cudaStream_t stream)> enqueue;
  /// Throws if a call went wrong on the device.
  std::function<void()> check;
  /// How its inputs treat L2.
  std::string l2;
  /// Fields of its row, as the handles have the plans.
  Json plans = Json::object();
  /// NaN wherever a call has to write, on all ranks; none where nothing can be verified.
  std::function<void()> poison;
  /// Of what the last call of a graph has left; `call` is that call.
  std::function<Verification(int call)> verify;
};

/// The streams on which all variants of a cell run, one a GPU.
class Ranks {
 public:
  explicit Ranks(const std::vector<int>& devices);
  [[nodiscard]] int count() const { return static_cast<int>(devices_.size()); }
  [[nodiscard]] int device(int rank) const { return devices_[static_cast<std::size_t>(rank)]; }
  [[nodiscard]] const std::vector<int>& devices() const { return devices_; }  // [rank]
  [[nodiscard]] cudaStream_t stream(int rank) const { return streams_[static_cast<std::size_t>(rank)].get(); }
  /// Until all GPUs have done what was enqueued here.
  void synchronise() const;

 private:
  std::vector<int> devices_;
  std::vector<cuda::Stream> streams_;
};

/// A variant, captured: one graph of `replays` calls on each GPU.
class CapturedVariant {
 public:
  /// Runs the variant a few times, so that libraries have loaded and allocated what they need; measures its eager time;
  /// captures as many calls as take a trial's length.
  CapturedVariant(const Ranks& ranks, StartGate& gate, Variant variant);
  ~CapturedVariant();
  CapturedVariant(CapturedVariant&&) noexcept;
  CapturedVariant(const CapturedVariant&) = delete;
  CapturedVariant& operator=(const CapturedVariant&) = delete;
  CapturedVariant& operator=(CapturedVariant&&) = delete;

  /// One trial: microseconds of one call, the maximum over ranks.
  [[nodiscard]] double run_trial(const Ranks& ranks, StartGate& gate) const;
  /// For run_single_call: a graph of one call on each GPU, which has run once.
  void capture_single_call(const Ranks& ranks);
  /// One call from rest: microseconds until it has ended on the last GPU.
  [[nodiscard]] double run_single_call(const Ranks& ranks, StartGate& gate) const;
  /// Graphs back to back for `seconds`: microseconds of one call in the second half of them, the maximum over ranks.
  /// `call_us`: about what a call takes.
  [[nodiscard]] double run_sustained(const Ranks& ranks, double seconds, double call_us) const;
  [[nodiscard]] const Variant& variant() const { return variant_; }
  [[nodiscard]] int replays() const { return replays_; }
  [[nodiscard]] double eager_us() const { return eager_us_; }

 private:
  class Graphs;
  Variant variant_;
  std::unique_ptr<Graphs> graphs_;
  std::unique_ptr<Graphs> single_;
  int replays_ = 0;
  double eager_us_ = 0;
};

/// The trials of all variants, in rounds: each round runs each variant once, beginning with another one than the round
/// before. An unrecorded round comes first. Fewer trials than asked for, the same for all, if `proceed` says stop.
/// Afterwards single calls from rest, which alternate likewise: their median is in the times, too.
[[nodiscard]] std::vector<Times> time_variants(const Ranks& ranks, StartGate& gate,
                                               std::vector<CapturedVariant>& variants, int trials,
                                               const std::function<bool()>& proceed);

}  // namespace xstage::bench
