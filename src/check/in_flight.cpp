// SPDX-License-Identifier: MIT
// Checks requests when they are posted, and retires them when their completions are polled.
#include "verbena/check/detail/in_flight.hpp"

#ifdef VERBENA_CHECKED

#include <algorithm>
#include <iterator>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "src/check/registry.hpp"

namespace verbena::inline VERBENA_ABI::detail::in_flight {
namespace {

// The region of a slice, or a region whose protection domain violates a rule. Both are nullptr if
// this library has not registered the key.
struct region_search {
  const known_region* found = nullptr;
  const known_region* foreign = nullptr;  // of another protection domain of the same device
};

region_search find_region(const registry& all, const known_queue& queue, std::uint32_t key) {
  region_search out;
  const auto [first, last] = all.regions_by_key.equal_range(key);
  for (auto at = first; at != last; ++at) {
    const region_facts& facts = at->second->facts;
    if (facts.context != queue.facts.context) continue;
    (facts.domain == queue.facts.domain ? out.found : out.foreign) = at->second;
  }
  return out;
}

// Returns the memory of a slice. Returns nullopt if this process does not map the memory. Also
// returns nullopt if the slice exceeds its region, because the device reports this error.
std::optional<piece> piece_of(const known_region& region, const slice& named) {
  const region_facts& facts = region.facts;
  if (facts.memory == nullptr || named.length == 0 || named.address < facts.base) return {};
  const std::uint64_t offset = named.address - facts.base;
  if (offset > facts.length || named.length > facts.length - offset) return {};
  const auto begin = reinterpret_cast<std::uintptr_t>(facts.memory) + offset;
  return piece{{begin, begin + named.length}, region.identity, region.watched};
}

finding overlap(const posted_request& later, const posted_request& earlier) {
  const std::string details = describe(later) + ", and " + describe(earlier);
  if (later.how == use::source)
    return in_flight_rule(details, earlier.where,
                          "a request reads memory that a request in flight writes");
  if (earlier.how == use::source)
    return in_flight_rule(details, earlier.where,
                          "a request writes memory that a request in flight reads");
  return in_flight_rule(details, earlier.where, "two requests in flight write the same memory");
}

// Finds memory that was replaced after its registration: the device accesses the registered pages,
// the program others.
std::optional<finding> check_replaced(const posted_request& posted, const piece& part,
                                      const known_region& region) {
  if (part.watched == nullptr) return {};
  const auto change = part.watched->changed(part.range);
  if (!change) return {};
  const std::string details =
      describe(posted) + " uses memory of which " + describe(*change, *part.watched) + " since";
  return in_flight_rule(details, region.facts.registered,
                        "the memory of a request was unmapped or replaced after its registration");
}

// Records a piece of memory, or returns the violated rule.
std::optional<finding> take_piece(registry& all, posted_request& posted, const piece& part,
                                  const void* caller) {
  const auto* const earlier = all.ranges.conflict(part.range, posted.how);
  // A fenced request may send memory that an earlier read of its queue pair writes.
  const bool waits = posted.fenced && posted.how == use::source && earlier != nullptr &&
                     earlier->queue == posted.queue && earlier->is_send;
  posted.pieces.push_back(part);
  std::optional<finding> found;
  if (earlier != nullptr && !waits) {
    found = overlap(posted, *earlier);
  } else if (!waits && sanitizers_are_told() && !is_addressable(part.range)) {
    const std::string details = describe(posted);
    found = in_flight_rule(details, std::nullopt, "the memory of a request was freed");
  }
  if (found) {
    posted.pieces.pop_back();
    return found;
  }
  all.ranges.add(part.range, posted.how, &posted);
  if (!sanitizers_are_told()) return {};
  if (posted.how == use::sink) poison(part.range);
  if (!waits) posted.adapter.access(part.range, posted.how, caller);
  return {};
}

// Finds and records the memory of `posted`, or returns the violated rule.
std::optional<finding> take_memory(registry& all, posted_request& posted,
                                   const std::vector<slice>& slices, const void* caller) {
  for (const slice& named : slices) {
    const region_search search = find_region(all, *posted.queue, named.key);
    if (search.found == nullptr && search.foreign != nullptr) {
      const std::string details = describe(posted) + " uses " + search.foreign->facts.name;
      return in_flight_rule(
          details, std::nullopt,
          "the memory and the queue of a request belong to different protection domains");
    }
    if (search.found == nullptr) continue;
    const auto part = piece_of(*search.found, named);
    if (!part) continue;
    auto found = check_replaced(posted, *part, *search.found);
    if (!found) found = take_piece(all, posted, *part, caller);
    if (found) return found;
  }
  return {};
}

// Checks that a receive of a datagram queue pair has room for the GRH.
std::optional<finding> check_room(const posted_request& posted, const std::vector<slice>& slices) {
  const std::uint32_t needed = posted.queue->facts.header_bytes;
  if (posted.is_send || needed == 0) return {};
  std::uint64_t room = 0;
  for (const slice& each : slices) room += each.length;
  if (room >= needed) return {};
  const std::string details = describe(posted) + " has " + std::to_string(room);
  return in_flight_rule(
      details, std::nullopt,
      "a receive of a datagram queue pair has fewer than the 40 bytes of the GRH");
}

// Checks that the process that created the queue uses it. Called last, so that a violation of
// another rule is reported first.
std::optional<finding> check_owner(const known_queue& queue) {
  if (queue.owner == ::getpid()) return {};
  return in_flight_rule(
      queue.facts.name, std::nullopt,
      "a queue was used by a forked child of the process that created it: open the "
      "device in the child");
}

// Retires the requests with the numbers `which`. Requests of other threads may be between them.
void remove_requests(registry& all, request_queue& from, numbers which) {
  for (auto at = from.begin(); at != from.end();) {
    const auto next = std::next(at);
    if (at->number >= which.first && at->number < which.end)
      static_cast<void>(all.retire(from, at));
    at = next;
  }
}

// A request that a completion may belong to.
struct match {
  known_queue* queue;
  request_queue* in;
  request_queue::iterator which;
};

std::optional<match> find_send(known_queue& queue, const polled_completion& polled) {
  auto& sends = queue.sends;
  auto found = std::ranges::find_if(sends, [&](const posted_request& each) {
    return each.id == polled.id && (each.signaled || !polled.ok);
  });
  // An adopted queue pair may have been created with sq_sig_all, which the checker does not know.
  if (found == sends.end()) found = std::ranges::find(sends, polled.id, &posted_request::id);
  if (found == sends.end()) return {};
  return match{&queue, &sends, found};
}

std::optional<match> find_receive(registry& all, known_queue& queue,
                                  const polled_completion& polled) {
  known_queue* from = &queue;
  if (queue.facts.shared_receives != nullptr) from = all.find(queue.facts.shared_receives);
  if (from == nullptr) return {};
  const auto found = std::ranges::find(from->receives, polled.id, &posted_request::id);
  if (found == from->receives.end()) return {};
  return match{from, &from->receives, found};
}

// Finds memory that was replaced while the request was in flight: the device used the old pages.
std::optional<finding> check_replaced_in_flight(const posted_request& done) {
  for (const piece& each : done.pieces) {
    const auto change = each.watched != nullptr ? each.watched->changed(each.range) : std::nullopt;
    if (!change) continue;
    const std::string details = describe(done) + ", but " + describe(*change, *each.watched);
    return in_flight_rule(details, done.where,
                          "memory of a request in flight was unmapped, moved or discarded");
  }
  return {};
}

std::optional<finding> retire(registry& all, const match& done, bool ok) {
  std::optional<finding> first;
  if (ok) first = check_replaced_in_flight(*done.which);
  if (done.in == &done.queue->sends) done.queue->completed_before = all.next_number;
  if (done.in == &done.queue->sends && done.queue->facts.in_order) {
    // Earlier requests are complete. Signaled ones are retired when their completions are polled.
    for (auto at = done.in->begin(); at != done.which;) {
      const auto next = std::next(at);
      if (!at->signaled) {
        done.queue->imply(at->id, !ok);  // each flushed request has a completion
        if (ok && !first) first = check_replaced_in_flight(*at);
        auto found = all.retire(*done.in, at);
        if (!first) first = std::move(found);
      }
      at = next;
    }
  }
  auto found = all.retire(*done.in, done.which);
  return first ? first : found;
}

// Returns the requests of the queues `candidates` that `polled` may complete.
std::vector<match> find_matches(registry& all, const std::vector<known_queue*>& candidates,
                                const void* completion_queue, const polled_completion& polled) {
  std::vector<match> matches;
  for (known_queue* queue : candidates) {
    const bool may_receive = queue->facts.receive_queue == completion_queue;
    const bool may_send = queue->facts.send_queue == completion_queue;
    if (may_send && polled.is_receive != true)
      if (const auto found = find_send(*queue, polled)) matches.push_back(*found);
    if (!may_receive || polled.is_receive == false) continue;
    const auto found = find_receive(all, *queue, polled);
    // Queue pairs that share a receive queue find the same request.
    if (found && std::ranges::none_of(
                     matches, [&](const match& each) { return &*each.which == &*found->which; }))
      matches.push_back(*found);
  }
  return matches;
}

std::vector<known_queue*> find_candidates(registry& all, const void* context,
                                          const void* completion_queue,
                                          const polled_completion& polled) {
  std::vector<known_queue*> candidates;
  const auto consider = [&](known_queue* queue) {
    const queue_facts& facts = queue->facts;
    if (facts.context == context && !facts.is_shared &&
        (facts.send_queue == completion_queue || facts.receive_queue == completion_queue))
      candidates.push_back(queue);
  };
  if (!polled.queue_pair) {
    for (const auto& [native, queue] : all.queues) consider(queue.get());
  } else if (const auto found = all.by_number.find(*polled.queue_pair);
             found != all.by_number.end()) {
    std::ranges::for_each(found->second, consider);
  }
  return candidates;
}

bool may_be_unknown(registry& all, known_queue& queue, std::uint64_t id) {
  if (queue.posted_elsewhere) return true;
  if (known_queue* shared = all.find(queue.facts.shared_receives);
      shared != nullptr && shared->posted_elsewhere)
    return true;
  const auto implied = std::ranges::find(queue.implied, id);
  if (implied == queue.implied.end()) return false;
  queue.implied.erase(implied);
  return true;
}

std::optional<finding> complete_one(registry& all, const void* context,
                                    const void* completion_queue, const polled_completion& polled) {
  const auto candidates = find_candidates(all, context, completion_queue, polled);
  const auto matches = find_matches(all, candidates, completion_queue, polled);
  for (known_queue* each : candidates)
    if (!polled.ok && polled.queue_pair) each->has_failed = true;
  std::optional<finding> freed;
  for (const match& each : matches) {
    if (!freed) freed = check_owner(*each.queue);
    // If several requests match, all are considered complete. Their later completions are then
    // accepted.
    if (matches.size() > 1) each.queue->posted_elsewhere = true;
    auto found = retire(all, each, polled.ok);
    if (!freed) freed = std::move(found);
  }
  if (freed) return freed;
  if (!matches.empty() || candidates.size() != 1 || !polled.queue_pair) return {};
  known_queue& queue = *candidates.front();
  if (may_be_unknown(all, queue, polled.id)) return {};
  const std::string details =
      "the completion of request " + std::to_string(polled.id) + " of " + queue.facts.name;
  return in_flight_rule(
      details, std::nullopt,
      "a completion does not match a request in flight: it was polled twice, or the request "
      "was posted by the C API without a call of check::posted_elsewhere");
}

}  // namespace

numbers add(place at, std::span<const request> posted, call_site where) {
  registry& all = registry::get();
  std::optional<finding> found;
  numbers given;
  {
    const quiet_lock lock(all.mutex);
    known_queue* const queue = all.find(at.queue);
    if (queue != nullptr) {
      request_queue& waiting = queue->at(at.which);
      given = {all.next_number, all.next_number + posted.size()};
      all.next_number = given.end;
      std::uint64_t number = given.first;
      for (const request& each : posted) {
        posted_request& added = waiting.emplace_back();
        added.number = number++;
        added.id = each.id;
        added.is_send = at.which == queue_kind::sends;
        added.operation = each.operation;
        added.how = each.how;
        added.signaled = each.signaled || queue->facts.all_signaled.value_or(false);
        added.fenced = each.fenced;
        added.where = where;
        added.queue = queue;
        if (sanitizers_are_told()) added.adapter.start();
        found = take_memory(all, added, each.slices, at.caller);
        if (!found) found = check_room(added, each.slices);
        if (found) break;
      }
      if (!found) found = check_owner(*queue);
      if (found) remove_requests(all, waiting, given);
    } else if (const auto destroyed = all.gone.find(at.queue); destroyed != all.gone.end()) {
      found = in_flight_rule(destroyed->second, std::nullopt,
                             "a request was posted to a destroyed queue");
    }
  }
  if (found) stop(*found, where);
  return given;
}

void remove(place at, numbers which, bool is_full, call_site where) {
  registry& all = registry::get();
  std::optional<finding> found;
  {
    const quiet_lock lock(all.mutex);
    known_queue* const queue = all.find(at.queue);
    if (queue == nullptr) return;
    remove_requests(all, queue->at(at.which), which);
    // Another thread may have polled the completion that frees an entry, after the device refused
    // the requests.
    const bool is_freed = queue->completed_before > which.first;
    if (is_full && !is_freed && at.which == queue_kind::sends && !queue->sends.empty() &&
        !queue->posted_elsewhere && !queue->has_failed && queue->facts.all_signaled.has_value() &&
        std::ranges::none_of(queue->sends, &posted_request::signaled))
      found = in_flight_rule(queue->facts.name, queue->sends.front().where,
                             "a send queue is full of unsignaled requests: no completion can free "
                             "an entry; signal at least one request per queue length");
  }
  if (found) stop(*found, where);
}

void poll_failed(const void* completion_queue, call_site where) {
  registry& all = registry::get();
  std::optional<finding> found;
  {
    const quiet_lock lock(all.mutex);
    for (const auto& [native, queue] : all.queues)
      if (!found && (queue->facts.send_queue == completion_queue ||
                     queue->facts.receive_queue == completion_queue))
        found = check_owner(*queue);
  }
  if (found) stop(*found, where);
}

void complete(const void* context, const void* completion_queue,
              std::span<const polled_completion> polled, call_site where) {
  registry& all = registry::get();
  std::optional<finding> found;
  {
    const quiet_lock lock(all.mutex);
    for (const polled_completion& each : polled) {
      auto broken = complete_one(all, context, completion_queue, each);
      if (!found) found = std::move(broken);
    }
  }
  if (found) stop(*found, where);
}

}  // namespace verbena::inline VERBENA_ABI::detail::in_flight

#endif
