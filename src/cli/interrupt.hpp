#pragma once
/// SIGINT and SIGTERM while a measurement runs: it stops after the current experiment and writes nothing.

#include <csignal>

namespace xstage::cli {

/// Catches both signals while it lives, once each: a second one ends the process at once, which is safe since files
/// are only ever renamed into place.
class InterruptGuard {
 public:
  InterruptGuard();
  ~InterruptGuard();
  InterruptGuard(const InterruptGuard&) = delete;
  InterruptGuard& operator=(const InterruptGuard&) = delete;

  [[nodiscard]] static bool requested() noexcept;

 private:
  struct sigaction previous_interrupt_ {};
  struct sigaction previous_terminate_ {};
};

}  // namespace xstage::cli
