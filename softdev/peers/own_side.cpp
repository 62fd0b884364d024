// SPDX-License-Identifier: MIT
#include "softdev/peers/own_side.hpp"

#include <array>
#include <bit>
#include <utility>

#include "verbena/base/random.hpp"

namespace verbena::softdev {

own_side::own_side(const link_options& how, slot_claim slot)
    : options(how),
      claim(std::move(slot)),
      generation(random_u64()),
      probe_words{random_u64(), 0} {}

result<std::unique_ptr<own_side>> own_side::open(const link_options& options) {
  const bool sound = std::has_single_bit(options.ring_bytes) &&
                     options.ring_bytes >= min_ring_bytes && options.ring_bytes <= max_ring_bytes;
  if (!sound) {
    return error::invalid_argument("link::open", "soft0",
                                   "the ring's size is a power of two from 16 KiB to 16 MiB");
  }
  VERBENA_TRY(slot_claim claim, slot_claim::take());
  std::unique_ptr<own_side> made(new own_side(options, std::move(claim)));
  VERBENA_TRY(made->segment, public_segment::create(made->slot(), made->generation));
  VERBENA_TRY(made->doorbell,
              create_sealed("verbena-doorbell", segment_page, sealed_for::everybody));
  VERBENA_TRY(made->wakes, wake_receiver::create());
  return made;
}

std::shared_ptr<peer> own_side::make_peer(std::uint32_t other) const {
  return std::make_shared<peer>(other, slot(), options.route, *marks);
}

void own_side::ignore_wakes(const peer& of) noexcept { channels.dismiss(&of); }

send_status own_side::send_hello(const peer_parts& to) {
  // Addresses in this process, on which the peer tries its routes.
  const auto source = reinterpret_cast<std::uintptr_t>(&probe_words[0]);
  const auto sink = reinterpret_cast<std::uintptr_t>(&probe_words[1]);
  link_message hello{.kind = message_kind::hello, .probe = {source, probe_words[0], sink}};
  hello.version = layout_version;
  hello.slot = slot();
  hello.generation = generation;
  hello.ring_bytes = options.ring_bytes;
  std::array<int, max_descriptors> descriptors{};
  descriptors[hello_public] = segment->fd();
  descriptors[hello_pair] = to.memory.descriptor();
  descriptors[hello_doorbell] = doorbell.fd.get();
  return send_message(to.messages.fd(), hello, descriptors);
}

void own_side::close_all() noexcept {
  claim.close();
  wakes->close_all();
  doorbell.fd.reset();
  segment->close();
  arenas.close_all();
  channels.close_all();
}

}  // namespace verbena::softdev
