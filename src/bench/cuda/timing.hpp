#pragma once
// Times several variants of one operation on several GPUs against each other, with graphs of many calls and alternating
// trials.

#include <cuda_runtime_api.h>

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "bench/cuda/start_gate.hpp"
#include "bench/row.hpp"
#include "device/device_memory.hpp"

namespace xstage::bench {

/// Time limit of a wait in a kernel. All ranks of a benchmark start together, and a call takes less than a tenth of it.
inline constexpr std::chrono::seconds time_out{5};

/// Verdict of --verify on a variant.
struct Verification {
  double error = 0;    // largest error, in roundings of bf16
  bool right = true;   // false: the results are wrong in some way besides that error
  std::string remark;  // for the reader
};

/// One variant, and everything that its row says.
struct Variant {
  std::string name;
  /// Enqueues a rank's part of one call. `call` counts the calls of a graph and chooses their inputs.
  std::function<void(int rank, int call, cudaStream_t stream)> enqueue;
  /// Throws if a call went wrong on the device.
  std::function<void()> check;
  /// Text: how its inputs treat L2.
  std::string l2;
  /// Fields of its row with the plans of its handles.
  Json plans = Json::object();
  /// Writes NaN on all ranks wherever a call has to write; empty where nothing can be verified.
  std::function<void()> poison;
  /// Verifies the results of a graph's last call; `call` is the number of that call.
  std::function<Verification(int call)> verify;
};

/// The streams on which all variants of a cell run, one for each GPU.
class Ranks {
 public:
  explicit Ranks(const std::vector<int>& devices);
  [[nodiscard]] int count() const { return static_cast<int>(devices_.size()); }
  [[nodiscard]] int device(int rank) const { return devices_[static_cast<std::size_t>(rank)]; }
  [[nodiscard]] const std::vector<int>& devices() const { return devices_; }  // [rank]
  [[nodiscard]] cudaStream_t stream(int rank) const { return streams_[static_cast<std::size_t>(rank)].get(); }
  /// Waits until all GPUs have finished the work on these streams.
  void synchronise() const;

 private:
  std::vector<int> devices_;
  std::vector<cuda::Stream> streams_;
};

/// A captured variant: one graph of `replays` calls on each GPU.
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

  /// Runs one trial. Returns the microseconds of one call, the maximum over ranks.
  [[nodiscard]] double run_trial(const Ranks& ranks, StartGate& gate) const;
  /// Captures a graph of one call on each GPU for run_single_call, and runs it once.
  void capture_single_call(const Ranks& ranks);
  /// Runs one call from rest. Returns the microseconds until it has ended on the last GPU.
  [[nodiscard]] double run_single_call(const Ranks& ranks, StartGate& gate) const;
  /// Runs graphs back to back for `seconds`. Returns the microseconds of one call in the second half of them, the
  /// maximum over ranks. `call_us` is an estimate of that.
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

/// Runs the trials of all variants in rounds. Each round runs each variant once and begins with another variant than
/// the round before; an unrecorded round comes first. If `proceed` says stop, there are fewer trials than asked for,
/// the same number for all variants. Afterwards single calls from rest alternate likewise; their median is in the
/// times, too.
[[nodiscard]] std::vector<Times> time_variants(const Ranks& ranks, StartGate& gate,
                                               std::vector<CapturedVariant>& variants, int trials,
                                               const std::function<bool()>& proceed);

}  // namespace xstage::bench
