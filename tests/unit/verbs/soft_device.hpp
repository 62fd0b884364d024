// SPDX-License-Identifier: MIT
// soft0 for the tests of this module, and a collector of log lines.
#pragma once

#include <gtest/gtest.h>

#include <mutex>
#include <string>
#include <string_view>

#include "verbena/base/log.hpp"
#include "verbena/sys/provider.hpp"
#include "verbena/verbs/context.hpp"
#include "verbena/verbs/device_list.hpp"

namespace verbena::testing_support {

/// Opens soft0 with `from`, which wraps its provider.
inline result<context> open_soft(const provider& from) {
  VERBENA_TRY(const auto devices, list_devices(from));
  for (const auto& each : devices)
    if (each.name() == "soft0") return each.open();
  return error::unavailable(0, "open_soft", "soft0", "the provider does not list it");
}

inline context open_soft() { return open_soft(*soft_provider().value()).value(); }

/// Collects log lines while it exists. At most one exists at a time.
class log_catcher {
 public:
  log_catcher() {
    set_log_hook([](log_level level, std::string_view line,
                    void* self) { static_cast<log_catcher*>(self)->take(level, line); },
                 this);
  }
  log_catcher(const log_catcher&) = delete;
  log_catcher& operator=(const log_catcher&) = delete;
  ~log_catcher() { set_log_hook(nullptr); }

  /// Returns the warnings and errors, one per line.
  [[nodiscard]] std::string text() const {
    const std::lock_guard lock(mutex_);
    return text_;
  }
  [[nodiscard]] bool contains(std::string_view words) const {
    return text().find(words) != std::string::npos;
  }

 private:
  void take(log_level level, std::string_view line) {
    if (level < log_level::warning) return;
    const std::lock_guard lock(mutex_);
    text_ += std::string(line) + "\n";
  }

  mutable std::mutex mutex_;
  std::string text_;
};

/// Expects that the message of a failed result contains `words`.
template <class Result>
void expect_error(const Result& outcome, std::string_view words) {
  ASSERT_FALSE(outcome.has_value()) << "expected: " << words;
  EXPECT_NE(outcome.error().message().find(words), std::string::npos) << outcome.error().message();
}

}  // namespace verbena::testing_support
