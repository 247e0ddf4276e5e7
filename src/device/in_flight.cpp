#include "device/in_flight.hpp"

#include <algorithm>

namespace xstage::cuda {

namespace {

/// Suspends stream capture rules for this thread: a handle may be destroyed or polled while some other stream is
/// captured, and that must not invalidate the capture.
class OutsideCapture {
 public:
  OutsideCapture() { static_cast<void>(cudaThreadExchangeStreamCaptureMode(&mode_)); }
  ~OutsideCapture() { static_cast<void>(cudaThreadExchangeStreamCaptureMode(&mode_)); }
  OutsideCapture(const OutsideCapture&) = delete;
  OutsideCapture& operator=(const OutsideCapture&) = delete;

 private:
  cudaStreamCaptureMode mode_ = cudaStreamCaptureModeRelaxed;
};

bool is_captured(cudaStream_t stream) {
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  const cudaError_t asked = cudaStreamIsCapturing(stream, &status);
  return asked != cudaSuccess || status != cudaStreamCaptureStatusNone;
}

}  // namespace

/// Called from destructors: an error counts as "unknown" and is cleared.
InFlight::InFlight(int device, const std::vector<cudaStream_t>& streams) {
  if (streams.empty()) {
    return;
  }
  const OutsideCapture outside;
  int previous = 0;
  static_cast<void>(cudaGetDevice(&previous));
  static_cast<void>(cudaSetDevice(device));
  for (cudaStream_t stream : streams) {
    add(stream);
  }
  static_cast<void>(cudaSetDevice(previous));
  static_cast<void>(cudaGetLastError());
}

void InFlight::add(cudaStream_t stream) {
  if (is_captured(stream)) {
    unknown_ = true;
    return;
  }
  if (cudaStreamQuery(stream) == cudaSuccess) {
    return;  // an event on an idle stream would be reported complete only some microseconds later
  }
  cudaEvent_t event = nullptr;
  if (cudaEventCreateWithFlags(&event, cudaEventDisableTiming) != cudaSuccess) {
    unknown_ = true;
  } else if (cudaEventRecord(event, stream) != cudaSuccess) {
    static_cast<void>(cudaEventDestroy(event));
    unknown_ = true;
  } else {
    events_.push_back(event);
  }
}

InFlight::~InFlight() {
  for (cudaEvent_t event : events_) {
    static_cast<void>(cudaEventDestroy(event));
  }
}

bool InFlight::ended() {
  const OutsideCapture outside;
  std::erase_if(events_, [](cudaEvent_t event) {
    const bool complete = cudaEventQuery(event) == cudaSuccess;
    if (complete) {
      static_cast<void>(cudaEventDestroy(event));
    } else {
      static_cast<void>(cudaGetLastError());  // CUDA keeps "not ready" as an error, too
    }
    return complete;
  });
  return events_.empty() && !unknown_;
}

void LaunchStreams::note(cudaStream_t stream) {
  if (std::find(streams_.begin(), streams_.end(), stream) == streams_.end()) {
    streams_.push_back(stream);
  }
}

std::shared_ptr<InFlight> LaunchStreams::in_flight(int device) const {
  return std::make_shared<InFlight>(device, streams_);
}

}  // namespace xstage::cuda
