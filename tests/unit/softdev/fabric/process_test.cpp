// SPDX-License-Identifier: MIT
// The path between processes, with peers that exit, stop, or write invalid data.
#include <algorithm>
#include <array>
#include <random>
#include <span>
#include <thread>

#include "tests/unit/campaign_seed.hpp"
#include "tests/unit/softdev/fabric/device_pair.hpp"
#include "tests/unit/softdev/failing_allocations.hpp"

namespace verbena::softdev::testing {
namespace {

/// Data that the child sends to its parent.
struct process_place {
  std::uint32_t qpn = 0;
  std::uint32_t key = 0;
  std::uint64_t address = 0;
};

/// Answers requests until the process is killed.
[[noreturn]] void serve(int pipe, std::uint32_t parent, const link_options& options,
                        memory_kind kind) {
  device mine(options);
  end_point& end = mine.make();
  const shared_buffer memory(mine, kind, 1 << 16, 9);
  connect(*end.qp, connection_to(parent));
  for (std::uint64_t i = 0; i < 64; ++i)
    if (post_receive(*end.qp, i, {memory.slice(0, 1024)}) != 0) ::_exit(98);
  send_value(pipe, process_place{end.qp->number(), memory.key(), memory.address()});
  for (;;) {
    mine.turn();
    for (const completion& one : drain(*end.received))
      static_cast<void>(post_receive(*end.qp, one.wr_id, {memory.slice(0, 1024)}));
    std::this_thread::yield();
  }
}

/// A device of this process, connected to a device of a child process.
struct two_processes {
  explicit two_processes(const link_options& options = {},
                         memory_kind kind = memory_kind::shareable)
      : mine(options),
        end(mine.make()),
        other([&](int pipe) -> int { serve(pipe, end.qp->number(), options, kind); }),
        there(other.read<process_place>()) {
    virtual_now = 1'000'000;
    connect(*end.qp, connection_to(there.qpn));
  }
  [[nodiscard]] send_request request(opcode op, std::uint64_t offset = 0) const {
    return {.wr_id = 1,
            .opcode = op,
            .flags = signaled,
            .remote_address = there.address + offset,
            .remote_key = there.key};
  }
  /// Waits for the next completion.
  completion wait() {
    const auto give_up = clock::now() + test_timeout;
    completion one[1];
    while (end.sent->poll(one) == 0) {
      if (clock::now() > give_up) {
        ADD_FAILURE() << "no completion";
        return {};
      }
      mine.turn();
      std::this_thread::yield();
    }
    return one[0];
  }

  device mine;
  end_point& end;
  child other;
  process_place there;
  shared_buffer local{mine, memory_kind::ordinary, 1 << 16, 1};
};

struct process_case {
  const char* name;
  route_policy policy;
  memory_kind kind;
};
class processes : public ::testing::TestWithParam<process_case> {
 protected:
  two_processes both{{.route = GetParam().policy}, GetParam().kind};
};

TEST_P(processes, every_operation_works_between_processes) {
  for (int round = 0; round < 20; ++round) {
    ASSERT_EQ(post(*both.end.qp, both.request(opcode::send), {both.local.slice(0, 100)}), 0);
    EXPECT_EQ(both.wait().status, completion_status::success);
    const std::size_t at = 2048 + static_cast<std::size_t>(round) * 1000;
    ASSERT_EQ(
        post(*both.end.qp, both.request(opcode::rdma_write, at), {both.local.slice(at, 1000)}), 0);
    EXPECT_EQ(both.wait().status, completion_status::success);
    ASSERT_EQ(
        post(*both.end.qp, both.request(opcode::rdma_read, at), {both.local.slice(40'000, 1000)}),
        0);
    EXPECT_EQ(both.wait().status, completion_status::success);
    EXPECT_TRUE(both.local.holds(1, 40'000, 1000, at));
    send_request add = both.request(opcode::fetch_add, 60'000);
    add.compare_or_add = 1;
    ASSERT_EQ(post(*both.end.qp, add, {both.local.slice(50'000, 8)}), 0);
    EXPECT_EQ(both.wait().status, completion_status::success);
    ASSERT_EQ(
        post(*both.end.qp, both.request(opcode::rdma_read, 60'000), {both.local.slice(50'008, 8)}),
        0);
    EXPECT_EQ(both.wait().status, completion_status::success);
    EXPECT_EQ(both.local.word(6251), both.local.word(6250) + 1);
  }
}

// parity: semantics-107
TEST_P(processes, killed_peer_fails_with_retry_exceeded) {
  ASSERT_EQ(post(*both.end.qp, both.request(opcode::send), {both.local.slice(0, 100)}), 0);
  EXPECT_EQ(both.wait().status, completion_status::success);
  both.other.send(SIGKILL);
  completion done{};
  const auto give_up = clock::now() + test_timeout;
  while (done.status == completion_status::success && clock::now() < give_up) {
    for (const opcode op : {opcode::send, opcode::rdma_write, opcode::rdma_read})
      static_cast<void>(post(*both.end.qp, both.request(op), {both.local.slice(0, 100)}));
    done = both.wait();
  }
  EXPECT_EQ(done.status, completion_status::retry_exceeded);
  EXPECT_EQ(done.vendor_error, static_cast<std::uint32_t>(reason::peer_gone));
  EXPECT_EQ(both.end.qp->state(), queue_pair_state::error);
  both.mine.turn();
  EXPECT_TRUE(both.mine.core->next_deadline() == never || both.mine.core->progress());
}

TEST_P(processes, peer_killed_with_full_rings_fails_with_retry_exceeded) {
  both.other.send(SIGSTOP);
  for (int i = 0; i < 60; ++i)
    ASSERT_EQ(post(*both.end.qp, both.request(opcode::send), {both.local.slice(0, 60'000)}), 0);
  for (int i = 0; i < 20; ++i) both.mine.turn();
  EXPECT_TRUE(both.end.sent->empty());
  both.other.send(SIGKILL);
  EXPECT_EQ(both.wait().status, completion_status::retry_exceeded);
  for (int i = 0; i < 59; ++i) EXPECT_EQ(both.wait().status, completion_status::flushed);
}

TEST_P(processes, requests_to_a_stopped_peer_wait_without_failure) {
  ASSERT_EQ(post(*both.end.qp, both.request(opcode::send), {both.local.slice(0, 100)}), 0);
  EXPECT_EQ(both.wait().status, completion_status::success);
  both.other.send(SIGSTOP);
  ASSERT_EQ(post(*both.end.qp, both.request(opcode::send), {both.local.slice(0, 100)}), 0);
  for (int i = 0; i < 50; ++i) {
    virtual_now += 1'000'000'000;
    both.mine.turn();
  }
  EXPECT_TRUE(both.end.sent->empty());
  both.other.send(SIGCONT);
  EXPECT_EQ(both.wait().status, completion_status::success);
}

INSTANTIATE_TEST_SUITE_P(
    of_one_host, processes,
    ::testing::Values(process_case{"mapped", route_policy::automatic, memory_kind::shareable},
                      process_case{"copied", route_policy::automatic, memory_kind::ordinary},
                      process_case{"ring", route_policy::ring, memory_kind::ordinary}),
    [](const auto& chosen) { return std::string(chosen.param.name); });

TEST(initiator_side, write_reaches_a_stopped_process) {
  two_processes both;
  // The first write requests the mapping. Writes before it exists use another route.
  while (both.mine.path->counters().mapped == 0) {
    ASSERT_EQ(post(*both.end.qp, both.request(opcode::rdma_write, 8), {both.local.slice(0, 8)}), 0);
    ASSERT_EQ(both.wait().status, completion_status::success);
    both.mine.turn();
  }
  both.other.send(SIGSTOP);
  ASSERT_EQ(post(*both.end.qp, both.request(opcode::rdma_write, 4096), {both.local.slice(0, 4096)}),
            0);
  ASSERT_EQ(
      post(*both.end.qp, both.request(opcode::rdma_read, 4096), {both.local.slice(8192, 4096)}), 0);
  EXPECT_EQ(both.wait().status, completion_status::success);
  EXPECT_EQ(both.wait().status, completion_status::success);
  EXPECT_TRUE(both.local.holds(1, 8192, 4096, 0));
}

/// Invalid records: random bytes, and valid headers with wrong fields.
class random_records : public ::testing::TestWithParam<std::uint32_t> {
 protected:
  std::uint64_t random() { return generator_(); }
  /// Returns a number that is in use, or a random number.
  std::uint32_t number(std::initializer_list<std::uint32_t> likely) {
    const auto pick = random() % (likely.size() + 1);
    return pick < likely.size() ? *(likely.begin() + pick) : static_cast<std::uint32_t>(random());
  }
  const transport kind =
      std::array{transport::rc, transport::uc, transport::ud, transport::srd}[GetParam() % 4];
  std::vector<std::byte> forge(std::uint16_t type, const device_pair& pair, std::uint32_t key,
                               std::uint32_t own) {
    using namespace records;
    constexpr unsigned solicited_bit = 0x80;
    const std::uint32_t to = number({pair.b->qp->number(), pair.b->qp->number(), 1});
    const std::uint32_t from =
        number({pair.a->qp->number(), pair.a->qp->number(), pair.a->qp->number()});
    const std::uint32_t psn = number({100, 101, 102, 103});
    const auto attempt = static_cast<std::uint16_t>(random() % 4);
    std::vector<std::byte> bytes(random() % 300);
    for (auto& each : bytes) each = static_cast<std::byte>(random());
    const auto begin = [&](const auto& header) {
      if (bytes.size() < sizeof header) bytes.resize(sizeof header);
      std::memcpy(bytes.data(), &header, sizeof header);
    };
    if (type == records::request)
      begin(request_header{
          .destination_qpn = to,
          .source_qpn = from,
          .psn = psn,
          .attempt = attempt,
          .opcode = static_cast<std::uint8_t>(random() % 9),
          .kind = static_cast<std::uint8_t>(
              (random() % 8 == 0 ? random() % 6 : static_cast<unsigned>(kind)) | solicited_bit),
          .length = number({0, 8, 16, 200, 1U << 30U}),
          .immediate = 7,
          .remote_address = random(),
          .remote_key = number({key, key, 0x1234}),
          .pkey = static_cast<std::uint16_t>(number({0xffff, 0xffff, 0xffff})),
          .destination_lid = static_cast<std::uint16_t>(number({0, 0, 0}))});
    if (type == records::reference) {
      struct {
        request_header request;
        reference_header reference;
        std::array<sge, 2> elements;
      } all{.request = {.destination_qpn = to,
                        .source_qpn = from,
                        .psn = psn,
                        .attempt = attempt,
                        .opcode = static_cast<std::uint8_t>(random() % 5),
                        .kind = static_cast<std::uint8_t>(number({static_cast<unsigned>(kind)})),
                        .length = 0,
                        .immediate = 7,
                        .remote_address = random(),
                        .remote_key = number({key, key}),
                        .pkey = 0xffff,
                        .destination_lid = 0},
            .reference = {number({1, 2, 3}), number({1, 2, 2, 2}), 0},
            .elements = {}};
      for (sge& element : all.elements) {
        element = {.address = random(), .length = number({8, 16}), .lkey = number({key, own})};
        if (random() % 4 != 0) element.length %= 4096;
        all.request.length += element.length;
      }
      begin(all);
      bytes.resize(sizeof all);
    }
    if (type == records::answer)
      begin(answer_header{to, from, psn, attempt, static_cast<std::uint8_t>(random() % 12),
                          static_cast<std::uint8_t>(random() % 40), random(), number({0x301}), 1, 2,
                          3});
    if (type == records::fragment || type == records::data)
      begin(fragment_header{to, from, psn, attempt, number({0, 8, 40})});
    return bytes;
  }

 private:
  std::mt19937_64 generator_{test::campaign_seed(GetParam())};
};
/// The left device sends `bytes` to the right one as a record.
void send_bytes(device_pair& pair, std::uint16_t type, std::span<const std::byte> bytes) {
  const auto to = pair.left.peer_link->find(pair.right.peer_link->slot());
  ASSERT_TRUE(to);
  const auto lock = to->lock_sends();
  const auto record = to->try_reserve(type, static_cast<std::uint32_t>(bytes.size()));
  ASSERT_EQ(record.status, ring_status::ok);
  std::ranges::copy(bytes, record.payload.begin());
  to->commit();
  to->announce();
}

// A read over SRD is one record and has no fragments, whatever its length.
TEST(malformed_records, fragment_after_a_read_in_parts_is_ignored) {
  device_pair pair({.route = route_policy::ring}, transport::srd);
  pair.connect_ends();
  const shared_buffer source(pair.left, memory_kind::ordinary, 64, 1);
  const shared_buffer target(pair.right, memory_kind::ordinary, 1 << 20, 2);
  const datagram_destination to{.qpn = pair.b->qp->number(), .qkey = 0x1234, .known = true};
  ASSERT_EQ(post_to(*pair.a->qp,
                    {.opcode = opcode::rdma_write,
                     .flags = signaled,
                     .remote_address = target.address(),
                     .remote_key = target.key()},
                    to, {source.slice(0, 8)}),
            0);
  ASSERT_EQ(pair.wait_for(*pair.a->sent, 1).at(0).status, completion_status::success);
  constexpr std::uint32_t psn = 77;
  message read;
  read.opcode = opcode::rdma_read;
  read.transport = transport::srd;
  read.pkey = 0xffff;
  read.source_qpn = pair.a->qp->number();
  read.destination_qpn = pair.b->qp->number();
  read.psn = psn;
  read.length = 1 << 20;
  read.qkey = 0x1234;
  read.remote_address = target.address();
  read.remote_key = target.key();
  std::vector<std::byte> request(records::request_bytes(read.transport, read.opcode));
  std::span<std::byte> room(request);
  records::put_request_part(room, read, {read.opcode, read.length});
  send_bytes(pair, records::request, request);
  pair.settle();
  EXPECT_FALSE(pair.b->qp->receiver().busy());
  const records::fragment_header rest{read.destination_qpn, read.source_qpn, psn, read.attempt, 0};
  std::vector<std::byte> fragment(sizeof rest + 8);
  std::memcpy(fragment.data(), &rest, sizeof rest);
  send_bytes(pair, records::fragment, fragment);
  pair.settle();
  EXPECT_TRUE(target.holds(2, 8, 4096, 8));
  EXPECT_EQ(pair.b->qp->state(), queue_pair_state::rts);
}

TEST_P(random_records, random_records_neither_crash_nor_access_foreign_memory) {
  device_pair pair({}, kind);
  pair.connect_ends();
  shared_buffer region_of_peer(pair.right, memory_kind::ordinary, 4096, 2, access::local_write);
  const shared_buffer own_region(pair.left, memory_kind::shareable, 4096, 3);
  for (std::uint64_t i = 0; i < 20; ++i) static_cast<void>(post_receive(*pair.b->qp, i, {}));
  if (kind == transport::rc) {
    ASSERT_EQ(post(*pair.b->qp, {.wr_id = 1, .opcode = opcode::rdma_read, .flags = signaled}, {}),
              0);
  } else if (kind != transport::uc) {
    pair.a->qp->sends().open();
    ASSERT_EQ(pair.a->qp->sends().add({}, {}), 0);
    pair.a->qp->sends().set_destination({.qpn = pair.b->qp->number(), .known = true});
    pair.a->qp->sends().submit();
  }
  pair.settle();
  const auto to = pair.left.peer_link->find(pair.right.peer_link->slot());
  ASSERT_TRUE(to);
  ASSERT_TRUE(pair.until([&] { return to->state() == peer_state::paired; }));
  for (int i = 0; i < 400; ++i) {
    const auto type = static_cast<std::uint16_t>(1 + random() % 5);
    // A fragment with the same numbers follows some requests.
    std::vector<std::vector<std::byte>> forged{
        forge(type, pair, region_of_peer.key(), own_region.key())};
    std::vector<std::uint16_t> types{type};
    if (type == records::request && random() % 2 == 0) {
      records::request_header header{};
      std::memcpy(&header, forged[0].data(), sizeof header);
      const records::fragment_header next{header.destination_qpn, header.source_qpn, header.psn,
                                          header.attempt, 0};
      forged.emplace_back(sizeof next + 8);
      std::memcpy(forged[1].data(), &next, sizeof next);
      types.push_back(records::fragment);
    }
    for (std::size_t each = 0; each < forged.size(); ++each) {
      const auto& bytes = forged[each];
      const auto lock = to->lock_sends();
      const auto record = to->try_reserve(types[each], static_cast<std::uint32_t>(bytes.size()));
      if (record.status == ring_status::ok) {
        if (!bytes.empty()) std::memcpy(record.payload.data(), bytes.data(), bytes.size());
        to->commit();
      }
      to->announce();
    }
    if (random() % 8 == 0) pair.right.turn();
    if (random() % 16 == 0) pair.left.turn();
    if (pair.b->qp->state() == queue_pair_state::error && random() % 4 == 0) {
      pair.b->qp->modify({.state = queue_pair_state::reset}, attribute::state).value();
      connect(*pair.b->qp, connection_to(pair.a->qp->number()));
    }
  }
  pair.settle();
  EXPECT_TRUE(region_of_peer.holds(2, 0, 4096, 0)) << "the region does not permit remote access";
}
INSTANTIATE_TEST_SUITE_P(in_a_ring, random_records, ::testing::Range(1U, 25U));

#ifdef VERBENA_FAILS_ALLOCATIONS
/// Ends the pairing of the right device with the left one for lack of memory: the message that
/// memory of the left one is gone finds none. `before` runs with the message on its way.
std::weak_ptr<peer> lose_for_lack_of_memory(device_pair& pair,
                                            const std::function<void()>& before) {
  for (std::uint32_t failing = 1; failing < 20; ++failing) {
    {
      shared_buffer target(pair.left, memory_kind::shareable, 1'000'000, 1);
      const shared_buffer source(pair.right, memory_kind::ordinary, 64, 2);
      const send_request write{.opcode = opcode::rdma_write,
                               .flags = signaled,
                               .remote_address = target.address(),
                               .remote_key = target.key()};
      EXPECT_EQ(post(*pair.b->qp, write, {source.slice(0, 8)}), 0);
      EXPECT_EQ(pair.wait_for(*pair.b->sent, 1).at(0).status, completion_status::success);
      pair.settle();
    }
    pair.left.turn();
    before();
    const std::weak_ptr<peer> known = pair.right.peer_link->find(pair.left.peer_link->slot());
    fail_allocation(failing);
    pair.right.turn();
    static_cast<void>(permit_allocations());
    const auto now = known.lock();
    if (now == nullptr || now->end() == peer_end::message_lost) return known;
  }
  ADD_FAILURE() << "no failed allocation ended the pairing";
  return {};
}

TEST(lost_peer, reset_queue_pair_and_its_last_acknowledgement_do_not_keep_the_peer) {
  device_pair pair;
  pair.connect_ends();
  const shared_buffer source(pair.left, memory_kind::ordinary, 64, 1);
  const shared_buffer target(pair.right, memory_kind::ordinary, 64, 2);
  const auto known = lose_for_lack_of_memory(pair, [&] {
    ASSERT_EQ(post_receive(*pair.b->qp, 1, {target.slice(0, 8)}), 0);
    ASSERT_EQ(post(*pair.a->qp, {.flags = signaled}, {source.slice(0, 8)}), 0);
  });
  pair.settle();
  pair.b->qp->modify({.state = queue_pair_state::reset}, attribute::state).value();
  EXPECT_TRUE(pair.until([&] { return known.expired(); }));
}

TEST(lost_peer, outstanding_request_fails_if_memory_was_missing_for_its_peer) {
  device_pair pair;
  pair.connect_ends();
  const shared_buffer source(pair.right, memory_kind::ordinary, 64, 1);
  const shared_buffer target(pair.left, memory_kind::ordinary, 64, 2);
  static_cast<void>(lose_for_lack_of_memory(pair, [&] {
    static_cast<void>(drain(*pair.b->sent));
    ASSERT_EQ(post_receive(*pair.a->qp, 1, {target.slice(0, 8)}), 0);
    ASSERT_EQ(post(*pair.b->qp, {.flags = signaled}, {source.slice(0, 8)}), 0);
  }));
  const completion done = pair.wait_for(*pair.b->sent, 1).at(0);
  EXPECT_EQ(done.status, completion_status::retry_exceeded);
  EXPECT_EQ(done.vendor_error, static_cast<std::uint32_t>(reason::peer_gone));
}
#endif

}  // namespace
}  // namespace verbena::softdev::testing
