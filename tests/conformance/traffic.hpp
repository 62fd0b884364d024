// SPDX-License-Identifier: MIT
// What data tests are made of: the variants they run in, seeded bytes, and waiting for completions
// with a deadline.
#pragma once

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "tests/conformance/link.hpp"
#include "tests/conformance/tested_device.hpp"
#include "verbena/verbs/completion.hpp"

namespace verbena::conformance {

/// By which interface requests are posted.
enum class interface_kind : std::uint8_t { classic, extended };

/// One of the ways in which a data test runs.
struct variant {
  interface_kind interface = interface_kind::classic;
  topology shape = topology::pair;
};
/// `classic_self`, `extended_pair`, …
[[nodiscard]] std::string name_of(const ::testing::TestParamInfo<variant>& of);

/// Both interfaces, each on one queue pair that is connected to itself and on two.
[[nodiscard]] std::vector<variant> every_variant();
/// Both interfaces, on two queue pairs: for tests that end in the error state.
[[nodiscard]] std::vector<variant> variants_with_two_ends();

/// Bytes that depend on `seed` alone.
[[nodiscard]] std::vector<std::byte> pattern(std::size_t bytes, std::uint32_t seed);
/// Returns pattern() without its first `skipped` bytes.
[[nodiscard]] std::vector<std::byte> pattern_from(std::size_t skipped, std::size_t bytes,
                                                  std::uint32_t seed);
void fill(std::span<std::byte> out, std::uint32_t seed);
/// Whether the bytes at `offset` of the region are `expected`.
[[nodiscard]] ::testing::AssertionResult holds(const memory_region& region, std::size_t offset,
                                               std::span<const std::byte> expected);

/// Polls until `count` completions came, oldest first. Raises an error, which fails the test and
/// ends it, when fewer come within the patience.
[[nodiscard]] std::vector<completion> take(const completion_queue& queue, std::size_t count,
                                           std::chrono::milliseconds usual = 10s);
/// The next completion; otherwise as take().
[[nodiscard]] completion take_one(const completion_queue& queue);
/// Polls for a moment: whether nothing completes.
[[nodiscard]] ::testing::AssertionResult stays_empty(const completion_queue& queue,
                                                     std::chrono::milliseconds moment = 20ms);
/// Returns whether the queue has no completion now.
[[nodiscard]] ::testing::AssertionResult is_empty(const completion_queue& queue);
/// Waits until the device says that the queue pair is in that state.
[[nodiscard]] ::testing::AssertionResult reaches(const queue_pair<rc>& queue,
                                                 queue_pair_state state);

/// Test over variants; the connection is made by open().
class data_test : public ::testing::TestWithParam<variant> {
 protected:
  /// Makes the connection, or skips the test because the device has no such variant.
  void open(link_options options = {});

  [[nodiscard]] link& connection() { return *link_; }
  [[nodiscard]] side& initiator() { return link_->initiator(); }
  [[nodiscard]] side& target() { return link_->target(); }

  /// Lets `add` add to a batch of `from`, by the variant's interface, and submits it.
  template <class Add>
  [[nodiscard]] post_status post(side& from, Add&& add) {
    if (GetParam().interface == interface_kind::classic) {
      auto batch = from.queue.start_send();
      add(batch);
      return batch.submit();
    }
    auto poster = from.queue.extended().value();
    auto batch = poster.start_send();
    add(batch);
    return batch.submit();
  }
  /// Posts to the initiator; a refusal fails the test.
  template <class Add>
  void post(Add&& add) {
    post(initiator(), std::forward<Add>(add)).value();
  }
  void receive(std::uint64_t id, const local_slice& into) {
    target().queue.post_receive({.id = id}, into).value();
  }
  [[nodiscard]] completion sent() { return take_one(initiator().sends); }
  [[nodiscard]] completion received() { return take_one(target().receives); }

 private:
  std::unique_ptr<link> link_;
};

/// Skips the test, with what the device lacks. The runner compares skips with
/// tests/conformance/differences.txt: one that is not listed there fails the run.
#define VERBENA_NEEDS(condition, what)                           \
  do {                                                           \
    if (!(condition)) GTEST_SKIP() << "unsupported: " << (what); \
  } while (false)

/// Ends the test when open() skipped it.
#define VERBENA_OPEN(...)    \
  do {                       \
    open(__VA_ARGS__);       \
    if (IsSkipped()) return; \
  } while (false)

}  // namespace verbena::conformance
