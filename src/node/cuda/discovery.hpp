#pragma once
// Describes the machine, for `xstage devices`, for the construction of the node, and for provenance.

#include <string>
#include <vector>

#include "node/cuda/management_library.hpp"
#include "xstage/node.hpp"

namespace xstage::cuda {

[[nodiscard]] int device_count();  // throws DeviceError with the reason if there is none or the driver is too old
[[nodiscard]] std::string pci_bus_id(int device);
[[nodiscard]] bool can_reach(int from, int to);
[[nodiscard]] NodeDescription describe(const ManagementLibrary* management);
/// Largest dynamic shared memory of one CTA.
[[nodiscard]] int maximum_shared_bytes(int device);

}  // namespace xstage::cuda
