// SPDX-License-Identifier: MIT
#include "softdev/wire/socket/port_share.hpp"

#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <new>
#include <optional>
#include <utility>

#include "softdev/core/process_slot.hpp"
#include "softdev/ipc/local_socket.hpp"
#include "softdev/ipc/network_namespace.hpp"

namespace verbena::softdev::wire {
namespace {

constexpr int backlog = 128;
/// The maximum number of connections that one call accepts.
constexpr int most_admitted = 64;
/// The maximum number of connections of other users that one call closes.
constexpr int most_skipped = 128;
/// The maximum number of clients that have not registered.
constexpr std::size_t max_unregistered = 256;
constexpr std::uint64_t listener_number = 0;
constexpr std::uint64_t events_number = 0;
constexpr std::uint64_t source_number = 1;

/// The pause after events of clients, so that short-lived processes do not keep a thread awake.
constexpr time_ns rest_after_events = 1'000'000;
/// The pause after a failed accept (EMFILE), or after connections of other users, who can connect
/// without limit. It limits their processor time to a few percent.
constexpr time_ns pause_after_failed_accept = 20'000'000;

/// The first message of a client. The answer of the owner has the same slot, and the owner's key.
struct registration {
  static constexpr std::uint32_t expected = 0x56'57'50'34;
  std::uint32_t magic = expected;
  std::uint32_t slot = 0;
  std::uint64_t key = 0;
};

/// An answer as a message with room for one descriptor. Refers to `said`.
class answer_message {
 public:
  explicit answer_message(registration& said) noexcept : data_{&said, sizeof said} {
    header.msg_iov = &data_;
    header.msg_iovlen = 1;
    header.msg_control = control_.data();
    header.msg_controllen = control_.size();
  }
  answer_message(const answer_message&) = delete;
  answer_message& operator=(const answer_message&) = delete;

  msghdr header{};

 private:
  alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(int))> control_{};
  iovec data_;
};

/// Sends an answer with a descriptor. Returns false if it was not sent.
bool send_answer(int client, registration said, int socket) noexcept {
  answer_message message(said);
  cmsghdr* const part = CMSG_FIRSTHDR(&message.header);
  part->cmsg_level = SOL_SOCKET;
  part->cmsg_type = SCM_RIGHTS;
  part->cmsg_len = CMSG_LEN(sizeof socket);
  std::memcpy(CMSG_DATA(part), &socket, sizeof socket);
  constexpr int flags = MSG_DONTWAIT | MSG_NOSIGNAL;
  if (::sendmsg(client, &message.header, flags) == sizeof said) return true;
  // ETOOMANYREFS: too many descriptors of this user are in flight. The answer then has no
  // descriptor.
  return errno == ETOOMANYREFS && ::send(client, &said, sizeof said, flags) == sizeof said;
}

/// Receives an answer, and its descriptor if it has one. An answer of another program can have more
/// descriptors, for which the message has room because of its alignment: closes all of them.
/// Returns the result of recvmsg(2).
ssize_t receive_answer(int owner, registration& said, unique_fd& socket) noexcept {
  answer_message message(said);
  const ssize_t bytes = ::recvmsg(owner, &message.header, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
  if (bytes < 0) return bytes;
  std::size_t count = 0;
  for (cmsghdr* part = CMSG_FIRSTHDR(&message.header); part != nullptr;
       part = CMSG_NXTHDR(&message.header, part)) {
    if (part->cmsg_level != SOL_SOCKET || part->cmsg_type != SCM_RIGHTS) continue;
    const std::size_t end = part->cmsg_len - CMSG_LEN(0);
    for (std::size_t at = 0; at + sizeof(int) <= end; at += sizeof(int)) {
      int fd = -1;
      std::memcpy(&fd, CMSG_DATA(part) + at, sizeof fd);
      socket.reset(fd);
      ++count;
    }
  }
  if (count > 1) socket.reset();
  return bytes;
}

epoll_event event_of(std::uint64_t number, std::uint32_t events) noexcept {
  epoll_event made{};
  made.events = events;
  made.data.u64 = number;
  return made;
}

bool watch(int epoll, int fd, std::uint64_t number, std::uint32_t events) noexcept {
  epoll_event event = event_of(number, events);
  return ::epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event) == 0;
}

void rewatch(int epoll, int fd, std::uint64_t number, std::uint32_t events) noexcept {
  epoll_event event = event_of(number, events);
  ::epoll_ctl(epoll, EPOLL_CTL_MOD, fd, &event);
}

error failure(int code, const char* call, std::uint16_t port, const char* diagnosis = "") {
  return error::from_errno(code, call, "UDP port " + std::to_string(port) + " of soft0", diagnosis);
}

/// `its` and `own` are the fingerprints of the two keys, or 0.
error other_key(pid_t owner, std::uint16_t port, std::uint64_t its, std::uint64_t own) {
  std::string text = "the process that owns the port";
  if (owner != 0) text += " (pid " + std::to_string(owner) + ")";
  if (its == 0) {
    text += " was started without VERBENA_SOFTDEV_WIRE_KEY_FILE, this one with it";
  } else if (own == 0) {
    text += " was started with VERBENA_SOFTDEV_WIRE_KEY_FILE, this one without it";
  } else {
    text +=
        " has another key: it was started with another VERBENA_SOFTDEV_WIRE_KEY_FILE, or before "
        "the content of the file changed (a process reads the file once)";
  }
  text +=
      "; processes of one user that share the port need the same key: end that process, or set "
      "VERBENA_SOFTDEV_WIRE_PORT to another port";
  return failure(EADDRINUSE, "connect", port, text.c_str());
}

error moved_away(std::uint16_t port) {
  return failure(ENETUNREACH, "bind", port,
                 "this thread has changed its network namespace (setns, unshare) since the process "
                 "first used the port, which belongs to the former namespace; use soft0 from a "
                 "thread in that namespace, or start another process in the new one");
}

error in_use(const char* call, std::uint16_t port) {
  return failure(EADDRINUSE, call, port,
                 "another program or another user has the port on which soft0 receives packets of "
                 "other hosts; the kernel's rxe has 4791 (\"rdma link delete\" frees it). Set "
                 "VERBENA_SOFTDEV_WIRE_PORT to the same other port on all hosts");
}

}  // namespace

// Any user can bind the name, but any user can also bind the port, so a protected name would not
// increase security.
port_share::meeting_place::meeting_place(std::uint16_t port) noexcept
    : name("verbena-wire.%u.%u", static_cast<unsigned>(::geteuid()), static_cast<unsigned>(port)),
      network(find_network_namespace()) {}

port_share::port_share(unique_fd gate, unique_fd events, std::uint16_t port,
                       std::uint32_t process_slot, std::uint64_t key) noexcept
    : gate_(std::move(gate)),
      events_(std::move(events)),
      own_{.port = port, .slot = process_slot, .key = key, .place = std::nullopt} {}

result<port_share> port_share::open(std::uint16_t port, std::uint32_t process_slot,
                                    std::uint64_t key) {
  unique_fd gate(::epoll_create1(EPOLL_CLOEXEC));
  unique_fd events(::epoll_create1(EPOLL_CLOEXEC));
  if (!gate || !events) return failure(errno, "epoll_create1", port);
  if (!watch(gate.get(), events.get(), events_number, EPOLLIN))
    return failure(errno, "epoll_ctl", port);
  return port_share(std::move(gate), std::move(events), port, process_slot, key);
}

result<port_share::role> port_share::join() {
  if (role_ != role::none) return role_;
  if (asked_) return read_answer();
  const meeting_place here(own_.port);
  if (own_.place && is_other_network(own_.place->network, here.network))
    return moved_away(own_.port);
  const meeting_place place = own_.place.value_or(here);
  socket_or_error made = new_local_socket();
  if (made.error != 0) return failure(made.error, "socket", own_.port);
  if (::bind(made.socket.get(), place.name.get(), place.name.length()) == 0) {
    VERBENA_TRY_VOID(become_owner(std::move(made.socket)));
    return begin(role::owner, place);
  }
  if (errno != EADDRINUSE) return failure(errno, "bind", own_.port);
  made = connect_to_name(place.name);
  switch (made.error) {
    case 0:
      return register_at(std::move(made.socket), place);
    case ECONNREFUSED:  // it is not listening yet, or has ended
    case EAGAIN:        // many processes are registering
      return role::none;
    case EACCES:
      return in_use("connect", own_.port);
    default:
      return failure(made.error, "connect", own_.port);
  }
}

/// Opens the UDP socket, unless an earlier owner has given its socket to this process: that socket
/// may contain datagrams.
result<void> port_share::open_socket() {
  if (socket_.fd() >= 0) return {};
  auto made = udp_socket::open(own_.port, udp_socket::use::receiving);
  if (!made && made.error().code() == EADDRINUSE) return in_use("bind", own_.port);
  if (!made) return std::move(made).error();
  socket_ = *std::move(made);
  socket_.enable_gro();
  return {};
}

result<void> port_share::become_owner(unique_fd listener) {
  VERBENA_TRY_VOID(open_socket());
  const bool listens = ::listen(listener.get(), backlog) == 0;
  if (!listens || !watch(events_.get(), listener.get(), listener_number, EPOLLIN)) {
    const int code = errno;
    socket_.close();  // another process can become the owner
    return failure(code, listens ? "epoll_ctl" : "listen", own_.port);
  }
  listener_ = std::move(listener);
  return {};
}

/// Begins a role. The process keeps the meeting place of its first role: if it met the others
/// elsewhere after a change of its user, two processes could become owners of one socket.
port_share::role port_share::begin(role next, const meeting_place& at) noexcept {
  if (!own_.place) own_.place = at;
  role_ = next;
  watch_source();
  return role_;
}

/// The listener of a stopped or ending process still accepts connections. Only an answer shows that
/// the process forwards datagrams.
result<port_share::role> port_share::register_at(unique_fd owner, const meeting_place& at) {
  const registration mine{.slot = own_.slot, .key = own_.key};
  if (::send(owner.get(), &mine, sizeof mine, MSG_NOSIGNAL) != sizeof mine) return role::none;
  asked_ = std::move(owner);
  asked_at_ = at;
  return read_answer();
}

result<port_share::role> port_share::read_answer() {
  registration said;
  unique_fd socket;
  const ssize_t bytes = receive_answer(asked_.get(), said, socket);
  if (bytes < 0 && (errno == EAGAIN || errno == EINTR)) return role::none;
  unique_fd owner = std::exchange(asked_, {});
  if (bytes != sizeof said || said.magic != registration::expected) return role::none;
  if (said.key != own_.key)
    return other_key(identify_peer(owner.get()).pid, own_.port, said.key, own_.key);
  // The answer may lack the descriptor. A socket of an earlier owner is the same one.
  if (auto adopted = udp_socket::adopt(std::move(socket), own_.port)) socket_ = *std::move(adopted);
  owner_ = std::move(owner);
  return begin(role::client, *asked_at_);
}

bool port_share::is_bound_elsewhere(const error& why) noexcept {
  return why.code() == EADDRINUSE && why.call() == "bind";
}

pid_t port_share::asked_process() const noexcept {
  return asked_ ? identify_peer(asked_.get()).pid : 0;
}

/// Errors are ignored: without this descriptor, a wait only takes longer.
void port_share::watch_source() noexcept {
  static_cast<void>(watch(gate_.get(), source(), source_number, 0));
}

void port_share::arm(bool wanted) noexcept {
  if (role_ == role::none) return;
  rewatch(gate_.get(), source(), source_number, wanted ? std::uint32_t{EPOLLIN} : 0);
}

void port_share::leave() noexcept {
  clients_.clear();
  by_slot_.clear();
  listener_.reset();
  owner_.reset();
  asked_.reset();
  role_ = role::none;
  pause_until(never);
}

void port_share::serve(time_ns now) noexcept {
  if (role_ != role::owner || (accept_failed_ && now < serve_at_)) return;
  std::array<epoll_event, 16> found;
  const int count = ::epoll_wait(events_.get(), found.data(), static_cast<int>(found.size()), 0);
  accept_failed_ = false;
  for (int i = 0; i < count; ++i) {
    const std::uint64_t number = found[static_cast<std::size_t>(i)].data.u64;
    if (number == listener_number)
      accept_failed_ = !admit();
    else
      read_registration(number);
  }
  const time_ns rest = accept_failed_ ? pause_after_failed_accept : rest_after_events;
  pause_until(count > 0 ? now + rest : never);
}

/// Has `gate_` report no events until `when`.
void port_share::pause_until(time_ns when) noexcept {
  const bool rested = serve_at_ != never;
  const bool rests = when != never;
  serve_at_ = when;
  if (rested != rests)
    rewatch(gate_.get(), events_.get(), events_number, rests ? 0 : std::uint32_t{EPOLLIN});
}

/// Returns false if a connection could not be accepted, or if another user has connected.
bool port_share::admit() noexcept {
  for (int i = 0; i < most_admitted; ++i) {
    accepted_socket made = accept_own_user(listener_.get(), most_skipped);
    if (made.error != 0) return made.error == EAGAIN && made.skipped == 0;
    if (!admit_one(std::move(made.socket)) || made.skipped != 0) return false;
  }
  return true;
}

/// Returns false if the client cannot be accepted. Its connection is then closed, and the client
/// tries again.
bool port_share::admit_one(unique_fd socket) noexcept {
  if (clients_.size() - by_slot_.size() >= max_unregistered) return false;
  int bytes = 4 << 20;  // limited by the host (wmem_max)
  static_cast<void>(::setsockopt(socket.get(), SOL_SOCKET, SO_SNDBUF, &bytes, sizeof bytes));
  const std::uint64_t number = ++admitted_;
  if (!watch(events_.get(), socket.get(), number, EPOLLIN)) return false;
  try {
    clients_.emplace(number, client{.socket = std::move(socket)});
  } catch (const std::bad_alloc&) {
    return false;
  }
  read_registration(number);  // the registration may have arrived already
  return true;
}

/// Reads from a client. A client registers once and gets an answer. After that, only the end of its
/// connection is expected.
void port_share::read_registration(std::uint64_t which) noexcept {
  const auto found = clients_.find(which);
  if (found == clients_.end()) return;
  client& from = found->second;
  registration said;
  const ssize_t bytes = ::recv(from.socket.get(), &said, sizeof said, MSG_DONTWAIT);
  if (bytes < 0 && (errno == EAGAIN || errno == EINTR)) return;
  const bool valid = bytes == sizeof said && said.magic == registration::expected &&
                     said.slot < slot_count && !from.registered;
  if (!valid) return forget(which);
  if (said.key != own_.key) {
    said.key = own_.key;
    static_cast<void>(::send(from.socket.get(), &said, sizeof said, MSG_DONTWAIT | MSG_NOSIGNAL));
    return forget(which);
  }
  try {
    by_slot_[said.slot] = which;  // replaces an older process with this slot, which has ended
  } catch (const std::bad_alloc&) {
    return forget(which);
  }
  from.slot = said.slot;
  from.registered = true;
  // This is the first message on the connection, so its buffer has room.
  if (!send_answer(from.socket.get(), said, socket_.fd())) forget(which);
}

void port_share::forget(std::uint64_t which) noexcept {
  const auto found = clients_.find(which);
  if (found == clients_.end()) return;
  if (found->second.registered) {
    const auto slot = by_slot_.find(found->second.slot);
    if (slot != by_slot_.end() && slot->second == which) by_slot_.erase(slot);
  }
  clients_.erase(found);
}

port_share::forwarded port_share::forward(std::uint32_t slot, const forwarded_header& from,
                                          std::span<const std::byte> datagrams) noexcept {
  const auto known = by_slot_.find(slot);
  if (known == by_slot_.end()) return forwarded::unknown;
  const std::uint64_t which = known->second;
  // sendmsg(2) does not change the buffers.
  std::array<iovec, 2> pieces = {{{const_cast<forwarded_header*>(&from), sizeof from},
                                  {const_cast<std::byte*>(datagrams.data()), datagrams.size()}}};
  msghdr message{};
  message.msg_iov = pieces.data();
  message.msg_iovlen = pieces.size();
  const int socket = clients_.at(which).socket.get();
  if (::sendmsg(socket, &message, MSG_DONTWAIT | MSG_NOSIGNAL) >= 0) return forwarded::given;
  const bool ended = errno == EPIPE || errno == ECONNRESET || errno == ENOTCONN;
  if (ended) forget(which);
  return ended ? forwarded::unknown : forwarded::full;
}

std::size_t port_share::forward_to_all(const forwarded_header& from,
                                       std::span<const std::byte> datagram) noexcept {
  std::size_t given = 0;
  for (auto next = by_slot_.begin(); next != by_slot_.end();) {
    const std::uint32_t slot = next->first;
    ++next;  // `forward` can remove a client that has ended
    if (forward(slot, from, datagram) == forwarded::given) ++given;
  }
  return given;
}

void port_share::close_own() noexcept {
  gate_.reset();
  events_.reset();
  socket_.close();
  listener_.reset();
  asked_.reset();
  owner_.reset();
}

void port_share::close_clients() noexcept {
  for (auto& [number, each] : clients_) each.socket.reset();
}

}  // namespace verbena::softdev::wire
