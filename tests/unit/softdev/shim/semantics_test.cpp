// SPDX-License-Identifier: MIT
// Rules of the InfiniBand specification between two processes, and of completion events;
// docs/parity/semantics.md lists them with their tests.
#include <fcntl.h>
#include <poll.h>
#include <sys/wait.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <string>

#include "tests/unit/softdev/shim/soft_device.hpp"
#include "tests/unit/softdev/shim/subprocess.hpp"

namespace verbena::softdev::testing {
namespace {

constexpr std::size_t memory_bytes = 1U << 16U;

struct exchanged {
  std::uint32_t qp_num = 0;
  std::uint32_t rkey = 0;
  std::uint64_t address = 0;
};

// One process: a device, memory, and a queue pair that is connected to the other process.
class semantic_side {
 public:
  semantic_side(stream& other, std::uint32_t seed, ibv_cq* receives = nullptr,
                const bring_up& how = {})
      : semantic_side(other, std::make_unique<opened_device>(), seed, receives, how) {}
  semantic_side(stream& other, std::unique_ptr<opened_device> opened, std::uint32_t seed,
                ibv_cq* receives, const bring_up& how)
      : device(std::move(opened)),
        qp(*device, {.recv_cq = receives}),
        memory(device->pd, memory_bytes, seed) {
    other.put(exchanged{qp.get()->qp_num, memory.mr().rkey, memory.address()});
    peer = other.take<exchanged>();
    qp.connect(peer.qp_num, how);
    other.meet();
  }

  [[nodiscard]] ibv_send_wr request(ibv_wr_opcode opcode, std::uint64_t id, std::uint64_t at = 0) {
    ibv_send_wr made{};
    made.wr_id = id;
    made.opcode = opcode;
    made.send_flags = IBV_SEND_SIGNALED;
    if (opcode == IBV_WR_ATOMIC_FETCH_AND_ADD) {
      made.wr.atomic.remote_addr = peer.address + at;
      made.wr.atomic.rkey = peer.rkey;
      made.wr.atomic.compare_add = 1;
    } else {
      made.wr.rdma.remote_addr = peer.address + at;
      made.wr.rdma.rkey = peer.rkey;
    }
    return made;
  }
  // Posts requests with one element each as one list.
  void post(std::vector<std::pair<ibv_send_wr, ibv_sge>> list) {
    for (std::size_t i = 0; i < list.size(); ++i) {
      list[i].first.sg_list = &list[i].second;
      list[i].first.num_sge = 1;
      list[i].first.next = i + 1 < list.size() ? &list[i + 1].first : nullptr;
    }
    ibv_send_wr* bad = nullptr;
    EXPECT_EQ(ibv_post_send(qp.get(), &list.front().first, &bad), 0);
  }

  std::unique_ptr<opened_device> device;
  queue_pair_handle qp;
  buffer memory;
  exchanged peer;
};

std::string explanation_of(const ibv_wc& done) {
  char text[512];
  const auto ask = reinterpret_cast<verbena_soft_explain_function>(find("verbena_soft_explain"));
  ask(done.qp_num, done.wr_id, done.vendor_err, text, sizeof text);
  return text;
}

// parity: semantics-87, semantics-88
TEST(two_process_semantics, list_of_all_operations_completes_in_order) {
  child_process child([](stream& parent) {
    semantic_side own(parent, 2);
    own.memory.set_word(0, 5);
    if (own.qp.receive(9, {own.memory.slice(8192, 64)}) != 0) return 1;
    parent.meet();
    if (own.device->wait_for(9).status != IBV_WC_SUCCESS) return 2;
    parent.meet();
    return own.memory.word(0) == 6 ? 0 : 3;
  });
  {
    semantic_side own(child.to(), 1);
    child.to().meet();
    own.post({{own.request(IBV_WR_RDMA_READ, 1, 16384), own.memory.slice(16384, 9000)},
              {own.request(IBV_WR_RDMA_WRITE, 2, 32768), own.memory.slice(0, 3000)},
              {own.request(IBV_WR_ATOMIC_FETCH_AND_ADD, 3), own.memory.slice(8, 8)},
              {own.request(IBV_WR_SEND, 4), own.memory.slice(64, 64)},
              {own.request(IBV_WR_RDMA_READ, 5, 32768), own.memory.slice(40000, 3000)}});
    for (std::uint64_t id = 1; id <= 5; ++id) {
      const ibv_wc done = own.device->wait();
      EXPECT_EQ(done.wr_id, id);
      EXPECT_EQ(done.status, IBV_WC_SUCCESS);
    }
    EXPECT_EQ(own.memory.word(8), 5U);
    child.to().meet();
    const auto theirs = pattern(2, memory_bytes);
    EXPECT_TRUE(std::equal(theirs.begin() + 16384, theirs.begin() + 16384 + 9000,
                           own.memory.data() + 16384));
    const auto before = pattern(1, memory_bytes);
    EXPECT_TRUE(std::equal(before.begin() + 64, before.begin() + 3000, own.memory.data() + 40064))
        << "the read did not return what the write before it has written";
  }
  EXPECT_EQ(child.join(), 0);
}

// The child polls the completion of each message and then reads the memory that the write before
// the message has changed.
// parity: semantics-85
TEST(two_process_semantics, data_of_a_write_is_visible_when_a_later_send_arrives) {
  constexpr std::size_t sizes[] = {1, 8, 64, 4095, 4096, 20'000};
  constexpr std::uint64_t rounds = 300;
  child_process child([&](stream& parent) {
    semantic_side own(parent, 2);
    for (int i = 0; i < 8; ++i)
      if (own.qp.receive(9, {own.memory.slice(0, 8)}) != 0) return 1;
    parent.meet();
    for (std::uint64_t round = 0; round < rounds; ++round) {
      if (own.device->wait_for(9).status != IBV_WC_SUCCESS) return 2;
      const std::size_t size = sizes[round % std::size(sizes)];
      const auto* const data = own.memory.data() + 4096;
      const auto wanted = static_cast<std::byte>(round);
      if (!std::all_of(data, data + size, [&](std::byte one) { return one == wanted; })) return 3;
      parent.meet();
      if (own.qp.receive(9, {own.memory.slice(0, 8)}) != 0) return 4;
    }
    return 0;
  });
  {
    semantic_side own(child.to(), 1);
    child.to().meet();
    for (std::uint64_t round = 0; round < rounds; ++round) {
      const std::size_t size = sizes[round % std::size(sizes)];
      std::fill_n(own.memory.data() + 4096, size, static_cast<std::byte>(round));
      ibv_send_wr write = own.request(IBV_WR_RDMA_WRITE, 1, 4096);
      write.send_flags = 0;
      own.post({{write, own.memory.slice(4096, size)},
                {own.request(IBV_WR_SEND, 2), own.memory.slice(0, 8)}});
      ASSERT_EQ(own.device->wait_for(2).status, IBV_WC_SUCCESS);
      child.to().meet();
    }
  }
  EXPECT_EQ(child.join(), 0);
}

// parity: semantics-35
TEST(two_process_semantics, atomic_behind_a_send_in_rnr_wait_is_executed_once) {
  child_process child([](stream& parent) {
    semantic_side own(parent, 2);
    own.memory.set_word(0, 40);
    parent.meet();
    parent.meet();  // the requests are posted
    if (own.memory.word(0) != 40) return 1;
    if (own.qp.receive(9, {own.memory.slice(64, 8)}) != 0) return 2;
    if (own.device->wait_for(9).status != IBV_WC_SUCCESS) return 3;
    parent.meet();
    return own.memory.word(0) == 41 ? 0 : 4;
  });
  {
    semantic_side own(child.to(), 1);
    child.to().meet();
    own.post({{own.request(IBV_WR_SEND, 1), own.memory.slice(0, 8)},
              {own.request(IBV_WR_ATOMIC_FETCH_AND_ADD, 2), own.memory.slice(8, 8)}});
    child.to().meet();
    EXPECT_EQ(own.device->wait_for(1).status, IBV_WC_SUCCESS);
    EXPECT_EQ(own.device->wait_for(2).status, IBV_WC_SUCCESS);
    EXPECT_EQ(own.memory.word(8), 40U);
    child.to().meet();
  }
  EXPECT_EQ(child.join(), 0);
}

// Events of a completion channel that are there now. All are acknowledged.
int pending_events(ibv_comp_channel* channel) {
  int count = 0;
  for (;;) {
    ibv_cq* ready = nullptr;
    void* cookie = nullptr;
    if (SOFT(ibv_get_cq_event)(channel, &ready, &cookie) != 0) return count;
    SOFT(ibv_ack_cq_events)(ready, 1);
    ++count;
  }
}

// A device with a completion queue that has a nonblocking channel.
struct watched_queue {
  watched_queue() : device(std::make_unique<opened_device>()) {
    channel = SOFT(ibv_create_comp_channel)(device->context);
    queue = SOFT(ibv_create_cq)(device->context, 16, nullptr, channel, 0);
    EXPECT_EQ(fcntl(channel->fd, F_SETFL, fcntl(channel->fd, F_GETFL) | O_NONBLOCK), 0);
  }
  void wait() const {
    pollfd wanted{channel->fd, POLLIN, 0};
    EXPECT_EQ(poll(&wanted, 1, 20'000), 1);
  }
  void close() const {
    EXPECT_EQ(SOFT(ibv_destroy_cq)(queue), 0);
    EXPECT_EQ(SOFT(ibv_destroy_comp_channel)(channel), 0);
  }

  std::unique_ptr<opened_device> device;
  ibv_comp_channel* channel = nullptr;
  ibv_cq* queue = nullptr;
};

// The peer sends three messages for each arming. The first raises the event; the others come before
// the queue is armed again, so that polling after the arming finds them.
// parity: semantics-113
TEST(two_process_semantics, arming_raises_one_event_and_polling_after_it_loses_no_message) {
  constexpr int rounds = 50;
  child_process child([](stream& parent) {
    watched_queue here;
    opened_device& device = *here.device;
    queue_pair_handle qp(device, {.recv_cq = here.queue});
    buffer memory(device.pd, 4096, 2);
    parent.put(exchanged{qp.get()->qp_num, memory.mr().rkey, memory.address()});
    qp.connect(parent.take<exchanged>().qp_num);
    parent.meet();
    int result = 0;
    for (int round = 0; round < rounds && result == 0; ++round) {
      for (int i = 0; i < 3; ++i) result |= qp.receive(9, {memory.slice(0, 8)}) == 0 ? 0 : 1;
      if (ibv_req_notify_cq(here.queue, 0) != 0) result |= 2;
      parent.meet();
      here.wait();
      parent.meet();  // all three messages were acknowledged
      if (pending_events(here.channel) != 1) result |= 4;
      if (ibv_req_notify_cq(here.queue, 0) != 0) result |= 8;
      for (int i = 0; i < 3; ++i)
        if (device.wait_for(9, here.queue).status != IBV_WC_SUCCESS) result |= 16;
      if (pending_events(here.channel) != 0) result |= 32;
      parent.put(result);
    }
    return result;
  });
  {
    semantic_side own(child.to(), 1);
    for (int round = 0; round < rounds; ++round) {
      child.to().meet();
      for (int i = 0; i < 3; ++i) own.post({{own.request(IBV_WR_SEND, 1), own.memory.slice(0, 8)}});
      for (int i = 0; i < 3; ++i) EXPECT_EQ(own.device->wait_for(1).status, IBV_WC_SUCCESS);
      child.to().meet();
      ASSERT_EQ(child.to().take<int>(), 0);
    }
  }
  EXPECT_EQ(child.join(), 0);
}

// parity: semantics-109
TEST(two_process_semantics, killed_peer_is_named_with_its_pid_and_the_cause) {
  child_process child([](stream& parent) {
    semantic_side own(parent, 2);
    parent.meet();
    static_cast<void>(parent.take<char>());
    return 0;
  });
  semantic_side own(child.to(), 1, nullptr, {.timeout = 8, .retry_count = 2});
  child.to().meet();
  own.post({{own.request(IBV_WR_RDMA_WRITE, 1), own.memory.slice(0, 8)}});
  EXPECT_EQ(own.device->wait_for(1).status, IBV_WC_SUCCESS);
  const std::string pid = std::to_string(child.pid());
  child.kill_it();
  EXPECT_EQ(child.join(), 1000 + SIGKILL);
  own.post({{own.request(IBV_WR_SEND, 2), own.memory.slice(0, 8)}});
  const ibv_wc done = own.device->wait_for(2);
  EXPECT_EQ(done.status, IBV_WC_RETRY_EXC_ERR);
  EXPECT_EQ(done.vendor_err, 0x405U) << explanation_of(done);
  const std::string text = explanation_of(done);
  EXPECT_NE(text.find("(pid " + pid + ") is gone: it exited"), std::string::npos) << text;
}

// parity: semantics-115
TEST(event_semantics, solicited_only_arming_reports_a_failed_send) {
  watched_queue here;
  {
    opened_device& device = *here.device;
    queue_pair_handle qp(device, {.send_cq = here.queue, .recv_cq = device.cq});
    connect(qp, qp);
    buffer memory(device.pd, 16, 1);
    ASSERT_EQ(ibv_req_notify_cq(here.queue, 1), 0);
    ASSERT_EQ(write_within(qp, memory, 1), 0);
    EXPECT_EQ(device.wait_for(1, here.queue).status, IBV_WC_SUCCESS);
    EXPECT_EQ(pending_events(here.channel), 0) << "a successful write raised an event";
    ibv_sge bad = memory.slice(0, 8);
    bad.lkey ^= 0x100;
    ibv_send_wr request{};
    request.wr_id = 2;
    request.opcode = IBV_WR_SEND;
    request.sg_list = &bad;
    request.num_sge = 1;
    ASSERT_EQ(qp.send(request), 0);
    here.wait();
    EXPECT_EQ(pending_events(here.channel), 1);
    EXPECT_EQ(device.wait_for(2, here.queue).status, IBV_WC_LOC_PROT_ERR);
  }
  here.close();
}

// parity: semantics-116
TEST(event_semantics, solicited_flag_counts_for_messages_and_not_for_plain_writes) {
  watched_queue here;
  {
    opened_device& device = *here.device;
    queue_pair_handle qp(device, {.send_cq = device.cq, .recv_cq = here.queue});
    connect(qp, qp);
    buffer memory(device.pd, 64, 1);
    const auto execute = [&](ibv_wr_opcode opcode, unsigned flags) {
      ibv_sge data = memory.slice(0, 8);
      ibv_send_wr request{};
      request.wr_id = 1;
      request.opcode = opcode;
      request.send_flags = IBV_SEND_SIGNALED | flags;
      request.sg_list = &data;
      request.num_sge = 1;
      request.wr.rdma.remote_addr = memory.address() + 16;
      request.wr.rdma.rkey = memory.mr().rkey;
      EXPECT_EQ(qp.send(request), 0);
      EXPECT_EQ(device.wait_for(1).status, IBV_WC_SUCCESS);
      return pending_events(here.channel);
    };
    for (int i = 0; i < 4; ++i) ASSERT_EQ(qp.receive(9, {memory.slice(32, 8)}), 0);
    ASSERT_EQ(ibv_req_notify_cq(here.queue, 1), 0);
    EXPECT_EQ(execute(IBV_WR_SEND, 0), 0);
    EXPECT_EQ(execute(IBV_WR_RDMA_WRITE, IBV_SEND_SOLICITED), 0);
    EXPECT_EQ(execute(IBV_WR_RDMA_WRITE_WITH_IMM, 0), 0);
    EXPECT_EQ(execute(IBV_WR_RDMA_WRITE_WITH_IMM, IBV_SEND_SOLICITED), 1);
    ASSERT_EQ(ibv_req_notify_cq(here.queue, 1), 0);
    EXPECT_EQ(execute(IBV_WR_SEND, IBV_SEND_SOLICITED), 1);
  }
  here.close();
}

}  // namespace
}  // namespace verbena::softdev::testing
