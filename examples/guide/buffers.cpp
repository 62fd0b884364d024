// SPDX-License-Identifier: MIT
// Buffer pools, NUMA placement, typed views of a peer's memory, exported memory, registered arenas.
#include <sys/mman.h>

#include <verbena/verbena.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <span>
#include <utility>

#include "examples/guide/snippets.hpp"

namespace guide {
namespace {

// [layout]
struct slot {
  std::uint64_t version;
  std::uint64_t value;
};
struct table {
  std::uint32_t used;
  slot slots[64];
};
// [/layout]

void use(const table& copy) { require(copy.slots[7].version == 0); }

void pools(const verbena::protection_domain& pd) {
  // [pool]
  const auto pool =
      verbena::buffer_pool::create(
          pd, {.classes = {{.bytes = 256, .count = 512}, {.bytes = 65536, .count = 16}}})
          .value();
  auto buffer = pool.take(100);  // 256 bytes, or 65536 if none of 256 is left
  if (!buffer) return;           // the pool is empty
  std::ranges::fill(buffer->bytes(), std::byte{7});
  const verbena::local_slice message = buffer->slice(0, 100);
  // [/pool]
  require(message.length() == 100);

  // [whole]
  auto region = pd.allocate(1 << 20, verbena::access::local_write).value();
  const auto large = verbena::buffer::of(std::move(region));
  // [/whole]
  require(large.capacity() == 1 << 20);

  // [adopt]
  constexpr std::size_t size = 1 << 20;
  void* const address =
      ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (address == MAP_FAILED) return;
  const std::span mapped(static_cast<std::byte*>(address), size);
  const std::shared_ptr<void> owner(address, [](void* memory) { ::munmap(memory, size); });
  auto registered = pd.register_memory(mapped, verbena::access::local_write).value();
  const auto adopted = verbena::buffer::adopt(std::move(registered), mapped, owner);
  // [/adopt]
  require(adopted.bytes().data() == address);
}

void places(const verbena::context& context, const verbena::protection_domain& pd) {
  // [near]
  const auto pool =
      verbena::buffer_pool::create(
          pd,
          {.classes = {{.bytes = 65536, .count = 16}},
           .huge_pages = verbena::huge_pages::preferred,
           .placement = verbena::numa_placement::near_adapter(verbena::numa_binding::preferred)})
          .value();
  const auto node = verbena::bind_thread_near(context, verbena::numa_binding::preferred).value();
  if (!node) std::puts("the adapter is not attached to a NUMA node");
  // [/near]
  require(pool.count() == 16);

  // [strict]
  const auto strict = verbena::allocate_placed(
      pd, 1 << 20, verbena::access::local_write,
      {.placement = verbena::numa_placement::on_node(0, verbena::numa_binding::strict)});
  if (!strict) std::puts(strict.error().message().c_str());  // node missing, full or forbidden
  // [/strict]
}

void views_and_exported_memory(const verbena::protection_domain& pd) {
  // [exported]
  auto exported = verbena::exported_memory<table>::create(pd).value();
  const auto grant =
      exported.grant(verbena::access::remote_read | verbena::access::remote_write).value();
  const auto bytes_for_the_peer = grant.encode();
  // [/exported]

  // [view]
  const auto theirs = verbena::remote_region::decode(bytes_for_the_peer).value();
  const auto view = verbena::remote_view<table>::of(theirs).value();      // nullopt if too short
  const auto seventh = view.field(&table::slots).field(7, &slot::value);  // nullopt without slot 7
  const verbena::remote_region target = seventh.value().region();
  // [/view]
  require(target.length() == sizeof(std::uint64_t));

  // [exported_use]
  exported.store(&table::used, 1);
  if (exported.load(&table::used) != 0) {    // ordered: earlier writes are visible
    const table copy = exported.copy_out();  // a copy, not a reference
    use(copy);
  }
  exported.revoke().value();  // later accesses of the peer fail
  // [/exported_use]
}

void arena(const verbena::protection_domain& pd) {
  // [arena]
  const verbena::registered_arena arena(pd, {.max_entries = 1000, .max_bytes = 1 << 30});
  const auto memory = arena.allocate(64 << 20).value();
  const auto part = arena.registered(memory, 4096, 100'000, verbena::access::local_write).value();
  const verbena::local_slice sink = part.slice();
  // [/arena]
  require(sink.length() == 100'000 && arena.statistics().misses == 1);
}

}  // namespace

void buffers() {
  const auto context = verbena::open_device().value();
  const auto pd = context.allocate_pd().value();
  pools(pd);
  places(context, pd);
  views_and_exported_memory(pd);
  arena(pd);
}

}  // namespace guide
