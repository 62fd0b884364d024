// SPDX-License-Identifier: MIT
// Pools of buffers, typed views of a peer's memory, windows and the registration cache.
#include <verbena/verbena.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
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
  auto buffer = pool.take(100);  // 256 bytes, or 65536 if those are all taken
  if (!buffer) return;           // and these are, too
  std::ranges::fill(buffer->bytes(), std::byte{7});
  const verbena::local_slice message = buffer->slice(0, 100);
  // [/pool]
  require(message.length() == 100);

  // [whole]
  auto region = pd.allocate(1 << 20, verbena::access::local_write).value();
  const auto large = verbena::buffer::of(std::move(region));
  // [/whole]
  require(large.capacity() == 1 << 20);
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
  if (!node) std::puts("the adapter is attached to no NUMA node");
  // [/near]
  require(pool.count() == 16);

  // [strict]
  const auto strict = verbena::allocate_placed(
      pd, 1 << 20, verbena::access::local_write,
      {.placement = verbena::numa_placement::on_node(0, verbena::numa_binding::strict)});
  if (!strict) std::puts(strict.error().message().c_str());  // no such node, full, not allowed …
  // [/strict]
}

void views_and_windows(const verbena::protection_domain& pd) {
  // [window]
  auto window = verbena::remote_window<table>::create(pd).value();
  const auto grant =
      window.grant(verbena::access::remote_read | verbena::access::remote_write).value();
  const auto bytes_for_the_peer = grant.encode();
  // [/window]

  // [view]
  const auto theirs = verbena::remote_region::decode(bytes_for_the_peer).value();
  const auto view = verbena::remote_view<table>::of(theirs).value();  // nothing if it is too short
  const auto seventh = view.field(&table::slots).field(7, &slot::value);
  const verbena::remote_region target = seventh.value().region();  // nothing without a slot 7
  // [/view]
  require(target.length() == sizeof(std::uint64_t));

  // [look]
  window.store(&table::used, 1);
  if (window.load(&table::used) != 0) {    // ordered: what was written before is there
    const table copy = window.copy_out();  // never a reference
    use(copy);
  }
  window.revoke().value();  // from here on, accesses of the peer fail
  // [/look]
}

void cache(const verbena::protection_domain& pd) {
  // [cache]
  const verbena::registration_cache cache(pd, {.max_entries = 1000, .max_bytes = 1 << 30});
  const auto memory = cache.allocate(64 << 20).value();
  const auto part = cache.registered(memory, 4096, 100'000, verbena::access::local_write).value();
  const verbena::local_slice sink = part.slice();
  // [/cache]
  require(sink.length() == 100'000 && cache.statistics().misses == 1);
}

}  // namespace

void buffers() {
  const auto context = verbena::open_device().value();
  const auto pd = context.allocate_pd().value();
  pools(pd);
  places(context, pd);
  views_and_windows(pd);
  cache(pd);
}

}  // namespace guide
