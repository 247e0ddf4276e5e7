#pragma once
// What the host's handle of a collective call owns: its signal pad and buffers in the symmetric heap, its report, its
// epochs. The handle of each operation contains one.

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

/// Throws InputError unless the kernels can bound their waits by this time.
void check_time_out(std::chrono::microseconds time_out);

/// Buffers of the heap. They are released also if the constructor of an operation fails half-way.
class HeapBuffers {
 public:
  explicit HeapBuffers(HeapRank& heap) : heap_(heap) {}
  HeapBuffers(const HeapBuffers&) = delete;
  HeapBuffers& operator=(const HeapBuffers&) = delete;
  ~HeapBuffers() { release(nullptr); }
  SymmetricBuffer take(const std::string& tag, std::size_t bytes);
  /// Releases all buffers. `launches` is null if nothing was launched on them.
  void release(const std::shared_ptr<cuda::InFlight>& launches);

 private:
  HeapRank& heap_;
  std::vector<SymmetricBuffer> buffers_;
};

/// Construction and destruction wait for no kernel, so that both may come between the launches of two ranks. Memory of
/// a destroyed handle is reused when its launches have ended, which its streams tell; the streams must exist as long as
/// the handle. Replays of a graph cannot be queried, so the handle must be destroyed after them.
class CollectiveHandle {
 public:
  /// Collective. `arrival_words` is the number of words of the signal pad behind the common ones.
  CollectiveHandle(HeapRank& heap, std::string name, std::size_t arrival_words, std::chrono::microseconds time_out);
  CollectiveHandle(const CollectiveHandle&) = delete;
  CollectiveHandle& operator=(const CollectiveHandle&) = delete;
  ~CollectiveHandle() { buffers_.release(memory_.in_flight()); }

  /// Collective. Allocates a buffer that this handle releases at its end.
  SymmetricBuffer take(const char* tag, std::size_t bytes);
  /// To be called after the last collective step of an operation's constructor: launches need all ranks to have come
  /// this far.
  void finish_setup();

  [[nodiscard]] HeapRank& heap() const { return heap_; }
  /// Memory of this rank alone, freed with the handle.
  [[nodiscard]] cuda::HandleMemory& memory() { return memory_; }
  [[nodiscard]] const CallParameters& parameters() const { return parameters_; }
  /// Bytes of the heap that the signal pad takes.
  [[nodiscard]] static std::size_t pad_bytes(std::size_t arrival_words);

  /// Checks before a launch that no wait of an earlier call gave up, that all ranks exist, and that the number of CTAs
  /// is that of earlier launches, since each CTA keeps its own epoch.
  void prepare(int blocks);
  /// Records a successful launch of `blocks` CTAs, which fixes their number. To be called only if the launch succeeded.
  void launched(int blocks, CUstream_st* stream);
  /// Records other work on the stream that uses the handle's memory.
  void used_on(CUstream_st* stream) { memory_.launched_on(stream); }
  /// Enqueues a kernel that waits for what peers store here in the last call. `posts` is the number of posts of each
  /// peer CTA in a call. Throws InputError before the first launch.
  void await_arrival(int posts, CUstream_st* stream);
  /// Throws DeviceError if a wait of this rank has timed out.
  void check() const;
  /// Waits for the device.
  void synchronise() const;
  /// Clears signals, sets the first epoch, and clears the report, while all ranks are idle. Fills that were enqueued on
  /// DeviceSetup before are complete when it returns.
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
