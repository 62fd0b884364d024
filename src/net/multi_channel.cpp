// SPDX-License-Identifier: MIT
// Operations of several channels at once.
#include "verbena/net/multi_channel.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <limits>
#include <optional>
#include <span>

#include "src/net/channel_access.hpp"
#include "src/net/rank_list.hpp"
#include "src/net/unconnected_channels.hpp"

namespace verbena::inline VERBENA_ABI::net {
namespace {

using verbena::detail::operation_description;
using verbena::detail::operation_kind;
using verbena::detail::operation_waiter;

// Operations that are in flight at the same time.
constexpr std::size_t batch = 64;

std::uint32_t rank_of(const peer_send& of) { return of.rank; }
std::uint32_t rank_of(const peer_receive& of) { return of.rank; }
std::uint32_t rank_of(const peer_write& of) { return of.to.rank; }
std::uint32_t rank_of(const peer_read& of) { return of.from.rank; }

operation_description describe(const peer_send& of) {
  return {.kind = operation_kind::send, .out = of.data, .options = of.options};
}
operation_description describe(const peer_receive& of) {
  return {.kind = operation_kind::receive, .in = std::span(&of.into, 1)};
}
operation_description describe(const peer_write& of) {
  return {
      .kind = operation_kind::write, .out = of.data, .remote = of.to.region, .options = of.options};
}
operation_description describe(const peer_read& of) {
  return {.kind = operation_kind::read, .in = std::span(&of.into, 1), .remote = of.from.region};
}

error bad_rank(const char* call, std::uint32_t rank, std::uint32_t size) {
  return error::invalid_argument(
      call, {}, fmt::format("rank {} is not less than the number of channels, {}", rank, size));
}

// Posts operations of one call, at most `batch` at once, and collects their failures.
class several {
 public:
  several(multi_channel& channels, abort_at limit, std::source_location posted) noexcept
      : channels_(channels), limit_(limit), posted_(posted) {}
  several(const several&) = delete;
  several& operator=(const several&) = delete;
  // An exception, for example of an allocation in fail(), leaves operations in flight.
  ~several() {
    for (const entry& each : std::span(entries_).first(count_)) await(each);
  }

  // Posts an operation; its result is stored in `out` by wait().
  void post(std::uint32_t rank, const operation_description& what, operation_result& out) {
    if (count_ == batch) wait();
    if (!try_post(rank, what, out)) {
      wait();
      static_cast<void>(try_post(rank, what, out));
    }
    ++count_;
  }
  // Waits until all operations have completed.
  void wait() {
    for (std::size_t i = 0; i < count_; ++i) {
      entry& each = entries_[i];
      await(each);
      *each.out = each.waiter.result;
      if (!*each.out) fail(each.rank, *each.out);
    }
    count_ = 0;
  }
  // Returns the failures. `failed` enumerates the ranks of the parts that failed.
  [[nodiscard]] result<void> finish() {
    wait();
    if (!first_) return {};
    return detail::channel_access::reason(channels_[failed_.front()], *first_)
        .with_diagnosis("operations failed with " +
                        detail::to_text(detail::each_once(std::move(failed_))));
  }

 private:
  struct entry {
    operation_waiter waiter;
    operation_result* out = nullptr;
    std::uint32_t rank = 0;
  };

  // Returns false if the queue is full and other operations of this call are in flight.
  bool try_post(std::uint32_t rank, const operation_description& what, operation_result& out) {
    entry& next = entries_[count_];
    next.waiter.ended = false;
    next.out = &out;
    next.rank = rank;
    const auto* const slot = detail::channel_access::core_of(channels_[rank])
                                 .post(what, {.waiter = &next.waiter, .posted = posted_});
    return slot != nullptr || count_ == 0 || next.waiter.result.refusal() != refusal::queue_full;
  }
  void await(const entry& each) {
    if (!each.waiter.ended)
      detail::channel_access::core_of(channels_[each.rank]).await(each.waiter, limit_.when());
  }
  void fail(std::uint32_t rank, const operation_result& why) {
    if (!first_) first_ = why;
    failed_.push_back(rank);
  }

  multi_channel& channels_;
  abort_at limit_;
  std::source_location posted_;
  std::array<entry, batch> entries_;
  std::size_t count_ = 0;
  std::optional<operation_result> first_;
  std::vector<std::uint32_t> failed_;  // allocates if an operation fails
};

template <class Part>
result<void> run(const char* call, multi_channel& channels, std::span<Part> parts, abort_at limit,
                 std::source_location posted) {
  for (const Part& each : parts)
    if (rank_of(each) >= channels.size()) return bad_rank(call, rank_of(each), channels.size());
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
  for (const std::uint32_t each : ranks)
    if (each >= size()) return bad_rank("multicast", each, size());
  several all(*this, limit, posted);
  const operation_description what{.kind = operation_kind::send, .out = data, .options = options};
  operation_result unused;
  for (const std::uint32_t each : ranks) all.post(each, what, unused);
  return all.finish();
}

void multi_channel::open_scopes(multi_scope& opened, std::uint32_t rank, abort_at limit,
                                function_ref<void()> body, std::vector<peer_failure>& failures) {
  if (rank == size()) return body();
  const auto outcome = channels_[rank].scope(limit, [&](operation_scope& inner) {
    opened.scopes_[rank] = &inner;
    open_scopes(opened, rank + 1, limit, body, failures);
  });
  for (const operation_result& each : outcome.drained())
    failures.push_back({.rank = rank, .result = each});
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
