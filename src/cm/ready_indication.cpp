// SPDX-License-Identifier: MIT
#include "src/cm/ready_indication.hpp"

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstring>

#include "src/cm/bring_up.hpp"
#include "verbena/verbs/protection_domain.hpp"
#include "verbena/verbs/remote_region.hpp"

namespace verbena::inline VERBENA_ABI::cm::detail {
namespace {

using namespace std::chrono_literals;

using ready_word = std::uint64_t;
constexpr ready_word go_ahead = 0x766572'62656e61;  // "verbena"
// An id that no channel or session uses.
constexpr std::uint64_t ready_id = ~std::uint64_t{0};
// The interval at which events of the connection manager are processed.
constexpr auto look_interval = 1ms;

// The region shares the ownership of the queue pair's protection domain, because the connection may
// outlive both handles.
result<memory_region> allocate_word(const queue_pair<rc>& queue, access_flags access) {
  using verbena::detail::internals;
  const auto pd = internals::make<protection_domain>(internals::state_of(queue)->parents().pd);
  return pd.allocate(sizeof(ready_word), access);
}

// Processes events; returns an error if the connection ended.
steps<void> listen(event_channel channel, identifier id, deadline until, const char* call,
                   const char* on_end) {
  VERBENA_CO_TRY(const auto taken, co_await next_event(channel, until));
  if (taken && (taken->kind() == event_kind::disconnected || is_failure(taken->kind())))
    co_return error::from_errno(ECONNRESET, call, id.name(), on_end);
  co_return {};
}

error no_address(const identifier& id) {
  return error::protocol("rdma_connect", id.name(),
                         "the peer's reply has no address for the ready indication; both sides "
                         "must set first_sender::passive");
}

}  // namespace

result<pending_ready_indication> pending_ready_indication::create(const queue_pair<rc>& queue) {
  VERBENA_TRY(auto word, allocate_word(queue, access::local_write | access::remote_write));
  return pending_ready_indication(std::move(word));
}

std::vector<std::byte> pending_ready_indication::announce(std::span<const std::byte> said) const {
  const auto place = word_.remote().encode();
  std::vector<std::byte> whole(place.size() + said.size());
  std::ranges::copy(place, whole.begin());
  std::ranges::copy(said, whole.begin() + place.size());
  return whole;
}

bool pending_ready_indication::is_there() const {
  auto* const word = reinterpret_cast<ready_word*>(word_.bytes().data());
  return std::atomic_ref(*word).load(std::memory_order_acquire) == go_ahead;
}

steps<void> pending_ready_indication::wait(event_channel channel, identifier id,
                                           deadline until) const {
  while (!is_there()) {
    if (until.expired())
      co_return error::timed_out(
          "rdma_accept", id.name(),
          "the peer did not permit this side to send first; both sides must set "
          "first_sender::passive");
    const auto look = deadline::after(look_interval);
    VERBENA_CO_TRY_VOID(co_await listen(
        channel, id, until.is_never() || look.when() < until.when() ? look : until, "rdma_accept",
        "the peer closed the connection before it permitted this side to send"));
  }
  co_return {};
}

steps<memory_region> send_ready_indication(event_channel channel, identifier id,
                                           queue_pair<rc>& queue, std::vector<std::byte>& said) {
  constexpr std::size_t size = remote_region::encoded_size;
  if (said.size() < size) co_return no_address(id);
  const auto place = remote_region::decode(std::span(said).first(size));
  if (!place || place->length() != sizeof(ready_word)) co_return no_address(id);
  said.erase(said.begin(), said.begin() + static_cast<std::ptrdiff_t>(size));

  VERBENA_CO_TRY(auto word, allocate_word(queue, access::local_write));
  std::memcpy(word.bytes().data(), &go_ahead, sizeof go_ahead);
  for (const auto pause : {0ms, 10ms, 40ms}) {
    VERBENA_CO_TRY_VOID(co_await listen(channel, id, deadline::after(pause), "rdma_connect",
                                        "the peer closed the connection after it had accepted it"));
    auto batch = queue.start_send<1>();
    batch.write({.id = ready_id}, word.slice(), *place);
    const auto posted = batch.submit();
    if (!posted && pause == 0ms) co_return posted.error();
  }
  co_return std::move(word);
}

}  // namespace verbena::inline VERBENA_ABI::cm::detail
