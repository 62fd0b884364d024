// SPDX-License-Identifier: MIT
// Atomic operations: remote memory and returned values.
#include <gtest/gtest.h>

#include <cstring>
#include <optional>

#include "tests/conformance/traffic.hpp"
#include "verbena/base/bytes.hpp"

namespace verbena::conformance {
namespace {

class atomics : public data_test {
 protected:
  void open(const link_options& options = {}) {
    VERBENA_NEEDS(tested().context.query().value().atomics() != atomic_scope::none,
                  "the device has no atomic operations");
    data_test::open(options);
    if (IsSkipped()) return;
    before.emplace(connection().memory(4096));
    word.emplace(connection().memory(4096));
  }
  void store(std::uint64_t value) { std::memcpy(word->bytes().data() + 8, &value, sizeof value); }
  [[nodiscard]] static std::uint64_t at(const memory_region& region, std::size_t offset) {
    std::uint64_t value = 0;
    std::memcpy(&value, region.bytes().data() + offset, sizeof value);
    return value;
  }
  [[nodiscard]] remote_region cell() const { return word->remote().slice(8, 8); }
  // The value that the operation returned, in host byte order.
  void expect_brought_back(completion_opcode opcode, std::uint64_t value) {
    const completion done = sent();
    ASSERT_TRUE(done.ok()) << to_string(done);
    EXPECT_EQ(done.opcode(), opcode);
    EXPECT_EQ(done.byte_length(), 8U);
    EXPECT_EQ(at(*before, 0), value);
    EXPECT_EQ(at(*word, 0), 0U) << "the word before the result changed";
    EXPECT_EQ(at(*word, 16), 0U) << "the word after the result changed";
  }

  std::optional<memory_region> before;
  std::optional<memory_region> word;
};
INSTANTIATE_TEST_SUITE_P(rc, atomics, ::testing::ValuesIn(every_variant()), name_of);

// parity: ibverbs-tests-58, ibverbs-247, rrddmma-87
TEST_P(atomics, compare_and_swap_with_equal_value_swaps) {
  VERBENA_OPEN();
  store(0x1122334455667788);
  post([&](auto& batch) {
    batch.compare_and_swap({.signaled = true}, before->slice(0, 8), cell(),
                           {.expected = 0x1122334455667788, .desired = 0xa1a2a3a4a5a6a7a8});
  });
  expect_brought_back(completion_opcode::compare_and_swap, 0x1122334455667788);
  EXPECT_EQ(at(*word, 8), 0xa1a2a3a4a5a6a7a8);
}

// parity: ibverbs-tests-58, ibverbs-247
TEST_P(atomics, compare_and_swap_with_other_value_changes_nothing) {
  VERBENA_OPEN();
  store(0x1122334455667788);
  post([&](auto& batch) {
    batch.compare_and_swap({.signaled = true}, before->slice(0, 8), cell(),
                           {.expected = 0x1122334455667789, .desired = 1});
  });
  expect_brought_back(completion_opcode::compare_and_swap, 0x1122334455667788);
  EXPECT_EQ(at(*word, 8), 0x1122334455667788U);
}

// parity: ibverbs-tests-58, ibverbs-248, rrddmma-88
TEST_P(atomics, fetch_and_add_wraps_around) {
  VERBENA_OPEN();
  store(0xffffffffffffffff);
  post([&](auto& batch) {
    batch.fetch_and_add({.signaled = true}, before->slice(0, 8), cell(), 3);
  });
  expect_brought_back(completion_opcode::fetch_and_add, 0xffffffffffffffff);
  EXPECT_EQ(at(*word, 8), 2U);
}

TEST_P(atomics, many_fetch_and_adds_lose_no_update) {
  VERBENA_OPEN();
  store(1000);
  for (std::uint64_t round = 0; round < 10; ++round) {
    post([&](auto& batch) {
      for (std::uint64_t i = 0; i < 10; ++i)
        batch.fetch_and_add({.id = i, .signaled = true}, before->slice(i * 8, 8), cell(), 7);
    });
    const auto done = take(initiator().sends, 10);
    for (std::size_t i = 0; i < done.size(); ++i) {
      ASSERT_TRUE(done[i].ok()) << to_string(done[i]);
      EXPECT_EQ(at(*before, i * 8), 1000 + 7 * (round * 10 + i))
          << "an addition did not return the previous value";
    }
  }
  EXPECT_EQ(at(*word, 8), 1700U);
}

TEST_P(atomics, write_after_fetch_and_add_executes_after_it) {
  VERBENA_OPEN();
  store(5);
  std::memset(before->bytes().data() + 64, 0, 8);
  post([&](auto& batch) {
    batch.fetch_and_add({}, before->slice(0, 8), cell(), 1);
    batch.write({.signaled = true}, before->slice(64, 8), cell());
  });
  ASSERT_TRUE(sent().ok());
  EXPECT_EQ(at(*before, 0), 5U);
  EXPECT_EQ(at(*word, 8), 0U);
}

}  // namespace
}  // namespace verbena::conformance
