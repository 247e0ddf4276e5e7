#include "bench/cuda/gemm_variants.hpp"

#include <algorithm>
#include <chrono>

#include "bench/cuda/local_twin.hpp"
#include "bench/gemm_spans.hpp"

namespace xstage::bench {

namespace {

/// All ranks of a benchmark start together, and no call takes that long: what waits longer waits in vain.
constexpr std::chrono::seconds time_out{2};

int multiprocessors(int device) {
  int count = 0;
  cuda::check(cudaDeviceGetAttribute(&count, cudaDevAttrMultiProcessorCount, device), "asking for multiprocessors");
  return count;
}

gemm::Problem problem_of_rank(const GemmCell& cell) {
  const GemmShape shape = shape_of_rank(cell);
  gemm::Problem problem;
  problem.m = shape.m;
  problem.n = shape.n;
  problem.k = shape.k;
  return problem;
}

class Alone final : public GemmHandles {
 public:
  explicit Alone(const CellResources& resources) {
    const gemm::Problem problem = problem_of_rank(resources.cell);
    for (int rank = 0; rank < resources.ranks.count(); ++rank) {
      const int device = resources.ranks.device(rank);
      const Plan plan = gemm::make_plan(problem, 1, multiprocessors(device));
      heaps_.push_back(PeerAccessHeap::create({device}, gemm::heap_bytes(problem, plan, 1)));
      handles_.push_back(std::make_unique<Gemm>(heaps_.back().rank(0), problem, plan, time_out));
      launched_.push_back(handles_.back().get());
    }
  }
};

/// Of the operation among ranks.
Plan shared_plan(const CellResources& resources) {
  return choose_plan(resources.cell.problem, resources.ranks.count(), multiprocessors(resources.ranks.device(0)),
                     resources.plan);
}

class Fused final : public GemmHandles {
 public:
  explicit Fused(const CellResources& resources) {
    const gemm::Problem& problem = resources.cell.problem;
    const int world = resources.ranks.count();
    const Plan plan = shared_plan(resources);
    heaps_.push_back(
        PeerAccessHeap::create(resources.ranks.devices(), gemm::heap_bytes(problem, plan, world) + recorder_bytes));
    for (int rank = 0; rank < world; ++rank) {
      handles_.push_back(std::make_unique<Gemm>(heaps_.back().rank(rank), problem, plan, time_out));
      launched_.push_back(handles_.back().get());
    }
  }
};

class LocalTwin final : public GemmHandles {
 public:
  explicit LocalTwin(const CellResources& resources) {
    const gemm::Problem& problem = resources.cell.problem;
    const int world = resources.ranks.count();
    const Plan plan = shared_plan(resources);
    for (int rank = 0; rank < world; ++rank) {
      const int device = resources.ranks.device(rank);
      const std::vector<int> here(static_cast<std::size_t>(world), device);
      heaps_.push_back(PeerAccessHeap::create(here, gemm::heap_bytes(problem, plan, world)));
      // All ranks take part in making an operation; one of them is launched.
      for (int member = 0; member < world; ++member) {
        handles_.push_back(std::make_unique<Gemm>(heaps_.back().rank(member), problem, plan, time_out));
      }
      Gemm* launched = handles_[handles_.size() - static_cast<std::size_t>(world - rank)].get();
      launched_.push_back(launched);
      stand_in_for_peers(heaps_.back().rank(rank), *launched, resources.random);
    }
  }
};

}  // namespace

Variant GemmHandles::variant(const char* name, const CellResources& resources) {
  const Operands& operands = resources.operands;
  return {name,
          [this, &operands](int rank, int call, cudaStream_t stream) {
            gemm::Operands addresses;
            addresses.a = operands.a(rank, operands.set_of(call));
            addresses.b = operands.b(rank, operands.set_of(call));
            addresses.output = operands.output(rank);
            of_rank(rank).launch(addresses, stream);
          },
          [this] { std::for_each(launched_.begin(), launched_.end(), [](const Gemm* gemm) { gemm->check(); }); }};
}

Recordable GemmHandles::recordable(const CellResources& resources) {
  const Gemm& first = of_rank(0);
  Recordable recordable;
  recordable.issuers = first.issuers();
  recordable.spans_of_a_role = spans_of_a_role(first.problem(), first.plan(), heaps_.front().world());
  recordable.instrument = [this](int rank, const Instruments& instruments) { of_rank(rank).instrument(instruments); };
  recordable.variant = variant("instrumented", resources);
  for (int rank = 0; rank < heaps_.front().world(); ++rank) {
    recordable.heap_ranks.push_back(&heaps_.front().rank(rank));
  }
  return recordable;
}

Variant cublas_variant(const std::vector<CublasHandle>& handles, const CellResources& resources) {
  const GemmShape shape = shape_of_rank(resources.cell);
  const Operands& operands = resources.operands;
  return {"cublas",
          [&handles, &operands, shape](int rank, int call, cudaStream_t /*stream*/) {
            const int set = operands.set_of(call);
            handles[static_cast<std::size_t>(rank)].multiply(shape, operands.a(rank, set), operands.b(rank, set),
                                                             operands.output(rank));
          },
          [] {}};
}

std::unique_ptr<GemmHandles> make_alone(const CellResources& resources) { return std::make_unique<Alone>(resources); }
std::unique_ptr<GemmHandles> make_fused(const CellResources& resources) { return std::make_unique<Fused>(resources); }
std::unique_ptr<GemmHandles> make_local_twin(const CellResources& resources) {
  return std::make_unique<LocalTwin>(resources);
}

}  // namespace xstage::bench
