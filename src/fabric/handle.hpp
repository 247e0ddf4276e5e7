#pragma once
// What the host's handle of a common call owns: its signal pad and buffers in the symmetric heap, its report, its
// epochs. Operations hold one and add what is theirs.

#include <chrono>
#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "device/handle_memory.hpp"
#include "fabric/call_parameters.hpp"
#include "xstage/symmetric_heap.hpp"

struct CUstream_st;

namespace xstage::kernels {

[[nodiscard]] int multiprocessors(int device);

/// Throws DeviceError unless the GPU has compute capability 9.0.
void require_hopper(int device);

/// Throws InputError for a null or unaligned (16 bytes) operand.
void check_operand(const char* name, const void* pointer);

/// Throws InputError unless the kernels' waits can be bounded by it.
void check_time_out(std::chrono::microseconds time_out);

/// Given back also when making the operation fails half-way.
class HeapBuffers {
 public:
  explicit HeapBuffers(HeapRank& heap) : heap_(heap) {}
  HeapBuffers(const HeapBuffers&) = delete;
  HeapBuffers& operator=(const HeapBuffers&) = delete;
  ~HeapBuffers() { release(nullptr); }
  SymmetricBuffer take(const std::string& tag, std::size_t bytes);
  /// All of them. Null: nothing was launched on them.
  void release(const std::shared_ptr<cuda::InFlight>& launches);

 private:
  HeapRank& heap_;
  std::vector<SymmetricBuffer> buffers_;
};

/// Making and dropping one waits for no kernel, so both may come between the launches of two ranks. What it had is
/// reused when its launches have ended, as their streams say, which must exist as long as the handle; of replays of a
/// graph nobody says so: the handle ends after them.
class CollectiveHandle {
 public:
  /// `arrival_words`: of the signal pad, behind the common ones. Collective.
  CollectiveHandle(HeapRank& heap, std::string name, std::size_t arrival_words, std::chrono::microseconds time_out);
  CollectiveHandle(const CollectiveHandle&) = delete;
  CollectiveHandle& operator=(const CollectiveHandle&) = delete;
  ~CollectiveHandle() { buffers_.release(memory_.in_flight()); }

  /// A buffer that this handle gives back at its end. Collective.
  SymmetricBuffer take(const char* tag, std::size_t bytes);
  /// After the last collective step of making the operation: launches need all ranks to have come so far.
  void finish_setup();

  [[nodiscard]] HeapRank& heap() const { return heap_; }
  /// Memory of this rank alone, which ends with the handle.
  [[nodiscard]] cuda::HandleMemory& memory() { return memory_; }
  [[nodiscard]] const CallParameters& parameters() const { return parameters_; }
  /// Bytes of heap that the signal pad takes.
  [[nodiscard]] static std::size_t pad_bytes(std::size_t arrival_words);

  /// Before a launch: no earlier call gave up, all ranks exist, and the number of CTAs is that of earlier launches:
  /// each CTA keeps its own epoch.
  void prepare(int blocks);
  /// After a launch of so many CTAs. One that failed binds nobody.
  void launched(int blocks, CUstream_st* stream);
  /// After anything else that uses the handle's memory.
  void used_on(CUstream_st* stream) { memory_.launched_on(stream); }
  /// Enqueues a kernel that waits for what peers store here in the last call; `posts`: of each of their CTAs in a call.
  /// Throws InputError before the first launch.
  void await_arrival(int posts, CUstream_st* stream);
  /// Throws DeviceError if a wait of this rank has expired.
  void check() const;
  /// Waits for the device.
  void synchronise() const;
  /// Clears signals, sets the first epoch, forgets the report. The ranks have come to rest. What is set up on
  /// DeviceSetup before it is there when it returns.
  void restore();

 private:
  HeapRank& heap_;
  std::string name_;
  cuda::HandleMemory memory_;
  HeapBuffers buffers_;
  WaitReport* report_;  // in pinned memory, which the host reads without any synchronisation
  SymmetricBuffer pad_{};
  CallParameters parameters_{};
  std::size_t steps_ = 0;
  bool complete_ = false;
  int blocks_ = 0;
};

}  // namespace xstage::kernels
