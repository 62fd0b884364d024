// SPDX-License-Identifier: MIT
#include "src/cm/go_ahead.hpp"

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstring>

#include "verbena/verbs/protection_domain.hpp"
#include "verbena/verbs/remote_region.hpp"

namespace verbena::inline VERBENA_ABI::cm::detail {
namespace {

using namespace std::chrono_literals;

using go_ahead_word = std::uint64_t;
constexpr go_ahead_word go_ahead = 0x766572'62656e61;  // "verbena"
// Should it fail, it is nobody's request: a channel takes small ids for its own.
constexpr std::uint64_t go_ahead_id = ~std::uint64_t{0};
// While it waits, the connection manager may have something to say, too.
constexpr auto look_interval = 1ms;

result<memory_region> allocate_word(const identifier& id, const queue_pair<rc>& queue,
                                    access_flags rights) {
  VERBENA_TRY(const auto device, id.context());
  const auto pd = protection_domain::adopt(queue.native()->pd, device, ownership::borrow);
  return pd.allocate(sizeof(go_ahead_word), rights);
}

// What comes while it waits; an error when that is the end.
result<void> listen(const event_channel& channel, const identifier& id, deadline until,
                    const char* call, const char* on_end) {
  VERBENA_TRY(const auto taken, channel.wait_event(until));
  if (taken && (taken->kind() == event_kind::disconnected || is_failure(taken->kind())))
    return error::from_errno(ECONNRESET, call, id.name(), on_end);
  return {};
}

}  // namespace

result<awaited_go_ahead> awaited_go_ahead::create(const identifier& id,
                                                  const queue_pair<rc>& queue) {
  VERBENA_TRY(auto word, allocate_word(id, queue, access::local_write | access::remote_write));
  return awaited_go_ahead(std::move(word));
}

std::vector<std::byte> awaited_go_ahead::announce(std::span<const std::byte> said) const {
  const auto place = word_.remote().encode();
  std::vector<std::byte> whole(place.size() + said.size());
  std::ranges::copy(place, whole.begin());
  std::ranges::copy(said, whole.begin() + place.size());
  return whole;
}

bool awaited_go_ahead::is_there() const {
  auto* const word = reinterpret_cast<go_ahead_word*>(word_.bytes().data());
  return std::atomic_ref(*word).load(std::memory_order_acquire) == go_ahead;
}

result<void> awaited_go_ahead::wait(const event_channel& channel, const identifier& id,
                                    deadline until) const {
  while (!is_there()) {
    if (until.expired())
      return error::timed_out("rdma_accept", id.name(),
                              "the peer did not let this side send first: both have to say "
                              "first_sender::answering");
    const auto look = deadline::after(look_interval);
    VERBENA_TRY_VOID(
        listen(channel, id, until.is_never() || look.when() < until.when() ? look : until,
               "rdma_accept", "the peer closed the connection before it let this side send"));
  }
  return {};
}

result<memory_region> give_go_ahead(const event_channel& channel, const identifier& id,
                                    queue_pair<rc>& queue, std::vector<std::byte>& said) {
  const auto refuse = [&] {
    return error::protocol("rdma_connect", id.name(),
                           "the peer's answer does not say how to let it send first: both sides "
                           "have to say first_sender::answering");
  };
  constexpr std::size_t size = remote_region::encoded_size;
  if (said.size() < size) return refuse();
  const auto place = remote_region::decode(std::span(said).first(size));
  if (!place || place->length() != sizeof(go_ahead_word)) return refuse();
  said.erase(said.begin(), said.begin() + static_cast<std::ptrdiff_t>(size));

  VERBENA_TRY(auto word, allocate_word(id, queue, access::local_write));
  std::memcpy(word.bytes().data(), &go_ahead, sizeof go_ahead);
  for (const auto pause : {0ms, 10ms, 40ms}) {
    VERBENA_TRY_VOID(listen(channel, id, deadline::after(pause), "rdma_connect",
                            "the peer closed the connection after it had accepted"));
    auto batch = queue.start_send<1>();
    batch.write({.id = go_ahead_id}, word.slice(), *place);
    const auto posted = batch.submit();
    if (!posted && pause == 0ms) return posted.error();
  }
  return word;
}

}  // namespace verbena::inline VERBENA_ABI::cm::detail
