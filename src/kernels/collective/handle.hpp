#pragma once
// What the host's handle of a common call owns: its signal pad and buffers in the symmetric heap, its report, its
// epochs. Operations hold one and add what is theirs.

#include <chrono>
#include <cstddef>
#include <string>
#include <vector>

#include "kernels/collective/call_parameters.hpp"
#include "xstage/symmetric_heap.hpp"

struct CUstream_st;

namespace xstage::kernels {

[[nodiscard]] int multiprocessors(int device);

/// Throws DeviceError unless the GPU has compute capability 9.0.
void require_hopper(int device);

/// Throws InputError for a null or unaligned (16 bytes) operand.
void check_operand(const char* name, const void* pointer);

/// Given back also when making the operation fails half-way.
class HeapBuffers {
 public:
  explicit HeapBuffers(HeapRank& heap) : heap_(heap) {}
  HeapBuffers(const HeapBuffers&) = delete;
  HeapBuffers& operator=(const HeapBuffers&) = delete;
  ~HeapBuffers();
  SymmetricBuffer take(const std::string& tag, std::size_t bytes);

 private:
  HeapRank& heap_;
  std::vector<SymmetricBuffer> buffers_;
};

/// In pinned memory, which the host reads without any synchronisation.
class PinnedReport {
 public:
  PinnedReport();
  PinnedReport(const PinnedReport&) = delete;
  PinnedReport& operator=(const PinnedReport&) = delete;
  ~PinnedReport();
  void clear() const { *report_ = WaitReport{}; }
  [[nodiscard]] WaitReport* get() const { return report_; }
  [[nodiscard]] bool raised() const { return static_cast<const volatile WaitReport*>(report_)->raised == 2U; }

 private:
  WaitReport* report_ = nullptr;
};

class CollectiveHandle {
 public:
  /// `arrival_words`: of the signal pad, behind the common ones. Collective.
  CollectiveHandle(HeapRank& heap, std::string name, std::size_t arrival_words, std::chrono::microseconds time_out);
  CollectiveHandle(const CollectiveHandle&) = delete;
  CollectiveHandle& operator=(const CollectiveHandle&) = delete;
  ~CollectiveHandle() = default;

  /// A buffer that this handle gives back at its end. Collective.
  SymmetricBuffer take(const char* tag, std::size_t bytes);
  /// After the last collective step of making the operation: launches need all ranks to have come so far.
  void finish_setup();

  [[nodiscard]] HeapRank& heap() const { return heap_; }
  [[nodiscard]] const CallParameters& parameters() const { return parameters_; }
  /// Bytes of heap that the signal pad takes.
  [[nodiscard]] static std::size_t pad_bytes(std::size_t arrival_words);

  /// Before a launch: no earlier call gave up, all ranks exist, and the number of CTAs is that of earlier launches:
  /// each CTA keeps its own epoch.
  void prepare(int blocks);
  /// Enqueues a kernel that waits for what peers store here in the last call; `posts`: of each of their CTAs in a call.
  /// Throws InputError before the first launch.
  void await_arrival(int posts, CUstream_st* stream) const;
  /// Throws DeviceError if a wait of this rank has expired.
  void check() const;
  /// Waits for the device.
  void synchronise() const;
  /// Clears signals, sets the first epoch, forgets the report. The ranks have come to rest.
  void restore();

 private:
  HeapRank& heap_;
  std::string name_;
  HeapBuffers buffers_;
  PinnedReport report_;
  SymmetricBuffer pad_{};
  CallParameters parameters_{};
  std::size_t steps_ = 0;
  bool complete_ = false;
  int blocks_ = 0;
};

}  // namespace xstage::kernels
