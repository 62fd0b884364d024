// SPDX-License-Identifier: MIT
// For each function that creates an object, each verb that it calls fails once: the error must name
// the verb, and no object of the C API may remain.
#include <gtest/gtest.h>

#include <array>
#include <cerrno>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "tests/unit/verbs/counting_provider.hpp"
#include "tests/unit/verbs/soft_device.hpp"
#include "verbena/sys/failing_provider.hpp"
#include "verbena/verbs/address_handle.hpp"
#include "verbena/verbs/completion_channel.hpp"
#include "verbena/verbs/completion_queue.hpp"
#include "verbena/verbs/extended_completion_queue.hpp"
#include "verbena/verbs/prepared_queue_pair.hpp"
#include "verbena/verbs/protection_domain.hpp"
#include "verbena/verbs/queue_pair.hpp"
#include "verbena/verbs/shared_receive_queue.hpp"

namespace verbena {
namespace {

using testing_support::counting_provider;
using testing_support::log_catcher;
using testing_support::open_soft;

// Verbs whose failure does not prevent the creation.
bool is_optional(std::string_view verb, int code) {
  if (verb == "ibv_qp_to_qp_ex") return true;
  // Providers refuse unknown parts of the extended verb with EOPNOTSUPP or EINVAL.
  return verb == "ibv_create_qp_ex" && (code == EOPNOTSUPP || code == EINVAL);
}

std::string public_name(std::string_view verb) {
  return std::string(verb.substr(verb.starts_with('_') ? 1 : 0));
}

/// `path(provider)` creates an object and returns it as a result.
template <class Path>
void expect_clean_failures(Path path) {
  counting_provider counting(*soft_provider().value());
  failing_provider failing(counting.get());
  const log_catcher log;
  std::size_t calls = 0;
  {
    failing.fail_call(0, 0);
    const auto made = path(failing.get());
    calls = failing.calls();
    ASSERT_TRUE(made.has_value()) << made.error().message();
  }
  ASSERT_GT(calls, 0U);
  ASSERT_EQ(counting.live(), "");
  for (const int code : {ENOMEM, EINVAL, EOPNOTSUPP}) {
    for (std::size_t n = 1; n <= calls; ++n) {
      failing.fail_call(n, code);
      auto made = std::make_optional(path(failing.get()));
      const std::string verb(failing.failed_verb());
      failing.fail_call(0, 0);
      ASSERT_NE(verb, "") << "call " << n << " was not made";
      if (made->has_value()) {
        EXPECT_TRUE(is_optional(verb, code)) << verb << " failed unnoticed";
      } else {
        EXPECT_EQ(made->error().code(), code) << verb;
        EXPECT_TRUE(made->error().message().starts_with(public_name(verb) + " on "))
            << made->error().message();
      }
      made.reset();
      EXPECT_EQ(counting.live(), "") << "call " << n << ", " << verb;
    }
  }
  EXPECT_EQ(log.text(), "") << "no teardown was refused";
}

result<protection_domain> allocate_pd_of(const provider& from) {
  VERBENA_TRY(const auto opened, open_soft(from));
  return opened.allocate_pd();
}

template <transport Transport>
result<prepared_queue_pair<Transport>> make_queue_pair(const provider& from) {
  VERBENA_TRY(const auto pd, allocate_pd_of(from));
  VERBENA_TRY(const auto cq, pd.context().create_cq(16));
  return pd.create_qp<Transport>(cq, cq);
}

template <transport Transport>
result<prepared_queue_pair<Transport>> make_queue_pair_with_shared_receives(const provider& from) {
  VERBENA_TRY(const auto pd, allocate_pd_of(from));
  VERBENA_TRY(const auto cq, pd.context().create_cq(16));
  VERBENA_TRY(const auto shared, pd.create_srq({}));
  return pd.create_qp<Transport>(cq, cq, shared);
}

template <transport Transport>
result<queue_pair<Transport>> connect_to_itself(const provider& from) {
  VERBENA_TRY(auto prepared, make_queue_pair<Transport>(from));
  const auto self = prepared.endpoint();
  return std::move(prepared).handshake(self);
}

// parity: ibverbs-22
TEST(creation_failure, open_leaks_no_object) {
  expect_clean_failures([](const provider& from) { return open_soft(from); });
}

TEST(creation_failure, allocate_pd_leaks_no_object) { expect_clean_failures(allocate_pd_of); }

TEST(creation_failure, allocate_leaks_no_object) {
  expect_clean_failures([](const provider& from) -> result<memory_region> {
    VERBENA_TRY(const auto pd, allocate_pd_of(from));
    return pd.allocate(10000, access::local_write);
  });
}

TEST(creation_failure, allocate_with_optional_access_flags_leaks_no_object) {
  expect_clean_failures([](const provider& from) -> result<memory_region> {
    VERBENA_TRY(const auto pd, allocate_pd_of(from));
    return pd.allocate(10000, access::local_write | access::relaxed_ordering);
  });
}

TEST(creation_failure, register_memory_leaks_no_object) {
  std::array<std::byte, 4096> memory{};
  expect_clean_failures([&memory](const provider& from) -> result<memory_region> {
    VERBENA_TRY(const auto pd, allocate_pd_of(from));
    return pd.register_memory(memory, access::local_write);
  });
}

TEST(creation_failure, register_memory_with_base_address_leaks_no_object) {
  alignas(4096) static std::array<std::byte, 4096> memory;
  expect_clean_failures([](const provider& from) -> result<memory_region> {
    VERBENA_TRY(const auto pd, allocate_pd_of(from));
    return pd.register_memory(memory, access::local_write, {.iova = 0x10000});
  });
}

// parity: ibverbs-76
TEST(creation_failure, create_completion_channel_leaks_no_object) {
  expect_clean_failures([](const provider& from) -> result<completion_channel> {
    VERBENA_TRY(const auto opened, open_soft(from));
    return opened.create_completion_channel();
  });
}

TEST(creation_failure, create_cq_leaks_no_object) {
  expect_clean_failures([](const provider& from) -> result<completion_queue> {
    VERBENA_TRY(const auto opened, open_soft(from));
    VERBENA_TRY(const auto channel, opened.create_completion_channel());
    return opened.create_cq(16, {.channel = channel});
  });
}

TEST(creation_failure, create_extended_cq_leaks_no_object) {
  expect_clean_failures([](const provider& from) -> result<extended_completion_queue> {
    VERBENA_TRY(const auto opened, open_soft(from));
    VERBENA_TRY(const auto channel, opened.create_completion_channel());
    return opened.create_extended_cq(16, {.channel = channel});
  });
}

// parity: ibverbs-167, rrddmma-9
TEST(creation_failure, create_queue_pair_leaks_no_object) {
  expect_clean_failures(make_queue_pair<rc>);
  expect_clean_failures(make_queue_pair<uc>);
  expect_clean_failures(make_queue_pair<ud>);
}

TEST(creation_failure, create_queue_pair_with_srq_leaks_no_object) {
  expect_clean_failures(make_queue_pair_with_shared_receives<rc>);
  expect_clean_failures(make_queue_pair_with_shared_receives<ud>);
}

TEST(creation_failure, handshake_leaks_no_object) {
  expect_clean_failures(connect_to_itself<rc>);
  expect_clean_failures(connect_to_itself<uc>);
}

TEST(creation_failure, activate_leaks_no_object) {
  expect_clean_failures([](const provider& from) -> result<queue_pair<ud>> {
    VERBENA_TRY(auto prepared, make_queue_pair<ud>(from));
    return std::move(prepared).activate(queue_key(7));
  });
}

TEST(creation_failure, create_address_handle_leaks_no_object) {
  expect_clean_failures([](const provider& from) -> result<address_handle> {
    VERBENA_TRY(const auto pd, allocate_pd_of(from));
    VERBENA_TRY(const auto own, pd.context().routable_gid(port_number(1)));
    return pd.create_ah({.gid = own.gid, .source_gid_index = own.index});
  });
}

// parity: rrddmma-101
TEST(creation_failure, create_shared_receive_queue_leaks_no_object) {
  expect_clean_failures([](const provider& from) -> result<shared_receive_queue> {
    VERBENA_TRY(const auto pd, allocate_pd_of(from));
    return pd.create_srq({});
  });
}

TEST(creation_failure, modify_to_rts_leaks_no_object) {
  expect_clean_failures([](const provider& from) -> result<queue_pair<rc>> {
    VERBENA_TRY(auto prepared, make_queue_pair<rc>(from));
    const auto self = prepared.endpoint();
    const auto to_init = prepared.init_attributes();
    VERBENA_TRY(const auto to_rtr, prepared.rtr_attributes(self));
    const auto to_rts = prepared.rts_attributes(self);
    auto made = std::move(prepared).into_queue_pair();
    for (const auto& step : {to_init, to_rtr, to_rts}) VERBENA_TRY_VOID(made.modify(step));
    return made;
  });
}

}  // namespace
}  // namespace verbena
