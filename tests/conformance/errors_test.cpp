// SPDX-License-Identifier: MIT
// Failed requests: status on both sides, and the remaining state.
#include <gtest/gtest.h>

#include <array>
#include <optional>
#include <span>

#include "tests/conformance/traffic.hpp"

namespace verbena::conformance {
namespace {

class failures : public data_test {
 protected:
  void open(const link_options& options = {}) {
    data_test::open(options);
    if (IsSkipped()) return;
    local.emplace(connection().memory(8192));
    remote.emplace(connection().memory(8192));
    fill(remote->bytes(), 31);
  }
  // The request fails with `status`, the next request is flushed, and this side is in ERR.
  template <class Add>
  void expect_failure(completion_status status, Add&& add) {
    post([&](auto& batch) {
      add(batch);
      batch.send({.id = 99, .signaled = true}, local->slice(0, 8));
    });
    const auto done = take(initiator().sends, 2, 3s);
    ASSERT_EQ(done.size(), 2U);
    EXPECT_EQ(done[0].id(), 1U);
    EXPECT_EQ(to_string(done[0].status()), to_string(status)) << to_string(done[0]);
    EXPECT_EQ(done[0].queue_pair(), initiator().queue.number());
    EXPECT_FALSE(done[0].result());
    EXPECT_EQ(done[1].id(), 99U);
    EXPECT_EQ(done[1].status(), completion_status::flushed) << to_string(done[1]);
  }
  // The target rejects the access and flushes its receives: it is in ERR too.
  template <class Add>
  void expect_refused_access(Add&& add) {
    receive(5, local->slice(4096, 64));
    expect_failure(completion_status::remote_access_error, add);
    const completion flushed = received();
    EXPECT_EQ(flushed.id(), 5U);
    EXPECT_EQ(flushed.status(), completion_status::flushed) << to_string(flushed);
    EXPECT_TRUE(holds(*remote, 0, pattern(8192, 31))) << "the memory changed";
  }
  [[nodiscard]] static remote_region with_key(const remote_region& of, remote_key key) {
    return remote_region({.address = of.address(), .length = of.length(), .key = key});
  }

  std::optional<memory_region> local;
  std::optional<memory_region> remote;
};
INSTANTIATE_TEST_SUITE_P(rc, failures, ::testing::ValuesIn(variants_with_two_ends()), name_of);

TEST_P(failures, write_with_wrong_rkey_fails_with_remote_access_error) {
  VERBENA_OPEN();
  const remote_key wrong(remote->remote_key().value() ^ 0x5a5a5a00U);
  expect_refused_access([&](auto& batch) {
    batch.write({.id = 1, .signaled = true}, local->slice(0, 64),
                with_key(remote->remote(), wrong));
  });
}

TEST_P(failures, refused_access_moves_both_queue_pairs_to_error_state) {
  VERBENA_OPEN();
  const remote_key wrong(remote->remote_key().value() ^ 0x5a5a5a00U);
  post([&](auto& batch) {
    batch.write({.id = 1, .signaled = true}, local->slice(0, 64),
                with_key(remote->remote(), wrong));
  });
  EXPECT_FALSE(sent().ok());
  EXPECT_TRUE(reaches(initiator().queue, queue_pair_state::error));
  EXPECT_TRUE(reaches(target().queue, queue_pair_state::error));
}

TEST_P(failures, read_with_wrong_rkey_fails_with_remote_access_error) {
  VERBENA_OPEN();
  const remote_key wrong(remote->remote_key().value() ^ 0x5a5a5a00U);
  expect_refused_access([&](auto& batch) {
    batch.read({.id = 1, .signaled = true}, local->slice(0, 64), with_key(remote->remote(), wrong));
  });
  EXPECT_TRUE(holds(*local, 0, std::vector<std::byte>(64)));
}

TEST_P(failures, write_with_rkey_of_deregistered_region_is_refused) {
  VERBENA_OPEN();
  auto other = connection().memory(4096);
  const remote_region gone = other.remote();
  std::move(other).close().value();
  expect_refused_access(
      [&](auto& batch) { batch.write({.id = 1, .signaled = true}, local->slice(0, 64), gone); });
}

TEST_P(failures, write_across_the_end_of_the_region_is_refused) {
  VERBENA_OPEN();
  const remote_region across(
      {.address = remote->remote().address() + 8190, .length = 64, .key = remote->remote_key()});
  expect_refused_access(
      [&](auto& batch) { batch.write({.id = 1, .signaled = true}, local->slice(0, 64), across); });
}

TEST_P(failures, write_before_the_start_of_the_region_is_refused) {
  VERBENA_OPEN();
  const remote_region before(
      {.address = remote->remote().address() - 1, .length = 64, .key = remote->remote_key()});
  expect_refused_access(
      [&](auto& batch) { batch.write({.id = 1, .signaled = true}, local->slice(0, 64), before); });
}

TEST_P(failures, read_across_the_end_of_the_region_is_refused) {
  VERBENA_OPEN();
  const remote_region across(
      {.address = remote->remote().address() + 8190, .length = 64, .key = remote->remote_key()});
  expect_refused_access(
      [&](auto& batch) { batch.read({.id = 1, .signaled = true}, local->slice(0, 64), across); });
}

TEST_P(failures, write_to_region_without_remote_write_is_refused) {
  VERBENA_OPEN();
  const auto read_only =
      connection().memory(4096, access::local_write | access::remote_read | access::remote_atomic);
  expect_refused_access([&](auto& batch) {
    batch.write({.id = 1, .signaled = true}, local->slice(0, 64), read_only.remote());
  });
  EXPECT_TRUE(holds(read_only, 0, std::vector<std::byte>(64)));
}

TEST_P(failures, read_from_region_without_remote_read_is_refused) {
  VERBENA_OPEN();
  const auto write_only =
      connection().memory(4096, access::local_write | access::remote_write | access::remote_atomic);
  expect_refused_access([&](auto& batch) {
    batch.read({.id = 1, .signaled = true}, local->slice(0, 64), write_only.remote());
  });
}

TEST_P(failures, atomic_on_region_without_remote_atomic_is_refused) {
  VERBENA_NEEDS(tested().context.query().value().atomics() != atomic_scope::none,
                "the device has no atomic operations");
  VERBENA_OPEN();
  const auto plain =
      connection().memory(4096, access::local_write | access::remote_write | access::remote_read);
  expect_refused_access([&](auto& batch) {
    batch.fetch_and_add({.id = 1, .signaled = true}, local->slice(0, 8), plain.remote(), 1);
  });
  EXPECT_TRUE(holds(plain, 0, std::vector<std::byte>(8)));
}

TEST_P(failures, rkey_of_another_pd_is_refused) {
  VERBENA_OPEN();
  const auto elsewhere = connection().context().allocate_pd().value();
  const auto foreign = elsewhere.allocate(4096, all_access()).value();
  expect_refused_access([&](auto& batch) {
    batch.write({.id = 1, .signaled = true}, local->slice(0, 64), foreign.remote());
  });
  EXPECT_TRUE(holds(foreign, 0, std::vector<std::byte>(64)));
}

TEST_P(failures, lkey_of_another_pd_fails_with_local_protection_error) {
  VERBENA_OPEN();
  const auto elsewhere = connection().context().allocate_pd().value();
  const auto foreign = elsewhere.allocate(4096, all_access()).value();
  receive(5, remote->slice(0, 64));
  expect_failure(completion_status::local_protection_error, [&](auto& batch) {
    batch.send({.id = 1, .signaled = true}, foreign.slice(0, 64));
  });
  EXPECT_TRUE(holds(*remote, 0, pattern(8192, 31)));
}

TEST_P(failures, sge_beyond_its_region_fails_with_local_protection_error) {
  VERBENA_OPEN();
  receive(5, remote->slice(0, 64));
  const local_slice beyond(local->slice().address() + 8190, 64, local->local_key());
  expect_failure(completion_status::local_protection_error,
                 [&](auto& batch) { batch.send({.id = 1, .signaled = true}, beyond); });
  EXPECT_TRUE(holds(*remote, 0, pattern(8192, 31)));
}

TEST_P(failures, read_into_region_without_local_write_fails_locally) {
  VERBENA_OPEN();
  const auto constant = connection().memory(4096, access::remote_read);
  expect_failure(completion_status::local_protection_error, [&](auto& batch) {
    batch.read({.id = 1, .signaled = true}, constant.slice(0, 64), remote->remote());
  });
  EXPECT_TRUE(holds(constant, 0, std::vector<std::byte>(64)));
}

TEST_P(failures, message_longer_than_its_receive_fails_on_both_sides) {
  VERBENA_OPEN();
  receive(5, remote->slice(0, 100));
  expect_failure(completion_status::remote_invalid_request, [&](auto& batch) {
    batch.send({.id = 1, .signaled = true}, local->slice(0, 101));
  });
  const completion arrived = received();
  EXPECT_EQ(arrived.id(), 5U);
  EXPECT_EQ(arrived.status(), completion_status::local_length_error) << to_string(arrived);
  EXPECT_TRUE(holds(*remote, 100, pattern_from(100, 8192, 31)))
      << "the memory after the receive changed";
}

TEST_P(failures, receive_without_local_write_fails_on_both_sides) {
  VERBENA_OPEN();
  const auto constant = connection().memory(4096, access::remote_read);
  receive(5, constant.slice(0, 100));
  expect_failure(completion_status::remote_operation_error, [&](auto& batch) {
    batch.send({.id = 1, .signaled = true}, local->slice(0, 50));
  });
  const completion arrived = received();
  EXPECT_EQ(arrived.id(), 5U);
  EXPECT_EQ(arrived.status(), completion_status::local_protection_error) << to_string(arrived);
  EXPECT_TRUE(holds(constant, 0, std::vector<std::byte>(100)));
}

TEST_P(failures, requests_before_the_failed_one_succeed) {
  VERBENA_OPEN();
  fill(local->bytes(), 32);
  const remote_key wrong(remote->remote_key().value() ^ 0x5a5a5a00U);
  post([&](auto& batch) {
    batch.write({.id = 1, .signaled = true}, local->slice(0, 64), remote->remote());
    batch.write({.id = 2, .signaled = true}, local->slice(64, 64), remote->remote().slice(64));
    batch.write({.id = 3, .signaled = true}, local->slice(0, 64),
                with_key(remote->remote(), wrong));
    batch.write({.id = 4, .signaled = true}, local->slice(128, 64), remote->remote().slice(128));
  });
  const auto done = take(initiator().sends, 4);
  ASSERT_EQ(done.size(), 4U);
  for (std::size_t i = 0; i < 4; ++i) EXPECT_EQ(done[i].id(), i + 1);
  EXPECT_TRUE(done[0].ok() && done[1].ok());
  EXPECT_EQ(done[2].status(), completion_status::remote_access_error) << to_string(done[2]);
  EXPECT_EQ(done[3].status(), completion_status::flushed) << to_string(done[3]);
  EXPECT_TRUE(holds(*remote, 0, local->bytes().first(128)));
  EXPECT_TRUE(holds(*remote, 128, pattern_from(128, 8192, 31)));
}

TEST_P(failures, queue_pair_without_remote_write_refuses_writes) {
  VERBENA_NEEDS(!is_iwarp(), "the connection manager sets the rights of iWARP's queue pairs");
  link_options options;
  options.target.access = access::remote_read;
  VERBENA_OPEN(options);
  // Verbs permit an invalid request error, as the specification says, or an access error.
  post([&](auto& batch) {
    batch.write({.id = 1, .signaled = true}, local->slice(0, 64), remote->remote());
  });
  const completion done = sent();
  EXPECT_TRUE(done.status() == completion_status::remote_invalid_request ||
              done.status() == completion_status::remote_access_error)
      << to_string(done);
  EXPECT_TRUE(holds(*remote, 0, pattern(8192, 31)));
}

TEST_P(failures, queue_pair_without_remote_read_refuses_reads) {
  VERBENA_NEEDS(!is_iwarp(), "the connection manager sets the rights of iWARP's queue pairs");
  link_options options;
  options.target.access = access::remote_write;
  VERBENA_OPEN(options);
  post([&](auto& batch) {
    batch.read({.id = 1, .signaled = true}, local->slice(0, 64), remote->remote());
  });
  const completion done = sent();
  EXPECT_TRUE(done.status() == completion_status::remote_invalid_request ||
              done.status() == completion_status::remote_access_error)
      << to_string(done);
  EXPECT_TRUE(holds(*local, 0, std::vector<std::byte>(64)));
}

TEST_P(failures, zero_length_write_needs_no_valid_rkey) {
  VERBENA_OPEN();
  const remote_key wrong(remote->remote_key().value() ^ 0x5a5a5a00U);
  post([&](auto& batch) {
    batch.write({.id = 1, .signaled = true}, std::span<const local_slice>(),
                with_key(remote->remote().slice(0, 0), wrong));
  });
  const completion done = sent();
  EXPECT_TRUE(done.ok()) << to_string(done);
}

}  // namespace
}  // namespace verbena::conformance
