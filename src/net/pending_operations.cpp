// SPDX-License-Identifier: MIT
#include "verbena/net/pending_operations.hpp"

#include <optional>

#include "src/memory/buffer_sharing.hpp"
#include "src/net/rank_list.hpp"
#include "verbena/net/multi_channel.hpp"

namespace verbena::inline VERBENA_ABI::net {
namespace {

std::uint32_t rank_of(const owned_send& of) { return of.rank; }
std::uint32_t rank_of(const owned_receive& of) { return of.rank; }
std::uint32_t rank_of(const owned_write& of) { return of.to.rank; }
std::uint32_t rank_of(const owned_read& of) { return of.from.rank; }

}  // namespace

result<void> pending_operations::wait(deadline until) {
  std::optional<operation_result> first;
  std::vector<std::uint32_t> failed;
  std::vector<std::uint32_t> late;
  for (std::size_t i = 0; i < operations_.size(); ++i) {
    const operation_result* const ended = operations_[i].wait(until);
    if (ended == nullptr) {
      late.push_back(ranks_[i]);
    } else if (!*ended) {
      failed.push_back(ranks_[i]);
      if (!first) first = *ended;
    }
  }
  if (!late.empty())
    return error::timed_out("pending_operations::wait", {},
                            "operations are still in flight with " +
                                detail::to_text(detail::each_once(std::move(late))));
  if (!first) return {};
  return detail::with_failed_ranks(first->error(), std::move(failed));
}

buffer pending_multicast::take_buffer() {
  // Releases the views of the sends.
  for (std::size_t i = 0; i < sends_.size(); ++i) sends_[i].take_buffer().reset();
  return memory_ == nullptr ? buffer() : std::exchange(*std::exchange(memory_, nullptr), buffer());
}

template <class Part, class Post>
pending_operations pending_operations::of(std::span<Part> parts, Post post) {
  pending_operations made;
  made.reserve(parts.size());
  for (Part& each : parts) made.add(rank_of(each), post(each));
  return made;
}

pending_operations multi_channel::post_scatter(std::span<owned_send> parts,
                                               std::source_location posted) {
  return pending_operations::of(parts, [&](owned_send& each) {
    return (*this)[each.rank].post_send(std::move(each.memory), each.part, each.options, posted);
  });
}

pending_operations multi_channel::post_scatter(std::span<owned_write> parts,
                                               std::source_location posted) {
  return pending_operations::of(parts, [&](owned_write& each) {
    return (*this)[each.to.rank].post_write(std::move(each.memory), each.to.region, each.part,
                                            each.options, posted);
  });
}

pending_operations multi_channel::post_gather(std::span<owned_receive> parts,
                                              std::source_location posted) {
  return pending_operations::of(parts, [&](owned_receive& each) {
    return (*this)[each.rank].post_receive(std::move(each.memory), each.part, posted);
  });
}

pending_operations multi_channel::post_gather(std::span<owned_read> parts,
                                              std::source_location posted) {
  return pending_operations::of(parts, [&](owned_read& each) {
    return (*this)[each.from.rank].post_read(std::move(each.memory), each.from.region, each.part,
                                             posted);
  });
}

pending_multicast multi_channel::post_multicast(std::span<const std::uint32_t> ranks,
                                                buffer&& memory, const buffer_slice& part,
                                                const operation_options& options,
                                                std::source_location posted) {
  auto shared = std::make_shared<buffer>(std::move(memory));
  pending_operations made;
  made.reserve(ranks.size());
  auto views =
      verbena::detail::buffer_sharing::views(shared, static_cast<std::uint32_t>(ranks.size()));
  for (std::size_t i = 0; i < ranks.size(); ++i)
    made.add(ranks[i], (*this)[ranks[i]].post_send(std::move(views[i]), part, options, posted));
  return {std::move(shared), std::move(made)};
}

}  // namespace verbena::inline VERBENA_ABI::net
