#pragma once
// Compares the results of variants with an attention in double, on a sample of heads and rows.

#include <map>
#include <vector>

#include "ops/attention/bench/cuda/variants.hpp"
#include "ops/attention/bench/reference.hpp"

namespace xstage::bench {

/// References of one cell, made when they are asked for: variants that read the same operands share them.
class AttentionReferences {
 public:
  explicit AttentionReferences(const AttentionResources& resources) : resources_(resources) {}

  /// Largest error of what the last call of a variant left behind, in roundings (attention_reference.hpp). `set`: the
  /// operands of that call.
  [[nodiscard]] double largest_error(const AttentionVariants& variants, const AttentionVariant& entry, int set);

 private:
  /// A row that one rank computes.
  struct Sample {
    int rank = 0;
    std::int64_t row = 0;
    int head = 0;  // of that rank
    ReferenceRow reference;
  };

  const std::vector<Sample>& samples_of(int set);
  void add_samples(int rank, int head, int set, std::vector<Sample>& samples) const;
  [[nodiscard]] std::vector<float> result_of(const AttentionVariants& variants, const AttentionVariant& entry,
                                             const Sample& sample) const;

  const AttentionResources& resources_;
  std::map<int, std::vector<Sample>> by_set_;
};

}  // namespace xstage::bench
