// SPDX-License-Identifier: MIT
// Misconfigurations: completion queues and channels.
#include <fcntl.h>
#include <sys/resource.h>

#include <array>
#include <utility>
#include <vector>

#include "tests/unit/verbs/loopback.hpp"
#include "tests/unit/verbs/misconfigurations/produce.hpp"
#include "tests/unit/verbs/soft_device.hpp"
#include "verbena/base/fd.hpp"
#include "verbena/sys/failing_provider.hpp"
#include "verbena/verbs/completion_channel.hpp"
#include "verbena/verbs/completion_queue.hpp"
#include "verbena/verbs/context.hpp"

namespace verbena::misconfigurations {
namespace {

using testing_support::open_soft;

// Returns the error if `verb` refuses to destroy the object of `make`.
template <class Make>
error closing_with(const char* verb, int code, Make&& make) {
  failing_provider failing(*soft_provider().value());
  const auto device = open_soft(failing.get()).value();
  auto made = make(device);
  failing.fail_verb(verb, code);
  auto closed = std::move(made).close();
  error failed = error_of(closed);
  failing.fail_call(0, 0);
  return failed;
}

}  // namespace

error cq_without_entries() { return error_of(open_soft().create_cq(0)); }
error cq_too_large() { return error_of(open_soft().create_cq(5'000'000)); }
error cq_huge() { return error_of(open_soft().create_cq(0x8000'0000)); }
error cq_vector_beyond() {
  return error_of(open_soft().create_cq(1, {.channel = {}, .completion_vector = 8}));
}
error cqs_exhausted() {
  const auto device = open_soft();
  std::vector<completion_queue> kept;
  for (std::size_t i = 0; i <= 16384; ++i) {
    auto made = device.create_cq(1);
    if (!made) return std::move(made).error();
    kept.push_back(*std::move(made));
  }
  return error(error_kind::os, 0, "nothing failed");
}
error channel_without_descriptors() {
  const auto device = open_soft();
  const unique_fd next(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  rlimit before{};
  EXPECT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
  const rlimit lowered{.rlim_cur = static_cast<rlim_t>(next.get()), .rlim_max = before.rlim_max};
  EXPECT_EQ(::setrlimit(RLIMIT_NOFILE, &lowered), 0);
  error failed = error_of(device.create_completion_channel());
  EXPECT_EQ(::setrlimit(RLIMIT_NOFILE, &before), 0);
  return failed;
}
error cq_overflowed() {
  const auto device = open_soft();
  const auto pd = device.allocate_pd().value();
  const auto cq = device.create_cq(1).value();
  auto prepared = pd.create_qp<rc>(cq, cq).value();
  const auto self = prepared.endpoint();
  auto queue = std::move(prepared).handshake(self).value();
  const auto memory = pd.allocate(64, access::local_write).value();
  for (std::size_t i = 0; i < cq.capacity() + 1; ++i)
    queue.post_receive({.id = i}, memory.slice(i, 1)).value();
  queue.modify(queue_pair_attributes().set_state(queue_pair_state::error)).value();
  std::array<completion, 4> room;
  while (true) {
    const auto polled = cq.poll(room);
    if (!polled) return polled.error();
    if ((*polled).empty()) return error(error_kind::os, 0, "nothing failed");
  }
}
error cq_in_use() {
  return closing_with("ibv_destroy_cq", EBUSY,
                      [](const context& device) { return device.create_cq(4).value(); });
}
error cq_handle_shared() {
  auto cq = open_soft().create_cq(4).value();
  const auto copy = cq;
  auto closed = std::move(cq).close();
  return error_of(closed);
}
error channel_in_use() {
  return closing_with("ibv_destroy_comp_channel", EBUSY, [](const context& device) {
    return device.create_completion_channel().value();
  });
}
error domain_in_use() {
  return closing_with("ibv_dealloc_pd", EBUSY,
                      [](const context& device) { return device.allocate_pd().value(); });
}

}  // namespace verbena::misconfigurations
