#include "bench/cuda/start_gate.hpp"

#include <cuda.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <string>

#include "device/device_memory.hpp"
#include "xstage/error.hpp"

namespace xstage::bench {

namespace {

constexpr auto longest_shut = std::chrono::milliseconds(500);

using WaitValue = CUresult (*)(CUstream, CUdeviceptr, cuuint32_t, unsigned int);

/// Finds the driver's function through the runtime: libcuda is not linked, so that the tool starts without a driver.
WaitValue wait_value() {
  static const WaitValue function = [] {
    void* address = nullptr;
    cudaDriverEntryPointQueryResult found{};
    cuda::check(cudaGetDriverEntryPointByVersion("cuStreamWaitValue32", &address, 12000, cudaEnableDefault, &found),
                "looking up cuStreamWaitValue32");
    if (found != cudaDriverEntryPointSuccess) {
      throw DeviceError("the driver has no cuStreamWaitValue32: it must be of CUDA 12 or later");
    }
    return reinterpret_cast<WaitValue>(address);
  }();
  return function;
}

}  // namespace

StartGate::StartGate() {
  void* memory = nullptr;
  cuda::check(cudaHostAlloc(&memory, sizeof(*opened_), cudaHostAllocPortable | cudaHostAllocMapped),
              "allocating the start gate");
  opened_ = static_cast<std::uint32_t*>(memory);
  *opened_ = 0;
}

StartGate::~StartGate() { static_cast<void>(cudaFreeHost(opened_)); }

void StartGate::hold(cudaStream_t stream) const {
  if (given_up_) {
    return;
  }
  const CUresult result =
      wait_value()(stream, reinterpret_cast<CUdeviceptr>(opened_), round_, CU_STREAM_WAIT_VALUE_GEQ);
  if (result != CUDA_SUCCESS) {
    throw DeviceError("the driver refused to let a stream wait for the host (cuStreamWaitValue32, error " +
                      std::to_string(static_cast<int>(result)) + ")");
  }
}

void StartGate::open() { std::atomic_ref<std::uint32_t>(*opened_).store(round_, std::memory_order_release); }

void StartGate::give_up() {
  given_up_ = true;
  open();
}

ShutGate::ShutGate(StartGate& gate) : gate_(gate) {
  gate_.shut();
  watchdog_ = std::jthread([&gate](const std::stop_token& stop) {
    std::mutex mutex;
    std::condition_variable_any never;
    std::unique_lock lock(mutex);
    never.wait_for(lock, stop, longest_shut, [] { return false; });
    if (!stop.stop_requested()) {
      gate.give_up();
    }
  });
}

ShutGate::~ShutGate() {
  gate_.open();
  watchdog_.request_stop();
}

}  // namespace xstage::bench
