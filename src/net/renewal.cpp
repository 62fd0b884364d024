// SPDX-License-Identifier: MIT
#include "src/net/renewal.hpp"
#include "src/base/earliest.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <functional>
#include <set>
#include <utility>

#include "src/net/channel_access.hpp"
#include "src/net/rank_list.hpp"
#include "verbena/base/bytes.hpp"
#include "verbena/base/log.hpp"

namespace verbena::inline VERBENA_ABI::net::detail {
namespace {

using verbena::detail::earliest;
using verbena::detail::share_of;

// The first agreement has the name of the function.
constexpr const char* shrink_name = "shrink";
constexpr const char* readmit_name = "readmit";

// A rank that does not reply within this time is unreachable. The time is shorter if the deadline
// is near.
constexpr std::chrono::seconds time_to_be_answered{2};

constexpr std::size_t region_bytes = remote_region::encoded_size;
constexpr std::size_t bytes_with_endpoint = region_bytes + endpoint::encoded_size;

// A quarter of the time: less than the half for which the other ranks wait for this rank.
deadline time_of_probe(deadline until) { return earliest(share_of(until, 4), time_to_be_answered); }

bool contains(std::span<const std::uint32_t> ranks, std::uint32_t rank) {
  return std::ranges::find(ranks, rank) != ranks.end();
}

constexpr std::size_t number_bytes = sizeof(std::uint32_t);

// The encodings of a set of ranks. The first byte is the form. It is followed by the ranks, 4 bytes
// each; by one bit per rank, where rank 0 is the lowest bit of the first byte; or by no bytes.
constexpr std::byte list_form{0};
constexpr std::byte bits_form{1};
constexpr std::byte all_form{2};

std::size_t bytes_of_bits(std::uint32_t size) { return (std::size_t{size} + 7) / 8; }

}  // namespace

blob encode_rank_set(std::span<const std::uint32_t> ranks, std::uint32_t size,
                     std::size_t most_bytes) {
  if (ranks.size() == size && size != 0) return {all_form};
  const bool has_bits = bytes_of_bits(size) < ranks.size() * number_bytes;
  if (has_bits && 1 + bytes_of_bits(size) <= most_bytes) {
    blob out(1 + bytes_of_bits(size));
    out[0] = bits_form;
    for (const std::uint32_t each : ranks) out[1 + each / 8] |= std::byte{1} << each % 8;
    return out;
  }
  const auto fitting = ranks.first(std::min(ranks.size(), (most_bytes - 1) / number_bytes));
  blob out(1 + fitting.size() * number_bytes);
  out[0] = list_form;
  for (std::size_t i = 0; i < fitting.size(); ++i)
    store_network_order(out.data() + 1 + i * number_bytes, fitting[i]);
  return out;
}

result<std::vector<std::uint32_t>> decode_rank_set(std::span<const std::byte> bytes,
                                                   std::uint32_t size) {
  const auto broken = [&] {
    return error::protocol(
        "renewal", {},
        fmt::format("{} bytes do not encode a set of ranks of a group of {}", bytes.size(), size));
  };
  if (bytes.empty()) return broken();
  const auto form = bytes.front();
  const auto rest = bytes.subspan(1);
  std::vector<std::uint32_t> ranks;
  if (form == all_form && rest.empty()) return all_ranks(size);
  if (form == bits_form && rest.size() == bytes_of_bits(size)) {
    for (std::uint32_t each = 0; each < rest.size() * 8; ++each)
      if ((rest[each / 8] >> each % 8 & std::byte{1}) != std::byte{0}) ranks.push_back(each);
  } else if (form == list_form && rest.size() % number_bytes == 0) {
    byte_reader from(rest);
    while (const auto each = from.take<std::uint32_t>()) ranks.push_back(*each);
    if (std::ranges::adjacent_find(ranks, std::greater_equal<>()) != ranks.end()) return broken();
  } else {
    return broken();
  }
  if (!ranks.empty() && ranks.back() >= size) return broken();
  return ranks;
}

std::size_t most_bytes_of_part(std::uint32_t size, std::size_t message_limit) noexcept {
  // For each rank, the answer also contains its number, the length of its part and its epoch.
  constexpr std::size_t header = 64;
  return (message_limit - header) / size - 3 * number_bytes;
}

std::vector<std::uint32_t> ranks_to_leave_out(std::span<const reach_report> reports) {
  std::map<std::uint32_t, std::set<std::uint32_t>> broken;
  for (const auto& each : reports) broken[each.rank];
  for (const auto& each : reports)
    for (const std::uint32_t other : each.unreachable) {
      if (other == each.rank || !broken.contains(other)) continue;
      broken[each.rank].insert(other);
      broken[other].insert(each.rank);
    }
  std::vector<std::uint32_t> removed;
  while (!broken.empty()) {
    const auto worst = std::ranges::max_element(broken, [](const auto& a, const auto& b) {
      return std::pair(a.second.size(), a.first) < std::pair(b.second.size(), b.first);
    });
    if (worst->second.empty()) break;
    for (const std::uint32_t other : worst->second) broken[other].erase(worst->first);
    removed.push_back(worst->first);
    broken.erase(worst);
  }
  std::ranges::sort(removed);
  return removed;
}

blob renewal::encode_ranks_of_group(std::span<const std::uint32_t> ranks) const {
  const std::uint32_t size = group_.client.size();
  return encode_rank_set(ranks, size, most_bytes_of_part(size, group_.client.message_limit()));
}

error renewal::fail(int code, const std::string& why) const {
  return error::from_errno(code, call_, fmt::format("rank {}", group_.client.rank()), why);
}

error renewal::about(std::uint32_t rank, error why) const {
  return std::move(why).with_diagnosis(fmt::format("received from rank {} in {}()", rank, call_));
}

void renewal::note_cause(std::uint32_t rank, error why) {
  log(log_level::warning,
      fmt::format("the channel from rank {} to rank {} could not be reconnected in {}(): {}",
                  group_.client.rank(), rank, call_, why.message()));
  causes_.emplace(rank, std::move(why));
}

error renewal::with_causes(error why) const {
  constexpr std::size_t most = 4;  // the log contains all
  std::size_t shown = 0;
  for (const auto& [rank, cause] : causes_) {
    if (shown++ == most) break;
    why = std::move(why).with_diagnosis(
        fmt::format("the channel of this rank to rank {}: {}", rank, cause.message()));
  }
  return why;
}

result<void> renewal::shrink() {
  // Otherwise, the operations of other members would fail although this call cannot succeed.
  // A fifth: with time_of_probe(), less than the half for which the other ranks wait for this rank.
  VERBENA_TRY_VOID(group_.client.check_store(call_, share_of(until_, 5)));
  // Otherwise, withdraw_shrink() would report the failure of an earlier call as a failed operation.
  static_cast<void>(resume_after_late_answer(group_));
  const auto connected = connected_pairs(intact_members());
  group_.board.announce_shrink(group_.channels, connected);
  auto broken = find_broken();
  const auto reported = of_members(broken);
  auto shrunk =
      run({.kind = agreement_kind::leaves_out, .name = shrink_name}, reported, std::move(broken));
  // Without an agreement, the members are unchanged. After ECONNABORTED, this rank is not a member,
  // or must call shrink() again.
  if (number_ == 0 && !group_.client.is_agreement_open() && shrunk.error().code() != ECONNABORTED)
    group_.board.withdraw_shrink(group_.channels, connected);
  return shrunk;
}

bool renewal::resume_after_late_answer(group_state& of) {
  if (!of.board.awaits_agreement() || of.client.is_agreement_open()) return false;
  of.board.resume();
  return true;
}

void renewal::take_late_answer(group_state& of) {
  const bool awaits = of.board.awaits_agreement();
  if (awaits) static_cast<void>(of.client.departed());  // receives the answer if it has arrived
  // The other members have destroyed their channels to this rank.
  if (of.client.is_expelled() && (awaits || !of.board.failure()))
    return of.board.stop(of.client.expulsion(shrink_name));
  if (!resume_after_late_answer(of)) return;
  renewal by(of, shrink_name, deadline::never());
  of.board.withdraw_shrink(of.channels, by.connected_pairs(by.intact_members()));
}

result<void> renewal::readmit(std::span<const std::uint32_t> awaited) {
  auto broken = find_broken();
  const auto reported = of_members(broken);
  VERBENA_TRY_VOID(run({.kind = agreement_kind::waits,
                        .awaited = {awaited.begin(), awaited.end()},
                        .name = readmit_name},
                       reported, std::move(broken)));
  std::vector<std::uint32_t> lost;
  for (const std::uint32_t each : awaited)
    if (!contains(group_.members, each)) lost.push_back(each);
  if (lost.empty()) return {};
  return fail(ECONNABORTED, fmt::format("{} left again during readmit(); the members are now {}",
                                        to_text(each_once(lost)), to_text(group_.members)));
}

result<void> renewal::rejoin() {
  const auto all = all_ranks(group_.client.size());
  return run({.kind = agreement_kind::waits, .name = readmit_name}, all, all);
}

// Ranks that have left can take part only as new processes, which report all ranks themselves.
std::vector<std::uint32_t> renewal::of_members(std::span<const std::uint32_t> broken) {
  const auto departed = group_.client.departed();
  std::vector<std::uint32_t> members;
  for (const std::uint32_t each : broken)
    if (contains(group_.members, each) && !contains(departed, each)) members.push_back(each);
  return members;
}

std::vector<std::uint32_t> renewal::intact_members() {
  const auto departed = group_.client.departed();
  std::vector<std::uint32_t> ranks;
  for (const std::uint32_t each : group_.members)
    if (!contains(departed, each) && group_.channels[each].failure() == nullptr)
      ranks.push_back(each);
  return ranks;
}

template <class Predicate>
std::vector<std::uint32_t> renewal::filter(std::vector<std::uint32_t> ranks, Predicate is) {
  std::erase_if(ranks, [&](std::uint32_t each) {
    return !is(channel_access::core_of(group_.channels[each]));
  });
  return ranks;
}

std::vector<std::uint32_t> renewal::connected_pairs(std::vector<std::uint32_t> ranks) {
  return filter(std::move(ranks), [](auto& core) { return core.is_connected(); });
}

// Returns the ranks whose channels do not work. Afterwards, no request of this rank to the boards
// of the other ranks is in flight.
std::vector<std::uint32_t> renewal::find_broken() {
  const auto intact = intact_members();
  std::vector<std::uint32_t> broken;
  for (std::uint32_t each = 0; each < group_.client.size(); ++each) {
    auto& core = channel_access::core_of(group_.channels[each]);
    const bool works = core.qp() || core.awaits_first_use();
    if (!works || !std::ranges::binary_search(intact, each)) broken.push_back(each);
  }
  const auto with_queue = filter(intact, [](auto& core) { return core.qp().has_value(); });
  const auto silent = group_.board.probe(group_.channels, with_queue, time_of_probe(until_));
  broken.insert(broken.end(), silent.begin(), silent.end());
  return each_once(std::move(broken));
}

result<void> renewal::run(const store_agreement& first, std::span<const std::uint32_t> reported,
                          std::vector<std::uint32_t> broken) {
  auto state = encode_ranks_of_group(reported);
  state.insert(state.begin(), number_bytes, std::byte{});
  store_network_order(state.data(), group_.epoch);
  const part_view part = state;
  const auto agreed = agree(first, std::span(&part, 1));
  if (!agreed) {
    // The other members may continue with this rank in the next epoch.
    if (group_.client.is_agreement_open())
      group_.board.stop_for_agreement(fail(
          ECONNABORTED, fmt::format("the answer of the store to {}() did not arrive, so the "
                                    "other members may have changed the group; call {}() again",
                                    call_, call_)));
    return agreed.error();
  }
  const auto& states = *agreed;
  number_ = states.renewal;
  group_.board.stop(fail(ECONNABORTED, "the members of the group are being changed"));
  auto changed = change(states, std::move(broken));
  if (!changed) group_.board.stop(changed.error());
  return changed;
}

result<void> renewal::change(const store_agreed& states, std::vector<std::uint32_t> broken) {
  if (group_.connector) group_.connector->close();
  VERBENA_TRY_VOID(read_states(states, broken));
  renew_queues();
  // The queue pairs of the previous epoch have been destroyed or have no request in flight.
  group_.board.clear(epoch_, members_);
  VERBENA_TRY_VOID(connect());
  VERBENA_TRY_DISCARD(take_step("renewal: connections", std::array{part_view()}));
  const auto silent =
      group_.board.probe(group_.channels, connected_members(), time_of_probe(until_));
  unreachable_.insert(unreachable_.end(), silent.begin(), silent.end());
  VERBENA_TRY_VOID(settle());
  group_.epoch = epoch_;
  group_.members = members_;
  group_.client.set_members(members_);
  group_.board.start(members_);
  return {};
}

result<store_agreed> renewal::agree(const store_agreement& what, std::span<const part_view> parts) {
  return group_.client.agree(call_, what, parts, until_);
}

result<store_agreed> renewal::take_step(std::string_view name, std::span<const part_view> parts) {
  VERBENA_TRY(
      auto agreed,
      agree({.kind = agreement_kind::leaves_out, .renewal = number_, .name = std::string(name)},
            parts));
  for (const std::uint32_t each : agreed.ranks)
    if (!contains(members_, each))
      return error::protocol(
          call_, fmt::format("rank {}", group_.client.rank()),
          fmt::format("rank {} took part in step \"{}\" but not in the earlier steps", each, name));
  for (const std::uint32_t each : std::exchange(members_, agreed.ranks))
    if (!contains(members_, each)) drop(each);
  return agreed;
}

result<void> renewal::read_states(const store_agreed& states,
                                  std::span<const std::uint32_t> broken) {
  members_ = states.ranks;
  const std::uint32_t own = group_.client.rank();
  for (std::size_t i = 0; i < members_.size(); ++i) {
    const std::uint32_t rank = members_[i];
    byte_reader state(states.parts[i]);
    const auto epoch = state.take<std::uint32_t>();
    if (!epoch) return about(rank, error::protocol("renewal", {}, "a state has no epoch"));
    auto theirs = decode_rank_set(state.rest(), group_.client.size());
    if (!theirs) return about(rank, std::move(theirs).error());
    epoch_ = std::max(epoch_, *epoch);
    if (contains(broken, rank) || contains(*theirs, own)) renewed_.push_back(rank);
  }
  ++epoch_;
  return {};
}

void renewal::drop(std::uint32_t rank) {
  prepared_.erase(rank);
  auto& to = channel_access::core_of(group_.channels[rank]);
  to.disconnect();
  if (!group_.connector) return;
  to.connect_on_first_use(nullptr, rank);
  group_.connector->remove(rank);
}

std::vector<std::uint32_t> renewal::connected_members() {
  std::vector<std::uint32_t> connected;
  for (const std::uint32_t each : members_)
    if (!channel_access::core_of(group_.channels[each]).awaits_first_use())
      connected.push_back(each);
  return connected;
}

void renewal::renew_queues() {
  for (std::uint32_t each = 0; each < group_.client.size(); ++each)
    if (!contains(members_, each)) drop(each);
  for (const std::uint32_t each : renewed_) {
    if (group_.connector) {
      auto& to = channel_access::core_of(group_.channels[each]);
      to.disconnect();
      group_.connector->forget(each);
      to.connect_on_first_use(group_.connector, each);
      continue;
    }
    auto again = group_.channels[each].prepare_reconnect();
    // Without the endpoint of this rank, the other rank also reports the pair as unreachable.
    if (again)
      prepared_.emplace(each, *std::move(again));
    else
      note_cause(each, std::move(again).error());
  }
}

result<void> renewal::connect() {
  if (group_.connector) {
    const auto mine = encode(group_.connector->contact(group_.board.remote()));
    const part_view part = mine;
    VERBENA_TRY(const auto contacts, take_step("renewal: contacts", std::span(&part, 1)));
    return take_contacts(contacts);
  }
  std::vector<blob> bytes(group_.client.size());
  const auto board = group_.board.remote().encode();
  for (const std::uint32_t each : members_) {
    bytes[each].assign(board.begin(), board.end());
    const auto again = prepared_.find(each);
    if (again == prepared_.end()) continue;
    const auto local = again->second.endpoint().encode();
    bytes[each].insert(bytes[each].end(), local.begin(), local.end());
  }
  std::vector<part_view> parts(bytes.begin(), bytes.end());
  if (prepared_.empty()) parts.assign(1, part_view(board));  // for all ranks
  VERBENA_TRY(const auto addresses, take_step("renewal: addresses", parts));
  std::vector<remote_region> boards(group_.client.size());
  for (std::size_t i = 0; i < addresses.ranks.size(); ++i) {
    const std::uint32_t rank = addresses.ranks[i];
    const part_view address = addresses.parts[i];
    if (address.size() != region_bytes && address.size() != bytes_with_endpoint)
      return about(
          rank, error::protocol("renewal", {},
                                fmt::format("an address has {} bytes, not {} or {}", address.size(),
                                            region_bytes, bytes_with_endpoint)));
    auto memory = remote_region::decode(address.first(region_bytes));
    if (!memory) return about(rank, std::move(memory).error());
    boards[rank] = *memory;
    if (!contains(renewed_, rank)) continue;
    const auto again = prepared_.find(rank);
    if (again == prepared_.end() || address.size() != bytes_with_endpoint) {
      if (rank == group_.client.rank())
        return with_causes(fail(ECONNABORTED, "the loopback channel could not be prepared again"));
      unreachable_.push_back(rank);
      continue;
    }
    auto remote = endpoint::decode(address.subspan(region_bytes));
    if (!remote) return about(rank, std::move(remote).error());
    auto connected = std::move(again->second).handshake(*remote);
    prepared_.erase(again);
    if (connected) continue;
    if (rank == group_.client.rank()) return about(rank, std::move(connected).error());
    note_cause(rank, std::move(connected).error());
    unreachable_.push_back(rank);
  }
  // A rank that ended after the first step has not sent its board and is not a member.
  return group_.board.connect(std::move(boards), members_);
}

result<void> renewal::take_contacts(const store_agreed& addresses) {
  std::vector<remote_region> boards(group_.client.size());
  std::vector<rank_contact> contacts(group_.client.size());
  for (std::size_t i = 0; i < addresses.ranks.size(); ++i) {
    const std::uint32_t rank = addresses.ranks[i];
    auto contact = decode_contact(addresses.parts[i]);
    if (!contact) return about(rank, std::move(contact).error());
    boards[rank] = contact->board;
    contacts[rank] = *std::move(contact);
  }
  VERBENA_TRY_VOID(check_contacts(call_, contacts, members_));
  group_.connector->set_contacts(std::move(contacts));
  group_.connector->open(epoch_, members_);
  return group_.board.connect(std::move(boards), members_);
}

// Removes ranks until all members can reach each other.
result<void> renewal::settle() {
  const std::uint32_t own = group_.client.rank();
  while (true) {
    const std::uint32_t size = group_.client.size();
    unreachable_ = each_once(std::move(unreachable_));
    const auto bytes = encode_ranks_of_group(unreachable_);
    const part_view part = bytes;
    VERBENA_TRY(const auto agreed, take_step("renewal: survivors", std::span(&part, 1)));
    std::vector<reach_report> reports;
    for (std::size_t i = 0; i < agreed.ranks.size(); ++i) {
      auto unreachable = decode_rank_set(agreed.parts[i], size);
      if (!unreachable) return about(agreed.ranks[i], std::move(unreachable).error());
      reports.push_back({.rank = agreed.ranks[i], .unreachable = *std::move(unreachable)});
    }
    const auto left_out = ranks_to_leave_out(reports);
    if (left_out.empty()) return {};
    std::vector<std::uint32_t> rest;
    std::ranges::set_difference(members_, left_out, std::back_inserter(rest));
    if (contains(left_out, own)) {
      group_.client.leave();
      return with_causes(fail(
          ECONNABORTED, fmt::format("not all of {} reach all of {}, which continue without them",
                                    to_text(left_out), to_text(rest))));
    }
    for (const std::uint32_t each : left_out) drop(each);
    members_ = rest;
    std::erase_if(unreachable_, [&](std::uint32_t each) { return !contains(rest, each); });
  }
}

}  // namespace verbena::inline VERBENA_ABI::net::detail
