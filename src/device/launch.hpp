#pragma once
// The one way to launch a kernel of this library: it sets attributes, checks errors, and records that the kernel ran.

#include <cuda_runtime_api.h>

#include <cstddef>
#include <string>
#include <type_traits>
#include <vector>

namespace xstage::kernels {

/// How much of a multiprocessor's shared memory a kernel may take. The choice is the same for all launches of a kernel:
/// the attribute belongs to the kernel, so that a handle that lowered it would break the launches of another handle.
enum class SharedMemoryUse {
  none,
  dynamic,   // as much as a CTA may have
  all_of_l1  // as dynamic, and all of L1 becomes shared memory, as for the kernels before and after: a multiprocessor
             // must be idle before it divides L1 anew
};

enum class Start {
  behind,       // the kernel starts when the kernel before it in the stream has ended
  overlapping,  // the kernel starts while the one before it ends (programmatic stream serialisation), and waits itself
                // for its results
  together      // cooperative: all CTAs are resident at once, or the launch fails. Virtual ranks need it
};

struct LaunchShape {
  dim3 blocks;
  int threads = 1;
  int shared_bytes = 0;
  SharedMemoryUse shared = SharedMemoryUse::none;
  Start start = Start::behind;
  int cluster = 1;  // CTAs of a cluster, along x
};

/// Loads a kernel on the current device and sets its attributes, once for each device. The constructor of a handle
/// calls it, because a first launch would load the kernel while another rank's kernel may already wait for this one,
/// and loading may wait for the device. `what` completes "launching ..." in errors.
void load_kernel(const void* kernel, SharedMemoryUse shared, const char* what);

/// Enqueues the kernel on the current device and records its name. `arguments` holds the address of each argument.
/// Throws DeviceError.
void launch_kernel(const void* kernel, const LaunchShape& shape, cudaStream_t stream, const char* what,
                   void** arguments);

template <class... Parameters>
void load_kernel(void (*kernel)(Parameters...), SharedMemoryUse shared, const char* what) {
  load_kernel(reinterpret_cast<const void*>(kernel), shared, what);
}

template <class... Parameters>
void launch_kernel(void (*kernel)(Parameters...), const LaunchShape& shape, cudaStream_t stream, const char* what,
                   const std::type_identity_t<Parameters>&... arguments) {
  void* addresses[] = {const_cast<void*>(static_cast<const void*>(&arguments))...};
  launch_kernel(reinterpret_cast<const void*>(kernel), shape, stream, what, addresses);
}

/// Mangled names of the kernels that this process has launched, each once, in the order of their first launch.
[[nodiscard]] std::vector<std::string> launched_kernels();

}  // namespace xstage::kernels
