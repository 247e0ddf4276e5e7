#include "calibrate/parallel_sweep.hpp"

#include <algorithm>
#include <atomic>
#include <future>
#include <iterator>
#include <thread>
#include <utility>
#include <vector>

#include "xstage/calibrate.hpp"

namespace xstage::calibrate {

SamplesFile run_remote_sweep_in_parallel(const std::function<std::unique_ptr<Node>()>& make_node, bool quick) {
  SamplesFile file;
  file.node = make_node()->describe();
  file.node.sweep = quick ? "quick" : "full";
  std::vector<BurstExperiment> experiments = calibration_sweep(file.node, quick);
  std::erase_if(experiments, [](const BurstExperiment& experiment) { return experiment.target != Target::remote; });

  std::vector<std::vector<BurstSample>> samples(experiments.size());
  std::atomic<std::size_t> next = 0;
  const auto work = [&] {
    const std::unique_ptr<Node> node = make_node();
    for (std::size_t index = next++; index < experiments.size(); index = next++) {
      samples[index] = node->run(experiments[index]);
    }
  };
  std::vector<std::future<void>> threads(std::max(1U, std::thread::hardware_concurrency()));
  std::generate(threads.begin(), threads.end(), [&] { return std::async(std::launch::async, work); });
  for (std::future<void>& thread : threads) {
    thread.wait();  // waits for all threads before one of them throws, since they write into `samples`
  }
  for (std::future<void>& thread : threads) {
    thread.get();
  }
  for (std::vector<BurstSample>& of_experiment : samples) {
    std::move(of_experiment.begin(), of_experiment.end(), std::back_inserter(file.samples));
  }
  return file;
}

}  // namespace xstage::calibrate
