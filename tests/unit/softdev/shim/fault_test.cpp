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
  void post_receive(std::uint64_t wr_id) { EXPECT_EQ(b.receive(wr_id, {memory_.slice(16, 8)}), 0); }

 private:
  opened_device& device_;

 public:
  queue_pair_handle a{device_};
  queue_pair_handle b{device_};

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

TEST_F(injected_faults, rule_selects_a_queue_pair_by_number) {
  connection first(device_);
  connection second(device_);
  const std::string number = std::to_string(second.a.get()->qp_num);
  ASSERT_EQ(inject(device_.context, "fail retry_exc_err qp=" + number), 0);
  EXPECT_EQ(first.execute(IBV_WR_RDMA_WRITE, 1).status, IBV_WC_SUCCESS);
  EXPECT_EQ(second.execute(IBV_WR_RDMA_WRITE, 2).status, IBV_WC_RETRY_EXC_ERR);
}

TEST(faults_of_the_environment, n_th_request_of_the_n_th_queue_pair_fails) {
  const auto work = [] {
    setenv("VERBENA_SOFTDEV_EVENTS", "fail loc_prot_err qp-index=3 at=2", 1);
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
    setenv("VERBENA_SOFTDEV_EVENTS", ("@" + file.name()).c_str(), 1);
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
  setenv("VERBENA_SOFTDEV_EVENTS", commands.c_str(), 1);
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
      {"port 1 down now", "line 1, column 13:", "the end of the command"},
      {"@/nowhere/faults", "/nowhere/faults", "after '@'"},
  };
  for (const auto& [text, place, remedy] : rows) {
    EXPECT_NE(check(text).find(place), std::string::npos) << text << ": " << check(text);
    EXPECT_NE(check(text).find(remedy), std::string::npos) << text << ": " << check(text);
  }
  EXPECT_EQ(check(" port  1 down ;; 5 sm-change\n#"), "");
}

}  // namespace
}  // namespace verbena::softdev::testing
