#include "gpu/graph_support.hpp"

#include "device/device_memory.hpp"

namespace xstage::gpu_test {

Graph::Graph(int device, cudaStream_t stream, const std::function<void()>& enqueue) : stream_(stream) {
  const cuda::CurrentDevice current(device);
  cudaGraph_t graph = nullptr;
  cuda::check(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal), "beginning a capture");
  enqueue();
  cuda::check(cudaStreamEndCapture(stream, &graph), "ending a capture");
  cuda::check(cudaGraphInstantiate(&executable_, graph, 0), "making a graph");
  cuda::check(cudaGraphDestroy(graph), "destroying a graph");
}

Graph::~Graph() {
  if (executable_ != nullptr) {
    static_cast<void>(cudaGraphExecDestroy(executable_));
  }
}

void Graph::replay() const { cuda::check(cudaGraphLaunch(executable_, stream_), "replaying a graph"); }

void replay(const std::vector<Graph>& graphs, int times) {
  for (int time = 0; time < times; ++time) {
    for (const Graph& graph : graphs) {
      graph.replay();
    }
  }
}

}  // namespace xstage::gpu_test
