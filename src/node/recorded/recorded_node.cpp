#include "xstage/recorded_node.hpp"

#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "xstage/error.hpp"

namespace xstage {
namespace {

std::string description_of(const BurstExperiment& experiment) {
  const std::string target = experiment.target == Target::local
                                 ? "its own memory"
                                 : fmt::format("device {}", fmt::join(experiment.destinations, " and "));
  return fmt::format(
      "{} {} {} from device {} to {}, {}: {} producers of {} threads x {} bytes x {} bursts, {} gap of {} us{}",
      name_of(experiment.path), name_of(experiment.mode), name_of(experiment.regime), experiment.source, target,
      name_of(experiment.direction), experiment.producers, experiment.threads, experiment.bytes, experiment.bursts,
      name_of(experiment.filler), experiment.gap_us, experiment.held_out ? ", held out" : "");
}

/// Order of experiments, by which a file with very many different ones is still read in reasonable time.
struct Before {
  static auto key(const BurstExperiment& e) {
    return std::tie(e.path, e.mode, e.regime, e.target, e.direction, e.filler, e.source, e.destinations, e.producers,
                    e.bytes, e.threads, e.gap_us, e.bursts, e.held_out);
  }
  bool operator()(const BurstExperiment& left, const BurstExperiment& right) const { return key(left) < key(right); }
};

class RecordedNode final : public Node {
 public:
  explicit RecordedNode(SamplesFile file) : node_(std::move(file.node)) {
    node_.kind = "recorded";
    for (BurstSample& sample : file.samples) {
      const auto [place, is_new] = rows_.try_emplace(sample.experiment);
      if (is_new) {
        in_file_order_.push_back(sample.experiment);
      }
      place->second.push_back(std::move(sample));
    }
  }

  [[nodiscard]] NodeDescription describe() const override { return node_; }

  [[nodiscard]] std::vector<BurstSample> run(const BurstExperiment& experiment) override {
    const auto found = rows_.find(experiment);
    if (found == rows_.end()) {
      throw InputError(fmt::format("the recorded samples of '{}' do not hold this experiment: {}", node_.name,
                                   description_of(experiment)));
    }
    return found->second;
  }

  [[nodiscard]] std::optional<std::vector<BurstExperiment>> recorded_experiments() const override {
    return in_file_order_;
  }

 private:
  NodeDescription node_;
  std::map<BurstExperiment, std::vector<BurstSample>, Before> rows_;
  std::vector<BurstExperiment> in_file_order_;
};

}  // namespace

std::unique_ptr<Node> make_recorded_node(SamplesFile samples) {
  if (samples.samples.empty()) {
    throw InputError(
        fmt::format("the recorded samples of '{}' are empty: at least one row is needed to replay", samples.node.name));
  }
  return std::make_unique<RecordedNode>(std::move(samples));
}

}  // namespace xstage
