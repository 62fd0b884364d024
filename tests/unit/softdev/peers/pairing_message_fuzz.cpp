// SPDX-License-Identifier: MIT
// Messages that another process may send to the socket of a pairing, with 0 to 6 descriptors.
#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>

#include "softdev/peers/pairing_message.hpp"
#include "softdev/shm/segment_layout.hpp"

namespace verbena::softdev {
namespace {

constexpr std::size_t most_descriptors = 6;

void require(bool holds) {
  if (!holds) std::abort();
}

void send_bytes(int socket, const std::uint8_t* data, std::size_t size, std::size_t descriptors) {
  static const int null_fd = ::open("/dev/null", O_RDONLY | O_CLOEXEC);
  iovec part{const_cast<std::uint8_t*>(data), size};
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

}  // namespace
}  // namespace verbena::softdev

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace verbena::softdev;
  static const auto ends = [] {
    std::array<int, 2> made{};
    require(::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, made.data()) == 0);
    return made;
  }();
  // The first byte is the number of descriptors.
  if (size < 2) return 0;
  send_bytes(ends[0], data + 1, size - 1, data[0] % (most_descriptors + 1));
  for (;;) {
    const received_message got = receive_message(ends[1]);
    check(got);
    if (got.status == receive_status::empty) return 0;
    require(got.status != receive_status::closed);
  }
}
