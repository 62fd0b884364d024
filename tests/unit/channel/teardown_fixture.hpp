// SPDX-License-Identifier: MIT
// Destroys the objects of a test in given orders, and checks that no object of the device remains.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <numeric>
#include <random>
#include <span>
#include <string>
#include <utility>

#include "tests/unit/channel/tested_device.hpp"
#include "tests/unit/verbs/counting_provider.hpp"

namespace verbena::test {

/// `Everything` is constructed with a context and has `count` objects. drop(index) destroys one of
/// them and can be called again.
template <class Everything>
class teardown_fixture : public ::testing::Test {
 protected:
  /// Destroys the first `count` objects in all orders, then the others.
  template <std::size_t most>
  void drop_in_all_orders(std::size_t count) {
    std::array<std::size_t, most> order{};
    std::iota(order.begin(), order.end(), std::size_t{0});
    const std::span permuted(order.data(), count);
    do {
      drop_in(permuted);
      ASSERT_FALSE(HasFailure());
    } while (std::ranges::next_permutation(permuted).found);
  }
  void drop_in_random_orders(int times, std::uint32_t seed) {
    std::mt19937 random(seed);
    std::array<std::size_t, Everything::count> order{};
    std::iota(order.begin(), order.end(), std::size_t{0});
    for (int i = 0; i < times; ++i) {
      std::ranges::shuffle(order, random);
      drop_in(order);
      ASSERT_FALSE(HasFailure());
    }
  }

 private:
  // Destroys the objects that the order does not contain.
  void drop_in(std::span<const std::size_t> order) {
    if (tested_device() != "soft0") {
      drop_all(Everything(open_tested()), order);
      return;
    }
    drop_all(Everything(testing_support::open_soft(counting_.get()).value()), order);
    ASSERT_EQ(counting_.live(), "") << text_of(order);
  }
  static void drop_all(Everything all, std::span<const std::size_t> order) {
    for (const std::size_t each : order) all.drop(each);
    for (std::size_t each = 0; each < Everything::count; ++each) all.drop(each);
  }
  static std::string text_of(std::span<const std::size_t> order) {
    std::string text = "order";
    for (const std::size_t each : order) text.append(" ").append(std::to_string(each));
    return text;
  }

  testing_support::counting_provider counting_{*soft_provider().value()};
};

}  // namespace verbena::test
