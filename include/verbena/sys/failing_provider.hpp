// SPDX-License-Identifier: MIT
// A provider that forwards to another and makes one chosen call fail: for tests of what happens
// when any verb of a set-up path is refused.
#pragma once

#include <atomic>
#include <cstddef>
#include <string_view>

#include "verbena/sys/provider.hpp"

namespace verbena::inline VERBENA_ABI {

/// Wraps a provider. At most one exists at a time. Counting starts at construction; only functions
/// that can fail are counted. It must outlive every object made through it.
/// Threads: thread-safe.
class failing_provider {
 public:
  /// Wraps `wrapped`, which must outlive it. Precondition: there is no other one.
  explicit failing_provider(const provider& wrapped);
  failing_provider(const failing_provider&) = delete;
  failing_provider& operator=(const failing_provider&) = delete;
  ~failing_provider();

  /// The provider to make objects through; lives as long as this.
  [[nodiscard]] const provider& get() const noexcept { return provider_; }

  /// Lets the `n`-th countable call from now (1 is the next) fail with `code` without being
  /// forwarded; 0 lets none fail. Resets the count and the name of the failed call.
  void fail_call(std::size_t n, int code) noexcept;
  /// The same for every call of the verb `name` ("ibv_destroy_cq"). Precondition: there is one.
  void fail_verb(std::string_view name, int code) noexcept;

  /// Countable calls since construction or the last fail_call().
  [[nodiscard]] std::size_t calls() const noexcept { return calls_.load(); }
  /// The verb that was made to fail; empty if none was yet.
  [[nodiscard]] std::string_view failed_verb() const noexcept;

 private:
  template <class Verb>
  struct thunk;
  template <class Verb>
  void wrap(Verb& member);
  // The errno to fail this call with, or 0.
  int decide(std::string_view name) noexcept;

  provider provider_;
  std::atomic<std::size_t> calls_{0};
  std::atomic<std::size_t> fail_at_{0};
  std::atomic<int> code_{0};
  std::atomic<const char*> failed_{""};
  std::atomic<const char*> verb_to_fail_{""};
};

}  // namespace verbena::inline VERBENA_ABI
