// SPDX-License-Identifier: MIT
// Placement of memory with a fake host: its results, and the lifetime of the memory.
#include "src/memory/placed_block.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cerrno>
#include <string>
#include <utility>
#include <vector>

#include "tests/unit/verbs/soft_device.hpp"

namespace verbena::detail {
namespace {

using testing_support::expect_error;
using testing_support::log_catcher;

// A fake host with the nodes 0 and 2, whose results the test sets.
struct scripted_host final : numa_host {
  int prefer_code = 0;
  int bind_code = 0;
  int locate_code = 0;
  page_nodes located = {.nodes = {2}};
  mutable std::string calls;

  std::vector<numa_node> nodes() const override {
    return {{.number = 0, .bytes = 1U << 30U, .has_processors = true},
            {.number = 2, .bytes = 1U << 20U, .has_processors = false}};
  }
  std::optional<std::uint64_t> free_bytes(unsigned) const override { return 12U << 20U; }
  numa_outcome prefer(std::span<std::byte>, unsigned) const override {
    calls += "prefer ";
    return {.code = prefer_code, .call = "prefer"};
  }
  numa_outcome bind(std::span<std::byte> memory, unsigned) const override {
    for (std::size_t at = 0; at < memory.size(); at += 4096)
      EXPECT_NE(memory[at], std::byte{0})
          << "a page of zeros may be discarded, so it must be written";
    calls += "bind " + std::to_string(memory.size()) + " ";
    return {.code = bind_code, .call = "bind"};
  }
  numa_outcome release(std::span<std::byte>) const override {
    calls += "release ";
    return {};
  }
  numa_outcome locate(std::span<const std::byte>, page_nodes& found) const override {
    calls += "locate ";
    found = located;
    return {.code = locate_code, .call = "locate"};
  }
  numa_outcome bind_thread(unsigned, numa_binding) const override { return {}; }
  numa_outcome unbind_thread() const override { return {}; }
};

result<std::shared_ptr<const memory_block>> place(const scripted_host& host, numa_binding how) {
  auto block = memory_block::allocate(*soft_provider().value(), 5000, {}).value();
  return place_block(host, std::move(block), {.call = "test", .node = 2, .how = how});
}

TEST(placed_block, pages_are_bound_faulted_in_verified_and_released) {
  const scripted_host host;
  {
    const auto placed = place(host, numa_binding::strict).value();
    const std::span bytes(placed->data(), placed->mapped_bytes());
    EXPECT_EQ(bytes.size(), 8192U);
    EXPECT_TRUE(std::ranges::all_of(bytes, [](std::byte b) { return b == std::byte{0}; }));
    EXPECT_EQ(host.calls, "prefer bind 8192 locate ");
  }
  EXPECT_EQ(host.calls, "prefer bind 8192 locate release ");
}

TEST(placed_block, preferred_node_does_not_bind) {
  const scripted_host host;
  place(host, numa_binding::preferred).value();
  EXPECT_EQ(host.calls, "prefer release ");
}

// parity: ibverbs-rs-58
TEST(placed_block, strict_errors_name_node_call_errno_cause_and_remedy) {
  struct refusal {
    int scripted_host::* which;
    int code;
    std::vector<std::string> words;
  };
  const refusal refusals[] = {
      {&scripted_host::prefer_code, EPERM, {"(errno 1)", "prefer of ", "CAP_SYS_NICE"}},
      {&scripted_host::prefer_code, ENOSYS, {"(errno 38)", "CONFIG_NUMA"}},
      {&scripted_host::prefer_code, EINVAL, {"(errno 22)", "Mems_allowed_list"}},
      {&scripted_host::bind_code, EIO, {"(errno 5)", "bind of ", "could not be migrated"}},
      {&scripted_host::bind_code, EIO, {"12 MiB free on the node", "choose another node"}},
      {&scripted_host::bind_code, ENOMEM, {"(errno 12)", "has too little free memory"}},
      {&scripted_host::locate_code, EPERM, {"(errno 1)", "locate of ", "CAP_SYS_NICE"}},
  };
  for (const auto& [which, code, words] : refusals) {
    const log_catcher log;
    scripted_host host;
    host.*which = code;
    const auto refused = place(host, numa_binding::strict);
    expect_error(refused, "test on NUMA node 2 failed: ");
    for (const auto& each : words) expect_error(refused, each);
    EXPECT_EQ(refused.error().code(), code);
    EXPECT_EQ(log.text(), "");
    const bool touched = which != &scripted_host::prefer_code;
    EXPECT_EQ(host.calls.ends_with("release "), touched) << host.calls;
  }
}

TEST(placed_block, strict_pages_on_another_node_are_an_error) {
  const page_nodes elsewhere[] = {
      {.nodes = {0}}, {.nodes = {0, 2}}, {.nodes = {2}, .complete = false}, {}};
  for (const auto& each : elsewhere) {
    scripted_host host;
    host.located = each;
    const auto refused = place(host, numa_binding::strict);
    expect_error(refused, "could not be migrated");
    EXPECT_EQ(refused.error().code(), EIO);
  }
}

TEST(placed_block, refused_preferred_node_is_a_warning) {
  const log_catcher log;
  scripted_host host;
  host.prefer_code = EPERM;
  EXPECT_TRUE(place(host, numa_binding::preferred).has_value());
  EXPECT_EQ(host.calls, "prefer ");
  EXPECT_TRUE(log.contains("test on NUMA node 2 failed")) << log.text();
  EXPECT_TRUE(log.contains("CAP_SYS_NICE")) << log.text();
}

TEST(placed_block, size_and_node_are_checked_first) {
  const log_catcher log;
  const scripted_host host;
  const auto can = [&](std::size_t bytes, unsigned node, numa_binding how) {
    return can_place(host, bytes, {.call = "test", .node = node, .how = how});
  };
  EXPECT_TRUE(can(1U << 20U, 2, numa_binding::strict).value());
  expect_error(can((1U << 20U) + 1, 2, numa_binding::strict), "the node has 1 MiB, less than");
  EXPECT_TRUE(can((1U << 20U) + 1, 2, numa_binding::preferred).value());
  expect_error(can(1, 1, numa_binding::strict), "available nodes: 0, 2");
  EXPECT_EQ(log.text(), "");
  EXPECT_FALSE(can(1, 1, numa_binding::preferred).value());
  EXPECT_TRUE(log.contains("NUMA node 1 failed")) << log.text();
}

}  // namespace
}  // namespace verbena::detail
