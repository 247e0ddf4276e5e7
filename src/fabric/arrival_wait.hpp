#pragma once
// The wait for peers as a kernel of its own: for calls that end without it (Completion::sent).

#include <cuda_runtime_api.h>

#include <cstdint>

#include "fabric/call_parameters.hpp"

namespace xstage::kernels {

/// Loads the kernel on the current device, so that no launch has to while another rank waits.
void load_arrival_wait();

/// Enqueues, on the current device, a kernel that ends when all that peers store here in the last call before it in the
/// stream has arrived. `posts_each`: how often each peer posts in a call.
void launch_arrival_wait(const CallParameters& parameters, std::uint32_t posts_each, cudaStream_t stream);

}  // namespace xstage::kernels
