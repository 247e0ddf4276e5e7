// The span buffers of all ranks, and their copies on the host.

#include <cuda_runtime_api.h>
#include <fmt/format.h>

#include <cstdint>
#include <exception>
#include <utility>

#include "device/device_memory.hpp"
#include "fabric/span_record.hpp"
#include "report/cuda/clock_alignment.hpp"
#include "report/span_buffer.hpp"
#include "xstage/error.hpp"
#include "xstage/gemm.hpp"
#include "xstage/trace.hpp"

namespace xstage::trace {

namespace {

void check_ranks(const std::vector<HeapRank*>& ranks) {
  for (std::size_t index = 0; index < ranks.size(); ++index) {
    if (ranks[index] == nullptr || ranks[index]->rank() != static_cast<int>(index)) {
      throw InputError(
          fmt::format("entry {} of a span recorder's ranks is not rank {}: list all ranks in order", index, index));
    }
  }
  if (ranks.empty() || static_cast<int>(ranks.size()) != ranks.front()->world()) {
    throw InputError(fmt::format("a span recorder of {} ranks: it needs all {} of the heap", ranks.size(),
                                 ranks.empty() ? std::string("ranks") : std::to_string(ranks.front()->world())));
  }
}

/// Number of records of one rank. A kernel counts them in 32 bits.
std::size_t records_of(int blocks, int spans_each) {
  const std::int64_t most = INT32_MAX;
  if (blocks < 1 || spans_each < 1 || std::int64_t{blocks} * kernels::span_roles > most / spans_each) {
    throw InputError(
        fmt::format("a span recorder for {} CTAs with {} spans each: both must be at least 1, with at most {} "
                    "spans together",
                    blocks, spans_each, most));
  }
  return static_cast<std::size_t>(blocks) * kernels::span_roles * static_cast<std::size_t>(spans_each);
}

}  // namespace

class SpanRecorder::State {
 public:
  State(std::vector<HeapRank*> ranks, int blocks, int spans_each)
      : ranks_((check_ranks(ranks), std::move(ranks))),
        spans_each_(spans_each),
        records_(records_of(blocks, spans_each)),
        alignment_(ranks_) {
    for (const HeapRank* rank : ranks_) {
      buffers_.emplace_back(rank->device(), records_ * sizeof(kernels::SpanRecord),
                            fmt::format("the spans of rank {}", rank->rank()));
    }
    clear();
  }
  State(const State&) = delete;
  State& operator=(const State&) = delete;

  ~State() {
    try {
      synchronise();
    } catch (const std::exception&) {
      // The next query of the GPU reports the error; a destructor must not throw.
    }
  }

  [[nodiscard]] Instruments instruments(int rank) const {
    if (rank < 0 || static_cast<std::size_t>(rank) >= buffers_.size()) {
      throw InputError(fmt::format("spans of rank {}: there are ranks 0 to {}", rank, buffers_.size() - 1));
    }
    Instruments instruments;
    instruments.spans = buffers_[static_cast<std::size_t>(rank)].as<void>();
    instruments.spans_each = spans_each_;
    return instruments;
  }

  void clear() {
    synchronise();
    for (std::size_t rank = 0; rank < ranks_.size(); ++rank) {
      buffers_[rank].clear(nullptr);
    }
    synchronise();
  }

  [[nodiscard]] Trace read() {
    synchronise();
    Trace trace;
    trace.clocks = alignment_.measure();
    for (std::size_t rank = 0; rank < ranks_.size(); ++rank) {
      append_spans(trace, static_cast<int>(rank), buffers_[rank].read<kernels::SpanRecord>(records_), spans_each_);
    }
    return trace;
  }

 private:
  void synchronise() const {
    for (const HeapRank* rank : ranks_) {
      const cuda::CurrentDevice current(rank->device());
      cuda::check(cudaDeviceSynchronize(), fmt::format("waiting for the spans of rank {}", rank->rank()));
    }
  }

  std::vector<HeapRank*> ranks_;
  int spans_each_;
  std::size_t records_;
  ClockAlignment alignment_;
  std::vector<cuda::DeviceBuffer> buffers_;  // [rank]
};

SpanRecorder::SpanRecorder(std::vector<HeapRank*> ranks, int blocks, int spans_each)
    : state_(std::make_unique<State>(std::move(ranks), blocks, spans_each)) {}
SpanRecorder::SpanRecorder(SpanRecorder&&) noexcept = default;
SpanRecorder& SpanRecorder::operator=(SpanRecorder&&) noexcept = default;
SpanRecorder::~SpanRecorder() = default;

Instruments SpanRecorder::instruments(int rank) const { return state_->instruments(rank); }
void SpanRecorder::clear() { state_->clear(); }
Trace SpanRecorder::read() { return state_->read(); }

}  // namespace xstage::trace
