// SPDX-License-Identifier: MIT
// Operations on several channels.
#include "verbena/net/multi_channel.hpp"

#include <fmt/format.h>

#include <cerrno>
#include <limits>
#include <span>

#include "src/net/channel_access.hpp"
#include "src/net/operation_batch.hpp"
#include "src/net/unconnected_channels.hpp"

namespace verbena::inline VERBENA_ABI::net {
namespace {

using detail::describe;
using detail::operation_batch;
using detail::rank_of;

/// Posts the operations of one call in batches and waits for them.
class several {
 public:
  several(multi_channel& channels, abort_at limit, std::source_location posted) noexcept
      : batch_(channels, posted), limit_(limit), is_late_(limit.has_passed()) {}
  several(const several&) = delete;
  several& operator=(const several&) = delete;
  // After an exception, for example std::bad_alloc in collect(), operations may be in flight.
  ~several() { await_all(); }

  // Posts an operation. wait() stores its result in `out`.
  void post(std::uint32_t rank, const verbena::detail::operation_description& what,
            operation_result& out) {
    if (batch_.is_full()) wait();
    if (try_post(rank, what, out)) return;
    // The queue may be full of operations of this call.
    if (!batch_.empty()) {
      wait();
      if (try_post(rank, what, out)) return;
    }
    batch_.refuse();
  }
  [[nodiscard]] result<void> finish() {
    wait();
    return batch_.outcome();
  }

 private:
  // Refuses the operation if the limit has passed. Otherwise, await() would end the connection
  // immediately.
  [[nodiscard]] bool try_post(std::uint32_t rank,
                              const verbena::detail::operation_description& what,
                              operation_result& out) {
    if (is_late_) {
      batch_.refuse(rank, out, refusal::limit_passed, ETIMEDOUT);
      return true;
    }
    const bool has_room = batch_.try_post(rank, what, out, limit_.when());
    // A post that connects its channel may block until the limit.
    if (has_room && batch_.has_last_failed_to_connect()) is_late_ = limit_.when().expired();
    return has_room;
  }
  void await_all() {
    batch_.for_each_in_flight([this](verbena::detail::channel_core& on, const auto& waiter) {
      on.await(waiter, limit_.when());
    });
  }
  void wait() {
    await_all();
    batch_.collect();
    is_late_ = limit_.when().expired();
  }

  operation_batch batch_;
  abort_at limit_;
  bool is_late_;  // the limit has passed
};

template <class Part>
result<void> run(const char* call, multi_channel& channels, std::span<Part> parts, abort_at limit,
                 std::source_location posted) {
  VERBENA_TRY_VOID(detail::check_ranks(call, channels, parts));
  several all(channels, limit, posted);
  for (Part& each : parts) all.post(rank_of(each), describe(each), each.result);
  return all.finish();
}

}  // namespace

result<void> multi_channel::scatter(std::span<peer_send> parts, abort_at limit,
                                    std::source_location posted) {
  return run("scatter", *this, parts, limit, posted);
}

result<void> multi_channel::scatter(std::span<peer_write> parts, abort_at limit,
                                    std::source_location posted) {
  return run("scatter", *this, parts, limit, posted);
}

result<void> multi_channel::gather(std::span<peer_receive> parts, abort_at limit,
                                   std::source_location posted) {
  return run("gather", *this, parts, limit, posted);
}

result<void> multi_channel::gather(std::span<peer_read> parts, abort_at limit,
                                   std::source_location posted) {
  return run("gather", *this, parts, limit, posted);
}

result<void> multi_channel::multicast(std::span<const std::uint32_t> ranks, const source& data,
                                      abort_at limit, const operation_options& options,
                                      std::source_location posted) {
  VERBENA_TRY_VOID(detail::check_ranks("multicast", *this, ranks));
  several all(*this, limit, posted);
  const verbena::detail::operation_description what{
      .kind = verbena::detail::operation_kind::send, .out = data, .options = options};
  operation_result unused;
  for (const std::uint32_t each : ranks) all.post(each, what, unused);
  return all.finish();
}

void multi_channel::open_scopes(multi_scope& opened, std::uint32_t rank, abort_at limit,
                                function_ref<void()> body, detail::unseen_peer_failures& failures) {
  if (rank == size()) return body();
  const auto outcome = channels_[rank].scope(limit, [&](operation_scope& inner) {
    opened.scopes_[rank] = &inner;
    open_scopes(opened, rank + 1, limit, body, failures);
  });
  for (const operation_result& each : outcome.drained())
    failures.recorded.push_back({.rank = rank, .result = each});
  failures.unrecorded += outcome.unrecorded();
}

namespace {

result<completion_hub> create_hub(const protection_domain& domain, std::uint32_t count,
                                  const channel_options& options,
                                  const completion_hub_options& hub) {
  const auto operations = std::uint64_t{count} *
                          (std::uint64_t{options.queues.max_send_wr} + options.queues.max_recv_wr);
  if (operations > std::numeric_limits<std::int32_t>::max())
    return error::invalid_argument(
        "create_multi_channel", domain.name(),
        fmt::format("{} channels can have {} operations in flight, more than a completion queue "
                    "has entries; reduce max_send_wr and max_recv_wr",
                    count, operations));
  return completion_hub::create(domain.context(), static_cast<std::uint32_t>(operations), hub);
}

}  // namespace

result<multi_channel> detail::create_unconnected(const protection_domain& domain,
                                                 std::uint32_t count,
                                                 const channel_options& options,
                                                 const completion_hub_options& hub) {
  VERBENA_TRY(auto shared, create_hub(domain, count, options, hub));
  std::vector<channel> channels;
  channels.reserve(count);
  for (std::uint32_t each = 0; each < count; ++each) {
    VERBENA_TRY(auto made, channel_access::create_unconnected(domain, shared, options));
    channels.push_back(std::move(made));
  }
  return multi_channel(std::move(shared), std::move(channels));
}

result<prepared_multi_channel> prepared_multi_channel::create(const protection_domain& domain,
                                                              std::uint32_t count,
                                                              const channel_options& options,
                                                              const completion_hub_options& hub) {
  VERBENA_TRY(auto shared, create_hub(domain, count, options, hub));
  std::vector<prepared_channel> prepared;
  prepared.reserve(count);
  for (std::uint32_t each = 0; each < count; ++each) {
    VERBENA_TRY(auto made, domain.create_channel(shared, options));
    prepared.push_back(std::move(made));
  }
  return prepared_multi_channel(std::move(shared), std::move(prepared));
}

verbena::endpoint prepared_multi_channel::endpoint(std::uint32_t rank) const {
  VERBENA_ASSERT(rank < prepared_.size(), "a rank is not less than the number of channels");
  return prepared_[rank].endpoint();
}

result<multi_channel> prepared_multi_channel::handshake(
    std::span<const verbena::endpoint> peers) && {
  prepared_multi_channel self = std::move(*this);
  if (peers.size() != self.prepared_.size())
    return error::invalid_argument(
        "handshake", {},
        fmt::format("{} endpoints for {} channels", peers.size(), self.prepared_.size()));
  std::vector<channel> connected;
  connected.reserve(peers.size());
  for (std::size_t each = 0; each < peers.size(); ++each) {
    auto made = std::move(self.prepared_[each]).handshake(peers[each]);
    if (!made)
      return std::move(made).error().with_diagnosis(fmt::format("the peer is rank {}", each));
    connected.push_back(*std::move(made));
  }
  return multi_channel(std::move(self.hub_), std::move(connected));
}

}  // namespace verbena::inline VERBENA_ABI::net
