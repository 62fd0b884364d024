// SPDX-License-Identifier: MIT
// Asynchronous events: all kinds with a fake provider, and the events that soft0 raises.
#include "verbena/verbs/async_event.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <pthread.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstring>
#include <deque>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "tests/unit/verbs/loopback.hpp"
#include "tests/unit/verbs/soft_device.hpp"
#include "verbena/verbs/shared_receive_queue.hpp"

namespace verbena {
namespace {

using namespace std::chrono_literals;
using kind = async_event_kind;
using testing_support::expect_error;
using testing_support::open_soft;

// A provider with fake events, which counts acknowledgements. The descriptor of its context is a
// pipe of the test, which makes it readable.
class async_events : public ::testing::Test {
 protected:
  async_events() {
    pending.clear();
    acknowledged = 0;
    code = EAGAIN;
    from.verbs.get_async_event.set([](ibv_context*, ibv_async_event* out) {
      {
        const std::scoped_lock one_at_a_time(mutex);
        if (pending.empty()) {
          errno = code;
          return -1;
        }
        *out = pending.front();
        pending.pop_front();
      }
      char one = 0;
      static_cast<void>(!::read(readable_end, &one, 1));
      return 0;
    });
    from.verbs.ack_async_event.set([](ibv_async_event* event) {
      ++acknowledged;
      last_acknowledged = *event;
    });
    std::array<int, 2> ends{};
    EXPECT_EQ(::pipe(ends.data()), 0);
    readable_end = ends[0];
    writable_end = ends[1];
    own_fd = std::exchange(device.native()->async_fd, readable_end);
  }
  ~async_events() override {
    device.native()->async_fd = own_fd;
    ::close(readable_end);
    ::close(writable_end);
  }
  static void raise(int type, decltype(ibv_async_event::element) about = {}) {
    ibv_async_event made{};
    made.element = about;
    static_assert(sizeof made.event_type == sizeof type);
    std::memcpy(&made.event_type, &type, sizeof type);  // may be unknown to verbs.h
    {
      const std::scoped_lock one_at_a_time(mutex);
      pending.push_back(made);
    }
    EXPECT_EQ(::write(writable_end, "", 1), 1);
  }
  async_event taken() { return device.poll_event().value().value(); }

  static inline std::mutex mutex;  // for `pending`: some tests raise events on another thread
  static inline std::deque<ibv_async_event> pending;
  static inline int acknowledged = 0;
  static inline ibv_async_event last_acknowledged{};
  static inline int code = EAGAIN;
  static inline int readable_end = -1;
  static inline int writable_end = -1;

  provider from = *soft_provider().value();
  context device = open_soft(from).value();
  int own_fd = -1;
};

// Returns a handle of the shared receive queue of the provider.
struct srq_handle {
  ibv_srq queue{};
  [[nodiscard]] ibv_srq* native() const { return const_cast<ibv_srq*>(&queue); }
};

// parity: ibverbs-71, ibverbs-72, ibverbs-74, ibverbs-tests-38
TEST_F(async_events, every_kind_has_name_and_object) {
  const auto pd = device.allocate_pd().value();
  const auto cq = device.create_cq(4).value();
  const auto other_cq = device.create_cq(4).value();
  const auto qp = pd.create_qp<rc>(cq, cq).value();
  const auto other_qp = pd.create_qp<rc>(cq, cq).value();
  const srq_handle srq;
  const srq_handle other_srq;
  ibv_wq wq{};
  struct expectation {
    const char* name;
    std::string object;
    decltype(ibv_async_event::element) about;
  };
  const std::string& of_queue = qp.name();
  const std::string of_port = "port 2 of soft0";
  const std::array<expectation, 21> expected = {{
      {"CQ_ERR", "completion queue of soft0", {.cq = cq.native()}},
      {"QP_FATAL", of_queue, {.qp = qp.native()}},
      {"QP_REQ_ERR", of_queue, {.qp = qp.native()}},
      {"QP_ACCESS_ERR", of_queue, {.qp = qp.native()}},
      {"COMM_EST", of_queue, {.qp = qp.native()}},
      {"SQ_DRAINED", of_queue, {.qp = qp.native()}},
      {"PATH_MIG", of_queue, {.qp = qp.native()}},
      {"PATH_MIG_ERR", of_queue, {.qp = qp.native()}},
      {"DEVICE_FATAL", "soft0", {.port_num = 2}},
      {"PORT_ACTIVE", of_port, {.port_num = 2}},
      {"PORT_ERR", of_port, {.port_num = 2}},
      {"LID_CHANGE", of_port, {.port_num = 2}},
      {"PKEY_CHANGE", of_port, {.port_num = 2}},
      {"SM_CHANGE", of_port, {.port_num = 2}},
      {"SRQ_ERR", "shared receive queue of soft0", {.srq = srq.native()}},
      {"SRQ_LIMIT_REACHED", "shared receive queue of soft0", {.srq = srq.native()}},
      {"QP_LAST_WQE_REACHED", of_queue, {.qp = qp.native()}},
      {"CLIENT_REREGISTER", of_port, {.port_num = 2}},
      {"GID_CHANGE", of_port, {.port_num = 2}},
      {"WQ_FATAL", "work queue of soft0", {.wq = &wq}},
      {"DEVICE_SPEED_CHANGE", "soft0", {.port_num = 2}},
  }};
  for (std::size_t type = 0; type < expected.size(); ++type) {
    const auto& wanted = expected[type];
    SCOPED_TRACE(wanted.name);
    raise(static_cast<int>(type), wanted.about);
    const async_event event = taken();
    EXPECT_EQ(static_cast<std::size_t>(event.kind()), type);
    EXPECT_EQ(to_string(event.kind()), wanted.name);
    EXPECT_EQ(event.object(), wanted.object);
    EXPECT_EQ(event.port(),
              wanted.object == of_port ? std::optional(port_number(2)) : std::nullopt);
    EXPECT_EQ(event.queue_pair(),
              wanted.object == of_queue ? std::optional(qp.number()) : std::nullopt);
    EXPECT_EQ(event.concerns(qp), wanted.object == of_queue);
    EXPECT_EQ(event.concerns(cq), type == IBV_EVENT_CQ_ERR);
    EXPECT_EQ(event.concerns(srq), wanted.object.starts_with("shared"));
    EXPECT_FALSE(event.concerns(other_qp));
    EXPECT_FALSE(event.concerns(other_cq));
    EXPECT_FALSE(event.concerns(other_srq));
    EXPECT_FALSE(describe(event.kind()).empty());
    EXPECT_EQ(to_string(event),
              wanted.name + (" of " + wanted.object + ": ") + std::string(describe(event.kind())));
    EXPECT_EQ(event.native().element.cq, wanted.about.cq)
        << "native() differs from the event of the C API";
  }
}

// parity: ibverbs-tests-38, ibverbs-71
TEST_F(async_events, unknown_kind_is_preserved_and_concerns_no_object) {
  const auto cq = device.create_cq(4).value();
  for (const int type : {21, 77, 0x7fffffff}) {
    raise(type, {.cq = cq.native()});
    const async_event event = taken();
    EXPECT_EQ(static_cast<int>(event.kind()), type);
    EXPECT_EQ(to_string(event), "unknown (" + std::to_string(type) + ") of soft0");
    EXPECT_EQ(event.port(), std::nullopt);
    EXPECT_EQ(event.queue_pair(), std::nullopt);
    EXPECT_FALSE(event.concerns(cq));
    EXPECT_EQ(event.native().element.cq, cq.native());
  }
}

// parity: ibverbs-73
TEST_F(async_events, port_out_of_range_returns_nullopt) {
  for (const int number : {-1, 256, 100'000}) {
    raise(IBV_EVENT_PORT_ERR, {.port_num = number});
    EXPECT_EQ(taken().port(), std::nullopt) << number;
  }
  raise(IBV_EVENT_QP_FATAL, {.qp = nullptr});
  EXPECT_EQ(taken().object(), "a queue pair on soft0");
}

// parity: ibverbs-69
TEST_F(async_events, event_is_acknowledged_once_before_return) {
  EXPECT_FALSE(device.poll_event().value().has_value());
  EXPECT_EQ(acknowledged, 0);
  raise(IBV_EVENT_PORT_ERR, {.port_num = 1});
  raise(IBV_EVENT_PORT_ACTIVE, {.port_num = 1});
  const async_event first = taken();
  EXPECT_EQ(acknowledged, 1);
  EXPECT_EQ(last_acknowledged.event_type, IBV_EVENT_PORT_ERR);
  const auto copies = std::vector<async_event>(3, first);
  const async_event second = device.wait_event(deadline::never()).value().value();
  EXPECT_EQ(second.kind(), kind::port_active);
  EXPECT_EQ(acknowledged, 2) << "copies are not acknowledged again";
}

// parity: ibverbs-64, rrddmma-27
TEST_F(async_events, async_fd_of_borrowed_context_is_nonblocking) {
  const auto flags = [] { return ::fcntl(readable_end, F_GETFL); };
  ASSERT_EQ(flags() & O_NONBLOCK, 0);
  const auto borrowed = context::borrow(device.native(), from, nullptr);
  EXPECT_EQ(flags() & O_NONBLOCK, 0) << "no event function was called yet";
  EXPECT_EQ(borrowed.async_fd(), readable_end);
  EXPECT_NE(flags() & O_NONBLOCK, 0);
  ::fcntl(readable_end, F_SETFL, flags() & ~O_NONBLOCK);
  EXPECT_EQ(borrowed.async_fd(), readable_end);
  EXPECT_EQ(flags() & O_NONBLOCK, 0) << "it is set once for each context";
  const auto adopted = context::adopt(device.native(), from, ownership::borrow);
  EXPECT_FALSE(adopted.poll_event().value().has_value());
  EXPECT_NE(flags() & O_NONBLOCK, 0);
}

TEST_F(async_events, failures_name_the_verb_the_device_and_the_cause) {
  code = EIO;
  expect_error(device.poll_event(), "ibv_get_async_event on soft0 failed: Input/output error");
  expect_error(device.wait_event(deadline::after(1h)), "the device was removed or has failed");
  code = EINTR;
  EXPECT_FALSE(device.poll_event().value().has_value());
  const auto fresh = context::borrow(device.native(), from, nullptr);
  device.native()->async_fd = -1;
  expect_error(fresh.poll_event(), "fcntl on soft0 failed: Bad file descriptor");
  EXPECT_EQ(fresh.async_fd(), -1);
}

// parity: ibverbs-66
TEST_F(async_events, wait_event_returns_at_the_deadline) {
  const auto begin = std::chrono::steady_clock::now();
  EXPECT_FALSE(device.wait_event(deadline::after(20'500us)).value().has_value());
  EXPECT_GE(std::chrono::steady_clock::now() - begin, 20'500us);
  EXPECT_FALSE(device.wait_event(deadline::after(0s)).value().has_value());
  EXPECT_FALSE(device.wait_event(deadline::after(-1h)).value().has_value());
}

// parity: ibverbs-67
TEST_F(async_events, wait_event_without_deadline_returns_the_event) {
  for (const auto& until : {deadline::never(), deadline::after(std::chrono::nanoseconds::max())}) {
    std::thread raiser([] { raise(IBV_EVENT_GID_CHANGE, {.port_num = 1}); });
    EXPECT_EQ(device.wait_event(until).value().value().kind(), kind::gid_change);
    raiser.join();
  }
}

// Another thread takes the event between poll(2) and ibv_get_async_event(3).
// parity: ibverbs-68
TEST_F(async_events, wait_event_continues_if_another_thread_takes_the_event) {
  ASSERT_EQ(::write(writable_end, "", 1), 1);  // readable, but there is no event
  std::thread thief([] { raise(IBV_EVENT_SM_CHANGE, {.port_num = 1}); });
  EXPECT_EQ(device.wait_event(deadline::after(20s)).value().value().kind(), kind::sm_change);
  thief.join();
}

// parity: ibverbs-66
TEST_F(async_events, wait_event_continues_after_a_signal) {
  static std::atomic<int> signals;
  signals = 0;
  struct sigaction interrupting{};
  interrupting.sa_handler = [](int) { ++signals; };  // without SA_RESTART
  struct sigaction before{};
  ASSERT_EQ(::sigaction(SIGUSR1, &interrupting, &before), 0);
  std::atomic<bool> done = false;
  std::thread waiting([&] {
    EXPECT_EQ(device.wait_event(deadline::after(60s)).value().value().kind(), kind::lid_change);
    done = true;
  });
  while (signals < 3) ::pthread_kill(waiting.native_handle(), SIGUSR1);
  EXPECT_FALSE(done);
  raise(IBV_EVENT_LID_CHANGE, {.port_num = 1});
  waiting.join();
  ::sigaction(SIGUSR1, &before, nullptr);
}

// Events that the software device raises.

// Returns the kinds of the next events of `device` that concern `object`, up to `wanted`.
template <class Object>
std::multiset<kind> events_of(const context& device, const Object& object, kind wanted) {
  std::multiset<kind> seen;
  const auto limit = deadline::after(20s);
  while (!seen.contains(wanted)) {
    const auto event = device.wait_event(limit).value();
    if (!event) break;
    EXPECT_TRUE(event->object().ends_with("soft0")) << to_string(*event);
    if (event->concerns(object)) seen.insert(event->kind());
  }
  return seen;
}

// parity: ibverbs-65
TEST(soft_events, idle_device_has_no_event) {
  const auto device = open_soft();
  EXPECT_GE(device.async_fd(), 0);
  EXPECT_NE(::fcntl(device.async_fd(), F_GETFL) & O_NONBLOCK, 0);
  EXPECT_FALSE(device.poll_event().value().has_value());
  EXPECT_FALSE(device.wait_event(deadline::after(5ms)).value().has_value());
}

// Cause: a write with an rkey that does not exist. The queue pair of the target fails.
TEST(soft_events, access_violation_raises_event_at_target) {
  test::loopback link;
  const auto memory = link.memory(64);
  auto batch = link.a().queue.start_send();
  batch.write({.id = 1, .signaled = true}, memory.slice(0, 8),
              remote_region({.address = 8, .length = 8, .key = remote_key(1)}));
  batch.submit().value();
  EXPECT_FALSE(test::take(link.a().sends, 1).at(0).ok());
  pollfd readable{.fd = link.context().async_fd(), .events = POLLIN, .revents = 0};
  EXPECT_EQ(::poll(&readable, 1, 20'000), 1);
  EXPECT_TRUE(events_of(link.context(), link.b().queue, kind::qp_access_error)
                  .contains(kind::qp_access_error));
  EXPECT_FALSE(link.context().poll_event().value().has_value());
}

// Cause: a message that is longer than the receive.
TEST(soft_events, invalid_request_raises_event_at_target) {
  test::loopback link;
  const auto memory = link.memory(256);
  link.b().queue.post_receive({.id = 1}, memory.slice(0, 8)).value();
  auto batch = link.a().queue.start_send();
  batch.send({.id = 2, .signaled = true}, memory.slice(64, 128));
  batch.submit().value();
  EXPECT_FALSE(test::take(link.a().sends, 1).at(0).ok());
  EXPECT_EQ(events_of(link.context(), link.b().queue, kind::qp_request_error),
            std::multiset<kind>{kind::qp_request_error});
  EXPECT_FALSE(test::take(link.b().receives, 1).at(0).ok());
}

// Cause: more signaled writes than the completion queue holds. The queue overflows, and the queue
// pair with the lost completion fails. Both objects can be destroyed while copies of events exist.
// parity: ibverbs-70
TEST(soft_events, cq_overrun_raises_events_of_cq_and_qp) {
  const auto device = open_soft();
  const auto pd = device.allocate_pd().value();
  auto small = device.create_cq(1).value();
  const auto other = device.create_cq(16).value();
  const auto memory = pd.allocate(64, access::local_write | access::remote_write).value();
  std::vector<async_event> held;
  {
    auto prepared = pd.create_qp<rc>(small, other, {.access = access::remote_write}).value();
    const auto self = prepared.endpoint();
    auto queue = std::move(prepared).handshake(self).value();
    auto batch = queue.start_send();
    for (std::uint64_t id = 0; id < small.capacity() + 2; ++id)
      batch.write({.id = id, .signaled = true}, memory.slice(0, 8), memory.remote().slice(8, 8));
    static_cast<void>(batch.submit());
    bool queue_told = false;
    bool queue_pair_told = false;
    const auto limit = deadline::after(20s);
    while (!(queue_told && queue_pair_told)) {
      const auto event = device.wait_event(limit).value();
      ASSERT_TRUE(event.has_value()) << queue_told << queue_pair_told;
      held.push_back(*event);
      queue_told |= event->kind() == kind::cq_error && event->concerns(small);
      queue_pair_told |= event->kind() == kind::qp_fatal && event->concerns(queue);
    }
    EXPECT_TRUE(std::move(queue).close());
  }
  EXPECT_TRUE(std::move(small).close());
  EXPECT_GE(held.size(), 2U);
}

// Cause: a message to a queue pair in RTR.
TEST(soft_events, first_message_in_rtr_raises_comm_est) {
  const auto device = open_soft();
  const auto pd = device.allocate_pd().value();
  const auto cq = device.create_cq(16).value();
  const auto memory = pd.allocate(64, access::local_write).value();
  auto sender = pd.create_qp<rc>(cq, cq).value();
  auto receiver = pd.create_qp<rc>(cq, cq).value();
  const auto to_sender = sender.endpoint();
  const auto to_receiver = receiver.endpoint();
  const auto steps = {receiver.init_attributes(), receiver.rtr_attributes(to_sender).value()};
  auto listening = std::move(receiver).into_queue_pair();
  for (const auto& step : steps) listening.modify(step).value();
  listening.post_receive({.id = 1}, memory.slice(0, 8)).value();
  auto queue = std::move(sender).handshake(to_receiver).value();
  auto batch = queue.start_send();
  batch.send({.id = 2, .signaled = true}, memory.slice(8, 8));
  batch.submit().value();
  EXPECT_EQ(events_of(device, listening, kind::communication_established),
            std::multiset<kind>{kind::communication_established});
}

// Cause: the transition to SQD with drained_notification.
TEST(soft_events, drained_send_queue_in_sqd_raises_event) {
  test::loopback link;
  auto& queue = link.a().queue;
  queue
      .modify(queue_pair_attributes()
                  .set_state(queue_pair_state::send_queue_drain)
                  .set_drained_notification(true))
      .value();
  EXPECT_EQ(events_of(link.context(), queue, kind::send_queue_drained),
            std::multiset<kind>{kind::send_queue_drained});
}

// Cause: inject_event(), which changes the attributes of the device.
// parity: ibverbs-71, ibverbs-73
TEST(soft_events, port_and_device_events_reach_every_context) {
  const auto device = open_soft();
  const auto other = open_soft();
  ASSERT_NE(device.native(), other.native());
  struct row {
    const char* command;
    kind told;
    bool of_port;
  };
  for (const auto& [command, told, of_port] :
       {row{"port 1 down", kind::port_error, true}, row{"port 1 up", kind::port_active, true},
        row{"gid-change", kind::gid_change, true}, row{"lid-change 7", kind::lid_change, true},
        row{"pkey-change", kind::pkey_change, true}, row{"sm-change", kind::sm_change, true},
        row{"client-reregister", kind::client_reregister, true},
        row{"speed-change", kind::device_speed_change, false},
        row{"device-fatal", kind::device_fatal, false}}) {
    SCOPED_TRACE(command);
    ASSERT_EQ(device.provider().soft_inject_event(device.native(), command), 0);
    for (const auto& each : {device, other}) {
      const auto event = each.wait_event(deadline::after(20s)).value();
      ASSERT_TRUE(event.has_value());
      EXPECT_EQ(event->kind(), told) << to_string(*event);
      EXPECT_EQ(event->port(), of_port ? std::optional(port_number(1)) : std::nullopt);
      EXPECT_EQ(event->object(), of_port ? "port 1 of soft0" : "soft0");
      EXPECT_FALSE(each.poll_event().value().has_value());
    }
  }
  EXPECT_EQ(device.allocate_pd().error().code(), EIO) << "after DEVICE_FATAL nothing works";
}

// Causes: messages that leave fewer receives than the limit, and the failure of the queue pair.
// parity: ibverbs-tests-81
TEST(soft_events,
     a_shared_receive_queue_tells_of_its_limit_and_a_queue_pair_that_it_takes_no_more) {
  const auto device = open_soft();
  const auto pd = device.allocate_pd().value();
  const auto cq = device.create_cq(16).value();
  const auto memory = pd.allocate(64, access::local_write).value();
  const auto receives = pd.create_srq({.max_wr = 8}).value();
  auto prepared = pd.create_qp<rc>(cq, cq, receives).value();
  const auto self = prepared.endpoint();
  auto queue = std::move(prepared).handshake(self).value();
  for (std::uint64_t id = 0; id < 4; ++id)
    receives.post_receive({.id = id}, memory.slice(id * 8, 8)).value();
  receives.arm_limit(2).value();
  const auto send = [&] {
    auto batch = queue.start_send();
    batch.send({.signaled = true}, memory.slice(32, 8));
    batch.submit().value();
    test::take(cq, 2);
  };
  send();
  send();
  EXPECT_FALSE(device.poll_event().value().has_value())
      << "two receives are left, which is not below the limit";
  send();
  EXPECT_EQ(events_of(device, receives, kind::srq_limit_reached),
            std::multiset<kind>{kind::srq_limit_reached});
  queue.modify(queue_pair_attributes().set_state(queue_pair_state::error)).value();
  EXPECT_EQ(events_of(device, queue, kind::qp_last_wqe_reached),
            std::multiset<kind>{kind::qp_last_wqe_reached});
}

// Objects with events that were not taken can be destroyed.
// parity: ibverbs-70
TEST(soft_events, objects_with_pending_events_can_be_closed) {
  auto device = open_soft();
  {
    const auto pd = device.allocate_pd().value();
    const auto cq = device.create_cq(16).value();
    auto prepared = pd.create_qp<rc>(cq, cq).value();
    const auto self = prepared.endpoint();
    auto queue = std::move(prepared).handshake(self).value();
    queue
        .modify(queue_pair_attributes()
                    .set_state(queue_pair_state::send_queue_drain)
                    .set_drained_notification(true))
        .value();
    pollfd readable{.fd = device.async_fd(), .events = POLLIN, .revents = 0};
    ASSERT_EQ(::poll(&readable, 1, 20'000), 1);
    EXPECT_TRUE(std::move(queue).close());
  }
  EXPECT_TRUE(std::move(device).close());
}

// Two threads wait with copies of one handle. Each event is returned to one of them.
// parity: ibverbs-68
TEST(soft_events, each_event_reaches_one_waiting_thread) {
  test::loopback link;
  std::atomic<int> taken = 0;
  std::atomic<bool> stop = false;
  const auto wait = [&](const context& device) {
    while (!stop) taken += device.wait_event(deadline::after(20ms)).value().has_value() ? 1 : 0;
  };
  std::thread first(wait, link.context());
  std::thread second(wait, link.context());
  for (auto* side : {&link.a(), &link.b()})
    side->queue
        .modify(queue_pair_attributes()
                    .set_state(queue_pair_state::send_queue_drain)
                    .set_drained_notification(true))
        .value();
  const auto limit = deadline::after(20s);
  while (taken < 2 && !limit.expired()) std::this_thread::yield();
  stop = true;
  first.join();
  second.join();
  EXPECT_EQ(taken, 2);
}

using context_events_death = ::testing::Test;

TEST_F(context_events_death, events_of_moved_from_context_abort) {
  auto device = open_soft();
  const auto moved = std::move(device);
  // NOLINTNEXTLINE(bugprone-use-after-move,*.Move): that is the point
  EXPECT_DEATH(static_cast<void>(device.poll_event()), "a moved-from context was used");
}

}  // namespace
}  // namespace verbena
