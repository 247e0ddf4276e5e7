#pragma once
// Answers whether everything that a handle launched has ended, without waiting, also after the handle is destroyed.

#include <cuda_runtime_api.h>

#include <memory>
#include <vector>

namespace xstage::cuda {

/// The work that was enqueued on some streams up to the construction of this object.
class InFlight {
 public:
  /// Records the work on these streams, which must exist. If a stream cannot be queried, because it is being captured
  /// or was destroyed against the rule, its work counts as running for ever.
  InFlight(int device, const std::vector<cudaStream_t>& streams);
  ~InFlight();
  InFlight(const InFlight&) = delete;
  InFlight& operator=(const InFlight&) = delete;

  /// Whether all of the work has ended. Once true, the answer stays true.
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
  /// The work on all streams, at the end of the handle's life.
  [[nodiscard]] std::shared_ptr<InFlight> in_flight(int device) const;

 private:
  std::vector<cudaStream_t> streams_;
};

}  // namespace xstage::cuda
