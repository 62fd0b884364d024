// SPDX-License-Identifier: MIT
// Fixture of tests that transfer data: variants, seeded bytes, and waits for completions.
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

/// The interface by which requests are posted.
enum class interface_kind : std::uint8_t { classic, extended };

/// A variant of a data test.
struct variant {
  interface_kind interface = interface_kind::classic;
  topology shape = topology::pair;
};
/// Returns the name of a variant, such as `classic_self` or `extended_pair`.
[[nodiscard]] std::string name_of(const ::testing::TestParamInfo<variant>& of);

/// Returns all variants: both interfaces, with one queue pair connected to itself and with two.
[[nodiscard]] std::vector<variant> every_variant();
/// Returns both interfaces with two queue pairs, for tests that end in the error state.
[[nodiscard]] std::vector<variant> variants_with_two_ends();

/// Returns bytes that depend only on `seed`.
[[nodiscard]] std::vector<std::byte> pattern(std::size_t bytes, std::uint32_t seed);
/// Returns pattern() without its first `skipped` bytes.
[[nodiscard]] std::vector<std::byte> pattern_from(std::size_t skipped, std::size_t bytes,
                                                  std::uint32_t seed);
void fill(std::span<std::byte> out, std::uint32_t seed);
/// Returns whether the bytes at `offset` of the region are `expected`.
[[nodiscard]] ::testing::AssertionResult holds(const memory_region& region, std::size_t offset,
                                               std::span<const std::byte> expected);

/// Polls until `count` completions have arrived, and returns them in order. If fewer arrive before
/// the deadline, throws, which fails the test.
[[nodiscard]] std::vector<completion> take(const completion_queue& queue, std::size_t count,
                                           std::chrono::milliseconds timeout = 10s);
/// Polls the next completion. Throws as take() does.
[[nodiscard]] completion take_one(const completion_queue& queue);
/// Polls for a short time. Returns whether no completion arrives.
[[nodiscard]] ::testing::AssertionResult stays_empty(const completion_queue& queue,
                                                     std::chrono::milliseconds moment = 20ms);
/// Returns whether the queue has no completion now.
[[nodiscard]] ::testing::AssertionResult is_empty(const completion_queue& queue);
/// Waits until a query returns `state`.
[[nodiscard]] ::testing::AssertionResult reaches(const queue_pair<rc>& queue,
                                                 queue_pair_state state);

/// The base class of tests with variants. open() creates the connection.
class data_test : public ::testing::TestWithParam<variant> {
 protected:
  /// Creates the connection. Skips the test if the device does not support the variant.
  void open(link_options options = {});

  [[nodiscard]] link& connection() { return *link_; }
  [[nodiscard]] side& initiator() { return link_->initiator(); }
  [[nodiscard]] side& target() { return link_->target(); }

  /// Submits a batch of `from` by the interface of the variant. `add` adds the requests.
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
  /// Posts to the initiator. A failure of the post fails the test.
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

/// Skips the test unless `condition` holds. The run fails if tests/conformance/differences.txt does
/// not list the skip.
#define VERBENA_NEEDS(condition, what)                           \
  do {                                                           \
    if (!(condition)) GTEST_SKIP() << "unsupported: " << (what); \
  } while (false)

/// Calls open() and ends the test if open() has skipped it.
#define VERBENA_OPEN(...)    \
  do {                       \
    open(__VA_ARGS__);       \
    if (IsSkipped()) return; \
  } while (false)

}  // namespace verbena::conformance
