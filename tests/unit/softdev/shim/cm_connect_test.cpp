// SPDX-License-Identifier: MIT
// Connections by the connection manager: between two processes and within one.
#include <fcntl.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <list>
#include <string_view>
#include <thread>

#include "tests/unit/softdev/shim/cm_device.hpp"
#include "tests/unit/softdev/shim/subprocess.hpp"

namespace verbena::softdev::testing {
namespace {

std::string_view data_of(const rdma_conn_param& what) {
  return {static_cast<const char*>(what.private_data), what.private_data_len};
}
std::string padded(std::string text, std::size_t length) {
  text.resize(length);
  return text;
}

// Waits for the next completion of a queue of an identifier.
ibv_wc wait(ibv_cq* queue) {
  ibv_wc entry{};
  const auto give_up = std::chrono::steady_clock::now() + std::chrono::seconds(10);
  while (queue->context->ops.poll_cq(queue, 1, &entry) == 0)
    if (std::chrono::steady_clock::now() > give_up) throw std::runtime_error("no completion");
  return entry;
}

void post_receive(rdma_cm_id* id, buffer& to) {
  ibv_sge slice = to.slice(0, 8);
  ibv_recv_wr request{.wr_id = 1, .next = nullptr, .sg_list = &slice, .num_sge = 1};
  ibv_recv_wr* bad = nullptr;
  ASSERT_EQ(id->verbs->ops.post_recv(id->qp, &request, &bad), 0);
}
void send(rdma_cm_id* id, buffer& from) {
  ibv_sge slice = from.slice(0, 8);
  ibv_send_wr request{};
  request.sg_list = &slice;
  request.num_sge = 1;
  request.opcode = IBV_WR_SEND;
  ibv_send_wr* bad = nullptr;
  ASSERT_EQ(id->verbs->ops.post_send(id->qp, &request, &bad), 0);
  EXPECT_EQ(wait(id->send_cq).status, IBV_WC_SUCCESS);
}

// A server in this process with one listener and one connection at a time.
struct server {
  cm_channel channel;
  cm_id listener{channel};
  std::uint16_t port = listener.listen();

  cm_id request() {
    const cm_event event = channel.expect(RDMA_CM_EVENT_CONNECT_REQUEST);
    EXPECT_EQ(event->listen_id, listener.get());
    return cm_id(event->id);
  }
};

// A client that has resolved the server's address and route.
struct client {
  explicit client(std::uint16_t port, bool queue_pair = true) {
    id.resolve(channel, port);
    if (queue_pair) id.create_qp();
  }
  cm_channel channel;
  cm_id id{channel};
};

TEST(cm_connect, two_processes_exchange_private_data_and_messages_and_disconnect) {
  child_process passive([](stream& parent) {
    server here;
    parent.put(here.port);
    const cm_event event = here.channel.expect(RDMA_CM_EVENT_CONNECT_REQUEST);
    const rdma_conn_param& request = event->param.conn;
    EXPECT_EQ(data_of(request), padded("hello", 56));
    EXPECT_EQ(request.responder_resources, 3);  // the initiator depth of the peer
    EXPECT_EQ(request.initiator_depth, 2);
    EXPECT_EQ(request.retry_count, 5);
    EXPECT_EQ(request.rnr_retry_count, 6);
    cm_id id(event->id);
    EXPECT_NE(id->verbs, nullptr);
    id.create_qp();
    buffer memory(id->pd, 8);
    post_receive(id.get(), memory);
    EXPECT_EQ(id.accept("welcome"), 0);
    here.channel.expect(RDMA_CM_EVENT_ESTABLISHED);
    EXPECT_EQ(wait(id->recv_cq).status, IBV_WC_SUCCESS);
    EXPECT_EQ(memory.copy(0, 8), pattern(5, 8));
    here.channel.expect(RDMA_CM_EVENT_DISCONNECTED);
    EXPECT_EQ(CM(rdma_disconnect)(id.get()), 0);
    here.channel.expect(RDMA_CM_EVENT_TIMEWAIT_EXIT);
    return 0;
  });
  client active(passive.to().take<std::uint16_t>());
  EXPECT_NE(active.id->route.path_rec, nullptr);
  EXPECT_EQ(active.id->route.num_paths, 1);
  EXPECT_NE(CM(rdma_get_src_port)(active.id.get()), 0);
  EXPECT_EQ(active.id.connect("hello"), 0);
  {
    const cm_event event = active.channel.expect(RDMA_CM_EVENT_ESTABLISHED);
    EXPECT_EQ(data_of(event->param.conn), padded("welcome", 196));
  }
  EXPECT_EQ(active.id->qp->state, IBV_QPS_RTS);
  buffer memory(active.id->pd, 8, 5);
  send(active.id.get(), memory);
  EXPECT_EQ(CM(rdma_disconnect)(active.id.get()), 0);
  EXPECT_EQ(active.id->qp->state, IBV_QPS_ERR);
  active.channel.expect(RDMA_CM_EVENT_DISCONNECTED);
  EXPECT_EQ(passive.join(), 0);
}

TEST(cm_connect, application_can_modify_queue_pair_states_itself) {
  server here;
  client active(here.port, false);
  EXPECT_EQ(active.id.connect(), 0);
  cm_id id = here.request();
  ibv_qp_attr attributes{};
  int mask = 0;
  attributes.qp_state = IBV_QPS_RTR;
  ASSERT_EQ(CM(rdma_init_qp_attr)(id.get(), &attributes, &mask), 0);
  EXPECT_EQ(attributes.dest_qp_num, 77U);
  EXPECT_EQ(attributes.max_dest_rd_atomic, 3);
  EXPECT_EQ(CM(rdma_establish)(active.id.get()), -1);
  EXPECT_EQ(errno, EINVAL);  // no connection to confirm
  EXPECT_EQ(id.accept(), 0);
  active.channel.expect(RDMA_CM_EVENT_CONNECT_RESPONSE);
  attributes.qp_state = IBV_QPS_INIT;
  ASSERT_EQ(CM(rdma_init_qp_attr)(active.id.get(), &attributes, &mask), 0);
  EXPECT_EQ(attributes.qp_access_flags & IBV_ACCESS_REMOTE_READ, IBV_ACCESS_REMOTE_READ);
  EXPECT_FALSE(here.channel.readable(0));
  EXPECT_EQ(CM(rdma_establish)(active.id.get()), 0);
  here.channel.expect(RDMA_CM_EVENT_ESTABLISHED);
  id.destroy();
  active.channel.expect(RDMA_CM_EVENT_DISCONNECTED);
}

TEST(cm_connect, rejected_event_has_the_reason) {
  server here;
  {
    client active(here.port);
    EXPECT_EQ(active.id.connect(), 0);
    cm_id id = here.request();
    EXPECT_EQ(CM(rdma_reject)(id.get(), "no", 2), 0);
    const cm_event event = active.channel.expect(RDMA_CM_EVENT_REJECTED, 28);
    EXPECT_EQ(data_of(event->param.conn), padded("no", 148));
    EXPECT_EQ(active.id->qp->state, IBV_QPS_ERR);
    EXPECT_EQ(id.accept(), EINVAL);
  }
  {
    client active(here.port);
    EXPECT_EQ(active.id.connect(std::string(57, 'x')),
              EINVAL);  // exceeds the private data of a request
    EXPECT_EQ(active.id.connect(), 0);
    here.request().destroy();
    active.channel.expect(RDMA_CM_EVENT_REJECTED, 28);
  }
  {
    client active(here.port);
    EXPECT_EQ(active.id.connect(), 0);
    EXPECT_TRUE(here.channel.readable(10'000));
    here.listener.destroy();  // with a pending request
    active.channel.expect(RDMA_CM_EVENT_REJECTED, 28);
  }
  client active(here.port);
  EXPECT_EQ(active.id.connect(), 0);
  active.channel.expect(RDMA_CM_EVENT_REJECTED, 8);  // no listener
}

TEST(cm_connect, backlog_limits_pending_connection_requests) {
  cm_channel channel;
  cm_id listener(channel);
  const std::uint16_t port = listener.listen(2);
  std::list<client> all;
  for (int number = 0; number < 3; ++number) {
    all.emplace_back(port, false);
    EXPECT_EQ(all.back().id.connect(), 0);
  }
  all.back().channel.expect(RDMA_CM_EVENT_REJECTED, 28);
  for (int number = 0; number < 2; ++number)
    cm_id(channel.expect(RDMA_CM_EVENT_CONNECT_REQUEST)->id).destroy();
}

// The step at which the passive process is killed.
enum class moment { before_taking, before_accepting, before_confirmation, connected };
class connected_peer : public ::testing::TestWithParam<moment> {};

TEST_P(connected_peer, killed_peer_raises_an_event) {
  child_process passive([](stream& parent) {
    server here;
    parent.put(here.port);
    if (GetParam() == moment::before_taking) {
      EXPECT_TRUE(here.channel.readable(10'000));
      parent.put('k');
      pause();
    }
    cm_id id = here.request();
    if (GetParam() == moment::before_accepting) {
      parent.put('k');
      pause();
    }
    EXPECT_EQ(id.accept(), 0);
    if (GetParam() == moment::connected) here.channel.expect(RDMA_CM_EVENT_ESTABLISHED);
    parent.put('k');
    pause();
    return 0;
  });
  client active(passive.to().take<std::uint16_t>(), false);
  EXPECT_EQ(active.id.connect(), 0);
  const bool answered =
      GetParam() == moment::before_confirmation || GetParam() == moment::connected;
  if (answered) active.channel.expect(RDMA_CM_EVENT_CONNECT_RESPONSE);
  if (GetParam() == moment::connected) {
    EXPECT_EQ(CM(rdma_establish)(active.id.get()), 0);
  }
  EXPECT_EQ(passive.to().take<char>(), 'k');
  passive.kill_it();
  if (GetParam() == moment::connected) {
    active.channel.expect(RDMA_CM_EVENT_DISCONNECTED);
    EXPECT_EQ(CM(rdma_disconnect)(active.id.get()), 0);
  } else {
    active.channel.expect(RDMA_CM_EVENT_REJECTED, 28);
  }
  EXPECT_EQ(passive.join(), 1000 + SIGKILL);
}

INSTANTIATE_TEST_SUITE_P(moments, connected_peer,
                         ::testing::Values(moment::before_taking, moment::before_accepting,
                                           moment::before_confirmation, moment::connected));

TEST(injected_peer_exit, both_sides_are_told_that_the_connection_ended) {
  child_process passive([](stream& parent) {
    server here;
    parent.put(here.port);
    cm_id id = here.request();
    EXPECT_EQ(id.accept(), 0);
    here.channel.expect(RDMA_CM_EVENT_ESTABLISHED);
    parent.meet();
    here.channel.expect(RDMA_CM_EVENT_DISCONNECTED);
    parent.meet();
    return 0;
  });
  client active(passive.to().take<std::uint16_t>(), false);
  EXPECT_EQ(active.id.connect(), 0);
  active.channel.expect(RDMA_CM_EVENT_CONNECT_RESPONSE);
  EXPECT_EQ(CM(rdma_establish)(active.id.get()), 0);
  passive.to().meet();
  auto* const inject =
      reinterpret_cast<verbena_soft_inject_event_function>(find("verbena_soft_inject_event"));
  const std::string command = "peer-exit pid=" + std::to_string(passive.pid());
  EXPECT_EQ(inject(active.id.get()->verbs, command.c_str()), 0);
  active.channel.expect(RDMA_CM_EVENT_DISCONNECTED);
  passive.to().meet();
  EXPECT_EQ(passive.join(), 0);
}

// The step at which the active process is killed.
class connecting_client : public ::testing::TestWithParam<moment> {};

TEST_P(connecting_client, killed_client_raises_an_event) {
  server here;
  child_process active([&](stream& parent) {
    client child(parent.take<std::uint16_t>(), false);
    EXPECT_EQ(child.id.connect(), 0);
    child.channel.expect(RDMA_CM_EVENT_CONNECT_RESPONSE);
    if (GetParam() == moment::connected) {
      EXPECT_EQ(CM(rdma_establish)(child.id.get()), 0);
    }
    parent.put('k');
    pause();
    return 0;
  });
  active.to().put(here.port);
  cm_id id = here.request();
  EXPECT_EQ(id.accept(), 0);
  EXPECT_EQ(active.to().take<char>(), 'k');
  if (GetParam() == moment::connected) here.channel.expect(RDMA_CM_EVENT_ESTABLISHED);
  active.kill_it();
  EXPECT_EQ(active.join(), 1000 + SIGKILL);
  if (GetParam() == moment::connected) {
    here.channel.expect(RDMA_CM_EVENT_DISCONNECTED);
  } else {
    here.channel.expect(RDMA_CM_EVENT_REJECTED, 28);
  }
}

INSTANTIATE_TEST_SUITE_P(moments, connecting_client,
                         ::testing::Values(moment::before_confirmation, moment::connected));

TEST(cm_connect, destroy_id_waits_until_its_events_are_acknowledged) {
  cm_channel channel;
  cm_id id(channel);
  sockaddr_in to = loopback(9);
  ASSERT_EQ(CM(rdma_resolve_addr)(id.get(), nullptr, generic(to), 1000), 0);
  cm_event event = channel.next();
  std::atomic<bool> acknowledged{false};
  std::thread other([&] {
    std::this_thread::yield();
    acknowledged.store(true);
    event.acknowledge();
  });
  id.destroy();
  EXPECT_TRUE(acknowledged.load());
  other.join();
}

TEST(cm_connect, nonblocking_channel_without_event_returns_eagain) {
  cm_channel channel;
  ASSERT_EQ(fcntl(channel.get()->fd, F_SETFL, O_NONBLOCK), 0);
  rdma_cm_event* event = nullptr;
  EXPECT_EQ(CM(rdma_get_cm_event)(channel.get(), &event), -1);
  EXPECT_EQ(errno, EAGAIN);
}

TEST(cm_connect, migrate_id_moves_pending_events) {
  cm_channel first;
  cm_channel second;
  cm_id id(first);
  sockaddr_in to = loopback(9);
  ASSERT_EQ(CM(rdma_resolve_addr)(id.get(), nullptr, generic(to), 1000), 0);
  ASSERT_EQ(CM(rdma_migrate_id)(id.get(), second.get()), 0);
  EXPECT_EQ(id->channel, second.get());
  EXPECT_FALSE(first.readable(0));
  second.expect(RDMA_CM_EVENT_ADDR_RESOLVED);
}

// The request arrives before the listener gets another channel.
TEST(cm_connect, request_gets_the_channel_of_its_listener) {
  for (const bool synchronous : {false, true}) {
    SCOPED_TRACE(synchronous);
    server here;
    client there(here.port);
    ASSERT_EQ(there.id.connect(), 0);
    ASSERT_TRUE(here.channel.readable(20'000));
    cm_channel second;
    if (synchronous) {
      ASSERT_EQ(CM(rdma_migrate_id)(here.listener.get(), nullptr), 0);
    }
    ASSERT_EQ(CM(rdma_migrate_id)(here.listener.get(), second.get()), 0);
    const cm_event event = second.expect(RDMA_CM_EVENT_CONNECT_REQUEST);
    cm_id request(event->id);
    EXPECT_EQ(request->channel, second.get());
    request.create_qp();
    ASSERT_EQ(request.accept(), 0);
    there.channel.expect(RDMA_CM_EVENT_ESTABLISHED);
    second.expect(RDMA_CM_EVENT_ESTABLISHED);
  }
}

}  // namespace
}  // namespace verbena::softdev::testing
