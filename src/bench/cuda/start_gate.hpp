#pragma once
// Lets work that was enqueued on several GPUs start at the same time. Without it the first GPU of a trial would wait
// for the host to reach the last one.

#include <cuda_runtime_api.h>

#include <atomic>
#include <cstdint>
#include <thread>

namespace xstage::bench {

/// A word of host memory that streams wait for.
class StartGate {
 public:
  StartGate();
  ~StartGate();
  StartGate(const StartGate&) = delete;
  StartGate& operator=(const StartGate&) = delete;

  /// Makes the stream wait until the gate opens. To be called with the stream's device current and while the gate is
  /// shut.
  void hold(cudaStream_t stream) const;

 private:
  friend class ShutGate;
  void shut() { ++round_; }
  void open();
  /// Opens the gate after a while, for good: a call that waits for a GPU while the gate is shut would never return.
  void give_up();

  std::uint32_t* opened_ = nullptr;  // number of the last round that the gate let through
  std::atomic<std::uint32_t> round_{0};
  std::atomic<bool> given_up_{false};
};

/// Shuts the gate for a scope, and opens it at the end on every path, since streams must not wait for ever.
class ShutGate {
 public:
  explicit ShutGate(StartGate& gate);
  ~ShutGate();
  ShutGate(const ShutGate&) = delete;
  ShutGate& operator=(const ShutGate&) = delete;

 private:
  StartGate& gate_;
  std::jthread watchdog_;
};

}  // namespace xstage::bench
