// SPDX-License-Identifier: MIT
#include "verbena/memory/numa.hpp"

#include <utility>

#include "src/memory/numa_host.hpp"
#include "src/memory/placed_block.hpp"
#include "verbena/verbs/device.hpp"

namespace verbena::inline VERBENA_ABI {
namespace {

result<void> checked(const char* call, const std::string& object, detail::numa_outcome said) {
  if (said.code == 0) return {};
  return error::from_errno(said.code, call, object,
                           said.call + std::string(" failed: ") + detail::explain_numa(said.code));
}

}  // namespace

std::optional<unsigned> numa_placement::node(const context& near) const {
  if (what_ == kind::node) return node_;
  return what_ == kind::adapter ? numa_node_of(near) : std::nullopt;
}

result<memory_region> allocate_placed(const protection_domain& domain, std::size_t bytes,
                                      access_flags access, placed_options options) {
  if (bytes == 0)
    return error::invalid_argument("allocate_placed", domain.name(),
                                   "a memory region has at least one byte");
  return detail::allocate_region("allocate_placed", domain, {bytes, access}, options);
}

std::optional<unsigned> numa_node_of(const context& adapter) {
  return device::borrow(adapter.native()->device, adapter.provider(), nullptr).numa_node();
}

result<std::vector<unsigned>> numa_nodes() {
  VERBENA_TRY(const auto* host, detail::this_numa_host("numa_nodes", "this host"));
  std::vector<unsigned> all;
  for (const auto& each : host->nodes()) all.push_back(each.number);
  return all;
}

result<std::vector<unsigned>> numa_nodes_of(std::span<const std::byte> memory) {
  detail::page_nodes found;
  VERBENA_TRY_VOID(checked("numa_nodes_of", "this process", detail::locate_pages(memory, found)));
  return std::move(found.nodes);
}

result<void> bind_thread_to_numa_node(unsigned node, numa_binding how) {
  constexpr const char* call = "bind_thread_to_numa_node";
  const auto object = detail::node_text(node);
  VERBENA_TRY(const auto* host, detail::this_numa_host(call, object));
  VERBENA_TRY(const auto found, detail::find_node(*host, call, node));
  if (!found.has_processors)
    return error::invalid_argument(call, object,
                                   "it has no processors that this process may run on");
  return checked(call, object, host->bind_thread(node, how));
}

result<std::optional<unsigned>> bind_thread_near(const context& adapter, numa_binding how) {
  const auto node = numa_node_of(adapter);
  if (node) VERBENA_TRY_VOID(bind_thread_to_numa_node(*node, how));
  return node;
}

result<void> unbind_thread_from_numa_node() {
  constexpr const char* call = "unbind_thread_from_numa_node";
  VERBENA_TRY(const auto* host, detail::this_numa_host(call, "this thread"));
  return checked(call, "this thread", host->unbind_thread());
}

}  // namespace verbena::inline VERBENA_ABI
