// SPDX-License-Identifier: MIT
// Posting single requests on soft0, by queue pairs, by both posters and on each transport.
#include "verbena/verbs/single_operations.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "tests/unit/verbs/loopback.hpp"
#include "verbena/base/bytes.hpp"
#include "verbena/verbs/address_handle.hpp"
#include "verbena/verbs/global_route_header.hpp"

namespace verbena {
namespace {

using test::fill;
using test::loopback;
using test::take;

template <class Poster>
concept posts_writes =
    requires(Poster& poster, const local_slice& slice, const remote_region& remote) {
      poster.post_write({}, slice, remote);
      poster.post_write_with_immediate({}, 1U, slice, remote);
    };
template <class Poster>
concept posts_reads =
    requires(Poster& poster, const local_slice& slice, const remote_region& remote) {
      poster.post_read({}, slice, remote);
    };
template <class Poster>
concept posts_compare_and_swap =
    requires(Poster& poster, const local_slice& slice, const remote_region& remote) {
      poster.post_compare_and_swap({}, slice, remote, compare_and_swap_operands{1, 2});
    };
template <class Poster>
concept posts_fetch_and_add =
    requires(Poster& poster, const local_slice& slice, const remote_region& remote) {
      poster.post_fetch_and_add({}, slice, remote, 1);
    };
template <class Poster>
concept posts_unaddressed = requires(Poster& poster, const local_slice& slice) {
  poster.post_send({}, slice);
  poster.post_send_with_immediate({}, 1U, slice);
};
template <class Poster>
concept posts_addressed =
    requires(Poster& poster, const local_slice& slice, const destination& to) {
      poster.post_send({}, slice, to);
      poster.post_send_with_immediate({}, 1U, slice, to);
    };
static_assert(posts_unaddressed<queue_pair<rc>> && !posts_addressed<queue_pair<rc>>);
static_assert(posts_writes<queue_pair<rc>> && posts_reads<queue_pair<rc>>);
static_assert(posts_compare_and_swap<queue_pair<rc>> && posts_fetch_and_add<queue_pair<rc>>);
static_assert(posts_unaddressed<queue_pair<uc>> && !posts_addressed<queue_pair<uc>>);
static_assert(posts_writes<queue_pair<uc>> && !posts_reads<queue_pair<uc>>);
static_assert(!posts_compare_and_swap<queue_pair<uc>> && !posts_fetch_and_add<queue_pair<uc>>);
static_assert(!posts_unaddressed<queue_pair<ud>> && posts_addressed<queue_pair<ud>>);
static_assert(!posts_writes<queue_pair<ud>> && !posts_reads<queue_pair<ud>>);
static_assert(!posts_compare_and_swap<queue_pair<ud>> && !posts_fetch_and_add<queue_pair<ud>>);

/// The ways to post: by a queue pair, or by the poster that `with_poster()` chooses.
struct by_queue_pair {
  static constexpr bool extended = true;
  static constexpr bool copies_lists = true;  // of inline data, which the batch then bounds
  template <class Transport, class Use>
  static void with(queue_pair<Transport>& queue, Use&& use) {
    use(queue);
  }
};
struct by_poster {
  template <class Transport, class Use>
  static void with(queue_pair<Transport>& queue, Use&& use) {
    queue.with_poster([&](auto& poster) { use(poster); });
  }
};
struct by_classic_poster : by_poster {
  static constexpr bool extended = false;
  static constexpr bool copies_lists = true;
};
struct by_extended_queue : by_poster {
  static constexpr bool extended = true;
  static constexpr bool copies_lists = false;
};

/// A queue pair that is connected to itself, and its memory.
template <class Transport>
struct self_connected {
  explicit self_connected(queue_pair_options<Transport> options)
      : prepared(pd.create_qp<Transport>(cq, cq, std::move(options)).value()), queue(connect()) {}
  queue_pair<Transport> connect() {
    const auto self = prepared.endpoint();
    return std::move(prepared).handshake(self).value();
  }

  context device = open_device("soft0").value();
  protection_domain pd = device.allocate_pd().value();
  completion_queue cq = device.create_cq(64).value();
  memory_region memory = pd.allocate(4096, access::local_write | access::remote_read |
                                               access::remote_write | access::remote_atomic)
                             .value();
  prepared_queue_pair<Transport> prepared;
  queue_pair<Transport> queue;
};

/// The completion of request `id` among `of`.
completion completion_of(const std::vector<completion>& of, std::uint64_t id) {
  const auto found = std::ranges::find(of, id, &completion::id);
  EXPECT_NE(found, of.end()) << "no completion of request " << id;
  if (found == of.end()) return {};
  EXPECT_TRUE(found->ok()) << to_string(*found);
  return *found;
}

template <class Way>
class single_operations_of : public ::testing::Test {
 protected:
  static constexpr access_flags everything =
      access::remote_read | access::remote_write | access::remote_atomic;

  static bool same(const memory_region& memory, std::size_t a, std::size_t b, std::size_t length) {
    return std::ranges::equal(memory.bytes().subspan(a, length), memory.bytes().subspan(b, length));
  }
  static std::uint64_t word(const memory_region& memory, std::size_t offset) {
    std::uint64_t value = 0;
    std::memcpy(&value, memory.bytes().data() + offset, sizeof value);
    return value;
  }

  // Posts sends and writes with and without immediate data, of slices and inline data.
  template <class Transport>
  static void send_and_write(self_connected<Transport>& on) {
    const auto& memory = on.memory;
    fill(memory.bytes().first(256), 1);
    const std::array slices = {memory.slice(0, 10), memory.slice(100, 20)};
    const std::array pieces = {inline_data(bytes_of("in")), inline_data(bytes_of("line"))};
    for (const std::uint64_t i : {0U, 1U, 2U, 3U, 4U})
      on.queue.post_receive({.id = i}, memory.slice(1024 + i * 64, 64)).value();
    Way::with(on.queue, [&](auto& poster) {
      ASSERT_TRUE(poster.post_send({.id = 10, .signaled = true}, memory.slice(0, 64)));
      ASSERT_TRUE(poster.post_send({.id = 11, .signaled = true}, slices));
      ASSERT_TRUE(poster.post_send({.id = 12, .signaled = true}, pieces));
      ASSERT_TRUE(poster.post_send_with_immediate({.id = 13, .signaled = true}, 0x01020304,
                                                  inline_data(bytes_of("imm"))));
      ASSERT_TRUE(poster.post_write({.id = 14, .signaled = true}, memory.slice(0, 64),
                                    memory.remote().slice(2048, 64)));
      ASSERT_TRUE(poster.post_write_with_immediate({.id = 15, .signaled = true}, 0x0a0b0c0d,
                                                   memory.slice(64, 64),
                                                   memory.remote().slice(2112, 64)));
    });
    const auto done = take(on.cq, 11);
    for (std::uint64_t id = 10; id <= 13; ++id)
      EXPECT_EQ(completion_of(done, id).opcode(), completion_opcode::send);
    for (std::uint64_t id = 14; id <= 15; ++id)
      EXPECT_EQ(completion_of(done, id).opcode(), completion_opcode::write);
    EXPECT_EQ(completion_of(done, 0).byte_length(), 64U);
    EXPECT_TRUE(same(memory, 1024, 0, 64));
    EXPECT_EQ(completion_of(done, 1).byte_length(), 30U);
    EXPECT_TRUE(same(memory, 1088, 0, 10) && same(memory, 1098, 100, 20));
    EXPECT_EQ(completion_of(done, 2).immediate(), std::nullopt);
    EXPECT_TRUE(std::ranges::equal(memory.bytes().subspan(1152, 6), bytes_of("inline")));
    EXPECT_EQ(completion_of(done, 3).immediate(), 0x01020304U);
    EXPECT_TRUE(std::ranges::equal(memory.bytes().subspan(1216, 3), bytes_of("imm")));
    EXPECT_EQ(completion_of(done, 4).immediate(), 0x0a0b0c0dU);
    EXPECT_TRUE(same(memory, 2048, 0, 128));
  }
};
using ways = ::testing::Types<by_queue_pair, by_classic_poster, by_extended_queue>;
TYPED_TEST_SUITE(single_operations_of, ways);

TYPED_TEST(single_operations_of, rc_move_the_data_and_complete_with_their_ids) {
  self_connected<rc> on({.queues = {.max_send_sge = 2, .max_inline_data = 16},
                         .extended = TypeParam::extended,
                         .access = this->everything});
  this->send_and_write(on);

  const auto& memory = on.memory;
  const std::uint64_t start = 40;
  std::memcpy(memory.bytes().data() + 3072, &start, sizeof start);
  const auto target = memory.remote().slice(3072, 8);
  TypeParam::with(on.queue, [&](auto& poster) {
    ASSERT_TRUE(poster.post_read({.id = 20, .signaled = true}, memory.slice(512, 64),
                                 memory.remote().slice(0, 64)));
    ASSERT_TRUE(
        poster.post_fetch_and_add({.id = 21, .signaled = true}, memory.slice(3080, 8), target, 2));
    ASSERT_TRUE(poster.post_compare_and_swap({.id = 22, .signaled = true}, memory.slice(3088, 8),
                                             target, {.expected = 42, .desired = 7}));
    ASSERT_TRUE(poster.post_compare_and_swap({.id = 23, .signaled = true}, memory.slice(3096, 8),
                                             target, {.expected = 42, .desired = 8}));
  });
  const auto done = take(on.cq, 4);
  EXPECT_EQ(completion_of(done, 20).opcode(), completion_opcode::read);
  EXPECT_TRUE(this->same(memory, 512, 0, 64));
  EXPECT_EQ(completion_of(done, 21).opcode(), completion_opcode::fetch_and_add);
  EXPECT_EQ(this->word(memory, 3080), 40U);
  EXPECT_EQ(completion_of(done, 22).opcode(), completion_opcode::compare_and_swap);
  EXPECT_EQ(this->word(memory, 3088), 42U);
  EXPECT_EQ(completion_of(done, 23).opcode(), completion_opcode::compare_and_swap);
  EXPECT_EQ(this->word(memory, 3096), 7U);
  EXPECT_EQ(this->word(memory, 3072), 7U);
}

TYPED_TEST(single_operations_of, uc_move_the_data_and_complete_with_their_ids) {
  self_connected<uc> on({.queues = {.max_send_sge = 2, .max_inline_data = 16},
                         .extended = TypeParam::extended,
                         .access = access::remote_write});
  this->send_and_write(on);
}

TYPED_TEST(single_operations_of, ud_move_the_data_and_complete_with_their_ids) {
  constexpr std::size_t header = global_route_header::encoded_size;
  const queue_key key(0x77);
  const auto device = open_device("soft0").value();
  const auto pd = device.allocate_pd().value();
  const auto cq = device.create_cq(16).value();
  auto prepared =
      pd.create_qp<ud>(cq, cq, {.queues = {.max_inline_data = 16}, .extended = TypeParam::extended})
          .value();
  const auto way = pd.create_ah(prepared.address_of(prepared.endpoint()).value()).value();
  auto queue = std::move(prepared).activate(key).value();
  const auto memory = pd.allocate(4096, access::local_write).value();
  fill(memory.bytes().first(64), 5);
  for (const std::uint64_t i : {0U, 1U})
    queue.post_receive({.id = i}, memory.slice(1024 + i * 128, 128)).value();
  const auto to = way.destination(queue.number(), key);
  TypeParam::with(queue, [&](auto& poster) {
    ASSERT_TRUE(poster.post_send({.id = 10, .signaled = true}, memory.slice(0, 64), to));
    ASSERT_TRUE(poster.post_send_with_immediate({.id = 11, .signaled = true}, 0x01020304,
                                                inline_data(bytes_of("imm")), to));
  });
  const auto done = take(cq, 4);
  for (std::uint64_t id = 10; id <= 11; ++id)
    EXPECT_EQ(completion_of(done, id).opcode(), completion_opcode::send);
  EXPECT_EQ(completion_of(done, 0).byte_length(), header + 64);
  EXPECT_EQ(completion_of(done, 0).immediate(), std::nullopt);
  EXPECT_TRUE(this->same(memory, 1024 + header, 0, 64));
  EXPECT_EQ(completion_of(done, 1).immediate(), 0x01020304U);
  EXPECT_TRUE(std::ranges::equal(memory.bytes().subspan(1152 + header, 3), bytes_of("imm")));
}

// The errors of ibv_post_send(3), and the library's own limit.
TYPED_TEST(single_operations_of, rc_return_the_errors) {
  loopback pair({.queues = {.max_send_wr = 4, .max_send_sge = 1, .max_inline_data = 16},
                 .extended = TypeParam::extended,
                 .access = this->everything,
                 .reliability = {.rnr_retry_count = reliability::unlimited_rnr_retries}});
  const auto memory = pair.memory(4096);
  auto& queue = pair.a().queue;
  const auto capabilities = queue.capabilities();
  std::vector<local_slice> slices;
  for (std::uint32_t i = 0; i <= capabilities.max_send_sge; ++i)
    slices.push_back(memory.slice(1024 + i, 1));
  const std::vector<std::byte> bytes(capabilities.max_inline_data + 1);
  const std::vector pieces(17, inline_data(bytes_of("")));
  const auto word = memory.slice(0, 8);
  const auto before = memory.slice(512, 8);
  const auto remote = memory.remote().slice(8, 8);
  TypeParam::with(queue, [&](auto& poster) {
    EXPECT_EQ(poster.post_send({}, slices).code(), EINVAL);
    EXPECT_EQ(poster.post_write({}, slices, memory.remote()).code(), EINVAL);
    EXPECT_EQ(poster.post_read({}, slices, memory.remote()).code(), EINVAL);
    EXPECT_NE(poster.post_send({}, inline_data(bytes)).code(), 0);
    if (TypeParam::copies_lists) {
      EXPECT_EQ(poster.post_send({}, pieces).code(), ENOBUFS);
    }
    // The peer has no receive, so nothing completes and the send queue fills up.
    std::uint32_t posted = 0;
    while (posted < 1000 && poster.post_send({.id = posted, .signaled = true}, word)) ++posted;
    EXPECT_EQ(posted, capabilities.max_send_wr);
    EXPECT_EQ(poster.post_send({}, word).code(), ENOMEM);
    EXPECT_EQ(poster.post_send({}, word).accepted_before_failure(), 0U);
    EXPECT_EQ(poster.post_send_with_immediate({}, 1, word).code(), ENOMEM);
    EXPECT_EQ(poster.post_write({}, word, remote).code(), ENOMEM);
    EXPECT_EQ(poster.post_write_with_immediate({}, 1, word, remote).code(), ENOMEM);
    EXPECT_EQ(poster.post_read({}, before, remote).code(), ENOMEM);
    EXPECT_EQ(poster.post_compare_and_swap({}, before, remote, {1, 2}).code(), ENOMEM);
    EXPECT_EQ(poster.post_fetch_and_add({}, before, remote, 1).code(), ENOMEM);
  });
  // The queue pair still works: all that it accepted is received, in order.
  const auto posted = capabilities.max_send_wr;
  for (std::uint64_t i = 0; i < posted; ++i)
    pair.b().queue.post_receive({.id = i}, memory.slice(2048 + i * 8, 8)).value();
  const auto done = take(pair.a().sends, posted);
  for (std::size_t i = 0; i < done.size(); ++i) {
    EXPECT_TRUE(done[i].ok()) << to_string(done[i]);
    EXPECT_EQ(done[i].id(), i);
  }
  take(pair.b().receives, posted);
  queue.modify(queue_pair_attributes().set_state(queue_pair_state::reset)).value();
  TypeParam::with(queue, [&](auto& poster) {
    EXPECT_EQ(poster.post_send({}, word).code(), EINVAL) << "in state RESET";
  });
}

}  // namespace
}  // namespace verbena
