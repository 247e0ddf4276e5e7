#pragma once
// How every kernel of this library is launched: its attributes, its errors, and a note that it ran.

#include <cuda_runtime_api.h>

#include <cstddef>
#include <string>
#include <type_traits>
#include <vector>

namespace xstage::kernels {

/// What a kernel may take of a multiprocessor's shared memory, the same for all its launches: the attribute belongs to
/// the kernel, and what one handle lowered another would miss.
enum class SharedMemoryUse {
  none,
  dynamic,   // all that a CTA may have
  all_of_l1  // the same, and L1 is shared memory wholly, as the kernels before and after have it: a multiprocessor that
             // divides it anew must be idle first
};

enum class Start {
  behind,       // when the kernel before it in the stream has ended
  overlapping,  // while the kernel before it ends (programmatic stream serialisation): it waits itself for its results
  together      // cooperative: all CTAs are resident at once, or the launch fails. Virtual ranks need it
};

struct LaunchShape {
  dim3 blocks;
  int threads = 1;
  int shared_bytes = 0;
  SharedMemoryUse shared = SharedMemoryUse::none;
  Start start = Start::behind;
  int cluster = 1;  // CTAs, along x
};

/// Loads a kernel on the current device and sets its attributes, once for each device. Who makes a handle calls it: a
/// first launch would load the kernel while another rank's kernel may already wait for this one, and loading may wait
/// for the device. `what` completes "launching ..." in errors.
void load_kernel(const void* kernel, SharedMemoryUse shared, const char* what);

/// Enqueues on the current device, and notes the kernel. `arguments`: the address of each. Throws DeviceError.
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
