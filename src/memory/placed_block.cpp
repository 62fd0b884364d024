// SPDX-License-Identifier: MIT
// Strictly bound memory is populated before it is bound. If a page is allocated under a strict
// policy and the node is full, the kernel starts its OOM killer, or sends SIGBUS for a huge page.
// Therefore pages are first allocated with a preference; then the kernel moves the others to the
// node, and reports a failure as an error.
#include "src/memory/placed_block.hpp"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <string>
#include <utility>
#include <vector>

#include "src/verbs/memory_region_creation.hpp"
#include "src/verbs/text.hpp"
#include "verbena/base/log.hpp"

namespace verbena::inline VERBENA_ABI::detail {
namespace {

constexpr int populate_write = 23;  // MADV_POPULATE_WRITE, missing in older C libraries

std::span<std::byte> whole(const memory_block& block) {
  return {block.data(), block.mapped_bytes()};
}

// Writes the first byte of each page.
void write_each_page(std::span<std::byte> memory, std::byte value) {
  const auto page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  for (std::size_t at = 0; at < memory.size(); at += page) memory[at] = value;
}

// Populates all pages. Returns 0 or an errno.
int populate(std::span<std::byte> memory) {
  if (::madvise(memory.data(), memory.size(), populate_write) == 0) return 0;
  if (errno == EFAULT) return ENOMEM;  // huge pages: an access would raise SIGBUS
  return errno == EINVAL ? 0 : errno;  // before Linux 5.14: pages are populated when written
}

// Explains why memory is not on the node.
error refused(const numa_host& host, const block_place& where, numa_outcome said,
              std::size_t bytes) {
  std::string why = said.call + std::string(" of ") + byte_text(bytes) + " failed";
  if (const auto words = explain_numa(said.code); !words.empty()) why += ": " + words;
  if (said.code == ENOMEM || said.code == EIO) {
    if (const auto free = host.free_bytes(where.node); free)
      why += " (" + std::to_string(*free >> 20U) + " MiB free on the node)";
    why += "; free some memory, choose another node, or use numa_binding::preferred";
  }
  return error::from_errno(said.code, where.call, node_text(where.node), why);
}

void settle_for_anywhere(const error& why) {
  log(log_level::warning, why.message() + "; the kernel chooses the node instead");
}

result<void> bind_marked(const numa_host& host, std::span<std::byte> memory,
                         const block_place& where) {
  if (const auto said = host.bind(memory, where.node); said.code != 0)
    return refused(host, where, said, memory.size());
  // The kernel silently skips pages that other processes map as well.
  page_nodes pages;
  auto said = host.locate(memory, pages);
  const bool there = pages.complete && pages.nodes == std::vector{where.node};
  if (said.code == 0 && !there) said.code = EIO;
  if (said.code != 0) return refused(host, where, said, memory.size());
  return {};
}

result<void> bind_strictly(const numa_host& host, std::span<std::byte> memory,
                           const block_place& where) {
  if (const int code = populate(memory); code != 0)
    return refused(host, where, {.code = code, .call = "madvise"}, memory.size());
  // A page of zeros may become the zero page, which has no node, when the kernel splits and moves a
  // transparent huge page.
  write_each_page(memory, std::byte{1});
  auto bound = bind_marked(host, memory, where);
  write_each_page(memory, std::byte{0});
  return bound;
}

}  // namespace

result<bool> can_place(const numa_host& host, std::size_t bytes, const block_place& where) {
  const auto node = find_node(host, where.call, where.node);
  if (where.how == numa_binding::preferred) {
    if (!node) settle_for_anywhere(node.error());
    return node.has_value();
  }
  if (!node) return node.error();
  if (bytes <= node->bytes) return true;
  return error::from_errno(ENOMEM, where.call, node_text(where.node),
                           "the node has " + byte_text(node->bytes) + ", less than the " +
                               byte_text(bytes) + " to bind strictly");
}

result<std::shared_ptr<const memory_block>> place_block(const numa_host& host,
                                                        std::shared_ptr<const memory_block> block,
                                                        const block_place& where) {
  const auto memory = whole(*block);
  const bool strict = where.how == numa_binding::strict;
  if (const auto said = host.prefer(memory, where.node); said.code != 0) {
    auto why = refused(host, where, said, memory.size());
    if (strict) return why;
    settle_for_anywhere(why);
    return block;
  }
  const auto* const placed = block.get();
  std::shared_ptr<const memory_block> owner(
      placed, [&host, kept = std::move(block)](const memory_block*) {
        static_cast<void>(
            host.release(whole(*kept)));  // the next user of the memory must have no policy
      });
  if (strict) VERBENA_TRY_VOID(bind_strictly(host, memory, where));
  return owner;
}

result<memory_region> allocate_region(const char* call, const protection_domain& domain,
                                      region_wanted wanted, const placed_options& options) {
  const auto node = options.placement.node(domain.context());
  const allocate_options pages{.huge_pages = options.huge_pages};
  if (!node) return domain.allocate(wanted.bytes, wanted.access, pages);
  VERBENA_TRY(const auto* host, this_numa_host(call, node_text(*node)));
  const block_place where{.call = call, .node = *node, .how = options.placement.binding()};
  VERBENA_TRY(const bool there, can_place(*host, wanted.bytes, where));
  if (!there) return domain.allocate(wanted.bytes, wanted.access, pages);
  VERBENA_TRY(auto block, memory_block::allocate(domain.provider(), wanted.bytes, pages));
  VERBENA_TRY(auto placed, place_block(*host, std::move(block), where));
  const std::span memory(placed->data(), wanted.bytes);
  return register_part(domain, memory, wanted.access, std::move(placed));
}

}  // namespace verbena::inline VERBENA_ABI::detail
