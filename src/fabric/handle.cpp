#include "fabric/handle.hpp"

#include <cuda_runtime_api.h>
#include <fmt/format.h>

#include <cstdint>
#include <exception>
#include <functional>
#include <utility>

#include "device/device_memory.hpp"
#include "device/device_setup.hpp"
#include "fabric/arrival_wait.hpp"
#include "fabric/wait_report_text.hpp"
#include "xstage/error.hpp"

namespace xstage::kernels {

namespace {

int attribute(int device, cudaDeviceAttr which) {
  int value = 0;
  cuda::check(cudaDeviceGetAttribute(&value, which, device), "asking a GPU for an attribute");
  return value;
}

}  // namespace

int multiprocessors(int device) { return attribute(device, cudaDevAttrMultiProcessorCount); }

void require_hopper(int device) {
  const int major = attribute(device, cudaDevAttrComputeCapabilityMajor);
  const int minor = attribute(device, cudaDevAttrComputeCapabilityMinor);
  if (major != 9 || minor != 0) {
    throw DeviceError(fmt::format("GPU {} has compute capability {}.{}: the kernels need 9.0", device, major, minor));
  }
}

void check_operand(const char* name, const void* pointer) {
  if (pointer == nullptr) {
    throw InputError(fmt::format("operand {} is null: this operation needs it", name));
  }
  if (reinterpret_cast<std::uintptr_t>(pointer) % 16 != 0) {
    throw InputError(fmt::format("operand {} is at {}: it must be aligned to 16 bytes", name, pointer));
  }
}

void check_time_out(std::chrono::microseconds time_out) {
  using namespace std::chrono_literals;
  if (time_out <= 0us || time_out > 1h) {
    throw InputError(
        fmt::format("a time-out of {} us: it must be more than 0 and at most an hour, since no wait may last for ever",
                    time_out.count()));
  }
}

void HeapBuffers::release(const std::shared_ptr<cuda::InFlight>& launches) {
  for (const SymmetricBuffer& buffer : buffers_) {
    try {
      heap_.release(
          buffer, launches == nullptr ? std::function<bool()>() : [launches] { return launches->ended(); });
    } catch (const std::exception&) {
      // This can fail only for lack of memory, and a destructor must not throw: the buffer then stays allocated.
    }
  }
  buffers_.clear();
}

SymmetricBuffer HeapBuffers::take(const std::string& tag, std::size_t bytes) {
  buffers_.push_back(heap_.allocate(tag, bytes));
  return buffers_.back();
}

CollectiveHandle::CollectiveHandle(HeapRank& heap, std::string name, std::size_t arrival_words,
                                   std::chrono::microseconds time_out)
    : heap_(heap),
      name_(std::move(name)),
      memory_(heap.device()),
      buffers_(heap),
      report_(static_cast<WaitReport*>(memory_.take_pinned())) {
  static_assert(sizeof(WaitReport) <= cuda::HandleMemory::pinned_bytes);
  check_time_out(time_out);
  pad_ = take("signals", pad_bytes(arrival_words));
  const PeerView view = heap_.view(pad_);
  for (int rank = 0; rank < heap_.world(); ++rank) {
    parameters_.signals[rank] = reinterpret_cast<std::uint32_t*>(view.base[rank]);
  }
  parameters_.time_out_ns = static_cast<std::uint64_t>(time_out.count()) * 1000;
  parameters_.rank = heap_.rank();
  parameters_.world = heap_.world();
  parameters_.report = report_;
  const cuda::CurrentDevice current(heap_.device());
  load_arrival_wait();
  restore();
}

SymmetricBuffer CollectiveHandle::take(const char* tag, std::size_t bytes) {
  return buffers_.take(name_ + " " + tag, bytes);
}

void CollectiveHandle::finish_setup() { steps_ = heap_.steps(); }

std::size_t CollectiveHandle::pad_bytes(std::size_t arrival_words) {
  return (CallPad::arrivals + arrival_words) * sizeof(std::uint32_t);
}

void CollectiveHandle::prepare(int blocks) {
  check();
  if (!complete_) {
    heap_.check_complete(steps_);
    complete_ = true;
  }
  if (blocks_ != 0 && blocks_ != blocks) {
    throw InputError(
        fmt::format("this handle has been launched with {} CTAs, now with {}: use launch or launch_together, not both",
                    blocks_, blocks));
  }
}

void CollectiveHandle::launched(int blocks, CUstream_st* stream) {
  blocks_ = blocks;
  used_on(stream);
}

void CollectiveHandle::await_arrival(int posts, CUstream_st* stream) {
  check();
  if (blocks_ == 0) {
    throw InputError(fmt::format("{}: await_arrival waits for what a launch stores: launch first", name_));
  }
  const cuda::CurrentDevice current(heap_.device());
  launch_arrival_wait(parameters_, static_cast<std::uint32_t>(posts * blocks_), stream);
  used_on(stream);
}

void CollectiveHandle::check() const {
  if (static_cast<const volatile WaitReport*>(report_)->raised == 2U) {
    throw DeviceError(fmt::format("{}: {}", name_, describe(*report_)));
  }
}

void CollectiveHandle::synchronise() const {
  const cuda::CurrentDevice current(heap_.device());
  cuda::check(cudaDeviceSynchronize(), "waiting for the GPU");
}

void CollectiveHandle::restore() {
  cuda::DeviceSetup& setup = cuda::DeviceSetup::of(heap_.device());
  setup.fill(heap_.local(pad_), 0x00, pad_.bytes);
  const std::vector<std::uint32_t> first_epochs(CallPad::most_blocks, 1U);
  setup.copy(static_cast<std::uint32_t*>(heap_.local(pad_)) + CallPad::epochs, first_epochs.data(),
             first_epochs.size() * sizeof(std::uint32_t));
  setup.wait();
  *report_ = WaitReport{};
}

}  // namespace xstage::kernels
