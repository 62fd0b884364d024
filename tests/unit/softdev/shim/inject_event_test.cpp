// SPDX-License-Identifier: MIT
// Events of the device that verbena_soft_inject_event raises in every open context: port state,
// addresses, clock, and failure of the device.
#include <arpa/inet.h>
#include <fcntl.h>
#include <net/if.h>
#include <netinet/in.h>
#include <poll.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <thread>

#include "tests/unit/softdev/shim/soft_device.hpp"
#include "tests/unit/softdev/shim/subprocess.hpp"

namespace verbena::softdev::testing {
namespace {

int inject_event(ibv_context* context, const char* command) {
  auto* const function =
      reinterpret_cast<verbena_soft_inject_event_function>(find("verbena_soft_inject_event"));
  return function(context, command);
}

// Reads an event and acknowledges it.
ibv_async_event take(ibv_context* context) {
  ibv_async_event event{};
  EXPECT_EQ(SOFT(ibv_get_async_event)(context, &event), 0);
  SOFT(ibv_ack_async_event)(&event);
  return event;
}

std::uint64_t ticks_of(ibv_context* context) {
  ibv_values_ex values{};
  values.comp_mask = IBV_VALUES_MASK_RAW_CLOCK;
  EXPECT_EQ(ibv_query_rt_values_ex(context, &values), 0);
  EXPECT_EQ(values.raw_clock.tv_sec, 0);
  return static_cast<std::uint64_t>(values.raw_clock.tv_nsec);
}

// Two contexts of one process, and memory of the first.
struct contexts {
  contexts() {
    for (opened_device* one : {&device_, &other_}) {
      const int fd = one->context->async_fd;
      EXPECT_EQ(fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK), 0);
    }
  }
  void expect_event(int kind, int port) {
    for (opened_device* one : {&device_, &other_}) {
      ASSERT_TRUE(readable(one->context->async_fd)) << kind;
      const ibv_async_event event = take(one->context);
      EXPECT_EQ(static_cast<int>(event.event_type), kind);
      EXPECT_EQ(event.element.port_num, port);
      EXPECT_FALSE(readable(one->context->async_fd)) << kind;
    }
  }
  // Writes eight bytes to the own queue pair.
  int write(queue_pair_handle& qp, std::uint64_t wr_id) { return write_within(qp, memory_, wr_id); }

  opened_device device_;
  opened_device other_;
  buffer memory_{device_.pd, 16, 1};
};

class injected_events : public ::testing::Test, protected contexts {
 protected:
  ~injected_events() override { EXPECT_EQ(inject_event(other_.context, "port 1 up"), 0); }
};

TEST_F(injected_events, invalid_command_changes_nothing) {
  const std::string endless(100'000, 'x');
  const char* const nonsense[] = {"",
                                  " ",
                                  "port",
                                  "port 1",
                                  "port 0 down",
                                  "port 2 down",
                                  "port 1 sideways",
                                  "port 1 down; port 1 sideways",
                                  "port 1 down 5",
                                  "5",
                                  ";",
                                  "# port 1 down",
                                  "port 1 down now",
                                  "PORT 1 DOWN",
                                  "lid-change",
                                  "lid-change 0",
                                  "lid-change 49152",
                                  "lid-change -1",
                                  "lid-change 1x",
                                  "lid-change 0x",
                                  "lid-change 99999999999999999999",
                                  "clock 281474976710656",
                                  "device-fatal 1",
                                  "explode",
                                  endless.c_str()};
  for (const char* command : nonsense)
    EXPECT_EQ(inject_event(device_.context, command), EINVAL) << std::string(command).substr(0, 40);
  EXPECT_EQ(inject_event(device_.context, nullptr), EINVAL);
  EXPECT_EQ(inject_event(nullptr, "sm-change"), EINVAL);
  EXPECT_FALSE(readable(device_.context->async_fd));
  EXPECT_EQ(port_of(device_.context).state, IBV_PORT_ACTIVE);
}

// parity: semantics-122
TEST_F(injected_events, port_event_is_raised_in_every_open_context) {
  const struct {
    const char* command;
    int kind;
    int port;
  } rows[] = {{"port 1 down", IBV_EVENT_PORT_ERR, 1},
              {"port 1 up", IBV_EVENT_PORT_ACTIVE, 1},
              {"gid-change", IBV_EVENT_GID_CHANGE, 1},
              {"lid-change 0x17", IBV_EVENT_LID_CHANGE, 1},
              {"pkey-change", IBV_EVENT_PKEY_CHANGE, 1},
              {"sm-change", IBV_EVENT_SM_CHANGE, 1},
              {"client-reregister", IBV_EVENT_CLIENT_REREGISTER, 1},
              {"speed-change", 20, 0}};
  for (const auto& [command, kind, port] : rows) {
    EXPECT_EQ(inject_event(device_.context, command), 0) << command;
    expect_event(kind, port);
  }
}

TEST_F(injected_events, port_events_keep_order_and_are_dropped_beyond_a_limit) {
  const char* const to[] = {"port 1 down", "port 1 up"};
  for (int i = 0; i < 70; ++i) ASSERT_EQ(inject_event(device_.context, to[i % 2]), 0);
  int taken = 0;
  for (; readable(device_.context->async_fd); ++taken)
    EXPECT_EQ(take(device_.context).event_type,
              taken % 2 == 0 ? IBV_EVENT_PORT_ERR : IBV_EVENT_PORT_ACTIVE);
  EXPECT_EQ(taken, 64);
  ASSERT_EQ(inject_event(device_.context, "sm-change"), 0);
  EXPECT_EQ(take(device_.context).event_type, IBV_EVENT_SM_CHANGE);
}

TEST_F(injected_events, port_event_ends_a_blocking_wait) {
  const int fd = device_.context->async_fd;
  ASSERT_EQ(fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) & ~O_NONBLOCK), 0);
  std::atomic<int> kind{-1};
  std::thread waiting([&] { kind = take(device_.context).event_type; });
  EXPECT_EQ(inject_event(other_.context, "client-reregister"), 0);
  waiting.join();
  EXPECT_EQ(kind, IBV_EVENT_CLIENT_REREGISTER);
}

TEST_F(injected_events, closed_context_receives_no_event_and_other_contexts_do) {
  EXPECT_EQ(SOFT(ibv_close_device)(other_.context), 0);
  other_.context = nullptr;
  EXPECT_EQ(inject_event(device_.context, "sm-change"), 0);
  EXPECT_EQ(take(device_.context).event_type, IBV_EVENT_SM_CHANGE);
  other_.context = [] {
    ibv_device** const list = SOFT(ibv_get_device_list)(nullptr);
    ibv_context* const context = SOFT(ibv_open_device)(list[0]);
    SOFT(ibv_free_device_list)(list);
    return context;
  }();
  EXPECT_FALSE(readable(other_.context->async_fd));
}

// parity: semantics-123
TEST_F(injected_events, port_down_is_reported_and_requests_are_not_answered) {
  queue_pair_handle qp(device_);
  connect(qp, qp, {.timeout = 1, .retry_count = 1});
  ASSERT_EQ(inject_event(device_.context, "port 1 down"), 0);
  EXPECT_EQ(port_of(device_.context).state, IBV_PORT_DOWN);
  EXPECT_EQ(port_of(device_.context).phys_state, 3);
  ASSERT_EQ(inject_event(device_.context, "port 1 down"), 0);  // no change, no event
  expect_event(IBV_EVENT_PORT_ERR, 1);
  ASSERT_EQ(write(qp, 1), 0);
  const ibv_wc failed = device_.wait_for(1);
  EXPECT_EQ(failed.status, IBV_WC_RETRY_EXC_ERR);
  char text[200];
  const auto explain =
      reinterpret_cast<verbena_soft_explain_function>(find("verbena_soft_explain"));
  EXPECT_GT(explain(failed.qp_num, 1, failed.vendor_err, text, sizeof text), 0U);
  EXPECT_NE(std::string(text).find("port is down"), std::string::npos) << text;
}

TEST_F(injected_events, request_completes_if_the_port_returns_in_time) {
  queue_pair_handle qp(device_);
  connect(qp, qp, {.timeout = 10, .retry_count = 7});
  ASSERT_EQ(inject_event(device_.context, "port 1 down"), 0);
  ASSERT_EQ(write(qp, 2), 0);
  ibv_wc none{};
  EXPECT_EQ(ibv_poll_cq(device_.cq, 1, &none), 0);
  ASSERT_EQ(inject_event(device_.context, "port 1 up"), 0);
  EXPECT_EQ(port_of(device_.context).state, IBV_PORT_ACTIVE);
  EXPECT_EQ(port_of(device_.context).phys_state, 5);
  EXPECT_EQ(device_.wait_for(2).status, IBV_WC_SUCCESS);
}

TEST_F(injected_events, changed_link_speed_is_reported) {
  const auto before = port_of(device_.context).active_speed;
  ASSERT_EQ(inject_event(device_.context, "speed-change"), 0);
  EXPECT_NE(port_of(device_.context).active_speed, before);
  ASSERT_EQ(inject_event(device_.context, "speed-change"), 0);
  EXPECT_EQ(port_of(device_.context).active_speed, before);
}

int fail_device() {
  contexts open;
  queue_pair_handle qp(open.device_);
  queue_pair_handle fresh(open.device_);
  connect(qp, qp);
  EXPECT_EQ(qp.receive(7, {open.memory_.slice(0, 8)}), 0);
  EXPECT_EQ(inject_event(open.device_.context, "device-fatal"), 0);
  open.expect_event(IBV_EVENT_DEVICE_FATAL, 0);
  EXPECT_EQ(open.device_.wait_for(7).status, IBV_WC_WR_FLUSH_ERR);
  EXPECT_EQ(open.write(qp, 8), 0);
  EXPECT_EQ(open.device_.wait_for(8).status, IBV_WC_WR_FLUSH_ERR);

  ibv_context* const context = open.device_.context;
  ibv_port_attr port{};
  EXPECT_EQ(verbs_get_ctx(context)->query_port(context, 1, &port, sizeof port), EIO);
  ibv_device_attr attributes{};
  EXPECT_EQ(SOFT(ibv_query_device)(context, &attributes), EIO);
  errno = 0;
  EXPECT_EQ(SOFT(ibv_alloc_pd)(context), nullptr);
  EXPECT_EQ(errno, EIO);
  errno = 0;
  EXPECT_EQ(SOFT(ibv_reg_mr)(open.device_.pd, open.memory_.data(), 8, 0), nullptr);
  EXPECT_EQ(errno, EIO);
  errno = 0;
  EXPECT_EQ(SOFT(ibv_create_cq)(context, 1, nullptr, nullptr, 0), nullptr);
  EXPECT_EQ(errno, EIO);
  errno = 0;
  EXPECT_EQ(SOFT(ibv_create_comp_channel)(context), nullptr);
  EXPECT_EQ(errno, EIO);
  EXPECT_EQ(fresh.to_state(IBV_QPS_RESET), 0);
  ibv_qp_attr to_init{};
  to_init.qp_state = IBV_QPS_INIT;
  to_init.port_num = 1;
  EXPECT_EQ(
      SOFT(ibv_modify_qp)(fresh.get(), &to_init,
                          IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS),
      EIO);
  // Contexts that are opened later work.
  opened_device later;
  EXPECT_EQ(port_of(later.context).state, IBV_PORT_ACTIVE);
  return 0;
}

// Runs in a child process, because the connection manager of a process does not reopen its context.
TEST(failed_device, failed_device_flushes_and_refuses_all_calls_except_destroy) {
  EXPECT_EQ(in_child(&fail_device), 0);
}

TEST_F(injected_events, timestamp_wraparound_keeps_differences_correct) {
  constexpr std::uint64_t mask = (std::uint64_t{1} << 48U) - 1;
  ibv_device_attr_ex attributes{};
  const auto query = verbs_get_ctx(device_.context)->query_device_ex;
  ASSERT_EQ(query(device_.context, nullptr, &attributes, sizeof attributes), 0);
  EXPECT_EQ(attributes.completion_timestamp_mask, mask);

  ibv_cq_init_attr_ex wanted{};
  wanted.cqe = 4;
  wanted.wc_flags = IBV_WC_EX_WITH_COMPLETION_TIMESTAMP;
  ibv_cq_ex* const stamped = verbs_get_ctx(device_.context)->create_cq_ex(device_.context, &wanted);
  ASSERT_NE(stamped, nullptr);
  {
    queue_pair_handle qp(device_, {.send_cq = ibv_cq_ex_to_cq(stamped)});
    connect(qp, qp);
    ASSERT_EQ(inject_event(device_.context, "clock 281474976610655"),
              0);  // 100,000 before the wrap
    const std::uint64_t before = ticks_of(device_.context);
    EXPECT_TRUE(before > mask - 100'001 || before < mask / 2);
    std::uint64_t now = before;
    while (now > mask / 2) now = ticks_of(device_.context);
    EXPECT_LT((now - before) & mask, 10'000'000'000U);
    ASSERT_EQ(write(qp, 1), 0);
    ibv_poll_cq_attr none{};
    int started = ENOENT;
    while (started == ENOENT) started = ibv_start_poll(stamped, &none);
    ASSERT_EQ(started, 0);
    const std::uint64_t at = ibv_wc_read_completion_ts(stamped);
    ibv_end_poll(stamped);
    EXPECT_LE((at - now) & mask, (ticks_of(device_.context) - now) & mask);
  }
  EXPECT_EQ(SOFT(ibv_destroy_cq)(ibv_cq_ex_to_cq(stamped)), 0);

  // hca_core_clock is the frequency of the ticks.
  const auto start = std::chrono::steady_clock::now();
  const std::uint64_t first = ticks_of(device_.context);
  while (std::chrono::steady_clock::now() - start < std::chrono::milliseconds(2)) {
  }
  const std::uint64_t least = attributes.hca_core_clock * 19 / 10;  // ticks in 2 ms
  EXPECT_GE((ticks_of(device_.context) - first) & mask, least);
}

// Adds an address to the loopback interface or removes it. Returns 0 or an errno.
int set_loopback_address(bool there) {
  const int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  ifreq request{};
  std::strcpy(request.ifr_name, "lo");
  request.ifr_flags = IFF_UP;
  int failed = ioctl(fd, SIOCSIFFLAGS, &request);
  request = {};
  std::strcpy(request.ifr_name, "lo:1");
  if (there) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(0x0a090807);
    std::memcpy(&request.ifr_addr, &address, sizeof address);
    failed |= ioctl(fd, SIOCSIFADDR, &request);
  } else {
    failed |= ioctl(fd, SIOCSIFFLAGS, &request);
  }
  close(fd);
  return failed == 0 ? 0 : errno;
}

bool has_gid(ibv_context* context, const unsigned char (&wanted)[16]) {
  std::array<ibv_gid_entry, 64> entries{};
  const ssize_t count =
      SOFT(_ibv_query_gid_table)(context, entries.data(), entries.size(), 0, sizeof(ibv_gid_entry));
  for (ssize_t i = 0; i < count; ++i)
    if (std::memcmp(entries[static_cast<std::size_t>(i)].gid.raw, wanted, 16) == 0) return true;
  return false;
}

// Runs in its own network namespace. Returns 77 if the namespace cannot be created.
int addresses_come_and_go() {
  if (unshare(CLONE_NEWNET) != 0 && unshare(CLONE_NEWUSER | CLONE_NEWNET) != 0) return 77;
  const unsigned char gid[16] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10, 9, 8, 7};
  opened_device device;
  const int fd = device.context->async_fd;
  EXPECT_EQ(fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK), 0);
  ibv_async_event none{};
  EXPECT_EQ(SOFT(ibv_get_async_event)(device.context, &none), -1);  // starts to observe addresses
  for (const bool there : {true, false}) {
    EXPECT_EQ(set_loopback_address(there), 0);
    pollfd wanted{fd, POLLIN, 0};
    EXPECT_EQ(poll(&wanted, 1, 10'000), 1);
    EXPECT_EQ(take(device.context).event_type, IBV_EVENT_GID_CHANGE);
    EXPECT_EQ(has_gid(device.context, gid), there);
  }
  return 0;
}

// parity: semantics-124
TEST(host_addresses, changed_host_addresses_update_the_gid_table_and_raise_gid_change) {
  const int status = in_child(&addresses_come_and_go);
  if (status == 77) GTEST_SKIP() << "this process cannot create a network namespace";
  EXPECT_EQ(status, 0);
}

TEST_F(injected_events, injection_in_a_forked_child_has_no_effect) {
  EXPECT_EQ(in_child([&] { return inject_event(device_.context, "sm-change") == ENODEV ? 0 : 1; }),
            0);
}

TEST(injection_script, script_from_the_environment_is_executed) {
  const auto play = [] {
    setenv("VERBENA_SOFTDEV_INJECT", "1 port 1  down;0 gid-move ;; 1ms port 1 up # the end", 1);
    const opened_device device;
    for (const ibv_event_type kind :
         {IBV_EVENT_PORT_ERR, IBV_EVENT_GID_CHANGE, IBV_EVENT_PORT_ACTIVE})
      EXPECT_EQ(take(device.context).event_type, kind);
    return 0;
  };
  EXPECT_EQ(in_child(play), 0);
}

// The batch keeps the event from its queue pair; the event must not keep the thread of the batch
// from deregistering memory.
TEST_F(injected_events, event_waits_for_an_open_batch_without_a_lock) {
  for (const char* command : {"port 1 down", "device-fatal"}) {
    SCOPED_TRACE(command);
    queue_pair_handle qp(device_, {.extended = true});
    connect(qp, qp);
    ibv_qp_ex* const batch = SOFT(ibv_qp_to_qp_ex)(qp.get());
    ASSERT_NE(batch, nullptr);
    auto other_memory = std::make_unique<buffer>(device_.pd, 16, 1);
    ibv_wr_start(batch);
    std::atomic<int> injected{-1};
    std::thread other([&] { injected = inject_event(device_.context, command); });
    // The other thread waits for the batch by now, or does not yet.
    for (int i = 0; i < 100; ++i) std::this_thread::yield();
    other_memory.reset();
    ibv_wr_abort(batch);
    other.join();
    EXPECT_EQ(injected, 0);
  }
}

// The thread of the batch changes the list of contexts to which the event is reported.
TEST(injection_child, event_waits_for_an_open_batch_while_devices_are_opened_and_closed) {
  for (const char* command : {"port 1 down", "device-fatal"}) {
    SCOPED_TRACE(command);
    const auto play = [command] {
      ::alarm(60);  // if the two threads wait for each other
      opened_device device;
      std::optional<opened_device> closed(std::in_place);
      queue_pair_handle qp(device, {.extended = true});
      connect(qp, qp);
      ibv_qp_ex* const batch = SOFT(ibv_qp_to_qp_ex)(qp.get());
      ibv_wr_start(batch);
      std::atomic<int> injected{-1};
      std::thread other([&] { injected = inject_event(device.context, command); });
      // The other thread waits for the batch after a while, which nothing shows.
      const auto until = std::chrono::steady_clock::now() + std::chrono::milliseconds(200);
      for (int i = 0; i < 100 || std::chrono::steady_clock::now() < until; ++i) {
        const opened_device opened;
        std::this_thread::yield();
      }
      closed.reset();
      ibv_wr_abort(batch);
      other.join();
      return injected == 0 ? 0 : 1;
    };
    EXPECT_EQ(in_child(play), 0);
  }
}

}  // namespace
}  // namespace verbena::softdev::testing
