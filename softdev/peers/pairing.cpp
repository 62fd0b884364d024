// SPDX-License-Identifier: MIT
#include "softdev/peers/pairing.hpp"

#include <algorithm>
#include <bit>
#include <cerrno>
#include <new>
#include <span>
#include <utility>

namespace verbena::softdev {

using namespace std::chrono_literals;

namespace {

constexpr std::size_t max_pending_sockets = 64;
/// The limit per process: a process that sends no hello must not exclude others.
constexpr std::ptrdiff_t max_pending_of_process = 16;
/// A process gets no further pairing after this number of its pairings ended because it stayed in
/// an active section.
constexpr std::ptrdiff_t max_times_inside = 3;
constexpr auto retry_interval = 1ms;
/// The retry interval for an overdue process: it is probably stopped.
constexpr auto overdue_interval = 100ms;

// Returns whether connecting to the slot may succeed later. Until then, its holder is unknown.
bool is_temporary(int error) noexcept {
  return error != 0 && error != ECONNREFUSED && error != EACCES;
}

}  // namespace

/// An accepted connection that waits for its hello.
struct pairing::pending_socket {
  unique_fd socket;
  pid_t pid = 0;
  std::uint32_t number = 0;
  time_point give_up_at;
};

pairing::pairing(const options& how) : how_(how) {}
pairing::~pairing() = default;

void pairing::start(time_point now) {
  const std::size_t known = connecting_.size();
  how_.peers.take_new(connecting_);
  for (const auto& each : std::span(connecting_).subspan(known))
    each->parts().service.deadline = now + how_.own.options.pairing_timeout;
  for (const auto& each : connecting_) {
    if (each->state() != peer_state::connecting) continue;
    if (each->is_overdue() && now < each->parts().service.deadline) continue;
    if (!each->parts().messages.connected()) {
      start_one(each);
    } else if (each->parts().service.hello_waits) {
      say_hello(each);
    }
  }
  std::erase_if(connecting_,
                [](const auto& each) { return each->state() != peer_state::connecting; });
}

void pairing::start_one(const std::shared_ptr<peer>& to) {
  socket_or_error made = connect_to_slot(to->slot());
  switch (made.error) {
    case 0:
      break;
    case EAGAIN:
    case EINTR:
      return;  // its backlog is full: the next turn tries again
    case ECONNREFUSED:
      return how_.requests.end(*to, peer_end::no_process);
    case EACCES:
      return how_.requests.end(*to, peer_end::other_user);
    default:
      return how_.requests.end(*to, peer_end::out_of_resources);
  }
  if (!to->parts().memory.create(how_.own.options.ring_bytes))
    return how_.requests.end(*to, peer_end::out_of_resources);
  hellos_out_.store(true, std::memory_order_seq_cst);
  to->parts().messages.connect(std::move(made.socket));
  to->parts().service.hello_waits = true;
  how_.watch.watch_socket(*to, reactor::wanted::readable);
  say_hello(to);
}

/// Sends the hello, now or in a later turn. If it answers the peer's hello, completes the pairing.
void pairing::say_hello(const std::shared_ptr<peer>& to) {
  const send_status sent = how_.own.send_hello(to->parts());
  to->parts().service.hello_waits = sent == send_status::full || sent == send_status::delayed;
  if (sent == send_status::closed) return lost(*to);
  if (sent == send_status::sent && to->takes_records()) finish(to, peer_end::none);
}

/// Handles the end of a connection before both hellos were sent. If the peer has sent no hello, it
/// may have another connection. If it has sent one, it would wait for ours, so it has exited.
void pairing::lost(peer& from) {
  from.parts().service.hello_waits = false;
  if (from.takes_records()) return how_.requests.end(from, peer_end::exited);
  from.parts().messages.disconnect();
}

void pairing::accept(time_point now) {
  for (std::size_t turn = 0; turn < max_pending_sockets; ++turn) {
    unique_fd socket = how_.own.claim.accept();
    if (!socket) return;
    const pid_t pid = identify_peer(socket.get()).pid;
    const auto waiting = std::ranges::count(pending_, pid, [](const auto& e) { return e->pid; });
    if (pending_.size() >= max_pending_sockets || (pid != 0 && waiting >= max_pending_of_process)) {
      how_.requests.count_refused_connection();
      continue;
    }
    auto made = std::make_unique<pending_socket>();
    made->socket = std::move(socket);
    made->pid = pid;
    made->number = next_pending_++;
    made->give_up_at = now + how_.own.options.pairing_timeout;
    if (how_.watch.add_pending(made->socket.get(), made->number) != 0) continue;
    pending_.push_back(std::move(made));
    read_hello(*pending_.back(), now);
  }
}

void pairing::read_hello(pending_socket& from, time_point now) {
  received_message got = receive_message(from.socket.get());
  if (got.status == receive_status::empty) return;
  const bool hello =
      got.status == receive_status::received && got.message.kind == message_kind::hello;
  if (hello && got.message.version == layout_version) {
    try {
      adopt(from, got, now);
    } catch (const std::bad_alloc&) {
      how_.requests.count_refused_connection();  // the peer tries again
    }
  } else if (hello) {
    const link_message refusal{.kind = message_kind::refuse_version, .id = layout_version};
    static_cast<void>(send_message(from.socket.get(), refusal, {}));
    how_.requests.count_refused_connection();
  } else if (got.status != receive_status::closed) {
    how_.requests.count_broken_message();
  }
  from.socket.reset();  // adopt() has moved it, or it is refused
  std::erase_if(pending_, [&](const auto& each) { return each.get() == &from; });
}

void pairing::adopt(pending_socket& from, received_message& hello, time_point now) {
  const std::uint32_t other = hello.message.slot;
  if (other >= slot_count || other == how_.own.slot()) {
    how_.requests.count_broken_message();
    return;
  }
  std::shared_ptr<peer> known = how_.peers.find(other);
  if (known && known->parts().messages.connected()) {
    how_.observer.read_peer(known, now);  // it may have exited or answered
    if (known->state() == peer_state::paired) {
      const bool again = known->parts().process.generation() == hello.message.generation;
      if (!again) how_.requests.count_refused_connection();
      return;  // a successor in the slot tries again until the last records were received
    }
    if (known->state() == peer_state::connecting && known->parts().messages.connected() &&
        how_.own.slot() < other)
      return;
  }
  // The slot in the hello is only a claim: the sender must hold the name of the slot.
  const slot_holder holder = find_slot_holder(other);
  if (holder.error != 0 || holder.pid != from.pid) {
    const bool later = is_temporary(holder.error);  // the peer tries again, too
    later ? how_.requests.count_refused_connection() : how_.requests.count_broken_message();
    return;
  }
  connecting_.reserve(connecting_.size() + 1);
  if (!known || known->state() == peer_state::dead) {
    // If another thread calls connect() at the same time, both get the same peer.
    known = how_.peers.find_or_make(other).of;
  }
  if (!known->parts().memory.create(how_.own.options.ring_bytes))
    return how_.requests.end(*known, peer_end::out_of_resources);
  known->parts().messages.connect(std::move(from.socket));
  how_.watch.watch_socket(*known, reactor::wanted::readable);
  // Before our hello is sent: with that hello, the other process is paired and expects our records.
  if (const peer_end failed = pair_with(*known, hello); failed != peer_end::none) {
    static_cast<void>(how_.own.send_hello(known->parts()));
    return finish(known, failed);
  }
  say_hello(known);
  if (known->state() != peer_state::connecting) return;
  known->parts().service.deadline = now + how_.own.options.pairing_timeout;
  if (std::ranges::find(connecting_, known) == connecting_.end()) connecting_.push_back(known);
}

bool pairing::has_too_many_links(pid_t pid, const peer& next) const {
  const auto all = how_.peers.all();
  const auto inside = std::ranges::count_if(all, [&](const auto& each) {
    return pid != 0 && each->pid() == pid && each->may_write_late();
  });
  if (inside >= max_times_inside) return true;
  const auto of_process = std::ranges::count_if(all, [&](const auto& each) {
    return each.get() != &next && each->pid() == pid && each->parts().memory.has_theirs();
  });
  const std::uint32_t most =
      pid == 0 ? how_.own.options.links_without_pid : how_.own.options.links_per_process;
  return of_process >= static_cast<std::ptrdiff_t>(most);
}

void pairing::finish(const std::shared_ptr<peer>& with, peer_end why) {
  if (why != peer_end::none) {
    if (why == peer_end::broken_protocol) {
      how_.requests.count_broken_message();
    }
    return how_.requests.end(*with, why);
  }
  with->parts().memory.close_descriptor();
  with->parts().status.set_paired();
  how_.receiver.start(with);
  how_.requests.count_change(*with);
  how_.watch.watch_process(*with);
}

peer_end pairing::pair_with(peer& with, received_message& hello) try {
  const link_message& said = hello.message;
  auto& fds = hello.descriptors;
  const bool sound =
      said.slot == with.slot() && std::has_single_bit(said.ring_bytes) &&
      said.ring_bytes >= min_ring_bytes && said.ring_bytes <= max_ring_bytes &&
      is_sealed_memory(fds[hello_public].get(), public_segment_bytes, sealed_for::owner_only) &&
      is_sealed_memory(fds[hello_pair].get(), pair_ring_offset + said.ring_bytes,
                       sealed_for::owner_only) &&
      is_sealed_memory(fds[hello_doorbell].get(), segment_page, sealed_for::everybody);
  if (!sound) return peer_end::broken_protocol;
  peer_parts& parts = with.parts();
  const pid_t pid = identify_peer(parts.messages.fd()).pid;
  parts.process.set_pid(pid);
  if (has_too_many_links(pid, with)) return peer_end::too_many_links;
  auto segment = map_shared(fds[hello_public].get(), public_segment_bytes, map_access::read_only);
  auto pair =
      map_shared(fds[hello_pair].get(), pair_ring_offset + said.ring_bytes, map_access::read_only);
  auto doorbell = map_shared(fds[hello_doorbell].get(), segment_page, map_access::read_write);
  if (!segment || !pair || !doorbell) return peer_end::out_of_resources;
  parts.memory.set_theirs(peer_segment(*std::move(segment)), *std::move(pair),
                          *std::move(doorbell));
  const public_header& header = with.segment().header();
  const bool known = header.magic.load(std::memory_order_acquire) == segment_magic &&
                     header.generation.load(std::memory_order_relaxed) == said.generation &&
                     parts.memory.theirs().magic.load(std::memory_order_acquire) == segment_magic;
  if (!known) return peer_end::broken_protocol;

  parts.process.begin_watch(said.generation);
  if (parts.process.watch().exited()) return peer_end::exited;
  if (how_.own.options.route == route_policy::automatic && pid > 0)
    parts.process.find_routes(said.probe);
  parts.sends.open(how_.own.options.ring_bytes);
  parts.receives.open(said.ring_bytes);
  parts.status.set_has_ring();
  return peer_end::none;
} catch (const std::bad_alloc&) {
  return peer_end::out_of_resources;
}

bool pairing::answered(const std::shared_ptr<peer>& from, received_message& got) {
  if (got.message.kind == message_kind::refuse_version ||
      (got.message.kind == message_kind::hello && got.message.version != layout_version)) {
    how_.requests.end(*from, peer_end::other_version);
    return true;
  }
  // A second hello would replace the memory that other threads use.
  if (got.message.kind != message_kind::hello || from->takes_records()) return false;
  finish(from, pair_with(*from, got));
  return true;
}

void pairing::expire(time_point now) {
  for (const auto& each : connecting_) {
    if (each->state() != peer_state::connecting || now < each->parts().service.deadline) continue;
    each->parts().service.deadline = now + overdue_interval;
    if (each->parts().status.set_overdue()) how_.requests.count_change(*each);
  }
  std::erase_if(connecting_,
                [](const auto& each) { return each->state() != peer_state::connecting; });
  std::erase_if(pending_, [&](const auto& each) { return now >= each->give_up_at; });
}

void pairing::read_pending(std::uint32_t number, time_point now) {
  const auto at =
      std::ranges::find_if(pending_, [&](const auto& each) { return each->number == number; });
  if (at != pending_.end()) read_hello(**at, now);
}

void pairing::update_hellos_out() noexcept {
  hellos_out_.store(std::ranges::any_of(
                        connecting_, [](const auto& e) { return e->parts().messages.connected(); }),
                    std::memory_order_seq_cst);
}

std::optional<pairing::time_point> pairing::next_deadline(time_point now) const {
  std::optional<time_point> next;
  const auto at_latest = [&](time_point when) {
    if (!next || when < *next) next = when;
  };
  for (const auto& each : connecting_) {
    const bool waits_here =
        !each->parts().messages.connected() || each->parts().service.hello_waits;
    if (!each->is_overdue())
      at_latest(waits_here ? now + retry_interval : each->parts().service.deadline);
    if (each->is_overdue() && waits_here) at_latest(each->parts().service.deadline);
  }
  for (const auto& each : pending_) at_latest(each->give_up_at);
  return next;
}

}  // namespace verbena::softdev
