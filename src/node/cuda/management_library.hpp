#pragma once
// NVML, loaded at run time: link counters (which verify every measurement), link speed, driver version. The library
// comes with the driver, but its header does not come with every toolkit, so the few entry points in use are declared
// here.

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

namespace xstage::cuda {

struct LinkSummary {
  int active_links = 0;
  double megabytes_per_second_each = 0;
};

class ManagementLibrary {
 public:
  /// Null if the library is missing or does not start; measurements are then not verified by link counters.
  static std::unique_ptr<ManagementLibrary> load();
  ~ManagementLibrary();
  ManagementLibrary(const ManagementLibrary&) = delete;
  ManagementLibrary& operator=(const ManagementLibrary&) = delete;

  [[nodiscard]] std::string driver_version() const;
  /// Payload bytes sent over all NVLinks of a GPU since the driver started; nothing if the GPU does not count them.
  [[nodiscard]] std::optional<double> transmitted_bytes(const std::string& pci_bus_id) const;
  [[nodiscard]] std::optional<LinkSummary> links(const std::string& pci_bus_id) const;

 private:
  struct EntryPoints;
  explicit ManagementLibrary(std::unique_ptr<EntryPoints> entry_points);
  std::unique_ptr<EntryPoints> entry_points_;
};

}  // namespace xstage::cuda
