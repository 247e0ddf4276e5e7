#include "node/cuda/launch_memory.hpp"

namespace xstage::cuda {

LaunchMemory::LaunchMemory(int device_index, int multiprocessors)
    : device(device_index),
      stream(device_index),
      receive(device_index, receive_bytes, "the buffer that peers store into"),
      filler(device_index, filler_bytes, "the buffer that gap fillers read"),
      log(device_index, sizeof(LoggedBurst) * static_cast<std::size_t>(multiprocessors) * maximum_bursts,
          "the burst log"),
      clocks(device_index, sizeof(ProducerClock) * static_cast<std::size_t>(multiprocessors), "the producers' clocks"),
      sender_clocks(device_index, sizeof(ProducerClock) * maximum_producers, "the senders' clocks"),
      control(device_index, sizeof(Control), "launch control") {
  filler.clear(stream.get());
}

}  // namespace xstage::cuda
