#pragma once
/// Burst experiments and the nodes that run them: real GPUs, a simulated node, or recorded samples.
///
/// One experiment is `producers` CTAs on one source GPU, each storing `bytes` per burst to the destination GPU(s),
/// `bursts` times, with a gap of at least `gap_us` between the end of one burst and the start of the next.

#include <array>
#include <cmath>
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace xstage {

/// How a producer stores: 4, 8 or 16 bytes a thread, or bulk copies (cp.async.bulk) from shared memory issued by one
/// thread.
enum class StorePath { store4, store8, store16, bulk };
/// Indexed by StorePath.
inline constexpr std::array<std::string_view, 4> store_path_names{"store4", "store8", "store16", "bulk"};
/// isolated: each burst meets an empty X-Stage. train: `bursts` bursts after an empty start, each reported. periodic:
/// steady state, in a window in which every producer runs. fixed_work: every producer makes exactly `bursts` bursts at
/// its own pace and the window is the whole run, as in a kernel whose tiles are dealt out statically.
enum class BurstMode { isolated, train, periodic, fixed_work };
/// aligned: a grid barrier before every burst. free_running: each producer follows its own clock after a common start
/// (a train: of each train).
enum class Regime { aligned, free_running };
/// local: the identical loop storing to the source GPU's own memory (the control).
enum class Target { remote, local };
/// both_ways: the destination stores to the source at the same time; one sample for each source.
enum class Direction { one_way, both_ways };
/// What a producer does during the gap.
enum class GapFiller { spin, memory_reads, tensor_cores };

[[nodiscard]] std::string_view name_of(StorePath path);
[[nodiscard]] std::string_view name_of(BurstMode mode);
[[nodiscard]] std::string_view name_of(Regime regime);
[[nodiscard]] std::string_view name_of(Target target);
[[nodiscard]] std::string_view name_of(Direction direction);
[[nodiscard]] std::string_view name_of(GapFiller filler);
/// Inverse of name_of; throws InputError naming the value and the accepted ones.
template <typename Enum>
[[nodiscard]] Enum parse_name(std::string_view text);

/// Bytes that one store instruction of the path writes (bulk: the 16-byte granule of cp.async.bulk).
[[nodiscard]] int store_width_bytes(StorePath path);

struct BurstExperiment {
  StorePath path = StorePath::store16;
  BurstMode mode = BurstMode::periodic;
  Regime regime = Regime::free_running;
  Target target = Target::remote;
  Direction direction = Direction::one_way;
  GapFiller filler = GapFiller::spin;
  int source = 0;                    ///< device index
  std::vector<int> destinations{1};  ///< device indices; producers take them in turn. Ignored for local targets.
  int producers = 1;                 ///< K, CTAs, at most one per SM
  std::int64_t bytes = 0;            ///< B per producer and burst, a multiple of the store width (bulk: 16)
  int threads = 256;                 ///< per producer, a multiple of 32 (bulk: one thread issues)
  double gap_us = 0;                 ///< requested G; what happened is in the sample
  int bursts = 1;                    ///< N per producer and trial
  bool held_out = false;             ///< kept from the fit, used to check its predictions

  bool operator==(const BurstExperiment&) const = default;
};

inline constexpr double not_measured = std::numeric_limits<double>::quiet_NaN();

/// What one experiment (one burst of a train) measured. Times are microseconds; statistics are over producers, bursts
/// and trials unless said otherwise. A number that a node cannot measure is NaN (an empty cell in the file, null in
/// JSON).
struct BurstSample {
  BurstExperiment experiment;
  int burst_index = -1;  ///< train: index of this burst from 0; -1 elsewhere
  /// Measured mean gap: end of a burst to the start of the same producer's next. Train: the gap before this burst (of
  /// no meaning before the first, which meets an empty X-Stage)
  double gap_us = 0;
  double issue_us = 0;      ///< mean issue time
  double issue_p5_us = 0;   ///< 5th percentile
  double issue_p95_us = 0;  ///< 95th percentile
  double issue_slowest_us =
      0;  ///< aligned: median over bursts of the slowest producer. free-running: largest producer mean
  /// Mean period = mean issue + mean gap. Free-running: over one common steady-state window in which all producers run
  double period_us = not_measured;
  double visible_us =
      not_measured;         ///< isolated only: start of the burst to completion of a system-scope fence after it
  double stored_bytes = 0;  ///< all bytes stored by the source in the experiment's window
  double window_us = not_measured;   ///< length of that window, on one clock
  double link_bytes = not_measured;  ///< NVLink transmit counter over the whole launch, divided by the bytes launched,
                                     ///< times stored_bytes
  int trials = 1;
  bool verified = false;            ///< every destination word was read back and compared
  double clock_mhz = not_measured;  ///< SM clock while the experiment ran
};

/// A GPU of a node, as far as provenance and limits need it.
struct Device {
  std::string name;
  int multiprocessors = 0;
  int compute_capability = 0;  ///< 90 for 9.0
  std::int64_t memory_bytes = 0;
  double clock_mhz = not_measured;  ///< maximum SM clock
  bool operator==(const Device&) const = default;
};

struct NodeDescription {
  std::string kind;  ///< "cuda", "simulated", "recorded"
  std::string name;  ///< e.g. "h200x2"
  std::vector<Device> devices;
  std::string links;  ///< e.g. "18 NVLink, 26.56 GB/s each"
  std::string driver;
  std::string cuda;
  std::string date;  ///< ISO 8601, of the measurement
  std::string tool_version;
  std::string commit;
  std::string command;  ///< the command line that measured
  std::string sweep;    ///< "full", "quick" or a user's words
  bool operator==(const NodeDescription&) const = default;
};

/// Where bursts run. Implementations: src/node/cuda, src/node/simulated, src/node/recorded.
class Node {
 public:
  virtual ~Node() = default;
  [[nodiscard]] virtual NodeDescription describe() const = 0;
  /// Runs one experiment. One sample; one per burst for a train; one per source for both_ways.
  /// Throws InputError for an experiment that breaks a rule of the node, DeviceError when the machine fails.
  [[nodiscard]] virtual std::vector<BurstSample> run(const BurstExperiment& experiment) = 0;
  /// The only experiments that this node can serve, if it is limited to some (a recorded node).
  [[nodiscard]] virtual std::optional<std::vector<BurstExperiment>> recorded_experiments() const {
    return std::nullopt;
  }
};

/// Rules that hold on every node: positive counts, bytes divisible by the store width, K within the SMs, finite gap,
/// known devices. Throws InputError with the value and the rule.
void check_experiment(const BurstExperiment& experiment, const NodeDescription& node);

}  // namespace xstage
