// SPDX-License-Identifier: MIT
// Injected faults of requests: by the C function, the environment and a file.
#include <unistd.h>

#include <array>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <optional>
#include <string>
#include <vector>

#include "tests/unit/softdev/shim/soft_device.hpp"
#include "tests/unit/softdev/shim/subprocess.hpp"

namespace verbena::softdev::testing {
namespace {

using std::chrono::steady_clock;
using namespace std::chrono_literals;

int inject(ibv_context* context, const std::string& commands) {
  auto* const function =
      reinterpret_cast<verbena_soft_inject_event_function>(find("verbena_soft_inject_event"));
  return function(context, commands.c_str());
}

std::string check(const std::string& commands) {
  auto* const function =
      reinterpret_cast<verbena_soft_check_commands_function>(find("verbena_soft_check_commands"));
  char text[1000];
  return {text, function(commands.c_str(), text, sizeof text)};
}

std::string explanation(const ibv_wc& failed) {
  auto* const function =
      reinterpret_cast<verbena_soft_explain_function>(find("verbena_soft_explain"));
  char text[300];
  return {text, function(failed.qp_num, failed.wr_id, failed.vendor_err, text, sizeof text)};
}

// A completion queue that nobody polls.
class other_queue {
 public:
  explicit other_queue(const opened_device& device)
      : cq_(SOFT(ibv_create_cq)(device.context, 16, nullptr, nullptr, 0)) {}
  other_queue(const other_queue&) = delete;
  other_queue& operator=(const other_queue&) = delete;
  ~other_queue() { EXPECT_EQ(SOFT(ibv_destroy_cq)(cq_), 0); }
  [[nodiscard]] ibv_cq* get() const { return cq_; }

 private:
  ibv_cq* cq_;
};

// A connected pair of queue pairs with receives, in one process.
class connection {
 public:
  explicit connection(opened_device& device, const bring_up& how = {}) : device_(device) {
    connect(a, b, how);
  }
  // Posts a request of eight bytes and returns its completion.
  ibv_wc execute(ibv_wr_opcode opcode, std::uint64_t wr_id) {
    EXPECT_EQ(post(opcode, wr_id), 0);
    return device_.wait_for(wr_id);
  }
  int post(ibv_wr_opcode opcode, std::uint64_t wr_id) {
    ibv_sge sge = memory_.slice(0, 8);
    ibv_send_wr request{};
    request.wr_id = wr_id;
    request.sg_list = &sge;
    request.num_sge = 1;
    request.opcode = opcode;
    request.send_flags = IBV_SEND_SIGNALED;
    request.wr.rdma.remote_addr = memory_.address() + 8;
    request.wr.rdma.rkey = memory_.mr().rkey;
    return a.send(request);
  }
  [[nodiscard]] ibv_cq* received() const { return received_.get(); }
  [[nodiscard]] std::uint32_t rkey() const { return memory_.mr().rkey; }
  void post_receive(std::uint64_t wr_id) { EXPECT_EQ(b.receive(wr_id, {memory_.slice(16, 8)}), 0); }

 private:
  opened_device& device_;
  other_queue received_{device_};

 public:
  queue_pair_handle a{device_};
  queue_pair_handle b{device_, {.recv_cq = received_.get()}};

 private:
  buffer memory_{device_.pd, 64, 1};
};

class injected_faults : public ::testing::Test {
 protected:
  ~injected_faults() override { EXPECT_EQ(inject(device_.context, "clear-faults"), 0); }
  opened_device device_;
};

TEST_F(injected_faults, n_th_request_of_an_opcode_fails_with_the_status) {
  ASSERT_EQ(inject(device_.context, "fail rem_access_err opcode=rdma_write at=2"), 0);
  connection pair(device_);
  EXPECT_EQ(pair.execute(IBV_WR_RDMA_WRITE, 1).status, IBV_WC_SUCCESS);
  EXPECT_EQ(pair.execute(IBV_WR_RDMA_READ, 2).status, IBV_WC_SUCCESS);
  const ibv_wc failed = pair.execute(IBV_WR_RDMA_WRITE, 3);
  EXPECT_EQ(failed.status, IBV_WC_REM_ACCESS_ERR);
  EXPECT_NE(explanation(failed).find("fault rule"), std::string::npos) << explanation(failed);
  EXPECT_EQ(pair.a.state(), IBV_QPS_ERR);
  EXPECT_EQ(pair.execute(IBV_WR_RDMA_WRITE, 4).status, IBV_WC_WR_FLUSH_ERR);
}

TEST_F(injected_faults, request_with_a_lost_acknowledgement_is_executed_and_fails) {
  ASSERT_EQ(inject(device_.context, "fail retry_exc_err delivered opcode=send at=2"), 0);
  connection pair(device_);
  for (const std::uint64_t i : {101U, 102U, 103U}) pair.post_receive(i);
  EXPECT_EQ(pair.execute(IBV_WR_SEND, 1).status, IBV_WC_SUCCESS);
  const ibv_wc failed = pair.execute(IBV_WR_SEND, 2);
  EXPECT_EQ(failed.status, IBV_WC_RETRY_EXC_ERR);
  EXPECT_NE(explanation(failed).find("fault rule"), std::string::npos) << explanation(failed);
  EXPECT_EQ(pair.execute(IBV_WR_SEND, 3).status, IBV_WC_WR_FLUSH_ERR);
  for (const std::uint64_t i : {101U, 102U})
    EXPECT_EQ(device_.wait_for(i, pair.received()).status, IBV_WC_SUCCESS);
  ibv_wc none{};
  EXPECT_EQ(ibv_poll_cq(pair.received(), 1, &none), 0);
}

TEST_F(injected_faults, rule_selects_a_queue_pair_by_number) {
  connection first(device_);
  connection second(device_);
  const std::string number = std::to_string(second.a.get()->qp_num);
  ASSERT_EQ(inject(device_.context, "fail retry_exc_err qp=" + number), 0);
  EXPECT_EQ(first.execute(IBV_WR_RDMA_WRITE, 1).status, IBV_WC_SUCCESS);
  EXPECT_EQ(second.execute(IBV_WR_RDMA_WRITE, 2).status, IBV_WC_RETRY_EXC_ERR);
}

TEST_F(injected_faults, rnr_within_the_retries_delays_the_request_and_beyond_them_fails_it) {
  // Timer 20 stands for 10.24 ms.
  ASSERT_EQ(inject(device_.context, "rnr at=1 times=2 timer=20; rnr at=2 times=3"), 0);
  connection pair(device_, {.rnr_retry = 2});
  pair.post_receive(101);
  pair.post_receive(102);
  const auto start = steady_clock::now();
  EXPECT_EQ(pair.execute(IBV_WR_SEND, 1).status, IBV_WC_SUCCESS);
  EXPECT_GE(steady_clock::now() - start, 20ms);
  const ibv_wc failed = pair.execute(IBV_WR_SEND, 2);
  EXPECT_EQ(failed.status, IBV_WC_RNR_RETRY_EXC_ERR);
  EXPECT_NE(explanation(failed).find("fault rule"), std::string::npos) << explanation(failed);
}

TEST_F(injected_faults, rnr_without_a_limit_of_retries_fails_no_request) {
  ASSERT_EQ(inject(device_.context, "rnr times=50"), 0);  // 50 times 0.01 ms
  connection pair(device_, {.rnr_retry = 7});
  pair.post_receive(101);
  const auto start = steady_clock::now();
  EXPECT_EQ(pair.execute(IBV_WR_SEND, 1).status, IBV_WC_SUCCESS);
  EXPECT_GE(steady_clock::now() - start, 500us);
  EXPECT_EQ(pair.execute(IBV_WR_RDMA_WRITE, 2).status, IBV_WC_SUCCESS);
}

TEST_F(injected_faults, delayed_requests_complete_late_and_in_order) {
  ASSERT_EQ(inject(device_.context, "delay 40ms count=4"), 0);
  connection pair(device_);
  const auto start = steady_clock::now();
  for (std::uint64_t i = 1; i <= 5; ++i) EXPECT_EQ(pair.post(IBV_WR_RDMA_WRITE, i), 0);
  for (std::uint64_t i = 1; i <= 5; ++i) {
    EXPECT_EQ(device_.wait_for(i).status, IBV_WC_SUCCESS);
    EXPECT_GE(steady_clock::now() - start, 40ms);
  }
}

TEST_F(injected_faults, delayed_request_is_flushed_if_the_queue_pair_fails) {
  ASSERT_EQ(inject(device_.context, "delay 1s"), 0);
  connection pair(device_);
  ASSERT_EQ(pair.post(IBV_WR_RDMA_WRITE, 1), 0);
  ASSERT_EQ(pair.a.to_state(IBV_QPS_ERR), 0);
  EXPECT_EQ(device_.wait_for(1).status, IBV_WC_WR_FLUSH_ERR);
  ASSERT_EQ(inject(device_.context, "clear-faults"), 0);
  for (queue_pair_handle* each : {&pair.a, &pair.b}) ASSERT_EQ(each->to_state(IBV_QPS_RESET), 0);
  connect(pair.a, pair.b);
  EXPECT_EQ(pair.execute(IBV_WR_RDMA_WRITE, 2).status, IBV_WC_SUCCESS);
}

// Returns which requests of a new process with these commands fail, as bits. Each has a queue pair
// of its own, because a failed one executes nothing.
std::uint64_t failed_in_child(const std::string& commands) {
  child_process child([&](stream& parent) {
    setenv("VERBENA_SOFTDEV_INJECT", commands.c_str(), 1);
    opened_device device;
    std::uint64_t failed = 0;
    for (unsigned i = 0; i < 40; ++i) {
      connection pair(device);
      if (pair.execute(IBV_WR_RDMA_WRITE, i).status != IBV_WC_SUCCESS)
        failed |= std::uint64_t{1} << i;
    }
    parent.put(failed);
    return 0;
  });
  const auto failed = child.to().take<std::uint64_t>();
  EXPECT_EQ(child.join(), 0);
  return failed;
}

TEST(random_faults, same_seed_leads_to_the_same_faults) {
  const std::string rule = "fail retry_exc_err probability=0.5";
  const auto first = failed_in_child("seed 17; " + rule);
  EXPECT_EQ(failed_in_child("seed 17; " + rule), first);
  EXPECT_EQ(failed_in_child("seed 18; " + rule + " seed=17"), first);
  EXPECT_NE(failed_in_child("seed 18; " + rule), first);
  EXPECT_NE(first, 0U);
  EXPECT_NE(first, (std::uint64_t{1} << 40U) - 1);
}

TEST(random_faults, drawn_seed_is_logged_and_repeats_the_faults) {
  const auto output = [](const std::string& commands) {
    ::testing::internal::CaptureStderr();
    const auto failed = failed_in_child(commands);
    return std::pair(::testing::internal::GetCapturedStderr(), failed);
  };
  const std::string rule = "fail retry_exc_err probability=0.5";
  const auto [log, failed] = output(rule);
  const auto at = log.find("\"seed ");
  ASSERT_NE(at, std::string::npos) << log;
  const std::string seed = log.substr(at + 1, log.find('"', at + 1) - at - 1);
  EXPECT_EQ(output(seed + "; " + rule).second, failed) << seed;
}

TEST_F(injected_faults, every_n_th_request_fails_until_the_count_is_reached) {
  // A queue pair of this transport can return from SQE.
  ASSERT_EQ(inject(device_.context, "fail loc_qp_op_err every=2 count=2"), 0);
  queue_pair_handle qp(device_, {.type = IBV_QPT_UC});
  connect(qp, qp);
  buffer memory(device_.pd, 16, 1);
  std::string outcome;
  for (std::uint64_t i = 1; i <= 7; ++i) {
    ASSERT_EQ(write_within(qp, memory, i), 0);
    const bool fine = device_.wait_for(i).status == IBV_WC_SUCCESS;
    outcome += fine ? '.' : 'x';
    if (fine) continue;
    EXPECT_EQ(qp.state(), IBV_QPS_SQE);
    ASSERT_EQ(qp.to_state(IBV_QPS_RTS), 0);
  }
  EXPECT_EQ(outcome, ".x.x...");
}

ibv_async_event next_event(ibv_context* context) {
  ibv_async_event event{};
  EXPECT_EQ(SOFT(ibv_get_async_event)(context, &event), 0);
  SOFT(ibv_ack_async_event)(&event);
  return event;
}

TEST_F(injected_faults, revoked_region_refuses_remote_access_and_keeps_local_access) {
  connection pair(device_);
  EXPECT_EQ(pair.execute(IBV_WR_RDMA_WRITE, 1).status, IBV_WC_SUCCESS);
  ASSERT_EQ(inject(device_.context, "revoke-region key=" + std::to_string(pair.rkey())), 0);
  pair.post_receive(101);
  EXPECT_EQ(pair.execute(IBV_WR_SEND, 2).status, IBV_WC_SUCCESS);
  EXPECT_EQ(pair.execute(IBV_WR_RDMA_WRITE, 3).status, IBV_WC_REM_ACCESS_ERR);
}

TEST_F(injected_faults, command_is_executed_before_the_request_that_triggers_it) {
  connection pair(device_);
  const std::string revoke = "do revoke-region key=" + std::to_string(pair.rkey());
  ASSERT_EQ(
      inject(device_.context,
             "when opcode=rdma_write at=2 do sm-change; when opcode=rdma_write at=3 " + revoke),
      0);
  EXPECT_EQ(pair.execute(IBV_WR_RDMA_WRITE, 1).status, IBV_WC_SUCCESS);
  EXPECT_FALSE(readable(device_.context->async_fd));
  EXPECT_EQ(pair.execute(IBV_WR_RDMA_WRITE, 2).status, IBV_WC_SUCCESS);
  EXPECT_TRUE(readable(device_.context->async_fd));
  EXPECT_EQ(next_event(device_.context).event_type, IBV_EVENT_SM_CHANGE);
  EXPECT_EQ(pair.execute(IBV_WR_RDMA_WRITE, 3).status, IBV_WC_REM_ACCESS_ERR);
}

TEST_F(injected_faults, later_requests_wait_for_a_triggered_command) {
  ASSERT_EQ(inject(device_.context, "when every=1 count=20 do client-reregister"), 0);
  connection pair(device_);
  for (std::uint64_t i = 0; i < 16; ++i) ASSERT_EQ(pair.post(IBV_WR_RDMA_WRITE, i), 0);
  for (std::uint64_t i = 0; i < 16; ++i) EXPECT_EQ(device_.wait_for(i).status, IBV_WC_SUCCESS);
  for (int i = 0; i < 16; ++i)
    EXPECT_EQ(next_event(device_.context).event_type, IBV_EVENT_CLIENT_REREGISTER);
  EXPECT_FALSE(readable(device_.context->async_fd));
}

TEST_F(injected_faults, command_for_an_object_that_does_not_exist_returns_enoent) {
  EXPECT_EQ(inject(device_.context, "revoke-region index=4000000"), ENOENT);
  EXPECT_EQ(inject(device_.context, "overrun-cq index=4000000"), ENOENT);
  EXPECT_EQ(inject(device_.context, "peer-exit pid=1"), ENOENT);
}

TEST(faults_of_queues, overrun_loses_a_completion_and_fails_the_queue_pair) {
  const auto work = [] {
    opened_device device;
    connection pair(device);
    EXPECT_EQ(pair.execute(IBV_WR_RDMA_WRITE, 1).status, IBV_WC_SUCCESS);
    EXPECT_EQ(inject(device.context, "overrun-cq index=1"), 0);
    EXPECT_EQ(pair.post(IBV_WR_RDMA_WRITE, 2), 0);
    bool queue_failed = false;
    bool pair_failed = false;
    while (!queue_failed || !pair_failed) {
      const ibv_async_event event = next_event(device.context);
      if (event.event_type == IBV_EVENT_CQ_ERR) queue_failed = event.element.cq == device.cq;
      if (event.event_type == IBV_EVENT_QP_FATAL) pair_failed = event.element.qp == pair.a.get();
    }
    EXPECT_EQ(pair.a.state(), IBV_QPS_ERR);
    ibv_wc none{};
    EXPECT_EQ(ibv_poll_cq(device.cq, 1, &none), -EIO);
    return 0;
  };
  EXPECT_EQ(in_child(work), 0);
}

// The values that one process needs of the other.
struct other_side {
  std::uint32_t qp_num = 0;
  std::uint32_t rkey = 0;
  std::uint64_t address = 0;
};

// A queue pair and memory of one of two processes.
struct process_side {
  opened_device device;
  queue_pair_handle qp{device};
  buffer memory{device.pd, 64, 1};

  other_side exchange(stream& with) {
    with.put(other_side{qp.get()->qp_num, memory.mr().rkey, memory.address()});
    return with.take<other_side>();
  }
  ibv_wc write(queue_pair_handle& by, const other_side& to, std::uint64_t wr_id) {
    ibv_sge sge = memory.slice(0, 8);
    ibv_send_wr request{};
    request.wr_id = wr_id;
    request.sg_list = &sge;
    request.num_sge = 1;
    request.opcode = IBV_WR_RDMA_WRITE;
    request.send_flags = IBV_SEND_SIGNALED;
    request.wr.rdma.remote_addr = to.address;
    request.wr.rdma.rkey = to.rkey;
    EXPECT_EQ(by.send(request), 0);
    return device.wait_for(wr_id);
  }
};

TEST(faults_of_peers, peer_exit_fails_requests_and_a_new_connection_works) {
  const auto be_the_peer = [](stream& other) {
    process_side mine;
    mine.qp.connect(mine.exchange(other).qp_num);
    other.meet();
    other.meet();  // the other side has lost this process
    queue_pair_handle next(mine.device);
    other.put(next.get()->qp_num);
    next.connect(other.take<std::uint32_t>());
    other.meet();
    other.meet();
    return 0;
  };
  child_process child(be_the_peer);
  const auto work = [&](stream& /*parent*/) {
    process_side mine;
    const other_side peer = mine.exchange(child.to());
    mine.qp.connect(peer.qp_num);
    child.to().meet();
    EXPECT_EQ(mine.write(mine.qp, peer, 1).status, IBV_WC_SUCCESS);
    EXPECT_EQ(inject(mine.device.context, "peer-exit pid=" + std::to_string(child.pid())), 0);
    const ibv_wc failed = mine.write(mine.qp, peer, 2);
    EXPECT_EQ(failed.status, IBV_WC_RETRY_EXC_ERR);
    EXPECT_NE(explanation(failed).find("is gone: it exited"), std::string::npos)
        << explanation(failed);
    child.to().meet();
    queue_pair_handle next(mine.device);
    const auto number = child.to().take<std::uint32_t>();
    child.to().put(next.get()->qp_num);
    next.connect(number);
    child.to().meet();
    EXPECT_EQ(mine.write(next, peer, 3).status, IBV_WC_SUCCESS);
    child.to().meet();
    return 0;
  };
  child_process here(work);
  EXPECT_EQ(here.join(), 0);
  EXPECT_EQ(child.join(), 0);
}

TEST(faults_of_the_environment, n_th_request_of_the_n_th_queue_pair_fails) {
  const auto work = [] {
    setenv("VERBENA_SOFTDEV_INJECT", "fail loc_prot_err qp-index=3 at=2", 1);
    opened_device device;
    connection first(device);   // the first and the second queue pair
    connection second(device);  // the third and the fourth
    for (std::uint64_t i = 1; i <= 3; ++i)
      EXPECT_EQ(first.execute(IBV_WR_RDMA_WRITE, i).status, IBV_WC_SUCCESS);
    EXPECT_EQ(second.execute(IBV_WR_RDMA_WRITE, 4).status, IBV_WC_SUCCESS);
    EXPECT_EQ(second.execute(IBV_WR_RDMA_WRITE, 5).status, IBV_WC_LOC_PROT_ERR);
    return 0;
  };
  EXPECT_EQ(in_child(work), 0);
}

// A file with a text, in the folder for temporary files.
class text_file {
 public:
  explicit text_file(const std::string& text)
      : name_(::testing::TempDir() + "verbena_faults." + std::to_string(getpid())) {
    std::ofstream(name_) << text;
  }
  text_file(const text_file&) = delete;
  text_file& operator=(const text_file&) = delete;
  ~text_file() { std::remove(name_.c_str()); }
  [[nodiscard]] const std::string& name() const { return name_; }

 private:
  std::string name_;
};

TEST(faults_of_the_environment, script_is_read_from_a_file) {
  const auto work = [] {
    const text_file file("# two rules\nfail rem_op_err at=1  # of every queue pair\n\nsm-change\n");
    setenv("VERBENA_SOFTDEV_INJECT", ("@" + file.name()).c_str(), 1);
    opened_device device;
    connection pair(device);
    EXPECT_EQ(pair.execute(IBV_WR_RDMA_WRITE, 1).status, IBV_WC_REM_OP_ERR);
    EXPECT_TRUE(readable(device.context->async_fd));
    return 0;
  };
  EXPECT_EQ(in_child(work), 0);
}

// Opens the device with a script. Returns the errno.
int open_with(const std::string& commands) {
  setenv("VERBENA_SOFTDEV_INJECT", commands.c_str(), 1);
  ibv_device** const list = SOFT(ibv_get_device_list)(nullptr);
  errno = 0;
  ibv_context* const context = SOFT(ibv_open_device)(list[0]);
  const int code = errno;
  SOFT(ibv_free_device_list)(list);
  if (context == nullptr) return code;
  SOFT(ibv_close_device)(context);
  return 0;
}

TEST(faults_of_the_environment, invalid_script_fails_the_opening_and_a_valid_one_opens) {
  EXPECT_EQ(in_child([] { return open_with("fail retry_exc_err at=0"); }), EINVAL);
  EXPECT_EQ(in_child([] { return open_with("10 port 1 sideways"); }), EINVAL);
  EXPECT_EQ(in_child([] { return open_with("@/nowhere/faults"); }), ENOENT);
  EXPECT_EQ(in_child([] { return open_with("fail retry_exc_err at=1"); }), 0);
}

TEST(fault_text, error_has_position_and_permitted_values) {
  const struct {
    const char* text;
    const char* place;
    const char* remedy;
  } rows[] = {
      {"prot 1 down", "line 1, column 1:", "port, gid-change"},
      {"sm-change;\n  fail nonsense", "line 2, column 8:", "retry_exc_err"},
      {"fail retry_exc_err at=x", "line 1, column 23:", "a number from 1"},
      {"fail retry_exc_err at=1 every=2", "line 1, column 25:", "one of at=N"},
      {"fail retry_exc_err opcode=send,sned", "line 1, column 32:", "send_with_imm"},
      {"fail retry_exc_err probability=1.5", "line 1, column 32:", "at most 1"},
      {"fail", "line 1, column 5:", "loc_len_err"},
      {"rnr opcode=rdma_write", "line 1, column 12:", "rdma_write_with_imm"},
      {"delay", "line 1, column 6:", "500us"},
      {"delay 5h", "line 1, column 7:", "500us"},
      {"when at=3 port 1 down", "line 1, column 11:", "do COMMAND"},
      {"when at=3 do", "line 1, column 13:", "port, gid-change"},
      {"when at=3 do port 1 sideways", "line 1, column 21:", "up, down"},
      {"port 1 down now", "line 1, column 13:", "the end of the command"},
      {"@/nowhere/faults", "/nowhere/faults", "after '@'"},
  };
  for (const auto& [text, place, remedy] : rows) {
    EXPECT_NE(check(text).find(place), std::string::npos) << text << ": " << check(text);
    EXPECT_NE(check(text).find(remedy), std::string::npos) << text << ": " << check(text);
  }
  EXPECT_EQ(check(" port  1 down ;; 5 sm-change\n#"), "");
}

TEST(fault_text, deeply_nested_commands_are_refused) {
  const auto nested = [](std::size_t count) {
    std::string text;
    for (std::size_t i = 0; i < count; ++i) text += "when do ";
    return text + "sm-change";
  };
  EXPECT_EQ(check(nested(8).c_str()), "");
  for (const std::size_t count : {std::size_t{9}, std::size_t{8000}}) {
    const std::string refused = check(nested(count).c_str());
    EXPECT_NE(refused.find("line 1, column 65: 'when' is not valid here"), std::string::npos)
        << refused.substr(0, 200);
  }
}

}  // namespace
}  // namespace verbena::softdev::testing
