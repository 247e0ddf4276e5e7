#pragma once
// A kernel that waits for the stores of peers, for calls that end without that wait (Completion::sent).

#include <cuda_runtime_api.h>

#include <cstdint>

#include "fabric/call_parameters.hpp"

namespace xstage::kernels {

/// Loads the kernel on the current device, so that no launch has to load it while another rank waits.
void load_arrival_wait();

/// Enqueues a kernel on the current device that ends when everything that peers store here in the last call before it
/// in the stream has arrived. `posts_each` is the number of posts of each peer in a call.
void launch_arrival_wait(const CallParameters& parameters, std::uint32_t posts_each, cudaStream_t stream);

}  // namespace xstage::kernels
