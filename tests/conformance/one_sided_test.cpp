// SPDX-License-Identifier: MIT
// RDMA writes and reads change exactly their target ranges.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <optional>
#include <span>

#include "tests/conformance/traffic.hpp"

namespace verbena::conformance {
namespace {

constexpr std::size_t region_bytes = 2 << 20;

class rdma_read_write : public data_test {
 protected:
  void open(const link_options& options = {}) {
    data_test::open(options);
    if (IsSkipped()) return;
    local.emplace(connection().memory(region_bytes));
    remote.emplace(connection().memory(region_bytes));
  }

  std::optional<memory_region> local;
  std::optional<memory_region> remote;
};
INSTANTIATE_TEST_SUITE_P(rc, rdma_read_write, ::testing::ValuesIn(every_variant()), name_of);

// parity: ibverbs-tests-49, ibverbs-244, rrddmma-86
TEST_P(rdma_read_write, writes_change_only_their_target_range) {
  VERBENA_OPEN();
  for (const std::size_t bytes : {1U, 7U, 8U, 1023U, 1024U, 4096U, 4097U, 65537U}) {
    fill(local->bytes().first(bytes + 10), static_cast<std::uint32_t>(bytes));
    std::ranges::fill(remote->bytes().first(bytes + 200), std::byte{0x55});
    post([&](auto& batch) {
      batch.write({.id = 3, .signaled = true}, local->slice(10, bytes),
                  remote->remote().slice(100, bytes));
    });
    const completion done = sent();
    ASSERT_TRUE(done.ok()) << to_string(done);
    EXPECT_EQ(done.id(), 3U);
    EXPECT_EQ(done.opcode(), completion_opcode::write);
    // On reliable connections the completion of a write implies that the bytes have arrived.
    ASSERT_TRUE(holds(*remote, 100, local->bytes().subspan(10, bytes))) << bytes;
    ASSERT_TRUE(holds(*remote, 0, std::vector(100, std::byte{0x55})));
    ASSERT_TRUE(holds(*remote, 100 + bytes, std::vector(100, std::byte{0x55})));
  }
}

TEST_P(rdma_read_write, write_of_one_mebibyte_arrives) {
  VERBENA_OPEN();
  fill(local->bytes().first(1 << 20), 1);
  post([&](auto& batch) {
    batch.write({.signaled = true}, local->slice(0, 1 << 20), remote->remote());
  });
  ASSERT_TRUE(sent().ok());
  EXPECT_TRUE(holds(*remote, 0, local->bytes().first(1 << 20)));
}

TEST_P(rdma_read_write, write_gathers_sges) {
  VERBENA_OPEN();
  fill(local->bytes().first(8192), 2);
  const std::array from{local->slice(4096, 1000), local->slice(0, 2), local->slice(100, 3000)};
  post(
      [&](auto& batch) { batch.write({.signaled = true}, from, remote->remote().slice(5, 4002)); });
  ASSERT_TRUE(sent().ok());
  EXPECT_TRUE(holds(*remote, 5, local->bytes().subspan(4096, 1000)));
  EXPECT_TRUE(holds(*remote, 1005, local->bytes().first(2)));
  EXPECT_TRUE(holds(*remote, 1007, local->bytes().subspan(100, 3000)));
}

TEST_P(rdma_read_write, zero_length_write_succeeds) {
  VERBENA_OPEN();
  post([&](auto& batch) {
    batch.write({.id = 9, .signaled = true}, std::span<const local_slice>(),
                remote->remote().slice(0, 0));
  });
  const completion done = sent();
  EXPECT_TRUE(done.ok()) << to_string(done);
  EXPECT_EQ(done.id(), 9U);
}

// parity: ibverbs-tests-50, ibverbs-245, rrddmma-86
TEST_P(rdma_read_write, write_with_immediate_consumes_a_receive) {
  VERBENA_OPEN();
  VERBENA_NEEDS(!is_iwarp(), "iWARP has no immediate data");
  fill(local->bytes().first(5000), 3);
  const auto sink = connection().memory(4096);
  receive(77, sink.slice());
  post([&](auto& batch) {
    batch.write_with_immediate({.signaled = true}, 42, local->slice(0, 5000),
                               remote->remote().slice(4096, 5000));
  });
  const completion arrived = received();
  ASSERT_TRUE(arrived.ok()) << to_string(arrived);
  EXPECT_EQ(arrived.id(), 77U);
  EXPECT_EQ(arrived.opcode(), completion_opcode::receive_write_with_immediate);
  EXPECT_EQ(arrived.immediate(), 42U);
  EXPECT_EQ(arrived.byte_length(), 5000U);
  EXPECT_TRUE(holds(*remote, 4096, local->bytes().first(5000)));
  EXPECT_TRUE(holds(sink, 0, std::vector<std::byte>(4096)));
  const completion done = sent();
  EXPECT_TRUE(done.ok()) << to_string(done);
  EXPECT_EQ(done.opcode(), completion_opcode::write);
}

TEST_P(rdma_read_write, zero_length_write_delivers_immediate_data) {
  VERBENA_OPEN();
  VERBENA_NEEDS(!is_iwarp(), "iWARP has no immediate data");
  target().queue.post_receive({.id = 5}, std::span<const local_slice>()).value();
  post([&](auto& batch) {
    batch.write_with_immediate({.signaled = true}, 43, std::span<const local_slice>(),
                               remote->remote().slice(0, 0));
  });
  const completion arrived = received();
  ASSERT_TRUE(arrived.ok()) << to_string(arrived);
  EXPECT_EQ(arrived.immediate(), 43U);
  EXPECT_EQ(arrived.byte_length(), 0U);
  EXPECT_TRUE(sent().ok());
}

// parity: ibverbs-tests-51, ibverbs-246, rrddmma-85
TEST_P(rdma_read_write, read_fetches_remote_memory) {
  VERBENA_OPEN();
  for (const std::size_t bytes : {1U, 7U, 1024U, 4096U, 4097U, 65537U}) {
    fill(remote->bytes().first(bytes + 20), static_cast<std::uint32_t>(bytes));
    std::ranges::fill(local->bytes().first(bytes + 200), std::byte{0x55});
    post([&](auto& batch) {
      batch.read({.id = 4, .signaled = true}, local->slice(100, bytes),
                 remote->remote().slice(20, bytes));
    });
    const completion done = sent();
    ASSERT_TRUE(done.ok()) << to_string(done);
    EXPECT_EQ(done.id(), 4U);
    EXPECT_EQ(done.opcode(), completion_opcode::read);
    EXPECT_EQ(done.byte_length(), bytes);
    ASSERT_TRUE(holds(*local, 100, remote->bytes().subspan(20, bytes))) << bytes;
    ASSERT_TRUE(holds(*local, 0, std::vector(100, std::byte{0x55})));
    ASSERT_TRUE(holds(*local, 100 + bytes, std::vector(100, std::byte{0x55})));
  }
}

TEST_P(rdma_read_write, read_of_one_mebibyte_arrives) {
  VERBENA_OPEN();
  fill(remote->bytes().first(1 << 20), 5);
  post([&](auto& batch) {
    batch.read({.signaled = true}, local->slice(0, 1 << 20), remote->remote());
  });
  ASSERT_TRUE(sent().ok());
  EXPECT_TRUE(holds(*local, 0, remote->bytes().first(1 << 20)));
}

TEST_P(rdma_read_write, read_scatters_into_sges) {
  VERBENA_OPEN();
  VERBENA_NEEDS(!is_iwarp(), "a read of iWARP has one sink");
  fill(remote->bytes().first(4096), 6);
  const std::array to{local->slice(0, 100), local->slice(1000, 1), local->slice(2000, 2000)};
  post([&](auto& batch) { batch.read({.signaled = true}, to, remote->remote().slice(0, 2101)); });
  ASSERT_TRUE(sent().ok());
  EXPECT_TRUE(holds(*local, 0, remote->bytes().first(100)));
  EXPECT_TRUE(holds(*local, 1000, remote->bytes().subspan(100, 1)));
  EXPECT_TRUE(holds(*local, 2000, remote->bytes().subspan(101, 2000)));
}

TEST_P(rdma_read_write, more_reads_than_max_rd_atomic_all_succeed) {
  link_options options;
  options.initiator.reliability.read_depth = options.target.reliability.read_depth = 2;
  VERBENA_OPEN(options);
  fill(remote->bytes().first(12 * 3000), 7);
  post([&](auto& batch) {
    for (std::uint64_t i = 0; i < 12; ++i)
      batch.read({.id = i, .signaled = true}, local->slice(i * 3000, 3000),
                 remote->remote().slice(i * 3000, 3000));
  });
  const auto done = take(initiator().sends, 12);
  for (std::size_t i = 0; i < done.size(); ++i) {
    EXPECT_TRUE(done[i].ok()) << to_string(done[i]);
    EXPECT_EQ(done[i].id(), i);
  }
  EXPECT_TRUE(holds(*local, 0, remote->bytes().first(12 * 3000)));
}

// parity: ibverbs-234, rrddmma-93
TEST_P(rdma_read_write, fenced_write_sends_data_fetched_by_the_preceding_read) {
  VERBENA_OPEN();
  fill(remote->bytes().first(4096), 8);
  post([&](auto& batch) {
    batch.read({.id = 1, .signaled = true}, local->slice(0, 4096), remote->remote().slice(0, 4096));
    batch.write({.id = 2, .signaled = true, .fenced = true}, local->slice(0, 4096),
                remote->remote().slice(8192, 4096));
  });
  EXPECT_EQ(sent().id(), 1U);
  EXPECT_EQ(sent().id(), 2U);
  EXPECT_TRUE(holds(*remote, 8192, remote->bytes().first(4096)));
}

// parity: rrddmma-92
TEST_P(rdma_read_write, operations_of_one_batch_complete_in_order) {
  VERBENA_OPEN();
  VERBENA_NEEDS(!is_iwarp(), "iWARP orders a read and what follows it only with a fence");
  const auto sink = connection().memory(4096);
  fill(local->bytes().first(8192), 9);
  receive(50, sink.slice(0, 4096));
  post([&](auto& batch) {
    batch.write({.id = 1, .signaled = true}, local->slice(0, 4096), remote->remote());
    batch.read({.id = 2, .signaled = true}, local->slice(16384, 4096),
               remote->remote().slice(0, 4096));
    batch.send({.id = 3, .signaled = true}, local->slice(4096, 4096));
    batch.write({.id = 4, .signaled = true}, local->slice(4096, 1), remote->remote());
  });
  const auto done = take(initiator().sends, 4);
  for (std::size_t i = 0; i < done.size(); ++i) {
    EXPECT_TRUE(done[i].ok()) << to_string(done[i]);
    EXPECT_EQ(done[i].id(), i + 1);
  }
  EXPECT_EQ(received().id(), 50U);
  EXPECT_TRUE(holds(*local, 16384, local->bytes().first(4096)))
      << "the read must return the bytes of the write before it, not of the write after it";
  EXPECT_TRUE(holds(sink, 0, local->bytes().subspan(4096, 4096)));
  EXPECT_TRUE(holds(*remote, 0, local->bytes().subspan(4096, 1)));
}

TEST_P(rdma_read_write, message_arrives_after_the_preceding_write) {
  VERBENA_OPEN();
  const auto sink = connection().memory(64);
  for (std::uint32_t round = 0; round < 50; ++round) {
    fill(local->bytes().first(8000), round);
    receive(round, sink.slice());
    post([&](auto& batch) {
      batch.write({}, local->slice(0, 8000), remote->remote());
      batch.send({.signaled = true}, local->slice(0, 8));
    });
    ASSERT_TRUE(received().ok());
    ASSERT_TRUE(holds(*remote, 0, local->bytes().first(8000))) << "round " << round;
    ASSERT_TRUE(sent().ok());
  }
}

}  // namespace
}  // namespace verbena::conformance
