// SPDX-License-Identifier: MIT
#include "verbena/net/group.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "src/bringup/own_names.hpp"
#include "src/net/channel_access.hpp"
#include "src/net/collectives.hpp"
#include "src/net/etcd.hpp"
#include "src/net/group_state.hpp"
#include "src/net/joining_exchanges.hpp"
#include "src/net/peer_connector.hpp"
#include "src/net/pmix.hpp"
#include "src/net/rank_list.hpp"
#include "src/net/rendezvous.hpp"
#include "src/net/renewal.hpp"
#include "src/net/store_addresses.hpp"
#include "src/net/unconnected_channels.hpp"
#include "verbena/base/assert.hpp"
#include "verbena/net/rail_memory.hpp"

namespace verbena::inline VERBENA_ABI::net {

namespace detail {

// NOLINTNEXTLINE(cppcoreguidelines-owning-memory): the sole_owner calls it
void destroy(group_state& state) noexcept {
  if (state.connector) state.connector->end();
  state.board.end_requests(state.channels);
  delete &state;
}

namespace {

// The bytes that a rank sends to another rank: the endpoint of their channel, and the board.
constexpr std::size_t address_bytes = endpoint::encoded_size + remote_region::encoded_size;
using address_of_channel = std::array<std::byte, address_bytes>;

struct peer_addresses {
  std::vector<endpoint> endpoints;
  std::vector<remote_region> boards;
};

result<void> run(rank_board& on, result<collective> begun) {
  if (!begun) return std::move(begun).error();
  return on.run(*begun);
}

participants these_or_all(group_state& in, std::span<const std::uint32_t> ranks, deadline until) {
  renewal::take_late_answer(in);
  return {in.board, in.channels, in.client, ranks.empty() ? in.members : ranks, until};
}

// Returns the options with the access flags that boards need.
channel_options with_boards(channel_options of) {
  of.access |= access::remote_read | access::remote_write;
  return of;
}

error about_rank(error why, std::size_t rank) {
  return std::move(why).with_diagnosis(fmt::format("received from rank {}", rank));
}

result<peer_addresses> exchange_addresses(store_client& with,
                                          const prepared_multi_channel& channels,
                                          const remote_region& board, deadline until) {
  std::vector<address_of_channel> ours(channels.size());
  std::vector<std::span<const std::byte>> parts;
  for (std::uint32_t each = 0; each < channels.size(); ++each) {
    const auto local = channels.endpoint(each).encode();
    const auto memory = board.encode();
    std::ranges::copy(memory, std::ranges::copy(local, ours[each].begin()).out);
    parts.emplace_back(ours[each]);
  }
  VERBENA_TRY(const auto theirs, with.exchange(endpoints_exchange, parts, until));
  peer_addresses out;
  for (std::size_t each = 0; each < theirs.size(); ++each) {
    const std::span<const std::byte> bytes = theirs[each];
    if (bytes.size() != address_bytes)
      return about_rank(error::protocol("join", {},
                                        fmt::format("an address has {} bytes, not {}", bytes.size(),
                                                    address_bytes)),
                        each);
    auto remote = endpoint::decode(bytes.first(endpoint::encoded_size));
    if (!remote) return about_rank(std::move(remote).error(), each);
    auto memory = remote_region::decode(bytes.subspan(endpoint::encoded_size));
    if (!memory) return about_rank(std::move(memory).error(), each);
    out.endpoints.push_back(*remote);
    out.boards.push_back(*memory);
  }
  return out;
}

/// The store of a group, if this process has it, and its announcement in etcd.
struct own_store {
  std::optional<store> opened;
  verbena::detail::sole_owner<announcement> announced;
  // The ranks are on several hosts and have found the store by PMIx.
  bool is_found_by_several_hosts = false;
};

// Returns the addresses at which ranks may reach the store on this host. The host name is the
// last: other hosts may be unable to resolve it.
result<std::vector<std::string>> hosts_of_store(const pmix_job& job) {
  if (job.is_local) return std::vector<std::string>{"127.0.0.1"};
  VERBENA_TRY(auto hosts, addresses_for_hosts());
  hosts.push_back(job.host);
  return hosts;
}

// Opens the store on rank 0 and distributes its addresses to all ranks through PMIx.
result<void> meet_by_pmix(membership& place, own_store& own, deadline until, store_options with) {
  VERBENA_TRY(const auto job, ask_pmix());
  published_store made;
  if (place.rank == 0) {
    if (with.secret.empty()) with.secret = made.secret = random_secret();
    VERBENA_TRY(own.opened, store::open({.host = job.is_local ? "127.0.0.1" : ""}, with));
    VERBENA_TRY(const auto hosts, hosts_of_store(job));
    for (const auto& each : hosts)
      made.at.push_back({.host = each, .port = own.opened->local_address().port});
  }
  VERBENA_TRY(const auto text, share_by_pmix("verbena.store." + place.name, to_text(made), until));
  VERBENA_TRY(auto known, parse_published(text));
  if (job.is_local) {
    place.store = known.at.front();
  } else {
    VERBENA_TRY(const auto names, bringup::detail::own_names());
    put_own_last(known.at, names);
    VERBENA_TRY(place.store, find_reachable(known.at, until));
  }
  // A secret of the program takes precedence; it also authenticates the store.
  if (place.secret.empty()) place.secret = known.secret;
  place.host = store_host::rank_0;
  own.is_found_by_several_hosts = !job.is_local;
  return {};
}

// Opens the store if this rank has to. Otherwise finds it. Afterwards, `place` has its address.
result<own_store> find_store(membership& place, deadline until, store_options with) {
  own_store own;
  if (with.secret.empty()) with.secret = place.secret;
  if (place.host == store_host::rank_0 && place.rank == 0) {
    VERBENA_TRY_VOID(meet_at_rank_0(place, own.opened, until, with));
  } else if (place.host == store_host::pmix) {
    VERBENA_TRY_VOID(meet_by_pmix(place, own, until, with));
  } else if (place.host == store_host::etcd) {
    VERBENA_TRY(own.announced, meet_by_etcd(place, own.opened, until, with));
  } else if (place.host == store_host::service) {
    VERBENA_TRY_VOID(meet_by_service(place, own.opened, until, with));
  }
  return own;
}

}  // namespace

/// The parts of a group that depend on connect_mode::on_first_use.
struct first_use_group {
  multi_channel channels;
  std::shared_ptr<peer_connector> connector;

  [[nodiscard]] static result<first_use_group> create(const protection_domain& domain,
                                                      const store_client& client,
                                                      const group_options& options,
                                                      deadline until) {
    const auto with = with_boards(options.channels);
    VERBENA_TRY(auto channels, create_unconnected(domain, client.size(), with, options.hub));
    auto host = options.first_use.host;
    if (host.empty()) {
      VERBENA_TRY(host, client.local_host());
    }
    VERBENA_TRY(
        auto connector,
        peer_connector::start(
            {.rank = client.rank(), .size = client.size(), .host = std::move(host), .until = until},
            {.domain = domain,
             .cq = channels.hub().cq(),
             .options = with,
             .budget = options.first_use.budget},
            options.first_use));
    return first_use_group{.channels = std::move(channels), .connector = std::move(connector)};
  }
  /// Returns the address at which ranks on other hosts reach this process, if they have found the
  /// store by PMIx: the local address of the connection to the store. On the host of the store, it
  /// can be any address of the host, so it is the first one at which another host has found the
  /// store. Blocks; all ranks must call it.
  [[nodiscard]] static result<std::string> find_host(store_client& client, const membership& place,
                                                     deadline until) {
    VERBENA_TRY(auto local, client.local_host());
    const bool has_store = local == place.store.host;
    const auto reached =
        has_store ? std::span<const char>() : std::span<const char>(place.store.host);
    VERBENA_TRY(const auto all, client.exchange(hosts_exchange, std::as_bytes(reached), until));
    VERBENA_TRY(const auto names, bringup::detail::own_names());
    if (has_store)
      for (const auto& each : all) {
        const auto* const text = static_cast<const char*>(static_cast<const void*>(each.data()));
        std::string host(text, each.size());
        if (names.contains(host)) return host;
      }
    return local;
  }
  /// Exchanges the contacts of all ranks.
  [[nodiscard]] result<void> meet(store_client& client, rank_board& board,
                                  std::span<const std::uint32_t> members, deadline until) {
    // Peers can request a connection as soon as they have received the contact.
    connector->open(0, members);
    VERBENA_TRY(const auto theirs,
                client.exchange(
                    contacts_exchange,
                    std::span<const std::byte>(encode(connector->contact(board.remote()))), until));
    std::vector<remote_region> boards;
    std::vector<rank_contact> contacts;
    for (std::size_t each = 0; each < theirs.size(); ++each) {
      auto contact = decode_contact(theirs[each]);
      if (!contact) return about_rank(std::move(contact).error(), each);
      boards.push_back(contact->board);
      contacts.push_back(*std::move(contact));
    }
    VERBENA_TRY_VOID(check_contacts("join", contacts, members));
    connector->set_contacts(std::move(contacts));
    for (std::uint32_t each = 0; each < channels.size(); ++each)
      channel_access::core_of(channels[each]).connect_on_first_use(connector, each);
    board.set_first_use_timeout(connector->timeout());
    return board.connect(std::move(boards), members);
  }
};

}  // namespace detail

result<group> group::join(const protection_domain& domain, const membership& who, deadline until,
                          const group_options& options) {
  VERBENA_TRY_VOID(who.check());
  auto place = who;
  VERBENA_TRY(auto own, detail::find_store(place, until, options.store));
  VERBENA_TRY(auto client, store_client::connect(place, until));
  if (options.connect == connect_mode::on_first_use) {
    VERBENA_TRY(auto board, detail::rank_board::create(domain, who.rank, who.size));
    auto with = options;
    if (own.is_found_by_several_hosts) {
      VERBENA_TRY(auto host, detail::first_use_group::find_host(client, place, until));
      if (with.first_use.host.empty()) with.first_use.host = std::move(host);
    }
    VERBENA_TRY(auto parts, detail::first_use_group::create(domain, client, with, until));
    auto members = detail::all_ranks(who.size);
    VERBENA_TRY_VOID(parts.meet(client, board, members, until));
    group made(new detail::group_state{.own_store = std::move(own.opened),
                                       .announced = std::move(own.announced),
                                       .board = std::move(board),
                                       .connector = std::move(parts.connector),
                                       .channels = std::move(parts.channels),
                                       .members = std::move(members),
                                       .client = std::move(client)});
    made.state().connector->set_channels(made.state().channels);
    return made;
  }
  VERBENA_TRY(auto prepared,
              prepared_multi_channel::create(domain, who.size,
                                             detail::with_boards(options.channels), options.hub));
  VERBENA_TRY(auto board, detail::rank_board::create(domain, who.rank, who.size));
  VERBENA_TRY(auto theirs, detail::exchange_addresses(client, prepared, board.remote(), until));
  auto members = detail::all_ranks(who.size);
  VERBENA_TRY_VOID(board.connect(std::move(theirs.boards), members));
  VERBENA_TRY(auto channels, std::move(prepared).handshake(theirs.endpoints));
  // Waits until the queue pairs of all ranks can receive.
  VERBENA_TRY(const auto ready,
              client.exchange(detail::ready_exchange, std::span<const std::byte>(), until));
  static_cast<void>(ready);
  return group(new detail::group_state{.own_store = std::move(own.opened),
                                       .announced = std::move(own.announced),
                                       .board = std::move(board),
                                       .connector = nullptr,
                                       .channels = std::move(channels),
                                       .members = std::move(members),
                                       .client = std::move(client)});
}

result<group> group::rejoin(const protection_domain& domain, const membership& who, deadline until,
                            const group_options& options) {
  VERBENA_TRY_VOID(who.check());
  const auto refuse = [&](const char* why) {
    return error::not_supported("rejoin", fmt::format("rank {}", who.rank), why);
  };
  if (who.host == store_host::pmix)
    return refuse(
        "PMIx does not give the address of the store to a new process; use a separate "
        "store");
  if (who.host != store_host::separate && who.rank == 0)
    return refuse(
        "the store of the group ended with the old process of rank 0; use a separate "
        "store, for example that of verbena launch or verbena store");
  auto place = who;
  VERBENA_TRY_DISCARD(detail::find_store(place, until, options.store));
  VERBENA_TRY(auto client, detail::renewal::connect_again(place, until));
  VERBENA_TRY(auto board, detail::rank_board::create(domain, who.rank, who.size));
  // The endpoints of the peers are not known yet.
  std::shared_ptr<detail::peer_connector> connector;
  std::optional<multi_channel> channels;
  if (options.connect == connect_mode::on_first_use) {
    VERBENA_TRY(auto parts, detail::first_use_group::create(domain, client, options, until));
    connector = std::move(parts.connector);
    board.set_first_use_timeout(connector->timeout());
    channels.emplace(std::move(parts.channels));
  } else {
    VERBENA_TRY(auto made,
                detail::create_unconnected(domain, who.size, detail::with_boards(options.channels),
                                           options.hub));
    channels.emplace(std::move(made));
  }
  group made(new detail::group_state{.own_store = std::nullopt,
                                     .announced = {},
                                     .board = std::move(board),
                                     .connector = std::move(connector),
                                     .channels = *std::move(channels),
                                     .members = {who.rank},
                                     .client = std::move(client)});
  if (made.state().connector) made.state().connector->set_channels(made.state().channels);
  VERBENA_TRY_VOID(detail::renewal(made.state(), "rejoin", until).rejoin());
  return made;
}

result<void> group::check_idle(const char* call) const {
  if (!state().board.is_in_progress()) return {};
  return error::invalid_argument(
      call, fmt::format("rank {}", rank()),
      "an operation in steps of this rank is in progress or queued; await it first");
}

result<void> group::shrink(deadline until) {
  VERBENA_TRY_VOID(check_idle("shrink"));
  return detail::renewal(state(), "shrink", until).shrink();
}

result<void> group::readmit(std::span<const std::uint32_t> ranks, deadline until) {
  for (const std::uint32_t each : ranks)
    if (each >= size())
      return error::invalid_argument(
          "readmit", fmt::format("rank {}", rank()),
          fmt::format("rank {} is not less than the size of the group, {}", each, size()));
  VERBENA_TRY_VOID(check_idle("readmit"));
  // `ranks` can be returning(), which changes in the call.
  const std::vector<std::uint32_t> added(ranks.begin(), ranks.end());
  return detail::renewal(state(), "readmit", until).readmit(added);
}

std::span<const std::uint32_t> group::members() const noexcept { return state().members; }

std::span<const std::uint32_t> group::returning() { return state().client.returning(); }

detail::group_state& group::state() const {
  VERBENA_ASSERT(state_.get() != nullptr, "a moved-from group was used");
  return *state_;
}

std::uint32_t group::rank() const noexcept { return state().client.rank(); }

std::uint32_t group::size() const noexcept { return state().client.size(); }

std::span<const std::uint32_t> group::departed() { return state().client.departed(); }

multi_channel& group::channels() noexcept { return state().channels; }

first_use_statistics group::connections() const {
  return state().connector ? state().connector->statistics() : first_use_statistics();
}

std::uint32_t group::close_idle(deadline until) {
  return state().connector ? state().connector->close_idle(until) : 0;
}

result<std::vector<exchanged_bytes>> group::exchange(std::string_view name,
                                                     std::span<const std::byte> for_all,
                                                     deadline until) {
  return state().client.exchange(name, for_all, until);
}

result<std::vector<peer_region>> group::exchange(std::string_view name, const remote_region& mine,
                                                 deadline until) {
  VERBENA_TRY(const auto theirs, exchange(name, std::span<const std::byte>(mine.encode()), until));
  std::vector<peer_region> regions;
  regions.reserve(theirs.size());
  for (std::uint32_t each = 0; each < theirs.size(); ++each) {
    if (!std::ranges::binary_search(members(), each)) {
      regions.push_back({.rank = each});
      continue;
    }
    auto region = remote_region::decode(theirs[each]);
    if (!region) return detail::about_rank(std::move(region).error(), each);
    regions.push_back({.rank = each, .region = *region});
  }
  return regions;
}

result<std::vector<rail_region>> group::exchange(std::string_view name, const rail_region& mine,
                                                 deadline until) {
  const auto ours = mine.rails() == 0 ? std::vector<std::byte>() : mine.encode();
  VERBENA_TRY(const auto theirs, exchange(name, std::span<const std::byte>(ours), until));
  std::vector<rail_region> regions(theirs.size());
  for (const std::uint32_t each : members()) {
    if (theirs[each].empty()) continue;
    auto region = rail_region::decode(theirs[each]);
    if (!region) return detail::about_rank(std::move(region).error(), each);
    regions[each] = *region;
  }
  return regions;
}

result<void> group::publish(std::string_view name, std::span<const std::byte> value,
                            deadline until) {
  return state().client.publish(name, value, until);
}

result<void> group::publish(std::string_view name, const remote_region& mine, deadline until) {
  return publish(name, std::span<const std::byte>(mine.encode()), until);
}

result<void> group::withdraw(std::string_view name, deadline until) {
  return state().client.withdraw(name, until);
}

result<exchanged_bytes> group::find(std::uint32_t rank, std::string_view name, deadline until) {
  return state().client.find(rank, name, until);
}

result<peer_region> group::find_region(std::uint32_t rank, std::string_view name, deadline until) {
  VERBENA_TRY(const auto bytes, find(rank, name, until));
  auto region = remote_region::decode(bytes);
  if (!region)
    return std::move(region).error().with_diagnosis(
        fmt::format("the value \"{}\" of rank {} is not a remote region", name, rank));
  return peer_region{.rank = rank, .region = *region};
}

result<void> group::barrier(deadline until, barrier_algorithm algorithm) {
  return barrier(state().members, until, algorithm);
}

result<void> group::barrier(std::span<const std::uint32_t> ranks, deadline until,
                            barrier_algorithm algorithm) {
  return detail::run(state().board,
                     detail::begin_barrier(detail::these_or_all(state(), ranks, until), algorithm));
}

result<void> group::broadcast(const sink& data, std::uint32_t root, deadline until,
                              std::span<const std::uint32_t> ranks) {
  return detail::run(state().board,
                     detail::begin_broadcast(detail::these_or_all(state(), ranks, until),
                                             detail::registered_bytes(data), root));
}

result<void> group::all_gather(const sink& data, deadline until,
                               std::span<const std::uint32_t> ranks) {
  return detail::run(state().board,
                     detail::begin_all_gather(detail::these_or_all(state(), ranks, until),
                                              detail::registered_bytes(data)));
}

result<void> group::all_to_all(const source& out, const sink& in, deadline until,
                               std::span<const std::uint32_t> ranks) {
  return detail::run(
      state().board,
      detail::begin_all_to_all(detail::these_or_all(state(), ranks, until),
                               detail::registered_bytes(out), detail::registered_bytes(in)));
}

result<void> group::all_reduce_by(const sink& data, const detail::combination& with, deadline until,
                                  std::span<const std::uint32_t> ranks) {
  return detail::run(state().board,
                     detail::begin_all_reduce(detail::these_or_all(state(), ranks, until),
                                              detail::registered_bytes(data), with));
}

result<void> group::reduce_by(const sink& data, const detail::combination& with, std::uint32_t root,
                              deadline until, std::span<const std::uint32_t> ranks) {
  return detail::run(state().board,
                     detail::begin_reduce(detail::these_or_all(state(), ranks, until),
                                          detail::registered_bytes(data), root, with));
}

}  // namespace verbena::inline VERBENA_ABI::net
