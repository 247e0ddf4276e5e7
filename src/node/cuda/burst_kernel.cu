// The burst kernel: K producers, each one CTA on its own SM, store B bytes to a peer GPU, compute for a gap, and
// repeat.
//
//   source GPU, producer p                         destination GPU, [slots][producers][stride]
//   | align | burst 0 | gap | burst 1 | gap | ...  slot 0: p0 p1 .. pK | slot 1: p0 p1 .. pK | ...
//           ^start    ^issued      (^visible)      burst n of producer p -> slot n mod slots
//
// Times are SM cycles. They are logged in shared memory and written out at the end, so that the log stores nothing
// while bursts are in flight. %globaltimer at both ends ties the SMs' counters together.

#include "node/cuda/burst_kernel.hpp"
#include "node/cuda/gap_fillers.cuh"
#include "node/cuda/stores.cuh"
#include "node/cuda/waits.cuh"

namespace xstage::cuda {
namespace {

extern __shared__ __align__(128) char shared_memory[];

/// Barrier of the CTA that has completed when it returns; returns false if any thread passes false. ptxas compiles
/// __syncthreads() to BAR.SYNC.DEFER_BLOCKING, and a clock read behind it runs ahead of the barrier: the issue time was
/// then that of the reading thread's own warp (with bulk copies, read by a thread that issues none: 0.05 us at any
/// size). The clock cannot run ahead of the result of a reduction that decides a branch.
__device__ bool barrier(bool proceed) { return __syncthreads_and(static_cast<int>(proceed)) != 0; }

/// Aligns the start times of all producers if the launch asks for it. Returns false if a wait was aborted and the CTA
/// must leave.
__device__ bool align(bool wanted, std::uint32_t& generation, const BurstParameters& parameters) {
  if (!wanted) {
    return true;
  }
  ++generation;
  bool arrived = true;
  if (threadIdx.x == 0) {
    arrived = grid_barrier(generation, parameters);
  }
  return barrier(arrived);
}

/// Destination of the next burst. Slots and destinations advance by one for each burst. They are counters, since
/// divisions would stretch the shortest gap by 0.2 us.
struct NextDestination {
  int slot = 0;
  int destination;

  __device__ explicit NextDestination(const BurstParameters& parameters)
      : destination(static_cast<int>(blockIdx.x) % parameters.destination_count) {}

  __device__ char* address(const BurstParameters& parameters) const {
    const std::int64_t row =
        static_cast<std::int64_t>(slot) * parameters.producers + static_cast<std::int64_t>(blockIdx.x);
    // A run-time index into the parameters compiles to a load, and loads queue behind the stores of the previous burst.
    char* base = parameters.destination_count == 1 ? parameters.destinations[0] : parameters.destinations[destination];
    return base + row * parameters.stride_bytes;
  }

  __device__ void advance(const BurstParameters& parameters) {
    slot = slot + 1 == parameters.slots ? 0 : slot + 1;
    destination = destination + 1 == parameters.destination_count ? 0 : destination + 1;
  }
};

template <StorePath Path>
__device__ void issue_burst(char* destination, std::uint32_t base, const char* bulk_source,
                            const BurstParameters& parameters) {
  if constexpr (Path == StorePath::bulk) {
    if (threadIdx.x == 0) {
      bulk_burst(destination, parameters.bytes, bulk_source);
    }
  } else {
    constexpr int words = Path == StorePath::store4 ? 1 : Path == StorePath::store8 ? 2 : 4;
    store_burst<words>(destination, parameters.bytes, base);
  }
}

/// After the barrier one thread's fence covers the stores of the whole CTA (causality order is cumulative), as in a
/// kernel that is about to raise a flag. With a fence in every thread the result is 1.2 us longer, since the fences of
/// eight warps queue behind each other.
template <StorePath Path>
__device__ void wait_until_visible() {
  __syncthreads();
  if (threadIdx.x == 0) {
    if constexpr (Path == StorePath::bulk) {
      wait_for_bulk_writes();
    }
    __threadfence_system();
  }
}

/// Copies the log from shared memory to the memory that the host reads, with the clock that places it in time.
__device__ void hand_over(const LoggedBurst* log, const ProducerClock& clock, const BurstParameters& parameters) {
  LoggedBurst* destination = parameters.log + static_cast<std::int64_t>(blockIdx.x) * parameters.bursts;
  for (std::uint32_t index = threadIdx.x; index < clock.bursts; index += blockDim.x) {
    destination[index] = log[index];
  }
  if (threadIdx.x == 0) {
    parameters.clocks[blockIdx.x] = clock;
  }
}

template <StorePath Path>
__global__ void __launch_bounds__(1024, 1) burst_kernel(const __grid_constant__ BurstParameters parameters) {
  auto* log = reinterpret_cast<LoggedBurst*>(shared_memory + (Path == StorePath::bulk ? bulk_source_bytes : 0));
  const bool leader = threadIdx.x == 0;
  const bool logger = threadIdx.x == blockDim.x - 1;
  if constexpr (Path == StorePath::bulk) {
    fill_bulk_source(shared_memory, payload_base(parameters.seed, blockIdx.x, 0));
  }

  std::uint32_t generation = 0;
  std::uint64_t memory_position = static_cast<std::uint64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  std::uint32_t filler_result = 0;
  bool running = true;
  if (blockIdx.x == 0 && leader) {
    running = peer_rendezvous(parameters);
  }
  running = barrier(running) && align(true, generation, parameters);

  const std::uint64_t start_cycle = cycle();
  const std::uint64_t start_nanosecond = global_nanosecond();
  std::uint64_t last_cycle = start_cycle;
  int burst = 0;
  int position_in_train = 0;
  NextDestination next(parameters);
  // A burst is logged behind the stores of the next one. If it was logged at once, the shared-memory store waited
  // behind the burst's last stores in the SM's own queue (up to 1.7 us for 16-byte stores), and that wait counted as
  // gap. If it was logged before the next burst's stores, it added 40 ns to T_iss0.
  LoggedBurst entry{};
  while (running && burst < parameters.bursts) {
    if (parameters.stop_cycles != 0 && __syncthreads_or(leader && last_cycle - start_cycle > parameters.stop_cycles)) {
      break;
    }
    // The address is computed before the clock is read, since that is not issue time (it took 60 ns).
    char* destination = next.address(parameters);
    const std::uint32_t base = payload_base(parameters.seed, blockIdx.x, static_cast<std::uint32_t>(burst));
    running = align(parameters.align_every_burst || position_in_train == 0, generation, parameters);
    if (!running) {
      break;
    }
    const std::uint64_t start = cycle();
    issue_burst<Path>(destination, base, shared_memory, parameters);
    if (logger && burst > 0) {
      log[burst - 1] = entry;
    }
    running = barrier(running);
    if (!running) {
      break;
    }
    const std::uint64_t issued = cycle();
    std::uint64_t visible = start_cycle;
    const bool last_of_train = position_in_train + 1 == parameters.train_length;
    if (parameters.measure_visible || last_of_train) {
      wait_until_visible<Path>();
      running = barrier(running);
      if (!running) {
        break;
      }
      visible = cycle();
    }
    entry = {static_cast<std::uint32_t>(start - start_cycle), static_cast<std::uint32_t>(issued - start_cycle),
             static_cast<std::uint32_t>(visible - start_cycle)};
    const std::uint32_t pause = last_of_train ? parameters.drain_cycles : parameters.gap_cycles;
    filler_result ^= fill_gap((last_of_train ? visible : issued) + pause, parameters, memory_position);
    running = barrier(running);
    last_cycle = cycle();
    ++burst;
    next.advance(parameters);
    position_in_train = last_of_train ? 0 : position_in_train + 1;
  }

  const std::uint64_t end_cycle = cycle();
  const std::uint64_t end_nanosecond = global_nanosecond();
  if (logger && burst > 0) {
    log[burst - 1] = entry;
  }
  __syncthreads();
  if constexpr (Path == StorePath::bulk) {
    if (leader) {
      wait_for_bulk_writes();  // the source must outlive the copies that read it
    }
  }
  hand_over(log, {start_cycle, start_nanosecond, end_cycle, end_nanosecond, static_cast<std::uint32_t>(burst)},
            parameters);
  if (filler_result == 0xFFFFFFFFU) {
    *parameters.sink = filler_result;
  }
}

const void* kernel_of(StorePath path) {
  switch (path) {
    case StorePath::store4:
      return reinterpret_cast<const void*>(&burst_kernel<StorePath::store4>);
    case StorePath::store8:
      return reinterpret_cast<const void*>(&burst_kernel<StorePath::store8>);
    case StorePath::store16:
      return reinterpret_cast<const void*>(&burst_kernel<StorePath::store16>);
    case StorePath::bulk:
      break;
  }
  return reinterpret_cast<const void*>(&burst_kernel<StorePath::bulk>);
}

}  // namespace

std::int64_t required_shared_bytes(StorePath path, int bursts) {
  const std::int64_t source = path == StorePath::bulk ? bulk_source_bytes : 0;
  return source + static_cast<std::int64_t>(bursts) * static_cast<std::int64_t>(sizeof(LoggedBurst));
}

cudaError_t allow_shared_memory(StorePath path, int shared_bytes) {
  return cudaFuncSetAttribute(kernel_of(path), cudaFuncAttributeMaxDynamicSharedMemorySize, shared_bytes);
}

cudaError_t launch_bursts(StorePath path, const BurstParameters& parameters, int threads, int shared_bytes,
                          cudaStream_t stream) {
  void* arguments[] = {const_cast<BurstParameters*>(&parameters)};
  return cudaLaunchCooperativeKernel(kernel_of(path), dim3(static_cast<unsigned>(parameters.producers)),
                                     dim3(static_cast<unsigned>(threads)), arguments,
                                     static_cast<std::size_t>(shared_bytes), stream);
}

}  // namespace xstage::cuda
