#include "bench/row_fields.hpp"

#include <cmath>

namespace xstage::bench {

double rounded(double microseconds) { return std::round(microseconds * 1000) / 1000; }

Json number(double value) { return std::isfinite(value) ? Json(value) : Json(nullptr); }

void add_quantiles(Json& row, const VariantTimes& times) {
  row["microseconds"] = rounded(median(times.trials_us));
  row["p5"] = rounded(percentile(times.trials_us, 0.05));
  row["p95"] = rounded(percentile(times.trials_us, 0.95));
}

void add_ratio(Json& row, const std::string& name, const PairedRatio& ratio) {
  row[name] = number(ratio.ratio);
  row[name + "_low"] = number(ratio.low);
  row[name + "_high"] = number(ratio.high);
}

void add_trials(Json& row, const VariantTimes& times) {
  row["trials"] = times.trials_us.size();
  Json& trials = row["trials_us"] = Json::array();
  for (const double trial : times.trials_us) {
    trials.push_back(rounded(trial));
  }
}

}  // namespace xstage::bench
