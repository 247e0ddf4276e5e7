#pragma once
// What the GPU tests share of CUDA graphs: what a rank enqueues, captured and replayed. Common launches of virtual
// ranks copy parameters and wait for them: no graph.

#include <cuda_runtime_api.h>

#include <cstdint>
#include <functional>
#include <utility>
#include <vector>

namespace xstage::gpu_test {

/// What one rank enqueues. A replay enqueues it in the same stream again.
class Graph {
 public:
  Graph(int device, cudaStream_t stream, const std::function<void()>& enqueue);
  Graph(Graph&& other) noexcept : executable_(std::exchange(other.executable_, nullptr)), stream_(other.stream_) {}
  Graph(const Graph&) = delete;
  Graph& operator=(const Graph&) = delete;
  Graph& operator=(Graph&&) = delete;
  ~Graph();
  void replay() const;

 private:
  cudaGraphExec_t executable_ = nullptr;
  cudaStream_t stream_ = nullptr;
};

/// A graph of each rank: what enqueue(rank) puts into the rank's stream.
template <class Ranks>
[[nodiscard]] std::vector<Graph> capture(Ranks& ranks, const std::function<void(int rank)>& enqueue) {
  std::vector<Graph> graphs;
  for (int rank = 0; rank < ranks.count(); ++rank) {
    graphs.emplace_back(ranks.devices()[static_cast<std::size_t>(rank)], ranks.stream(rank), [&] { enqueue(rank); });
  }
  return graphs;
}

/// So many times one replay of each graph.
void replay(const std::vector<Graph>& graphs, int times);

/// Three launches a rank, nothing between them, replayed once, once and three times in a row with other operands each
/// time. Then look(calls, replays so far); results that lie in the heap are those of the last call.
template <class Call, class Case, class Ranks>
void replay_three_launches(const Case& which, Ranks& ranks, std::uint64_t seed,
                           const std::function<void(const std::vector<Call>&, int)>& look) {
  std::vector<Call> calls;
  for (std::uint64_t launch = 0; launch < 3; ++launch) {
    calls.emplace_back(which, ranks.devices(), launch);
  }
  const std::vector<Graph> graphs = capture(ranks, [&](int rank) {
    for (const Call& call : calls) {
      ranks.launch_rank(call, rank);
    }
  });
  int replays = 0;
  for (const int in_a_row : {1, 1, 3}) {
    for (Call& call : calls) {
      call.refill(++seed);
      call.poison();
    }
    replay(graphs, in_a_row);
    for (int rank = 0; rank < ranks.count(); ++rank) {
      ranks.collect(calls.back(), rank);
    }
    ranks.finish();
    replays += in_a_row;
    look(calls, replays);
  }
}

}  // namespace xstage::gpu_test
