// SPDX-License-Identifier: MIT
#include "src/net/rail_meeting.hpp"

#include <fmt/format.h>
#include <sys/eventfd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <variant>

#include "src/base/earliest.hpp"
#include "src/bringup/own_names.hpp"
#include "src/net/group_state.hpp"
#include "src/net/rail_checks.hpp"
#include "src/net/rail_message.hpp"
#include "src/net/rail_set.hpp"
#include "src/net/rendezvous.hpp"
#include "src/net/served_rails.hpp"
#include "verbena/base/random.hpp"
#include "verbena/net/group.hpp"

namespace verbena::inline VERBENA_ABI::net::detail {
namespace {

constexpr const char* rails_call = "group_rails::connect";
constexpr std::string_view rail_contacts_exchange = "verbena: contacts of rails";
constexpr std::string_view rails_ready_exchange = "verbena: rails";
// The time limit for the first message of a peer.
constexpr std::chrono::seconds time_for_opening{10};
constexpr bringup::stream_options rail_streams{.max_blob_bytes = max_rail_message_bytes};

error of_rank(std::uint32_t rank, const rail_failure& why) {
  return error::from_errno(ECONNABORTED, rails_call, fmt::format("rank {}", rank),
                           "rank " + std::to_string(rank) + " failed: " + why.reason);
}

error with_rank(error why, std::uint32_t rank) {
  return std::move(why).with_diagnosis(fmt::format("while connecting rails to rank {}", rank));
}

// Returns the bytes of a failure, or no bytes.
std::vector<std::byte> failure_of(const result<void>& what) {
  return what ? std::vector<std::byte>() : encode(rail_failure{what.error().message()});
}

}  // namespace

rail_meeting::rail_meeting(group& among, std::span<const rail_port> ports, deadline until,
                           const group_rails_options& options)
    : among_(among),
      ports_(ports),
      until_(until),
      options_(options),
      made_(std::make_unique<group_rails_state>()) {
  fill_random(token_);
  const auto members = among.members();
  made_->ranks.assign(members.begin(), members.end());
  is_served_.resize(members.size());
}

result<std::unique_ptr<group_rails_state>> rail_meeting::run() {
  VERBENA_TRY_VOID(meet(start()));
  VERBENA_TRY_VOID(confirm(connect_all()));
  acceptor_.reset();
  return std::move(made_);
}

// Starts both threads.
result<void> rail_meeting::start() {
  VERBENA_TRY_VOID(check_rails(rails_call, ports_));
  VERBENA_TRY_VOID(check_options(rails_call, options_.rails));
  std::string host = options_.host;
  if (host.empty()) {
    VERBENA_TRY(host, among_.state().client.local_host());
  }
  VERBENA_TRY(auto listener,
              open_resolved({.host = host}, until_, [](const bringup::address& each) {
                return bringup::listener::open(each, {.streams = rail_streams});
              }));
  if (is_wildcard(listener.local_address().host))
    return error::invalid_argument(
        rails_call, {},
        fmt::format("group_rails_options::host is {}, which peers cannot connect to; set an "
                    "address of this host",
                    host));
  made_->events = std::make_shared<rail_events>(ports_);
  for (std::size_t each = 0; each < made_->ranks.size(); ++each)
    made_->queues.push_back(made_->events->add_queue());
  unique_fd wake(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  unique_fd stop(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!wake || !stop) return error::from_errno(errno, "eventfd", rails_call);
  made_->passive = std::make_unique<responder_thread>(
      responder_thread::parts{.rails = {ports_.begin(), ports_.end()},
                              .wake = std::move(wake),
                              .events = options_.rails.reads_async_events ? made_->events : nullptr,
                              .ends_with_peers = false});
  VERBENA_TRY_VOID(made_->passive->start());
  constexpr std::size_t places_for_strangers = 16;
  acceptor_.emplace(
      stream_acceptor::parts{.listener = std::move(listener),
                             .stop = std::move(stop),
                             .most_sessions = made_->ranks.size() + places_for_strangers,
                             .request = "a request to connect rails",
                             .serve = [this](bringup::stream peer, bool& is_silent) {
                               return serve(std::move(peer), is_silent);
                             }});
  return acceptor_->start();
}

// Exchanges the contacts. A rank that could not start sends its failure, so that no other rank
// waits for it.
result<void> rail_meeting::meet(const result<void>& started) {
  const auto ours = started
                        ? encode(rail_contact{.rails = static_cast<std::uint32_t>(ports_.size()),
                                              .token = token_,
                                              .acceptor = acceptor_->local_address()})
                        : failure_of(started);
  auto theirs = among_.exchange(rail_contacts_exchange, ours, until_);
  if (!started) return started;
  if (!theirs) return std::move(theirs).error();
  for (const std::uint32_t rank : made_->ranks) {
    auto contact = decode_rail_contact((*theirs)[rank]);
    if (!contact) return with_rank(std::move(contact).error(), rank);
    if (const auto* const failed = std::get_if<rail_failure>(&*contact))
      return of_rank(rank, *failed);
    contacts_.push_back(std::get<rail_contact>(*std::move(contact)));
  }
  return check_contacts();
}

// All ranks have the same contacts, so all return the same error.
result<void> rail_meeting::check_contacts() const {
  std::map<std::uint32_t, std::string> ranks;  // by number of rails
  std::vector<std::string> hosts;
  for (std::size_t each = 0; each < contacts_.size(); ++each) {
    auto& text = ranks[contacts_[each].rails];
    text += (text.empty() ? "" : ", ") + std::to_string(made_->ranks[each]);
  }
  if (ranks.size() > 1) {
    std::string all;
    for (const auto& [count, which] : ranks)
      all += fmt::format("{}{} on rank {}", all.empty() ? "" : "; ", count, which);
    return error::invalid_argument(
        rails_call, {},
        "the numbers of ports differ: " + all + "; pass the same number on all ranks");
  }
  const auto is_loopback = [](const rail_contact& each) {
    return bringup::detail::is_loopback(each.acceptor.host);
  };
  const auto inside = std::ranges::find_if(contacts_, is_loopback);
  if (inside == contacts_.end() || std::ranges::all_of(contacts_, is_loopback)) return {};
  const std::uint32_t rank = made_->ranks[static_cast<std::size_t>(inside - contacts_.begin())];
  return error::protocol(
      rails_call, fmt::format("rank {}", rank),
      fmt::format("peers on other hosts cannot reach it at {}; set group_rails_options::host to an "
                  "address of its host",
                  inside->acceptor.host));
}

// Begins with the next rank, so that not all ranks connect to the same one first, and ends with
// this rank. Leaves time for the last exchange, which reports the ranks that do not answer.
result<void> rail_meeting::connect_all() {
  const auto limit = until_.is_never() ? until_ : deadline::after(until_.time_left() / 4 * 3);
  const std::size_t size = made_->ranks.size();
  const auto own = static_cast<std::size_t>(std::ranges::find(made_->ranks, among_.rank()) -
                                            made_->ranks.begin());
  std::vector<std::unique_ptr<rail_set>> sets(size);
  for (std::size_t step = 1; step <= size; ++step) {
    const std::size_t index = (own + step) % size;
    auto connected = connect(index, limit);
    if (!connected) return with_rank(std::move(connected).error(), made_->ranks[index]);
    sets[index] = *std::move(connected);
  }
  for (auto& each : sets) made_->channels.push_back(multi_rail_channel(each.release()));
  return {};
}

result<std::unique_ptr<rail_set>> rail_meeting::connect(std::size_t index, deadline limit) {
  const rail_contact& to = contacts_[index];
  VERBENA_TRY(auto with, bringup::stream::connect(to.acceptor, limit, {.stream = rail_streams}));
  const auto opening = encode(rail_opening{.token = to.token, .rank = among_.rank()});
  VERBENA_TRY_VOID(with.send(opening, limit));
  return rail_set::connect(std::move(with), ports_, limit,
                           {.options = options_.rails, .events = made_->queues[index]});
}

// Waits until all ranks have connected: afterwards each one also has its passive sides.
result<void> rail_meeting::confirm(const result<void>& connected) {
  auto theirs = among_.exchange(rails_ready_exchange, failure_of(connected), until_);
  // The store names a rank that has ended. It is the cause if this rank could not connect.
  if (!theirs && !connected)
    return std::move(theirs).error().with_diagnosis(connected.error().message());
  if (!connected) return connected;
  if (!theirs) return std::move(theirs).error();
  for (const std::uint32_t rank : made_->ranks) {
    if ((*theirs)[rank].empty()) continue;
    auto failed = decode_rail_contact((*theirs)[rank]);
    if (!failed) return with_rank(std::move(failed).error(), rank);
    if (const auto* const why = std::get_if<rail_failure>(&*failed)) return of_rank(rank, *why);
  }
  return {};
}

steps<void> rail_meeting::serve(bringup::stream peer, bool& is_silent) {
  const auto limit = verbena::detail::earliest(until_, time_for_opening);
  VERBENA_CO_TRY(const auto opening, co_await peer.receive_in_steps(limit));
  VERBENA_CO_TRY(const auto index, check_opening(opening));
  is_silent = false;
  is_served_[index] = true;
  const auto count = static_cast<std::uint32_t>(ports_.size());
  const auto ours = hello_of(rail_role::passive, count);
  VERBENA_CO_TRY(const auto theirs, co_await peer.exchange_in_steps(ours, until_));
  VERBENA_CO_TRY_VOID(check_hello(rails_call, peer.peer(), ours, theirs));
  made_->passive->add(std::make_unique<served_rails>(
      rail_control(std::move(peer), count), ports_,
      rail_responder_options{.access = options_.access,
                             .reliability = options_.rails.reliability}));
  co_return {};
}

result<std::size_t> rail_meeting::check_opening(std::span<const std::byte> opening) const {
  VERBENA_TRY(const auto found, decode_rail_opening(opening));
  const auto rank = std::ranges::find(made_->ranks, found.rank);
  if (!are_equal(found.token, token_) || rank == made_->ranks.end())
    return error::protocol(rails_call, {},
                           "the token or the rank of the request is wrong: the sender is not a "
                           "rank of this group; check that no other program uses this port");
  const auto index = static_cast<std::size_t>(rank - made_->ranks.begin());
  if (is_served_[index])
    return error::protocol(rails_call, {},
                           fmt::format("rank {} has connected its rails already", found.rank));
  return index;
}

}  // namespace verbena::inline VERBENA_ABI::net::detail
