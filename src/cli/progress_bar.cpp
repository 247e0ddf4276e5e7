#include "cli/progress_bar.hpp"

#include <fmt/format.h>

#include <cmath>

namespace xstage::cli {

namespace {

constexpr std::size_t bar_width = 32;
constexpr const char* back_and_clear = "\r\x1b[K";  // carriage return, erase to end of line (ECMA-48)

std::string minutes_and_seconds(double seconds) {
  const auto whole = static_cast<long>(std::ceil(seconds));
  return fmt::format("{}:{:02}", whole / 60, whole % 60);
}

}  // namespace

std::string progress_line(std::size_t done, std::size_t total, double elapsed_seconds) {
  const std::size_t filled = total == 0 ? bar_width : bar_width * done / total;
  const std::string bar = std::string(filled, '#') + std::string(bar_width - filled, '.');
  if (done == 0) {
    return fmt::format("[{}] {}/{}", bar, done, total);
  }
  const double left = elapsed_seconds / static_cast<double>(done) * static_cast<double>(total - done);
  return fmt::format("[{}] {}/{}  time left {}", bar, done, total, minutes_and_seconds(left));
}

ProgressBar::ProgressBar(std::ostream& out, bool enabled)
    : out_(out), enabled_(enabled), start_(std::chrono::steady_clock::now()) {}

ProgressBar::~ProgressBar() {
  if (enabled_) {
    out_ << back_and_clear << std::flush;
  }
}

void ProgressBar::show(std::size_t done, std::size_t total) {
  if (enabled_) {
    const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - start_;
    out_ << back_and_clear << progress_line(done, total, elapsed.count()) << std::flush;
  }
}

}  // namespace xstage::cli
