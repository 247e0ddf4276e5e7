#pragma once
// Whether what a handle has launched has ended, asked without waiting, after the handle is gone.

#include <cuda_runtime_api.h>

#include <memory>
#include <vector>

namespace xstage::cuda {

/// What was enqueued on some streams up to a moment.
class InFlight {
 public:
  /// From now on; the streams exist. Where one of them cannot be asked (it is being captured, or gone against the
  /// rule), what it holds counts as running for ever.
  InFlight(int device, const std::vector<cudaStream_t>& streams);
  ~InFlight();
  InFlight(const InFlight&) = delete;
  InFlight& operator=(const InFlight&) = delete;

  /// Once true, always true.
  [[nodiscard]] bool ended();

 private:
  void add(cudaStream_t stream);

  std::vector<cudaEvent_t> events_;
  bool unknown_ = false;
};

/// The streams that a handle launches on. They must exist as long as the handle.
class LaunchStreams {
 public:
  void note(cudaStream_t stream);
  /// At the end of the handle.
  [[nodiscard]] std::shared_ptr<InFlight> in_flight(int device) const;

 private:
  std::vector<cudaStream_t> streams_;
};

}  // namespace xstage::cuda
