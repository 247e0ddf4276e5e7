#pragma once
/// Symmetric memory: the same buffers at the same offsets on every rank, so that a device can store straight into the
/// memory of its peers. A rank is one participant with its own memory, normally one GPU. See docs/symmetric-heap.md.

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "xstage/peer_view.hpp"

namespace xstage {

namespace memory {
class ProcessHeap;
}

/// A range of every rank's heap, at the same offset on all of them. Ranks that made the same calls hold the same
/// values.
struct SymmetricBuffer {
  std::size_t offset;
  std::size_t bytes;
};

/// One rank's interface to a symmetric heap, whatever provides the peer memory.
///
/// allocate() and agree() are *collective*: every rank makes the same calls in the same order. The n-th call of each
/// rank is its n-th step; the first rank to reach a step defines it. A rank that differs gets an InputError which names
/// both ranks, the step and both values, and its heap does not change. release() is not collective: ranks release in
/// any order.
///
/// Where one thread drives all ranks, a collective call cannot wait for the others. check_complete() therefore says,
/// before a kernel is launched on memory that peers write, whether all ranks have allocated it.
///
/// None of these calls may be captured into a CUDA graph. A heap is used from one thread at a time.
class HeapRank {
 public:
  /// TMA tensor maps want 128 bytes, the widest swizzle pattern repeats after 1024.
  static constexpr std::size_t default_alignment = 1024;
  /// An alignment is a power of two between these.
  static constexpr std::size_t least_alignment = 16;
  static constexpr std::size_t greatest_alignment = 65536;

  HeapRank() = default;
  HeapRank(const HeapRank&) = delete;
  HeapRank& operator=(const HeapRank&) = delete;
  virtual ~HeapRank() = default;

  [[nodiscard]] virtual int rank() const = 0;
  [[nodiscard]] virtual int world() const = 0;
  /// Index of this rank's CUDA device in this process.
  [[nodiscard]] virtual int device() const = 0;
  /// Size of each rank's heap.
  [[nodiscard]] virtual std::size_t bytes() const = 0;
  /// All of the heap, from offset 0.
  [[nodiscard]] virtual PeerView heap_view() const = 0;

  /// Collective. Allocates a buffer at the same offset on every rank, and fills this rank's copy with zeros. `tag`
  /// names its purpose in error messages. Throws InputError if the ranks disagree, an argument breaks a rule, or the
  /// heap is too small (the message then says which released buffers still wait for which rank); nothing has changed
  /// then.
  [[nodiscard]] SymmetricBuffer allocate(std::string_view tag, std::size_t bytes,
                                         std::size_t alignment = default_alignment);

  /// This rank no longer needs the buffer. Each rank releases in its own order and at its own time. The memory can be
  /// allocated anew when all ranks have released it and `at_rest` of each rank has returned true: it says whether
  /// everything that the rank launched on the buffer, peers' memory included, has ended (empty: it has). Later calls of
  /// any rank call `at_rest` until it has returned true once. Throws InputError if `buffer` is not as allocate()
  /// returned it.
  void release(const SymmetricBuffer& buffer, std::function<bool()> at_rest = {});

  /// Collective, and takes no memory: all ranks state the same text, such as an operation and its shapes.
  virtual void agree(std::string_view statement) = 0;

  /// Number of collective calls that this rank has made.
  [[nodiscard]] virtual std::size_t steps() const = 0;

  /// Throws InputError naming the ranks that have made fewer than `steps` collective calls. The constructor of an
  /// operation stores steps() at its end, and the first launch checks that number.
  virtual void check_complete(std::size_t steps) const = 0;

  /// One pointer for each rank to the buffer, which is an allocated one or a part of one. Throws InputError if it is
  /// not.
  [[nodiscard]] PeerView view(const SymmetricBuffer& buffer) const;
  /// This rank's copy.
  [[nodiscard]] void* local(const SymmetricBuffer& buffer) const;

  /// Whether these bytes lie in this rank's own heap. A peer's copy does not.
  [[nodiscard]] bool contains(const void* pointer, std::size_t bytes) const;
  /// Where in this rank's own heap `pointer` is; empty if it is elsewhere.
  [[nodiscard]] std::optional<std::size_t> offset_of(const void* pointer) const;
  /// The buffer, or part of one, that is a tensor at `pointer`: what view() takes. InputError if it is not in the heap.
  /// Symmetric only if it has this offset on every rank: agree() on it.
  [[nodiscard]] SymmetricBuffer buffer_at(const void* pointer, std::size_t bytes) const;

 protected:
  /// allocate() behind the checks of its arguments.
  virtual SymmetricBuffer allocate_checked(std::string_view tag, std::size_t bytes, std::size_t alignment) = 0;
  virtual void release_allocated(const SymmetricBuffer& buffer, std::function<bool()> at_rest) = 0;
  /// Whether the bytes lie within one allocated buffer that this rank has not released.
  [[nodiscard]] virtual bool is_allocated(const SymmetricBuffer& buffer) const = 0;
};

/// A symmetric heap in one process whose thread drives all the GPUs, which address each other's memory directly.
class PeerAccessHeap {
 public:
  /// Upper bound of the bytes of one rank.
  static constexpr std::size_t greatest_bytes = std::size_t{1} << 40U;

  /// Creates one rank for each listed device, 1 to `max_world` of them, each with `bytes_per_rank` bytes of zeros. A
  /// device may be listed several times, which makes virtual ranks on one GPU. Enables peer access between all of them
  /// and leaves it enabled. Throws InputError for arguments that break a rule, and DeviceError naming the two GPUs
  /// without peer access, the missing memory, or the CUDA call that failed. The caller's current device stays current,
  /// here and in every other call.
  [[nodiscard]] static PeerAccessHeap create(const std::vector<int>& devices, std::size_t bytes_per_rank);

  PeerAccessHeap(PeerAccessHeap&&) noexcept;
  PeerAccessHeap& operator=(PeerAccessHeap&&) noexcept;
  /// Waits for the devices' work, then frees the memory.
  ~PeerAccessHeap();

  /// The reference stays valid when the heap is moved, and as long as the heap lives. InputError if there is no such
  /// rank.
  [[nodiscard]] HeapRank& rank(int rank);
  [[nodiscard]] int world() const;

  /// Throws InputError unless all ranks have made the same number of collective calls.
  void check_complete() const;

 private:
  explicit PeerAccessHeap(std::unique_ptr<memory::ProcessHeap> heap);
  std::unique_ptr<memory::ProcessHeap> heap_;
};

}  // namespace xstage
