#include "node/cuda/management_library.hpp"

#include <dlfcn.h>

#include <array>
#include <limits>

namespace xstage::cuda {

// ABI of nvml.h (stable since NVML 11): names and values as in NVIDIA's NVML reference.
using NvmlDevice = void*;
struct NvmlFieldValue {
  unsigned field_id;
  unsigned scope_id;
  long long timestamp;
  long long latency_us;
  int value_type;
  int status;
  union {
    double as_double;
    unsigned as_unsigned;
    unsigned long as_unsigned_long;
    unsigned long long as_unsigned_long_long;
  } value;
};

namespace {

constexpr unsigned field_transmitted_payload = 138;  // NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_TX, KiB
constexpr unsigned field_link_speed = 164;           // NVML_FI_DEV_NVLINK_GET_SPEED, MB/s of the link in the scope
constexpr unsigned maximum_links = 18;               // NVML_NVLINK_MAX_LINKS
constexpr unsigned all_links = std::numeric_limits<unsigned>::max();
constexpr int type_unsigned = 1;
constexpr int type_unsigned_long = 2;
constexpr int type_unsigned_long_long = 3;

template <typename Function>
bool resolve(void* library, const char* name, Function& function) {
  function = reinterpret_cast<Function>(dlsym(library, name));
  return function != nullptr;
}

std::optional<double> value_of(const NvmlFieldValue& field) {
  if (field.status != 0) {
    return std::nullopt;
  }
  switch (field.value_type) {
    case type_unsigned:
      return static_cast<double>(field.value.as_unsigned);
    case type_unsigned_long:
      return static_cast<double>(field.value.as_unsigned_long);
    case type_unsigned_long_long:
      return static_cast<double>(field.value.as_unsigned_long_long);
    default:
      return std::nullopt;
  }
}

}  // namespace

struct ManagementLibrary::EntryPoints {
  void* library = nullptr;
  int (*initialise)() = nullptr;
  int (*shut_down)() = nullptr;
  int (*driver_version)(char*, unsigned) = nullptr;
  int (*device_by_bus_id)(const char*, NvmlDevice*) = nullptr;
  int (*field_values)(NvmlDevice, int, NvmlFieldValue*) = nullptr;
  int (*link_state)(NvmlDevice, unsigned, int*) = nullptr;

  [[nodiscard]] std::optional<double> field(const std::string& pci_bus_id, unsigned id, unsigned scope) const {
    NvmlDevice device = nullptr;
    if (device_by_bus_id(pci_bus_id.c_str(), &device) != 0) {
      return std::nullopt;
    }
    NvmlFieldValue request{};
    request.field_id = id;
    request.scope_id = scope;
    if (field_values(device, 1, &request) != 0) {
      return std::nullopt;
    }
    return value_of(request);
  }
};

ManagementLibrary::ManagementLibrary(std::unique_ptr<EntryPoints> entry_points)
    : entry_points_(std::move(entry_points)) {}

ManagementLibrary::~ManagementLibrary() {
  entry_points_->shut_down();
  dlclose(entry_points_->library);
}

std::unique_ptr<ManagementLibrary> ManagementLibrary::load() {
  auto entry_points = std::make_unique<EntryPoints>();
  EntryPoints& points = *entry_points;
  points.library = dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);
  if (points.library == nullptr) {
    return nullptr;
  }
  const bool complete = resolve(points.library, "nvmlInit_v2", points.initialise) &&
                        resolve(points.library, "nvmlShutdown", points.shut_down) &&
                        resolve(points.library, "nvmlSystemGetDriverVersion", points.driver_version) &&
                        resolve(points.library, "nvmlDeviceGetHandleByPciBusId_v2", points.device_by_bus_id) &&
                        resolve(points.library, "nvmlDeviceGetFieldValues", points.field_values) &&
                        resolve(points.library, "nvmlDeviceGetNvLinkState", points.link_state);
  if (!complete || points.initialise() != 0) {
    dlclose(points.library);
    return nullptr;
  }
  return std::unique_ptr<ManagementLibrary>(new ManagementLibrary(std::move(entry_points)));
}

std::string ManagementLibrary::driver_version() const {
  std::array<char, 96> text{};
  return entry_points_->driver_version(text.data(), static_cast<unsigned>(text.size())) == 0 ? text.data() : "unknown";
}

std::optional<double> ManagementLibrary::transmitted_bytes(const std::string& pci_bus_id) const {
  const auto kibibytes = entry_points_->field(pci_bus_id, field_transmitted_payload, all_links);
  return kibibytes ? std::optional<double>(*kibibytes * 1024) : std::nullopt;
}

std::optional<LinkSummary> ManagementLibrary::links(const std::string& pci_bus_id) const {
  NvmlDevice device = nullptr;
  if (entry_points_->device_by_bus_id(pci_bus_id.c_str(), &device) != 0) {
    return std::nullopt;
  }
  LinkSummary summary;
  for (unsigned link = 0; link < maximum_links; ++link) {
    int active = 0;
    if (entry_points_->link_state(device, link, &active) == 0 && active != 0) {
      ++summary.active_links;
      summary.megabytes_per_second_each = entry_points_->field(pci_bus_id, field_link_speed, link).value_or(0);
    }
  }
  return summary.active_links > 0 ? std::optional<LinkSummary>(summary) : std::nullopt;
}

}  // namespace xstage::cuda
