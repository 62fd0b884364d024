// SPDX-License-Identifier: MIT
// Synchronous endpoints, services, names, options and invalid calls.
#include <fcntl.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <fstream>
#include <future>
#include <iterator>
#include <memory>
#include <semaphore>
#include <string>
#include <thread>

#include "tests/unit/softdev/failing_allocations.hpp"
#include "tests/unit/softdev/shim/cm_device.hpp"
#include "tests/unit/softdev/shim/subprocess.hpp"

namespace verbena::softdev::testing {
namespace {

rdma_addrinfo* look_up(const char* service, int flags, int space = RDMA_PS_TCP) {
  rdma_addrinfo hints{};
  hints.ai_flags = flags;
  hints.ai_port_space = space;
  rdma_addrinfo* found = nullptr;
  EXPECT_EQ(CM(rdma_getaddrinfo)("127.0.0.1", service, &hints, &found), 0);
  return found;
}

rdma_cm_id* make_endpoint(const char* service, int flags) {
  ibv_qp_init_attr wanted{};
  wanted.cap = {.max_send_wr = 1, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1};
  rdma_addrinfo* const where = look_up(service, flags);
  rdma_cm_id* id = nullptr;
  EXPECT_EQ(CM(rdma_create_ep)(&id, where, nullptr, &wanted), 0) << std::strerror(errno);
  CM(rdma_freeaddrinfo)(where);
  return id;
}

TEST(cm_endpoint, synchronous_calls_wait_for_their_event) {
  rdma_cm_id* const listener = make_endpoint("0", RAI_PASSIVE);
  ASSERT_NE(listener, nullptr);
  ASSERT_EQ(CM(rdma_listen)(listener, 0), 0);
  const std::string port = std::to_string(ntohs(CM(rdma_get_src_port)(listener)));
  std::thread passive([&] {
    rdma_cm_id* id = nullptr;
    ASSERT_EQ(CM(rdma_get_request)(listener, &id), 0);
    ASSERT_NE(id->qp, nullptr);
    EXPECT_NE(id->recv_cq_channel, nullptr);
    EXPECT_EQ(CM(rdma_accept)(id, nullptr), 0);
    EXPECT_EQ(id->event->event, RDMA_CM_EVENT_ESTABLISHED);
    EXPECT_EQ(CM(rdma_disconnect)(id), 0);
    CM(rdma_destroy_ep)(id);
  });
  rdma_cm_id* const active = make_endpoint(port.c_str(), 0);
  ASSERT_NE(active, nullptr);
  EXPECT_EQ(CM(rdma_connect)(active, nullptr), 0);
  EXPECT_EQ(active->qp->state, IBV_QPS_RTS);
  EXPECT_EQ(CM(rdma_disconnect)(active), 0);
  CM(rdma_destroy_ep)(active);
  passive.join();
  CM(rdma_destroy_ep)(listener);
  rdma_cm_id* const refused = make_endpoint(port.c_str(), 0);
  EXPECT_EQ(CM(rdma_connect)(refused, nullptr), -1);
  EXPECT_EQ(errno, ECONNREFUSED);
  CM(rdma_destroy_ep)(refused);
}

TEST(cm_endpoint, datagram_service_returns_its_address_and_qkey) {
  cm_channel passive;
  cm_id listener(passive, RDMA_PS_UDP);
  const std::uint16_t port = listener.listen();
  cm_channel active;
  cm_id id(active, RDMA_PS_UDP);
  id.resolve(active, port);
  id.create_qp();
  EXPECT_EQ(id->qp->qp_type, IBV_QPT_UD);
  EXPECT_EQ(id->qp->state, IBV_QPS_RTS);
  EXPECT_EQ(id.connect("who"), 0);
  const cm_event request = passive.expect(RDMA_CM_EVENT_CONNECT_REQUEST);
  EXPECT_EQ(request->param.ud.private_data_len, 180);
  cm_id service(request->id);
  service.create_qp();
  EXPECT_EQ(service.accept("me"), 0);
  const cm_event found = active.expect(RDMA_CM_EVENT_ESTABLISHED);
  EXPECT_EQ(found->param.ud.qp_num, service->qp->qp_num);
  EXPECT_EQ(found->param.ud.qkey, std::uint32_t{RDMA_UDP_QKEY});
  EXPECT_EQ(found->param.ud.ah_attr.port_num, 1);
  EXPECT_EQ(std::memcmp(found->param.ud.private_data, "me", 3), 0);
}

TEST(cm_endpoint, invalid_options_and_states_are_refused) {
  cm_channel channel;
  cm_id id(channel);
  const auto set = [&](int level, int name, std::size_t size) {
    int value = 1;
    return CM(rdma_set_option)(id.get(), level, name, &value, size) == 0 ? 0 : errno;
  };
  EXPECT_EQ(set(RDMA_OPTION_ID, RDMA_OPTION_ID_TOS, 1), 0);
  EXPECT_EQ(set(RDMA_OPTION_ID, RDMA_OPTION_ID_TOS, 4), EINVAL);
  EXPECT_EQ(set(RDMA_OPTION_ID, RDMA_OPTION_ID_REUSEADDR, sizeof(int)), 0);
  EXPECT_EQ(set(RDMA_OPTION_ID, RDMA_OPTION_ID_AFONLY, sizeof(int)), 0);
  EXPECT_EQ(set(RDMA_OPTION_ID, RDMA_OPTION_ID_ACK_TIMEOUT, 1), 0);
  EXPECT_EQ(set(RDMA_OPTION_ID, 99, 1), ENOSYS);
  EXPECT_EQ(set(RDMA_OPTION_IB, RDMA_OPTION_IB_PATH, 1), EINVAL);
  EXPECT_EQ(CM(rdma_resolve_route)(id.get(), 1), -1);
  EXPECT_EQ(id.connect(), EINVAL);
  EXPECT_EQ(id.accept(), EINVAL);
  EXPECT_EQ(CM(rdma_disconnect)(id.get()), -1);
  EXPECT_EQ(id.bind(0, 0), 0);
  EXPECT_EQ(id->verbs, nullptr);  // a wildcard address does not select a device
  sockaddr_in group = loopback(0, 0xe0000001);
  EXPECT_EQ(CM(rdma_join_multicast)(id.get(), generic(group), nullptr), -1);
  EXPECT_EQ(errno, EINVAL);
  rdma_cm_id* none = nullptr;
  EXPECT_EQ(CM(rdma_create_id)(channel.get(), &none, nullptr, static_cast<rdma_port_space>(1)), -1);
  EXPECT_EQ(errno, EINVAL);
  int count = 0;
  ibv_context** const devices = CM(rdma_get_devices)(&count);
  ASSERT_EQ(count, 1);
  EXPECT_STREQ(devices[0]->device->name, "soft0");
  CM(rdma_free_devices)(devices);
}

TEST(cm_endpoint, forked_child_has_its_own_connection_manager) {
  cm_channel channel;
  cm_id listener(channel);
  const std::uint16_t port = listener.listen();
  child_process child([&](stream& parent) {
    rdma_cm_id* id = nullptr;
    EXPECT_EQ(CM(rdma_create_id)(channel.get(), &id, nullptr, RDMA_PS_TCP), -1);
    EXPECT_EQ(errno, ENODEV);
    cm_channel own;
    cm_id active(own);
    active.resolve(own, port);
    EXPECT_EQ(active.connect(), 0);
    own.expect(RDMA_CM_EVENT_REJECTED, 28);  // when the listener is destroyed
    parent.meet();
    active.destroy();
    cm_id listener_there(own);
    EXPECT_EQ(listener_there.bind(port), 0);  // this process does not own the port
    return 0;
  });
  EXPECT_TRUE(channel.readable(20'000));
  listener.destroy();
  child.to().meet();
  EXPECT_EQ(child.join(), 0);
}

TEST(cm_endpoint, disabled_or_unsupported_connection_manager_is_absent) {
  for (const char* setting : {"VERBENA_SOFTDEV=off", "VERBENA_SOFTDEV_PERSONA=efa"}) {
    EXPECT_EQ(in_child([&] {
                std::string text(setting);
                putenv(text.data());
                EXPECT_EQ(CM(rdma_create_event_channel)(), nullptr);
                EXPECT_EQ(errno, ENODEV);
                return 0;
              }),
              0)
        << setting;
  }
}

TEST(cm_endpoint, connections_work_on_an_infiniband_port) {
  EXPECT_EQ(in_child([] {
              setenv("VERBENA_SOFTDEV_PERSONA", "infiniband", 1);
              cm_channel channel;
              cm_id listener(channel);
              const std::uint16_t port = listener.listen();
              cm_channel other;
              cm_id active(other);
              active.resolve(other, port);
              EXPECT_NE(active->route.path_rec->dlid, 0);
              active.create_qp();
              EXPECT_EQ(active.connect(), 0);
              cm_id passive(channel.expect(RDMA_CM_EVENT_CONNECT_REQUEST)->id);
              passive.create_qp();
              EXPECT_EQ(passive.accept(), 0);
              other.expect(RDMA_CM_EVENT_ESTABLISHED);
              channel.expect(RDMA_CM_EVENT_ESTABLISHED);
              return 0;
            }),
            0);
}

/// A thread that takes an event when start() is called. It may wait without an end: the process
/// exits.
class event_taker {
 public:
  explicit event_taker(rdma_event_channel* channel) {
    std::thread([this, channel] {
      go_.acquire();
      rdma_cm_event* event = nullptr;
      thread_ = gettid();
      static_cast<void>(CM(rdma_get_cm_event)(channel, &event));
      returned_.release();
    }).detach();
  }
  void start() { go_.release(); }
  [[nodiscard]] bool returns_within(std::chrono::milliseconds time) {
    return returned_.try_acquire_for(time);
  }
  /// Waits until the thread sleeps within the call. Returns false if the call has returned.
  [[nodiscard]] bool sleeps() {
    while (!is_asleep(thread_))
      if (returns_within(std::chrono::milliseconds(1))) return false;
    return true;
  }

 private:
  static bool is_asleep(pid_t thread) {
    if (thread == 0) return false;
    std::ifstream file("/proc/self/task/" + std::to_string(thread) + "/stat");
    const std::string text((std::istreambuf_iterator<char>(file)), {});
    const std::size_t end = text.rfind(')');
    return end != std::string::npos && text.compare(end, 3, ") S") == 0;
  }

  std::binary_semaphore go_{0};
  std::binary_semaphore returned_{0};
  std::atomic<pid_t> thread_{0};
};

constexpr int came_too_late = -1;

int destroy_under_takers() {
  using clock = std::chrono::steady_clock;
  constexpr std::chrono::seconds moment{1};
  rdma_event_channel* const channel = CM(rdma_create_event_channel)();
  const int fd = channel->fd;
  auto* const current = new event_taker(channel);
  auto* const late = new event_taker(channel);
  current->start();
  if (!current->sleeps()) return 1;
  const auto destroyed_at = clock::now();
  CM(rdma_destroy_event_channel)(channel);
  late->start();
  // A thread that comes later than a moment gets an error.
  if (!late->sleeps()) return clock::now() - destroyed_at < moment ? 2 : came_too_late;
  if (late->returns_within(moment + moment / 10) || current->returns_within({})) return 3;
  if (fcntl(fd, F_GETFD) < 0) return 4;  // a waiting thread keeps the descriptor open
  rdma_cm_event* event = nullptr;
  if (CM(rdma_get_cm_event)(channel, &event) != -1 || errno != EBADF) return 5;
  return current->returns_within({}) || late->returns_within({}) ? 6 : 0;
}

TEST(cm_channel, destroying_a_channel_is_safe_for_current_and_late_readers) {
  EXPECT_EQ(in_child([] {
              int result = came_too_late;  // on a busy host
              for (int i = 0; i < 10 && result == came_too_late; ++i)
                result = destroy_under_takers();
              return result;
            }),
            0);
}

#ifdef VERBENA_FAILS_ALLOCATIONS
TEST(cm_channel, event_that_could_not_be_returned_does_not_block_the_destruction) {
  const cm_channel channel;
  for (std::uint32_t failing = 1; failing < 8; ++failing) {
    rdma_cm_id* id = nullptr;
    ASSERT_EQ(CM(rdma_create_id)(channel.get(), &id, nullptr, RDMA_PS_TCP), 0);
    sockaddr_in to = loopback(7471);
    ASSERT_EQ(CM(rdma_resolve_addr)(id, nullptr, generic(to), 1000), 0);
    ASSERT_TRUE(channel.readable(20'000));
    const auto get = CM(rdma_get_cm_event);
    const auto destroy = CM(rdma_destroy_id);
    rdma_cm_event* event = nullptr;
    fail_allocation(failing);
    const int failed = get(channel.get(), &event);
    static_cast<void>(permit_allocations());
    if (failed == 0) {
      EXPECT_EQ(CM(rdma_ack_cm_event)(event), 0);
    } else {
      EXPECT_EQ(errno, ENOMEM);
    }
    auto destroyed = std::make_shared<std::promise<int>>();
    auto outcome = destroyed->get_future();
    std::thread([=] { destroyed->set_value(destroy(id)); }).detach();
    ASSERT_EQ(outcome.wait_for(std::chrono::seconds(20)), std::future_status::ready);
    EXPECT_EQ(outcome.get(), 0);
  }
}
#endif

TEST(cm_channel, destroying_a_channel_closes_its_descriptor) {
  EXPECT_EQ(in_child([] {
              rdma_event_channel* const first = CM(rdma_create_event_channel)();
              const int fd = first->fd;
              CM(rdma_destroy_event_channel)(first);
              // Another thread may use the number for a moment.
              for (int i = 0; i < 200; ++i) {
                rdma_event_channel* const next = CM(rdma_create_event_channel)();
                if (next->fd > fd + 100) return 1;
                CM(rdma_destroy_event_channel)(next);
              }
              return 0;
            }),
            0);
}

}  // namespace
}  // namespace verbena::softdev::testing
