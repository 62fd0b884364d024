// SPDX-License-Identifier: MIT
// How two processes become peers. Whoever needs the other connects to its slot and says hello; the
// other answers hello on the same connection. When both connect at once, the connection that the
// lower slot made wins: its owner closes the other one unanswered, and whoever loses a connection
// before the hello tries again until it has been reached. A connection with a hello is never given
// up: the other side may take it from its backlog at any time and is paired from then on.
#include <sys/epoll.h>

#include <algorithm>
#include <bit>
#include <cerrno>

#include "softdev/peers/link_service.hpp"

namespace verbena::softdev {

namespace {
// Whether connecting to a slot may succeed later, so that its holder is only unknown.
bool is_temporary(int error) noexcept {
  return error != 0 && error != ECONNREFUSED && error != EACCES;
}
}  // namespace

void link::watch_socket(peer& of, std::uint32_t events, int operation) {
  epoll_event event{};
  event.events = events;
  event.data.u64 = tag_of(event_source::peer_socket, of.slot());
  ::epoll_ctl(epoll_.get(), operation, of.socket_.get(), &event);
}

void link::start_connections(time_point now) {
  for (auto& each : peers_.take_new()) {
    each->deadline_ = now + options_.pairing_timeout;
    connecting_.push_back(std::move(each));
  }
  for (const auto& each : connecting_) {
    if (each->state() != peer_state::connecting) continue;
    if (each->is_overdue() && now < each->deadline_) continue;
    if (!each->socket_) {
      start_connection(each);
    } else if (each->hello_waits_) {
      say_hello(each);
    }
  }
  std::erase_if(connecting_,
                [](const auto& each) { return each->state() != peer_state::connecting; });
}

void link::start_connection(const std::shared_ptr<peer>& to) {
  socket_or_error made = connect_to_slot(to->slot());
  switch (made.error) {
    case 0:
      break;
    case EAGAIN:
    case EINTR:
      return;  // its backlog is full: again in the next turn
    case ECONNREFUSED:
      return requests_.end(*to, peer_end::nobody_there);
    case EACCES:
      return requests_.end(*to, peer_end::other_user);
    default:
      return requests_.end(*to, peer_end::out_of_resources);
  }
  if (!prepare_pair(*to)) return requests_.end(*to, peer_end::out_of_resources);
  hellos_out_.store(true, std::memory_order_seq_cst);
  to->socket_ = std::move(made.socket);
  watch_socket(*to, EPOLLIN, EPOLL_CTL_ADD);
  say_hello(to);
}

/// Sends the hello, now or in a later turn. If it answers the peer's hello, they are paired then.
void link::say_hello(const std::shared_ptr<peer>& to) {
  const send_status sent = send_hello(*to);
  to->hello_waits_ = sent == send_status::full;
  if (sent == send_status::closed) return lost_while_connecting(*to);
  if (sent == send_status::sent && to->takes_records()) finish_pairing(to, peer_end::none);
}

/// The connection ended before both had said hello. If the peer has not said it, it may have
/// another connection. If it has said it, it waits for ours while it lives.
void link::lost_while_connecting(peer& from) {
  from.hello_waits_ = false;
  if (from.takes_records()) return requests_.end(from, peer_end::exited);
  from.socket_.reset();
}

bool link::prepare_pair(peer& with) {
  // A new end each time: the last hello may have reached another process.
  auto wake = wake_->admit(&with);
  if (!wake) return false;
  with.own_wake_ = *std::move(wake);
  if (with.own_map_.size() != 0) return true;
  auto memory =
      create_sealed("verbena-pair", pair_ring_offset + options_.ring_bytes, sealed_for::owner_only);
  if (!memory) return false;
  with.own_pair_fd_ = std::move(memory->fd);
  with.own_map_ = std::move(memory->map);
  auto& header = with.own_pair();
  header.version.store(layout_version, std::memory_order_relaxed);
  header.ring_bytes.store(options_.ring_bytes, std::memory_order_relaxed);
  header.magic.store(segment_magic, std::memory_order_release);
  return true;
}

send_status link::send_hello(peer& to) {
  // The addresses are in this process; the peer tries its routes on them.
  const auto source = reinterpret_cast<std::uintptr_t>(&probe_words_[0]);
  const auto sink = reinterpret_cast<std::uintptr_t>(&probe_words_[1]);
  link_message hello{.kind = message_kind::hello, .probe = {source, probe_words_[0], sink}};
  hello.version = layout_version;
  hello.slot = slot();
  hello.generation = generation_;
  hello.ring_bytes = options_.ring_bytes;
  std::array<int, 4> descriptors{};
  descriptors[hello_public] = segment_->fd();
  descriptors[hello_pair] = to.own_pair_fd_.get();
  descriptors[hello_doorbell] = doorbell_.fd.get();
  descriptors[hello_wake] = to.own_wake_.get();
  return send_message(to.socket_.get(), hello, descriptors);
}

void link::accept_connections(time_point now) {
  for (std::size_t turn = 0; turn < max_pending_sockets; ++turn) {
    unique_fd socket = claim_.accept();
    if (!socket) return;
    const pid_t pid = identify_peer(socket.get()).pid;
    const auto waiting = std::ranges::count(pending_, pid, [](const auto& e) { return e->pid; });
    if (pending_.size() >= max_pending_sockets || (pid != 0 && waiting >= max_pending_of_process)) {
      requests_.count_refused_connection();
      continue;
    }
    auto made = std::make_unique<pending_socket>();
    made->socket = std::move(socket);
    made->pid = pid;
    made->number = next_pending_++;
    made->give_up_at = now + options_.pairing_timeout;
    epoll_event event{};
    event.events = EPOLLIN;
    event.data.u64 = tag_of(event_source::pending, made->number);
    if (::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, made->socket.get(), &event) != 0) continue;
    pending_.push_back(std::move(made));
    read_pending(*pending_.back(), now);
  }
}

void link::read_pending(pending_socket& from, time_point now) {
  received_message got = receive_message(from.socket.get());
  if (got.status == receive_status::empty) return;
  const bool hello =
      got.status == receive_status::received && got.message.kind == message_kind::hello;
  if (hello && got.message.version == layout_version) {
    adopt(from, got, now);
  } else if (hello) {
    const link_message refusal{.kind = message_kind::refuse_version, .id = layout_version};
    static_cast<void>(send_message(from.socket.get(), refusal, {}));
    requests_.count_refused_connection();
  } else if (got.status != receive_status::closed) {
    requests_.count_broken_message();
  }
  from.socket.reset();  // adopt has taken it, or it is refused
  std::erase_if(pending_, [&](const auto& each) { return each.get() == &from; });
}

void link::adopt(pending_socket& from, received_message& hello, time_point now) {
  const std::uint32_t other = hello.message.slot;
  if (other >= slot_count || other == slot()) {
    requests_.count_broken_message();
    return;
  }
  std::shared_ptr<peer> known = find(other);
  if (known && known->socket_) {
    read_peer(known, now);  // maybe it is gone, or has answered in the meantime
    if (known->state() == peer_state::paired) {
      const bool again = known->generation_ == hello.message.generation;
      if (!again) requests_.count_refused_connection();
      return;  // a successor in the same slot tries again when the last records are received
    }
    if (known->state() == peer_state::connecting && known->socket_ && slot() < other) return;
  }
  // The slot is what the other one says; the name is what it must hold.
  const slot_holder holder = find_slot_holder(other);
  if (holder.error != 0 || holder.pid != from.pid) {
    const bool later = is_temporary(holder.error);  // the other one tries again, too
    later ? requests_.count_refused_connection() : requests_.count_broken_message();
    return;
  }
  if (!known || known->state() == peer_state::dead) {
    // Other threads call connect() meanwhile: whoever comes second takes what is in the table.
    known = peers_.find_or_make(other).of;
  }
  if (!prepare_pair(*known)) return requests_.end(*known, peer_end::out_of_resources);
  known->socket_ = std::move(from.socket);
  watch_socket(*known, EPOLLIN, EPOLL_CTL_MOD);
  // From its hello on, the other one is paired, and expects to get what we send.
  if (const peer_end failed = pair_with(*known, hello); failed != peer_end::none) {
    static_cast<void>(send_hello(*known));
    return finish_pairing(known, failed);
  }
  say_hello(known);
  if (known->state() != peer_state::connecting) return;
  known->deadline_ = now + options_.pairing_timeout;
  if (std::ranges::find(connecting_, known) == connecting_.end()) connecting_.push_back(known);
}

bool link::has_too_many_links(pid_t pid, const peer& next) const {
  const auto all = peers_.all();
  const auto inside = std::ranges::count_if(all, [&](const auto& each) {
    return pid != 0 && each->pid() == pid && each->may_write_late();
  });
  if (inside >= max_times_inside) return true;
  const auto of_process = std::ranges::count_if(all, [&](const auto& each) {
    return each.get() != &next && each->pid() == pid && each->their_map_.size() != 0;
  });
  const std::uint32_t most = pid == 0 ? options_.links_without_pid : options_.links_per_process;
  return of_process >= static_cast<std::ptrdiff_t>(most);
}

void link::finish_pairing(const std::shared_ptr<peer>& with, peer_end why) {
  if (why != peer_end::none) {
    if (why == peer_end::broken_protocol) {
      requests_.count_broken_message();
    }
    return requests_.end(*with, why);
  }
  with->own_pair_fd_.reset();
  with->own_wake_.reset();
  with->state_.store(peer_state::paired, std::memory_order_release);
  receiver_->start(with);
  ++events_;
  if (with->watch_.fd() < 0) return;
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.u64 = tag_of(event_source::peer_process, with->slot());
  ::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, with->watch_.fd(), &event);
}

peer_end link::pair_with(peer& with, received_message& hello) {
  const link_message& said = hello.message;
  auto& fds = hello.descriptors;
  const bool sound =
      said.slot == with.slot() && std::has_single_bit(said.ring_bytes) &&
      said.ring_bytes >= min_ring_bytes && said.ring_bytes <= max_ring_bytes &&
      is_sealed_memory(fds[hello_public].get(), public_segment_bytes, sealed_for::owner_only) &&
      is_sealed_memory(fds[hello_pair].get(), pair_ring_offset + said.ring_bytes,
                       sealed_for::owner_only) &&
      is_sealed_memory(fds[hello_doorbell].get(), segment_page, sealed_for::everybody) &&
      is_wake_socket(fds[hello_wake].get());
  if (!sound) return peer_end::broken_protocol;
  const pid_t pid = identify_peer(with.socket_.get()).pid;
  with.pid_ = pid;
  if (has_too_many_links(pid, with)) return peer_end::too_many_links;
  auto segment = map_shared(fds[hello_public].get(), public_segment_bytes, map_access::read_only);
  auto pair =
      map_shared(fds[hello_pair].get(), pair_ring_offset + said.ring_bytes, map_access::read_only);
  auto doorbell = map_shared(fds[hello_doorbell].get(), segment_page, map_access::read_write);
  if (!segment || !pair || !doorbell) return peer_end::out_of_resources;
  with.segment_ = peer_segment(*std::move(segment));
  with.their_map_ = *std::move(pair);
  with.doorbell_ = *std::move(doorbell);
  const public_header& header = with.segment_.header();
  const bool known = header.magic.load(std::memory_order_acquire) == segment_magic &&
                     header.generation.load(std::memory_order_relaxed) == said.generation &&
                     with.their_pair().magic.load(std::memory_order_acquire) == segment_magic;
  if (!known) return peer_end::broken_protocol;

  with.generation_ = said.generation;
  with.watch_ = process_watch(pid);
  if (with.watch_.exited()) return peer_end::exited;
  if (options_.route == route_policy::automatic && pid > 0) {
    with.routes_ = probe_copy(pid, said.probe);
  }
  with.wake_ = std::move(fds[hello_wake]);
  const std::span own(with.own_map_.data() + pair_ring_offset, options_.ring_bytes);
  const std::span theirs(with.their_map_.data() + pair_ring_offset, said.ring_bytes);
  with.producer_ = ring_producer(own, with.own_pair().published, with.their_pair().consumed_bytes);
  with.consumer_ =
      ring_consumer(theirs, with.their_pair().published, with.own_pair().consumed_bytes);
  with.max_record_ = max_record_bytes(options_.ring_bytes);
  with.has_ring_.store(true, std::memory_order_release);
  return peer_end::none;
}

}  // namespace verbena::softdev
