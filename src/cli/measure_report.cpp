#include "cli/measure_report.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "cli/quantities.hpp"
#include "cli/table.hpp"
#include "cli/wording.hpp"

namespace xstage::cli {

namespace {

struct Quantity {
  int burst_index;
  std::string key;    ///< without its unit
  std::string label;  ///< for people
  std::string unit;   ///< "us", "gb_per_s"
  const MeasuredValue* value;
};

std::vector<Quantity> quantities_of(const MeasuredBurst& burst) {
  const int index = burst.burst_index;
  return {{index, "issue", "issue time", "us", &burst.issue_us},
          {index, "issue_p5", "issue time, 5th percentile", "us", &burst.issue_p5_us},
          {index, "issue_p95", "issue time, 95th percentile", "us", &burst.issue_p95_us},
          {index, "issue_slowest", "issue time of the slowest producer", "us", &burst.slowest_issue_us},
          {index, "gap", "gap", "us", &burst.gap_us},
          {index, "period", "period", "us", &burst.period_us},
          {index, "rate", "rate", "gb_per_s", &burst.rate_gb_per_s}};
}

std::vector<Quantity> quantities_beside(const MeasuredPoint& point) {
  return {
      {-1, "alone_issue", "issue time of one burst alone", "us", &point.alone_issue_us},
      {-1, "alone_complete", "completion of one burst alone", "us", &point.alone_complete_us},
      {-1, "floor",
       fmt::format("issue time of {} producer{} alone", point.floor_producers, point.floor_producers == 1 ? "" : "s"),
       "us", &point.floor_us},
      {-1, "stall", "back-pressure in the issue time", "us", &point.stall_us}};
}

std::string interval_text(const MeasuredValue& value) {
  return std::isfinite(value.low) ? fmt::format("{} to {}", fixed(value.low, 2), fixed(value.high, 2)) : "-";
}

std::string unit_text(const std::string& unit) { return unit == "us" ? "microseconds" : "GB/s"; }

/// The first burst of a train with back-pressure; all are below if there is none.
std::string onset_text(const MeasuredPoint& point) {
  const auto first = std::find_if(point.bursts.begin(), point.bursts.end(), [&](const MeasuredBurst& burst) {
    return burst.issue_us.value > point.floor_us.value + point.tolerance_us;
  });
  return first == point.bursts.end() || first->burst_index < 0 ? ""
                                                               : fmt::format(", from burst {} on", first->burst_index);
}

std::string verdict_text(const MeasuredPoint& point) {
  const MeasuredValue& stall = point.stall_us;
  const double period_us = point.bursts.back().period_us.value;
  const std::string interval = std::isfinite(stall.low) ? fmt::format(" ({})", interval_text(stall)) : "";
  switch (point.back_pressure) {
    case BackPressure::held_back:
      return fmt::format("Held back by the drain{}: {}{} microseconds of back-pressure a burst, {} of the period.",
                         onset_text(point), fixed(stall.value, 2), interval, percent(stall.value / period_us));
    case BackPressure::free_runs:
      return fmt::format(
          "Free-runs: back-pressure of {}{} microseconds a burst is within the spread of undisturbed bursts ({}).",
          fixed(stall.value, 2), interval, fixed(point.tolerance_us, 2));
    case BackPressure::not_decided:
      break;
  }
  if (std::isnan(stall.value)) {
    return fmt::format(
        "Not decided: the issue time without back-pressure ({} producers alone, {} bytes) was not measured.",
        point.floor_producers, point.experiment.bytes);
  }
  return fmt::format(
      "Not decided: back-pressure of {}{} microseconds lies around the {} that are spread; more --repetitions may "
      "tell.",
      fixed(stall.value, 2), interval, fixed(point.tolerance_us, 2));
}

void print_quantities(std::ostream& out, const std::vector<Quantity>& quantities, bool predicted) {
  std::vector<std::string> headings{"quantity", "unit", "measured", "95% interval"};
  const bool corrected = std::any_of(quantities.begin(), quantities.end(),
                                     [](const Quantity& quantity) { return std::isfinite(quantity.value->corrected); });
  if (predicted) {
    headings.emplace_back("law");
  }
  if (corrected) {
    headings.emplace_back("corrected");
  }
  Table table(headings);
  table.left_align(2);
  for (const Quantity& quantity : quantities) {
    const MeasuredValue& value = *quantity.value;
    std::vector<std::string> cells{quantity.label, unit_text(quantity.unit), fixed(value.value, 2),
                                   interval_text(value)};
    if (predicted) {
      cells.push_back(fixed(value.law, 2));
    }
    if (corrected) {
      cells.push_back(fixed(value.corrected, 2));
    }
    table.add_row(cells);
  }
  table.print(out);
}

void print_train(std::ostream& out, const MeasuredPoint& point, bool predicted) {
  std::vector<std::string> headings{"burst",        "gap before it\n(microseconds)", "issue time\n(microseconds)",
                                    "95% interval", "of the slowest\nproducer",      "accepted\n(GB/s)"};
  if (predicted) {
    headings.insert(headings.end(), {"issue time\nby the law", "with uneven\ndrain"});
  }
  Table table(headings);
  for (const MeasuredBurst& burst : point.bursts) {
    std::vector<std::string> cells{std::to_string(burst.burst_index),      fixed(burst.gap_us.value, 2),
                                   fixed(burst.issue_us.value, 2),         interval_text(burst.issue_us),
                                   fixed(burst.slowest_issue_us.value, 2), fixed(burst.rate_gb_per_s.value, 1)};
    if (predicted) {
      cells.insert(cells.end(), {fixed(burst.issue_us.law, 2), fixed(burst.issue_us.corrected, 2)});
    }
    table.add_row(cells);
  }
  table.print(out);
}

std::vector<Quantity> all_quantities(const MeasuredPoint& point) {
  std::vector<Quantity> all;
  for (const MeasuredBurst& burst : point.bursts) {
    const std::vector<Quantity> more = quantities_of(burst);
    all.insert(all.end(), more.begin(), more.end());
  }
  const std::vector<Quantity> beside = quantities_beside(point);
  all.insert(all.end(), beside.begin(), beside.end());
  return all;
}

Json value_json(const MeasuredValue& value, bool predicted) {
  Json json = {{"value", value.value}, {"low", value.low}, {"high", value.high}, {"repetitions", value.repetitions}};
  if (predicted) {
    json["law"] = value.law;
    json["corrected"] = value.corrected;
  }
  return json;
}

Json quantities_json(const std::vector<Quantity>& quantities, bool predicted) {
  Json json = Json::object();
  for (const Quantity& quantity : quantities) {
    json[quantity.key + "_" + quantity.unit] = value_json(*quantity.value, predicted);
  }
  return json;
}

}  // namespace

void print_point(std::ostream& out, const PointReport& report) {
  const MeasuredPoint& point = report.point;
  const BurstExperiment& experiment = point.experiment;
  const bool predicted = report.platform != nullptr;
  out << "Node " << node_line(report.node) << '\n'
      << fmt::format("Device {} to device {}: {} producers of {} each, {}, {}, gap of {} microseconds\n",
                     experiment.source, fmt::join(experiment.destinations, ";"), experiment.producers,
                     bytes_text(static_cast<double>(experiment.bytes)), words_of(experiment.path),
                     words_of(experiment.regime), std::round(100 * experiment.gap_us) / 100)
      << fmt::format("Mode {}, {} repetition{} of {} bursts\n\n", name_of(experiment.mode),
                     point.bursts.front().issue_us.repetitions,
                     point.bursts.front().issue_us.repetitions == 1 ? "" : "s", experiment.bursts);
  std::vector<Quantity> quantities = all_quantities(point);
  if (experiment.mode == BurstMode::train) {
    print_train(out, point, predicted);
    out << '\n';
    quantities = quantities_beside(point);
  }
  print_quantities(out, quantities, predicted);
  for (const std::string& reason : report.reasons) {
    out << "  the profile cannot predict all: " << reason << '\n';
  }
  out << '\n' << verdict_text(point) << '\n';
}

Json point_json(const PointReport& report) {
  const MeasuredPoint& point = report.point;
  const BurstExperiment& experiment = point.experiment;
  const bool predicted = report.platform != nullptr;
  Json bursts = Json::array();
  for (const MeasuredBurst& burst : point.bursts) {
    Json row = {{"burst_index", burst.burst_index < 0 ? Json(nullptr) : Json(burst.burst_index)}};
    row.update(quantities_json(quantities_of(burst), predicted));
    bursts.push_back(row);
  }
  Json document = {{"schema", "xstage.measurement/1"},
                   {"node", to_json(report.node)},
                   {"path", name_of(experiment.path)},
                   {"mode", name_of(experiment.mode)},
                   {"regime", name_of(experiment.regime)},
                   {"source", experiment.source},
                   {"destination", experiment.destinations.front()},
                   {"producers", experiment.producers},
                   {"bytes_per_producer", experiment.bytes},
                   {"requested_gap_us", experiment.gap_us},
                   {"bursts_a_repetition", experiment.bursts},
                   {"platform", predicted ? Json(report.platform->node.name) : Json(nullptr)},
                   {"reasons", report.reasons},
                   {"bursts", bursts}};
  document.update(quantities_json(quantities_beside(point), predicted));
  document["floor_producers"] = point.floor_producers;
  document["tolerance_us"] = point.tolerance_us;
  document["back_pressure"] = name_of(point.back_pressure);
  document["samples"] = point.samples.size();
  return document;
}

void print_point_csv(std::ostream& out, const PointReport& report) {
  const auto cell = [](double value) { return std::isfinite(value) ? fmt::format("{}", value) : std::string(); };
  out << "burst_index,quantity,unit,measured,low,high,repetitions,law,corrected\n";
  for (const Quantity& quantity : all_quantities(report.point)) {
    const MeasuredValue& value = *quantity.value;
    out << fmt::format("{},{},{},{},{},{},{},{},{}\n", quantity.burst_index, quantity.key, quantity.unit,
                       cell(value.value), cell(value.low), cell(value.high), value.repetitions, cell(value.law),
                       cell(value.corrected));
  }
}

}  // namespace xstage::cli
