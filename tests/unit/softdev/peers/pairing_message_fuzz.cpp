// SPDX-License-Identifier: MIT
// Messages that another process may send to the socket of a pairing, with 0 to 6 descriptors.
#include "softdev/peers/pairing_message.hpp"

#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <vector>

#include "softdev/shm/segment_layout.hpp"
#include "tests/fuzz/target.hpp"

namespace verbena::softdev {
namespace {

constexpr std::size_t most_descriptors = 6;

using fuzz::require;

std::array<int, 2> connected_pair() {
  std::array<int, 2> made{};
  require(::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, made.data()) == 0);
  return made;
}

void send_bytes(int socket, fuzz::input bytes, std::size_t descriptors) {
  static const int null_fd = ::open("/dev/null", O_RDONLY | O_CLOEXEC);
  iovec part{const_cast<std::byte*>(bytes.data()), bytes.size()};
  alignas(cmsghdr) std::array<char, CMSG_SPACE(most_descriptors * sizeof(int))> control{};
  msghdr header{};
  header.msg_iov = &part;
  header.msg_iovlen = 1;
  if (descriptors > 0) {
    header.msg_control = control.data();
    header.msg_controllen = CMSG_SPACE(descriptors * sizeof(int));
    cmsghdr* const rights = CMSG_FIRSTHDR(&header);
    rights->cmsg_level = SOL_SOCKET;
    rights->cmsg_type = SCM_RIGHTS;
    rights->cmsg_len = CMSG_LEN(descriptors * sizeof(int));
    for (std::size_t i = 0; i < descriptors; ++i)
      std::memcpy(CMSG_DATA(rights) + i * sizeof(int), &null_fd, sizeof null_fd);
  }
  static_cast<void>(::sendmsg(socket, &header, MSG_DONTWAIT | MSG_NOSIGNAL));
}

void check(const received_message& got) {
  std::size_t descriptors = 0;
  for (const unique_fd& each : got.descriptors) descriptors += each ? 1 : 0;
  if (got.status != receive_status::received) return require(descriptors == 0);
  const bool is_hello =
      got.message.kind == message_kind::hello || got.message.kind == message_kind::refuse_version;
  const bool other_version = is_hello && descriptors == 0 && got.message.version != layout_version;
  require(other_version || descriptors == descriptors_of(got.message.kind));
}

// The first byte is the number of descriptors.
void run_pairing_message(fuzz::input input) {
  static const auto ends = connected_pair();
  if (input.size() < 2) return;
  send_bytes(ends[0], input.subspan(1),
             std::to_integer<std::size_t>(input[0]) % (most_descriptors + 1));
  for (;;) {
    const received_message got = receive_message(ends[1]);
    check(got);
    if (got.status == receive_status::empty) return;
    require(got.status != receive_status::closed);
  }
}

void pairing_seeds(fuzz::seed_folder& into) {
  const auto ends = connected_pair();
  const auto add = [&](const std::string& name, const link_message& what) {
    const std::vector<int> descriptors(descriptors_of(what.kind), ends[0]);
    require(send_message(ends[0], what, descriptors) == send_status::sent);
    std::vector<std::byte> bytes(4096);
    // The descriptors, which this call does not ask for, are closed by the kernel.
    const auto count = ::recv(ends[1], bytes.data() + 1, bytes.size() - 1, MSG_DONTWAIT);
    require(count > 0);
    bytes[0] = static_cast<std::byte>(descriptors.size());
    into.add(name.c_str(), std::span(bytes).first(static_cast<std::size_t>(count) + 1));
  };
  add("hello", {.version = layout_version, .slot = 3, .generation = 4, .ring_bytes = 1U << 16});
  add("hello_of_another_version", {.version = layout_version + 1});
  for (int kind = 2; kind <= static_cast<int>(message_kind::wake); ++kind)
    add("kind_" + std::to_string(kind),
        {.kind = static_cast<message_kind>(kind), .id = 7, .bytes = 4096});
  for (const int end : ends) ::close(end);
}

const fuzz::target pairing_messages("pairing_message", run_pairing_message, pairing_seeds);

}  // namespace
}  // namespace verbena::softdev
