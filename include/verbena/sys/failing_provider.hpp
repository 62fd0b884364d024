// SPDX-License-Identifier: MIT
// A provider that forwards to another provider and makes selected calls fail, for tests.
#pragma once

#include <atomic>
#include <cstddef>
#include <string_view>

#include "verbena/sys/provider.hpp"

namespace verbena::inline VERBENA_ABI {

/// Wraps a provider and makes selected calls fail. Counts calls of functions that can fail, from
/// construction on. At most one failing_provider exists at a time. It must outlive every object
/// made through it. Threads: thread-safe.
class failing_provider {
 public:
  /// Wraps `wrapped`, which must outlive the failing_provider. Precondition: no other
  /// failing_provider exists.
  explicit failing_provider(const provider& wrapped);
  failing_provider(const failing_provider&) = delete;
  failing_provider& operator=(const failing_provider&) = delete;
  ~failing_provider();

  /// Returns the provider that makes selected calls fail. Make objects through this provider.
  [[nodiscard]] const provider& get() const noexcept { return provider_; }

  /// Makes the `n`-th counted call from now fail with `code`; 1 means the next call, 0 means no
  /// call. The call is not forwarded. Resets calls() and failed_verb().
  void fail_call(std::size_t n, int code) noexcept;
  /// Makes every call of the verb `name` ("ibv_destroy_cq") fail with `code`.
  /// Precondition: a table has a verb with this name.
  void fail_verb(std::string_view name, int code) noexcept;

  /// Returns the number of counted calls since construction or the last fail_call().
  [[nodiscard]] std::size_t calls() const noexcept { return calls_.load(); }
  /// Returns the last verb that was made to fail; empty if no verb was.
  [[nodiscard]] std::string_view failed_verb() const noexcept;

 private:
  template <class Verb>
  struct thunk;
  template <class Verb>
  void wrap(Verb& member);
  // Returns the errno for this call, or 0.
  int decide(std::string_view name) noexcept;

  provider provider_;
  std::atomic<std::size_t> calls_{0};
  std::atomic<std::size_t> fail_at_{0};
  std::atomic<int> code_{0};
  std::atomic<const char*> failed_{""};
  std::atomic<const char*> verb_to_fail_{""};
};

}  // namespace verbena::inline VERBENA_ABI
