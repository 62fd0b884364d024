// SPDX-License-Identifier: MIT
#include "verbena/verbs/completion_status.hpp"

#include <gtest/gtest.h>

#include <set>

namespace verbena {
namespace {

// Not all versions of the headers have these names.
static_assert(static_cast<int>(completion_opcode::driver2) == IBV_WC_DRIVER2);
static_assert(static_cast<int>(completion_opcode::driver3) == IBV_WC_DRIVER3);
static_assert(static_cast<int>(completion_opcode::atomic_write) == IBV_WC_ATOMIC_WRITE);

// parity: ibverbs-118, rrddmma-12, ibverbs-rs-52, ibverbs-tests-20
TEST(completion_status, every_status_of_the_c_api_has_a_name_and_a_meaning) {
  std::set<std::string> names;
  for (int value = IBV_WC_SUCCESS; value <= IBV_WC_TM_RNDV_INCOMPLETE; ++value) {
    const auto status = static_cast<completion_status>(value);
    EXPECT_FALSE(describe(status).empty()) << value;
    EXPECT_FALSE(to_string(status).starts_with("unknown")) << value;
    names.insert(to_string(status));
  }
  EXPECT_EQ(names.size(), 24U);
}

// parity: ibverbs-tests-20
TEST(completion_status, names_are_those_of_the_c_api) {
  EXPECT_EQ(to_string(completion_status::success), "SUCCESS");
  EXPECT_EQ(to_string(completion_status::local_length_error), "LOC_LEN_ERR");
  EXPECT_EQ(to_string(completion_status::local_protection_error), "LOC_PROT_ERR");
  EXPECT_EQ(to_string(completion_status::flushed), "WR_FLUSH_ERR");
  EXPECT_EQ(to_string(completion_status::remote_invalid_request), "REM_INV_REQ_ERR");
  EXPECT_EQ(to_string(completion_status::remote_access_error), "REM_ACCESS_ERR");
  EXPECT_EQ(to_string(completion_status::retries_exceeded), "RETRY_EXC_ERR");
  EXPECT_EQ(to_string(completion_status::rnr_retries_exceeded), "RNR_RETRY_EXC_ERR");
  EXPECT_EQ(to_string(completion_status::fatal), "FATAL_ERR");
  EXPECT_EQ(to_string(completion_status::general_error), "GENERAL_ERR");
  EXPECT_EQ(to_string(completion_status::tag_matching_rendezvous_incomplete), "TM_RNDV_INCOMPLETE");
}

// parity: ibverbs-rs-52, ibverbs-118, rrddmma-13, ibverbs-tests-20
TEST(completion_status, an_unknown_status_keeps_its_number) {
  const auto status = static_cast<completion_status>(77);
  EXPECT_EQ(to_string(status), "unknown (77)");
  EXPECT_TRUE(describe(status).empty());
  EXPECT_TRUE(likely_cause(status).empty());
}

TEST(completion_status, frequent_failures_name_their_causes) {
  EXPECT_NE(likely_cause(completion_status::rnr_retries_exceeded).find("no receive posted"),
            std::string_view::npos);
  EXPECT_NE(likely_cause(completion_status::remote_access_error).find("remote key"),
            std::string_view::npos);
  EXPECT_NE(likely_cause(completion_status::retries_exceeded).find("does not answer"),
            std::string_view::npos);
}

// parity: ibverbs-rs-52
TEST(completion_status_class, every_status_has_the_class_of_its_remedy) {
  using enum completion_status_class;
  EXPECT_EQ(class_of(completion_status::success), success);
  EXPECT_EQ(class_of(completion_status::flushed), flushed);
  EXPECT_EQ(class_of(completion_status::local_protection_error), local_error);
  EXPECT_EQ(class_of(completion_status::remote_access_error), remote_error);
  EXPECT_EQ(class_of(completion_status::retries_exceeded), retry_exceeded);
  EXPECT_EQ(class_of(completion_status::rnr_retries_exceeded), retry_exceeded);
  EXPECT_EQ(class_of(completion_status::fatal), device_error);
  EXPECT_EQ(class_of(static_cast<completion_status>(77)), device_error);
  for (int value = IBV_WC_SUCCESS; value <= IBV_WC_TM_RNDV_INCOMPLETE; ++value) {
    const auto status = static_cast<completion_status>(value);
    const bool is_local = to_string(status).starts_with("LOC_");
    const bool is_remote = to_string(status).starts_with("REM_");
    if (is_local) {
      EXPECT_EQ(class_of(status), local_error) << value;
    }
    if (is_remote) {
      EXPECT_EQ(class_of(status), remote_error) << value;
    }
  }
  EXPECT_EQ(to_string(retry_exceeded), "retry exceeded");
  EXPECT_EQ(to_string(device_error), "device error");
}

// parity: ibverbs-tests-21, ibverbs-119, rrddmma-13
TEST(completion_opcode, names_are_those_of_the_c_api) {
  using op = completion_opcode;
  std::string names;
  for (const op each : {op::send,
                        op::write,
                        op::read,
                        op::compare_and_swap,
                        op::fetch_and_add,
                        op::bind_memory_window,
                        op::local_invalidate,
                        op::tso,
                        op::flush,
                        op::atomic_write,
                        op::receive,
                        op::receive_write_with_immediate,
                        op::tag_added,
                        op::tag_deleted,
                        op::tag_synchronized,
                        op::tag_received,
                        op::tag_missed,
                        op::driver1,
                        op::driver2,
                        op::driver3})
    names += to_string(each) + " ";
  EXPECT_EQ(names,
            "SEND RDMA_WRITE RDMA_READ COMP_SWAP FETCH_ADD BIND_MW LOCAL_INV TSO FLUSH "
            "ATOMIC_WRITE RECV RECV_RDMA_WITH_IMM TM_ADD TM_DEL TM_SYNC TM_RECV TM_NO_TAG DRIVER1 "
            "DRIVER2 DRIVER3 ");
  EXPECT_EQ(to_string(static_cast<completion_opcode>(100)), "unknown (100)");
}

// parity: ibverbs-tests-23, ibverbs-120
TEST(completion_flags, print_names_and_keep_unknown_bits) {
  EXPECT_EQ(to_string(completion_flags()), "none");
  EXPECT_EQ(to_string(completion_flag::with_immediate | completion_flag::global_route_header),
            "GRH | WITH_IMM");
  EXPECT_EQ(to_string(completion_flags::from_mask(IBV_WC_WITH_IMM | 0x8000)), "WITH_IMM | 0x8000");
  EXPECT_EQ(to_string(completion_flags::from_mask(0x7f)),
            "GRH | WITH_IMM | IP_CSUM_OK | WITH_INV | TM_SYNC_REQ | TM_MATCH | TM_DATA_VALID");
}

}  // namespace
}  // namespace verbena
