#include "node/cuda/discovery.hpp"

#include <cuda_runtime_api.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <ctime>

#include "device/device_memory.hpp"
#include "xstage/cuda_node.hpp"
#include "xstage/error.hpp"
#include "xstage/version.hpp"

namespace xstage {
namespace cuda {
namespace {

std::string version_text(int version) { return fmt::format("{}.{}", version / 1000, version % 1000 / 10); }

std::string utc_date() {
  const std::time_t now = std::chrono::system_clock::to_time_t(std::chrono::system_clock::now());
  std::tm parts{};
  gmtime_r(&now, &parts);
  std::array<char, 32> text{};
  std::strftime(text.data(), text.size(), "%Y-%m-%dT%H:%M:%SZ", &parts);
  return text.data();
}

Device describe_device(int index) {
  cudaDeviceProp properties{};
  check(cudaGetDeviceProperties(&properties, index), fmt::format("reading the properties of GPU {}", index));
  int clock_khz = 0;
  check(cudaDeviceGetAttribute(&clock_khz, cudaDevAttrClockRate, index), "reading the SM clock");
  Device device;
  device.name = properties.name;
  device.multiprocessors = properties.multiProcessorCount;
  device.compute_capability = properties.major * 10 + properties.minor;
  device.memory_bytes = static_cast<std::int64_t>(properties.totalGlobalMem);
  device.clock_mhz = clock_khz / 1000.0;
  return device;
}

/// "h200x2" from two "NVIDIA H200": the last word of the first device's name and how many there are.
std::string node_name(const std::vector<Device>& devices) {
  std::string name = devices.front().name.substr(devices.front().name.rfind(' ') + 1);
  std::transform(name.begin(), name.end(), name.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return fmt::format("{}x{}", name, devices.size());
}

}  // namespace

int device_count() {
  int driver = 0;
  int runtime = 0;
  check(cudaDriverGetVersion(&driver), "asking for the driver's version");
  check(cudaRuntimeGetVersion(&runtime), "asking for the runtime's version");
  if (driver == 0) {
    throw DeviceError("no NVIDIA driver is loaded: install one, or use --node simulated:h200x2");
  }
  if (driver / 1000 < runtime / 1000) {
    throw DeviceError(fmt::format("the driver supports CUDA {}, this build needs {} or later: update the driver",
                                  version_text(driver), version_text(runtime)));
  }
  int count = 0;
  check(cudaGetDeviceCount(&count), "counting GPUs");
  if (count == 0) {
    throw DeviceError("no CUDA device is visible (CUDA_VISIBLE_DEVICES may hide it)");
  }
  return count;
}

std::string pci_bus_id(int device) {
  std::array<char, 32> text{};
  check(cudaDeviceGetPCIBusId(text.data(), static_cast<int>(text.size()), device), "reading a PCI bus id");
  return text.data();
}

bool can_reach(int from, int to) {
  int access = 0;
  check(cudaDeviceCanAccessPeer(&access, from, to), "asking for peer access");
  return access != 0;
}

int maximum_shared_bytes(int device) {
  int bytes = 0;
  check(cudaDeviceGetAttribute(&bytes, cudaDevAttrMaxSharedMemoryPerBlockOptin, device),
        "reading the shared memory size");
  return bytes;
}

NodeDescription describe(const ManagementLibrary* management) {
  NodeDescription node;
  node.kind = "cuda";
  const int count = device_count();
  for (int index = 0; index < count; ++index) {
    node.devices.push_back(describe_device(index));
  }
  node.name = node_name(node.devices);
  node.links = "unknown (NVML is not available)";
  node.driver = "unknown (NVML is not available)";
  if (management != nullptr) {
    node.driver = management->driver_version();
    const auto links = management->links(pci_bus_id(0));
    node.links =
        links ? fmt::format("{} NVLink, {:.2f} GB/s each", links->active_links, links->megabytes_per_second_each / 1000)
              : "no NVLink";
  }
  int runtime = 0;
  check(cudaRuntimeGetVersion(&runtime), "asking for the runtime's version");
  node.cuda = version_text(runtime);
  node.date = utc_date();
  node.tool_version = std::string(xstage::tool_version());
  node.commit = std::string(source_commit());
  return node;
}

}  // namespace cuda

NodeDescription describe_cuda_devices() {
  const auto management = cuda::ManagementLibrary::load();
  return cuda::describe(management.get());
}

std::string missing_peer_access() {
  const int count = cuda::device_count();
  std::string missing;
  for (int from = 0; from < count; ++from) {
    for (int to = 0; to < count; ++to) {
      if (from != to && !cuda::can_reach(from, to)) {
        missing += fmt::format("GPU {} cannot reach the memory of GPU {}\n", from, to);
      }
    }
  }
  return missing;
}

std::string cuda_unavailable_reason() {
  try {
    const int count = cuda::device_count();
    if (count < 2) {
      return "only one GPU is visible; stores to a peer need two (one is enough for --node simulated:h200x2)";
    }
    return missing_peer_access();
  } catch (const DeviceError& error) {
    return error.what();
  }
}

}  // namespace xstage
