#include "ops/gemm/device/copy_gather.hpp"

#include <algorithm>

#include "device/device_memory.hpp"

namespace xstage::kernels {

namespace {

constexpr std::int64_t element_bytes = 2;

}  // namespace

CopyGather::CopyGather(int device, const CopyGatherShape& shape, const PeerView& gathered, const CallParameters& call)
    : device_(device), shape_(shape), gathered_(gathered), call_(call) {
  const cuda::CurrentDevice current(device_);
  cuda::check(cudaStreamCreateWithFlags(&copies_, cudaStreamNonBlocking), "creating the stream of the copy engine");
  cuda::check(cudaEventCreateWithFlags(&gate_passed_, cudaEventDisableTiming), "creating an event");
  cuda::check(cudaEventCreateWithFlags(&copies_done_, cudaEventDisableTiming), "creating an event");
}

CopyGather::~CopyGather() {
  static_cast<void>(cudaEventDestroy(copies_done_));
  static_cast<void>(cudaEventDestroy(gate_passed_));
  static_cast<void>(cudaStreamDestroy(copies_));
}

void CopyGather::start(const GemmLaunch& launch, const void* shard, cudaStream_t stream) {
  launch_gate(launch, stream);
  cuda::check(cudaEventRecord(gate_passed_, stream), "recording the gate");
  cuda::check(cudaStreamWaitEvent(copies_, gate_passed_), "starting the copies behind the gate");
  for (int depth_chunk = 0; depth_chunk < shape_.chunks.depth_chunks; ++depth_chunk) {
    for (int row_chunk = 0; row_chunk < shape_.chunks.row_chunks; ++row_chunk) {
      copy_chunk(shard, row_chunk, depth_chunk);
    }
  }
  copy_word(call_.signals[call_.rank] + CallPad::sent);
  cuda::check(cudaEventRecord(copies_done_, copies_), "recording the end of the copies");
}

void CopyGather::join(cudaStream_t stream) {
  cuda::check(cudaStreamWaitEvent(stream, copies_done_), "waiting for the copies");
}

void CopyGather::copy_chunk(const void* shard, int row_chunk, int depth_chunk) {
  const std::int64_t first_row = std::int64_t{row_chunk} * shape_.chunks.chunk_rows;
  const std::int64_t first_depth = std::int64_t{depth_chunk} * shape_.chunks.chunk_depth;
  const std::int64_t rows = std::min<std::int64_t>(shape_.chunks.chunk_rows, shape_.rows - first_row);
  const std::int64_t depth = std::min<std::int64_t>(shape_.chunks.chunk_depth, shape_.depth - first_depth);
  if (rows <= 0 || depth <= 0) {
    return;
  }
  const auto pitch = static_cast<std::size_t>(shape_.depth * element_bytes);
  const auto* from = static_cast<const char*>(shard) + (first_row * shape_.depth + first_depth) * element_bytes;
  const std::int64_t flag =
      (std::int64_t{call_.rank} * shape_.chunks.row_chunks + row_chunk) * shape_.chunks.depth_chunks + depth_chunk;
  for (int step = 1; step < call_.world; ++step) {
    const int peer = (call_.rank + step) % call_.world;
    char* to = gathered_.base[peer] + ((shape_.first_row + first_row) * shape_.depth + first_depth) * element_bytes;
    cuda::check(cudaMemcpy2DAsync(to, pitch, from, pitch, static_cast<std::size_t>(depth * element_bytes),
                                  static_cast<std::size_t>(rows), cudaMemcpyDefault, copies_),
                "copying a chunk to a peer");
    copy_word(call_.signals[peer] + CallPad::arrivals + flag);
  }
}

/// Copies the epoch of this call from the device's own word.
void CopyGather::copy_word(std::uint32_t* to) {
  const std::uint32_t* epoch = call_.signals[call_.rank] + CallPad::epochs;
  cuda::check(cudaMemcpyAsync(to, epoch, sizeof(std::uint32_t), cudaMemcpyDefault, copies_), "copying a flag");
}

}  // namespace xstage::kernels
